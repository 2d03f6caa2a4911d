//! The event log: kept in the state directory, one line of JSON for each event, bounded, and followed by whoever asks.
//!
//! What was appended is never changed. A line that a crash has cut is skipped at the next start. Whoever appends waits for
//! no file: a thread of its own writes, and what it could not write it writes with the next event, or after a while.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotset_api::{ConditionKind, Event, EventList, Severity, Subject, SubjectKind};
use tokio::sync::watch;

use crate::clock::unix_ms;
use crate::daemon::changes::Shown;
use crate::daemon::counters::Counters;
use crate::paths::EVENTS;
use crate::running_time::in_slices;
use crate::state_file;

/// Events that are kept. The file holds twice as many at most, before it is written anew.
const EVENTS_MAX: usize = 10_000;

/// Events in one answer.
const ANSWER_MAX: usize = 1000;

/// The file is read up to here: it holds no more than that of our own making.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// When writing is tried again that has failed.
const RETRY: Duration = Duration::from_secs(10);

/// What happened, before it has an id and a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(crate) severity: Severity,
    pub(crate) subject: Subject,
    pub(crate) pool: Option<String>,
    pub(crate) path: String,
    pub(crate) change: String,
    pub(crate) cause: String,
    /// Who asked for it; empty: nobody did.
    pub(crate) by: String,
    /// Conditions of the subject whose reasons the cause has.
    pub(crate) tells: BTreeSet<ConditionKind>,
    /// What was seen in the status, if an administrator may have asked for it.
    pub(crate) shown: Option<Shown>,
}

impl Happened {
    /// It is of the daemon as a whole.
    pub(crate) fn to_daemon(severity: Severity, change: &str, cause: &str) -> Self {
        Self {
            severity,
            subject: Subject::new(SubjectKind::Daemon, ""),
            pool: None,
            path: String::new(),
            change: change.to_owned(),
            cause: cause.to_owned(),
            by: String::new(),
            tells: BTreeSet::new(),
            shown: None,
        }
    }
}

pub(crate) struct EventLog {
    shared: Arc<SharedEvents>,
    newest: watch::Sender<u64>,
}

struct SharedEvents {
    kept: Mutex<KeptEvents>,
    /// Something was appended or written, or nothing will be any more.
    changed: Condvar,
    max: usize,
    counters: Counters,
}

struct KeptEvents {
    events: VecDeque<Event>,
    /// The writer has taken all up to this one, and is done with all up to that one.
    taken_id: u64,
    done_id: u64,
    /// Why the last ones could not be written.
    trouble: Option<String>,
    closed: bool,
}

/// The file, as its thread has it.
struct Writer {
    path: PathBuf,
    /// Lines in the file; more than any where it has to be written anew.
    lines: usize,
    file: Option<File>,
}

impl EventLog {
    /// Reads what is there. Blocking.
    pub(crate) fn open(directory: &Path, counters: Counters) -> Self {
        Self::with_max(directory, EVENTS_MAX, counters)
    }

    fn with_max(directory: &Path, max: usize, counters: Counters) -> Self {
        let path = directory.join(EVENTS);
        let Parsed { events, lines } = read_or_begin_anew(&path, max);
        let newest_id = events.back().map_or(0, |event| event.id);
        let kept = KeptEvents { events, taken_id: newest_id, done_id: newest_id, trouble: None, closed: false };
        let shared = Arc::new(SharedEvents { kept: Mutex::new(kept), changed: Condvar::new(), max, counters });
        let (writes, writer) = (Arc::clone(&shared), Writer { path, lines, file: None });
        let thread = std::thread::Builder::new().name("events".to_owned()).spawn(move || writes.write_all(writer));
        shared.kept().trouble = thread.err().map(|error| error.to_string());
        Self { shared, newest: watch::channel(newest_id).0 }
    }

