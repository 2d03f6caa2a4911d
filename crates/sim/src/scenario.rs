//! One seed: daemons live and die in a faulty world; then the faults end, and everything has to work again.

use std::rc::Rc;
use std::time::Duration;

use hotset_cache::planted::{Planted, plant};

use crate::daemon::Daemon;
use crate::executor::{SimEnv, Step};
use crate::host::Host;
use crate::pauses::Pauses;
use crate::shape::Profile;
use crate::world::{HostVolume, World};
use crate::{
    administrator, chaos, idle, liveness, recovery, refusals, returns, scrubs, second_loss, silences, state_failures,
};

/// The longest life of a daemon, in virtual time: hosts, slow SSDs and a slow stop together take far less.
const LIFE_MAX: Duration = Duration::from_secs(3600);
/// Where hosts of a backing device that hangs wait for ever, and the others must not.
const LIFE_MAX_BESIDE_A_HUNG_DEVICE: Duration = Duration::from_secs(300);
/// The most steps of a life: what goes past this runs in circles.
const STEPS_MAX: u64 = 3_000_000;

/// What hosts read at a time when they look at what they wrote.
const LOOK_BYTES: u64 = 64 << 10;

/// What a seed came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The same for the same seed, always.
    pub history: u64,
    pub violation: Option<String>,
    /// The last lines of the history, if it was traced.
    pub tail: Vec<String>,
    pub steps: u64,
}

// proves: D3, D5, D11, D12, D14, D15, F1, F4, F7, F8
/// Runs a seed, with a bug planted in the engine or without.
pub fn run(seed: u64, bug: Option<Planted>, lines: usize) -> Outcome {
    plant(bug);
    let world = World::new(seed, lines > 0);
    let steps = live(&world);
    plant(None);
    Outcome {
        history: world.simulation.trace.hash(),
        violation: world.simulation.trace.violation(),
        tail: world.simulation.trace.tail(lines),
        steps,
    }
}

fn live(world: &Rc<World>) -> u64 {
    let mut steps = 0;
    for number in 0..world.shape.lives {
        world.set_phase(&format!("life {number}"));
        world.begin_life();
        idle::before_life(world);
        let clean = one_life(world, &mut steps);
        if world.simulation.trace.violation().is_some() {
            return steps;
        }
        if world.recovers {
            recovery::check(world);
        }
        idle::between_lives(world, clean);
        world.simulation.skip(Duration::from_secs(1));
    }
    let scrubs = world.shape.profile == Profile::Scrubs && world.writes_back();
    if scrubs && world.simulation.draw(|random| random.one_in(2)) {
        scrubs::check(world, &mut steps);
    } else {
        liveness::check(world, &mut steps);
    }
    steps
}

/// When a daemon dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    Never,
    AfterSteps(u64),
    /// Some steps after so many flushes began: near what the protocol makes durable.
    NearFlush {
        flushes: u64,
        steps: u64,
    },
    /// Some steps after so many slots began to be written.
    NearSlotWrite {
        writes: u64,
        steps: u64,
    },
    /// Some steps after so many batches that publish slots began to be written.
    NearPublication {
        publications: u64,
        steps: u64,
    },
    /// Some steps after so many records of the write log's rows began to be written.
    NearRowRecord {
        records: u64,
        steps: u64,
    },
    /// Some steps after so many flushes of backing devices succeeded.
    NearBackingFlush {
        flushes: u64,
        steps: u64,
    },
    /// Some steps after so many flushes of hosts were answered.
    NearHostFlush {
        flushes: u64,
        steps: u64,
    },
    /// Some steps after something failed.
    NearFailure {
        steps: u64,
    },
    /// So many steps after it began to close its pool.
    WhileClosing(u64),
}

