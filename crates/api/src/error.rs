//! What the API answers when something did not work.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApiErrorKind {
    /// The request can never work as it is.
    Invalid,
    /// There is no such pool, volume, SSD or path.
    NotFound,
    /// It exists already, is in use, or something has to be done first; the message says what.
    Refused,
    /// Hosts use it, and would get errors; the message names them. `force` does it all the same.
    InUse,
    /// The request has no token, or not one that is known here.
    Unauthenticated,
    /// The role of the request's token does not allow it.
    Forbidden,
    /// It was cancelled on request, before it was done.
    Cancelled,
    /// This version or this device cannot do it.
    Unsupported,
    /// A device failed.
    Device,
    /// Bytes on an SSD or in the state directory break their format.
    Corrupt,
    /// Another machine uses the pool, or did and was not stopped cleanly. `force` helps only against the latter.
    OtherMachine,
    /// There is no room for it.
    Full,
    /// The daemon is being stopped, or is not there.
    Unavailable,
    /// A defect of the daemon.
    Internal,
}

/// A failure: a code for programs, one message for people that says what failed and on what, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiError {
    #[serde(rename = "code")]
    pub kind: ApiErrorKind,
    pub message: String,
    /// What to do; empty where the message says it.
    #[serde(default)]
    pub hint: String,
}

impl ApiError {
    pub fn new(kind: ApiErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: String::new() }
    }

    /// The same error, with what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.hint.as_str() {
            "" => f.write_str(&self.message),
            hint => write!(f, "{}; {hint}", self.message),
        }
    }
}

impl std::error::Error for ApiError {}
