//! What the administrator's requests do: checks, the order of durable steps, and the state directory's records.
//!
//! One change at a time. The data plane and the pools' own catalogues are the truth about what is open; this keeps
//! what is *not* open, and why.

mod accept;
mod ask;
mod awaited;
mod clients;
mod conditions;
mod convert;
mod create;
mod departed_ssds;
mod disks;
mod flush;
mod found;
mod guard;
mod losses;
mod members;
mod moved_devices;
mod operations;
mod pools;
mod recognise;
mod removal;
mod rewrite;
mod scrub;
mod seen;
mod serve;
mod ssds;
mod start;
mod status;
mod unread;
mod upkeep;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use hotset_api as api;
use hotset_api::{ApiError, ApiErrorKind, ConditionKind, Connect, SubjectKind, Work};
use hotset_cache::config::{PoolName, VolumeName, VolumeSpec};
use hotset_cache::{FenceCause, PoolStatus, VolumeStatus};

use self::flush::Flushes;
use self::operations::Operations;
use self::recognise::UnexpectedBacking;
use super::config::Config;
use super::connect;
use super::conversion::Conversion;
use super::counters::Counters;
use super::failures::Failures;
use super::history::{self, Recent};
use super::prober::Prober;
use super::register::Register;
use super::scan::Scanner;
use super::smart::Known;
use super::state::{LeftRecord, PoolRecord, RecordedKind, SsdRecord, StateDirectory, VolumeRecord};
use crate::endpoint::Endpoint;
use crate::plane::Handle;

pub(crate) use flush::Subject;
pub(super) use found::durable_path;
pub(crate) use members::Place;
pub(super) use recognise::BackingRecord;
pub(super) use seen::{ssd_health, volume_health};
#[cfg(test)]
pub(super) use status::bare_volume;
pub(super) use status::nbd_uri;

pub(crate) struct Manager {
    plane: Handle,
    state: StateDirectory,
    config: Config,
    counters: Counters,
    failures: Failures,
    /// What is not as it should be.
    register: Register,
    scanner: Scanner,
    prober: Prober,
    /// Held for the whole of a change, so that its checks stay true until it is done.
    change: tokio::sync::Mutex<()>,
    offline: Mutex<Offline>,
    /// Whose backing device is whose.
    backings: Mutex<Vec<BackingRecord>>,
    work: Mutex<Option<Work>>,
    flushes: Flushes,
    operations: Operations,
    /// Conversions of pools that were begun and are not done, by pool.
    conversions: Mutex<BTreeMap<String, Conversion>>,
    /// The daemon stops: what fails from now on says nothing about the world.
    stopping: AtomicBool,
    /// What the SSDs are and how they say they are.
    ssds: Known,
    /// How long requests took of late.
    recent: Mutex<Recent>,
    /// Where statistics are kept; none before the control plane is there.
    history: OnceLock<history::Handle>,
    /// Volumes that were renamed and of which the observer has not heard: from, to.
    renamed: Mutex<Vec<(String, String)>>,
    /// Where hosts connect; empty until they may.
    nbd: OnceLock<Vec<Endpoint>>,
    started: Instant,
}

/// What should be open but is not, by name.
#[derive(Clone, Debug, Default)]
struct Offline {
    pools: BTreeMap<String, OfflinePool>,
    volumes: BTreeMap<String, OfflineVolume>,
    /// Of the state directory: records that cannot be read.
    broken: Vec<String>,
    /// Records that cannot be read and are tried again: of pools, of the volumes without one, of the tokens, of the pools that were
    /// deleted offline.
    unread_pools: Vec<String>,
    unread_volumes: Option<String>,
    unread_tokens: Option<String>,
    unread_forgotten: Option<String>,
    /// Pools that no record names and that the scan found, and why they are not opened: by UUID.
    not_opened: BTreeMap<u128, String>,
    /// Records of conversions that cannot be read and are tried again, by pool: nobody knows how far they have come, so the pool is not opened.
    unread_conversions: BTreeMap<String, String>,
    /// Pools whose conversions have ended, and whose records of that could not be removed.
    ended_conversions: BTreeSet<String>,
    /// Pools that are converted, and of which volumes have left for that: what fails is tried again.
    begun_conversions: BTreeSet<String>,
    /// Pools that were deleted, and whose records could not be removed.
    deleted_pools: BTreeSet<String>,
    /// By pool: SSDs that have left it.
    departed_ssds: BTreeMap<String, Vec<LeftRecord>>,
    /// By pool: SSDs that were missing at this start and have left it, with what is said of each.
    notes: BTreeMap<String, Vec<Note>>,
    /// By pool that is open: what was taken from it while it was not, and is still to be detached.
    taken: BTreeMap<String, Taken>,
    /// By pool: what is not as safe as it could be.
    warnings: BTreeMap<String, Vec<String>>,
    /// Volumes that serve nothing although all of theirs is there: open, and hidden from hosts.
    fenced: BTreeMap<String, Fenced>,
    /// Devices in use that are not at their paths any more, as they are spelled.
    moved_devices: BTreeSet<String>,
    /// Volumes whose backing devices are not what they were, by name.
    unexpected_backings: BTreeMap<String, UnexpectedBacking>,
}

