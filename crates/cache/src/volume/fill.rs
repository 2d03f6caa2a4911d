//! A block is brought into the cache: read from the backing device once, beside what hosts do, and handed to the room of clean
//! copies.
//!
//! A fill never takes a page that was written or discarded at any moment between its start and its publication (rule
//! `fill-clean-only`): pages under a lock at its start are left out, and so are those with a live copy in the write log; writes that
//! begin later take theirs out.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::{BlockKey, VolumeIndex, at_u64};
use crate::clean::fills::{Fill, Request};
use crate::clean::page_set::PageSet;
use crate::config::{FetchRate, PAGE, limits};
use crate::members::io::add;
use crate::time_limit::within;
use crate::volume::inner::VolumeInner;
use crate::volume::missed::Missed;
use crate::volume::place::PoolRooms;
use crate::volume::turn_shares::FillDemand;

/// How often what waits in the queue is looked at without any news.
const INTERVAL: Duration = Duration::from_secs(1);

/// Blocks that a volume evicts at most for one that it gets: more than one only after its share was made smaller.
const OWN_EVICTIONS: u32 = 64;

/// The largest blocks that are read with a miss: what one disk reads with little more effort than a page. Larger ones lie on several
/// disks: where other hosts wait for those, the pump reads them (decision 0006).
const CARRIED_BLOCK_BYTES_MAX: u64 = 64 << 10;
/// The largest that are read with a miss where nobody waits for that.
const CARRIED_ALONE_BYTES_MAX: u64 = 256 << 10;

/// Fills that run at once, and the length of their reads: what hosts wait behind.
fn pace(rate: FetchRate) -> (usize, u64) {
    match rate {
        FetchRate::Low => (1, limits::FILL_CHUNK_BYTES / 8),
        FetchRate::Medium => (64, limits::FILL_CHUNK_BYTES / 2),
        FetchRate::High => (64, limits::FILL_CHUNK_BYTES),
    }
}

/// Who brings blocks into the cache.
pub(crate) struct Filler<'p, E: Env> {
    pool: &'p Rc<PoolRooms<E>>,
}

impl<E: Env> Clone for Filler<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Env> Copy for Filler<'_, E> {}

impl<'p, E: Env> Filler<'p, E> {
    pub(crate) fn of(pool: &'p Rc<PoolRooms<E>>) -> Self {
        Self { pool }
    }

    /// Asks for a block to be filled when its turn comes.
    pub(crate) fn request_fill(self, key: BlockKey) -> Request {
        let request = self.pool.clean.fills().request(key);
        if request == Request::Queued
            && let Some((volume, _)) = self.pool.volumes.get(key.volume)
        {
            volume.backing.block_is_wanted();
        }
        request
    }

    /// Fills a block because the client asks for it (NBD's `CACHE`); returns when it is there, or cannot be.
    pub(crate) async fn populate_block(self, key: BlockKey) {
        if self.request_fill(key) == Request::Refused {
            return;
        }
        let fills = self.pool.clean.fills();
        while fills.is_known(key) && !self.pool.life.is_stopping() {
            fills.ended().await;
        }
    }

    fn start_queued_fills(self) {
        self.see_to_claims();
        let fills = self.pool.clean.fills();
        if self.pool.members.online_ssds().next().is_none() || self.fills_nothing() {
            fills.forget_queue();
        }
        while fills.queued() > 0 && self.may_start_fill() {
            let Some(key) = fills.next_queued(self.pool.env.now()) else { return };
            if let Some((fill, volume)) = self.begin_fill(key) {
                self.spawn_fill(fill, volume);
            } else {
                fills.skipped();
            }
        }
    }

    /// The log took segments from the slots: what volumes were promised of that is filled anew.
    fn see_to_claims(self) {
        for claimed in self.pool.log.iter().flat_map(|log| log.take_claims()) {
            for volume in claimed.evicted {
                self.pool.volumes.count_evictions(volume, 1);
            }
            for key in claimed.promised {
                self.request_fill(key);
            }
        }
    }

    /// Without two copies of what hosts write, nothing new is brought in (REQUIREMENTS F2); nor when the SSDs have taken
    /// what they may in a day.
    fn fills_nothing(self) -> bool {
        self.pool.log.as_ref().is_some_and(|log| !log.mirrorer().may_cache_writes()) || self.is_worn_for_today()
    }

