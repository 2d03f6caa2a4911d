//! Flushes of what is dirty now, of volumes that go on caching; and, if that is wanted, nothing new stays dirty from then on, for a
//! snapshot or a backup of the backing devices, until an administrator releases it.

use std::sync::Arc;

use hotset_api::{ApiError, ApiErrorKind, HoldReleased, OperationKind, SubjectKind};
use hotset_cache::config::VolumeName;
use hotset_cache::{Flushed, VolumeStatus};
use tokio::task::JoinSet;

use super::flushed::{FlushedNow, Flushing, Subject};
use super::operations::{Begin, Begun, Cancel, Operations, carry_on};
use crate::clock::unix_ms;
use crate::daemon::naming::{no_such_pool, no_such_volume};
use crate::daemon::opening::records::Records;
use crate::daemon::state::HoldRecord;
use crate::daemon::who::Who;
use crate::plane::Snapshot;

/// See the file's summary.
pub(crate) struct FlushesNow {
    pub(crate) records: Arc<Records>,
    pub(crate) operations: Arc<Operations>,
}

impl FlushesNow {
    /// Begins a flush; answers the id of its operation.
    pub(super) async fn begin(self: &Arc<Self>, subject: &Subject, hold: bool) -> Result<u64, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        let snapshot = self.records.plane.snapshot().await?;
        let open = self.open_volumes(subject, &snapshot)?;
        let volumes: Vec<VolumeName> = open.iter().map(|volume| volume.name.clone()).collect();
        self.check_not_flushed(subject, &volumes)?;
        let newly_held = if hold { self.hold(&open).await? } else { Vec::new() };
        let (kind, asked_by) = (kind_of(subject), Who::asks());
        let running = FlushedNow { dirty_bytes: dirty_of(&open), cleaned_bytes: cleaned_of(&open), volumes };
        let (total_bytes, cancel) = (running.dirty_bytes, Cancel::Anytime);
        let begin = Begin { kind, subject: subject.for_api(), asked_by, total_bytes, cancel };
        let Begun { id, cancelled } = self.operations.begin_flushing(begin, Flushing::Now(running.clone()));
        let (this, subject) = (Arc::clone(self), subject.clone());
        tokio::spawn(async move {
            let outcome = carry_on(cancelled, this.flush(&subject, &running), this.cancel(&running)).await;
            match &outcome {
                Ok(()) => tracing::info!("{subject}: what was dirty is on the backing devices"),
                Err(error) => tracing::warn!("{subject}: the flush ended: {error}"),
            }
            if outcome.is_err() {
                this.release_again(&newly_held).await;
            }
            this.operations.end(id, outcome.err().as_ref());
        });
        Ok(id)
    }

    fn open_volumes<'s>(&self, subject: &Subject, snapshot: &'s Snapshot) -> Result<Vec<&'s VolumeStatus>, ApiError> {
        let offline = self.records.offline();
        match subject {
            Subject::Volume(name) => {
                let open = snapshot.volumes.iter().find(|volume| volume.name == *name);
                match open {
                    Some(open) => Ok(vec![open]),
                    None if offline.has_volume(name.as_str()) => {
                        Err(refused(subject, "it is offline: nothing can be flushed now"))
                    }
                    None => Err(no_such_volume(name.as_str())),
                }
            }
            Subject::Pool(name) if offline.pools.contains_key(name.as_str()) => {
                Err(refused(subject, "it is offline: nothing can be flushed now"))
            }
            Subject::Pool(name) => {
                let pool = snapshot.pools.iter().find(|pool| pool.name == *name);
                let pool = pool.ok_or_else(|| no_such_pool(name.as_str()))?;
                let is_open = |name: &VolumeName| snapshot.volumes.iter().any(|volume| volume.name == *name);
                if let Some(away) = pool.volumes.iter().find(|volume| !is_open(volume)) {
                    return Err(refused(
                        subject,
                        &format!("volume {away} is offline: nothing of it can be flushed now"),
                    ));
                }
                Ok(snapshot.volumes.iter().filter(|volume| volume.pool.as_ref() == Some(name)).collect())
            }
        }
    }

    /// Two that begin at once are told apart by what both see.
    fn check_not_flushed(&self, subject: &Subject, volumes: &[VolumeName]) -> Result<(), ApiError> {
        let same = self
            .operations
            .flushing_now()
            .into_iter()
            .find(|(_, flush)| flush.volumes.iter().any(|volume| volumes.contains(volume)));
        same.map_or(Ok(()), |(id, _)| {
            Err(refused(subject, "what is dirty is being flushed already").with_hint(format!(
                "`hotset operations` shows how far it is and `hotset operations cancel {id}` ends it"
            )))
        })
    }

    /// All volumes side by side, each at its own backing device's pace. One that fails does not end the others.
    async fn flush(&self, subject: &Subject, running: &FlushedNow) -> Result<(), ApiError> {
        let mut flushes = JoinSet::new();
        for volume in running.volumes.clone() {
            let plane = self.records.plane.clone();
            flushes.spawn(
                async move { plane.of_volume(&volume.clone()).call(move |plane| plane.flush_now(volume)).await },
            );
        }
        let mut outcome = Ok(());
        while let Some(flushed) = flushes.join_next().await {
            let flushed = flushed.map_err(|error| ApiError::new(ApiErrorKind::Internal, error.to_string()))?;
            let flushed = flushed.and_then(|flushed| match flushed {
                Flushed::Durable => Ok(()),
                Flushed::Cancelled => {
                    let message = format!("{subject}: the flush was cancelled; what it wrote is on the backing device");
                    Err(ApiError::new(ApiErrorKind::Cancelled, message))
                }
            });
            outcome = outcome.and(flushed);
        }
        outcome
    }

    async fn cancel(&self, running: &FlushedNow) {
        for volume in running.volumes.clone() {
            // One that is gone is not flushed any more.
            let cancel =
                self.records.plane.of_volume(&volume.clone()).call(move |plane| plane.cancel_flush_now(volume));
            let _ = cancel.await;
        }
    }

    /// Durable before anybody relies on it. Answers those whose writes were not held before.
    async fn hold(&self, volumes: &[&VolumeStatus]) -> Result<Vec<VolumeName>, ApiError> {
        let (since_unix_ms, by) = (unix_ms(), Who::asks());
        let record =
            |volume: &VolumeStatus| HoldRecord { backing: volume.backing.clone(), since_unix_ms, by: by.to_string() };
        let newly: Vec<_> = volumes.iter().filter(|volume| self.records.holds.add(record(volume))).collect();
        if let Err(error) = self.save() {
            for volume in newly {
                self.records.holds.remove(&volume.backing);
            }
            return Err(error);
        }
        for volume in &newly {
            let (name, of) = (volume.name.clone(), self.records.plane.of_volume(&volume.name));
            of.call(move |plane| plane.hold_writes(name)).await?;
            let subject = Subject::Volume(volume.name.clone()).for_api();
            self.records.changes.note(subject, "writes are held: nothing new stays dirty");
        }
        Ok(newly.into_iter().map(|volume| volume.name.clone()).collect())
    }

    /// The writes of a volume, or of all volumes of a pool, may stay dirty again.
    pub(crate) async fn release(&self, subject: &Subject) -> Result<HoldReleased, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        let snapshot = self.records.plane.snapshot().await?;
        let mut changed = false;
        for (name, backing) in self.volumes_and_backings(subject, &snapshot)? {
            changed |= self.release_one(&name, &backing).await?;
        }
        Ok(HoldReleased { changed, name: subject.name().to_owned() })
    }

    /// Volumes that are away, too: those of a pool, or the one of this name.
    fn volumes_and_backings(&self, subject: &Subject, snapshot: &Snapshot) -> Result<Vec<(String, String)>, ApiError> {
        let open = snapshot.volumes.iter().map(|volume| {
            let pool = volume.pool.as_ref().map(ToString::to_string);
            (volume.name.to_string(), volume.backing.clone(), pool)
        });
        let offline = self.records.offline();
        let away = offline
            .volumes
            .values()
            .map(|away| (away.record.name.clone(), away.record.backing.clone(), away.pool.clone()));
        let waiting = offline.pools.values().flat_map(|pool| {
            let of = pool.record.name.clone();
            let volumes = pool.record.volumes.iter();
            volumes.map(move |volume| (volume.name.clone(), volume.backing.clone(), Some(of.clone())))
        });
        let is_meant = |(name, _, pool): &(String, String, Option<String>)| match subject {
            Subject::Volume(wanted) => name == wanted.as_str(),
            Subject::Pool(wanted) => pool.as_deref() == Some(wanted.as_str()),
        };
        let meant: Vec<_> =
            open.chain(away).chain(waiting).filter(is_meant).map(|(name, backing, _)| (name, backing)).collect();
        let name = subject.name();
        match subject {
            Subject::Volume(_) if meant.is_empty() => Err(no_such_volume(name)),
            Subject::Pool(pool)
                if !snapshot.pools.iter().any(|open| open.name == *pool) && !offline.pools.contains_key(name) =>
            {
                Err(no_such_pool(name))
            }
            Subject::Volume(_) | Subject::Pool(_) => Ok(meant),
        }
    }

    async fn release_one(&self, name: &str, backing: &str) -> Result<bool, ApiError> {
        let Some(held) = self.records.holds.of_backing(backing) else { return Ok(false) };
        self.records.holds.remove(backing);
        if let Err(error) = self.save() {
            self.records.holds.add(held);
            return Err(error);
        }
        if let Ok(Subject::Volume(volume)) = Subject::volume(name) {
            let thread = self.records.plane.of_volume(&volume.clone());
            // One that is away is not held when it comes back.
            let _ = thread.call(move |plane| plane.release_writes(volume)).await;
        }
        let subject = hotset_api::Subject::new(SubjectKind::Volume, name);
        self.records.changes.note(subject, "writes are released");
        Ok(true)
    }

    /// The flush with which their holds began did not come to its end.
    async fn release_again(&self, volumes: &[VolumeName]) {
        let Ok(snapshot) = self.records.plane.snapshot().await else { return };
        for volume in snapshot.volumes.iter().filter(|volume| volumes.contains(&volume.name)) {
            if let Err(error) = self.release_one(volume.name.as_str(), &volume.backing).await {
                tracing::warn!("volume {}: its writes stay held: {error}", volume.name);
            }
        }
    }

    fn save(&self) -> Result<(), ApiError> {
        let saved = self.records.state.write_holds(&self.records.holds.all());
        saved.map_err(|error| self.records.state_failed(&error))
    }

    /// Tells the register of operations how far each flush is.
    pub(super) fn tell(&self, snapshot: &Snapshot) {
        for (id, running) in self.operations.flushing_now() {
            let is_its = |volume: &&VolumeStatus| running.volumes.contains(&volume.name);
            let volumes: Vec<_> = snapshot.volumes.iter().filter(is_its).collect();
            // What hosts overwrite meanwhile is written too, and is not more of it.
            let cleaned = cleaned_of(&volumes).saturating_sub(running.cleaned_bytes);
            self.operations.progress(id, cleaned.min(running.dirty_bytes), running.dirty_bytes);
        }
    }
}

fn kind_of(subject: &Subject) -> OperationKind {
    match subject {
        Subject::Volume(_) => OperationKind::FlushVolume,
        Subject::Pool(_) => OperationKind::FlushPool,
    }
}

fn dirty_of(volumes: &[&VolumeStatus]) -> u64 {
    volumes.iter().map(|volume| volume.dirty_bytes).sum()
}

fn cleaned_of(volumes: &[&VolumeStatus]) -> u64 {
    volumes.iter().map(|volume| volume.stats.cleaned_bytes).sum()
}

fn refused(subject: &Subject, why: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Refused, format!("{subject}: {why}"))
}
