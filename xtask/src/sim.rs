//! `cargo x sim`: the cache on a seeded executor, in a world that fails, against a model.

use anyhow::{Context, Result};

use crate::command::{Beside, cargo, command, succeed, target_dir};
use crate::test::build_all;

/// Begins what `cargo x test` runs: the program that was built beside the unit tests. It takes what processor time nobody else wants:
/// the real clients and the browser mostly wait.
pub(crate) fn begin_beside() -> Result<Beside> {
    build_all()?;
    let program = target_dir()?.join("debug/hotset-sim");
    let command = command("chrt", &["--idle", "0", &program.to_string_lossy(), "--seeds=1000"]);
    Beside::begin("simulator", command).context("chrt is of util-linux")
}

/// Hands its arguments to the simulator. In the development profile: there our assertions and those of the arithmetic
/// are on, and a panic can be caught and told with its history.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let mut words = vec!["run", "--quiet", "--package=hotset-sim", "--"];
    words.extend(arguments);
    succeed(cargo(&words))
}
