//! Hits in two pools by two clients, against one pool and one client: each pool has a thread of its own.
//!
//! The devices are files in memory, so that the threads are what is measured. Beside two threads and two clients nothing may
//! have to wait for a core, else the machine is measured.

use std::num::NonZero;
use std::thread::available_parallelism;

use anyhow::{Result, bail};

use super::Bench;
use super::clients::{Export, Load, batching, batching_all};
use super::daemon::Daemon;
use super::figure::{Figure, Target};
use super::rounds::{Rounds, iops};
use super::scratch::InMemory;

const VOLUME_BYTES: u64 = 64 << 20;
/// Room for all of the volume beside what describes it.
const SSD_BYTES: u64 = 128 << 20;
/// Two threads and two clients.
const CORES: usize = 4;
const WHAT: &str = "cached 4 KiB random reads, depth 128: two pools with two clients / one pool with one";

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let Some(files) = InMemory::new()? else {
        return Ok(vec![Figure::skipped(WHAT, "there is no file system in memory at /dev/shm")]);
    };
    let daemon = Daemon::start_with(bench, "threads", &["--threads", "2", "--memory-cache", "0"])?;
    let first = cached(bench, &daemon, &files, "first")?;
    let second = cached(bench, &daemon, &files, "second")?;
    let load = Load::random_4k(128, bench.seconds, VOLUME_BYTES);
    let rounds = Rounds::run(
        bench.rounds,
        &[
            Box::new(|| batching_all(&bench.release, &[&first, &second], load)),
            Box::new(|| batching_all(&bench.release, &[&first], load)),
        ],
    )?;
    let mut figure = rounds.ratio(WHAT, "IOPS", iops, (0, 1), 1.8);
    let cores = available_parallelism().map_or(1, NonZero::get);
    if cores < CORES {
        figure.target = Target::None;
        figure.note = format!("{cores} cores, of which two threads and two clients need {CORES}; {}", figure.note);
    }
    Ok(vec![figure])
}

/// A pool, and a volume that is in its cache as a whole.
fn cached(bench: &Bench, daemon: &Daemon, files: &InMemory, name: &str) -> Result<Export> {
    let (ssd, backing) = (files.path(&format!("{name}.ssd")), files.path(&format!("{name}.backing")));
    daemon.verb(&["image", "create", &ssd, &SSD_BYTES.to_string()])?;
    daemon.verb(&["image", "create", &backing, &VOLUME_BYTES.to_string()])?;
    let options = ["--type", "read", "--io-type", "database", "--populate-on-read", "1", "--ssd", &ssd];
    daemon.verb(&[&["pool", "create", name][..], &options].concat())?;
    let export = daemon.create_volume(name, &backing)?;
    daemon.enable_cache(name, name)?;
    daemon.set_fetch_rate(name, "high")?;
    daemon.verb(&["volume", "set", name, "read-cutoff=off"])?;
    for _ in 0..12 {
        batching(&bench.release, &export, Load::sequential_1m(1, VOLUME_BYTES))?;
        // Exact: both are whole numbers far below 2^53.
        if daemon.counters(name)?.cached_bytes.total_cmp(&f64::from(1_u32 << 26)).is_ge() {
            return Ok(export);
        }
    }
    bail!("volume {name} is not in the cache")
}
