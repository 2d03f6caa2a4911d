//! Whether the spares of open pools are there and can be read: one that could not take over is told before it is needed.

use std::path::Path;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use hotset_api::{ConditionKind, Subject, SubjectKind};
use hotset_cache::{PoolStatus, SpareStatus};

use super::devices::{AT_ONCE, Devices, PROBE_TIMEOUT};
use super::offline::RETRY_INTERVAL;
use super::probe::{self, Label};
use super::records::Records;
use crate::words;

/// Looks after spares.
pub(crate) struct Spares {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
}

impl Spares {
    /// Looks again and again, for as long as the daemon runs.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            let Ok(snapshot) = self.records.plane.snapshot().await else { return };
            for pool in &snapshot.pools {
                let subject = Subject::new(SubjectKind::Pool, pool.name.as_str());
                self.records.register.follow_for(ConditionKind::SpareUnusable, subject, &self.look_at(pool).await);
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    async fn look_at(&self, pool: &PoolStatus) -> Result<(), String> {
        let looks = pool.spares.clone().into_iter().map(async |spare| self.check(spare).await.err());
        let unusable: Vec<Option<String>> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        let unusable: Vec<String> = unusable.into_iter().flatten().collect();
        if unusable.is_empty() { Ok(()) } else { Err(unusable.join("; ")) }
    }

    async fn check(&self, spare: SpareStatus) -> Result<(), String> {
        let SpareStatus { path, uuid, reason, .. } = spare;
        let said = words::spare_reason(reason.as_ref());
        let looked_at = path.clone();
        let answer = match said.is_empty() {
            true => {
                self.devices.prober.ask(&format!("spare {path}"), PROBE_TIMEOUT, move || look(&looked_at, uuid)).await
            }
            false => Some(Err(said)),
        };
        let answer = answer.unwrap_or_else(|| Err(format!("it does not answer within {} s", PROBE_TIMEOUT.as_secs())));
        answer.map_err(|why| format!("spare {path} can take the place of no SSD: {why}"))
    }
}

/// Reads it, past the page cache where that is possible. Blocking.
fn look(spelling: &str, uuid: u128) -> Result<(), String> {
    probe::read_a_little(Path::new(probe::backing_path(spelling))).map_err(|error| error.to_string())?;
    match probe::label(spelling) {
        Some(Label::Known(label)) if label.ssd_uuid == uuid => Ok(()),
        Some(_) | None => Err("what is there now is not this spare".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_that_is_gone_or_another_one_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("spare");
        let spelling = path.to_str().unwrap();
        assert!(look(spelling, 1).unwrap_err().contains("No such file"));
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        assert!(look(spelling, 1).unwrap_err().contains("not this spare"));
    }
}
