//! After the faults: everything answers, caches work, and what is warm stays warm.

use std::rc::Rc;
use std::time::Duration;

use hotset_block::{ByteRange, Env};
use hotset_cache::{Durability, Pool};

use crate::administrator;
use crate::daemon::Daemon;
use crate::executor::SimEnv;
use crate::host::Host;
use crate::scenario::{Death, run_until};
use crate::second_loss;
use crate::shape::Profile;
use crate::world::World;

/// Long enough for every fill to end and every slot to be published.
const QUIET_FOR: Duration = Duration::from_secs(30);

const PAGE: u64 = 4096;
/// Pages of which memory, slots and model are compared, and among how many of a volume's first pages they are.
const PAGES_COMPARED: usize = 16;
const PAGES_HOT: u64 = 64;

/// How a healthy daemon of this phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    Kill,
}

/// Lets three healthy daemons live one after the other.
pub fn check(world: &Rc<World>, steps: &mut u64) {
    world.calm.set(true);
    if [Profile::AlternateMissing, Profile::SecondLoss].contains(&world.shape.profile) {
        world.ssds.iter().for_each(|ssd| ssd.present.set(true));
    }
    world.volumes.iter().for_each(|volume| volume.put_right());
    // Valid bytes that the last daemon had, and how many percent of them the next one must find.
    let mut expected = (0, 0);
    for (end, kept_percent) in [(End::Stop, 95), (End::Kill, 90), (End::Stop, 95)] {
        if world.simulation.trace.violation().is_some() {
            return;
        }
        world.begin_life();
        world.ssds.iter().filter(|ssd| ssd.present.get()).for_each(|ssd| ssd.disk.come_back());
        let daemon = Daemon::new(world);
        let used = Rc::new(std::cell::Cell::new(0));
        world.simulation.spawn(healthy(daemon.clone(), end, expected, Rc::clone(&used)));
        run_until_done(world, &daemon, steps);
        expected = (used.get(), kept_percent);
        daemon.vanish();
        world.end_life(false, || false);
        world.simulation.skip(Duration::from_secs(1));
    }
}

fn run_until_done(world: &Rc<World>, daemon: &Daemon, steps: &mut u64) {
    if !run_until(world, daemon, Death::Never, steps) && world.simulation.trace.violation().is_none() {
        world.violate("a healthy daemon did not stop".to_owned());
    }
}

async fn healthy(daemon: Daemon, end: End, expected: (u64, u64), used: Rc<std::cell::Cell<u64>>) {
    daemon.start().await;
    daemon.world.set_phase("healthy");
    expect(&daemon, "accepting what was lost", second_loss::accept(&daemon).await);
    if let Some(pool) = daemon.pool() {
        check_warmth(&daemon, &pool, expected);
    }
    for number in 0..daemon.world.volumes.len() {
        daemon.attach(number).await;
        exercise(&daemon, number, expected == (0, 0)).await;
    }
    daemon.env.sleep(QUIET_FOR).await;
    administrator::check_status(&daemon);
    check_misses(&daemon);
    if let Some(pool) = daemon.pool() {
        used.set(pool.status().used_bytes);
    }
    match end {
        End::Stop => daemon.stop().await,
        End::Kill => daemon.finished.set(true),
    }
}

fn check_warmth(daemon: &Daemon, pool: &Pool<SimEnv>, (bytes, percent): (u64, u64)) {
    let found = pool.status().used_bytes;
    // Slots make way for the write log.
    if found * 100 < bytes * percent && !daemon.world.writes_back() && !daemon.world.journal_damaged.get() {
        daemon.world.violate(format!("of {bytes} cached bytes {found} are left, {percent} % must be"));
    }
}

/// Reads a volume, all of it if nothing is expected of the cache yet, writes, flushes, and expects cached blocks to be hit.
async fn exercise(daemon: &Daemon, number: usize, thoroughly: bool) {
    let Some(host) = Host::of(daemon, number) else {
        return daemon.world.violate(format!("volume {number} is not served though nothing is wrong"));
    };
    let size = host.volume.size_bytes();
    for start in (0..size).step_by(256 << 10) {
        if !thoroughly && daemon.world.simulation.draw(|random| !random.one_in(8)) {
            continue;
        }
        let range = ByteRange { start, end: (start + (256 << 10)).min(size) };
        expect(daemon, "a read", host.read(range).await);
    }
    let unit = u64::from(host.volume.settings().logical_block_bytes);
    let written = ByteRange::at(daemon.world.simulation.draw(|random| random.below(size / unit)) * unit, unit);
    expect(daemon, "a write", host.write(written, Durability::Volatile).await);
    expect(daemon, "a flush", host.flush().await);
    check_drain(daemon, &host).await;
    check_hits(daemon, &host).await;
}

