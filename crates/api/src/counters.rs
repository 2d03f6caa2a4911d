//! What the daemon counts of itself, beside pools and volumes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DaemonCounters {
    /// Lines of the log that could not be written.
    pub log_lines_dropped: u64,
    /// Events that could not be written to the state directory when they happened.
    pub events_not_kept: u64,
    /// Connections of hosts that were refused, because there were as many as file descriptors allow.
    pub connections_refused: u64,
    /// Connections of hosts that had not chosen a volume, and had to make room for others.
    pub connections_made_room: u64,
    /// Connections of hosts that are gone, or that held memory which others waited for and did nothing.
    pub connections_abandoned: u64,
    /// Times that no connection of a host could be taken, for want of a file descriptor or memory.
    pub accept_failures: u64,
    /// TLS handshakes that failed, of hosts and of administrators.
    pub tls_handshakes_refused: u64,
    /// Requests with a token that is not known, or without one where one is needed.
    pub logins_refused: u64,
    /// Notices that a web hook or a mail server took.
    #[serde(default)]
    #[schema(required)]
    pub notices_sent: u64,
    /// Times that one of them did not take a notice.
    #[serde(default)]
    #[schema(required)]
    pub notices_failed: u64,
    /// Events of which a target was told only how many there were.
    #[serde(default)]
    #[schema(required)]
    pub notices_left_out: u64,
}
