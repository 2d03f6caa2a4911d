//! A host's write in a read pool: around the cache (rule `write-ahead`).
//!
//! The pages are held exclusively from the decision until the backing write returned; what is cached of them is hidden,
//! and its drop flushed, before the backing device is touched; then the answer.

use std::rc::Rc;

use hotset_block::{Buf, ByteRange, Env};

use crate::error::Error;
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;
use crate::state::BlockKey;
use crate::state::locks::Held;
use crate::volume::{Attached, Durability, VolumeInner, add};

impl<E: Env> VolumeInner<E> {
    /// Stores `buf`, which is not empty, at a valid place.
    pub(crate) async fn write_range(
        self: &Rc<Self>,
        offset: u64,
        buf: Buf,
        durability: Durability,
    ) -> Result<(), Error> {
        let range = ByteRange::at(offset, u64::try_from(buf.len()).expect("a length fits in 64 bits"));
        add(&self.stats.writes, 1);
        add(&self.stats.write_bytes, range.length());
        let held = self.hold(range).await;
        let attached = self.attached();
        self.make_way(attached.as_deref(), range, Planted::WriteWithoutDrop).await?;
        self.write_backing(range, buf).await?;
        if planted(Planted::DropAfterBackingWrite)
            && let Some(attached) = attached.as_deref()
        {
            attached.pool.drop_pages(attached.index, PoolInner::<E>::pages_of(range)).await?;
        }
        drop(held);
        if durability == Durability::Durable && !planted(Planted::FuaWithoutFlush) {
            self.backing.flush().await?;
        }
        let cutoff = self.spec.borrow().settings.write_cutoff_bytes;
        let streaming = self.streams_past(range, &self.write_streams, cutoff);
        if let Some(attached) = attached {
            self.count_write(&attached, range, streaming);
        }
        Ok(())
    }

    /// The lock on the pages that `range` touches.
    pub(crate) async fn hold(&self, range: ByteRange) -> Option<Held> {
        let unit = u64::from(self.backing.info.logical_block_bytes);
        let loose =
            planted(Planted::WriteHoldsNothing) || (planted(Planted::SubPageWithoutLock) && !range.is_aligned_to(unit));
        if loose {
            return None;
        }
        Some(self.locks.exclusive(PoolInner::<E>::pages_of(range)).await)
    }

    /// Sees to it that nothing supersedes or outlives what is about to be written to the backing device: drops what is
    /// cached, marks touched fingerprints. The caller holds the range.
    pub(crate) async fn make_way(
        self: &Rc<Self>,
        attached: Option<&Attached<E>>,
        range: ByteRange,
        without_drop: Planted,
    ) -> Result<(), Error> {
        let Some(attached) = attached else { return Ok(()) };
        let pages = PoolInner::<E>::pages_of(range);
        attached.pool.unsettle(attached, range).await?;
        if planted(Planted::DropAfterBackingWrite) {
            return Ok(());
        }
        if planted(without_drop) {
            attached.pool.only_hide(attached.index, pages, without_drop);
            return Ok(());
        }
        if planted(Planted::DropNotFlushed) {
            attached.pool.hide_pages(attached.index, pages);
            return Ok(());
        }
        attached.pool.drop_pages(attached.index, pages).await
    }

    /// Writes to the backing device, in the device's blocks; a part of a block is read, modified and written (rule
    /// `sub-page`). The caller holds the pages.
    pub(crate) async fn write_backing(&self, range: ByteRange, buf: Buf) -> Result<(), Error> {
        let unit = u64::from(self.backing.info.logical_block_bytes);
        if range.is_aligned_to(unit) {
            return self.backing.write(range.start, buf).await;
        }
        let wide = range.widened_to(unit);
        let mut whole = self.read_backing(wide).await?;
        let skip = usize::try_from(range.start - wide.start).expect("less than a block");
        whole[skip..skip + buf.len()].copy_from_slice(&buf);
        self.backing.write(wide.start, whole).await
    }

    fn count_write(&self, attached: &Attached<E>, range: ByteRange, streaming: bool) {
        if streaming {
            add(&self.stats.bypassed_writes, 1);
            return;
        }
        let pool = &attached.pool;
        let threshold = pool.settings.get().populate_on_write;
        if threshold == 0 {
            return;
        }
        for (block, _) in pool.blocks_of(PoolInner::<E>::pages_of(range)) {
            let key = BlockKey { volume: attached.index, block };
            let cached = pool.map.borrow().find(key).is_some();
            if pool.counters.borrow_mut().count_write(key) >= threshold && !cached {
                pool.wish_fill(key);
            }
        }
    }
}
