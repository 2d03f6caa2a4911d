//! Files and devices that are in use and not at their paths any more: they serve on, and are not found at the next start.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use hotset_api::{Health, Pool, Volume, VolumeState};

use super::Manager;
use super::ask::{AT_ONCE, PROBE_TIMEOUT};
use super::conditions::joined;
use super::serve::RETRY_INTERVAL;
use crate::daemon::probe;
use crate::plane::Snapshot;

const WHAT: &str = "is not at its path any more: it was removed, renamed or replaced there";

impl Manager {
    /// Looks again and again, for as long as the daemon runs.
    pub(crate) async fn watch_paths(self: Arc<Self>) {
        let mut before = BTreeSet::new();
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            let Ok(snapshot) = self.plane.snapshot().await else { return };
            let found = self.moved_devices(&snapshot).await.unwrap_or_default();
            // What was let go while this looked is not there at the next look.
            self.offline().moved_devices = found.intersection(&before).cloned().collect();
            before = found;
        }
    }

    /// The spellings of devices in use whose paths lead to what is not open. `None`: it cannot be told.
    async fn moved_devices(&self, snapshot: &Snapshot) -> Option<BTreeSet<String>> {
        let asked = in_use(snapshot).into_iter().map(async |spelling| {
            let path = spelling.clone();
            let key =
                self.prober.ask(&format!("device {spelling}"), PROBE_TIMEOUT, move || probe::backing_key(&path)).await;
            Some((spelling, key?))
        });
        let keys: Vec<Option<_>> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let open = self.prober.ask("what is open", PROBE_TIMEOUT, probe::open_devices).await?.ok()?;
        let has_moved = |key: &Option<_>| key.is_none_or(|key| !open.contains(&key));
        Some(keys.into_iter().flatten().filter(|(_, key)| has_moved(key)).map(|(spelling, _)| spelling).collect())
    }
}

fn in_use(snapshot: &Snapshot) -> Vec<String> {
    let ssds = snapshot.pools.iter().flat_map(|pool| &pool.ssds).filter(|ssd| ssd.online).map(|ssd| &ssd.path);
    ssds.chain(snapshot.volumes.iter().map(|volume| &volume.backing)).cloned().collect()
}

/// Says so of the SSDs of a pool.
pub(super) fn tell_of_ssds(pool: &mut Pool, moved: &BTreeSet<String>) {
    for ssd in pool.ssds.iter_mut().filter(|ssd| ssd.online && moved.contains(&ssd.path)) {
        ssd.reason = joined(&ssd.reason, &format!("it {WHAT}"));
        ssd.action = format!(
            "put it back at {}, or take it out of the pool with `hotset pool remove-ssd` before the daemon stops",
            ssd.path
        );
        pool.reason = joined(&pool.reason, &format!("SSD {} {WHAT}; it serves until the daemon stops", ssd.path));
        pool.action = joined(&pool.action, &ssd.action);
        pool.health = pool.health.max(Health::Degraded);
    }
}

/// Says so of the backing device of a volume.
pub(super) fn tell_of_backing(volume: &mut Volume, moved: &BTreeSet<String>) {
    if volume.state == VolumeState::Offline || !moved.contains(&volume.backing) {
        return;
    }
    volume.health = volume.health.max(Health::Degraded);
    volume.reason = joined(&volume.reason, &format!("its backing device {WHAT}; it is used on until the daemon stops"));
    volume.action = format!(
        "put it back at {}; if it is removed for good, copy the volume elsewhere by NBD before the daemon stops, for what is \
         flushed goes with it",
        volume.backing
    );
}
