//! Trim and write-zeroes of any length, around the cache (rule `zeroes`).
//!
//! TRIM where the backing device's discard does not read back zero changes nothing and succeeds; WRITE_ZEROES always
//! takes effect.

use std::rc::Rc;

use hotset_block::{ByteRange, Discard, Env, ZeroMode};

use crate::config::limits;
use crate::error::{Error, ErrorKind};
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;
use crate::volume::{Durability, VolumeInner, ZeroEffort, add};

impl<E: Env> VolumeInner<E> {
    /// Gives whole backing blocks of a valid range back. Parts of a block at its ends stay.
    pub(crate) async fn trim_range(self: &Rc<Self>, range: ByteRange, durability: Durability) -> Result<(), Error> {
        add(&self.stats.trims, 1);
        if self.backing.info.discard != Discard::Zeroes {
            return Ok(());
        }
        let unit = u64::from(self.backing.info.logical_block_bytes);
        let range = if planted(Planted::TrimWidened) { range.widened_to(4096) } else { range.narrowed_to(unit) };
        if range.is_empty() {
            return Ok(());
        }
        let _held = self.hold(range).await;
        self.make_way(self.attached().as_deref(), range, Planted::TrimKeepsCachedPages).await?;
        match self.backing.discard(range).await {
            Err(error) if error.kind != ErrorKind::Unsupported => return Err(error),
            Ok(()) | Err(_) => {}
        }
        self.settle(durability).await
    }

    /// Makes a valid range read as zeroes.
    pub(crate) async fn zero_range(
        self: &Rc<Self>,
        range: ByteRange,
        mode: ZeroMode,
        effort: ZeroEffort,
        durability: Durability,
    ) -> Result<(), Error> {
        add(&self.stats.zeroes, 1);
        let unit = u64::from(self.backing.info.logical_block_bytes);
        let inner = range.narrowed_to(unit);
        let _held = self.hold(range).await;
        let dropped = if planted(Planted::ZeroesKeepPartialPage) { range.narrowed_to(4096) } else { range };
        if !dropped.is_empty() {
            self.make_way(self.attached().as_deref(), dropped, Planted::TrimKeepsCachedPages).await?;
        }
        if !inner.is_empty() {
            self.zero_blocks(inner, mode, effort).await?;
        }
        for part in edges(range, inner) {
            let length = usize::try_from(part.length()).expect("less than a block");
            self.write_backing(part, self.env.buffers().take_zeroed(length)).await?;
        }
        self.settle(durability).await
    }

    /// Zeroes whole backing blocks: by the device if it can, else by writing.
    async fn zero_blocks(&self, range: ByteRange, mode: ZeroMode, effort: ZeroEffort) -> Result<(), Error> {
        match self.backing.write_zeroes(range, mode).await {
            Err(error) if error.kind == ErrorKind::Unsupported => {}
            result => return result,
        }
        if effort == ZeroEffort::FastOnly {
            let message = format!("backing device {} cannot zero faster than by writing", self.backing.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + limits::ZERO_CHUNK_BYTES);
            let length = usize::try_from(end - start).expect("a chunk fits in memory");
            self.backing.write(start, self.env.buffers().take_zeroed(length)).await?;
            start = end;
        }
        Ok(())
    }

    async fn settle(&self, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Durable => self.backing.flush().await,
            Durability::Volatile => Ok(()),
        }
    }
}

/// What of `range` lies outside `inner`: at most two parts, each less than a block.
fn edges(range: ByteRange, inner: ByteRange) -> Vec<ByteRange> {
    if inner.is_empty() {
        return vec![range];
    }
    let head = ByteRange { start: range.start, end: inner.start };
    let tail = ByteRange { start: inner.end, end: range.end };
    [head, tail].into_iter().filter(|part| !part.is_empty()).collect()
}

impl<E: Env> PoolInner<E> {
    /// The planted bugs' way to make way: out of sight (or not even that), without a drop record.
    pub(crate) fn only_hide(
        self: &Rc<Self>,
        volume: crate::state::VolumeIndex,
        pages: std::ops::Range<u64>,
        bug: Planted,
    ) {
        if bug == Planted::TrimKeepsCachedPages && planted(bug) {
            return;
        }
        for (block, within) in self.blocks_of(pages) {
            let key = crate::state::BlockKey { volume, block };
            self.fills.exclude(key, &within);
            let slot = self.map.borrow().find(key);
            if let Some(slot) = slot {
                self.map.borrow_mut().clear_valid(slot, within);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_what_whole_blocks_leave_over() {
        let range = ByteRange { start: 100, end: 9000 };
        let inner = range.narrowed_to(4096);
        assert_eq!(edges(range, inner), [ByteRange { start: 100, end: 4096 }, ByteRange { start: 8192, end: 9000 }]);
        let small = ByteRange { start: 100, end: 200 };
        assert_eq!(edges(small, small.narrowed_to(4096)), [small]);
        let whole = ByteRange { start: 4096, end: 8192 };
        assert!(edges(whole, whole.narrowed_to(4096)).is_empty());
    }
}
