//! `cargo x sim`: the cache on a seeded executor, in a world that fails, against a model.

use anyhow::Result;

use crate::command::{cargo, succeed};

/// What `cargo x test` runs.
pub(crate) const SHORT: &[&str] = &["--seeds=1000"];

/// Hands its arguments to the simulator. In the development profile: there our assertions and those of the arithmetic
/// are on, and a panic can be caught and told with its history.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let mut words = vec!["run", "--quiet", "--package=hotset-sim", "--"];
    words.extend(arguments);
    succeed(cargo(&words))
}
