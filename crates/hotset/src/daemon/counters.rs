//! What the daemon counts of itself, beside pools and volumes. Whoever drops or refuses something counts it here; the
//! status and the metrics show it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotset_api::DaemonCounters;
use hotset_serve::ServerCounters;

/// A handle: cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    log_lines_dropped: AtomicU64,
    events_not_kept: AtomicU64,
    tls_handshakes_refused: AtomicU64,
    logins_refused: AtomicU64,
    notices_sent: AtomicU64,
    notices_failed: AtomicU64,
    notices_left_out: AtomicU64,
    /// Who was refused last, and why.
    refused: Mutex<String>,
    server: Mutex<ServerCounters>,
}

impl Counters {
    pub(crate) fn log_lines_dropped(&self, more: u64) {
        self.counts.log_lines_dropped.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn events_not_kept(&self, more: u64) {
        self.counts.events_not_kept.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn notice_sent(&self) {
        self.counts.notices_sent.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn notice_failed(&self) {
        self.counts.notices_failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn notice_left_out(&self) {
        self.counts.notices_left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// An administrator's TLS handshake failed.
    pub(crate) fn tls_handshake_refused(&self, who: &str, why: &str) {
        self.counts.tls_handshakes_refused.fetch_add(1, Ordering::Relaxed);
        *self.refused() = format!("TLS with {who}: {why}");
    }

    /// Somebody is not known here.
    pub(crate) fn login_refused(&self, who: &str, why: &str) {
        self.counts.logins_refused.fetch_add(1, Ordering::Relaxed);
        *self.refused() = format!("request of {who}: {why}");
    }

    /// Who was refused last, and why.
    pub(crate) fn last_refused(&self) -> String {
        self.refused().clone()
    }

    fn refused(&self) -> MutexGuard<'_, String> {
        self.counts.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the server of hosts counted up to now.
    pub(crate) fn set_server(&self, server: ServerCounters) {
        *self.server() = server;
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn server(&self) -> MutexGuard<'_, ServerCounters> {
        self.counts.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> DaemonCounters {
        let server = *self.server();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DaemonCounters {
            log_lines_dropped: of(&self.counts.log_lines_dropped),
            events_not_kept: of(&self.counts.events_not_kept),
            connections_refused: server.refused,
            connections_made_room: server.made_room,
            connections_abandoned: server.abandoned,
            accept_failures: server.accept_failures,
            tls_handshakes_refused: of(&self.counts.tls_handshakes_refused) + server.handshakes_refused,
            logins_refused: of(&self.counts.logins_refused),
            notices_sent: of(&self.counts.notices_sent),
            notices_failed: of(&self.counts.notices_failed),
            notices_left_out: of(&self.counts.notices_left_out),
        }
    }
}
