//! The register of operations: what takes long, how far it is, and what became of it.
//!
//! Whatever takes long begins one, tells how far it is, and ends it. The last ones that ended are kept, so that who was
//! away can see what happened.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hotset_api::{ApiError, ApiErrorKind, Operation, OperationKind, OperationState, Subject, Work};

use crate::daemon::clock::unix_ms;

/// Operations that ended and are still shown.
const ENDED_MAX: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Operations(Mutex<Register>);

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
    pub(crate) fn begin(&self, kind: OperationKind, subject: Subject, total_bytes: u64, cancellable: bool) -> u64 {
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
    pub(crate) fn progress(&self, id: u64, done_bytes: u64, total_bytes: u64) {
        if let Some(running) = self.register().running.get_mut(&id) {
            running.operation.done_bytes = done_bytes;
            running.operation.total_bytes = total_bytes;
        }
    }

    /// So much more of it is done.
    pub(crate) fn advance(&self, id: u64, more_bytes: u64) {
        if let Some(running) = self.register().running.get_mut(&id) {
            running.operation.done_bytes += more_bytes;
        }
    }

    /// How far what is written for pools to come is.
    pub(crate) fn works(&self) -> Vec<Work> {
        let register = self.register();
        let running = register.running.values().map(|running| &running.operation);
        let works = running.filter_map(|operation| match operation.kind {
            OperationKind::WriteImages => Some(Work {
                what: "writing sparse SSD images in full".to_owned(),
                done_bytes: operation.done_bytes,
                total_bytes: operation.total_bytes,
            }),
            OperationKind::DisableCache
            | OperationKind::DeleteVolume
            | OperationKind::DeletePool
            | OperationKind::ConvertPool
            | OperationKind::Scrub
            | OperationKind::RemoveSsds
            | OperationKind::Rebuild => None,
        });
        works.collect()
    }

    /// As `progress`, for the one of this kind that runs there.
    pub(crate) fn progress_of(&self, kind: OperationKind, name: &str, done_bytes: u64, total_bytes: u64) {
        let is_it = |running: &&mut Running| running.operation.kind == kind && running.operation.subject.name == name;
        if let Some(running) = self.register().running.values_mut().find(is_it) {
            running.operation.done_bytes = done_bytes;
            running.operation.total_bytes = total_bytes;
        }
    }

    /// The one of this kind that runs there.
    pub(crate) fn running(&self, kind: OperationKind, name: &str) -> Option<u64> {
        let register = self.register();
        let mut running = register.running.values().map(|running| &running.operation);
        running.find(|operation| operation.kind == kind && operation.subject.name == name).map(|operation| operation.id)
    }

    pub(crate) fn end(&self, id: u64, error: Option<&ApiError>) {
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

    pub(crate) fn list(&self) -> Vec<Operation> {
        let register = self.register();
        register.running.values().map(Running::now).chain(register.ended.iter().cloned()).collect()
    }
}

/// At the pace so far, rounded up; `None` until there is one.
pub(crate) fn eta_seconds(left_bytes: u64, done_bytes: u64, elapsed: std::time::Duration) -> Option<u64> {
    let spent = elapsed.as_millis() * u128::from(left_bytes);
    let left_ms = spent.checked_div(u128::from(done_bytes))?;
    u64::try_from(left_ms.div_ceil(1000)).ok()
}

#[cfg(test)]
mod tests {
    use hotset_api::SubjectKind;

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
