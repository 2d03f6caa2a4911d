//! Flushes: a cache that is to be taken away is drained first, in the background, for as long as that takes.
//!
//! A flush holds no lock while it drains, so that every other verb goes on meanwhile. It ends with the removal it was
//! made for, with an error, or cancelled; in the last two cases the volumes cache writes again.

use std::sync::Arc;
use std::time::Instant;

use hotset_api::{ApiError, ApiErrorKind, ConditionKind, Flush, FlushCancelled, FlushPurpose};
use hotset_cache::Drained;
use hotset_cache::config::{PoolName, VolumeName};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::flushed::{Drain, FlushScope, Flushing, Outcome, Subject, dirty_bytes};
use super::operations::{Begin, Begun, Cancel, Cancelled, Operations, WaitsFor, eta_seconds};
use crate::daemon::opening::records::Records;
use crate::daemon::who::Who;
use crate::plane::Snapshot;

/// What caches are drained for.
pub(crate) trait DrainedFor: Send + Sync + 'static {
    /// Everything is drained, and the change lock is held.
    fn carry_out(&self, subject: &Subject, purpose: FlushPurpose) -> impl Future<Output = Outcome> + Send;

    /// The drain, or what followed it, has come to its end.
    fn ended(&self, subject: &Subject, outcome: &Outcome) -> impl Future<Output = ()> + Send;
}

/// A flush that is under way.
#[derive(Clone, Debug)]
pub(crate) struct RunningFlush {
    /// Of the operation that it is.
    id: u64,
    began: Instant,
    drain: Drain,
}

impl RunningFlush {
    /// Of its operation.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> Outcome {
        let ended = self.drain.outcome.wait_for(Option::is_some).await;
        let outcome = ended.ok().and_then(|outcome| outcome.clone());
        outcome.unwrap_or_else(|| Err(ApiError::new(ApiErrorKind::Internal, "the flush was cut off; the log says why")))
    }

    /// Cancels it, and waits until nothing of it runs; it may have come to its end just before.
    pub(crate) async fn stop(self, operations: &Operations) -> Outcome {
        operations.cancel(self.id);
        self.ended().await
    }

    /// A second request of the same kind joins the first; any other one has to wait.
    pub(super) fn joined_by(self, subject: &Subject, purpose: FlushPurpose) -> Result<Self, ApiError> {
        let drain = &self.drain;
        if (&drain.subject, drain.purpose) == (subject, purpose) {
            return Ok(self);
        }
        let message = format!(
            "{subject}: {} is being flushed for {}; wait for its end, or end it with `{}`",
            drain.subject,
            drain.purpose.word(),
            drain.subject.cancel_verb()
        );
        Err(ApiError::new(ApiErrorKind::Refused, message))
    }

    fn progress(&self, snapshot: &Snapshot) -> Flush {
        let Drain { subject, purpose, scope, .. } = &self.drain;
        let dirty_bytes = dirty_bytes(subject, snapshot);
        let drained_bytes = scope.dirty_bytes.saturating_sub(dirty_bytes);
        let elapsed = self.began.elapsed();
        Flush {
            purpose: *purpose,
            name: subject.name().to_owned(),
            dirty_bytes,
            drained_bytes,
            elapsed_seconds: elapsed.as_secs(),
            eta_seconds: eta_seconds(dirty_bytes, drained_bytes, elapsed),
        }
    }
}

/// The operations that drain caches which are to be taken away.
#[derive(Debug)]
pub(crate) struct Flushes(Arc<Operations>);

impl Flushes {
    pub(crate) fn among(operations: Arc<Operations>) -> Self {
        Self(operations)
    }

    fn running(&self) -> Vec<RunningFlush> {
        self.0.flushing(|id, began, flushing| match flushing {
            Flushing::Drain(drain) => Some(RunningFlush { id, began, drain: drain.clone() }),
            Flushing::Nothing | Flushing::Now(_) => None,
        })
    }

