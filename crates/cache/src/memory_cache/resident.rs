//! The pages that are in memory, and which of them goes next: S3-FIFO (Yang et al., SOSP'23).
//!
//! A page comes into the *small* queue, a tenth of all, and goes from there to the *main* queue if it was read meanwhile, else out of
//! memory. One that is seen again soon after it left so comes into the main queue at once. The main queue gives a page that was read
//! another round for each read, three at most. Knows nothing of what pages contain or to whom they belong.

use std::ops::Range;

use hotset_block::Buf;

use crate::address::{at, mixed};

use super::index::{self, PageIndex};

/// Reads of a page that count: so many rounds it stays in the main queue at most.
const READS_MAX: u8 = 3;
/// The small queue has this part of all pages.
const SMALL_PART: u32 = 10;
/// Pages that are given another round in one search, at most: then the oldest goes, whatever it was read.
const ROUNDS_AT_ONCE: u32 = 64;
/// No place.
const NONE: u32 = u32::MAX;
/// The bytes of memory for each page that there is room for, beside the page.
pub(super) const BYTES_PER_PAGE: u64 = 56 + index::BYTES_PER_PAGE;

/// Where a page comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameQueue {
    Small,
    Main,
    /// No page is there.
    Free,
}

/// What went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evicted {
    pub(super) key: u64,
    /// From the small queue, without having been read there.
    pub(super) unproven: bool,
}

struct Frame {
    key: u64,
    /// Towards the newest of its queue.
    newer: u32,
    older: u32,
    reads: u8,
    queue: FrameQueue,
    /// `None`: the place is free.
    page: Option<Buf>,
}

#[derive(Clone, Copy)]
struct FrameList {
    newest: u32,
    oldest: u32,
    len: u32,
}

const EMPTY: FrameList = FrameList { newest: NONE, oldest: NONE, len: 0 };

pub(super) struct Resident {
    places: Vec<Frame>,
    index: PageIndex,
    small: FrameList,
    main: FrameList,
    free: FrameList,
    pages_max: u32,
}

impl Resident {
    /// With room for so many pages.
    pub(super) fn new(pages_max: u32) -> Self {
        // Memory that nobody touched takes none; and what is full is not copied to make it larger.
        let places = Vec::with_capacity(at(pages_max));
        Self { places, index: PageIndex::new(pages_max), small: EMPTY, main: EMPTY, free: EMPTY, pages_max }
    }

    pub(super) fn len(&self) -> u32 {
        self.small.len + self.main.len
    }

    pub(super) fn pages_max(&self) -> u32 {
        self.pages_max
    }

    /// How many pages may be there now: less than it will be while a larger index waits for its turn.
    pub(super) fn room(&self) -> u32 {
        self.pages_max.min(self.index.room())
    }

    /// Places that a page may be at.
    pub(super) fn places(&self) -> u32 {
        u32::try_from(self.places.len()).expect("pages in memory are counted in 32 bits")
    }

    /// Room for so many pages from here on. If there are more, [`Self::evict`] follows; then [`Self::fit_some`], until nothing is left to do.
    pub(super) fn resize(&mut self, pages_max: u32) {
        self.pages_max = pages_max;
        if self.len() <= pages_max {
            self.resize_index();
        }
    }

    /// Brings the tables nearer to the size that they are to have, by so many steps; answers whether there may be more to do.
    pub(super) fn fit_some(&mut self, steps: u32) -> bool {
        if self.len() > self.pages_max {
            return false;
        }
        if !self.index.is_moved() {
            let places = &self.places;
            self.index.move_some(at(steps), |place| mixed(places[at(place)].key));
            return true;
        }
        if self.places() > self.pages_max {
            (0..steps.min(self.places() - self.pages_max)).for_each(|_| self.drop_last_place());
            if self.places() == self.pages_max {
                self.places.shrink_to(at(self.pages_max));
            }
            return true;
        }
        self.resize_index()
    }

    /// Answers whether the index begins to get another size.
    fn resize_index(&mut self) -> bool {
        if !self.index.is_moved() || self.index.room() == self.pages_max {
            return false;
        }
        // What a large table holds is not copied for that: the kernel puts its memory elsewhere, or takes the end of it back.
        self.places.shrink_to(at(self.pages_max));
        self.places.reserve_exact(at(self.pages_max).saturating_sub(self.places.len()));
        self.index.resize(self.pages_max);
        true
    }

    /// The page that is there moves to a free place.
    fn drop_last_place(&mut self) {
        let last = self.places() - 1;
        if self.places[at(last)].page.is_none() {
            self.unlink(last);
        } else {
            let free = self.free.newest;
            self.unlink(free);
            self.places.swap(at(last), at(free));
            self.relink(last, free);
            self.index.replace(mixed(self.places[at(free)].key), last, free);
        }
        self.places.pop();
    }

    /// What named a place names another one, where its page is now.
    fn relink(&mut self, from: u32, to: u32) {
        let Frame { newer, older, queue, .. } = self.places[at(to)];
        let list = self.list(queue);
        if list.newest == from {
            list.newest = to;
        }
        if list.oldest == from {
            list.oldest = to;
        }
        if newer != NONE {
            self.places[at(newer)].older = to;
        }
        if older != NONE {
            self.places[at(older)].newer = to;
        }
    }

