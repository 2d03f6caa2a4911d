//! The default policy misses no more than S3-FIFO's reference does, on every trace, object size and cache size for
//! which there is a reference miss ratio; and `auto` misses less than any single policy, on average.
//!
//! The traces and the reference (`results_public.csv`, measured with libCacheSim) lie outside the repository, in
//! `../shared/traces` beside it or where `HOTSET_TRACES` says. Every access counts, every miss populates, as there.

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use hotset_cache::config::PolicyKind;
use hotset_cache::state::{BlockIndex, BlockKey, Enters, Map, Policy, SlotIndex, VolumeIndex};
use ruzstd::decoding::StreamingDecoder;

/// How much worse than the reference the policy may be: 1 %.
const TOLERANCE: f64 = 1.01;

// proves: P15
#[test]
fn the_default_policy_misses_no_more_than_the_reference_on_every_trace() {
    let Some(directory) = traces("the policy was not compared with its reference") else { return };
    let references = references(&directory);
    assert!(!references.is_empty(), "{} has no s3fifo results", directory.display());
    let mut parts: HashMap<_, Vec<&Reference>> = HashMap::new();
    for reference in &references {
        parts.entry((reference.trace.as_str(), reference.object_bytes)).or_default().push(reference);
    }
    // One after the other: what runs beside waits for moments, and would wait for all of these threads.
    let replay = |((trace, object_bytes), references)| replay(&directory, trace, object_bytes, references);
    let mut rows: Vec<TraceLine> = parts.into_iter().flat_map(replay).collect();
    rows.sort_by(|a, b| a.order().partial_cmp(&b.order()).expect("ratios are numbers"));
    say(&table(&rows));
    let worse: Vec<_> =
        rows.iter().filter(|row| row.miss > row.reference.miss * TOLERANCE).map(TraceLine::text).collect();
    assert!(worse.is_empty(), "worse than the reference by more than 1 %:\n{}", worse.concat());
}

/// What is compared with `auto`.
const SINGLE: [PolicyKind; 3] = [PolicyKind::S3Fifo, PolicyKind::TwoQ, PolicyKind::Lru];
/// The block of a pool whose misses are compared.
const BLOCK: u64 = 65_536;

/// How far it is from the best one in hindsight: `docs/decisions/0018-auto-follows-rivals.md`.
// proves: A5
#[test]
fn auto_misses_less_than_any_single_policy_on_average_and_never_much_more_than_the_best() {
    let Some(directory) = traces("auto was not compared with other policies") else { return };
    let references = references(&directory);
    let (mut sums, mut worst, mut table) = ([0.0; 4], 0.0_f64, String::new());
    let mut unpacked = HashMap::new();
    for reference in references.iter().filter(|reference| reference.object_bytes == BLOCK) {
        let accesses =
            unpacked.entry(&reference.trace).or_insert_with(|| accesses(&directory, &reference.trace, BLOCK));
        let of = |kind| miss_ratio(accesses, reference.cache_objects, kind);
        let (single, auto) = (SINGLE.map(of), of(PolicyKind::Auto));
        let best = single.into_iter().fold(1.0, f64::min);
        // Each case counts the same, whatever it misses.
        for (sum, misses) in sums.iter_mut().zip(single.into_iter().chain([auto])) {
            *sum += misses / best;
        }
        worst = worst.max(auto / best);
        table += &format!(
            "{:20} {:8} {single:9.5?} {auto:9.5} {:7.4}\n",
            reference.trace,
            reference.cache_objects,
            auto / best
        );
    }
    say(&format!("\ntrace, slots, S3-FIFO, 2Q, LRU, auto, auto beside the best\n{table}{sums:?}\n"));
    assert!(sums[..3].iter().all(|single| sums[3] < *single), "{sums:?}");
    assert!(worst < 1.13, "{worst}");
}

/// One line of `results_public.csv`.
#[derive(Clone)]
struct Reference {
    trace: String,
    object_bytes: u64,
    cache_fraction: f64,
    cache_objects: u32,
    miss: f64,
    accesses: u64,
}

struct TraceLine {
    reference: Reference,
    miss: f64,
}

impl TraceLine {
    fn order(&self) -> (u64, &str, u32) {
        (self.reference.object_bytes, &self.reference.trace, self.reference.cache_objects)
    }

    fn text(&self) -> String {
        let Reference { trace, object_bytes, cache_fraction, cache_objects, miss, .. } = &self.reference;
        let ratio = if *miss > 0.0 { self.miss / miss } else { 1.0 };
        format!(
            "{trace:20} {object_bytes:8} {cache_fraction:8} {cache_objects:8} {miss:9.5} {:9.5} {ratio:7.4}\n",
            self.miss
        )
    }
}

