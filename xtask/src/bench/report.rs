//! The table that is printed, and the file that is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::json;

use super::figure::{Figure, Judged, Outcome, Target};
use super::{Bench, Files, Section, mounts};
use crate::command::{command, command_line, output_of, root};

/// Before the sections: the machine, whose disk counts in the directory of the run, and what was built.
pub(crate) fn print_machine(bench: &Bench, sections: &[Section]) {
    println!("{}; {}; load at the start {}", machine(bench.scratch.parent()), bench.build, load());
    println!(
        "Medians of rounds in which all that is compared is measured in turn; ratios are medians of the rounds' ratios."
    );
    if sections.iter().any(|section| section.files() == Files::Disk) {
        println!(
            "SSDs and reference files are files on this machine's disk, fully written before, used with O_DIRECT, where a section says nothing else."
        );
    }
    println!("{:<76} {:>11} {:>11} {:<6} {:>8} {:>14}", "figure", "measured", "against", "", "judged", "target");
}

pub(crate) fn print_section(section: Section) {
    let heading = match section {
        Section::Hits => "Hits",
        Section::Memory => "Memory cache and read-ahead",
        Section::Threads => "Threads",
        Section::Misses => "Misses and streams",
        Section::Writes => "Writes",
        Section::SlowSsds => "Slow SSDs (emulated)",
        Section::Dirty => "Dirty data",
        Section::Mix => "Database mix",
        Section::Changing => "While SSDs come and go",
        Section::Filling => "While filling",
        Section::WarmUp => "Warm-up",
        Section::Engine => "The engine alone",
        Section::Advisor => "Advisor",
        Section::Traces => "Miss ratio of the default policy",
        Section::Arrays => "Emulated arrays",
        Section::Endurance => "Endurance",
        Section::B1 => "B1: random reads, 1 to 8 SSDs",
        Section::B2 => "B2: random writes, 2 to 8 SSDs, mirrored",
        Section::B3 => "B3: a database's mix, of a set smaller and larger than the cache",
        Section::B4 => "B4: random reads of two pools",
        Section::B5 => "B5: random writes of two pools",
        Section::B6 => "B6: a cache of half the data and of all of it",
        Section::B7 => "B7: reads over SMB",
        Section::B8 => "B8: machines that boot",
        Section::B9 => "B9: each mode, more and more threads",
        Section::B10 => "B10: more disks, or an SSD",
    };
    let files = match section.files() {
        Files::Disk | Files::None => "",
        Files::Memory => " (all data are in memory)",
    };
    println!("\n{heading}{files}");
}

pub(crate) fn print_figure(figure: &Figure) {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), readable);
    let value = figure.value();
    let judged = match figure.judged {
        Judged::Ratio(_) => value.map_or("-".to_owned(), |value| format!("{value:.2} x")),
        Judged::Difference(_) => value.map_or("-".to_owned(), |value| format!("{value:+.1}")),
        Judged::Measured => number(value),
    };
    let (measured, against) = (number(figure.measured), number(figure.reference));
    let target = spell_target(figure.target);
    let outcome = spell_outcome(figure.outcome());
    println!("{:<76} {measured:>11} {against:>11} {:<6} {judged:>8} {target:>14}  {outcome}", figure.what, figure.unit);
    if !figure.note.is_empty() {
        println!("    {}", figure.note);
    }
}

