//! `cargo x fuzz`: libFuzzer over every decoder, on the pinned stable toolchain.
//!
//! `fuzz/.cargo/config.toml` holds the compiler flags of the coverage instrumentation: they are stable codegen options,
//! so no nightly compiler is needed. A planted bug must be found in every run. What is found stays in `fuzz/artifacts/`; what is worth keeping goes to
//! `fuzz/seeds/TARGET/`, which is committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::command::{Beside, cargo, command, output_of, root, succeed};
use crate::tally::Tally;

/// A decoder that needs more memory than this for an input of [`INPUT_BYTES_MAX`] is a failure.
const MEMORY_MIB_MAX: u64 = 512;
const INPUT_BYTES_MAX: u64 = 8192;
/// One input that takes longer than this is a failure.
const INPUT_SECONDS_MAX: u64 = 10;

/// The target with a planted bug: a run that does not find it proves nothing about the others.
const PLANTED: &str = "planted";
/// More than enough for four bytes, which take a fuzzer that sees coverage a second.
const PLANTED_SECONDS_MAX: u64 = 30;

/// Targets that run at once; each takes one processor.
const AT_ONCE: usize = 2;

/// Runs every target, or one, for so many seconds each.
pub(crate) fn run(seconds: u64, only: Option<&str>) -> Result<Tally> {
    let folder = root().join("fuzz");
    let programs = build(&folder)?;
    let mut chosen = targets(&folder)?;
    chosen.retain(|target| only.is_none_or(|only| only == target));
    if chosen.is_empty() {
        bail!("there is no fuzz target {:?}", only.unwrap_or_default());
    }
    let next = AtomicUsize::new(0);
    let work = || -> Result<Tally> {
        let mut tally = Tally::default();
        while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            tally.add(Tally::one(judge(&folder, &programs, target, seconds)?));
        }
        Ok(tally)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let mut tally = Tally::default();
        for worker in workers {
            tally.add(worker.join().expect("a fuzz target is run without a panic")?);
        }
        Ok(tally)
    })
}

/// Runs a target and says how it went. True if it found what it must find.
fn judge(folder: &Path, programs: &Path, target: &str, seconds: u64) -> Result<bool> {
    let planted = target == PLANTED;
    let outcome = run_target(folder, programs, target, if planted { PLANTED_SECONDS_MAX } else { seconds })?;
    let passed = outcome.nothing_found != planted;
    if !passed {
        println!("{}", outcome.log);
    }
    println!("fuzz {target}: {} inputs, {}", outcome.inputs, if passed { "as it must be" } else { "FAILED" });
    Ok(passed)
}

/// Builds all targets; returns the folder that holds them.
fn build(folder: &Path) -> Result<PathBuf> {
    succeed(building(folder))?;
    Ok(target_of(folder).join(host_tuple()?).join("release"))
}

/// Begins to build all targets.
pub(crate) fn begin_to_build() -> Result<Beside> {
    Beside::begin_nicely("fuzz-build", &building(&root().join("fuzz")))
}

fn building(folder: &Path) -> Command {
    let mut cargo = cargo(&["build", "--quiet", "--release", "--bins"]);
    // Only there is fuzz/.cargo/config.toml read.
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", target_of(folder));
    cargo
}

/// Beside, not inside, the workspace's own target folder: other flags would make each build undo the other's.
fn target_of(folder: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(folder.join("target"), |dir| Path::new(&dir).join("fuzz"))
}

fn host_tuple() -> Result<String> {
    let version = output_of(command("rustc", &["--version", "--verbose"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say for which host it is")
}

/// A file in `fuzz/targets` is a target.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join("targets")).context("cannot list fuzz/targets")? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

struct Outcome {
    nothing_found: bool,
    inputs: String,
    log: String,
}

fn run_target(folder: &Path, programs: &Path, target: &str, seconds: u64) -> Result<Outcome> {
    let corpus = folder.join("corpus").join(target);
    let artifacts = folder.join("artifacts").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let mut fuzzer = Command::new(programs.join(target));
    fuzzer.current_dir(folder).stdin(Stdio::null());
    fuzzer.args([
        format!("-max_total_time={seconds}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-artifact_prefix={}/", artifacts.display()),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    fuzzer.arg(&corpus);
    fuzzer.args(Some(folder.join("seeds").join(target)).filter(|seeds| seeds.is_dir()));
    let output = fuzzer.output().with_context(|| format!("cannot start the fuzz target {target}"))?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let runs = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let inputs = runs.unwrap_or("unknown number of").trim().to_owned();
    Ok(Outcome { nothing_found: output.status.success(), inputs, log })
}