    pub(super) fn holds(&self, key: u64) -> bool {
        self.find(key).is_some()
    }

    /// The page, for a read of it, which counts.
    pub(super) fn read(&mut self, key: u64) -> Option<&mut Buf> {
        let place = self.find(key)?;
        let held = &mut self.places[at(place)];
        held.reads = READS_MAX.min(held.reads + 1);
        held.page.as_mut()
    }

    /// Takes in a page that is not there. The caller has made room.
    pub(super) fn insert(&mut self, key: u64, page: Buf, queue: FrameQueue) {
        assert!(self.len() < self.room(), "there is room for a page that comes in");
        assert!(queue != FrameQueue::Free, "page {key:#x} comes into a queue of pages");
        let held = Frame { key, newer: NONE, older: NONE, reads: 0, queue, page: Some(page) };
        let place = match self.free.newest {
            NONE => {
                self.places.push(held);
                self.places() - 1
            }
            free => {
                assert!(self.places[at(free)].page.is_none(), "place {free} is free, and a page is there");
                self.unlink(free);
                self.places[at(free)] = held;
                free
            }
        };
        self.index.insert(mixed(key), place);
        self.push_newest(place, queue);
    }

    /// Takes a page out, if it is there.
    pub(super) fn remove(&mut self, key: u64) -> bool {
        let found = self.find(key);
        if let Some(place) = found {
            self.take_out(place);
        }
        found.is_some()
    }

    /// Takes out the pages of these keys, of which `here` are there at most; answers how many it found. Looks each key up until it has all.
    pub(super) fn remove_all(&mut self, mut keys: Range<u64>, here: u32) -> u32 {
        let before = self.len();
        while before - self.len() < here
            && let Some(key) = keys.next()
        {
            self.remove(key);
        }
        before - self.len()
    }

    /// The same, looking at what is at these places until it has all.
    pub(super) fn sweep(&mut self, keys: Range<u64>, here: u32, places: Range<u32>) -> u32 {
        let before = self.len();
        let mut places = places.start..places.end.min(self.places());
        while before - self.len() < here
            && let Some(place) = places.next()
        {
            let held = &self.places[at(place)];
            if held.page.is_some() && keys.contains(&held.key) {
                self.take_out(place);
            }
        }
        before - self.len()
    }

