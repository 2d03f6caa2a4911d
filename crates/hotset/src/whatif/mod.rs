//! `hotset whatif`: what pools of other sizes and settings would have done with the requests of a trace.
//!
//! The trace is read twice: first for how much there is to go through, then through all pools at once, in the engine's own code.

mod advise;
mod progress;
mod replay;
mod report;

pub(crate) use advise::run as run_advise;
pub(crate) use replay::Requests;

use std::path::Path;

use hotset_api::ApiError;
use hotset_cache::advisor::miniature::Setup;
use hotset_cache::advisor::whatif::{Case, Footprint};
use hotset_cache::config::{BlockBytes, PolicyKind, PoolKind, VolumeName};

use self::progress::Progress;
use self::replay::{Effort, Whole, default_on_write, invalid, look, refused, refused_source, try_all};
use crate::advice::{check_case, default_sizes};
use crate::args::{Output, WhatIfArguments};
use crate::size::Size;

/// Combinations of settings at most.
const CASES_MAX: usize = 1024;
/// What is tried if nothing is said: a pool and a volume with default settings.
const DEFAULT_BLOCK_BYTES: u64 = 1 << 20;
const DEFAULT_CUTOFF_BYTES: u64 = 4 << 20;
/// The two times that a trace is gone through.
const LOOKING: &str = "Looking at the trace";
const TRYING: &str = "Trying pools";

/// Whether it is a file with requests, and not the name of a volume. A directory may well be named like a volume.
pub(crate) fn is_trace(source: &str) -> bool {
    source.parse::<VolumeName>().is_err() || Path::new(source).is_file()
}

/// Refuses what no trace can be asked for.
pub(crate) fn check_of_trace(arguments: &WhatIfArguments) -> Result<(), ApiError> {
    if arguments.seconds.is_some() {
        return Err(invalid("--seconds is for a volume: a trace is as long as it is".to_owned()));
    }
    check(arguments)
}

pub(crate) fn run(output: Output, arguments: &WhatIfArguments) -> Result<(), ApiError> {
    let (path, called) = (Path::new(&arguments.source), arguments.source.as_str());
    try_requests(output, &Requests { path, called, watched: None, ended_early: None }, arguments)
}

/// Refuses what cannot be tried, whatever the requests will be.
pub(crate) fn check(arguments: &WhatIfArguments) -> Result<(), ApiError> {
    cases(arguments, &block_sizes(arguments), 0).map(drop)
}

pub(crate) fn try_requests(
    output: Output,
    requests: &Requests<'_>,
    arguments: &WhatIfArguments,
) -> Result<(), ApiError> {
    check(arguments)?;
    let Requests { path, called, .. } = *requests;
    let blocks = block_sizes(arguments);
    let looked = look(path, &blocks, &mut Progress::new(output, LOOKING));
    let (footprints, whole) = looked.map_err(|error| refused_source(called, error))?;
    if whole.requests == 0 {
        return Err(invalid(format!("trace {called}: it has no reads and no writes")));
    }
    let cases = cases(arguments, &blocks, accessed_bytes(&footprints))?;
    let effort = Effort { cutoff: arguments.cutoff.unwrap_or(DEFAULT_CUTOFF_BYTES), exact: arguments.exact };
    let tried = try_all(path, &cases, &footprints, effort, &whole, &mut Progress::new(output, TRYING));
    let (answers, past) = tried.map_err(refused)?;
    let whole = Whole { past, ..whole };
    report::print(output, &report::WhatIfReport::new(requests, &whole, &footprints, &answers))
}

