//! Converting pools: another cache block, another type, with or without checksums of slots, in place.
//!
//! A conversion drains the pool like a removal does, takes its volumes from it, and makes the pool anew on the same SSDs
//! (`rewrite.rs`). What is meant is in the state directory before anything is done, so that a start in the middle knows
//! how to go on: while the pool is drained it is the old one, and the drain begins again; from then on its SSDs hold
//! nothing that anybody needs, and are made anew from the beginning.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use hotset_api::{
    self as api, ApiError, ApiErrorKind, ConditionKind, FlushPurpose, Health, Operation, OperationKind, PoolConvert,
    PoolPlan, SubjectKind,
};
use hotset_cache::config::{PoolKind, PoolName};
use hotset_cache::{PoolSpec, PoolStatus};

use super::create::{check_memory, without};
use super::disks::{self, SsdOnDisk};
use super::flush::{Extent, Outcome, Subject, dirty_bytes};
use super::{Manager, blocking, pool_name, uuid};
use crate::daemon::conversion::{Conversion, Converted, Phase, Target, as_set};
use crate::daemon::probe;
use crate::plane::Snapshot;
use crate::words;

impl Manager {
    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    pub(super) fn conversions(&self) -> MutexGuard<'_, BTreeMap<String, Conversion>> {
        self.conversions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `convert_pool` would make; changes nothing.
    pub(crate) async fn plan_conversion(&self, name: &str, request: PoolConvert) -> Result<PoolPlan, ApiError> {
        let snapshot = self.plane.snapshot().await?;
        let now = self.open_of(name, &snapshot)?;
        let target = target(now, request)?;
        self.check_target(now, target, request.allow_same_disk, &snapshot).await
    }

    /// Begins a conversion, or joins the one that is under way; answers at once.
    pub(crate) async fn convert_pool(
        self: &Arc<Self>,
        name: &str,
        request: PoolConvert,
    ) -> Result<Operation, ApiError> {
        let id = {
            let _one_at_a_time = self.change.lock().await;
            self.begin_conversion(name, request).await?
        };
        self.operation(id).await
    }

    async fn begin_conversion(self: &Arc<Self>, name: &str, request: PoolConvert) -> Result<u64, ApiError> {
        let snapshot = self.plane.snapshot().await?;
        let now = self.open_of(name, &snapshot)?;
        let (target, subject) = (target(now, request)?, Subject::Pool(now.name.clone()));
        if let Some(flush) = self.flushes.concerning(&subject) {
            let flush = flush.joined_by(&subject, FlushPurpose::ConvertPool)?;
            return match self.conversions().get(name) {
                Some(same) if same.target == target => Ok(flush.id()),
                Some(_) | None => Err(refused(name, "it is being converted to something else; cancel that first")),
            };
        }
        if target == Target::of(now) {
            let id = self.operations.begin(OperationKind::ConvertPool, subject.for_api(), 0, false);
            self.operations.end(id, None);
            return Ok(id);
        }
        self.check_convertible(now, &snapshot)?;
        self.check_target(now, target, request.allow_same_disk, &snapshot).await?;
        let conversion = conversion_of(now, target, Vec::new()).await?;
        self.write_conversion(conversion)?;
        Ok(self.drain_to_convert(&now.name, &snapshot))
    }

    /// The caller holds the change lock, and found no flush of the pool; answers the id of the operation.
    pub(super) fn drain_to_convert(self: &Arc<Self>, name: &PoolName, snapshot: &Snapshot) -> u64 {
        let subject = Subject::Pool(name.clone());
        let volumes = snapshot.volumes.iter().filter(|volume| volume.pool.as_ref() == Some(name));
        let extent = Extent {
            pool: name.clone(),
            volumes: volumes.map(|volume| volume.name.clone()).collect(),
            dirty_bytes: dirty_bytes(&subject, snapshot),
        };
        self.begin_flush(&subject, FlushPurpose::ConvertPool, extent).id()
    }

