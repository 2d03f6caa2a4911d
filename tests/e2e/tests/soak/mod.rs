//! A long life in fast motion: daemons under hosts that check every byte, while administration, faults of SSDs, pauses, kills
//! and upgrades come as chance has it.
//!
//! There are two worlds, each with a daemon, pools and volumes of its own. The daemon of one is killed, restarted and upgraded;
//! that of the other lives from the first to the last minute, and its memory and descriptors have to stay flat. What is done
//! follows from the seed; when it is done does not. `cargo x soak` runs it for as long as is asked, by the variables that
//! [`Plan::from_environment`] reads, and writes a report from what [`Record`] holds. It may be stopped with all that it started
//! (SIGSTOP), and go on later: all times are those in which it ran.

mod faults;
mod record;
mod steps;
mod volumes;
mod world;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hotset_e2e::clock::Moment;
use hotset_e2e::daemon::binary;
use hotset_e2e::files::build_folder;

use self::record::Record;
use self::world::{Kind, Seen, World};

/// What runs when nothing else is asked for.
const SHORT: Duration = Duration::from_secs(25);
/// How often there is a line of progress in a run of hours, at most; in a short one it is a tenth of it.
const PROGRESS_MAX: Duration = Duration::from_secs(60);
/// Samples of memory and descriptors: each minute, and no fewer than so many.
const SAMPLES_MIN: u32 = 60;
const SAMPLE_MAX: Duration = Duration::from_secs(60);
/// A host that gets no answer for so long has lost it. The longest pause of a daemon is a part of that.
const SILENCE_MAX: Duration = Duration::from_secs(80);

/// What a run is asked for.
struct Plan {
    seed: u64,
    duration: Duration,
    other_build: Option<PathBuf>,
    /// Where the record goes, and what is kept of a run that failed.
    folder: PathBuf,
}

impl Plan {
    fn from_environment() -> Self {
        let number = |name: &str| {
            let asked = std::env::var(name).ok()?;
            Some(asked.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")))
        };
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        Self {
            seed: number("HOTSET_SOAK_SEED").unwrap_or(1),
            duration: number("HOTSET_SOAK_SECONDS").map_or(SHORT, Duration::from_secs),
            other_build: path("HOTSET_SOAK_OTHER_BUILD"),
            folder: path("HOTSET_SOAK_FOLDER").unwrap_or_else(|| build_folder().join("soak")),
        }
    }
}

// proves: F2, F3, F7, F11, P4, P5, P16
#[test]
fn a_life_of_random_administration_faults_pauses_kills_and_upgrades_costs_no_host_an_error_or_a_byte() {
    let plan = Plan::from_environment();
    println!("seed {}, {} s", plan.seed, plan.duration.as_secs());
    println!("{}", local_devices());
    fs::create_dir_all(&plan.folder).expect("the build's folder can be written");
    let (begun, ended) = (Moment::now(), AtomicBool::new(false));
    let worlds = [Kind::Replaced, Kind::Lasting].map(|kind| (kind, Seen::default()));
    let mut records: Vec<Record> = thread::scope(|scope| {
        let lives: Vec<_> = worlds
            .iter()
            .map(|(kind, seen)| {
                let (plan, ended) = (&plan, &ended);
                scope.spawn(move || live(plan, *kind, seen, begun, ended))
            })
            .collect();
        watch(&plan, &worlds.each_ref().map(|(_, seen)| seen), begun, || lives.iter().all(|life| life.is_finished()));
        lives.into_iter().filter_map(|life| life.join().expect("what panics in there is caught")).collect()
    });
    assert!(records.len() == worlds.len(), "seed {}: what is left of it is in {}", plan.seed, plan.folder.display());
    for (record, (_, seen)) in records.iter_mut().zip(&worlds) {
        record.samples = seen.samples();
    }
    record::write(&plan.folder, plan.seed, begun.elapsed(), &records);
    let lasting = records.iter().find(|record| record.lasting).expect("there is one");
    println!("{}", lasting.flatness().judge());
}

/// One world from its beginning to its end; none if it ended in a panic. Its log and its steps are kept.
fn live(plan: &Plan, kind: Kind, seen: &Seen, begun: Moment, ended: &AtomicBool) -> Option<Record> {
    let mut world = World::new(kind, plan.seed, plan.other_build.as_deref(), seen);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        while begun.elapsed() < plan.duration && !ended.load(Ordering::Relaxed) {
            world.step();
        }
        world.finish()
    }));
    world.keep(&plan.folder);
    if outcome.is_err() {
        // The other world need not go on.
        ended.store(true, Ordering::Relaxed);
        world.tell_last_steps();
    }
    outcome.ok()
}

/// Takes samples and tells of progress until both worlds have ended.
fn watch(plan: &Plan, seen: &[&Seen], begun: Moment, is_over: impl Fn() -> bool) {
    let every = (plan.duration / SAMPLES_MIN).min(SAMPLE_MAX);
    let told_every = (plan.duration / 10).min(PROGRESS_MAX);
    let (mut sampled, mut told) = (0, 0);
    while !is_over() {
        thread::sleep(Duration::from_millis(100));
        let elapsed = begun.elapsed();
        if elapsed >= every * sampled {
            seen.iter().for_each(|seen| seen.sample(elapsed));
            sampled += 1;
        }
        if elapsed >= told_every * told {
            let (steps, requests) = seen.iter().map(|seen| seen.counts()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            let (seconds, left) = (elapsed.as_secs().max(1), plan.duration.saturating_sub(elapsed).as_secs());
            let rate = requests / seconds;
            println!("{seconds} s: {steps} steps, {requests} requests verified ({rate}/s), {left} s to go");
            told += 1;
        }
    }
}

/// Whether volumes could be block devices of this machine.
fn local_devices() -> &'static str {
    let drivers = ["/dev/ublk-control", "/sys/module/nbd", "/dev/nbd0"];
    if drivers.iter().any(|driver| fs::exists(driver).is_ok_and(|there| there)) {
        "hosts come over NBD; local devices, which this machine has a driver for, have tests of their own"
    } else {
        "hosts come over NBD; this machine's kernel has no driver for local devices"
    }
}

/// The build that daemons are upgraded to and back: by default a copy of the one under test.
fn other_build(asked: Option<&std::path::Path>, copy: PathBuf) -> PathBuf {
    asked.map(ToOwned::to_owned).unwrap_or_else(|| {
        fs::copy(binary(), &copy).expect("a program can be copied");
        copy
    })
}
