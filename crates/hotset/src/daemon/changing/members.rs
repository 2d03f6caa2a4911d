//! SSDs that join and leave a pool while it serves, and its spares: the checks, and what is recorded of them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::poll_immediate;
use hotset_api::{
    ApiError, ApiErrorKind, ChangePlan, ConditionKind, MemoryPlan, OperationKind, SsdsAdd, SsdsRemove, Subject,
    SubjectKind,
};
use hotset_cache::config::{PoolKind, PoolName};
use hotset_cache::{PoolSpec, PoolStatus, Removed};
use tokio::sync::oneshot;

use super::create::{
    Creation, any_sparse, check_distinct, check_memory, check_sizes, check_unsigned, memory_in_use, sizes_with_spares,
    without,
};
use super::operations::{Begin, Begun, Cancel, Operations, WaitsFor, carry_on};
use crate::daemon::blocking::blocking;
use crate::daemon::naming::{pool_name, uuid};
use crate::daemon::opening::devices::Devices;
use crate::daemon::opening::disks::{self, SsdOnDisk};
use crate::daemon::opening::probe::{Candidate, Role};
use crate::daemon::opening::records::Records;
use crate::daemon::opening::start::Opening;
use crate::daemon::who::Who;
use crate::plane::Snapshot;
use crate::size::human;
use crate::words;

/// How often the record of a pool is compared with the pool, whose spares take over by themselves.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// Why a rebuild is not cancelled.
const NO_END_OF_A_REBUILD: &str = "until it has ended, dirty data has one copy alone; `hotset pool flush NAME` writes it to the backing devices, \
    which leaves nothing to rebuild";

/// What a new SSD is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SsdRole {
    Pool,
    Spare,
}

/// SSDs that could join a pool.
struct Checked {
    candidates: Vec<Candidate>,
    /// What is to be known of the disks that the pool would lie on.
    warnings: Vec<String>,
    /// `None`: what is wrong with them is said by the engine.
    memory: Option<MemoryPlan>,
}

/// Changes which SSDs and spares pools have.
pub(crate) struct Members {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) opening: Arc<Opening>,
    pub(crate) creation: Arc<Creation>,
    pub(crate) operations: Arc<Operations>,
}

impl Members {
    /// What would be refused is refused; nothing is changed.
    pub(crate) async fn plan_ssds(&self, name: &str, add: &SsdsAdd, place: SsdRole) -> Result<ChangePlan, ApiError> {
        let Checked { warnings, memory, .. } = self.check_add(name, add, place).await?;
        Ok(ChangePlan { warnings, memory })
    }

    pub(crate) async fn add_ssds(&self, name: &str, add: &SsdsAdd, place: SsdRole) -> Result<bool, ApiError> {
        let pool = pool_name(name)?;
        let kind = match place {
            SsdRole::Pool => OperationKind::AddSsds,
            SsdRole::Spare => OperationKind::AddSpares,
        };
        let (subject, asked_by) = (Subject::new(SubjectKind::Pool, name), Who::asks());
        let (total_bytes, cancel) = (0, Cancel::Anytime);
        let begun = self.operations.begin_checking(Begin { kind, subject, asked_by, total_bytes, cancel });
        let outcome = self.add(pool, add, place, &begun).await;
        self.operations.end(begun.id, outcome.as_ref().err());
        outcome
    }

