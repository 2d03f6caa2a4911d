//! A block enters the cache: read from the backing device once, beside what hosts do, and written to a ready slot.
//!
//! A fill never takes a page that was written or discarded at any moment between its start and its publication (rule
//! `fill-clean-only`): pages under a lock at its start are left out, writes that begin later take theirs out
//! (`invalidate`). The page positions of a slot are written once, in one transfer with the header.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use hotset_block::{Buf, Env};

use crate::address::{BlockKey, SlotIndex};
use crate::clean::fills::{Fill, Request};
use crate::clean::invalidate::Why;
use crate::clean::page_set::PageSet;
use crate::clean::slot_ssd::SlotSsd;
use crate::config::{FetchRate, PAGE, limits};
use crate::format::crc32c;
use crate::format::slot_header::SlotHeader;
use crate::members::segments::Purpose;
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;
use crate::time_limit::within;
use crate::volume::VolumeInner;

/// Unpublished slots that make the publisher start before its time.
const PUBLISH_AT: usize = 512;

/// How often what waits in the queue is looked at without any news.
const INTERVAL: Duration = Duration::from_secs(1);

/// Blocks that a volume gives up at most for one that it gets: more than one only after its share was made smaller.
const OWN_EVICTIONS: u32 = 64;

/// Fills that run at once, and the length of their reads: what hosts wait behind.
fn pace(rate: FetchRate) -> (usize, u64) {
    match rate {
        FetchRate::Low => (1, limits::FILL_CHUNK_BYTES / 8),
        FetchRate::Medium => (4, limits::FILL_CHUNK_BYTES / 2),
        FetchRate::High => (64, limits::FILL_CHUNK_BYTES),
    }
}

impl<E: Env> PoolInner<E> {
    /// Asks for a block to be filled when its turn comes.
    pub(crate) fn request_fill(&self, key: BlockKey) -> Request {
        let request = self.fills.request(key);
        if request == Request::Queued {
            if let Some((volume, _)) = self.attached_volume(key.volume) {
                volume.backing.block_is_wanted();
            }
            self.fill_pump_wanted.wake_all();
        }
        request
    }

    /// The task that starts queued fills whenever something changed that may let them start.
    pub(crate) async fn run_fill_pump(self: Rc<Self>) {
        while !self.life.is_stopping() {
            self.start_queued_fills();
            let wanted = self.fill_pump_wanted.wait();
            if self.fills.queued() == 0 {
                wanted.await;
            } else {
                // Nobody tells that a backing device hangs by now.
                within(&self.env, INTERVAL, wanted).await;
            }
        }
    }

    fn start_queued_fills(self: &Rc<Self>) {
        if self.members.online_ssds().next().is_none() || self.fills_nothing() {
            // Whoever waits for a fill waits for nothing.
            self.fills.forget_queue();
            self.fills.ended.wake_all();
        }
        while self.fills.queued() > 0 && self.may_start_fill() {
            let Some(key) = self.fills.next_queued(self.env.now()) else { return };
            if let Some((fill, volume)) = self.begin_fill(key) {
                self.spawn_fill(fill, volume);
            } else {
                self.fills.ended.wake_all();
            }
        }
    }

    /// Without two copies of what hosts write, nothing new is brought in (REQUIREMENTS F2); nor when the SSDs have taken
    /// what they may in a day.
    fn fills_nothing(&self) -> bool {
        (self.log.is_some() && !self.may_cache_writes()) || self.is_worn_for_today()
    }

    /// Whether there is a slot and a permit for one more fill.
    pub(crate) fn may_start_fill(self: &Rc<Self>) -> bool {
        let (at_once, _) = pace(self.settings.get().fetch_rate);
        let by_memory = usize::try_from(limits::FILL_BYTES_MAX / self.block_bytes()).expect("a small number");
        let has_room = || self.fills.leave_room(at_once.min(by_memory.max(2)), self.env.now());
        if self.life.is_stopping() || self.fills_nothing() || !has_room() {
            return false;
        }
        self.make_room();
        self.serving_slot_ssds().any(|ssd| ssd.life().may_take_batches() && !ssd.ready.borrow().is_empty())
    }

