//! What should be open and is not, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hotset_api::ApiErrorKind;
use hotset_cache::config::VolumeSpec;
use hotset_cache::{FenceCause, PoolStatus};

use crate::daemon::naming::uuid;
use crate::daemon::state::{BackingRecord, LeftRecord, PoolRecord, VolumeRecord};

/// How often what could not be opened is tried again.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// What should be open but is not, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offline {
    pub(crate) pools: BTreeMap<String, OfflinePool>,
    pub(crate) volumes: BTreeMap<String, OfflineVolume>,
    /// On record as volumes without a pool, and not tried yet, or with a record that makes no sense: they stay on record.
    pub(crate) unopened_volumes: BTreeMap<String, VolumeRecord>,
    /// Of the state directory: records that cannot be read.
    pub(crate) broken: Vec<String>,
    /// Records that cannot be read and are tried again: of pools, of the volumes without one, of the tokens, of the pools that were
    /// deleted offline.
    pub(crate) unread_pools: Vec<String>,
    pub(crate) unread_volumes: Option<String>,
    pub(crate) unread_tokens: Option<String>,
    pub(crate) unread_forgotten: Option<String>,
    /// Pools that no record names and that the scan found, and why they are not opened: by UUID.
    pub(crate) not_opened: BTreeMap<u128, String>,
    /// Records of conversions that cannot be read and are tried again, by pool: nobody knows how far they have come, so the pool is not opened.
    pub(crate) unread_conversions: BTreeMap<String, String>,
    /// Pools whose conversions have ended, and whose records of that could not be removed.
    pub(crate) ended_conversions: BTreeSet<String>,
    /// Pools that were deleted, and whose records could not be removed.
    pub(crate) deleted_pools: BTreeSet<String>,
    /// By pool: SSDs that have left it.
    pub(crate) departed_ssds: BTreeMap<String, Vec<LeftRecord>>,
    /// By pool: SSDs that were missing at this start and have left it, with what is said of each.
    pub(crate) notes: BTreeMap<String, Vec<Note>>,
    /// By pool that is open: what was taken from it while it was not, and is still to be detached.
    pub(crate) taken: BTreeMap<String, Taken>,
    /// By pool: what is not as safe as it could be.
    pub(crate) warnings: BTreeMap<String, Vec<String>>,
    /// Volumes that serve nothing although all of theirs is there: open, and hidden from hosts.
    pub(crate) fenced: BTreeMap<String, Fenced>,
    /// Devices in use that are not at their paths any more, as they are spelled.
    pub(crate) moved_devices: BTreeSet<String>,
    /// Volumes whose backing devices are not what they were, by name.
    pub(crate) unexpected_backings: BTreeMap<String, UnexpectedBacking>,
}

/// Volumes that were taken from a pool while it could not be opened: by name and by backing device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) detached: Vec<String>,
    pub(crate) detached_backings: Vec<String>,
}

impl Taken {
    pub(crate) fn of(record: &PoolRecord) -> Self {
        let PoolRecord { detached, detached_backings, .. } = record.clone();
        Self { detached, detached_backings }
    }

    pub(crate) fn has(&self, volume: &VolumeSpec) -> bool {
        self.detached.iter().any(|taken| taken == volume.name.as_str())
            || self.detached_backings.contains(&volume.backing)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Fenced {
    pub(crate) cause: FenceCause,
    /// What is wrong and what to do.
    pub(crate) reason: String,
    pub(crate) dirty_bytes: u64,
}

/// Of an SSD that was missed at the start. It counts until the pool has another one in its place.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// 32 hexadecimal digits.
    pub(crate) ssd: String,
    pub(crate) text: String,
}

#[derive(Clone, Debug)]
pub(crate) struct OfflinePool {
    pub(crate) record: PoolRecord,
    pub(crate) reason: String,
    pub(crate) waiting: Waiting,
    /// What to do, where the error says it; else it follows from what it waits for.
    pub(crate) action: String,
    /// Why it is left closed, once that is known and told.
    pub(crate) closed: Option<Closed>,
    /// Its SSDs, by UUID, as they were found last; empty until they are looked for.
    pub(crate) found: BTreeMap<String, FoundOffline>,
}

/// What an SSD of a pool that is not open was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoundOffline {
    /// It is there, by this path.
    There(String),
    /// A later Hotset can read it.
    Newer,
    /// Something is at its path, and does not answer.
    Silent,
    Away,
}

/// Why a pool is left closed until somebody does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It ended the daemon again and again.
    Fenced,
    /// Nobody knows how far its conversion has come.
    ConversionUnread,
    /// A later Hotset made what its SSDs hold.
    NewerFormat,
    /// Whether another machine has it was looked for, and that it has was found, or nothing could be.
    Owner(ApiErrorKind),
    Opening(ApiErrorKind),
}

/// Whether an offline pool may still come by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    ForItsSsds,
    ForTheAdministrator,
}

#[derive(Clone, Debug)]
pub(crate) struct OfflineVolume {
    pub(crate) record: VolumeRecord,
    pub(crate) pool: Option<String>,
    pub(crate) reason: String,
}

/// A backing device that is another one than the volume had.
#[derive(Clone, Debug)]
pub(crate) struct UnexpectedBacking {
    pub(crate) before: BackingRecord,
    pub(crate) found: BackingRecord,
    pub(crate) reason: String,
}

impl Offline {
    /// What is said of SSDs that were missed at the start, as far as they still are.
    pub(crate) fn notes_of(&self, pool: &PoolStatus) -> Vec<&str> {
        let missed = |note: &&Note| pool.ssds.iter().any(|ssd| !ssd.online && uuid(ssd.uuid) == note.ssd);
        let notes = self.notes.get(pool.name.as_str()).into_iter().flatten();
        notes.filter(missed).map(|note| note.text.as_str()).collect()
    }

    /// The offline pool that should cache a volume.
    pub(crate) fn pool_of(&self, volume: &str) -> Option<&OfflinePool> {
        self.pools.values().find(|pool| pool.record.volumes.iter().any(|record| record.name == volume))
    }

    /// A volume of this name is offline, by itself or with its pool.
    pub(crate) fn has_volume(&self, name: &str) -> bool {
        self.volumes.contains_key(name) || self.pool_of(name).is_some()
    }

    /// Whether it is on record in a pool of which nobody knows whether it still is one.
    pub(super) fn waits_for_conversion(&self, volume: &str) -> bool {
        self.pool_of(volume).is_some_and(|pool| self.unread_conversions.contains_key(&pool.record.name))
    }

    /// The record of a volume that an offline pool should cache.
    pub(crate) fn waiting_volume(&self, name: &str) -> Option<VolumeRecord> {
        self.pool_of(name)?.record.volumes.iter().find(|record| record.name == name).cloned()
    }

    /// A pool is left closed; whether that, or the reason for it, is new.
    pub(crate) fn closes(&mut self, pool: &str, why: Closed) -> bool {
        self.pools.get_mut(pool).is_none_or(|pool| pool.closed.replace(why) != Some(why))
    }

    /// A volume that was taken from its pool, and is not open, comes back without one.
    pub(crate) fn release_volume(&mut self, name: &str) {
        if let Some(volume) = self.volumes.get_mut(name) {
            volume.pool = None;
        }
    }
}
