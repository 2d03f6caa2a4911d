//! The requests of a trace go through pools: once to see how much there is, and once through all of them.

use std::path::Path;
use std::thread;
use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind};
use hotset_block::ByteRange;
use hotset_cache::advisor::access::{Direction, Passage};
use hotset_cache::advisor::figures::number;
use hotset_cache::advisor::miniature::Outcome;
use hotset_cache::advisor::sample::Rate;
use hotset_cache::advisor::whatif::{Case, Footprint, WhatIf, slots_each};
use hotset_cache::config::{BlockBytes, PoolKind, VolumeName};
use hotset_cache::state::Streams;

use super::progress::Progress;
use crate::size::grouped;
use crate::trace::{Lacking, Request, Trace, TraceError};

/// Requests that are read before all pools go through them.
const CHUNK: usize = 65_536;
/// Accesses that are gone through for each request of the trace, over all pools and for each thread: so a million requests take
/// less than two seconds.
const ACCESSES_PER_REQUEST: u64 = 8;
/// Requests that are recorded on several processors are out of order by less; a time that is earlier by more begins anew.
const OUT_OF_ORDER_US: u64 = 1_000_000;

/// What is gone through.
pub(crate) struct Requests<'a> {
    pub(crate) path: &'a Path,
    pub(crate) called: &'a str,
    /// How long a volume was watched for them; `None`: their times tell.
    pub(crate) watched: Option<Duration>,
    /// Why they end before they were to; `None`: they do not, or nothing is known of that.
    pub(crate) ended_early: Option<&'static str>,
}

/// What the trace is like as a whole.
#[derive(Default)]
pub(super) struct Whole {
    pub(super) format: &'static str,
    pub(super) requests: u64,
    pub(super) reads: u64,
    pub(super) past: u64,
    pub(super) time: TimePassed,
    pub(super) lacking: Lacking,
}

impl Whole {
    /// Why the trace ends before it was to; `None`: it does not, or nothing is known of that.
    pub(super) fn ended_early(&self) -> Option<&'static str> {
        self.lacking.is_cut.then_some("the end of the file is missing")
    }
}

/// What is to be known of answers that are of a part of the requests.
pub(super) fn lacking_facts(missing_requests: u64, ended_early: Option<&'static str>) -> Vec<(&'static str, String)> {
    let missing = (missing_requests > 0).then(|| {
        let requests = grouped(missing_requests);
        ("Missing", format!("{requests} requests came too fast to be recorded: answers are without them"))
    });
    missing.into_iter().chain(ended_early.map(|why| ("Ended early", why.to_owned()))).collect()
}

/// How long a trace goes on: the sum of the steps forward, so that several recordings in one file have their times together.
#[derive(Default)]
pub(super) struct TimePassed {
    latest_us: Option<u64>,
    sum_us: u64,
}

impl TimePassed {
    /// `None`: one request has no time.
    pub(super) fn note(&mut self, time_us: Option<u64>) {
        let Some(now) = time_us else { return };
        let latest = self.latest_us.unwrap_or(now);
        self.sum_us = self.sum_us.saturating_add(now.saturating_sub(latest));
        let begins_anew = latest.saturating_sub(now) > OUT_OF_ORDER_US;
        self.latest_us = Some(if begins_anew { now } else { now.max(latest) });
    }

    /// `None`: the trace has no times.
    pub(super) fn seconds(&self) -> Option<f64> {
        Some(number(self.sum_us) / 1e6).filter(|seconds| *seconds > 0.0)
    }
}

/// One combination, and what came of it.
pub(super) struct CaseAnswer {
    pub(super) case: Case,
    pub(super) outcome: Outcome,
    pub(super) rate: Rate,
}

impl CaseAnswer {
    /// Of reads; 0 if there were none.
    pub(super) fn hit_ratio(&self) -> f64 {
        if self.outcome.accesses.reads == 0 { 0.0 } else { 1.0 - self.outcome.read_misses }
    }