    /// Reserves a slot for a block and registers the fill, so that writes from now on are seen. `None`: there is no
    /// slot, or the block needs no fill (any more).
    pub(crate) fn begin_fill(self: &Rc<Self>, key: BlockKey) -> Option<(Rc<Fill>, Rc<VolumeInner<E>>)> {
        let (volume, attachment) = self.attached_volume(key.volume)?;
        if self.fills.is_running(key) || self.is_whole(key, &volume) {
            return None;
        }
        // A volume that has all that it may have gives up a block of its own.
        if !self.evict_own(key.volume, 1, OWN_EVICTIONS) {
            return None;
        }
        let (slot, generation) = self.take_ready_slot()?;
        let pages = std::cell::Cell::new(self.fillable_pages(key, &volume));
        let (waits, offered) = (std::cell::Cell::new(true), std::cell::RefCell::default());
        let began = self.env.now();
        let fill = Rc::new(Fill { key, attachment, slot, generation, pages, began, waits, offered });
        self.fills.begin(Rc::clone(&fill));
        Some((fill, volume))
    }

    /// Every page of the block is in the cache.
    fn is_whole(&self, key: BlockKey, volume: &VolumeInner<E>) -> bool {
        let map = self.map.borrow();
        map.find(key).is_some_and(|slot| map.valid_count(slot) >= self.pages_in_block(key, volume))
    }

    /// The pages of the block that lie inside the volume.
    fn pages_in_block(&self, key: BlockKey, volume: &VolumeInner<E>) -> u32 {
        let per_block = u64::from(self.pages_per_block);
        let left = volume.size_bytes.get().div_ceil(PAGE).saturating_sub(u64::from(key.block.0) * per_block);
        u32::try_from(left.min(per_block)).expect("a block has at most 1024 pages")
    }

    /// The pages of the block that no write or discard is just changing.
    fn fillable_pages(&self, key: BlockKey, volume: &VolumeInner<E>) -> PageSet {
        let count = self.pages_in_block(key, volume);
        let mut pages = PageSet::from_range(0..count);
        let first = u64::from(key.block.0) * u64::from(self.pages_per_block);
        for held in volume.locks.held_in(&(first..first + u64::from(count))) {
            let small = |page: u64| u32::try_from(page - first).expect("a block has at most 1024 pages");
            pages.remove(&(small(held.start)..small(held.end)));
        }
        if let Some(log) = &self.log
            && !planted(Planted::FillTakesLivePages)
        {
            for live in log.overlay.borrow().range(key.volume, first..first + u64::from(count)) {
                let page = u32::try_from(live.page - first).expect("a block has at most 1024 pages");
                pages.remove(&(page..page + 1));
            }
        }
        pages
    }

    /// A ready slot, from the SSD with the largest share of them, so that all SSDs fill evenly whatever their sizes.
    fn take_ready_slot(&self) -> Option<(SlotIndex, u32)> {
        let share = |ssd: &Rc<SlotSsd<E>>| {
            let free = u64::try_from(ssd.ready.borrow().len()).expect("slots fit in memory");
            free * 1_000_000 / u64::from(ssd.layout.slot_count())
        };
        let usable = |ssd: &&Rc<SlotSsd<E>>| {
            ssd.life().may_take_batches() && !ssd.ready.borrow().is_empty() && ssd.fills.get() < ssd.fill_ceiling.get()
        };
        let ssd = self.serving_slot_ssds().filter(usable).max_by_key(|ssd| share(ssd))?;
        let generation = ssd.next_generation()?;
        let local = ssd.take_ready()?;
        Some((ssd.slot_index(local), generation))
    }

