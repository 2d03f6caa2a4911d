//! An administrator at work while hosts are served: settings, attaching and detaching, and a look at the status.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;
use hotset_cache::config::{PoolKind, PoolSettings, VolumeName, VolumeSettings};
use hotset_cache::{CacheUse, Cleared, Drained, ErrorKind, Flushed, Health, PoolStatus};

use crate::daemon::Daemon;
use crate::device::SimDevice;
use crate::disk::Faults;
use crate::shape::Profile;
use crate::world::{Attachment, PoolKnown};
use crate::{idle, log_shape, members, scrubs, second_loss, shape};

/// What the tables of a pool of a few hundred slots may take at most, whatever happens.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// How often an administrator looks whether hosts wait for nothing, and how long he waits in between.
const LOOKS: u32 = 200;
const LOOK: Duration = Duration::from_millis(3);

/// Works until the daemon stops.
pub async fn work(daemon: Daemon) {
    while !daemon.stopping.get() {
        let longest_ms = if daemon.world.shape.profile == Profile::Changing {
            60
        } else if daemon.world.shape.profile == Profile::ModeChanges {
            300
        } else {
            1_000
        };
        let pause = daemon.world.simulation.draw(|random| random.between(1, longest_ms));
        daemon.env.sleep(Duration::from_millis(pause)).await;
        check_status(&daemon);
        if daemon.world.shape.profile == Profile::FailedFlush && !daemon.stopping.get() {
            clear(&daemon, 0).await;
        } else if daemon.world.shape.troubles.backing_errors && !daemon.stopping.get() {
            look_after_backing(&daemon).await;
        }
        // Of a pool that is being deleted or made nobody else asks for anything.
        let unsure = [PoolKnown::Unmade, PoolKnown::Unsure].contains(&daemon.world.pool.get());
        if daemon.world.shape.troubles.administrators && !daemon.stopping.get() && !unsure {
            let commands = &daemon.world.commands;
            commands.set(commands.get() + 1);
            one_command(&daemon).await;
            commands.set(commands.get() - 1);
            daemon.world.command_answered.set(Some(daemon.env.now()));
        }
    }
}

async fn one_command(daemon: &Daemon) {
    if daemon.world.shape.profile == Profile::Changing && daemon.world.simulation.draw(|random| !random.one_in(3)) {
        return members::one_command(daemon).await;
    }
    if daemon.world.shape.profile == Profile::ModeChanges {
        return change_volume(daemon, 0).await;
    }
    if daemon.world.shape.profile == Profile::SecondLoss {
        return second_loss::one_command(daemon).await;
    }
    let (command, number) =
        daemon.world.simulation.draw(|random| (random.below(50), random.index(daemon.world.volumes.len())));
    if daemon.world.shape.profile == Profile::Scrubs && daemon.world.simulation.draw(|random| random.one_in(2)) {
        return scrubs::one_command(daemon).await;
    }
    match command {
        0..10 => change_pool(daemon).await,
        10..16 => change_volume(daemon, number).await,
        16 => drain_for_a_while(daemon, number).await,
        17 => flush_and_hold(daemon, number).await,
        18..30 => detach_for_a_while(daemon, number).await,
        30..39 => daemon.attach(number).await,
        39..43 => rename(daemon, number).await,
        43..48 => scrubs::one_command(daemon).await,
        48 => grow(daemon, number).await,
        _ if daemon.world.commands.get() == 1 => daemon.replace_pool().await,
        _ => resize_memory(daemon).await,
    }
}

/// The memory cache is made smaller or larger, or has to do with less for a while.
async fn resize_memory(daemon: &Daemon) {
    let (bytes, for_now) =
        daemon.world.simulation.draw(|random| (random.pick(&[0, 20 << 10, 80 << 10, 2 << 20]), random.one_in(2)));
    daemon.world.simulation.note(|| format!("memory cache of {bytes} bytes, for now: {for_now}"));
    match for_now {
        true => daemon.memory.allow(&daemon.env, bytes).await,
        false => daemon.memory.resize(&daemon.env, bytes).await,
    }
}

/// A backing device that failed or went away is sound again, or seems to be, and is opened again.
async fn look_after_backing(daemon: &Daemon) {
    for (number, host) in daemon.world.volumes.iter().enumerate() {
        let is_wrong =
            host.disk.is_gone() || daemon.volume(number).is_some_and(|volume| volume.status().health != Health::Good);
        if !is_wrong || daemon.stopping.get() || daemon.world.simulation.draw(|random| !random.one_in(4)) {
            continue;
        }
        if daemon.world.simulation.draw(|random| !random.one_in(4)) {
            host.disk.set_faults(Faults::default());
        }
        clear(daemon, number).await;
    }
}

