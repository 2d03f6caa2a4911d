//! The memory cache: pages of all volumes of a thread, in front of whatever else there is of them.
//!
//! It is only ever a copy: a page is here exactly as a read would bring it from below, or it is not here. Whatever changes what a page
//! of a volume is calls [`VolumePages::supersede`], in the turn in which the change can be seen, and there is no other way for a page to
//! change. A read that was under way then brings nothing in ([`VolumePages::admit`]). What is admitted was read a second time; a hit
//! lends its page to whoever sends it, and copies nothing.

// Nouns: what is true now.
mod ahead;
mod index;
mod resident;
mod seen;

// Verbs: what happens.
mod shrink;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use hotset_block::sync::{Event, Wait};
use hotset_block::{Buf, BufPool, PAGE_BYTES};

use crate::address::{at_u64, mixed};
use crate::config::PAGE;
use crate::memory_cache::ahead::Ahead;
pub(crate) use crate::memory_cache::ahead::{FoundAhead, WantedAhead};
use crate::memory_cache::resident::{FrameQueue, Resident};
use crate::memory_cache::seen::{Past, Seen};

/// What a page takes: itself, what is known of it and of those that are not here, and the count of those who have it.
const PAGE_COST_BYTES: u64 = PAGE + resident::BYTES_PER_PAGE + seen::BYTES_PER_PAGE + HANDLE_BYTES;
/// What lends a page is an allocation of its own.
const HANDLE_BYTES: u64 = 64;

/// Requests of more pages go past the memory cache: what they would gain is little beside what they would push out.
pub(crate) const REQUEST_PAGES_MAX: u64 = 32;
// An admission has a bit for each page of a request.
const _: () = assert!(REQUEST_PAGES_MAX <= 64);

/// A key has the page in so many bits, and above them the volume's number.
const PAGE_BITS: u32 = 42;
const PAGES_END: u64 = 1 << PAGE_BITS;
/// Every page that a volume can have.
const ALL_PAGES: Range<u64> = 0..PAGES_END;
/// Every place that a page can be at.
const ALL_PLACES: Range<u32> = 0..u32::MAX;
const NUMBERS_MAX: usize = 1 << (u64::BITS - PAGE_BITS);

/// Changes are remembered by stripes of so many pages, to tell reads that were under way: a read that shares its stripe with one brings
/// nothing in, though it need not be of the same page.
const STRIPE_PAGES: u64 = 8;
const STRIPES: usize = 256;

/// Ranges of more pages than this part of all that are here are looked for among those that are here, the others page by page.
const SWEEP_PART: u64 = 4;
/// Pages that one turn supersedes: each may be looked for.
const SUPERSEDED_PER_TURN: u64 = 8192;
/// Places that one turn looks at for pages of a longer range.
const SWEPT_PER_TURN: u32 = 8192;

/// The memory cache of one thread. A handle: cloning it is cheap.
#[derive(Clone)]
pub struct MemoryCache {
    state: Rc<RefCell<MemoryCacheState>>,
}

struct MemoryCacheState {
    resident: Resident,
    seen: Seen,
    ahead: Ahead,
    buffers: BufPool,
    /// Pages that there is room for now, by memory pressure: `resident.pages_max()` at most.
    allowed_pages: u32,
    size_bytes: u64,
    /// Pages that were read here or came in, and pages that made room for those, since it was made.
    used: u64,
    evicted: u64,
    /// Of each volume's number, how many pages are here; `None`: nobody has the number.
    volumes: Vec<Option<u32>>,
}

/// How a memory cache is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCacheStatus {
    /// As it was set; 0: off.
    pub size_bytes: u64,
    /// What it may take now: less than its size while memory is short.
    pub allowed_bytes: u64,
    /// What the pages that are here take, with what is known of them.
    pub used_bytes: u64,
    /// Pages that were read here or came in, since it was made.
    pub pages_used: u64,
    /// Of pages that made room for others since it was made, what they took.
    pub evicted_bytes: u64,
}

impl MemoryCacheStatus {
    /// Of both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            size_bytes: self.size_bytes + other.size_bytes,
            allowed_bytes: self.allowed_bytes + other.allowed_bytes,
            used_bytes: self.used_bytes + other.used_bytes,
            pages_used: self.pages_used + other.pages_used,
            evicted_bytes: self.evicted_bytes + other.evicted_bytes,
        }
    }
}

