//! What is said of files and devices that are in use and not at their paths any more.

use std::collections::BTreeSet;

use hotset_api::{Health, Pool, Volume, VolumeState};

use super::conditions::joined;

const WHAT: &str = "is not at its path any more: it was removed, renamed or replaced there";

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
