//! See `program.rs`.

use std::process::ExitCode;

use clap::Parser;
use hotset_sim::program::{Arguments, run};

fn main() -> anyhow::Result<ExitCode> {
    run(&Arguments::parse())
}