    /// Of writes, those that SSDs alone take. `None` in a read pool, which takes none, and if nothing was written.
    pub(super) fn write_hit_ratio(&self) -> Option<f64> {
        let takes_writes = self.case.setup.kind == PoolKind::ReadWrite && self.outcome.accesses.writes > 0;
        takes_writes.then_some(1.0 - self.outcome.write_misses)
    }
}

/// How a trace is gone through.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    /// Streams longer than this go past the pools; 0: none do.
    pub(super) cutoff: u64,
    /// All blocks are watched.
    pub(super) exact: bool,
}

/// Tries all cases; answers what came of each, and how many requests streams took past them.
pub(super) fn try_all(
    path: &Path,
    cases: &[Case],
    footprints: &[Footprint],
    effort: Effort,
    whole: &Whole,
    progress: &mut Progress,
) -> Result<(Vec<CaseAnswer>, u64), TraceError> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut parts = deal(cases, footprints, effort, whole, threads);
    let past = go_through(path, effort, &mut parts, progress)?;
    Ok((gather(cases, parts), past))
}

pub(super) fn refused(error: TraceError) -> ApiError {
    invalid(error.to_string())
}

/// What was asked for at the command line cannot be gone through: somebody may have meant a volume.
pub(super) fn refused_source(source: &str, error: TraceError) -> ApiError {
    if error.is_of_a_trace() || source.parse::<VolumeName>().is_err() {
        return refused(error);
    }
    invalid(format!(
        "{error}; for the volume {source}, be in a directory where there is no file of this name: here, {source} is the file"
    ))
}

pub(super) fn invalid(message: String) -> ApiError {
    ApiError::new(ApiErrorKind::Invalid, message)
}

/// The first time through: how much there is.
pub(super) fn look(
    path: &Path,
    blocks: &[BlockBytes],
    progress: &mut Progress,
) -> Result<(Vec<Footprint>, Whole), TraceError> {
    let mut footprints: Vec<Footprint> = blocks.iter().map(|block| Footprint::new(*block)).collect();
    let mut trace = Trace::open(path)?;
    let mut whole = Whole { format: trace.format(), ..Whole::default() };
    let mut chunk = Vec::new();
    while read_chunk(&mut trace, &mut chunk)? {
        for request in &chunk {
            whole.requests += 1;
            whole.reads += u64::from(request.direction == Direction::Read);
            whole.time.note(request.time_us);
        }
        thread::scope(|scope| {
            for footprint in &mut footprints {
                scope.spawn(|| chunk.iter().for_each(|request| footprint.request(request.range, request.direction)));
            }
        });
        progress.at(trace.passed());
    }
    whole.lacking = trace.lacking();
    Ok((footprints, whole))
}

/// The next requests; false: there are none.
fn read_chunk(trace: &mut Trace, chunk: &mut Vec<Request>) -> Result<bool, TraceError> {
    chunk.clear();
    while chunk.len() < CHUNK
        && let Some(request) = trace.next_request()?
    {
        chunk.push(request);
    }
    Ok(!chunk.is_empty())
}

pub(super) fn default_on_write(kind: PoolKind) -> u8 {
    match kind {
        PoolKind::Read => 0,
        PoolKind::ReadWrite => 1,
    }
}

/// The cases of one thread, by block size, and which they are.
struct Part {
    tried: Vec<(Vec<usize>, WhatIf)>,
}

