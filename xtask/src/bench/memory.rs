//! Reads that the memory cache answers (requirement M4), and streams that are read ahead into it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Bench;
use super::clients::{Export, Load, Pattern, batching, fio_file, fio_nbd};
use super::daemon::{Daemon, QemuNbd};
use super::engine::figure;
use super::figure::Figure;
use super::hits::fill;
use super::rounds::{Rounds, iops, mb_per_second, median_us};
use crate::command::{cargo, output_of};

/// What is read fits in memory as a whole.
const HOT_BYTES: u64 = 256 << 20;
/// A quarter of that does: what is read is four times as much.
const SMALL_MEMORY: &str = "64M";
const SSD_BYTES: u64 = 1 << 30;
const ARRAY_BYTES: u64 = 1 << 30;
/// 85 us for a random read of 4 KiB: Intel SSD DC P4500, 1 and 2 TB, by Lenovo's product guide of it.
const SSD_SPEED: &str = "emulated-ssd:iops=11765,rate=2G,flush=1ms,file=";
/// Each page is read twice before it is in memory; so often some seconds of random reads may be needed for all of them.
const WARMINGS_MAX: u64 = 8;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let mut figures = hits(bench)?;
    figures.push(shallow(bench)?);
    figures.push(larger_set(bench)?);
    figures.push(streams(bench)?);
    for (block_kib, seconds_max) in [(64, 3.0), (1024, 4.0)] {
        figures.push(small_set(block_kib, seconds_max)?);
    }
    Ok(figures)
}

/// How long a small set takes to be warm at default settings, where the disks alone decide that: in virtual time.
fn small_set(block_kib: u32, seconds_max: f64) -> Result<Figure> {
    let size = block_kib.to_string();
    let example =
        ["run", "--quiet", "--release", "--package=hotset-cache", "--example=warm_up", "--", "set", &size, "32"];
    let told = output_of(cargo(&example))?;
    let seconds = told.split_once(": ").and_then(|(_, told)| told.split(' ').next()?.parse().ok());
    let what = format!("warm-up of 128 MiB, blocks of {block_kib} KiB, four emulated disks, 32 hosts: time to 90 %");
    let seconds = seconds.with_context(|| format!("the example printed {told:?}"))?;
    Ok(figure(what, "s", seconds, seconds_max, &format!("in virtual time: {}", told.trim())))
}

fn hits(bench: &Bench) -> Result<Vec<Figure>> {
    let raw = bench.scratch.written_file("memory-raw", HOT_BYTES)?;
    let (daemon, ssd, [hot, _]) = cached_twice(bench, "memory-hits", "1G", as_it_is)?;
    let qemu = QemuNbd::start_in_page_cache(bench, &raw)?;
    let load = Load::random_4k(128, bench.seconds, HOT_BYTES);
    warm(bench, &daemon, &hot)?;
    let deep = Rounds::run(
        bench.rounds,
        &[
            Box::new(|| batching(&bench.release, &hot, load)),
            Box::new(|| fio_file(&raw, load)),
            Box::new(|| fio_nbd(&hot, load)),
            Box::new(|| fio_nbd(&qemu.export, load)),
        ],
    )?;
    drop((daemon, qemu));
    bench.scratch.remove(&[&raw, &ssd])?;
    Ok(vec![
        deep.ratio("memory hits, 4 KiB, depth 128: our client / fio on the SSD file", "IOPS", iops, (0, 1), 3.0),
        deep.ratio(
            "memory hits, 4 KiB, depth 128: fio / qemu-nbd with the file in the page cache",
            "IOPS",
            iops,
            (2, 3),
            1.5,
        ),
    ])
}

/// One request at a time, beside an SSD that takes as long as one does: this machine's disk answers from its host's memory.
fn shallow(bench: &Bench) -> Result<Figure> {
    let spelled = |path: &Path| format!("{SSD_SPEED}{}", path.display());
    let (daemon, ssd, [hot, cold]) = cached_twice(bench, "memory-shallow", "1G", spelled)?;
    warm(bench, &daemon, &hot)?;
    let load = Load::random_4k(1, bench.seconds, HOT_BYTES);
    let rounds = Rounds::run(
        bench.rounds,
        &[Box::new(|| batching(&bench.release, &cold, load)), Box::new(|| batching(&bench.release, &hot, load))],
    )?;
    drop(daemon);
    bench.scratch.remove(&[&ssd])?;
    let what = "depth 1, emulated SSD of 85 us a read: latency of an SSD hit / of a memory hit";
    Ok(rounds.ratio(what, "us", median_us, (0, 1), 1.5))
}

