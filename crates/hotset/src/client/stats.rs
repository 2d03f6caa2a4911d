//! The `stats` verb: counters once, or rates again and again.

use std::io::IsTerminal;
use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind, Stats, VolumeCounters};
use hotset_cache::config::VolumeName;
use serde::Serialize;

use super::http::Client;
use super::print::{Audience, print, write_as_it_is, write_more};
use super::table::{Cell, Column, Listing};
use super::volume::reasons;
use crate::args::{Output, StatsArguments, StatsWord};

/// The rates of one volume over the last interval. Keys are as stable as the API's.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) name: String,
    pub(super) read_iops: f64,
    pub(super) write_iops: f64,
    pub(super) read_bytes_per_s: f64,
    pub(super) write_bytes_per_s: f64,
    pub(super) hit_ratio: f64,
    /// Of all reads, those that memory answered.
    pub(super) memory_hit_ratio: f64,
    pub(super) populated_bytes_per_s: f64,
    pub(super) write_hits_per_s: f64,
    pub(super) cleaned_bytes_per_s: f64,
    pub(super) moved_bytes_per_s: f64,
    pub(super) dirty_bytes: u64,
    pub(super) cache_used_bytes: u64,
    pub(super) pool_capacity_bytes: u64,
    /// Of the last five seconds: 99 % of the requests took no longer.
    pub(super) read_p99_microseconds: Option<f64>,
    pub(super) write_p99_microseconds: Option<f64>,
}

/// What was asked for.
struct StatsAsked {
    volume: Option<VolumeName>,
    /// Rates, after so many seconds; else counters, once.
    interval_s: Option<u64>,
    /// How many times; for ever.
    count: Option<u64>,
    listing: Listing,
}

impl StatsAsked {
    fn of(arguments: StatsArguments, columns: Vec<String>) -> Result<Self, ApiError> {
        let wrong =
            || ApiError::new(ApiErrorKind::Invalid, "stats takes a volume, then an interval, then a count, each once");
        let mut asked =
            Self { volume: None, interval_s: None, count: None, listing: Listing { columns, table: arguments.table } };
        for word in arguments.words {
            match (word, asked.interval_s, asked.count) {
                (StatsWord::Volume(name), None, None) if asked.volume.is_none() => asked.volume = Some(name),
                (StatsWord::Number(seconds), None, _) => asked.interval_s = Some(seconds),
                (StatsWord::Number(count), Some(_), None) => asked.count = Some(count),
                (StatsWord::Volume(_) | StatsWord::Number(_), _, _) => return Err(wrong()),
            }
        }
        if arguments.watch {
            asked.interval_s = asked.interval_s.or(Some(1));
        }
        Ok(asked)
    }
}

/// Whether its words go together.
pub(crate) fn check(arguments: &StatsArguments) -> Result<(), ApiError> {
    StatsAsked::of(arguments.clone(), Vec::new()).map(drop)
}

/// The columns are those of rates, where rates are asked for.
pub(super) fn check_list(arguments: &StatsArguments, listing: &Listing) -> Result<(), ApiError> {
    match StatsAsked::of(arguments.clone(), Vec::new())?.interval_s {
        Some(_) => listing.check(RATES),
        None => listing.check(&[COUNTERS, EACH_COUNTER].concat()),
    }
}

pub(crate) fn run(
    client: &Client,
    output: Output,
    columns: Vec<String>,
    arguments: StatsArguments,
) -> Result<(), ApiError> {
    let asked = StatsAsked::of(arguments, columns)?;
    let first = fetch(client, &asked)?;
    if let Some(interval_s) = asked.interval_s {
        return watch(client, output, &asked, Duration::from_secs(interval_s), first);
    }
    let text = asked.listing.render(&[COUNTERS, EACH_COUNTER].concat(), &first.volumes, "No volumes\n")?;
    print(output, &first, |_| text)
}

fn fetch(client: &Client, asked: &StatsAsked) -> Result<Stats, ApiError> {
    let mut stats: Stats = client.get("/stats")?;
    let Some(name) = &asked.volume else { return Ok(stats) };
    stats.volumes.retain(|volume| volume.name == name.as_str());
    if stats.volumes.is_empty() {
        return Err(ApiError::new(ApiErrorKind::NotFound, format!("volume {name}: no such volume is being served")));
    }
    Ok(stats)
}