    /// The one that is of this subject and of nothing more.
    fn of(&self, subject: &Subject) -> Option<RunningFlush> {
        self.running().into_iter().find(|flush| flush.drain.subject == *subject)
    }

    /// The one that is this operation.
    pub(super) fn of_operation(&self, id: u64) -> Option<RunningFlush> {
        self.running().into_iter().find(|flush| flush.id == id)
    }

    /// The one that drains the subject, alone or among others.
    pub(super) fn concerning(&self, subject: &Subject) -> Option<RunningFlush> {
        let concerns = |flush: &RunningFlush| match subject {
            Subject::Volume(name) => flush.drain.scope.volumes.contains(name),
            Subject::Pool(name) => flush.drain.scope.pool == *name,
        };
        self.running().into_iter().find(concerns)
    }

    /// Whether all of a pool is flushed, because it goes or is made anew: nothing new may come to it.
    pub(super) fn flushes_pool(&self, name: &PoolName) -> bool {
        self.of(&Subject::Pool(name.clone())).is_some()
    }

    pub(crate) fn flushes_volume(&self, name: &VolumeName) -> bool {
        self.purpose(&Subject::Volume(name.clone())).is_some()
    }

    /// Whether it is flushed just now, and keeps its cache.
    pub(crate) fn flushes_volume_now(&self, name: &VolumeName) -> bool {
        self.0.flushing_now().iter().any(|(_, flush)| flush.volumes.contains(name))
    }

    /// What the subject is drained for, alone or among others; of a pool, all of it.
    pub(crate) fn purpose(&self, subject: &Subject) -> Option<FlushPurpose> {
        let flush = match subject {
            Subject::Volume(_) => self.concerning(subject),
            Subject::Pool(_) => self.of(subject),
        };
        flush.map(|flush| flush.drain.purpose)
    }

    pub(crate) fn progress(&self, snapshot: &Snapshot) -> Vec<Flush> {
        self.running().iter().map(|flush| flush.progress(snapshot)).collect()
    }

    /// Tells the register of operations how far each one is.
    pub(crate) fn tell(&self, snapshot: &Snapshot) {
        for flush in self.running() {
            let Flush { drained_bytes, dirty_bytes, .. } = flush.progress(snapshot);
            self.0.progress(flush.id, drained_bytes, drained_bytes + dirty_bytes);
        }
    }
}

/// Drains caches that are to be taken away.
pub(crate) struct Draining {
    pub(crate) records: Arc<Records>,
    pub(crate) flushes: Arc<Flushes>,
    pub(crate) operations: Arc<Operations>,
}

impl Draining {
    /// Starts a flush, at whose end the removal follows. The caller holds the change lock, and found no other flush of
    /// any of these volumes.
    pub(super) fn begin_flush(
        self: &Arc<Self>,
        subject: &Subject,
        purpose: FlushPurpose,
        scope: FlushScope,
        asked_by: Who,
        drained_for: Arc<impl DrainedFor>,
    ) -> RunningFlush {
        let (told, outcome) = watch::channel(None);
        let told_of = subject.for_api();
        let begin = Begin {
            kind: purpose.into(),
            subject: told_of.clone(),
            asked_by,
            total_bytes: scope.dirty_bytes,
            cancel: Cancel::Anytime,
        };
        let drain = Drain { subject: subject.clone(), purpose, scope, outcome };
        let Begun { id, cancelled } = self.operations.begin_flushing(begin, Flushing::Drain(drain.clone()));
        self.records.register.clear_for(ConditionKind::Flush, told_of.clone());
        let running = RunningFlush { id, began: Instant::now(), drain };
        let (this, flush) = (Arc::clone(self), running.clone());
        tokio::spawn(async move {
            let Drain { subject, purpose, scope, .. } = &flush.drain;
            let outcome = this.flush_and_carry_out(&flush, cancelled.clone(), &*drained_for).await;
            if let Err(error) = &outcome {
                this.cancel_drains(scope).await;
                let reason = format!("its flush for {} ended: {error}", purpose.word());
                match cancelled.is_asked() {
                    true => tracing::warn!("{subject}: {reason}"),
                    false => this.records.register.raise_for(ConditionKind::Flush, told_of, reason),
                }
            }
            drained_for.ended(subject, &outcome).await;
            this.operations.end(flush.id, outcome.as_ref().err());
            told.send_replace(Some(outcome));
        });
        running
    }