impl Death {
    /// Often soon, while the daemon opens the pool.
    fn draw(world: &World) -> Self {
        if !world.shape.troubles.crashes {
            return Self::Never;
        }
        if world.shape.profile == Profile::PowerCuts {
            return world.simulation.draw(|random| {
                let steps = random.pick(&[1, 5, 20, 60]);
                match random.below(8) {
                    // What a clean stop published is believed when the next life reuses its slots.
                    0 => Self::Never,
                    1..5 => Self::NearSlotWrite { writes: random.between(1, 100), steps },
                    _ => Self::NearPublication { publications: random.between(1, 2), steps },
                }
            });
        }
        let steps = world.simulation.draw(|random| random.pick(&[1, 5, 20, 60, 200]));
        if world.shape.profile == Profile::FailedFlush {
            let flushes = world.simulation.draw(|random| random.between(1, 40));
            return Self::NearHostFlush { flushes, steps };
        }
        if world.shape.profile == Profile::Commits {
            let flushes = world.simulation.draw(|random| random.between(1, 200));
            return Self::NearHostFlush { flushes, steps };
        }
        if world.shape.profile == Profile::CleanCuts {
            let flushes = world.simulation.draw(|random| random.between(1, 60));
            return Self::NearBackingFlush { flushes, steps: steps.min(20) };
        }
        if world.shape.profile == Profile::LogCuts {
            return world.simulation.draw(|random| match random.below(8) {
                0 => Self::Never,
                1..5 => Self::NearRowRecord { records: random.between(3, 200), steps },
                5 | 6 => Self::NearHostFlush { flushes: random.between(1, 20), steps },
                _ => Self::AfterSteps(random.between(500, 20_000)),
            });
        }
        if world.shape.profile == Profile::AlternateMissing && world.shape.troubles.ssd_errors {
            return Self::NearFailure {
                steps: if world.shape.slow_state { steps.clamp(5, 60) } else { steps.min(20) },
            };
        }
        if world.shape.profile == Profile::FailingSsd {
            // Where nothing fails, the daemon stops cleanly, and all that it had is believed at the next start.
            return Self::NearFailure { steps: world.simulation.draw(|random| random.pick(&[200, 1_000, 5_000])) };
        }
        if world.shape.profile == Profile::LateLog {
            return world.simulation.draw(|random| match random.below(8) {
                0 => Self::Never,
                1..5 => Self::NearRowRecord { records: random.between(3, 200), steps },
                5 => Self::AfterSteps(random.between(500, 20_000)),
                _ => Self::NearFlush { flushes: random.between(1, 200), steps: random.pick(&[1, 5, 20, 60]) },
            });
        }
        world.simulation.draw(|random| match random.below(10) {
            0..2 => Self::AfterSteps(random.between(1, 400)),
            2..4 => Self::AfterSteps(random.between(400, 20_000)),
            4..8 => Self::NearFlush { flushes: random.between(1, 200), steps: random.pick(&[1, 5, 20, 60]) },
            8 => Self::WhileClosing(random.between(1, 200)),
            _ => Self::Never,
        })
    }
}

/// Whether the daemon stopped cleanly.
fn one_life(world: &Rc<World>, steps: &mut u64) -> bool {
    let daemon = Daemon::new(world);
    world.simulation.spawn(serve(daemon.clone()));
    let finished = run_until(world, &daemon, Death::draw(world), steps);
    let clean = finished && daemon.clean.get();
    daemon.vanish();
    // A machine that loses power would hide from the daemon that somebody else changed a backing device.
    let may_reboot = !world.volumes.iter().any(|host| host.changed.get());
    let cuts = [Profile::PowerCuts, Profile::LogCuts, Profile::FailedFlush, Profile::CleanCuts, Profile::Commits];
    let cuts = cuts.contains(&world.shape.profile);
    let percent = match (finished, cuts) {
        (true, _) => 25,
        (false, true) => 95,
        (false, false) => 60,
    };
    // Where a copy is lost with its SSD, what was answered has to survive the daemon's death alone; and a member that loses
    // its power may lose what it knew of another.
    let kills = [Profile::OneCopy, Profile::ModeChanges, Profile::LostTails].contains(&world.shape.profile)
        || (world.shape.profile == Profile::AlternateMissing && world.shape.troubles.ssd_errors);
    let may_reboot = may_reboot && !kills;
    let power_fails = may_reboot && world.simulation.draw(|random| random.percent(percent));
    let everywhere = cuts || world.simulation.draw(|random| random.one_in(2));
    world
        .simulation
        .note(|| format!("-- stopped cleanly: {clean}, power fails: {power_fails}, everywhere: {everywhere}"));
    world.end_life(power_fails, || everywhere || world.simulation.draw(|random| random.one_in(2)));
    clean && !power_fails
}

