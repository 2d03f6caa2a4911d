//! What a benchmark found, row by row beside the vendor's.

use super::super::figure::{Figure, Judged, Target};
use super::super::report::readable;
use super::plot::{Axis, Panel, Shape};

/// What a measurement may be off: a row within it is not called slower, nor short of the vendor's.
const NOISE: f64 = 0.05;

/// What a benchmark found.
pub(super) struct Sheet {
    pub(super) title: &'static str,
    /// What the vendor had: array, load, cache.
    pub(super) vendor: &'static str,
    /// What stands for it here.
    pub(super) ours: String,
    /// By how much it is smaller.
    pub(super) scale: String,
    pub(super) unit: Unit,
    pub(super) rows: Vec<Row>,
    /// Curves and other plots, below that of the ratios.
    pub(super) panels: Vec<Panel>,
    /// What explains the numbers, each a sentence or more.
    pub(super) remarks: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Iops,
    MbPerSecond,
    /// Less is better.
    Seconds,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MbPerSecond => "MB/s",
            Self::Seconds => "s",
        }
    }
}

/// Without and with a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) without: f64,
    pub(super) with: f64,
}

impl Pair {
    /// How many times as fast the cache makes it.
    pub(super) fn ratio(self, unit: Unit) -> f64 {
        match unit {
            Unit::Iops | Unit::MbPerSecond => self.with / self.without.max(f64::MIN_POSITIVE),
            Unit::Seconds => self.without / self.with.max(f64::MIN_POSITIVE),
        }
    }
}

pub(super) struct Row {
    pub(super) what: String,
    /// If it is another one than the sheet's.
    pub(super) unit: Option<Unit>,
    pub(super) vendor: Vendor,
    pub(super) ours: Pair,
    /// Until it was warm.
    pub(super) warm_up: Option<WarmUp>,
    /// Why it is as it is, where numbers say so.
    pub(super) note: String,
}

/// What the vendor published of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Vendor {
    Nothing,
    Ratio(f64),
    Rates(Pair),
}

impl Row {
    pub(super) fn new(what: impl Into<String>, vendor: Option<(f64, f64)>, ours: (f64, f64)) -> Self {
        let pair = |(without, with)| Pair { without, with };
        let vendor = vendor.map_or(Vendor::Nothing, |rates| Vendor::Rates(pair(rates)));
        Self { what: what.into(), unit: None, vendor, ours: pair(ours), warm_up: None, note: String::new() }
    }
}

/// Seconds until the cache was warm.
#[derive(Clone, Copy)]
pub(super) struct WarmUp {
    /// For the vendor's amount of data.
    pub(super) vendor: Option<f64>,
    pub(super) ours: f64,
    /// The time in which the array streams our amount of data.
    pub(super) streaming: Option<f64>,
}

/// What is said of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Reached,
    /// The vendor published nothing of it, and the cache is not slower than none.
    NotSlower,
    /// The vendor gained more.
    Short,
    /// The cache is slower than none.
    Slower,
}

impl Verdict {
    fn words(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::NotSlower => "not slower",
            Self::Short => "**short**",
            Self::Slower => "**slower than without**",
        }
    }
}

impl Sheet {
    fn unit_of(&self, row: &Row) -> Unit {
        row.unit.unwrap_or(self.unit)
    }

    pub(super) fn ratio(&self, row: &Row) -> f64 {
        row.ours.ratio(self.unit_of(row))
    }

    fn vendor_ratio(&self, row: &Row) -> Option<f64> {
        match row.vendor {
            Vendor::Nothing => None,
            Vendor::Ratio(ratio) => Some(ratio),
            Vendor::Rates(pair) => Some(pair.ratio(self.unit_of(row))),
        }
    }

    pub(super) fn verdict(&self, row: &Row) -> Verdict {
        let ratio = self.ratio(row);
        if ratio < 1.0 - NOISE {
            return Verdict::Slower;
        }
        match self.vendor_ratio(row) {
            None => Verdict::NotSlower,
            Some(vendor) if ratio < vendor * (1.0 - NOISE) => Verdict::Short,
            Some(_) => Verdict::Reached,
        }
    }

    /// How many rows there are of each verdict, in words. Only a row with a figure of the vendor's can reach it.
    pub(super) fn sum(&self) -> String {
        let (compared, alone): (Vec<&Row>, Vec<&Row>) =
            self.rows.iter().partition(|row| self.vendor_ratio(row).is_some());
        let count = |rows: &[&Row], verdict| rows.iter().filter(|row| self.verdict(row) == verdict).count();
        let (reached, all) = (count(&compared, Verdict::Reached), compared.len());
        let mut sum = if alone.is_empty() {
            format!("{reached} of {all} rows reach the vendor's ratio")
        } else {
            format!("{reached} of {all} rows with a vendor's figure reach it")
        };
        for (verdict, words) in [(Verdict::Short, "fall short"), (Verdict::Slower, "slower than without")] {
            match count(&compared, verdict) {
                0 => {}
                rows => sum.push_str(&format!(", {rows} {words}")),
            }
        }
        match (alone.len(), count(&alone, Verdict::Slower)) {
            (0, _) => sum,
            (rows, 0) => format!("{sum}; {rows} more have none and are not slower"),
            (rows, slower) => format!("{sum}; {rows} more have none, {slower} of them slower than without"),
        }
    }