/// Deals the cases out to threads.
fn deal(cases: &[Case], footprints: &[Footprint], effort: Effort, whole: &Whole, threads: usize) -> Vec<Part> {
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let accesses = whole.requests.saturating_mul(ACCESSES_PER_REQUEST).saturating_mul(count(threads));
    let accesses_max = if effort.exact { u64::MAX } else { accesses / count(cases.len()).max(1) };
    let of_case = |case: &Case| footprints.iter().find(|footprint| footprint.block_bytes() == case.setup.block_bytes);
    let used = |case: &Case| Some(of_case(case)?.slots(case, accesses_max));
    let slots_max = slots_each(cases.iter().filter_map(used).collect());
    let part = |thread: usize| {
        let mine = |footprint: &Footprint| {
            let of_size = (0..cases.len()).filter(|index| cases[*index].setup.block_bytes == footprint.block_bytes());
            let places: Vec<usize> = of_size.filter(|index| index % threads == thread).collect();
            let chosen: Vec<Case> = places.iter().map(|index| cases[*index]).collect();
            (places, WhatIf::new(&chosen, footprint, accesses_max, slots_max))
        };
        Part { tried: footprints.iter().map(mine).filter(|(places, _)| !places.is_empty()).collect() }
    };
    (0..threads).map(part).filter(|part| !part.tried.is_empty()).collect()
}

/// The second time through: all pools; answers how many requests streams took past them.
fn go_through(path: &Path, effort: Effort, parts: &mut [Part], progress: &mut Progress) -> Result<u64, TraceError> {
    let mut trace = Trace::open(path)?;
    let (mut read_streams, mut write_streams) = (Streams::new(), Streams::new());
    let mut chunk = Vec::new();
    let mut past = 0;
    while read_chunk(&mut trace, &mut chunk)? {
        let passages: Vec<(ByteRange, Direction, Passage)> = chunk
            .iter()
            .map(|request| {
                let streams = match request.direction {
                    Direction::Read => &mut read_streams,
                    Direction::Write => &mut write_streams,
                };
                let length = streams.record(request.range);
                let is_past = effort.cutoff > 0 && length > effort.cutoff;
                past += u64::from(is_past);
                (request.range, request.direction, if is_past { Passage::Past } else { Passage::Counted })
            })
            .collect();
        thread::scope(|scope| {
            for part in &mut *parts {
                scope.spawn(|| {
                    for (_, whatif) in &mut part.tried {
                        passages
                            .iter()
                            .for_each(|(range, direction, passage)| whatif.request(*range, *direction, *passage));
                    }
                });
            }
        });
        progress.at(trace.passed());
    }
    Ok(past)
}

/// What came of each case, in their order.
fn gather(cases: &[Case], parts: Vec<Part>) -> Vec<CaseAnswer> {
    let mut answers: Vec<(usize, CaseAnswer)> = Vec::new();
    for (places, whatif) in parts.into_iter().flat_map(|part| part.tried) {
        let outcomes: Vec<(Outcome, Rate)> = whatif.outcomes().collect();
        for (place, (outcome, rate)) in places.into_iter().zip(outcomes) {
            answers.push((place, CaseAnswer { case: cases[place], outcome, rate }));
        }
    }
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(times_us: &[u64]) -> Option<f64> {
        let mut time = TimePassed::default();
        times_us.iter().for_each(|time_us| time.note(Some(*time_us)));
        time.seconds()
    }

    // proves: A3
    #[test]
    fn a_trace_goes_on_for_its_steps_forward() {
        let second = 1_000_000;
        assert_eq!(seconds(&[7 * second, 8 * second, 10 * second]), Some(3.0));
        assert_eq!(
            seconds(&[0, 100 * second, 100 * second - 9, 100 * second, 101 * second]),
            Some(101.0),
            "out of order"
        );
        assert_eq!(seconds(&[0, 90 * second, 0, 30 * second]), Some(120.0), "two recordings in one file");
        assert_eq!(seconds(&[90 * second, 0, 30 * second]), Some(30.0), "the last one is before the first one");
        assert_eq!((seconds(&[]), seconds(&[5]), seconds(&[5, 5])), (None, None, None));
        let mut untold = TimePassed::default();
        untold.note(None);
        assert_eq!(untold.seconds(), None);
    }
}
