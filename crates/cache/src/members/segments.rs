//! What each segment of one SSD is used for, and for whom: which row of the write log has it, and which fill has which slot. Segments
//! change between slots and the write log while the pool serves.

use std::collections::BTreeMap;

use crate::address::at;

/// Of the segments behind the index, so many in four may be of the log.
const LOG_QUARTERS_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// The slot index lies here.
    Index,
    Slots,
    /// On its way to the log: so many of its slots are not given up yet.
    Draining(u32),
    /// Ready for the log.
    Free,
    /// Of the log: of the row of this incarnation, once it is known.
    Log(Option<u64>),
}

/// What a write to an SSD is for; where it may lie follows from it (`Layout::allows`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A superblock, or the owner mark.
    Label,
    /// A member record, or what members are to know of each other.
    Record,
    /// A checkpoint of the slot index, or its journal.
    Index,
    /// The slot of this number on the SSD, in part or whole, by the fill with this generation.
    Slot { slot: u32, generation: u32 },
    /// A batch, a header, a summary or a copy of pages of the row of the write log that has this incarnation.
    Log { incarnation: u64 },
}

/// Segments are named by their number on the SSD, the slot index included.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    uses: Vec<Use>,
    slots_per_segment: u32,
    index_segments: u32,
    /// Segments of the log, on their way to it or ready for it.
    log: usize,
    /// Those of them that are ready for it.
    free: usize,
    /// The slots that are being filled, and the generation of each fill: as many as fills that run.
    filling: BTreeMap<u32, u32>,
}

impl Segments {
    /// All segments behind the index are for slots.
    pub(crate) fn new(count: u64, index_segments: u64, slots_per_segment: u64) -> Self {
        let small = |number: u64| u32::try_from(number).expect("slots of an SSD are counted in 32 bits");
        let uses = (0..count).map(|segment| if segment < index_segments { Use::Index } else { Use::Slots }).collect();
        let (slots_per_segment, index_segments) = (small(slots_per_segment), small(index_segments));
        Self { uses, slots_per_segment, index_segments, log: 0, free: 0, filling: BTreeMap::new() }
    }

    fn data_segments(&self) -> usize {
        self.uses.len() - at(self.index_segments)
    }

    /// The most segments that may be of the log.
    pub(crate) fn log_max(&self) -> usize {
        self.data_segments() * LOG_QUARTERS_MAX / 4
    }

    /// Segments of the log, on their way to it or ready for it.
    pub(crate) fn log_count(&self) -> usize {
        self.log
    }

    pub(crate) fn of(&self, local_slot: u32) -> u32 {
        self.index_segments + local_slot / self.slots_per_segment
    }

    /// The slots of a segment.
    pub(crate) fn slots(&self, segment: u32) -> std::ops::Range<u32> {
        let first = (segment - self.index_segments) * self.slots_per_segment;
        first..first + self.slots_per_segment
    }

    pub(crate) fn is_for_slots(&self, segment: u32) -> bool {
        self.uses[at(segment)] == Use::Slots
    }

    /// A slot that nothing uses is given to the fill with this generation.
    pub(crate) fn begin_fill(&mut self, local_slot: u32, generation: u32) {
        assert!(self.is_for_slots(self.of(local_slot)), "slot {local_slot} is filled, and is not for fills any more");
        let other = self.filling.insert(local_slot, generation);
        assert_eq!(other, None, "slot {local_slot} is given to a fill while another one has it");
    }

    /// Nothing more is written to the slot by the fill with this generation.
    pub(crate) fn end_fill(&mut self, local_slot: u32, generation: u32) {
        let ended = self.filling.remove(&local_slot);
        assert_eq!(ended, Some(generation), "slot {local_slot} is not what the fill that ends has");
    }

    /// The fill with this generation may write to the slot: no other one has it.
    pub(crate) fn is_being_filled(&self, local_slot: u32, generation: u32) -> bool {
        self.filling.get(&local_slot) == Some(&generation)
    }

    /// The segments that are for slots now.
    pub(crate) fn for_slots(&self) -> impl Iterator<Item = u32> {
        let numbered = (0_u32..).zip(&self.uses);
        numbered.filter(|(_, used)| **used == Use::Slots).map(|(segment, _)| segment)
    }

