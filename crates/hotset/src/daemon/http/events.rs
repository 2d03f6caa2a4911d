//! Paths of events: the list, and the stream that also carries the status.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::{Extension, Json};
use futures_util::stream::{self, Stream, StreamExt};
use hotset_api as api;
use hotset_api::{ApiError, Status};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::IntoParams;

use super::access::Caller;
use super::control::Control;
use super::exchange::{Answer, Queried};
use crate::daemon::reporting::events::EventLog;
use crate::daemon::room::Visit;
use crate::daemon::tokens::Tokens;

/// A comment at least this often, so that whoever is between does not think that the connection is dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsAsked {
    /// Only events after the one with this id.
    after: Option<u64>,
}

#[utoipa::path(get, path = "/api/v1/events", params(EventsAsked),
    responses((status = 200, body = api::EventList), (status = "default", body = ApiError)))]
pub(super) async fn list_events(
    State(control): State<Control>,
    Queried(asked): Queried<EventsAsked>,
) -> Answer<api::EventList> {
    Ok(Json(control.events.list(asked.after)))
}

/// Server-sent events. `event: event` carries an `Event` as JSON, with its id as the message's id; `event: status` carries
/// a `Status`, at once and then every second. Begins after `after`, or with what comes next.
#[utoipa::path(get, path = "/api/v1/events/stream", params(EventsAsked),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = "default", body = ApiError)))]
pub(super) async fn stream_events(
    State(control): State<Control>,
    Extension(client): Extension<Option<Caller>>,
    visit: Option<Extension<Visit>>,
    Queried(asked): Queried<EventsAsked>,
) -> Sse<impl Stream<Item = Result<Message, Infallible>>> {
    if let Some(Extension(visit)) = visit {
        visit.follows_events();
    }
    let after = asked.after.unwrap_or_else(|| control.events.list(Some(u64::MAX)).newest_id);
    let mut newest = control.events.follow();
    newest.mark_changed();
    let mut status = control.latest.clone();
    status.mark_changed();
    let follower = Follower { log: control.events, newest, after, status, ready: VecDeque::new() };
    let messages = stream::unfold(follower, |mut follower| async move {
        let message = follower.next().await?;
        Some((Ok(message), follower))
    });
    let messages = messages.take_until(Box::pin(token_is_deleted(control.tokens, client)));
    Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Never, where none was shown.
async fn token_is_deleted(tokens: Arc<Tokens>, client: Option<Caller>) {
    match client.and_then(|client| client.token) {
        Some(identity) => tokens.is_deleted(&identity).await,
        None => std::future::pending().await,
    }
}

/// One who listens.
struct Follower {
    log: Arc<EventLog>,
    newest: watch::Receiver<u64>,
    /// The last one that was sent.
    after: u64,
    status: watch::Receiver<Option<Arc<Status>>>,
    ready: VecDeque<Message>,
}

impl Follower {
    /// `None` when the daemon ends.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            tokio::select! {
                biased;
                changed = self.newest.changed() => {
                    changed.ok()?;
                    self.take_events();
                }
                changed = self.status.changed() => {
                    changed.ok()?;
                    let status = self.status.borrow_and_update().clone();
                    self.ready.extend(status.map(|status| message("status", &*status)));
                }
            }
        }
    }

    /// A slow reader gets them in portions.
    fn take_events(&mut self) {
        let list = self.log.list(Some(self.after));
        for event in &list.events {
            self.after = event.id;
            self.ready.push_back(message("event", event).id(event.id.to_string()));
        }
        if self.after < list.newest_id && !list.events.is_empty() {
            self.newest.mark_changed();
        }
    }
}

fn message(name: &str, content: &impl Serialize) -> Message {
    let text = serde_json::to_string(content).expect("the API's types have string keys only");
    Message::default().event(name).data(text)
}
