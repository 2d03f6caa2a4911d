//! The README's "Step by step", as a new user follows it: the commands are taken from the page, and so is what they print.

use std::fs;

use crate::page::{self, Step, assert_printed, run};

fn steps() -> Vec<Step> {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).expect("it is there");
    let (_, tour) = readme.split_once("## Step by step\n").expect("the tour begins");
    let (tour, _) = tour.split_once("\n## ").expect("the tour ends");
    page::steps(tour)
}

/// The pause between steps that the environment asks for; seconds.
fn pause() -> u64 {
    std::env::var("HOTSET_TOUR_PAUSE").ok().map_or(0, |seconds| seconds.parse().expect("a number of seconds"))
}

// proves: S4
#[test]
fn the_tour_of_the_readme_works_as_it_is_written() {
    let steps = steps();
    let said = run(&steps, |_| pause());
    assert_printed(&steps, &said);
}

// proves: S4
#[test]
fn a_newcomer_who_reads_for_a_while_before_the_cache_is_taken_away_sees_the_same() {
    let mut steps = steps();
    let about_writes =
        |step: &Step| ["--type read-write", "kill -9", "delete"].iter().any(|word| step.commands.contains(word));
    let first = steps.iter().position(|step| step.commands.contains("--type read-write")).expect("there is one");
    // The daemon, and all that is about dirty data.
    steps = steps
        .into_iter()
        .enumerate()
        .filter(|(index, _)| *index == 0 || *index >= first)
        .map(|(_, step)| step)
        .collect();
    assert!(steps[1..].iter().filter(|step| about_writes(step)).count() >= 3, "what it is about is there");
    let said = run(&steps, |step| if step.commands.contains("delete") { 25 } else { 0 });
    assert_printed(&steps, &said);
}
