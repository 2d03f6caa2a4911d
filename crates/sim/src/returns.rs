//! Whoever looks after the daemon's SSDs: those that left and are there again are given to their pool, opened anew.

use std::time::Duration;

use hotset_block::Env;
use hotset_cache::Named;

use crate::daemon::Daemon;
use crate::device::SimDevice;

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(5);

/// Looks for as long as the daemon runs.
pub async fn watch(daemon: Daemon) {
    while !daemon.stopping.get() {
        daemon.env.sleep(INTERVAL).await;
        let Some(pool) = daemon.pool().filter(|_| !daemon.stopping.get()) else { continue };
        for (_, path) in pool.ssds_returning() {
            let found = daemon.world.present_ssds().into_iter().find(|ssd| ssd.disk.name == path);
            // What is still in flight keeps it from being opened.
            let Some(ssd) = found.filter(|ssd| !ssd.disk.is_busy() && !ssd.disk.is_gone()) else { continue };
            let device = SimDevice::open(&ssd.disk);
            let outcome = pool.bring_back(Named { path: path.clone(), device }).await;
            daemon.world.simulation.note(|| format!("{path}: taken back: {outcome:?}"));
        }
    }
}
