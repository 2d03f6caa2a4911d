//! Making, changing and deleting volumes, and putting caches in front of them.

use hotset_api::{ApiError, ApiErrorKind, Deleted, Volume, VolumeChange, VolumeCreate, VolumeSet};
use hotset_cache::VolumeStatus;
use hotset_cache::config::{PoolName, VolumeName, VolumeSettings, VolumeSpec};

use super::{Manager, blocking, no_such_volume, pool_name, volume_name};
use crate::daemon::probe;
use crate::plane::Snapshot;

impl Manager {
    pub(crate) async fn create_volume(&self, request: &VolumeCreate) -> Result<Volume, ApiError> {
        let _one_at_a_time = self.change.lock().await;
        let spec = spec_of(request)?;
        let pool = request.pool.as_deref().map(pool_name).transpose()?;
        self.check_volume(&spec, pool.as_ref()).await?;
        let name = spec.name.clone();
        let block = request.logical_block_bytes;
        self.plane.call(move |plane| plane.open_new_volume(spec, block)).await?;
        let done = self.install_volume(&name, pool.as_ref()).await;
        if let Err(error) = done {
            self.undo_volume(&name, pool.as_ref()).await;
            return Err(error);
        }
        tracing::info!(volume = %name, backing = request.backing, "created");
        self.volume(name.as_str()).await
    }

    async fn check_volume(&self, spec: &VolumeSpec, pool: Option<&PoolName>) -> Result<(), ApiError> {
        let snapshot = self.plane.snapshot().await?;
        let name = spec.name.as_str();
        let open = snapshot.volumes.iter().any(|volume| volume.name == spec.name);
        if open || self.offline().volumes.contains_key(name) {
            let message = format!("volume {name}: a volume of this name exists already");
            return Err(ApiError::new(ApiErrorKind::Refused, message));
        }
        if let Some(pool) = pool {
            self.check_pool_is_open(pool, &snapshot)?;
        }
        let backing = spec.backing.clone();
        let key = blocking(move || probe::check_backing(&backing).map(|()| probe::backing_key(&backing))).await??;
        match key {
            Some(key) => self.check_unused(&format!("backing device {}", spec.backing), key, &snapshot),
            None => Ok(()),
        }
    }

    fn check_pool_is_open(&self, pool: &PoolName, snapshot: &Snapshot) -> Result<(), ApiError> {
        if snapshot.pools.iter().any(|open| open.name == *pool) {
            return Ok(());
        }
        Err(match self.offline().pools.get(pool.as_str()) {
            Some(offline) => {
                ApiError::new(ApiErrorKind::Refused, format!("pool {pool} is offline: {}", offline.reason))
            }
            None => super::no_such_pool(pool.as_str()),
        })
    }

    /// Cached or recorded first, then shown to hosts.
    async fn install_volume(&self, name: &VolumeName, pool: Option<&PoolName>) -> Result<(), ApiError> {
        match pool {
            Some(pool) => {
                let (pool_name, volume) = (pool.clone(), name.clone());
                self.plane.call(move |plane| plane.attach(pool_name, volume)).await?;
                self.save_pool(pool).await?;
            }
            None => self.save_volumes().await?,
        }
        let export = name.clone();
        self.plane.call(move |plane| plane.export(export)).await
    }

    /// Best effort: the error that is reported is the one that came first.
    async fn undo_volume(&self, name: &VolumeName, pool: Option<&PoolName>) {
        if let Some(pool) = pool {
            let (from, volume) = (pool.clone(), name.clone());
            let _ = self.plane.call(move |plane| plane.detach(from, volume)).await;
            let _ = self.save_pool(pool).await;
        }
        let remove = name.clone();
        let _ = self.plane.call(move |plane| plane.remove_volume(remove)).await;
        let _ = self.save_volumes().await;
    }

    pub(crate) async fn set_volume(&self, name: &str, set: VolumeSet) -> Result<VolumeChange, ApiError> {
        let _one_at_a_time = self.change.lock().await;
        let status = self.open_volume_status(name).await?;
        let settings = merged(status.settings, set);
        let changed = settings != status.settings;
        if changed {
            let volume = status.name.clone();
            self.plane.call(move |plane| plane.set_volume(volume, settings)).await?;
            self.save_records_of(&status).await?;
            tracing::info!(volume = name, ?set, "changed settings");
        }
        Ok(VolumeChange { changed, volume: self.volume(name).await? })
    }

    async fn save_records_of(&self, status: &VolumeStatus) -> Result<(), ApiError> {
        match &status.pool {
            Some(pool) => self.save_pool(pool).await,
            None => self.save_volumes().await,
        }
    }

