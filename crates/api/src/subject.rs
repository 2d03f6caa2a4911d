//! What an event, an operation or a history is about.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    Daemon,
    Pool,
    Ssd,
    Volume,
}

impl SubjectKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Pool => "pool",
            Self::Ssd => "ssd",
            Self::Volume => "volume",
        }
    }
}

/// Something with a name of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct Subject {
    pub kind: SubjectKind,
    /// Of a pool or a volume; of an SSD its UUID, 32 hexadecimal digits; empty for the daemon.
    pub name: String,
}

impl Subject {
    pub fn new(kind: SubjectKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name.as_str() {
            "" => f.write_str(self.kind.word()),
            name => write!(f, "{} {name}", self.kind.word()),
        }
    }
}
