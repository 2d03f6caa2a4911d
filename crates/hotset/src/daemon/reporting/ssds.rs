//! What the SSDs are and how they say they are: beside what their pools know of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use hotset_api::{ApiError, ConditionKind, Health, Pool, PoolState, SsdHealth, SsdState};

use super::conditions;
use crate::daemon::naming::uuid;
use crate::daemon::opening::records::Records;
use crate::daemon::smart::{
    ANSWER_LIMIT, ASK_INTERVAL, Asker, KnownDrives, LOOK_INTERVAL, Ledger, OpenSsd, SAVE_INTERVAL,
};

/// What the SSDs are and how they say they are.
pub(crate) struct Drives {
    pub(crate) records: Arc<Records>,
    pub(crate) known: KnownDrives,
}

impl Drives {
    /// Looks after the SSDs of all open pools until the runtime ends.
    pub(crate) async fn watch(self: Arc<Self>, program: String) {
        let mut asker = Asker::new(program, ANSWER_LIMIT);
        let mut asked: BTreeMap<String, Instant> = BTreeMap::new();
        let mut saved: Option<(Instant, Ledger)> = None;
        loop {
            if let Ok(ssds) = self.open_ssds().await {
                asked.retain(|uuid, _| ssds.iter().any(|ssd| ssd.uuid == *uuid));
                self.known.keep_only(&ssds);
                for ssd in &ssds {
                    if asked.get(&ssd.uuid).is_none_or(|last| last.elapsed() >= ASK_INTERVAL) {
                        let (identity, smart) = asker.ask(&ssd.path).await;
                        self.known.learn(&ssd.uuid, identity, smart);
                        asked.insert(ssd.uuid.clone(), Instant::now());
                    }
                }
                let ledger = self.known.count(&ssds);
                let due = saved.as_ref().is_none_or(|(at, last)| at.elapsed() >= SAVE_INTERVAL && *last != ledger);
                if due {
                    self.save_ledger(&ledger);
                    saved = Some((Instant::now(), ledger));
                }
            }
            asker.ask_found(&self.known).await;
            let _ = tokio::time::timeout(LOOK_INTERVAL, self.known.wished()).await;
        }
    }

    /// The SSDs in use, of all open pools.
    pub(crate) async fn open_ssds(&self) -> Result<Vec<OpenSsd>, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        let ssds = snapshot.pools.iter().flat_map(|pool| &pool.ssds).filter(|ssd| ssd.online);
        let open = ssds.map(|ssd| OpenSsd {
            uuid: uuid(ssd.uuid),
            path: ssd.path.clone(),
            written_bytes: ssd.io.written_bytes,
        });
        Ok(open.collect())
    }

    pub(super) fn known_ssds(&self) -> &KnownDrives {
        &self.known
    }

    /// Without it the counts go on in memory.
    fn save_ledger(&self, ledger: &Ledger) {
        let written = self.records.state.write_ssd_ledger(ledger).map_err(|error| {
            format!(
                "{}: {error}; what is written to the SSDs is counted in memory only",
                self.records.state.path().display()
            )
        });
        self.records.register.follow(ConditionKind::SsdWrites, &written);
    }

    /// The last count before a stop.
    pub(crate) async fn count_written(&self) {
        if let Ok(ssds) = self.open_ssds().await {
            self.save_ledger(&self.known.count(&ssds));
        }
    }

    /// Adds to a pool what its SSDs say of themselves.
    pub(super) fn describe_ssds(&self, pool: &mut Pool) {
        for ssd in &mut pool.ssds {
            (ssd.identity, ssd.smart) = self.known.of(&ssd.uuid, ssd.written_bytes);
            ssd.health = health(ssd.state, ssd.read_errors, &ssd.smart.alert);
            ssd.reason = conditions::ssd_reason(ssd.state, ssd.health, &ssd.reason, &ssd.smart.alert);
            // Nothing of the kind can be done to a pool that is not open: what can is said of the pool.
            if pool.state != PoolState::Offline {
                // Without any SSD there is one thing to do, whichever of them one looks at.
                let has_own = ssd.online || matches!(ssd.state, SsdState::NoSpace | SsdState::ReadOnly);
                ssd.action = match has_own || pool.health != Health::Failed {
                    true => conditions::ssd_action(ssd.state, &pool.name, &ssd.path, ssd.health),
                    false => pool.action.clone(),
                };
            }
        }
    }
}

/// The worst that holds.
fn health(state: SsdState, read_errors: u64, alert: &str) -> SsdHealth {
    if state == SsdState::Expelled {
        SsdHealth::Failed
    } else if !alert.is_empty() {
        SsdHealth::ErrorAlert
    } else if read_errors > 0 {
        SsdHealth::ReadErrors
    } else if matches!(state, SsdState::Missing | SsdState::Offline) {
        SsdHealth::Unknown
    } else {
        SsdHealth::Good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: P10
    #[test]
    fn the_health_of_an_ssd_is_the_worst_that_holds() {
        assert_eq!(health(SsdState::Online, 0, ""), SsdHealth::Good);
        assert_eq!(health(SsdState::Online, 1, ""), SsdHealth::ReadErrors);
        assert_eq!(health(SsdState::Missing, 0, ""), SsdHealth::Unknown);
        assert_eq!(health(SsdState::Offline, 0, ""), SsdHealth::Unknown);
        assert_eq!(health(SsdState::Missing, 1, "it is failing"), SsdHealth::ErrorAlert);
        assert_eq!(health(SsdState::Expelled, 1, "it is failing"), SsdHealth::Failed);
    }
}
