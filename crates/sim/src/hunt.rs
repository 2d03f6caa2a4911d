//! Runs a seed so that an assertion of the engine that fails is a violation like any other.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use hotset_cache::planted::{Planted, plant};

use crate::scenario::{self, Outcome};

thread_local! {
    /// The seed that this thread runs, and whether the engine has a bug that is expected to be noticed.
    static RUNNING: Cell<Option<(u64, bool)>> = const { Cell::new(None) };
}

/// The seeds, counted from 0, in which a bug can show: those of the pools that have what it is in. Without a bug: all.
pub fn seed_of(number: u64, bug: Option<Planted>) -> u64 {
    match bug {
        None => number,
        Some(Planted::MirrorForgotten | Planted::ReleasedBeforeEmpty) => 10 * number + 9,
        Some(Planted::StaleNewcomerBelieved) => 10 * (number / 2) + 8 + number % 2,
        // Of ten seeds, the last two are of pools whose SSDs come and go: they look for other bugs.
        Some(bug) => 10 * (number / 4) + 2 * (number % 4) + u64::from(bug.is_of_log()),
    }
}

static HOOK: Once = Once::new();

/// Runs a seed. Where panics abort (release builds), the process ends with the assertion's message and the seed.
pub fn run_caught(seed: u64, bug: Option<Planted>) -> Outcome {
    HOOK.call_once(name_the_seed_in_panics);
    RUNNING.set(Some((seed, bug.is_some())));
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| scenario::run(seed, bug, 0)));
    RUNNING.set(None);
    plant(None);
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let violation = Some(format!("the engine panicked: {}", text.unwrap_or_default()));
        Outcome { history: 0, violation, tail: Vec::new(), steps: 0 }
    })
}

fn name_the_seed_in_panics() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |information| match RUNNING.get() {
        Some((_, true)) => {}
        Some((seed, false)) => eprintln!("seed {seed}: {information}"),
        None => previous(information),
    }));
}
