//! B9: each mode beside no cache, with more and more threads, as far as requests take no longer than 100 ms.

use std::fmt::Write as _;

use anyhow::Result;

use super::super::Bench;
use super::super::clients::{Access, Export, Load, Pattern};
use super::plot::{Axis, Panel, Shape};
use super::rig::{Kind, Rig, Ssds, random};
use super::sheet::{Row, Sheet, Unit, Vendor};

const ARRAY: &str = "preset=b9,disk-cache=1M";
const SPEED: &str = "iops=50000,rate=500MB,flush=100us";
const DATA_BYTES: u64 = 768 << 20;
/// Of each of two SSDs.
const SSD_BYTES: u64 = 320 << 20;
const OPTIONS: &[&str] = &["--block-size", "1M", "--populate-on-read", "1", "--populate-on-write", "1"];
const READ_OPTIONS: &[&str] = &["--block-size", "1M", "--populate-on-read", "1", "--populate-on-write", "0"];
/// A thread of the vendor's has one request in flight.
const THREADS: [u64; 4] = [1, 4, 16, 64];
const LATENCY_LIMIT_MS: f64 = 100.0;

/// What the vendor calls it, the kind of pool, and what we call it.
const MODES: [(&str, Kind, &str); 4] = [
    ("read-only", Kind::Read, ""),
    ("+WT", Kind::ReadWrite, "write-through"),
    ("+WB", Kind::ReadWrite, "write-back"),
    ("+INSTWB", Kind::ReadWrite, "instant-write-back"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Test {
    RandomRead,
    RandomWrite,
    SequentialRead,
    SequentialWrite,
}

impl Test {
    /// Writes last: a mode's dirty data is none of the reads' business.
    const ALL: [Self; 4] = [Self::RandomRead, Self::SequentialRead, Self::SequentialWrite, Self::RandomWrite];

    fn name(self) -> &'static str {
        match self {
            Self::RandomRead => "4 KiB random reads",
            Self::RandomWrite => "4 KiB random writes",
            Self::SequentialRead => "1 MiB sequential reads",
            Self::SequentialWrite => "1 MiB sequential writes",
        }
    }

    fn unit(self) -> Unit {
        match self {
            Self::RandomRead | Self::RandomWrite => Unit::Iops,
            Self::SequentialRead | Self::SequentialWrite => Unit::MbPerSecond,
        }
    }

    fn load(self, threads: u64, seconds: u64, span_bytes: u64) -> Load {
        let (access, pattern, request_bytes) = match self {
            Self::RandomRead => (Access::Read, Pattern::Random, 4096),
            Self::RandomWrite => (Access::Write, Pattern::Random, 4096),
            Self::SequentialRead => (Access::Read, Pattern::Sequential, 1 << 20),
            Self::SequentialWrite => (Access::Write, Pattern::Sequential, 1 << 20),
        };
        Load { pattern, ..random(access, request_bytes, threads, seconds, span_bytes) }
    }

    /// The middle of what the vendor published.
    fn vendor(self, mode: &str) -> Vendor {
        let rates = |without, with| Row::new("", Some((without, with)), (1.0, 1.0)).vendor;
        match (self, mode) {
            (Self::RandomRead, _) => rates(1100.0, 2000.0),
            (Self::RandomWrite, "+WB" | "+INSTWB") => rates(300.0, 1500.0),
            (Self::SequentialWrite, "+WT" | "+INSTWB") => rates(900.0, 100.0),
            (Self::RandomWrite | Self::SequentialRead | Self::SequentialWrite, _) => Vendor::Nothing,
        }
    }
}

/// One point of a sweep.
#[derive(Clone, Copy, Debug)]
struct Point {
    threads: u64,
    /// In the test's unit.
    rate: f64,
    /// The mean: each thread has one request in flight all the time.
    latency_ms: f64,
}

struct Sweep {
    test: Test,
    mode: &'static str,
    points: Vec<Point>,
}

pub(super) fn measure(bench: &Bench) -> Result<Sheet> {
    let mut sweeps = run(bench, "no cache", None)?;
    for (mode, kind, ours) in MODES {
        sweeps.extend(run(bench, mode, Some((kind, ours)))?);
    }
    let best_of = |test: Test, mode: &str| {
        let sweep = sweeps.iter().find(|sweep| sweep.test == test && sweep.mode == mode);
        sweep.and_then(|sweep| best(&sweep.points))
    };
    let mut rows = Vec::new();
    for test in Test::ALL {
        for (mode, _, _) in MODES {
            let (Some(without), Some(with)) = (best_of(test, "no cache"), best_of(test, mode)) else { continue };
            let mut note = format!("best with {} threads, {:.1} ms each", with.threads, with.latency_ms);
            write!(note, "; without a cache with {} threads, {:.1} ms", without.threads, without.latency_ms)?;
            let row = Row::new(format!("{}, {mode}", test.name()), None, (without.rate, with.rate));
            rows.push(Row { unit: Some(test.unit()), vendor: test.vendor(mode), note, ..row });
        }
    }
    Ok(Sheet {
        title: "Four modes, more and more threads, at most 100 ms",
        vendor: "6 disks, RAID 6; read-only, write-through, write-back and instant write-back; 1,100 random reads become 1,500 to 2,500 and 300 random writes 1,000 to 2,000 (the middle stands in the table); sequential writes fell from 900 MB/s to 100 and less with write-through and instant write-back, which is to be avoided",
        ours: format!("the array emulated with 6 disks, RAID 6; two SSDs emulated with {SPEED} each, in a read pool for read-only, else in a read-write pool with the volume's mode; the volume is larger than the cache, as the vendor's ratios tell"),
        scale: format!("{} MiB of data and two SSDs of {} MiB; rates are not scaled; {THREADS:?} threads, each with one request in flight; of each sweep the best rate counts at which requests took at most 100 ms in the mean", DATA_BYTES >> 20, SSD_BYTES >> 20),
        unit: Unit::Iops,
        rows,
        panels: panels(&sweeps),
        remarks: vec![
            "With write-through the array is flushed once a second while hosts write, for each flush holds up the writes beside it.".to_owned(),
            "Writes around a stream never wait for the SSDs: in write-through and write-back a stream goes to the array alone, in instant write-back up to the dirty watermark to the SSDs.".to_owned(),
        ],
    })
}

fn run(bench: &Bench, mode: &'static str, cache: Option<(Kind, &str)>) -> Result<Vec<Sweep>> {
    let scale = if bench.quick { 4 } else { 1 };
    let data = DATA_BYTES / scale;
    let rig = Rig::start(bench, &format!("b9-{}", mode.replace([' ', '+'], "")))?;
    let volume = rig.volume("data", ARRAY, data)?;
    if let Some((kind, ours)) = cache {
        let options = if kind == Kind::Read { READ_OPTIONS } else { OPTIONS };
        rig.pool("pool", kind, Ssds { count: 2, bytes: SSD_BYTES / scale, speed: SPEED }, options)?;
        rig.daemon.enable_cache("data", "pool")?;
        if kind == Kind::ReadWrite {
            rig.daemon.verb(&["volume", "set", "data", &format!("mode={ours}")])?;
        }
        rig.daemon.set_fetch_rate("pool", "high")?;
        rig.warm_up(&[&volume], Test::RandomRead.load(64, 0, data), rig.seconds(8))?;
        rig.daemon.set_fetch_rate("pool", "medium")?;
    }
    Test::ALL.into_iter().map(|test| Ok(Sweep { test, mode, points: sweep(&rig, &volume, test, data)? })).collect()
}

fn sweep(rig: &Rig<'_>, volume: &Export, test: Test, data: u64) -> Result<Vec<Point>> {
    let point = |threads: u64| {
        let measured = rig.load(&[volume], test.load(threads, rig.seconds(2), data))?;
        let rate = match test.unit() {
            Unit::MbPerSecond => measured.mb_per_second,
            Unit::Iops | Unit::Seconds => measured.iops,
        };
        let latency_ms = 1000.0 * f64::from(u32::try_from(threads)?) / measured.iops.max(f64::MIN_POSITIVE);
        Ok(Point { threads, rate, latency_ms })
    };
    rig.run_in(&[volume], test.load(THREADS[2], 0, data))?;
    THREADS.into_iter().map(point).collect()
}

/// The highest rate at which requests do not take too long; that of one thread, if all do.
fn best(points: &[Point]) -> Option<Point> {
    let within = points.iter().filter(|point| point.latency_ms <= LATENCY_LIMIT_MS);
    within.max_by(|one, other| one.rate.total_cmp(&other.rate)).or(points.first()).copied()
}

/// Of each test the rates and the latencies over the threads.
fn panels(sweeps: &[Sweep]) -> Vec<Panel> {
    let mut panels = Vec::new();
    for test in Test::ALL {
        let series = |of: fn(&Point) -> f64| {
            let lines = sweeps.iter().filter(|sweep| sweep.test == test).map(|sweep| {
                let points = sweep.points.iter();
                let threads = |point: &Point| f64::from(u32::try_from(point.threads).unwrap_or(u32::MAX));
                (sweep.mode.to_owned(), points.map(|point| (threads(point), of(point))).collect())
            });
            Shape::Lines { series: lines.collect() }
        };
        let panel = |what: &str, y: &str, axis, shape, limit| Panel {
            title: format!("{}: {what}", test.name()),
            x: "threads".to_owned(),
            y: y.to_owned(),
            axis,
            shape,
            limit,
        };
        let y = if test.unit() == Unit::Iops { "IOPS" } else { "MB/s" };
        panels.push(panel("rate", y, Axis::Linear, series(|point| point.rate), None));
        let limit = Some((LATENCY_LIMIT_MS, "100 ms".to_owned()));
        panels.push(panel("latency", "ms", Axis::Logarithmic, series(|point| point.latency_ms), limit));
    }
    panels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_rate_counts_at_which_nobody_waits_too_long() {
        let point = |threads, rate, latency_ms| Point { threads, rate, latency_ms };
        let points = [point(1, 100.0, 10.0), point(16, 900.0, 18.0), point(64, 1000.0, 120.0)];
        assert_eq!(best(&points).map(|point| point.threads), Some(16));
        assert_eq!(best(&points[2..]).map(|point| point.threads), Some(64), "there is no other");
        assert!(best(&[]).is_none());
    }

    #[test]
    fn each_test_has_its_rates_and_its_latencies_with_the_limit() {
        let points = vec![Point { threads: 4, rate: 900.0, latency_ms: 4.4 }];
        let panels = panels(&[Sweep { test: Test::SequentialWrite, mode: "+WT", points }]);
        assert_eq!(panels.len(), 8);
        let latency =
            panels.iter().find(|panel| panel.title == "1 MiB sequential writes: latency").expect("it is there");
        assert_eq!(latency.limit.as_ref().map(|limit| limit.1.as_str()), Some("100 ms"));
        let Shape::Lines { series } = &latency.shape else { panic!("lines") };
        assert_eq!(series[0], ("+WT".to_owned(), vec![(4.0, 4.4)]));
    }
}
