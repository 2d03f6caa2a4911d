//! Scrubs of pools, as operations. One that is cut off by the end of the daemon goes on after its next start.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind, OperationKind, Subject, SubjectKind};
use hotset_cache::config::PoolName;
use hotset_cache::{Error, PoolStatus, ScrubState, ScrubStatus, UnfinishedScrub};

use super::operations::{Begin, Begun, Cancel, Found, Operations, carry_on};
use crate::daemon::blocking::blocking;
use crate::daemon::naming::{no_such_pool, pool_name};
use crate::daemon::opening::records::Records;
use crate::daemon::scrub_records::PoolOfScrub;
use crate::daemon::who::Who;
use crate::plane::Snapshot;
use crate::size::human;
use crate::words;

/// How often it is put on record how far scrubs are. A start goes on from there: so much is checked twice at most.
const KEEP_INTERVAL: Duration = Duration::from_secs(3);

/// Scrubs pools.
pub(crate) struct Scrubs {
    pub(crate) records: Arc<Records>,
    pub(crate) operations: Arc<Operations>,
    /// Held while the records are written, so that what is newer is written later.
    pub(crate) saving: tokio::sync::Mutex<()>,
}

impl Scrubs {
    /// Begins a scrub; answers the id of its operation.
    pub(super) async fn begin_scrub(self: &Arc<Self>, name: &str) -> Result<u64, ApiError> {
        let name = pool_name(name)?;
        // Two that begin at once are told apart by what both see.
        let _one_at_a_time = self.records.change.lock().await;
        let snapshot = self.records.plane.snapshot().await?;
        let pool = snapshot.pools.iter().find(|pool| pool.name == name);
        let pool = pool.ok_or_else(|| no_such_pool(name.as_str()))?;
        if pool.scrub.state == ScrubState::Running {
            let message = format!("pool {name}: a scrub is running");
            return Err(ApiError::new(ApiErrorKind::Refused, message)
                .with_hint("`hotset operations` shows how far it is and `hotset operations cancel ID` ends it"));
        }
        self.records.scrubs.begins(&PoolOfScrub::of(pool), None);
        let begun = self.operations.begin(begin(&name, Who::asks()));
        Ok(self.carry_out(name, begun, None).await)
    }

    /// Carries it out in the background; answers the id of its operation when the pool's status says that it runs.
    async fn carry_out(self: &Arc<Self>, name: PoolName, begun: Begun, unfinished: Option<UnfinishedScrub>) -> u64 {
        let Begun { id, cancelled } = begun;
        let (begun, under_way) = tokio::sync::oneshot::channel();
        let this = Arc::clone(self);
        tokio::spawn(async move {
            this.save_records().await;
            let work = this.scrub(name.clone(), unfinished, begun);
            let outcome = carry_on(cancelled, work, this.cancel_scrub(&name)).await;
            this.ended(id, &name, outcome).await;
        });
        // An error is the operation's.
        let _ = under_way.await;
        id
    }

    async fn ended(&self, id: u64, name: &PoolName, outcome: Result<ScrubStatus, ApiError>) {
        let scrub = outcome.as_ref().ok().and_then(words::scrub);
        let found =
            scrub.map(|scrub| Found { severity: words::scrub_severity(scrub), words: words::scrub_found(scrub) });
        match (&found, &outcome) {
            (Some(found), _) => tracing::info!("pool {name}: the scrub has ended: {}", found.words),
            (None, Ok(_)) => tracing::info!("pool {name}: the scrub has ended"),
            (None, Err(error)) => tracing::warn!("pool {name}: the scrub ended: {error}"),
        }
        // What is cut off goes on when the pool is open again.
        if outcome.is_ok() {
            self.records.scrubs.ended(name.as_str(), scrub.and_then(|scrub| scrub.whole_ended_unix_ms));
            self.save_records().await;
        }
        self.operations.end_having_found(id, outcome.and_then(not_cancelled).err().as_ref(), found);
    }

    async fn scrub(
        &self,
        name: PoolName,
        unfinished: Option<UnfinishedScrub>,
        begun: tokio::sync::oneshot::Sender<()>,
    ) -> Result<ScrubStatus, ApiError> {
        let done = self.records.plane.of_pool(&name.clone()).call(move |plane| async move {
            let pool = plane.pool(&name)?;
            let scrub = async {
                match unfinished {
                    Some(unfinished) => pool.resume_scrub(unfinished).await,
                    None => pool.scrub().await,
                }
            };
            // The scrub is polled first, which begins it.
            let begun = async {
                let _ = begun.send(());
            };
            futures_util::future::join(scrub, begun).await.0
        });
        done.await.map_err(cut_off)
    }

