//! Random writes into a cache of two slow SSDs, beside writes in place on one of them. The SSDs are emulated: files, slowed
//! down to what the profile says.

use std::path::Path;

use anyhow::Result;

use super::Bench;
use super::clients::{Access, Load, batching};
use super::daemon::Daemon;
use super::figure::Figure;
use super::rounds::{Rounds, iops};

/// The *slow* profile.
const SPEED: &str = "iops=4000,rate=400M,flush=1ms";
const SSD_BYTES: u64 = 512 << 20;
/// Well below the dirty capacity.
const SET_BYTES: u64 = 64 << 20;
const DEPTH: u64 = 128;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let spelled = |path: &Path| format!("emulated-ssd:{SPEED},file={}", path.display());
    let raw = bench.scratch.written_file("slow-raw", SET_BYTES)?;
    let backing = bench.scratch.written_file("slow-backing", SET_BYTES)?;
    let daemon = Daemon::start(bench, "slow")?;
    let ssds = daemon.create_pair(bench, "slow", SSD_BYTES, spelled)?;
    daemon.clean_little("slow")?;
    let alone = daemon.create_volume("raw", &spelled(&raw))?;
    let cached = daemon.create_volume("cached", &backing.to_string_lossy())?;
    daemon.verb(&["volume", "set", "cached", "mode=instant-write-back"])?;
    daemon.enable_cache("cached", "slow")?;
    let load = Load { access: Access::Write, ..Load::random_4k(DEPTH, bench.seconds, SET_BYTES) };
    let rounds = Rounds::run(
        bench.rounds.min(3),
        &[Box::new(|| batching(&bench.release, &cached, load)), Box::new(|| batching(&bench.release, &alone, load))],
    )?;
    drop(daemon);
    bench.scratch.remove(&[&raw, &backing, &ssds[0], &ssds[1]])?;
    let what = "4 KiB random writes, two copies, depth 128, emulated slow SSDs: our client / on one of them";
    let mut figure = rounds.ratio(what, "IOPS", iops, (0, 1), 4.0);
    figure.note = format!("emulated: {SPEED}; {}", figure.note);
    Ok(vec![figure])
}
