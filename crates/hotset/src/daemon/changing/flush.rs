//! Flushes: a cache that is to be taken away is drained first, in the background, for as long as that takes.
//!
//! A flush holds no lock while it drains, so that every other verb goes on meanwhile. It ends with the removal it was
//! made for, with an error, or cancelled; in the last two cases the volumes cache writes again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hotset_api::{ApiError, ApiErrorKind, ConditionKind, Flush, FlushCancelled, FlushPurpose, SubjectKind};
use hotset_cache::Drained;
use hotset_cache::config::{PoolName, VolumeName};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::operations::{Begin, Begun, Cancel, Cancelled, Operations, WaitsFor, eta_seconds};
use crate::daemon::naming::{pool_name, volume_name};
use crate::daemon::opening::records::Records;
use crate::daemon::who::Who;
use crate::plane::Snapshot;

/// Whose cache is taken away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Volume(VolumeName),
    Pool(PoolName),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volume(name) => write!(f, "volume {name}"),
            Self::Pool(name) => write!(f, "pool {name}"),
        }
    }
}

impl Subject {
    pub(crate) fn volume(name: &str) -> Result<Self, ApiError> {
        volume_name(name).map(Self::Volume)
    }

    pub(crate) fn pool(name: &str) -> Result<Self, ApiError> {
        pool_name(name).map(Self::Pool)
    }

    pub(super) fn for_api(&self) -> hotset_api::Subject {
        let kind = match self {
            Self::Volume(_) => SubjectKind::Volume,
            Self::Pool(_) => SubjectKind::Pool,
        };
        hotset_api::Subject::new(kind, self.name())
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Volume(name) => name.as_str(),
            Self::Pool(name) => name.as_str(),
        }
    }

    /// How an administrator ends its flush.
    fn cancel_verb(&self) -> String {
        match self {
            Self::Volume(name) => format!("hotset volume cancel-flush {name}"),
            Self::Pool(name) => format!("hotset pool cancel-flush {name}"),
        }
    }
}

/// What is drained.
#[derive(Clone, Debug)]
pub(crate) struct FlushScope {
    pub(crate) pool: PoolName,
    pub(crate) volumes: Vec<VolumeName>,
    /// When the flush begins.
    pub(crate) dirty_bytes: u64,
}

/// Whether the removal changed anything.
pub(crate) type Outcome = Result<bool, ApiError>;

/// What caches are drained for.
pub(crate) trait DrainedFor: Send + Sync + 'static {
    /// Everything is drained, and the change lock is held.
    fn carry_out(&self, subject: &Subject, purpose: FlushPurpose) -> impl Future<Output = Outcome> + Send;

    /// The drain, or what followed it, has come to its end.
    fn ended(&self, subject: &Subject, outcome: &Outcome);
}

/// A flush that is under way.
#[derive(Clone, Debug)]
pub(crate) struct RunningFlush {
    /// Of the operation that it is.
    id: u64,
    subject: Subject,
    purpose: FlushPurpose,
    scope: FlushScope,
    began: Instant,
    cancelled: Cancelled,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl RunningFlush {
    /// Of its operation.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> Outcome {
        let ended = self.outcome.wait_for(Option::is_some).await;
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
        if (&self.subject, self.purpose) == (subject, purpose) {
            return Ok(self);
        }
        let message = format!(
            "{subject}: {} is being flushed for {}; wait for its end, or end it with `{}`",
            self.subject,
            self.purpose.word(),
            self.subject.cancel_verb()
        );
        Err(ApiError::new(ApiErrorKind::Refused, message))
    }

    fn progress(&self, snapshot: &Snapshot) -> Flush {
        let dirty_bytes = dirty_bytes(&self.subject, snapshot);
        let drained_bytes = self.scope.dirty_bytes.saturating_sub(dirty_bytes);
        let elapsed = self.began.elapsed();
        Flush {
            purpose: self.purpose,
            name: self.subject.name().to_owned(),
            dirty_bytes,
            drained_bytes,
            elapsed_seconds: elapsed.as_secs(),
            eta_seconds: eta_seconds(dirty_bytes, drained_bytes, elapsed),
        }
    }
}

