//! What each segment of one SSD is used for. Segments change between slots and the write log while the pool serves.

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
    Log,
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
    /// The slot of this number on the SSD, in part or whole.
    Slot(u32),
    /// A batch, a header, a summary or a copy of pages of the write log.
    Log,
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
}

impl Segments {
    /// All segments behind the index are for slots.
    pub(crate) fn new(count: u64, index_segments: u64, slots_per_segment: u64) -> Self {
        let small = |number: u64| u32::try_from(number).expect("slots of an SSD are counted in 32 bits");
        let uses = (0..count).map(|segment| if segment < index_segments { Use::Index } else { Use::Slots }).collect();
        let (slots_per_segment, index_segments) = (small(slots_per_segment), small(index_segments));
        Self { uses, slots_per_segment, index_segments, log: 0, free: 0 }
    }

    fn data_segments(&self) -> usize {
        self.uses.len() - crate::address::at(self.index_segments)
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
        self.uses[crate::address::at(segment)] == Use::Slots
    }

    /// It is for slots, or on its way to the log while its last slots are in use.
    pub(crate) fn may_hold_slots(&self, segment: u32) -> bool {
        matches!(self.uses.get(crate::address::at(segment)), Some(Use::Slots | Use::Draining(_)))
    }

    /// The segments that are for slots now.
    pub(crate) fn for_slots(&self) -> impl Iterator<Item = u32> {
        let numbered = (0_u32..).zip(&self.uses);
        numbered.filter(|(_, used)| **used == Use::Slots).map(|(segment, _)| segment)
    }

    /// A segment of slots shall be of the log. Each of its slots is given up by [`Segments::release_slot`].
    pub(crate) fn claim(&mut self, segment: u32) {
        assert!(self.is_for_slots(segment), "segment {segment} is not for slots");
        self.uses[crate::address::at(segment)] = Use::Draining(self.slots_per_segment);
        self.log += 1;
    }

    /// Nothing uses this slot any more. False: it belongs to a segment of slots and may be filled.
    pub(crate) fn release_slot(&mut self, local_slot: u32) -> bool {
        let segment = crate::address::at(self.of(local_slot));
        match self.uses[segment] {
            Use::Slots => false,
            Use::Draining(left) => {
                self.uses[segment] = if left == 1 { Use::Free } else { Use::Draining(left - 1) };
                self.free += usize::from(left == 1);
                true
            }
            Use::Index | Use::Free | Use::Log => panic!("a slot of a segment that is not for slots was in use"),
        }
    }

    /// A segment that is ready for the log is of the log.
    pub(crate) fn take_free(&mut self) -> Option<u32> {
        let found = self.uses.iter().position(|used| *used == Use::Free)?;
        self.uses[found] = Use::Log;
        self.free -= 1;
        Some(u32::try_from(found).expect("segments are counted in 32 bits"))
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.uses.iter().any(|used| matches!(used, Use::Draining(_)))
    }

    /// At a start: a row lies here. False: it cannot.
    pub(crate) fn set_log(&mut self, segment: u32) -> bool {
        let place = self.uses.get_mut(crate::address::at(segment));
        match place {
            Some(used @ Use::Slots) => {
                *used = Use::Log;
                self.log += 1;
                true
            }
            Some(Use::Index | Use::Draining(_) | Use::Free | Use::Log) | None => false,
        }
    }

    /// A row lies here, or something that is kept for one that is set aside.
    pub(crate) fn is_of_log(&self, segment: u32) -> bool {
        self.uses.get(crate::address::at(segment)) == Some(&Use::Log)
    }

    /// A segment of the log is ready for the next row.
    pub(crate) fn set_free(&mut self, segment: u32) {
        assert_eq!(self.uses[crate::address::at(segment)], Use::Log, "segment {segment} is not of the log");
        self.uses[crate::address::at(segment)] = Use::Free;
        self.free += 1;
    }

    /// A segment that the log does not need is for slots again.
    pub(crate) fn return_free(&mut self) -> Option<u32> {
        let found = self.uses.iter().position(|used| *used == Use::Free)?;
        self.uses[found] = Use::Slots;
        self.free -= 1;
        self.log -= 1;
        Some(u32::try_from(found).expect("segments are counted in 32 bits"))
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free
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
        assert!(segments.set_log(4) && !segments.set_log(4));
        assert_eq!(segments.log_count(), 2);
        segments.set_free(3);
        assert_eq!(segments.return_free(), Some(3));
        assert!(segments.is_for_slots(3));
        assert_eq!((segments.log_count(), segments.free_count()), (1, 0));
    }
}