    async fn add(&self, pool: PoolName, add: &SsdsAdd, place: SsdRole, begun: &Begun) -> Result<bool, ApiError> {
        let name = pool.as_str();
        let what = format!("pool {name}: adding SSDs to it");
        let mut is_filled = false;
        let (_one_at_a_time, Checked { candidates, warnings, .. }) = loop {
            let lock = self.operations.wait_for_others(begun, &what, &self.records.change).await?;
            let checked = self.check_add(name, add, place).await?;
            self.records.check_state_takes_records().await?;
            self.operations.is_possible(begun.id);
            if is_filled || !any_sparse(&checked.candidates) {
                break (lock, checked);
            }
            // As with a new pool: other changes go on, and are looked at again.
            drop(lock);
            self.creation.fill_sparse(&pool, &checked.candidates, begun).await?;
            is_filled = true;
        };
        begun.cancelled.check(&what)?;
        let paths: Vec<String> = candidates.into_iter().map(|candidate| candidate.path).collect();
        let (added, of) = (paths.clone(), pool.clone());
        match place {
            SsdRole::Pool => {
                self.records.plane.of_pool(&pool).call(move |plane| plane.pools().add_ssds(of, paths)).await?
            }
            SsdRole::Spare => {
                self.records.plane.of_pool(&pool).call(move |plane| plane.pools().add_spares(of, paths)).await?
            }
        }
        tracing::info!(pool = name, ssds = ?added, ?place, "added");
        if place == SsdRole::Spare {
            self.records.register.clear_for(ConditionKind::Spare, Subject::new(SubjectKind::Pool, name));
        }
        if place == SsdRole::Pool {
            // A spare is on no disk of the pool's until it takes over.
            self.records.offline().warnings.insert(name.to_owned(), warnings);
            // Those that were missed at the start have a successor.
            self.records.offline().notes.remove(name);
            self.records.forget_departed_at(name, &added);
        }
        self.records.save_pool(&pool).await?;
        Ok(!added.is_empty())
    }

    /// Everything that is known without writing.
    async fn check_add(&self, name: &str, add: &SsdsAdd, place: SsdRole) -> Result<Checked, ApiError> {
        let pool = pool_name(name)?;
        let snapshot = self.records.plane.snapshot().await?;
        let Some(now) = snapshot.pools.iter().find(|open| open.name == pool) else {
            return Err(self.records.not_open(name));
        };
        let candidates = self.devices.candidates(&add.ssds, Role::NewSsd).await?;
        check_sizes(&candidates)?;
        check_distinct(&candidates)?;
        if place == SsdRole::Spare {
            check_spare_sizes(now, &candidates)?;
        }
        self.devices.check_all_unused(&candidates, &snapshot).await?;
        // One that was in this pool and left it is recognised.
        let own = |candidate: &&Candidate| candidate.label.as_ref().is_some_and(|label| label.pool_uuid == now.uuid);
        if !add.force {
            check_unsigned(candidates.iter().filter(|candidate| !own(candidate)))?;
        }
        let memory = self.check_memory_with(now, &candidates, &snapshot)?;
        let warnings = self.check_disks_with(now, &candidates, add.allow_same_disk).await?;
        Ok(Checked { candidates, warnings, memory })
    }

    /// The tables grow with the SSDs. A spare counts like an SSD from the beginning: when it takes over nobody is asked.
    fn check_memory_with(
        &self,
        now: &PoolStatus,
        candidates: &[Candidate],
        snapshot: &Snapshot,
    ) -> Result<Option<MemoryPlan>, ApiError> {
        let spec = PoolSpec { name: now.name.clone(), kind: now.kind, settings: now.settings };
        let mut sizes = sizes_with_spares(now);
        sizes.extend(candidates.iter().map(|candidate| candidate.size_bytes));
        // What else may be wrong with them is said by the engine.
        let Ok(plan) = self.creation.plan_of(&spec, &sizes, &without(now, snapshot)) else { return Ok(None) };
        check_memory(&plan)?;
        let in_use_bytes = memory_in_use(snapshot);
        let more_bytes = (plan.memory_in_use_bytes + plan.memory_bytes).saturating_sub(in_use_bytes);
        Ok(Some(MemoryPlan { more_bytes, in_use_bytes, limit_bytes: plan.memory_limit_bytes }))
    }

