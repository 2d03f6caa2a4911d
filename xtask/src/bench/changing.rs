//! What hosts get while an SSD's copies are made again elsewhere, while an SSD is emptied, and while everything is scrubbed:
//! at each rate, beside the same load before.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use super::Bench;
use super::clients::{Access, Export, Load, Pattern, batching, batching_command, fio_file, value_of};
use super::daemon::Daemon;
use super::figure::{Figure, Judged, Target};
use super::statistics::median;
use crate::command::output_within;

const SSDS: usize = 4;
const SSD_BYTES: u64 = 512 << 20;
const VOLUME_BYTES: u64 = 1 << 30;
/// What hosts read and write, all of it dirty: nothing has to be read from the backing device.
const SET_BYTES: u64 = 192 << 20;
const DEPTH: u64 = 32;
const READ_PERCENT: u64 = 70;
const INTERVAL_MS: u64 = 100;
const POLL: Duration = Duration::from_millis(50);
/// Longer than any of it takes at the lowest rate.
const CHANGE_LIMIT: Duration = Duration::from_secs(600);
/// What is promised at the medium rate: the share of the throughput that is left, and the p99 in times of the one before.
const IOPS_LEAST: f64 = 0.7;
const P99_MOST: f64 = 3.0;

/// What is done to the pool beside its hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Rebuild,
    Evacuation,
    Scrub,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Self::Rebuild => "a rebuild",
            Self::Evacuation => "the removal of an SSD",
            Self::Scrub => "a scrub",
        }
    }
}

/// Requests in one interval.
struct Sample {
    at: Duration,
    iops: f64,
    p99_us: f64,
}

/// What hosts saw in some intervals: medians.
struct Seen {
    iops: f64,
    p99_us: f64,
}

impl Seen {
    fn of(samples: &[&Sample]) -> Self {
        Self {
            iops: median(samples.iter().map(|sample| sample.iops)),
            p99_us: median(samples.iter().map(|sample| sample.p99_us)),
        }
    }
}

struct Pool<'a> {
    bench: &'a Bench,
    daemon: Daemon,
    volume: Export,
    ssds: Vec<PathBuf>,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let raw = bench.scratch.written_file("changing-raw", SSD_BYTES)?;
    let copy = Load { access: Access::Write, pattern: Pattern::Sequential, ..Load::sequential_1m(2, SSD_BYTES) };
    let ssd_mb = fio_file(&raw, copy)?.mb_per_second;
    let store = bench.scratch.store_in_memory("changing", VOLUME_BYTES)?;
    let daemon = Daemon::start(bench, "changing")?;
    let ssds: Vec<PathBuf> = (0..SSDS).map(|number| bench.scratch.file(&format!("changing.ssd{number}"))).collect();
    for ssd in &ssds {
        daemon.verb(&["image", "create", &ssd.to_string_lossy(), &SSD_BYTES.to_string()])?;
    }
    let spelled: Vec<String> = ssds.iter().map(|ssd| ssd.to_string_lossy().into_owned()).collect();
    let words = ["pool", "create", "changing", "--type", "read-write", "--io-type", "database", "--ssd"];
    let words: Vec<&str> = words.into_iter().chain(spelled.iter().map(String::as_str)).collect();
    daemon.verb(&words)?;
    daemon.clean_little("changing")?;
    let volume = daemon.create_volume("changing", &store.to_string_lossy())?;
    daemon.enable_cache("changing", "changing")?;
    let pool = Pool { bench, daemon, volume, ssds };
    pool.spread(4 * bench.seconds)?;
    let mut figures = Vec::new();
    for change in [Change::Scrub, Change::Evacuation, Change::Rebuild] {
        for rate in ["low", "medium", "high"] {
            figures.extend(pool.figures(change, rate, ssd_mb)?);
        }
    }
    let Pool { daemon, ssds, .. } = pool;
    drop(daemon);
    let ssds: Vec<&Path> = ssds.iter().map(PathBuf::as_path).collect();
    bench.scratch.remove(&[&[store.as_path(), raw.as_path()][..], &ssds].concat())?;
    Ok(figures)
}

