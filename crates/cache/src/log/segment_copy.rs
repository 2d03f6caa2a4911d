//! What one of the two copies of a log segment is now.

use std::cell::Cell;

use crate::address::SsdIndex;

/// A copy that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PresentCopy {
    pub(crate) ssd_uuid: u128,
    pub(crate) ssd: SsdIndex,
    pub(crate) segment: u32,
}

/// See the file's summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mirror {
    /// Nobody has one, or nobody knows who: a pool had a single SSD when the row was opened, or what is set aside is known of the
    /// other copy alone.
    Nowhere,
    /// It lies on an SSD that is not here, or cannot be read: it may come back.
    Away {
        ssd_uuid: u128,
        segment: u32,
    },
    There(PresentCopy),
}

/// What happens to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MirrorChange {
    /// A record says that it lies there, and nobody has looked yet.
    Named { ssd_uuid: u128, segment: u32 },
    /// Its SSD is here, under this index, and has it.
    Found(SsdIndex),
    /// Its SSD left, or cannot be read any more.
    Left,
    /// One that was just made takes its place.
    Replaced(PresentCopy),
    /// No record names the one that was just made: it is what it was before.
    Withdrawn(Before),
}

/// The place of one copy: it changes in no other way.
#[derive(Debug)]
pub(crate) struct MirrorCell(Cell<Mirror>);

impl MirrorCell {
    pub(crate) fn new(mirror: Mirror) -> Self {
        Self(Cell::new(mirror))
    }

    pub(crate) fn get(&self) -> Mirror {
        self.0.get()
    }

    /// Answers what it was, for the case that this is withdrawn.
    pub(crate) fn change(&self, change: MirrorChange) -> Before {
        let before = self.0.get();
        if let Some(after) = before.after(change) {
            self.0.set(after);
        }
        Before(before)
    }
}

/// What a copy was before one that was just made took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Before(Mirror);

impl Mirror {
    /// What it is after `change`; `None`: that changes nothing.
    fn after(self, change: MirrorChange) -> Option<Self> {
        match (self, change) {
            (_, MirrorChange::Named { ssd_uuid, segment }) => Some(Self::Away { ssd_uuid, segment }),
            (Self::Away { ssd_uuid, segment }, MirrorChange::Found(ssd))
            | (Self::There(PresentCopy { ssd_uuid, segment, .. }), MirrorChange::Found(ssd)) => {
                Some(Self::There(PresentCopy { ssd_uuid, ssd, segment }))
            }
            (Self::There(PresentCopy { ssd_uuid, segment, .. }), MirrorChange::Left) => {
                Some(Self::Away { ssd_uuid, segment })
            }
            (_, MirrorChange::Replaced(copy)) => Some(Self::There(copy)),
            (_, MirrorChange::Withdrawn(Before(before))) => Some(before),
            (Self::Nowhere, MirrorChange::Found(_) | MirrorChange::Left) | (Self::Away { .. }, MirrorChange::Left) => {
                None
            }
        }
    }

    pub(crate) fn present(self) -> Option<PresentCopy> {
        match self {
            Self::There(copy) => Some(copy),
            Self::Nowhere | Self::Away { .. } => None,
        }
    }

    /// The SSD on which it lies and can be read.
    pub(crate) fn ssd(self) -> Option<SsdIndex> {
        self.present().map(|copy| copy.ssd)
    }

    pub(crate) fn is_there(self) -> bool {
        self.present().is_some()
    }

    pub(crate) fn is_on(self, ssd: SsdIndex) -> bool {
        self.ssd() == Some(ssd)
    }

    /// The SSD on which it lies, wherever that is, and its segment there.
    pub(crate) fn place(self) -> Option<(u128, u32)> {
        match self {
            Self::Nowhere => None,
            Self::Away { ssd_uuid, segment } | Self::There(PresentCopy { ssd_uuid, segment, .. }) => {
                Some((ssd_uuid, segment))
            }
        }
    }

    pub(crate) fn ssd_uuid(self) -> Option<u128> {
        self.place().map(|(ssd_uuid, _)| ssd_uuid)
    }
}

impl Before {
    pub(crate) fn present(self) -> Option<PresentCopy> {
        self.0.present()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: PresentCopy = PresentCopy { ssd_uuid: 7, ssd: SsdIndex(1), segment: 3 };
    const NEW: PresentCopy = PresentCopy { ssd_uuid: 8, ssd: SsdIndex(2), segment: 4 };
    const AWAY: Mirror = Mirror::Away { ssd_uuid: 7, segment: 3 };

    /// What each state becomes, in the order nowhere, away, there.
    fn becomes(change: MirrorChange) -> [Mirror; 3] {
        [Mirror::Nowhere, AWAY, Mirror::There(OLD)].map(|state| {
            let cell = MirrorCell::new(state);
            assert_eq!(cell.change(change), Before(state), "{change:?}");
            cell.get()
        })
    }

    #[test]
    fn in_every_state_every_change_has_its_outcome() {
        let named = Mirror::Away { ssd_uuid: 9, segment: 5 };
        assert_eq!(becomes(MirrorChange::Named { ssd_uuid: 9, segment: 5 }), [named; 3]);
        // It lies where it lay: on an SSD that was opened anew it has another index.
        let found = Mirror::There(PresentCopy { ssd: SsdIndex(6), ..OLD });
        assert_eq!(becomes(MirrorChange::Found(SsdIndex(6))), [Mirror::Nowhere, found, found]);
        assert_eq!(becomes(MirrorChange::Left), [Mirror::Nowhere, AWAY, AWAY]);
        assert_eq!(becomes(MirrorChange::Replaced(NEW)), [Mirror::There(NEW); 3]);
        for before in [Mirror::Nowhere, AWAY, Mirror::There(OLD)] {
            assert_eq!(becomes(MirrorChange::Withdrawn(Before(before))), [before; 3]);
        }
    }

    #[test]
    fn only_what_is_there_can_be_read_and_all_but_nowhere_has_a_place() {
        assert_eq!((Mirror::Nowhere.ssd(), AWAY.ssd(), Mirror::There(OLD).ssd()), (None, None, Some(OLD.ssd)));
        let places = [Mirror::Nowhere, AWAY, Mirror::There(OLD)].map(Mirror::place);
        assert_eq!(places, [None, Some((7, 3)), Some((7, 3))]);
        assert!(Mirror::There(OLD).is_on(OLD.ssd) && !Mirror::There(OLD).is_on(NEW.ssd) && !AWAY.is_on(OLD.ssd));
    }
}
