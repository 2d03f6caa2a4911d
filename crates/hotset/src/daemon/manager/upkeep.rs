//! What lasts is kept up: records that could not be written are written again, and whether they could be is tried.

use std::sync::Arc;
use std::time::Duration;

use hotset_api::{ApiError, ConditionKind, SubjectKind};

use super::{Manager, blocking, pool_name};
use crate::daemon::register::Register;
use crate::daemon::state::StateDirectory;

/// How often what failed is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(3);

impl Manager {
    /// What earlier runs left of conditions.
    pub(super) fn remember(state: &StateDirectory, register: &Register) {
        register.remember_host_errors(&state.host_errors());
    }

    /// Runs until the runtime ends.
    pub(crate) async fn keep_records(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(RETRY_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.try_state_directory().await;
            self.look_for_set_aside().await;
            self.write_outdated_records().await;
        }
    }

    /// A full or read-only state directory is told before something needs it.
    async fn try_state_directory(self: &Arc<Self>) {
        let manager = Arc::clone(self);
        let Ok(tried) = blocking(move || manager.state.try_to_write()).await else { return };
        let told = tried.map_err(|error| {
            format!(
                "{}: {error}; changes of pools and volumes may fail, and what has to last does not",
                self.state.path().display()
            )
        });
        self.register.follow(ConditionKind::StateDirectory, &told);
    }

    /// Records that were begun anew are told as long as what could not be read is there.
    async fn look_for_set_aside(self: &Arc<Self>) {
        let manager = Arc::clone(self);
        let Ok(Ok(told)) = blocking(move || manager.state.begun_anew()).await else { return };
        match told.is_empty() {
            true => self.register.clear(ConditionKind::RecordsSetAside),
            false => self.register.raise(ConditionKind::RecordsSetAside, told.join("; ")),
        }
    }

    /// Each of these makes its condition go when it succeeds.
    async fn write_outdated_records(self: &Arc<Self>) {
        self.write_outdated_pools().await;
        if !self.register.subjects_of(ConditionKind::Failures).is_empty() {
            self.failures.save_again(&self.state);
        }
        if !self.register.subjects_of(ConditionKind::Backings).is_empty() {
            self.save_backings();
        }
        if !self.register.subjects_of(ConditionKind::Guard).is_empty() {
            let _one_at_a_time = self.change.lock().await;
            self.update_udev_rules().await;
        }
    }

    async fn write_outdated_pools(&self) {
        let outdated = self.register.subjects_of(ConditionKind::RecordOutdated);
        let (pools, others): (Vec<_>, Vec<_>) = outdated.into_iter().partition(|of| of.kind == SubjectKind::Pool);
        let _one_at_a_time = self.change.lock().await;
        // First: volumes that have left a pool are to be in one record at any time.
        if !others.is_empty() && self.save_volumes().await.is_err() {
            return;
        }
        for subject in pools {
            let written = self.write_outdated_pool(&subject.name).await;
            if written.is_ok() {
                self.register.follow_for(ConditionKind::RecordOutdated, subject, &written);
            }
        }
    }

    async fn write_outdated_pool(&self, pool: &str) -> Result<(), ApiError> {
        let name = pool_name(pool)?;
        self.remove_ended_conversion(pool)?;
        self.remove_deleted_pool(&name)?;
        let closed = self.offline().pools.get(pool).map(|offline| offline.record.clone());
        match closed.filter(|_| !self.is_rewritten(pool)) {
            Some(record) => self.save_offline_pool(&record),
            None => self.save_pool(&name).await,
        }
    }

    /// Errors that hosts got are told after a restart, too.
    pub(crate) async fn save_host_errors(self: &Arc<Self>) {
        let Some(errors) = self.register.unsaved_host_errors() else { return };
        let manager = Arc::clone(self);
        let written = blocking(move || manager.state.write_host_errors(&errors)).await;
        if !matches!(written, Ok(Ok(()))) {
            self.register.host_errors_are_unsaved();
        }
    }
}
