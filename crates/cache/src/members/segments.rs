//! What each segment of one SSD is used for, and for whom: which row of the write log has it, and which fill has which slot. Segments
//! change between slots and the write log while the pool serves.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use crate::address::at;
use crate::format::layout::{Layout, OWNER_OFFSET, RECORDS_OFFSET, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};

/// Of the segments behind the index, so many in eight are of the log where it is long for its own sake, and so many may be where all of it
/// is needed. See `docs/decisions/0022-log-share.md`.
const LOG_EIGHTHS_USUAL: usize = 6;
const LOG_EIGHTHS_MAX: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// The slot index lies here.
    Index,
    Slots,
    /// On its way to the log: so many of its slots are not released yet.
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

/// Who has a slot to write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filling {
    /// What is in the slot, or is to be, is of the fill with this generation.
    generation: u32,
    stage: FillStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FillStage {
    /// The fill reads its block: nothing is written yet, and the slot can be taken from it.
    Reads,
    /// The fill writes its block.
    Writes,
    /// So many single pages are written, to places where the slot has none.
    Pages(u32),
}

/// Segments are named by their number on the SSD, the slot index included.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    uses: RefCell<Vec<Use>>,
    slots_per_segment: u32,
    index_segments: u32,
    /// Segments of the log, on their way to it or ready for it.
    log: Cell<usize>,
    /// Those of them that are ready for it.
    free: Cell<usize>,
    /// The slots that are written to, or are to be: no more than fills that run, and pages that come back.
    filling: RefCell<BTreeMap<u32, Filling>>,
}

impl Segments {
    /// All segments behind the index are for slots.
    pub(crate) fn new(count: u64, index_segments: u64, slots_per_segment: u64) -> Self {
        let small = |number: u64| u32::try_from(number).expect("slots of an SSD are counted in 32 bits");
        let uses = (0..count).map(|segment| if segment < index_segments { Use::Index } else { Use::Slots }).collect();
        let (slots_per_segment, index_segments) = (small(slots_per_segment), small(index_segments));
        Self {
            uses: RefCell::new(uses),
            slots_per_segment,
            index_segments,
            log: Cell::new(0),
            free: Cell::new(0),
            filling: RefCell::default(),
        }
    }

    fn data_segments(&self) -> usize {
        self.uses.borrow().len() - at(self.index_segments)
    }

    /// Segments of the log beyond which it leaves them to the slots, unless what is dirty needs them.
    pub(crate) fn log_usual(&self) -> usize {
        self.data_segments() * LOG_EIGHTHS_USUAL / 8
    }

    /// The most segments that may be of the log.
    pub(crate) fn log_max(&self) -> usize {
        self.data_segments() * LOG_EIGHTHS_MAX / 8
    }

    /// Segments of the log, on their way to it or ready for it.
    pub(crate) fn log_count(&self) -> usize {
        self.log.get()
    }

    pub(crate) fn of(&self, local_slot: u32) -> u32 {
        self.index_segments + local_slot / self.slots_per_segment
    }

    /// The slots of a segment.
    pub(crate) fn slots(&self, segment: u32) -> Range<u32> {
        assert!(segment >= self.index_segments, "segment {segment} is of the slot index, and is asked for slots");
        let first = (segment - self.index_segments) * self.slots_per_segment;
        first..first + self.slots_per_segment
    }

    pub(crate) fn is_for_slots(&self, segment: u32) -> bool {
        self.uses.borrow()[at(segment)] == Use::Slots
    }

    /// A slot that nothing uses is given to the fill with this generation.
    pub(crate) fn begin_fill(&self, local_slot: u32, generation: u32) {
        assert!(self.is_for_slots(self.of(local_slot)), "slot {local_slot} is filled, and is not for fills any more");
        let filling = Filling { generation, stage: FillStage::Reads };
        let other = self.filling.borrow_mut().insert(local_slot, filling);
        assert_eq!(other, None, "slot {local_slot} is given to a fill while another one has it");
    }