    /// What is to be known of the disks that the pool would lie on.
    async fn check_disks_with(
        &self,
        now: &PoolStatus,
        new: &[Candidate],
        allowed: bool,
    ) -> Result<Vec<String>, ApiError> {
        match now.kind {
            PoolKind::Read => return Ok(Vec::new()),
            PoolKind::ReadWrite => {}
        }
        let kind = now.kind;
        let mut on_disks = disks::in_use(now);
        let paths: Vec<String> = new.iter().map(|candidate| candidate.path.clone()).collect();
        on_disks.extend(self.records.plane.first().call(move |plane| plane.pools().disks_of(paths)).await?);
        blocking(move || {
            let ssds = SsdOnDisk::all(on_disks);
            disks::check(kind, &ssds, allowed)?;
            Ok(disks::warnings(kind, &ssds))
        })
        .await?
    }

    /// Empties SSDs and lets them go; answers when all is done.
    pub(crate) async fn remove_ssds(self: &Arc<Self>, name: &str, remove: &SsdsRemove) -> Result<bool, ApiError> {
        let (_, ended) = self.begin_ssd_removal(name, remove).await?;
        let cut_off = |_| ApiError::new(ApiErrorKind::Internal, "the removal was cut off; the log says why");
        ended.await.map_err(cut_off)??;
        Ok(true)
    }

    /// Begins to empty SSDs; answers the id of the operation, and where its end is told. No lock is held while they are
    /// emptied: the engine refuses what cannot go together.
    pub(super) async fn begin_ssd_removal(
        self: &Arc<Self>,
        name: &str,
        remove: &SsdsRemove,
    ) -> Result<(u64, oneshot::Receiver<Result<(), ApiError>>), ApiError> {
        let pool = pool_name(name)?;
        let now = self.open_pool_named(name).await?;
        let known: Vec<(u128, &str)> = now.ssds.iter().map(|ssd| (ssd.uuid, ssd.path.as_str())).collect();
        let uuids = select(name, &known, &remove.ssds)?;
        // A second one would wait for it, and who cancels one of the two would end the other.
        if self.operations.running(OperationKind::RemoveSsds, name).is_some() {
            let message = format!("pool {name}: SSDs are being removed");
            return Err(ApiError::new(ApiErrorKind::Refused, message)
                .with_hint("`hotset operations` shows how far that is and `hotset operations cancel ID` ends it"));
        }
        let subject = Subject::new(SubjectKind::Pool, name);
        let (kind, asked_by, cancel) = (OperationKind::RemoveSsds, Who::asks(), Cancel::Anytime);
        let Begun { id, cancelled } = self.operations.begin(Begin { kind, subject, asked_by, total_bytes: 0, cancel });
        let ((begun, under_way), (told, ended)) = (oneshot::channel(), oneshot::channel());
        let (this, ssds) = (Arc::clone(self), remove.ssds.clone());
        tokio::spawn(async move {
            let cancel = async {
                // One that has just ended, with its pool, is not cancelled any more.
                let _ = this.cancel_removal(pool.as_str()).await;
            };
            let outcome = carry_on(cancelled, this.empty_ssds(&pool, uuids, begun, id), cancel).await;
            match &outcome {
                Ok(()) => tracing::info!(%pool, ?ssds, "removed"),
                Err(error) => tracing::warn!(%pool, ?ssds, "not removed: {error}"),
            }
            this.operations.end(id, outcome.as_ref().err());
            // Whoever asked may have gone; the operation tells the same.
            let _ = told.send(outcome);
        });
        // From here on the pool's status says how far it is. An error is the operation's.
        let _ = under_way.await;
        Ok((id, ended))
    }

