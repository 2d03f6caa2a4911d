//! The limits within which volumes are served, whatever the protocol.

use std::time::Duration;

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Connections at once, as far as file descriptors allow. One more takes the place of one that has not chosen an export
    /// yet, or is closed at once.
    pub connections_max: usize,
    /// What the payloads of all connections may take together, beside 128 KiB of each. At least the longest request.
    pub memory_bytes: usize,
    /// Who may connect to unix sockets that the server makes: their mode, and their group, if not the process's own.
    pub socket_mode: u32,
    pub socket_group: Option<u32>,
    /// What a connection may have in the kernel on its way, in each direction.
    pub socket_buffer_bytes: usize,
    /// How long a client may take until it has chosen its export, TLS included.
    pub handshake_timeout: Duration,
    /// How much longer a client may wait for an export that is being opened.
    pub export_timeout: Duration,
    /// How long a request may make no progress until it is answered with an error (`inflight/progress.rs`). It is looked after eight
    /// times as often.
    pub request_timeout: Duration,
    /// How long a connection that its client ends may take to finish what is in flight.
    pub drain_timeout: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            connections_max: usize::MAX,
            memory_bytes: 512 << 20,
            socket_mode: 0o600,
            socket_group: None,
            socket_buffer_bytes: 2 << 20,
            handshake_timeout: Duration::from_secs(10),
            export_timeout: Duration::from_secs(600),
            request_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
        }
    }
}
