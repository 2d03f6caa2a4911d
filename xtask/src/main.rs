//! `cargo x`: the chores of this repository, so that what the build machine runs is what a developer runs.
//!
//! Each chore is one file. They start programs and read text; they know nothing of the product's insides.

mod bench;
mod command;
mod console;
mod fuzz;
mod over_minutes;
mod package;
mod python;
mod running;
mod sim;
mod soak;
mod tally;
mod test;
mod tidy;
mod traceability;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo x", bin_name = "cargo x", about = "Chores of the Hotset repository")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that must be green before a push: what `make test` runs, with a longer fuzz run
    Ci,
    /// Everything that `make test` runs; its last line is "N passed, N failed"
    Test,
    /// The simulator: the cache in a seeded, faulty world
    Sim {
        /// Handed to the simulator as they are, as --seeds 500 or --seed 7
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Every fuzz target for so many seconds
    Fuzz {
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// This target only
        #[arg(long)]
        target: Option<String>,
    },
    /// The rules of the house that no compiler lint checks, and whether docs/TRACEABILITY.md is what the tests say
    Tidy,
    /// The tests in a virtual machine: the kernel's own NBD client
    Guest {
        /// Also those that take minutes each: the packages and docs/INSTALL.md in an empty Debian, docs/stacks, little memory beside ublk, 20 kills. As root
        #[arg(long)]
        all: bool,
    },
    /// The web console: its lints, types and build, and the tests in a browser
    Console {
        /// Only the browser tests whose file name has one of these words in it
        filter: Vec<String>,
    },
    /// Regenerates docs/TRACEABILITY.md from the tests
    Traceability,
    /// Measures speed and memory
    Bench(bench::Options),
    /// A long life in fast motion: random administration, faults, pauses, kills and upgrades under hosts that check every byte
    Soak(soak::Options),
    /// Makes the Debian packages hotset and hotset-dbgsym
    Deb(package::Options),
    /// Makes an archive that can be unpacked on any distribution
    Tarball(package::Options),
    /// Prints the directory that cargo builds into
    TargetDir,
}

fn main() -> ExitCode {
    match run(Arguments::parse().chore) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cargo x: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<ExitCode> {
    match chore {
        Chore::Ci => test::run(test::Thoroughness::BeforePush),
        Chore::Test => test::run(test::Thoroughness::Short),
        Chore::Sim { arguments } => finish(sim::run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())),
        Chore::Fuzz { seconds, target } => fuzz::run(seconds, target.as_deref()).map(|tally| tally.exit_code()),
        Chore::Tidy => {
            let tidy = tidy::run()?;
            Ok(if traceability::check()? { tidy } else { ExitCode::FAILURE })
        }
        Chore::Guest { all } => test::guest(all),
        Chore::Console { filter } => test::console(filter),
        Chore::Traceability => finish(traceability::write()),
        Chore::Bench(options) => finish(bench::run(&options)),
        Chore::Soak(options) => finish(soak::run(&options)),
        Chore::Deb(options) => finish(package::deb(&options)),
        Chore::Tarball(options) => finish(package::tarball(&options)),
        Chore::TargetDir => {
            println!("{}", command::target_dir()?.display());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn finish(result: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}
