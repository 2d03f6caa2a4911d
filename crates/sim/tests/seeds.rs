//! The engine in the simulated world: the same seed gives the same history, and the bugs that are planted are found.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hotset_cache::planted::Planted;
use hotset_sim::hunt::{run_caught, seed_of};

/// Seeds within which each bug has to show. Most do within 200; those whose harm needs a power cut in a window that the engine
/// itself keeps short take the most: `ColdRecordForgotten`, `FreeBeforeNewerFlushed`, `SealWithoutFlush`.
const SEEDS_MAX: u64 = 1200;
/// Threads of the hunt.
const JOBS: usize = 2;
/// Bugs whose harm needs more luck than that. They are not hunted here, which the test says aloud.
const TOO_RARE: &[Planted] = &[
    // Row records, slot indexes and sealing flush the SSDs so often that the log is hardly ever behind the cleaner; and
    // what is then lost was never flushed by a host, so that it shows only if the older version is read first and the row
    // that holds it is freed later.
    Planted::CleanWithoutLogFlush,
    // A write has to be answered between an SSD's failure and the record of it, the daemon has to die between the same two,
    // and at the next start it must be the other SSD that is missing.
    Planted::AckBeforeEpoch,
    // A page has to be cleaned while its move is in flight, its row freed, the page written around, and the daemon restarted
    // before the row is freed to which it was moved.
    Planted::CleanedMoveForgotten,
];

// proves: D3, D5, D11, D15, F1, F4, F7
#[test]
fn sound_code_passes_and_the_same_seed_gives_the_same_history() {
    for seed in 0..5 {
        let (first, second) = (run_caught(seed, None), run_caught(seed, None));
        assert_eq!(first.violation, None, "seed {seed}");
        assert_eq!(first, second, "seed {seed}");
        assert!(first.steps > 100, "seed {seed} did something");
    }
}

#[test]
fn planted_bugs_are_found() {
    let unseen = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let hunted: Vec<_> = Planted::ALL.iter().filter(|(bug, _, _)| !TOO_RARE.contains(bug)).collect();
    TOO_RARE.iter().for_each(|bug| println!("NOT HUNTED: {bug:?} needs more than {SEEDS_MAX} seeds"));
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some((bug, name, rule)) = hunted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let seeds = (0..SEEDS_MAX).map(|number| seed_of(number, Some(*bug)));
                    let mut outcomes = seeds.map(|seed| (seed, run_caught(seed, Some(*bug)).violation));
                    match outcomes.find(|(_, violation)| violation.is_some()) {
                        Some((seed, _)) => println!("{name} ({rule}): seed {seed}"),
                        None => unseen.lock().expect("nobody panics while holding this").push(*name),
                    }
                }
            });
        }
    });
    let unseen = unseen.into_inner().expect("the threads have ended");
    assert!(unseen.is_empty(), "not found within {SEEDS_MAX} seeds: {unseen:?}");
}
