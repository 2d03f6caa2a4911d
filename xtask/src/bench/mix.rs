//! Requirement B3 with a hot set that is larger than the cache: what databases do on an emulated array, beside the best
//! that a cache of this size could make of the array.
//!
//! Of every six reads at best five hit, and every write is cleaned some time. The array itself is asked how many of the
//! misses and of the cleaner's writes it does in a second, in the share in which the run needed them.

use anyhow::Result;

use super::Bench;
use super::clients::{Access, Export, Load, Measured, batching};
use super::daemon::Daemon;
use super::figure::{Figure, Judged, Target};

const SSD_BYTES: u64 = 512 << 20;
const VOLUME: &str = "2G";
const VOLUME_BYTES: u64 = 2 << 30;
const REQUEST_BYTES: u64 = 8192;
const READ_PERCENT: u64 = 67;
const DEPTH: u64 = 128;
/// The hot set, in what the cache has left for clean data.
pub(super) const HOT: f64 = 1.2;
/// Bytes that may be filled for each byte that hosts ask for.
const FILLED_MAX: f64 = 2.0;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let daemon = Daemon::start(bench, "mix")?;
    let ssds = daemon.create_pair(bench, "mix", SSD_BYTES, |path| path.to_string_lossy().into_owned())?;
    let store = bench.scratch.store_in_memory("mix-array", VOLUME_BYTES)?;
    let volume = daemon.create_volume("mix", &format!("emulated:preset=b1,size={VOLUME},file={}", store.display()))?;
    daemon.enable_cache("mix", "mix")?;
    // The log takes its part of the SSDs while the cache warms up.
    daemon.set_fetch_rate("mix", "high")?;
    run(bench, &volume, READ_PERCENT, 4 * bench.seconds, hot_bytes(&daemon)?)?;
    let hot = hot_bytes(&daemon)?;
    run(bench, &volume, READ_PERCENT, 4 * bench.seconds, hot)?;
    daemon.set_fetch_rate("mix", "medium")?;
    run(bench, &volume, READ_PERCENT, bench.seconds, hot)?;
    let before = Seen::now(&daemon, "mix")?;
    let measured = run(bench, &volume, READ_PERCENT, 3 * bench.seconds, hot)?;
    let seen = Seen::now(&daemon, "mix")?.since(&before);
    daemon.verb(&["volume", "disable-cache", "mix", "--force", "--yes-lose-data"])?;
    let needs = Needs::of(&seen);
    let array = run(bench, &volume, needs.read_percent(), 2 * bench.seconds, hot)?;
    drop(daemon);
    bench.scratch.remove(&[&store, &ssds[0], &ssds[1]])?;
    Ok(figures(&measured, &array, &seen, &needs))
}

fn figures(measured: &Measured, array: &Measured, seen: &Seen, needs: &Needs) -> Vec<Figure> {
    let ideal = array.iops / needs.requests();
    vec![
        Figure {
            what: "8 KiB mix, 67 % reads, hot set 120 % of the cache: our client / the best possible".to_owned(),
            unit: "IOPS",
            measured: Some(measured.iops),
            reference: Some(ideal),
            judged: Judged::Ratio(measured.iops / ideal),
            target: Target::AtLeast(0.7),
            note: format!(
                "hit ratio {:.3}; the array does {:.0} requests/s of the mix that is left, {:.2} for each of the host",
                seen.hits / seen.reads.max(1.0),
                array.iops,
                needs.requests()
            ),
        },
        Figure {
            what: "the same: bytes filled for each byte that the host asked for".to_owned(),
            unit: "",
            measured: Some(seen.filled_bytes / seen.host_bytes.max(1.0)),
            reference: None,
            judged: Judged::Measured,
            target: Target::AtMost(FILLED_MAX),
            note: String::new(),
        },
    ]
}

fn run(bench: &Bench, volume: &Export, read_percent: u64, seconds: u64, span_bytes: u64) -> Result<Measured> {
    let mix = Access::Mixed(read_percent);
    let load = Load { access: mix, request_bytes: REQUEST_BYTES, ..Load::random_4k(DEPTH, seconds, span_bytes) };
    batching(&bench.release, volume, load)
}

/// What the log leaves to clean data, and a fifth more.
#[allow(clippy::as_conversions, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rounded size")]
fn hot_bytes(daemon: &Daemon) -> Result<u64> {
    let left = daemon.number("pool", "mix", &["capacity_bytes"])?;
    Ok(((left * HOT) as u64).min(VOLUME_BYTES))
}

/// Counters of the volume.
pub(super) struct Seen {
    pub(super) reads: f64,
    pub(super) hits: f64,
    pub(super) writes: f64,
    pub(super) host_bytes: f64,
    /// By the cleaner, and by hosts around the cache.
    array_written_bytes: f64,
    pub(super) filled_bytes: f64,
}

impl Seen {
    pub(super) fn now(daemon: &Daemon, volume: &str) -> Result<Self> {
        let number = |key| daemon.number("volume", volume, &["stats", key]);
        Ok(Self {
            reads: number("reads")?,
            hits: number("read_hits")?,
            writes: number("writes")?,
            host_bytes: number("read_bytes")? + number("write_bytes")?,
            array_written_bytes: daemon.number("volume", volume, &["backing_io", "written_bytes"])?,
            filled_bytes: number("populated_bytes")?,
        })
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            hits: self.hits - earlier.hits,
            writes: self.writes - earlier.writes,
            host_bytes: self.host_bytes - earlier.host_bytes,
            array_written_bytes: self.array_written_bytes - earlier.array_written_bytes,
            filled_bytes: self.filled_bytes - earlier.filled_bytes,
        }
    }
}

/// What the array has to do for each request of the host.
pub(super) struct Needs {
    misses: f64,
    cleaning_writes: f64,
}

impl Needs {
    pub(super) fn of(seen: &Seen) -> Self {
        let requests = (seen.reads + seen.writes).max(1.0);
        let misses = (1.0 - 1.0 / HOT) * seen.reads / requests;
        let request_bytes = f64::from(u32::try_from(REQUEST_BYTES).unwrap_or(u32::MAX));
        // Data that is overwritten while it is dirty reaches the array once.
        let cleaning_writes = (seen.array_written_bytes / request_bytes).min(seen.writes) / requests;
        Self { misses, cleaning_writes }
    }

    pub(super) fn requests(&self) -> f64 {
        self.misses + self.cleaning_writes
    }

    #[allow(clippy::as_conversions, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    pub(super) fn read_percent(&self) -> u64 {
        (100.0 * self.misses / self.requests()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_array_has_to_do_a_sixth_of_the_reads_and_what_reached_it() {
        let seen = Seen {
            reads: 670.0,
            hits: 500.0,
            writes: 330.0,
            host_bytes: 0.0,
            array_written_bytes: 220.0 * 8192.0,
            filled_bytes: 0.0,
        };
        let needs = Needs::of(&seen);
        assert!((needs.requests() - (0.67 / 6.0 + 0.22)).abs() < 1e-9);
        assert_eq!(needs.read_percent(), 34);
        let all = Needs::of(&Seen { array_written_bytes: 1e9, ..seen });
        assert!((all.cleaning_writes - 0.33).abs() < 1e-9, "no more reaches it than was written in the long run");
    }
}