fn accessed_bytes(footprints: &[Footprint]) -> u64 {
    footprints.iter().map(Footprint::bytes).min().unwrap_or_default()
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

/// Every combination of what was given, where so many bytes are accessed.
fn cases(arguments: &WhatIfArguments, blocks: &[BlockBytes], accessed_bytes: u64) -> Result<Vec<Case>, ApiError> {
    let sizes: Vec<u64> = if arguments.size.is_empty() {
        default_sizes(accessed_bytes, blocks.iter().map(|block| block.get()).max().unwrap_or_default())
    } else {
        arguments.size.iter().map(|Size(bytes)| *bytes).collect()
    };
    let kind = arguments.kind.unwrap_or(PoolKind::ReadWrite);
    let mut cases = Vec::new();
    for block_bytes in blocks.iter().copied() {
        for policy in or(&arguments.policy, PolicyKind::S3Fifo) {
            for populate_on_read in or(&arguments.populate_on_read, 2) {
                for populate_on_write in or(&arguments.populate_on_write, default_on_write(kind)) {
                    let setup = Setup { kind, block_bytes, policy, populate_on_read, populate_on_write };
                    cases.extend(sizes.iter().map(|size_bytes| Case { setup, size_bytes: *size_bytes }));
                }
            }
        }
    }
    if cases.len() > CASES_MAX {
        return Err(invalid(format!("{} combinations: {CASES_MAX} can be tried at once", cases.len())));
    }
    cases.iter().try_for_each(check_case)?;
    Ok(cases)
}

fn or<T: Copy>(given: &[T], otherwise: T) -> Vec<T> {
    if given.is_empty() { vec![otherwise] } else { given.to_vec() }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use hotset_cache::advisor::sample::Rate;

    use super::replay::CaseAnswer;
    use super::*;
    use crate::args::{Arguments, Verb};
    use crate::trace::Trace;

    fn arguments(given: &str) -> WhatIfArguments {
        let line = format!("hotset whatif {given}");
        let Verb::WhatIf(arguments) = Arguments::try_parse_from(line.split_whitespace()).unwrap().verb else {
            panic!("{line}: it is this verb");
        };
        arguments
    }

    fn answers(trace: &str, options: &str) -> Vec<CaseAnswer> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.csv");
        std::fs::write(&path, format!("time_us,op,offset_bytes,length_bytes\n{trace}")).unwrap();
        let arguments = arguments(&format!("{} {options}", path.display()));
        let blocks = block_sizes(&arguments);
        let progress = &mut Progress::new(Output::Json, LOOKING);
        let (footprints, whole) = look(&path, &blocks, progress).unwrap();
        let cases = cases(&arguments, &blocks, accessed_bytes(&footprints)).unwrap();
        let effort = Effort { cutoff: arguments.cutoff.unwrap_or(DEFAULT_CUTOFF_BYTES), exact: arguments.exact };
        try_all(&path, &cases, &footprints, effort, &whole, progress).unwrap().0
    }

    /// Blocks of 64 KiB, one after the other with one left out between, five times.
    fn loop_of(blocks: u64) -> String {
        let line = |time: u64| format!("{time},R,{},4096\n", time % blocks * (128 << 10));
        (0..5 * blocks).map(line).collect()
    }

    // proves: A4
    #[test]
    fn a_directory_hides_no_volume_and_a_file_that_does_is_named() {
        assert!(!is_trace("src"), "tests run where there is a directory of this name");
        assert!(is_trace("Cargo.toml") && is_trace("./src") && !is_trace("vms"));
        let refused =
            |source: &str| refused_source(source, Trace::open(Path::new(source)).err().expect("it is none")).message;
        assert!(refused("Cargo.toml").contains("for the volume Cargo.toml"), "{}", refused("Cargo.toml"));
        assert!(!refused("./Cargo.toml").contains("for the volume"));
        assert!(!refused("not-there").contains("for the volume"), "{}", refused("not-there"));
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

    // proves: A3, A4
    #[test]
    fn hits_are_of_reads_in_a_pool_of_either_type_and_only_a_read_write_pool_takes_writes() {
        // Four of five requests write to the block that the fifth one reads.
        let line = |time: u64| format!("{time},{},{},4096\n", if time.is_multiple_of(5) { 'R' } else { 'W' }, 65_536);
        let trace: String = (0..100).map(line).collect();
        let ratios = |kind: &str| {
            let answers = answers(&trace, &format!("--size 1M --block-size 64K --populate-on-read 1 --type {kind}"));
            (answers[0].hit_ratio(), answers[0].write_hit_ratio())
        };
        assert_eq!(ratios("read"), (0.0, None), "each read comes after a write");
        assert_eq!(ratios("read-write"), (0.95, Some(1.0)), "all but the first");
    }

    // proves: A4
    #[test]
    fn default_sizes_are_tried_with_the_largest_blocks_too() {
        let answers = answers(&loop_of(10), "--block-size 64K,4M");
        assert_eq!(answers.len(), 16);
        assert_eq!(answers[0].case.size_bytes, 4 << 20, "it holds a block of each size");
    }

    // proves: A4
    #[test]
    fn what_cannot_be_tried_is_refused_before_anything_is_recorded() {
        let refused =
            |given: &str| check(&arguments(&format!("v --seconds 3600 {given}"))).err().map(|error| error.message);
        assert_eq!(refused("--block-size 4M"), None);
        for (given, part) in [
            ("--size 1M --block-size 4M", "holds no block"),
            ("--type read-write --populate-on-write 0", "populate-on-write 0"),
            (
                "--block-size 64K,128K,256K,512K --populate-on-read 1,2,3,4 --populate-on-write 1,2,3,4 --policy lru,fifo,2q",
                "1536 combinations",
            ),
        ] {
            let message = refused(given).expect("it is refused");
            assert!(message.contains(part), "{message}");
        }
    }
}
