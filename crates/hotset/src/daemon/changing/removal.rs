//! Deleting volumes and pools, and disabling caches: what is dirty and in the way, and the steps when nothing is.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hotset_api::{ApiError, ApiErrorKind, Deleted, FlushPurpose, HostProtocol, Removal};
use hotset_cache::config::{PoolKind, PoolName, VolumeName};
use hotset_cache::{DirtyData, PoolStatus, VolumeStatus};

use super::flush::{DrainedFor, Draining, Flushes, RunningFlush, or_by_force};
use super::flushed::{FlushScope, Outcome, Subject, dirty_bytes};
use super::operations::Operations;
use super::volumes::Volumes;
use crate::daemon::clients;
use crate::daemon::naming::{no_such_pool, no_such_volume, pool_name};
use crate::daemon::opening::converting::Converting;
use crate::daemon::opening::guard::Guard;
use crate::daemon::opening::local_devices::LocalDevices;
use crate::daemon::opening::recognise::Backings;
use crate::daemon::opening::records::Records;
use crate::daemon::opening::serve::Serving;
use crate::daemon::state::{RecordedKind, VolumeRecord};
use crate::daemon::who::Who;
use crate::plane::Snapshot;
use crate::size::{grouped, human};

/// How often hosts of a volume are looked for before it is said that they use it, and how long after one another.
const LOOKS_FOR_HOSTS: u32 = 6;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What has to be done about dirty data before a cache is taken away.
enum RemovalPlan {
    /// Nothing: the removal may follow at once.
    Remove(DirtyData),
    Flush(FlushScope),
    /// That is being done already.
    Join(RunningFlush),
}

/// A removal that was begun.
enum RemovalBegun {
    /// It is done; whether it changed anything.
    Done(bool),
    /// It follows a flush.
    Flushing(RunningFlush),
}

/// Dirty data in the way of a removal.
enum InTheWay {
    /// It is about no read-write pool.
    Nothing,
    /// It can be flushed.
    Dirty(FlushScope),
    /// It cannot be flushed now; why, and what to do.
    NotFlushable { dirty_bytes: u64, why: String },
    /// Nobody knows how much there is: the pool is not open.
    Unknown { pool: String },
    /// The volume's backing device is not there: the engine knows, and names the bytes.
    AskTheEngine,
}

/// Takes caches, volumes and pools away.
pub(crate) struct Removals {
    pub(crate) records: Arc<Records>,
    pub(crate) converting: Arc<Converting>,
    pub(crate) serving: Arc<Serving>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) backings: Arc<Backings>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) local: Arc<LocalDevices>,
    pub(crate) draining: Arc<Draining>,
    pub(crate) flushes: Arc<Flushes>,
    pub(crate) operations: Arc<Operations>,
}

impl Removals {
    /// Its backing device keeps everything.
    pub(crate) async fn delete_volume(self: &Arc<Self>, name: &str, removal: Removal) -> Result<Deleted, ApiError> {
        let subject = Subject::volume(name)?;
        self.remove(&subject, FlushPurpose::DeleteVolume, removal).await?;
        Ok(Deleted { deleted: name.to_owned() })
    }

    pub(crate) async fn disable_cache(self: &Arc<Self>, name: &str, removal: Removal) -> Result<bool, ApiError> {
        let subject = Subject::volume(name)?;
        self.remove(&subject, FlushPurpose::DisableCache, removal).await
    }

    /// Its volumes serve on, uncached.
    pub(crate) async fn delete_pool(self: &Arc<Self>, name: &str, removal: Removal) -> Result<Deleted, ApiError> {
        let subject = Subject::pool(name)?;
        self.remove(&subject, FlushPurpose::DeletePool, removal).await?;
        Ok(Deleted { deleted: name.to_owned() })
    }

    /// The lock is held for the checks and for the removal itself, never for a flush.
    async fn remove(
        self: &Arc<Self>,
        subject: &Subject,
        purpose: FlushPurpose,
        removal: Removal,
    ) -> Result<bool, ApiError> {
        match self.begin(subject, purpose, removal).await? {
            RemovalBegun::Done(changed) => Ok(changed),
            RemovalBegun::Flushing(flush) => flush.ended().await,
        }
    }

