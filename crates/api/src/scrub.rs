//! Scrubs: everything that a pool's SSDs hold is read, checked, and mended.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the scrub that runs, or the last one, has found; one that goes on after a start, with what it found before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scrub {
    pub state: ScrubState,
    /// Bytes read and compared, of about how many: both copies of what lies in the write log count.
    pub checked_bytes: u64,
    pub total_bytes: u64,
    /// Pages that could not be read or were not what was stored, by copy.
    pub bad_pages: u64,
    /// Of them, written again from the other copy.
    pub repaired_pages: u64,
    /// Of them, taken out of the cache, to be read from the backing device again.
    pub dropped_pages: u64,
    /// Dirty pages of which no good copy is left: reads of them fail until they are overwritten.
    pub lost_pages: u64,
    /// How long it took; 0 while it runs.
    pub elapsed_seconds: u64,
    /// Null while it runs.
    pub ended_unix_ms: Option<u64>,
    /// When a scrub of the pool last came to its end, whatever became of later ones; null: none is known.
    #[serde(default)]
    pub whole_ended_unix_ms: Option<u64>,
}

/// See [`Scrub`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubState {
    Running,
    Finished,
    Cancelled,
}