    /// The SSDs have taken what an administrator allows them in a day, fills that run included: nothing more is populated. Hosts'
    /// writes, cleaning and copies go on.
    pub(crate) fn is_worn_for_today(self) -> bool {
        let Some(limit) = self.pool.settings.get().ssd_writes_per_day_bytes else { return false };
        let running = u64::try_from(self.pool.clean.fills().running()).expect("an address has 64 bits at most");
        self.pool.members.written_today().saturating_add(running * self.pool.blocks.bytes()) >= limit
    }

    /// What keeps blocks of a volume out of the cache that are hot enough, and that nobody is filling.
    pub(super) fn hindrance(self, volume: VolumeIndex) -> Option<Missed> {
        if self.is_worn_for_today() {
            return Some(Missed::WearLimit);
        }
        if self.fills_nothing() || self.pool.members.online_ssds().next().is_none() {
            return Some(Missed::Degraded);
        }
        let share = self.pool.clean.share_of(volume);
        if !share.has_room() && !share.has_victim() {
            return Some(Missed::Share);
        }
        (!self.pool.clean.has_ready_slot()).then_some(Missed::NoRoom)
    }

    /// Whether there is a slot and a permit for one more fill.
    pub(crate) fn may_start_fill(self) -> bool {
        let (at_once, _) = pace(self.pool.settings.get().fetch_rate);
        let by_memory = at_u64(limits::FILL_BYTES_MAX / self.pool.blocks.bytes());
        let has_room = || self.pool.clean.fills().leave_room(at_once.min(by_memory.max(2)), self.pool.env.now());
        !self.pool.life.is_stopping() && !self.fills_nothing() && has_room() && self.makes_slot_ready()
    }

    /// Whether a miss may carry the fill of this block: the fetch rate has no say in that.
    pub(super) fn may_carry_fill(self, key: BlockKey) -> bool {
        let by_memory = at_u64(limits::CARRIED_FILL_BYTES_MAX / self.pool.blocks.bytes());
        let has_room = || self.pool.clean.fills().may_carry(key, by_memory);
        !self.pool.life.is_stopping() && !self.fills_nothing() && has_room() && self.makes_slot_ready()
    }

    /// Whether there is a slot for one more block, for which others may have to go.
    fn makes_slot_ready(self) -> bool {
        for volume in self.pool.clean.make_room() {
            self.pool.volumes.count_evictions(volume, 1);
        }
        self.pool.clean.has_ready_slot()
    }

    /// Reserves a slot for a block and registers the fill, so that writes from now on are seen. `None`: there is no
    /// slot, or the block needs no fill (any more).
    pub(crate) fn begin_fill(self, key: BlockKey) -> Option<(Rc<Fill>, Rc<VolumeInner<E>>)> {
        let (volume, attachment) = self.pool.volumes.get(key.volume)?;
        if !self.pool.clean.needs_fill(key, self.pages_in_block(key, &volume)) {
            return None;
        }
        // A volume that has all that it may have evicts a block of its own.
        let room = self.pool.clean.share_of(key.volume).make_room(1, OWN_EVICTIONS);
        add(&volume.stats.evicted_blocks, u64::from(room.evicted));
        if !room.enough {
            return None;
        }
        let fill = self.pool.clean.begin_fill(key, attachment, self.fillable_pages(key, &volume))?;
        Some((fill, volume))
    }

    /// The pages of a block's place in its volume, also where that ends before.
    pub(super) fn pages_of_block(self, key: BlockKey) -> Range<u64> {
        let first = self.pool.blocks.first_page(key.block);
        first..first + u64::from(self.pool.blocks.pages_per_block)
    }

    /// The pages of the block that lie inside the volume.
    fn pages_in_block(self, key: BlockKey, volume: &VolumeInner<E>) -> u32 {
        let left = volume.size_bytes.get().div_ceil(PAGE).saturating_sub(self.pool.blocks.first_page(key.block));
        let most = u64::from(self.pool.blocks.pages_per_block);
        u32::try_from(left.min(most)).expect("a block has at most 1024 pages")
    }

