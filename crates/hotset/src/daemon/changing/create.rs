//! Making a pool: every check before the first byte is written.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use hotset_api::{ApiError, ApiErrorKind, OperationKind, PoolCreate, PoolPlan, Subject, SubjectKind};
use hotset_block::fill_image;
use hotset_cache::config::{BlockBytes, PoolKind, PoolName, PoolSettings, limits};
use hotset_cache::{PoolSpec, PoolStatus};

use super::operations::{Begin, Begun, Cancel, Cancelled, Operations};
use crate::daemon::blocking::blocking;
use crate::daemon::naming::pool_name;
use crate::daemon::opening::converting::Converting;
use crate::daemon::opening::devices::Devices;
use crate::daemon::opening::disks::{self, SsdOnDisk};
use crate::daemon::opening::probe::{Candidate, Role};
use crate::daemon::opening::records::Records;
use crate::daemon::who::Who;
use crate::plane::{self, Snapshot};
use crate::size::human;
use crate::words;

/// What a request means, once it is known to be possible.
struct Checked {
    spec: PoolSpec,
    candidates: Vec<Candidate>,
    plan: PoolPlan,
}

/// Words in paths of the API where else the name of a pool is.
const NAMES_OF_THE_API: [&str; 2] = ["import", "plan"];

/// Makes pools.
pub(crate) struct Creation {
    pub(crate) records: Arc<Records>,
    pub(crate) converting: Arc<Converting>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) operations: Arc<Operations>,
}

impl Creation {
    /// What `create_pool` would make; changes nothing.
    pub(crate) async fn plan_pool(&self, request: &PoolCreate) -> Result<PoolPlan, ApiError> {
        self.check_create(request).await.map(|checked| checked.plan)
    }

    pub(crate) async fn create_pool(&self, request: &PoolCreate) -> Result<(), ApiError> {
        let name = pool_name(&request.name)?;
        let (kind, subject) = (OperationKind::CreatePool, Subject::new(SubjectKind::Pool, name.as_str()));
        let (asked_by, total_bytes, cancel) = (Who::asks(), 0, Cancel::Anytime);
        let begun = self.operations.begin_checking(Begin { kind, subject, asked_by, total_bytes, cancel });
        let outcome = self.create(request, &begun).await;
        self.operations.end(begun.id, outcome.as_ref().err());
        outcome
    }

    async fn create(&self, request: &PoolCreate, begun: &Begun) -> Result<(), ApiError> {
        let what = format!("pool {}: making it", request.name);
        let mut is_filled = false;
        let (_one_at_a_time, checked) = loop {
            let lock = self.operations.wait_for_others(begun, &what, &self.records.change).await?;
            let checked = self.check_create(request).await?;
            self.records.check_state_takes_records().await?;
            self.operations.is_possible(begun.id);
            if is_filled || !any_sparse(&checked.candidates) {
                break (lock, checked);
            }
            // That takes long: other changes go on. What they changed is looked at again.
            drop(lock);
            self.fill_sparse(&checked.spec.name, &checked.candidates, begun).await?;
            is_filled = true;
        };
        begun.cancelled.check(&what)?;
        let name = checked.spec.name.clone();
        let warnings = checked.plan.warnings.clone();
        self.make(checked).await.inspect_err(|_| self.records.drop_member(&name))?;
        self.records.offline().warnings.insert(name.to_string(), warnings);
        self.records.save_pool(&name).await?;
        tracing::info!(pool = %name, "created");
        Ok(())
    }

    /// The pool and its member file, beside which its record is to have room.
    async fn make(&self, checked: Checked) -> Result<(), ApiError> {
        let Checked { spec, candidates, plan: _ } = checked;
        self.records.make_member(&spec.name).await?;
        let ssds = candidates.into_iter().map(|candidate| candidate.path).collect();
        let member = self.records.state.member(&spec.name);
        let (thread, _opening) = self.records.plane.for_pool();
        thread.call(move |plane| plane.pools().create_pool(spec, ssds, member)).await.map(drop)
    }

