//! What the daemon looks after in itself: how its own sinks and the server of hosts do. It looks every second, and makes
//! conditions of what it finds, so that the parts that fail need not know who is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotset_api::{ConditionKind, DaemonCounters};
use hotset_serve::ServerCounters;

use super::events::EventLog;
use super::failures_told::FailuresTold;
use crate::daemon::counters::Counters;
use crate::daemon::log::LogSink;
use crate::daemon::register::ConditionRegister;
use crate::plane::Handle;

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Refused handshakes and logins are logged so often at most, however many there are.
const REFUSALS_TOLD_EVERY: Duration = Duration::from_secs(5);

/// How long it is told that connections were refused, after the last one.
const TOLD: Duration = Duration::from_secs(5 * 60);

/// See the file's summary.
pub(crate) struct SelfCheck {
    pub(crate) plane: Handle,
    pub(crate) counters: Counters,
    pub(crate) register: ConditionRegister,
    pub(crate) log: LogSink,
    pub(crate) events: Arc<EventLog>,
}

impl SelfCheck {
    /// Until the runtime ends.
    pub(crate) async fn run(self) {
        let mut before = ServerCounters::default();
        let mut failures = FailuresTold::default();
        let mut refused: Option<Instant> = None;
        let (mut told, mut told_hosts, mut told_others) = (Instant::now() - REFUSALS_TOLD_EVERY, 0, 0);
        let mut counted = DaemonCounters::default();
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            counted = self.look_at_sinks(counted);
            let Ok((server, refused_handshake)) = self.plane.server_counters().await else { return };
            tell(before, server);
            let failed = self.plane.all(|plane| async move { Ok(plane.take_failures()) }).await;
            for line in failures.lines(failed.unwrap_or_default().concat(), Instant::now()) {
                tracing::error!("{line}");
            }
            let logins = self.counters.now();
            if told.elapsed() >= REFUSALS_TOLD_EVERY {
                let of_hosts = server.handshakes_refused - told_hosts;
                let all = logins.tls_handshakes_refused + logins.logins_refused;
                if of_hosts > 0 {
                    tracing::warn!("{of_hosts} TLS handshakes of hosts were refused; the last: {refused_handshake}");
                }
                let of_others = (all - server.handshakes_refused.min(all)).saturating_sub(told_others);
                if of_others > 0 {
                    tracing::warn!("{of_others} logins were refused; the last: {}", self.counters.last_refused());
                }
                (told_hosts, told_others) = (server.handshakes_refused, told_others + of_others);
                if of_hosts + of_others > 0 {
                    told = Instant::now();
                }
            }
            if server.refused + server.accept_failures > before.refused + before.accept_failures {
                refused = Some(Instant::now());
                let reason = "connections of hosts were refused: there are as many as file descriptors allow";
                self.register.raise(ConditionKind::ConnectionsRefused, reason);
            } else if refused.is_some_and(|last| last.elapsed() >= TOLD) {
                refused = None;
                self.register.clear(ConditionKind::ConnectionsRefused);
            }
            self.counters.set_server(server);
            before = server;
        }
    }

    /// They cannot raise anything themselves: what is raised is logged, and is an event.
    fn look_at_sinks(&self, before: DaemonCounters) -> DaemonCounters {
        let now = self.counters.now();
        for (kind, what, trouble, more) in [
            (
                ConditionKind::Log,
                "lines of the log are dropped: standard error",
                self.log.trouble(),
                now.log_lines_dropped > before.log_lines_dropped,
            ),
            (
                ConditionKind::Events,
                "events are not kept over a restart",
                self.events.trouble(),
                now.events_not_kept > before.events_not_kept,
            ),
        ] {
            match trouble {
                Some(why) if more => self.register.raise(kind, format!("{what}: {why}")),
                Some(_) => {}
                None => self.register.clear(kind),
            }
        }
        now
    }
}

/// At most once a second, however many there were.
fn tell(before: ServerCounters, now: ServerCounters) {
    for (more, what) in [
        (
            now.refused - before.refused,
            "connections of hosts were refused: there are as many as file descriptors allow; raise the limit \
             (LimitNOFILE= of the service)",
        ),
        (now.made_room - before.made_room, "connections that had not chosen a volume had to make room for others"),
        (
            now.abandoned - before.abandoned,
            "connections of hosts were ended: their host is gone, or kept memory from others and did nothing",
        ),
        (
            now.accept_failures - before.accept_failures,
            "times no connection of a host could be taken, for want of a file descriptor or memory",
        ),
    ] {
        if more > 0 {
            tracing::warn!("{more} {what}");
        }
    }
}
