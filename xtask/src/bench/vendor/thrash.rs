//! B3: a database's mix, of a hot set smaller than the cache, as large, and larger.

use anyhow::{Context, Result};

use super::super::Bench;
use super::super::clients::{Access, Export, Load};
use super::super::mix::{HOT, Needs, Seen};
use super::plot::Panel;
use super::rig::{Curve, Kind, Rig, Ssds, random};
use super::sheet::{Row, Sheet, Unit};

const ARRAY: &str = "preset=b1,disk-cache=1M";
const SPEED: &str = "iops=125000,rate=1GB,flush=100us";
/// Of each of two SSDs: the vendor's 100 GB.
const SSD_BYTES: u64 = 512 << 20;
/// Of the hot set that does not fit: a fifth more than both SSDs could hold.
const LARGE_BYTES: u64 = SSD_BYTES * 2 * 6 / 5;
const REQUEST_BYTES: u64 = 8192;
const READ_PERCENT: u64 = 67;
const DEPTH: u64 = 128;
const OPTIONS: &[&str] = &["--block-size", "1M", "--populate-on-read", "2", "--populate-on-write", "1"];
const VENDOR_WITHOUT: f64 = 2799.0;
/// The hot set in percent of the vendor's cache, and its rate.
const STEPS: [(u64, f64); 3] = [(60, 64_809.0), (90, 63_660.0), (120, 3999.0)];
/// Of the best possible, what is promised for a hot set that does not fit.
const OF_IDEAL: f64 = 0.7;

struct Found {
    without: f64,
    with: f64,
    hot_bytes: u64,
    seen: Seen,
    /// What most reads that missed did so for, and how many of them.
    missed_for: (String, f64),
    curve: Curve,
    /// What the array could make of the misses and the cleaner's writes: for a hot set that does not fit.
    ideal: Option<f64>,
}

pub(super) fn measure(bench: &Bench) -> Result<Sheet> {
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    let mut remarks = vec![
        "60 and 90 % are of one SSD, as the vendor's cache is as large as one of its two; 120 % is of what dirty data leaves to clean data here, which is more: clean data is on one SSD only.".to_owned(),
    ];
    for (percent, vendor) in STEPS {
        let found = run(bench, percent)?;
        let hits = found.seen.hits / found.seen.reads.max(1.0);
        let filled = found.seen.filled_bytes / found.seen.host_bytes.max(1.0);
        if let Some(ideal) = found.ideal {
            remarks.push(format!(
                "With a hot set larger than the cache the best possible is {ideal:.0} IOPS, if five of six reads hit and the array does nothing but the other reads and the cleaner's writes; {:.2} of that was reached ({OF_IDEAL} is promised), {filled:.2} bytes were filled for each byte that the host asked for (at most 2 are promised).",
                found.with / ideal
            ));
        }
        let what = format!("hot set {percent} %");
        let note = format!(
            "{} MiB hot, {:.1} % of the reads hit ({:.0} % of the others missed as \"{}\"), {filled:.2} bytes filled for each byte of the host",
            found.hot_bytes >> 20,
            100.0 * hits,
            100.0 * found.missed_for.1,
            found.missed_for.0
        );
        rows.push(Row { note, ..Row::new(what.clone(), Some((VENDOR_WITHOUT, vendor)), (found.without, found.with)) });
        curves.push((what, found.curve));
    }
    Ok(Sheet {
        title: "8 KiB, 67 % reads, of a hot set smaller and larger than the cache",
        vendor: "the array of B1; 8 KiB, 67 % random reads at depth 128 of 60, 90 and 120 GB; two SSDs of 100 GB, mirrored, cache blocks of 1 MiB, thresholds 2 and 1",
        ours: format!(
            "the array emulated with 16 disks of 7,200 rpm, RAID 5; a read-write pool of two SSDs emulated with {SPEED} each, blocks of 1 MiB, thresholds 2 and 1"
        ),
        scale: "two SSDs of 512 MiB (1/182) and hot sets to match; rates and depth are not scaled".to_owned(),
        unit: Unit::Iops,
        rows,
        panels: vec![Panel::warm_up("Warm-up", curves)],
        remarks,
    })
}

