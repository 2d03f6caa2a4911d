//! All SSDs of a pool stop answering at about the same time, and answer again: their controller was reset, their path failed
//! over, the file system under them was frozen. Hosts wait, some longer than they would; nothing is lost, nothing leaves, and
//! afterwards everything is as it was.

use std::time::Duration;

use hotset_block::Env;
use hotset_cache::Health;

use crate::daemon::Daemon;

/// Longer than a pool takes to notice that its SSDs answer again, or take writes, and to have two copies of everything again.
const QUIET_FOR: Duration = Duration::from_secs(30);

/// Silences all SSDs for a time; again and again.
pub async fn strike(daemon: Daemon) {
    again_and_again(&daemon, silence_all).await;
}

/// Waits for its moment, then lets SSDs be away for a time; again and again. Afterwards everything is as it was.
pub async fn again_and_again(daemon: &Daemon, away: impl AsyncFn(&Daemon)) {
    let world = &daemon.world;
    while !daemon.stopping.get() {
        let wait_ms = world.simulation.draw(|random| random.pick(&[50, 500, 3_000, 15_000]));
        let wait_ms = world.simulation.draw(|random| random.between(1, wait_ms));
        daemon.env.sleep(Duration::from_millis(wait_ms)).await;
        if daemon.stopping.get() || daemon.pool().is_none() {
            return;
        }
        away(daemon).await;
        check(daemon).await;
    }
}

async fn silence_all(daemon: &Daemon) {
    let world = &daemon.world;
    let lasts_ms = world.simulation.draw(|random| random.pick(&[5_000, 11_000, 15_000, 31_000, 120_000]));
    let apart_ms = world.simulation.draw(|random| random.pick(&[0, 0, 1, 100, 2_000]));
    world.silent_for.set(world.silent_for.get() + Duration::from_millis(lasts_ms + apart_ms));
    world.thinned.set(true);
    world.simulation.note(|| format!("all SSDs are silent for {lasts_ms} ms"));
    for ssd in &world.ssds {
        ssd.disk.fall_silent();
        daemon.env.sleep(Duration::from_millis(apart_ms)).await;
    }
    daemon.env.sleep(Duration::from_millis(lasts_ms)).await;
    for ssd in &world.ssds {
        ssd.disk.answer_again();
        daemon.env.sleep(Duration::from_millis(apart_ms)).await;
    }
}

async fn check(daemon: &Daemon) {
    daemon.env.sleep(QUIET_FOR).await;
    let Some(pool) = daemon.pool().filter(|_| !daemon.stopping.get()) else { return };
    let status = pool.status();
    let lost = daemon.world.volumes.iter().enumerate().filter_map(|(number, _)| daemon.volume(number));
    let lost: u64 = lost.map(|volume| volume.status().lost_bytes).sum();
    if lost > 0 || status.ssds.iter().any(|ssd| !ssd.online) || status.health != Health::Good {
        daemon
            .world
            .violate(format!("SSDs were away for a time, and are not what they were: {lost} bytes lost, {status:?}"));
    }
}
