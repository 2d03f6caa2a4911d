//! Who comes to a device after it was opened and can write to it, too. The kernel asks nobody before it makes a loop device over a
//! file that is in use, so it is looked for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotset_api::{ConditionKind, Subject, SubjectKind};
use hotset_block::User;

use super::devices::{Devices, PROBE_TIMEOUT};
use super::offline::RETRY_INTERVAL;
use super::probe;
use super::records::Records;
use crate::plane::Snapshot;

/// Watches what is in use.
pub(crate) struct SecondWriters {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
}

impl SecondWriters {
    /// Looks again and again, for as long as the daemon runs.
    pub(crate) async fn watch(self: Arc<Self>) {
        let (register, prober) = (&self.records.register, &self.devices.prober);
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            let came = prober.ask("who else writes to devices in use", PROBE_TIMEOUT, hotset_block::latecomers).await;
            let Ok(snapshot) = self.records.plane.snapshot().await else { return };
            // If it cannot be told, what was told stays.
            let Some(came) = came else { continue };
            let told = told_of(&snapshot, &came);
            for gone in register.subjects_of(ConditionKind::SecondWriter).iter().filter(|of| !told.contains_key(of)) {
                register.clear_for(ConditionKind::SecondWriter, gone.clone());
            }
            for (subject, reason) in told {
                register.raise_for(ConditionKind::SecondWriter, subject, reason);
            }
        }
    }
}

/// What is to be said of whom.
fn told_of(snapshot: &Snapshot, came: &[(PathBuf, User)]) -> BTreeMap<Subject, String> {
    let volumes = snapshot.volumes.iter().map(|volume| {
        let subject = Subject::new(SubjectKind::Volume, volume.name.as_str());
        (subject, "its backing device", volume.backing.as_str())
    });
    let pools = snapshot.pools.iter().flat_map(|pool| {
        let ssds = pool.ssds.iter().filter(|ssd| ssd.online).map(|ssd| ("SSD", ssd.path.as_str()));
        let spares = pool.spares.iter().map(|spare| ("spare", spare.path.as_str()));
        let subject = Subject::new(SubjectKind::Pool, pool.name.as_str());
        ssds.chain(spares).map(move |(what, path)| (subject.clone(), what, path))
    });
    let mut told = BTreeMap::<Subject, String>::new();
    for (subject, what, spelling) in volumes.chain(pools) {
        let path = Path::new(probe::backing_path(spelling));
        for (_, user) in came.iter().filter(|(of, _)| of == path) {
            let reason = told.entry(subject.clone()).or_default();
            let begun = if reason.is_empty() { "somebody else can write to " } else { ", and to " };
            reason.push_str(&format!("{begun}{what} {spelling}: {}", user.use_of_it()));
        }
    }
    told
}
