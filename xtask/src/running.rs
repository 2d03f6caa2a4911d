//! Programs that are waited for: each ends by itself, at its deadline, or with a run that is interrupted.
//!
//! Once [`watch_for_interruption`] was called, each has a process group of its own, so that whatever it starts ends with it. SIGINT, SIGTERM
//! and SIGHUP end them all, and no other is started: whoever waits gets an error, and the values that it drops then take away what the run
//! has set up. What does that is started nevertheless ([`clean_up`](crate::command::clean_up)).

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command::{clean_up, command, spelling};

/// What SIGTERM has not ended after so long, SIGKILL ends.
const KILL_AFTER: Duration = Duration::from_secs(5);
const POLL_LEAST: Duration = Duration::from_millis(1);
const POLL_MOST: Duration = Duration::from_millis(50);
/// Lines that a program is ahead of who reads them.
const LINES_MAX: usize = 1024;

/// Those of this process.
static PROGRAMS: Programs = Programs::new();

/// The programs that run.
struct Programs(Mutex<State>);

struct State {
    watched: bool,
    interrupted: bool,
    /// By the process id of the program that leads each.
    groups: Vec<u32>,
}

impl Programs {
    const fn new() -> Self {
        Self(Mutex::new(State { watched: false, interrupted: false, groups: Vec::new() }))
    }

    /// Whoever panicked with it left it whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&'static self, command: &mut Command) -> Result<Running> {
        let mut state = self.state();
        if state.interrupted {
            bail!("interrupted");
        }
        if state.watched {
            command.process_group(0);
        }
        let name = spelling(command);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        if state.watched {
            state.groups.push(child.id());
        }
        Ok(Running { child, name, has_group: state.watched, programs: self })
    }

    fn interrupt(&self) {
        self.state().interrupted = true;
        self.signal("-TERM");
    }

    fn signal(&self, signal: &str) {
        for group in &self.state().groups {
            // It may have ended.
            signal_group(signal, *group).ok();
        }
    }
}

fn signal_group(signal: &str, leader: u32) -> Result<()> {
    clean_up(command("kill", &[signal, "--", &format!("-{leader}")]))
}

/// From now on signals that end a process end what it waits for, and let it take away what it has set up.
pub(crate) fn watch_for_interruption() -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot wait for signals")?;
    let mut signals = {
        let _entered = runtime.enter();
        [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?]
    };
    PROGRAMS.state().watched = true;
    thread::spawn(move || {
        runtime.block_on(async {
            any_of(&mut signals).await;
            // A terminal that has hung up takes no words.
            writeln!(io::stderr(), "cargo x: interrupted; what was set up is taken away").ok();
            PROGRAMS.interrupt();
            loop {
                tokio::time::timeout(KILL_AFTER, any_of(&mut signals)).await.ok();
                PROGRAMS.signal("-KILL");
            }
        });
    });
    Ok(())
}

async fn any_of(signals: &mut [Signal; 3]) {
    let [first, second, third] = signals;
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
        _ = third.recv() => {}
    }
}

/// For whoever waits for something else than a program.
pub(crate) fn check_interruption() -> Result<()> {
    if PROGRAMS.state().interrupted {
        bail!("interrupted");
    }
    Ok(())
}

/// A program. Dropping it kills it, if it has not ended.
pub(crate) struct Running {
    child: Child,
    name: String,
    has_group: bool,
    programs: &'static Programs,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        PROGRAMS.start(command)
    }

    /// What it prints, of a command whose standard output is a pipe.
    pub(crate) fn output(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("standard output was asked for as a pipe, and is taken once")
    }

    /// What it prints, line by line, each with its end; an error from the deadline on.
    pub(crate) fn lines_until(&mut self, deadline: Instant) -> Lines {
        let mut output = BufReader::new(self.output());
        let (sender, lines) = sync_channel(LINES_MAX);
        thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                let read = output.read_until(b'\n', &mut line);
                let is_last = matches!(read, Ok(0) | Err(_));
                let line = read.map(|_| line);
                if line.as_ref().is_ok_and(Vec::is_empty) || sender.send(line).is_err() || is_last {
                    return;
                }
            }
        });
        Lines { lines, deadline, name: self.name.clone() }
    }

    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Kills it at the deadline, which is an error.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> Result<ExitStatus> {
        if let Some(status) = ended_by(&mut self.child, deadline)? {
            return Ok(status);
        }
        self.kill();
        Err(late(&self.name))
    }

    fn kill(&mut self) {
        if self.has_group {
            signal_group("-KILL", self.child.id()).ok();
        }
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
        let leader = self.child.id();
        self.programs.state().groups.retain(|group| *group != leader);
    }
}

/// The lines of a program, until its deadline.
pub(crate) struct Lines {
    lines: Receiver<io::Result<Vec<u8>>>,
    deadline: Instant,
    name: String,
}

impl Iterator for Lines {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Some(Err(late(&self.name)));
        }
        match self.lines.recv_timeout(left) {
            Ok(line) => Some(line.with_context(|| format!("cannot read what {} prints", self.name))),
            Err(RecvTimeoutError::Timeout) => Some(Err(late(&self.name))),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }
}

