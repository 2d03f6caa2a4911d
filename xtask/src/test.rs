//! `cargo x test`: everything that has to be green, one step after the other, counted.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::{Beside, cargo, command, new_files, output_of, root, succeed, target_dir, watch};
use crate::tally::Tally;
use crate::{console, fuzz, python, sim, tidy, traceability};

/// How long the parts take whose length can be chosen.
#[derive(Clone, Copy)]
pub(crate) enum Thoroughness {
    /// `make test`: bounded for a small machine.
    Short,
    BeforePush,
}

impl Thoroughness {
    /// Per target.
    fn fuzz_seconds(self) -> u64 {
        match self {
            Self::Short => 4,
            Self::BeforePush => 20,
        }
    }
}

/// The tests that drive the binary.
const END_TO_END: &str = "--test=e2e";

/// Build all tests and the binary, those that run when they are named last: beside `--tests` no name counts. All of the workspace at once:
/// parts by themselves would ask for fewer features of what they depend on, and so for other builds of it.
const BUILDS: [&[&str]; 2] = [
    &["test", "--quiet", "--workspace", "--lib", "--tests", "--no-run"],
    &["test", "--quiet", "--workspace", END_TO_END, "--no-run"],
];

/// Those of real clients that run at once: each starts a daemon and clients, and mostly waits for them.
const CLIENTS_AT_ONCE: &str = "--test-threads=6";

/// Virtual machines that run at once. They are emulated, and each wants a processor: a test of 60 s by itself takes 390 s beside five others
/// on two processors.
const MACHINES_AT_ONCE: &str = "--test-threads=2";

/// Half of the tests of whole pools: what a pool leaves behind that was killed stays until the program ends, and all of them left 20 GB.
const RUN_APART: &[&str] =
    &["in_memory::", "late_flush::", "old_copies::", "one_machine::", "return_of_ssds::", "write_back::"];

/// What the names of tests have that need a virtual machine.
const MACHINES: &str = "guest";

/// One thing that is checked. A step that cannot even start has failed.
type Step = Box<dyn Fn() -> Result<Tally>>;

pub(crate) fn run(thoroughness: Thoroughness) -> Result<ExitCode> {
    let [clippy, fuzzers, simulator, machines] = [(); 4].map(|()| Begun::default());
    let (clippy_begun, fuzzers_begun) = (clippy.clone(), fuzzers.clone());
    let (simulator_begun, machines_begun) = (simulator.clone(), machines.clone());
    let before = new_files()?;
    let steps: Vec<(&str, Step)> = vec![
        ("format", Box::new(|| check(&["fmt", "--all", "--check"]))),
        ("format of fuzz", Box::new(|| check(&["fmt", "--manifest-path=fuzz/Cargo.toml", "--check"]))),
        ("tidy", Box::new(|| Ok(Tally::one(tidy::run()? == ExitCode::SUCCESS)))),
        ("traceability", Box::new(|| traceability::check().map(Tally::one))),
        // Before whatever builds the binary: it embeds the console.
        ("console", Box::new(console::check)),
        (
            "build twice",
            Box::new(move || {
                fuzzers_begun.begin(fuzz::begin_to_build);
                build_twice()
            }),
        ),
        ("unit tests", Box::new(move || unit_tests(&|| clippy_begun.begin(begin_clippy)))),
        (
            "clippy",
            Box::new(move || {
                // Not before: the tests of whole pools take most of the memory.
                machines_begun.begin(|| Beside::begin("machines", machines_alone(&[])?));
                simulator_begun.begin(sim::begin_beside);
                clippy.end()
            }),
        ),
        ("build of fuzz", Box::new(move || fuzzers.end())),
        ("fuzzing", Box::new(move || fuzz::run(thoroughness.fuzz_seconds(), None))),
        ("real clients", Box::new(|| count(end_to_end(&[CLIENTS_AT_ONCE, "--skip", MACHINES], &[])?))),
        ("browser", Box::new(|| console::browse(&[]))),
        ("virtual machines", Box::new(move || machines.end_counted())),
        ("simulator", Box::new(move || simulator.end_counted())),
        ("nothing left", Box::new(move || nothing_left(&before))),
    ];
    Ok(run_steps(&steps).exit_code())
}

/// What the tests ask for that takes minutes.
const ALL_OF_THE_GUEST: [(&str, &str); 4] =
    [("HOTSET_PACKAGES", "1"), ("HOTSET_STACKS", "1"), ("HOTSET_UBLK_MEMORY", "1"), ("HOTSET_KILLS", "20")];

/// The virtual machine alone; `all`: also what takes long.
pub(crate) fn guest(all: bool) -> Result<ExitCode> {
    let asked: &[(&str, &str)] = if all { &ALL_OF_THE_GUEST } else { &[] };
    let steps: Vec<(&str, Step)> = vec![("virtual machines", Box::new(move || count(machines_alone(asked)?)))];
    Ok(run_steps(&steps).exit_code())
}