/// Volumes that were taken from a pool while it could not be opened: by name and by backing device.
#[derive(Clone, Debug, Default)]
struct Taken {
    detached: Vec<String>,
    detached_backings: Vec<String>,
}

impl Taken {
    fn of(record: &PoolRecord) -> Self {
        let PoolRecord { detached, detached_backings, .. } = record.clone();
        Self { detached, detached_backings }
    }

    fn has(&self, volume: &VolumeSpec) -> bool {
        self.detached.iter().any(|taken| taken == volume.name.as_str())
            || self.detached_backings.contains(&volume.backing)
    }
}

#[derive(Clone, Debug)]
struct Fenced {
    cause: FenceCause,
    /// What is wrong and what to do.
    reason: String,
    dirty_bytes: u64,
}

/// Of an SSD that was missed at the start. It counts until the pool has another one in its place.
#[derive(Clone, Debug)]
struct Note {
    /// 32 hexadecimal digits.
    ssd: String,
    text: String,
}

#[derive(Clone, Debug)]
struct OfflinePool {
    record: PoolRecord,
    reason: String,
    waiting: Waiting,
    /// What to do, where the error says it; else it follows from what it waits for.
    action: String,
    /// Why it is left closed, once that is known and told.
    closed: Option<Closed>,
}

/// Why a pool is left closed until somebody does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
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
enum Waiting {
    ForItsSsds,
    ForTheAdministrator,
}

#[derive(Clone, Debug)]
struct OfflineVolume {
    record: VolumeRecord,
    pool: Option<String>,
    reason: String,
}

impl Manager {
    pub(crate) fn new(
        plane: Handle,
        state: StateDirectory,
        config: Config,
        register: Register,
        counters: Counters,
    ) -> Self {
        Self::remember(&state, &register);
        Self {
            backings: Mutex::new(state.backings()),
            ssds: Known::new(state.ssd_ledger()),
            failures: Failures::load(&state, register.clone()),
            register,
            counters,
            scanner: Scanner::default(),
            prober: Prober::default(),
            plane,
            state,
            config,
            change: tokio::sync::Mutex::new(()),
            offline: Mutex::default(),
            work: Mutex::default(),
            flushes: Flushes::default(),
            operations: Operations::default(),
            conversions: Mutex::default(),
            stopping: AtomicBool::new(false),
            recent: Mutex::default(),
            history: OnceLock::new(),
            renamed: Mutex::default(),
            nbd: OnceLock::new(),
            started: Instant::now(),
        }
    }

    /// Statistics are kept there from now on.
    ///
    /// # Panics
    /// If told twice.
    pub(crate) fn keeps_statistics(&self, history: history::Handle) {
        assert!(self.history.set(history).is_ok(), "there is one history");
    }

