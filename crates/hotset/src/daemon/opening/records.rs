//! What lasts of pools and volumes: their records, and what is said of those that are not open.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotset_api as api;
use hotset_api::{ApiError, ApiErrorKind, ConditionKind, SubjectKind};
use hotset_cache::config::{PoolName, VolumeSpec};
use hotset_cache::{PoolStatus, VolumeStatus};

use super::departed_ssds::follow;
use super::holds::Holds;
use super::locals::Locals;
use super::offline::RETRY_INTERVAL;
use super::offline::{Offline, OfflinePool, OfflineVolume, Taken, Waiting};
use crate::daemon::blocking::blocking;
use crate::daemon::changes::Changes;
use crate::daemon::config::Config;
use crate::daemon::failures::Failures;
use crate::daemon::naming::{no_such_pool, no_such_volume, spec_of, uuid, volume_name};
use crate::daemon::register::ConditionRegister;
use crate::daemon::scrub_records::ScrubRecords;
use crate::daemon::state::{LeftRecord, PoolRecord, RecordedKind, SsdRecord, StateDirectory, VolumeRecord};
use crate::plane::{Handle, Snapshot};

/// What lasts of pools and volumes, and what of them is not open; the way to what is.
pub(crate) struct Records {
    pub(crate) plane: Handle,
    pub(crate) state: StateDirectory,
    pub(crate) config: Config,
    pub(crate) failures: Failures,
    /// What is not as it should be.
    pub(crate) register: ConditionRegister,
    /// Held for the whole of a change, so that its checks stay true until it is done.
    pub(crate) change: tokio::sync::Mutex<()>,
    /// What was changed, for the events.
    pub(crate) changes: Changes,
    /// Volumes that are block devices of this machine.
    pub(crate) locals: Locals,
    /// Volumes whose writes are held.
    pub(crate) holds: Holds,
    /// Scrubs that go on after a start, and when whole ones ended.
    pub(crate) scrubs: ScrubRecords,
    offline: Mutex<Offline>,
    /// The daemon stops: what fails from now on says nothing about the world.
    pub(crate) stopping: AtomicBool,
}

impl Records {
    pub(crate) fn new(plane: Handle, state: StateDirectory, config: Config, register: ConditionRegister) -> Self {
        register.remember_host_errors(&state.host_errors());
        let failures = Failures::load(&state, register.clone());
        let (change, offline, stopping) = Default::default();
        let (locals, holds) = (Locals::of(state.locals()), Holds::of(state.holds()));
        let scrubs = ScrubRecords::of(state.scrubs());
        Self {
            plane,
            state,
            config,
            failures,
            register,
            change,
            changes: Changes::default(),
            locals,
            holds,
            scrubs,
            offline,
            stopping,
        }
    }

    /// What a read-write pool holds of them may be newer than their backing devices.
    pub(super) fn hold_back_volumes(&self, record: &PoolRecord) {
        let reason = format!(
            "pool {} cannot be opened, and may hold data of this volume that its backing device lacks",
            record.name
        );
        let mut offline = self.offline();
        for volume in &record.volumes {
            let held_back =
                OfflineVolume { record: volume.clone(), pool: Some(record.name.clone()), reason: reason.clone() };
            offline.volumes.insert(volume.name.clone(), held_back);
        }
    }

    pub(crate) fn set_volume_offline(&self, spec: &VolumeSpec, pool: Option<&PoolName>, error: &ApiError) {
        let seconds = RETRY_INTERVAL.as_secs();
        let reason = match pool {
            // The pool may have data of it that nothing else has.
            Some(_) => format!("{error}; it is tried every {seconds} s"),
            None => format!("{error}; it is tried every {seconds} s; `hotset volume delete {}` gives it up", spec.name),
        };
        let volume = OfflineVolume { record: VolumeRecord::of(spec), pool: pool.map(PoolName::to_string), reason };
        self.offline().volumes.insert(spec.name.to_string(), volume);
    }

    pub(crate) async fn is_open(&self, pool: &PoolName) -> bool {
        self.plane.snapshot().await.is_ok_and(|open| open.pools.iter().any(|open| open.name == *pool))
    }

