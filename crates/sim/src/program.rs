//! The simulator as a program: runs seeds, and prints what a failing one did.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Result, anyhow};
use clap::Parser;
use hotset_cache::config::PoolKind;
use hotset_cache::planted::Planted;

use crate::hunt::{Ground, ground_of, run_caught};
use crate::scenario;
use crate::shape::Profile;

#[derive(Parser)]
#[command(name = "hotset-sim", about = "Lives of the cache in a seeded, faulty world, judged by a model")]
pub struct Arguments {
    /// How many seeds
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// This seed only, with its history
    #[arg(long)]
    seed: Option<u64>,
    /// Lines of history to print
    #[arg(long, default_value_t = 200)]
    lines: usize,
    /// A bug to plant; then a seed that finds it is success
    #[arg(long)]
    bug: Option<String>,
    /// Only worlds that are after this: see the profiles in `shape.rs`
    #[arg(long)]
    profile: Option<Profile>,
    /// Only pools of this type: read or read-write
    #[arg(long)]
    kind: Option<PoolKind>,
    /// Threads; seeds are independent of each other
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Go on after a failing seed
    #[arg(long)]
    all: bool,
}

/// # Errors
/// A bug that nobody planted.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let bug = arguments.bug.as_deref().map(find_bug).transpose()?;
    if let Some(seed) = arguments.seed {
        return Ok(show(seed, bug, arguments.lines));
    }
    let found = hunt(arguments, bug);
    if let (Some((seed, _)), false) = (found.first(), arguments.all) {
        show(*seed, bug, arguments.lines.min(60));
    }
    Ok(if found.is_empty() == bug.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn find_bug(name: &str) -> Result<Planted> {
    let found = Planted::ALL.iter().find(|(_, known, _)| *known == name);
    found.map(|(bug, _, _)| *bug).ok_or_else(|| {
        let names: Vec<_> = Planted::ALL.iter().map(|(_, name, rule)| format!("{name} ({rule})")).collect();
        anyhow!("no bug is called {name}; there are: {}", names.join(", "))
    })
}

/// Runs one seed and prints the end of its history.
fn show(seed: u64, bug: Option<Planted>, lines: usize) -> ExitCode {
    let outcome = scenario::run(seed, bug, lines);
    outcome.tail.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}: {} steps, history {:016x}", outcome.steps, outcome.history);
    match outcome.violation {
        Some(what) => {
            println!("VIOLATION: {what}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// Runs the seeds on several threads; the failing ones in order.
fn hunt(arguments: &Arguments, bug: Option<Planted>) -> Vec<(u64, String)> {
    let started = Instant::now();
    let (done, steps) = (AtomicU64::new(0), AtomicU64::new(0));
    let chosen = Ground { kind: arguments.kind, profile: arguments.profile, fixed_ssds: false };
    let ground = if chosen == Ground::default() { bug.map(ground_of).unwrap_or_default() } else { chosen };
    let seeds = usize::try_from(arguments.seeds).expect("a number of seeds fits in memory");
    let seeds = Mutex::new(ground.seeds(arguments.start).take(seeds));
    let stop = AtomicBool::new(false);
    let found: Arc<Mutex<Vec<(u64, String)>>> = Arc::default();
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let next = seeds.lock().expect("no thread panics while it holds this").next();
                    let Some(seed) = next else { break };
                    let outcome = run_caught(seed, bug);
                    steps.fetch_add(outcome.steps, Ordering::Relaxed);
                    if let Some(what) = outcome.violation {
                        println!("seed {seed}: {what}");
                        found.lock().expect("no thread panics while it holds this").push((seed, what));
                        stop.fetch_or(!arguments.all, Ordering::Relaxed);
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, arguments.seeds, started);
                }
            });
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    println!("{} seeds, {} steps, {seconds:.1} s", done.into_inner(), steps.into_inner());
    let mut found = found.lock().expect("the threads have ended").clone();
    found.sort();
    found
}

fn progress(done: u64, all: u64, started: Instant) {
    if done.is_multiple_of(100) || done == all {
        let millis = started.elapsed().as_millis().max(1);
        let rate = u128::from(done) * 10_000 / millis;
        println!("{done} of {all} seeds, {}.{} seeds/s", rate / 10, rate % 10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says how many seeds `many_seeds_pass` runs.
    const SEEDS: &str = "HOTSET_SEEDS";

    fn run_words(words: &[&str]) -> Result<ExitCode> {
        run(&Arguments::parse_from([&["hotset-sim"], words].concat()))
    }

    #[test]
    fn a_seed_is_run_and_its_history_told() {
        assert_eq!(run_words(&["--seed=3", "--lines=1"]).expect("there is no bug to find"), ExitCode::SUCCESS);
    }

    #[test]
    fn a_bug_that_nobody_planted_is_refused() {
        let refusal = run_words(&["--bug=NoSuchBug"]).expect_err("there is no such bug").to_string();
        assert!(refusal.contains("NoSuchBug"), "{refusal}");
    }

    /// Alone it runs a few: the rest takes minutes, and `cargo x test` has them run beside other tests.
    // proves: F5
    #[test]
    fn many_seeds_pass() {
        let seeds = std::env::var(SEEDS).unwrap_or("10".to_owned());
        assert_eq!(run_words(&["--seeds", &seeds]).expect("there is no bug to find"), ExitCode::SUCCESS);
    }
}
