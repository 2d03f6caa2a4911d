//! Converting pools: another cache block, another type, with or without checksums of slots, in place.
//!
//! A conversion drains the pool like a removal does, takes its volumes from it, and makes the pool anew on the same SSDs
//! (`rewrite.rs`). What is meant is in the state directory before anything is done, so that a start in the middle knows
//! how to go on: while the pool is drained it is the old one, and the drain begins again; from then on its SSDs hold
//! nothing that anybody needs, and are made anew from the beginning.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotset_api::{
    ApiError, ApiErrorKind, ConditionKind, FlushPurpose, OperationKind, PoolConvert, PoolPlan, SubjectKind,
};
use hotset_cache::config::{PoolKind, PoolName};
use hotset_cache::{PoolSpec, PoolStatus};
use tokio::sync::Notify;

use super::create::{Creation, check_memory, without};
use super::flush::{DrainedFor, Draining, Flushes};
use super::flushed::{FlushScope, Outcome, Subject, dirty_bytes};
use super::operations::{Begin, Cancel, Operations, WaitsFor};
use super::rewrite::{Rewriting, conversion_of};
use crate::daemon::blocking::blocking;
use crate::daemon::conversion::{Conversion, ConversionPhase, ConversionTarget};
use crate::daemon::naming::{pool_name, uuid};
use crate::daemon::opening::converting::{Converting, refused};
use crate::daemon::opening::disks::{self, SsdOnDisk};
use crate::daemon::opening::offline::RETRY_INTERVAL;
use crate::daemon::opening::records::Records;
use crate::daemon::who::Who;
use crate::plane::Snapshot;
use crate::words;

/// Why a conversion is not cancelled once its pool is drained.
const NO_WAY_BACK: &str = "the pool is drained, and what it was before is gone: what is left is to make it anew and to give it its volumes back, \
    which are served uncached meanwhile; `hotset pool delete NAME` gives the pool up";

/// Converts pools.
pub(crate) struct Conversions {
    pub(crate) records: Arc<Records>,
    pub(crate) converting: Arc<Converting>,
    pub(crate) creation: Arc<Creation>,
    pub(crate) draining: Arc<Draining>,
    pub(crate) flushes: Arc<Flushes>,
    pub(crate) operations: Arc<Operations>,
    pub(crate) rewriting: Arc<Rewriting>,
    /// Operations of conversions that go on by themselves, by pool.
    pub(crate) resumed: Mutex<BTreeMap<String, u64>>,
    /// There is one whose volumes are to join the pool again at once.
    pub(crate) undone: Notify,
}