    fn open_of<'a>(&self, name: &str, snapshot: &'a Snapshot) -> Result<&'a PoolStatus, ApiError> {
        let pool = pool_name(name)?;
        snapshot.pools.iter().find(|open| open.name == pool).ok_or_else(|| self.not_open(name))
    }

    /// Whether all is there that has to be there again afterwards.
    pub(super) fn check_convertible(&self, now: &PoolStatus, snapshot: &Snapshot) -> Result<(), ApiError> {
        let name = now.name.as_str();
        if words::health(now.health) != Health::Good {
            return Err(refused(name, &format!("it is not good, and only a good pool is converted: {}", now.reason)));
        }
        let offline = self.offline();
        if let Some(note) = offline.notes_of(now).first() {
            return Err(refused(name, &format!("only a complete pool is converted: {note}")));
        }
        if now.ssds.iter().any(|ssd| !ssd.online || ssd.evacuation.is_some()) {
            let why = "an SSD of it is missing, failed or on its way out; wait for that, or take it out with `hotset pool \
                       remove-ssd`";
            return Err(refused(name, why));
        }
        if let Some(spare) = now.spares.iter().find(|spare| !spare.present) {
            return Err(refused(name, &format!("spare {} is not there; take it away first", spare.path)));
        }
        for volume in &now.volumes {
            let open =
                snapshot.volumes.iter().any(|open| open.name == *volume && open.pool.as_ref() == Some(&now.name));
            if !open || offline.fenced.contains_key(volume.as_str()) {
                return Err(refused(name, &format!("volume {volume} is offline, so that it cannot be flushed")));
            }
        }
        Ok(())
    }

    /// What the pool would be like; an error if it cannot be so.
    async fn check_target(
        &self,
        now: &PoolStatus,
        target: Target,
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
        let mut plan = self.plan_of(&PoolSpec { name: now.name.clone(), kind, settings }, &sizes, &others)?;
        check_memory(&plan)?;
        let on_disks = now.ssds.iter().map(|ssd| (ssd.path.clone(), ssd.disk.clone())).collect();
        plan.warnings = blocking(move || {
            let ssds = SsdOnDisk::all(on_disks);
            disks::check(kind, &ssds, allow_same_disk)?;
            Ok::<_, ApiError>(disks::warnings(kind, &ssds))
        })
        .await??;
        Ok(plan)
    }

    pub(super) fn write_conversion(&self, conversion: Conversion) -> Result<(), ApiError> {
        self.state.write_conversion(&conversion).map_err(|error| self.state_failed(&error))?;
        self.offline().ended_conversions.remove(&conversion.pool);
        self.conversions().insert(conversion.pool.clone(), conversion);
        Ok(())
    }

    /// It is done, undone or given up. A record that cannot be removed is tried again: the next start would go on with it.
    pub(super) fn forget_conversion(&self, pool: &str) -> Result<(), ApiError> {
        let known = self.conversions().remove(pool).is_some();
        self.offline().begun_conversions.remove(pool);
        let unread = self.offline().unread_conversions.remove(pool).is_some();
        if known || unread {
            self.offline().ended_conversions.insert(pool.to_owned());
        }
        self.remove_ended_conversion(pool)
    }

    /// Removes the record of a conversion that has ended, if it is still there.
    pub(super) fn remove_ended_conversion(&self, pool: &str) -> Result<(), ApiError> {
        if !self.offline().ended_conversions.contains(pool) {
            return Ok(());
        }
        let removed = self.state.remove_conversion(pool).map_err(|error| self.state_failed(&error));
        match &removed {
            Ok(()) => {
                self.offline().ended_conversions.remove(pool);
            }
            Err(_) => self.register.follow_for(
                ConditionKind::RecordOutdated,
                api::Subject::new(SubjectKind::Pool, pool),
                &removed,
            ),
        }
        removed
    }

    /// What its flush or what followed came to. A conversion that was cut off by the end of the daemon goes on at the next
    /// start; one whose pool is unharmed is undone.
    pub(super) fn conversion_ended(&self, pool: &str, outcome: &Outcome) {
        let phase = self.conversions().get(pool).map(|conversion| conversion.phase);
        if self.offline().begun_conversions.contains(pool) {
            // Volumes have left the pool for it: it goes on by itself.
            return;
        }
        let undo = outcome.is_err() && phase == Some(Phase::Draining) && !self.stopping.load(Ordering::Relaxed);
        if undo && let Err(error) = self.forget_conversion(pool) {
            tracing::error!(
                pool,
                "its conversion was given up, and the record of it stays, which is tried again: {error}"
            );
        }
    }

    /// The daemon stops.
    pub(crate) fn stops(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// What is on the SSDs of such a pool is for its conversion alone.
    pub(super) fn check_not_converted(&self, name: &PoolName) -> Result<(), ApiError> {
        if let Some(unread) = self.unread_conversion(name.as_str()) {
            return Err(unread);
        }
        if !self.conversions().contains_key(name.as_str()) {
            return Ok(());
        }
        let why = "it is being converted, which ends by itself; `hotset pool delete` gives it up";
        Err(refused(name.as_str(), why))
    }
}

/// What a pool is to become.
fn target(now: &PoolStatus, request: PoolConvert) -> Result<Target, ApiError> {
    let is = Target::of(now);
    let target = Target {
        kind: request.kind.unwrap_or(is.kind),
        block_size_bytes: request.block_size_bytes.unwrap_or(is.block_size_bytes),
        checksums: request.checksums.unwrap_or(is.checksums),
    };
    target.settings(now.settings).map_err(|error| words::error(&error))?;
    Ok(target)
}

/// A conversion at its beginning; of the pool as it is now, and of volumes that have left it already.
pub(super) async fn conversion_of(now: &PoolStatus, target: Target, left: Vec<String>) -> Result<Conversion, ApiError> {
    let settings = target.settings(now.settings).map_err(|error| words::error(&error))?;
    let ssds = now.ssds.iter().map(|ssd| ssd.path.clone()).collect();
    let spares = now.spares.iter().map(|spare| spare.path.clone()).collect();
    let (ssds, spares) = blocking(move || Ok::<_, ApiError>((identified(ssds)?, identified(spares)?))).await??;
    let mut volumes: Vec<String> = now.volumes.iter().map(ToString::to_string).collect();
    volumes.extend(left.into_iter().filter(|name| !now.volumes.iter().any(|volume| volume.as_str() == name)));
    Ok(Conversion {
        pool: now.name.to_string(),
        phase: Phase::Draining,
        target,
        uuid: uuid(now.uuid),
        io_type: words::io_type(settings.io_type),
        settings: as_set(&settings),
        ssds,
        spares,
        volumes,
    })
}

/// Blocking.
fn identified(paths: Vec<String>) -> Result<Vec<Converted>, ApiError> {
    let one = |path: String| {
        let identity = probe::identity(&path)?;
        Ok(Converted { path, identity })
    };
    paths.into_iter().map(one).collect()
}

pub(super) fn refused(pool: &str, why: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Refused, format!("pool {pool}: {why}"))
}
