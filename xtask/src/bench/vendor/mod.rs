//! `cargo x bench --only b1 … b10`: what vendors published of their SSD caches, done again on emulated arrays, each row beside theirs.
//!
//! A benchmark fills a `Sheet`. From it come the figures of the run, the plots and the benchmark's part of `docs/benchmarks/README.md`; a quick
//! run, which tells nothing of speed, writes them below `bench-results/`.

mod arrays;
mod boots;
mod modes;
mod more_ssds;
mod page;
mod plot;
mod rig;
mod samba;
mod sheet;
mod sizes;
mod thrash;
mod two_pools;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

use self::sheet::Sheet;
use super::figure::Figure;
use super::report::{commit, date, machine};
use super::{Bench, Section};
use crate::command::root;

/// Measures, draws and writes down.
pub(super) fn measure(bench: &Bench, section: Section, id: &'static str) -> Result<Vec<Figure>> {
    let sheet = run(bench, section)?;
    let run = format!("{}; {}; commit {}; `cargo x bench --only {id}`", machine(), date()?, commit());
    let folder = folder(bench);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let picture = folder.join(format!("{id}.svg"));
    plot::draw(&picture, &sheet.plots(), &run.replace('`', ""))
        .map_err(|error| anyhow!("cannot draw {}: {error}", picture.display()))?;
    let path = folder.join("README.md");
    let page = fs::read_to_string(&path).unwrap_or_else(|_| page::empty());
    fs::write(&path, page::put(&page, id, &sheet, &run)).with_context(|| format!("cannot write {}", path.display()))?;
    for line in sheet.table() {
        println!("    {line}");
    }
    println!("    drawn: {}", picture.display());
    Ok(sheet.figures(id))
}

fn run(bench: &Bench, section: Section) -> Result<Sheet> {
    match section {
        Section::B1 => more_ssds::reads(bench),
        Section::B2 => more_ssds::writes(bench),
        Section::B3 => thrash::measure(bench),
        Section::B4 => two_pools::reads(bench),
        Section::B5 => two_pools::writes(bench),
        Section::B6 => sizes::measure(bench),
        Section::B7 => samba::measure(bench),
        Section::B8 => boots::measure(bench),
        Section::B9 => modes::measure(bench),
        Section::B10 => arrays::measure(bench),
        Section::Hits
        | Section::Memory
        | Section::Threads
        | Section::Misses
        | Section::Writes
        | Section::SlowSsds
        | Section::Dirty
        | Section::Mix
        | Section::Changing
        | Section::Filling
        | Section::WarmUp
        | Section::Engine
        | Section::Advisor
        | Section::Traces
        | Section::Arrays
        | Section::Endurance => unreachable!("no vendor published it"),
    }
}

fn folder(bench: &Bench) -> PathBuf {
    root().join(if bench.quick { "bench-results/benchmarks" } else { "docs/benchmarks" })
}
