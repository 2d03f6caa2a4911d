//! `hotset whatif`: what pools of other sizes and settings would have done with the requests of a trace.
//!
//! The trace is read twice: first for how much there is to go through, then through all pools at once, in the engine's own code.

mod advise;
mod replay;
mod report;

pub(crate) use advise::run as run_advise;

use std::path::Path;

use hotset_api::ApiError;
use hotset_cache::advisor::miniature::Setup;
use hotset_cache::advisor::whatif::{Case, Footprint};
use hotset_cache::config::{BlockBytes, PolicyKind, PoolKind, VolumeName};

use self::replay::{Effort, Whole, default_on_write, invalid, look, refused, try_all};
use crate::args::{Output, WhatIfArguments};
use crate::size::Size;

/// Combinations of settings at most.
const CASES_MAX: usize = 1024;
/// Sizes that are tried if none is given: each twice the one before, the last one as large as all that is accessed.
const DEFAULT_SIZES: u32 = 8;
const SIZE_MIN: u64 = 1 << 20;
/// What is tried if nothing is said: a pool and a volume with default settings.
const DEFAULT_BLOCK_BYTES: u64 = 1 << 20;
const DEFAULT_CUTOFF_BYTES: u64 = 4 << 20;

/// Whether it is a file with requests, and not the name of a volume.
pub(crate) fn is_trace(source: &str) -> bool {
    source.parse::<VolumeName>().is_err() || Path::new(source).exists()
}

pub(crate) fn run(output: Output, arguments: &WhatIfArguments) -> Result<(), ApiError> {
    if arguments.seconds.is_some() {
        return Err(invalid("--seconds is for a volume: a trace is as long as it is".to_owned()));
    }
    try_requests(output, Path::new(&arguments.source), &arguments.source, arguments)
}

/// Goes through the requests at `path`, which are called so.
pub(crate) fn try_requests(
    output: Output,
    path: &Path,
    called: &str,
    arguments: &WhatIfArguments,
) -> Result<(), ApiError> {
    let blocks = block_sizes(arguments);
    let (footprints, whole) = look(path, &blocks).map_err(refused)?;
    if whole.requests == 0 {
        return Err(invalid(format!("trace {called}: it has no reads and no writes")));
    }
    let cases = cases(arguments, &footprints)?;
    let effort = Effort { cutoff: arguments.cutoff.unwrap_or(DEFAULT_CUTOFF_BYTES), exact: arguments.exact };
    let (answers, past) = try_all(path, &cases, &footprints, effort, &whole).map_err(refused)?;
    let whole = Whole { past, ..whole };
    report::print(output, &report::WhatIfReport::new(called, &whole, &footprints, &answers))
}

fn block_sizes(arguments: &WhatIfArguments) -> Vec<BlockBytes> {
    let mut sizes = or(&arguments.block_size, DEFAULT_BLOCK_BYTES);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
        .into_iter()
        .map(|bytes| BlockBytes::new(bytes).expect("the command line lets only valid ones through"))
        .collect()
}

/// Every combination of what was given.
fn cases(arguments: &WhatIfArguments, footprints: &[Footprint]) -> Result<Vec<Case>, ApiError> {
    let sizes: Vec<u64> = if arguments.size.is_empty() {
        default_sizes(footprints.iter().map(Footprint::bytes).min().unwrap_or(SIZE_MIN))
    } else {
        arguments.size.iter().map(|Size(bytes)| *bytes).collect()
    };
    let kind = arguments.kind.unwrap_or(PoolKind::ReadWrite);
    let mut cases = Vec::new();
    for footprint in footprints {
        for policy in or(&arguments.policy, PolicyKind::S3Fifo) {
            for populate_on_read in or(&arguments.populate_on_read, 2) {
                for populate_on_write in or(&arguments.populate_on_write, default_on_write(kind)) {
                    let block_bytes = footprint.block_bytes();
                    let setup = Setup { kind, block_bytes, policy, populate_on_read, populate_on_write };
                    check(setup)?;
                    cases.extend(sizes.iter().map(|size_bytes| Case { setup, size_bytes: *size_bytes }));
                }
            }
        }
    }
    if cases.len() > CASES_MAX {
        return Err(invalid(format!("{} combinations: {CASES_MAX} can be tried at once", cases.len())));
    }
    if let Some(case) = cases.iter().find(|case| case.size_bytes < case.setup.block_bytes.get()) {
        let message =
            format!("size {}: it holds no block of {}", Size(case.size_bytes), Size(case.setup.block_bytes.get()));
        return Err(invalid(message));
    }
    Ok(cases)
}

