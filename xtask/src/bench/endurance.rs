//! Random writes as fast as they are taken, for an hour or as long as is asked: whether memory stays flat and no write waits
//! for long. Not part of a run of everything. What was seen is drawn, and kept as a table.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use plotters::prelude::BLUE;

use super::Bench;
use super::clients::{Access, Load, batching_command, value_of};
use super::cpu::resident_bytes_of;
use super::daemon::Daemon;
use super::figure::{Figure, Judged, Target};
use super::statistics::median;
use crate::command::root;
use crate::over_minutes::{self, Plot};
use crate::running::Running;

const SSD_BYTES: u64 = 1 << 30;
const VOLUME_BYTES: u64 = 4 << 30;
/// The emulated array of the vendors' tests.
const ARRAY: &str = "preset=b1,size=4G";
const DEPTH: u64 = 128;
const INTERVAL_MS: u64 = 1000;
/// Until then, caches fill and the log is not full.
const START_SHARE: f64 = 0.1;
/// What memory may grow from the first tenth after the start to the last, and the p99 of any minute in times of the median
/// minute's.
const GROWTH_MOST: f64 = 1.05;
const P99_MOST: f64 = 5.0;

/// One number of a second.
type Field = fn(&Second) -> f64;

/// One second.
#[derive(Clone, Copy)]
struct Second {
    at_seconds: f64,
    iops: f64,
    p99_ms: f64,
    resident_mb: f64,
    dirty_mb: f64,
}

pub(crate) fn measure(bench: &Bench, minutes: u64) -> Result<Vec<Figure>> {
    let store = bench.scratch.store_in_memory("endurance", VOLUME_BYTES)?;
    let daemon = Daemon::start(bench, "endurance")?;
    let ssds = daemon.create_pair(bench, "endurance", SSD_BYTES, |path| path.to_string_lossy().into_owned())?;
    let volume = daemon.create_volume("endurance", &format!("emulated:{ARRAY},file={}", store.display()))?;
    daemon.enable_cache("endurance", "endurance")?;
    let load = Load { access: Access::Write, ..Load::random_4k(DEPTH, 60 * minutes, VOLUME_BYTES) };
    let mut client = batching_command(&bench.release, &volume, load);
    client.arg(format!("interval={INTERVAL_MS}")).stdout(Stdio::piped());
    let mut running = Running::start(&mut client)?;
    let mut seconds = Vec::new();
    let mut last = String::new();
    let deadline = Instant::now() + load.limit();
    for line in running.lines_until(deadline) {
        last = String::from_utf8(line?).context("nbd_load printed something else than text")?;
        let Some(at_ms) = value_of(&last, "at_ms") else { continue };
        let number = |key| value_of(&last, key).with_context(|| format!("nbd_load printed no {key}: {last}"));
        seconds.push(Second {
            at_seconds: at_ms / 1000.0,
            iops: number("iops")?,
            p99_ms: number("p99_us")? / 1000.0,
            resident_mb: resident_bytes_of(volume.server)? / 1e6,
            dirty_mb: daemon.number("pool", "endurance", &["write_log", "dirty_bytes"])? / 1e6,
        });
    }
    running.wait_until(deadline)?;
    if value_of(&last, "errors") != Some(0.0) {
        bail!("nbd_load met errors: {last}");
    }
    daemon.verb(&["volume", "disable-cache", "endurance", "--force", "--yes-lose-data"])?;
    drop(daemon);
    bench.scratch.remove(&[&store, &ssds[0], &ssds[1]])?;
    let folder = root().join("bench-results");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("endurance.csv"), table(&seconds))?;
    let picture = folder.join("endurance.svg");
    draw(&picture, &seconds).map_err(|error| anyhow!("cannot draw {}: {error}", picture.display()))?;
    println!("    drawn: {}", picture.display());
    Ok(figures(&seconds, minutes))
}

fn table(seconds: &[Second]) -> String {
    let mut text = "seconds,iops,p99_ms,resident_mb,dirty_mb\n".to_owned();
    for second in seconds {
        let Second { at_seconds, iops, p99_ms, resident_mb, dirty_mb } = second;
        let line = writeln!(text, "{at_seconds:.1},{iops:.0},{p99_ms:.3},{resident_mb:.2},{dirty_mb:.1}");
        line.expect("a string takes everything");
    }
    text
}

fn figures(seconds: &[Second], minutes: u64) -> Vec<Figure> {
    let end = seconds.last().map_or(0.0, |second| second.at_seconds);
    let part = |from: f64, to: f64, field: Field| {
        let within = seconds.iter().filter(|second| (from * end..=to * end).contains(&second.at_seconds));
        median(within.map(field))
    };
    let resident = |second: &Second| second.resident_mb;
    let (early, late) = (part(START_SHARE, 2.0 * START_SHARE, resident), part(1.0 - START_SHARE, 1.0, resident));
    let steady: Vec<&Second> = seconds.iter().filter(|second| second.at_seconds >= START_SHARE * end).collect();
    let by_minute: Vec<f64> =
        steady.chunks(60).map(|minute| median(minute.iter().map(|second| second.p99_ms))).collect();
    let (usual, worst) = (median(by_minute.iter().copied()), by_minute.iter().copied().fold(0.0, f64::max));
    let longest = steady.iter().map(|second| second.p99_ms).fold(0.0, f64::max);
    vec![
        Figure {
            what: format!("{minutes} min of 4 KiB random writes, emulated array: memory, last tenth / second tenth"),
            unit: "MB",
            measured: Some(late),
            reference: Some(early),
            judged: Judged::Ratio(late / early),
            target: Target::AtMost(GROWTH_MOST),
            note: format!("{:.0} IOPS (median second)", part(START_SHARE, 1.0, |second| second.iops)),
        },
        Figure {
            what: "the same: p99 of the worst minute / of the usual one".to_owned(),
            unit: "ms",
            measured: Some(worst),
            reference: Some(usual),
            judged: Judged::Ratio(worst / usual),
            target: Target::AtMost(P99_MOST),
            note: format!("the worst second's p99: {longest:.1} ms"),
        },
    ]
}

/// Four plots, one below the other, over the minutes of the run.
fn draw(path: &Path, seconds: &[Second]) -> std::result::Result<(), Box<dyn std::error::Error>> {
    const STEPS: usize = 720;
    let minutes = seconds.last().map_or(1.0, |second| second.at_seconds) / 60.0;
    // No more points than can be seen: the largest of each group.
    let group = seconds.len().div_ceil(STEPS).max(1);
    let plot = |title, field: Field| {
        let points = seconds.chunks(group).map(|group| {
            let most = group.iter().map(field).fold(0.0, f64::max);
            (group[0].at_seconds / 60.0, most)
        });
        Plot { title, lines: vec![(points.collect(), BLUE)] }
    };
    let plots = [
        plot("4 KiB random writes per second", |second| second.iops),
        plot("p99 of their latency in ms", |second| second.p99_ms),
        plot("memory of the daemon in MB", |second| second.resident_mb),
        plot("dirty data in MB", |second| second.dirty_mb),
    ];
    over_minutes::draw(path, minutes, &plots)
}
