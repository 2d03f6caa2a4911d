//! The `top` verb: volumes by what they do now, with their hit ratios of the last half minute as a line.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::time::Duration;

use hotset_api::{ApiError, Stats};

use super::http::Client;
use super::print::{Audience, json, write_as_it_is, write_more};
use super::stats::{Rates, rates};
use super::table::Table;
use crate::args::{Output, TopArguments, TopOrder};
use crate::size::{human, percent};

/// Seconds that the line of hit ratios shows.
const LINE_LENGTH: usize = 30;

/// From none to all.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Moves to the upper left corner and clears what was there (ECMA-48: CUP, ED).
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Hit ratios of the last seconds by volume; none where nothing was read.
type RecentHitRatios = BTreeMap<String, VecDeque<Option<f64>>>;

/// Redraws every second until interrupted, or so many times.
pub(crate) fn run(client: &Client, output: Output, arguments: &TopArguments) -> Result<(), ApiError> {
    let clear = if output == Output::Text && std::io::stdout().is_terminal() { CLEAR } else { "" };
    let mut before: Stats = client.get("/stats")?;
    let mut lines = RecentHitRatios::new();
    let mut drawn = 0;
    while arguments.count.is_none_or(|count| drawn < count) {
        std::thread::sleep(Duration::from_secs(1));
        let now: Stats = client.get("/stats")?;
        let mut rates = rates(&before, &now);
        sort(&mut rates, arguments.sort);
        remember(&mut lines, &rates);
        write_as_it_is(clear)?;
        let drawing = match output {
            Output::Text => table(&rates, &lines),
            Output::Json => json(&rates),
        };
        if write_more(&drawing)? == Audience::Left {
            return Ok(());
        }
        before = now;
        drawn += 1;
    }
    Ok(())
}

fn sort(rates: &mut [Rates], order: TopOrder) {
    let iops = |rates: &Rates| rates.read_iops + rates.write_iops;
    let bytes = |rates: &Rates| rates.read_bytes_per_s + rates.write_bytes_per_s;
    match order {
        TopOrder::Iops => rates.sort_by(|a, b| iops(b).total_cmp(&iops(a))),
        TopOrder::Bandwidth => rates.sort_by(|a, b| bytes(b).total_cmp(&bytes(a))),
        TopOrder::HitRatio => rates.sort_by(|a, b| a.hit_ratio.total_cmp(&b.hit_ratio)),
        TopOrder::Dirty => rates.sort_by_key(|rates| std::cmp::Reverse(rates.dirty_bytes)),
        TopOrder::Name => rates.sort_by(|a, b| a.name.cmp(&b.name)),
    }
}

fn remember(lines: &mut RecentHitRatios, rates: &[Rates]) {
    lines.retain(|name, _| rates.iter().any(|rates| rates.name == *name));
    for rates in rates {
        let line = lines.entry(rates.name.clone()).or_default();
        line.push_back((rates.read_iops > 0.0).then_some(rates.hit_ratio));
        if line.len() > LINE_LENGTH {
            line.pop_front();
        }
    }
}

fn table(rates: &[Rates], lines: &RecentHitRatios) -> String {
    if rates.is_empty() {
        return "No volumes\n".to_owned();
    }
    let headings = [
        "VOLUME",
        ">READ IOPS",
        ">WRITE IOPS",
        ">READ MB/s",
        ">WRITE MB/s",
        ">READ P99",
        ">WRITE P99",
        ">DIRTY",
        ">CACHED",
        ">HITS",
        ">IN MEMORY",
        "LAST 30 s",
    ];
    let mut table = Table::new(&headings);
    for volume in rates {
        table.row(vec![
            volume.name.clone(),
            format!("{:.0}", volume.read_iops),
            format!("{:.0}", volume.write_iops),
            format!("{:.1}", volume.read_bytes_per_s / 1e6),
            format!("{:.1}", volume.write_bytes_per_s / 1e6),
            took(volume.read_p99_microseconds),
            took(volume.write_p99_microseconds),
            human(volume.dirty_bytes),
            human(volume.cache_used_bytes),
            percent(volume.hit_ratio),
            percent(volume.memory_hit_ratio),
            lines.get(&volume.name).map_or_else(String::new, sparkline),
        ]);
    }
    table.render()
}

/// `850 µs`, `4.2 ms`; a dash where nothing was asked of late.
fn took(microseconds: Option<f64>) -> String {
    match microseconds {
        None => "–".to_owned(),
        Some(time) if time < 1000.0 => format!("{time:.0} µs"),
        Some(time) => format!("{:.1} ms", time / 1000.0),
    }
}

/// One character a second; a dot where nothing was read.
fn sparkline(line: &VecDeque<Option<f64>>) -> String {
    let step = |ratio: f64| {
        let place = STEPS.iter().enumerate().rev().find(|(index, _)| ratio * 8.0 >= float(*index));
        place.map_or(STEPS[0], |(_, step)| *step)
    };
    line.iter().map(|ratio| ratio.map_or('·', step)).collect()
}

fn float(index: usize) -> f64 {
    f64::from(u32::try_from(index).expect("one of eight"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_rises_with_the_hit_ratio() {
        let line = VecDeque::from([None, Some(0.0), Some(0.5), Some(1.0)]);
        assert_eq!(sparkline(&line), "·▁▅█");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        assert_eq!([None, Some(849.9), Some(4210.0)].map(took), ["–", "850 µs", "4.2 ms"]);
    }

    #[test]
    fn the_line_is_no_longer_than_half_a_minute_and_ends_with_its_volume() {
        let mut lines = RecentHitRatios::new();
        for _ in 0..100 {
            remember(&mut lines, &[Rates { name: "v".into(), read_iops: 1.0, hit_ratio: 0.2, ..Default::default() }]);
        }
        assert_eq!(lines["v"].len(), LINE_LENGTH);
        remember(&mut lines, &[]);
        assert!(lines.is_empty());
    }

    #[test]
    fn the_busiest_come_first_and_the_worst_hit_ratio() {
        let volume =
            |name: &str, read_iops, hit_ratio| Rates { name: name.into(), read_iops, hit_ratio, ..Default::default() };
        let mut rates = [volume("a", 1.0, 0.1), volume("b", 9.0, 0.9)];
        sort(&mut rates, TopOrder::Iops);
        assert_eq!(rates[0].name, "b");
        sort(&mut rates, TopOrder::HitRatio);
        assert_eq!(rates[0].name, "a");
    }
}
