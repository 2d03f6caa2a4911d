//! Operations by kind and id: begun, shown and cancelled.

use std::sync::Arc;

use hotset_api::{
    ApiError, ApiErrorKind, FlushPurpose, Operation, OperationCancelled, OperationKind, OperationList, OperationStart,
    OperationState, Removal, SsdsRemove,
};

use super::flush::{Draining, Flushes};
use super::flush_now::FlushesNow;
use super::flushed::Subject;
use super::members::{self, Members};
use super::operations::Operations;
use super::removal::Removals;
use super::scrub::{self, Scrubs};
use crate::daemon::opening::records::Records;

/// Begins, shows and cancels operations by their kind and id.
pub(crate) struct Operating {
    pub(crate) records: Arc<Records>,
    pub(crate) operations: Arc<Operations>,
    pub(crate) flushes: Arc<Flushes>,
    pub(crate) draining: Arc<Draining>,
    pub(crate) removals: Arc<Removals>,
    pub(crate) scrubs: Arc<Scrubs>,
    pub(crate) flushes_now: Arc<FlushesNow>,
    pub(crate) members: Arc<Members>,
}

impl Operating {
    pub(crate) async fn operations(&self) -> Result<OperationList, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        self.flushes.tell(&snapshot);
        scrub::tell(&snapshot, &self.operations);
        members::tell(&snapshot, &self.operations);
        self.flushes_now.tell(&snapshot);
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
                let id = self.scrubs.begin_scrub(&request.name).await?;
                return self.operation(id).await;
            }
            OperationKind::FlushVolume => {
                let id = self.flushes_now.begin(&Subject::volume(&request.name)?, request.hold).await?;
                return self.operation(id).await;
            }
            OperationKind::FlushPool => {
                let id = self.flushes_now.begin(&Subject::pool(&request.name)?, request.hold).await?;
                return self.operation(id).await;
            }
            OperationKind::RemoveSsds => {
                let remove = SsdsRemove { ssds: request.ssds };
                let (id, _) = self.members.begin_ssd_removal(&request.name, &remove).await?;
                return self.operation(id).await;
            }
            OperationKind::CreatePool => {
                return Err(not_so("create-pool needs to know what the pool is to be: POST /api/v1/pools"));
            }
            OperationKind::AddSsds => {
                return Err(not_so("add-ssds needs to know of which: POST /api/v1/pools/{name}/ssds"));
            }
            OperationKind::AddSpares => {
                return Err(not_so("add-spares needs to know of which: POST /api/v1/pools/{name}/spares"));
            }
            OperationKind::Rebuild => {
                return Err(not_so("rebuild begins by itself, when an SSD of a read-write pool is lost"));
            }
        };
        let id = self.removals.begin_removal(purpose, &request.name, removal).await?;
        self.operation(id).await
    }

    pub(crate) async fn cancel_operation(&self, id: u64) -> Result<OperationCancelled, ApiError> {
        let operation = self.operation(id).await?;
        if operation.state != OperationState::Running {
            return Ok(OperationCancelled { changed: false, operation });
        }
        if let Some(instead) = self.operations.instead_of_cancelling(id) {
            return Err(cannot_be_cancelled(&operation, instead));
        }
        let changed = match self.flushes.of_operation(id) {
            // Answered when writes are cached again.
            Some(flush) => self.draining.stop(flush).await?,
            None => self.operations.cancel(id),
        };
        Ok(OperationCancelled { changed, operation: self.operation(id).await? })
    }
}

/// `instead`: what to do instead, with NAME in the place of the name.
fn cannot_be_cancelled(operation: &Operation, instead: &str) -> ApiError {
    let Operation { id, kind, subject, .. } = operation;
    let message = format!("operation {id}, {}: it cannot be cancelled", kind.word());
    ApiError::new(ApiErrorKind::Refused, message).with_hint(instead.replace("NAME", &subject.name))
}

fn not_so(message: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use hotset_api::SubjectKind;

    use super::super::operations::{Begin, Cancel};
    use super::*;
    use crate::daemon::who::Who;

    #[test]
    fn who_cannot_cancel_an_operation_hears_what_to_do_instead() {
        let operations = Operations::default();
        let subject = hotset_api::Subject::new(SubjectKind::Pool, "fast");
        let (kind, cancel) = (OperationKind::Rebuild, Cancel::Never("`hotset pool flush NAME` helps"));
        let begun = operations.begin(Begin { kind, subject, asked_by: Who::Daemon, total_bytes: 0, cancel });
        let operation = operations.list().remove(0);
        assert!(!operation.cancellable);
        let instead = operations.instead_of_cancelling(begun.id).expect("it cannot be cancelled");
        let error = cannot_be_cancelled(&operation, instead);
        assert_eq!(error.hint, "`hotset pool flush fast` helps");
        assert!(error.message.contains("rebuild: it cannot be cancelled"), "{error}");
    }
}
