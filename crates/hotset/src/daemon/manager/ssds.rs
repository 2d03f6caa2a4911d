//! What the SSDs are and how they say they are: beside what their pools know of them.

use hotset_api::{ApiError, ConditionKind, Health, Pool, PoolState, SsdHealth, SsdState};

use super::{Manager, conditions, uuid};
use crate::daemon::smart::{Known, Ledger, OpenSsd};

impl Manager {
    /// The SSDs in use, of all open pools.
    pub(in crate::daemon) async fn open_ssds(&self) -> Result<Vec<OpenSsd>, ApiError> {
        let snapshot = self.plane.snapshot().await?;
        let ssds = snapshot.pools.iter().flat_map(|pool| &pool.ssds).filter(|ssd| ssd.online);
        let open = ssds.map(|ssd| OpenSsd {
            uuid: uuid(ssd.uuid),
            path: ssd.path.clone(),
            written_bytes: ssd.io.written_bytes,
        });
        Ok(open.collect())
    }

    pub(in crate::daemon) fn known_ssds(&self) -> &Known {
        &self.ssds
    }

    /// Without it the counts go on in memory.
    pub(crate) fn save_ledger(&self, ledger: &Ledger) {
        let written = self.state.write_ssd_ledger(ledger).map_err(|error| {
            format!("{}: {error}; what is written to the SSDs is counted in memory only", self.state.path().display())
        });
        self.register.follow(ConditionKind::SsdWrites, &written);
    }

    /// The last count before a stop.
    pub(crate) async fn count_written(&self) {
        if let Ok(ssds) = self.open_ssds().await {
            self.save_ledger(&self.ssds.count(&ssds));
        }
    }

    /// Adds to a pool what its SSDs say of themselves.
    pub(super) fn describe_ssds(&self, pool: &mut Pool) {
        for ssd in &mut pool.ssds {
            (ssd.identity, ssd.smart) = self.ssds.of(&ssd.uuid);
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
    } else if state == SsdState::Missing {
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
        assert_eq!(health(SsdState::Missing, 1, "it is failing"), SsdHealth::ErrorAlert);
        assert_eq!(health(SsdState::Expelled, 1, "it is failing"), SsdHealth::Failed);
    }
}