    /// The fill with this generation, which has the slot, has its block and writes it from here on.
    pub(crate) fn begin_fill_write(&self, local_slot: u32, generation: u32) {
        let before = self.filling.borrow_mut().insert(local_slot, Filling { generation, stage: FillStage::Writes });
        let own = Filling { generation, stage: FillStage::Reads };
        assert_eq!(before, Some(own), "slot {local_slot} is not the fill's that begins to write to it");
    }

    /// A page is written to a slot that is in use, beside others of its block.
    pub(crate) fn begin_page_write(&self, local_slot: u32, generation: u32) {
        let mut filling = self.filling.borrow_mut();
        let before = filling.get(&local_slot).copied();
        let writes = match before {
            None => 0,
            Some(Filling { generation: own, stage: FillStage::Pages(writes) }) if own == generation => writes,
            Some(other) => panic!("a page is written to slot {local_slot}, and {other:?} has it"),
        };
        filling.insert(local_slot, Filling { generation, stage: FillStage::Pages(writes + 1) });
    }

    pub(crate) fn end_page_write(&self, local_slot: u32, generation: u32) {
        let mut filling = self.filling.borrow_mut();
        let left = match filling.get_mut(&local_slot) {
            Some(Filling { generation: own, stage: FillStage::Pages(writes) }) if *own == generation => {
                *writes -= 1;
                *writes
            }
            other => panic!("the write of a page to slot {local_slot} ends, and {other:?} has it"),
        };
        if left == 0 {
            filling.remove(&local_slot);
        }
    }

    /// Nothing more is written to the slot by the fill with this generation.
    pub(crate) fn end_fill(&self, local_slot: u32, generation: u32) {
        let ended = self.filling.borrow_mut().remove(&local_slot);
        let own = Filling { generation, stage: FillStage::Writes };
        assert_eq!(ended, Some(own), "slot {local_slot} is not what the fill that ends has");
    }

    /// The fill with this generation may write to the slot, or pages that are beside what it brought: no other one has it, and none
    /// can take it.
    pub(crate) fn is_being_filled(&self, local_slot: u32, generation: u32) -> bool {
        let filling = self.filling.borrow().get(&local_slot).copied();
        filling.is_some_and(|filling| filling.generation == generation && filling.stage != FillStage::Reads)
    }

    /// Some fill writes to a slot.
    pub(crate) fn fills_any(&self) -> bool {
        !self.filling.borrow().is_empty()
    }

    /// A fill has a slot of the segment, or a page is written to one.
    pub(crate) fn is_filling(&self, segment: u32) -> bool {
        self.filling.borrow().range(self.slots(segment)).next().is_some()
    }

    /// Something is written to a slot of the segment now.
    pub(crate) fn is_written(&self, segment: u32) -> bool {
        let filling = self.filling.borrow();
        filling.range(self.slots(segment)).any(|(_, filling)| filling.stage != FillStage::Reads)
    }

    /// Takes the slots of a segment from the fills that have them and still read; answers which these were. The blocks of those do
    /// not come in.
    pub(crate) fn take_from_fills(&self, segment: u32) -> Vec<u32> {
        assert!(!self.is_written(segment), "segment {segment} is taken from what is written to it");
        self.filling.borrow_mut().extract_if(self.slots(segment), |_, _| true).map(|(local, _)| local).collect()
    }

    /// The segments that are for slots now.
    pub(crate) fn for_slots(&self) -> impl Iterator<Item = u32> + use<> {
        let uses = self.uses.borrow();
        let numbered = (0_u32..).zip(uses.iter());
        let found: Vec<u32> = numbered.filter(|(_, used)| **used == Use::Slots).map(|(segment, _)| segment).collect();
        found.into_iter()
    }