    async fn begin(
        self: &Arc<Self>,
        subject: &Subject,
        purpose: FlushPurpose,
        removal: Removal,
    ) -> Result<RemovalBegun, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        Ok(match self.plan_removal(subject, purpose, removal).await? {
            RemovalPlan::Remove(dirty) => RemovalBegun::Done(self.take_away(subject, purpose, dirty).await?),
            RemovalPlan::Flush(scope) => RemovalBegun::Flushing(self.draining.begin_flush(
                subject,
                purpose,
                scope,
                Who::asks(),
                Arc::clone(self),
            )),
            RemovalPlan::Join(flush) => RemovalBegun::Flushing(flush),
        })
    }

    /// Begins a removal; answers the id of its operation.
    pub(super) async fn begin_removal(
        self: &Arc<Self>,
        purpose: FlushPurpose,
        name: &str,
        removal: Removal,
    ) -> Result<u64, ApiError> {
        let subject = match purpose {
            FlushPurpose::DisableCache | FlushPurpose::DeleteVolume => Subject::volume(name)?,
            FlushPurpose::DeletePool | FlushPurpose::ConvertPool => Subject::pool(name)?,
        };
        match self.begin(&subject, purpose, removal).await? {
            RemovalBegun::Flushing(flush) => Ok(flush.id()),
            RemovalBegun::Done(_) => Ok(self.operations.done_at_once(purpose.into(), subject.for_api())),
        }
    }

    async fn plan_removal(
        &self,
        subject: &Subject,
        purpose: FlushPurpose,
        removal: Removal,
    ) -> Result<RemovalPlan, ApiError> {
        let flush = self.flushes.concerning(subject);
        self.check_no_host_uses_it(subject, purpose, removal).await?;
        let snapshot = self.records.plane.snapshot().await?;
        if let Some(flush) = flush {
            if !removal.force {
                return flush.joined_by(subject, purpose).map(RemovalPlan::Join);
            }
            self.plan_for(subject, removal, &snapshot)?;
            // Whoever waits for it hears that it was cancelled. It cannot be at its end: that needs the lock which we hold.
            let _ = flush.stop(&self.operations).await;
        }
        self.plan_for(subject, removal, &snapshot)
    }

    /// Hosts are not cut off without a word. Taking a cache away is nothing to them: they go on.
    async fn check_no_host_uses_it(
        &self,
        subject: &Subject,
        purpose: FlushPurpose,
        removal: Removal,
    ) -> Result<(), ApiError> {
        let (Subject::Volume(name), FlushPurpose::DeleteVolume, false) = (subject, purpose, removal.force) else {
            return Ok(());
        };
        self.local.check_unheld(name.as_str()).await?;
        let mut clients = Vec::new();
        for look in 0..LOOKS_FOR_HOSTS {
            // One that has just hung up is seen to be gone in a moment.
            if look > 0 {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            clients = clients::of_volume(name.as_str(), &self.records.plane.snapshot().await?);
            // Who uses that was looked at.
            clients.retain(|client| client.protocol != HostProtocol::LocalDevice);
            if clients.is_empty() {
                return Ok(());
            }
        }
        let message = format!("volume {name}: hosts use it, and would get errors: {}", clients::named(&clients));
        Err(ApiError::new(ApiErrorKind::InUse, message).with_hint(format!(
            "disconnect them first, or cut them off with --force; `hotset volume disable-cache {name}` takes only its cache \
             away, and flushes what is dirty, while they go on"
        )))
    }

    fn plan_for(&self, subject: &Subject, removal: Removal, snapshot: &Snapshot) -> Result<RemovalPlan, ApiError> {
        if removal.force && removal.lose_data {
            return Ok(RemovalPlan::Remove(DirtyData::Discard));
        }
        match self.in_the_way(subject, snapshot) {
            InTheWay::Nothing | InTheWay::AskTheEngine => Ok(RemovalPlan::Remove(DirtyData::Clean)),
            InTheWay::Dirty(scope) if !removal.force => Ok(RemovalPlan::Flush(scope)),
            InTheWay::Dirty(FlushScope { dirty_bytes: 0, .. }) => Ok(RemovalPlan::Remove(DirtyData::Clean)),
            InTheWay::Dirty(scope) => Err(would_lose(subject, scope.dirty_bytes, &flushed_otherwise(subject))),
            InTheWay::NotFlushable { dirty_bytes, why } => Err(would_lose(subject, dirty_bytes, &why)),
            InTheWay::Unknown { pool } => Err(may_lose(subject, &pool)),
        }
    }

    fn in_the_way(&self, subject: &Subject, snapshot: &Snapshot) -> InTheWay {
        match subject {
            Subject::Volume(name) => self.in_the_way_of_volume(subject, name, snapshot),
            Subject::Pool(name) => self.in_the_way_of_pool(subject, name, snapshot),
        }
    }

    fn in_the_way_of_volume(&self, subject: &Subject, name: &VolumeName, snapshot: &Snapshot) -> InTheWay {
        let offline = self.records.offline();
        if let Some(fenced) = offline.fenced.get(name.as_str()) {
            return InTheWay::NotFlushable { dirty_bytes: fenced.dirty_bytes, why: fenced.reason.clone() };
        }
        if let Some(pool) = offline.pool_of(name.as_str()) {
            return match pool.record.kind {
                RecordedKind::Read => InTheWay::Nothing,
                RecordedKind::ReadWrite => InTheWay::Unknown { pool: pool.record.name.clone() },
            };
        }
        let open = snapshot.volumes.iter().find(|volume| volume.name == *name);
        let away = || offline.volumes.get(name.as_str())?.pool.clone();
        match (open.and_then(|open| open.pool.clone()), away()) {
            (Some(pool), _) if is_read_write(&pool, snapshot) => {
                let dirty_bytes = dirty_bytes(subject, snapshot);
                InTheWay::Dirty(FlushScope { pool, volumes: vec![name.clone()], dirty_bytes })
            }
            (None, Some(pool)) if pool.parse().is_ok_and(|pool| is_read_write(&pool, snapshot)) => {
                InTheWay::AskTheEngine
            }
            (Some(_) | None, _) => InTheWay::Nothing,
        }
    }

    fn in_the_way_of_pool(&self, subject: &Subject, name: &PoolName, snapshot: &Snapshot) -> InTheWay {
        let offline = self.records.offline();
        if let Some(pool) = offline.pools.get(name.as_str()) {
            return match pool.record.kind {
                RecordedKind::Read => InTheWay::Nothing,
                RecordedKind::ReadWrite => InTheWay::Unknown { pool: name.to_string() },
            };
        }
        let Some(pool) = snapshot.pools.iter().find(|pool| pool.name == *name && is_kind_read_write(pool)) else {
            return InTheWay::Nothing;
        };
        let dirty_bytes = dirty_bytes(subject, snapshot);
        let fenced = pool.volumes.iter().find_map(|volume| Some((volume, offline.fenced.get(volume.as_str())?)));
        if let Some((volume, fenced)) = fenced {
            return InTheWay::NotFlushable {
                dirty_bytes,
                why: format!("volume {volume} cannot be flushed: {}", fenced.reason),
            };
        }
        InTheWay::Dirty(FlushScope { pool: name.clone(), volumes: pool.volumes.clone(), dirty_bytes })
    }

    /// Takes the cache away; answers whether that changed anything. The caller holds the change lock.
    async fn take_away(&self, subject: &Subject, purpose: FlushPurpose, dirty: DirtyData) -> Outcome {
        match (subject, purpose) {
            (Subject::Volume(name), FlushPurpose::DisableCache) => self.disable_cache_now(name, dirty).await,
            (Subject::Volume(name), FlushPurpose::DeleteVolume) => {
                self.delete_volume_now(name, dirty).await?;
                self.volumes.forget_advice(name);
                Ok(true)
            }
            (Subject::Pool(name), FlushPurpose::DeletePool) => self.delete_pool_now(name, dirty).await.map(|()| true),
            (Subject::Volume(_), FlushPurpose::DeletePool | FlushPurpose::ConvertPool)
            | (Subject::Pool(_), FlushPurpose::DisableCache | FlushPurpose::DeleteVolume | FlushPurpose::ConvertPool) =>
            {
                let message = format!("{subject}: {} is not for that", purpose.word());
                Err(ApiError::new(ApiErrorKind::Internal, message))
            }
        }
    }

    async fn disable_cache_now(&self, name: &VolumeName, dirty: DirtyData) -> Result<bool, ApiError> {
        let status = match self.records.open_volume_status(name.as_str()).await {
            Ok(status) => status,
            Err(error) => return self.release_waiting_volume(name, error).await,
        };
        let changed = match &status.pool {
            Some(pool) => {
                self.detach(pool, name, dirty).await?;
                self.records.save_departed(pool).await?;
                true
            }
            None => self.take_from_offline_pool(name.as_str(), Becomes::Uncached).await?,
        };
        if changed {
            tracing::info!(volume = %name, ?dirty, "disabled the cache");
        }
        Ok(changed)
    }

    /// A volume that is not served because its pool is not open; any other one that is not open is an error.
    async fn release_waiting_volume(&self, name: &VolumeName, error: ApiError) -> Result<bool, ApiError> {
        let Some(record) = self.records.offline().waiting_volume(name.as_str()) else { return Err(error) };
        self.take_from_offline_pool(name.as_str(), Becomes::UncachedLater(&record)).await?;
        self.serving.serve_or_set_offline(&record).await?;
        self.guard.update_udev_rules().await;
        tracing::info!(volume = %name, "took it from a pool that is offline");
        Ok(true)
    }

    /// A fenced volume was hidden from hosts: with its dirty data gone, it is an ordinary one.
    async fn detach(&self, pool: &PoolName, name: &VolumeName, dirty: DirtyData) -> Result<(), ApiError> {
        let (from, volume) = (pool.clone(), name.clone());
        self.records.plane.of_pool(pool).call(move |plane| plane.pools().detach(from, volume, dirty)).await?;
        self.guard.update_udev_rules().await;
        if self.records.offline().fenced.remove(name.as_str()).is_some() {
            let volume = name.clone();
            self.records.plane.of_volume(name).call(move |plane| plane.export(volume)).await?;
        }
        self.volumes.bring_home(name).await;
        Ok(())
    }

    /// The catalogue of a pool that is offline still names the volume: its record remembers that it must not. Of one that goes on without a
    /// pool, what cannot be put on record is not so: hosts would write past what the next start believes.
    async fn take_from_offline_pool(&self, name: &str, becomes: Becomes<'_>) -> Result<bool, ApiError> {
        let (before, record) = {
            let mut offline = self.records.offline();
            let pool =
                offline.pools.values_mut().find(|pool| pool.record.volumes.iter().any(|volume| volume.name == name));
            let Some(pool) = pool else { return Ok(false) };
            let before = pool.record.clone();
            let taken = pool.record.volumes.extract_if(.., |volume| volume.name == name);
            pool.record.detached_backings.extend(taken.map(|volume| volume.backing));
            pool.record.detached.push(name.to_owned());
            (before, pool.record.clone())
        };
        let was_offline = self.records.offline().volumes.get(name).cloned();
        self.records.offline().release_volume(name);
        if let Becomes::UncachedLater(record) = becomes
            && was_offline.is_none()
            && let Ok(spec) = record.spec()
        {
            let why = ApiError::new(ApiErrorKind::Unavailable, "it is being taken from its pool");
            self.records.set_volume_offline(&spec, None, &why);
        }
        let saved = match self.records.save_volumes().await {
            Ok(()) => self.records.save_offline_pool(&record),
            Err(error) => Err(error),
        };
        if let Err(error) = saved {
            if becomes != Becomes::Nothing {
                let mut offline = self.records.offline();
                if let Some(pool) = offline.pools.get_mut(&record.name) {
                    pool.record = before;
                }
                match was_offline {
                    Some(volume) => drop(offline.volumes.insert(name.to_owned(), volume)),
                    None => drop(offline.volumes.remove(name)),
                }
            }
            self.records.pool_is_outdated(&record.name, &error);
            return Err(error);
        }
        Ok(true)
    }

    async fn delete_volume_now(&self, name: &VolumeName, dirty: DirtyData) -> Result<(), ApiError> {
        self.local.disable(name.as_str(), true).await?;
        let snapshot = self.records.plane.snapshot().await?;
        let backing = self.records.backing_of(name.as_str(), &snapshot);
        match snapshot.volumes.iter().find(|open| open.name == *name) {
            Some(status) => self.delete_open_volume(status, dirty).await?,
            None => self.delete_offline_volume(name, dirty).await?,
        }
        self.backings.forget_backing(name.as_str());
        if backing.is_some_and(|backing| self.records.holds.remove(&backing)) {
            // Else it is forgotten with the next one.
            let _ = self.records.state.write_holds(&self.records.holds.all());
        }
        tracing::info!(volume = %name, ?dirty, "deleted");
        Ok(())
    }

    async fn delete_open_volume(&self, status: &VolumeStatus, dirty: DirtyData) -> Result<(), ApiError> {
        if let Some(pool) = &status.pool {
            let (from, volume) = (pool.clone(), status.name.clone());
            self.records.plane.of_pool(pool).call(move |plane| plane.pools().detach(from, volume, dirty)).await?;
            self.records.offline().fenced.remove(status.name.as_str());
            self.guard.update_udev_rules().await;
        }
        // From here on it goes, whatever cannot be recorded: that is tried again by itself.
        let flushed = self.records.plane.remove_volume(&status.name).await;
        let taken = self.take_from_offline_pool(status.name.as_str(), Becomes::Nothing).await.map(|_| ());
        let saved = match &status.pool {
            Some(pool) => self.records.save_joined(pool).await,
            None => self.records.save_volumes().await,
        };
        taken.and(saved)?;
        match (flushed, dirty) {
            (Err(error), DirtyData::Discard) => {
                tracing::warn!("{error}");
                Ok(())
            }
            (flushed, DirtyData::Clean | DirtyData::Discard) => flushed,
        }
    }

    async fn delete_offline_volume(&self, name: &VolumeName, dirty: DirtyData) -> Result<(), ApiError> {
        let found = self.records.offline().volumes.get(name.as_str()).map(|volume| volume.pool.clone());
        let Some(pool) = found else {
            // It may wait for its pool.
            let taken = self.take_from_offline_pool(name.as_str(), Becomes::Nothing).await?;
            return if taken { Ok(()) } else { Err(no_such_volume(name.as_str())) };
        };
        let pool = pool.as_deref().map(pool_name).transpose()?;
        let open = self.records.plane.snapshot().await?.pools.iter().any(|open| Some(&open.name) == pool.as_ref());
        if let Some(pool) = pool.clone().filter(|_| open) {
            let (from, volume) = (pool.clone(), name.clone());
            let detached =
                self.records.plane.of_pool(&pool).call(move |plane| plane.pools().detach(from, volume, dirty)).await;
            detached.map_err(or_by_force)?;
            self.guard.update_udev_rules().await;
        }
        self.records.offline().volumes.remove(name.as_str());
        let taken = self.take_from_offline_pool(name.as_str(), Becomes::Nothing).await.map(|_| ());
        let saved = match pool.filter(|_| open) {
            Some(pool) => self.records.save_joined(&pool).await,
            None => self.records.save_volumes().await,
        };
        taken.and(saved)
    }

    async fn delete_pool_now(&self, name: &PoolName, dirty: DirtyData) -> Result<(), ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        if !snapshot.pools.iter().any(|open| open.name == *name) {
            return self.forget_offline_pool(name).await;
        }
        // Its volumes leave it, and that is on record, before its SSDs are erased: a crash in between leaves an empty pool, and not
        // volumes that wait for one that is nowhere.
        if let Err(error) = self.detach_all(&snapshot, name, dirty).await {
            let _ = self.records.save_departed(name).await;
            return Err(error);
        }
        self.records.release_offline_volumes(name.as_str());
        // What cannot be recorded is a condition.
        let _ = self.records.save_departed(name).await;
        let delete = name.clone();
        let deleted =
            self.records.plane.of_pool(name).call(move |plane| plane.pools().delete_pool(delete, dirty)).await;
        if let Err(error) = deleted {
            // Some volumes may have left it. What cannot be recorded is a condition.
            let _ = self.records.save_departed(name).await;
            return Err(error);
        }
        self.records.release_offline_volumes(name.as_str());
        let removed = self.forget_records(name).await;
        self.export_fenced(&snapshot, name).await?;
        self.guard.update_udev_rules().await;
        let had = snapshot.volumes.iter().filter(|volume| volume.pool.as_ref() == Some(name));
        join_all(had.map(|volume| self.volumes.bring_home(&volume.name))).await;
        tracing::info!(pool = %name, ?dirty, "deleted");
        removed
    }

    async fn detach_all(&self, snapshot: &Snapshot, name: &PoolName, dirty: DirtyData) -> Result<(), ApiError> {
        let pool = snapshot.pools.iter().filter(|pool| pool.name == *name);
        for volume in pool.flat_map(|pool| pool.volumes.iter().cloned()) {
            let from = name.clone();
            self.records.plane.of_pool(name).call(move |plane| plane.pools().detach(from, volume, dirty)).await?;
        }
        Ok(())
    }

    /// The pool is gone. What of it cannot be taken off the records now is tried again.
    async fn forget_records(&self, name: &PoolName) -> Result<(), ApiError> {
        self.records.offline().deleted_pools.insert(name.to_string());
        self.records.failures.lift(&self.records.state, name.as_str());
        self.records.forget_ssds(name.as_str());
        self.records.scrubs.forget(name.as_str());
        let conversion = self.converting.forget_conversion(name.as_str());
        let removed = match self.records.save_volumes().await {
            Ok(()) => self.records.remove_deleted_pool(name),
            Err(error) => Err(error),
        };
        if let Err(error) = &removed {
            self.records.pool_is_outdated(name.as_str(), error);
        }
        conversion.and(removed)
    }

    /// Fenced volumes of a pool that is gone are ordinary ones.
    async fn export_fenced(&self, before: &Snapshot, pool: &PoolName) -> Result<(), ApiError> {
        for volume in before.volumes.iter().filter(|volume| volume.pool.as_ref() == Some(pool)) {
            if self.records.offline().fenced.remove(volume.name.as_str()).is_some() {
                let name = volume.name.clone();
                self.records.plane.of_volume(&volume.name).call(move |plane| plane.export(name)).await?;
            }
        }
        Ok(())
    }

    /// Forgets a pool that could not be opened. Its SSDs keep their superblocks: using them again needs `--force`.
    async fn forget_offline_pool(&self, name: &PoolName) -> Result<(), ApiError> {
        let found = self.records.offline().pools.get(name.as_str()).map(|pool| pool.record.clone());
        let Some(record) = found else { return Err(no_such_pool(name.as_str())) };
        match record.kind {
            RecordedKind::Read => {}
            // Before hosts write around it.
            RecordedKind::ReadWrite => self
                .records
                .state
                .forget_pool(&record.uuid)
                .map_err(|error| ApiError::new(ApiErrorKind::Device, error))?,
        }
        self.records.release_offline_volumes(name.as_str());
        self.records.offline().pools.remove(name.as_str());
        for record in &record.volumes {
            if !self.records.belongs_to_a_pool(&record.name).await {
                // What cannot be recorded is a condition.
                let _ = self.serving.serve_or_set_offline(record).await;
            }
        }
        let removed = self.forget_records(name).await;
        self.guard.update_udev_rules().await;
        tracing::info!(pool = %name, "forgot a pool that was offline");
        removed
    }
}

