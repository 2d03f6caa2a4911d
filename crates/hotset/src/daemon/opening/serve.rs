//! Opening volumes: with their pools, without them, and again when what was missing is there.

use std::sync::Arc;

use hotset_api::{ApiError, ApiErrorKind};
use hotset_cache::Reattached;
use hotset_cache::config::{PoolName, VolumeName, VolumeSpec};

use super::devices::Devices;
use super::offline::{Fenced, OfflineVolume, RETRY_INTERVAL};
use super::recognise::Backings;
use super::records::Records;
use crate::daemon::naming::pool_name;
use crate::daemon::state::{PoolRecord, VolumeRecord};

/// Opens volumes and shows them to hosts.
pub(crate) struct Serving {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) backings: Arc<Backings>,
}

impl Serving {
    pub(super) async fn open_and_attach(&self, pool: &PoolName, spec: VolumeSpec) -> Result<(), ApiError> {
        let volume = spec.name.clone();
        let backing = spec.backing.clone();
        let snapshot = self.records.plane.snapshot().await?;
        let open = snapshot.volumes.iter().find(|open| open.name == volume);
        // It may serve uncached since its pool could not be opened at the start.
        let serves = open.is_some_and(|open| open.backing == spec.backing);
        if open.is_some_and(|open| open.pool.as_ref() == Some(pool))
            && !self.records.offline().fenced.contains_key(volume.as_str())
        {
            // A step after that failed.
            self.records.offline().volumes.remove(volume.as_str());
            return Ok(());
        }
        if !serves {
            self.devices.check_answers(&spec.backing).await?;
            let (of, name) = (pool.clone(), volume.clone());
            let known =
                self.records.plane.of_pool(pool).call(move |plane| plane.pools().clean_backing(of, name)).await?;
            if known.is_some() {
                self.backings.recognise_as(&volume, &backing, known).await?;
            }
            self.records.plane.of_pool(pool).call(move |plane| plane.open_volume(spec)).await?;
            self.hold_again(&volume, &backing).await?;
        }
        let (to, name) = (pool.clone(), volume.clone());
        let mut fenced = None;
        self.records.plane.bring_to_pool(&volume, pool).await?;
        match self.records.plane.of_pool(pool).call(move |plane| plane.pools().reattach(to, name)).await {
            Ok(Reattached::Warm { bytes }) => {
                tracing::info!(%volume, bytes, "warm");
                self.backings.note_backing(volume.as_str(), &backing).await;
            }
            Ok(Reattached::Fenced { cause, reason, dirty_bytes }) => {
                tracing::error!(%volume, dirty_bytes, "fenced: {reason}");
                fenced = Some(Fenced { cause, reason: reason.to_string(), dirty_bytes });
            }
            Ok(Reattached::Dropped { reason }) => {
                tracing::warn!(%volume, "its backing device was changed or replaced, so its cache was dropped: {reason}");
                if let Err(error) = self.backings.recognise(&volume, &backing).await {
                    self.records.plane.remove_volume(&volume).await?;
                    return Err(error);
                }
            }
            Err(error) => {
                if !serves {
                    self.records.plane.remove_volume(&volume).await?;
                }
                return Err(error);
            }
        }
        let shown = volume.clone();
        match fenced {
            Some(fenced) => self.fence(shown, fenced).await?,
            None if serves => {}
            None => self.records.plane.of_volume(&volume).call(move |plane| plane.export(shown)).await?,
        }
        let mut offline = self.records.offline();
        offline.volumes.remove(volume.as_str());
        offline.unopened_volumes.remove(volume.as_str());
        Ok(())
    }

    /// Before any host can write to it.
    async fn hold_again(&self, volume: &VolumeName, backing: &str) -> Result<(), ApiError> {
        if self.records.holds.of_backing(backing).is_none() {
            return Ok(());
        }
        let name = volume.clone();
        tracing::info!(%volume, "its writes are held, as they were before");
        self.records.plane.of_volume(volume).call(move |plane| plane.hold_writes(name)).await
    }

    /// Hosts would only get errors from it, and make things worse: it is hidden from them.
    async fn fence(&self, volume: VolumeName, fenced: Fenced) -> Result<(), ApiError> {
        self.records.offline().fenced.insert(volume.to_string(), fenced);
        self.records.plane.of_volume(&volume.clone()).call(move |plane| plane.hide(volume)).await
    }

    /// Serves a volume again that was fenced, if nothing speaks against it any more.
    pub(crate) async fn lift_fence(&self, pool: &PoolName, name: VolumeName) -> Result<(), ApiError> {
        let (to, volume) = (pool.clone(), name.clone());
        match self.records.plane.of_pool(pool).call(move |plane| plane.pools().reattach(to, volume)).await? {
            Reattached::Fenced { cause, reason, dirty_bytes } => {
                let fenced = Fenced { cause, reason: reason.to_string(), dirty_bytes };
                self.records.offline().fenced.insert(name.to_string(), fenced);
                Ok(())
            }
            Reattached::Warm { .. } | Reattached::Dropped { .. } => {
                self.records.offline().fenced.remove(name.as_str());
                self.records.plane.of_volume(&name.clone()).call(move |plane| plane.export(name)).await
            }
        }
    }