    /// A segment of slots shall be of the log. Each of its slots is released by [`Segments::release_slot`].
    pub(crate) fn claim(&self, segment: u32) {
        assert!(self.is_for_slots(segment), "segment {segment} is not for slots");
        assert!(!self.is_filling(segment), "segment {segment} is claimed while a fill writes to it");
        assert!(self.slots_per_segment > 0, "segment {segment} has no slots, and would drain for ever");
        self.uses.borrow_mut()[at(segment)] = Use::Draining(self.slots_per_segment);
        self.log.set(self.log.get() + 1);
        self.assert_counted();
    }

    /// Nothing uses this slot any more. False: it belongs to a segment of slots and may be filled.
    pub(crate) fn release_slot(&self, local_slot: u32) -> bool {
        let segment = at(self.of(local_slot));
        let used = self.uses.borrow()[segment];
        match used {
            Use::Slots => false,
            Use::Draining(left) => {
                let fill = self.filling.borrow().get(&local_slot).copied();
                assert_eq!(fill, None, "slot {local_slot} goes to the log while a fill writes to it");
                self.uses.borrow_mut()[segment] = if left == 1 { Use::Free } else { Use::Draining(left - 1) };
                self.free.set(self.free.get() + usize::from(left == 1));
                true
            }
            Use::Index | Use::Free | Use::Log(_) => {
                panic!("slot {local_slot} is freed, and its segment {segment} is not for slots")
            }
        }
    }

    /// A segment that is ready for the log is of the log.
    pub(crate) fn take_free(&self) -> Option<u32> {
        let found = self.uses.borrow().iter().position(|used| *used == Use::Free)?;
        self.uses.borrow_mut()[found] = Use::Log(None);
        self.free.set(self.free.get() - 1);
        self.assert_counted();
        Some(u32::try_from(found).expect("segments are counted in 32 bits"))
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.uses.borrow().iter().any(|used| matches!(used, Use::Draining(_)))
    }

    /// A segment that was taken is of the row with this incarnation, which was not known before.
    pub(crate) fn give_to_row(&self, segment: u32, incarnation: u64) {
        let mut uses = self.uses.borrow_mut();
        let used = &mut uses[at(segment)];
        assert_eq!(*used, Use::Log(None), "segment {segment} is given to a row, and is not free for one");
        *used = Use::Log(Some(incarnation));
    }

    /// At a start: the row with this incarnation lies here. False: it cannot.
    pub(crate) fn set_log(&self, segment: u32, incarnation: u64) -> bool {
        match self.uses.borrow_mut().get_mut(at(segment)) {
            Some(used @ Use::Slots) => {
                *used = Use::Log(Some(incarnation));
                self.log.set(self.log.get() + 1);
                true
            }
            Some(Use::Index | Use::Draining(_) | Use::Free | Use::Log(_)) | None => false,
        }
    }

    /// The row with this incarnation has the segment.
    pub(crate) fn is_of_row(&self, segment: u32, incarnation: u64) -> bool {
        self.uses.borrow().get(at(segment)) == Some(&Use::Log(Some(incarnation)))
    }

    /// A segment of the log, that the row with this incarnation had, is ready for the next one. `None`: it was not given to any.
    pub(crate) fn set_free(&self, segment: u32, incarnation: Option<u64>) {
        let used = self.uses.borrow()[at(segment)];
        assert_eq!(used, Use::Log(incarnation), "segment {segment} is freed by a row that does not have it");
        self.uses.borrow_mut()[at(segment)] = Use::Free;
        self.free.set(self.free.get() + 1);
        self.assert_counted();
    }

    /// A segment that the log does not need is for slots again.
    pub(crate) fn return_free(&self) -> Option<u32> {
        let found = self.uses.borrow().iter().position(|used| *used == Use::Free)?;
        self.uses.borrow_mut()[found] = Use::Slots;
        self.free.set(self.free.get() - 1);
        self.log.set(self.log.get() - 1);
        self.assert_counted();
        Some(u32::try_from(found).expect("segments are counted in 32 bits"))
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free.get()
    }

