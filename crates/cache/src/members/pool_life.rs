//! How far a pool's stop is, and whether it is fenced. It stands below all rooms, for each has to know whether it may go on; only the
//! frame changes it.

use std::cell::{Cell, RefCell};

use crate::error::{Error, ErrorKind};

/// A stop goes from one state to the next, and never back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopState {
    Serving,
    /// Nothing enters the read cache any more, and what runs in the background beside the write log ends.
    EndingFills,
    /// Cleaning and moving end, too, and what waits for the write log is all that it takes.
    EndingLog,
    /// Nothing of the pool runs any more.
    Stopped,
}

/// What happens to a pool that stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopChange {
    FillsEnd,
    LogEnds,
    /// It is over, well or not, at the end of a stop or because somebody else has the SSDs.
    Ended,
}

impl StopState {
    /// The state after `change`; `None`: that changes nothing.
    fn after(self, change: StopChange) -> Option<Self> {
        match (self, change) {
            (Self::Serving, StopChange::FillsEnd) => Some(Self::EndingFills),
            (Self::EndingFills, StopChange::LogEnds) => Some(Self::EndingLog),
            (Self::Serving | Self::EndingFills | Self::EndingLog, StopChange::Ended) => Some(Self::Stopped),
            (Self::Serving, StopChange::LogEnds)
            | (Self::EndingFills | Self::EndingLog, StopChange::FillsEnd)
            | (Self::EndingLog, StopChange::LogEnds)
            | (Self::Stopped, StopChange::FillsEnd | StopChange::LogEnds | StopChange::Ended) => None,
        }
    }
}

/// See the file's summary.
pub(crate) struct PoolLife {
    stop: Cell<StopState>,
    /// Why nothing is written any more that an SSD may hold: one left and that could not be recorded, or the pool has stopped.
    fence: RefCell<Option<Error>>,
}

impl Default for PoolLife {
    fn default() -> Self {
        Self { stop: Cell::new(StopState::Serving), fence: RefCell::default() }
    }
}

impl PoolLife {
    fn change(&self, change: StopChange) {
        if let Some(next) = self.stop.get().after(change) {
            self.stop.set(next);
        }
    }

    /// A stop has begun, however far it is.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.get() != StopState::Serving
    }

    /// The tasks of the write log are to end.
    pub(crate) fn is_ending_log(&self) -> bool {
        matches!(self.stop.get(), StopState::EndingLog | StopState::Stopped)
    }

    /// Nothing of the pool runs any more.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stop.get() == StopState::Stopped
    }

    /// The stop begins: nothing is filled any more.
    pub(crate) fn end_fills(&self) {
        self.change(StopChange::FillsEnd);
    }

    /// The stop comes to the write log.
    pub(crate) fn end_log(&self) {
        assert!(self.is_stopping(), "the write log of a pool ends that serves");
        self.change(StopChange::LogEnds);
    }

    /// Nothing of the pool runs any more: whatever still asks is told so, or why it was fenced before.
    pub(crate) fn end(&self, reason: &str) {
        self.change(StopChange::Ended);
        self.fence_first(|| Error::new(ErrorKind::Stopping, reason));
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.fence.borrow().is_some()
    }

    /// Why it is fenced, if it is.
    pub(crate) fn fence(&self) -> Option<Error> {
        self.fence.borrow().clone()
    }

    /// `Err`: it is fenced, and why.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.fence().map_or(Ok(()), Err)
    }

    /// It is fenced for this reason, whatever it was before.
    pub(crate) fn fence_anew(&self, error: Error) {
        *self.fence.borrow_mut() = Some(error);
    }

    /// It is fenced, if it was not before.
    pub(crate) fn fence_first(&self, error: impl FnOnce() -> Error) {
        self.fence.borrow_mut().get_or_insert_with(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    const STOPS: [StopState; 4] =
        [StopState::Serving, StopState::EndingFills, StopState::EndingLog, StopState::Stopped];
    const CHANGES: [StopChange; 3] = [StopChange::FillsEnd, StopChange::LogEnds, StopChange::Ended];

    /// Everything that may happen, and nothing else may.
    #[test]
    fn every_change_in_every_state_of_a_stop_leads_where_the_table_says() {
        let table = [
            (StopState::Serving, StopChange::FillsEnd, StopState::EndingFills),
            (StopState::EndingFills, StopChange::LogEnds, StopState::EndingLog),
            (StopState::Serving, StopChange::Ended, StopState::Stopped),
            (StopState::EndingFills, StopChange::Ended, StopState::Stopped),
            (StopState::EndingLog, StopChange::Ended, StopState::Stopped),
        ];
        for stop in STOPS {
            for change in CHANGES {
                let told = table.iter().find(|(from, by, _)| (*from, *by) == (stop, change)).map(|(_, _, to)| *to);
                assert_eq!(stop.after(change), told, "{stop:?} {change:?}");
            }
        }
    }

    #[test]
    fn whoever_has_ended_more_has_ended_what_comes_before() {
        for stop in STOPS {
            let life = PoolLife { stop: Cell::new(stop), ..PoolLife::default() };
            assert!(!life.has_stopped() || life.is_ending_log(), "{stop:?}");
            assert!(!life.is_ending_log() || life.is_stopping(), "{stop:?}");
        }
    }

    #[test]
    fn a_pool_that_has_stopped_is_fenced_and_says_why_it_was_before() {
        let life = PoolLife::default();
        assert_eq!(life.check_open(), Ok(()));
        life.fence_first(|| Error::new(ErrorKind::Gone, "first"));
        life.fence_first(|| Error::new(ErrorKind::Gone, "second"));
        life.end("it has stopped");
        assert_eq!(life.fence().map(|error| error.to_string()), Some("first".to_owned()));
        assert!(life.has_stopped() && life.is_fenced());
        let clean = PoolLife::default();
        clean.end("it has stopped");
        assert_eq!(clean.check_open().map_err(|error| error.kind), Err(ErrorKind::Stopping));
    }

    #[test]
    fn the_write_log_of_a_pool_that_serves_goes_on() {
        assert_refused("the write log of a pool ends that serves", || PoolLife::default().end_log());
    }
}
