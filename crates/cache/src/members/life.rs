//! An SSD's life in its pool: one state at a time, and one function that says which state follows.
//!
//! What a state allows is asked by name ([`Life::is_online`], [`Life::may_take_batches`], ...), so that no flow has to know
//! the states.

use hotset_block::Instant;

/// See the file's summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is made ready; no members record names it.
    Joining,
    /// It could not be made ready.
    Refused,
    /// It takes everything and is read.
    Online,
    /// It takes everything and is read, and gets copies of what has lost one.
    Rebuilding,
    /// It is to be removed: what it has goes elsewhere, and it gets nothing new.
    Leaving {
        since: Instant,
        /// Bytes that lay on it when that began.
        bytes: u64,
    },
    /// It does not answer, and nothing could go on without it: what waits for it waits, and it gets nothing new. When it
    /// answers, it is what it was.
    Suspect(Duty),
    /// Out of use though nobody wanted that: it is missed until another one is in its place.
    Failed(Departure),
    /// Out of use because it did not answer while the pool could do without it: when it answers it is taken back.
    Silent(Departure),
    /// Out of use because it takes no writes: what only it has of the log is still read, until it is elsewhere.
    ReadOnly(Departure),
    /// As [`Self::ReadOnly`], and another one is in its place, or it is to be removed.
    ReadOnlyReplaced(Departure),
    /// Out of use, and not missed: it was removed, or another one is in its place.
    Removed(Departure),
}

/// What an SSD was when it fell silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    Online,
    Rebuilding,
    Leaving { since: Instant, bytes: u64 },
}

/// How far an SSD that is out of use has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The members record still names it: whatever it holds may be believed at a start.
    Unrecorded,
    /// A members record without it is durable.
    Recorded,
    /// That is durable, and no slot of it is in use any more.
    Forgotten,
}

/// What may happen to an SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifeChange {
    /// A members record with it is durable, and it has its slots.
    Joined,
    /// It is to have a copy of what has lost one.
    RebuildBegan,
    /// Nothing lacks a copy any more.
    RebuildEnded,
    /// Somebody wants it removed.
    RemovalBegan { since: Instant, bytes: u64 },
    /// Nobody wants it removed any more.
    RemovalCancelled,
    /// It does not answer, and is waited for.
    FellSilent,
    /// It answers again.
    Answered,
    /// Nothing more is asked of it.
    Failed,
    /// It does not answer, and the pool goes on without it.
    LeftSilent,
    /// It took a write or a flush not, or takes none from the beginning.
    RefusedWrites,
    /// It is removed, or another one is in its place.
    Replaced,
    /// A members record without it is durable.
    LeftDurably,
    /// No slot of it is in use any more.
    SlotsForgotten,
}

impl Life {
    /// The state after `change`; `None`: that cannot happen to an SSD in this state, or changes nothing.
    pub(crate) fn after(self, change: LifeChange) -> Option<Self> {
        match (self, change) {
            (Self::Joining, LifeChange::Joined)
            | (Self::Rebuilding, LifeChange::RebuildEnded)
            | (Self::Leaving { .. }, LifeChange::RemovalCancelled) => Some(Self::Online),
            (Self::Online, LifeChange::FellSilent) => Some(Self::Suspect(Duty::Online)),
            (Self::Rebuilding, LifeChange::FellSilent) => Some(Self::Suspect(Duty::Rebuilding)),
            (Self::Leaving { since, bytes }, LifeChange::FellSilent) => {
                Some(Self::Suspect(Duty::Leaving { since, bytes }))
            }
            (Self::Suspect(duty), LifeChange::Answered) => Some(duty.resumed()),
            (Self::Suspect(Duty::Rebuilding), LifeChange::RebuildEnded) => Some(Self::Suspect(Duty::Online)),
            (Self::Suspect(Duty::Online | Duty::Rebuilding), LifeChange::RemovalBegan { since, bytes }) => {
                Some(Self::Suspect(Duty::Leaving { since, bytes }))
            }
            (Self::Suspect(Duty::Leaving { .. }), LifeChange::RemovalCancelled) => Some(Self::Suspect(Duty::Online)),
            (Self::Joining, LifeChange::Failed) => Some(Self::Refused),
            // Only what others miss is read from it: it never had a share of anything.
            (Self::Joining, LifeChange::RefusedWrites) => Some(Self::ReadOnly(Departure::Forgotten)),
            (Self::Online, LifeChange::RebuildBegan) => Some(Self::Rebuilding),
            (Self::Online | Self::Rebuilding, LifeChange::RemovalBegan { since, bytes }) => {
                Some(Self::Leaving { since, bytes })
            }
            (Self::Online | Self::Rebuilding | Self::Leaving { .. } | Self::Suspect(_), change) => {
                change.departs().map(|out_of_use| out_of_use(Departure::Unrecorded))
            }
            (Self::Silent(departure) | Self::ReadOnly(departure), LifeChange::Failed) => Some(Self::Failed(departure)),
            (Self::ReadOnlyReplaced(departure), LifeChange::Failed)
            | (Self::Failed(departure) | Self::Silent(departure), LifeChange::Replaced) => {
                Some(Self::Removed(departure))
            }
            (Self::ReadOnly(departure), LifeChange::Replaced) => Some(Self::ReadOnlyReplaced(departure)),
            (Self::Failed(departure), _) => departure.after(change).map(Self::Failed),
            (Self::Silent(departure), _) => departure.after(change).map(Self::Silent),
            (Self::ReadOnly(departure), _) => departure.after(change).map(Self::ReadOnly),
            (Self::ReadOnlyReplaced(departure), _) => departure.after(change).map(Self::ReadOnlyReplaced),
            (Self::Removed(departure), _) => departure.after(change).map(Self::Removed),
            (Self::Joining | Self::Refused, _) => None,
        }
    }