/// A set four times the memory cache, all of it on the SSD.
fn larger_set(bench: &Bench) -> Result<Figure> {
    let (daemon, ssd, [with, without]) = cached_twice(bench, "memory-set", SMALL_MEMORY, as_it_is)?;
    let load = Load { pattern: Pattern::Zipf, ..Load::random_4k(128, bench.seconds, HOT_BYTES) };
    // The queues have seen the whole of it by then.
    fio_nbd(&with, Load { seconds: 2 * bench.seconds, ..load })?;
    let rounds = Rounds::run(bench.rounds, &[Box::new(|| fio_nbd(&with, load)), Box::new(|| fio_nbd(&without, load))])?;
    drop(daemon);
    bench.scratch.remove(&[&ssd])?;
    Ok(rounds.ratio("a set of 4 x the memory cache, zipf 1.1, fio: memory cache on / off", "IOPS", iops, (0, 1), 1.3))
}

/// On an emulated array, without an SSD.
fn streams(bench: &Bench) -> Result<Figure> {
    let daemon = Daemon::start_with(bench, "memory-streams", &["--memory-cache", "256M"])?;
    let stores = ["ahead", "plain"].map(|name| bench.scratch.store_in_memory(&format!("{name}-array"), ARRAY_BYTES));
    let [ahead_store, plain_store] = stores;
    let (ahead_store, plain_store) = (ahead_store?, plain_store?);
    let array = |store: &Path| format!("emulated:preset=b1,size=1G,file={}", store.display());
    let ahead = daemon.create_volume("ahead", &array(&ahead_store))?;
    let plain = daemon.create_volume("plain", &array(&plain_store))?;
    daemon.verb(&["volume", "set", "plain", "read-ahead=off"])?;
    let load = Load { depth: 1, ..Load::sequential_1m(bench.seconds, ARRAY_BYTES) };
    let rounds = Rounds::run(
        bench.rounds,
        &[Box::new(|| batching(&bench.release, &ahead, load)), Box::new(|| batching(&bench.release, &plain, load))],
    )?;
    drop(daemon);
    bench.scratch.remove(&[&ahead_store, &plain_store])?;
    Ok(rounds.ratio(
        "1 MiB sequential reads at depth 1, emulated array: read ahead / not",
        "MB/s",
        mb_per_second,
        (0, 1),
        1.5,
    ))
}

/// Two volumes that are on the SSD as a whole; the first has pages in memory, too.
fn cached_twice(
    bench: &Bench,
    name: &str,
    memory: &str,
    spell: impl Fn(&Path) -> String,
) -> Result<(Daemon, PathBuf, [Export; 2])> {
    let daemon = Daemon::start_with(bench, name, &["--memory-cache", memory])?;
    let ssd = daemon.create_pool_on(bench, name, SSD_BYTES, spell, &["--populate-on-read", "1"])?;
    let volume = |volume: &str| -> Result<Export> {
        let backing = bench.scratch.written_file(&format!("{name}-{volume}"), HOT_BYTES)?;
        let export = daemon.create_volume(volume, &backing.to_string_lossy())?;
        daemon.enable_cache(volume, name)?;
        fill(bench, &daemon, name, &export, 256 << 20)?;
        Ok(export)
    };
    let exports = [volume("with")?, volume("without")?];
    daemon.verb(&["volume", "set", "without", "memory-cache=off"])?;
    Ok((daemon, ssd, exports))
}

fn as_it_is(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Reads until memory answers everything.
fn warm(bench: &Bench, daemon: &Daemon, export: &Export) -> Result<()> {
    let load = Load::random_4k(128, bench.seconds, HOT_BYTES);
    for _ in 0..WARMINGS_MAX {
        let memory_hits = || daemon.number("volume", &export.name, &["stats", "memory_hits"]);
        let reads = || daemon.number("volume", &export.name, &["stats", "reads"]);
        let before = (memory_hits()?, reads()?);
        batching(&bench.release, export, load)?;
        if (memory_hits()? - before.0) / (reads()? - before.1).max(1.0) > 0.999 {
            return Ok(());
        }
    }
    bail!("memory does not answer all reads of {} after {WARMINGS_MAX} rounds", export.name)
}