    /// The pages of the block that no write or discard is just changing, and that have no live copy.
    fn fillable_pages(self, key: BlockKey, volume: &VolumeInner<E>) -> PageSet {
        let count = self.pages_in_block(key, volume);
        let mut pages = PageSet::from_range(0..count);
        let first = self.pool.blocks.first_page(key.block);
        for held in volume.locks.held_in(&(first..first + u64::from(count))) {
            let small = |page: u64| u32::try_from(page - first).expect("a block has at most 1024 pages");
            pages.remove(&(small(held.start)..small(held.end)));
        }
        if let Some(log) = &self.pool.log {
            for live in log.overlay().range(key.volume, first..first + u64::from(count)) {
                let page = u32::try_from(live.page - first).expect("a block has at most 1024 pages");
                pages.remove(&(page..page + 1));
            }
        }
        pages
    }

    pub(crate) fn spawn_fill(self, fill: Rc<Fill>, volume: Rc<VolumeInner<E>>) {
        let pool = Rc::clone(self.pool);
        self.pool.env.spawn(async move {
            Filler::of(&pool).run_fill(&fill, &volume).await;
            pool.clean.fills().end(&fill);
        });
    }

    async fn run_fill(self, fill: &Fill, volume: &VolumeInner<E>) {
        let (header, data) = self.buffers_of(fill);
        let data = self.read_block(fill, volume, data).await;
        self.complete_fill(fill, volume, header, data).await;
    }

    /// For the bytes before the pages of a block, and for the pages, in one piece.
    pub(super) fn buffers_of(self, fill: &Fill) -> (Buf, Buf) {
        let header_bytes = self.pool.clean.header_bytes(fill);
        self.pool.env.buffers().take(header_bytes + at_u64(self.pool.blocks.bytes())).split_at(header_bytes)
    }

    /// The block was read: it goes to its slot. The fill is not ended by this.
    pub(super) async fn complete_fill(self, fill: &Fill, volume: &VolumeInner<E>, header: Buf, data: Buf) {
        let pages = self.pool.clean.complete_fill(fill, header, data).await;
        add(&volume.stats.populated_bytes, u64::from(pages) * PAGE);
    }

    /// Reads what the fill wants into `data`, except what misses have brought already. Pages that cannot be read leave
    /// the fill.
    async fn read_block(self, fill: &Fill, volume: &VolumeInner<E>, data: Buf) -> Buf {
        let mut wanted = fill.pages();
        let offered = fill.take_offered();
        for (first, buf) in &offered {
            let count = u32::try_from(buf.len() / PAGE_BYTES).expect("a block has at most 1024 pages");
            wanted.remove(&(*first..first + count));
        }
        let (_, chunk_bytes) = pace(self.pool.settings.get().fetch_rate);
        let chunk = u32::try_from(chunk_bytes / PAGE).expect("they are counted in 32 bits");
        let mut reads = Vec::new();
        let mut rest = data;
        for (pages, read) in pieces_of(&wanted, chunk, self.pool.blocks.pages_per_block) {
            let (piece, next) = rest.split_at(PAGE_BYTES * pages.len());
            rest = next;
            reads.push(self.read_piece(fill, volume, pages, read, piece));
        }
        let parts = join_all(reads).await;
        let mut whole = parts.into_iter().reduce(Buf::join).expect("a block has pages");
        let (length, block_bytes) = (whole.len(), at_u64(self.pool.blocks.bytes()));
        assert_eq!(length, block_bytes, "{:?} comes in with another number of bytes than its slot has", fill.key());
        for (first, buf) in offered {
            let start = PAGE_BYTES * usize::try_from(first).expect("what lies in memory has an address");
            whole[start..start + buf.len()].copy_from_slice(&buf);
        }
        whole
    }

