//! The `events` verb: what changed, when, and why.

use std::time::Duration;

use hotset_api::{ApiError, Event, EventList, Severity};

use super::http::Client;
use super::print::{Audience, json_line, print, write_more};
use crate::args::{EventsArguments, Output};
use crate::since::Since;
use hotset_cache::date_and_time;

/// How often a follower asks.
const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(client: &Client, output: Output, arguments: &EventsArguments) -> Result<(), ApiError> {
    let wanted = EventFilter::of(arguments);
    let mut list = first(client, arguments, wanted.is_everything())?;
    list.events.retain(|event| wanted.has(event));
    if !arguments.follow {
        let surplus = list.events.len().saturating_sub(arguments.last.unwrap_or(usize::MAX));
        list.events.drain(..surplus);
        return print(output, &list, |list| lines(&list.events));
    }
    let mut after = list.newest_id;
    loop {
        let more = match output {
            Output::Text => lines(&list.events),
            Output::Json => list.events.iter().map(json_line).collect(),
        };
        if write_more(&more)? == Audience::Left {
            return Ok(());
        }
        list = client.get(&format!("/events?after={after}"))?;
        let last = list.events.last().map_or(list.newest_id, |event| event.id);
        if list.events.is_empty() || last >= list.newest_id {
            std::thread::sleep(INTERVAL);
        }
        after = last;
        list.events.retain(|event| wanted.has(event));
    }
}

/// The newest, or all after one; all that are kept, if only some of them are wanted.
fn first(client: &Client, arguments: &EventsArguments, everything: bool) -> Result<EventList, ApiError> {
    let after = match (arguments.after, everything) {
        (None, true) => return client.get("/events"),
        (after, false) => after.unwrap_or(0),
        (Some(after), true) if arguments.follow => after,
        (Some(after), true) => return client.get(&format!("/events?after={after}")),
    };
    let mut all = EventList { events: Vec::new(), newest_id: after };
    loop {
        let after = all.events.last().map_or(after, |event: &Event| event.id);
        let list: EventList = client.get(&format!("/events?after={after}"))?;
        all.newest_id = list.newest_id;
        let was_last = list.events.is_empty();
        all.events.extend(list.events);
        if was_last || all.events.last().is_some_and(|event| event.id >= all.newest_id) {
            return Ok(all);
        }
    }
}

/// Which events are wanted.
struct EventFilter {
    since_s: Option<u64>,
    severity: Severity,
    subject: Option<String>,
    last: bool,
}

impl EventFilter {
    fn of(arguments: &EventsArguments) -> Self {
        let since_s = arguments.since.map(|Since(seconds)| seconds);
        let severity = arguments.severity.map_or(Severity::Info, Severity::from);
        Self { since_s, severity, subject: arguments.subject.clone(), last: arguments.last.is_some() }
    }

    fn is_everything(&self) -> bool {
        self.since_s.is_none() && self.severity == Severity::Info && self.subject.is_none() && !self.last
    }

    fn has(&self, event: &Event) -> bool {
        let is_of = |wanted: &String| {
            let kind = event.subject.kind.word();
            [kind, &event.subject.name, &event.path].contains(&wanted.as_str())
                || *wanted == event.subject.to_string()
                || event.pool.as_ref() == Some(wanted)
        };
        self.since_s.is_none_or(|since_s| event.at_unix_ms / 1000 >= since_s)
            && event.severity >= self.severity
            && self.subject.as_ref().is_none_or(is_of)
    }
}

fn lines(events: &[Event]) -> String {
    events.iter().map(line).collect()
}

fn line(event: &Event) -> String {
    let subject = match event.path.as_str() {
        "" => event.subject.to_string(),
        path => format!("{} {path}", event.subject.kind.word()),
    };
    let cause = if event.cause.is_empty() { String::new() } else { format!(": {}", event.cause) };
    let by = if event.by.is_empty() { String::new() } else { format!(" (by {})", event.by) };
    let time = date_and_time(event.at_unix_ms / 1000);
    format!("{:>6}  {time}  {:<7}  {subject}: {}{by}{cause}\n", event.id, event.severity.word(), event.change)
}

#[cfg(test)]
mod tests {
    use hotset_api::{Subject, SubjectKind};

    use super::*;

    fn event(kind: SubjectKind, name: &str, severity: Severity, at_s: u64) -> Event {
        Event {
            id: 1,
            at_unix_ms: at_s * 1000,
            severity,
            subject: Subject::new(kind, name),
            pool: Some("fast".to_owned()),
            path: "/dev/sdx".to_owned(),
            change: "health good -> degraded".to_owned(),
            cause: String::new(),
            by: String::new(),
        }
    }

    #[test]
    fn events_are_chosen_by_time_severity_and_subject() {
        let at_s = 1_795_694_400;
        let event = event(SubjectKind::Ssd, "0f3a", Severity::Warning, at_s);
        let has = |since_s: Option<u64>, severity, subject: Option<&str>| {
            EventFilter { since_s, severity, subject: subject.map(str::to_owned), last: false }.has(&event)
        };
        assert!(has(Some(at_s), Severity::Warning, Some("fast")));
        assert!(has(Some(0), Severity::Info, Some("/dev/sdx")) && has(None, Severity::Info, Some("ssd 0f3a")));
        assert!(!has(Some(at_s + 1), Severity::Info, None) && !has(None, Severity::Error, None));
        assert!(!has(None, Severity::Info, Some("pool")) && has(None, Severity::Info, Some("ssd")));
    }
}
