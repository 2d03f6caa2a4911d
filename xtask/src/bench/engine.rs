//! The engine without devices and sockets: criterion's figures of `crates/cache/benches/hit.rs`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::figure::{Figure, Judged, Target};
use crate::command::{cargo, target_dir, watch};

/// What the benchmark's own lines about memory start with.
const MEMORY: &str = "memory per GB of 64 KiB slots, checksums ";

/// Of the benchmark of writes: writers at once, and writes of one iteration.
const WRITERS: f64 = 128.0;
const WRITES: f64 = 1000.0 * WRITERS;

pub(crate) fn measure() -> Result<Vec<Figure>> {
    let mut lines = Vec::new();
    let command = cargo(&["bench", "--quiet", "--package=hotset-cache-benches", "--bench=hit"]);
    if !watch(command, |line| lines.push(line.to_owned()))? {
        bail!("the engine's benchmark failed");
    }
    let estimates = target_dir()?.join("criterion");
    // The memory device is not instant: it copies.
    let copy_us = nanoseconds(&estimates, "part_device_copies_4k")? / 1000.0;
    let mut figures = Vec::new();
    for (name, what) in [
        ("hit_4k_with_checksums", "CPU of the engine per 4 KiB hit, instant devices, one thread"),
        ("hit_4k_without_checksums", "the same, checksums off"),
    ] {
        let whole_us = nanoseconds(&estimates, name)? / 1000.0;
        let note = format!("{whole_us:.3} us in all, less {copy_us:.3} us in which the memory device copies the page");
        figures.push(figure(what.to_owned(), "us", whole_us - copy_us, 0.5, &note));
    }
    let write_us = nanoseconds(&estimates, "writes/write_back_4k")? / 1000.0 / WRITES;
    let writers_us = nanoseconds(&estimates, "writes/part_writers_alone")? / 1000.0 / WRITES;
    let batched_us = nanoseconds(&estimates, "part_copy_into_a_batch")? / 1000.0 / WRITERS;
    let checksum_us = nanoseconds(&estimates, "part_checksum_4k")? / 1000.0;
    let note = format!(
        "{write_us:.3} us in all, less {writers_us:.3} us of the tasks that write: {batched_us:.3} us for the copy of the page into \
         its batch, {checksum_us:.3} us for its checksum, and the rest"
    );
    let what = "CPU of the engine per write-back write, instant devices, one thread".to_owned();
    figures.push(figure(what, "us", write_us - writers_us, 0.7, &note));
    for (checksums, most) in [("on", 1.5), ("off", 0.46)] {
        let start = format!("{MEMORY}{checksums}: ");
        let found = lines.iter().find_map(|line| line.strip_prefix(&start));
        let note = found.with_context(|| format!("the engine's benchmark did not print {start:?}"))?;
        let megabytes = note.split(' ').next().and_then(|word| word.parse().ok()).context("no number of MB")?;
        figures.push(figure(format!("{MEMORY}{checksums}"), "MB", megabytes, most, note));
    }
    Ok(figures)
}

/// What may be so much at most.
pub(super) fn figure(what: String, unit: &'static str, measured: f64, most: f64, note: &str) -> Figure {
    let note = note.to_owned();
    let (judged, target) = (Judged::Measured, Target::AtMost(most));
    Figure { what, unit, measured: Some(measured), reference: None, judged, target, note }
}

/// The median that criterion wrote down.
/// The median of a benchmark.
pub(super) fn nanoseconds(estimates: &Path, name: &str) -> Result<f64> {
    let path = estimates.join(name).join("new/estimates.json");
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let document: Value = serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))?;
    document["median"]["point_estimate"].as_f64().with_context(|| format!("{} has no median", path.display()))
}
