//! `cargo x bench`: the figures that the project promises, measured.

use anyhow::Result;

use crate::command::{cargo, succeed};

/// Builds what is measured as it is shipped, then hands over to the benchmark program.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    succeed(cargo(&["build", "--release", "--package=hotset"]))?;
    let mut command = cargo(&["bench", "--package=hotset-serve", "--"]);
    command.args(arguments);
    succeed(command)
}
