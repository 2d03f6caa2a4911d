//! Reads that the cache does not answer: what it costs to ask it.
//!
//! The same volume is measured with its cache and without. What is read at random is so large that hardly a block of it is read
//! often enough to cross the threshold: no disk here is, so most of it is a hole, which is read as fast as this machine can. How
//! much entered the cache is checked.

use anyhow::{Result, bail};

use super::Bench;
use super::clients::{Export, Load, Measured, batching, fio_nbd};
use super::daemon::Daemon;
use super::figure::Figure;
use super::rounds::{Contender, Rounds, iops, mb_per_second};

const STREAM_BYTES: u64 = 1 << 30;
/// So large that a million reads read hardly a block four times.
const RANDOM_BYTES: u64 = 12 << 40;
const SSD_BYTES: u64 = 64 << 20;
/// What may enter the cache in one measurement: a stream that goes round again is taken for random reads until its length tells.
const POPULATED_BYTES_MAX: f64 = 16e6;
/// What else may: a block in so many reads, which counters take for known by chance (docs/decisions/0013-a-sketch-counts.md).
const READS_PER_BLOCK: f64 = 1000.0;
const BLOCK_BYTES: f64 = 1_048_576.0;
const POOL: &[&str] = &["--block-size", "1M", "--populate-on-read", "4"];

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let streamed = bench.scratch.written_file("streamed", STREAM_BYTES)?;
    let sparse = bench.scratch.sparse_file("sparse", RANDOM_BYTES)?;
    let daemon = Daemon::start(bench, "misses")?;
    let volumes = [("random", &sparse), ("streamed", &streamed)];
    let [random, stream] = volumes.map(|(name, file)| daemon.create_volume(name, &file.to_string_lossy()));
    let (random, stream) = (random?, stream?);
    let daemon = &daemon;
    let random = (&random, Load::random_4k(128, bench.seconds, RANDOM_BYTES));
    let stream = (&stream, Load::sequential_1m(bench.seconds, STREAM_BYTES));
    let ours = |volume, load| batching(&bench.release, volume, load);

    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for (volume, load) in [random, stream] {
        contenders.push(Box::new(move || missing(bench, daemon, volume, || fio_nbd(volume, load))));
        contenders.push(Box::new(move || fio_nbd(volume, load)));
        contenders.push(Box::new(move || missing(bench, daemon, volume, || ours(volume, load))));
        contenders.push(Box::new(move || ours(volume, load)));
    }
    let rounds = Rounds::run(bench.rounds, &contenders)?;
    let figures = vec![
        rounds.ratio(
            "misses below the threshold, 4 KiB random, depth 128: fio / without cache",
            "IOPS",
            iops,
            (0, 1),
            0.95,
        ),
        rounds.ratio("the same: our client / without cache", "IOPS", iops, (2, 3), 0.95),
        rounds.ratio("1 MiB sequential reads, depth 8: fio / without cache", "MB/s", mb_per_second, (4, 5), 0.95),
        rounds.ratio("the same: our client / without cache", "MB/s", mb_per_second, (6, 7), 0.95),
    ];
    drop(contenders);
    bench.scratch.remove(&[&streamed, &sparse])?;
    Ok(figures)
}

/// Measures with a new cache, whose counters know nothing; next to nothing may enter it.
fn missing(
    bench: &Bench,
    daemon: &Daemon,
    volume: &Export,
    measure: impl FnOnce() -> Result<Measured>,
) -> Result<Measured> {
    let ssd = daemon.create_pool(bench, "misses", SSD_BYTES, POOL)?;
    daemon.enable_cache(&volume.name, "misses")?;
    let before = daemon.counters(&volume.name)?;
    let measured = measure()?;
    let after = daemon.counters(&volume.name)?;
    daemon.disable_cache(&volume.name)?;
    daemon.verb(&["pool", "delete", "misses"])?;
    bench.scratch.remove(&[&ssd])?;
    let populated = after.populated_bytes - before.populated_bytes;
    let reads = after.reads - before.reads;
    if populated > POPULATED_BYTES_MAX + reads / READS_PER_BLOCK * BLOCK_BYTES {
        bail!(
            "misses below the threshold were to be measured, but in {reads} reads {populated} bytes entered the cache"
        );
    }
    Ok(measured)
}
