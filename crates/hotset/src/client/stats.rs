//! The `stats` verb: counters once, or rates every second.

use std::io::IsTerminal;
use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind, Stats, VolumeCounters};
use serde::Serialize;

use super::http::Client;
use super::print::{Reader, print, write_as_it_is, write_more};
use super::table::Table;
use super::volume::percent;
use crate::args::{Output, StatsArguments};
use crate::size::{grouped, human};

/// The rates of one volume over the last interval. Keys are as stable as the API's.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) name: String,
    pub(super) read_iops: f64,
    pub(super) write_iops: f64,
    pub(super) read_bytes_per_s: f64,
    pub(super) write_bytes_per_s: f64,
    pub(super) hit_ratio: f64,
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

pub(crate) fn run(client: &Client, output: Output, arguments: &StatsArguments) -> Result<(), ApiError> {
    let first = fetch(client, arguments)?;
    if arguments.watch {
        return watch(client, output, arguments, first);
    }
    print(output, &first, |stats| counters(&stats.volumes))
}

fn fetch(client: &Client, arguments: &StatsArguments) -> Result<Stats, ApiError> {
    let mut stats: Stats = client.get("/stats")?;
    let Some(name) = &arguments.name else { return Ok(stats) };
    stats.volumes.retain(|volume| volume.name == name.as_str());
    if stats.volumes.is_empty() {
        return Err(ApiError::new(ApiErrorKind::NotFound, format!("volume {name}: no such volume is being served")));
    }
    Ok(stats)
}

fn counters(volumes: &[VolumeCounters]) -> String {
    if volumes.is_empty() {
        return "No volumes\n".to_owned();
    }
    let headings = [
        "VOLUME",
        ">READS",
        ">HITS",
        ">HIT RATIO",
        ">WRITES",
        ">WRITE HITS",
        ">BYPASSED",
        ">POPULATED",
        ">EVICTED",
        ">CLEANED",
        ">CACHED",
        ">DIRTY",
    ];
    let mut table = Table::new(&headings);
    for volume in volumes {
        let stats = &volume.stats;
        table.row(vec![
            volume.name.clone(),
            grouped(stats.reads),
            grouped(stats.read_hits),
            percent(stats.hit_ratio),
            grouped(stats.writes),
            grouped(stats.write_hits),
            grouped(stats.bypassed_reads + stats.bypassed_writes),
            human(stats.populated_bytes),
            grouped(stats.evicted_blocks),
            human(stats.cleaned_bytes),
            human(volume.cache_used_bytes),
            human(volume.dirty_bytes),
        ]);
    }
    table.render()
}

/// Redraws on a terminal, else adds lines. Ends with Ctrl-C, or with an error when the daemon goes.
fn watch(client: &Client, output: Output, arguments: &StatsArguments, first: Stats) -> Result<(), ApiError> {
    let redraw = output == Output::Text && std::io::stdout().is_terminal();
    let mut before = first;
    let mut lines_drawn = 0;
    let mut heading_printed = false;
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = fetch(client, arguments)?;
        let rates = rates(&before, &now);
        let text = match output {
            Output::Json => rates.iter().map(line_of_json).collect(),
            Output::Text if redraw => {
                write_as_it_is(&back(lines_drawn))?;
                table(&rates)
            }
            Output::Text if heading_printed => table(&rates).split_once('\n').map_or("", |(_, rows)| rows).to_owned(),
            Output::Text => table(&rates),
        };
        heading_printed = true;
        lines_drawn = rates.len() + 1;
        if write_more(&text)? == Reader::Left {
            return Ok(());
        }
        before = now;
    }
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

fn table(rates: &[Rates]) -> String {
    let headings = [
        "VOLUME",
        ">READ IOPS",
        ">WRITE IOPS",
        ">READ MB/s",
        ">WRITE MB/s",
        ">HIT RATIO",
        ">WRITE HITS/s",
        ">FILLING MB/s",
        ">CLEANING MB/s",
        ">DIRTY",
        ">CACHED",
        ">OF",
    ];
    let mut table = Table::new(&headings);
    for volume in rates {
        table.row(vec![
            volume.name.clone(),
            format!("{:.0}", volume.read_iops),
            format!("{:.0}", volume.write_iops),
            format!("{:.1}", volume.read_bytes_per_s / 1e6),
            format!("{:.1}", volume.write_bytes_per_s / 1e6),
            percent(volume.hit_ratio),
            format!("{:.0}", volume.write_hits_per_s),
            format!("{:.1}", volume.populated_bytes_per_s / 1e6),
            format!("{:.1}", volume.cleaned_bytes_per_s / 1e6),
            human(volume.dirty_bytes),
            human(volume.cache_used_bytes),
            human(volume.pool_capacity_bytes),
        ]);
    }
    table.render()
}

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