    /// Takes out the page that goes next, if there is any.
    pub(super) fn evict(&mut self) -> Option<Evicted> {
        let small_max = self.pages_max / SMALL_PART;
        let mut rounds = 0;
        loop {
            let from_small = self.small.len > small_max || self.main.len == 0;
            let oldest = if from_small { self.small.oldest } else { self.main.oldest };
            if oldest == NONE {
                return None;
            }
            let held = &mut self.places[at(oldest)];
            if held.reads == 0 || rounds == ROUNDS_AT_ONCE {
                let evicted = Evicted { key: held.key, unproven: from_small };
                self.take_out(oldest);
                return Some(evicted);
            }
            // What was proven in the small queue begins in the main one as anything else does there.
            held.reads = if from_small { 0 } else { held.reads - 1 };
            rounds += 1;
            self.unlink(oldest);
            self.push_newest(oldest, FrameQueue::Main);
        }
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> u64 {
        crate::address::vec_bytes(&self.places) + self.index.memory_bytes()
    }

    /// Cells of the index and places that are yet to be moved.
    #[cfg(test)]
    pub(super) fn left_to_fit(&self) -> u32 {
        u32::try_from(self.index.left_to_move()).unwrap() + self.places().saturating_sub(self.pages_max)
    }

    fn find(&self, key: u64) -> Option<u32> {
        self.index.find(mixed(key), |place| self.places[at(place)].key == key)
    }

    fn take_out(&mut self, place: u32) {
        self.unlink(place);
        let key = self.places[at(place)].key;
        let places = &self.places;
        self.index.remove(mixed(key), place, |other| mixed(places[at(other)].key));
        let page = self.places[at(place)].page.take();
        assert!(page.is_some(), "page {key:#x} is taken out of place {place}, which is free");
        self.push_newest(place, FrameQueue::Free);
    }

    fn list(&mut self, queue: FrameQueue) -> &mut FrameList {
        match queue {
            FrameQueue::Small => &mut self.small,
            FrameQueue::Main => &mut self.main,
            FrameQueue::Free => &mut self.free,
        }
    }

    fn push_newest(&mut self, place: u32, queue: FrameQueue) {
        let list = self.list(queue);
        let before = std::mem::replace(&mut list.newest, place);
        list.len += 1;
        if before == NONE {
            list.oldest = place;
        } else {
            self.places[at(before)].newer = place;
        }
        let held = &mut self.places[at(place)];
        (held.newer, held.older, held.queue) = (NONE, before, queue);
    }

    fn unlink(&mut self, place: u32) {
        let Frame { newer, older, queue, .. } = self.places[at(place)];
        let list = self.list(queue);
        assert!(list.len > 0, "place {place} leaves the {queue:?} queue, which is empty");
        list.len -= 1;
        if newer == NONE {
            list.newest = older;
        }
        if older == NONE {
            list.oldest = newer;
        }
        if newer != NONE {
            self.places[at(newer)].older = older;
        }
        if older != NONE {
            self.places[at(older)].newer = newer;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use hotset_block::BufPool;
    use proptest::prelude::*;

    use super::*;

    /// The same by searching two queues from end to end, the oldest first: keys, and the reads that count.
    struct Naive {
        small: VecDeque<(u64, u8)>,
        main: VecDeque<(u64, u8)>,
        pages_max: usize,
    }

    impl Naive {
        fn held(&mut self, key: u64) -> Option<&mut (u64, u8)> {
            self.small.iter_mut().chain(&mut self.main).find(|held| held.0 == key)
        }

        fn len(&self) -> usize {
            self.small.len() + self.main.len()
        }

        fn retain(&mut self, stays: impl Fn(u64) -> bool) {
            self.small.retain(|held| stays(held.0));
            self.main.retain(|held| stays(held.0));
        }

        fn evict(&mut self) -> Option<Evicted> {
            for round in 0.. {
                let unproven = self.small.len() > self.pages_max / 10 || self.main.is_empty();
                let (key, reads) = if unproven { self.small.pop_front()? } else { self.main.pop_front()? };
                if reads == 0 || round == 64 {
                    return Some(Evicted { key, unproven });
                }
                self.main.push_back((key, if unproven { 0 } else { reads - 1 }));
            }
            None
        }
    }

    proptest! {
        // proves: M3
        #[test]
        fn pages_go_in_the_order_of_two_naive_queues(
            steps in prop::collection::vec((0_u8..10, 0_u64..60), 1..600), pages_max in 1_u32..40,
        ) {
            let buffers = BufPool::of_pages();
            let mut resident = Resident::new(pages_max);
            let (small, main) = (VecDeque::new(), VecDeque::new());
            let mut naive = Naive { small, main, pages_max: at(pages_max) };
            for (step, key) in steps {
                match step {
                    0..4 => {
                        let held = naive.held(key);
                        prop_assert_eq!(resident.read(key).is_some(), held.is_some());
                        if let Some((_, reads)) = held {
                            *reads = 3.min(*reads + 1);
                        }
                    }
                    4..8 if !resident.holds(key) => {
                        while resident.len() >= resident.room() {
                            prop_assert_eq!(resident.evict(), naive.evict());
                        }
                        let queue = if step < 7 { FrameQueue::Small } else { FrameQueue::Main };
                        resident.insert(key, buffers.take(1), queue);
                        let queue = if step < 7 { &mut naive.small } else { &mut naive.main };
                        queue.push_back((key, 0));
                    }
                    4..9 => {
                        prop_assert_eq!(resident.remove(key), naive.held(key).is_some());
                        naive.retain(|other| other != key);
                    }
                    _ if key < 30 => {
                        let (before, keys) = (naive.len(), key..key + 7);
                        naive.retain(|other| !keys.contains(&other));
                        let gone = u32::try_from(before - naive.len()).unwrap();
                        let taken_out =
                            if key % 2 == 0 { resident.sweep(keys, gone, 0..60) } else { resident.remove_all(keys, gone) };
                        prop_assert_eq!(taken_out, gone);
                    }
                    _ => {
                        let pages_max = u32::try_from(key).unwrap() - 29;
                        resident.resize(pages_max);
                        naive.pages_max = at(pages_max);
                        while resident.len() > pages_max {
                            prop_assert_eq!(resident.evict(), naive.evict());
                        }
                    }
                }
                let left = resident.left_to_fit();
                let is_more = resident.fit_some(2);
                prop_assert!(is_more || left == 0, "{} are left", left);
                prop_assert!(resident.left_to_fit() + 2 >= left);
                prop_assert_eq!(at(resident.len()), naive.len());
                prop_assert!((0..60).all(|key| resident.holds(key) == naive.held(key).is_some()));
            }
            while let Some(evicted) = naive.evict() {
                prop_assert_eq!(resident.evict(), Some(evicted));
            }
            prop_assert_eq!((resident.evict(), resident.len()), (None, 0));
        }
    }

    #[test]
    fn the_memory_of_a_page_is_what_is_stated() {
        const PAGES: u32 = 10_000;
        let buffers = BufPool::of_pages();
        let mut resident = Resident::new(PAGES);
        (0..u64::from(PAGES)).for_each(|key| resident.insert(key, buffers.take(1), FrameQueue::Small));
        assert!(size_of::<Frame>() <= 56, "{}", size_of::<Frame>());
        assert!(resident.memory_bytes() <= u64::from(PAGES) * BYTES_PER_PAGE + 8, "{}", resident.memory_bytes());
        while resident.len() > PAGES / 100 {
            resident.evict();
        }
        resident.resize(PAGES / 100);
        while resident.fit_some(1000) {}
        assert!(resident.memory_bytes() <= u64::from(PAGES / 100) * BYTES_PER_PAGE + 8, "{}", resident.memory_bytes());
    }
}
