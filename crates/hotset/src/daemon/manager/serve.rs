//! Opening volumes: with their pools, without them, and again when what was missing is there.

use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind};
use hotset_cache::Reattached;
use hotset_cache::config::{PoolName, VolumeName, VolumeSpec};

use super::{Fenced, Manager, OfflinePool, OfflineVolume, pool_name};
use crate::daemon::state::{PoolRecord, VolumeRecord};

/// How often what could not be opened is tried again.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(5);

impl Manager {
    pub(super) async fn open_and_attach(&self, pool: &PoolName, spec: VolumeSpec) -> Result<(), ApiError> {
        let volume = spec.name.clone();
        let backing = spec.backing.clone();
        let snapshot = self.plane.snapshot().await?;
        let open = snapshot.volumes.iter().find(|open| open.name == volume);
        // It may serve uncached since its pool could not be opened at the start.
        let serves = open.is_some_and(|open| open.backing == spec.backing);
        if open.is_some_and(|open| open.pool.as_ref() == Some(pool))
            && !self.offline().fenced.contains_key(volume.as_str())
        {
            // A step after that failed.
            self.offline().volumes.remove(volume.as_str());
            return Ok(());
        }
        if !serves {
            self.check_answers(&spec.backing).await?;
            self.recognise_for(pool, &volume, &backing, &snapshot).await?;
            self.plane.of_pool(pool).call(move |plane| plane.open_volume(spec)).await?;
        }
        let (to, name) = (pool.clone(), volume.clone());
        let mut fenced = None;
        self.plane.bring_to_pool(&volume, pool).await?;
        match self.plane.of_pool(pool).call(move |plane| plane.reattach(to, name)).await {
            Ok(Reattached::Warm { bytes }) => {
                tracing::info!(%volume, bytes, "warm");
                self.note_backing(volume.as_str(), &backing).await;
            }
            Ok(Reattached::Fenced { cause, reason, dirty_bytes }) => {
                tracing::error!(%volume, dirty_bytes, "fenced: {reason}");
                fenced = Some(Fenced { cause, reason, dirty_bytes });
            }
            Ok(Reattached::Dropped { reason }) => {
                tracing::warn!(%volume, "its backing device was changed or replaced, so its cache was dropped: {reason}");
                if let Err(error) = self.recognise(&volume, &backing).await {
                    self.plane.of_volume(&volume.clone()).call(move |plane| plane.remove_volume(volume)).await?;
                    return Err(error);
                }
            }
            Err(error) => {
                if !serves {
                    self.plane.of_volume(&volume.clone()).call(move |plane| plane.remove_volume(volume)).await?;
                }
                return Err(error);
            }
        }
        let shown = volume.clone();
        match fenced {
            Some(fenced) => self.fence(shown, fenced).await?,
            None if serves => {}
            None => self.plane.of_volume(&volume).call(move |plane| plane.export(shown)).await?,
        }
        self.offline().volumes.remove(volume.as_str());
        Ok(())
    }

    /// Hosts would only get errors from it, and make things worse: it is hidden from them.
    async fn fence(&self, volume: VolumeName, fenced: Fenced) -> Result<(), ApiError> {
        self.offline().fenced.insert(volume.to_string(), fenced);
        self.plane.of_volume(&volume.clone()).call(move |plane| plane.hide(volume)).await
    }

