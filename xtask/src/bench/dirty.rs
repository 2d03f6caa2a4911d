//! Much dirty data: random writes that go on while the log moves what lives, the memory that dirty pages take, and the start
//! after the daemon was killed.

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Bench;
use super::clients::{Access, Export, Load, batching, batching_command, value_of};
use super::cpu::resident_bytes_of;
use super::daemon::Daemon;
use super::figure::{Figure, Judged, Target};
use crate::command::output_within;
use crate::running::check_interruption;

const SSD_BYTES: u64 = 1 << 30;
const DEPTH: u64 = 128;
const PAGE: f64 = 4096.0;
/// Of what may be dirty, the set that is written over and over, and the least share of the first IOPS that is kept.
const SETS: [(f64, f64); 2] = [(0.4, 0.8), (0.6, 0.55)];
/// How many times the set is written.
const TIMES: f64 = 5.0;
const INTERVAL_MS: u64 = 100;
/// Pages are written anywhere in so much: hardly one lies beside another.
const SCATTERED_BYTES: u64 = 64 << 30;
/// What summaries take of a copy of the log at most.
const SUMMARIES_SHARE: f64 = 0.008;
/// The row that is written, and the one before it or behind it: while one is sealed, no other is prepared.
const UNSEALED_ROWS_MAX: f64 = 2.0;
/// A start that takes longer has failed.
const OPEN_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let file = bench.scratch.file("dirty-backing");
    File::create_new(&file)?.set_len(SCATTERED_BYTES)?;
    let daemon = Daemon::start(bench, "dirty")?;
    let ssds = daemon.create_mirrored_pool(bench, "dirty", SSD_BYTES)?;
    let volume = daemon.create_volume("dirty", &file.to_string_lossy())?;
    let mut figures = Vec::new();
    for (share, least) in SETS {
        daemon.enable_cache("dirty", "dirty")?;
        figures.push(sustained(bench, &daemon, &volume, share, least)?);
        daemon.verb(&["volume", "disable-cache", "dirty", "--force", "--yes-lose-data"])?;
    }
    daemon.enable_cache("dirty", "dirty")?;
    figures.push(memory(bench, &daemon, &volume)?);
    figures.push(recovery(bench, daemon)?);
    bench.scratch.remove(&[&file, &ssds[0], &ssds[1]])?;
    Ok(figures)
}

fn log_number(daemon: &Daemon, key: &str) -> Result<f64> {
    daemon.number("pool", "dirty", &["write_log", key])
}

#[allow(clippy::as_conversions, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rounded size")]
fn sustained(bench: &Bench, daemon: &Daemon, volume: &Export, share: f64, least: f64) -> Result<Figure> {
    let set_bytes = log_number(daemon, "dirty_capacity_bytes")? * share;
    let before = daemon.moved_and_written("dirty")?;
    let load = Load { access: Access::Write, ..Load::random_4k(DEPTH, 6 * bench.seconds, set_bytes as u64) };
    let mut client = batching_command(&bench.release, volume, load);
    client.arg(format!("interval={INTERVAL_MS}"));
    let text = output_within(client, load.limit())?;
    let after = daemon.moved_and_written("dirty")?;
    let samples: Vec<(f64, f64)> =
        text.lines().filter_map(|line| Some((value_of(line, "at_ms")?, value_of(line, "iops")?))).collect();
    let course = Course::of(&samples, set_bytes);
    let (first, rest) = (course.first.rate(), course.rest.rate());
    let amplification = 1.0 + (after.0 - before.0) / (after.1 - before.1).max(1.0);
    Ok(Figure {
        what: format!(
            "4 KiB random writes on, a set of {:.0} % of the dirty capacity: until 5 x of it is written / the first time",
            share * 100.0
        ),
        unit: "IOPS",
        measured: Some(rest),
        reference: Some(first),
        judged: Judged::Ratio(rest / first),
        target: Target::AtLeast(least),
        note: format!("written {:.1} x in all; amplification {amplification:.2}", course.written / set_bytes),
    })
}

/// Writes over some time.
#[derive(Default)]
struct Stretch {
    writes: f64,
    seconds: f64,
}

impl Stretch {
    fn rate(&self) -> f64 {
        self.writes / self.seconds.max(0.001)
    }
}

/// While the set was written for the first time, and from then on.
#[derive(Default)]
struct Course {
    first: Stretch,
    rest: Stretch,
    written: f64,
}

impl Course {
    /// `samples`: the end of each interval in milliseconds, and its IOPS.
    fn of(samples: &[(f64, f64)], set_bytes: f64) -> Self {
        let mut course = Self::default();
        let mut last_ms = 0.0;
        for (at_ms, iops) in samples {
            if course.written >= TIMES * set_bytes {
                break;
            }
            let seconds = (at_ms - last_ms) / 1000.0;
            let stretch = if course.written < set_bytes { &mut course.first } else { &mut course.rest };
            stretch.writes += iops * seconds;
            stretch.seconds += seconds;
            course.written += iops * seconds * PAGE;
            last_ms = *at_ms;
        }
        course
    }
}

