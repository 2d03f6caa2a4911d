//! How long it takes until a cold cache serves a working set, against the time in which the array could stream it.
//!
//! The array is emulated, and blocks and threshold are those of requirement B1. The whole volume is the working set. Its
//! streaming rate is measured over the same connection, without the cache, before every warm-up.

use anyhow::{Context, Result, bail};

use super::Bench;
use super::clients::{Export, Load, batching, batching_command, value_of};
use super::daemon::Daemon;
use super::figure::{Figure, Judged, Target};
use super::statistics::median;
use crate::command::output_within;

const VOLUME: &str = "4G";
const VOLUME_BYTES: u64 = 4 << 30;
const SSD_BYTES: u64 = VOLUME_BYTES + VOLUME_BYTES / 4;
/// Blocks of 4 MiB, filled when they are read for the first time.
const POOL: &[&str] = &["--block-size", "4M", "--populate-on-read", "1"];
const DEPTH: u64 = 128;
const STREAM_DEPTH: u64 = 32;
/// IOPS are counted over intervals of this length.
const INTERVAL_MS: u64 = 100;
/// Of these last intervals, the final IOPS are the median.
const FINAL_INTERVALS: usize = 30;
/// The share of the final IOPS at which a cache is called warm.
const WARM: f64 = 0.9;
/// Times the streaming time.
const TARGET: f64 = 2.0;

struct WarmUp {
    seconds: f64,
    streaming_seconds: f64,
    streaming_mb_per_second: f64,
    first_iops: f64,
    final_iops: f64,
    hit_ratio: f64,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let daemon = Daemon::start(bench, "warm-up")?;
    let ssd = daemon.create_pool(bench, "warm-up", SSD_BYTES, POOL)?;
    let store = bench.scratch.store_in_memory("array", VOLUME_BYTES)?;
    let backing = format!("emulated:preset=b1,size={VOLUME},file={}", store.display());
    let volume = daemon.create_volume("array", &backing)?;
    daemon.set_fetch_rate("warm-up", "high")?;
    let mut seen = Vec::new();
    for _ in 0..bench.rounds.div_ceil(2) {
        seen.push(warm_up(bench, &daemon, &volume)?);
    }
    drop(daemon);
    bench.scratch.remove(&[&ssd, &store])?;
    let middle = |field: fn(&WarmUp) -> f64| median(seen.iter().map(field));
    Ok(vec![Figure {
        what: format!("warm-up, fetch rate high: 90 % of the final IOPS / {VOLUME}iB at the array's streaming rate"),
        unit: "s",
        measured: Some(middle(|seen| seen.seconds)),
        reference: Some(middle(|seen| seen.streaming_seconds)),
        judged: Judged::Ratio(middle(|seen| seen.seconds / seen.streaming_seconds)),
        target: Target::AtMost(TARGET),
        note: format!(
            "{:.0} IOPS at first, {:.0} at the end (hit ratio {:.4}); the array streams {:.0} MB/s over this connection",
            middle(|seen| seen.first_iops),
            middle(|seen| seen.final_iops),
            middle(|seen| seen.hit_ratio),
            middle(|seen| seen.streaming_mb_per_second)
        ),
    }])
}

fn warm_up(bench: &Bench, daemon: &Daemon, volume: &Export) -> Result<WarmUp> {
    // Deep enough for all disks to stream.
    let stream = Load { depth: STREAM_DEPTH, ..Load::sequential_1m(bench.seconds, VOLUME_BYTES) };
    let stream = batching(&bench.release, volume, stream)?;
    let streaming_seconds = f64::from(u32::try_from(VOLUME_BYTES >> 20)?) * 1.048_576 / stream.mb_per_second;
    daemon.enable_cache(&volume.name, "warm-up")?;
    let samples = load(bench, volume, limit_seconds(streaming_seconds))?;
    let before = daemon.counters(&volume.name)?;
    batching(&bench.release, volume, Load::random_4k(DEPTH, 1, VOLUME_BYTES))?;
    let hit_ratio = daemon.counters(&volume.name)?.hit_ratio_since(&before);
    daemon.disable_cache(&volume.name)?;
    let last = &samples[samples.len().saturating_sub(FINAL_INTERVALS)..];
    let final_iops = median(last.iter().map(|sample| sample.iops));
    let warm = samples.iter().find(|sample| sample.iops >= WARM * final_iops);
    Ok(WarmUp {
        seconds: warm.context("the load printed no intervals")?.at_seconds,
        streaming_seconds,
        streaming_mb_per_second: stream.mb_per_second,
        first_iops: samples.first().map_or(0.0, |sample| sample.iops),
        final_iops,
        hit_ratio,
    })
}

/// Long enough to warm up three times slower than promised, and to see the end.
#[allow(clippy::as_conversions, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds")]
fn limit_seconds(streaming_seconds: f64) -> u64 {
    (streaming_seconds * TARGET * 3.0).clamp(15.0, 60.0) as u64
}

struct Sample {
    /// Since the start of the load, at the end of the interval.
    at_seconds: f64,
    iops: f64,
}

fn load(bench: &Bench, volume: &Export, seconds: u64) -> Result<Vec<Sample>> {
    let load = Load::random_4k(DEPTH, seconds, VOLUME_BYTES);
    let mut client = batching_command(&bench.release, volume, load);
    client.arg(format!("interval={INTERVAL_MS}"));
    let text = output_within(client, load.limit())?;
    let samples: Vec<Sample> = text.lines().filter_map(sample).collect();
    if samples.len() < 2 * FINAL_INTERVALS {
        bail!("nbd_load printed too few intervals: {text}");
    }
    Ok(samples)
}

fn sample(line: &str) -> Option<Sample> {
    let at_seconds = value_of(line, "at_ms")? / 1000.0;
    Some(Sample { at_seconds, iops: value_of(line, "iops")? })
}
