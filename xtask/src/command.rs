//! Starting programs, and where things are.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::running::Running;

/// What is asked what it prints takes less.
const OUTPUT_LIMIT: Duration = Duration::from_secs(3600);

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the root of the repository")
}

/// A command that runs in the root of the repository and reads nothing.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = command("cargo", arguments);
    // Set by the cargo that runs us; a nested cargo would take them for its own settings.
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_PKG_NAME").env_remove("RUSTFLAGS");
    command
}

/// Runs to the end; an exit code other than 0 is an error that names the command.
pub(crate) fn succeed(mut command: Command) -> Result<()> {
    let status = Running::start(&mut command)?.wait()?;
    must_succeed(&command, status)
}

/// As [`succeed`], in a run that is interrupted too: it takes away what the run has set up. No key ends it.
pub(crate) fn clean_up(mut command: Command) -> Result<()> {
    let status = command.process_group(0).status().with_context(|| format!("cannot start {}", spelling(&command)))?;
    must_succeed(&command, status)
}

fn must_succeed(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("{} failed ({status})", spelling(command));
    }
    Ok(())
}

/// Runs to the end, hands each line of standard output to `line` after printing it; says whether it succeeded.
pub(crate) fn watch(mut command: Command, mut line: impl FnMut(&str)) -> Result<bool> {
    let mut running = Running::start(command.stdout(Stdio::piped()))?;
    for bytes in BufReader::new(running.output()).split(b'\n') {
        let bytes = bytes.context("cannot read what the command prints")?;
        let text = String::from_utf8_lossy(&bytes);
        println!("{text}");
        line(&text);
    }
    Ok(running.wait()?.success())
}

/// What a command prints; an exit code other than 0 is an error, and so is a command that takes an hour.
pub(crate) fn output_of(command: Command) -> Result<String> {
    output_within(command, OUTPUT_LIMIT)
}

/// What a command prints within this time; an exit code other than 0 is an error.
pub(crate) fn output_within(mut command: Command, limit: Duration) -> Result<String> {
    let (status, text) = printed_within(&mut command, limit)?;
    must_succeed(&command, status)?;
    Ok(text)
}

/// What a command prints within this time, and how it ended.
pub(crate) fn printed_within(command: &mut Command, limit: Duration) -> Result<(ExitStatus, String)> {
    let deadline = Instant::now() + limit;
    let mut running = Running::start(command.stdout(Stdio::piped()))?;
    let printed = running.lines_until(deadline).collect::<Result<Vec<_>>>()?.concat();
    let status = running.wait_until(deadline)?;
    let text = String::from_utf8(printed);
    Ok((status, text.with_context(|| format!("{} printed something else than text", spelling(command)))?))
}

/// What runs while something else does, and is waited for later.
pub(crate) struct Beside {
    child: Child,
    what: String,
    log: PathBuf,
}

impl Beside {
    /// As [`Self::begin`], behind everything else that wants a processor.
    pub(crate) fn begin_nicely(name: &str, command: &Command) -> Result<Self> {
        let mut nicely = Command::new("nice");
        nicely.arg("-n19").arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
        command.get_current_dir().map(|directory| nicely.current_dir(directory));
        for (variable, value) in command.get_envs() {
            match value {
                Some(value) => nicely.env(variable, value),
                None => nicely.env_remove(variable),
            };
        }
        Self::begin(name, nicely)
    }

    /// What it prints goes to `NAME.log` in the target directory.
    pub(crate) fn begin(name: &str, mut command: Command) -> Result<Self> {
        let log = target_dir()?.join(format!("{name}.log"));
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stderr(out.try_clone()?).stdout(out);
        let what = spelling(&command);
        let child = command.spawn().with_context(|| format!("cannot start {what}"))?;
        Ok(Self { child, what, log })
    }

    /// Waits for its end; prints what it said. An exit code other than 0 is an error that names the command.
    pub(crate) fn end(self) -> Result<()> {
        let what = self.what.clone();
        if !self.end_watched(|_| {})? {
            bail!("{what} failed");
        }
        Ok(())
    }

    /// As [`watch`], with what it printed until its end: errors, too.
    pub(crate) fn end_watched(mut self, mut line: impl FnMut(&str)) -> Result<bool> {
        let status = self.child.wait()?;
        for text in String::from_utf8_lossy(&fs::read(&self.log)?).lines() {
            println!("{text}");
            line(text);
        }
        Ok(status.success())
    }
}

impl Drop for Beside {
    /// Nobody waited for it: what came between failed to start.
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

/// Every file that is, or is about to be, in the repository, one on a line; all that match, if patterns are given.
pub(crate) fn listed_files(patterns: &[&str]) -> Result<String> {
    list_files(&[&["--cached", "--others", "--exclude-standard"], patterns].concat())
}

/// Files that are not in the repository and are not ignored, one on a line.
pub(crate) fn new_files() -> Result<String> {
    list_files(&["--others", "--exclude-standard"])
}

fn list_files(words: &[&str]) -> Result<String> {
    // Whoever owns the clone: nothing of its configuration is run by this.
    let words = [&["-c", "safe.directory=*", "ls-files"], words].concat();
    output_of(command("git", &words)).context("the list of files comes from git")
}

pub(crate) fn spelling(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// What this process was started with, as it is typed.
pub(crate) fn command_line() -> String {
    std::iter::once("cargo x".to_owned()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ")
}

/// `cargo metadata` of the workspace, dependencies' own metadata left out.
pub(crate) fn metadata() -> Result<serde_json::Value> {
    let text = output_of(cargo(&["metadata", "--no-deps", "--format-version=1", "--offline"]))?;
    serde_json::from_str(&text).context("cargo metadata printed no JSON")
}

/// Where cargo builds into, wherever the environment moved it.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let metadata = metadata()?;
    let path = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);

    #[test]
    fn what_is_printed_counts_if_the_command_succeeds_in_time() {
        let shell = |script: &str| command("sh", &["-c", script]);
        assert_eq!(output_within(shell("echo a; printf b"), LIMIT).expect("it succeeds"), "a\nb");
        let error = |script: &str, limit| output_within(shell(script), limit).expect_err("it fails").to_string();
        assert!(error("echo a; exit 3", LIMIT).contains("exit status: 3"));
        assert!(error("printf '\\377'", LIMIT).contains("something else than text"));
        assert!(error("exec sleep 600", Duration::from_millis(50)).contains("deadline"));
        assert!(error("exec >&-; exec sleep 600", Duration::from_millis(50)).contains("deadline"), "it prints no more");
        let (status, text) = printed_within(&mut shell("echo a; exit 3"), LIMIT).expect("it ends");
        assert_eq!((status.code(), text.as_str()), (Some(3), "a\n"));
    }
}