impl Pool<'_> {
    fn figures(&self, change: Change, rate: &str, ssd_mb: f64) -> Result<Vec<Figure>> {
        let (flush, fetch) = (format!("flush-rate={rate}"), format!("fetch-rate={rate}"));
        self.daemon.verb(&["pool", "set", "changing", &flush, &fetch])?;
        // An SSD that just joined has its share of the log again.
        self.spread(2 * self.bench.seconds)?;
        let before = Seen::of(&self.load(self.bench.seconds)?.iter().collect::<Vec<_>>());
        let (during, took, bytes) = self.while_changing(change)?;
        let medium = rate == "medium";
        let speed = bytes / 1e6 / took.as_secs_f64();
        let mut figures = vec![
            Figure {
                what: format!("hosts during {} at rate {rate} / before", change.name()),
                unit: "IOPS",
                measured: Some(during.iops),
                reference: Some(before.iops),
                judged: Judged::Ratio(during.iops / before.iops),
                target: if medium { Target::AtLeast(IOPS_LEAST) } else { Target::None },
                note: format!("{:.0} MB in {:.1} s", bytes / 1e6, took.as_secs_f64()),
            },
            Figure {
                what: format!("their p99 during {} at rate {rate} / before", change.name()),
                unit: "us",
                measured: Some(during.p99_us),
                reference: Some(before.p99_us),
                judged: Judged::Ratio(during.p99_us / before.p99_us),
                target: if medium { Target::AtMost(P99_MOST) } else { Target::None },
                note: String::new(),
            },
        ];
        if change == Change::Rebuild {
            figures.push(Figure {
                what: format!("the rebuild at rate {rate} beside hosts / what one SSD file takes"),
                unit: "MB/s",
                measured: Some(speed),
                reference: Some(ssd_mb),
                judged: Judged::Ratio(speed / ssd_mb),
                target: Target::None,
                note: String::new(),
            });
        }
        Ok(figures)
    }

    /// Overwrites the set, some times over.
    fn spread(&self, seconds: u64) -> Result<()> {
        let written = Load { access: Access::Write, ..Load::random_4k(DEPTH, seconds, SET_BYTES) };
        batching(&self.bench.release, &self.volume, written).map(drop)
    }

    /// 4 KiB reads and writes of what is dirty.
    fn load(&self, seconds: u64) -> Result<Vec<Sample>> {
        let access = Access::Mixed(READ_PERCENT);
        let load = Load { access, ..Load::random_4k(DEPTH, seconds, SET_BYTES) };
        let mut client = batching_command(&self.bench.release, &self.volume, load);
        client.arg(format!("interval={INTERVAL_MS}"));
        let text = output_within(client, load.limit())?;
        let last = text.lines().last().unwrap_or_default();
        if value_of(last, "errors") != Some(0.0) {
            bail!("nbd_load met errors: {last}");
        }
        let sample = |line: &str| {
            let at = Duration::from_secs_f64(value_of(line, "at_ms")? / 1000.0);
            Some(Sample { at, iops: value_of(line, "iops")?, p99_us: value_of(line, "p99_us")? })
        };
        Ok(text.lines().filter_map(sample).collect())
    }

    /// Loads the volume until the change is done; what hosts saw meanwhile, how long it took and how much it copied or
    /// checked.
    fn while_changing(&self, change: Change) -> Result<(Seen, Duration, f64)> {
        let started = Instant::now();
        let (first, bytes, samples) = thread::scope(|scope| {
            let hosts = scope.spawn(|| -> Result<Vec<(Duration, Vec<Sample>)>> {
                let mut parts = Vec::new();
                while parts.is_empty() || self.is_changing(change)? {
                    if started.elapsed() > CHANGE_LIMIT {
                        bail!("{} takes longer than {CHANGE_LIMIT:?}", change.name());
                    }
                    parts.push((started.elapsed(), self.load(self.bench.seconds)?));
                }
                Ok(parts)
            });
            let changed = self.change(change, started);
            let samples = hosts.join().expect("the load does not panic")?;
            let (first, bytes) = changed?;
            anyhow::Ok((first, bytes, samples))
        })?;
        let (begin, end) = first;
        let within =
            samples.iter().flat_map(|(offset, part)| part.iter().map(move |sample| (*offset + sample.at, sample)));
        let seen: Vec<&Sample> = within.filter(|(at, _)| *at > begin && *at <= end).map(|(_, sample)| sample).collect();
        if seen.is_empty() {
            bail!("{} was over in {:?}: no interval of {INTERVAL_MS} ms lies in it", change.name(), end - begin);
        }
        self.mend(change)?;
        Ok((Seen::of(&seen), end - begin, bytes))
    }

    /// Begins the change when hosts are at work, and waits for its end: when it was, and how many bytes it took.
    fn change(&self, change: Change, started: Instant) -> Result<((Duration, Duration), f64)> {
        thread::sleep(Duration::from_millis(5 * INTERVAL_MS));
        let begin = started.elapsed();
        let bytes = thread::scope(|scope| {
            let verb = scope.spawn(|| self.begin(change));
            let mut bytes: f64 = 0.0;
            // A failure is only noticed when hosts meet it.
            let mut seen_at_work = change != Change::Rebuild;
            while !verb.is_finished() || !seen_at_work || self.is_changing(change)? {
                seen_at_work |= self.is_changing(change)?;
                bytes = bytes.max(self.done_bytes(change)?);
                if started.elapsed() > CHANGE_LIMIT {
                    bail!("{} takes longer than {CHANGE_LIMIT:?}", change.name());
                }
                thread::sleep(POLL);
            }
            verb.join().expect("a verb does not panic")?;
            Ok(if change == Change::Scrub { self.done_bytes(change)? } else { bytes })
        })?;
        Ok(((begin, started.elapsed()), bytes))
    }

    fn begin(&self, change: Change) -> Result<()> {
        let ssd = self.ssds[0].to_string_lossy();
        match change {
            Change::Scrub => self.daemon.verb(&["pool", "scrub", "changing", "--background"]).map(drop),
            Change::Evacuation => self.daemon.verb(&["pool", "remove-ssd", "changing", "--ssd", &ssd]).map(drop),
            Change::Rebuild => Ok(OpenOptions::new().write(true).open(&self.ssds[0])?.set_len(0)?),
        }
    }

    fn done_bytes(&self, change: Change) -> Result<f64> {
        let shown = self.show()?;
        let number = match change {
            Change::Scrub => &shown["scrub"]["checked_bytes"],
            Change::Evacuation | Change::Rebuild => &shown["rebuild"]["done_bytes"],
        };
        Ok(number.as_f64().unwrap_or(0.0))
    }

    fn show(&self) -> Result<Value> {
        self.daemon.verb(&["pool", "show", "changing"])
    }

    fn is_changing(&self, change: Change) -> Result<bool> {
        let shown = self.show()?;
        Ok(match change {
            Change::Scrub => shown["scrub"]["state"] == "running",
            Change::Evacuation | Change::Rebuild => !shown["rebuild"].is_null(),
        })
    }

    /// A new SSD in place of the one that left.
    fn mend(&self, change: Change) -> Result<()> {
        let ssd = self.ssds[0].to_string_lossy();
        if change == Change::Rebuild {
            self.daemon.verb(&["pool", "remove-ssd", "changing", "--ssd", &ssd])?;
        }
        if change != Change::Scrub {
            std::fs::remove_file(&self.ssds[0])?;
            self.daemon.verb(&["image", "create", &ssd, &SSD_BYTES.to_string()])?;
            self.daemon.verb(&["pool", "add-ssd", "changing", "--ssd", &ssd])?;
        }
        Ok(())
    }
}
