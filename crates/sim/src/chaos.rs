//! What goes wrong with the devices while a daemon runs.

use std::time::Duration;

use hotset_block::{ByteRange, Env};
use hotset_cache::{Health, PoolStatus};

use crate::daemon::Daemon;
use crate::disk::{Faults, LATE_IN_TIME_MS, TOO_LATE_MS, WhatIsLate};
use crate::shape::Profile;
use crate::world::{HostVolume, Ssd, World};

/// Breaks things until the daemon stops.
pub async fn work(daemon: Daemon) {
    let profile = daemon.world.shape.profile;
    let soon = [Profile::AlternateMissing, Profile::Scrubs, Profile::FailingSsd].contains(&profile);
    let choices = if soon { [200, 500, 2_000] } else { [200, 2_000, 10_000] };
    if profile == Profile::FailingSsd && daemon.world.simulation.draw(|random| random.one_in(2)) {
        // Today it works, and has time to become warm.
        return;
    }
    let longest_ms = daemon.world.simulation.draw(|random| random.pick(&choices));
    while !daemon.stopping.get() {
        let pause = daemon.world.simulation.draw(|random| random.between(1, longest_ms));
        daemon.env.sleep(Duration::from_millis(pause)).await;
        // A second fault would take what the first one left.
        let fragile = daemon.world.shape.profile == Profile::AlternateMissing
            && daemon.pool().is_none_or(|pool| is_fragile(&pool.status()));
        if !daemon.stopping.get() && !fragile {
            break_something(&daemon.world);
        }
    }
}

/// Not everything has two copies.
pub fn is_fragile(pool: &PoolStatus) -> bool {
    pool.rebuild.is_some() || pool.health == Health::Failed || pool.ssds.iter().filter(|ssd| ssd.online).count() < 2
}

fn break_something(world: &World) {
    if world.shape.profile == Profile::HungBacking && !world.volumes[0].may_hang.get() {
        let host = &world.volumes[0];
        host.may_hang.set(true);
        host.disk.set_faults(Faults { hang: 1000, ..Faults::default() });
        world.simulation.note(|| format!("{}: hangs", host.disk.name));
        return;
    }
    if world.shape.profile == Profile::FailedFlush {
        let host = &world.volumes[0];
        let flush_errors = world.simulation.draw(|random| random.pick(&[0, 100, 500]));
        host.disk.set_faults(Faults { flush_errors, ..Faults::default() });
        world.simulation.note(|| format!("{}: {flush_errors} flushes of 1000 fail", host.disk.name));
        return;
    }
    if world.shape.profile == Profile::Scrubs {
        if !world.rot_has_ended.get() && world.may_damage(world.weak_ssd()) {
            rot(world, world.weak_ssd());
        }
        return;
    }
    let troubles = world.shape.troubles;
    let (ssd, volume) =
        world.simulation.draw(|random| (random.index(world.ssds.len()), random.index(world.volumes.len())));
    let (ssd, volume) = (&world.ssds[ssd], &world.volumes[volume]);
    let ssd = if world.may_suffer(ssd) { ssd } else { world.weak_ssd() };
    let damages = world.may_damage(ssd);
    let only_errors = [Profile::AlternateMissing, Profile::FailingSsd].contains(&world.shape.profile);
    let choices = if only_errors { 3 } else { 12 };
    match world.simulation.draw(|random| random.below(choices)) {
        0..3 if troubles.ssd_errors && damages => ssd_errors(world, ssd),
        3 if troubles.ssd_hangs && damages => ssd_hangs(world, ssd),
        4 if troubles.ssds_vanish && damages && ssd.present.get() && !ssd.disk.is_gone() => {
            world.trouble_ssds();
            ssd.disk.vanish();
        }
        5..8 if troubles.rot && damages => rot(world, ssd),
        8 if troubles.backing_errors => backing_errors(world, volume),
        9 if troubles.backing_errors && !volume.disk.is_gone() && world.simulation.draw(|random| random.one_in(3)) => {
            volume.cut.set(true);
            volume.disk.vanish();
        }
        _ => {}
    }
}

pub fn ssd_errors(world: &World, ssd: &Ssd) {
    world.trouble_ssds();
    let alternate = world.shape.profile == Profile::AlternateMissing;
    let only_writes = alternate || world.shape.profile == Profile::FailingSsd;
    if alternate && world.ssds.iter().any(|ssd| !ssd.present.get()) {
        return;
    }
    let faults = world.simulation.draw(|random| Faults {
        read_errors: if only_writes { 0 } else { random.pick(&[0, 20, 300]) },
        write_errors: if only_writes { 100 } else { random.pick(&[0, 0, 5, 100]) },
        flush_errors: random.pick(&[0, 0, 0, 20]),
        ..Faults::default()
    });
    world.simulation.note(|| format!("{}: {faults:?}", ssd.disk.name));
    ssd.disk.set_faults(faults);
}

pub fn ssd_hangs(world: &World, ssd: &Ssd) {
    world.trouble_ssds();
    let faults = world.simulation.draw(|random| Faults {
        late: random.pick(&[0, 10, 50, 200]),
        late_ms: TOO_LATE_MS,
        hang: random.pick(&[0, 0, 0, 10, 500]),
        ..Faults::default()
    });
    world.simulation.note(|| format!("{}: {faults:?}", ssd.disk.name));
    ssd.disk.set_faults(faults);
}

/// It is slow now and then, and never so slow that it may be taken for dead: whatever it is told, it does.
pub fn ssd_is_late(world: &World, ssd: &Ssd) {
    let (late, what) = if world.shape.profile == Profile::LateLog {
        (300, WhatIsLate::Journal)
    } else {
        (world.simulation.draw(|random| random.pick(&[10, 50, 200])), WhatIsLate::AllButReads)
    };
    ssd.disk.set_faults(Faults { late, late_ms: LATE_IN_TIME_MS, what_is_late: what, ..Faults::default() });
    world.simulation.note(|| format!("{}: {late} operations of 1000 are late: {what:?}", ssd.disk.name));
}

pub fn rot(world: &World, ssd: &Ssd) {
    world.trouble_ssds();
    let whole = ByteRange { start: 0, end: ssd.disk.info().size_bytes };
    let count = world.simulation.draw(|random| random.pick(&[1, 10, 200]));
    ssd.disk.rot(whole, count);
}

fn backing_errors(world: &World, volume: &HostVolume) {
    let faults = world.simulation.draw(|random| Faults {
        read_errors: random.pick(&[0, 20, 200]),
        write_errors: random.pick(&[0, 20, 200]),
        flush_errors: random.pick(&[0, 100, 500]),
        late: random.pick(&[0, 0, 10]),
        late_ms: TOO_LATE_MS,
        hang: 0,
        what_is_late: WhatIsLate::Anything,
    });
    // What cannot be cleaned fills the log: hosts wait for it as long as for a device that hangs.
    volume.may_hang.set(volume.may_hang.get() || faults.late > 0 || world.writes_back());
    world.simulation.note(|| format!("{}: {faults:?}", volume.disk.name));
    volume.disk.set_faults(faults);
}