    async fn empty_ssds(
        &self,
        name: &PoolName,
        uuids: Vec<u128>,
        begun: oneshot::Sender<()>,
        operation: u64,
    ) -> Result<(), ApiError> {
        let (of, leaving) = (name.clone(), uuids.clone());
        let told_of = Subject::new(SubjectKind::Pool, name.as_str());
        self.records.register.clear_for(ConditionKind::Removal, told_of.clone());
        let removed = self.records.plane.of_pool(name).call(move |plane| async move {
            let mut removal = pin!(plane.pools().remove_ssds(of, leaving));
            // This begins it.
            let at_once = poll_immediate(removal.as_mut()).await;
            let _ = begun.send(());
            match at_once {
                Some(removed) => Ok((false, removed)),
                None => Ok((true, removal.await)),
            }
        });
        let (has_begun, removed) = removed.await?;
        let removed = removed.map_err(|error| words::error(&error));
        // Of one that was refused whoever asked for it knows.
        if let Err(error) = removed.as_ref().map_err(|error| format!("its SSDs were not removed: {error}"))
            && has_begun
        {
            self.records.register.raise_for(ConditionKind::Removal, told_of, error);
        }
        let gone = |other: &str| uuids.iter().any(|gone| uuid(*gone) == other);
        if removed.as_ref().is_ok_and(|removed| *removed == Removed::Done) {
            self.records.forget_missing(name.as_str(), gone);
            self.records.offline().notes.remove(name.as_str());
        }
        {
            self.operations.waits(operation, WaitsFor::OtherChanges);
            let _one_at_a_time = self.records.change.lock().await;
            self.operations.goes_on(operation);
            self.records.save_pool(name).await?;
        }
        match removed? {
            Removed::Done => Ok(()),
            Removed::Cancelled => {
                let message = format!("pool {name}: the removal was cancelled; the SSDs stay");
                Err(ApiError::new(ApiErrorKind::Cancelled, message))
            }
        }
    }

    /// Ends a removal that is under way.
    pub(crate) async fn cancel_removal(&self, name: &str) -> Result<bool, ApiError> {
        let pool = pool_name(name)?;
        let changed = self.open_pool_named(name).await?.ssds.iter().any(|ssd| ssd.evacuation.is_some());
        self.records.plane.of_pool(&pool.clone()).call(move |plane| plane.pools().cancel_removal(pool)).await?;
        Ok(changed)
    }

    pub(crate) async fn remove_spares(&self, name: &str, remove: &SsdsRemove) -> Result<bool, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        let pool = pool_name(name)?;
        let now = self.open_pool_named(name).await?;
        let known: Vec<(u128, &str)> = now.spares.iter().map(|spare| (spare.uuid, spare.path.as_str())).collect();
        let uuids = select(name, &known, &remove.ssds)?;
        let of = pool.clone();
        self.records.plane.of_pool(&pool).call(move |plane| plane.pools().remove_spares(of, uuids)).await?;
        self.records.save_pool(&pool).await?;
        Ok(true)
    }

    async fn open_pool_named(&self, name: &str) -> Result<PoolStatus, ApiError> {
        let pool = pool_name(name)?;
        let snapshot = self.records.plane.snapshot().await?;
        let found = snapshot.pools.into_iter().find(|open| open.name == pool);
        found.ok_or_else(|| self.records.not_open(name))
    }

    /// Keeps the records of pools as they are: SSDs fail and spares take over without anybody's word.
    pub(crate) async fn follow_members(self: Arc<Self>) {
        let mut before: Vec<(String, Vec<String>)> = Vec::new();
        loop {
            tokio::time::sleep(FOLLOW_INTERVAL).await;
            let Ok(snapshot) = self.records.plane.snapshot().await else { return };
            tell(&snapshot, &self.operations);
            let now: Vec<(String, Vec<String>)> = snapshot.pools.iter().map(members_of).collect();
            for (name, members) in &now {
                let known = before.iter().find(|(other, _)| other == name);
                // One that was not seen before may have changed since it was recorded.
                let changed = known.is_none_or(|(_, known)| known != members);
                let Some(name) = changed.then(|| pool_name(name).ok()).flatten() else { continue };
                let _one_at_a_time = self.records.change.lock().await;
                if let Err(error) = self.records.save_pool(&name).await {
                    tracing::warn!(pool = %name, "its SSDs changed, and that was not recorded: {error}");
                }
                if let Some(pool) = snapshot.pools.iter().find(|pool| pool.name == name) {
                    // What they share is told anew: of those that left, nothing.
                    let _ = self.opening.note_shared_disks(pool).await;
                }
            }
            before = now;
        }
    }
}