    async fn flush_and_carry_out(
        &self,
        flush: &RunningFlush,
        mut cancelled: Cancelled,
        drained_for: &impl DrainedFor,
    ) -> Outcome {
        let Drain { subject, purpose, scope, .. } = &flush.drain;
        tracing::info!("{subject}: flushing {} dirty bytes for {}", scope.dirty_bytes, purpose.word());
        let _one_at_a_time = tokio::select! {
            lock = self.drain_and_lock(flush) => lock?,
            () = cancelled.asked() => return Err(cancellation(subject)),
        };
        if cancelled.is_asked() {
            return Err(cancellation(subject));
        }
        drained_for.carry_out(subject, *purpose).await
    }

    /// Drains all volumes side by side, each at its own backing device's pace, then waits for its turn to change things.
    async fn drain_and_lock(&self, flush: &RunningFlush) -> Result<tokio::sync::MutexGuard<'_, ()>, ApiError> {
        let mut drains = JoinSet::new();
        let scope = &flush.drain.scope;
        for volume in scope.volumes.clone() {
            let (plane, pool) = (self.records.plane.clone(), scope.pool.clone());
            drains.spawn(async move {
                let name = volume.clone();
                let drained = plane.of_pool(&pool.clone()).call(move |plane| plane.pools().drain(pool, name)).await?;
                Ok::<_, ApiError>((volume, drained))
            });
        }
        while let Some(drained) = drains.join_next().await {
            let drained = drained.map_err(|error| ApiError::new(ApiErrorKind::Internal, error.to_string()))?;
            match drained.map_err(or_by_force)? {
                // The rest is done while hosts are held up.
                (_, Drained::Clean | Drained::Overwritten) => {}
                (volume, Drained::Cancelled) => return Err(cancellation(&Subject::Volume(volume))),
            }
        }
        self.operations.waits(flush.id, WaitsFor::OtherChanges);
        let one_at_a_time = self.records.change.lock().await;
        self.operations.goes_on(flush.id);
        Ok(one_at_a_time)
    }

    /// The volumes that are still in the pool cache writes again.
    async fn cancel_drains(&self, scope: &FlushScope) {
        for volume in scope.volumes.clone() {
            let pool = scope.pool.clone();
            // The pool may be gone by now, and its drains with it.
            let _ = self
                .records
                .plane
                .of_pool(&scope.pool)
                .call(move |plane| plane.pools().cancel_drain(pool, volume))
                .await;
        }
    }

    /// How far the flush of a volume or a pool is.
    pub(crate) async fn flush(&self, subject: &Subject) -> Result<Flush, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        self.flushes.of(subject).map(|flush| flush.progress(&snapshot)).ok_or_else(|| none_under_way(subject))
    }

    /// Ends the flush of a volume or a pool; answers when writes are cached again.
    pub(crate) async fn cancel_flush(&self, subject: &Subject) -> Result<FlushCancelled, ApiError> {
        let Some(running) = self.flushes.of(subject) else {
            self.check_exists(subject).await?;
            return Ok(FlushCancelled { changed: false, name: subject.name().to_owned() });
        };
        let changed = self.stop(running).await?;
        if changed {
            self.records.changes.note(subject.for_api(), "its flush is cancelled");
        }
        Ok(FlushCancelled { changed, name: subject.name().to_owned() })
    }

    /// Cancels one, and waits until writes are cached again. False: it failed before.
    pub(super) async fn stop(&self, running: RunningFlush) -> Result<bool, ApiError> {
        let subject = running.drain.subject.clone();
        match running.stop(&self.operations).await {
            Ok(_) => Err(ApiError::new(
                ApiErrorKind::Refused,
                format!("{subject}: the flush had come to its end, and what it was made for is done"),
            )),
            Err(error) => Ok(error.kind == ApiErrorKind::Cancelled),
        }
    }

    async fn check_exists(&self, subject: &Subject) -> Result<(), ApiError> {
        match subject {
            Subject::Volume(name) => self.records.check_volume_is_known(name.as_str()).await,
            Subject::Pool(name) => self.records.check_pool_is_known(name.as_str()).await,
        }
    }
}

