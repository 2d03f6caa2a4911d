//! `hotset advise`: how large a cache had better be, from the requests of a trace, and what it buys.

use std::path::Path;

use hotset_api::ApiError;
use hotset_cache::advisor::access::Accesses;
use hotset_cache::advisor::curve::{Curve, Point};
use hotset_cache::advisor::miniature::Setup;
use hotset_cache::advisor::sizes::half_octaves;
use hotset_cache::advisor::whatif::{Case, Footprint};
use hotset_cache::config::{BlockBytes, PolicyKind, PoolKind};
use serde::Serialize;

use super::progress::Progress;
use super::replay::{
    CaseAnswer, Effort, Whole, default_on_write, invalid, lacking_facts, look, refused, refused_source, try_all,
};
use super::{DEFAULT_BLOCK_BYTES, DEFAULT_CUTOFF_BYTES, LOOKING, TRYING};
use crate::advice;
use crate::args::{AdviseArguments, Output};
use crate::client::{self, Drawn, Marks, drawing, facts};
use crate::size::{Endurance, grouped, human, percent};

/// Sizes begin at this part of what is accessed.
const SMALLEST_PART: u64 = 256;

/// The answer of `advise`. Ratios are of the parts of blocks that requests touched.
#[derive(Serialize)]
struct Advice {
    trace: String,
    requests: u64,
    read_requests: u64,
    /// Requests that came too fast to be recorded.
    missing_requests: u64,
    /// Why there may have been more requests at the end; null, if nothing is known of that.
    ended_early: Option<&'static str>,
    /// From the first request to the last; null, if the trace has no times.
    seconds: Option<f64>,
    footprint_bytes: u64,
    block_bytes: u64,
    r#type: &'static str,
    policy: &'static str,
    /// From the smallest to the largest.
    curve: Vec<SizeAdvice>,
    /// The size in `curve` from which on no doubling brings two of a hundred reads that are not of streams; null, if no size pays.
    recommended: Option<SizeAdvice>,
    #[serde(skip)]
    accesses: Accesses,
}

/// A cache of one size.
#[derive(Clone, Serialize)]
struct SizeAdvice {
    size_bytes: u64,
    /// Of reads.
    hit_ratio: f64,
    /// How far `hit_ratio` may be off, for the sample.
    error: f64,
    /// Of writes, those that SSDs alone take; null in a read pool, which takes none, and where nothing was written.
    write_hit_ratio: Option<f64>,
    /// What LRU would hit that takes everything.
    lru_hit_ratio: f64,
    /// To all SSDs together, both copies of what is mirrored. Null, if the trace has no times, or is shorter than a minute.
    ssd_written_bytes_per_day: Option<f64>,
    /// How long the SSDs last at that rate, if nothing else is written to them. Null without `--endurance`.
    years: Option<f64>,
}

pub(crate) fn run(output: Output, path: &Path, arguments: &AdviseArguments) -> Result<(), ApiError> {
    let kind = arguments.kind.unwrap_or(PoolKind::ReadWrite);
    let block_bytes = BlockBytes::new(arguments.block_size.unwrap_or(DEFAULT_BLOCK_BYTES));
    let block_bytes = block_bytes.expect("the command line lets only valid ones through");
    let (footprints, whole) = look(path, &[block_bytes], &mut Progress::new(output, LOOKING))
        .map_err(|error| refused_source(&path.to_string_lossy(), error))?;
    let footprint = footprints.first().expect("there is one for each block size");
    if whole.requests == 0 {
        return Err(invalid(format!("trace {}: it has no reads and no writes", path.display())));
    }
    let setup = Setup {
        kind,
        block_bytes,
        policy: PolicyKind::S3Fifo,
        populate_on_read: arguments.populate_on_read.unwrap_or(2),
        populate_on_write: default_on_write(kind),
    };
    let accessed = footprint.bytes() / block_bytes.get() + 1;
    let sizes = half_octaves((accessed / SMALLEST_PART).max(2), accessed.saturating_mul(5) / 4 + 1);
    let case = |blocks: &u64| Case { setup, size_bytes: blocks.saturating_mul(block_bytes.get()) };
    let cases: Vec<Case> = sizes.iter().map(case).collect();
    let effort = Effort { cutoff: arguments.cutoff.unwrap_or(DEFAULT_CUTOFF_BYTES), exact: false };
    let tried = try_all(path, &cases, &footprints, effort, &whole, &mut Progress::new(output, TRYING));
    let (answers, _) = tried.map_err(refused)?;
    let endurance = arguments.endurance.map(|Endurance(bytes)| bytes);
    client::print(output, &Advice::new(path, &whole, footprint, &answers, endurance), Advice::text)
}

