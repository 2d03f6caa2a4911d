//! The blocks that are being filled, and those that wait for their turn.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use hotset_block::sync::{Event, Wait};
use hotset_block::{Buf, Instant};

use crate::address::{BlockKey, SlotIndex, VolumeIndex};
use crate::clean::page_set::PageSet;
use crate::clean::slots::SlotContent;
use crate::clean::sweep::Sweep;
use crate::config::limits;

/// Fills of a volume that wait for their turn to read: as many as it takes to have the next one ready.
const WAITING_MAX: usize = 2;

/// Blocks that are remembered because no miss could carry their fill.
const NOT_CARRIED_MAX: usize = 64;

/// A block on its way into a slot.
pub(crate) struct Fill {
    pub(super) content: SlotContent,
    pub(super) attachment: u64,
    /// The pages that may still become visible (rule `fill-clean-only`): only ever shrinks.
    pages: Cell<PageSet>,
    /// False: the log has taken its slot, and the block does not come in.
    has_slot: Cell<bool>,
    began: Instant,
    /// No read of it has begun yet.
    waits: Cell<bool>,
    /// A host's miss reads it: its pages are there about as soon as those that the host asked for.
    carried: Cell<bool>,
    /// Pages that a host's miss has read already, with the index of the first.
    offered: RefCell<Vec<(u32, Buf)>>,
}

impl Fill {
    /// A block of this attachment comes into a slot, of which these pages may become visible.
    pub(super) fn new(content: SlotContent, attachment: u64, pages: PageSet, began: Instant) -> Self {
        let (waits, carried, offered) = (Cell::new(true), Cell::new(false), RefCell::default());
        let (pages, has_slot) = (Cell::new(pages), Cell::new(true));
        Self { content, attachment, pages, has_slot, began, waits, carried, offered }
    }

    pub(crate) fn key(&self) -> BlockKey {
        self.content.key
    }

    /// What may still become visible.
    pub(crate) fn pages(&self) -> PageSet {
        self.pages.get()
    }

    /// Its slot is its own. If not, it may by now be another SSD's.
    pub(super) fn has_slot(&self) -> bool {
        self.has_slot.get()
    }

    /// A host's miss reads it from now on: it waits for no turn.
    pub(crate) fn carry(&self) {
        self.waits.set(false);
        self.carried.set(true);
    }

    /// A host's miss has read these pages, from this one on: they are not read again.
    pub(crate) fn offer(&self, first_page: u32, pages: Buf) {
        self.offered.borrow_mut().push((first_page, pages));
    }

    pub(crate) fn take_offered(&self) -> Vec<(u32, Buf)> {
        self.offered.take()
    }

    /// These pages are written, discarded, or could not be read: they stay out.
    pub(crate) fn exclude(&self, pages: &Range<u32>) {
        let mut left = self.pages.get();
        left.remove(pages);
        self.pages.set(left);
    }

    /// Its backing device takes so long, for it or for those whose turn it waits for, that others do not wait for it.
    fn is_stalled(&self, now: Instant) -> bool {
        now.since(self.began) > limits::BACKING_TIMEOUT
    }
}

/// What happened to a request for a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Queued,
    /// It runs, or waits, already.
    Known,
    /// There is no room in the queue: the next access may ask again.
    Refused,
}

#[derive(Default)]
pub(crate) struct Fills {
    running: RefCell<BTreeMap<BlockKey, Rc<Fill>>>,
    queue: RefCell<Sweep>,
    /// The last blocks that could not be read as a whole with a miss, oldest first.
    not_carried: RefCell<VecDeque<BlockKey>>,
    ended: Event,
    pump_wanted: Event,
}

