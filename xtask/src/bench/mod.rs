//! `cargo x bench`: the figures that the project promises, measured in one run beside what they are compared with.
//!
//! Everything is measured with the programs as they are shipped: the daemon, `fio`, `qemu-nbd`. A ratio compares only
//! what one run measured in turn, round after round; what is printed are medians. Each section is one file.

mod advisor;
mod arrays;
mod changing;
mod clients;
mod cpu;
mod daemon;
mod dirty;
mod endurance;
mod engine;
mod figure;
mod filling;
mod hits;
mod memory;
mod misses;
mod mix;
mod mounts;
mod report;
mod rounds;
mod scratch;
mod slow_ssds;
mod statistics;
mod threads;
mod traces;
mod vendor;
mod warm_up;
mod writes;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use self::figure::Figure;
pub(crate) use self::report::{build, date, machine};
use self::scratch::{Scratch, remove_leftovers};
use crate::command::{cargo, command, succeed, target_dir};
use crate::running::{check_interruption, watch_for_interruption};

#[derive(Args)]
pub(crate) struct Options {
    /// These sections only
    #[arg(long, value_enum, num_args = 1..)]
    only: Vec<Section>,
    /// Of the vendors' tests (b1 to b10): small and short, to see that they run; it tells nothing of speed
    #[arg(long)]
    quick: bool,
    /// How long each measurement of a round takes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Measurements of each figure, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=50))]
    rounds: u64,
    /// How long `--only endurance` writes
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Measure what was built before
    #[arg(long)]
    no_build: bool,
    /// Where SSD images and volumes are made: a directory on a disk; by default one in the target directory
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// Reads that the cache answers
    Hits,
    /// Reads that the memory cache answers, and streams that are read ahead
    Memory,
    /// Hits in two pools at once, each with its own thread
    Threads,
    /// Reads that it does not answer, and streams
    Misses,
    /// Writes into a mirrored write-back cache
    Writes,
    /// Writes into a cache of slow SSDs, which are emulated
    SlowSsds,
    /// Much dirty data: writes that go on, memory, and the start after a crash
    Dirty,
    /// Reads and writes of a set larger than the cache, on an array
    Mix,
    /// What hosts get while SSDs are rebuilt and emptied, and while a pool is scrubbed: many minutes; only when asked for
    Changing,
    /// What hosts get while blocks enter the cache
    Filling,
    /// How soon the cache is warm
    WarmUp,
    /// CPU and memory of the engine alone
    Engine,
    /// What watching and memory hits cost the engine, and how long what-if takes
    Advisor,
    /// Miss ratios of the default policy
    Traces,
    /// The emulated arrays beside the real ones
    Arrays,
    /// An hour of random writes; only when it is asked for
    Endurance,
    /// A vendor's test, only when it is asked for: random reads, 1 to 8 SSDs
    B1,
    /// Random writes, 2 to 8 SSDs, mirrored
    B2,
    /// A database's mix, of a set smaller and larger than the cache
    B3,
    /// Random reads of two pools
    B4,
    /// Random writes of two pools
    B5,
    /// A cache of half the data and of all of it
    B6,
    /// Reads over SMB
    B7,
    /// Machines that boot: recorded, and replayed for many
    B8,
    /// Each mode, more and more threads
    B9,
    /// More disks, or an SSD
    B10,
}

/// Where SSDs and reference files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// In the directory of the run.
    Disk,
    Memory,
    /// There are none.
    None,
}

impl Section {
    fn files(self) -> Files {
        if self == Self::Threads || self.vendors().is_some() {
            Files::Memory
        } else if matches!(self, Self::Engine | Self::Advisor | Self::Traces | Self::Arrays) {
            Files::None
        } else {
            Files::Disk
        }
    }

    /// It is no part of a run of everything.
    fn takes_long(self) -> bool {
        matches!(self, Self::Changing | Self::Endurance) || self.vendors().is_some()
    }

    /// What a vendor's test is called.
    fn vendors(self) -> Option<&'static str> {
        Some(match self {
            Self::B1 => "b1",
            Self::B2 => "b2",
            Self::B3 => "b3",
            Self::B4 => "b4",
            Self::B5 => "b5",
            Self::B6 => "b6",
            Self::B7 => "b7",
            Self::B8 => "b8",
            Self::B9 => "b9",
            Self::B10 => "b10",
            Self::Hits
            | Self::Memory
            | Self::Threads
            | Self::Misses
            | Self::Writes
            | Self::SlowSsds
            | Self::Dirty
            | Self::Mix
            | Self::Changing
            | Self::Filling
            | Self::WarmUp
            | Self::Engine
            | Self::Advisor
            | Self::Traces
            | Self::Arrays
            | Self::Endurance => return None,
        })
    }
}

