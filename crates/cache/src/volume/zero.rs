//! Trim and write-zeroes of any length, around the cache (rule `zeroes`).
//!
//! TRIM where the backing device's discard does not read back zero changes nothing and succeeds; WRITE_ZEROES always
//! takes effect.

use std::ops::Range;
use std::rc::Rc;

use hotset_block::{ByteRange, Discard, Env, ZeroMode};

use crate::address::pages_of;
use crate::config::PAGE;
use crate::error::{Error, ErrorKind};
use crate::members::io::add;
use crate::volume::in_log::LoggedVolume;
use crate::volume::inner::VolumeInner;
use crate::volume::pieces::Pieces;
use crate::volume::requests::{Durability, ZeroEffort};

/// Pages of one zero entry at most.
const ZERO_PAGES: u64 = 4096;
/// Pages that are written as zeroes in one piece, where no SSD is left.
const ZERO_PAGES_AT_ONCE: u64 = 256;

/// How far zeroes were appended, and what has to go around.
struct Zeroed {
    around: Vec<ByteRange>,
    /// From here on there is no room.
    end: u64,
}

impl<E: Env> VolumeInner<E> {
    /// Gives whole backing blocks of a valid range back. Parts of a block at its ends stay.
    pub(crate) async fn trim_range(self: &Rc<Self>, range: ByteRange, durability: Durability) -> Result<(), Error> {
        add(&self.stats.trims, 1);
        if self.backing.info.discard != Discard::Zeroes {
            return Ok(());
        }
        let range = self.backing.blocks_inside(range);
        if range.is_empty() {
            return Ok(());
        }
        let trim_around = async |part| self.trim_around(self.backing.blocks_inside(part)).await;
        self.zero_part_by_part(range, ZeroEffort::Any, trim_around).await?;
        self.wait_durable(durability).await
    }

    async fn trim_around(self: &Rc<Self>, range: ByteRange) -> Result<(), Error> {
        if range.is_empty() {
            return Ok(());
        }
        let _not_cleaned = self.invalidate_before_write(self.place()?.as_deref(), range).await?;
        let mut pieces = Pieces::of(range);
        while let Some(piece) = pieces.next() {
            let began = self.env.now();
            match self.backing.discard(piece).await {
                Err(error) if error.kind != ErrorKind::Unsupported => return Err(error),
                Err(_) => return Ok(()),
                Ok(()) => {}
            }
            pieces.took(self.env.now().since(began));
            add(&self.steps, 1);
        }
        Ok(())
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
        let zero_around = async |part| self.zero_around(part, mode, effort).await;
        self.zero_part_by_part(range, effort, zero_around).await?;
        self.wait_durable(durability).await
    }

    async fn zero_around(self: &Rc<Self>, range: ByteRange, mode: ZeroMode, effort: ZeroEffort) -> Result<(), Error> {
        let inner = self.backing.blocks_inside(range);
        let _not_cleaned = self.invalidate_before_write(self.place()?.as_deref(), range).await?;
        if !inner.is_empty() {
            self.zero_blocks(inner, mode, effort).await?;
        }
        for part in edges(range, inner) {
            let length = usize::try_from(part.length()).expect("less than a block");
            self.write_backing(part, self.env.buffers().take_zeroed(length)).await?;
        }
        Ok(())
    }

    /// Zeroes what of `range` has a live copy, and lets `around` see to the rest of it. While there is no room for what has to be
    /// appended, nothing is held (rule `reserves`).
    async fn zero_part_by_part(
        self: &Rc<Self>,
        range: ByteRange,
        effort: ZeroEffort,
        around: impl AsyncFn(ByteRange) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut place = self.line.place(pages_of(range));
        let mut rest = range;
        loop {
            let held = self.hold_behind(rest, &mut place).await?;
            let zeroed = self.zero_live_pages(rest, effort).await?;
            // Meanwhile there may be room again: it is looked once more.
            let waits = zeroed.around.is_empty();
            for part in zeroed.around {
                around(part).await?;
            }
            rest.start = zeroed.end;
            if rest.is_empty() {
                return Ok(());
            }
            drop(held);
            if waits
                && let Some(attached) = self.place()?
                && let Some(logged) = LoggedVolume::of(self, &attached)
            {
                logged.wait_for_room(&mut place).await?;
            }
        }
    }

