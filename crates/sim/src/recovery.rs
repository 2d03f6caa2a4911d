//! `hotset recover` between two daemons: what it writes to the backing devices of a pool that is dead is what hosts may see.
//! It writes to copies of them, and the next daemon finds everything as it was.

use std::cell::Cell;
use std::rc::Rc;

use hotset_cache::Named;
use hotset_cache::offline::{Given, Offline};

use crate::device::SimDevice;
use crate::disk::{Disk, Speed};
use crate::executor::{SimEnv, Step};
use crate::world::{Attachment, HostVolume, PoolKnown, World};

/// Far more than reading a pool takes.
const STEPS_MAX: u64 = 1_000_000;

/// Reads the pool's dirty data out, if nothing was ever wrong with its SSDs: all of it is there.
pub fn check(world: &Rc<World>) {
    // One that the end of the daemon found silent stays so until the next start.
    let answers = |ssd: &Disk| !ssd.is_gone() && !ssd.is_silent();
    let whole = world.ssds.iter().all(|ssd| ssd.present.get() && answers(&ssd.disk));
    let trouble = world.ssds_suffered.get() || world.state_is_blank.get() || world.blind.get();
    if !world.writes_back() || world.pool.get() != PoolKnown::Yes || !whole || trouble {
        return;
    }
    world.set_phase("recovering without a daemon");
    let ended = Rc::new(Cell::new(false));
    let at_end = Rc::clone(&ended);
    let recovered = Rc::clone(world);
    world.simulation.spawn(async move {
        recover(&recovered).await;
        at_end.set(true);
    });
    let mut steps = 0;
    while !ended.get() && steps < STEPS_MAX && world.simulation.step() != Step::Idle {
        steps += 1;
    }
    world.simulation.drop_tasks();
    if !ended.get() {
        world.violate("a recovery without a daemon does not end".to_owned());
    }
}

async fn recover(world: &World) {
    let ssds = world.ssds.iter().filter(|ssd| world.carries_pool(ssd)).map(|ssd| &ssd.disk);
    let ssds = ssds.map(|disk| Named { path: disk.name.clone(), device: SimDevice::open(disk) }).collect();
    let state = Some(SimDevice::open(&world.state.borrow()));
    let env = SimEnv { simulation: Rc::clone(&world.simulation) };
    let offline = match Offline::open(env, Given { ssds, unopened: Vec::new(), state }).await {
        Ok(offline) => offline,
        Err(error) => return world.violate(format!("the pool cannot be read without a daemon: {error}")),
    };
    for host in world.volumes.iter().filter(|host| is_as_attached(host)) {
        let copy = copy_of(world, &host.disk);
        let applied = offline.apply(&host.name(), SimDevice::open(&copy), false, |_| {}).await;
        world.simulation.note(|| format!("{} recovered: {applied:?}", host.name()));
        let outcome = match applied {
            Ok(applied) if applied.lost_bytes > 0 => Err(format!("{applied:?}")),
            Ok(_) => host.model.borrow_mut().may_hold_all(&copy.content()),
            Err(error) => Err(error.to_string()),
        };
        world.report(outcome.map_err(|what| format!("{} recovered without a daemon: {what}", host.name())));
    }
}

/// The pool certainly has it, by this name, and its backing device is the one that it had.
fn is_as_attached(host: &HostVolume) -> bool {
    host.attachment.get() == Attachment::Attached
        && host.names_asked.borrow().is_empty()
        && host.right_one.borrow().is_none()
        && !host.changed.get()
}

fn copy_of(world: &World, disk: &Disk) -> Rc<Disk> {
    let speed = Speed { least_us: 1, most_us: 10, flush_slowness: 1 };
    let copy = Disk::new(&world.simulation, &disk.name, disk.info(), speed);
    copy.set_boot(world.boot.get());
    copy.put_back(disk.save());
    copy
}
