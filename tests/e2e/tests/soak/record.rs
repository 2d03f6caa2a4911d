//! What a run did and saw, for its report; and the rule by which memory and descriptors are flat.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// Samples of the first part of a run do not count: caches fill, and the allocator comes to know its work.
const START_SHARE: f64 = 0.1;
/// What the line through the rest may rise, from its begin to its end: a share of the mean, or so much if that is more.
const RISE_SHARE: f64 = 0.1;
const RISE_BYTES: f64 = 16e6;
const RISE_DESCRIPTORS: f64 = 8.0;
/// A run that is shorter is not judged: what is done in it decides, not what is left behind.
const JUDGED_SECONDS: f64 = 300.0;

/// Memory and descriptors of a daemon at one moment.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) at_seconds: f64,
    pub(super) resident_bytes: f64,
    pub(super) descriptors: f64,
}

/// How often something was done, and how often it was refused.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) done: u64,
    pub(super) refused: u64,
}

/// What one world did and saw.
#[derive(Default)]
pub(super) struct Record {
    /// Its daemon was never replaced.
    pub(super) lasting: bool,
    pub(super) steps: BTreeMap<&'static str, Count>,
    pub(super) faults: BTreeMap<String, u64>,
    /// What was refused, by the words of the refusal.
    pub(super) refusals: BTreeMap<String, u64>,
    pub(super) requests: u64,
    pub(super) longest_pause: Duration,
    pub(super) samples: Vec<Sample>,
}

impl Record {
    pub(super) fn count(&mut self, what: &'static str, done: bool) {
        let count = self.steps.entry(what).or_default();
        if done {
            count.done += 1;
        } else {
            count.refused += 1;
        }
    }

    pub(super) fn flatness(&self) -> Flatness {
        let end = self.samples.last().map_or(0.0, |sample| sample.at_seconds);
        let counted = self.samples.iter().filter(|sample| sample.at_seconds >= START_SHARE * end);
        let line = |field: fn(&Sample) -> f64| {
            let points: Vec<(f64, f64)> = counted.clone().map(|sample| (sample.at_seconds, field(sample))).collect();
            Line::through(&points)
        };
        Flatness {
            is_judged: end >= JUDGED_SECONDS,
            memory: line(|sample| sample.resident_bytes),
            descriptors: line(|sample| sample.descriptors),
        }
    }

    fn to_json(&self) -> Value {
        let steps: BTreeMap<_, _> =
            self.steps.iter().map(|(what, count)| (*what, json!([count.done, count.refused]))).collect();
        let samples =
            self.samples.iter().map(|sample| json!([sample.at_seconds, sample.resident_bytes, sample.descriptors]));
        json!({
            "lasting": self.lasting,
            "steps": steps,
            "faults": self.faults,
            "refusals": self.refusals,
            "requests": self.requests,
            "longest_pause_seconds": self.longest_pause.as_secs_f64(),
            "samples": samples.collect::<Vec<_>>(),
            "flatness": self.flatness().told(),
        })
    }
}

/// The straight line that fits best: what it is on average, and how much it rises from the first point to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    mean: f64,
    rise: f64,
}

impl Line {
    fn through(points: &[(f64, f64)]) -> Self {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return Self::default() };
        let sum = |term: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(term).sum::<f64>();
        let count = sum(&|_| 1.0);
        let (at, mean) = (sum(&|point| point.0) / count, sum(&|point| point.1) / count);
        let spread = sum(&|point| (point.0 - at).powi(2));
        let slope = if spread > 0.0 { sum(&|point| (point.0 - at) * (point.1 - mean)) / spread } else { 0.0 };
        Self { mean, rise: slope * (last.0 - first.0) }
    }

    fn is_flat(self, rise_most: f64) -> bool {
        self.rise <= rise_most.max(RISE_SHARE * self.mean)
    }
}

/// See the file's summary.
pub(super) struct Flatness {
    is_judged: bool,
    memory: Line,
    descriptors: Line,
}

impl Flatness {
    /// Panics if they are not flat; says what they are.
    pub(super) fn judge(&self) -> String {
        assert!(
            !self.is_judged || (self.memory.is_flat(RISE_BYTES) && self.descriptors.is_flat(RISE_DESCRIPTORS)),
            "{}",
            self.told()
        );
        self.told()
    }

    fn told(&self) -> String {
        let (memory, descriptors) = (self.memory, self.descriptors);
        format!(
            "memory {:.1} MB, the line through it rises by {:.1} MB; {:.1} descriptors, by {:.1}",
            memory.mean / 1e6,
            memory.rise / 1e6,
            descriptors.mean,
            descriptors.rise
        )
    }
}

/// Leaves it for the report.
pub(super) fn write(folder: &Path, seed: u64, elapsed: Duration, records: &[Record]) {
    let worlds: Vec<Value> = records.iter().map(Record::to_json).collect();
    let record = json!({ "seed": seed, "seconds": elapsed.as_secs_f64(), "worlds": worlds });
    let text = serde_json::to_string_pretty(&record).expect("numbers and words are JSON");
    fs::write(folder.join("record.json"), text).expect("the folder can be written");
}

#[test]
fn a_line_that_rises_is_not_flat_whatever_jumps_about_it() {
    let saw =
        |slope: f64| (0..100).map(|at| (f64::from(at), 90.0 + slope * f64::from(at) + f64::from(at % 7))).collect();
    let points: Vec<(f64, f64)> = saw(0.0);
    assert!(Line::through(&points).is_flat(1.0), "{:?}", Line::through(&points));
    let points: Vec<(f64, f64)> = saw(0.2);
    assert!((Line::through(&points).rise - 19.8).abs() < 1.0 && !Line::through(&points).is_flat(1.0));
    assert!(Line::through(&points).is_flat(25.0));
    assert!(Line::through(&[]).is_flat(0.0));
}