    async fn check_create(&self, request: &PoolCreate) -> Result<Checked, ApiError> {
        let spec = spec_of(request)?;
        if NAMES_OF_THE_API.contains(&spec.name.as_str()) {
            return Err(invalid(format!(
                "pool {}: the API uses this word in the place of a name; choose another one",
                spec.name
            )));
        }
        let snapshot = self.records.plane.snapshot().await?;
        self.check_name_is_free(&spec, &snapshot)?;
        if request.ssds.len() > limits::SSDS_MAX {
            return Err(invalid(format!("{} SSDs: a pool has at most {}", request.ssds.len(), limits::SSDS_MAX)));
        }
        let candidates = self.devices.candidates(&request.ssds, Role::NewSsd).await?;
        check_sizes(&candidates)?;
        check_distinct(&candidates)?;
        self.devices.check_all_unused(&candidates, &snapshot).await?;
        if !request.force {
            check_unsigned(&candidates)?;
        }
        let sizes: Vec<u64> = candidates.iter().map(|candidate| candidate.size_bytes).collect();
        let mut plan = self.plan_of(&spec, &sizes, &snapshot)?;
        plan.bytes_to_write_first =
            candidates.iter().filter(|candidate| candidate.sparse).map(|candidate| candidate.size_bytes).sum();
        check_memory(&plan)?;
        plan.warnings = self.check_disks(&spec, &candidates, request.allow_same_disk).await?;
        Ok(Checked { spec, candidates, plan })
    }

    /// The two copies of dirty data belong on two disks.
    async fn check_disks(
        &self,
        spec: &PoolSpec,
        candidates: &[Candidate],
        allow_same_disk: bool,
    ) -> Result<Vec<String>, ApiError> {
        match spec.kind {
            PoolKind::Read => return Ok(Vec::new()),
            PoolKind::ReadWrite => {}
        }
        let paths: Vec<String> = candidates.iter().map(|candidate| candidate.path.clone()).collect();
        let on_disks = self.records.plane.first().call(move |plane| plane.pools().disks_of(paths)).await?;
        let kind = spec.kind;
        blocking(move || {
            let ssds = SsdOnDisk::all(on_disks);
            disks::check(kind, &ssds, allow_same_disk)?;
            Ok(disks::warnings(kind, &ssds))
        })
        .await?
    }

    fn check_name_is_free(&self, spec: &PoolSpec, snapshot: &Snapshot) -> Result<(), ApiError> {
        let open = snapshot.pools.iter().any(|pool| pool.name == spec.name);
        if open || self.records.offline().pools.contains_key(spec.name.as_str()) {
            let message = format!("pool {}: a pool of this name exists already", spec.name);
            return Err(ApiError::new(ApiErrorKind::Refused, message));
        }
        self.converting.check_not_converted(&spec.name)?;
        self.records.check_record_of(&spec.name)
    }

    /// The plan beside the pools of `others`; whether its memory is there is judged by [`check_memory`].
    pub(super) fn plan_of(&self, spec: &PoolSpec, sizes: &[u64], others: &Snapshot) -> Result<PoolPlan, ApiError> {
        let plan = plane::plan(spec, sizes).map_err(|error| words::error(&error))?;
        let in_use = memory_in_use(others);
        let limit = self.records.config.memory_limit_bytes;
        Ok(PoolPlan {
            name: spec.name.to_string(),
            kind: words::pool_kind(spec.kind),
            io_type: words::io_type(spec.settings.io_type),
            block_size_bytes: spec.settings.block_bytes.get(),
            populate_on_read: spec.settings.populate_on_read,
            populate_on_write: spec.settings.populate_on_write,
            policy: words::policy(spec.settings.policy),
            checksums: spec.settings.checksums,
            capacity_bytes: plan.capacity_bytes,
            capacity_min_bytes: plan.capacity_min_bytes,
            slots: plan.slots,
            segment_bytes: plan.segment_bytes,
            memory_bytes: plan.memory_bytes,
            memory_terms: words::memory_terms(plan.memory),
            dirty_capacity_bytes: plan.dirty_capacity_bytes,
            dirty_memory_bytes: plan.memory.dirty_pages.bytes(),
            memory_limit_bytes: limit,
            memory_in_use_bytes: in_use,
            ssd_capacity_bytes: plan.ssd_capacity_bytes,
            bytes_to_write_first: 0,
            warnings: Vec::new(),
        })
    }

