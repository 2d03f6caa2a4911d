//! Two SSDs of a pool vanish, one soon after the other, while they have dirty data that nobody else has (REQUIREMENTS F5).
//! From then on exactly what is unavailable may answer errors, until an SSD that has it is back, hosts write it again or an
//! administrator accepts the loss; nothing may be older than it was.

use std::time::Duration;

use hotset_block::{ByteRange, Env};
use hotset_cache::{Error, ErrorKind, Named};

use crate::administrator;
use crate::daemon::Daemon;
use crate::device::SimDevice;
use crate::host::Host;
use crate::world::{Ssd, World};

/// Extents of a volume that are looked at: more than there can be.
const EXTENTS_MAX: usize = 1 << 16;
/// Longer than a pool takes to notice that SSDs are gone, and to put on record what went with them.
const QUIET_FOR: Duration = Duration::from_secs(1);
/// Where requests meet in a block: its first pages.
const HOT_BYTES: u64 = 3 * 4096;
/// A page that is read so often is in memory.
const ADMITTED_AT: usize = 2;

/// What is lost of a volume, as the pool says.
#[derive(Default)]
pub struct Lost {
    /// The SSDs that vanished have left the pool: it knows all that went with them.
    quiet: bool,
    extents: Vec<ByteRange>,
}

impl Lost {
    /// Of the volume with this number, at this moment.
    pub fn of(daemon: &Daemon, number: usize) -> Self {
        let Some(pool) = daemon.pool().filter(|_| daemon.world.two_lost.get().is_some()) else {
            return Self::default();
        };
        let name = daemon.world.volumes[number].name();
        let extents = pool.lost_extents(EXTENTS_MAX).into_iter().find(|(volume, _)| *volume == name);
        Self { quiet: is_quiet(daemon), extents: extents.map(|(_, extents)| extents).unwrap_or_default() }
    }

    fn touches(&self, range: ByteRange) -> bool {
        let page = range.widened_to(4096);
        self.extents.iter().any(|extent| extent.start < page.end && page.start < extent.end)
    }
}

/// The SSDs that vanished have left, and there was time to put that on record.
fn is_quiet(daemon: &Daemon) -> bool {
    if daemon.world.two_lost.get().is_none_or(|since| daemon.env.now().since(since) < QUIET_FOR) {
        return false;
    }
    let gone = |path: &str| daemon.world.ssds.iter().any(|ssd| ssd.disk.name == path && ssd.disk.is_gone());
    daemon.pool().is_some_and(|pool| pool.status().ssds.iter().all(|ssd| !ssd.online || !gone(&ssd.path)))
}

/// Whether a host that asked for something in `range` may be told so. `before`: what was lost when it asked.
pub fn excuses(daemon: &Daemon, number: usize, before: &Lost, range: ByteRange, error: &Error) -> bool {
    let lost = before.touches(range) || Lost::of(daemon, number).touches(range);
    daemon.world.two_lost.get().is_some()
        && matches!(error.kind, ErrorKind::Media | ErrorKind::Gone)
        && (lost || !before.quiet)
}

/// Waits for its moment, then lets two SSDs vanish.
pub async fn strike(daemon: Daemon) {
    let world = &daemon.world;
    let (wait_ms, apart_us) = world
        .simulation
        .draw(|random| (random.pick(&[20, 200, 2_000, 10_000]), random.pick(&[0, 0, 100, 2_000, 30_000, 500_000])));
    let wait_ms = world.simulation.draw(|random| random.between(1, wait_ms));
    daemon.env.sleep(Duration::from_millis(wait_ms)).await;
    // A state directory that is lost cannot vouch for what is left.
    if daemon.stopping.get() || world.two_lost.get().is_some() || world.state_is_blank.get() {
        return;
    }
    if world.simulation.draw(|random| !random.one_in(3)) {
        read_hot_pages(&daemon).await;
    }
    if daemon.stopping.get() {
        return;
    }
    let first = world.simulation.draw(|random| random.index(world.ssds.len()));
    let second = (first + 1 + world.simulation.draw(|random| random.index(world.ssds.len() - 1))) % world.ssds.len();
    world.two_lost.set(Some(daemon.env.now()));
    world.trouble_ssds();
    world.ssds[first].disk.vanish();
    let apart_us = world.simulation.draw(|random| random.below(apart_us + 1));
    daemon.env.sleep(Duration::from_micros(apart_us)).await;
    world.ssds[second].disk.vanish();
    if world.simulation.draw(|random| random.one_in(2)) {
        bring_back(&daemon).await;
    }
}

