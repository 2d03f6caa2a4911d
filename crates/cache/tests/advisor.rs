//! What the advisor says of traces is what an exact simulation finds, within what it promises (REQUIREMENTS A1, A4).
//!
//! The traces lie outside the repository, as those of `traces.rs`; whatever traces are there are tried. Beside them, generated ones.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use hotset_block::ByteRange;
use hotset_cache::advisor::access::{Access, Direction, Passage};
use hotset_cache::advisor::curve::Curve;
use hotset_cache::advisor::live::Live;
use hotset_cache::advisor::miniature::Setup;
use hotset_cache::advisor::reuse::ReuseDistances;
use hotset_cache::advisor::sample::Rate;
use hotset_cache::advisor::whatif::{Case, Footprint, SLOTS_MAX, WhatIf};
use hotset_cache::config::{BlockBytes, PolicyKind, PoolKind};
use ruzstd::decoding::StreamingDecoder;

/// What the live advisor of a volume may take.
const MEMORY_MAX: u64 = 1 << 20;
/// No trace is of a larger device.
const DEVICE_BYTES: u64 = 1 << 42;

const CURVE_ERROR_MAX: f64 = 0.02;
const WHATIF_ERROR_MAX: f64 = 0.03;
/// Cache sizes that are compared, in thousandths of what the trace accesses.
const SHARES: [u64; 5] = [20, 50, 100, 300, 600];
/// Requests of a trace that are gone through, unless `HOTSET_TRACE_REQUESTS` says how many: the first ones.
const REQUESTS: usize = 50_000;

#[derive(Clone, Copy)]
struct Request {
    range: ByteRange,
    direction: Direction,
}

struct Trace {
    name: String,
    requests: Vec<Request>,
}

struct AdvisorLine {
    trace: String,
    what: String,
    error: f64,
    error_max: f64,
    worst: f64,
    memory_bytes: u64,
}

impl AdvisorLine {
    fn text(&self) -> String {
        let AdvisorLine { trace, what, error, worst, memory_bytes, .. } = self;
        format!("{trace:22} {what:34} {error:7.4} {worst:7.4} {:6} KiB\n", memory_bytes >> 10)
    }
}

// proves: A1, A4
#[test]
fn curves_and_what_ifs_are_as_near_to_the_exact_simulation_as_promised() {
    let mut names: Vec<Source> = GENERATED.iter().map(|(name, make)| Source::Made(name, *make)).collect();
    match traces() {
        Some(directory) => names.extend(files(&directory).into_iter().map(Source::File)),
        None => say(
            "\nSKIPPED: no traces in ../shared/traces nor in HOTSET_TRACES: the advisor was tried on generated ones alone\n",
        ),
    }
    // One after the other: what runs beside waits for moments, and would wait for all of these threads.
    let rows: Vec<AdvisorLine> = names.into_iter().flat_map(|source| compare(&source.read())).collect();
    let head = format!("\n{:22} {:34} {:>7} {:>7} {:>10}\n", "trace", "what", "mean", "worst", "memory");
    say(&rows.iter().fold(head, |text, row| text + &row.text()));
    let off: Vec<_> = rows.iter().filter(|row| row.error > row.error_max).map(AdvisorLine::text).collect();
    assert!(off.is_empty(), "further from the exact simulation than promised:\n{}", off.concat());
    let large: Vec<_> = rows.iter().filter(|row| row.memory_bytes > MEMORY_MAX).map(AdvisorLine::text).collect();
    assert!(large.is_empty(), "they take more than a mebibyte:\n{}", large.concat());
}

fn compare(trace: &Trace) -> Vec<AdvisorLine> {
    let mut rows = Vec::new();
    for (block_bytes, threshold) in [(64 << 10, 1), (64 << 10, 2), (1 << 20, 2)] {
        rows.extend(compare_curves(trace, BlockBytes::new(block_bytes).expect("a power of two"), threshold));
    }
    rows.push(compare_whatif(trace));
    rows
}

fn setup(block_bytes: BlockBytes, policy: PolicyKind, populate_on_read: u8) -> Setup {
    Setup { kind: PoolKind::ReadWrite, block_bytes, policy, populate_on_read, populate_on_write: 1 }
}

fn accesses(trace: &Trace, block: BlockBytes) -> impl Iterator<Item = Access> {
    trace.requests.iter().flat_map(move |request| Access::of(request.range, block, request.direction, Passage::Counted))
}