    /// Serves a volume again that was fenced, if nothing speaks against it any more.
    pub(super) async fn lift_fence(&self, pool: &PoolName, name: VolumeName) -> Result<(), ApiError> {
        let (to, volume) = (pool.clone(), name.clone());
        match self.plane.of_pool(pool).call(move |plane| plane.reattach(to, volume)).await? {
            Reattached::Fenced { cause, reason, dirty_bytes } => {
                self.offline().fenced.insert(name.to_string(), Fenced { cause, reason, dirty_bytes });
                Ok(())
            }
            Reattached::Warm { .. } | Reattached::Dropped { .. } => {
                self.offline().fenced.remove(name.as_str());
                self.plane.of_volume(&name.clone()).call(move |plane| plane.export(name)).await
            }
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

    pub(super) fn set_volume_offline(&self, spec: &VolumeSpec, pool: Option<&PoolName>, error: &ApiError) {
        let seconds = RETRY_INTERVAL.as_secs();
        let reason = match pool {
            // The pool may have data of it that nothing else has.
            Some(_) => format!("{error}; it is tried every {seconds} s"),
            None => format!("{error}; it is tried every {seconds} s; `hotset volume delete {}` gives it up", spec.name),
        };
        let volume = OfflineVolume { record: VolumeRecord::of(spec), pool: pool.map(PoolName::to_string), reason };
        self.offline().volumes.insert(spec.name.to_string(), volume);
    }

    /// A read pool holds copies only, so its volumes can do without it, once nothing it holds can be believed any more.
    pub(super) async fn serve_without_pool(&self, record: &PoolRecord) {
        let forgotten = pool_name(&record.name)
            .and_then(|name| self.state.reset_member(&name).map_err(|error| self.state_failed(&error)));
        let snapshot = self.plane.snapshot().await;
        let is_open = |name: &VolumeName| {
            snapshot.as_ref().is_ok_and(|open| open.volumes.iter().any(|volume| volume.name == *name))
        };
        for volume in &record.volumes {
            let Ok(spec) = volume.spec() else { continue };
            if is_open(&spec.name) {
                // Since an earlier try.
                continue;
            }
            let served = match &forgotten {
                Ok(()) => self.serve_uncached(spec.clone()).await,
                Err(error) => Err(error.clone()),
            };
            if let Err(error) = served {
                tracing::error!(volume = volume.name, "cannot be served: {error}");
                let pool = pool_name(&record.name).ok();
                self.set_volume_offline(&spec, pool.as_ref(), &error);
            }
        }
    }

    pub(super) async fn serve_uncached(&self, spec: VolumeSpec) -> Result<(), ApiError> {
        self.check_answers(&spec.backing).await?;
        self.recognise(&spec.name, &spec.backing).await?;
        let name = spec.name.clone();
        let thread = self.plane.first();
        thread.call(move |plane| plane.open_volume(spec)).await?;
        thread.call(move |plane| plane.export(name)).await
    }

    /// A crash came between a volume's leaving its pool, or before its joining it, or between its getting another name, and
    /// the record of that.
    pub(super) async fn serve_left_over(
        &self,
        volume: &VolumeRecord,
        catalogued: &[VolumeSpec],
    ) -> Result<(), ApiError> {
        if catalogued.iter().any(|spec| spec.name.as_str() == volume.name) {
            return Ok(());
        }
        if let Some(renamed) = catalogued.iter().find(|spec| spec.backing == volume.backing) {
            tracing::info!(volume = volume.name, to = %renamed.name, "was renamed");
            self.offline().volumes.remove(&volume.name);
            return Ok(());
        }
        if self.belongs_to_a_pool(&volume.name).await {
            return Ok(());
        }
        self.serve_or_set_offline(volume).await
    }

    pub(super) async fn open_uncached_volumes(&self) {
        let records = match self.state.volumes() {
            Ok(records) => {
                self.offline().unread_volumes = None;
                records
            }
            Err(message) => {
                // It is tried again, and told once.
                if self.offline().unread_volumes.replace(message.clone()).is_none() {
                    tracing::error!("{message}");
                }
                return;
            }
        };
        self.ask_backing_devices(&records).await;
        let _one_at_a_time = self.change.lock().await;
        for record in records {
            // What is in both records belongs to its pool.
            if self.belongs_to_a_pool(&record.name).await {
                continue;
            }
            let spec = match record.spec() {
                Ok(spec) => spec,
                Err(error) => {
                    self.offline().broken.push(format!("state directory, volumes.json: {error}"));
                    continue;
                }
            };
            if let Err(error) = self.serve_recorded(spec.clone()).await {
                tracing::error!(volume = record.name, "cannot be opened: {error}");
                self.set_volume_offline(&spec, None, &error);
            }
        }
    }

    /// Serves a volume that is on record as one without a pool. A pool may hold newer data of its backing device all the same:
    /// an earlier version could leave the old name of a volume behind.
    async fn serve_recorded(&self, spec: VolumeSpec) -> Result<(), ApiError> {
        match self.pool_over(&spec.backing).await {
            None => self.serve_uncached(spec).await,
            Some(pool) => {
                let message = format!("backing device {}: pool {pool} caches it as another volume", spec.backing);
                Err(ApiError::new(ApiErrorKind::Refused, message))
            }
        }
    }

    /// Tries offline volumes again, for as long as the daemon runs: their backing devices may come back.
    pub(crate) async fn retry_offline_volumes(&self) {
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            let volumes: Vec<OfflineVolume> = self.offline().volumes.values().cloned().collect();
            for OfflineVolume { record, pool, .. } in volumes {
                let may_come = match pool.and_then(|pool| pool_name(&pool).ok()) {
                    Some(pool) => self.is_open(&pool).await,
                    None => true,
                };
                if !may_come || self.check_answers(&record.backing).await.is_err() {
                    continue;
                }
                let _one_at_a_time = self.change.lock().await;
                self.retry_volume(&record.name).await;
            }
        }
    }

    pub(super) async fn retry_volume(&self, name: &str) {
        let found = self.offline().volumes.get(name).cloned();
        let Some(OfflineVolume { record, pool, .. }) = found else { return };
        let Ok(spec) = record.spec() else { return };
        let pool = pool.and_then(|pool| pool_name(&pool).ok());
        let opened = match &pool {
            None => self.serve_recorded(spec.clone()).await,
            Some(pool) if self.is_open(pool).await => self.open_and_attach(pool, spec.clone()).await,
            // It comes with its pool.
            Some(_) => return,
        };
        match opened {
            Ok(()) => {
                tracing::info!(volume = name, "is there again");
                self.offline().volumes.remove(name);
            }
            Err(error) => self.set_volume_offline(&spec, pool.as_ref(), &error),
        }
    }

    pub(super) async fn is_open(&self, pool: &PoolName) -> bool {
        self.plane.snapshot().await.is_ok_and(|open| open.pools.iter().any(|open| open.name == *pool))
    }

    /// The pool that has a volume over this backing device, if one has.
    async fn pool_over(&self, backing: &str) -> Option<String> {
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

    pub(super) async fn belongs_to_a_pool(&self, volume: &str) -> bool {
        let of_offline = {
            let offline = self.offline();
            offline.pool_of(volume).is_some() || offline.volumes.contains_key(volume)
        };
        let snapshot = self.plane.snapshot().await;
        of_offline || snapshot.is_ok_and(|open| open.volumes.iter().any(|open| open.name.as_str() == volume))
    }
}