/// The console alone: its checks, its build, and the browser.
pub(crate) fn console(filter: Vec<String>) -> Result<ExitCode> {
    let steps: Vec<(&str, Step)> =
        vec![("console", Box::new(console::check)), ("browser", Box::new(move || console::browse(&filter)))];
    Ok(run_steps(&steps).exit_code())
}

/// Runs all steps, also after a failure; the last line that it prints is the sum.
fn run_steps(steps: &[(&str, Step)]) -> Tally {
    let mut total = Tally::default();
    let mut summary = Vec::new();
    for (name, step) in steps {
        println!("== {name}");
        let (started, processors) = (Instant::now(), processor_seconds());
        let tally = step().unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Tally::one(false)
        });
        let skipped = if tally.skipped > 0 { format!(", {} SKIPPED", tally.skipped) } else { String::new() };
        let processors = processor_seconds() - processors;
        summary.push(format!(
            "{name}: {tally}{skipped} ({} s, {processors} s of processors)",
            started.elapsed().as_secs()
        ));
        total.add(tally);
    }
    println!("\n{}", summary.join("\n"));
    total.failures.iter().for_each(|line| println!("FAILED {line}"));
    println!("{total}");
    total
}

/// Processor time of all programs that were waited for until now (`cutime` and `cstime` of proc_pid_stat(5), in ticks of 10 ms); 0 if it is
/// not known. What runs beside other steps counts where it is waited for.
fn processor_seconds() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() / 100
}

fn check(arguments: &[&str]) -> Result<Tally> {
    Ok(Tally::one(succeed(cargo(arguments)).is_ok()))
}

/// What one step begins and a later one waits for: most steps use little more than one processor.
#[derive(Clone, Default)]
struct Begun(Rc<RefCell<Option<Result<Beside>>>>);

impl Begun {
    fn begin(&self, begin: impl FnOnce() -> Result<Beside>) {
        self.0.replace(Some(begin()));
    }

    fn end(&self) -> Result<Tally> {
        self.take()?.end()?;
        Ok(Tally::one(true))
    }

    /// For one that runs tests.
    fn end_counted(&self) -> Result<Tally> {
        let beside = self.take()?;
        tally_of(|line| beside.end_watched(line), |_| {})
    }

    fn take(&self) -> Result<Beside> {
        self.0.take().context("it was not begun")?
    }
}

