//! Which volumes are block devices of this machine: by what each device is known to its driver, and where it is.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotset_serve::local::LocalDevice;
use hotset_serve::local::ublk::{Start, UblkRequests};

use crate::daemon::state::LocalRecord;

/// A volume that is to be a block device.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) record: LocalRecord,
    /// As it was seen last; `None`: it is not there.
    pub(crate) device: Option<LocalDevice>,
    /// Of one whose requests this daemon fetches, or has fetched.
    pub(super) fetched: Option<Fetched>,
}

/// The requests of a device, and whether programs can use it.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub(super) requests: UblkRequests,
    /// What lets programs do so; `None`: they can.
    pub(super) start: Option<Start>,
}

impl Local {
    pub(super) fn new(record: LocalRecord) -> Self {
        Self { record, device: None, fetched: None }
    }
}

/// See the file's summary.
#[derive(Debug, Default)]
pub(crate) struct Locals(Mutex<BTreeMap<String, Local>>);

impl Locals {
    pub(crate) fn of(records: Vec<LocalRecord>) -> Self {
        let local = |record: LocalRecord| (record.volume.clone(), Local::new(record));
        Self(Mutex::new(records.into_iter().map(local).collect()))
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Local>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Local> {
        self.known().values().cloned().collect()
    }

    pub(crate) fn of_volume(&self, volume: &str) -> Option<Local> {
        self.known().get(volume).cloned()
    }

    pub(crate) fn records(&self) -> Vec<LocalRecord> {
        self.known().values().map(|local| local.record.clone()).collect()
    }

    pub(super) fn add(&self, record: LocalRecord) {
        self.known().insert(record.volume.clone(), Local::new(record));
    }

    pub(super) fn remove(&self, volume: &str) {
        self.known().remove(volume);
    }

    /// The answer says whether there was one of that name.
    pub(super) fn rename(&self, from: &str, to: &str) -> bool {
        let mut known = self.known();
        let Some(mut local) = known.remove(from) else { return false };
        to.clone_into(&mut local.record.volume);
        known.insert(to.to_owned(), local);
        true
    }

    pub(super) fn is_at(&self, volume: &str, device: Option<LocalDevice>) {
        if let Some(local) = self.known().get_mut(volume) {
            local.device = device;
        }
    }

    pub(super) fn fetches(&self, volume: &str, fetched: Option<Fetched>) {
        if let Some(local) = self.known().get_mut(volume) {
            local.fetched = fetched;
        }
    }
}
