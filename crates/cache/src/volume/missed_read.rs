//! A request of a host of which nothing is in the cache: from the backing device, or with what comes into the cache meanwhile.

use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use hotset_block::{Buf, ByteRange, Env};

use crate::address::{BlockKey, SlotIndex, bytes_of, bytes_within};
use crate::clean::slots::Standing;
use crate::clean::{CountedRead, FirstMissed};
use crate::error::Error;
use crate::volume::destination::{Destination, within_pages};
use crate::volume::fill::Filler;
use crate::volume::inner::VolumeInner;
use crate::volume::missed::Missed;
use crate::volume::place::{Attached, PoolRooms};
use crate::volume::plan::Plan;

/// See the file's summary.
pub(super) struct MissedRead<'r, E: Env> {
    pub(super) volume: &'r Rc<VolumeInner<E>>,
    pub(super) attached: &'r Attached<E>,
    /// The pages that `range` touches.
    pub(super) pages: &'r Range<u64>,
    range: ByteRange,
}

/// A slot that has all pages by now, and whose it is.
type FilledSlot<E> = (Rc<Attached<E>>, SlotIndex, BlockKey);

impl<E: Env> Clone for MissedRead<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Env> Copy for MissedRead<'_, E> {}

impl<'r, E: Env> MissedRead<'r, E> {
    pub(super) fn of(
        volume: &'r Rc<VolumeInner<E>>,
        attached: &'r Attached<E>,
        pages: &'r Range<u64>,
        range: ByteRange,
    ) -> Self {
        Self { volume, attached, pages, range }
    }

    /// A request of which nothing is in the cache. Small blocks that it makes hot are read with it; a large one takes over what was
    /// read for the host.
    pub(super) async fn run(self, destination: Destination) -> Result<Buf, Error> {
        let Self { volume, attached, pages, .. } = self;
        let pool = &attached.pool;
        let threshold = pool.settings.get().populate_on_read;
        let counted = pool.clean.count_read(attached.index, std::iter::once(pages), threshold);
        let missed = pool.why_missed(&counted, threshold);
        if !Filler::of(pool).fills_are_carried(volume) {
            return self.run_with_large_blocks(&counted.hot, destination, missed).await;
        }
        if let Some(buf) = self.read_with_blocks(&counted.hot).await {
            volume.missed(pages, missed);
            return Ok(self.part_of(destination.filled_with(buf)));
        }
        self.until_carried().await;
        match self.find_filled() {
            Some((attached, slot, key)) => volume.read_slot(&attached, slot, key, self.range, destination).await,
            None => self.read_missing(destination, missed).await,
        }
    }

    async fn run_with_large_blocks(
        self,
        hot: &[BlockKey],
        destination: Destination,
        missed: Missed,
    ) -> Result<Buf, Error> {
        let Self { volume: reader, attached, pages, .. } = self;
        let pool = &attached.pool;
        let [key] = hot[..] else {
            for key in hot {
                Filler::of(pool).request_fill(*key);
            }
            return self.read_missing(destination, missed).await;
        };
        // Those that wait for their turn come first: they are filled in the order in which the disks read fastest.
        let fills = pool.clean.fills();
        let now =
            fills.queued() == 0 && fills.may_begin(attached.index, pool.env.now()) && Filler::of(pool).may_start_fill();
        let begun = if now { Filler::of(pool).begin_fill(key) } else { None };
        let Some((fill, volume)) = begun else {
            Filler::of(pool).request_fill(key);
            return self.read_missing(destination, missed).await;
        };
        reader.missed(pages, missed);
        let buf = destination.buf(reader.env.buffers(), bytes_of(pages));
        let read = reader.view.read_whole_pages(pages, buf).await;
        if let Ok(buf) = &read {
            let block = Filler::of(pool).pages_of_block(key);
            let part = pages.start.max(block.start)..pages.end.min(block.end);
            fill.offer(pool.blocks.within(&part).start, reader.env.buffers().copy_of(&buf[bytes_within(pages, &part)]));
        }
        Filler::of(pool).spawn_fill(fill, volume);
        Ok(self.part_of(read?))
    }

    /// What the cache does not have: from the backing device, or from the fill of its block, if that comes first while
    /// the host waits for its turn.
    async fn read_missing(self, destination: Destination, missed: Missed) -> Result<Buf, Error> {
        let Self { volume, attached, pages, range } = self;
        let (attached, slot, key) = {
            let mut turn = pin!(volume.backing.hosts_turn(volume.view.device_blocks(range).length()));
            loop {
                let filled = attached.pool.clean.fills().ended();
                if let Either::Left((turn, _)) = select(turn.as_mut(), filled).await {
                    volume.missed(pages, missed);
                    return volume.view.read_in_turn(turn, range, destination).await;
                }
                if let Some(filled) = self.find_filled() {
                    break filled;
                }
            }
        };
        volume.read_slot(&attached, slot, key, range, destination).await
    }

    /// Where pages are that missed before, if they are all in one slot by now.
    fn find_filled(self) -> Option<FilledSlot<E>> {
        // Another volume may have the place of this one in the pool by now.
        let attached = self.volume.attached()?;
        match attached.pool.plan(attached.index, self.pages) {
            Plan::Hit(slot, key) => Some((attached, slot, key)),
            Plan::Miss | Plan::Mixed(_) => None,
        }
    }

    /// The request's part of its pages.
    fn part_of(self, pages: Buf) -> Buf {
        within_pages(pages, self.pages, self.range)
    }
}

impl<E: Env> PoolRooms<E> {
    /// Why a read was not answered from the cache that was counted so, before anything follows from that.
    pub(super) fn why_missed(self: &Rc<Self>, counted: &CountedRead, threshold: u8) -> Missed {
        let FirstMissed { key, count } = counted.first.as_ref().expect("a read that missed has missed some block");
        self.why_block_missed(*key, *count, threshold)
    }

    /// The same of one block, of which this is the read that is counted as `count`.
    pub(super) fn why_block_missed(self: &Rc<Self>, key: BlockKey, count: u8, threshold: u8) -> Missed {
        match self.clean.standing(key) {
            Standing::Cached => return Missed::Overwritten,
            // It counts from the beginning.
            Standing::Evicted if count <= threshold => return Missed::Evicted,
            Standing::Evicted | Standing::Unknown => {}
        }
        let first_time = if count == 1 { Missed::FirstTouch } else { Missed::BelowThreshold };
        let fills = self.clean.fills();
        if count < threshold {
            return first_time;
        }
        match Filler::of(self).hindrance(key.volume) {
            Some(hindrance @ (Missed::WearLimit | Missed::Degraded)) => hindrance,
            // It has reached the threshold by this read.
            Some(_) | None if count == threshold && !fills.is_known(key) => first_time,
            hindrance => hindrance.unwrap_or(Missed::FetchRate),
        }
    }
}
