//! What administrators, and the daemon by itself, changed: told by whoever changes it, and taken for the events every second.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hotset_api::{Severity, Subject};

use super::who::Who;

/// Changes that wait to become events: more than can be asked for in a second.
const WAITING_MAX: usize = 10_000;

/// A change that a look at the status shows by itself, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    New,
    Removed,
    Renamed { from: String },
    CacheEnabled { pool: String },
    CacheDisabled,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("new"),
            Self::Removed => f.write_str("removed"),
            Self::Renamed { from } => write!(f, "renamed, it was {from}"),
            Self::CacheEnabled { pool } => write!(f, "cache enabled in pool {pool}"),
            Self::CacheDisabled => f.write_str("cache disabled"),
        }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) severity: Severity,
    pub(crate) subject: Subject,
    /// In a few words.
    pub(crate) change: String,
    /// Why, or what came of it; may be empty.
    pub(crate) cause: String,
    pub(crate) by: Who,
    /// As what the status shows it, if it does.
    pub(crate) shown: Option<Shown>,
}

/// A handle: cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Arc<Mutex<Vec<Change>>>);

impl Changes {
    /// Something was changed, by who asks now.
    pub(crate) fn note(&self, subject: Subject, change: impl Into<String>) {
        self.add_asked(subject, change.into(), None);
    }

    /// The same of what the status shows, too.
    pub(crate) fn note_shown(&self, subject: Subject, shown: Shown) {
        self.add_asked(subject, shown.to_string(), Some(shown));
    }

    fn add_asked(&self, subject: Subject, change: String, shown: Option<Shown>) {
        let (severity, cause, by) = (Severity::Info, String::new(), Who::asks());
        self.add(Change { severity, subject, change, cause, by, shown });
    }

    pub(crate) fn add(&self, change: Change) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < WAITING_MAX {
            waiting.push(change);
        }
    }

    /// Those since this was asked last, oldest first.
    pub(crate) fn take(&self) -> Vec<Change> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