impl MemoryCache {
    /// Of at most `size_bytes` bytes with all that belongs to it; 0: off.
    pub fn new(size_bytes: u64) -> Self {
        let pages = pages_in(size_bytes);
        let state = MemoryCacheState {
            resident: Resident::new(pages),
            seen: Seen::new(pages),
            ahead: Ahead::default(),
            buffers: BufPool::of_pages(),
            allowed_pages: pages,
            size_bytes,
            used: 0,
            evicted: 0,
            volumes: Vec::new(),
        };
        Self { state: Rc::new(RefCell::new(state)) }
    }

    pub fn status(&self) -> MemoryCacheStatus {
        let state = self.state.borrow();
        let bytes = |pages: u32| u64::from(pages) * PAGE_COST_BYTES;
        let allowed_bytes = if state.is_held_back() { bytes(state.allowed_pages) } else { state.size_bytes };
        MemoryCacheStatus {
            size_bytes: state.size_bytes,
            allowed_bytes,
            used_bytes: bytes(state.pages()),
            pages_used: state.used,
            evicted_bytes: state.evicted * PAGE_COST_BYTES,
        }
    }

    /// The pages of one more volume; none are here yet.
    ///
    /// # Panics
    /// If there are four million volumes.
    pub(crate) fn pages_of_volume(&self) -> VolumePages {
        let mut state = self.state.borrow_mut();
        let number = state.volumes.iter().position(Option::is_none).unwrap_or(state.volumes.len());
        assert!(number < NUMBERS_MAX, "a key has room for the number of a volume");
        if number == state.volumes.len() {
            state.volumes.push(None);
        }
        state.volumes[number] = Some(0);
        let stripes = vec![Cell::new(0); STRIPES].into_boxed_slice();
        VolumePages {
            cache: self.clone(),
            number,
            is_on: Cell::new(true),
            reads_ahead: Cell::new(true),
            ahead_changed: Event::default(),
            changes: Cell::new(0),
            stripes,
        }
    }
}

/// The pages of one volume that are in memory.
pub(crate) struct VolumePages {
    cache: MemoryCache,
    number: usize,
    is_on: Cell<bool>,
    /// Whether its streams are read before they are asked for.
    reads_ahead: Cell<bool>,
    /// A piece of them came, or will not.
    ahead_changed: Event,
    /// How often all pages may have changed.
    changes: Cell<u64>,
    /// How often some page of each stripe has; a stripe is of many places in the volume.
    stripes: Box<[Cell<u32>]>,
}

/// A read that is to bring in pages.
pub(crate) struct Admission {
    /// Which of its pages, by bits.
    wanted: u64,
    /// What had changed when it began.
    changes: u64,
}

impl VolumePages {
    /// Whether pages come in and are looked for, and whether streams are read ahead; what is here when it is switched off goes.
    pub(crate) fn switch(&self, is_on: bool, reads_ahead: bool) {
        if !is_on || (self.reads_ahead.get() && !reads_ahead) {
            self.forget_all();
        }
        self.is_on.set(is_on);
        self.reads_ahead.set(reads_ahead);
    }

    // ---- a read

    /// Whether the memory cache has to do with a read of these pages.
    pub(crate) fn concerns(&self, pages: &Range<u64>) -> bool {
        self.is_on.get()
            && pages.end - pages.start <= REQUEST_PAGES_MAX
            && pages.end < PAGES_END
            && self.cache.state.borrow().allowed_pages > 0
    }

    /// Whether a read of the page would be answered from here.
    pub(crate) fn holds(&self, page: u64) -> bool {
        self.concerns(&(page..page + 1)) && self.cache.state.borrow().resident.holds(self.key(page))
    }

    /// The page, if it is here: not copied.
    pub(crate) fn lend(&self, page: u64) -> Option<Buf> {
        let state = &mut *self.cache.state.borrow_mut();
        let page = state.resident.read(self.key(page))?;
        state.used += 1;
        Some(page.lend())
    }

    /// Copies the pages into a buffer for exactly them, if all of them are here.
    pub(crate) fn copy(&self, pages: &Range<u64>, buf: impl FnOnce() -> Buf) -> Option<Buf> {
        let mut state = self.cache.state.borrow_mut();
        if !pages.clone().all(|page| state.resident.holds(self.key(page))) {
            return None;
        }
        let mut buf = buf();
        for (page, part) in pages.clone().zip(buf.chunks_exact_mut(PAGE_BYTES)) {
            part.copy_from_slice(state.resident.read(self.key(page))?);
        }
        state.used += pages.end - pages.start;
        Some(buf)
    }