    /// Operations may be begun on it.
    pub(crate) fn is_online(self) -> bool {
        match self {
            Self::Joining | Self::Online | Self::Rebuilding | Self::Leaving { .. } | Self::Suspect(_) => true,
            Self::Refused
            | Self::Failed(_)
            | Self::Silent(_)
            | Self::ReadOnly(_)
            | Self::ReadOnlyReplaced(_)
            | Self::Removed(_) => false,
        }
    }

    /// It is out of use because it takes no writes, and can be read.
    pub(crate) fn is_read_only(self) -> bool {
        matches!(self, Self::ReadOnly(_) | Self::ReadOnlyReplaced(_))
    }

    /// What it has of the log can be read, or waited for.
    pub(crate) fn is_readable(self) -> bool {
        self.is_online() || self.is_read_only()
    }

    /// It left because it did not answer.
    pub(crate) fn is_silent(self) -> bool {
        matches!(self, Self::Silent(_))
    }

    /// It has been a member of the pool.
    pub(crate) fn has_joined(self) -> bool {
        match self {
            Self::Joining | Self::Refused => false,
            Self::Online
            | Self::Rebuilding
            | Self::Leaving { .. }
            | Self::Suspect(_)
            | Self::Failed(_)
            | Self::Silent(_)
            | Self::ReadOnly(_)
            | Self::ReadOnlyReplaced(_)
            | Self::Removed(_) => true,
        }
    }

    /// It has its share of the log and of the slots, whether it answers or not.
    pub(crate) fn is_serving(self) -> bool {
        self.is_online() && !self.is_leaving()
    }

    /// New batches of the write log, copies and fills may go to it.
    pub(crate) fn may_take_batches(self) -> bool {
        self.is_serving() && !self.is_suspect()
    }

    /// What is on a backing device too is read from it, too.
    pub(crate) fn may_be_read(self) -> bool {
        self.is_online() && !self.is_suspect()
    }

    /// It does not answer, and is waited for.
    pub(crate) fn is_suspect(self) -> bool {
        matches!(self, Self::Suspect(_))
    }

    /// It is to be removed, and is not gone yet.
    pub(crate) fn is_leaving(self) -> bool {
        self.evacuation().is_some()
    }

    /// Since when it is to be removed, and the bytes that lay on it then.
    pub(crate) fn evacuation(self) -> Option<(Instant, u64)> {
        match self {
            Self::Leaving { since, bytes } | Self::Suspect(Duty::Leaving { since, bytes }) => Some((since, bytes)),
            Self::Joining
            | Self::Refused
            | Self::Online
            | Self::Rebuilding
            | Self::Suspect(Duty::Online | Duty::Rebuilding)
            | Self::Failed(_)
            | Self::Silent(_)
            | Self::ReadOnly(_)
            | Self::ReadOnlyReplaced(_)
            | Self::Removed(_) => None,
        }
    }

    pub(crate) fn is_rebuilding(self) -> bool {
        self == Self::Rebuilding
    }