/// Bytes of a volume, or of all volumes of a pool, that are not on the backing device.
pub(crate) fn dirty_bytes(subject: &Subject, snapshot: &Snapshot) -> u64 {
    match subject {
        Subject::Volume(name) => {
            let volume = snapshot.volumes.iter().find(|volume| volume.name == *name);
            volume.map_or(0, |volume| volume.dirty_bytes)
        }
        Subject::Pool(name) => {
            let pool = snapshot.pools.iter().find(|pool| pool.name == *name);
            pool.and_then(|pool| pool.write_log).map_or(0, |log| log.dirty_bytes)
        }
    }
}

/// All flushes that are under way.
#[derive(Debug, Default)]
pub(crate) struct Flushes(Mutex<BTreeMap<Subject, RunningFlush>>);

impl Flushes {
    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn running(&self) -> MutexGuard<'_, BTreeMap<Subject, RunningFlush>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that drains the subject, alone or among others.
    pub(super) fn concerning(&self, subject: &Subject) -> Option<RunningFlush> {
        let running = self.running();
        let concerns = |flush: &&RunningFlush| match subject {
            Subject::Volume(name) => flush.scope.volumes.contains(name),
            Subject::Pool(name) => flush.scope.pool == *name,
        };
        running.values().find(concerns).cloned()
    }

    /// Whether all of a pool is flushed, because it goes or is made anew: nothing new may come to it.
    pub(super) fn flushes_pool(&self, name: &PoolName) -> bool {
        self.running().contains_key(&Subject::Pool(name.clone()))
    }

    pub(crate) fn flushes_volume(&self, name: &VolumeName) -> bool {
        self.purpose(&Subject::Volume(name.clone())).is_some()
    }

    /// What the subject is drained for, alone or among others; of a pool, all of it.
    pub(crate) fn purpose(&self, subject: &Subject) -> Option<FlushPurpose> {
        let flush = match subject {
            Subject::Volume(_) => self.concerning(subject),
            Subject::Pool(_) => self.running().get(subject).cloned(),
        };
        flush.map(|flush| flush.purpose)
    }

    pub(crate) fn progress(&self, snapshot: &Snapshot) -> Vec<Flush> {
        self.running().values().map(|flush| flush.progress(snapshot)).collect()
    }