/// Looks at what [`BUILDS`] leave out, building each of which takes a minute: benchmarks, and the examples of the packages that have some.
fn begin_clippy() -> Result<Beside> {
    let mut words = vec!["clippy".to_owned(), "--quiet".to_owned(), "--package=hotset-cache-benches".to_owned()];
    for package in fs::read_dir(root().join("crates")).context("cannot list crates")? {
        let package = package?;
        if package.path().join("examples").is_dir() {
            words.push(format!("--package=hotset-{}", package.file_name().to_string_lossy()));
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let rest = ["--examples", "--bench=*", "--", "-D", "warnings"];
    Beside::begin_nicely("clippy", &cargo(&[&words[..], &rest].concat()))
}

/// What runs tests leaves no files in the repository, where they would be taken for a part of it.
fn nothing_left(before: &str) -> Result<Tally> {
    let now = new_files()?;
    let left: Vec<&str> = now.lines().filter(|file| !before.lines().any(|known| known == *file)).collect();
    left.iter().for_each(|file| println!("left in the repository: {file}"));
    Ok(Tally::one(left.is_empty()))
}

/// Runs them, and `meanwhile` as soon as the first of them run: until then cargo lets nobody else build into the folder.
fn unit_tests(meanwhile: &dyn Fn()) -> Result<Tally> {
    let all = ["test", "--quiet", "--no-fail-fast", "--workspace", "--lib", "--tests", "--"];
    let others = RUN_APART.iter().flat_map(|name| ["--skip", *name]);
    let has_begun = Cell::new(false);
    let mut tally =
        count_lines(with_memory_kept(linted(&all.into_iter().chain(others).collect::<Vec<_>>())?), |line| {
            if line.starts_with("running ") && !has_begun.replace(true) {
                meanwhile();
            }
        })?;
    if !has_begun.get() {
        meanwhile();
    }
    tally.add(count(with_memory_kept(linted(&[&all, RUN_APART].concat())?))?);
    Ok(tally)
}

/// The memory of one test's devices is used again for the next one's: clearing new pages took as long as the tests (mallopt(3)).
fn with_memory_kept(mut command: Command) -> Command {
    command.env("MALLOC_MMAP_MAX_", "0").env("MALLOC_TRIM_THRESHOLD_", (8_u64 << 30).to_string());
    command
}

/// See [`BUILDS`].
pub(crate) fn build_all() -> Result<()> {
    BUILDS.iter().try_for_each(|build| succeed(linted(build)?))
}

/// Cargo that builds with clippy's compiler: it is rustc, and says what clippy says. To check all once more would take as long as half of
/// the build.
pub(crate) fn linted(arguments: &[&str]) -> Result<Command> {
    let toolchain = output_of(command("rustc", &["--print=sysroot"]))?;
    let mut command = cargo(arguments);
    command.env("RUSTC_WORKSPACE_WRAPPER", Path::new(toolchain.trim_end()).join("bin/clippy-driver"));
    Ok(command)
}

/// A second build without a change builds nothing: a build script that watches what is missing would have all built anew each time. It
/// says again what compilers had to say.
fn build_twice() -> Result<Tally> {
    build_all()?;
    let mut tally = Tally::default();
    for build in BUILDS {
        let output = linted(&[build, &["--message-format=json"]].concat())?.output()?;
        let messages = messages(&String::from_utf8_lossy(&output.stdout));
        let built = built_anew(&messages);
        built.iter().for_each(|package| println!("built anew without a change: {package}"));
        tally.add(Tally::one(output.status.success() && built.is_empty()));
        tally.add(Tally::one(warnings(&messages).is_empty()));
    }
    Ok(tally)
}

/// Those that cargo prints as JSON, one on a line.
fn messages(printed: &str) -> Vec<Value> {
    printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What was not as it was already.
fn built_anew(messages: &[Value]) -> Vec<&str> {
    let stale = messages.iter().filter(|message| message["fresh"] == false);
    stale.map(|message| message["package_id"].as_str().unwrap_or_default()).collect()
}

/// What compilers and clippy do not like; the first build has printed it.
fn warnings(messages: &[Value]) -> Vec<&Value> {
    messages.iter().filter(|message| message["reason"] == "compiler-message").collect()
}

/// What drives the binary with real clients, after building it: those that these words for the tests' program choose.
fn end_to_end(words: &[&str], asked: &[(&str, &str)]) -> Result<Command> {
    build_all()?;
    let mut command = linted(&[&["test", "--quiet", "--workspace", END_TO_END, "--"], words].concat())?;
    command.env("HOTSET_BIN", target_dir()?.join("debug/hotset")).envs(asked.iter().copied());
    // Without them, which need the network once, the tests that use them say that they are skipped.
    for (name, variable) in [("schemathesis", "HOTSET_SCHEMATHESIS"), ("ansible", "HOTSET_ANSIBLE")] {
        match python::bring(name) {
            Ok(packages) => drop(command.env(variable, packages)),
            Err(error) => println!("{name}: {error:#}"),
        }
    }
    Ok(command)
}

fn machines_alone(asked: &[(&str, &str)]) -> Result<Command> {
    end_to_end(&[MACHINES_AT_ONCE, MACHINES], asked)
}

pub(crate) fn count(command: Command) -> Result<Tally> {
    count_lines(command, |_| {})
}

fn count_lines(command: Command, heard: impl FnMut(&str)) -> Result<Tally> {
    tally_of(|line| watch(command, line), heard)
}

/// Of the lines that `watched` hands on; it says whether all went well.
fn tally_of(watched: impl FnOnce(&mut dyn FnMut(&str)) -> Result<bool>, mut heard: impl FnMut(&str)) -> Result<Tally> {
    let mut tally = Tally::default();
    let succeeded = watched(&mut |line| {
        tally.add_line(line);
        heard(line);
    })?;
    // A program that did not build or was killed printed no sum.
    if !succeeded && tally.failed == 0 {
        tally.failed = 1;
        tally.failures.push("a program ended without a sum: standard error says how".to_owned());
    }
    // A name that no test has chooses none.
    if tally.passed + tally.failed + tally.skipped == 0 {
        tally.failed = 1;
        tally.failures.push("no test was run".to_owned());
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_test_has_failed() {
        let nothing = |line: &mut dyn FnMut(&str)| {
            line("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out");
            Ok(true)
        };
        assert_eq!(tally_of(nothing, |_| {}).expect("it was counted").failed, 1);
    }

    #[test]
    fn processor_time_is_that_of_programs_that_were_waited_for() {
        let before = processor_seconds();
        // However slow the machine is: in these it gets a second.
        let busy = (0..600).take_while(|_| {
            let mut yes = command("timeout", &["0.5", "yes"]);
            yes.stdout(std::process::Stdio::null()).status().expect("it is there");
            processor_seconds() == before
        });
        assert!(busy.count() < 600, "none is counted");
    }

    #[test]
    fn what_was_built_anew_is_found_among_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","package_id":"a","fresh":true}
{"reason":"build-script-executed","package_id":"b"}
{"reason":"compiler-artifact","package_id":"b","fresh":false}
{"reason":"build-finished","success":true}"#;
        assert_eq!(built_anew(&super::messages(messages)), ["b"]);
    }

    #[test]
    fn what_the_compiler_says_is_found_among_cargos_messages() {
        let printed = r#"{"reason":"compiler-artifact","fresh":true}
{"reason":"compiler-message","message":{"level":"warning"}}"#;
        assert_eq!(warnings(&messages(printed)).len(), 1);
    }
}
