//! Making, changing and deleting volumes, and putting caches in front of them.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hotset_api::{
    ApiError, ApiErrorKind, ChangePlan, ConditionKind, PoolVolume, PoolVolumes, Share, Subject, SubjectKind,
    VolumeCreate, VolumeSet, WriteMode,
};
use hotset_block::Access;
use hotset_cache::config::{PoolKind, PoolName, VolumeName, VolumeSettings, VolumeSpec};
use hotset_cache::{Cleared, DirtyData, VolumeStatus};

use super::flush::Flushes;
use crate::daemon::advisor::Advisor;
use crate::daemon::history;
use crate::daemon::naming::{no_such_pool, pool_name, volume_name};
use crate::daemon::opening::devices::Devices;
use crate::daemon::opening::guard::Guard;
use crate::daemon::opening::local_devices::LocalDevices;
use crate::daemon::opening::offline::RETRY_INTERVAL;
use crate::daemon::opening::probe;
use crate::daemon::opening::recognise::Backings;
use crate::daemon::opening::records::Records;
use crate::daemon::state::VolumeRecord;
use crate::plane::Snapshot;
use crate::words;

/// Makes and changes volumes, and puts caches in front of them.
pub(crate) struct Volumes {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) backings: Arc<Backings>,
    pub(crate) flushes: Arc<Flushes>,
    pub(crate) local: Arc<LocalDevices>,
    /// Where statistics are kept; none before the control plane is there.
    pub(crate) history: OnceLock<(history::HistoryHandle, Arc<Advisor>)>,
    /// Volumes that were renamed and of which the observer has not heard: from, to.
    pub(crate) renamed: Mutex<Vec<(String, String)>>,
}

impl Volumes {
    pub(crate) async fn create_volume(&self, request: &VolumeCreate) -> Result<(), ApiError> {
        self.devices.check_answers(&request.backing).await?;
        let _one_at_a_time = self.records.change.lock().await;
        let spec = spec_of(request)?;
        let pool = request.pool.as_deref().map(pool_name).transpose()?;
        self.check_volume(&spec, pool.as_ref()).await?;
        let name = spec.name.clone();
        // Before anybody can see it.
        self.statistics_begin(SubjectKind::Volume, name.as_str());
        let block = request.logical_block_bytes;
        let thread = pool.as_ref().map_or(self.records.plane.first(), |pool| self.records.plane.of_pool(pool));
        thread.call(move |plane| plane.open_new_volume(spec, block)).await?;
        let done = self.install_volume(&name, pool.as_ref()).await;
        if let Err(error) = done {
            self.undo_volume(&name, pool.as_ref()).await;
            return Err(error);
        }
        self.backings.note_backing(name.as_str(), &request.backing).await;
        tracing::info!(volume = %name, backing = request.backing, "created");
        Ok(())
    }

    /// What would be refused is refused; nothing is changed.
    pub(crate) async fn plan_volume(&self, request: &VolumeCreate) -> Result<ChangePlan, ApiError> {
        self.devices.check_answers(&request.backing).await?;
        let pool = request.pool.as_deref().map(pool_name).transpose()?;
        self.check_volume(&spec_of(request)?, pool.as_ref()).await?;
        Ok(ChangePlan::default())
    }