    fn departure(self) -> Option<Departure> {
        match self {
            Self::Failed(departure)
            | Self::Silent(departure)
            | Self::ReadOnly(departure)
            | Self::ReadOnlyReplaced(departure)
            | Self::Removed(departure) => Some(departure),
            Self::Joining
            | Self::Refused
            | Self::Online
            | Self::Rebuilding
            | Self::Leaving { .. }
            | Self::Suspect(_) => None,
        }
    }

    /// A members record without it is durable.
    pub(crate) fn has_left(self) -> bool {
        matches!(self.departure(), Some(Departure::Recorded | Departure::Forgotten))
    }

    /// It left, and no slot of it is in use any more.
    pub(crate) fn is_forgotten(self) -> bool {
        self.departure() == Some(Departure::Forgotten)
    }

    /// It was removed, or another one is in its place.
    pub(crate) fn is_replaced(self) -> bool {
        matches!(self, Self::Removed(_) | Self::ReadOnlyReplaced(_))
    }

    /// It is out of use though nobody wanted that, and nothing is in its place.
    pub(crate) fn is_out_of_use(self) -> bool {
        matches!(self, Self::Failed(_) | Self::Silent(_) | Self::ReadOnly(_))
    }

    /// It left though nobody wanted that, and nothing is in its place.
    pub(crate) fn is_missed(self) -> bool {
        self.has_left() && !self.is_replaced()
    }
}

impl LifeChange {
    /// Out of use in which way, if it is out of use after this.
    fn departs(self) -> Option<fn(Departure) -> Life> {
        match self {
            Self::Failed => Some(Life::Failed),
            Self::LeftSilent => Some(Life::Silent),
            Self::RefusedWrites => Some(Life::ReadOnly),
            Self::Replaced => Some(Life::Removed),
            Self::Joined
            | Self::RebuildBegan
            | Self::RebuildEnded
            | Self::RemovalBegan { .. }
            | Self::RemovalCancelled
            | Self::FellSilent
            | Self::Answered
            | Self::LeftDurably
            | Self::SlotsForgotten => None,
        }
    }
}

impl Duty {
    fn resumed(self) -> Life {
        match self {
            Self::Online => Life::Online,
            Self::Rebuilding => Life::Rebuilding,
            Self::Leaving { since, bytes } => Life::Leaving { since, bytes },
        }
    }
}