/// What becomes of a volume that is taken from a pool.
#[derive(Clone, Copy, PartialEq)]
enum Becomes<'r> {
    /// It is open, and served without the pool already.
    Uncached,
    /// It is not open, and will be served without the pool.
    UncachedLater(&'r VolumeRecord),
    /// It is deleted.
    Nothing,
}

impl DrainedFor for Removals {
    async fn carry_out(&self, subject: &Subject, purpose: FlushPurpose) -> Outcome {
        // Who came while it was flushed was not told.
        self.check_no_host_uses_it(subject, purpose, Removal { force: false, lose_data: false }).await?;
        self.take_away(subject, purpose, DirtyData::Clean).await
    }

    async fn ended(&self, _: &Subject, _: &Outcome) {}
}

fn is_read_write(name: &PoolName, snapshot: &Snapshot) -> bool {
    snapshot.pools.iter().any(|pool| pool.name == *name && is_kind_read_write(pool))
}

fn is_kind_read_write(pool: &PoolStatus) -> bool {
    match pool.kind {
        PoolKind::Read => false,
        PoolKind::ReadWrite => true,
    }
}

/// How dirty data is kept.
fn flushed_otherwise(subject: &Subject) -> String {
    match subject {
        Subject::Volume(name) => format!(
            "without --force they are flushed; while hosts use the volume, `hotset volume disable-cache {name}` flushes them"
        ),
        Subject::Pool(_) => "without --force they are flushed".to_owned(),
    }
}

fn would_lose(subject: &Subject, dirty_bytes: u64, otherwise: &str) -> ApiError {
    let message = format!(
        "{subject}: {} bytes ({}) that were acknowledged to hosts are not on the backing device and would be lost; \
         {otherwise}; to lose them, use --force and --yes-lose-data",
        grouped(dirty_bytes),
        human(dirty_bytes)
    );
    ApiError::new(ApiErrorKind::Refused, message)
}

fn may_lose(subject: &Subject, pool: &str) -> ApiError {
    let message = format!(
        "{subject}: pool {pool} is offline, and its SSDs may hold any amount of data that was acknowledged to hosts and \
         is not on the backing devices; bring its SSDs back, or `hotset pool import` it; to lose that data, use --force \
         and --yes-lose-data"
    );
    ApiError::new(ApiErrorKind::Refused, message)
}
