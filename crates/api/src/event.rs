//! Events: what changed, when, and why.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Subject;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// As it should be.
    Info,
    /// Something is less safe or slower than it should be.
    Warning,
    /// Something does not work.
    Error,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A change of the state or the health of a pool, an SSD or a volume, or of the daemon itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Grows by one with each event, also over restarts.
    pub id: u64,
    pub at_unix_ms: u64,
    pub severity: Severity,
    pub subject: Subject,
    /// The pool that the subject is in; of an SSD always there.
    #[serde(default)]
    pub pool: Option<String>,
    /// What it is called where its name is none for people: the path of an SSD. Empty otherwise.
    #[serde(default)]
    pub path: String,
    /// In a few words, as `health good → degraded`.
    pub change: String,
    /// Why, and what to do. May be empty.
    pub cause: String,
    /// Who asked for it: a user of the daemon's machine, a token, the console; empty: nobody did.
    #[serde(default)]
    #[schema(required)]
    pub by: String,
}

/// `GET /api/v1/events?after=ID`: the events after that one, oldest first, a thousand at most. Without `after` the newest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    pub events: Vec<Event>,
    /// The newest event that the daemon knows; 0 if there is none.
    pub newest_id: u64,
}
