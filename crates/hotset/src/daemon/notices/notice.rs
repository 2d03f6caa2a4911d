//! What a target is told: of an event, of how many were left out, or that this is a test; as JSON, and as text.

use std::path::Path;

use hotset_api::{Event, Severity, Subject, SubjectKind};
use hotset_cache::date_and_time;
use serde::Serialize;

use super::rate::LeftOut;
use crate::clock::unix_ms;
use crate::escape::{escaped, escaped_lines};
use crate::given_file;

/// A notice is of one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum NoticeKind {
    Event,
    /// Of how many events were left out.
    Summary,
    Test,
}

/// See the file's summary. As a web hook gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Notice {
    kind: NoticeKind,
    /// In one line, for who shows nothing else.
    text: String,
    /// The name of the daemon's machine.
    pub(super) machine: String,
    version: &'static str,
    severity: Severity,
    subject: Subject,
    pool: Option<String>,
    path: String,
    change: String,
    /// Why, and what to do.
    cause: String,
    by: String,
    at_unix_ms: u64,
    /// Of an event.
    pub(super) event_id: Option<u64>,
    /// Of a summary: how many were left out.
    left_out: u64,
}

impl Notice {
    pub(super) fn of(event: &Event) -> Self {
        let Event { id, at_unix_ms, severity, subject, pool, path, change, cause, by } = event.clone();
        Self {
            pool,
            path,
            cause,
            by,
            at_unix_ms,
            event_id: Some(id),
            ..Self::bare(NoticeKind::Event, severity, subject, change)
        }
    }

    pub(super) fn summary(left_out: &LeftOut) -> Self {
        let LeftOut { info, warnings, errors, first_unix_ms } = *left_out;
        let change = format!("{} more events: {errors} errors, {warnings} warnings, {info} others", left_out.count());
        let cause = format!(
            "since {} there were more than notices may tell, or they could not be told; `hotset events` shows them",
            date_and_time(first_unix_ms / 1000)
        );
        let bare = Self::bare(NoticeKind::Summary, left_out.worst(), Subject::new(SubjectKind::Daemon, ""), change);
        Self { cause, left_out: left_out.count(), ..bare }
    }

    pub(super) fn test() -> Self {
        let cause =
            "somebody asked for it with `hotset notify test`; nothing is wrong, and there is nothing to do".to_owned();
        let bare =
            Self::bare(NoticeKind::Test, Severity::Info, Subject::new(SubjectKind::Daemon, ""), "a test".to_owned());
        Self { cause, ..bare }
    }

    fn bare(kind: NoticeKind, severity: Severity, subject: Subject, change: String) -> Self {
        let machine = machine_name();
        Self {
            text: escaped(&format!("{machine}: {}: {subject}: {change}", severity.word())),
            kind,
            machine,
            version: env!("CARGO_PKG_VERSION"),
            severity,
            subject,
            pool: None,
            path: String::new(),
            change,
            cause: String::new(),
            by: String::new(),
            at_unix_ms: unix_ms(),
            event_id: None,
            left_out: 0,
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("its keys are strings")
    }

    /// One for each notice, and the same whenever it is told again.
    pub(super) fn identifier(&self) -> String {
        let what = self.event_id.map_or_else(|| "notice".to_owned(), |id| format!("event-{id}"));
        format!("hotset-{what}-{}", self.at_unix_ms)
    }

    /// The subject of an e-mail.
    pub(super) fn headline(&self) -> String {
        format!("[hotset] {}", self.text)
    }

    /// The text of an e-mail.
    pub(super) fn to_text(&self) -> String {
        let mut lines = vec![self.text.clone(), String::new()];
        let mut line = |term: &str, text: &str| {
            if !text.is_empty() {
                lines.push(format!("{term:<10}{text}"));
            }
        };
        line("When", &date_and_time(self.at_unix_ms / 1000));
        line("Machine", &self.machine);
        line("What", &format!("{}: {}", self.subject, self.change));
        line("Pool", self.pool.as_deref().unwrap_or_default());
        line("Path", &self.path);
        line("Why", &self.cause);
        line("By", &self.by);
        line("Event", &self.event_id.map_or_else(String::new, |id| id.to_string()));
        lines.push(String::new());
        lines.push("`hotset status` shows how it is now.".to_owned());
        escaped_lines(&lines.join("\n")) + "\n"
    }
}

/// As its administrator called it.
fn machine_name() -> String {
    let name = given_file::read_text(Path::new("/proc/sys/kernel/hostname"));
    name.map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: O4
    #[test]
    fn a_notice_says_which_machine_what_why_and_who_and_no_text_of_others_breaks_its_lines() {
        let event = Event {
            id: 7,
            at_unix_ms: 1_700_000_000_000,
            severity: Severity::Error,
            subject: Subject::new(SubjectKind::Volume, "v"),
            pool: Some("fast".to_owned()),
            path: String::new(),
            change: "health good → failed\u{1b}[2J".to_owned(),
            cause: "backing device /dev/sdx: gone; bring it back".to_owned(),
            by: "user root".to_owned(),
        };
        let notice = Notice::of(&event);
        let json: serde_json::Value = serde_json::from_slice(&notice.to_json()).unwrap();
        assert_eq!(
            (&json["kind"], &json["severity"], &json["event_id"]),
            (&"event".into(), &"error".into(), &7.into())
        );
        assert_eq!((&json["subject"]["name"], &json["cause"]), (&"v".into(), &event.cause.as_str().into()));
        assert_eq!(json["machine"], machine_name());
        let text = notice.to_text();
        for part in ["error: volume v: health good → failed", "bring it back", "user root", "fast", &machine_name()] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}') && !notice.headline().contains(['\u{1b}', '\n']), "{text}");
    }

    // proves: O4
    #[test]
    fn a_summary_says_how_many_were_left_out_and_since_when() {
        let left_out = LeftOut { info: 0, warnings: 5, errors: 2, first_unix_ms: 1_700_000_000_000 };
        let text = Notice::summary(&left_out).to_text();
        assert!(text.contains("7 more events: 2 errors, 5 warnings"), "{text}");
        assert!(text.contains(&date_and_time(1_700_000_000)), "{text}");
    }
}