    /// For the figures of the run.
    pub(super) fn figures(&self, id: &str) -> Vec<Figure> {
        let figure = |row: &Row| {
            let least = self.vendor_ratio(row).unwrap_or(1.0).max(1.0) * (1.0 - NOISE);
            Figure {
                what: format!("{id}: {}", row.what),
                unit: self.unit_of(row).name(),
                measured: Some(row.ours.with),
                reference: Some(row.ours.without),
                judged: Judged::Ratio(self.ratio(row)),
                target: Target::AtLeast((least * 100.0).round() / 100.0),
                note: row.note.clone(),
            }
        };
        self.rows.iter().map(figure).collect()
    }

    /// As it is printed.
    pub(super) fn table(&self) -> Vec<String> {
        let head = ["", "vendor without", "with", "ratio", "ours without", "with", "ratio", "warm after", ""];
        let rows: Vec<[String; 9]> =
            std::iter::once(head.map(str::to_owned)).chain(self.rows.iter().map(|row| self.cells(row))).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let line = |row: &[String; 9]| {
            let rest = row[1..].iter().zip(&widths[1..]).map(|(cell, width)| format!("{cell:>width$}"));
            let first = format!("{:<width$}", row[0], width = widths[0]);
            std::iter::once(first).chain(rest).collect::<Vec<_>>().join("  ").replace("**", "").trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }

    /// As it stands on the page.
    pub(super) fn markdown_table(&self) -> String {
        let head = "| | vendor: without | with | ratio | ours: without | with | ratio | warm after | |\n|---|--:|--:|--:|--:|--:|--:|--:|---|\n";
        let line = |row: &Row| format!("| {} |\n", self.cells(row).join(" | "));
        head.to_owned() + &self.rows.iter().map(line).collect::<String>()
    }

    fn cells(&self, row: &Row) -> [String; 9] {
        let unit = self.unit_of(row);
        let number = |value: f64| format!("{} {}", readable(value), unit.name());
        let (before, after) = match row.vendor {
            Vendor::Nothing | Vendor::Ratio(_) => ("-".to_owned(), "-".to_owned()),
            Vendor::Rates(pair) => (number(pair.without), number(pair.with)),
        };
        let times = |ratio: f64| format!("{}×", readable(ratio));
        let warm = row.warm_up.map_or(String::new(), |warm| {
            let vendor = warm.vendor.map_or(String::new(), |seconds| format!("; vendor {seconds:.0} s"));
            let streaming =
                warm.streaming.map_or(String::new(), |seconds| format!(" (streamed in {seconds:.1} s{vendor})"));
            format!("{:.1} s{streaming}", warm.ours)
        });
        [
            row.what.clone(),
            before,
            after,
            self.vendor_ratio(row).map_or("-".to_owned(), times),
            number(row.ours.without),
            number(row.ours.with),
            times(self.ratio(row)),
            warm,
            self.verdict(row).words().to_owned(),
        ]
    }

    /// What falls short, and why: from the numbers.
    pub(super) fn shortfalls(&self) -> Vec<String> {
        let told = |row: &Row| {
            let ratio = self.ratio(row);
            let gap = match self.verdict(row) {
                Verdict::Reached | Verdict::NotSlower => return None,
                Verdict::Slower => format!("{:.0} % slower with the cache than without", 100.0 * (1.0 - ratio)),
                Verdict::Short => {
                    let vendor = self.vendor_ratio(row).unwrap_or(1.0);
                    format!("{}× where the vendor had {}×", readable(ratio), readable(vendor))
                }
            };
            let why = if row.note.is_empty() { "no number of this run explains it" } else { &row.note };
            Some(format!("{}: {gap}; {why}.", row.what))
        };
        self.rows.iter().filter_map(told).collect()
    }

    /// The ratios beside the vendor's, then what the benchmark drew.
    pub(super) fn plots(&self) -> Vec<Panel> {
        let ratios = |of: &dyn Fn(&Row) -> f64| -> Vec<f64> { self.rows.iter().map(of).collect() };
        let theirs = ratios(&|row| self.vendor_ratio(row).unwrap_or(0.0));
        let labels = self.rows.iter().map(|row| row.what.clone()).collect();
        let bars = vec![("vendor".to_owned(), theirs), ("ours".to_owned(), ratios(&|row| self.ratio(row)))];
        let first = Panel {
            title: format!("{}: how many times as fast with the cache", self.title),
            x: String::new(),
            y: "times".to_owned(),
            axis: Axis::Linear,
            shape: Shape::Bars { labels, series: bars },
            limit: Some((1.0, "no cache".to_owned())),
        };
        std::iter::once(first).chain(self.panels.iter().cloned()).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn sheet() -> Sheet {
        let row =
            |what: &str, vendor, ours| Row { note: "one disk is the limit".to_owned(), ..Row::new(what, vendor, ours) };
        let mut rows = vec![
            row("1 SSD", Some((4512.0, 121_326.0)), (4500.0, 130_000.0)),
            row("2 SSDs", Some((1000.0, 4000.0)), (1000.0, 3000.0)),
            row("stream", None, (900.0, 800.0)),
        ];
        rows[0].warm_up = Some(WarmUp { vendor: Some(420.0), ours: 4.25, streaming: Some(2.0) });
        rows[2].unit = Some(Unit::MbPerSecond);
        Sheet {
            title: "B0, an example",
            vendor: "16 disks",
            ours: "16 emulated disks".to_owned(),
            scale: "1/90 of the data".to_owned(),
            unit: Unit::Iops,
            rows,
            panels: Vec::new(),
            remarks: vec!["It is an example.".to_owned()],
        }
    }

    #[test]
    fn a_row_is_judged_by_the_vendors_ratio_and_by_no_cache() {
        let sheet = sheet();
        let verdicts: Vec<Verdict> = sheet.rows.iter().map(|row| sheet.verdict(row)).collect();
        assert_eq!(verdicts, [Verdict::Reached, Verdict::Short, Verdict::Slower]);
    }

    #[test]
    fn only_rows_with_a_figure_of_the_vendors_reach_it() {
        let sum_of = |count: usize, more: &[(f64, f64)]| {
            let mut sheet = sheet();
            sheet.rows.truncate(count);
            sheet.rows.extend(more.iter().map(|ours| Row::new("alone", None, *ours)));
            sheet.sum()
        };
        assert_eq!(sum_of(2, &[]), "1 of 2 rows reach the vendor's ratio, 1 fall short");
        let (as_fast, slower) = ((1000.0, 960.0), (1000.0, 940.0));
        assert_eq!(
            sum_of(1, &[as_fast]),
            "1 of 1 rows with a vendor's figure reach it; 1 more have none and are not slower"
        );
        assert_eq!(
            sum_of(2, &[as_fast, slower]),
            "1 of 2 rows with a vendor's figure reach it, 1 fall short; 2 more have none, 1 of them slower than without"
        );
        let mut sheet = sheet();
        sheet.rows = vec![Row::new("alone", None, as_fast), Row::new("alone", None, slower)];
        assert_eq!(sheet.verdict(&sheet.rows[0]), Verdict::NotSlower);
        assert_eq!(sheet.verdict(&sheet.rows[1]), Verdict::Slower);
        assert_eq!(
            sheet.shortfalls(),
            ["alone: 6 % slower with the cache than without; no number of this run explains it."]
        );
        sheet.rows[0].vendor = Vendor::Ratio(5.0);
        sheet.rows[0].ours = Pair { without: 1000.0, with: 900.0 };
        assert!(sheet.sum().starts_with("0 of 1 rows with a vendor's figure reach it, 1 slower than without; 1 more"));
    }

    #[test]
    fn seconds_are_better_when_they_are_fewer() {
        let pair = Pair { without: 61.0, with: 27.0 };
        assert!((pair.ratio(Unit::Seconds) - 61.0 / 27.0).abs() < 1e-9);
        assert!((pair.ratio(Unit::Iops) - 27.0 / 61.0).abs() < 1e-9);
    }

    #[test]
    fn what_falls_short_is_told_with_its_numbers() {
        let told = sheet().shortfalls();
        assert_eq!(told[0], "2 SSDs: 3.00× where the vendor had 4.00×; one disk is the limit.");
        assert_eq!(told[1], "stream: 11 % slower with the cache than without; one disk is the limit.");
        assert_eq!(told.len(), 2);
    }

    #[test]
    fn a_table_has_the_vendors_row_beside_ours() {
        let table = sheet().table();
        for part in [
            "4512 IOPS",
            "121326 IOPS",
            "26.9×",
            "130000 IOPS",
            "28.9×",
            "4.2 s (streamed in 2.0 s; vendor 420 s)",
            "reached",
        ] {
            assert!(table[1].contains(part), "{part} in {}", table[1]);
        }
        assert!(table[3].contains("900 MB/s") && table[3].ends_with("slower than without"), "{}", table[3]);
        let markdown = sheet().markdown_table();
        assert!(markdown.lines().all(|line| line.matches('|').count() == 10), "{markdown}");
    }

    #[test]
    fn figures_demand_the_vendors_ratio_less_what_measuring_is_off() {
        let figures = sheet().figures("b0");
        assert_eq!(figures[1].target, Target::AtLeast(3.8));
        assert_eq!(figures[2].target, Target::AtLeast(0.95));
        assert_eq!(figures[2].unit, "MB/s");
    }

    #[test]
    fn the_first_plot_has_a_bar_for_each_row() {
        let Shape::Bars { labels, series } = &sheet().plots()[0].shape else { panic!("bars") };
        assert_eq!(labels.len(), 3);
        assert!((series[1].1[1] - 3.0).abs() < 1e-9 && series[0].1[2].abs() < 1e-9);
    }
}