impl Advice {
    fn new(
        path: &Path,
        whole: &Whole,
        footprint: &Footprint,
        answers: &[CaseAnswer],
        endurance_bytes: Option<u64>,
    ) -> Self {
        let first = answers.first().expect("sizes are tried");
        let (setup, accesses) = (first.case.setup, first.outcome.accesses);
        let seconds = whole.time.seconds();
        let curve: Vec<SizeAdvice> =
            answers.iter().map(|answer| SizeAdvice::new(answer, footprint, seconds, endurance_bytes)).collect();
        let knee = knee(&curve, accesses);
        Self {
            trace: path.display().to_string(),
            requests: whole.requests,
            read_requests: whole.reads,
            missing_requests: whole.lacking.missing_requests,
            ended_early: whole.ended_early(),
            seconds,
            footprint_bytes: footprint.bytes(),
            block_bytes: setup.block_bytes.get(),
            r#type: setup.kind.word(),
            policy: setup.policy.word(),
            recommended: knee.and_then(|bytes| curve.iter().find(|size| size.size_bytes == bytes).cloned()),
            curve,
            accesses,
        }
    }

    fn text(&self) -> String {
        let mut known = vec![
            ("Trace", format!("{}, {} requests", self.trace, grouped(self.requests))),
            ("Accessed", human(self.footprint_bytes)),
            ("Pool", format!("{}, {}, blocks of {}", self.r#type, self.policy, human(self.block_bytes))),
        ];
        known.extend(lacking_facts(self.missing_requests, self.ended_early));
        let known = facts(&known);
        format!("{known}\n{}\n{}\n", self.drawing(), self.sentence())
    }

    fn drawing(&self) -> String {
        let drawn = |size: &SizeAdvice| Drawn {
            size_bytes: size.size_bytes,
            hit_ratio: size.hit_ratio,
            lru_hit_ratio: size.lru_hit_ratio,
        };
        let curve: Vec<Drawn> = self.curve.iter().map(drawn).collect();
        let recommended = self.recommended.as_ref().map(|size| size.size_bytes);
        drawing(&curve, Marks { recommended, present: None })
    }

    fn sentence(&self) -> String {
        let largest = self.curve.last().map(|best| (best.size_bytes, best.hit_ratio));
        let Some(size) = &self.recommended else {
            return advice::nothing_pays(self.accesses, largest) + &self.writes(self.curve.first());
        };
        let mut text = format!(
            "Recommended: {}, which hits {} of the reads (+- {}).",
            human(size.size_bytes),
            percent(size.hit_ratio),
            percent(size.error)
        );
        if let Some(half) = self.near(size.size_bytes / 2).filter(|half| half.size_bytes < size.size_bytes) {
            text.push_str(&format!(" Half of it: {}.", percent(half.hit_ratio)));
        }
        let size_and_ratio = (size.size_bytes, size.hit_ratio);
        text.push_str(&advice::beyond(size_and_ratio, largest, size.ssd_written_bytes_per_day, size.years));
        text + &self.writes(Some(size))
    }

    /// What a size does for writes; nothing, where they are not taken.
    fn writes(&self, size: Option<&SizeAdvice>) -> String {
        let taken = |size: Option<&SizeAdvice>| size.and_then(|size| Some((size.size_bytes, size.write_hit_ratio?)));
        let both = taken(size).zip(taken(self.curve.last()));
        both.map(|(own, largest)| advice::writes_taken(own, largest)).unwrap_or_default()
    }

    /// The tried size that is nearest to this one from below.
    fn near(&self, bytes: u64) -> Option<&SizeAdvice> {
        self.curve.iter().rev().find(|size| size.size_bytes <= bytes.saturating_add(bytes / 50))
    }
}

impl SizeAdvice {
    fn new(answer: &CaseAnswer, footprint: &Footprint, seconds: Option<f64>, endurance_bytes: Option<u64>) -> Self {
        let CaseAnswer { case, outcome, .. } = answer;
        let lru_hits = 1.0 - footprint.lru_misses(case.size_bytes);
        let per_day = seconds.and_then(|seconds| advice::per_day(outcome.ssd_written_bytes, seconds));
        Self {
            size_bytes: case.size_bytes,
            hit_ratio: answer.hit_ratio(),
            error: outcome.read_error,
            write_hit_ratio: answer.write_hit_ratio(),
            lru_hit_ratio: lru_hits,
            ssd_written_bytes_per_day: per_day,
            years: advice::years(endurance_bytes, per_day),
        }
    }
}

/// The size from which on more does not pay, in bytes.
fn knee(curve: &[SizeAdvice], accesses: Accesses) -> Option<u64> {
    let point = |size: &SizeAdvice| Point { blocks: size.size_bytes, misses: 1.0 - size.hit_ratio, error: size.error };
    advice::knee(&Curve::new(curve.iter().map(point).collect()), accesses).map(|point| point.blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(mib: u64, hit_ratio: f64) -> SizeAdvice {
        SizeAdvice {
            size_bytes: mib << 20,
            hit_ratio,
            error: 0.01,
            write_hit_ratio: Some(1.0),
            lru_hit_ratio: hit_ratio / 2.0,
            ssd_written_bytes_per_day: Some(1e9),
            years: Some(12.34),
        }
    }

    fn advice(curve: Vec<SizeAdvice>) -> Advice {
        let accesses = Accesses { reads: 1000, stream_reads: 0, writes: 234 };
        let knee = knee(&curve, accesses);
        Advice {
            trace: "t".to_owned(),
            requests: 1234,
            read_requests: 1000,
            missing_requests: 0,
            ended_early: None,
            seconds: Some(60.0),
            footprint_bytes: 800 << 20,
            block_bytes: 1 << 20,
            r#type: "read",
            policy: "s3-fifo",
            recommended: curve.iter().find(|size| Some(size.size_bytes) == knee).cloned(),
            curve,
            accesses,
        }
    }

    // proves: A3
    #[test]
    fn a_size_is_recommended_from_which_on_more_does_not_pay_and_drawn() {
        let told = advice(vec![size(100, 0.1), size(200, 0.4), size(400, 0.8), size(800, 0.81)]);
        let text = told.text();
        for part in [
            "Recommended: 400 MiB, which hits 80.0 % of the reads (+-",
            "take 100.0 % of the writes, whatever their size",
            "Half of it: 40.0 %",
            "800 MiB would bring 1.0 % more",
            "last 12.3 years",
            "100 MiB",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches('*').count(), 4, "each size has a point:\n{text}");
        assert!(text.contains(" | ") && text.contains(" . "), "{text}");
    }

    // proves: A3
    #[test]
    fn where_nothing_would_hit_nothing_is_recommended() {
        let told = advice(vec![size(100, 0.0), size(200, 0.0)]);
        assert!(told.text().contains("No cache of any size would hit"), "{}", told.text());
        let told = advice(vec![size(100, 0.001), size(200, 0.012)]);
        assert!(
            told.text().contains("No size pays: the largest that was tried, 200 MiB, would hit 1.2 %."),
            "{}",
            told.text()
        );
    }

    // proves: A3
    #[test]
    fn of_writes_alone_a_read_pool_tells_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.csv");
        let lines: String = (0..100).map(|time| format!("{time},W,{},4096\n", time % 10 * 65_536)).collect();
        std::fs::write(&path, format!("time_us,op,offset_bytes,length_bytes\n{lines}")).unwrap();
        let block_bytes = BlockBytes::new(64 << 10).unwrap();
        let progress = &mut Progress::new(Output::Json, LOOKING);
        let (footprints, whole) = look(&path, &[block_bytes], progress).unwrap();
        let setup = Setup {
            kind: PoolKind::Read,
            block_bytes,
            policy: PolicyKind::S3Fifo,
            populate_on_read: 1,
            populate_on_write: 1,
        };
        let case = Case { setup, size_bytes: 1 << 20 };
        let effort = Effort { cutoff: 0, exact: true };
        let (answers, _) = try_all(&path, &[case], &footprints, effort, &whole, progress).unwrap();
        let told = Advice::new(&path, &whole, &footprints[0], &answers, Some(1 << 40));
        assert!(told.recommended.is_none() && told.sentence().starts_with("Nothing was read"), "{}", told.text());
        let size = &told.curve[0];
        assert!(size.hit_ratio == 0.0 && size.lru_hit_ratio == 0.0, "nothing hits");
        assert_eq!((size.ssd_written_bytes_per_day, size.years), (None, None), "100 us are no day");
    }
}
