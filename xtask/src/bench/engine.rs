//! The engine without devices and sockets: criterion's figures of `crates/cache/benches/hit.rs`.

use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::figure::{Figure, Judged, Target};
use crate::command::{cargo, target_dir, watch};

/// What the benchmark's own lines about memory start with.
const MEMORY: &str = "memory per GB of 64 KiB slots, checksums ";

/// Of the benchmark of writes: writers at once, and writes of one iteration.
const WRITERS: f64 = 128.0;
const WRITES: f64 = 1000.0 * WRITERS;

const NAMES: &[&str] = &[
    "part_device_copies_4k",
    "hit_4k_with_checksums",
    "hit_4k_without_checksums",
    "writes/write_back_4k",
    "writes/part_writers_alone",
    "part_copy_into_a_batch",
    "part_checksum_4k",
];

pub(crate) fn measure() -> Result<Vec<Figure>> {
    let estimates = Estimates::none_yet(target_dir()?.join("criterion"), NAMES)?;
    let mut lines = Vec::new();
    let command = cargo(&["bench", "--quiet", "--package=hotset-cache-benches", "--bench=hit"]);
    if !watch(command, |line| lines.push(line.to_owned()))? {
        bail!("the engine's benchmark failed");
    }
    // The memory device is not instant: it copies.
    let copy_us = estimates.nanoseconds("part_device_copies_4k")? / 1000.0;
    let mut figures = Vec::new();
    for (name, what) in [
        ("hit_4k_with_checksums", "CPU of the engine per 4 KiB hit, instant devices, one thread"),
        ("hit_4k_without_checksums", "the same, checksums off"),
    ] {
        let whole_us = estimates.nanoseconds(name)? / 1000.0;
        let note = format!("{whole_us:.3} us in all, less {copy_us:.3} us in which the memory device copies the page");
        figures.push(figure(what.to_owned(), "us", whole_us - copy_us, 0.5, &note));
    }
    let write_us = estimates.nanoseconds("writes/write_back_4k")? / 1000.0 / WRITES;
    let writers_us = estimates.nanoseconds("writes/part_writers_alone")? / 1000.0 / WRITES;
    let batched_us = estimates.nanoseconds("part_copy_into_a_batch")? / 1000.0 / WRITERS;
    let checksum_us = estimates.nanoseconds("part_checksum_4k")? / 1000.0;
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

/// What criterion writes down of its benchmarks, in this run alone.
pub(super) struct Estimates {
    folder: PathBuf,
    names: &'static [&'static str],
}

impl Estimates {
    /// Before the run: removes what an earlier one left of these benchmarks.
    pub(super) fn none_yet(folder: PathBuf, names: &'static [&'static str]) -> Result<Self> {
        let estimates = Self { folder, names };
        for name in names {
            let path = estimates.path(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", path.display()));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(estimates)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name).join("new/estimates.json")
    }

    /// The median of one of them.
    pub(super) fn nanoseconds(&self, name: &str) -> Result<f64> {
        assert!(self.names.contains(&name), "{name} may be an earlier run's");
        let path = self.path(name);
        let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let document: Value =
            serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))?;
        document["median"]["point_estimate"].as_f64().with_context(|| format!("{} has no median", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_run_measured_is_not_taken_for_this_one() {
        let folder = std::env::temp_dir().join(format!("xtask-engine-{}", std::process::id()));
        let write = |name: &str| {
            let path = folder.join(name).join("new");
            std::fs::create_dir_all(&path).expect("it can be made");
            std::fs::write(path.join("estimates.json"), r#"{"median":{"point_estimate":7.5}}"#)
                .expect("it can be written");
        };
        write("copy");
        write("writes/one");
        let estimates = Estimates::none_yet(folder.clone(), &["copy", "writes/one", "never"]);
        let estimates = estimates.expect("the third is not there");
        write("writes/one");
        let read = ["copy", "writes/one", "never"].map(|name| estimates.nanoseconds(name).ok());
        std::fs::remove_dir_all(&folder).expect("it can be removed");
        assert_eq!(read, [None, Some(7.5), None]);
    }
}