/// Steps until the daemon has ended (true) or dies (false).
pub fn run_until(world: &World, daemon: &Daemon, death: Death, steps: &mut u64) -> bool {
    let started = world.simulation.now();
    let flushes_before = world.simulation.flushes.get();
    let slot_writes_before = world.simulation.slot_writes.get();
    let publications_before = world.simulation.publications.get();
    let host_flushes_before = world.simulation.host_flushes.get();
    let backing_flushes_before = world.simulation.backing_flushes.get();
    let failures_before = world.simulation.failures.get();
    let row_records_before = world.simulation.row_records.get();
    let hung = world.shape.profile == Profile::HungBacking;
    let life_max = if hung { LIFE_MAX_BESIDE_A_HUNG_DEVICE } else { LIFE_MAX };
    let (mut taken, mut closing, mut near) = (0, 0, 0);
    let mut pauses = Pauses::draw(world);
    while !daemon.finished.get() {
        let step = world.simulation.step();
        *steps += 1;
        taken += 1;
        closing += u64::from(daemon.closing.get());
        pauses.after_step(taken, daemon);
        let dies = match death {
            Death::Never => false,
            Death::AfterSteps(count) => taken >= count,
            Death::NearFlush { flushes, steps } => {
                near += u64::from(world.simulation.flushes.get() - flushes_before >= flushes);
                near > steps
            }
            Death::NearSlotWrite { writes, steps } => {
                near += u64::from(world.simulation.slot_writes.get() - slot_writes_before >= writes);
                near > steps
            }
            Death::NearPublication { publications, steps } => {
                near += u64::from(world.simulation.publications.get() - publications_before >= publications);
                near > steps
            }
            Death::NearRowRecord { records, steps } => {
                near += u64::from(world.simulation.row_records.get() - row_records_before >= records);
                near > steps
            }
            Death::NearHostFlush { flushes, steps } => {
                near += u64::from(world.simulation.host_flushes.get() - host_flushes_before >= flushes);
                near > steps
            }
            Death::NearBackingFlush { flushes, steps } => {
                near += u64::from(world.simulation.backing_flushes.get() - backing_flushes_before >= flushes);
                near > steps
            }
            Death::NearFailure { steps } => {
                near += u64::from(world.simulation.failures.get() > failures_before);
                near > steps
            }
            Death::WhileClosing(count) => closing >= count,
        };
        if dies || world.simulation.trace.violation().is_some() {
            return false;
        }
        if step == Step::Idle || world.simulation.now().since(started) > life_max || taken > STEPS_MAX {
            report_stuck(world, daemon);
            return false;
        }
    }
    true
}

/// Nothing happens any more: that is legal only while a backing device hangs.
fn report_stuck(world: &World, daemon: &Daemon) {
    let phase = world.phase.borrow().clone();
    let excused = world.volumes.iter().any(|host| host.may_hang.get());
    let suffers = |host: &Rc<HostVolume>| host.waiting.get() > 0 && !host.may_hang.get();
    if excused && world.shape.profile == Profile::HungBacking && world.volumes.iter().any(suffers) {
        let disks = world.ssds.iter().map(|ssd| &ssd.disk).chain(world.volumes.iter().map(|volume| &volume.disk));
        disks.for_each(|disk| world.simulation.note(|| disk.in_flight()));
        world.simulation.note(|| format!("{:?}", daemon.pool().map(|pool| pool.status())));
        world.violate(format!("a backing device that hangs holds up another volume: {phase}"));
    }
    if !excused {
        let hosts = daemon.hosts_running.get();
        let disks = world.ssds.iter().map(|ssd| &ssd.disk).chain(world.volumes.iter().map(|volume| &volume.disk));
        disks.for_each(|disk| world.simulation.note(|| disk.in_flight()));
        world.simulation.note(|| format!("{:?}", daemon.pool().map(|pool| pool.status())));
        world.violate(format!("nothing happens any more: {phase}, {hosts} hosts wait"));
    }
}