    /// Appends, and wakes those who follow; answers the events with their ids. An event that cannot be kept in the file is
    /// shown until the daemon ends.
    pub(crate) fn append(&self, happened: Vec<Happened>) -> Vec<Event> {
        let mut kept = self.shared.kept();
        let mut appended = Vec::new();
        for Happened { severity, subject, pool, path, change, cause, by, tells: _, shown: _ } in happened {
            let id = kept.newest_id() + 1;
            let event = Event { id, at_unix_ms: unix_ms(), severity, subject, pool, path, change, cause, by };
            kept.events.push_back(event.clone());
            if kept.events.len() > self.shared.max {
                kept.events.pop_front();
            }
            appended.push(event);
        }
        let newest = kept.newest_id();
        drop(kept);
        self.shared.changed.notify_all();
        self.newest.send_replace(newest);
        appended
    }

    /// Why the newest events are not in the file, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.shared.kept().trouble.clone()
    }

    /// Waits until all that was appended is in the file, or could not be written, or the time is over. Blocking.
    pub(crate) fn wait_written(&self, limit: Duration) {
        let busy = |kept: &mut KeptEvents| kept.done_id < kept.newest_id();
        in_slices(limit, |slice| match self.shared.changed.wait_timeout_while(self.shared.kept(), slice, busy) {
            Ok((_, waited)) if waited.timed_out() => ControlFlow::Continue(()),
            Ok(_) | Err(_) => ControlFlow::Break(()),
        });
    }

    /// The events after `after`, oldest first; without it the newest.
    pub(crate) fn list(&self, after: Option<u64>) -> EventList {
        let kept = self.shared.kept();
        let newest_id = kept.newest_id();
        let events = match after {
            Some(after) => kept.events.iter().filter(|event| event.id > after).take(ANSWER_MAX).cloned().collect(),
            None => {
                let skipped = kept.events.len().saturating_sub(ANSWER_MAX);
                kept.events.iter().skip(skipped).cloned().collect()
            }
        };
        EventList { events, newest_id }
    }

    /// Tells when there is a newer event.
    pub(crate) fn follow(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.shared.kept().closed = true;
        self.shared.changed.notify_all();
    }
}

impl KeptEvents {
    fn newest_id(&self) -> u64 {
        self.events.back().map_or(0, |event| event.id)
    }
}

impl SharedEvents {
    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn kept(&self) -> MutexGuard<'_, KeptEvents> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the log is closed.
    fn write_all(&self, mut writer: Writer) {
        let mut failing = false;
        while let Some((appended, all)) = self.take(failing, &writer) {
            let written = if all { writer.write_anew(&appended) } else { writer.append(&appended) };
            let trouble = written.err().map(|error| format!("{}: {error}", writer.path.display()));
            failing = trouble.is_some();
            if let Some(trouble) = &trouble {
                tracing::warn!("{trouble}; events are not kept over a restart");
                // A half-written line is left behind by writing the file anew next time.
                (writer.lines, writer.file) = (usize::MAX, None);
            }
            let mut kept = self.kept();
            if failing {
                self.counters.events_not_kept(kept.taken_id - kept.done_id);
            }
            (kept.done_id, kept.trouble) = (kept.taken_id, trouble);
            drop(kept);
            self.changed.notify_all();
        }
    }

    /// Waits for events; if the last ones could not be written, not for ever. Answers those that are to be appended, or all
    /// of which the file is to be made anew.
    fn take(&self, failing: bool, writer: &Writer) -> Option<(Vec<Event>, bool)> {
        let idle = |kept: &mut KeptEvents| kept.taken_id == kept.newest_id() && !kept.closed;
        let kept = self.kept();
        let mut kept = match failing {
            true => self.changed.wait_timeout_while(kept, RETRY, idle).unwrap_or_else(PoisonError::into_inner).0,
            false => self.changed.wait_while(kept, idle).unwrap_or_else(PoisonError::into_inner),
        };
        if kept.closed && kept.taken_id == kept.newest_id() {
            return None;
        }
        let newest_id = kept.newest_id();
        let taken_id = std::mem::replace(&mut kept.taken_id, newest_id);
        let new = kept.events.iter().filter(|event| event.id > taken_id);
        if writer.lines.saturating_add(new.clone().count()) > 2 * self.max {
            return Some((kept.events.iter().cloned().collect(), true));
        }
        Some((new.cloned().collect(), false))
    }
}