    /// Of a volume of this name, whether or not it is open.
    pub(crate) fn backing_of(&self, name: &str, snapshot: &Snapshot) -> Option<String> {
        let open = snapshot.volumes.iter().find(|volume| volume.name.as_str() == name);
        let offline = self.offline();
        let mut waiting = offline.pools.values().flat_map(|pool| &pool.record.volumes);
        let away = || {
            let away = offline.volumes.get(name).map(|volume| &volume.record);
            away.or_else(|| waiting.find(|volume| volume.name == name)).map(|record| record.backing.clone())
        };
        open.map(|volume| volume.backing.clone()).or_else(away)
    }

    /// The pool that has a volume over this backing device, if one has.
    pub(super) async fn pool_over(&self, backing: &str) -> Option<String> {
        let snapshot = self.plane.snapshot().await.ok()?;
        let open = snapshot.volumes.iter().find(|volume| volume.pool.is_some() && volume.backing == backing);
        let of_open = open.and_then(|volume| volume.pool.as_ref().map(PoolName::to_string));
        let offline = self.offline();
        let waits = |pool: &&OfflinePool| pool.record.volumes.iter().any(|volume| volume.backing == backing);
        let of_closed = || offline.pools.values().find(waits).map(|pool| pool.record.name.clone());
        let mut away = offline.volumes.values().filter(|volume| volume.record.backing == backing);
        let of_volume = || away.find_map(|volume| volume.pool.clone());
        of_open.or_else(of_closed).or_else(of_volume)
    }

    pub(crate) async fn belongs_to_a_pool(&self, volume: &str) -> bool {
        if self.offline().has_volume(volume) {
            return true;
        }
        self.plane.snapshot().await.is_ok_and(|open| open.volumes.iter().any(|open| open.name.as_str() == volume))
    }

    pub(super) fn set_offline(&self, record: &PoolRecord, reason: &str, waiting: Waiting) {
        let (record_of, reason, action) = (record.clone(), reason.to_owned(), String::new());
        let pool = OfflinePool { record: record_of, reason, waiting, action, closed: None, found: BTreeMap::new() };
        self.offline().pools.insert(record.name.clone(), pool);
    }

    /// Why it is offline, if it still is. Its record stays: an administrator may have taken volumes from it meanwhile.
    /// Answers whether that is new.
    pub(super) fn explain_offline(&self, name: &str, reason: String, waiting: Waiting, action: String) -> bool {
        let mut offline = self.offline();
        let Some(pool) = offline.pools.get_mut(name) else { return false };
        let is_new = pool.reason != reason;
        (pool.reason, pool.waiting, pool.action) = (reason, waiting, action);
        is_new
    }

    /// What cannot be read of the state directory, and why.
    pub(crate) fn unread(&self) -> Vec<String> {
        let offline = self.offline();
        let all = offline.broken.iter().chain(&offline.unread_pools).chain(offline.unread_conversions.values());
        let all = all.chain(&offline.unread_volumes).chain(&offline.unread_tokens).chain(&offline.unread_forgotten);
        all.cloned().collect()
    }

    /// What is to be recorded of the SSDs that have left an open pool.
    fn departed_ssds_of(&self, pool: &PoolStatus) -> Vec<LeftRecord> {
        let mut offline = self.offline();
        let left = offline.departed_ssds.entry(pool.name.to_string()).or_default();
        follow(left, &pool.ssds);
        left.clone()
    }

    /// SSDs at these paths are in the pool again, under new identities.
    pub(crate) fn forget_departed_at(&self, pool: &str, paths: &[String]) {
        if let Some(left) = self.offline().departed_ssds.get_mut(pool) {
            left.retain(|left| !paths.contains(&left.ssd.path));
        }
    }

    /// The administrator wants the pool to do without these SSDs. Those that failed stay on record, so that they do not come back.
    pub(crate) fn forget_missing(&self, pool: &str, is_meant: impl Fn(&str) -> bool) {
        if let Some(left) = self.offline().departed_ssds.get_mut(pool) {
            left.retain(|left| left.failed.is_some() || !is_meant(&left.ssd.uuid));
        }
    }

    /// Refuses what is neither open nor waited for.
    pub(crate) async fn check_pool_is_known(&self, name: &str) -> Result<(), ApiError> {
        let open = self.plane.snapshot().await?.pools.iter().any(|pool| pool.name.as_str() == name);
        if open || self.offline().pools.contains_key(name) { Ok(()) } else { Err(no_such_pool(name)) }
    }

