//! What the vendors' tests run on: a daemon, emulated arrays and emulated SSDs, all of whose data are in memory, so that this
//! machine's disk is no part of what is measured.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};

use super::super::Bench;
use super::super::clients::{Access, Export, Load, Measured, Pattern, batching_all, batching_command, value_of};
use super::super::daemon::Daemon;
use super::super::scratch::InMemory;
use crate::command::output_within;

/// Requests are counted over intervals of this length while a cache warms up.
const INTERVAL_MS: u64 = 200;
/// A load runs for so long at a time until the cache is warm.
const PIECE_SECONDS: u64 = 2;
/// Before a measurement, where the one before may have left something.
const RUN_IN_SECONDS: u64 = 1;
/// Of the reads of a piece, those that hit when the cache is called warm.
const WARM_HITS: f64 = 0.995;
/// The share of the final rate at which a cache is called warm.
const WARM: f64 = 0.9;
/// A stream needs so many requests of 1 MiB in flight for all disks to be at work.
const STREAM_DEPTH: u64 = 32;

/// Both kinds of pools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    ReadWrite,
}

/// The SSDs of a pool.
#[derive(Clone, Copy)]
pub(super) struct Ssds<'a> {
    pub(super) count: u64,
    /// Of each.
    pub(super) bytes: u64,
    /// As an emulated SSD is spelled, without the file.
    pub(super) speed: &'a str,
}

/// Points of a curve: seconds, and requests per second.
pub(super) type Curve = Vec<(f64, f64)>;

/// See the file's summary.
pub(super) struct Rig<'a> {
    pub(super) bench: &'a Bench,
    pub(super) daemon: Daemon,
    // After the daemon, which uses them.
    files: InMemory,
}

impl<'a> Rig<'a> {
    pub(super) fn start(bench: &'a Bench, name: &str) -> Result<Self> {
        Self::start_with(bench, name, &[])
    }