    pub(crate) fn spawn_fill(self: &Rc<Self>, fill: Rc<Fill>, volume: Rc<VolumeInner<E>>) {
        let pool = Rc::clone(self);
        self.env.spawn(async move {
            pool.run_fill(&fill, &volume).await;
            pool.fills.end(fill.key);
            pool.fill_pump_wanted.wake_all();
        });
    }

    async fn run_fill(self: &Rc<Self>, fill: &Rc<Fill>, volume: &Rc<VolumeInner<E>>) {
        let header_bytes = usize::try_from(self.ssd_of(fill.slot).layout.header_bytes()).expect("a few pages");
        let block_bytes = usize::try_from(self.block_bytes()).expect("at most 4 MiB");
        let whole = self.env.buffers().take(header_bytes + block_bytes);
        let (mut header, data) = whole.split_at(header_bytes);
        let data = self.read_block(fill, volume, data).await;
        let checksums: Vec<u32> = if self.settings.get().checksums {
            data.chunks_exact(hotset_block::PAGE_BYTES).map(crc32c).collect()
        } else {
            Vec::new()
        };
        let ssd = Rc::clone(self.ssd_of(fill.slot));
        let (slot, generation) = (ssd.local(fill.slot), fill.generation);
        let (incarnation, attachment, block) = (ssd.incarnation.get(), fill.attachment, u64::from(fill.key.block.0));
        let described = SlotHeader { incarnation, slot, generation, attachment, block, checksums: checksums.clone() };
        described.encode_into(&mut header);
        if !fill.pages.get().is_empty() {
            let offset = ssd.layout.slot_offset(slot);
            let written = if planted(Planted::PublishBeforeHeader) {
                ssd.write(Purpose::Slot(slot), offset + ssd.layout.header_bytes(), data).await
            } else if planted(Planted::ReleaseOnTimeout) {
                let write = ssd.write(Purpose::Slot(slot), offset, header.join(data));
                let Some(written) = within(&self.env, Duration::from_secs(1), write).await else {
                    ssd.grace.free(slot);
                    self.collect_ready(&ssd);
                    return;
                };
                written
            } else {
                ssd.write(Purpose::Slot(slot), offset, header.join(data)).await
            };
            if let Err(fault) = written {
                self.members.ssd_failed(&ssd.ssd, &fault);
                return;
            }
        }
        self.show(fill, volume, &checksums);
    }

    /// Makes the filled slot visible, in one turn: what is still in the fill's set is what the backing device holds.
    fn show(self: &Rc<Self>, fill: &Fill, volume: &VolumeInner<E>, checksums: &[u32]) {
        let ssd = Rc::clone(self.ssd_of(fill.slot));
        let pages = fill.pages.get();
        let current = self.attached_volume(fill.key.volume).is_some_and(|(_, id)| id == fill.attachment);
        if !ssd.is_online() {
            return;
        }
        let for_slots = {
            let segments = ssd.segments.borrow();
            segments.is_for_slots(segments.of(ssd.local(fill.slot)))
        };
        if pages.is_empty() || !current || self.life.is_stopping() || !for_slots {
            ssd.grace.free(ssd.local(fill.slot));
            self.collect_ready(&ssd);
            return;
        }
        let older = self.map.borrow().find(fill.key);
        if let Some(older) = older {
            self.free_slot(older, Why::Replaced);
        }
        let mut map = self.map.borrow_mut();
        map.insert(fill.slot, fill.key, fill.generation);
        for run in pages.runs() {
            map.set_valid(fill.slot, run);
        }
        map.set_checksums(fill.slot, 0, checksums);
        map.set_header_loaded(fill.slot, true);
        self.policy.borrow_mut().inserted(&mut map, fill.slot);
        drop(map);
        self.counters.borrow_mut().forget(fill.key);
        ssd.slots_used.set(ssd.slots_used.get() + 1);
        let stats = &volume.stats;
        stats.populated_bytes.set(stats.populated_bytes.get() + u64::from(pages.count()) * PAGE);
        self.unpublished.borrow_mut().push((fill.slot, fill.generation));
        if self.unpublished.borrow().len() >= PUBLISH_AT {
            self.publish_wanted.wake_all();
        }
    }

