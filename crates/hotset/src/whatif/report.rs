//! What is printed of the pools that were tried.

use hotset_api::ApiError;
use hotset_cache::advisor::figures::number;
use hotset_cache::advisor::whatif::Footprint;
use serde::Serialize;

use super::replay::{CaseAnswer, Requests, Whole, lacking_facts};
use crate::advice::per_day;
use crate::args::Output;
use crate::client::{self, Table, facts};
use crate::size::{grouped, human, percent, whole_bytes};

/// The answer of `whatif`.
#[derive(Serialize)]
pub(super) struct WhatIfReport {
    trace: String,
    format: &'static str,
    requests: u64,
    read_requests: u64,
    /// Requests that a stream took past the cache.
    stream_requests: u64,
    /// Requests that came too fast to be recorded.
    missing_requests: u64,
    /// Why there may have been more requests at the end; null, if nothing is known of that.
    ended_early: Option<&'static str>,
    /// From the first request to the last, or as long as the volume was watched; null, if the trace has no times.
    seconds: Option<f64>,
    /// What is accessed, each block once, in the smallest blocks that were tried.
    footprint_bytes: u64,
    pools: Vec<CaseRow>,
}

/// One pool. Ratios are of the parts of blocks that requests touched.
#[derive(Serialize)]
struct CaseRow {
    size_bytes: u64,
    block_bytes: u64,
    r#type: &'static str,
    policy: &'static str,
    populate_on_read: u8,
    populate_on_write: u8,
    /// Of reads.
    hit_ratio: f64,
    miss_ratio: f64,
    /// Of writes, those that SSDs alone take; null in a read pool, which takes none, and where nothing was written.
    write_hit_ratio: Option<f64>,
    /// How far `hit_ratio` may be off, for the sample; 0 without one.
    error: f64,
    /// To all SSDs together, both copies of what is mirrored.
    ssd_written_bytes: f64,
    /// Null, if the trace has no times, or is shorter than a minute.
    ssd_written_bytes_per_day: Option<f64>,
    /// The part of all blocks that was watched.
    sample: f64,
}

impl WhatIfReport {
    pub(super) fn new(
        requests: &Requests<'_>,
        whole: &Whole,
        footprints: &[Footprint],
        answers: &[CaseAnswer],
    ) -> Self {
        // A volume on which nothing happens for some time at the end was watched there, too.
        let seconds = requests.watched.map(|time| time.as_secs_f64()).or_else(|| whole.time.seconds());
        Self {
            trace: requests.called.to_owned(),
            format: whole.format,
            requests: whole.requests,
            read_requests: whole.reads,
            stream_requests: whole.past,
            missing_requests: whole.lacking.missing_requests,
            ended_early: requests.ended_early.or_else(|| whole.ended_early()),
            seconds,
            footprint_bytes: footprints.first().map_or(0, Footprint::bytes),
            pools: answers.iter().map(|answer| CaseRow::new(answer, seconds)).collect(),
        }
    }

    fn text(&self) -> String {
        let share = |part: u64| percent(number(part) / number(self.requests.max(1)));
        let mut known = vec![
            ("Trace", format!("{}, {}", self.trace, self.format)),
            ("Requests", format!("{}, {} of them reads", grouped(self.requests), share(self.read_requests))),
            ("Streams", format!("{} of the requests go past the cache", share(self.stream_requests))),
            ("Accessed", human(self.footprint_bytes)),
        ];
        known.extend(lacking_facts(self.missing_requests, self.ended_early));
        let known = facts(&known);
        let mut table = Table::new(&[
            ">SIZE",
            ">BLOCK",
            "POLICY",
            ">READS",
            ">WRITES",
            ">READ HITS",
            ">+-",
            ">WRITE HITS",
            ">TO SSDS",
            ">A DAY",
        ]);
        for row in &self.pools {
            table.row(vec![
                human(row.size_bytes),
                human(row.block_bytes),
                row.policy.to_owned(),
                row.populate_on_read.to_string(),
                row.populate_on_write.to_string(),
                percent(row.hit_ratio),
                if row.sample < 1.0 { percent(row.error) } else { "exact".to_owned() },
                row.write_hit_ratio.map_or_else(|| "-".to_owned(), percent),
                human(whole_bytes(row.ssd_written_bytes)),
                row.ssd_written_bytes_per_day.map_or_else(|| "-".to_owned(), |bytes| human(whole_bytes(bytes))),
            ]);
        }
        format!("{known}\n{}", table.render())
    }
}

impl CaseRow {
    fn new(answer: &CaseAnswer, seconds: Option<f64>) -> Self {
        let CaseAnswer { case, outcome, rate } = answer;
        Self {
            size_bytes: case.size_bytes,
            block_bytes: case.setup.block_bytes.get(),
            r#type: case.setup.kind.word(),
            policy: case.setup.policy.word(),
            populate_on_read: case.setup.populate_on_read,
            populate_on_write: case.setup.populate_on_write,
            hit_ratio: answer.hit_ratio(),
            miss_ratio: outcome.read_misses,
            write_hit_ratio: answer.write_hit_ratio(),
            error: outcome.read_error,
            ssd_written_bytes: outcome.ssd_written_bytes,
            ssd_written_bytes_per_day: seconds.and_then(|seconds| per_day(outcome.ssd_written_bytes, seconds)),
            sample: rate.part(),
        }
    }
}

pub(super) fn print(output: Output, report: &WhatIfReport) -> Result<(), ApiError> {
    client::print(output, report, WhatIfReport::text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::trace::Lacking;

    // proves: A3
    #[test]
    fn a_volume_that_was_watched_was_watched_for_its_whole_time() {
        let mut whole = Whole::default();
        [0, 90_000_000].into_iter().for_each(|time_us| whole.time.note(Some(time_us)));
        let seconds = |watched| {
            let requests = Requests { path: Path::new("t"), called: "t", watched, ended_early: None };
            WhatIfReport::new(&requests, &whole, &[], &[]).seconds
        };
        assert_eq!(seconds(None), Some(90.0));
        assert_eq!(seconds(Some(Duration::from_secs(600))), Some(600.0), "nothing was asked at the end");
    }

    // proves: A4
    #[test]
    fn what_is_missing_of_the_requests_is_told() {
        let requests = Requests { path: Path::new("t"), called: "t", watched: None, ended_early: None };
        let told = |requests: &Requests<'_>, whole: &Whole| WhatIfReport::new(requests, whole, &[], &[]).text();
        let whole = told(&requests, &Whole::default());
        assert!(!whole.contains("Missing") && !whole.contains("Ended early"), "{whole}");
        let lacking = Lacking { missing_requests: 1234, is_cut: true };
        let cut = told(&requests, &Whole { lacking, ..Whole::default() });
        assert!(
            cut.contains("1,234 requests came too fast") && cut.contains("the end of the file is missing"),
            "{cut}"
        );
        let watched = Requests { ended_early: Some("the volume was opened anew"), ..requests };
        assert!(told(&watched, &Whole::default()).contains("the volume was opened anew"));
    }
}
