//! Starts and stops of the daemon as events, and what they say of the time in which hosts were not served.

use std::time::{Duration, Instant};

use hotset_api::{Event, Severity, SubjectKind};

use super::events::{EventLog, Happened};
use crate::clock::unix_ms;

/// What a clean stop begins with: hosts are let go.
const STOPPING: &str = "stopping";

/// What the last event says after a clean stop.
const STOPPED: &str = "stopped";

/// How the daemon ended before this start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastRun {
    /// There was none.
    None,
    /// It let hosts go at that time, milliseconds since 1970.
    Stopped { hosts_until_unix_ms: u64 },
    /// It was killed, or died.
    Died,
}

impl LastRun {
    pub(crate) fn of(log: &EventLog) -> Self {
        Self::from_events(&log.list(None).events)
    }

    fn from_events(events: &[Event]) -> Self {
        let Some(last) = events.last() else { return Self::None };
        let says = |event: &&Event, change| event.subject.kind == SubjectKind::Daemon && event.change == change;
        if !says(&last, STOPPED) {
            return Self::Died;
        }
        let stopping = events.iter().rfind(|event| says(event, STOPPING));
        Self::Stopped { hosts_until_unix_ms: stopping.unwrap_or(last).at_unix_ms }
    }

    /// The event of this start.
    pub(crate) fn started(self) -> Happened {
        let version = format!("version {}", env!("CARGO_PKG_VERSION"));
        match self {
            Self::None | Self::Stopped { .. } => Happened::to_daemon(Severity::Info, "started", &version),
            Self::Died => {
                let cause = format!("{version}; the last run had no clean stop");
                Happened::to_daemon(Severity::Warning, "started", &cause)
            }
        }
    }

    /// The event of hosts being served, unless they are for the first time: how long they waited.
    pub(crate) fn serving(self, start: Instant) -> Option<Happened> {
        let since_start = start.elapsed();
        let cause = match self {
            Self::None => return None,
            // A clock that was set back says nothing.
            Self::Stopped { hosts_until_unix_ms } => {
                let pause = Duration::from_millis(unix_ms().saturating_sub(hosts_until_unix_ms)).max(since_start);
                format!("no request was served for {:.2} s, from the last clean stop until now", pause.as_secs_f64())
            }
            Self::Died => {
                format!("{:.2} s after this start; the last run had no clean stop", since_start.as_secs_f64())
            }
        };
        Some(Happened::to_daemon(Severity::Info, "serving hosts", &cause))
    }
}

/// Hosts are let go now.
pub(crate) fn stopping() -> Happened {
    Happened::to_daemon(Severity::Info, STOPPING, "")
}

/// All is closed and clean.
pub(crate) fn stopped() -> Happened {
    Happened::to_daemon(Severity::Info, STOPPED, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::counters::Counters;

    fn log_of(happened: Vec<Happened>) -> LastRun {
        let directory = tempfile::tempdir().unwrap();
        let log = EventLog::open(directory.path(), Counters::default());
        log.append(happened);
        log.wait_written(Duration::from_secs(10));
        LastRun::of(&EventLog::open(directory.path(), Counters::default()))
    }

    #[test]
    fn the_first_start_follows_nothing_and_has_no_pause() {
        assert_eq!(log_of(Vec::new()), LastRun::None);
        assert_eq!(LastRun::None.serving(Instant::now()), None);
    }

    #[test]
    fn a_clean_stop_is_one_whose_last_event_says_so() {
        let started = || LastRun::None.started();
        assert!(matches!(log_of(vec![started(), stopping(), stopped()]), LastRun::Stopped { .. }));
        for died in [vec![started()], vec![started(), stopping()], vec![stopping(), stopped(), started()]] {
            assert_eq!(log_of(died), LastRun::Died);
        }
        assert_eq!(LastRun::Died.started().severity, Severity::Warning);
    }

    #[test]
    fn the_pause_begins_when_hosts_are_let_go() {
        let last = LastRun::Stopped { hosts_until_unix_ms: unix_ms() - 61_000 };
        let cause = last.serving(Instant::now()).unwrap().cause;
        assert!(cause.contains("for 61."), "{cause}");
        let ahead = LastRun::Stopped { hosts_until_unix_ms: unix_ms() + 1_000_000 };
        assert!(ahead.serving(Instant::now()).unwrap().cause.contains("for 0.00 s"));
    }
}
