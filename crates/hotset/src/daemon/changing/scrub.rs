//! Scrubs of pools, as operations.

use std::sync::Arc;

use hotset_api::{ApiError, ApiErrorKind, OperationKind, Subject, SubjectKind};
use hotset_cache::config::PoolName;
use hotset_cache::{Error, ScrubState, ScrubStatus};

use super::operations::{Begin, Begun, Cancel, Found, Operations, carry_on};
use crate::daemon::naming::{no_such_pool, pool_name};
use crate::daemon::opening::records::Records;
use crate::daemon::who::Who;
use crate::plane::Snapshot;
use crate::words;

/// Scrubs pools.
pub(crate) struct Scrubs {
    pub(crate) records: Arc<Records>,
    pub(crate) operations: Arc<Operations>,
}

impl Scrubs {
    /// Begins a scrub; answers the id of its operation.
    pub(super) async fn begin_scrub(self: &Arc<Self>, name: &str) -> Result<u64, ApiError> {
        let name = pool_name(name)?;
        // Two that begin at once are told apart by what both see.
        let _one_at_a_time = self.records.change.lock().await;
        let snapshot = self.records.plane.snapshot().await?;
        let pool = snapshot.pools.iter().find(|pool| pool.name == name);
        let scrub = pool.ok_or_else(|| no_such_pool(name.as_str()))?.scrub;
        if scrub.state == ScrubState::Running {
            let message = format!("pool {name}: a scrub is running");
            return Err(ApiError::new(ApiErrorKind::Refused, message)
                .with_hint("`hotset operations` shows how far it is and `hotset operations cancel ID` ends it"));
        }
        let subject = Subject::new(SubjectKind::Pool, name.as_str());
        let (kind, asked_by, cancel) = (OperationKind::Scrub, Who::asks(), Cancel::Anytime);
        let Begun { id, cancelled } = self.operations.begin(Begin { kind, subject, asked_by, total_bytes: 0, cancel });
        let (begun, under_way) = tokio::sync::oneshot::channel();
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let outcome = carry_on(cancelled, this.scrub(name.clone(), begun), this.cancel_scrub(&name)).await;
            let found = outcome
                .as_ref()
                .ok()
                .and_then(words::scrub)
                .map(|scrub| Found { severity: words::scrub_severity(scrub), words: words::scrub_found(scrub) });
            match (&found, &outcome) {
                (Some(found), _) => tracing::info!("pool {name}: the scrub has ended: {}", found.words),
                (None, Ok(_)) => tracing::info!("pool {name}: the scrub has ended"),
                (None, Err(error)) => tracing::warn!("pool {name}: the scrub ended: {error}"),
            }
            this.operations.end_having_found(id, outcome.and_then(not_cancelled).err().as_ref(), found);
        });
        // From here on the pool's status says that it runs. An error is the operation's.
        let _ = under_way.await;
        Ok(id)
    }

    async fn scrub(&self, name: PoolName, begun: tokio::sync::oneshot::Sender<()>) -> Result<ScrubStatus, ApiError> {
        let done = self.records.plane.of_pool(&name.clone()).call(move |plane| async move {
            let pool = plane.pool(&name)?;
            // The scrub is polled first, which begins it.
            let begun = async {
                let _ = begun.send(());
            };
            futures_util::future::join(pool.scrub(), begun).await.0
        });
        done.await
    }

    /// A pool that is gone scrubs nothing.
    async fn cancel_scrub(&self, name: &PoolName) {
        let (thread, name) = (self.records.plane.of_pool(name), name.clone());
        let cancel = move |plane: std::rc::Rc<crate::plane::Plane>| async move {
            plane.pool(&name)?.cancel_scrub();
            Ok::<(), Error>(())
        };
        let _ = thread.call(cancel).await;
    }
}

fn not_cancelled(scrub: ScrubStatus) -> Result<(), ApiError> {
    match scrub.state {
        ScrubState::Cancelled => Err(ApiError::new(ApiErrorKind::Cancelled, "the scrub was cancelled")),
        ScrubState::Never | ScrubState::Running | ScrubState::Finished => Ok(()),
    }
}

/// Tells the register of operations how far each scrub is.
pub(crate) fn tell(snapshot: &Snapshot, operations: &Operations) {
    for pool in snapshot.pools.iter().filter(|pool| pool.scrub.state == ScrubState::Running) {
        operations.progress_of(
            OperationKind::Scrub,
            pool.name.as_str(),
            pool.scrub.checked_bytes,
            pool.scrub.total_bytes,
        );
    }
}