    /// The same of a volume.
    pub(crate) async fn check_volume_is_known(&self, name: &str) -> Result<(), ApiError> {
        let open = self.plane.snapshot().await?.volumes.iter().any(|volume| volume.name.as_str() == name);
        if open || self.offline().has_volume(name) { Ok(()) } else { Err(no_such_volume(name)) }
    }

    /// An offline pool exists, but cannot be changed.
    pub(crate) fn not_open(&self, name: &str) -> ApiError {
        match self.offline().pools.get(name) {
            None => no_such_pool(name),
            Some(pool) => ApiError::new(ApiErrorKind::Refused, format!("pool {name} is offline: {}", pool.reason)),
        }
    }

    pub(crate) async fn open_volume_status(&self, name: &str) -> Result<VolumeStatus, ApiError> {
        let volume = volume_name(name)?;
        let snapshot = self.plane.snapshot().await?;
        if let Some(status) = snapshot.volumes.into_iter().find(|open| open.name == volume) {
            return Ok(status);
        }
        Err(match self.offline().volumes.get(name) {
            Some(offline) => {
                ApiError::new(ApiErrorKind::Refused, format!("volume {name} is offline: {}", offline.reason))
            }
            None => no_such_volume(name),
        })
    }

    /// Writes the record of a pool that is not open.
    pub(crate) fn save_offline_pool(&self, record: &PoolRecord) -> Result<(), ApiError> {
        let written = self.state.write_pool(record).map_err(|error| self.state_failed(&error));
        if let Err(error) = &written {
            self.pool_is_outdated(&record.name, error);
        }
        written
    }

    /// Removes the record of a pool that was deleted, if it is still there.
    pub(crate) fn remove_deleted_pool(&self, name: &PoolName) -> Result<(), ApiError> {
        if self.offline().deleted_pools.contains(name.as_str()) {
            self.state.remove_pool(name).map_err(|error| self.state_failed(&error))?;
            self.offline().deleted_pools.remove(name.as_str());
        }
        Ok(())
    }

    pub(crate) fn forget_ssds(&self, pool: &str) {
        let mut offline = self.offline();
        offline.departed_ssds.remove(pool);
        offline.notes.remove(pool);
        offline.warnings.remove(pool);
    }

    /// Offline volumes of a pool that goes become uncached ones.
    pub(crate) fn release_offline_volumes(&self, pool: &str) {
        for volume in self.offline().volumes.values_mut().filter(|volume| volume.pool.as_deref() == Some(pool)) {
            volume.pool = None;
        }
    }