    async fn read_piece(
        self,
        fill: &Fill,
        volume: &VolumeInner<E>,
        pages: Range<u32>,
        read: PieceReading,
        mut piece: Buf,
    ) -> Buf {
        match read {
            PieceReading::Skip => {
                piece.fill(0);
                piece
            }
            PieceReading::Backing => {
                let offset = (self.pool.blocks.first_page(fill.key().block) + u64::from(pages.start)) * PAGE;
                let demand = || FillDemand {
                    rate: self.pool.settings.get().fetch_rate,
                    hits: volume.stats.read_hits.get() - volume.stats.memory_hits.get(),
                    evicts: self.pool.clean.is_full(),
                };
                let read = async |offset, part: Buf| {
                    let turn = volume.backing.fills_turn(part.len(), demand).await;
                    self.pool.clean.fills().begins_to_read(fill);
                    turn.read(offset, part).await
                };
                let (piece, result) = volume.view.read_pages(offset, piece, read).await;
                if result.is_err() {
                    fill.exclude(&pages);
                }
                piece
            }
        }
    }

    // ---- fills that ride on misses

    /// Whether blocks are so small that misses of this volume carry their fills now.
    pub(super) fn fills_are_carried(self, volume: &VolumeInner<E>) -> bool {
        let bytes = self.pool.blocks.bytes();
        let delays_nobody = || !volume.backing.has_seeks() || volume.backing.hosts() == 0;
        bytes <= CARRIED_BLOCK_BYTES_MAX || (bytes <= CARRIED_ALONE_BYTES_MAX && delays_nobody())
    }

    /// Begins the fills of the hot blocks of a miss, as far as there is room; the others are asked for.
    pub(super) fn begin_carried_fills(self, hot: &[BlockKey]) -> Vec<Rc<Fill>> {
        let mut carried = Vec::new();
        for key in hot {
            let begun = if self.may_carry_fill(*key) { self.begin_fill(*key) } else { None };
            let Some((fill, _)) = begun else {
                self.request_fill(*key);
                continue;
            };
            fill.carry();
            carried.push(fill);
        }
        carried
    }

    /// Brings a block to its slot in the background; without its bytes it does not come in.
    pub(super) fn complete_carried_fill(self, volume: &Rc<VolumeInner<E>>, fill: Rc<Fill>, block: Option<&[u8]>) {
        let (header, mut data) = self.buffers_of(&fill);
        match block {
            Some(block) => data.copy_from_slice(block),
            None => {
                fill.exclude(&(0..self.pool.blocks.pages_per_block));
                self.pool.clean.fills().remember_not_carried(fill.key());
            }
        }
        let (pool, volume) = (Rc::clone(self.pool), Rc::clone(volume));
        self.pool.env.spawn(async move {
            Filler::of(&pool).complete_fill(&fill, &volume, header, data).await;
            pool.clean.fills().end(&fill);
        });
    }
}

/// The task that starts queued fills whenever something changed that may let them start.
pub(crate) async fn run_fill_pump<E: Env>(pool: Rc<PoolRooms<E>>) {
    let fills = pool.clean.fills();
    while !pool.life.is_stopping() {
        Filler::of(&pool).start_queued_fills();
        let wanted = fills.pump_wanted();
        if fills.queued() == 0 {
            wanted.await;
        } else {
            // Nobody tells that a backing device hangs by now.
            within(&pool.env, INTERVAL, wanted).await;
        }
    }
}

/// What is done for a piece of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceReading {
    Backing,
    Skip,
}

/// Cuts a block of `count` pages into consecutive pieces: what is wanted in pieces of at most `chunk` pages, and the
/// gaps between.
fn pieces_of(wanted: &PageSet, chunk: u32, count: u32) -> Vec<(Range<u32>, PieceReading)> {
    let mut pieces = Vec::new();
    let mut next = 0;
    for run in wanted.runs() {
        if next < run.start {
            pieces.push((next..run.start, PieceReading::Skip));
        }
        let mut start = run.start;
        while start < run.end {
            let end = run.end.min((start / chunk + 1) * chunk);
            pieces.push((start..end, PieceReading::Backing));
            start = end;
        }
        next = run.end;
    }
    if next < count {
        pieces.push((next..count, PieceReading::Skip));
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
            (0..2, PieceReading::Skip),
            (2..4, PieceReading::Backing),
            (4..5, PieceReading::Backing),
            (5..6, PieceReading::Skip),
            (6..8, PieceReading::Backing),
            (8..9, PieceReading::Backing),
            (9..16, PieceReading::Skip),
        ];
        assert_eq!(pieces, expected);
        assert_eq!(pieces_of(&PageSet::default(), 4, 16), [(0..16, PieceReading::Skip)]);
    }
}