fn or<T: Copy>(given: &[T], otherwise: T) -> Vec<T> {
    if given.is_empty() { vec![otherwise] } else { given.to_vec() }
}

fn check(setup: Setup) -> Result<(), ApiError> {
    if setup.kind == PoolKind::ReadWrite && setup.populate_on_write == 0 {
        return Err(invalid("populate-on-write 0: it is 1 to 4 in a read-write pool; see --type".to_owned()));
    }
    Ok(())
}

fn default_sizes(footprint_bytes: u64) -> Vec<u64> {
    let largest = footprint_bytes.max(SIZE_MIN << DEFAULT_SIZES).next_power_of_two();
    (0..DEFAULT_SIZES).rev().map(|halvings| largest >> halvings).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use hotset_cache::advisor::sample::Rate;

    use super::replay::CaseAnswer;
    use super::*;
    use crate::args::{Arguments, Verb};

    fn answers(trace: &str, options: &str) -> Vec<CaseAnswer> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.csv");
        std::fs::write(&path, format!("time_us,op,offset_bytes,length_bytes\n{trace}")).unwrap();
        let line = format!("hotset whatif {} {options}", path.display());
        let Verb::WhatIf(arguments) = Arguments::try_parse_from(line.split_whitespace()).unwrap().verb else {
            panic!("{line}: it is this verb");
        };
        let (footprints, whole) = look(&path, &block_sizes(&arguments)).unwrap();
        let cases = cases(&arguments, &footprints).unwrap();
        let effort = Effort { cutoff: arguments.cutoff.unwrap_or(DEFAULT_CUTOFF_BYTES), exact: arguments.exact };
        try_all(&path, &cases, &footprints, effort, &whole).unwrap().0
    }

    /// Blocks of 64 KiB, one after the other with one left out between, five times.
    fn loop_of(blocks: u64) -> String {
        let line = |time: u64| format!("{time},R,{},4096\n", time % blocks * (128 << 10));
        (0..5 * blocks).map(line).collect()
    }

    // proves: A4
    #[test]
    fn every_combination_is_answered_in_order_and_as_the_engine_would() {
        let options = "--size 13M,5M --block-size 64K,128K --policy lru --populate-on-read 1,2";
        let answers = answers(&loop_of(100), options);
        let found: Vec<_> = answers
            .iter()
            .map(|CaseAnswer { case, outcome, rate }| {
                assert_eq!(*rate, Rate::ALL, "a small trace is gone through as a whole");
                let percent = format!("{:.0}", outcome.read_misses * 100.0);
                (case.setup.block_bytes.get() >> 10, case.setup.populate_on_read, case.size_bytes >> 20, percent)
            })
            .collect();
        let expected = [
            (64, 1, 13, "20"),
            (64, 1, 5, "100"),
            (64, 2, 13, "40"),
            (64, 2, 5, "60"),
            (128, 1, 13, "20"),
            (128, 1, 5, "100"),
            (128, 2, 13, "40"),
            (128, 2, 5, "84"),
        ];
        assert_eq!(found, expected.map(|(block, reads, size, misses)| (block, reads, size, misses.to_owned())));
    }

    // proves: A4, D10
    #[test]
    fn streams_go_past_the_pools_unless_they_are_told_not_to() {
        let stream = |time: u64| format!("{time},R,{},65536\n", time % 200 * 65_536);
        let trace: String = (0..400).map(stream).collect();
        let misses = |options: &str| answers(&trace, options)[0].outcome.read_misses;
        let one = "--size 64M --block-size 64K --populate-on-read 1";
        assert!((misses(&format!("{one} --cutoff off")) - 0.5).abs() < 1e-9);
        assert!(misses(one) > 0.8);
    }

    #[test]
    fn sizes_that_are_tried_double_up_to_all_that_is_accessed() {
        let sizes = default_sizes(3 << 30);
        assert_eq!((sizes.len(), sizes.first(), sizes.last()), (8, Some(&(32 << 20)), Some(&(4 << 30))));
        assert_eq!(default_sizes(5).first(), Some(&(2 << 20)));
    }
}