/// The live curves, of LRU (without a threshold) and of S3-FIFO, against caches that are not sampled.
fn compare_curves(trace: &Trace, block: BlockBytes, threshold: u8) -> Vec<AdvisorLine> {
    let mut footprint = Footprint::new(block);
    let mut live = Live::new(setup(block, PolicyKind::S3Fifo, threshold), DEVICE_BYTES, Rate::ALL);
    accesses(trace, block).for_each(|access| live.access(&access));
    trace.requests.iter().for_each(|request| footprint.request(request.range, request.direction));
    let accessed = footprint.bytes() / block.get();
    let compared: Vec<u64> = SHARES.iter().map(|share| (accessed * share / 1000).max(1)).collect();
    let memory_bytes = live.memory_bytes();
    if live.accesses().reads == 0 {
        // Where nothing is read there is no curve.
        assert_eq!((live.curve(), live.lru_at(&compared)), (Curve::default(), Curve::default()), "{}", trace.name);
        return Vec::new();
    }
    let mut rows = vec![row(trace, format!("s3-fifo {:4} KiB threshold {threshold}", block.get() >> 10), {
        let exact = exact(trace, &footprint, setup(block, PolicyKind::S3Fifo, threshold), &compared);
        errors(&live.curve(), &exact)
    })];
    if threshold == 1 || block.get() > 64 << 10 {
        let exact = exact_lru(trace, block, &compared);
        rows.push(row(trace, format!("lru     {:4} KiB", block.get() >> 10), errors(&live.lru_at(&compared), &exact)));
    }
    rows.iter_mut().for_each(|row| row.memory_bytes = memory_bytes);
    rows
}

fn row(trace: &Trace, what: String, errors: Vec<f64>) -> AdvisorLine {
    let (error, worst) = mean_and_worst(&errors);
    AdvisorLine { trace: trace.name.clone(), what, error, error_max: CURVE_ERROR_MAX, worst, memory_bytes: 0 }
}

/// Misses at each size, of caches of which nothing is sampled.
fn exact(trace: &Trace, footprint: &Footprint, setup: Setup, blocks: &[u64]) -> Vec<(u64, f64)> {
    let case = |blocks: &u64| Case { setup, size_bytes: blocks * setup.block_bytes.get() };
    let cases: Vec<Case> = blocks.iter().map(case).collect();
    let misses = whatif(trace, footprint, &cases, u64::MAX);
    blocks.iter().copied().zip(misses).collect()
}

fn whatif(trace: &Trace, footprint: &Footprint, cases: &[Case], accesses_max: u64) -> Vec<f64> {
    let mut whatif = WhatIf::new(cases, footprint, accesses_max, SLOTS_MAX);
    trace.requests.iter().for_each(|request| whatif.request(request.range, request.direction, Passage::Counted));
    whatif.outcomes().map(|(outcome, _)| outcome.read_misses).collect()
}

fn exact_lru(trace: &Trace, block: BlockBytes, blocks: &[u64]) -> Vec<(u64, f64)> {
    let mut reuse = ReuseDistances::new(1 << 22, Rate::ALL);
    accesses(trace, block).for_each(|access| reuse.access(&access));
    assert_eq!(reuse.rate(), Rate::ALL, "it is exact");
    reuse.curve(blocks).points().iter().map(|point| (point.blocks, point.misses)).collect()
}

fn errors(curve: &Curve, exact: &[(u64, f64)]) -> Vec<f64> {
    exact.iter().map(|(blocks, misses)| (curve.at(*blocks).expect("it has points").misses - misses).abs()).collect()
}

fn mean_and_worst(errors: &[f64]) -> (f64, f64) {
    let count = f64::from(u32::try_from(errors.len()).expect("fewer traces than 2^32"));
    (errors.iter().sum::<f64>() / count, errors.iter().copied().fold(0.0, f64::max))
}

/// What-if of block size and thresholds, as sampled as it is for a large trace, against what is not sampled.
fn compare_whatif(trace: &Trace) -> AdvisorLine {
    let mut errors = Vec::new();
    for block in [64 << 10, 256 << 10, 4 << 20].map(|bytes| BlockBytes::new(bytes).expect("a power of two")) {
        let mut footprint = Footprint::new(block);
        trace.requests.iter().for_each(|request| footprint.request(request.range, request.direction));
        let sizes = [50, 200].map(|share| footprint.bytes() * share / 1000);
        let case = |(size_bytes, populate_on_read)| Case {
            setup: setup(block, PolicyKind::S3Fifo, populate_on_read),
            size_bytes,
        };
        let cases: Vec<Case> = sizes.iter().flat_map(|size| [1, 2, 4].map(|reads| (*size, reads))).map(case).collect();
        let tried = [footprint.accesses().all() / 8, u64::MAX]
            .map(|accesses_max| whatif(trace, &footprint, &cases, accesses_max));
        errors.extend(tried[0].iter().zip(&tried[1]).map(|(sampled, exact)| (sampled - exact).abs()));
    }
    let what = "what-if: block size, threshold".to_owned();
    AdvisorLine { error_max: WHATIF_ERROR_MAX, ..row(trace, what, errors) }
}

