//! Cached reads, against other ways to read the same SSD: another NBD server, and no server at all.

use anyhow::{Result, bail};

use super::Bench;
use super::clients::{Export, Load, batching, fio_file, fio_nbd};
use super::daemon::{Daemon, QemuNbd};
use super::figure::Figure;
use super::rounds::{Rounds, iops, median_us};

const VOLUME_BYTES: u64 = 1 << 30;
/// Room for all of the volume beside what describes it.
const SSD_BYTES: u64 = VOLUME_BYTES + VOLUME_BYTES / 4;
/// A volume is read for so long at a time until it is in the cache; on any disk one time should do.
const FILL_SECONDS: u64 = 5;
const FILLS_MAX: u64 = 12;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let raw = bench.scratch.written_file("raw", VOLUME_BYTES)?;
    // Nobody else opens what a volume is on.
    let alone = bench.scratch.written_file("alone", VOLUME_BYTES)?;
    let backing = bench.scratch.written_file("backing", VOLUME_BYTES)?;
    let daemon = Daemon::start(bench, "hits")?;
    let ssd = daemon.create_pool(bench, "hits", SSD_BYTES, &["--populate-on-read", "1"])?;
    let cached = daemon.create_volume("cached", &backing.to_string_lossy())?;
    let uncached = daemon.create_volume("uncached", &alone.to_string_lossy())?;
    daemon.enable_cache("cached", "hits")?;
    fill(bench, &daemon, "hits", &cached, 1 << 30)?;
    let qemu = QemuNbd::start(bench, &raw)?;
    let before = daemon.counters("cached")?;

    let load = Load::random_4k(128, bench.seconds, VOLUME_BYTES);
    let deep = Rounds::run(
        bench.rounds,
        &[
            Box::new(|| fio_nbd(&cached, load)),
            Box::new(|| fio_nbd(&qemu.export, load)),
            Box::new(|| fio_file(&raw, load)),
            Box::new(|| batching(&bench.release, &cached, load)),
        ],
    )?;

    let load = Load::random_4k(1, bench.seconds, VOLUME_BYTES);
    let single = Rounds::run(
        bench.rounds,
        &[
            Box::new(|| fio_nbd(&cached, load)),
            Box::new(|| fio_nbd(&uncached, load)),
            Box::new(|| batching(&bench.release, &cached, load)),
            Box::new(|| batching(&bench.release, &uncached, load)),
        ],
    )?;

    let hit_ratio = daemon.counters("cached")?.hit_ratio_since(&before);
    if hit_ratio < 1.0 {
        bail!("hits were to be measured, but the hit ratio was {hit_ratio:.4}");
    }
    drop((daemon, qemu));
    bench.scratch.remove(&[&raw, &alone, &backing, &ssd])?;
    Ok(vec![
        deep.ratio("cached 4 KiB random reads, depth 128: fio / qemu-nbd on the SSD file", "IOPS", iops, (0, 1), 1.5),
        deep.ratio("cached 4 KiB random reads, depth 128: fio / fio on the SSD file", "IOPS", iops, (0, 2), 0.80),
        deep.ratio(
            "cached 4 KiB random reads, depth 128: our client / fio on the SSD file",
            "IOPS",
            iops,
            (3, 2),
            0.90,
        ),
        single.excess("latency of a hit, depth 1: fio, less without cache", "us", median_us, (0, 1), 10.0),
        single.excess("latency of a hit, depth 1: our client, less without cache", "us", median_us, (2, 3), 10.0),
    ])
}

/// Reads until all of a volume of so many bytes is in the cache of its pool, which fills it as fast as it can from then on.
pub(super) fn fill(bench: &Bench, daemon: &Daemon, pool: &str, volume: &Export, bytes: u32) -> Result<()> {
    daemon.set_fetch_rate(pool, "high")?;
    daemon.verb(&["volume", "set", &volume.name, "read-cutoff=off"])?;
    for _ in 0..FILLS_MAX {
        batching(&bench.release, volume, Load::sequential_1m(FILL_SECONDS, u64::from(bytes)))?;
        // Exact: both are whole numbers far below 2^53.
        if daemon.counters(&volume.name)?.cached_bytes.total_cmp(&f64::from(bytes)).is_ge() {
            return Ok(());
        }
    }
    bail!("volume {} is not in the cache after {} s of reading it", volume.name, FILLS_MAX * FILL_SECONDS)
}