/// The daemon: starts, serves until the hosts have enough, stops.
async fn serve(daemon: Daemon) {
    daemon.start().await;
    if daemon.world.shape.profile.is_sharp() || daemon.world.simulation.draw(|random| random.one_in(2)) {
        look_after_crash(&daemon).await;
    }
    daemon.world.set_phase("serving");
    spawn_hosts(&daemon);
    for _ in 0..daemon.world.shape.administrators {
        daemon.world.simulation.spawn(administrator::work(daemon.clone()));
    }
    daemon.world.simulation.spawn(returns::watch(daemon.clone()));
    if daemon.world.state_fails {
        daemon.world.simulation.spawn(state_failures::strike(daemon.clone()));
    }
    if daemon.world.shape.profile == Profile::SecondLoss {
        daemon.world.simulation.spawn(second_loss::strike(daemon.clone()));
    } else if daemon.world.shape.profile == Profile::Silence {
        daemon.world.simulation.spawn(silences::strike(daemon.clone()));
    } else if daemon.world.shape.profile == Profile::Refusal {
        daemon.world.simulation.spawn(refusals::strike(daemon.clone()));
    } else {
        daemon.world.simulation.spawn(chaos::work(daemon.clone()));
    }
    for number in 0..daemon.world.volumes.len() {
        if daemon.world.simulation.draw(|random| !random.one_in(10)) {
            daemon.attach(number).await;
        }
    }
    // Hosts start with a pause, so that they count as running from here on.
    wait_for_hosts(&daemon.env, &daemon).await;
    daemon.stop().await;
}

/// Who lost their power or their storage look at what they have before they go on: journals are replayed, file systems
/// checked.
pub(crate) async fn look_after_crash(daemon: &Daemon) {
    daemon.world.set_phase("hosts look at what they wrote");
    for number in 0..daemon.world.volumes.len() {
        let Some(host) = Host::of(daemon, number) else { continue };
        let stretches = daemon.world.volumes[number].model.borrow().written_stretches(LOOK_BYTES);
        for range in stretches {
            host.look(range).await;
        }
        if daemon.world.simulation.draw(|random| random.one_in(2)) {
            administrator::flush_unused(daemon, number).await;
        }
    }
}

pub(crate) async fn wait_for_hosts(env: &SimEnv, daemon: &Daemon) {
    use hotset_block::Env;
    let limit_ms = daemon.world.simulation.draw(|random| random.between(100, 60_000));
    let until = env.now().plus(Duration::from_millis(limit_ms));
    env.sleep(Duration::from_millis(10)).await;
    while daemon.hosts_running.get() > 0 && env.now() < until {
        env.sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn spawn_hosts(daemon: &Daemon) {
    for number in 0..daemon.world.volumes.len() {
        let Some(host) = Host::of(daemon, number) else { continue };
        for _ in 0..daemon.world.shape.hosts {
            let most = if daemon.world.shape.profile == Profile::HungBacking {
                2_000
            } else if daemon.world.shape.profile == Profile::Changing {
                1_000
            } else {
                300
            };
            let (requests, streams) =
                daemon.world.simulation.draw(|random| (random.between(20, most), random.one_in(8)));
            let stream_at = streams.then_some(0);
            daemon.world.simulation.spawn(Host { stream_at, ..host.clone() }.run(requests));
        }
    }
}