// ---- traces

enum Source {
    File(PathBuf),
    Made(&'static str, fn() -> Vec<Request>),
}

impl Source {
    fn read(&self) -> Trace {
        match self {
            Self::File(path) => {
                let name = path.file_name().expect("it has one").to_string_lossy();
                Trace { name: name.trim_end_matches(".csv.zst").to_owned(), requests: requests(path) }
            }
            Self::Made(name, make) => Trace { name: (*name).to_owned(), requests: make() },
        }
    }
}

/// How one is made.
type Make = fn() -> Vec<Request>;

/// A made trace.
const GENERATED: [(&str, Make); 5] = [
    ("made: zipf 1.1", || zipf(11)),
    ("made: zipf 0.8", || zipf(8)),
    ("made: even", || random_mix(|random| random % 20_000)),
    ("made: loop", || random_mix_of_loop(15_000, 0)),
    ("made: loop and scans", || random_mix_of_loop(6000, 30_000)),
];

const UNIT: u64 = 64 << 10;

fn read_of(unit: u64) -> Request {
    Request { range: ByteRange::at(unit * UNIT, 4096), direction: Direction::Read }
}

fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 8
    }
}

fn random_mix(mut unit: impl FnMut(u64) -> u64) -> Vec<Request> {
    let mut random = numbers(77);
    (0..120_000).map(|_| read_of(unit(random()))).collect()
}

/// The whole of `units` in order, again and again, with hot ones between; and once a long scan.
fn random_mix_of_loop(units: u64, scan: u64) -> Vec<Request> {
    let mut random = numbers(5);
    let mut requests = Vec::new();
    for step in 0..60_000 {
        requests.push(read_of(step % units));
        requests.push(read_of(1_000_000 + (random() % 3000).min(random() % 3000)));
        if step == 30_000 {
            requests.extend((0..scan).map(|unit| read_of(2_000_000 + unit)));
        }
    }
    requests
}

/// Units by their popularity: the nth is asked for in proportion to 1 / n^(exponent/10), and lies anywhere.
#[allow(clippy::as_conversions, reason = "positions in a short list, and ratios")]
fn zipf(tenths: u32) -> Vec<Request> {
    let units = 30_000_u64;
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for n in 1..=units {
        sum += (n as f64).powf(-f64::from(tenths) / 10.0);
        sums.push(sum);
    }
    random_mix(|random| {
        let drawn = (random % (1 << 40)) as f64 / (1_u64 << 40) as f64 * sum;
        let rank = sums.partition_point(|upto| *upto < drawn) as u64;
        rank * 40_503 % 65_536
    })
}

fn traces() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/traces");
    let directory = std::env::var_os("HOTSET_TRACES").map_or_else(beside, PathBuf::from);
    directory.is_dir().then_some(directory)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the directory of the traces can be read");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let mut files: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(".csv.zst")).collect();
    files.sort();
    files
}

fn requests(path: &Path) -> Vec<Request> {
    let mut text = String::new();
    let packed = fs::File::open(path).expect("a trace can be opened");
    let mut unpacked = StreamingDecoder::new(packed).expect("traces are zstd files");
    unpacked.read_to_string(&mut text).expect("traces are text");
    let request = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |field: &str| field.parse().expect("offsets and lengths are numbers");
        let direction = if fields[1] == "W" { Direction::Write } else { Direction::Read };
        Request { range: ByteRange::at(number(fields[2]), number(fields[3])), direction }
    };
    let wanted = std::env::var("HOTSET_TRACE_REQUESTS").map(|count| count.parse().expect("it is a number of requests"));
    text.lines().skip(1).take(wanted.unwrap_or(REQUESTS)).map(request).collect()
}

/// To standard output, where `cargo x test` counts what was skipped; the test harness captures `println!`.
fn say(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).expect("standard output takes what tests print");
}
