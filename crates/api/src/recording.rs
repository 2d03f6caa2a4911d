//! Requests of a volume as they come, for a trace.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What was recorded of a volume since it was asked last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recorded {
    /// A line `time_us,op,offset_bytes,length_bytes` for each request, the time since the recording began, `op` R or W.
    pub requests: String,
    /// Requests that found no room since then, and are lost.
    pub dropped: u64,
    /// Nothing is recorded under this id any more: it was not asked for in time, or the volume was opened anew.
    pub ended: bool,
}

/// A recording begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recording {
    pub recording: bool,
    /// What the requests that take from it, and end it, name it by: a number of 53 bits.
    pub id: u64,
}
