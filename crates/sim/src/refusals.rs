//! SSDs of a pool take no writes for a time, one or all of them, and can be read: their file system is full, or they are
//! write-protected. Hosts notice nothing, nothing is lost, and afterwards everything is as it was.

use std::time::Duration;

use hotset_block::{DeviceErrorKind, Env};

use crate::daemon::Daemon;
use crate::disk::Refuses;
use crate::silences;

/// Lets SSDs refuse writes for a time; again and again.
pub async fn strike(daemon: Daemon) {
    silences::again_and_again(&daemon, refuse).await;
}

async fn refuse(daemon: &Daemon) {
    let world = &daemon.world;
    world.thinned.set(true);
    let (error, flushes, lasts_ms, apart_ms, first) = world.simulation.draw(|random| {
        let error = random.pick(&[DeviceErrorKind::Full, DeviceErrorKind::ReadOnly]);
        // With its power such an SSD would lose what hosts were not told of, and answer errors for it.
        let flushes = !world.shape.troubles.crashes && random.one_in(3);
        let lasts_ms = random.pick(&[10, 1_000, 15_000, 120_000]);
        (error, flushes, lasts_ms, random.pick(&[0, 0, 1, 100, 2_000]), random.index(2 * world.ssds.len()))
    });
    // One of them, or all.
    let ssds = world.ssds.get(first..=first).unwrap_or(&world.ssds);
    for ssd in ssds {
        ssd.disk.refuse(Some(Refuses { error, flushes, lands: false }));
        daemon.env.sleep(Duration::from_millis(apart_ms)).await;
    }
    daemon.env.sleep(Duration::from_millis(lasts_ms)).await;
    check_nothing_lost(daemon);
    for ssd in ssds {
        ssd.disk.refuse(None);
        daemon.env.sleep(Duration::from_millis(apart_ms)).await;
    }
}

fn check_nothing_lost(daemon: &Daemon) {
    let volumes = (0..daemon.world.volumes.len()).filter_map(|number| daemon.volume(number));
    let lost: u64 = volumes.map(|volume| volume.status().lost_bytes).sum();
    if lost > 0 {
        daemon.world.violate(format!("SSDs take no writes, and {lost} bytes that can be read are lost"));
    }
}