    /// A read of pages that are not all here goes on below. Answers whether it is to bring some of them in: those that were read before.
    /// The others are remembered.
    pub(crate) fn note_read(&self, pages: &Range<u64>) -> Option<Admission> {
        let mut state = self.cache.state.borrow_mut();
        let mut wanted = 0;
        for (page, bit) in pages.clone().zip(0..u64::BITS) {
            let key = self.key(page);
            if state.resident.holds(key) {
                continue;
            }
            match state.seen.past_of(mixed(key)) {
                Some(_) => wanted |= 1 << bit,
                None => state.seen.note(mixed(key), Past::Read),
            }
        }
        (wanted != 0).then(|| Admission { wanted, changes: self.changes_of(pages) })
    }

    /// Brings in what was read of `pages` for an admission, unless something has changed since it was asked for. The last page may be
    /// in `bytes` in part: nothing follows it in its volume. The caller sees to it that nobody was writing the pages when the admission was
    /// asked for, or is now.
    pub(crate) fn admit(&self, admission: &Admission, pages: &Range<u64>, bytes: &[u8]) {
        if admission.changes != self.changes_of(pages) || !self.is_on.get() {
            return;
        }
        let mut state = self.cache.state.borrow_mut();
        for ((page, bit), part) in pages.clone().zip(0..u64::BITS).zip(bytes.chunks(PAGE_BYTES)) {
            if admission.wanted & (1 << bit) != 0 {
                state.bring_in(self.key(page), self.number, part);
            }
        }
    }

    // ---- a stream

    /// Whether streams are read before they are asked for.
    pub(crate) fn reads_ahead(&self) -> bool {
        self.is_on.get() && self.reads_ahead.get() && self.cache.state.borrow().allowed_pages > 0
    }

    /// What of a stream's request was read before it was asked for. Each page is lent once.
    pub(crate) fn find_ahead(&self, pages: &Range<u64>) -> FoundAhead {
        self.cache.state.borrow_mut().ahead.find(self.number, pages)
    }

    /// A host waits for a page of its stream: more of that is to be there before it is asked for.
    pub(crate) fn deepen_ahead(&self, page: u64) {
        self.cache.state.borrow_mut().ahead.deepen(self.number, page);
    }

    /// What is to be read now for a stream whose request has so many pages, goes on with page `next`, and ends where the volume does.
    /// The caller reads it, and says what came of that by [`Self::bring_ahead`].
    pub(crate) fn extend_ahead(&self, next: u64, request_pages: u64, volume_end: u64) -> Vec<WantedAhead> {
        if !self.reads_ahead() || volume_end >= PAGES_END {
            return Vec::new();
        }
        let mut state = self.cache.state.borrow_mut();
        let allowed = state.allowed_pages;
        let wanted = state.ahead.extend(self.number, next, request_pages, volume_end, allowed);
        while state.pages() > allowed && state.evict() {}
        wanted
    }

    /// A piece of a stream was read; `None`: it could not be, or somebody was writing there. If it changed meanwhile, it is let go.
    pub(crate) fn bring_ahead(&self, wanted: &WantedAhead, bytes: Option<Buf>) {
        self.cache.state.borrow_mut().ahead.bring(wanted.id, bytes);
        self.ahead_changed.wake_all();
    }

    /// Nobody has asked for the piece.
    pub(crate) fn forget_ahead(&self, wanted: &WantedAhead) {
        self.cache.state.borrow_mut().ahead.forget(wanted.id);
        self.ahead_changed.wake_all();
    }

