//! Files and devices that are in use and not at their paths any more: they serve on, and are not found at the next start.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};

use super::devices::{AT_ONCE, Devices, PROBE_TIMEOUT};
use super::offline::RETRY_INTERVAL;
use super::probe;
use super::records::Records;
use crate::plane::Snapshot;

/// Watches the paths of what is in use.
pub(crate) struct MovedDevices {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
}

impl MovedDevices {
    /// Looks again and again, for as long as the daemon runs.
    pub(crate) async fn watch_paths(self: Arc<Self>) {
        let mut before = BTreeSet::new();
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            let Ok(snapshot) = self.records.plane.snapshot().await else { return };
            let Some(found) = self.moved_devices(&snapshot).await else { continue };
            // What was let go while this looked is not there at the next look.
            self.records.offline().moved_devices = found.intersection(&before).cloned().collect();
            before = found;
        }
    }

    /// The spellings of devices in use whose paths lead to what is not open. `None`: it cannot be told.
    async fn moved_devices(&self, snapshot: &Snapshot) -> Option<BTreeSet<String>> {
        let asked = in_use(snapshot).into_iter().map(async |spelling| {
            let path = spelling.clone();
            let key = self
                .devices
                .prober
                .ask(&format!("device {spelling}"), PROBE_TIMEOUT, move || probe::backing_key(&path))
                .await;
            Some((spelling, key?))
        });
        let keys: Vec<Option<_>> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let open = self.devices.prober.ask("what is open", PROBE_TIMEOUT, probe::open_devices).await?.ok()?;
        let has_moved = |key: &Option<_>| key.is_none_or(|key| !open.contains(&key));
        Some(keys.into_iter().flatten().filter(|(_, key)| has_moved(key)).map(|(spelling, _)| spelling).collect())
    }
}

fn in_use(snapshot: &Snapshot) -> Vec<String> {
    let ssds = snapshot.pools.iter().flat_map(|pool| &pool.ssds).filter(|ssd| ssd.online).map(|ssd| &ssd.path);
    ssds.chain(snapshot.volumes.iter().map(|volume| &volume.backing)).cloned().collect()
}