impl Fills {
    /// Completes when a fill has ended, or will not be.
    pub(crate) fn ended(&self) -> Wait<'_> {
        self.ended.wait()
    }

    /// Those that wait may be able to start now: there is more room, or the pool is different.
    pub(crate) fn wake_pump(&self) {
        self.pump_wanted.wake_all();
    }

    /// Completes when those that wait may be able to start.
    pub(crate) fn pump_wanted(&self) -> Wait<'_> {
        self.pump_wanted.wait()
    }

    /// A fill has its turn to read: another one of its volume may queue up for the next.
    pub(crate) fn begins_to_read(&self, fill: &Fill) {
        if fill.waits.replace(false) {
            self.wake_pump();
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.borrow().len()
    }

    pub(crate) fn is_running(&self, key: BlockKey) -> bool {
        !self.running.borrow().is_empty() && self.running.borrow().contains_key(&key)
    }

    pub(super) fn is_running_for(&self, volume: VolumeIndex) -> bool {
        self.running.borrow().keys().any(|key| key.volume == volume)
    }

    /// A host's miss reads this block, and it does not take long.
    pub(crate) fn is_carried(&self, key: BlockKey) -> bool {
        self.running.borrow().get(&key).is_some_and(|fill| fill.carried.get())
            && !self.not_carried.borrow().contains(&key)
    }

    /// Whether a miss may carry the fill of this block, if there are no more than so many carried at once.
    pub(crate) fn may_carry(&self, key: BlockKey, at_once: usize) -> bool {
        let carried = self.running.borrow().values().filter(|fill| fill.carried.get()).count();
        carried < at_once && !self.not_carried.borrow().contains(&key)
    }

    /// A miss could not read this block as a whole, or not soon: those that come read their own pages, and the pump tries by
    /// itself.
    pub(crate) fn remember_not_carried(&self, key: BlockKey) {
        let mut blocks = self.not_carried.borrow_mut();
        if blocks.contains(&key) {
            return;
        }
        if blocks.len() == NOT_CARRIED_MAX {
            blocks.pop_front();
        }
        blocks.push_back(key);
    }

    /// Fills of a volume that run.
    pub(super) fn running_for(&self, volume: VolumeIndex) -> u32 {
        let count = self.running.borrow().keys().filter(|key| key.volume == volume).count();
        u32::try_from(count).expect("fewer than 2^32 fills run at once")
    }

    pub(crate) fn is_known(&self, key: BlockKey) -> bool {
        self.is_running(key) || self.queue.borrow().contains(key)
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().len()
    }

    /// Asks for a block to be filled when its turn comes.
    pub(crate) fn request(&self, key: BlockKey) -> Request {
        if self.is_known(key) {
            return Request::Known;
        }
        if self.queued() >= limits::FILL_QUEUE_MAX {
            return Request::Refused;
        }
        self.queue.borrow_mut().insert(key);
        self.wake_pump();
        Request::Queued
    }

    /// Whether so many fills at once leave room for one more. Those that misses carry do not count. Those of a volume that is
    /// stalled do not either, so that the others go on; but they have their memory still, and are not replaced for ever.
    pub(crate) fn leave_room(&self, at_once: usize, now: Instant) -> bool {
        let running = self.running.borrow();
        let own = || running.values().filter(|fill| !fill.carried.get());
        let count = own().count();
        if count < at_once {
            return true;
        }
        let stalled: BTreeSet<VolumeIndex> =
            own().filter(|fill| fill.is_stalled(now)).map(|fill| fill.key().volume).collect();
        let answered = own().filter(|fill| !stalled.contains(&fill.key().volume)).count();
        answered < at_once && count < at_once * limits::STUCK_FILLS
    }

    /// The next block to be filled, of the volumes of which another fill may begin: the later it is chosen, the more of
    /// its neighbours are known. Volumes do not wait for one another's backing device.
    pub(crate) fn next_queued(&self, now: Instant) -> Option<BlockKey> {
        self.queue.borrow_mut().take_next(|volume| self.may_begin(volume, now))
    }

    /// Whether one more fill of the volume may begin: few wait for their turn, and none is stalled.
    pub(crate) fn may_begin(&self, volume: VolumeIndex, now: Instant) -> bool {
        let running = self.running.borrow();
        let own = || running.values().filter(|fill| fill.key().volume == volume);
        own().filter(|fill| fill.waits.get()).count() < WAITING_MAX && !own().any(|fill| fill.is_stalled(now))
    }

    pub(super) fn begin(&self, fill: Rc<Fill>) {
        let before = self.running.borrow_mut().insert(fill.key(), fill);
        assert!(before.is_none(), "a block is filled once at a time");
    }

    /// Its block is in the cache, or does not come.
    pub(crate) fn end(&self, fill: &Fill) {
        let ended = self.running.borrow_mut().remove(&fill.key());
        let is_it = ended.is_some_and(|ended| std::ptr::eq(&*ended, fill));
        assert!(is_it, "a fill ends that does not run");
        self.ended.wake_all();
        self.wake_pump();
    }

    /// The log has taken this slot from the fill that had it, and was to write it.
    pub(super) fn slot_is_taken(&self, slot: SlotIndex) {
        let running = self.running.borrow();
        let fill = running.values().find(|fill| fill.has_slot() && fill.content.slot == slot);
        fill.expect("a fill that has a slot runs").has_slot.set(false);
    }

    /// The block that was to be filled next is not: whoever waits for it looks again.
    pub(crate) fn skipped(&self) {
        self.ended.wake_all();
    }

    /// These pages are written or discarded: a fill that runs must not bring them.
    pub(super) fn exclude(&self, key: BlockKey, pages: &Range<u32>) {
        if let Some(fill) = self.running.borrow().get(&key) {
            fill.exclude(pages);
        }
    }

    /// Nothing of this volume may become visible any more.
    pub(super) fn abandon(&self, volume: VolumeIndex) {
        for fill in self.running.borrow().values().filter(|fill| fill.key().volume == volume) {
            fill.pages.set(PageSet::default());
        }
        self.queue.borrow_mut().forget(volume);
        self.ended.wake_all();
    }

    /// Nothing waits any more, and whoever waits for a fill waits for nothing.
    pub(crate) fn forget_queue(&self) {
        self.queue.borrow_mut().clear();
        self.ended.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::BlockIndex;
    use crate::refused::assert_refused;

    /// A fill, the simple way.
    struct NaiveFill {
        fill: Rc<Fill>,
        pages: [bool; 16],
        waits: bool,
        carried: bool,
    }

    fn pages_of(fill: &Fill) -> [bool; 16] {
        let mut pages = [false; 16];
        for page in fill.pages().runs().flatten() {
            pages[crate::address::at(page)] = true;
        }
        pages
    }

    proptest! {
        /// Against a map of fills that run and a set of blocks that wait.
        #[test]
        fn fills_equal_a_map_of_what_runs_and_a_set_of_what_waits(
            steps in prop::collection::vec((0_u8..9, 0_u16..2, 0_u32..4, 0_u32..16), 1..150),
        ) {
            let (fills, now) = (Fills::default(), Instant::default());
            let mut running: BTreeMap<BlockKey, NaiveFill> = BTreeMap::new();
            let mut queue: BTreeSet<BlockKey> = BTreeSet::new();
            for (action, volume, block, page) in steps {
                let key = key(volume, block);
                match action {
                    0 | 1 => {
                        let known = running.contains_key(&key) || queue.contains(&key);
                        let expected = if known { Request::Known } else { Request::Queued };
                        prop_assert_eq!(fills.request(key), expected);
                        if !known {
                            queue.insert(key);
                        }
                    }
                    2 => {
                        let waits = |volume| running.values().filter(|fill| fill.fill.key().volume == volume && fill.waits).count();
                        let may_begin = |key: &&BlockKey| waits(key.volume) < WAITING_MAX;
                        let some = queue.iter().any(|key| may_begin(&key));
                        let next = fills.next_queued(now);
                        prop_assert_eq!(next.is_some(), some);
                        if let Some(next) = next {
                            prop_assert!(may_begin(&&next) && queue.remove(&next));
                            let mut pages = PageSet::default();
                            pages.insert(&(0..16));
                            let content = SlotContent { slot: SlotIndex(block), key: next, generation: 1 };
                            let fill = Rc::new(Fill::new(content, 1, pages, now));
                            fills.begin(Rc::clone(&fill));
                            running.insert(next, NaiveFill { fill, pages: [true; 16], waits: true, carried: false });
                        }
                    }
                    3 => {
                        if let Some(naive) = running.remove(&key) {
                            fills.end(&naive.fill);
                        }
                    }
                    4 => {
                        fills.exclude(key, &(page..16));
                        if let Some(naive) = running.get_mut(&key) {
                            naive.pages[crate::address::at(page)..].fill(false);
                        }
                    }
                    5 => {
                        if let Some(naive) = running.get_mut(&key) {
                            fills.begins_to_read(&naive.fill);
                            naive.waits = false;
                        }
                    }
                    6 => {
                        if let Some(naive) = running.get_mut(&key) {
                            naive.fill.carry();
                            (naive.waits, naive.carried) = (false, true);
                        }
                    }
                    7 if page == 0 => {
                        fills.abandon(key.volume);
                        queue.retain(|other| other.volume != key.volume);
                        let of_volume = running.values_mut().filter(|naive| naive.fill.key().volume == key.volume);
                        of_volume.for_each(|naive| naive.pages = [false; 16]);
                    }
                    8 if page == 0 => {
                        fills.forget_queue();
                        queue.clear();
                    }
                    _ => {}
                }
                prop_assert_eq!((fills.running(), fills.queued()), (running.len(), queue.len()));
                let own = running.values().filter(|naive| !naive.carried).count();
                prop_assert!((1..9).all(|at_once| fills.leave_room(at_once, now) == (own < at_once)));
                for volume in [0, 1].map(VolumeIndex) {
                    let of_volume = || running.values().filter(|naive| naive.fill.key().volume == volume);
                    prop_assert_eq!(fills.is_running_for(volume), of_volume().next().is_some());
                    prop_assert_eq!(crate::address::at(fills.running_for(volume)), of_volume().count());
                }
                for key in (0..2).flat_map(|volume| (0..4).map(move |block| super::tests::key(volume, block))) {
                    let naive = running.get(&key);
                    prop_assert_eq!(fills.is_running(key), naive.is_some());
                    prop_assert_eq!(fills.is_known(key), naive.is_some() || queue.contains(&key));
                    prop_assert_eq!(fills.is_carried(key), naive.is_some_and(|naive| naive.carried));
                    prop_assert!(naive.is_none_or(|naive| pages_of(&naive.fill) == naive.pages));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a block is filled once at a time")]
    fn a_block_is_not_filled_twice_at_once() {
        let fills = Fills::default();
        begin(&fills, key(1, 1), Instant::default());
        begin(&fills, key(1, 1), Instant::default());
    }

    #[test]
    #[should_panic(expected = "a fill ends that does not run")]
    fn a_fill_ends_once() {
        let fills = Fills::default();
        let fill = begin(&fills, key(1, 1), Instant::default());
        fills.end(&fill);
        fills.end(&fill);
    }

    #[test]
    #[should_panic(expected = "a fill ends that does not run")]
    fn a_fill_does_not_end_another_one_of_its_block() {
        let fills = Fills::default();
        let former = begin(&fills, key(1, 1), Instant::default());
        fills.end(&former);
        begin(&fills, key(1, 1), Instant::default());
        fills.end(&former);
    }

    fn key(volume: u16, block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(volume), block: BlockIndex(block) }
    }

    fn begin(fills: &Fills, key: BlockKey, began: Instant) -> Rc<Fill> {
        let content = SlotContent { slot: SlotIndex(0), key, generation: 1 };
        let fill = Rc::new(Fill::new(content, 1, PageSet::default(), began));
        fills.begin(Rc::clone(&fill));
        fill
    }

    #[test]
    fn few_fills_of_a_volume_wait_for_their_turn_and_none_of_another_volume_waits_for_them() {
        let (fills, now) = (Fills::default(), Instant::default());
        for wanted in [key(1, 1), key(1, 2), key(1, 3), key(1, 9), key(2, 1)] {
            fills.request(wanted);
        }
        let first = begin(&fills, fills.next_queued(now).expect("five wait"), now);
        assert_eq!(fills.next_queued(now), Some(key(2, 1)));
        begin(&fills, fills.next_queued(now).expect("three wait"), now);
        assert_eq!(fills.next_queued(now), None, "two of the volume wait already");
        first.waits.set(false);
        fills.request(key(1, 4));
        assert_eq!(fills.next_queued(now), Some(key(1, 3)));
        assert_eq!(
            fills.next_queued(now),
            Some(key(1, 4)),
            "chosen as late as that, it comes before one that waits longer"
        );
    }

    #[test]
    fn fills_that_misses_carry_take_no_place_of_others_and_have_a_limit_of_their_own() {
        let (fills, now) = (Fills::default(), Instant::default());
        for block in 0..3 {
            begin(&fills, key(1, block), now).carry();
        }
        assert!(fills.leave_room(1, now) && fills.may_begin(VolumeIndex(1), now), "none of them waits for a turn");
        assert!(fills.may_carry(key(1, 9), 4) && !fills.may_carry(key(1, 9), 3));
        assert!(fills.is_carried(key(1, 0)) && !fills.is_carried(key(1, 9)));
        begin(&fills, key(1, 3), now);
        assert!(!fills.leave_room(1, now) && !fills.is_carried(key(1, 3)));
    }

    #[test]
    fn a_block_that_could_not_be_read_with_a_miss_is_remembered_until_many_others_could_not() {
        let fills = Fills::default();
        fills.remember_not_carried(key(1, 0));
        assert!(!fills.may_carry(key(1, 0), 1) && fills.may_carry(key(1, 1), 1) && fills.may_carry(key(2, 0), 1));
        (1..65).for_each(|block| fills.remember_not_carried(key(1, block)));
        assert!(fills.may_carry(key(1, 0), 1) && !fills.may_carry(key(1, 1), 1));
    }

    #[test]
    fn fills_whose_backing_device_hangs_leave_their_places_to_other_volumes() {
        let (fills, began) = (Fills::default(), Instant::default());
        let (soon, late) = (began.plus(limits::BACKING_TIMEOUT), began.plus(2 * limits::BACKING_TIMEOUT));
        begin(&fills, key(1, 0), began).waits.set(false);
        begin(&fills, key(1, 1), soon);
        assert!(fills.may_begin(VolumeIndex(1), soon) && !fills.leave_room(2, soon), "it may answer yet");
        assert!(!fills.may_begin(VolumeIndex(1), late) && fills.may_begin(VolumeIndex(2), late));
        assert!(fills.leave_room(1, late), "neither the one that hangs nor the one behind it takes a place");
        begin(&fills, key(2, 0), late);
        begin(&fills, key(2, 1), late);
        assert!(!fills.leave_room(2, late) && fills.leave_room(3, late), "the others are as many as ever");
        (2..8).for_each(|block| drop(begin(&fills, key(1, block), began)));
        assert!(!fills.leave_room(2, late.plus(limits::BACKING_TIMEOUT)), "ten take memory, and that is bounded");
    }

    #[test]
    fn a_fill_learns_that_its_slot_was_taken_and_another_one_does_not() {
        let fills = Fills::default();
        let [lost, kept] = [3, 4].map(|number| {
            let content = SlotContent { slot: SlotIndex(number), key: key(1, number), generation: 7 };
            let fill = Rc::new(Fill::new(content, 1, PageSet::default(), Instant::default()));
            fills.begin(Rc::clone(&fill));
            fill
        });
        fills.slot_is_taken(SlotIndex(3));
        assert!(!lost.has_slot() && kept.has_slot());
        assert_refused("a fill that has a slot runs", || fills.slot_is_taken(SlotIndex(3)));
    }
}