    /// Appends zeroes for the pages of `range` that have a live copy (rule `one-dirty-rule`), as far as there is room. The caller holds
    /// the range.
    async fn zero_live_pages(self: &Rc<Self>, range: ByteRange, effort: ZeroEffort) -> Result<Zeroed, Error> {
        let nothing_lives = || Ok(Zeroed { around: vec![range], end: range.end });
        let Some(attached) = self.place()? else { return nothing_lives() };
        let Some(logged) = LoggedVolume::of(self, &attached) else { return nothing_lives() };
        let mut around = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let pages = pages_of(ByteRange { start, end: range.end });
            let live = logged.log.overlay().first_in(attached.index, &pages);
            let Some(live) = live else { break };
            add(&self.steps, 1);
            let next_pages = live.page..pages.end.min(live.page + ZERO_PAGES_AT_ONCE);
            if logged.log.data_loss().is_moved(attached.index, &next_pages) {
                logged.log.data_loss().until_not_moved(attached.index, &next_pages).await?;
                continue;
            }
            let first = live.page * PAGE;
            if start < first {
                around.push(ByteRange { start, end: first });
            }
            let next = match logged.log.appends().is_without_ssds() || live.is_unavailable() {
                true => logged.zero_without_ssds(range, live.page, effort).await?,
                false if logged.has_room_for_live(1) => logged.zero_live_run(range, live.page).await?,
                false => return Ok(Zeroed { around, end: start.max(first) }),
            };
            assert!(start < next && next <= range.end, "of {range:?}, zeroes come next at {next}, after {start}");
            start = next;
        }
        if start < range.end {
            around.push(ByteRange { start, end: range.end });
        }
        Ok(Zeroed { around, end: range.end })
    }

    /// All of the page that the volume has lies in `range`.
    fn covers(&self, range: ByteRange, page: u64) -> bool {
        range.start <= page * PAGE && (range.end >= (page + 1) * PAGE || range.end == self.size_bytes.get())
    }

    async fn wait_durable(self: &Rc<Self>, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Durable => self.flush_all().await,
            Durability::Volatile => Ok(()),
        }
    }
}

impl<E: Env> LoggedVolume<'_, E> {
    /// Zeroes the live pages from `page` on, as far as they follow each other and lie in `range`; answers where the run
    /// ends.
    async fn zero_live_run(self, range: ByteRange, page: u64) -> Result<u64, Error> {
        self.check_log_serves()?;
        if !self.volume.covers(range, page) {
            let pages = page..page + 1;
            let mut whole = self.volume.read_newest(self.attached, &pages).await?;
            let part = part_of_page(range, page);
            let skip = usize::try_from(part.start - page * PAGE).expect("less than a page");
            let length = usize::try_from(part.length()).expect("less than a page");
            whole[skip..skip + length].fill(0);
            self.log.appends().append(self.index(), &pages, whole).await?;
            self.write_out_if_due(&pages).await?;
            return Ok(part.end);
        }
        let end = self.live_run_end(range, page);
        self.log.appends().append_zeroes(self.index(), page, end - page).await?;
        self.write_out_if_due(&(page..end)).await?;
        Ok((end * PAGE).min(range.end))
    }

    /// Zeroes pages where no SSD is left, or they are unavailable: on the backing device, durably, as a write there does (see `write_without_ssds`).
    async fn zero_without_ssds(self, range: ByteRange, page: u64, effort: ZeroEffort) -> Result<u64, Error> {
        if effort == ZeroEffort::FastOnly {
            let message =
                format!("backing device {} cannot zero lost pages faster than by writing", self.volume.backing.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if !self.volume.covers(range, page) {
            let part = part_of_page(range, page);
            let length = usize::try_from(part.length()).expect("less than a page");
            self.write_without_ssds(part, self.volume.env.buffers().take_zeroed(length)).await?;
            return Ok(part.end);
        }
        let end = self.live_run_end(range, page).min(page + ZERO_PAGES_AT_ONCE);
        let length = usize::try_from((end - page) * PAGE).expect("an address has 64 bits at most");
        self.replace_lost(&(page..end), self.volume.env.buffers().take_zeroed(length)).await?;
        Ok((end * PAGE).min(range.end))
    }

    /// Where the run of live pages from `page` on ends, unavailable or not, that lie in `range` as a whole, some at most.
    fn live_run_end(self, range: ByteRange, page: u64) -> u64 {
        let last = range.end.div_ceil(PAGE).min(page + ZERO_PAGES);
        let overlay = self.log.overlay();
        let mut end = page;
        let mut unavailable = None;
        for live in overlay.range(self.index(), page..last) {
            let is_alike = *unavailable.get_or_insert(live.is_unavailable()) == live.is_unavailable();
            if live.page != end || !is_alike || !self.volume.covers(range, end) {
                break;
            }
            end += 1;
        }
        end
    }

    /// What is not to stay dirty goes to the backing device before the answer.
    async fn write_out_if_due(self, pages: &Range<u64>) -> Result<(), Error> {
        if self.keeps_dirty() && !self.is_over_dirty_cap(0) {
            return Ok(());
        }
        self.write_out(pages).await
    }
}

fn part_of_page(range: ByteRange, page: u64) -> ByteRange {
    ByteRange { start: range.start.max(page * PAGE), end: range.end.min((page + 1) * PAGE) }
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
