//! Random writes, and writes with a flush each, into a cache of two slow SSDs, beside the same in place on one of them. The
//! SSDs are emulated: files, slowed down to what the profile says, each by itself.

use std::path::Path;

use anyhow::Result;

use super::Bench;
use super::clients::{Access, Export, Load, batching, fio_nbd};
use super::daemon::Daemon;
use super::figure::Figure;
use super::rounds::{Rounds, iops, median_us};

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
    let mut figures = random_writes(bench, &cached, &alone)?;
    daemon.verb(&["volume", "set", "cached", "mode=write-back"])?;
    figures.extend(synced_writes(bench, &cached, &alone)?);
    drop(daemon);
    bench.scratch.remove(&[&raw, &backing, &ssds[0], &ssds[1]])?;
    for figure in &mut figures {
        figure.note = format!("emulated: {SPEED}; {}", figure.note);
    }
    Ok(figures)
}

fn random_writes(bench: &Bench, cached: &Export, alone: &Export) -> Result<Vec<Figure>> {
    let load = Load { access: Access::Write, ..Load::random_4k(DEPTH, bench.seconds, SET_BYTES) };
    let rounds = Rounds::run(
        bench.rounds.min(3),
        &[Box::new(|| batching(&bench.release, cached, load)), Box::new(|| batching(&bench.release, alone, load))],
    )?;
    let what = "4 KiB random writes, two copies, depth 128, emulated slow SSDs: our client / on one of them";
    Ok(vec![rounds.ratio(what, "IOPS", iops, (0, 1), 4.0)])
}

/// Into a cache that was written to before: what both copies take more than one, on SSDs that take as long as the profile says,
/// each by itself, as long as this machine's disk is faster.
fn synced_writes(bench: &Bench, cached: &Export, alone: &Export) -> Result<Vec<Figure>> {
    let load = Load { access: Access::WriteAndFlush, ..Load::random_4k(1, bench.seconds, SET_BYTES) };
    let rounds = Rounds::run(bench.rounds, &[Box::new(|| fio_nbd(cached, load)), Box::new(|| fio_nbd(alone, load))])?;
    let what = "4 KiB write and flush, depth 1: latency of both, emulated slow SSDs / on one of them over NBD";
    Ok(vec![rounds.excess(what, "us", median_us, (0, 1), 20.0)])
}
