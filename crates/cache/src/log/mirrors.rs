//! Copies of log segments that are to be made again: how many are left, whether there is room for them, and how far it is.

use std::cell::Cell;

use hotset_block::Instant;
use hotset_block::sync::Event;

/// Whether there is room for copies that are to be made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RebuildSpace {
    /// Each has an SSD with room for it, or none is wanted.
    #[default]
    Enough,
    /// No SSD has room for one of them, but new rows would hold all that is dirty, twice: it is moved instead.
    Compact,
    /// No SSD has room for one of them, and new rows would not hold all that is dirty.
    Insufficient,
}

/// Copies that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CopiesWanted {
    /// When the first of them was.
    since: Instant,
    /// At least one: lost, or on an SSD that is to be removed.
    left: usize,
    /// Those of them that are lost.
    lost: usize,
    /// Made since, or not wanted any more.
    done: usize,
    space: RebuildSpace,
}

/// See the file's summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RebuildLife {
    /// Every segment has its two copies, where they may stay.
    #[default]
    Idle,
    Running(CopiesWanted),
    /// Nobody makes copies any more. What is wanted still is known.
    Ended(Option<CopiesWanted>),
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RebuildChange {
    /// So many are wanted now, and so many of them are lost.
    Counted { left: usize, lost: usize, space: RebuildSpace, now: Instant },
    /// The log stops.
    Ended,
}

impl RebuildLife {
    fn wanted(self) -> Option<CopiesWanted> {
        match self {
            Self::Idle | Self::Ended(None) => None,
            Self::Running(wanted) | Self::Ended(Some(wanted)) => Some(wanted),
        }
    }

    fn after(self, change: RebuildChange) -> Self {
        let (left, lost, space, now) = match change {
            RebuildChange::Counted { left, lost, space, now } => (left, lost, space, now),
            RebuildChange::Ended => return Self::Ended(self.wanted()),
        };
        assert!(lost <= left, "{lost} copies are lost of {left} that are wanted");
        assert!(left > 0 || space == RebuildSpace::Enough, "no copy is wanted, and has no place: {space:?}");
        let before = self.wanted();
        let done = before.map_or(0, |before| before.done + before.left.saturating_sub(left));
        let since = before.map_or(now, |before| before.since);
        let wanted = (left > 0).then_some(CopiesWanted { since, left, lost, done, space });
        match (self, wanted) {
            (Self::Idle | Self::Running(_), None) => Self::Idle,
            (Self::Idle | Self::Running(_), Some(wanted)) => Self::Running(wanted),
            (Self::Ended(_), wanted) => Self::Ended(wanted),
        }
    }
}

/// See the file's summary.
#[derive(Default)]
pub(crate) struct Mirrors {
    rebuild: Cell<RebuildLife>,
    /// There may be something to copy.
    pub(crate) wanted: Event,
}

impl Mirrors {
    fn copies(&self) -> Option<CopiesWanted> {
        self.rebuild.get().wanted()
    }

    fn change(&self, change: RebuildChange) {
        self.rebuild.set(self.rebuild.get().after(change));
    }

    pub(crate) fn space(&self) -> RebuildSpace {
        self.copies().map_or(RebuildSpace::Enough, |copies| copies.space)
    }

    pub(crate) fn left(&self) -> usize {
        self.copies().map_or(0, |copies| copies.left)
    }

    /// Whether any page has one copy only.
    pub(crate) fn any_lost(&self) -> bool {
        self.copies().is_some_and(|copies| copies.lost > 0)
    }

    /// So many copies are to be made, so many of them are lost, and there is room for them or not. True: about the room, another
    /// thing was known before.
    pub(crate) fn counted(&self, left: usize, lost: usize, space: RebuildSpace, now: Instant) -> bool {
        let before = self.space();
        self.change(RebuildChange::Counted { left, lost, space, now });
        self.space() != before
    }

    /// Copies that are made or not wanted any more, and since when; `None` while none is wanted.
    pub(crate) fn progress(&self) -> Option<(usize, Instant)> {
        self.copies().map(|copies| (copies.done, copies.since))
    }

    /// Nobody makes copies any more.
    pub(crate) fn end(&self) {
        self.change(RebuildChange::Ended);
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.rebuild.get(), RebuildLife::Ended(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RebuildSpace::{Compact, Enough, Insufficient};

    const NOW: Instant = Instant(70);
    const WANTED: CopiesWanted = CopiesWanted { since: Instant(3), left: 5, lost: 2, done: 4, space: Compact };
    const STATES: [RebuildLife; 4] =
        [RebuildLife::Idle, RebuildLife::Running(WANTED), RebuildLife::Ended(None), RebuildLife::Ended(Some(WANTED))];

    fn after_count(left: usize, lost: usize, space: RebuildSpace) -> [RebuildLife; 4] {
        STATES.map(|state| state.after(RebuildChange::Counted { left, lost, space, now: NOW }))
    }

    #[test]
    fn in_every_state_every_change_has_its_outcome() {
        use RebuildLife::{Ended, Idle, Running};
        assert_eq!(after_count(0, 0, Enough), [Idle, Idle, Ended(None), Ended(None)]);
        let new = |left, lost, space| CopiesWanted { since: NOW, left, lost, done: 0, space };
        let on = |left, lost, done, space| CopiesWanted { since: WANTED.since, left, lost, done, space };
        let all = |new, on| [Running(new), Running(on), Ended(Some(new)), Ended(Some(on))];
        // Fewer: some are done; more: none are undone.
        assert_eq!(after_count(3, 0, Enough), all(new(3, 0, Enough), on(3, 0, 6, Enough)));
        assert_eq!(after_count(5, 5, Compact), all(new(5, 5, Compact), on(5, 5, 4, Compact)));
        assert_eq!(after_count(9, 2, Insufficient), all(new(9, 2, Insufficient), on(9, 2, 4, Insufficient)));
        let ended = STATES.map(|state| state.after(RebuildChange::Ended));
        assert_eq!(ended, [Ended(None), Ended(Some(WANTED)), Ended(None), Ended(Some(WANTED))]);
    }

    #[test]
    fn what_is_told_is_of_the_copies_that_are_wanted() {
        let mirrors = Mirrors::default();
        let told = || (mirrors.left(), mirrors.any_lost(), mirrors.space(), mirrors.progress());
        assert_eq!(told(), (0, false, Enough, None));
        assert!(!mirrors.counted(4, 1, Enough, Instant(10)));
        assert!(mirrors.counted(3, 0, Insufficient, Instant(11)) && !mirrors.counted(3, 0, Insufficient, Instant(12)));
        assert_eq!(told(), (3, false, Insufficient, Some((1, Instant(10)))));
        mirrors.end();
        assert!(mirrors.has_ended());
        assert_eq!(told(), (3, false, Insufficient, Some((1, Instant(10)))));
        assert!(mirrors.counted(0, 0, Enough, Instant(13)) && mirrors.has_ended());
        assert_eq!(told(), (0, false, Enough, None));
    }

    #[test]
    #[should_panic(expected = "3 copies are lost of 2 that are wanted")]
    fn more_are_not_lost_than_are_wanted() {
        after_count(2, 3, Enough);
    }

    #[test]
    #[should_panic(expected = "no copy is wanted, and has no place")]
    fn what_is_not_wanted_needs_no_place() {
        after_count(0, 0, Compact);
    }
}
