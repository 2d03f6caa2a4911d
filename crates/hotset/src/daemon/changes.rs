//! What administrators, and the daemon by itself, changed: told by whoever changes it, and taken for the events every second.

use std::sync::{Arc, Mutex, PoisonError};

use hotset_api::{Severity, Subject};

use super::who::Who;

/// Changes that wait to become events: more than can be asked for in a second.
const WAITING_MAX: usize = 10_000;

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
}

/// A handle: cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Arc<Mutex<Vec<Change>>>);

impl Changes {
    /// Something was changed, by who asks now.
    pub(crate) fn note(&self, subject: Subject, change: impl Into<String>) {
        let (severity, cause, by) = (Severity::Info, String::new(), Who::asks());
        self.add(Change { severity, subject, change: change.into(), cause, by });
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