macro_rules! columns {
    ($([$(
        $(#[$doc:meta])* $name:ident, $metric:literal, $help:literal, history($($kept:tt)*),
            $how:ident($($said:tt)*);
    )*])*) => {
        /// Every counter under its name in the API, for who asks for it.
        const EACH_COUNTER: &[Column<VolumeCounters>] = &[$($(
            Column::when_asked(concat!(">", stringify!($name)), |volume| counted(stringify!($name), volume.stats.$name)),
        )*)*];
    };
}
hotset_counters::volume_counters!(columns);

fn counted(name: &str, count: u64) -> Cell {
    if hotset_counters::counts_bytes(name) { Cell::Bytes(count) } else { Cell::Count(count) }
}

const COUNTERS: &[Column<VolumeCounters>] = &[
    Column::new("VOLUME", |volume| Cell::Text(volume.name.clone())),
    Column::new(">READS", |volume| Cell::Count(volume.stats.reads)),
    Column::new(">HITS", |volume| Cell::Count(volume.stats.read_hits)),
    Column::new(">IN MEMORY", |volume| Cell::Count(volume.stats.memory_hits)),
    Column::new(">HIT RATIO", |volume| Cell::Ratio(volume.stats.hit_ratio)),
    Column::new(">MISSES", |volume| Cell::Count(volume.stats.reads - volume.stats.read_hits.min(volume.stats.reads))),
    Column::new("MOSTLY FOR", |volume| match reasons(&volume.stats).first() {
        Some((reason, 1..)) => Cell::Text((*reason).to_owned()),
        Some((_, 0)) | None => Cell::Nothing,
    }),
    Column::new(">WRITES", |volume| Cell::Count(volume.stats.writes)),
    Column::new(">WRITE HITS", |volume| Cell::Count(volume.stats.write_hits)),
    Column::new(">BYPASSED", |volume| Cell::Count(volume.stats.bypassed_reads + volume.stats.bypassed_writes)),
    Column::new(">POPULATED", |volume| Cell::Bytes(volume.stats.populated_bytes)),
    Column::new(">EVICTED", |volume| Cell::Count(volume.stats.evicted_blocks)),
    Column::new(">CLEANED", |volume| Cell::Bytes(volume.stats.cleaned_bytes)),
    Column::new(">CACHED", |volume| Cell::Bytes(volume.cache_used_bytes)),
    Column::new(">DIRTY", |volume| Cell::Bytes(volume.dirty_bytes)),
];

/// Redraws on a terminal, else adds lines. Ends when it was often enough, with Ctrl-C, or with an error when the daemon goes.
fn watch(
    client: &Client,
    output: Output,
    asked: &StatsAsked,
    interval: Duration,
    first: Stats,
) -> Result<(), ApiError> {
    let redraw = output == Output::Text && std::io::stdout().is_terminal();
    let mut before = first;
    let mut lines_drawn = 0;
    let mut left = asked.count;
    while left != Some(0) {
        std::thread::sleep(interval);
        let now = fetch(client, asked)?;
        let rates = rates(&before, &now);
        let text = match output {
            Output::Json => rates.iter().map(line_of_json).collect(),
            Output::Text => {
                let whole = asked.listing.render(RATES, &rates, "")?;
                if redraw {
                    write_as_it_is(&back(lines_drawn))?;
                }
                // Headings once, where lines are added.
                let has_headings = !asked.listing.table.no_headings;
                let again = !redraw && lines_drawn > 0 && has_headings;
                lines_drawn = whole.lines().count();
                if again { whole.split_once('\n').map_or("", |(_, rows)| rows).to_owned() } else { whole }
            }
        };
        if write_more(&text)? == Audience::Left {
            return Ok(());
        }
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// Moves to the start of what was drawn last and clears it (ECMA-48: CPL, ED).
fn back(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}F\x1b[J") }
}

fn line_of_json(rates: &Rates) -> String {
    let mut line = serde_json::to_string(rates).expect("rates have string keys only");
    line.push('\n');
    line
}

/// One entry for each volume that both samples know.
pub(super) fn rates(before: &Stats, now: &Stats) -> Vec<Rates> {
    let seconds = float(now.at_ns.saturating_sub(before.at_ns).max(1)) / 1e9;
    let pairs = now.volumes.iter().filter_map(|new| {
        let old = before.volumes.iter().find(|old| old.name == new.name)?;
        Some((old, new))
    });
    pairs.map(|(old, new)| rates_of(old, new, seconds)).collect()
}

fn rates_of(old: &VolumeCounters, new: &VolumeCounters, seconds: f64) -> Rates {
    // A volume that was opened anew starts from zero.
    let since = |old: u64, new: u64| float(new.checked_sub(old).unwrap_or(new));
    let (a, b) = (&old.stats, &new.stats);
    let reads = since(a.reads, b.reads);
    let hits = since(a.read_hits, b.read_hits);
    Rates {
        name: new.name.clone(),
        read_iops: reads / seconds,
        write_iops: since(a.writes, b.writes) / seconds,
        read_bytes_per_s: since(a.read_bytes, b.read_bytes) / seconds,
        write_bytes_per_s: since(a.write_bytes, b.write_bytes) / seconds,
        hit_ratio: if reads == 0.0 { 0.0 } else { hits / reads },
        memory_hit_ratio: if reads == 0.0 { 0.0 } else { since(a.memory_hits, b.memory_hits) / reads },
        populated_bytes_per_s: since(a.populated_bytes, b.populated_bytes) / seconds,
        write_hits_per_s: since(a.write_hits, b.write_hits) / seconds,
        cleaned_bytes_per_s: since(a.cleaned_bytes, b.cleaned_bytes) / seconds,
        moved_bytes_per_s: since(a.moved_bytes, b.moved_bytes) / seconds,
        dirty_bytes: new.dirty_bytes,
        cache_used_bytes: new.cache_used_bytes,
        pool_capacity_bytes: new.pool_capacity_bytes,
        read_p99_microseconds: new.recent_latency.reads.map(|reads| reads.p99_microseconds),
        write_p99_microseconds: new.recent_latency.writes.map(|writes| writes.p99_microseconds),
    }
}

const RATES: &[Column<Rates>] = &[
    Column::new("VOLUME", |volume| Cell::Text(volume.name.clone())),
    Column::new(">READ IOPS", |volume| Cell::Number(volume.read_iops, 0)),
    Column::new(">WRITE IOPS", |volume| Cell::Number(volume.write_iops, 0)),
    Column::new(">READ MB/s", |volume| Cell::Number(volume.read_bytes_per_s / 1e6, 1)),
    Column::new(">WRITE MB/s", |volume| Cell::Number(volume.write_bytes_per_s / 1e6, 1)),
    Column::new(">HIT RATIO", |volume| Cell::Ratio(volume.hit_ratio)),
    Column::new(">IN MEMORY", |volume| Cell::Ratio(volume.memory_hit_ratio)),
    Column::new(">WRITE HITS/s", |volume| Cell::Number(volume.write_hits_per_s, 0)),
    Column::new(">FILLING MB/s", |volume| Cell::Number(volume.populated_bytes_per_s / 1e6, 1)),
    Column::new(">CLEANING MB/s", |volume| Cell::Number(volume.cleaned_bytes_per_s / 1e6, 1)),
    Column::new(">DIRTY", |volume| Cell::Bytes(volume.dirty_bytes)),
    Column::new(">CACHED", |volume| Cell::Bytes(volume.cache_used_bytes)),
    Column::new(">OF", |volume| Cell::Bytes(volume.pool_capacity_bytes)),
];

#[allow(clippy::as_conversions, reason = "a rate for people: the rounding of u64 to f64 does not matter")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use hotset_api::RecentLatency;

    use super::*;

    fn sample(at_ns: u64, reads: u64, read_hits: u64) -> Stats {
        let stats = hotset_api::VolumeStats { reads, read_hits, ..Default::default() };
        let volume = VolumeCounters {
            name: "v".into(),
            pool: None,
            size_bytes: 0,
            cache_used_bytes: 0,
            write_cache_used_bytes: 0,
            dirty_bytes: 0,
            pool_capacity_bytes: 0,
            recent_latency: RecentLatency::default(),
            stats,
        };
        Stats { at_ns, recent_latency: RecentLatency::default(), volumes: vec![volume] }
    }

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let rates = rates(&sample(1_000_000_000, 100, 50), &sample(3_000_000_000, 300, 200));
        assert_eq!((rates[0].read_iops, rates[0].hit_ratio), (100.0, 0.75));
    }

    #[test]
    fn a_volume_that_was_opened_anew_starts_from_zero() {
        let rates = rates(&sample(0, 1000, 1000), &sample(1_000_000_000, 10, 5));
        assert_eq!((rates[0].read_iops, rates[0].hit_ratio), (10.0, 0.5));
    }

    #[test]
    fn a_volume_that_is_new_has_no_rates_yet() {
        let mut before = sample(0, 0, 0);
        before.volumes.clear();
        assert!(rates(&before, &sample(1, 5, 5)).is_empty());
    }
}
