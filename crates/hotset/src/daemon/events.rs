//! The event log: kept in the state directory, one line of JSON for each event, bounded, and followed by whoever asks.
//!
//! What was appended is never changed. A line that a crash has cut is skipped at the next start.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotset_api::{Event, EventList, Severity, Subject};
use tokio::sync::watch;

use super::clock::unix_ms;

/// Events that are kept. The file holds twice as many at most, before it is written anew.
const EVENTS_MAX: usize = 10_000;

/// Events in one answer.
const ANSWER_MAX: usize = 1000;

const FILE_NAME: &str = "events.jsonl";

/// What happened, before it has an id and a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(crate) severity: Severity,
    pub(crate) subject: Subject,
    pub(crate) pool: Option<String>,
    pub(crate) path: String,
    pub(crate) change: String,
    pub(crate) cause: String,
}

pub(crate) struct EventLog {
    path: PathBuf,
    kept: Mutex<Kept>,
    newest: watch::Sender<u64>,
}

struct Kept {
    events: VecDeque<Event>,
    /// Lines in the file.
    lines: usize,
    file: Option<File>,
    max: usize,
}

impl EventLog {
    /// Reads what is there. Blocking.
    pub(crate) fn open(directory: &Path) -> Self {
        Self::with_max(directory, EVENTS_MAX)
    }

    fn with_max(directory: &Path, max: usize) -> Self {
        let path = directory.join(FILE_NAME);
        let text = std::fs::read(&path).unwrap_or_default();
        let mut events: VecDeque<Event> = VecDeque::new();
        let mut lines = 0;
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            lines += 1;
            let event = serde_json::from_slice::<Event>(line).ok();
            let grows = |event: &Event| events.back().is_none_or(|last| last.id < event.id);
            if let Some(event) = event.filter(grows) {
                events.push_back(event);
            }
        }
        while events.len() > max {
            events.pop_front();
        }
        let newest = watch::channel(events.back().map_or(0, |event| event.id)).0;
        // A line that was cut must not swallow the next one.
        let whole = text.last().is_none_or(|last| *last == b'\n');
        let lines = if whole { lines } else { usize::MAX };
        Self { path, kept: Mutex::new(Kept { events, lines, file: None, max }), newest }
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends, and wakes those who follow; answers the events with their ids. Blocking. An event that cannot be kept in
    /// the file is shown until the daemon ends.
    pub(crate) fn append(&self, happened: Vec<Happened>) -> Vec<Event> {
        let mut kept = self.kept();
        let mut appended = Vec::new();
        for Happened { severity, subject, pool, path, change, cause } in happened {
            let id = kept.events.back().map_or(0, |event| event.id) + 1;
            let event = Event { id, at_unix_ms: unix_ms(), severity, subject, pool, path, change, cause };
            kept.events.push_back(event.clone());
            if kept.events.len() > kept.max {
                kept.events.pop_front();
            }
            appended.push(event);
        }
        if let Err(error) = kept.write(&self.path, &appended) {
            // A half-written line is left behind by writing the file anew next time.
            kept.lines = usize::MAX;
            tracing::warn!("{}: {error}; events are not kept over a restart", self.path.display());
        }
        let newest = kept.events.back().map_or(0, |event| event.id);
        drop(kept);
        self.newest.send_replace(newest);
        appended
    }

    /// The events after `after`, oldest first; without it the newest.
    pub(crate) fn list(&self, after: Option<u64>) -> EventList {
        let kept = self.kept();
        let newest_id = kept.events.back().map_or(0, |event| event.id);
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

impl Kept {
    fn write(&mut self, path: &Path, appended: &[Event]) -> io::Result<()> {
        if self.lines.saturating_add(appended.len()) > 2 * self.max {
            return self.write_anew(path);
        }
        let file = match &mut self.file {
            Some(file) => file,
            closed => closed.insert(options().append(true).open(path)?),
        };
        file.write_all(&lines(appended.iter())?)?;
        self.lines += appended.len();
        Ok(())
    }

    /// Beside, then in its place: a crash leaves the old file or the new one.
    fn write_anew(&mut self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension("new");
        let mut file = options().write(true).truncate(true).open(&beside)?;
        file.write_all(&lines(self.events.iter())?)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        self.file = None;
        self.lines = self.events.len();
        Ok(())
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

fn lines<'a>(events: impl Iterator<Item = &'a Event>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for event in events {
        serde_json::to_writer(&mut text, event)?;
        text.push(b'\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use hotset_api::SubjectKind;

    use super::*;

    fn happened(change: &str) -> Happened {
        Happened {
            severity: Severity::Info,
            subject: Subject::new(SubjectKind::Pool, "p"),
            pool: Some("p".to_owned()),
            path: String::new(),
            change: change.to_owned(),
            cause: String::new(),
        }
    }

    fn changes(log: &EventLog) -> Vec<(u64, String)> {
        log.list(Some(0)).events.into_iter().map(|event| (event.id, event.change)).collect()
    }

    #[test]
    fn events_are_found_again_and_their_ids_go_on() {
        let directory = tempfile::tempdir().unwrap();
        EventLog::open(directory.path()).append(vec![happened("a"), happened("b")]);
        let log = EventLog::open(directory.path());
        log.append(vec![happened("c")]);
        let expected = [(1, "a".to_owned()), (2, "b".to_owned()), (3, "c".to_owned())];
        assert_eq!(changes(&log), expected);
        assert_eq!(log.list(Some(2)).events.len(), 1);
        assert_eq!((log.list(Some(3)).events.len(), log.list(None).newest_id), (0, 3));
        assert_eq!(changes(&EventLog::open(directory.path())), expected);
    }

    #[test]
    fn a_line_that_was_cut_costs_itself_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        EventLog::open(directory.path()).append(vec![happened("a"), happened("b")]);
        let path = directory.path().join(FILE_NAME);
        let whole = std::fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for length in first..whole.len() - 1 {
            std::fs::write(&path, &whole[..length]).unwrap();
            EventLog::open(directory.path()).append(vec![happened("c")]);
            let found = changes(&EventLog::open(directory.path()));
            assert_eq!(found, [(1, "a".to_owned()), (2, "c".to_owned())], "cut after {length} bytes");
        }
    }

    #[test]
    fn only_the_newest_are_kept_in_memory_and_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let log = EventLog::with_max(directory.path(), 10);
        for _ in 0..50 {
            log.append(vec![happened("x")]);
            let text = std::fs::read_to_string(directory.path().join(FILE_NAME)).unwrap();
            assert!(text.lines().count() <= 20);
        }
        assert_eq!(log.list(None).events.len(), 10);
        let again = EventLog::with_max(directory.path(), 10);
        assert_eq!((again.list(None).events.len(), again.list(None).newest_id), (10, 50));
    }

    #[test]
    fn noise_in_the_file_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE_NAME), b"\xff\x00{}\n[1]\n{\"id\":1}\n").unwrap();
        let log = EventLog::open(directory.path());
        assert_eq!(log.list(None).events, []);
        log.append(vec![happened("a")]);
        assert_eq!(changes(&EventLog::open(directory.path())), [(1, "a".to_owned())]);
    }
}