    async fn open_volume_status(&self, name: &str) -> Result<VolumeStatus, ApiError> {
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

    pub(crate) async fn enable_cache(&self, name: &str, pool: &str) -> Result<VolumeChange, ApiError> {
        let _one_at_a_time = self.change.lock().await;
        let pool = pool_name(pool)?;
        let status = self.open_volume_status(name).await?;
        self.check_pool_is_open(&pool, &self.plane.snapshot().await?)?;
        match &status.pool {
            Some(now) if *now == pool => {
                return Ok(VolumeChange { changed: false, volume: self.volume(name).await? });
            }
            Some(now) => {
                let message =
                    format!("volume {name}: pool {now} caches it; `hotset volume disable-cache {name}` first");
                return Err(ApiError::new(ApiErrorKind::Refused, message));
            }
            None => {}
        }
        let (attach_to, volume) = (pool.clone(), status.name.clone());
        self.plane.call(move |plane| plane.attach(attach_to, volume)).await?;
        // The pool's record first: what is in both counts as the pool's.
        self.save_pool(&pool).await?;
        self.save_volumes().await?;
        tracing::info!(volume = name, %pool, "enabled the cache");
        Ok(VolumeChange { changed: true, volume: self.volume(name).await? })
    }

    pub(crate) async fn disable_cache(&self, name: &str) -> Result<VolumeChange, ApiError> {
        let _one_at_a_time = self.change.lock().await;
        let status = self.open_volume_status(name).await?;
        let changed = match &status.pool {
            Some(pool) => {
                let (from, volume) = (pool.clone(), status.name.clone());
                self.plane.call(move |plane| plane.detach(from, volume)).await?;
                self.save_volumes().await?;
                self.save_pool(pool).await?;
                true
            }
            None => self.take_from_offline_pool(name).await?,
        };
        if changed {
            tracing::info!(volume = name, "disabled the cache");
        }
        Ok(VolumeChange { changed, volume: self.volume(name).await? })
    }

    /// The catalogue of a pool that is offline still names the volume: its record remembers that it must not.
    async fn take_from_offline_pool(&self, name: &str) -> Result<bool, ApiError> {
        let taken = {
            let mut offline = self.offline();
            let pool =
                offline.pools.values_mut().find(|pool| pool.record.volumes.iter().any(|volume| volume.name == name));
            pool.map(|pool| {
                pool.record.volumes.retain(|volume| volume.name != name);
                pool.record.detached.push(name.to_owned());
                pool.record.clone()
            })
        };
        let Some(record) = taken else { return Ok(false) };
        self.save_volumes().await?;
        self.state.write_pool(&record).map_err(|error| self.state_failed(&error))?;
        Ok(true)
    }

    /// Its backing device keeps everything.
    pub(crate) async fn delete_volume(&self, name: &str) -> Result<Deleted, ApiError> {
        let _one_at_a_time = self.change.lock().await;
        let volume = volume_name(name)?;
        let snapshot = self.plane.snapshot().await?;
        match snapshot.volumes.iter().find(|open| open.name == volume) {
            Some(status) => self.delete_open_volume(status).await?,
            None => self.delete_offline_volume(&volume).await?,
        }
        tracing::info!(volume = name, "deleted");
        Ok(Deleted { deleted: name.to_owned() })
    }

    async fn delete_open_volume(&self, status: &VolumeStatus) -> Result<(), ApiError> {
        if let Some(pool) = &status.pool {
            let (from, volume) = (pool.clone(), status.name.clone());
            self.plane.call(move |plane| plane.detach(from, volume)).await?;
            self.save_pool(pool).await?;
        }
        let volume = status.name.clone();
        let flushed = self.plane.call(move |plane| plane.remove_volume(volume)).await;
        self.take_from_offline_pool(status.name.as_str()).await?;
        self.save_volumes().await?;
        flushed
    }

    async fn delete_offline_volume(&self, name: &VolumeName) -> Result<(), ApiError> {
        let found = self.offline().volumes.get(name.as_str()).map(|volume| volume.pool.clone());
        let Some(pool) = found else { return Err(no_such_volume(name.as_str())) };
        let pool = pool.as_deref().map(pool_name).transpose()?;
        let open = self.plane.snapshot().await?.pools.iter().any(|open| Some(&open.name) == pool.as_ref());
        if let Some(pool) = pool.clone().filter(|_| open) {
            let volume = name.clone();
            self.plane.call(move |plane| plane.detach(pool, volume)).await?;
        }
        self.offline().volumes.remove(name.as_str());
        self.take_from_offline_pool(name.as_str()).await?;
        if let Some(pool) = pool.filter(|_| open) {
            self.save_pool(&pool).await?;
        }
        self.save_volumes().await
    }
}

fn spec_of(request: &VolumeCreate) -> Result<VolumeSpec, ApiError> {
    let settings = VolumeSettings { read_only: request.read_only, ..VolumeSettings::default() };
    if let Some(wrong) = request.logical_block_bytes.filter(|bytes| ![512, 4096].contains(bytes)) {
        let message = format!("logical block of {wrong} bytes: it is 512 or 4096");
        return Err(ApiError::new(ApiErrorKind::Invalid, message));
    }
    if request.backing.len() > hotset_cache::config::limits::BACKING_BYTES_MAX {
        return Err(ApiError::new(ApiErrorKind::Invalid, "the spelling of the backing device is too long"));
    }
    let name = volume_name(&request.name)?;
    Ok(VolumeSpec { name, backing: request.backing.clone(), settings })
}

/// A cut-off of 0 means off.
fn merged(now: VolumeSettings, set: VolumeSet) -> VolumeSettings {
    let cutoff = |wanted: Option<u64>, now: Option<u64>| wanted.map_or(now, |bytes| (bytes > 0).then_some(bytes));
    VolumeSettings {
        read_cutoff_bytes: cutoff(set.read_cutoff_bytes, now.read_cutoff_bytes),
        write_cutoff_bytes: cutoff(set.write_cutoff_bytes, now.write_cutoff_bytes),
        ..now
    }
}