    /// A read pool holds copies only, so its volumes can do without it, once nothing it holds can be believed any more.
    pub(super) async fn serve_without_pool(&self, record: &PoolRecord) {
        let forgotten = pool_name(&record.name).and_then(|name| {
            self.records.state.reset_member(&name).map_err(|error| self.records.state_unusable(&error))
        });
        let snapshot = self.records.plane.snapshot().await;
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
                self.records.set_volume_offline(&spec, pool.as_ref(), &error);
            }
        }
    }

    async fn serve_uncached(&self, spec: VolumeSpec) -> Result<(), ApiError> {
        self.devices.check_answers(&spec.backing).await?;
        self.backings.recognise(&spec.name, &spec.backing).await?;
        let (name, backing) = (spec.name.clone(), spec.backing.clone());
        let thread = self.records.plane.first();
        thread.call(move |plane| plane.open_volume(spec)).await?;
        self.hold_again(&name, &backing).await?;
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
            self.records.offline().volumes.remove(&volume.name);
            return Ok(());
        }
        if self.records.belongs_to_a_pool(&volume.name).await {
            return Ok(());
        }
        self.serve_or_set_offline(volume).await
    }

    pub(super) async fn open_uncached_volumes(&self) {
        self.records.read_unopened_volumes().await;
        let records: Vec<_> = self.records.offline().unopened_volumes.values().cloned().collect();
        self.devices.ask_backing_devices(&records).await;
        let _one_at_a_time = self.records.change.lock().await;
        for record in records {
            if self.records.offline().waits_for_conversion(&record.name) {
                continue;
            }
            if self.records.belongs_to_a_pool(&record.name).await || self.open_uncached(&record).await {
                self.records.offline().unopened_volumes.remove(&record.name);
            }
        }
    }

    /// Whether its record makes sense: then it is open, or offline.
    async fn open_uncached(&self, record: &VolumeRecord) -> bool {
        let spec = match record.spec() {
            Ok(spec) => spec,
            Err(error) => {
                let message = format!("state directory, volumes.json: {error}");
                let mut offline = self.records.offline();
                if !offline.broken.contains(&message) {
                    offline.broken.push(message);
                }
                return false;
            }
        };
        if let Err(error) = self.serve_recorded(spec.clone()).await {
            tracing::error!(volume = record.name, "cannot be opened: {error}");
            self.records.set_volume_offline(&spec, None, &error);
        }
        true
    }

    /// Serves a volume that is on record as one without a pool. A pool may hold newer data of its backing device all the same:
    /// an earlier version could leave the old name of a volume behind.
    async fn serve_recorded(&self, spec: VolumeSpec) -> Result<(), ApiError> {
        match self.records.pool_over(&spec.backing).await {
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
            let volumes: Vec<OfflineVolume> = self.records.offline().volumes.values().cloned().collect();
            for OfflineVolume { record, pool, .. } in volumes {
                let may_come = match pool.and_then(|pool| pool_name(&pool).ok()) {
                    Some(pool) => self.records.is_open(&pool).await,
                    None => true,
                };
                if !may_come || self.devices.check_answers(&record.backing).await.is_err() {
                    continue;
                }
                let _one_at_a_time = self.records.change.lock().await;
                self.retry_volume(&record.name).await;
            }
        }
    }

    pub(crate) async fn retry_volume(&self, name: &str) {
        let found = self.records.offline().volumes.get(name).cloned();
        let Some(OfflineVolume { record, pool, .. }) = found else { return };
        let Ok(spec) = record.spec() else { return };
        let pool = pool.and_then(|pool| pool_name(&pool).ok());
        let opened = match &pool {
            None => self.serve_recorded(spec.clone()).await,
            Some(pool) if self.records.is_open(pool).await => self.open_and_attach(pool, spec.clone()).await,
            // It comes with its pool.
            Some(_) => return,
        };
        match opened {
            Ok(()) => {
                tracing::info!(volume = name, "is there again");
                self.records.offline().volumes.remove(name);
            }
            Err(error) => self.records.set_volume_offline(&spec, pool.as_ref(), &error),
        }
    }

    /// A volume that has no pool any more; one that cannot be opened is tried again.
    pub(crate) async fn serve_or_set_offline(&self, record: &VolumeRecord) -> Result<(), ApiError> {
        let spec = record.spec().map_err(|error| crate::words::error(&error))?;
        match self.serve_uncached(spec.clone()).await {
            Ok(()) => {
                self.records.offline().volumes.remove(spec.name.as_str());
            }
            Err(error) => self.records.set_volume_offline(&spec, None, &error),
        }
        self.records.save_volumes().await
    }
}
