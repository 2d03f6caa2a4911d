//! The simulator as a program. It links none of the engine: what does is built with the library's own tests.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hotset-sim")).args(arguments).output().expect("it was built")
}

#[test]
fn a_seed_is_run_and_its_history_named() {
    let output = run(&["--seed", "3", "--lines", "1"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("seed 3: "), "{said}");
}

#[test]
fn a_bug_that_nobody_planted_is_refused() {
    let output = run(&["--bug", "NoSuchBug"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("NoSuchBug"), "{said}");
}
