//! What goes wrong with the devices: while a daemon runs, and between two daemons.

use std::rc::Rc;
use std::time::Duration;

use hotset_block::{ByteRange, Env};

use crate::daemon::Daemon;
use crate::disk::Faults;
use crate::world::{Attachment, HostVolume, Ssd, World};

/// Breaks things until the daemon stops.
pub async fn work(daemon: Daemon) {
    let longest_ms = daemon.world.simulation.draw(|random| random.pick(&[20, 200, 2_000]));
    while !daemon.stopping.get() {
        let pause = daemon.world.simulation.draw(|random| random.between(1, longest_ms));
        daemon.env.sleep(Duration::from_millis(pause)).await;
        if !daemon.stopping.get() {
            break_something(&daemon.world);
        }
    }
}

fn break_something(world: &World) {
    let troubles = world.shape.troubles;
    let (ssd, volume) =
        world.simulation.draw(|random| (random.index(world.ssds.len()), random.index(world.volumes.len())));
    let (ssd, volume) = (&world.ssds[ssd], &world.volumes[volume]);
    match world.simulation.draw(|random| random.below(12)) {
        0..3 if troubles.ssd_errors => ssd_errors(world, ssd),
        3 if troubles.ssd_hangs => ssd_hangs(world, ssd),
        4 if troubles.ssds_vanish && ssd.present.get() => {
            world.cache_trouble.set(true);
            ssd.disk.vanish();
        }
        5..8 if troubles.rot => rot(world, ssd),
        8 if troubles.backing_errors => backing_errors(world, volume),
        9 if troubles.backing_errors && world.simulation.draw(|random| random.one_in(3)) => {
            volume.cut.set(true);
            volume.disk.vanish();
        }
        _ => {}
    }
}

fn ssd_errors(world: &World, ssd: &Ssd) {
    world.cache_trouble.set(true);
    let faults = world.simulation.draw(|random| Faults {
        read_errors: random.pick(&[0, 20, 300]),
        write_errors: random.pick(&[0, 0, 5, 100]),
        flush_errors: random.pick(&[0, 0, 0, 20]),
        ..Faults::default()
    });
    world.simulation.note(|| format!("{}: {faults:?}", ssd.disk.name));
    ssd.disk.set_faults(faults);
}

fn ssd_hangs(world: &World, ssd: &Ssd) {
    world.cache_trouble.set(true);
    let faults = world.simulation.draw(|random| Faults {
        late: random.pick(&[0, 10, 200]),
        hang: random.pick(&[0, 0, 10, 500]),
        ..Faults::default()
    });
    world.simulation.note(|| format!("{}: {faults:?}", ssd.disk.name));
    ssd.disk.set_faults(faults);
}

fn rot(world: &World, ssd: &Ssd) {
    world.cache_trouble.set(true);
    let whole = ByteRange { start: 0, end: ssd.disk.info.size_bytes };
    let count = world.simulation.draw(|random| random.pick(&[1, 10, 200]));
    ssd.disk.rot(whole, count);
}

fn backing_errors(world: &World, volume: &HostVolume) {
    let faults = world.simulation.draw(|random| Faults {
        read_errors: random.pick(&[0, 20, 200]),
        write_errors: random.pick(&[0, 20, 200]),
        flush_errors: random.pick(&[0, 100, 500]),
        late: random.pick(&[0, 0, 10]),
        hang: 0,
    });
    volume.may_hang.set(volume.may_hang.get() || faults.late > 0);
    world.simulation.note(|| format!("{}: {faults:?}", volume.disk.name));
    volume.disk.set_faults(faults);
}

/// Between two daemons: SSDs go and come, the state directory is lost, backing devices are used by others. `clean` says
/// that the last daemon stopped cleanly, `powered` that the machine has run since.
pub fn between_lives(world: &Rc<World>, clean: bool) {
    for ssd in &world.ssds {
        move_ssd(world, ssd);
    }
    let all_present = world.ssds.iter().all(|ssd| ssd.present.get() && !ssd.missed.get());
    if all_present && world.simulation.draw(|random| random.one_in(20)) {
        world.cache_trouble.set(true);
        world.lose_state();
    }
    for volume in &world.volumes {
        if world.shape.troubles.changes_behind_our_back {
            use_backing_elsewhere(world, volume, clean);
        }
    }
}

fn move_ssd(world: &World, ssd: &Ssd) {
    let troubles = world.shape.troubles;
    if ssd.disk.is_gone() {
        // It fell out: perhaps it is plugged in again before the next start.
        ssd.present.set(world.simulation.draw(|random| random.one_in(3)));
        world.simulation.note(|| format!("{}: plugged in: {}", ssd.disk.name, ssd.present.get()));
    } else if !ssd.present.get() {
        if world.simulation.draw(|random| random.one_in(2)) {
            come_back(world, ssd);
        }
    } else if troubles.ssds_vanish && world.simulation.draw(|random| random.one_in(8)) {
        world.simulation.note(|| format!("{}: pulled out", ssd.disk.name));
        ssd.present.set(false);
    } else if troubles.ssds_vanish && !ssd.missed.get() && world.simulation.draw(|random| random.one_in(3)) {
        *ssd.snapshot.borrow_mut() = Some(ssd.disk.content());
    }
    if !ssd.present.get() {
        world.cache_trouble.set(true);
    }
    if troubles.rot && world.simulation.draw(|random| random.one_in(10)) {
        rot(world, ssd);
    }
}

/// An SSD is plugged in again. If the pool was opened without it, it may even be an older copy of it.
fn come_back(world: &World, ssd: &Ssd) {
    ssd.present.set(true);
    world.cache_trouble.set(true);
    let snapshot = ssd.snapshot.take().filter(|_| ssd.missed.get());
    let is_old = snapshot.is_some();
    if let Some(snapshot) = snapshot.filter(|_| world.simulation.draw(|random| random.one_in(2))) {
        ssd.disk.replace_content(snapshot);
    }
    world.simulation.note(|| format!("{}: plugged in again, there is an old copy: {is_old}", ssd.disk.name));
}

fn use_backing_elsewhere(world: &World, volume: &HostVolume, clean: bool) {
    let detached = volume.attachment.get() == Attachment::Detached;
    let noticeable = clean && volume.shape.reports_changes;
    let choice = world.simulation.draw(|random| random.below(12));
    if choice == 0 {
        world.simulation.note(|| format!("{}: replaced by another device", volume.disk.name));
        let name = format!("other-{}", world.simulation.unique());
        volume.disk.set_id(&name);
        write_elsewhere(volume, ByteRange { start: 0, end: volume.size_bytes() });
    } else if choice < 5 && (detached || noticeable) {
        let unit = u64::from(volume.disk.info.logical_block_bytes);
        for _ in 0..world.simulation.draw(|random| random.between(1, 20)) {
            let start = world.simulation.draw(|random| random.below(volume.size_bytes() / unit)) * unit;
            let length = world.simulation.draw(|random| random.between(1, 32)) * 4096;
            write_elsewhere(volume, ByteRange { start, end: (start + length).min(volume.size_bytes()) });
        }
        world.simulation.note(|| format!("{}: written to by somebody else", volume.disk.name));
    }
}

fn write_elsewhere(volume: &HostVolume, range: ByteRange) {
    let mut model = volume.model.borrow_mut();
    let number = model.overwritten(range);
    let mut bytes = volume.disk.content().bytes(range);
    model.fill(number, range, &mut bytes);
    volume.disk.overwrite(range.start, &bytes);
    if volume.attachment.get() != Attachment::Detached {
        volume.changed.set(true);
    }
}
