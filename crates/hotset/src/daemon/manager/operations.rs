//! The register of operations: what takes long, how far it is, and what became of it.
//!
//! Whatever takes long begins one, tells how far it is, and ends it. The last ones that ended are kept, so that who was
//! away can see what happened.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hotset_api::{
    ApiError, ApiErrorKind, FlushPurpose, Operation, OperationCancelled, OperationKind, OperationList, OperationStart,
    OperationState, Removal, SsdsRemove, Subject, SubjectKind,
};

use super::flush::eta_seconds;
use super::{Manager, members, scrub};
use crate::daemon::clock::unix_ms;

/// Operations that ended and are still shown.
const ENDED_MAX: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Operations(Mutex<Register>);

#[derive(Debug, Default)]
struct Register {
    last_id: u64,
    running: BTreeMap<u64, Running>,
    /// Newest first.
    ended: VecDeque<Operation>,
}

#[derive(Debug)]
struct Running {
    operation: Operation,
    began: Instant,
}

impl Running {
    fn now(&self) -> Operation {
        let elapsed = self.began.elapsed();
        let Operation { done_bytes, total_bytes, .. } = self.operation;
        Operation {
            elapsed_seconds: elapsed.as_secs(),
            rate_bytes_per_second: u64::try_from(u128::from(done_bytes) * 1000 / elapsed.as_millis().max(1))
                .unwrap_or(u64::MAX),
            eta_seconds: eta_seconds(total_bytes.saturating_sub(done_bytes), done_bytes, elapsed),
            ..self.operation.clone()
        }
    }
}

impl Operations {
    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn register(&self) -> MutexGuard<'_, Register> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers its id.
    pub(super) fn begin(&self, kind: OperationKind, subject: Subject, total_bytes: u64, cancellable: bool) -> u64 {
        let mut register = self.register();
        register.last_id += 1;
        let id = register.last_id;
        let operation = Operation {
            id,
            kind,
            subject,
            state: OperationState::Running,
            cancellable,
            done_bytes: 0,
            total_bytes,
            rate_bytes_per_second: 0,
            elapsed_seconds: 0,
            eta_seconds: None,
            began_unix_ms: unix_ms(),
            ended_unix_ms: None,
            error: None,
        };
        register.running.insert(id, Running { operation, began: Instant::now() });
        id
    }

    /// How far it is; of one that has ended nothing changes.
    pub(super) fn progress(&self, id: u64, done_bytes: u64, total_bytes: u64) {
        if let Some(running) = self.register().running.get_mut(&id) {
            running.operation.done_bytes = done_bytes;
            running.operation.total_bytes = total_bytes;
        }
    }

    /// The same for the one of this kind that runs there.
    pub(super) fn progress_of(&self, kind: OperationKind, name: &str, done_bytes: u64, total_bytes: u64) {
        let is_it = |running: &&mut Running| running.operation.kind == kind && running.operation.subject.name == name;
        if let Some(running) = self.register().running.values_mut().find(is_it) {
            running.operation.done_bytes = done_bytes;
            running.operation.total_bytes = total_bytes;
        }
    }

    /// The one of this kind that runs there.
    pub(super) fn running(&self, kind: OperationKind, name: &str) -> Option<u64> {
        let register = self.register();
        let mut running = register.running.values().map(|running| &running.operation);
        running.find(|operation| operation.kind == kind && operation.subject.name == name).map(|operation| operation.id)
    }

    pub(super) fn end(&self, id: u64, error: Option<&ApiError>) {
        let mut register = self.register();
        let Some(running) = register.running.remove(&id) else { return };
        let (state, done_bytes) = match error {
            None => (OperationState::Done, running.operation.total_bytes),
            Some(error) if error.kind == ApiErrorKind::Cancelled => {
                (OperationState::Cancelled, running.operation.done_bytes)
            }
            Some(_) => (OperationState::Failed, running.operation.done_bytes),
        };
        let ended = Operation {
            state,
            done_bytes,
            eta_seconds: None,
            ended_unix_ms: Some(unix_ms()),
            error: error.cloned(),
            ..running.now()
        };
        register.ended.push_front(ended);
        register.ended.truncate(ENDED_MAX);
    }

    fn list(&self) -> Vec<Operation> {
        let register = self.register();
        register.running.values().map(Running::now).chain(register.ended.iter().cloned()).collect()
    }
}

impl Manager {
    pub(crate) async fn operations(&self) -> Result<OperationList, ApiError> {
        let snapshot = self.plane.snapshot().await?;
        self.flushes.tell(&snapshot, &self.operations);
        scrub::tell(&snapshot, &self.operations);
        members::tell(&snapshot, &self.operations);
        Ok(OperationList { operations: self.operations.list() })
    }