    /// A segment of slots shall be of the log. Each of its slots is given up by [`Segments::release_slot`].
    pub(crate) fn claim(&mut self, segment: u32) {
        assert!(self.is_for_slots(segment), "segment {segment} is not for slots");
        let slots = self.slots(segment);
        assert!(self.filling.range(slots).next().is_none(), "segment {segment} is claimed while a fill writes to it");
        self.uses[at(segment)] = Use::Draining(self.slots_per_segment);
        self.log += 1;
        self.assert_counted();
    }

    /// Nothing uses this slot any more. False: it belongs to a segment of slots and may be filled.
    pub(crate) fn release_slot(&mut self, local_slot: u32) -> bool {
        let segment = at(self.of(local_slot));
        match self.uses[segment] {
            Use::Slots => false,
            Use::Draining(left) => {
                self.uses[segment] = if left == 1 { Use::Free } else { Use::Draining(left - 1) };
                self.free += usize::from(left == 1);
                true
            }
            Use::Index | Use::Free | Use::Log(_) => {
                panic!("slot {local_slot} is freed, and its segment {segment} is not for slots")
            }
        }
    }

    /// A segment that is ready for the log is of the log.
    pub(crate) fn take_free(&mut self) -> Option<u32> {
        let found = self.uses.iter().position(|used| *used == Use::Free)?;
        self.uses[found] = Use::Log(None);
        self.free -= 1;
        self.assert_counted();
        Some(u32::try_from(found).expect("segments are counted in 32 bits"))
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.uses.iter().any(|used| matches!(used, Use::Draining(_)))
    }

    /// A segment that was taken is of the row with this incarnation, which was not known before.
    pub(crate) fn give_to_row(&mut self, segment: u32, incarnation: u64) {
        let used = &mut self.uses[at(segment)];
        assert_eq!(*used, Use::Log(None), "segment {segment} is given to a row, and is not free for one");
        *used = Use::Log(Some(incarnation));
    }

    /// At a start: the row with this incarnation lies here. False: it cannot.
    pub(crate) fn set_log(&mut self, segment: u32, incarnation: u64) -> bool {
        let place = self.uses.get_mut(at(segment));
        match place {
            Some(used @ Use::Slots) => {
                *used = Use::Log(Some(incarnation));
                self.log += 1;
                true
            }
            Some(Use::Index | Use::Draining(_) | Use::Free | Use::Log(_)) | None => false,
        }
    }

    /// A row lies here, or something that is kept for one that is set aside.
    pub(crate) fn is_of_log(&self, segment: u32) -> bool {
        matches!(self.uses.get(at(segment)), Some(Use::Log(_)))
    }

    /// The row with this incarnation has the segment.
    pub(crate) fn is_of_row(&self, segment: u32, incarnation: u64) -> bool {
        self.uses.get(at(segment)) == Some(&Use::Log(Some(incarnation)))
    }

    /// A segment of the log, that the row with this incarnation had, is ready for the next one. `None`: it was not given to any.
    pub(crate) fn set_free(&mut self, segment: u32, incarnation: Option<u64>) {
        let used = self.uses[at(segment)];
        assert_eq!(used, Use::Log(incarnation), "segment {segment} is freed by a row that does not have it");
        self.uses[at(segment)] = Use::Free;
        self.free += 1;
        self.assert_counted();
    }

    /// A segment that the log does not need is for slots again.
    pub(crate) fn return_free(&mut self) -> Option<u32> {
        let found = self.uses.iter().position(|used| *used == Use::Free)?;
        self.uses[found] = Use::Slots;
        self.free -= 1;
        self.log -= 1;
        self.assert_counted();
        Some(u32::try_from(found).expect("segments are counted in 32 bits"))
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free
    }

