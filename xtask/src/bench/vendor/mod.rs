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
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use self::sheet::Sheet;
use super::figure::Figure;
use super::report::{date, machine};
use super::scratch::MEMORY;
use super::{Bench, Section};
use crate::command::{command_line, root};

/// Measures, draws and writes down.
pub(super) fn measure(bench: &Bench, section: Section, id: &'static str) -> Result<Vec<Figure>> {
    let sheet = run(bench, section)?;
    let run = format!("{}; {}; {}; `{}`", machine(Path::new(MEMORY)), date()?, bench.build, command_line());
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

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::Duration;

    use super::*;
    use crate::command::{command, printed_within};

    #[test]
    fn processes_that_begin_together_do_not_wait_for_one_that_fails() {
        const SCRIPT: &str = "
import sys, time
import together
def work(ready, number, fails):
    if fails == 'before' and number == 1:
        sys.exit('it fails')
    ready()
    if fails == 'after' and number == 1:
        sys.exit('it fails')
    if fails != 'never':
        time.sleep(600)
    return number
print(sum(together.run(work, [(number, sys.argv[1]) for number in range(3)])[1]))
";
        let run = |fails: &str| {
            let mut python = command("python3", &["-B", "-c", SCRIPT, fails]);
            python.env("PYTHONPATH", root().join("xtask/src/bench/vendor")).stderr(Stdio::null());
            // Less than they wait for each other.
            printed_within(&mut python, Duration::from_secs(50)).expect("it ends")
        };
        let (status, sum) = run("never");
        assert_eq!((status.success(), sum.as_str()), (true, "3\n"));
        for fails in ["before", "after"] {
            let (status, sum) = run(fails);
            assert_eq!((status.code(), sum.as_str()), (Some(1), ""), "{fails}");
        }
    }
}