    /// Renamings since this was asked last.
    pub(crate) fn take_renamed(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.renamed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hosts may connect to these from now on.
    ///
    /// # Panics
    /// If told twice.
    pub(crate) fn listens(&self, endpoints: Vec<Endpoint>) {
        self.nbd.set(endpoints).expect("the server begins to listen once");
    }

    /// Where hosts find an export; with an empty name, the server.
    fn uris(&self, export: &str) -> Vec<String> {
        let endpoints = self.nbd.get().map_or(&[][..], Vec::as_slice);
        endpoints.iter().map(|endpoint| status::nbd_uri(endpoint, self.config.tls.is_some(), export)).collect()
    }

    /// How hosts connect to a volume.
    pub(crate) async fn connect(&self, name: &str) -> Result<Connect, ApiError> {
        let volume = self.volume(name).await?.name;
        let endpoints = self.nbd.get().map_or(&[][..], Vec::as_slice);
        let host_name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let addresses = connect::addresses(endpoints, self.config.tls.is_some(), &volume, host_name.trim());
        Ok(Connect { volume, addresses })
    }

    /// A clean stop has come to its end: whatever was being opened did no harm.
    pub(crate) fn ends_cleanly(&self) {
        self.failures.end_cleanly(&self.state);
    }

    /// The records that last.
    pub(crate) fn state(&self) -> &StateDirectory {
        &self.state
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn offline(&self) -> MutexGuard<'_, Offline> {
        self.offline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) -> MutexGuard<'_, Option<Work>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the record of an open pool as it is now.
    async fn save_pool(&self, name: &PoolName) -> Result<(), ApiError> {
        self.save_pool_with(name, None).await
    }

    /// Writes the record of an open pool with a volume that joins it in a moment: from its first write on, it must not be served without the pool.
    async fn save_pool_with(&self, name: &PoolName, joining: Option<VolumeRecord>) -> Result<(), ApiError> {
        let snapshot = self.plane.snapshot().await?;
        let Some(pool) = snapshot.pools.iter().find(|pool| pool.name == *name) else { return Ok(()) };
        // One of that name that was deleted is gone with it.
        self.offline().deleted_pools.remove(name.as_str());
        let here = snapshot.volumes.iter().filter(|volume| volume.pool.as_ref() == Some(name));
        let mut volumes: Vec<_> = here.map(|volume| VolumeRecord::of(&spec_of(volume))).collect();
        let offline = self.offline().volumes.clone();
        let away = offline.values().filter(|volume| volume.pool.as_deref() == Some(name.as_str()));
        volumes.extend(away.map(|volume| volume.record.clone()));
        volumes.extend(joining);
        let online = pool.ssds.iter().filter(|ssd| ssd.online);
        let left = self.departed_ssds_of(pool);
        let Taken { detached, detached_backings } =
            self.offline().taken.get(name.as_str()).cloned().unwrap_or_default();
        let record = PoolRecord {
            name: name.to_string(),
            uuid: uuid(pool.uuid),
            kind: RecordedKind::of(pool.kind),
            ssds: online.map(|ssd| SsdRecord { path: ssd.path.clone(), uuid: uuid(ssd.uuid) }).collect(),
            spares: pool.spares.iter().map(|ssd| SsdRecord { path: ssd.path.clone(), uuid: uuid(ssd.uuid) }).collect(),
            volumes,
            left,
            detached,
            detached_backings,
        };
        let written = self.state.write_pool(&record).map_err(|error| self.state_failed(&error));
        let subject = api::Subject::new(SubjectKind::Pool, name.as_str());
        if written.is_err() || !self.offline().ended_conversions.contains(name.as_str()) {
            self.register.follow_for(ConditionKind::RecordOutdated, subject, &written);
        }
        written
    }

    /// Writes which volumes are served without a pool.
    async fn save_volumes(&self) -> Result<(), ApiError> {
        if let Some(unread) = &self.offline().unread_volumes {
            // What is on record there would be forgotten.
            let message =
                format!("the volumes without a pool cannot be recorded, because the record cannot be read: {unread}");
            let refused = Err(ApiError::new(ApiErrorKind::Refused, message)
                .with_hint("bring the file back as it was, or move it away: it is read again within seconds"));
            self.register.follow(ConditionKind::RecordOutdated, &refused);
            return refused;
        }
        let snapshot = self.plane.snapshot().await?;
        let offline = self.offline().clone();
        let of_a_pool = |name: &str| offline.pool_of(name).is_some();
        let uncached =
            snapshot.volumes.iter().filter(|volume| volume.pool.is_none() && !of_a_pool(volume.name.as_str()));
        let mut records: Vec<_> = uncached.map(|volume| VolumeRecord::of(&spec_of(volume))).collect();
        let away = offline.volumes.values().filter(|volume| volume.pool.is_none());
        records.extend(away.map(|volume| volume.record.clone()));
        let written = self.state.write_volumes(&records).map_err(|error| self.state_failed(&error));
        self.register.follow(ConditionKind::RecordOutdated, &written);
        written
    }

    /// Of volumes that joined a pool. What is in both records counts as the pool's. What cannot be recorded is a condition, and
    /// is recorded when it can be.
    async fn save_joined(&self, pool: &PoolName) -> Result<(), ApiError> {
        let of_pool = self.save_pool(pool).await;
        let volumes = self.save_volumes().await;
        of_pool.and(volumes)
    }

    /// Of volumes that left a pool: at no time are they in neither record.
    async fn save_departed(&self, pool: &PoolName) -> Result<(), ApiError> {
        match self.save_volumes().await {
            Ok(()) => self.save_pool(pool).await,
            Err(error) => {
                self.pool_is_outdated(pool.as_str(), &error);
                Err(error)
            }
        }
    }

    /// The record of a pool is to be written, or removed, when that is possible.
    fn pool_is_outdated(&self, pool: &str, error: &ApiError) {
        let subject = api::Subject::new(SubjectKind::Pool, pool);
        self.register.follow_for(ConditionKind::RecordOutdated, subject, &Err::<(), _>(error));
    }

    /// Nothing takes the place of a pool whose record cannot be read.
    fn check_record_of(&self, name: &PoolName) -> Result<(), ApiError> {
        self.state.check_record_of(name).map_err(|message| ApiError::new(ApiErrorKind::Refused, message))
    }

    /// Whether the pool was deleted here while it was offline: hosts may have written around it since.
    fn is_forgotten(&self, uuid: &str) -> Result<bool, ApiError> {
        let forgotten = self.state.forgotten_pools().map_err(|error| ApiError::new(ApiErrorKind::Device, error))?;
        Ok(forgotten.iter().any(|known| known == uuid))
    }

    fn state_failed(&self, error: &std::io::Error) -> ApiError {
        let directory = self.state.path().display();
        ApiError::new(
            ApiErrorKind::Device,
            format!("state directory {directory}: {error}; see to that, then look whether the change was made"),
        )
    }
}

impl Offline {
    /// What is said of SSDs that were missed at the start, as far as they still are.
    fn notes_of(&self, pool: &PoolStatus) -> Vec<&str> {
        let missed = |note: &&Note| pool.ssds.iter().any(|ssd| !ssd.online && uuid(ssd.uuid) == note.ssd);
        let notes = self.notes.get(pool.name.as_str()).into_iter().flatten();
        notes.filter(missed).map(|note| note.text.as_str()).collect()
    }