/// A backing device is opened again, if something was wrong with it.
async fn clear(daemon: &Daemon, number: usize) {
    let Some(volume) = daemon.volume(number) else { return };
    let host = &daemon.world.volumes[number];
    let writes_back = daemon.world.writes_back();
    let failures_before = Cell::new(0);
    let open = async || {
        host.disk.come_back();
        host.disk.reset();
        failures_before.set(host.disk.failed_operations());
        // What the log has is not lost: there the model allows more than may happen.
        if writes_back {
            host.model.borrow_mut().reopened();
            host.cut.set(false);
        }
        Ok(SimDevice::open(&host.disk))
    };
    match volume.clear(open).await {
        Ok(Cleared::Opened { doubtful }) => {
            daemon.world.simulation.note(|| format!("{}: opened again, doubtful: {doubtful}", host.disk.name));
            host.trusted_after.set(failures_before.get());
            // What it lost while it was away is known from here on.
            host.cut.set(false);
            if doubtful && !writes_back {
                host.model.borrow_mut().reopened_untold();
            }
        }
        Ok(Cleared::NotNeeded) => {}
        // What is being changed, or has to be whole, is left alone.
        Err(error) if error.kind == ErrorKind::Refused || host.may_fail() || daemon.stopping.get() => {
            daemon.world.simulation.note(|| format!("not cleared: {error}"));
            if volume.is_closed() {
                host.model.borrow_mut().reopened();
            }
        }
        Err(error) => daemon.expect_cache_trouble("clearing a volume", &error),
    }
}

async fn change_pool(daemon: &Daemon) {
    let Some(pool) = daemon.pool() else { return };
    let settings = daemon.world.simulation.draw(|random| PoolSettings {
        policy: shape::policy(random),
        fetch_rate: shape::fetch_rate(random),
        populate_on_read: random.pick(&[1, 2]),
        populate_on_write: random.pick(if daemon.world.writes_back() { &[1, 1, 2] } else { &[0, 1, 2] }),
        cleaning: log_shape::cleaning(random),
        ssd_writes_per_day_bytes: random.one_in(8).then_some(16 << 20),
        ..pool.status().settings
    });
    daemon.world.simulation.note(|| format!("set {settings:?}"));
    match pool.set(settings).await {
        Ok(()) => daemon.world.settings.set(settings),
        Err(error) => daemon.expect_cache_trouble("changing the pool", &error),
    }
}

pub async fn change_volume(daemon: &Daemon, number: usize) {
    let Some(volume) = daemon.volume(number) else { return };
    let cutoff = daemon.world.simulation.draw(|random| random.pick(&[None, Some(256 << 10), Some(4 << 20)]));
    let (write_mode, read_cache) =
        daemon.world.simulation.draw(|random| (log_shape::write_mode(random), !random.one_in(8)));
    let memory_cache = cutoff.is_some() || !volume.settings().memory_cache;
    let read_ahead = cutoff != Some(4 << 20) || !volume.settings().read_ahead;
    let settings = VolumeSettings {
        read_cutoff_bytes: cutoff,
        write_cutoff_bytes: cutoff,
        memory_cache,
        read_ahead,
        ..volume.settings()
    };
    let settings = match daemon.world.shape.kind {
        PoolKind::Read => settings,
        PoolKind::ReadWrite => VolumeSettings { write_mode, read_cache, ..settings },
    };
    let settings = daemon.world.simulation.draw(|random| match random.one_in(3) {
        true => {
            let shares = [shape::share(random), shape::share(random), shape::share(random)];
            VolumeSettings { dirty_cap: shares[0], cache_min: shares[1], cache_max: shares[2], ..settings }
        }
        false => settings,
    });
    let host = &daemon.world.volumes[number];
    host.settings_asked.borrow_mut().push(settings);
    match volume.set(settings).await {
        Ok(()) => {
            host.spec.borrow_mut().settings = settings;
            host.settings_asked.borrow_mut().retain(|other| *other != settings);
        }
        // The pool has no room for so much, or a minimum is above its maximum: nothing was changed.
        Err(error) if matches!(error.kind, ErrorKind::Refused | ErrorKind::Invalid) => {
            host.settings_asked.borrow_mut().retain(|other| *other != settings);
        }
        Err(error) => daemon.expect_cache_trouble("changing the volume", &error),
    }
}

