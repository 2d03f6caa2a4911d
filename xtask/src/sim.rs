//! `cargo x sim`: the cache on a seeded executor, in a world that fails, against a model.

use anyhow::Result;

use crate::command::{Beside, cargo, succeed};
use crate::test::linted;

/// Seeds of each `cargo x test`.
const SEEDS: &str = "1000";

/// What cargo starts programs by: they take what processor time nobody else wants. Cargo itself does not, for others wait for it.
const IDLE: &str = r#"target."cfg(all())".runner = ["chrt", "--idle", "0"]"#;

/// Begins what `cargo x test` runs beside tests that mostly wait, by a test of the library: to build the program, too, would take two
/// minutes.
pub(crate) fn begin_beside() -> Result<Beside> {
    let words = ["test", "--quiet", "--config", IDLE, "--workspace", "--lib", "--", "--nocapture", "many_seeds_pass"];
    let mut tests = linted(&words)?;
    tests.env("HOTSET_SEEDS", SEEDS);
    Beside::begin("simulator", tests)
}

/// Hands its arguments to the simulator. In the development profile: there our assertions and those of the arithmetic
/// are on, and a panic can be caught and told with its history.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let mut words = vec!["run", "--quiet", "--package=hotset-sim", "--"];
    words.extend(arguments);
    succeed(cargo(&words))
}