    /// A pool that is gone scrubs nothing.
    async fn cancel_scrub(&self, name: &PoolName) {
        // From here on no start goes on with it.
        self.records.scrubs.ended(name.as_str(), None);
        self.save_records().await;
        let (thread, name) = (self.records.plane.of_pool(name), name.clone());
        let cancel = move |plane: std::rc::Rc<crate::plane::Plane>| async move {
            plane.pool(&name)?.cancel_scrub();
            Ok::<(), Error>(())
        };
        let _ = thread.call(cancel).await;
    }

    /// Keeps on record how far scrubs are, and goes on with those that were cut off as soon as their pools are open. Runs until the
    /// runtime ends.
    pub(crate) async fn keep_records(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(KEEP_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Only then is every pool asked.
            if self.records.scrubs.has_unfinished() {
                self.look_at_unfinished().await;
            }
            self.save_records().await;
        }
    }

    async fn look_at_unfinished(self: &Arc<Self>) {
        let Ok(snapshot) = self.records.plane.snapshot().await else { return };
        for pool in &snapshot.pools {
            match pool.scrub_unfinished {
                Some(unfinished) => self.records.scrubs.is_at(&PoolOfScrub::of(pool), unfinished),
                None => self.go_on_with(pool).await,
            }
        }
    }

    async fn go_on_with(self: &Arc<Self>, pool: &PoolStatus) {
        if self.waits_to_go_on(pool).is_none() {
            return;
        }
        let name = pool.name.clone();
        let _one_at_a_time = self.records.change.lock().await;
        // Nothing begins or goes on while the lock is held.
        let Some(unfinished) = self.waits_to_go_on(pool) else { return };
        if self.records.stopping.load(Ordering::Relaxed) {
            return;
        }
        let why = goes_on_because(pool, unfinished);
        tracing::info!("pool {name}: its scrub goes on: {why}");
        let begun = self.operations.begin_because(begin(&name, Who::Daemon), why);
        self.carry_out(name, begun, Some(unfinished)).await;
    }

    /// Where the scrub was that nobody carries on.
    fn waits_to_go_on(&self, pool: &PoolStatus) -> Option<UnfinishedScrub> {
        // Asked in this order: a scrub is off the record before its operation ends.
        let is_running = self.operations.running(OperationKind::Scrub, pool.name.as_str()).is_some();
        self.records.scrubs.unfinished(&PoolOfScrub::of(pool)).filter(|_| !is_running)
    }

    /// What cannot be written now is tried again.
    async fn save_records(&self) {
        let _one_at_a_time = self.saving.lock().await;
        let Some(records) = self.records.scrubs.unsaved() else { return };
        let to = Arc::clone(&self.records);
        let written = blocking(move || to.state.write_scrubs(records)).await;
        if !matches!(written, Ok(Ok(()))) {
            self.records.scrubs.are_unsaved();
        }
    }
}

fn begin(name: &PoolName, asked_by: Who) -> Begin {
    let subject = Subject::new(SubjectKind::Pool, name.as_str());
    Begin { kind: OperationKind::Scrub, subject, asked_by, total_bytes: 0, cancel: Cancel::Anytime }
}

/// The end of the pool, or of the daemon, is no fault of the scrub.
fn cut_off(error: ApiError) -> ApiError {
    if error.kind != ApiErrorKind::Unavailable {
        return error;
    }
    ApiError::new(ApiErrorKind::Cancelled, error.message)
        .with_hint("it goes on from there when the pool is opened again")
}

/// What is said of a scrub that goes on.
fn goes_on_because(pool: &PoolStatus, unfinished: UnfinishedScrub) -> String {
    let UnfinishedScrub { found, slots_checked, epoch } = unfinished;
    if slots_checked == 0 || epoch != pool.epoch {
        return "the scrub before it was cut off, and is begun anew".to_owned();
    }
    let (checked, total) = (human(found.checked_bytes), human(found.total_bytes));
    format!("the scrub before it was cut off after {checked} of {total}, and goes on from there")
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