    /// What is counted is what there is: by these counts the log knows how much room it has.
    fn assert_counted(&self) {
        let count = |is_it: fn(&Use) -> bool| self.uses.borrow().iter().filter(|used| is_it(used)).count();
        let free = count(|used| *used == Use::Free);
        let log = free + count(|used| matches!(used, Use::Draining(_) | Use::Log(_)));
        assert_eq!(
            (self.free.get(), self.log.get()),
            (free, log),
            "segments of the log, and free ones of them, are counted wrong"
        );
    }
}

impl Layout {
    /// All segments, those behind the index for slots.
    pub(crate) fn segments(&self) -> Segments {
        Segments::new(self.segment_count(), self.index_segments(), self.slots_per_segment())
    }

    /// Whether a write for this purpose may lie here, segments being used as they are now.
    pub(crate) fn allows(&self, purpose: Purpose, range: &Range<u64>, segments: &Segments) -> bool {
        let sector = u64::from(self.sector_bytes);
        let aligned = range.start < range.end && range.start.is_multiple_of(sector) && range.end.is_multiple_of(sector);
        let inside = |place: Range<u64>| place.start <= range.start && range.end <= place.end;
        let placed = match purpose {
            Purpose::Label => {
                let [first, second] = SUPERBLOCK_OFFSETS;
                [first, OWNER_OFFSET, second].iter().any(|start| inside(*start..start + SUPERBLOCK_BYTES))
            }
            Purpose::Record => inside(RECORDS_OFFSET..self.segments_offset()),
            Purpose::Index => inside(self.segments_offset()..self.segments_offset() + self.index_bytes()),
            Purpose::Slot { slot, generation } => {
                let start = self.slot_offset(slot);
                inside(start..start + self.stride()) && segments.is_being_filled(slot, generation)
            }
            Purpose::Log { incarnation } => range.start.checked_sub(self.segments_offset()).is_some_and(|start| {
                let segment = u32::try_from(start / self.segment_bytes).unwrap_or(u32::MAX);
                let start = self.segment_offset(segment);
                inside(start..start + self.segment_bytes) && segments.is_of_row(segment, incarnation)
            }),
        };
        aligned && placed && range.end <= self.ssd_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BlockBytes;
    use crate::format::layout::segment_bytes_for;
    use crate::refused::assert_refused;

    #[test]
    fn a_segment_goes_to_the_log_when_its_last_slot_is_released_and_comes_back() {
        let segments = Segments::new(10, 2, 3);
        assert_eq!((segments.log_usual(), segments.log_max(), segments.log_count()), (6, 7, 0));
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
        let segments = Segments::new(10, 2, 3);
        segments.begin_fill(4, 70);
        assert!(segments.is_filling(3) && !segments.is_written(3) && !segments.is_being_filled(4, 70));
        segments.begin_fill_write(4, 70);
        assert!(segments.is_written(3));
        assert!(
            segments.is_being_filled(4, 70) && !segments.is_being_filled(4, 71) && !segments.is_being_filled(5, 70)
        );
        segments.end_fill(4, 70);
        assert!(!segments.is_being_filled(4, 70));
        segments.begin_fill(4, 71);
    }

    #[test]
    fn a_slot_is_taken_from_a_fill_that_reads_and_from_none_that_writes() {
        let segments = Segments::new(10, 2, 3);
        segments.begin_fill(3, 70);
        segments.begin_fill(5, 71);
        segments.begin_fill(6, 72);
        assert_eq!(segments.take_from_fills(3), [3, 5]);
        assert!(!segments.is_filling(3) && segments.is_filling(4), "a segment has its own slots alone");
        assert_refused("slot 3 is not the fill's that begins to write to it", || segments.begin_fill_write(3, 70));
        segments.begin_fill_write(6, 72);
        assert_refused("slot 6 is not the fill's that begins to write to it", || segments.begin_fill_write(6, 72));
        assert_refused("is taken from what is written to it", || {
            segments.take_from_fills(4);
        });
    }

    #[test]
    fn pages_of_one_block_are_written_beside_each_other_and_beside_no_fill() {
        let segments = Segments::new(10, 2, 3);
        segments.begin_page_write(4, 70);
        segments.begin_page_write(4, 70);
        assert!(segments.is_being_filled(4, 70) && segments.is_filling(3) && segments.fills_any());
        assert_refused("and Filling { generation: 70, stage: Pages(2) } has it", || segments.begin_page_write(4, 71));
        segments.end_page_write(4, 70);
        assert!(segments.is_being_filled(4, 70));
        segments.end_page_write(4, 70);
        assert!(!segments.is_being_filled(4, 70) && !segments.fills_any());
        assert_refused("and None has it", || segments.end_page_write(4, 70));
        segments.begin_fill(4, 71);
        assert_refused("stage: Reads } has it", || segments.begin_page_write(4, 71));
        segments.begin_page_write(5, 70);
        assert_refused("is given to a fill while another one has it", || segments.begin_fill(5, 71));
    }

    #[test]
    #[should_panic(expected = "is given to a fill while another one has it")]
    fn a_slot_is_not_given_to_two_fills() {
        let segments = Segments::new(10, 2, 3);
        segments.begin_fill(4, 70);
        segments.begin_fill(4, 71);
    }

    #[test]
    #[should_panic(expected = "is not what the fill that ends has")]
    fn a_fill_does_not_end_another_one() {
        let segments = Segments::new(10, 2, 3);
        segments.begin_fill(4, 71);
        segments.end_fill(4, 70);
    }

    #[test]
    #[should_panic(expected = "is claimed while a fill writes to it")]
    fn a_segment_is_not_claimed_under_a_fill() {
        let segments = Segments::new(10, 2, 3);
        segments.begin_fill(4, 70);
        segments.claim(3);
    }

    #[test]
    #[should_panic(expected = "is not for fills any more")]
    fn a_slot_of_a_claimed_segment_is_not_filled() {
        let segments = Segments::new(10, 2, 3);
        segments.claim(3);
        segments.begin_fill(4, 70);
    }

    #[test]
    #[should_panic(expected = "its segment 3 is not for slots")]
    fn a_slot_is_not_freed_again_when_the_log_has_its_segment() {
        let segments = Segments::new(10, 2, 3);
        segments.claim(3);
        (3..6).for_each(|slot| assert!(segments.release_slot(slot)));
        segments.release_slot(4);
    }

    #[test]
    #[should_panic(expected = "is freed by a row that does not have it")]
    fn a_segment_is_not_freed_by_another_row() {
        let segments = Segments::new(10, 2, 3);
        assert!(segments.set_log(4, 8));
        segments.set_free(4, Some(7));
    }

    #[test]
    #[should_panic(expected = "is freed by a row that does not have it")]
    fn a_segment_is_not_freed_twice() {
        let segments = Segments::new(10, 2, 3);
        assert!(segments.set_log(4, 8));
        segments.set_free(4, Some(8));
        segments.set_free(4, Some(8));
    }

    #[test]
    #[should_panic(expected = "is given to a row, and is not free for one")]
    fn a_segment_is_not_given_to_two_rows() {
        let segments = Segments::new(10, 2, 3);
        assert!(segments.set_log(4, 8));
        segments.give_to_row(4, 9);
    }

    #[test]
    #[should_panic(expected = "are counted wrong")]
    fn a_segment_that_is_counted_wrong_is_noticed_at_the_next_change() {
        let segments = Segments::new(10, 2, 3);
        segments.log.set(1);
        segments.claim(3);
    }

    #[test]
    fn a_write_lies_where_its_purpose_allows_it_and_nowhere_else() {
        let block_bytes = BlockBytes::new(64 << 10).expect("a power of two");
        let layout = Layout::new(64 << 20, 512, block_bytes, segment_bytes_for(block_bytes, 64 << 20))
            .expect("64 MiB hold such a pool");
        let segments = layout.segments();
        let (of_log, draining) = (
            segments.for_slots().nth(2).expect("the SSD has segments for slots"),
            segments.for_slots().nth(4).expect("the SSD has segments for slots"),
        );
        assert!(segments.set_log(of_log, 7));
        let slot = segments.slots(segments.for_slots().next().expect("the SSD has segments for slots")).start;
        let unused = segments.slots(of_log).start;
        segments.begin_fill(slot, 70);
        segments.claim(draining);
        let at = |start: u64, length: u64| start..start + length;
        let allows = |purpose, range| layout.allows(purpose, &range, &segments);
        let stride = layout.stride();
        let own = Purpose::Slot { slot, generation: 70 };
        assert!(!allows(own, at(layout.slot_offset(slot), stride)), "its block is not there yet");
        segments.begin_fill_write(slot, 70);
        let (records, index) = (RECORDS_OFFSET, layout.segments_offset());
        let log = layout.segment_offset(of_log);
        let good = [
            (Purpose::Label, at(0, SUPERBLOCK_BYTES)),
            (Purpose::Label, at(SUPERBLOCK_OFFSETS[1], SUPERBLOCK_BYTES)),
            (Purpose::Label, at(OWNER_OFFSET, SUPERBLOCK_BYTES)),
            (Purpose::Record, at(records, 4096)),
            (Purpose::Record, at(index - 512, 512)),
            (Purpose::Index, at(index, 512)),
            (Purpose::Index, at(layout.journal_offset() + layout.journal_bytes - 512, 512)),
            (Purpose::Slot { slot, generation: 70 }, at(layout.slot_offset(slot), stride)),
            (Purpose::Log { incarnation: 7 }, at(log, layout.segment_bytes)),
        ];
        for (purpose, range) in &good {
            assert!(allows(*purpose, range.clone()), "{purpose:?} at {range:?}");
            for wrong in [range.start..range.start, range.start + 1..range.end, range.start..range.end - 1] {
                assert!(!allows(*purpose, wrong.clone()), "{purpose:?} at {wrong:?}");
            }
            for (other, place) in good.iter().filter(|(other, _)| other != purpose) {
                assert!(!allows(*purpose, place.clone()), "{purpose:?} where {other:?} may be");
            }
        }
        let (between, beyond) = (at(OWNER_OFFSET + SUPERBLOCK_BYTES, 512), at(layout.ssd_bytes, 4096));
        for purpose in good.map(|(purpose, _)| purpose) {
            assert!(!allows(purpose, between.clone()) && !allows(purpose, beyond.clone()), "{purpose:?}");
        }
        let row = Purpose::Log { incarnation: 7 };
        assert!(!allows(row, at(layout.segment_offset(draining), 4096)), "it is not of the log yet");
        assert!(!allows(Purpose::Log { incarnation: 6 }, at(log, 4096)), "another row had it before");
        let older = Purpose::Slot { slot, generation: 69 };
        assert!(!allows(older, at(layout.slot_offset(slot), stride)), "it was given to another fill");
        let not_given = Purpose::Slot { slot: unused, generation: 70 };
        assert!(!allows(not_given, at(layout.slot_offset(unused), stride)), "no fill has it");
        assert!(!allows(Purpose::Record, index - 512..index + 512), "it ends in the slot index");
    }

    #[test]
    fn no_slot_is_of_the_index_and_none_goes_to_the_log_under_a_fill() {
        let segments = Segments::new(10, 2, 3);
        assert_refused("segment 1 is of the slot index, and is asked for slots", || segments.slots(1));
        segments.claim(3);
        segments.filling.borrow_mut().insert(4, Filling { generation: 70, stage: FillStage::Writes });
        assert_refused("slot 4 goes to the log while a fill writes to it", || segments.release_slot(4));
    }
}
