//! What answers are made of.

use std::sync::Arc;

use axum::extract::{FromRef, State};
use hotset_api::Status;
use tokio::sync::watch;

use crate::daemon::advisor::Advisor;
use crate::daemon::history;
use crate::daemon::notices::Notices;
use crate::daemon::reporting::events::EventLog;
use crate::daemon::rooms::Rooms;
use crate::daemon::tokens::Tokens;

pub(super) type Manages = State<Arc<Rooms>>;

/// What answers are made of. A handle: cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) rooms: Arc<Rooms>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) notices: Notices,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) history: history::HistoryHandle,
    pub(crate) advisor: Arc<Advisor>,
    /// What the observer saw last; `None` until it has looked.
    pub(crate) latest: watch::Receiver<Option<Arc<Status>>>,
}

impl FromRef<Control> for Arc<Rooms> {
    fn from_ref(control: &Control) -> Self {
        Arc::clone(&control.rooms)
    }
}