    /// Renames a volume while hosts use it. The pool's catalogue first, which wins over the records after a crash.
    pub(crate) async fn rename_volume(&self, name: &str, to: &str) -> Result<bool, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        let (status, new) = (self.records.open_volume_status(name).await?, volume_name(to)?);
        if status.name == new {
            return Ok(false);
        }
        let refuse = |why: &str| Err(ApiError::new(ApiErrorKind::Refused, format!("volume {name}: {why}")));
        if self.flushes.flushes_volume(&status.name) {
            return refuse("it is being flushed so that its cache can be taken away; wait for that, or cancel it");
        }
        if self.flushes.flushes_volume_now(&status.name) {
            return refuse("it is being flushed; wait for that, or cancel it");
        }
        if self.records.offline().fenced.contains_key(name) || self.records.offline().pool_of(name).is_some() {
            return refuse("it waits for its pool or its backing device, which know it by this name");
        }
        self.check_volume_name(&new, &self.records.plane.snapshot().await?)?;
        let rename = async |from: &VolumeName, to: &VolumeName| {
            let (from, to) = (from.clone(), to.clone());
            self.records.plane.of_volume(&from.clone()).call(move |plane| plane.rename_volume(from, to)).await
        };
        rename(&status.name, &new).await?;
        let saved = self.save_records_of(&status).await;
        if let Err(error) = &saved
            && rename(&new, &status.name).await.is_ok()
        {
            // It may have been recorded all the same. If that fails, too, the next start goes by the SSDs.
            let _ = self.save_records_of(&status).await;
            let message =
                format!("volume {name}: it keeps its name, for the new one cannot be recorded: {}", error.message);
            return Err(ApiError { message, ..error.clone() });
        }
        self.local.rename(name, to).await;
        self.backings.rename_backing(name, to);
        self.renamed.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), to.to_owned()));
        if let Some((history, advisor)) = self.history.get() {
            // First: what the advisor keeps from then on, it keeps under the new name.
            advisor.rename(name, to);
            history.note_renamed(name, to);
        }
        self.guard.update_udev_rules().await;
        saved?;
        tracing::info!(volume = name, to, "renamed");
        Ok(true)
    }

    fn check_volume_name(&self, name: &VolumeName, snapshot: &Snapshot) -> Result<(), ApiError> {
        let open = snapshot.volumes.iter().any(|volume| volume.name == *name);
        let offline = self.records.offline();
        if open || offline.has_volume(name.as_str()) || offline.unopened_volumes.contains_key(name.as_str()) {
            let message = format!("volume {name}: a volume of this name exists already");
            return Err(ApiError::new(ApiErrorKind::Refused, message));
        }
        Ok(())
    }

    async fn check_volume(&self, spec: &VolumeSpec, pool: Option<&PoolName>) -> Result<(), ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        self.check_volume_name(&spec.name, &snapshot)?;
        if let Some(pool) = pool {
            self.check_pool_is_open(pool, &snapshot)?;
        }
        let what = format!("backing device {}", spec.backing);
        let access = if spec.settings.read_only { Access::Read } else { Access::Alone };
        let looked_at = spec.backing.clone();
        self.devices.ask(&what, move || probe::check_is_storage(&looked_at)).await??;
        // Before what lies on it is judged: an SSD in use is not to be cleared.
        self.devices.check_unused(&what, &spec.backing, access, &snapshot).await?;
        let backing = spec.backing.clone();
        self.devices.ask(&what, move || probe::check_backing(&backing)).await?
    }

    fn check_pool_is_open(&self, pool: &PoolName, snapshot: &Snapshot) -> Result<(), ApiError> {
        if self.flushes.flushes_pool(pool) {
            let message = format!("pool {pool}: it is being flushed, to be deleted or converted; nothing can join it");
            return Err(ApiError::new(ApiErrorKind::Refused, message));
        }
        if snapshot.pools.iter().any(|open| open.name == *pool) {
            return Ok(());
        }
        Err(match self.records.offline().pools.get(pool.as_str()) {
            Some(offline) => {
                ApiError::new(ApiErrorKind::Refused, format!("pool {pool} is offline: {}", offline.reason))
            }
            None => no_such_pool(pool.as_str()),
        })
    }

    /// Cached or recorded first, then shown to hosts.
    async fn install_volume(&self, name: &VolumeName, pool: Option<&PoolName>) -> Result<(), ApiError> {
        match pool {
            Some(pool) => {
                self.attach(pool, name).await?;
                self.records.save_pool(pool).await?;
            }
            None => self.records.save_volumes().await?,
        }
        let export = name.clone();
        self.records.plane.of_volume(name).call(move |plane| plane.export(export)).await
    }

    /// A volume of a read-write pool is recorded and guarded before its first write goes to the SSDs alone.
    pub(crate) async fn attach(&self, pool: &PoolName, name: &VolumeName) -> Result<(), ApiError> {
        self.records.plane.bring_to_pool(name, pool).await?;
        let snapshot = self.records.plane.snapshot().await?;
        let joins = snapshot.pools.iter().find(|open| open.name == *pool).map(|open| open.kind);
        let volume = snapshot.volumes.iter().find(|open| open.name == *name);
        if let (Some(PoolKind::ReadWrite), Some(volume)) = (joins, volume) {
            self.records.save_pool_with(pool, Some(VolumeRecord::of(&crate::daemon::naming::spec_of(volume)))).await?;
            self.guard.guard(name.as_str(), &volume.backing).await;
        }
        let (to, attached) = (pool.clone(), name.clone());
        let done = self.records.plane.of_pool(pool).call(move |plane| plane.pools().attach(to, attached)).await;
        if done.is_err() {
            self.guard.update_udev_rules().await;
            // Best effort: the error that is reported is the one that came first.
            let _ = self.records.save_pool(pool).await;
            self.bring_home(name).await;
        }
        done
    }

    /// A volume that has left its pool goes back to the first thread. Where that does not work out, now, it goes on where it is.
    pub(crate) async fn bring_home(&self, name: &VolumeName) {
        if let Err(error) = self.records.plane.bring_home(name).await {
            tracing::info!(volume = %name, "stays on its pool's thread of the data plane: {error}");
        }
    }

    /// Best effort: the error that is reported is the one that came first.
    async fn undo_volume(&self, name: &VolumeName, pool: Option<&PoolName>) {
        if let Some(pool) = pool {
            let (from, volume) = (pool.clone(), name.clone());
            let _ = self
                .records
                .plane
                .of_pool(pool)
                .call(move |plane| plane.pools().detach(from, volume, DirtyData::Clean))
                .await;
            let _ = self.records.save_pool(pool).await;
            self.guard.update_udev_rules().await;
        }
        let _ = self.records.plane.remove_volume(name).await;
        let _ = self.records.save_volumes().await;
    }

    pub(crate) async fn set_volume(&self, name: &str, set: VolumeSet) -> Result<bool, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        let status = self.records.open_volume_status(name).await?;
        self.check_meaning(&status, set).await?;
        // What may be refused comes first.
        let local_changed = match set.local {
            Some(true) => self.local.enable(&status).await?,
            Some(false) => self.local.disable(name, set.force).await?,
            None => false,
        };
        let settings = merged(status.settings, set);
        let changed = settings != status.settings;
        if changed {
            let volume = status.name.clone();
            self.records.plane.of_volume(&status.name).call(move |plane| plane.set_volume(volume, settings)).await?;
            self.save_records_of(&status).await?;
            tracing::info!(volume = name, ?set, "changed settings");
        }
        Ok(changed || local_changed)
    }

    /// What would be refused is refused; nothing is changed. Of a volume that is not there yet what does not depend on it is checked: it
    /// may be about to be made.
    pub(crate) async fn plan_settings(&self, name: &str, set: VolumeSet) -> Result<ChangePlan, ApiError> {
        match self.records.open_volume_status(name).await {
            Ok(status) => {
                self.check_meaning(&status, set).await?;
                let (volume, settings) = (status.name.clone(), merged(status.settings, set));
                let thread = self.records.plane.of_volume(&status.name);
                thread.call(move |plane| plane.check_volume(volume, settings)).await?;
            }
            Err(error) if error.kind == ApiErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        match set.local {
            Some(true) => self.local.check_possible(name).await?,
            Some(false) if !set.force => self.local.check_unheld(name).await?,
            Some(false) | None => {}
        }
        Ok(ChangePlan::default())
    }

    /// What a pool would refuse of these volumes; nothing is changed.
    pub(crate) async fn plan_of_pool(&self, pool: &str, volumes: &PoolVolumes) -> Result<ChangePlan, ApiError> {
        let pool = pool_name(pool)?;
        let leave = volumes.leave.iter().map(|name| volume_name(name)).collect::<Result<_, _>>()?;
        let stays = |volume: &PoolVolume| {
            let share = |share: Option<Share>| share.and_then(words::engine_share);
            let shares = (share(volume.cache_min), share(volume.cache_max));
            let settings = VolumeSettings { cache_min: shares.0, cache_max: shares.1, ..Default::default() };
            Ok::<_, ApiError>((volume_name(&volume.name)?, settings))
        };
        let stay = volumes.stay.iter().map(stays).collect::<Result<_, _>>()?;
        let thread = self.records.plane.of_pool(&pool);
        thread.call(move |plane| plane.pools().check_volumes(pool, leave, stay)).await?;
        Ok(ChangePlan::default())
    }

    /// A read pool caches no writes: settings that are about nothing else are refused.
    async fn check_meaning(&self, status: &VolumeStatus, set: VolumeSet) -> Result<(), ApiError> {
        let around = set.write_mode.is_none_or(|mode| mode == WriteMode::WriteAround);
        let uncapped = set.dirty_cap.is_none_or(|cap| words::engine_share(cap).is_none());
        let Some(pool) = status.pool.as_ref().filter(|_| !around || !uncapped) else { return Ok(()) };
        let snapshot = self.records.plane.snapshot().await?;
        let kind = snapshot.pools.iter().find(|open| open.name == *pool).map(|open| open.kind);
        match kind {
            None | Some(PoolKind::ReadWrite) => Ok(()),
            Some(PoolKind::Read) => {
                let what = if around { "a dirty cap" } else { "a write mode other than write-around" };
                let message = format!(
                    "volume {}: {what} means nothing in pool {pool}, which is a read pool: writes go to the backing device at once",
                    status.name
                );
                Err(ApiError::new(ApiErrorKind::Invalid, message)
                    .with_hint(format!("`hotset pool convert {pool} --type read-write` makes a read-write pool of it")))
            }
        }
    }

    async fn save_records_of(&self, status: &VolumeStatus) -> Result<(), ApiError> {
        match &status.pool {
            Some(pool) => self.records.save_pool(pool).await,
            None => self.records.save_volumes().await,
        }
    }

    /// Serves what was added to a volume's backing device; hosts see it from their next connection on.
    pub(crate) async fn grow_volume(&self, name: &str) -> Result<bool, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        let volume = self.records.open_volume_status(name).await?.name;
        let changed =
            self.records.plane.of_volume(&volume.clone()).call(move |plane| plane.grow_volume(volume)).await?;
        if changed {
            tracing::info!(volume = name, "has grown with its backing device");
        }
        Ok(changed)
    }

    /// Checks a volume's backing device after a failed flush, or after it was away, and opens it again.
    pub(crate) async fn clear_volume(&self, name: &str) -> Result<Cleared, ApiError> {
        let status = self.records.open_volume_status(name).await?;
        // Opening it must not hold up the data plane.
        self.devices.check_answers(&status.backing).await?;
        let _one_at_a_time = self.records.change.lock().await;
        let volume = self.records.open_volume_status(name).await?.name;
        let cleared =
            self.records.plane.of_volume(&volume.clone()).call(move |plane| plane.clear_volume(volume)).await?;
        match cleared {
            Cleared::NotNeeded => {}
            Cleared::Opened { doubtful } => tracing::info!(volume = name, doubtful, "opened its backing device again"),
        }
        Ok(cleared)
    }

    /// What was closed to be opened again and could not be is tried again, as a volume that is offline is.
    pub(crate) async fn reopen_closed(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            let Ok(closed) = self.records.plane.all(|plane| plane.closed()).await else { return };
            for name in closed.concat() {
                // Why not is in its status.
                if self.clear_volume(name.as_str()).await.is_ok() {
                    tracing::info!(volume = %name, "its backing device is there again");
                }
            }
        }
    }

    /// Backing devices grow without anybody's word, for as long as the daemon runs.
    pub(crate) async fn follow_growth(self: Arc<Self>) {
        let subject = |name: &str| Subject::new(SubjectKind::Volume, name);
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            let Ok(grown) = self.records.plane.all(|plane| plane.can_grow()).await.map(|grown| grown.concat()) else {
                return;
            };
            let is_over = |of: &&Subject| !grown.iter().any(|grown| grown.as_str() == of.name);
            for of in self.records.register.subjects_of(ConditionKind::Growth).iter().filter(is_over) {
                self.records.register.clear_for(ConditionKind::Growth, of.clone());
            }
            for name in grown {
                let outcome = self.grow_volume(name.as_str()).await;
                self.records.register.follow_for(ConditionKind::Growth, subject(name.as_str()), &outcome);
            }
        }
    }

    pub(crate) async fn enable_cache(&self, name: &str, pool: &str) -> Result<bool, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        let pool = pool_name(pool)?;
        let status = self.records.open_volume_status(name).await?;
        self.check_pool_is_open(&pool, &self.records.plane.snapshot().await?)?;
        match &status.pool {
            Some(now) if *now == pool => {
                return Ok(false);
            }
            Some(now) => {
                let message =
                    format!("volume {name}: pool {now} caches it; `hotset volume disable-cache {name}` first");
                return Err(ApiError::new(ApiErrorKind::Refused, message));
            }
            None => {}
        }
        self.attach(&pool, &status.name).await?;
        self.records.save_joined(&pool).await?;
        tracing::info!(volume = name, %pool, "enabled the cache");
        Ok(true)
    }

    /// Statistics are kept there from now on.
    ///
    /// # Panics
    /// If told twice.
    pub(crate) fn keeps_statistics(&self, history: history::HistoryHandle, advisor: Arc<Advisor>) {
        assert!(self.history.set((history, advisor)).is_ok(), "there is one history");
    }

    /// Something new has none of the statistics of what had its name before.
    pub(crate) fn statistics_begin(&self, kind: SubjectKind, name: &str) {
        if let Some((history, _)) = self.history.get() {
            history.note_new(kind, name);
        }
    }

    /// One that is made later is another one, whatever its name.
    pub(super) fn forget_advice(&self, volume: &VolumeName) {
        if let Some((_, advisor)) = self.history.get() {
            advisor.forget(volume.as_str());
        }
    }

    /// Renamings since this was asked last.
    pub(crate) fn take_renamed(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.renamed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn spec_of(request: &VolumeCreate) -> Result<VolumeSpec, ApiError> {
    let defaults = VolumeSettings::default();
    let settings = VolumeSettings {
        read_only: request.read_only,
        write_mode: request.write_mode.map_or(defaults.write_mode, words::engine_write_mode),
        read_cache: request.read_cache.unwrap_or(defaults.read_cache),
        ..defaults
    };
    if let Some(wrong) = request.logical_block_bytes.filter(|bytes| ![512, 4096].contains(bytes)) {
        let message = format!("logical block of {wrong} bytes: it is 512 or 4096");
        return Err(ApiError::new(ApiErrorKind::Invalid, message));
    }
    if request.backing.len() > hotset_cache::config::limits::BACKING_BYTES_MAX {
        return Err(ApiError::new(ApiErrorKind::Invalid, "the spelling of the backing device is too long"));
    }
    if request.backing.contains(char::is_control) {
        let message = format!("backing device {:?}: control characters have no place in its spelling", request.backing);
        return Err(ApiError::new(ApiErrorKind::Invalid, message));
    }
    let name = volume_name(&request.name)?;
    Ok(VolumeSpec { name, backing: request.backing.clone(), settings })
}

/// A cut-off of 0 means off, a share of 0 none.
fn merged(now: VolumeSettings, set: VolumeSet) -> VolumeSettings {
    let cutoff = |wanted: Option<u64>, now: Option<u64>| wanted.map_or(now, |bytes| (bytes > 0).then_some(bytes));
    VolumeSettings {
        read_cutoff_bytes: cutoff(set.read_cutoff_bytes, now.read_cutoff_bytes),
        write_cutoff_bytes: cutoff(set.write_cutoff_bytes, now.write_cutoff_bytes),
        write_mode: set.write_mode.map_or(now.write_mode, words::engine_write_mode),
        read_cache: set.read_cache.unwrap_or(now.read_cache),
        memory_cache: set.memory_cache.unwrap_or(now.memory_cache),
        read_ahead: set.read_ahead.unwrap_or(now.read_ahead),
        dirty_cap: set.dirty_cap.map_or(now.dirty_cap, words::engine_share),
        cache_min: set.cache_min.map_or(now.cache_min, words::engine_share),
        cache_max: set.cache_max.map_or(now.cache_max, words::engine_share),
        ..now
    }
}