fn memory(bench: &Bench, daemon: &Daemon, volume: &Export) -> Result<Figure> {
    let written = |seconds, span_bytes| {
        let load = Load { access: Access::Write, ..Load::random_4k(DEPTH, seconds, span_bytes) };
        batching(&bench.release, volume, load)
    };
    // Buffers that stay.
    written(1, 4 << 20)?;
    let (resident_before, dirty_before) = (resident_bytes_of(volume.server)?, log_number(daemon, "dirty_bytes")?);
    written(bench.seconds, SCATTERED_BYTES)?;
    let grown = resident_bytes_of(volume.server)? - resident_before;
    let dirty = log_number(daemon, "dirty_bytes")? - dirty_before;
    let gibibytes = dirty / f64::from(1 << 30);
    Ok(Figure {
        what: "memory of the daemon per GiB of dirty data, random writes of 4 KiB".to_owned(),
        unit: "MB",
        measured: Some(grown / 1e6 / gibibytes.max(0.001)),
        reference: None,
        judged: Judged::Measured,
        target: Target::AtMost(8.0),
        note: format!("it grew by {:.2} MB while {:.0} MB became dirty", grown / 1e6, dirty / 1e6),
    })
}

/// Kills the daemon with all that is dirty, and starts it again.
fn recovery(bench: &Bench, daemon: Daemon) -> Result<Figure> {
    daemon.kill()?;
    let daemon = Daemon::start(bench, "dirty")?;
    let started = Instant::now();
    while log_number(&daemon, "rows").is_err() {
        check_interruption()?;
        if started.elapsed() > OPEN_LIMIT {
            bail!("the pool is not open after {OPEN_LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(50));
    }
    let number = |key: &str| log_number(&daemon, key).context("of a pool that is open");
    let most = Most::of(number("log_bytes")?, number("rows")?);
    let read = number("recovered_bytes")?;
    let seconds = number("recovery_ms")? / 1000.0;
    let gibibytes = number("dirty_bytes")? / f64::from(1 << 30);
    Ok(Figure {
        what: "start after a kill: bytes read of the log / 0.8 % of it and the unsealed rows on both SSDs".to_owned(),
        unit: "MB",
        measured: Some(read / 1e6),
        reference: Some(most.bytes() / 1e6),
        judged: Judged::Ratio(read / most.bytes()),
        target: Target::AtMost(1.0),
        note: format!(
            "{:.2} s per GiB: {seconds:.2} s for {gibibytes:.2} GiB of dirty data; at most {:.1} MB (0.8 % of the log) + {:.1} \
             MB (unsealed rows, both copies) + the slot indexes, which count on neither side",
            seconds / gibibytes.max(0.001),
            most.summaries / 1e6,
            most.unsealed_rows / 1e6
        ),
    })
}

/// The most that a start may read of the log, in bytes.
///
/// Of a sealed row its summaries, from one copy. Of an unsealed row everything, from both: a write is answered when both
/// copies are written, not when they are flushed, so that after a power cut either copy may lack any batch since the last
/// flush. Only by comparing them is it known that two copies are there. Behind the end of what was found, both are
/// searched for a batch that says more was flushed: else damage would be taken for the end.
///
/// Slot indexes are read whole, and not counted in what the daemon says that it read of the log.
struct Most {
    summaries: f64,
    unsealed_rows: f64,
}

impl Most {
    /// Of a log of so many rows, which take `log_bytes` on both SSDs together.
    fn of(log_bytes: f64, rows: f64) -> Self {
        let row_bytes = log_bytes / rows.max(1.0);
        Self { summaries: SUMMARIES_SHARE * log_bytes / 2.0, unsealed_rows: rows.min(UNSEALED_ROWS_MAX) * row_bytes }
    }

    fn bytes(&self) -> f64 {
        self.summaries + self.unsealed_rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_may_read_the_summaries_of_one_copy_and_two_rows_of_both() {
        let most = Most::of(2_000.0, 10.0);
        assert!((most.summaries - 8.0).abs() < 0.001 && (most.unsealed_rows - 400.0).abs() < 0.001);
        assert!((Most::of(200.0, 1.0).unsealed_rows - 200.0).abs() < 0.001, "there is one row only");
    }

    #[test]
    fn the_first_time_ends_when_the_set_was_written_once_and_all_of_it_after_five() {
        let samples: Vec<(f64, f64)> =
            (1..=100).map(|step: u32| (f64::from(step) * 100.0, if step <= 10 { 1000.0 } else { 500.0 })).collect();
        let course = Course::of(&samples, 1000.0 * PAGE);
        assert!((course.first.rate() - 1000.0).abs() < 1.0 && (course.rest.rate() - 500.0).abs() < 1.0);
        assert!((course.written / PAGE - 5000.0).abs() < 100.0, "{}", course.written);
    }
}