/// Tells the register of operations how far removals and rebuilds are. Rebuilds begin and end by themselves.
pub(crate) fn tell(snapshot: &Snapshot, operations: &Operations) {
    for pool in &snapshot.pools {
        let name = pool.name.as_str();
        let evacuations = pool.ssds.iter().filter_map(|ssd| ssd.evacuation);
        let (left, total) = evacuations
            .fold((0, 0), |(left, total), evacuation| (left + evacuation.left_bytes, total + evacuation.total_bytes));
        if total > 0 {
            operations.progress_of(OperationKind::RemoveSsds, name, total.saturating_sub(left), total);
        }
        let running = operations.running(OperationKind::Rebuild, name);
        match (pool.rebuild.filter(|rebuild| rebuild.copies_lost && !rebuild.space_insufficient), running) {
            (Some(rebuild), None) => {
                let subject = Subject::new(SubjectKind::Pool, name);
                let (kind, asked_by, cancel) =
                    (OperationKind::Rebuild, Who::Daemon, Cancel::Never(NO_END_OF_A_REBUILD));
                operations.begin(Begin { kind, subject, asked_by, total_bytes: rebuild.total_bytes, cancel });
            }
            (Some(rebuild), Some(id)) => operations.progress(id, rebuild.done_bytes, rebuild.total_bytes),
            (None, Some(id)) => operations.end(id, why_it_ended(pool).as_ref()),
            (None, None) => {}
        }
    }
}

/// A rebuild that came to nothing.
fn why_it_ended(pool: &PoolStatus) -> Option<ApiError> {
    pool.rebuild.map(|_| ApiError::new(ApiErrorKind::Full, words::pool_reason(pool.reason.as_ref())))
}

fn members_of(pool: &PoolStatus) -> (String, Vec<String>) {
    let online = pool.ssds.iter().filter(|ssd| ssd.online).map(|ssd| uuid(ssd.uuid));
    let spares = pool.spares.iter().map(|spare| uuid(spare.uuid));
    (pool.name.to_string(), online.chain(spares).collect())
}

/// Those that are meant, by path or UUID.
fn select(pool: &str, known: &[(u128, &str)], wanted: &[String]) -> Result<Vec<u128>, ApiError> {
    let one = |wanted: &String| {
        let found = known.iter().find(|(own, path)| path == wanted || uuid(*own) == *wanted);
        found.map(|(own, _)| *own).ok_or_else(|| {
            let message = format!("pool {pool}: {wanted} is none of its own");
            ApiError::new(ApiErrorKind::NotFound, message).with_hint(format!("`hotset pool show {pool}` lists them"))
        })
    };
    wanted.iter().map(one).collect()
}

/// A spare that is smaller than every SSD can take the place of none.
fn check_spare_sizes(pool: &PoolStatus, spares: &[Candidate]) -> Result<(), ApiError> {
    let Some(least) = pool.ssds.iter().filter(|ssd| ssd.online).map(|ssd| ssd.size_bytes).min() else { return Ok(()) };
    let Some(small) = spares.iter().find(|spare| spare.size_bytes < least) else { return Ok(()) };
    let (path, has, least, pool) = (&small.path, human(small.size_bytes), human(least), &pool.name);
    let message = format!(
        "spare {path}: it has {has}, and the smallest SSD of pool {pool} {least}: it can take the place of none"
    );
    Err(ApiError::new(ApiErrorKind::Invalid, message).with_hint("take a spare that is as large as the SSDs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ssd_is_meant_by_its_path_or_its_uuid() {
        let known = [(1, "/dev/a"), (2, "/dev/b")];
        let both = [uuid(2), "/dev/a".to_owned()];
        assert_eq!(select("p", &known, &both).unwrap(), [2, 1]);
        let error = select("p", &known, &["/dev/c".to_owned()]).unwrap_err();
        assert!(error.message.contains("/dev/c"), "{error}");
    }
}
