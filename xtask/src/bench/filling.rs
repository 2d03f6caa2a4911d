//! What hosts get from an array while the cache fills from it.
//!
//! The array is emulated (requirement B1), its volume far larger than the pool, and one read makes a block hot: blocks
//! enter the cache, and leave it, for as long as the load lasts, and hits stay so rare that they explain nothing. The
//! hit ratio is printed.

use anyhow::Result;

use super::Bench;
use super::clients::{Export, Load, Measured, batching};
use super::daemon::{Counters, Daemon};
use super::figure::{Figure, Judged, Target};
use super::statistics::median;

const VOLUME: &str = "8G";
const VOLUME_BYTES: u64 = 8 << 30;
const SSD_BYTES: u64 = 256 << 20;
const DEPTH: u64 = 128;
/// Under load before it is measured, so that fills are under way.
const SETTLE_SECONDS: u64 = 2;

/// The fetch rates, and the least share of the uncached array's requests that hosts keep.
const RATES: [(&str, f64); 3] = [("low", 0.9), ("medium", 0.7), ("high", 0.4)];

/// At one rate, by round.
#[derive(Default)]
struct Seen {
    iops: Vec<f64>,
    ratios: Vec<f64>,
    hit_ratios: Vec<f64>,
    filled_mb_per_second: Vec<f64>,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let daemon = Daemon::start(bench, "filling")?;
    let ssd = daemon.create_pool(bench, "filling", SSD_BYTES, &["--populate-on-read", "1"])?;
    let store = bench.scratch.store_in_memory("array", VOLUME_BYTES)?;
    let backing = format!("emulated:preset=b1,size={VOLUME},file={}", store.display());
    let volume = daemon.create_volume("array", &backing)?;
    let seconds = 2 * bench.seconds;
    let mut uncached = Vec::new();
    let mut seen: [Seen; RATES.len()] = Default::default();
    // Each measurement takes twice as long as others and waits for a steady state first: fewer rounds.
    for _ in 0..bench.rounds.div_ceil(2) {
        let alone = run(bench, &volume, seconds)?.iops;
        uncached.push(alone);
        for ((rate, _), seen) in RATES.iter().zip(&mut seen) {
            daemon.set_fetch_rate("filling", rate)?;
            daemon.enable_cache("array", "filling")?;
            run(bench, &volume, SETTLE_SECONDS)?;
            let before = daemon.counters("array")?;
            let measured = run(bench, &volume, seconds)?;
            let after = daemon.counters("array")?;
            daemon.disable_cache("array")?;
            seen.add(&measured, alone, (&before, &after));
        }
    }
    drop(daemon);
    bench.scratch.remove(&[&ssd, &store])?;
    Ok(RATES.iter().zip(&seen).map(|(rate, seen)| seen.figure(*rate, &uncached)).collect())
}

fn run(bench: &Bench, volume: &Export, seconds: u64) -> Result<Measured> {
    batching(&bench.release, volume, Load::random_4k(DEPTH, seconds, VOLUME_BYTES))
}

impl Seen {
    fn add(&mut self, measured: &Measured, alone: f64, (before, after): (&Counters, &Counters)) {
        let seconds = (after.reads - before.reads) / measured.iops;
        self.iops.push(measured.iops);
        self.ratios.push(measured.iops / alone);
        self.hit_ratios.push(after.hit_ratio_since(before));
        self.filled_mb_per_second.push((after.populated_bytes - before.populated_bytes) / 1e6 / seconds);
    }

    fn figure(&self, (rate, least): (&str, f64), uncached: &[f64]) -> Figure {
        let middle = |values: &[f64]| median(values.iter().copied());
        Figure {
            what: format!("host reads while filling, fetch rate {rate}: our client / uncached array"),
            unit: "IOPS",
            measured: Some(middle(&self.iops)),
            reference: Some(middle(uncached)),
            judged: Judged::Ratio(middle(&self.ratios)),
            target: Target::AtLeast(least),
            note: format!(
                "{:.0} MB/s entered the cache; hit ratio {:.3}",
                middle(&self.filled_mb_per_second),
                middle(&self.hit_ratios)
            ),
        }
    }
}