    /// Completes when a piece of a stream has come, or will not.
    pub(crate) fn ahead_changed(&self) -> Wait<'_> {
        self.ahead_changed.wait()
    }

    // ---- a change

    /// These pages are something else from now on: the one way in which a page changes.
    pub(crate) fn supersede(&self, pages: &Range<u64>) {
        self.note_change(pages);
        let mut state = self.cache.state.borrow_mut();
        let here = state.volumes[self.number].expect("the volume has its number");
        if here == 0 {
            return;
        }
        let keys = self.keys(pages);
        let gone = if *pages == ALL_PAGES {
            // The count is not trusted where nothing comes after it.
            let gone = state.resident.sweep(keys, u32::MAX, ALL_PLACES);
            assert!(gone == here, "{gone} pages of volume {} were in memory, and {here} were counted", self.number);
            gone
        } else if pages.end - pages.start > u64::from(state.resident.len()) / SWEEP_PART + 1 {
            state.resident.sweep(keys, here, ALL_PLACES)
        } else {
            state.resident.remove_all(keys, here)
        };
        state.volumes[self.number] = Some(here - gone);
    }

    /// The same of a range of any length, so that a trim of terabytes neither holds up everybody else nor takes longer than to look at all
    /// that is here. Nobody reads or writes these pages meanwhile, or what a read finds below is what it will be afterwards.
    pub(crate) async fn supersede_in_turns(&self, pages: &Range<u64>, next_turn: impl AsyncFn()) {
        let places = self.cache.state.borrow().resident.places();
        if pages.end - pages.start <= (u64::from(places) / SWEEP_PART).max(1) {
            for part in in_turns(pages.clone()) {
                if part.start > pages.start {
                    next_turn().await;
                }
                self.supersede(&part);
            }
            return;
        }
        self.note_change(pages);
        // From the last place on: pages that are moved to make the table smaller go towards the first one.
        let mut end = places;
        while end > 0 && self.pages_here() > 0 {
            let start = end.saturating_sub(SWEPT_PER_TURN);
            self.sweep(pages, start..end);
            end = start;
            if end > 0 {
                next_turn().await;
            }
        }
    }

    fn sweep(&self, pages: &Range<u64>, places: Range<u32>) {
        let (here, keys) = (self.pages_here(), self.keys(pages));
        let mut state = self.cache.state.borrow_mut();
        let gone = state.resident.sweep(keys, here, places);
        state.volumes[self.number] = Some(here - gone);
    }

    fn pages_here(&self) -> u32 {
        self.cache.state.borrow().volumes[self.number].expect("the volume has its number")
    }

    fn keys(&self, pages: &Range<u64>) -> Range<u64> {
        let [first, end] = [pages.start, pages.end].map(|page| self.key(page.min(PAGES_END - 1)));
        first..if pages.end == PAGES_END { end + 1 } else { end }
    }

    /// A read of these pages that is under way brings nothing in, nor does one of a stream.
    fn note_change(&self, pages: &Range<u64>) {
        let stripe_first = pages.start / STRIPE_PAGES;
        let stripe_last = pages.end.div_ceil(STRIPE_PAGES);
        if stripe_last - stripe_first >= u64::try_from(STRIPES).expect("an address has 64 bits at most") {
            self.changes.set(self.changes.get() + 1);
        } else {
            for stripe in stripe_first..stripe_last {
                let changes = self.stripe(stripe);
                changes.set(changes.get().wrapping_add(1));
            }
        }
        if self.cache.state.borrow_mut().ahead.supersede(self.number, pages) {
            self.ahead_changed.wake_all();
        }
    }

    /// All pages may be something else from now on: the volume joined a pool or left it, or its backing device was opened again.
    pub(crate) fn forget_all(&self) {
        self.supersede(&ALL_PAGES);
    }

    fn changes_of(&self, pages: &Range<u64>) -> u64 {
        let stripes = pages.start / STRIPE_PAGES..pages.end.div_ceil(STRIPE_PAGES);
        self.changes.get() + stripes.map(|stripe| u64::from(self.stripe(stripe).get())).sum::<u64>()
    }

    fn stripe(&self, stripe: u64) -> &Cell<u32> {
        &self.stripes[at_u64(stripe) % STRIPES]
    }

    fn key(&self, page: u64) -> u64 {
        assert!(page < PAGES_END, "page {page} would be one of another volume in memory");
        let number = u64::try_from(self.number).expect("an address has 64 bits at most");
        (number << PAGE_BITS) | page
    }
}

impl Drop for VolumePages {
    fn drop(&mut self) {
        self.forget_all();
        let left = self.cache.state.borrow_mut().volumes[self.number].take();
        assert_eq!(left, Some(0), "volume {} gives its number away, and pages of it are in memory", self.number);
    }
}

impl MemoryCacheState {
    /// That are here, whatever for.
    fn pages(&self) -> u32 {
        self.resident.len() + self.ahead.pages()
    }

    /// For how many there is room now.
    fn room(&self) -> u32 {
        self.allowed_pages.min(self.resident.room())
    }

    fn is_held_back(&self) -> bool {
        self.allowed_pages < self.resident.pages_max()
    }

    fn bring_in(&mut self, key: u64, number: usize, bytes: &[u8]) {
        if self.resident.holds(key) || self.allowed_pages == 0 {
            return;
        }
        while self.pages() >= self.room() {
            if !self.evict() {
                return;
            }
            self.evicted += 1;
        }
        self.used += 1;
        let queue = match self.seen.past_of(mixed(key)) {
            Some(Past::Resident) => FrameQueue::Main,
            Some(Past::Read) | None => FrameQueue::Small,
        };
        self.seen.forget(mixed(key));
        let mut page = self.buffers.take(PAGE_BYTES);
        page[..bytes.len()].copy_from_slice(bytes);
        page[bytes.len()..].fill(0);
        self.resident.insert(key, page, queue);
        if let Some(here) = &mut self.volumes[number] {
            *here += 1;
        }
    }