impl Departure {
    fn after(self, change: LifeChange) -> Option<Self> {
        match (self, change) {
            (Self::Unrecorded, LifeChange::LeftDurably) => Some(Self::Recorded),
            (Self::Recorded, LifeChange::SlotsForgotten) => Some(Self::Forgotten),
            (Self::Unrecorded | Self::Recorded | Self::Forgotten, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAVING: Life = Life::Leaving { since: Instant(5), bytes: 7 };
    const ONLINE_SILENT: Life = Life::Suspect(Duty::Online);
    const REBUILDING_SILENT: Life = Life::Suspect(Duty::Rebuilding);
    const LEAVING_SILENT: Life = Life::Suspect(Duty::Leaving { since: Instant(5), bytes: 7 });
    const REMOVAL: LifeChange = LifeChange::RemovalBegan { since: Instant(5), bytes: 7 };

    const GONE: [fn(Departure) -> Life; 5] =
        [Life::Failed, Life::Silent, Life::ReadOnly, Life::ReadOnlyReplaced, Life::Removed];

    fn lives() -> Vec<Life> {
        let departures = [Departure::Unrecorded, Departure::Recorded, Departure::Forgotten];
        let gone = departures.into_iter().flat_map(|departure| GONE.map(|life| life(departure)));
        let suspects = [ONLINE_SILENT, REBUILDING_SILENT, LEAVING_SILENT];
        let here = [Life::Joining, Life::Refused, Life::Online, Life::Rebuilding, LEAVING];
        here.into_iter().chain(suspects).chain(gone).collect()
    }

    const CHANGES: [LifeChange; 13] = [
        LifeChange::Joined,
        LifeChange::RebuildBegan,
        LifeChange::RebuildEnded,
        REMOVAL,
        LifeChange::RemovalCancelled,
        LifeChange::FellSilent,
        LifeChange::Answered,
        LifeChange::Failed,
        LifeChange::LeftSilent,
        LifeChange::RefusedWrites,
        LifeChange::Replaced,
        LifeChange::LeftDurably,
        LifeChange::SlotsForgotten,
    ];

    /// Everything that may happen, and nothing else may.
    #[test]
    fn every_change_in_every_state_leads_where_the_table_says() {
        use Departure::{Forgotten, Recorded, Unrecorded};
        let mut table = vec![
            (Life::Joining, LifeChange::Joined, Life::Online),
            (Life::Joining, LifeChange::Failed, Life::Refused),
            (Life::Joining, LifeChange::RefusedWrites, Life::ReadOnly(Forgotten)),
            (Life::Online, LifeChange::RebuildBegan, Life::Rebuilding),
            (Life::Online, REMOVAL, LEAVING),
            (Life::Rebuilding, LifeChange::RebuildEnded, Life::Online),
            (Life::Rebuilding, REMOVAL, LEAVING),
            (LEAVING, LifeChange::RemovalCancelled, Life::Online),
            (Life::Online, LifeChange::FellSilent, ONLINE_SILENT),
            (Life::Rebuilding, LifeChange::FellSilent, REBUILDING_SILENT),
            (LEAVING, LifeChange::FellSilent, LEAVING_SILENT),
            (ONLINE_SILENT, LifeChange::Answered, Life::Online),
            (REBUILDING_SILENT, LifeChange::Answered, Life::Rebuilding),
            (LEAVING_SILENT, LifeChange::Answered, LEAVING),
            (ONLINE_SILENT, REMOVAL, LEAVING_SILENT),
            (REBUILDING_SILENT, REMOVAL, LEAVING_SILENT),
            (LEAVING_SILENT, LifeChange::RemovalCancelled, ONLINE_SILENT),
            (REBUILDING_SILENT, LifeChange::RebuildEnded, ONLINE_SILENT),
        ];
        for here in [Life::Online, Life::Rebuilding, LEAVING, ONLINE_SILENT, REBUILDING_SILENT, LEAVING_SILENT] {
            table.push((here, LifeChange::Failed, Life::Failed(Unrecorded)));
            table.push((here, LifeChange::LeftSilent, Life::Silent(Unrecorded)));
            table.push((here, LifeChange::RefusedWrites, Life::ReadOnly(Unrecorded)));
            table.push((here, LifeChange::Replaced, Life::Removed(Unrecorded)));
        }
        for gone in GONE {
            table.push((gone(Unrecorded), LifeChange::LeftDurably, gone(Recorded)));
            table.push((gone(Recorded), LifeChange::SlotsForgotten, gone(Forgotten)));
        }
        for departure in [Unrecorded, Recorded, Forgotten] {
            table.push((Life::Failed(departure), LifeChange::Replaced, Life::Removed(departure)));
            table.push((Life::Silent(departure), LifeChange::Replaced, Life::Removed(departure)));
            table.push((Life::ReadOnly(departure), LifeChange::Replaced, Life::ReadOnlyReplaced(departure)));
            table.push((Life::Silent(departure), LifeChange::Failed, Life::Failed(departure)));
            table.push((Life::ReadOnly(departure), LifeChange::Failed, Life::Failed(departure)));
            table.push((Life::ReadOnlyReplaced(departure), LifeChange::Failed, Life::Removed(departure)));
        }
        for life in lives() {
            for change in CHANGES {
                let told = table.iter().find(|(from, by, _)| (*from, *by) == (life, change)).map(|(_, _, to)| *to);
                assert_eq!(life.after(change), told, "{life:?} {change:?}");
            }
        }
    }

    #[test]
    fn what_an_ssd_may_do_follows_from_its_state() {
        for life in lives() {
            assert!(!life.may_take_batches() || life.is_online(), "{life:?}");
            assert!(!(life.is_online() && life.has_left()), "{life:?}");
            assert!(!life.is_forgotten() || life.has_left(), "{life:?}");
            assert!(!life.is_missed() || !life.is_replaced(), "{life:?}");
        }
        let takers: Vec<Life> = lives().into_iter().filter(|life| life.may_take_batches()).collect();
        assert_eq!(takers, [Life::Joining, Life::Online, Life::Rebuilding]);
    }

    #[test]
    fn nothing_brings_an_ssd_back_that_is_out_of_use() {
        for life in lives().into_iter().filter(|life| !life.is_online()) {
            for change in CHANGES {
                assert!(life.after(change).is_none_or(|next| !next.is_online()), "{life:?} {change:?}");
            }
        }
    }
}