/// What a section needs to know.
pub(crate) struct Bench {
    pub(crate) seconds: u64,
    pub(crate) rounds: u64,
    pub(crate) minutes: u64,
    pub(crate) quick: bool,
    pub(crate) scratch: Scratch,
    /// The directory of the programs that were built.
    pub(crate) release: PathBuf,
    /// Of what commit they are, if this run built them.
    pub(crate) build: String,
}

/// Measures, prints each figure as soon as it is known, and writes all of them down. A figure that misses its target is
/// told, and is no failure of the run.
pub(crate) fn run(options: &Options) -> Result<()> {
    watch_for_interruption()?;
    need_programs()?;
    // What is committed while it is built is not in it.
    let build = report::build(!options.no_build);
    if !options.no_build {
        build_all()?;
    }
    let target = target_dir()?;
    let parent = options.dir.clone().unwrap_or_else(|| target.clone());
    remove_leftovers(&parent)?;
    let scratch = Scratch::new(parent)?;
    let (seconds, rounds, minutes) = (options.seconds, options.rounds, options.minutes);
    let bench =
        Bench { seconds, rounds, minutes, quick: options.quick, scratch, release: target.join("release"), build };
    let is_asked = |section: &Section| {
        if options.only.is_empty() { !section.takes_long() } else { options.only.contains(section) }
    };
    let sections: Vec<Section> = Section::value_variants().iter().copied().filter(is_asked).collect();
    report::print_machine(&bench, &sections);
    let mut figures = Vec::new();
    let mut failed = Vec::new();
    for section in sections {
        report::print_section(section);
        let measured = measure(&bench, section);
        check_interruption()?;
        match measured {
            Ok(measured) => {
                measured.iter().for_each(report::print_figure);
                figures.extend(measured);
            }
            Err(error) => {
                println!("    FAILED: {error:#}");
                failed.push(format!("{section:?}"));
            }
        }
    }
    let path = report::write(&bench, &figures)?;
    report::print_sum(&figures, &path);
    if !failed.is_empty() {
        bail!("could not measure: {}", failed.join(", "));
    }
    Ok(())
}

fn measure(bench: &Bench, section: Section) -> Result<Vec<Figure>> {
    if let Some(id) = section.vendors() {
        return vendor::measure(bench, section, id);
    }
    match section {
        Section::Hits => hits::measure(bench),
        Section::Memory => memory::measure(bench),
        Section::Threads => threads::measure(bench),
        Section::Misses => misses::measure(bench),
        Section::Writes => writes::measure(bench),
        Section::SlowSsds => slow_ssds::measure(bench),
        Section::Dirty => dirty::measure(bench),
        Section::Mix => mix::measure(bench),
        Section::Changing => changing::measure(bench),
        Section::Filling => filling::measure(bench),
        Section::WarmUp => warm_up::measure(bench),
        Section::Engine => engine::measure(),
        Section::Advisor => advisor::measure(bench),
        Section::Traces => traces::measure(),
        Section::Arrays => arrays::measure(bench),
        Section::Endurance => endurance::measure(bench, bench.minutes),
        Section::B1
        | Section::B2
        | Section::B3
        | Section::B4
        | Section::B5
        | Section::B6
        | Section::B7
        | Section::B8
        | Section::B9
        | Section::B10 => unreachable!("it was measured above"),
    }
}

/// The programs that are measured against, and the packages that bring them.
fn need_programs() -> Result<()> {
    for (program, package) in [("fio", "fio"), ("qemu-nbd", "qemu-utils")] {
        if command(program, &["--version"]).output().is_err() {
            bail!("{program} is not installed: it is in the package {package}");
        }
    }
    Ok(())
}

fn build_all() -> Result<()> {
    succeed(cargo(&["build", "--quiet", "--release", "--package=hotset"]))?;
    let clients = ["--example=nbd_load", "--example=nbd_memory"];
    succeed(cargo(&[&["build", "--quiet", "--release", "--package=hotset-serve"][..], &clients].concat()))?;
    let devices = ["--example=emulated_presets", "--example=mirrored_writes"];
    succeed(cargo(&[&["build", "--quiet", "--release", "--package=hotset-block"][..], &devices].concat()))
}