    /// Takes out the page that goes next; false: none is left.
    fn evict(&mut self) -> bool {
        let Some(evicted) = self.resident.evict() else { return false };
        if evicted.unproven {
            self.seen.note(mixed(evicted.key), Past::Resident);
        }
        if let Some(Some(here)) = self.volumes.get_mut(at_u64(evicted.key >> PAGE_BITS)) {
            assert!(*here > 0, "page {:#x} leaves the memory, and none of its volume is there", evicted.key);
            *here -= 1;
        }
        true
    }
}

/// Pages that are superseded, in parts of which each takes a turn, so that a trim of gigabytes does not hold up everybody else.
fn in_turns(pages: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let turns = pages.start / SUPERSEDED_PER_TURN..pages.end.div_ceil(SUPERSEDED_PER_TURN);
    turns.map(move |turn| pages.start.max(turn * SUPERSEDED_PER_TURN)..pages.end.min((turn + 1) * SUPERSEDED_PER_TURN))
}

fn pages_in(bytes: u64) -> u32 {
    u32::try_from(bytes / PAGE_COST_BYTES).unwrap_or(u32::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures_util::FutureExt;
    use proptest::prelude::*;

    use super::*;
    use crate::address::bytes_of;
    use crate::refused::assert_refused;

    fn cache(pages: u64) -> MemoryCache {
        MemoryCache::new(pages * PAGE_COST_BYTES)
    }

    /// Reads a page whose content is `content` below, as a host's read does; answers what it saw.
    fn read(volume: &VolumePages, page: u64, content: u8) -> u8 {
        let pages = page..page + 1;
        if let Some(buf) = volume.lend(page) {
            return buf[17];
        }
        let admission = volume.note_read(&pages);
        if let Some(admission) = admission {
            volume.admit(&admission, &pages, &[content; PAGE_BYTES]);
        }
        content
    }

    fn read_all(volume: &VolumePages, pages: Range<u64>, content: u8) {
        for page in pages {
            read(volume, page, content);
        }
    }

    // proves: M3
    #[test]
    fn a_page_comes_in_when_it_is_read_a_second_time() {
        let cache = cache(16);
        let volume = cache.pages_of_volume();
        assert_eq!(read(&volume, 5, 1), 1);
        assert!(volume.lend(5).is_none());
        assert_eq!(read(&volume, 5, 1), 1);
        assert_eq!(read(&volume, 5, 2), 1, "it is in memory");
        // A scan, however long, changes nothing.
        read_all(&volume, 100..1000, 3);
        assert_eq!((read(&volume, 5, 2), cache.status().used_bytes), (1, PAGE_COST_BYTES));
    }

    #[test]
    fn what_is_lent_stays_as_it_was_when_its_page_changes_or_goes() {
        let cache = cache(4);
        let volume = cache.pages_of_volume();
        (0..2).for_each(|_| read_all(&volume, 5..6, 1));
        let lent = volume.lend(5).expect("it is in memory");
        volume.supersede(&(5..6));
        assert!(volume.lend(5).is_none());
        (0..3).for_each(|_| read_all(&volume, 10..20, 9));
        assert!(lent.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn a_read_that_was_under_way_while_its_page_changed_brings_nothing_in() {
        let cache = cache(16);
        let volume = cache.pages_of_volume();
        let others = cache.pages_of_volume();
        let changes: [&dyn Fn(); 3] =
            [&|| volume.supersede(&(5..6)), &|| volume.forget_all(), &|| volume.switch(false, true)];
        for change in changes {
            volume.switch(true, true);
            volume.note_read(&(5..6));
            let admission = volume.note_read(&(5..6)).expect("it was read before");
            change();
            volume.admit(&admission, &(5..6), &[1; PAGE_BYTES]);
            assert!(volume.lend(5).is_none());
        }
        volume.switch(true, true);
        let admission = volume.note_read(&(5..6)).expect("it was read before");
        others.supersede(&(5..6));
        volume.admit(&admission, &(5..6), &[2; PAGE_BYTES]);
        assert_eq!(read(&volume, 5, 0), 2, "nothing of this volume has changed");
    }

    #[test]
    fn the_end_of_a_volume_in_a_part_of_a_page_is_followed_by_zeroes() {
        let cache = cache(16);
        let volume = cache.pages_of_volume();
        volume.note_read(&(7..9));
        let admission = volume.note_read(&(7..9)).expect("both were read before");
        volume.admit(&admission, &(7..9), &[3; PAGE_BYTES + 512]);
        let copy = volume.copy(&(7..9), || Buf::zeroed(2 * PAGE_BYTES)).expect("both are in memory");
        assert_eq!((copy[PAGE_BYTES + 511], copy[PAGE_BYTES + 512]), (3, 0));
        assert!(volume.copy(&(7..10), || Buf::zeroed(3 * PAGE_BYTES)).is_none(), "one is missing");
    }

    #[test]
    fn a_volume_finds_nothing_of_the_one_whose_number_it_has() {
        let cache = cache(16);
        let former = cache.pages_of_volume();
        (0..2).for_each(|_| read_all(&former, 5..6, 1));
        drop(former);
        assert_eq!(cache.status().used_bytes, 0);
        assert!(cache.pages_of_volume().lend(5).is_none());
    }

    #[test]
    fn long_requests_and_a_cache_of_no_size_have_nothing_to_do_with_each_other() {
        let volume = cache(16).pages_of_volume();
        let takes = |pages: Range<u64>| volume.concerns(&pages);
        assert!(takes(0..REQUEST_PAGES_MAX) && !takes(0..REQUEST_PAGES_MAX + 1));
        assert!(!takes(PAGES_END - 1..PAGES_END) && !cache(0).pages_of_volume().concerns(&(0..1)));
        volume.switch(false, true);
        assert!(!volume.concerns(&(0..1)));
    }

    #[test]
    fn a_long_range_is_superseded_in_parts_that_end_at_even_places() {
        let parts: Vec<Range<u64>> = in_turns(100..20_000).collect();
        assert_eq!(parts, [100..8192, 8192..16_384, 16_384..20_000]);
        assert!(in_turns(7..9).eq(std::iter::once(7..9)));
    }

    #[test]
    fn whatever_is_superseded_leaves_and_the_rest_stays() {
        for superseded in [0..8, 6..100, 30..31, 0..PAGES_END] {
            let cache = cache(64);
            let (volume, other) = (cache.pages_of_volume(), cache.pages_of_volume());
            (0..2).for_each(|_| read_all(&volume, 0..32, 1));
            (0..2).for_each(|_| read_all(&other, 0..8, 1));
            volume.supersede(&superseded);
            let left = (0..32).filter(|page| volume.holds(*page)).collect::<Vec<u64>>();
            assert_eq!(left, (0..32).filter(|page| !superseded.contains(page)).collect::<Vec<u64>>());
            assert!((0..8).all(|page| other.holds(page)));
        }
    }

    /// Supersedes them; answers how many turns that took.
    fn superseded_in_turns(volume: &VolumePages, pages: &Range<u64>) -> u32 {
        let turns = Cell::new(1);
        volume.supersede_in_turns(pages, async || turns.set(turns.get() + 1)).now_or_never().expect("nothing waits");
        turns.get()
    }

    // Each page of a trim was looked for, or all that was here was looked through for each 32 MiB of it.
    #[test]
    fn a_trim_of_any_length_takes_as_many_turns_as_what_is_here() {
        let cache = cache(20_000);
        let (volume, other) = (cache.pages_of_volume(), cache.pages_of_volume());
        for pages in [0..9000, 1_000_000..1_000_100] {
            (0..2).for_each(|_| read_all(&volume, pages.clone(), 1));
        }
        (0..2).for_each(|_| read_all(&other, 0..100, 1));
        assert_eq!(superseded_in_turns(&volume, &(8990..8992)), 1);
        assert_eq!(superseded_in_turns(&volume, &(100..1 << 26)), 2, "9,200 places are here");
        assert_eq!(
            (0..1 << 20).filter(|page| volume.holds(*page)).collect::<Vec<u64>>(),
            (0..100).collect::<Vec<u64>>()
        );
        assert!((0..100).all(|page| other.holds(page)));
        assert_eq!(superseded_in_turns(&volume, &(0..1 << 26)), 2);
        assert_eq!(superseded_in_turns(&volume, &(0..1 << 26)), 1, "nothing of the volume is here");
    }

    // proves: M2
    #[test]
    fn a_read_under_way_brings_nothing_in_of_a_range_that_is_superseded_in_turns() {
        let cache = cache(16);
        let volume = cache.pages_of_volume();
        volume.note_read(&(5..6));
        let admission = volume.note_read(&(5..6)).expect("it was read before");
        superseded_in_turns(&volume, &(0..1 << 30));
        volume.admit(&admission, &(5..6), &[1; PAGE_BYTES]);
        assert!(!volume.holds(5));
    }

    /// What hosts and administrators do, in turns.
    #[derive(Clone, Debug)]
    enum Step {
        Begin(usize, u64, u64),
        End(usize),
        Change(usize, u64, u64),
        Trim(usize, u64),
        ForgetAll(usize),
        Switch(usize, bool, bool),
        Resize(u64),
        Allow(u64),
        Reopen(usize),
        Stream(usize, u64, u64),
        Bring(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            12 => (0_usize..3, 0_u64..50, 1_u64..6).prop_map(|(volume, page, count)| Step::Begin(volume, page, count)),
            10 => (0_usize..8).prop_map(Step::End),
            3 => (0_usize..3, 0_u64..50, 1_u64..40).prop_map(|(volume, page, count)| Step::Change(volume, page, count)),
            1 => (0_usize..3, 0_u64..90).prop_map(|(volume, first)| Step::Trim(volume, first)),
            1 => (0_usize..3).prop_map(Step::ForgetAll),
            1 => (0_usize..3, any::<bool>(), any::<bool>()).prop_map(|(volume, is_on, ahead)| Step::Switch(volume, is_on, ahead)),
            1 => (0_u64..1200).prop_map(Step::Resize),
            1 => (0_u64..1200).prop_map(Step::Allow),
            3 => (0_usize..3, 0_u64..50, 1_u64..6).prop_map(|(volume, next, count)| Step::Stream(volume, next, count)),
            3 => (0_usize..8).prop_map(Step::Bring),
            1 => (0_usize..3).prop_map(Step::Reopen),
        ];
        prop::collection::vec(step, 1..400)
    }

    proptest! {
        // proves: M2
        #[test]
        fn a_page_in_memory_is_what_it_is_below_or_it_is_not_there(steps in steps()) {
            let cache = cache(1000);
            let mut volumes: Vec<VolumePages> = (0..3).map(|_| cache.pages_of_volume()).collect();
            let mut below: BTreeMap<(usize, u64), u8> = BTreeMap::new();
            // Reads under way: of which volume, which pages, what each has read.
            let mut reads: Vec<(usize, Range<u64>, Admission, Vec<u8>)> = Vec::new();
            // Pieces under way: of which volume, which, what each has read.
            let mut pieces: Vec<(usize, WantedAhead, Buf)> = Vec::new();
            let mut counter = 0_u8;
            for step in steps {
                match step {
                    Step::Begin(volume, first, count) => {
                        let pages = first..first + count;
                        if volumes[volume].concerns(&pages)
                            && let Some(admission) = volumes[volume].note_read(&pages)
                        {
                            let content = |page| [below.get(&(volume, page)).copied().unwrap_or(0); PAGE_BYTES];
                            let bytes = pages.clone().flat_map(content).collect();
                            reads.push((volume, pages, admission, bytes));
                        }
                    }
                    Step::End(which) if !reads.is_empty() => {
                        let (volume, pages, admission, bytes) = reads.remove(which % reads.len());
                        volumes[volume].admit(&admission, &pages, &bytes);
                    }
                    Step::End(_) => {}
                    Step::Change(volume, first, count) => {
                        counter = counter.wrapping_add(1);
                        below.extend((first..first + count).map(|page| ((volume, page), counter)));
                        volumes[volume].supersede(&(first..first + count));
                    }
                    Step::Trim(volume, first) => {
                        counter = counter.wrapping_add(1);
                        below.extend((first..90).map(|page| ((volume, page), counter)));
                        superseded_in_turns(&volumes[volume], &(first..1 << 30));
                    }
                    Step::ForgetAll(volume) => {
                        counter = counter.wrapping_add(1);
                        below.extend((0..90).map(|page| ((volume, page), counter)));
                        volumes[volume].forget_all();
                    }
                    Step::Switch(volume, is_on, ahead) => volumes[volume].switch(is_on, ahead),
                    Step::Stream(volume, next, count) => {
                        for wanted in volumes[volume].extend_ahead(next, count, 90) {
                            let content = |page| [below.get(&(volume, page)).copied().unwrap_or(0); PAGE_BYTES];
                            let mut buf = Buf::zeroed(bytes_of(&wanted.pages));
                            buf.copy_from_slice(&wanted.pages.clone().flat_map(content).collect::<Vec<u8>>());
                            pieces.push((volume, wanted, buf));
                        }
                    }
                    Step::Bring(which) if !pieces.is_empty() => {
                        let (volume, wanted, buf) = pieces.remove(which % pieces.len());
                        volumes[volume].bring_ahead(&wanted, Some(buf));
                    }
                    Step::Bring(_) => {}
                    Step::Resize(pages) => {
                        cache.set_size(pages * PAGE_COST_BYTES);
                        // As far as that goes: what is left of it is done in the turns of the next ones.
                        for _ in 0..pages % 8 + 5 {
                            cache.fit_some();
                        }
                    }
                    Step::Allow(pages) => {
                        cache.set_allowed(pages * PAGE_COST_BYTES);
                        while cache.fit_some() {}
                    }
                    Step::Reopen(volume) => {
                        counter = counter.wrapping_add(1);
                        below.extend((0..90).map(|page| ((volume, page), counter)));
                        reads.retain(|read| read.0 != volume);
                        pieces.retain(|piece| piece.0 != volume);
                        volumes[volume] = cache.pages_of_volume();
                    }
                }
                let status = cache.status();
                prop_assert!(status.used_bytes <= status.allowed_bytes && status.allowed_bytes <= status.size_bytes);
                for (number, volume) in volumes.iter().enumerate() {
                    for page in 0..90 {
                        if let Some(buf) = volume.lend(page) {
                            let expected = below.get(&(number, page)).copied().unwrap_or(0);
                            prop_assert!(buf.iter().all(|byte| *byte == expected), "page {page} of {number}");
                        }
                    }
                    // What is lent of a piece leaves it: one page of each volume is looked at in each step.
                    let page = u64::from(counter) % 90;
                    if let FoundAhead::There(buf, _) = volume.find_ahead(&(page..page + 1)) {
                        let expected = below.get(&(number, page)).copied().unwrap_or(0);
                        prop_assert!(buf.iter().all(|byte| *byte == expected), "page {page} ahead of {number}");
                    }
                }
            }
            drop(volumes);
            prop_assert_eq!(cache.status().used_bytes, 0);
        }
    }

    // proves: M3
    #[test]
    fn a_smaller_and_then_a_larger_size_forget_little_of_what_was_read_once() {
        let cache = cache(1000);
        let volume = cache.pages_of_volume();
        read_all(&volume, 0..500, 1);
        for pages in [700, 1000] {
            cache.set_size(pages * PAGE_COST_BYTES);
            while cache.fit_some() {}
        }
        read_all(&volume, 0..500, 1);
        let here = (0..500).filter(|page| volume.lend(*page).is_some()).count();
        assert!(here > 450, "{here} of 500 came in at their second read");
    }

    #[test]
    fn what_is_used_and_what_makes_room_is_counted_and_what_a_size_takes_is_not() {
        let cache = cache(16);
        let volume = cache.pages_of_volume();
        (0..2).for_each(|_| read_all(&volume, 0..16, 1));
        assert_eq!((cache.status().pages_used, cache.status().evicted_bytes), (16, 0));
        volume.lend(3).expect("it is in memory");
        (0..2).for_each(|_| read_all(&volume, 20..24, 1));
        assert_eq!((cache.status().pages_used, cache.status().evicted_bytes), (21, 4 * PAGE_COST_BYTES));
        cache.set_allowed(4 * PAGE_COST_BYTES);
        while cache.fit_some() {}
        assert_eq!(cache.status().evicted_bytes, 4 * PAGE_COST_BYTES);
    }

    // A share of the memory cache that changed held up all hosts of its thread until all of its pages were indexed anew.
    // proves: M3
    #[test]
    fn another_size_takes_turns_of_so_much_at_most_in_which_pages_are_read() {
        let cache = cache(20_000);
        let volume = cache.pages_of_volume();
        (0..2).for_each(|_| read_all(&volume, 0..3000, 1));
        let left = |cache: &MemoryCache| {
            let state = cache.state.borrow();
            (state.resident.left_to_fit(), state.seen.left_to_fit())
        };
        for pages in [10_000, 4000, 30_000] {
            cache.set_size(pages * PAGE_COST_BYTES);
            let (mut before, mut turns) = (left(&cache), 0);
            while cache.fit_some() {
                let now = left(&cache);
                assert!(now.0 + shrink::MOVED_PER_TURN >= before.0, "{before:?} and {now:?}");
                assert!(now.1 + shrink::SETS_PER_TURN >= before.1, "{before:?} and {now:?}");
                let page = turns % 3000;
                assert_eq!(read(&volume, page, 2), 1, "page {page} to {pages} pages in turn {turns}");
                (before, turns) = (now, turns + 1);
            }
            assert!(turns > 10, "{turns} turns to {pages} pages");
            assert_eq!((left(&cache), cache.state.borrow().room()), ((0, 0), u32::try_from(pages).unwrap()));
        }
        assert!((0..3000).all(|page| volume.holds(page)));
    }

    #[test]
    fn no_page_is_taken_for_one_of_another_volume() {
        let volume = cache(8).pages_of_volume();
        assert_refused("would be one of another volume in memory", || volume.lend(PAGES_END));
    }
}