    /// Reads what the fill wants into `data`, except what misses have brought already. Pages that cannot be read leave
    /// the fill.
    async fn read_block(self: &Rc<Self>, fill: &Rc<Fill>, volume: &Rc<VolumeInner<E>>, data: Buf) -> Buf {
        let mut wanted = fill.pages.get();
        let offered = fill.offered.take();
        for (first, buf) in &offered {
            let count = u32::try_from(buf.len() / hotset_block::PAGE_BYTES).expect("a block has at most 1024 pages");
            wanted.remove(&(*first..first + count));
        }
        let (_, chunk_bytes) = pace(self.settings.get().fetch_rate);
        let pieces = pieces_of(
            &wanted,
            u32::try_from(chunk_bytes / PAGE).expect("they are counted in 32 bits"),
            self.pages_per_block,
        );
        let mut reads = Vec::new();
        let mut rest = data;
        for (pages, read) in pieces {
            let (piece, next) = rest.split_at(hotset_block::PAGE_BYTES * pages.len());
            rest = next;
            reads.push(self.read_piece(fill, volume, pages, read, piece));
        }
        let parts = join_all(reads).await;
        let mut whole = parts.into_iter().reduce(Buf::join).expect("a block has pages");
        for (first, buf) in offered {
            let start = hotset_block::PAGE_BYTES * usize::try_from(first).expect("what lies in memory has an address");
            whole[start..start + buf.len()].copy_from_slice(&buf);
        }
        whole
    }

    async fn read_piece(
        self: &Rc<Self>,
        fill: &Rc<Fill>,
        volume: &Rc<VolumeInner<E>>,
        pages: Range<u32>,
        read: Reading,
        mut piece: Buf,
    ) -> Buf {
        match read {
            Reading::Skip => {
                piece.fill(0);
                piece
            }
            Reading::Backing => {
                let offset = u64::from(fill.key.block.0) * self.block_bytes() + u64::from(pages.start) * PAGE;
                let demand = || (self.settings.get().fetch_rate, volume.stats.read_hits.get());
                let read = async |offset, part: Buf| {
                    let turn = volume.backing.fills_turn(part.len(), demand).await;
                    if fill.waits.replace(false) {
                        self.fill_pump_wanted.wake_all();
                    }
                    turn.read(offset, part).await
                };
                let (piece, result) = volume.read_pages(offset, piece, read).await;
                if result.is_err() {
                    fill.exclude(&pages);
                }
                piece
            }
        }
    }
}

/// What is done for a piece of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Backing,
    Skip,
}

/// Cuts a block of `count` pages into consecutive pieces: what is wanted in pieces of at most `chunk` pages, and the
/// gaps between.
fn pieces_of(wanted: &PageSet, chunk: u32, count: u32) -> Vec<(Range<u32>, Reading)> {
    let mut pieces = Vec::new();
    let mut next = 0;
    for run in wanted.runs() {
        if next < run.start {
            pieces.push((next..run.start, Reading::Skip));
        }
        let mut start = run.start;
        while start < run.end {
            let end = run.end.min((start / chunk + 1) * chunk);
            pieces.push((start..end, Reading::Backing));
            start = end;
        }
        next = run.end;
    }
    if next < count {
        pieces.push((next..count, Reading::Skip));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_block_in_order_and_read_only_what_is_wanted() {
        let mut wanted = PageSet::from_range(2..9);
        wanted.remove(&(5..6));
        let pieces = pieces_of(&wanted, 4, 16);
        let expected = [
            (0..2, Reading::Skip),
            (2..4, Reading::Backing),
            (4..5, Reading::Backing),
            (5..6, Reading::Skip),
            (6..8, Reading::Backing),
            (8..9, Reading::Backing),
            (9..16, Reading::Skip),
        ];
        assert_eq!(pieces, expected);
        assert_eq!(pieces_of(&PageSet::default(), 4, 16), [(0..16, Reading::Skip)]);
    }
}
