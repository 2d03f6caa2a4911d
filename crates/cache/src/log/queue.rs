//! What waits for its place in the log: hosts' writes, moves beside them, and hints; and how much of it there is.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;

use hotset_block::Buf;
use hotset_block::sync::Promise;

use crate::address::VolumeIndex;
use crate::error::Error;
use crate::log::overlay::{Content, Place};

/// Hints that make a batch of their own.
const HINTS_ENOUGH: usize = 512;

/// What an append brings.
pub(crate) enum Body {
    /// Whole pages.
    Data(Buf),
    Zeroes(u64),
    /// Pages that lie at this place and are moved to the head, with the version that they have, if they still are the
    /// newest when they take their place.
    Move {
        data: Buf,
        from: Place,
        version: u64,
    },
    /// Pages at this place are zeroes, or lost, as the head says again; if they still are the newest then. With
    /// `spread`, the pages lie one after the other from the place on, else all at it.
    Mark {
        content: Content,
        from: Place,
        spread: bool,
        version: u64,
        count: u64,
    },
}

/// Who waits in which line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Hosts,
    /// Moves and losses: they may use what is reserved.
    Urgent,
}

/// Pages on their way into the log.
pub(crate) struct Append {
    pub(crate) volume: VolumeIndex,
    pub(crate) attachment: u64,
    pub(crate) page: u64,
    /// How many they are, and how many of them are data: asked for at every step of their way.
    count: u64,
    data_pages: u32,
    pub(crate) body: Body,
    pub(crate) done: Promise<Result<(), Error>>,
}

impl Append {
    /// # Panics
    /// If it has no pages, or a part of one.
    pub(crate) fn new(
        volume: VolumeIndex,
        attachment: u64,
        page: u64,
        body: Body,
        done: Promise<Result<(), Error>>,
    ) -> Self {
        let (count, data_pages) = match &body {
            Body::Data(data) | Body::Move { data, .. } => (u64::from(pages_in(data)), pages_in(data)),
            Body::Zeroes(count) | Body::Mark { count, .. } => (*count, 0),
        };
        assert!(count > 0, "an append has no pages");
        Self { volume, attachment, page, count, data_pages, body, done }
    }

    /// It is of a host, not something that is moved.
    pub(crate) fn is_of_host(&self) -> bool {
        match self.body {
            Body::Data(_) | Body::Zeroes(_) => true,
            Body::Move { .. } | Body::Mark { .. } => false,
        }
    }

    fn lane(&self) -> Lane {
        if self.is_of_host() { Lane::Hosts } else { Lane::Urgent }
    }

    /// Pages of data that it takes in a batch.
    pub(crate) fn data_pages(&self) -> u32 {
        self.data_pages
    }

    pub(crate) fn pages(&self) -> Range<u64> {
        self.page..self.page + self.count
    }
}

fn pages_in(data: &Buf) -> u32 {
    assert!(data.len().is_multiple_of(hotset_block::PAGE_BYTES), "{} bytes are appended, not whole pages", data.len());
    u32::try_from(data.len() / hotset_block::PAGE_BYTES).expect("an append fits in a batch")
}

/// A hint: what lies there is on the backing device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CleanedHint {
    pub(crate) row: u64,
    pub(crate) position: u32,
    pub(crate) count: u32,
}

/// See the file's summary. What has its place and is in flight still counts.
#[derive(Default)]
pub(crate) struct Queue {
    hosts: RefCell<VecDeque<Append>>,
    urgent: RefCell<VecDeque<Append>>,
    hints: RefCell<Vec<CleanedHint>>,
    /// Hints are worth a batch of their own.
    hints_wanted: Cell<bool>,
    /// Appends that wait or are in flight.
    appends: Cell<u64>,
    /// Pages of data that wait or are in flight: all, and by [`VolumeIndex`].
    pages: Cell<u64>,
    pages_of: RefCell<Vec<u64>>,
}

impl Queue {
    fn lane(&self, lane: Lane) -> &RefCell<VecDeque<Append>> {
        match lane {
            Lane::Hosts => &self.hosts,
            Lane::Urgent => &self.urgent,
        }
    }

    /// It waits from here on, behind the others.
    pub(crate) fn push(&self, append: Append) {
        let pages = u64::from(append.data_pages());
        self.appends.set(self.appends.get() + 1);
        self.pages.set(self.pages.get() + pages);
        let mut of_volumes = self.pages_of.borrow_mut();
        let place = usize::from(append.volume.0);
        if of_volumes.len() <= place {
            of_volumes.resize(place + 1, 0);
        }
        of_volumes[place] += pages;
        self.lane(append.lane()).borrow_mut().push_back(append);
    }

    /// The first one, if it `fits`; it counts until it has [ended](Self::ended).
    pub(crate) fn take_first(&self, lane: Lane, fits: impl FnOnce(&Append) -> bool) -> Option<Append> {
        self.lane(lane).borrow_mut().pop_front_if(|append| fits(append))
    }

