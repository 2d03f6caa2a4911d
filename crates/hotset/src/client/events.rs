//! The `events` verb: what changed, when, and why.

use std::time::Duration;

use hotset_api::{ApiError, Event, EventList};

use super::http::Client;
use super::print::{Reader, json_line, print, write_more};
use crate::args::{EventsArguments, Output};
use hotset_cache::date_and_time;

/// How often a follower asks.
const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(client: &Client, output: Output, arguments: &EventsArguments) -> Result<(), ApiError> {
    let path = arguments.after.map_or_else(|| "/events".to_owned(), |after| format!("/events?after={after}"));
    let list: EventList = client.get(&path)?;
    if !arguments.follow {
        return print(output, &list, |list| lines(&list.events));
    }
    let mut list = list;
    loop {
        let more = match output {
            Output::Text => lines(&list.events),
            Output::Json => list.events.iter().map(json_line).collect(),
        };
        if write_more(&more)? == Reader::Left {
            return Ok(());
        }
        let after = list.events.last().map_or(list.newest_id, |event| event.id);
        if list.events.is_empty() || after >= list.newest_id {
            std::thread::sleep(INTERVAL);
        }
        list = client.get(&format!("/events?after={after}"))?;
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
    let time = date_and_time(event.at_unix_ms / 1000);
    format!("{:>6}  {time}  {:<7}  {subject}: {}{cause}\n", event.id, event.severity.word(), event.change)
}