    /// What is counted is what there is: by these counts the log knows how much room it has.
    fn assert_counted(&self) {
        let count = |is_it: fn(&Use) -> bool| self.uses.iter().filter(|used| is_it(used)).count();
        let free = count(|used| *used == Use::Free);
        let log = free + count(|used| matches!(used, Use::Draining(_) | Use::Log(_)));
        assert_eq!((self.free, self.log), (free, log), "segments of the log, and free ones of them, are counted wrong");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_goes_to_the_log_when_its_last_slot_is_given_up_and_comes_back() {
        let mut segments = Segments::new(10, 2, 3);
        assert_eq!((segments.log_max(), segments.log_count()), (6, 0));
        assert_eq!((segments.of(0), segments.of(5)), (2, 3));
        segments.claim(3);
        assert_eq!(segments.slots(3), 3..6);
        assert!(!segments.release_slot(0), "its segment is for slots");
        assert!(segments.release_slot(3) && segments.release_slot(5) && segments.take_free().is_none());
        assert_eq!((segments.log_count(), segments.free_count()), (1, 0));
        assert!(segments.release_slot(4));
        assert_eq!((segments.log_count(), segments.free_count()), (1, 1));
        assert_eq!(segments.take_free(), Some(3));
        assert_eq!((segments.log_count(), segments.free_count()), (1, 0));
        assert!(segments.set_log(4, 8) && !segments.set_log(4, 8));
        assert_eq!(segments.log_count(), 2);
        segments.give_to_row(3, 7);
        assert!(segments.is_of_row(3, 7) && segments.is_of_row(4, 8) && !segments.is_of_row(3, 8));
        segments.set_free(3, Some(7));
        assert!(!segments.is_of_row(3, 7));
        assert_eq!(segments.return_free(), Some(3));
        assert!(segments.is_for_slots(3));
        assert_eq!((segments.log_count(), segments.free_count()), (1, 0));
    }
    #[test]
    fn a_fill_has_its_slot_alone_until_it_ends() {
        let mut segments = Segments::new(10, 2, 3);
        segments.begin_fill(4, 70);
        assert!(
            segments.is_being_filled(4, 70) && !segments.is_being_filled(4, 71) && !segments.is_being_filled(5, 70)
        );
        segments.end_fill(4, 70);
        assert!(!segments.is_being_filled(4, 70));
        segments.begin_fill(4, 71);
    }

    #[test]
    #[should_panic(expected = "is given to a fill while another one has it")]
    fn a_slot_is_not_given_to_two_fills() {
        let mut segments = Segments::new(10, 2, 3);
        segments.begin_fill(4, 70);
        segments.begin_fill(4, 71);
    }

    #[test]
    #[should_panic(expected = "is not what the fill that ends has")]
    fn a_fill_does_not_end_another_one() {
        let mut segments = Segments::new(10, 2, 3);
        segments.begin_fill(4, 71);
        segments.end_fill(4, 70);
    }

    #[test]
    #[should_panic(expected = "is claimed while a fill writes to it")]
    fn a_segment_is_not_claimed_under_a_fill() {
        let mut segments = Segments::new(10, 2, 3);
        segments.begin_fill(4, 70);
        segments.claim(3);
    }

    #[test]
    #[should_panic(expected = "is not for fills any more")]
    fn a_slot_of_a_claimed_segment_is_not_filled() {
        let mut segments = Segments::new(10, 2, 3);
        segments.claim(3);
        segments.begin_fill(4, 70);
    }

    #[test]
    #[should_panic(expected = "its segment 3 is not for slots")]
    fn a_slot_is_not_freed_again_when_the_log_has_its_segment() {
        let mut segments = Segments::new(10, 2, 3);
        segments.claim(3);
        (3..6).for_each(|slot| assert!(segments.release_slot(slot)));
        segments.release_slot(4);
    }

    #[test]
    #[should_panic(expected = "is freed by a row that does not have it")]
    fn a_segment_is_not_freed_by_another_row() {
        let mut segments = Segments::new(10, 2, 3);
        assert!(segments.set_log(4, 8));
        segments.set_free(4, Some(7));
    }

    #[test]
    #[should_panic(expected = "is freed by a row that does not have it")]
    fn a_segment_is_not_freed_twice() {
        let mut segments = Segments::new(10, 2, 3);
        assert!(segments.set_log(4, 8));
        segments.set_free(4, Some(8));
        segments.set_free(4, Some(8));
    }

    #[test]
    #[should_panic(expected = "is given to a row, and is not free for one")]
    fn a_segment_is_not_given_to_two_rows() {
        let mut segments = Segments::new(10, 2, 3);
        assert!(segments.set_log(4, 8));
        segments.give_to_row(4, 9);
    }

    #[test]
    #[should_panic(expected = "are counted wrong")]
    fn a_segment_that_is_counted_wrong_is_noticed_at_the_next_change() {
        let mut segments = Segments::new(10, 2, 3);
        segments.log += 1;
        segments.claim(3);
    }
}
