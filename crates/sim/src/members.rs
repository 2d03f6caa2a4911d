//! An administrator who adds SSDs to the pool, removes them, and keeps spares, while hosts are served.

use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;
use hotset_cache::{ErrorKind, Named, PoolStatus, Removed};

use crate::daemon::Daemon;
use crate::device::SimDevice;
use crate::world::Ssd;

/// One command, if there is something that it could be about.
pub async fn one_command(daemon: &Daemon) {
    match daemon.world.simulation.draw(|random| random.below(10)) {
        0..4 => add(daemon, Kind::Ssd).await,
        4..7 => remove(daemon).await,
        7 | 8 => add(daemon, Kind::Spare).await,
        _ => remove_spare(daemon).await,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ssd,
    Spare,
}

/// Disks that the pool does not use. One with operations in flight is locked: the daemon that has it open still holds it.
fn unused<'a>(daemon: &'a Daemon, status: &'a PoolStatus) -> impl Iterator<Item = &'a Ssd> {
    let used = |ssd: &Ssd| {
        status.ssds.iter().any(|member| member.online && member.path == ssd.disk.name)
            || status.spares.iter().any(|spare| spare.path == ssd.disk.name)
    };
    daemon
        .world
        .present_ssds()
        .filter(move |ssd| !used(ssd) && !ssd.taken.get() && !ssd.disk.is_gone() && !ssd.disk.is_busy())
}

async fn add(daemon: &Daemon, kind: Kind) {
    let Some(pool) = daemon.pool() else { return };
    let status = pool.status();
    let most = daemon.world.simulation.draw(|random| random.pick(&[1, 1, 2]));
    let ssds: Vec<_> = unused(daemon, &status).take(most).collect();
    if ssds.is_empty() {
        return;
    }
    ssds.iter().for_each(|ssd| ssd.taken.set(true));
    let disks: Vec<_> = ssds.iter().map(|ssd| Rc::clone(&ssd.disk)).collect();
    let names: Vec<_> = disks.iter().map(|disk| disk.name.clone()).collect();
    let named = disks.iter().map(|disk| Named { path: disk.name.clone(), device: SimDevice::open(disk) }).collect();
    daemon.world.simulation.note(|| format!("add {kind:?} {names:?}"));
    let added = match kind {
        Kind::Ssd => pool.add_ssds(named).await,
        Kind::Spare => pool.add_spares(named).await,
    };
    ssds.iter().for_each(|ssd| ssd.taken.set(false));
    daemon.world.simulation.note(|| format!("added {names:?}: {added:?}"));
    match added {
        Ok(_) => {}
        // It may have the only other copy of something.
        Err(error) if error.kind == ErrorKind::Refused => {}
        Err(error) => daemon.expect_cache_trouble("adding SSDs", &error),
    }
}

async fn remove(daemon: &Daemon) {
    let Some(pool) = daemon.pool() else { return };
    let status = pool.status();
    let number = daemon.world.simulation.draw(|random| random.index(status.ssds.len().max(1)));
    let count = daemon.world.simulation.draw(|random| random.pick(&[1, 1, 2]));
    let ssds: Vec<_> = status.ssds.iter().cycle().skip(number).take(count.min(status.ssds.len())).collect();
    if ssds.is_empty() || (daemon.world.state_is_failing.get() && status.ssds.len() < ssds.len() + 2) {
        return;
    }
    let limit_ms = daemon.world.simulation.draw(|random| random.pick(&[1, 50, 60_000, 60_000]));
    let (env, canceller) = (daemon.env.clone(), pool.clone());
    let removing = Rc::new(std::cell::Cell::new(true));
    let still = Rc::clone(&removing);
    daemon.env.spawn(async move {
        env.sleep(Duration::from_millis(limit_ms)).await;
        if still.get() {
            canceller.cancel_removal();
        }
    });
    let (paths, uuids): (Vec<_>, Vec<_>) = ssds.iter().map(|ssd| (ssd.path.as_str(), ssd.uuid)).unzip();
    daemon.world.simulation.note(|| format!("remove {paths:?} within {limit_ms} ms"));
    let removed = pool.remove_ssds(&uuids).await;
    removing.set(false);
    daemon.world.simulation.note(|| format!("removed {paths:?}: {removed:?}"));
    match removed {
        Ok(Removed::Done) => ssds.iter().for_each(|ssd| check_released(daemon, &ssd.path, ssd.online)),
        Ok(Removed::Cancelled) => {}
        Err(error) if error.kind == ErrorKind::Refused => {}
        Err(error) => daemon.expect_cache_trouble("removing SSDs", &error),
    }
}

/// What was removed while it was sound is nobody's, and nothing of it is in flight.
fn check_released(daemon: &Daemon, path: &str, sound: bool) {
    let Some(ssd) = daemon.world.ssds.iter().find(|ssd| ssd.disk.name == path) else { return };
    if sound && !daemon.world.cache_trouble.get() && ssd.disk.is_busy() {
        daemon.world.violate(format!("an SSD was released with operations in flight: {}", ssd.disk.in_flight()));
    }
}

async fn remove_spare(daemon: &Daemon) {
    let Some(pool) = daemon.pool() else { return };
    let Some(spare) = pool.status().spares.first().cloned() else { return };
    daemon.world.simulation.note(|| format!("remove spare {}", spare.path));
    if let Err(error) = pool.remove_spares(&[spare.uuid]).await
        // Another administrator was faster, or the pool has spares and nothing else.
        && !matches!(error.kind, ErrorKind::NotFound | ErrorKind::Refused)
    {
        daemon.expect_cache_trouble("removing a spare", &error);
    }
}
