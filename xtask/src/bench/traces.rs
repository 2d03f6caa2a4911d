//! The default policy on recorded traces, against S3-FIFO's published miss ratios: the table of the policy's test.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

use super::figure::{Figure, Judged, Target};
use crate::command::{cargo, printed_within};

/// At most 1 % more misses than the reference.
const TARGET: f64 = 1.01;
/// More than it takes to build and to run.
const LIMIT: Duration = Duration::from_secs(3600);
/// The test that prints it.
const TEST: &str = "traces::the_default_policy_misses_no_more_than_the_reference_on_every_trace";

/// A line of the test's table.
#[derive(Debug, PartialEq)]
struct Row {
    trace: String,
    object_bytes: u64,
    share: f64,
    reference: f64,
    ours: f64,
    ratio: f64,
}

pub(crate) fn measure() -> Result<Vec<Figure>> {
    let mut test = cargo(&["test", "--quiet", "--package=hotset-cache-tests", "--test=pools", "--", "--exact", TEST]);
    // The table goes to standard output, past the test harness.
    let (status, text) = printed_within(&mut test, LIMIT)?;
    figures(status.success(), &text)
}

/// Of what the test printed.
fn figures(passed: bool, text: &str) -> Result<Vec<Figure>> {
    if !passed {
        bail!("the test of the traces failed: {text}");
    }
    if let Some(line) = text.lines().find(|line| line.contains("SKIPPED")) {
        return Ok(vec![Figure::skipped("miss ratio of the default policy against S3-FIFO's", line)]);
    }
    let rows: Vec<Row> = text.lines().filter_map(row).collect();
    if rows.is_empty() {
        bail!("the test of the traces printed no table: {text}");
    }
    let mut worst: BTreeMap<(u64, &str), &Row> = BTreeMap::new();
    for row in &rows {
        let entry = worst.entry((row.object_bytes, &row.trace)).or_insert(row);
        if row.ratio > entry.ratio {
            *entry = row;
        }
    }
    Ok(worst.into_values().map(figure).collect())
}

fn figure(row: &Row) -> Figure {
    Figure {
        what: format!("{}, {} KiB objects: worst of its cache sizes / S3-FIFO's", row.trace, row.object_bytes >> 10),
        unit: "missed",
        measured: Some(row.ours),
        reference: Some(row.reference),
        judged: Judged::Ratio(row.ratio),
        target: Target::AtMost(TARGET),
        note: format!("cache size {} of the trace's footprint", row.share),
    }
}

fn row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [trace, object, share, _objects, reference, ours, ratio] = fields[..] else { return None };
    Some(Row {
        trace: trace.to_owned(),
        object_bytes: object.parse().ok()?,
        share: share.parse().ok()?,
        reference: reference.parse().ok()?,
        ours: ours.parse().ok()?,
        ratio: ratio.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_read_if_the_test_passed_and_its_head_is_not() {
        let line = "arc_oltp                 4096     0.01      100   0.50000   0.50100  1.0020";
        let (share, reference, ours, ratio) = (0.01, 0.5, 0.501, 1.002);
        let expected = Row { trace: "arc_oltp".to_owned(), object_bytes: 4096, share, reference, ours, ratio };
        assert_eq!(row(line), Some(expected));
        assert!(figures(true, line).is_ok_and(|figures| figures.len() == 1));
        assert!(figures(true, "running 0 tests").is_err() && figures(false, line).is_err());
        assert!(figures(true, "SKIPPED: no traces").is_ok_and(|figures| figures.len() == 1));
        assert_eq!(row("trace  object  share  objects  s3fifo  hotset  ratio"), None);
    }
}
