//! How far a row of the write log is, from the first page that is written of it to the end of its last batch.

/// See the file's summary. A row that is *broken* lost batches, or all copies of a segment: what its summaries say is not believed, so
/// its record never calls it sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowLife {
    /// Its headers are being written: no record names it.
    Opening,
    /// It takes batches, or will.
    Open,
    BrokenOpen,
    /// It takes no more; its summaries are not written yet.
    Sealing,
    BrokenSealing,
    Sealed,
    /// It takes no more, and has no summaries.
    BrokenSealed,
}

/// What happens to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowChange {
    /// Its headers are durable on its SSDs.
    HeadersDurable,
    /// It takes no more batches.
    Closed,
    /// Batches of it were discarded, or a segment of it has no copy any more.
    Broke,
    /// All of its batches are complete, and its summaries are written if it is intact.
    BatchesEnded,
}

impl RowLife {
    /// The state after `change`; `None`: that changes nothing.
    pub(crate) fn after(self, change: RowChange) -> Option<Self> {
        match (self, change) {
            (Self::Opening, RowChange::HeadersDurable) => Some(Self::Open),
            (Self::Open, RowChange::Closed) => Some(Self::Sealing),
            (Self::BrokenOpen, RowChange::Closed) => Some(Self::BrokenSealing),
            (Self::Open, RowChange::Broke) => Some(Self::BrokenOpen),
            (Self::Sealing, RowChange::Broke) => Some(Self::BrokenSealing),
            (Self::Sealed, RowChange::Broke) => Some(Self::BrokenSealed),
            (Self::Sealing, RowChange::BatchesEnded) => Some(Self::Sealed),
            (Self::BrokenSealing, RowChange::BatchesEnded) => Some(Self::BrokenSealed),
            // It has no batch: one that lost an SSD meanwhile is dropped.
            (Self::Opening, RowChange::Closed | RowChange::Broke | RowChange::BatchesEnded)
            // Whoever takes no more batches does not begin to.
            | (
                Self::Open | Self::BrokenOpen | Self::Sealing | Self::BrokenSealing | Self::Sealed | Self::BrokenSealed,
                RowChange::HeadersDurable,
            )
            | (Self::Open | Self::BrokenOpen, RowChange::BatchesEnded)
            | (Self::Sealing | Self::BrokenSealing | Self::Sealed | Self::BrokenSealed, RowChange::Closed)
            | (Self::BrokenOpen | Self::BrokenSealing | Self::BrokenSealed, RowChange::Broke)
            | (Self::Sealed | Self::BrokenSealed, RowChange::BatchesEnded) => None,
        }
    }

    /// Records may name it.
    pub(crate) fn may_be_on_record(self) -> bool {
        match self {
            Self::Opening => false,
            Self::Open | Self::BrokenOpen | Self::Sealing | Self::BrokenSealing | Self::Sealed | Self::BrokenSealed => {
                true
            }
        }
    }

    /// A batch may have its place in it.
    pub(crate) fn takes_batches(self) -> bool {
        matches!(self, Self::Open | Self::BrokenOpen)
    }

    /// It takes no more batches, and its summaries are on their way.
    pub(crate) fn is_sealing(self) -> bool {
        matches!(self, Self::Sealing | Self::BrokenSealing)
    }

    /// Nothing is written to it any more.
    pub(crate) fn has_ended(self) -> bool {
        matches!(self, Self::Sealed | Self::BrokenSealed)
    }

    /// What its summaries say, or will, is all that it holds.
    pub(crate) fn is_intact(self) -> bool {
        match self {
            Self::Opening | Self::Open | Self::Sealing | Self::Sealed => true,
            Self::BrokenOpen | Self::BrokenSealing | Self::BrokenSealed => false,
        }
    }

    /// Its record says that it is sealed.
    pub(crate) fn is_sealed(self) -> bool {
        self == Self::Sealed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [RowLife; 7] = [
        RowLife::Opening,
        RowLife::Open,
        RowLife::BrokenOpen,
        RowLife::Sealing,
        RowLife::BrokenSealing,
        RowLife::Sealed,
        RowLife::BrokenSealed,
    ];
    const CHANGES: [RowChange; 4] =
        [RowChange::HeadersDurable, RowChange::Closed, RowChange::Broke, RowChange::BatchesEnded];

    #[test]
    fn a_row_never_goes_back_whatever_happens_in_whatever_state() {
        let far = |life: RowLife| match life {
            RowLife::Opening => 0,
            RowLife::Open | RowLife::BrokenOpen => 1,
            RowLife::Sealing | RowLife::BrokenSealing => 2,
            RowLife::Sealed | RowLife::BrokenSealed => 3,
        };
        for state in STATES {
            for change in CHANGES {
                let Some(next) = state.after(change) else { continue };
                assert_ne!(next, state, "{change:?}");
                assert!(far(next) >= far(state), "{state:?} {change:?}");
                assert!(!next.is_intact() || state.is_intact(), "{state:?} {change:?}: what is broken stays so");
                assert_eq!(far(next) == far(state), change == RowChange::Broke, "{state:?} {change:?}");
                assert_eq!(next.is_intact() == state.is_intact(), change != RowChange::Broke, "{state:?} {change:?}");
                assert!(next.may_be_on_record(), "{state:?} {change:?}");
            }
        }
    }

    #[test]
    fn a_row_is_sealed_only_if_its_batches_ended_before_it_broke() {
        for state in STATES {
            let ends = state.after(RowChange::BatchesEnded);
            assert_eq!(ends.is_some(), state.is_sealing(), "{state:?}");
            assert!(ends.is_none_or(|next| next.has_ended() && next.is_sealed() == state.is_intact()), "{state:?}");
            assert_eq!(state.is_sealed(), state.has_ended() && state.is_intact(), "{state:?}");
            assert_eq!(
                state.after(RowChange::Broke).is_some(),
                state.is_intact() && state != RowLife::Opening,
                "{state:?}"
            );
            assert_eq!(state.after(RowChange::HeadersDurable).is_some(), state == RowLife::Opening);
            assert!(!(state.is_sealing() && state.has_ended()), "{state:?}");
        }
    }

    #[test]
    fn every_state_can_be_reached() {
        let mut reached = vec![RowLife::Opening];
        let mut seen = 0;
        while seen < reached.len() {
            let state = reached[seen];
            for next in CHANGES.into_iter().filter_map(|change| state.after(change)) {
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
            seen += 1;
        }
        assert!(STATES.iter().all(|state| reached.contains(state)), "{reached:?}");
    }
}