impl Writer {
    fn append(&mut self, events: &[Event]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            closed => closed.insert(state_file::open(&self.path, OpenOptions::new().create(true).append(true))?),
        };
        file.write_all(&lines(events)?)?;
        self.lines += events.len();
        Ok(())
    }

    /// Beside, then in its place: a crash leaves the old file or the new one.
    fn write_anew(&mut self, events: &[Event]) -> io::Result<()> {
        let directory = self.path.parent().expect("it is in the state directory");
        state_file::replace(directory, EVENTS, &lines(events)?)?;
        self.file = None;
        self.lines = events.len();
        Ok(())
    }
}

/// What was read of a file.
#[derive(Default)]
struct Parsed {
    /// The newest.
    events: VecDeque<Event>,
    /// More than any where it has to be written anew.
    lines: usize,
}

/// What cannot be read of the file is kept beside, and forgotten.
fn read_or_begin_anew(path: &Path, max: usize) -> Parsed {
    let (parsed, trouble) = match read(path) {
        Ok(text) => parse(&text, max),
        Err(error) => (Parsed::default(), Some(error.to_string())),
    };
    let Some(trouble) = trouble else { return parsed };
    tracing::warn!("{}: {trouble}; events that cannot be read are forgotten", path.display());
    if let Err(error) = state_file::set_aside(path) {
        tracing::warn!("{}: it cannot be set aside: {error}", path.display());
    }
    Parsed { lines: usize::MAX, ..parsed }
}

/// Also tells why not all of it is understood, if so: other than a last line that was cut.
fn parse(text: &[u8], max: usize) -> (Parsed, Option<String>) {
    let (mut events, mut lines, mut trouble) = (VecDeque::<Event>::new(), 0, None);
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| *line != b"\n") {
        lines += 1;
        match serde_json::from_slice::<Event>(line) {
            Ok(event) if events.back().is_none_or(|last| last.id < event.id) => events.push_back(event),
            Err(error) if line.ends_with(b"\n") => trouble = Some(format!("line {lines}: {error}")),
            Ok(_) | Err(_) => {}
        }
    }
    while events.len() > max {
        events.pop_front();
    }
    // A line that was cut must not swallow the next one.
    let whole = text.last().is_none_or(|last| *last == b'\n');
    (Parsed { events, lines: if whole { lines } else { usize::MAX } }, trouble)
}

