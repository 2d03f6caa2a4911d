//! A page of documentation, done as it is written: its commands in one shell, and what the page says that they print.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use hotset_e2e::daemon::binary;
use hotset_e2e::files::Site;

/// A page with the pauses of whoever reads it; seconds.
const LIMIT: &str = "900";
/// One that is done without; seconds.
const LIMIT_APART: &str = "150";
/// Printed before each step.
const MARK: &str = "=== step ";
/// Shown lines that are the same each time although they have digits.
const FIXED: [&str; 8] = [
    "exit code ",
    "wrote ",
    "read ",
    "number of failed transactions:",
    "Errors to hosts:",
    "Bad checksums:",
    "sectors that do not agree:",
    "files ",
];

/// A block of commands, and what the page says that they print.
pub(crate) struct Step {
    pub(crate) commands: String,
    printed: Option<String>,
}

/// The steps of a page, or of a part of it.
pub(crate) fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut parts = page.split("```");
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
pub(crate) fn run(steps: &[Step], pause_before: impl Fn(&Step) -> u64) -> Vec<String> {
    run_by(&[LIMIT, "bash"], "", steps, pause_before)
}

/// The same where nothing of it is left: with mounts, processes and a network of its own, and an empty /srv. Only root may do that.
pub(crate) fn run_apart(begins: &str, steps: &[Step]) -> Vec<String> {
    let begins = format!("ip link set lo up\nmount -t tmpfs none /srv\n{begins}");
    let apart = ["unshare", "--mount", "--net", "--pid", "--mount-proc", "--fork", "--kill-child", "bash"];
    run_by(&[&[LIMIT_APART], &apart[..]].concat(), &begins, steps, |_| 0)
}

/// `shell` comes after its limit of time.
fn run_by(shell: &[&str], begins: &str, steps: &[Step], pause_before: impl Fn(&Step) -> u64) -> Vec<String> {
    let site = Site::new();
    let (bin, home) = (site.path("bin"), site.path("tour"));
    fs::create_dir(&bin).and_then(|()| fs::create_dir(&home)).expect("folders can be made");
    symlink(binary(), bin.join("hotset")).expect("a name can be given");
    // The daemon is the shell's own, and goes with it.
    let begins = format!("trap 'kill -9 $(jobs -p) 2>&-' EXIT\nset -m\n{begins}");
    let script = begins + &script(steps, pause_before) + "wait\n";
    let path = std::env::var("PATH").unwrap_or_default();
    let out = File::create(site.path("out")).expect("a file can be made");
    let status = Command::new("timeout")
        .arg("--kill-after=5")
        .args(shell)
        .args(["-c", &script])
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
    by_step(&said)
}

/// What a shell is told.
pub(crate) fn script(steps: &[Step], pause_before: impl Fn(&Step) -> u64) -> String {
    let step = |step: &Step| format!("sleep {}\necho '{MARK}'\n{}\n", pause_before(step), step.commands);
    steps.iter().map(step).collect()
}

/// What was printed, step by step.
pub(crate) fn by_step(said: &str) -> Vec<String> {
    said.split(MARK).skip(1).map(str::to_owned).collect()
}

/// Every line that the page shows was printed, whatever its spaces; `...` is whatever was left out, and numbers are others each
/// time.
#[track_caller]
pub(crate) fn assert_printed(steps: &[Step], said: &[String]) {
    assert_eq!(said.len(), steps.len(), "{said:?}");
    for (step, said) in steps.iter().zip(said) {
        assert_step_printed(step, said);
    }
}

#[track_caller]
fn assert_step_printed(step: &Step, said: &str) {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let said_lines: Vec<String> = said.lines().map(words).collect();
    for line in step.printed.iter().flat_map(|printed| printed.lines()).map(words) {
        let is_compared =
            !line.contains(|letter: char| letter.is_ascii_digit()) || FIXED.iter().any(|fixed| line.starts_with(fixed));
        let parts: Vec<&str> = line.split("...").map(str::trim).filter(|part| !part.is_empty()).collect();
        let is_said = said_lines.iter().any(|said| parts.iter().all(|part| said.contains(part)));
        assert!(!is_compared || is_said, "the page shows {line:?} after\n{}\nand it printed\n{said}", step.commands);
    }
    for wrong in ["error:", "Pattern verification failed", "differ: "] {
        assert!(!said.contains(wrong), "{}\nprinted {said}", step.commands);
    }
}