/// What cannot be flushed can be discarded.
pub(super) fn or_by_force(error: ApiError) -> ApiError {
    match error.kind {
        ApiErrorKind::Refused => ApiError::new(error.kind, format!("{error} (--force --yes-lose-data)")),
        ApiErrorKind::Invalid
        | ApiErrorKind::NotFound
        | ApiErrorKind::InUse
        | ApiErrorKind::Cancelled
        | ApiErrorKind::Unsupported
        | ApiErrorKind::Device
        | ApiErrorKind::Corrupt
        | ApiErrorKind::OtherMachine
        | ApiErrorKind::Full
        | ApiErrorKind::Unavailable
        | ApiErrorKind::Internal
        | ApiErrorKind::Unauthenticated
        | ApiErrorKind::Forbidden => error,
    }
}

fn cancellation(subject: &Subject) -> ApiError {
    ApiError::new(ApiErrorKind::Cancelled, format!("{subject}: the flush was cancelled; writes are cached again"))
}

fn none_under_way(subject: &Subject) -> ApiError {
    ApiError::new(ApiErrorKind::NotFound, format!("{subject}: no flush is under way"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flushes with one under way: of a pool, or of its volume.
    fn flushes_with(purpose: FlushPurpose) -> Flushes {
        let (pool, volume): (PoolName, VolumeName) = ("p".parse().unwrap(), "v".parse().unwrap());
        let subject = match purpose {
            FlushPurpose::DeletePool | FlushPurpose::ConvertPool => Subject::Pool(pool.clone()),
            FlushPurpose::DisableCache | FlushPurpose::DeleteVolume => Subject::Volume(volume.clone()),
        };
        let scope = FlushScope { pool, volumes: vec![volume], dirty_bytes: 1 };
        let operations = Arc::<Operations>::default();
        let begin = Begin {
            kind: purpose.into(),
            subject: subject.for_api(),
            asked_by: Who::Daemon,
            total_bytes: 1,
            cancel: Cancel::Anytime,
        };
        let drain = Drain { subject, purpose, scope, outcome: watch::channel(None).1 };
        operations.begin_flushing(begin, Flushing::Drain(drain));
        Flushes::among(operations)
    }

    #[test]
    fn a_second_request_joins_its_own_kind_and_any_other_is_told_how_to_end_it() {
        let volume = Subject::Volume("v".parse().unwrap());
        let flushes = flushes_with(FlushPurpose::DeleteVolume);
        let found = flushes.concerning(&volume).unwrap();
        assert!(found.clone().joined_by(&volume, FlushPurpose::DeleteVolume).is_ok());
        let error = found.joined_by(&volume, FlushPurpose::DisableCache).unwrap_err();
        assert!(error.message.contains("`hotset volume cancel-flush v`"), "{error}");
        let pool = Subject::Pool("p".parse().unwrap());
        let error = flushes.concerning(&pool).unwrap().joined_by(&pool, FlushPurpose::DeletePool).unwrap_err();
        assert!(error.message.contains("volume v is being flushed for delete-volume"), "{error}");
        assert!(flushes.concerning(&Subject::Volume("w".parse().unwrap())).is_none());
    }

    #[test]
    fn a_pool_on_its_way_out_takes_its_volumes_with_it() {
        let flushes = flushes_with(FlushPurpose::DeletePool);
        assert!(flushes.flushes_pool(&"p".parse().unwrap()) && !flushes.flushes_pool(&"q".parse().unwrap()));
        assert!(flushes.flushes_volume(&"v".parse().unwrap()));
    }
}
