//! Running other people's programs, for a limited time.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::clock::Moment;

/// No client of a test runs longer than this; seconds.
const LIMIT_S: u64 = 600;

/// A program that ends within [`LIMIT_S`], reads nothing, and finds the administrator's programs too.
pub fn command<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Command {
    command_within(LIMIT_S, program, arguments)
}

/// One that ends within so many seconds.
pub fn command_within<S: AsRef<OsStr>>(seconds: u64, program: &str, arguments: &[S]) -> Command {
    // By its path: with a PATH of its own, a program that has to be looked for is started by a fork of this whole process, which took a
    // tenth of all tests' time.
    let mut command = Command::new("/usr/bin/timeout");
    command.args(["--kill-after=5", &seconds.to_string(), program]).args(arguments).stdin(Stdio::null());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C");
    command
}

/// Runs a program to its end.
pub fn run<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Output {
    command(program, arguments).output().unwrap_or_else(|error| panic!("{program} cannot be started: {error}"))
}

/// Runs a program that must succeed; returns what it printed.
#[track_caller]
pub fn succeed<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> String {
    let output = run(program, arguments);
    assert!(output.status.success(), "{program} failed: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program that must fail; returns what it said.
#[track_caller]
pub fn fail<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> String {
    let output = run(program, arguments);
    assert!(!output.status.success(), "{program} succeeded: {}", text(&output));
    text(&output)
}

/// All that a program said, and how it ended.
pub fn text(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\nstdout: {stdout}\nstderr: {stderr}", output.status)
}

/// Says that a test does not do what it is for; also where what tests print is kept back.
pub fn skip(why: &str) {
    writeln!(io::stdout(), "\nSKIPPED: {why}").ok();
}

/// How much slower a machine may be that is shared with others.
const SHARED: u32 = 5;

/// Asks again until the answer is yes: for what no event announces. The limit is for a machine with nothing else to do.
#[track_caller]
pub fn eventually(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    let (started, limit) = (Moment::now(), limit * SHARED);
    while !is_so() {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