/// When no request is under way, each read has hit, or has one reason why it did not.
fn check_misses(daemon: &Daemon) {
    for volume in (0..daemon.world.volumes.len()).filter_map(|number| daemon.volume(number)) {
        let stats = volume.status().stats;
        if stats.reads != stats.read_hits + stats.missed() {
            let name = volume.name();
            daemon.world.violate(format!("{name}: the reasons of its misses do not add up to them: {stats:?}"));
        }
    }
}

/// All dirty data goes to the backing device when that is asked for, and the cache works on.
async fn check_drain(daemon: &Daemon, host: &Host) {
    let Some(pool) = daemon.pool().filter(|_| daemon.world.writes_back()) else { return };
    let name = host.volume.name();
    if !pool.status().volumes.contains(&name) {
        return;
    }
    expect(daemon, "a drain", pool.drain(&name).await);
    let dirty = host.volume.status().dirty_bytes;
    if dirty > 0 {
        daemon.world.violate(format!("{dirty} bytes of {name} are dirty after a drain"));
    }
    let outcome = daemon.world.volumes[host.number].check_backing();
    daemon.world.report(outcome.map_err(|what| format!("after a drain: {what}")));
    pool.cancel_drain(&name);
}

async fn check_hits(daemon: &Daemon, host: &Host) {
    // Too short for a stream.
    let range = ByteRange { start: 0, end: (64 << 10).min(host.volume.size_bytes()) };
    let fills = |status: hotset_cache::PoolStatus| {
        status.slots > 0 && status.write_log.is_none_or(|log| !log.write_caching_off)
    };
    // A volume whose share does not fit the pool is not in it.
    let cached = host.volume.status().pool.is_some();
    let works = cached && daemon.pool().is_some_and(|pool| fills(pool.status()));
    if !works || !host.volume.settings().read_cache {
        return;
    }
    lift_write_limit(daemon).await;
    expect(daemon, "a populate", host.volume.populate(range).await);
    check_memory(daemon, host).await;
    for _ in 0..50 {
        let before = host.volume.status().stats.read_hits;
        expect(daemon, "a read", host.read(range).await);
        if host.volume.status().stats.read_hits > before {
            return;
        }
        daemon.env.sleep(Duration::from_millis(100)).await;
    }
    let status = host.volume.status();
    daemon
        .world
        .violate(format!("a populated block is never hit: {status:?}, {:?}", daemon.pool().map(|pool| pool.status())));
}

/// What is in memory is what lies below: both are what the model says. Nothing is in memory afterwards.
async fn check_memory(daemon: &Daemon, host: &Host) {
    let pages = host.volume.size_bytes() / PAGE;
    let looked_at: Vec<u64> = (0..PAGES_COMPARED)
        .map(|_| daemon.world.simulation.draw(|random| random.below(pages.min(PAGES_HOT))))
        .collect();
    for round in 0..4 {
        if round == 3 {
            daemon.memory.resize(&daemon.env, 0).await;
        }
        for page in &looked_at {
            expect(daemon, "a read", host.read(ByteRange::at(page * PAGE, PAGE)).await);
        }
    }
}

/// Whatever the SSDs have taken today, they may be filled again.
async fn lift_write_limit(daemon: &Daemon) {
    let Some(pool) = daemon.pool() else { return };
    let settings = pool.status().settings;
    if settings.ssd_writes_per_day_bytes.is_some() {
        let unlimited = hotset_cache::config::PoolSettings { ssd_writes_per_day_bytes: None, ..settings };
        expect(daemon, "lifting a limit", pool.set(unlimited).await);
    }
}

fn expect<T>(daemon: &Daemon, what: &str, outcome: Result<T, hotset_cache::Error>) {
    if let Err(error) = outcome {
        daemon.world.violate(format!("{what} fails though nothing is wrong any more: {error}"));
    }
}