fn late(name: &str) -> anyhow::Error {
    anyhow!("{name} had not ended at its deadline, and was killed")
}

/// How it ended; none if it has not by then.
fn ended_by(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    let mut pause = POLL_LEAST;
    loop {
        let ended = child.try_wait().context("cannot wait for a program")?;
        if ended.is_some() || Instant::now() >= deadline {
            return Ok(ended);
        }
        thread::sleep(pause);
        pause = (2 * pause).min(POLL_MOST);
    }
}

/// Ends a server that leads a process group: it is asked to, and killed with its group if it takes longer than that, which is an error.
pub(crate) fn end(server: &mut Child, limit: Duration) -> Result<()> {
    if server.try_wait()?.is_some() {
        return Ok(());
    }
    let asked = clean_up(command("kill", &["-TERM", &server.id().to_string()]));
    if asked.is_ok() && ended_by(server, Instant::now() + limit)?.is_some() {
        return Ok(());
    }
    signal_group("-KILL", server.id())?;
    server.wait()?;
    asked?;
    bail!("it had not ended after {limit:?}, and was killed")
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(600);

    /// Of a test alone.
    fn watched() -> &'static Programs {
        let programs: &'static Programs = Box::leak(Box::new(Programs::new()));
        programs.state().watched = true;
        programs
    }

    fn shell(script: &str) -> Command {
        let mut shell = command("sh", &["-c", script]);
        shell.stdout(Stdio::piped());
        shell
    }

    fn text(line: Option<Result<Vec<u8>>>) -> String {
        String::from_utf8(line.expect("there is a line").expect("it can be read")).expect("it is text")
    }

    #[test]
    fn an_interruption_ends_what_runs_with_all_that_it_started_and_lets_nothing_start() {
        let programs = watched();
        let mut running = programs.start(&mut shell("sleep 600 & echo at work; wait")).expect("a shell starts");
        let mut lines = running.lines_until(Instant::now() + LONG);
        assert_eq!(text(lines.next()), "at work\n");
        programs.interrupt();
        assert!(!running.wait().expect("it is waited for").success());
        assert!(lines.next().is_none(), "nobody has the pipe open");
        let refused = programs.start(&mut shell("true")).map(drop).expect_err("the run is over");
        assert_eq!(refused.to_string(), "interrupted");
        assert!(clean_up(shell("true")).is_ok(), "what takes things away is started");
        drop(running);
        assert!(programs.state().groups.is_empty());
    }

    #[test]
    fn a_program_that_does_not_heed_its_end_is_killed() {
        let programs = watched();
        let mut running = programs.start(&mut shell("trap '' TERM; echo at work; sleep 600")).expect("a shell starts");
        assert_eq!(text(running.lines_until(Instant::now() + LONG).next()), "at work\n");
        programs.interrupt();
        programs.signal("-KILL");
        assert!(!running.wait().expect("it is waited for").success());
    }

    #[test]
    fn a_program_is_killed_at_its_deadline_whether_it_prints_or_not() {
        for script in ["sleep 600", "while :; do echo on and on; done"] {
            let mut running = watched().start(&mut shell(script)).expect("a shell starts");
            let mut lines = running.lines_until(Instant::now() + Duration::from_millis(50));
            let late = lines.find_map(Result::err).expect("it does not end by itself");
            assert!(late.to_string().contains(script), "{late}");
            assert!(running.wait_until(Instant::now()).is_err(), "{script}");
            assert!(running.child.try_wait().is_ok_and(|ended| ended.is_some()), "{script}");
        }
    }

    #[test]
    fn a_program_that_prints_on_and_on_is_late_at_its_deadline() {
        let (sender, receiver) = sync_channel(1);
        sender.send(Ok(b"a line".to_vec())).expect("there is room for it");
        let mut lines = Lines { lines: receiver, deadline: Instant::now(), name: "it".to_owned() };
        assert!(lines.next().is_some_and(|line| line.is_err()));
    }

    #[test]
    fn a_program_that_nobody_waits_for_is_killed() {
        let mut running = watched().start(&mut shell("sleep 600 & wait")).expect("a shell starts");
        let mut lines = running.lines_until(Instant::now() + LONG);
        drop(running);
        assert!(lines.next().is_none(), "nobody has the pipe open");
    }

    #[test]
    fn a_server_that_does_not_end_when_asked_is_killed() {
        let started = |script: &str| {
            let mut server = shell(script).process_group(0).spawn().expect("a shell starts");
            let mut output = BufReader::new(server.stdout.take().expect("it is piped"));
            output.read_line(&mut String::new()).expect("it says that it is at work");
            server
        };
        assert!(end(&mut started("echo; while :; do sleep 0.01; done"), LONG).is_ok());
        let mut stubborn = started("trap '' TERM; echo; sleep 600");
        assert!(end(&mut stubborn, Duration::from_millis(10)).is_err());
        assert!(end(&mut stubborn, LONG).is_ok(), "it has ended");
    }
}