    /// Tells the register of operations how far each one is.
    pub(crate) fn tell(&self, snapshot: &Snapshot, operations: &Operations) {
        for flush in self.running().values() {
            let Flush { drained_bytes, dirty_bytes, .. } = flush.progress(snapshot);
            operations.progress(flush.id, drained_bytes, drained_bytes + dirty_bytes);
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
        let (subject, told_of) = (subject.clone(), subject.for_api());
        let Begun { id, cancelled } = self.operations.begin(Begin {
            kind: purpose.into(),
            subject: told_of.clone(),
            asked_by,
            total_bytes: scope.dirty_bytes,
            cancel: Cancel::Anytime,
        });
        self.records.register.clear_for(ConditionKind::Flush, told_of.clone());
        let running = RunningFlush { id, subject, purpose, scope, began: Instant::now(), cancelled, outcome };
        self.flushes.running().insert(running.subject.clone(), running.clone());
        let (this, flush) = (Arc::clone(self), running.clone());
        tokio::spawn(async move {
            let outcome = this.flush_and_carry_out(&flush, &*drained_for).await;
            if let Err(error) = &outcome {
                this.cancel_drains(&flush.scope).await;
                let reason = format!("its flush for {} ended: {error}", flush.purpose.word());
                match flush.cancelled.is_asked() {
                    true => tracing::warn!("{}: {reason}", flush.subject),
                    false => this.records.register.raise_for(ConditionKind::Flush, told_of, reason),
                }
            }
            drained_for.ended(&flush.subject, &outcome);
            this.flushes.running().remove(&flush.subject);
            this.operations.end(flush.id, outcome.as_ref().err());
            told.send_replace(Some(outcome));
        });
        running
    }

    async fn flush_and_carry_out(&self, flush: &RunningFlush, drained_for: &impl DrainedFor) -> Outcome {
        let (subject, bytes) = (&flush.subject, flush.scope.dirty_bytes);
        tracing::info!("{subject}: flushing {bytes} dirty bytes for {}", flush.purpose.word());
        let mut cancelled = flush.cancelled.clone();
        let _one_at_a_time = tokio::select! {
            lock = self.drain_and_lock(flush) => lock?,
            () = cancelled.asked() => return Err(cancellation(subject)),
        };
        if cancelled.is_asked() {
            return Err(cancellation(subject));
        }
        drained_for.carry_out(subject, flush.purpose).await
    }

    /// Drains all volumes side by side, each at its own backing device's pace, then waits for its turn to change things.
    async fn drain_and_lock(&self, flush: &RunningFlush) -> Result<tokio::sync::MutexGuard<'_, ()>, ApiError> {
        let mut drains = JoinSet::new();
        for volume in flush.scope.volumes.clone() {
            let (plane, pool) = (self.records.plane.clone(), flush.scope.pool.clone());
            drains.spawn(async move {
                let name = volume.clone();
                let drained = plane.of_pool(&pool.clone()).call(move |plane| plane.drain(pool, name)).await?;
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
            let _ = self.records.plane.of_pool(&scope.pool).call(move |plane| plane.cancel_drain(pool, volume)).await;
        }
    }

    /// How far the flush of a volume or a pool is.
    pub(crate) async fn flush(&self, subject: &Subject) -> Result<Flush, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        let running = self.flushes.running();
        running.get(subject).map(|flush| flush.progress(&snapshot)).ok_or_else(|| none_under_way(subject))
    }

    /// Ends the flush of a volume or a pool; answers when writes are cached again.
    pub(crate) async fn cancel_flush(&self, subject: &Subject) -> Result<FlushCancelled, ApiError> {
        let running = self.flushes.running().get(subject).cloned();
        let Some(running) = running else {
            self.check_exists(subject).await?;
            return Ok(FlushCancelled { changed: false, name: subject.name().to_owned() });
        };
        match running.stop(&self.operations).await {
            Ok(_) => Err(ApiError::new(
                ApiErrorKind::Refused,
                format!("{subject}: the flush had come to its end, and what it was made for is done"),
            )),
            Err(error) => {
                let changed = error.kind == ApiErrorKind::Cancelled;
                Ok(FlushCancelled { changed, name: subject.name().to_owned() })
            }
        }
    }

    async fn check_exists(&self, subject: &Subject) -> Result<(), ApiError> {
        match subject {
            Subject::Volume(name) => self.records.check_volume_is_known(name.as_str()).await,
            Subject::Pool(name) => self.records.check_pool_is_known(name.as_str()).await,
        }
    }
}

/// What cannot be flushed can be given up.
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

    fn running(purpose: FlushPurpose) -> RunningFlush {
        let scope = FlushScope { pool: "p".parse().unwrap(), volumes: vec!["v".parse().unwrap()], dirty_bytes: 1 };
        let subject = match purpose {
            FlushPurpose::DeletePool | FlushPurpose::ConvertPool => Subject::Pool("p".parse().unwrap()),
            FlushPurpose::DeleteVolume | FlushPurpose::DisableCache => Subject::Volume("v".parse().unwrap()),
        };
        let Begun { id, cancelled } = Operations::default().begin(Begin {
            kind: purpose.into(),
            subject: subject.for_api(),
            asked_by: Who::asks(),
            total_bytes: 1,
            cancel: Cancel::Anytime,
        });
        RunningFlush { id, subject, purpose, scope, began: Instant::now(), cancelled, outcome: watch::channel(None).1 }
    }

    #[test]
    fn a_second_request_joins_its_own_kind_and_any_other_is_told_how_to_end_it() {
        let volume = Subject::Volume("v".parse().unwrap());
        let flushes = Flushes::default();
        let flush = running(FlushPurpose::DeleteVolume);
        flushes.running().insert(volume.clone(), flush);
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
        let flushes = Flushes::default();
        let flush = running(FlushPurpose::DeletePool);
        flushes.running().insert(flush.subject.clone(), flush);
        assert!(flushes.flushes_pool(&"p".parse().unwrap()) && !flushes.flushes_pool(&"q".parse().unwrap()));
        assert!(flushes.flushes_volume(&"v".parse().unwrap()));
    }
}