    /// One that was taken waits again, before the others.
    pub(crate) fn put_back(&self, append: Append) {
        let waiting = u64::try_from(self.len()).expect("what waits fits in memory");
        assert!(waiting < self.appends.get(), "an append waits again that does not count: {waiting} wait");
        self.lane(append.lane()).borrow_mut().push_front(append);
    }

    /// One that was taken has taken effect, or will not.
    pub(crate) fn ended(&self, append: &Append) {
        let (appends, before, pages) = (self.appends.get(), self.pages.get(), u64::from(append.data_pages()));
        assert!(appends > 0 && before >= pages, "an append of {pages} pages ends, and {appends} of {before} count");
        self.appends.set(appends - 1);
        self.pages.set(before - pages);
        assert!(appends > 1 || before == pages, "nothing waits, and {} pages count", before - pages);
        let mut of_volumes = self.pages_of.borrow_mut();
        let of_volume = &mut of_volumes[usize::from(append.volume.0)];
        *of_volume = of_volume.checked_sub(pages).expect("what ends was counted to its volume");
    }

    /// All that wait, hosts' first; none of them counts any more.
    pub(crate) fn take_all(&self) -> Vec<Append> {
        let all: Vec<Append> = self.hosts.take().into_iter().chain(self.urgent.take()).collect();
        all.iter().for_each(|append| self.ended(append));
        all
    }

    /// Moves can wait, and what waits for them must not: it comes again when there is room, if it is still dirty then.
    pub(crate) fn cancel_moves(&self) {
        for append in self.urgent.take() {
            self.ended(&append);
            append.done.set(Ok(()));
        }
    }

    pub(crate) fn is_empty(&self, lane: Lane) -> bool {
        self.lane(lane).borrow().is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.hosts.borrow().len() + self.urgent.borrow().len()
    }

    /// The writer has something to write, if there is room.
    pub(crate) fn wants_batch(&self) -> bool {
        self.len() > 0 || self.hints_wanted.get()
    }