/// A file that is not there is empty.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    match state_file::open(path, OpenOptions::new().read(true)) {
        Ok(file) => drop(file.take(FILE_BYTES_MAX).read_to_end(&mut text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(text)
}

fn lines(events: &[Event]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for event in events {
        serde_json::to_writer(&mut text, event)?;
        text.push(b'\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened(change: &str) -> Happened {
        Happened {
            severity: Severity::Info,
            subject: Subject::new(SubjectKind::Pool, "p"),
            pool: Some("p".to_owned()),
            path: String::new(),
            change: change.to_owned(),
            cause: String::new(),
            by: String::new(),
            tells: BTreeSet::new(),
            shown: None,
        }
    }

    const LIMIT: Duration = Duration::from_secs(10);

    fn open(directory: &Path) -> EventLog {
        EventLog::open(directory, Counters::default())
    }

    fn append(log: &EventLog, changes: &[&str]) {
        log.append(changes.iter().map(|change| happened(change)).collect());
        log.wait_written(LIMIT);
    }

    fn changes(log: &EventLog) -> Vec<(u64, String)> {
        log.list(Some(0)).events.into_iter().map(|event| (event.id, event.change)).collect()
    }

    #[test]
    fn events_are_found_again_and_their_ids_go_on() {
        let directory = tempfile::tempdir().unwrap();
        append(&open(directory.path()), &["a", "b"]);
        let log = open(directory.path());
        append(&log, &["c"]);
        let expected = [(1, "a".to_owned()), (2, "b".to_owned()), (3, "c".to_owned())];
        assert_eq!(changes(&log), expected);
        assert_eq!(log.list(Some(2)).events.len(), 1);
        assert_eq!((log.list(Some(3)).events.len(), log.list(None).newest_id), (0, 3));
        assert_eq!(changes(&open(directory.path())), expected);
    }

    #[test]
    fn a_line_that_was_cut_costs_itself_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        append(&open(directory.path()), &["a", "b"]);
        let path = directory.path().join(EVENTS);
        let whole = std::fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for length in first..whole.len() - 1 {
            std::fs::write(&path, &whole[..length]).unwrap();
            append(&open(directory.path()), &["c"]);
            let found = changes(&open(directory.path()));
            assert_eq!(found, [(1, "a".to_owned()), (2, "c".to_owned())], "cut after {length} bytes");
        }
    }

    #[test]
    fn only_the_newest_are_kept_in_memory_and_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let log = EventLog::with_max(directory.path(), 10, Counters::default());
        for _ in 0..50 {
            append(&log, &["x"]);
            let text = std::fs::read_to_string(directory.path().join(EVENTS)).unwrap();
            assert!(text.lines().count() <= 20);
        }
        assert_eq!(log.list(None).events.len(), 10);
        let again = EventLog::with_max(directory.path(), 10, Counters::default());
        assert_eq!((again.list(None).events.len(), again.list(None).newest_id), (10, 50));
    }

    #[test]
    fn noise_in_the_file_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let noise = b"\xff\x00{}\n[1]\n{\"id\":1}\n";
        std::fs::write(directory.path().join(EVENTS), noise).unwrap();
        let log = open(directory.path());
        assert_eq!(log.list(None).events, []);
        append(&log, &["a"]);
        assert_eq!(changes(&open(directory.path())), [(1, "a".to_owned())]);
        assert_eq!(std::fs::read(directory.path().join("events.jsonl.broken")).unwrap(), noise, "it is kept");
    }

    #[test]
    fn noise_among_events_is_set_aside_and_costs_none_of_them() {
        let directory = tempfile::tempdir().unwrap();
        append(&open(directory.path()), &["a", "b"]);
        let path = directory.path().join(EVENTS);
        let text = std::fs::read_to_string(&path).unwrap().replacen('\n', "\nnoise\n", 1);
        std::fs::write(&path, text).unwrap();
        let all = [(1, "a".to_owned()), (2, "b".to_owned()), (3, "c".to_owned())];
        let log = open(directory.path());
        append(&log, &["c"]);
        assert!(directory.path().join("events.jsonl.broken").exists());
        assert_eq!((changes(&log), changes(&open(directory.path()))), (all.to_vec(), all.to_vec()));
        assert!(!directory.path().join("events.jsonl.broken.2").exists());
    }

    #[test]
    fn what_is_no_file_stops_nothing_and_is_told_until_events_are_kept_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(EVENTS);
        let make = || assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let counters = Counters::default();
        make();
        // What is there at the start is set aside; what comes later is in the way.
        let log = EventLog::open(directory.path(), Counters::default());
        append(&log, &["o"]);
        assert_eq!((log.trouble(), changes(&open(directory.path()))), (None, vec![(1, "o".to_owned())]));
        std::fs::remove_file(&path).unwrap();
        let log = EventLog::open(directory.path(), counters.clone());
        make();
        append(&log, &["a"]);
        assert!(log.trouble().is_some_and(|why| why.contains("events.jsonl")), "{:?}", log.trouble());
        assert_eq!((counters.now().events_not_kept, log.list(None).newest_id), (1, 1));
        append(&log, &["b"]);
        assert_eq!((log.trouble(), counters.now().events_not_kept), (None, 1));
        assert_eq!(changes(&open(directory.path())), [(1, "a".to_owned()), (2, "b".to_owned())]);
    }
}