    /// The daemon stops.
    pub(crate) fn stops(&self) {
        self.stopping.store(true, Ordering::Relaxed);
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
    pub(crate) fn offline(&self) -> MutexGuard<'_, Offline> {
        self.offline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the record of an open pool as it is now.
    pub(crate) async fn save_pool(&self, name: &PoolName) -> Result<(), ApiError> {
        self.save_pool_with(name, None).await
    }

    /// Writes the record of an open pool with a volume that joins it in a moment: from its first write on, it must not be served without the pool.
    pub(crate) async fn save_pool_with(&self, name: &PoolName, joining: Option<VolumeRecord>) -> Result<(), ApiError> {
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

    /// Volumes without a pool that are on record, and neither open nor offline, are to be opened. Until they are, whoever writes that
    /// record keeps them.
    pub(super) async fn read_unopened_volumes(&self) {
        let _one_at_a_time = self.change.lock().await;
        match self.state.volumes() {
            Ok(records) => {
                let open = self.plane.snapshot().await.map(|open| open.volumes).unwrap_or_default();
                let mut offline = self.offline();
                let mut unopened: BTreeMap<_, _> =
                    records.into_iter().map(|record| (record.name.clone(), record)).collect();
                open.iter().for_each(|volume| drop(unopened.remove(volume.name.as_str())));
                // What is in both records belongs to its pool.
                unopened.retain(|name, _| offline.waits_for_conversion(name) || !offline.has_volume(name));
                (offline.unopened_volumes, offline.unread_volumes) = (unopened, None);
            }
            // It is tried again, and told once.
            Err(message) => {
                if self.offline().unread_volumes.replace(message.clone()).is_none() {
                    tracing::error!("{message}");
                }
            }
        }
    }

    /// Writes which volumes are served without a pool.
    pub(crate) async fn save_volumes(&self) -> Result<(), ApiError> {
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
        records.extend(offline.unopened_volumes.into_values());
        let written = self.state.write_volumes(&records).map_err(|error| self.state_failed(&error));
        self.register.follow(ConditionKind::RecordOutdated, &written);
        written
    }

    /// Of volumes that joined a pool. What is in both records counts as the pool's. What cannot be recorded is a condition, and
    /// is recorded when it can be.
    pub(crate) async fn save_joined(&self, pool: &PoolName) -> Result<(), ApiError> {
        let of_pool = self.save_pool(pool).await;
        let volumes = self.save_volumes().await;
        of_pool.and(volumes)
    }

    /// Of volumes that left a pool: at no time are they in neither record.
    pub(crate) async fn save_departed(&self, pool: &PoolName) -> Result<(), ApiError> {
        match self.save_volumes().await {
            Ok(()) => self.save_pool(pool).await,
            Err(error) => {
                self.pool_is_outdated(pool.as_str(), &error);
                Err(error)
            }
        }
    }

    /// The record of a pool is to be written, or removed, when that is possible.
    pub(crate) fn pool_is_outdated(&self, pool: &str, error: &ApiError) {
        let subject = api::Subject::new(SubjectKind::Pool, pool);
        self.register.follow_for(ConditionKind::RecordOutdated, subject, &Err::<(), _>(error));
    }

    /// Nothing takes the place of a pool whose record cannot be read.
    pub(crate) fn check_record_of(&self, name: &PoolName) -> Result<(), ApiError> {
        self.state.check_record_of(name).map_err(|message| ApiError::new(ApiErrorKind::Refused, message))
    }

    /// Whether the pool was deleted here while it was offline: hosts may have written around it since.
    pub(crate) fn is_forgotten(&self, uuid: &str) -> Result<bool, ApiError> {
        let forgotten = self.state.forgotten_pools().map_err(|error| ApiError::new(ApiErrorKind::Device, error))?;
        Ok(forgotten.iter().any(|known| known == uuid))
    }

    /// A change could not be recorded.
    pub(crate) fn state_failed(&self, error: &std::io::Error) -> ApiError {
        let unusable = self.state_unusable(error);
        unusable.with_hint("see to that, then look whether the change was made")
    }

    /// The state directory is in the way of something; nothing was changed.
    pub(crate) fn state_unusable(&self, error: &std::io::Error) -> ApiError {
        let message = format!("state directory {}: {error}", self.state.path().display());
        let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        ApiError::new(ApiErrorKind::Device, message).with_hint(match is_full {
            true => "make room in its file system, or raise its quota",
            false => "make it readable and writable, or bring it back as it was",
        })
    }

    /// An empty member file of a pool that is made or imported: nothing is believed of its SSDs. Where it leaves no room for records it is
    /// taken back.
    pub(crate) async fn make_member(self: &Arc<Self>, name: &PoolName) -> Result<(), ApiError> {
        let made = async {
            self.state.reset_member(name).map_err(|error| self.state_unusable(&error))?;
            self.check_state_takes_records().await
        };
        made.await.inspect_err(|_| self.drop_member(name))
    }

    /// A pool was not made or imported after all: its file in the state directory gives its room back.
    pub(crate) fn drop_member(&self, name: &PoolName) {
        if let Err(error) = self.state.remove_member(name) {
            tracing::warn!(pool = %name, "the pool is not there, and its file in the state directory stays: {error}");
        }
    }

    /// Fails where a record could not be written now: what has to last is not begun then.
    pub(crate) async fn check_state_takes_records(self: &Arc<Self>) -> Result<(), ApiError> {
        let this = Arc::clone(self);
        let tried = blocking(move || this.state.try_to_write()).await?;
        tried.map_err(|error| {
            let unusable = self.state_unusable(&error);
            let message = format!("{}; nothing was changed, because it could not be recorded", unusable.message);
            ApiError { message, ..unusable }
        })
    }
}