fn run(bench: &Bench, percent: u64) -> Result<Found> {
    let scale = if bench.quick { 4 } else { 1 };
    let fits = percent < 100;
    let ssd = SSD_BYTES / scale;
    // The array's strokes are those of the hot set.
    let volume_bytes = if fits { ssd * percent / 100 } else { LARGE_BYTES / scale }.next_multiple_of(1 << 20);
    let rig = Rig::start(bench, &format!("b3-{percent}"))?;
    let volume = rig.volume("data", ARRAY, volume_bytes)?;
    rig.pool("pool", Kind::ReadWrite, Ssds { count: 2, bytes: ssd, speed: SPEED }, OPTIONS)?;
    rig.daemon.enable_cache("data", "pool")?;
    rig.daemon.set_fetch_rate("pool", "high")?;
    let hot = |rig: &Rig<'_>| if fits { Ok(volume_bytes) } else { hot_bytes(rig, volume_bytes) };
    let mut curve = rig.warm_up(&[&volume], mix(rig.seconds(8), hot(&rig)?), rig.seconds(8))?;
    // The log has taken its part of the SSDs.
    let hot_bytes = hot(&rig)?;
    let load = mix(rig.seconds(6), hot_bytes);
    let more = rig.warm_up(&[&volume], load, rig.seconds(8))?;
    let offset = curve.last().map_or(0.0, |(at, _)| *at);
    curve.extend(more.into_iter().map(|(at, iops)| (at + offset, iops)));
    rig.daemon.set_fetch_rate("pool", "medium")?;
    rig.load(&[&volume], mix(rig.seconds(2), hot_bytes))?;
    let (before, missed_before) = (Seen::now(&rig.daemon, "data")?, misses(&rig)?);
    let with = rig.load(&[&volume], load)?.iops;
    let seen = Seen::now(&rig.daemon, "data")?.since(&before);
    let missed_for = most(&missed_before, &misses(&rig)?);
    rig.daemon.verb(&["volume", "disable-cache", "data", "--force", "--yes-lose-data"])?;
    let without = rig.warmed_load(&[&volume], mix(rig.seconds(5), hot_bytes))?.iops;
    let ideal = if fits { None } else { Some(ideal(&rig, &volume, &seen, hot_bytes)?) };
    Ok(Found { without, with, hot_bytes, seen, missed_for, curve, ideal })
}

/// The volume's reads that missed, by reason.
fn misses(rig: &Rig<'_>) -> Result<Vec<(String, f64)>> {
    let shown = rig.daemon.verb(&["volume", "show", "data"])?;
    let stats = shown["stats"].as_object().context("volume show has no stats")?;
    let by_reason = |(key, value): (&String, &serde_json::Value)| {
        Some((key.strip_prefix("missed_")?.replace('_', " "), value.as_f64()?))
    };
    Ok(stats.iter().filter_map(by_reason).collect())
}

/// The reason of which most came since then, and its share.
fn most(before: &[(String, f64)], now: &[(String, f64)]) -> (String, f64) {
    let since: Vec<_> = before.iter().zip(now).map(|((name, before), (_, now))| (name, now - before)).collect();
    let sum: f64 = since.iter().map(|(_, count)| count).sum();
    let most = since.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    most.map_or_else(Default::default, |(name, count)| ((*name).clone(), count / sum.max(1.0)))
}

fn ideal(rig: &Rig<'_>, volume: &Export, seen: &Seen, hot_bytes: u64) -> Result<f64> {
    let needs = Needs::of(seen);
    let access = Access::Mixed(needs.read_percent());
    let array = rig.load(&[volume], random(access, REQUEST_BYTES, DEPTH, rig.seconds(4), hot_bytes))?;
    Ok(array.iops / needs.requests())
}

fn mix(seconds: u64, span_bytes: u64) -> Load {
    random(Access::Mixed(READ_PERCENT), REQUEST_BYTES, DEPTH, seconds, span_bytes)
}

/// What the log leaves to clean data, and a fifth more.
#[allow(clippy::as_conversions, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rounded size")]
fn hot_bytes(rig: &Rig<'_>, volume_bytes: u64) -> Result<u64> {
    let left = rig.daemon.number("pool", "pool", &["capacity_bytes"])?;
    Ok(((left * HOT) as u64).min(volume_bytes))
}