    pub(super) fn start_with(bench: &'a Bench, name: &str, arguments: &[&str]) -> Result<Self> {
        let files = InMemory::new()?.context("there is no file system in memory at /dev/shm")?;
        // Each has a state directory of its own.
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let name = format!("{name}.{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let daemon = Daemon::start_with(bench, &name, &[&["--memory-cache", "0"], arguments].concat())?;
        Ok(Self { bench, daemon, files })
    }

    /// An emulated array without its size, as `preset=b1`, with a volume of so many bytes on it.
    pub(super) fn volume(&self, name: &str, array: &str, bytes: u64) -> Result<Export> {
        let store = self.files.path(&format!("{name}.array"));
        // The first touch of memory takes a virtual machine longer than the array's transfers.
        let mut file = File::create(&store).with_context(|| format!("cannot make {store}"))?;
        let zeroes = vec![0; 1 << 20];
        for _ in 0..bytes >> 20 {
            file.write_all(&zeroes).with_context(|| format!("cannot write {store}"))?;
        }
        drop(file);
        self.volume_on(name, array, bytes, &store)
    }

    /// A file whose data take memory only where they are written.
    pub(super) fn sparse_store(&self, name: &str, bytes: u64) -> Result<String> {
        let store = self.files.path(&format!("{name}.array"));
        File::create(&store).and_then(|file| file.set_len(bytes)).with_context(|| format!("cannot make {store}"))?;
        Ok(store)
    }

    /// An emulated array whose data are in this file, which is there.
    pub(super) fn volume_on(&self, name: &str, array: &str, bytes: u64, store: &str) -> Result<Export> {
        self.daemon.create_volume(name, &format!("emulated:{array},size={bytes},file={store}"))
    }

    /// A pool of emulated SSDs, with options of `pool create`.
    pub(super) fn pool(&self, name: &str, kind: Kind, ssds: Ssds<'_>, options: &[&str]) -> Result<()> {
        let kind = match kind {
            Kind::Read => "read",
            Kind::ReadWrite => "read-write",
        };
        let mut words = vec!["pool", "create", name, "--type", kind, "--io-type", "custom"];
        words.extend(options);
        words.push("--ssd");
        let mut spelled = Vec::new();
        for number in 0..ssds.count {
            let path = self.files.path(&format!("{name}.ssd{number}"));
            self.daemon.verb(&["image", "create", &path, &ssds.bytes.to_string()])?;
            spelled.push(format!("emulated-ssd:{},file={path}", ssds.speed));
        }
        words.extend(spelled.iter().map(String::as_str));
        self.daemon.verb(&words).map(drop)
    }

    /// So many seconds; one in a quick run.
    pub(super) fn seconds(&self, full: u64) -> u64 {
        if self.bench.quick { 1 } else { full }
    }

    /// The rate of all volumes together.
    pub(super) fn load(&self, volumes: &[&Export], load: Load) -> Result<Measured> {
        batching_all(&self.bench.release, volumes, load)
    }

    /// The same, after a moment in which the disks' own caches fill.
    pub(super) fn warmed_load(&self, volumes: &[&Export], load: Load) -> Result<Measured> {
        self.run_in(volumes, load)?;
        self.load(volumes, load)
    }

    pub(super) fn run_in(&self, volumes: &[&Export], load: Load) -> Result<()> {
        self.load(volumes, Load { seconds: RUN_IN_SECONDS, ..load }).map(drop)
    }

    /// MB/s of a stream, deep enough for all disks to be at work.
    pub(super) fn stream(&self, volume: &Export, bytes: u64) -> Result<f64> {
        let stream = Load { depth: STREAM_DEPTH, ..Load::sequential_1m(self.seconds(2), bytes) };
        Ok(self.load(&[volume], stream)?.mb_per_second)
    }

    /// Loads the volumes, all alike, until nearly all reads of them hit, or for so many seconds; what was seen.
    pub(super) fn warm_up(&self, volumes: &[&Export], load: Load, limit_seconds: u64) -> Result<Curve> {
        let mut curve = Curve::new();
        let mut warm = false;
        let mut began = 0;
        while !warm && began < limit_seconds {
            let seconds = PIECE_SECONDS.min(limit_seconds - began);
            let before = self.reads_and_hits(volumes)?;
            let piece = self.intervals(volumes, Load { seconds, ..load })?;
            let offset = f64::from(u32::try_from(began)?);
            curve.extend(piece.into_iter().map(|(at, iops)| (at + offset, iops)));
            let after = self.reads_and_hits(volumes)?;
            warm = load.access != Access::Write && (after.1 - before.1) >= WARM_HITS * (after.0 - before.0);
            began += seconds;
        }
        Ok(curve)
    }

    fn reads_and_hits(&self, volumes: &[&Export]) -> Result<(f64, f64)> {
        let counters = volumes.iter().map(|volume| self.daemon.counters(&volume.name)).collect::<Result<Vec<_>>>()?;
        Ok(counters.iter().fold((0.0, 0.0), |sum, counters| (sum.0 + counters.reads, sum.1 + counters.hits)))
    }

    /// What all volumes together answered in each interval.
    pub(super) fn intervals(&self, volumes: &[&Export], load: Load) -> Result<Curve> {
        let one = |volume: &Export| -> Result<Curve> {
            let mut client = batching_command(&self.bench.release, volume, load);
            client.arg(format!("interval={INTERVAL_MS}"));
            let text = output_within(client, load.limit())?;
            let last = text.lines().last().unwrap_or_default();
            if value_of(last, "errors") != Some(0.0) {
                bail!("nbd_load met errors: {last}");
            }
            Ok(points(&text))
        };
        thread::scope(|scope| {
            let clients: Vec<_> = volumes.iter().map(|&volume| scope.spawn(move || one(volume))).collect();
            let curves = clients.into_iter().map(|client| client.join().expect("a client does not panic"));
            Ok(together(curves.collect::<Result<Vec<_>>>()?))
        })
    }

    /// Hits of the volume's reads since then, as a share.
    pub(super) fn hit_ratio_in(
        &self,
        volume: &Export,
        run: impl FnOnce() -> Result<Measured>,
    ) -> Result<(Measured, f64)> {
        let before = self.daemon.counters(&volume.name)?;
        let measured = run()?;
        Ok((measured, self.daemon.counters(&volume.name)?.hit_ratio_since(&before)))
    }
}

/// Random, one request size, of a share of reads.
pub(super) fn random(access: Access, request_bytes: u64, depth: u64, seconds: u64, span_bytes: u64) -> Load {
    Load { access, pattern: Pattern::Random, request_bytes, depth, seconds, span_bytes }
}

/// The points that a client printed.
fn points(text: &str) -> Curve {
    text.lines().filter_map(|line| Some((value_of(line, "at_ms")? / 1000.0, value_of(line, "iops")?))).collect()
}

/// The sum of curves, as far as all of them go.
fn together(curves: Vec<Curve>) -> Curve {
    let mut curves = curves.into_iter();
    let first = curves.next().unwrap_or_default();
    curves.fold(first, |sum, curve| sum.into_iter().zip(curve).map(|(one, other)| (one.0, one.1 + other.1)).collect())
}

/// When the curve first reaches nine tenths of the final rate; at its end, if it never does.
pub(super) fn warm_after(curve: &Curve, final_rate: f64) -> f64 {
    let warm = curve.iter().find(|(_, iops)| *iops >= WARM * final_rate);
    warm.or(curve.last()).map_or(0.0, |(at, _)| *at)
}

/// What limits a rate: the SSDs, of which all together do so many, or this machine.
pub(super) fn limit_of(measured: &Measured, ssds_iops: f64) -> String {
    let of_ssds = 100.0 * measured.iops / ssds_iops;
    let of_processor = 100.0 * measured.iops * measured.server_us / 1e6;
    format!(
        "the SSDs were used to {of_ssds:.0} % of what they are emulated to do; the daemon took {:.1} us of processor a request, \
        {of_processor:.0} % of one of {} processors, which it shares with the clients",
        measured.server_us,
        thread::available_parallelism().map_or(1, std::num::NonZero::get),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_of_clients_are_added_up_and_read_for_when_they_are_warm() {
        let one = points("at_ms=200 iops=100 p99_us=5\nat_ms=400 iops=900 p99_us=5\niops=500 requests=9 errors=0");
        assert_eq!(one, [(0.2, 100.0), (0.4, 900.0)]);
        let sum = together(vec![one, vec![(0.2, 50.0), (0.4, 100.0), (0.6, 100.0)]]);
        assert_eq!(sum, [(0.2, 150.0), (0.4, 1000.0)]);
        assert!((warm_after(&sum, 1100.0) - 0.4).abs() < 1e-9);
        assert!((warm_after(&sum, 5000.0) - 0.4).abs() < 1e-9, "at the end");
        assert!(warm_after(&Vec::new(), 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_limits_a_rate_is_told_in_shares() {
        let measured = Measured { iops: 100_000.0, median_us: 0.0, mb_per_second: 0.0, server_us: 5.0 };
        let told = limit_of(&measured, 125_000.0);
        assert!(told.contains("to 80 %") && told.contains("5.0 us") && told.contains(", 50 % of one of"), "{told}");
    }
}
