//! Writes into a mirrored write-back cache: beside writes in place on one raw SSD file, beside another NBD server on it,
//! and beside the backing device without a cache.

use std::path::Path;

use anyhow::Result;

use super::Bench;
use super::clients::{Access, Export, Load, Measured, Pattern, batching, fio_file, fio_files, fio_nbd, mirrored};
use super::daemon::{Daemon, MemoryNbd, QemuNbd};
use super::figure::{Figure, Judged, Target};
use super::rounds::{Contender, Rounds, iops, mb_per_second, median_us};

/// Each of the two SSDs: a log of three quarters of it, of which nearly three quarters may be dirty.
const SSD_BYTES: u64 = 1 << 30;
/// What random writes go to: well below the dirty capacity of about 540 MiB.
const SET_BYTES: u64 = 150 << 20;
const VOLUME_BYTES: u64 = 1 << 30;
/// The emulated array of the vendors' tests.
const ARRAY: &str = "disks=16,level=raid5";
/// One that streams slower than this machine's disk takes two copies.
const STREAMED_ARRAY: &str = "disks=2,level=raid10";

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let raw = bench.scratch.written_file("raw", VOLUME_BYTES)?;
    let second = bench.scratch.written_file("raw2", VOLUME_BYTES)?;
    let backing = bench.scratch.written_file("backing", VOLUME_BYTES)?;
    let daemon = Daemon::start(bench, "writes")?;
    let ssds = daemon.create_mirrored_pool(bench, "writes", SSD_BYTES)?;
    let cached = daemon.create_volume("cached", &backing.to_string_lossy())?;
    daemon.verb(&["volume", "set", "cached", "mode=instant-write-back"])?;
    daemon.enable_cache("cached", "writes")?;
    let qemu = QemuNbd::start_writable(bench, &raw)?;
    let memory = MemoryNbd::start(bench)?;
    let mut figures = random_writes(bench, (&daemon, &cached), &qemu, &memory, [&raw, &second])?;
    drop(qemu);
    daemon.disable_cache("cached")?;
    figures.extend(streams(bench, &daemon)?);
    figures.extend(synced_writes(bench, &daemon, &memory, [&raw, &second])?);
    drop(daemon);
    bench.scratch.remove(&[&raw, &second, &backing, &ssds[0], &ssds[1]])?;
    Ok(figures)
}

fn random_writes(
    bench: &Bench,
    (daemon, cached): (&Daemon, &Export),
    qemu: &QemuNbd,
    memory: &MemoryNbd,
    raw: [&Path; 2],
) -> Result<Vec<Figure>> {
    let load = Load { access: Access::Write, ..Load::random_4k(128, bench.seconds, SET_BYTES) };
    // About what a batch of the log is.
    let copies = Load { pattern: Pattern::Sequential, request_bytes: 512 << 10, depth: 2, ..load };
    let moved_before = daemon.moved_and_written("cached")?;
    let rounds = Rounds::run(
        bench.rounds,
        &[
            Box::new(|| batching(&bench.release, cached, load)),
            Box::new(|| fio_nbd(cached, load)),
            Box::new(|| fio_file(raw[0], load)),
            Box::new(|| fio_nbd(&qemu.export, load)),
            Box::new(|| fio_files(&raw, copies)),
            Box::new(|| fio_nbd(&memory.export, load)),
        ],
    )?;
    let moved = daemon.moved_and_written("cached")?;
    let amplification = 1.0 + (moved.0 - moved_before.0) / (moved.1 - moved_before.1).max(1.0);
    println!("    amplification by moving the oldest rows: {amplification:.2}");
    Ok(vec![
        rounds.ratio(
            "4 KiB random writes, two copies, depth 128: our client / fio on one SSD file",
            "IOPS",
            iops,
            (0, 2),
            1.2,
        ),
        rounds.ratio("the same: fio / fio on one SSD file", "IOPS", iops, (1, 2), 1.0),
        rounds.ratio("the same: fio / qemu-nbd on one SSD file", "IOPS", iops, (1, 3), 3.0),
        informing(
            "our client: both copies / what the disk of both SSD files takes as streams of 512 KiB",
            "MB/s",
            (2.0 * rounds.median(0, mb_per_second), rounds.median(4, mb_per_second)),
            "one disk takes both copies here",
        ),
        informing(
            "fio on an NBD server on memory / fio on one SSD file",
            "IOPS",
            (rounds.median(5, iops), rounds.median(2, iops)),
            "what is left to a cache where fio and its NBD server share so few CPUs",
        ),
    ])
}