async fn rename(daemon: &Daemon, number: usize) {
    let Some(volume) = daemon.volume(number) else { return };
    let name = format!("volume{number}-{}", daemon.world.simulation.unique());
    let name: VolumeName = name.parse().expect("it follows the rule");
    daemon.world.simulation.note(|| format!("rename {} to {name}", volume.name()));
    let host = &daemon.world.volumes[number];
    host.names_asked.borrow_mut().push(name.clone());
    match volume.rename(name.clone()).await {
        Ok(()) => {
            host.spec.borrow_mut().name = name.clone();
            host.names_asked.borrow_mut().retain(|other| *other != name);
        }
        Err(error) => daemon.expect_cache_trouble("renaming a volume", &error),
    }
}

/// The backing device gets more room, and the volume takes it in while hosts work.
async fn grow(daemon: &Daemon, number: usize) {
    let Some(volume) = daemon.volume(number) else { return };
    let host = &daemon.world.volumes[number];
    if !idle::make_room(&daemon.world, host) {
        return;
    }
    match volume.grow().await {
        Ok(size_bytes) if size_bytes <= volume.size_bytes() => {}
        Ok(size_bytes) => daemon.world.violate(format!("{} says that it grew to {size_bytes}", volume.name())),
        Err(error) if host.may_fail() => daemon.world.simulation.note(|| format!("not grown: {error}")),
        Err(error) => daemon.expect_cache_trouble("growing a volume", &error),
    }
}

async fn detach_for_a_while(daemon: &Daemon, number: usize) {
    let host = Rc::clone(&daemon.world.volumes[number]);
    let Some(pool) = daemon.pool() else { return };
    if host.attachment.get() != Attachment::Attached || !daemon.detach(&pool, &host).await {
        return;
    }
    let pause = daemon.world.simulation.draw(|random| random.pick(&[0, 100, 1_000, 3_000]));
    daemon.env.sleep(Duration::from_millis(pause)).await;
    if !daemon.stopping.get() {
        daemon.attach(number).await;
    }
}

/// Flushes a volume's cache, and sometimes changes its mind.
async fn drain_for_a_while(daemon: &Daemon, number: usize) {
    let (Some(pool), Some(volume)) = (daemon.pool(), daemon.volume(number)) else { return };
    let name = volume.name();
    let limit_ms = daemon.world.simulation.draw(|random| random.pick(&[1, 20, 500, 60_000]));
    let (env, canceller, cancelled) = (daemon.env.clone(), pool.clone(), volume.clone());
    let draining = Rc::new(Cell::new(true));
    let still = Rc::clone(&draining);
    daemon.world.simulation.note(|| format!("drain {name} for {limit_ms} ms"));
    daemon.env.spawn(async move {
        env.sleep(Duration::from_millis(limit_ms)).await;
        if still.get() {
            canceller.cancel_drain(&cancelled.name());
        }
    });
    let drained = pool.drain(&name).await;
    draining.set(false);
    if daemon.world.simulation.draw(|random| !random.one_in(4)) {
        pool.cancel_drain(&volume.name());
    }
    daemon.world.simulation.note(|| format!("drained {name}: {drained:?}"));
    // A volume that is not cached cannot be drained.
    if let Err(error) = drained
        && error.kind != ErrorKind::NotFound
    {
        daemon.expect_cache_trouble("draining", &error);
    }
}

/// As for a backup: flushes a volume and has its writes held. Whenever no host waits for it then, the backing device has what they
/// have seen.
async fn flush_and_hold(daemon: &Daemon, number: usize) {
    let host = &daemon.world.volumes[number];
    let Some(volume) = daemon.volume(number).filter(|_| daemon.world.writes_back() && !host.held.replace(true)) else {
        return;
    };
    daemon.world.simulation.note(|| format!("flush and hold {}", volume.name()));
    volume.hold_writes();
    match volume.flush_now().await {
        Ok(Flushed::Durable) => {
            let mut looks = 0;
            while host.waiting.get() > 0 && looks < LOOKS {
                daemon.env.sleep(LOOK).await;
                looks += 1;
            }
            if host.waiting.get() == 0 && !host.may_fail() && !daemon.stopping.get() {
                daemon.world.report(host.check_backing().map_err(|what| format!("while writes are held: {what}")));
            }
        }
        Ok(Flushed::Cancelled) => daemon.world.violate("a flush that nobody cancelled is cancelled".to_owned()),
        Err(error) => daemon.expect_cache_trouble("flushing", &error),
    }
    volume.release_writes();
    host.held.set(false);
}