    /// The offline pool that should cache a volume.
    fn pool_of(&self, volume: &str) -> Option<&OfflinePool> {
        self.pools.values().find(|pool| pool.record.volumes.iter().any(|record| record.name == volume))
    }

    /// The record of a volume that an offline pool should cache.
    fn waiting_volume(&self, name: &str) -> Option<VolumeRecord> {
        self.pool_of(name)?.record.volumes.iter().find(|record| record.name == name).cloned()
    }

    /// A pool is left closed; whether that, or the reason for it, is new.
    fn closes(&mut self, pool: &str, why: Closed) -> bool {
        self.pools.get_mut(pool).is_none_or(|pool| pool.closed.replace(why) != Some(why))
    }

    /// A volume that was taken from its pool, and is not open, comes back without one.
    fn release_volume(&mut self, name: &str) {
        if let Some(volume) = self.volumes.get_mut(name) {
            volume.pool = None;
        }
    }
}

fn spec_of(volume: &VolumeStatus) -> VolumeSpec {
    VolumeSpec { name: volume.name.clone(), backing: volume.backing.clone(), settings: volume.settings }
}

/// 32 hexadecimal digits.
fn uuid(uuid: u128) -> String {
    format!("{uuid:032x}")
}

fn pool_name(text: &str) -> Result<PoolName, ApiError> {
    text.parse().map_err(|error| crate::words::error(&error))
}

fn volume_name(text: &str) -> Result<VolumeName, ApiError> {
    text.parse().map_err(|error| crate::words::error(&error))
}

fn no_such_pool(name: &str) -> ApiError {
    ApiError::new(ApiErrorKind::NotFound, format!("pool {name}: there is no such pool"))
        .with_hint("`hotset pool list` shows all")
}

fn no_such_volume(name: &str) -> ApiError {
    ApiError::new(ApiErrorKind::NotFound, format!("volume {name}: there is no such volume"))
        .with_hint("`hotset volume list` shows all")
}

/// Runs what blocks on a thread for that.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::new(ApiErrorKind::Internal, format!("a background step failed: {error}")))
}
