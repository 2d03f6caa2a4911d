//! Volumes whose writes are held: nothing new stays dirty on them, over restarts too, until an administrator releases them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::daemon::state::HoldRecord;

/// See the file's summary.
#[derive(Debug)]
pub(crate) struct Holds(Mutex<Vec<HoldRecord>>);

impl Holds {
    pub(crate) fn of(records: Vec<HoldRecord>) -> Self {
        Self(Mutex::new(records))
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn known(&self) -> MutexGuard<'_, Vec<HoldRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<HoldRecord> {
        self.known().clone()
    }

    pub(crate) fn of_backing(&self, backing: &str) -> Option<HoldRecord> {
        self.known().iter().find(|hold| hold.backing == backing).cloned()
    }

    /// False: its writes are held already.
    pub(crate) fn add(&self, record: HoldRecord) -> bool {
        let mut known = self.known();
        let is_new = !known.iter().any(|hold| hold.backing == record.backing);
        if is_new {
            known.push(record);
        }
        is_new
    }

    /// The answer says whether its writes were held.
    pub(crate) fn remove(&self, backing: &str) -> bool {
        let mut known = self.known();
        let before = known.len();
        known.retain(|hold| hold.backing != backing);
        known.len() < before
    }
}