    pub(crate) async fn operation(&self, id: u64) -> Result<Operation, ApiError> {
        let list = self.operations().await?.operations;
        list.into_iter().find(|operation| operation.id == id).ok_or_else(|| {
            ApiError::new(ApiErrorKind::NotFound, format!("operation {id}: there is no such operation"))
                .with_hint("`hotset operations` shows those of this start of the daemon, the last ones that ended too")
        })
    }

    /// Begins a removal, and waits just until it is under way or has ended.
    pub(crate) async fn start_operation(self: &Arc<Self>, request: OperationStart) -> Result<Operation, ApiError> {
        let removal = Removal { force: request.force, lose_data: request.lose_data };
        let purpose = match request.kind {
            OperationKind::DisableCache => FlushPurpose::DisableCache,
            OperationKind::DeleteVolume => FlushPurpose::DeleteVolume,
            OperationKind::DeletePool => FlushPurpose::DeletePool,
            OperationKind::ConvertPool => {
                let message = "convert-pool needs to know what the pool is to be: POST /api/v1/pools/{name}/conversion";
                return Err(not_so(message));
            }
            OperationKind::Scrub => {
                let id = self.begin_scrub(&request.name).await?;
                return self.operation(id).await;
            }
            OperationKind::RemoveSsds => {
                let remove = SsdsRemove { ssds: request.ssds };
                let (id, _) = self.begin_ssd_removal(&request.name, &remove).await?;
                return self.operation(id).await;
            }
            OperationKind::WriteImages => {
                return Err(not_so("write-images begins by itself, when a pool is made of sparse image files"));
            }
            OperationKind::Rebuild => {
                return Err(not_so("rebuild begins by itself, when an SSD of a read-write pool is lost"));
            }
        };
        let id = self.begin_removal(purpose, &request.name, removal).await?;
        self.operation(id).await
    }

    pub(crate) async fn cancel_operation(&self, id: u64) -> Result<OperationCancelled, ApiError> {
        let operation = self.operation(id).await?;
        if operation.state != OperationState::Running {
            return Ok(OperationCancelled { changed: false, operation });
        }
        if !operation.cancellable {
            let message = format!("operation {id}, {}: it cannot be cancelled", operation.kind.word());
            return Err(ApiError::new(ApiErrorKind::Refused, message).with_hint("it ends by itself"));
        }
        if operation.kind == OperationKind::Scrub {
            let changed = self.cancel_scrub(&operation.subject.name).await?;
            return Ok(OperationCancelled { changed, operation: self.operation(id).await? });
        }
        if operation.kind == OperationKind::RemoveSsds {
            let changed = self.cancel_removal(&operation.subject.name).await?.changed;
            return Ok(OperationCancelled { changed, operation: self.operation(id).await? });
        }
        let subject = match operation.subject.kind {
            SubjectKind::Volume => super::Subject::volume(&operation.subject.name)?,
            SubjectKind::Pool => super::Subject::pool(&operation.subject.name)?,
            SubjectKind::Daemon | SubjectKind::Ssd => {
                return Err(ApiError::new(ApiErrorKind::Internal, format!("operation {id} flushes neither")));
            }
        };
        let cancelled = self.cancel_flush(&subject).await?;
        Ok(OperationCancelled { changed: cancelled.changed, operation: self.operation(id).await? })
    }
}

fn not_so(message: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(operations: &Operations) -> u64 {
        operations.begin(OperationKind::DeletePool, Subject::new(SubjectKind::Pool, "p"), 100, true)
    }

    #[test]
    fn an_operation_is_listed_while_it_runs_and_after_it_ended() {
        let operations = Operations::default();
        let (first, second) = (begin(&operations), begin(&operations));
        operations.progress(first, 40, 100);
        let error = ApiError::new(ApiErrorKind::Cancelled, "cut");
        operations.end(second, Some(&error));
        let list = operations.list();
        assert_eq!((list[0].id, list[0].state, list[0].done_bytes), (first, OperationState::Running, 40));
        assert_eq!((list[1].state, list[1].error.as_ref()), (OperationState::Cancelled, Some(&error)));
        operations.end(first, None);
        let list = operations.list();
        assert_eq!((list[0].id, list[0].state, list[0].done_bytes), (first, OperationState::Done, 100));
    }

    #[test]
    fn only_the_last_ones_that_ended_are_kept() {
        let operations = Operations::default();
        for _ in 0..ENDED_MAX + 5 {
            let id = begin(&operations);
            operations.end(id, None);
        }
        assert_eq!(operations.list().len(), ENDED_MAX);
    }
}
