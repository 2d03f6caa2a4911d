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
    /// It was cancelled on request, before it was done.
    Cancelled,
    /// This version or this device cannot do it.
    Unsupported,
    /// A device failed.
    Device,
    /// Bytes on an SSD or in the state directory break their format.
    Corrupt,
    /// There is no room for it.
    Full,
    /// The daemon is being stopped, or is not there.
    Unavailable,
    /// A defect of the daemon.
    Internal,
}

/// A failure: its kind, and one message for people: what failed, on what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiError {
    pub kind: ApiErrorKind,
    pub message: String,
}

impl ApiError {
    pub fn new(kind: ApiErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}