fn table(rows: &[TraceLine]) -> String {
    let header = ["trace", "object", "share", "objects", "s3fifo", "hotset", "ratio"];
    let [trace, object, share, objects, reference, ours, ratio] = header;
    let head = format!("\n{trace:20} {object:>8} {share:>8} {objects:>8} {reference:>9} {ours:>9} {ratio:>7}\n");
    rows.iter().fold(head, |text, row| text + &row.text())
}

/// Prints although the test passes: the test harness captures `println!`, not this. To standard output, where
/// `cargo x test` counts what was skipped.
fn say(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).expect("standard output takes what tests print");
}

/// The directory of the traces, if it is there; else it is said what was not done without.
fn traces(not_done: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/traces");
    let directory = std::env::var_os("HOTSET_TRACES").map_or_else(beside, PathBuf::from);
    if directory.join("results_public.csv").exists() {
        return Some(directory);
    }
    say(&format!("\nSKIPPED: no traces in ../shared/traces nor in HOTSET_TRACES: {not_done}\n"));
    None
}

fn references(directory: &Path) -> Vec<Reference> {
    let text = fs::read_to_string(directory.join("results_public.csv")).expect("the reference results can be read");
    text.lines().skip(1).filter_map(reference).collect()
}

/// The reference on this line; `None` if it is of another policy, or was not measured.
fn reference(line: &str) -> Option<Reference> {
    let fields: Vec<&str> = line.split(',').collect();
    let [trace, object, "s3fifo", fraction, objects, miss, _, _, accesses, ..] = fields[..] else { return None };
    Some(Reference {
        trace: trace.to_owned(),
        object_bytes: object.parse().ok()?,
        cache_fraction: fraction.parse().ok()?,
        cache_objects: objects.parse().ok()?,
        miss: miss.parse().ok()?,
        accesses: accesses.parse().ok()?,
    })
}

/// Replays a trace at one object size, at every cache size for which there is a reference.
fn replay(directory: &Path, trace: &str, object_bytes: u64, references: Vec<&Reference>) -> Vec<TraceLine> {
    let accesses = accesses(directory, trace, object_bytes);
    let replay = |reference: &Reference| {
        assert_eq!(
            u64::try_from(accesses.len()).expect("an address has 64 bits at most"),
            reference.accesses,
            "accesses of {trace}"
        );
        TraceLine {
            reference: reference.clone(),
            miss: miss_ratio(&accesses, reference.cache_objects, PolicyKind::S3Fifo),
        }
    };
    references.into_iter().map(replay).collect()
}

/// The objects that a trace accesses, one after the other.
fn accesses(directory: &Path, trace: &str, object_bytes: u64) -> Vec<u32> {
    let packed =
        fs::File::open(directory.join(format!("{trace}.csv.zst"))).expect("every trace of the results is there");
    let mut text = String::new();
    let mut unpacked = StreamingDecoder::new(packed).expect("traces are zstd files");
    unpacked.read_to_string(&mut text).expect("traces are text");
    let requests = text.lines().skip(1).map(request);
    requests.flat_map(|request| objects_of(request, object_bytes)).collect()
}

/// Offset and length of a request.
fn request(line: &str) -> (u64, u64) {
    let mut fields = line.split(',').skip(2).map(|field| field.parse().expect("offsets and lengths are numbers"));
    (fields.next().expect("an offset"), fields.next().expect("a length"))
}

/// The objects that a request touches, one access each.
fn objects_of((offset, length): (u64, u64), object_bytes: u64) -> impl Iterator<Item = u32> {
    let objects = offset / object_bytes..(offset + length).div_ceil(object_bytes);
    objects.map(|object| u32::try_from(object).expect("less than 16 TiB"))
}

#[allow(clippy::as_conversions, reason = "a ratio of counts far below 2^53")]
fn miss_ratio(accesses: &[u32], slots: u32, kind: PolicyKind) -> f64 {
    let mut map = Map::new(16, false);
    map.add_slots(slots);
    let mut policy = Policy::new(kind, slots);
    let mut misses = 0_u64;
    for object in accesses {
        let key = BlockKey { volume: VolumeIndex(0), block: BlockIndex(*object) };
        if let Some(slot) = map.find(key) {
            policy.touched(&mut map, slot);
            continue;
        }
        misses += 1;
        policy.missed(&map, key, Enters::AtOnce);
        let slot = free_slot(&mut map, &mut policy);
        map.insert(slot, key, 0);
        policy.inserted(&mut map, slot);
    }
    misses as f64 / accesses.len() as f64
}

fn free_slot(map: &mut Map, policy: &mut Policy) -> SlotIndex {
    if map.slots_used() < map.slot_count() {
        return SlotIndex(map.slots_used());
    }
    let slot = policy.victim(map, |_| false).expect("a full cache has a victim");
    policy.evicted(map, slot);
    map.remove(slot);
    slot
}
