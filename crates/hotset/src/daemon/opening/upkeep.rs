//! What lasts is kept up: records that could not be written are written again, and whether they could be is tried.

use std::sync::Arc;
use std::time::Duration;

use hotset_api::{ApiError, ConditionKind, SubjectKind};

use super::converting::Converting;
use super::guard::Guard;
use super::recognise::Backings;
use super::records::Records;
use crate::daemon::blocking::blocking;
use crate::daemon::naming::pool_name;
use crate::machine;

/// How often what failed is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(3);

/// Keeps up what lasts.
pub(crate) struct Upkeep {
    pub(crate) records: Arc<Records>,
    pub(crate) converting: Arc<Converting>,
    pub(crate) backings: Arc<Backings>,
    pub(crate) guard: Arc<Guard>,
}

impl Upkeep {
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
        let this = Arc::clone(self);
        let Ok(tried) = blocking(move || this.records.state.try_to_write()).await else { return };
        let told = tried.map_err(|error| {
            format!(
                "{}: {error}; changes of pools and volumes may fail, and what has to last does not",
                self.records.state.path().display()
            )
        });
        self.records.register.follow(ConditionKind::StateDirectory, &told);
    }

    /// Records that were begun anew are told as long as what could not be read is there.
    async fn look_for_set_aside(self: &Arc<Self>) {
        let this = Arc::clone(self);
        let Ok(Ok(told)) = blocking(move || this.records.state.begun_anew()).await else { return };
        match told.is_empty() {
            true => self.records.register.clear(ConditionKind::RecordsSetAside),
            false => self.records.register.raise(ConditionKind::RecordsSetAside, told.join("; ")),
        }
    }

    /// Each of these makes its condition go when it succeeds.
    async fn write_outdated_records(self: &Arc<Self>) {
        self.write_outdated_pools().await;
        if !self.records.register.subjects_of(ConditionKind::Failures).is_empty() {
            self.records.failures.save_again(&self.records.state);
        }
        if !self.records.register.subjects_of(ConditionKind::Backings).is_empty() {
            self.backings.save_backings();
        }
        if !self.records.register.subjects_of(ConditionKind::DaemonId).is_empty() {
            self.keep_number().await;
        }
        if self.guard.is_incomplete() {
            let _one_at_a_time = self.records.change.lock().await;
            self.guard.update_udev_rules().await;
        }
    }

    /// What this daemon is called from its next start on.
    async fn keep_number(&self) {
        let state = self.records.state.path().to_owned();
        let Ok(kept) = blocking(move || machine::keep_number(&state)).await else { return };
        self.records.register.follow(ConditionKind::DaemonId, &kept);
    }

    async fn write_outdated_pools(&self) {
        let outdated = self.records.register.subjects_of(ConditionKind::RecordOutdated);
        let (pools, others): (Vec<_>, Vec<_>) = outdated.into_iter().partition(|of| of.kind == SubjectKind::Pool);
        let _one_at_a_time = self.records.change.lock().await;
        // First: volumes that have left a pool are to be in one record at any time.
        if !others.is_empty() && self.records.save_volumes().await.is_err() {
            return;
        }
        for subject in pools {
            let written = self.write_outdated_pool(&subject.name).await;
            if written.is_ok() {
                self.records.register.follow_for(ConditionKind::RecordOutdated, subject, &written);
            }
        }
    }

    async fn write_outdated_pool(&self, pool: &str) -> Result<(), ApiError> {
        let name = pool_name(pool)?;
        self.converting.remove_ended_conversion(pool)?;
        self.records.remove_deleted_pool(&name)?;
        let closed = self.records.offline().pools.get(pool).map(|offline| offline.record.clone());
        match closed.filter(|_| !self.converting.is_rewritten(pool)) {
            Some(record) => self.records.save_offline_pool(&record),
            None => self.records.save_pool(&name).await,
        }
    }

    /// Errors that hosts got are told after a restart, too.
    pub(crate) async fn save_host_errors(self: &Arc<Self>) {
        let Some(errors) = self.records.register.unsaved_host_errors() else { return };
        let this = Arc::clone(self);
        let written = blocking(move || this.records.state.write_host_errors(&errors)).await;
        if !matches!(written, Ok(Ok(()))) {
            self.records.register.host_errors_are_unsaved();
        }
    }
}