/// Flushes the cache of a volume that no host uses: then the backing device has what they have seen.
pub async fn flush_unused(daemon: &Daemon, number: usize) {
    let (Some(pool), Some(volume)) = (daemon.pool(), daemon.volume(number)) else { return };
    let name = volume.name();
    if !daemon.world.writes_back() || !pool.status().volumes.contains(&name) {
        return;
    }
    daemon.world.simulation.note(|| format!("drain {name}, which nobody uses"));
    match pool.drain(&name).await {
        Ok(Drained::Clean) => {
            let outcome = daemon.world.volumes[number].check_backing();
            daemon.world.report(outcome.map_err(|what| format!("after a drain: {what}")));
        }
        Ok(Drained::Overwritten | Drained::Cancelled) => {}
        Err(error) => daemon.expect_cache_trouble("draining", &error),
    }
    pool.cancel_drain(&name);
}

/// What a status says must be possible.
pub fn check_status(daemon: &Daemon) {
    let Some(status) = daemon.pool().map(|pool| pool.status()) else { return };
    let read_errors: u64 = status.ssds.iter().map(|ssd| ssd.read_errors).sum();
    // What an SSD that left still has in the tables goes step by step.
    let whole = !status.ssds.is_empty() && status.ssds.iter().all(|ssd| ssd.online);
    for (holds, what) in [
        // Whatever crashed: what is believed of a sound SSD is there.
        (read_errors == 0 || daemon.world.ssds_suffered.get(), "sound SSDs hold less than is believed of them"),
        (!whole || status.used_bytes <= status.capacity_bytes, "more bytes are used than there are"),
        (!whole || status.slots_used <= status.slots, "more slots are used than there are"),
        (status.memory_bytes <= MEMORY_BYTES_MAX, "the tables grow without bound"),
        (all_parts_fit(&status), "the SSDs' slots are more than the pool's"),
    ] {
        if !holds {
            daemon.world.violate(format!("{what}: {status:?}"));
        }
    }
    check_sums(daemon, &status);
}

/// What the volumes use adds up to what the pool tells, and each volume tells the same as its pool.
fn check_sums(daemon: &Daemon, status: &PoolStatus) {
    let sum = |part: fn(&CacheUse) -> u64| status.uses.iter().map(part).sum::<u64>();
    let log = status.write_log.unwrap_or_default();
    for (told, sum, what) in [
        (status.used_bytes, sum(|volume| volume.used_bytes), "used"),
        (log.dirty_bytes, sum(|volume| volume.dirty_bytes), "dirty"),
        (log.live_bytes, sum(|volume| volume.write_log_bytes), "in the write log"),
    ] {
        if told != sum {
            daemon.world.violate(format!("{told} bytes are {what}, and the volumes' add up to {sum}: {status:?}"));
        }
    }
    for number in 0..daemon.world.volumes.len() {
        let Some(volume) = daemon.volume(number).map(|volume| volume.status()) else { continue };
        let own = CacheUse {
            used_bytes: volume.cache_used_bytes,
            write_log_bytes: volume.write_cache_used_bytes,
            dirty_bytes: volume.dirty_bytes,
            lost_bytes: volume.lost_bytes,
            oldest_dirty_seconds: volume.oldest_dirty_seconds,
        };
        let of_pool = status.volumes.iter().zip(&status.uses).find(|(name, _)| **name == volume.name);
        if volume.pool.as_ref() == Some(&status.name) && of_pool.is_none_or(|(_, uses)| *uses != own) {
            daemon.world.violate(format!("the volume tells {own:?}, its pool {of_pool:?}"));
        }
        if (own.dirty_bytes > 0) != own.oldest_dirty_seconds.is_some() {
            daemon.world.violate(format!("something is dirty and has no age, or the other way round: {own:?}"));
        }
    }
}

fn all_parts_fit(status: &PoolStatus) -> bool {
    let online = status.ssds.iter().filter(|ssd| ssd.online);
    online.map(|ssd| ssd.slots_used).sum::<u64>() <= status.slots
}
