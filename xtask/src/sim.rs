//! `cargo x sim`: the cache on a seeded executor, in a world that fails, against a model.

use anyhow::Result;

use crate::command::{cargo, command, succeed, target_dir};
use crate::test::UNIT_TESTED;

/// What `cargo x test` runs: the program that was built beside the unit tests. By itself it would be built once more, with
/// fewer features of what it depends on.
pub(crate) fn short() -> Result<()> {
    let build = [&["test", "--quiet", "--no-run", "--test=simulated"], UNIT_TESTED].concat();
    succeed(cargo(&build))?;
    let program = target_dir()?.join("debug/hotset-sim");
    succeed(command(&program.to_string_lossy(), &["--seeds=1000"]))
}

/// Hands its arguments to the simulator. In the development profile: there our assertions and those of the arithmetic
/// are on, and a panic can be caught and told with its history.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let mut words = vec!["run", "--quiet", "--package=hotset-sim", "--"];
    words.extend(arguments);
    succeed(cargo(&words))
}