impl Conversions {
    /// What `convert_pool` would make; changes nothing.
    pub(crate) async fn plan_conversion(&self, name: &str, request: PoolConvert) -> Result<PoolPlan, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        let now = self.open_of(name, &snapshot)?;
        let target = target(now, request)?;
        self.check_target(now, target, request.allow_same_disk, &snapshot).await
    }

    /// Begins a conversion, or joins the one that is under way; answers the id of the operation at once.
    pub(crate) async fn convert_pool(self: &Arc<Self>, name: &str, request: PoolConvert) -> Result<u64, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        self.begin_conversion(name, request).await
    }

    async fn begin_conversion(self: &Arc<Self>, name: &str, request: PoolConvert) -> Result<u64, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        let now = self.open_of(name, &snapshot)?;
        let (target, subject) = (target(now, request)?, Subject::Pool(now.name.clone()));
        if let Some(flush) = self.flushes.concerning(&subject) {
            let flush = flush.joined_by(&subject, FlushPurpose::ConvertPool)?;
            return match self.converting.conversions().get(name) {
                Some(same) if same.target == target => Ok(flush.id()),
                Some(_) | None => Err(refused(name, "it is being converted to something else; cancel that first")),
            };
        }
        if target == ConversionTarget::of(now) {
            return Ok(self.operations.done_at_once(OperationKind::ConvertPool, subject.for_api()));
        }
        self.rewriting.check_convertible(now, &snapshot)?;
        self.check_target(now, target, request.allow_same_disk, &snapshot).await?;
        let conversion = conversion_of(now, target, Vec::new()).await?;
        self.converting.write_conversion(conversion)?;
        Ok(self.drain_to_convert(&now.name, &snapshot, Who::asks()))
    }

    /// The caller holds the change lock, and found no flush of the pool; answers the id of the operation.
    fn drain_to_convert(self: &Arc<Self>, name: &PoolName, snapshot: &Snapshot, asked_by: Who) -> u64 {
        let subject = Subject::Pool(name.clone());
        let volumes = snapshot.volumes.iter().filter(|volume| volume.pool.as_ref() == Some(name));
        let scope = FlushScope {
            pool: name.clone(),
            volumes: volumes.map(|volume| volume.name.clone()).collect(),
            dirty_bytes: dirty_bytes(&subject, snapshot),
        };
        self.draining.begin_flush(&subject, FlushPurpose::ConvertPool, scope, asked_by, Arc::clone(self)).id()
    }

    fn open_of<'a>(&self, name: &str, snapshot: &'a Snapshot) -> Result<&'a PoolStatus, ApiError> {
        let pool = pool_name(name)?;
        snapshot.pools.iter().find(|open| open.name == pool).ok_or_else(|| self.records.not_open(name))
    }

    /// What the pool would be like; an error if it cannot be so.
    async fn check_target(
        &self,
        now: &PoolStatus,
        target: ConversionTarget,
        allow_same_disk: bool,
        snapshot: &Snapshot,
    ) -> Result<PoolPlan, ApiError> {
        let kind = words::engine_pool_kind(target.kind);
        let settings = target.settings(now.settings).map_err(|error| words::error(&error))?;
        let sizes: Vec<u64> = now.ssds.iter().filter(|ssd| ssd.online).map(|ssd| ssd.size_bytes).collect();
        if kind == PoolKind::ReadWrite && sizes.len() < 2 {
            let why = "a read-write pool keeps dirty data twice: it needs at least two SSDs; add one first";
            return Err(refused(now.name.as_str(), why));
        }
        let others = without(now, snapshot);
        let mut plan = self.creation.plan_of(&PoolSpec { name: now.name.clone(), kind, settings }, &sizes, &others)?;
        check_memory(&plan)?;
        let on_disks = disks::in_use(now);
        plan.warnings = blocking(move || {
            let ssds = SsdOnDisk::all(on_disks);
            disks::check(kind, &ssds, allow_same_disk)?;
            Ok::<_, ApiError>(disks::warnings(kind, &ssds))
        })
        .await??;
        Ok(plan)
    }

    /// What its flush or what followed came to. A conversion that was cut off by the end of the daemon goes on at the next
    /// start. One that failed after volumes had left the pool for it goes on by itself, unless somebody cancelled it; any
    /// other one is undone.
    async fn conversion_ended(&self, pool: &PoolName, outcome: &Outcome) {
        let Err(error) = outcome else { return };
        let conversion = self.converting.conversions().get(pool.as_str()).cloned();
        let draining = conversion.filter(|conversion| conversion.phase == ConversionPhase::Draining);
        let Some(conversion) = draining.filter(|_| !self.records.stopping.load(Ordering::Relaxed)) else { return };
        // A daemon that answers nothing more goes on with it at its next start.
        let Ok(snapshot) = self.records.plane.snapshot().await else { return };
        if error.kind == ApiErrorKind::Cancelled || have_left(&conversion, &snapshot).is_empty() {
            self.undo(conversion, &snapshot);
        }
    }

    /// For as long as the daemon runs: what keeps a conversion from its end may pass.
    pub(crate) async fn follow_conversions(self: Arc<Self>) {
        loop {
            let _ = tokio::time::timeout(RETRY_INTERVAL, self.undone.notified()).await;
            self.resume_conversions().await;
        }
    }

    /// Goes on with the conversions that nobody carries on.
    pub(crate) async fn resume_conversions(self: &Arc<Self>) {
        let pools: Vec<String> = self.converting.conversions().keys().cloned().collect();
        self.cancel_deleted(&pools);
        for pool in pools {
            let _one_at_a_time = self.records.change.lock().await;
            let outcome = self.resume_conversion(&pool).await;
            let told = outcome.map_err(|error| format!("its conversion cannot go on yet: {error}"));
            let told = told.and_then(|()| self.check_all_joined(&pool));
            self.records.register.follow_for(
                ConditionKind::Conversion,
                hotset_api::Subject::new(SubjectKind::Pool, pool),
                &told,
            );
        }
    }

    /// Volumes that are still to join a pool that was converted, or would have been.
    fn check_all_joined(&self, pool: &str) -> Result<(), String> {
        let conversions = self.converting.conversions();
        let joining = conversions.get(pool).filter(|conversion| conversion.phase == ConversionPhase::Joining);
        joining.map_or(Ok(()), |conversion| {
            let volumes = conversion.volumes.join(", ");
            Err(format!("these volumes could not join it again yet after its conversion, and are uncached: {volumes}"))
        })
    }

    async fn resume_conversion(self: &Arc<Self>, pool: &str) -> Result<(), ApiError> {
        let (name, phase) =
            (pool_name(pool)?, self.converting.conversions().get(pool).map(|conversion| conversion.phase));
        match phase {
            None => Ok(()),
            Some(ConversionPhase::Draining) => self.drain_again(&name).await,
            Some(ConversionPhase::Rewriting | ConversionPhase::Joining) => self.rewrite_again(&name).await,
        }
    }

    /// From where its record says that it is. It is an operation of the daemon's own until it is done, however often it is tried.
    async fn rewrite_again(&self, name: &PoolName) -> Result<(), ApiError> {
        let id = self.resumed_as(name);
        self.operations.goes_on(id);
        let is_undone = self.is_undone(name).await;
        let gone_on = self.rewriting.go_on(name).await;
        if self.converting.conversions().contains_key(name.as_str()) {
            self.operations.waits(id, WaitsFor::Devices);
        } else {
            self.resumed().remove(name.as_str());
            let why = is_undone.then(|| {
                let why = format!("pool {name}: its conversion was undone; its volumes are cached again");
                ApiError::new(ApiErrorKind::Cancelled, why)
            });
            self.operations.end(id, why.as_ref());
        }
        gone_on
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn resumed(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.resumed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resumed_as(&self, name: &PoolName) -> u64 {
        let begin = || {
            let (kind, subject) = (OperationKind::ConvertPool, Subject::Pool(name.clone()).for_api());
            let (asked_by, cancel) = (Who::Daemon, Cancel::Never(NO_WAY_BACK));
            self.operations.begin(Begin { kind, subject, asked_by, total_bytes: 0, cancel }).id
        };
        *self.resumed().entry(name.to_string()).or_insert_with(begin)
    }

    /// Those whose pools were deleted meanwhile: `converted` are still to be.
    fn cancel_deleted(&self, converted: &[String]) {
        self.resumed().retain(|pool, id| {
            let goes_on = converted.contains(pool);
            if !goes_on {
                let why = format!("pool {pool}: it was deleted, and is not converted any more");
                self.operations.end(*id, Some(&ApiError::new(ApiErrorKind::Cancelled, why)));
            }
            goes_on
        });
    }

    async fn drain_again(self: &Arc<Self>, name: &PoolName) -> Result<(), ApiError> {
        if self.flushes.flushes_pool(name) {
            return Ok(());
        }
        let snapshot = self.records.plane.snapshot().await?;
        let Some(now) = snapshot.pools.iter().find(|pool| pool.name == *name) else {
            // It may still wait for its SSDs.
            let waits = self.records.offline().pools.contains_key(name.as_str());
            return if waits { Ok(()) } else { self.converting.forget_conversion(name.as_str()) };
        };
        if let Err(error) = self.rewriting.check_convertible(now, &snapshot) {
            let reason = format!("its conversion is undone: {error}");
            self.records.register.raise_for(
                ConditionKind::Flush,
                hotset_api::Subject::new(SubjectKind::Pool, name.as_str()),
                reason,
            );
            let known = self.converting.conversions().get(name.as_str()).cloned();
            if let Some(conversion) = known {
                self.undo(conversion, &snapshot);
            }
            return Ok(());
        }
        tracing::info!(pool = %name, "its conversion goes on");
        self.drain_to_convert(name, &snapshot, Who::Daemon);
        Ok(())
    }

    /// The pool stays as it was: what has left it for the conversion joins it again, as at the end of one.
    fn undo(&self, conversion: Conversion, snapshot: &Snapshot) {
        let (pool, left) = (conversion.pool.clone(), have_left(&conversion, snapshot));
        let recorded = if left.is_empty() {
            self.converting.forget_conversion(&pool)
        } else {
            let phase = ConversionPhase::Joining;
            let joining = Conversion { phase, volumes: left, spares: Vec::new(), ..conversion };
            self.converting.conversions().insert(pool.clone(), joining.clone());
            self.undone.notify_one();
            self.converting.write_conversion(joining)
        };
        if let Err(error) = recorded {
            tracing::error!(
                pool,
                "its conversion is undone, and the record of it is not, which is tried again: {error}"
            );
        }
    }

    /// Whether what is left of a conversion is that volumes join the pool again, which was never made anew.
    async fn is_undone(&self, name: &PoolName) -> bool {
        let known = self.converting.conversions().get(name.as_str()).cloned();
        let Some(conversion) = known.filter(|known| known.phase == ConversionPhase::Joining) else { return false };
        let snapshot = self.records.plane.snapshot().await;
        snapshot.is_ok_and(|snapshot| {
            snapshot.pools.iter().any(|pool| pool.name == *name && uuid(pool.uuid) == conversion.uuid)
        })
    }
}

impl DrainedFor for Conversions {
    async fn carry_out(&self, subject: &Subject, _: FlushPurpose) -> Outcome {
        match subject {
            Subject::Pool(name) => self.rewriting.convert_now(name).await.map(|()| true),
            Subject::Volume(_) => {
                Err(ApiError::new(ApiErrorKind::Internal, format!("{subject}: only pools are converted")))
            }
        }
    }

    async fn ended(&self, subject: &Subject, outcome: &Outcome) {
        if let Subject::Pool(name) = subject {
            self.conversion_ended(name, outcome).await;
        }
    }
}

/// The volumes that its record names and that are not in the pool, or not open.
fn have_left(conversion: &Conversion, snapshot: &Snapshot) -> Vec<String> {
    let pool = snapshot.pools.iter().find(|pool| pool.name.as_str() == conversion.pool);
    let cached =
        |name: &String| pool.is_some_and(|pool| pool.volumes.iter().any(|volume| volume.as_str() == name.as_str()));
    conversion.volumes.iter().filter(|name| !cached(name)).cloned().collect()
}

/// What a pool is to become.
fn target(now: &PoolStatus, request: PoolConvert) -> Result<ConversionTarget, ApiError> {
    let is = ConversionTarget::of(now);
    let target = ConversionTarget {
        kind: request.kind.unwrap_or(is.kind),
        block_size_bytes: request.block_size_bytes.unwrap_or(is.block_size_bytes),
        checksums: request.checksums.unwrap_or(is.checksums),
    };
    target.settings(now.settings).map_err(|error| words::error(&error))?;
    Ok(target)
}
