//! The README's "Step by step", as a new user follows it: the commands are taken from the page, and so is what they print.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use hotset_e2e::daemon::binary;
use hotset_e2e::files::Site;

/// The whole of it, with pauses; seconds.
const LIMIT: &str = "900";
/// Printed before each step.
const MARK: &str = "=== step ";
/// Lines of README that are the same each time although they have digits.
const FIXED: [&str; 3] = ["exit code ", "wrote ", "read "];

/// A block of commands, and what README says that they print.
struct Step {
    commands: String,
    printed: Option<String>,
}

fn steps() -> Vec<Step> {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).expect("it is there");
    let (_, tour) = readme.split_once("## Step by step\n").expect("the tour begins");
    let (tour, _) = tour.split_once("\n## ").expect("the tour ends");
    let mut steps: Vec<Step> = Vec::new();
    let mut parts = tour.split("```");
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        match block.split_once('\n').expect("a block has lines") {
            ("sh", commands) => steps.push(Step { commands: commands.to_owned(), printed: None }),
            ("text", printed) => steps.last_mut().expect("commands come first").printed = Some(printed.to_owned()),
            (other, _) => panic!("a block of {other:?} is neither commands nor what they print"),
        }
    }
    steps
}

/// Runs these steps in one shell, in an empty directory; answers what each printed.
fn run(steps: &[Step], pause_before: impl Fn(&Step) -> u64) -> Vec<String> {
    let site = Site::new();
    let (bin, home) = (site.path("bin"), site.path("tour"));
    fs::create_dir(&bin).and_then(|()| fs::create_dir(&home)).expect("folders can be made");
    symlink(binary(), bin.join("hotset")).expect("a name can be given");
    // The daemon is the shell's own, and goes with it.
    let mut script = "trap 'kill -9 $(jobs -p) 2>&-' EXIT\nset -m\n".to_owned();
    for step in steps {
        script += &format!("sleep {}\necho '{MARK}'\n{}\n", pause_before(step), step.commands);
    }
    script += "wait\n";
    let path = std::env::var("PATH").unwrap_or_default();
    let out = File::create(site.path("out")).expect("a file can be made");
    let status = Command::new("timeout")
        .args(["--kill-after=5", LIMIT, "bash", "-c", &script])
        .env("PATH", format!("{}:{path}:/usr/sbin:/sbin", bin.display()))
        .env("LC_ALL", "C")
        .current_dir(&home)
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a file can be shared"))
        .stderr(out)
        .status()
        .expect("bash can be started");
    let said = fs::read_to_string(site.path("out")).expect("it was written");
    assert!(status.success() && !said.contains("panicked"), "{status}: {said}");
    said.split(MARK).skip(1).map(str::to_owned).collect()
}

/// Every line that README shows was printed, whatever its spaces; `...` is whatever was left out, and numbers are others each
/// time.
#[track_caller]
fn assert_printed(step: &Step, said: &str) {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let said_lines: Vec<String> = said.lines().map(words).collect();
    for line in step.printed.iter().flat_map(|printed| printed.lines()).map(words) {
        let is_compared =
            !line.contains(|letter: char| letter.is_ascii_digit()) || FIXED.iter().any(|fixed| line.starts_with(fixed));
        let parts: Vec<&str> = line.split("...").map(str::trim).filter(|part| !part.is_empty()).collect();
        let is_said = said_lines.iter().any(|said| parts.iter().all(|part| said.contains(part)));
        assert!(!is_compared || is_said, "README shows {line:?} after\n{}\nand it printed\n{said}", step.commands);
    }
    for wrong in ["error:", "Pattern verification failed", "differ: "] {
        assert!(!said.contains(wrong), "{}\nprinted {said}", step.commands);
    }
}

/// The pause between steps that the environment asks for; seconds.
fn pause() -> u64 {
    std::env::var("HOTSET_TOUR_PAUSE").ok().map_or(0, |seconds| seconds.parse().expect("a number of seconds"))
}

// proves: S4
#[test]
fn the_tour_of_the_readme_works_as_it_is_written() {
    let steps = steps();
    let said = run(&steps, |_| pause());
    assert_eq!(said.len(), steps.len());
    for (step, said) in steps.iter().zip(&said) {
        assert_printed(step, said);
    }
}

// proves: S4
#[test]
fn a_newcomer_who_reads_for_a_while_before_the_cache_is_taken_away_sees_the_same() {
    let mut steps = steps();
    let about_writes =
        |step: &Step| ["--type read-write", "kill -9", "delete"].iter().any(|word| step.commands.contains(word));
    let first = steps.iter().position(|step| step.commands.contains("--type read-write")).expect("there is one");
    // The daemon, and all that is about dirty data.
    steps = steps
        .into_iter()
        .enumerate()
        .filter(|(index, _)| *index == 0 || *index >= first)
        .map(|(_, step)| step)
        .collect();
    assert!(steps[1..].iter().filter(|step| about_writes(step)).count() >= 3, "what it is about is there");
    let said = run(&steps, |step| if step.commands.contains("delete") { 25 } else { 0 });
    for (step, said) in steps.iter().zip(&said) {
        assert_printed(step, said);
    }
}
