//! Operations: what takes long and goes on whether or not anybody waits for it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ApiError, FlushPurpose, Subject};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OperationKind {
    /// Flush a volume's dirty data, then take its cache away.
    DisableCache,
    /// Flush a volume's dirty data, then stop serving it.
    DeleteVolume,
    /// Flush a pool's dirty data, then delete it.
    DeletePool,
    /// Flush a pool's dirty data, then make it anew in place with another cache block or type.
    ConvertPool,
    /// Make a pool; sparse image files among its SSDs are written in full first.
    CreatePool,
    /// Add SSDs to a pool; sparse image files among them are written in full first.
    AddSsds,
    /// The same of spares.
    AddSpares,
    /// Read and check everything that a pool's SSDs hold, and mend what is bad.
    Scrub,
    /// Empty SSDs of a pool and let them go.
    RemoveSsds,
    /// Make copies of dirty data anew that an SSD took with it; begins by itself.
    Rebuild,
    /// Write what is dirty of a volume to its backing device, durably, and go on caching.
    FlushVolume,
    /// The same of all volumes of a pool.
    FlushPool,
}

impl OperationKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::DisableCache => "disable-cache",
            Self::DeleteVolume => "delete-volume",
            Self::DeletePool => "delete-pool",
            Self::ConvertPool => "convert-pool",
            Self::CreatePool => "create-pool",
            Self::AddSsds => "add-ssds",
            Self::AddSpares => "add-spares",
            Self::Scrub => "scrub",
            Self::RemoveSsds => "remove-ssds",
            Self::Rebuild => "rebuild",
            Self::FlushVolume => "flush-volume",
            Self::FlushPool => "flush-pool",
        }
    }
}

impl From<FlushPurpose> for OperationKind {
    fn from(purpose: FlushPurpose) -> Self {
        match purpose {
            FlushPurpose::DisableCache => Self::DisableCache,
            FlushPurpose::DeleteVolume => Self::DeleteVolume,
            FlushPurpose::DeletePool => Self::DeletePool,
            FlushPurpose::ConvertPool => Self::ConvertPool,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OperationState {
    Running,
    Done,
    Failed,
    Cancelled,
}

impl OperationState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// `GET /api/v1/operations/{id}`: an operation that is under way, or that ended not long ago.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// Counts from 1 since the daemon started.
    pub id: u64,
    pub kind: OperationKind,
    pub subject: Subject,
    pub state: OperationState,
    /// Whether `DELETE` ends it before it is done.
    pub cancellable: bool,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// On average since it began.
    pub rate_bytes_per_second: u64,
    pub elapsed_seconds: u64,
    /// At the pace so far; null until there is a pace, and when it has ended.
    pub eta_seconds: Option<u64>,
    pub began_unix_ms: u64,
    pub ended_unix_ms: Option<u64>,
    /// Why it failed, or was cancelled.
    pub error: Option<ApiError>,
    /// Who asked for it; empty: the daemon began it by itself.
    #[serde(default)]
    #[schema(required)]
    pub asked_by: String,
    /// Why it began, where nobody asked for it: as a scrub that goes on after a start; null: nothing is told.
    #[serde(default)]
    pub began_because: Option<String>,
    /// What keeps it from going on; null: nothing.
    #[serde(default)]
    pub waits_for: Option<String>,
}

/// `GET /api/v1/operations`: those that are under way, then the last ones that ended, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperationList {
    pub operations: Vec<Operation>,
}

/// `POST /api/v1/operations`: begins a removal, a scrub or a flush and answers at once, where a `DELETE` of the volume, its cache, the
/// pool or its SSDs is answered when all is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationStart {
    /// `disable-cache`, `delete-volume`, `delete-pool`, `remove-ssds`, `scrub`, `flush-volume` or `flush-pool`.
    pub kind: OperationKind,
    /// The volume or the pool.
    pub name: String,
    /// Of `remove-ssds`: paths or UUIDs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssds: Vec<String>,
    /// Of removals, as in [`Removal`](crate::Removal).
    #[serde(default)]
    pub force: bool,
    #[serde(default)]
    pub lose_data: bool,
    /// Of flushes: from the beginning on nothing new stays dirty, until a `DELETE` of the volume's or pool's `hold`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hold: bool,
}

impl OperationStart {
    /// Of this volume or pool as it is: nothing forced, nothing held, no SSDs named.
    pub fn of(kind: OperationKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), ssds: Vec::new(), force: false, lose_data: false, hold: false }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// `DELETE /api/v1/operations/{id}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperationCancelled {
    /// False if it had ended before.
    pub changed: bool,
    pub operation: Operation,
}