    /// Pages of data that wait or are in flight.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.get()
    }

    /// Pages of data of one volume that wait or are in flight.
    pub(crate) fn pages_of(&self, volume: VolumeIndex) -> u64 {
        self.pages_of.borrow().get(usize::from(volume.0)).copied().unwrap_or(0)
    }

    // ---- hints

    /// One that goes on where the last one ends makes that one longer.
    pub(crate) fn push_hint(&self, hint: CleanedHint) {
        let mut hints = self.hints.borrow_mut();
        match hints.last_mut() {
            Some(last) if last.row == hint.row && last.position + last.count == hint.position => {
                last.count += hint.count;
            }
            Some(_) | None => hints.push(hint),
        }
    }

    /// Hints make a batch of their own where there are many. True: they do.
    pub(crate) fn want_many_hints(&self) -> bool {
        let many = self.hints.borrow().len() >= HINTS_ENOUGH;
        self.hints_wanted.set(self.hints_wanted.get() || many);
        many
    }

    /// All hints there are make a batch of their own.
    pub(crate) fn want_hints(&self) {
        self.hints_wanted.set(!self.hints.borrow().is_empty());
    }

    /// They can be lost.
    pub(crate) fn forget_hints_wanted(&self) {
        self.hints_wanted.set(false);
    }

    pub(crate) fn wants_hints(&self) -> bool {
        self.hints_wanted.get()
    }

    /// One of them; with the last one gone no batch is made for them.
    pub(crate) fn take_hint(&self) -> Option<CleanedHint> {
        let hint = self.hints.borrow_mut().pop();
        if hint.is_none() {
            self.hints_wanted.set(false);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use hotset_block::PAGE_BYTES;
    use hotset_block::sync::Promised;
    use proptest::prelude::*;

    use super::*;
    use crate::refused::assert_refused;

    type Wait = Promised<Result<(), Error>>;

    fn append(volume: u16, page: u64, lane: Lane, pages: usize) -> (Append, Wait) {
        let (done, wait) = Promise::new();
        let data = Buf::zeroed(pages * PAGE_BYTES);
        let body = match lane {
            Lane::Hosts => Body::Data(data),
            Lane::Urgent => Body::Move { data, from: Place::new(0, 0), version: 1 },
        };
        (Append::new(VolumeIndex(volume), 1, page, body, done), wait)
    }

    /// Of the model: volume, page, pages.
    type Simple = (u16, u64, u64);

    fn simple(append: &Append) -> Simple {
        (append.volume.0, append.page, u64::from(append.data_pages()))
    }

    proptest! {
        /// Against two lists and a list of what was taken.
        #[test]
        fn what_waits_is_in_order_and_counts_until_it_ends(
            steps in prop::collection::vec((0_u8..9, 0_u16..3, any::<bool>(), 1_usize..3), 1..120),
        ) {
            let queue = Queue::default();
            let mut waiting: [VecDeque<Simple>; 2] = Default::default();
            let mut taken: Vec<(Append, Simple)> = Vec::new();
            let mut waits = Vec::new();
            for ((action, volume, urgent, pages), page) in steps.into_iter().zip(0..) {
                let lane = if urgent { Lane::Urgent } else { Lane::Hosts };
                let line = usize::from(urgent);
                match action {
                    0..=3 => {
                        let (append, wait) = append(volume, page, lane, pages);
                        waiting[line].push_back(simple(&append));
                        waits.push(wait);
                        queue.push(append);
                    }
                    4 | 5 => {
                        let fits = |page: u64| !page.is_multiple_of(5);
                        let first = queue.take_first(lane, |append| fits(append.page));
                        let expected = waiting[line].pop_front_if(|(_, page, _)| fits(*page));
                        prop_assert_eq!(first.as_ref().map(simple), expected);
                        taken.extend(first.map(|append| { let simple = simple(&append); (append, simple) }));
                    }
                    6 => {
                        if let Some((append, simple)) = taken.pop() {
                            waiting[usize::from(!append.is_of_host())].push_front(simple);
                            queue.put_back(append);
                        }
                    }
                    7 => taken.drain(..).for_each(|(append, _)| queue.ended(&append)),
                    _ if urgent => {
                        waiting[1].clear();
                        queue.cancel_moves();
                    }
                    _ => {
                        let all: Vec<Simple> = queue.take_all().iter().map(simple).collect();
                        let expected: Vec<Simple> = waiting.iter_mut().flat_map(std::mem::take).collect();
                        prop_assert_eq!(all, expected);
                    }
                }
                let counted: Vec<Simple> =
                    waiting.iter().flatten().copied().chain(taken.iter().map(|(_, simple)| *simple)).collect();
                prop_assert_eq!(queue.pages(), counted.iter().map(|(_, _, pages)| pages).sum::<u64>());
                for volume in 0..3 {
                    let of_volume = counted.iter().filter(|(of, _, _)| *of == volume);
                    prop_assert_eq!(queue.pages_of(VolumeIndex(volume)), of_volume.map(|(_, _, pages)| pages).sum::<u64>());
                }
                prop_assert_eq!(queue.len(), waiting.iter().map(VecDeque::len).sum::<usize>());
                let empty = [Lane::Hosts, Lane::Urgent].map(|lane| queue.is_empty(lane));
                prop_assert_eq!(empty, [waiting[0].is_empty(), waiting[1].is_empty()]);
                prop_assert_eq!(queue.wants_batch(), queue.len() > 0);
            }
        }
    }

    #[test]
    fn hints_make_a_batch_of_their_own_where_there_are_many_or_all_are_wanted() {
        let queue = Queue::default();
        queue.want_hints();
        assert!(!queue.wants_batch(), "there are none");
        let hint = CleanedHint { row: 1, position: 2, count: 3 };
        for _ in 1..HINTS_ENOUGH {
            queue.push_hint(hint);
            assert!(!queue.want_many_hints() && !queue.wants_batch());
        }
        queue.push_hint(hint);
        assert!(queue.want_many_hints() && queue.wants_batch());
        for _ in 0..HINTS_ENOUGH {
            assert_eq!(queue.take_hint(), Some(hint));
            assert!(queue.wants_hints());
        }
        assert_eq!((queue.take_hint(), queue.wants_hints()), (None, false));
    }
    #[test]
    #[should_panic(expected = "an append of 1 pages ends, and 0 of 0 count")]
    fn an_append_ends_once() {
        let queue = Queue::default();
        let (append, _wait) = append(0, 0, Lane::Hosts, 1);
        queue.push(append);
        let append = queue.take_first(Lane::Hosts, |_| true).expect("it waits");
        queue.ended(&append);
        queue.ended(&append);
    }

    #[test]
    #[should_panic(expected = "nothing waits, and 1 pages count")]
    fn nothing_counts_when_nothing_waits() {
        let queue = Queue::default();
        let (larger, _wait) = append(0, 0, Lane::Hosts, 2);
        queue.push(larger);
        let (smaller, _wait) = append(0, 0, Lane::Hosts, 1);
        queue.ended(&smaller);
    }

    #[test]
    #[should_panic(expected = "an append waits again that does not count")]
    fn what_ended_does_not_wait_again() {
        let queue = Queue::default();
        let (one, _wait) = append(1, 0, Lane::Hosts, 1);
        queue.push(one);
        let taken = queue.take_first(Lane::Hosts, |_| true).unwrap();
        queue.ended(&taken);
        queue.put_back(taken);
    }

    #[test]
    fn an_append_has_whole_pages() {
        let of = |body| drop(Append::new(VolumeIndex(0), 1, 0, body, Promise::new().0));
        assert_refused("an append has no pages", || of(Body::Zeroes(0)));
        assert_refused("100 bytes are appended, not whole pages", || of(Body::Data(Buf::zeroed(100))));
    }
}