    /// Writes sparse image files in full, and tells how far it is. Nobody else uses one meanwhile.
    pub(super) async fn fill_sparse(
        &self,
        name: &PoolName,
        candidates: &[Candidate],
        begun: &Begun,
    ) -> Result<(), ApiError> {
        let sparse: Vec<_> = candidates.iter().filter(|candidate| candidate.sparse).collect();
        self.operations.progress(begun.id, 0, sparse.iter().map(|candidate| candidate.size_bytes).sum());
        for candidate in sparse {
            self.fill_one(name, candidate.path.clone(), begun.id, begun.cancelled.clone()).await?;
        }
        Ok(())
    }

    async fn fill_one(
        &self,
        name: &PoolName,
        path: String,
        operation: u64,
        cancelled: Cancelled,
    ) -> Result<(), ApiError> {
        let (told, mut progress) = tokio::sync::mpsc::unbounded_channel();
        let filled = path.clone();
        let work = tokio::task::spawn_blocking(move || {
            fill_image(Path::new(&filled), &mut |bytes| {
                // Whoever listens may have gone with its client; the image is filled nevertheless.
                let _ = told.send(bytes);
                if cancelled.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        });
        while let Some(bytes) = progress.recv().await {
            self.operations.advance(operation, bytes);
        }
        let done = work.await.map_err(|error| ApiError::new(ApiErrorKind::Internal, error.to_string()))?;
        match done.map_err(|error| words::error(&plane::device::of_open("SSD", &error)))? {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                let message =
                    format!("pool {name}: writing its SSD images in full was cancelled; nothing else was changed");
                Err(ApiError::new(ApiErrorKind::Cancelled, message))
            }
        }
    }
}

/// Whether images have to be written in full before a pool gets them.
pub(super) fn any_sparse(candidates: &[Candidate]) -> bool {
    candidates.iter().any(|candidate| candidate.sparse)
}

/// What the tables of all open pools take when every slot is in use and every spare has taken over.
pub(crate) fn memory_in_use(snapshot: &Snapshot) -> u64 {
    let planned = snapshot.pools.iter().map(|pool| {
        let spec = PoolSpec { name: pool.name.clone(), kind: pool.kind, settings: pool.settings };
        plane::plan(&spec, &sizes_with_spares(pool))
            .map_or(pool.memory_bytes, |plan| plan.memory_bytes.max(pool.memory_bytes))
    });
    planned.sum()
}

/// Bytes of each SSD that a pool uses, and of each that may take over.
pub(super) fn sizes_with_spares(pool: &PoolStatus) -> Vec<u64> {
    let online = pool.ssds.iter().filter(|ssd| ssd.online).map(|ssd| ssd.size_bytes);
    online.chain(pool.spares.iter().map(|spare| spare.size_bytes)).collect()
}

/// The other pools.
pub(crate) fn without(pool: &PoolStatus, snapshot: &Snapshot) -> Snapshot {
    let mut others = snapshot.clone();
    others.pools.retain(|other| other.name != pool.name);
    others
}

fn spec_of(request: &PoolCreate) -> Result<PoolSpec, ApiError> {
    let name = pool_name(&request.name)?;
    let kind = words::engine_pool_kind(request.kind);
    let mut settings = PoolSettings::preset(kind, words::engine_io_type(request.io_type));
    if let Some(bytes) = request.block_size_bytes {
        settings.block_bytes = BlockBytes::new(bytes).map_err(|error| words::error(&error))?;
    }
    settings.populate_on_read = request.populate_on_read.unwrap_or(settings.populate_on_read);
    settings.populate_on_write = request.populate_on_write.unwrap_or(settings.populate_on_write);
    settings.checksums = request.checksums.unwrap_or(settings.checksums);
    settings.policy = request.policy.map_or(settings.policy, words::engine_policy);
    settings.check(kind).map_err(|error| words::error(&error))?;
    match (kind, request.ssds.len()) {
        (PoolKind::Read | PoolKind::ReadWrite, 0) => {
            return Err(invalid(format!("pool {name}: it needs at least one SSD")));
        }
        (PoolKind::ReadWrite, 1) => {
            let message = format!("pool {name}: a read-write pool keeps dirty data twice: it needs at least two SSDs");
            return Err(invalid(message));
        }
        (PoolKind::Read | PoolKind::ReadWrite, _) => {}
    }
    Ok(PoolSpec { name, kind, settings })
}

pub(super) fn check_memory(plan: &PoolPlan) -> Result<(), ApiError> {
    if plan.memory_in_use_bytes.saturating_add(plan.memory_bytes) <= plan.memory_limit_bytes {
        return Ok(());
    }
    Err(ApiError::new(
        ApiErrorKind::Full,
        format!(
            "pool {}: its tables need {} of memory, but of the limit of {} other pools need {}",
            plan.name,
            human(plan.memory_bytes),
            human(plan.memory_limit_bytes),
            human(plan.memory_in_use_bytes)
        ),
    )
    .with_hint("take less SSD capacity or a larger cache block, or raise memory_limit"))
}

/// An SSD that is too small is named here; the engine knows sizes only.
pub(super) fn check_sizes(candidates: &[Candidate]) -> Result<(), ApiError> {
    let small = candidates.iter().find(|candidate| candidate.size_bytes < limits::SSD_BYTES_MIN);
    let Some(Candidate { path, size_bytes, .. }) = small else { return Ok(()) };
    let (has, least) = (human(*size_bytes), human(limits::SSD_BYTES_MIN));
    Err(invalid(format!(
        "SSD {path}: it has {has}; an SSD has at least {least} (`hotset image create` makes an image)"
    )))
}

pub(super) fn check_distinct(candidates: &[Candidate]) -> Result<(), ApiError> {
    for (index, candidate) in candidates.iter().enumerate() {
        if let Some(same) = candidates[..index].iter().find(|other| other.footprint.overlaps(&candidate.footprint)) {
            let message = match same.path == candidate.path {
                true => format!("SSD {}: it is given twice", same.path),
                false => format!("SSDs {} and {} are the same device", same.path, candidate.path),
            };
            return Err(invalid(message));
        }
    }
    Ok(())
}

pub(super) fn check_unsigned<'a>(candidates: impl IntoIterator<Item = &'a Candidate>) -> Result<(), ApiError> {
    let mut candidates = candidates.into_iter();
    let signed = candidates.find_map(|candidate| Some((&candidate.path, candidate.signature.as_ref()?)));
    let Some((path, signature)) = signed else { return Ok(()) };
    let message = format!("SSD {path}: it carries {signature}, which would be lost");
    Err(ApiError::new(ApiErrorKind::Refused, message).with_hint("use --force if that is what you want"))
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ApiErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::opening::probe;

    #[test]
    fn a_path_that_is_given_twice_is_told_as_that_and_two_names_of_a_device_as_one_device() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("ssd"), directory.path().join("link"));
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        std::fs::hard_link(&path, &link).unwrap();
        let candidate = |path: &Path| probe::candidate(path.to_str().unwrap(), Role::SsdOfPool).unwrap();
        let told = |paths: [&Path; 2]| check_distinct(&paths.map(candidate)).unwrap_err().message;
        assert!(told([&path, &path]).contains("it is given twice"));
        assert!(told([&path, &link]).contains("are the same device"));
    }
}