/// Writes all figures below `bench-results/`; returns the file.
pub(crate) fn write(bench: &Bench, figures: &[Figure]) -> Result<PathBuf> {
    let folder = root().join("bench-results");
    fs::create_dir_all(&folder)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_secs();
    let document = json!({
        "unix_seconds": now,
        "build": bench.build,
        "command": command_line(),
        "machine": machine(bench.scratch.parent()),
        "load": load(),
        "figures": figures.iter().map(Figure::to_json).collect::<Vec<_>>(),
    });
    let path = folder.join(format!("{now}.json"));
    fs::write(&path, serde_json::to_vec_pretty(&document)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

pub(crate) fn print_sum(figures: &[Figure], path: &Path) {
    let count = |outcome| figures.iter().filter(|figure| figure.outcome() == outcome).count();
    let (met, missed, skipped) = (count(Outcome::Met), count(Outcome::Missed), count(Outcome::Skipped));
    println!("\n{met} targets met, {missed} MISSED, {skipped} SKIPPED; written to {}", path.display());
    for figure in figures.iter().filter(|figure| figure.outcome() == Outcome::Missed) {
        println!("  MISSED: {}", figure.what);
    }
}

fn spell_target(target: Target) -> String {
    match target {
        Target::AtLeast(least) => format!(">= {least}"),
        Target::AtMost(most) => format!("<= {most}"),
        Target::Between(least, most) => format!("{least} to {most}"),
        Target::None => "-".to_owned(),
    }
}

fn spell_outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Met => "ok",
        Outcome::Missed => "MISSED",
        Outcome::Informs => "",
        Outcome::Skipped => "SKIPPED",
    }
}

/// Three significant digits or all before the point.
pub(crate) fn readable(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        magnitude if magnitude >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The machine that measures, and the file system of a directory.
pub(crate) fn machine(directory: &Path) -> String {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = value_after(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let memory = memory_of(&read("/proc/meminfo")).unwrap_or_else(|| "unknown".to_owned());
    let files = mounts::kind_of(directory).unwrap_or_else(|| "an unknown file system".to_owned());
    let release = read("/proc/sys/kernel/osrelease");
    format!("{cpus} CPUs ({model}), {memory} memory, Linux {}, files on {files}", release.trim())
}

/// Of the first line `KEY: VALUE`.
fn value_after(text: &str, key: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}

fn memory_of(meminfo: &str) -> Option<String> {
    let kib: f64 = value_after(meminfo, "MemTotal")?.strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

/// What is measured, told before it is built: the commit, if this run builds it.
pub(crate) fn build(is_built_here: bool) -> String {
    if is_built_here { format!("commit {}", commit()) } else { "unknown build".to_owned() }
}

/// "unknown" outside a clone. The pages that a run writes itself change nothing of it.
fn commit() -> String {
    let git = |words: &[&str]| command("git", &[&["-c", "safe.directory=*"], words].concat());
    let Ok(commit) = output_of(git(&["rev-parse", "--short", "HEAD"])) else { return "unknown".to_owned() };
    let mut changes = git(&["diff", "--quiet", "HEAD", "--", ":(top)", ":(top,exclude)docs/benchmarks"]);
    let changed = if changes.status().is_ok_and(|status| status.success()) { "" } else { "-dirty" };
    format!("{}{changed}", commit.trim())
}

/// Today.
pub(crate) fn date() -> Result<String> {
    Ok(output_of(command("date", &["--utc", "+%F"]))?.trim().to_owned())
}

/// Of the last minute, so that a disturbed run can be told.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_told_with_its_processor_its_memory_and_its_file_system() {
        let cpuinfo = "processor\t: 0\nmodel name\t: One CPU @ 2.0GHz: fast\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(value_after(cpuinfo, "model name").as_deref(), Some("One CPU @ 2.0GHz: fast"));
        assert_eq!(value_after(cpuinfo, "Hardware"), None);
        assert_eq!(memory_of("MemTotal:        8157232 kB\nMemFree: 1 kB\n").as_deref(), Some("7.8 GiB"));
        let told = machine(Path::new("/proc"));
        assert!(told.contains(" GiB memory, Linux ") && told.ends_with(", files on proc"), "{told}");
    }

    #[test]
    fn what_was_not_built_by_this_run_is_of_no_known_commit() {
        assert_eq!(build(false), "unknown build");
        assert!(build(true).starts_with("commit "));
    }
}