/// What explains the figures before it.
fn informing(what: &str, unit: &'static str, (measured, reference): (f64, f64), note: &str) -> Figure {
    Figure {
        what: what.to_owned(),
        unit,
        measured: Some(measured),
        reference: Some(reference),
        judged: Judged::Ratio(measured / reference),
        target: Target::None,
        note: note.to_owned(),
    }
}

/// Streams of writes in every mode, beside the same volume without its cache. Its backing device is an array, which is
/// emulated, with disks of its own: where it shares one disk with both SSDs, every copy of the log takes its time.
fn streams(bench: &Bench, daemon: &Daemon) -> Result<Vec<Figure>> {
    let store = bench.scratch.store_in_memory("streams", VOLUME_BYTES)?;
    let spelled = format!("emulated:{STREAMED_ARRAY},size={VOLUME_BYTES},file={}", store.display());
    let streamed = daemon.create_volume("streamed", &spelled)?;
    let load = Load { access: Access::Write, ..Load::sequential_1m(bench.seconds, VOLUME_BYTES) };
    let with = |mode: &'static str| -> Result<Measured> {
        daemon.enable_cache("streamed", "writes")?;
        daemon.verb(&["volume", "set", "streamed", &format!("mode={mode}")])?;
        let measured = batching(&bench.release, &streamed, load);
        daemon.disable_cache("streamed")?;
        measured
    };
    let modes = ["write-back", "instant-write-back", "write-through", "write-around"];
    let mut contenders: Vec<Contender<'_>> = vec![Box::new(|| batching(&bench.release, &streamed, load))];
    for mode in modes {
        contenders.push(Box::new(move || with(mode)));
    }
    let rounds = Rounds::run(bench.rounds, &contenders)?;
    daemon.verb(&["volume", "delete", "streamed"])?;
    bench.scratch.remove(&[&store])?;
    let figures = modes.iter().enumerate().map(|(index, mode)| {
        let what = format!("1 MiB sequential writes, {mode} / emulated array without cache");
        rounds.ratio(&what, "MB/s", mb_per_second, (index + 1, 0), 0.95)
    });
    Ok(figures.collect())
}

/// A write and its flush, one at a time: what a database's log does. Both SSDs are files on one disk, which flushes for one
/// after the other: what a mirror costs is told beside a bare one on two such files. On SSDs that share nothing it is
/// told beside one of them: see `slow_ssds.rs`, and docs/decisions/0008.
fn synced_writes(bench: &Bench, daemon: &Daemon, memory: &MemoryNbd, raw: [&Path; 2]) -> Result<Vec<Figure>> {
    let file = bench.scratch.file("array");
    let spelled = format!("emulated:{ARRAY},size=4G,file={}", file.display());
    let array = daemon.create_volume("array", &spelled)?;
    let aged = Load { access: Access::Write, ..Load::random_4k(128, bench.seconds, SET_BYTES) };
    let load = Load { access: Access::WriteAndFlush, ..Load::random_4k(1, bench.seconds, SET_BYTES) };
    let cached = || -> Result<Measured> {
        daemon.enable_cache("array", "writes")?;
        batching(&bench.release, &array, aged)?;
        let measured = fio_nbd(&array, load);
        // What is dirty on an array takes minutes to flush: it is of no further use.
        daemon.verb(&["volume", "disable-cache", "array", "--force", "--yes-lose-data"])?;
        measured
    };
    let rounds = Rounds::run(
        bench.rounds,
        &[
            Box::new(cached),
            Box::new(|| fio_nbd(&array, load)),
            Box::new(|| fio_file(raw[0], load)),
            Box::new(|| fio_nbd(&memory.export, load)),
            Box::new(|| mirrored(&bench.release, raw, load)),
        ],
    )?;
    daemon.verb(&["volume", "delete", "array"])?;
    std::fs::remove_file(&file)?;
    let on_one_file = rounds.median(2, median_us) + rounds.median(3, median_us);
    Ok(vec![
        rounds.ratio(
            "4 KiB write and flush, depth 1: write-back / emulated array without cache",
            "IOPS",
            iops,
            (0, 1),
            10.0,
        ),
        rounds.excess_over_two(
            "the same: latency of both / mirrored on two SSD files without a server + 2 round trips to one on memory",
            "us",
            median_us,
            (0, [4, 3]),
            20.0,
        ),
        informing(
            "the same: latency of both / on one SSD file + 2 round trips",
            "us",
            (rounds.median(0, median_us), on_one_file),
            "one disk takes both copies here, and flushes for one after the other",
        ),
    ])
}