/// What hosts write most is in memory, too, as far as there is room.
async fn read_hot_pages(daemon: &Daemon) {
    let block = daemon.world.shape.settings.block_bytes.get();
    for (number, volume) in daemon.world.volumes.iter().enumerate() {
        let Some(host) = Host::of(daemon, number) else { continue };
        let hot = volume.hot.borrow().clone();
        for range in hot.into_iter().map(|number| ByteRange::at(number * block, HOT_BYTES)) {
            for _ in 0..ADMITTED_AT {
                host.look(ByteRange { end: range.end.min(volume.size_bytes()), ..range }).await;
            }
        }
    }
}

/// What was accepted is one thing, in memory and below.
async fn look_at_accepted(daemon: &Daemon, accepted: &[(usize, ByteRange)]) {
    for is_in_memory in [true, false] {
        if !is_in_memory {
            daemon.memory.allow(&daemon.env, 0).await;
        }
        for (number, range) in accepted {
            if let Some(host) = Host::of(daemon, *number) {
                host.look(ByteRange { end: range.end.min(range.start + HOT_BYTES), ..*range }).await;
            }
        }
    }
    daemon.memory.allow(&daemon.env, u64::MAX).await;
}

/// SSDs that vanished are there again while the daemon runs, one after the other, or only one of them.
async fn bring_back(daemon: &Daemon) {
    let world = &daemon.world;
    let wait_ms = world.simulation.draw(|random| random.pick(&[1_100, 5_000, 60_000]));
    daemon.env.sleep(Duration::from_millis(wait_ms)).await;
    let mut gone: Vec<&Ssd> = world.ssds.iter().filter(|ssd| ssd.disk.is_gone()).collect();
    if world.simulation.draw(|random| random.one_in(3)) {
        gone.pop();
    }
    for ssd in gone {
        let Some(pool) = daemon.pool().filter(|_| !daemon.stopping.get()) else { return };
        // Whoever looks for it finds it once it has left.
        let awaited = pool.ssds_returning().iter().any(|(_, path)| *path == ssd.disk.name);
        if !awaited || ssd.disk.is_busy() {
            continue;
        }
        ssd.disk.come_back();
        let named = Named { path: ssd.disk.name.clone(), device: SimDevice::open(&ssd.disk) };
        let outcome = pool.bring_back(named).await;
        world.simulation.note(|| format!("{}: brought back: {outcome:?}", ssd.disk.name));
        if let Err(error) = outcome {
            daemon.expect_cache_trouble("bringing an SSD back", &error);
        }
        let pause_ms = world.simulation.draw(|random| random.pick(&[0, 10, 3_000]));
        daemon.env.sleep(Duration::from_millis(pause_ms)).await;
    }
}

/// SSDs that vanished are found again, or not. Of what the pool could go on without, what is on its list is believed then, and
/// nothing else.
pub fn find_some(world: &World) {
    for ssd in world.ssds.iter().filter(|ssd| ssd.disk.is_gone() || !ssd.present.get()) {
        ssd.present.set(world.simulation.draw(|random| random.one_in(3)));
        world.simulation.note(|| format!("{}: plugged in: {}", ssd.disk.name, ssd.present.get()));
        world.trouble_ssds();
    }
}

/// An administrator accepts what is lost, or does something else.
pub async fn one_command(daemon: &Daemon) {
    if is_quiet(daemon) && daemon.world.simulation.draw(|random| random.one_in(3)) {
        if let Err(error) = accept(daemon).await {
            daemon.expect_cache_trouble("accepting a loss", &error);
        }
        return;
    }
    administrator::change_volume(daemon, 0).await;
}

/// Accepts what is lost: of that, hosts may see what the backing devices have.
pub async fn accept(daemon: &Daemon) -> Result<(), Error> {
    let Some(pool) = daemon.pool() else { return Ok(()) };
    // What came back and is something else is lost, too, and accepted with the rest.
    pool.check_returned().await;
    let mut begun = Vec::new();
    for (number, host) in daemon.world.volumes.iter().enumerate() {
        let content = host.disk.content();
        for extent in Lost::of(daemon, number).extents {
            let extent = ByteRange { end: extent.end.min(host.size_bytes()), ..extent };
            begun.push((number, extent, host.model.borrow_mut().begin_acceptance(extent, &content)));
        }
    }
    daemon.world.simulation.note(|| format!("accept the loss of {} extents", begun.len()));
    let outcome = pool.accept_loss().await;
    daemon.world.simulation.note(|| format!("accepted: {outcome:?}"));
    let mut accepted = Vec::new();
    for (number, extent, write) in begun {
        daemon.world.volumes[number].model.borrow_mut().end_write(write, crate::model::Answered::Unknown);
        accepted.push((number, extent));
    }
    outcome?;
    look_at_accepted(daemon, &accepted).await;
    Ok(())
}
