//! The register of conditions: everything that is not as it should be, since when, how often, and what to do about it.
//!
//! Two kinds of things come together here. What the pools and volumes are is *seen*: it is taken from each status, and the
//! register remembers only since when it is so. Everything else is *raised* by the part of the daemon that failed, and
//! cleared by it when it works again. From here it reaches the status, its exit code, events, metrics and the console.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotset_api::{Condition, ConditionKind, Health, Status, Subject, SubjectKind, Volume};
use serde::{Deserialize, Serialize};

use crate::clock::unix_ms;
use crate::size::grouped;
use hotset_cache::date_and_time;

/// How long errors that hosts got are told after the last of them.
pub(crate) const HOST_ERRORS_TOLD_MS: u64 = 60 * 60 * 1000;

/// What a condition is known by.
type Key = (ConditionKind, Subject);

/// A handle: cloning it is cheap.
#[derive(Clone, Default)]
pub(crate) struct ConditionRegister(Arc<Mutex<RaisedConditions>>);

#[derive(Default)]
struct RaisedConditions {
    raised: BTreeMap<Key, Raised>,
    /// Of what was seen last: since when.
    seen: BTreeMap<Key, u64>,
    /// The errors of hosts are not as they were written last.
    unsaved: bool,
}

#[derive(Clone, Debug)]
struct Raised {
    reason: String,
    since_unix_ms: u64,
    latest_unix_ms: u64,
    count: u64,
}

/// What a status shows of a pool, an SSD or a volume that is not good.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) kind: ConditionKind,
    pub(crate) subject: Subject,
    pub(crate) path: String,
    pub(crate) pool: Option<String>,
    pub(crate) health: Health,
    pub(crate) reason: String,
    pub(crate) action: String,
}

/// Errors that hosts got, as they are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostErrors {
    pub(crate) volume: String,
    pub(crate) first_unix_ms: u64,
    pub(crate) latest_unix_ms: u64,
    pub(crate) count: u64,
}

impl ConditionRegister {
    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn known(&self) -> MutexGuard<'_, RaisedConditions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something of the daemon itself fails. `reason`: what, and on what; it is logged when it begins.
    pub(crate) fn raise(&self, kind: ConditionKind, reason: impl Into<String>) {
        self.raise_for(kind, daemon(), reason);
    }

    /// Something of a pool or a volume fails.
    pub(crate) fn raise_for(&self, kind: ConditionKind, subject: Subject, reason: impl Into<String>) {
        let (reason, now) = (reason.into(), unix_ms());
        let mut known = self.known();
        let before = known.raised.get(&(kind, subject.clone()));
        let (since_unix_ms, count) = before.map_or((now, 0), |raised| (raised.since_unix_ms, raised.count));
        let raised = Raised { reason: reason.clone(), since_unix_ms, latest_unix_ms: now, count: count + 1 };
        known.raised.insert((kind, subject.clone()), raised);
        // The log may raise a condition itself.
        drop(known);
        if count == 0 {
            tracing::warn!("{subject}: {reason}");
        }
    }

    /// It works again.
    pub(crate) fn clear(&self, kind: ConditionKind) {
        self.clear_for(kind, daemon());
    }

    /// That of a pool or a volume works again.
    pub(crate) fn clear_for(&self, kind: ConditionKind, subject: Subject) {
        let mut known = self.known();
        let Some(raised) = known.raised.remove(&(kind, subject.clone())) else { return };
        known.unsaved |= kind == ConditionKind::HostErrors;
        drop(known);
        tracing::info!("{subject}: over: {}", raised.reason);
    }

    /// Raises or clears by how something ended.
    pub(crate) fn follow<T, E: Display>(&self, kind: ConditionKind, outcome: &Result<T, E>) {
        self.follow_for(kind, daemon(), outcome);
    }

    pub(crate) fn follow_for<T, E: Display>(&self, kind: ConditionKind, subject: Subject, outcome: &Result<T, E>) {
        match outcome {
            Ok(_) => self.clear_for(kind, subject),
            Err(error) => self.raise_for(kind, subject, error.to_string()),
        }
    }

    /// Whom conditions of a kind concern.
    pub(crate) fn subjects_of(&self, kind: ConditionKind) -> Vec<Subject> {
        self.known().raised.keys().filter(|(of, _)| *of == kind).map(|(_, subject)| subject.clone()).collect()
    }

    /// A volume answered hosts with so many more errors.
    pub(crate) fn count_host_errors(&self, volume: &str, more: u64) {
        let (key, now) = (host_errors_of(volume), unix_ms());
        let mut known = self.known();
        let before = known.raised.get(&key).cloned();
        let (first, count) = before.as_ref().map_or((now, 0), |raised| (raised.since_unix_ms, raised.count));
        let errors =
            HostErrors { volume: volume.to_owned(), first_unix_ms: first, latest_unix_ms: now, count: count + more };
        known.raised.insert(key, Raised::of(&errors));
        known.unsaved = true;
        drop(known);
        if count == 0 {
            tracing::error!("volume {volume}: {more} requests of hosts were answered with errors");
        }
    }

    /// Takes in what earlier runs counted.
    pub(crate) fn remember_host_errors(&self, recorded: &[HostErrors]) {
        let mut known = self.known();
        for errors in recorded {
            known.raised.insert(host_errors_of(&errors.volume), Raised::of(errors));
        }
    }

    /// Forgets errors of hosts that were long ago.
    pub(crate) fn forget_old_host_errors(&self, now_unix_ms: u64) {
        let mut known = self.known();
        let before = known.raised.len();
        known.raised.retain(|(kind, _), raised| {
            *kind != ConditionKind::HostErrors || now_unix_ms.abs_diff(raised.latest_unix_ms) < HOST_ERRORS_TOLD_MS
        });
        known.unsaved |= known.raised.len() != before;
    }

    /// What could not be done for a pool or a volume is over when that is gone; and a flush that was to take a volume's cache
    /// away, when the volume has none.
    pub(crate) fn forget_gone(&self, status: &Status) {
        self.known().raised.retain(|(kind, subject), _| match kind {
            ConditionKind::Growth
            | ConditionKind::Conversion
            | ConditionKind::Spare
            | ConditionKind::SpareUnusable
            | ConditionKind::Flush
            | ConditionKind::LocalDevice
            | ConditionKind::SecondWriter
            | ConditionKind::Removal => {
                let may_still_be = |volume: &Volume| *kind != ConditionKind::Flush || volume.pool.is_some();
                let mut volumes = status.volumes.iter().filter(|volume| volume.name == subject.name);
                let is_volume = volumes.any(may_still_be);
                let is_pool = status.pools.iter().any(|pool| pool.name == subject.name);
                match subject.kind {
                    SubjectKind::Volume => is_volume,
                    SubjectKind::Pool => is_pool,
                    SubjectKind::Daemon | SubjectKind::Ssd => true,
                }
            }
            ConditionKind::Pool
            | ConditionKind::Ssd
            | ConditionKind::Volume
            | ConditionKind::HostErrors
            | ConditionKind::StateDirectory
            | ConditionKind::RecordUnreadable
            | ConditionKind::RecordsSetAside
            | ConditionKind::RecordOutdated
            | ConditionKind::Events
            | ConditionKind::Statistics
            | ConditionKind::StatisticsSetAside
            | ConditionKind::SsdWrites
            | ConditionKind::Failures
            | ConditionKind::Guard
            | ConditionKind::EventHook
            | ConditionKind::WebHook
            | ConditionKind::Mail
            | ConditionKind::Log
            | ConditionKind::Certificate
            | ConditionKind::ConnectionsRefused
            | ConditionKind::SocketNotServed
            | ConditionKind::EndNotServed
            | ConditionKind::OtherBacking
            | ConditionKind::Backings
            | ConditionKind::DaemonId
            | ConditionKind::PoolNotOpened
            | ConditionKind::Reload => true,
        });
    }

    /// The errors of hosts go with a volume that has another name now; or, without one, they go.
    pub(crate) fn rename_volume(&self, from: &str, to: Option<&str>) {
        let mut known = self.known();
        let Some(raised) = known.raised.remove(&host_errors_of(from)) else { return };
        known.unsaved = true;
        if let Some(to) = to {
            known.raised.insert(host_errors_of(to), raised);
        }
    }

    /// The errors of hosts, if they are not as this told last.
    pub(crate) fn unsaved_host_errors(&self) -> Option<Vec<HostErrors>> {
        let mut known = self.known();
        std::mem::take(&mut known.unsaved).then(|| known.host_errors())
    }

    /// They could not be written.
    pub(crate) fn host_errors_are_unsaved(&self) {
        self.known().unsaved = true;
    }

    /// All conditions: what was raised, and what is seen now. Worst first.
    pub(crate) fn all(&self, seen: Vec<Seen>) -> Vec<Condition> {
        let now = unix_ms();
        let mut known = self.known();
        let mut all: Vec<Condition> = known.raised.iter().map(|(key, raised)| raised.condition(key)).collect();
        let mut still = BTreeMap::new();
        for Seen { kind, subject, path, pool, health, reason, action } in seen {
            let since_unix_ms = known.seen.get(&(kind, subject.clone())).copied().unwrap_or(now);
            still.insert((kind, subject.clone()), since_unix_ms);
            let latest_unix_ms = now;
            all.push(Condition {
                kind,
                subject,
                path,
                pool,
                health,
                reason,
                action,
                since_unix_ms,
                latest_unix_ms,
                count: 1,
            });
        }
        known.seen = still;
        all.sort_by(|a, b| b.health.cmp(&a.health).then_with(|| (a.kind, &a.subject).cmp(&(b.kind, &b.subject))));
        all
    }

    /// What was raised of one subject.
    pub(crate) fn raised_of(&self, subject: &Subject) -> Vec<Condition> {
        let known = self.known();
        let of_it = known.raised.iter().filter(|((_, of), _)| of == subject);
        of_it.map(|(key, raised)| raised.condition(key)).collect()
    }
}

impl RaisedConditions {
    fn host_errors(&self) -> Vec<HostErrors> {
        let of_hosts = self.raised.iter().filter(|((kind, _), _)| *kind == ConditionKind::HostErrors);
        of_hosts
            .map(|((_, subject), raised)| HostErrors {
                volume: subject.name.clone(),
                first_unix_ms: raised.since_unix_ms,
                latest_unix_ms: raised.latest_unix_ms,
                count: raised.count,
            })
            .collect()
    }
}

impl Raised {
    fn of(errors: &HostErrors) -> Self {
        let HostErrors { first_unix_ms, latest_unix_ms, count, .. } = *errors;
        let time = |unix_ms: u64| date_and_time(unix_ms / 1000);
        let reason = match count {
            1 => format!("a request of a host was answered with an error, at {}", time(latest_unix_ms)),
            _ => format!(
                "{} requests of hosts were answered with errors, the first at {}, the last at {}",
                grouped(count),
                time(first_unix_ms),
                time(latest_unix_ms)
            ),
        };
        Self { reason, since_unix_ms: first_unix_ms, latest_unix_ms, count }
    }

    fn condition(&self, (kind, subject): &Key) -> Condition {
        Condition {
            kind: *kind,
            subject: subject.clone(),
            path: String::new(),
            pool: None,
            health: Health::Degraded,
            reason: self.reason.clone(),
            action: action(*kind, subject),
            since_unix_ms: self.since_unix_ms,
            latest_unix_ms: self.latest_unix_ms,
            count: self.count,
        }
    }
}

/// Whether conditions of a kind are raised by the part of the daemon that failed; else they are seen in the status. What is raised of a
/// pool or a volume is part of its reason.
pub(crate) fn is_raised(kind: ConditionKind) -> bool {
    match kind {
        ConditionKind::Pool
        | ConditionKind::Ssd
        | ConditionKind::Volume
        | ConditionKind::EndNotServed
        | ConditionKind::PoolNotOpened
        | ConditionKind::RecordUnreadable => false,
        ConditionKind::HostErrors
        | ConditionKind::StateDirectory
        | ConditionKind::RecordsSetAside
        | ConditionKind::RecordOutdated
        | ConditionKind::Events
        | ConditionKind::Statistics
        | ConditionKind::StatisticsSetAside
        | ConditionKind::SsdWrites
        | ConditionKind::Failures
        | ConditionKind::Guard
        | ConditionKind::EventHook
        | ConditionKind::WebHook
        | ConditionKind::Mail
        | ConditionKind::Log
        | ConditionKind::Certificate
        | ConditionKind::ConnectionsRefused
        | ConditionKind::SocketNotServed
        | ConditionKind::OtherBacking
        | ConditionKind::SecondWriter
        | ConditionKind::Backings
        | ConditionKind::DaemonId
        | ConditionKind::Growth
        | ConditionKind::Conversion
        | ConditionKind::Spare
        | ConditionKind::SpareUnusable
        | ConditionKind::Flush
        | ConditionKind::Removal
        | ConditionKind::LocalDevice
        | ConditionKind::Reload => true,
    }
}

fn daemon() -> Subject {
    Subject::new(SubjectKind::Daemon, "")
}

fn host_errors_of(volume: &str) -> Key {
    (ConditionKind::HostErrors, Subject::new(SubjectKind::Volume, volume))
}

/// What to do about what was raised.
fn action(kind: ConditionKind, subject: &Subject) -> String {
    let fixed = match kind {
        ConditionKind::HostErrors => {
            let name = &subject.name;
            return format!(
                "see to what `hotset volume show {name}` and the log say of it; check what hosts wrote then; this is told until an \
                 hour has passed without another one"
            );
        }
        ConditionKind::Pool
        | ConditionKind::Ssd
        | ConditionKind::Volume
        | ConditionKind::EndNotServed
        | ConditionKind::PoolNotOpened => "",
        ConditionKind::StateDirectory => "make room there, or make it writable: it is tried again every few seconds",
        ConditionKind::RecordUnreadable => "bring the file back as it was: records are read again every 5 s",
        ConditionKind::RecordsSetAside => {
            "move each of these files away, or delete it, if nobody needs it; one that can be mended is put back under its name \
             without `.broken` while the daemon is stopped"
        }
        ConditionKind::RecordOutdated => {
            "make room in the state directory, or make it writable: it is tried again every few seconds; until then do not \
             restart the daemon"
        }
        ConditionKind::Events => "make room in the state directory, or make it writable: it is tried again by itself",
        ConditionKind::Statistics => {
            "make room in the state directory, or make it writable: it is tried again every 30 s"
        }
        ConditionKind::StatisticsSetAside => "move the file away, or delete it, if nobody needs it",
        ConditionKind::SsdWrites => {
            "make room in the state directory, or make it writable: it is tried again every minute"
        }
        ConditionKind::Failures => {
            "make room in the state directory, or make it writable: it is tried again every few seconds"
        }
        ConditionKind::Guard => {
            "make the file writable, or choose another one with `udev_rules`: it is tried again every few seconds"
        }
        ConditionKind::EventHook => "mend the program that `event_hook` names: it is run again every minute",
        ConditionKind::WebHook | ConditionKind::Mail => {
            "see to what the reason says, and try with `hotset notify test`; it is tried again every few minutes, and told then \
             what was left out"
        }
        ConditionKind::Certificate => {
            "put a good certificate there, then `systemctl reload hotset`, or send the daemon a HUP: it needs no restart"
        }
        ConditionKind::ConnectionsRefused => {
            "raise the limit of file descriptors (LimitNOFILE= of the service, `ulimit -n`), or let hosts share connections"
        }
        ConditionKind::SocketNotServed => {
            "name the address in `api` or `nbd` of the configuration, spelled as it is there, or take it out of the socket unit \
             (`systemctl edit hotset.socket`); then `systemctl stop hotset.service hotset.socket` and start both"
        }
        ConditionKind::OtherBacking => {
            let name = &subject.name;
            return format!(
                "if it is the right one, `hotset volume accept-backing {name}`; if not, stop its hosts, put the right one there and \
                 restart the daemon"
            );
        }
        ConditionKind::SecondWriter => {
            let name = &subject.name;
            let then = match subject.kind {
                SubjectKind::Pool => format!("`hotset pool scrub {name}` finds what it damaged"),
                SubjectKind::Volume | SubjectKind::Daemon | SubjectKind::Ssd => format!(
                    "check what hosts have, and give it an empty cache with `hotset volume disable-cache {name}` and `hotset \
                     volume enable-cache {name}`, if it has one"
                ),
            };
            return format!(
                "end that at once (`losetup -d`, `umount`, `swapoff`): what it writes, hosts do not see, and each undoes what the \
                 other writes; if it wrote anything, {then}"
            );
        }
        ConditionKind::Backings => {
            "make room in the state directory, or make it writable: it is tried again every few seconds"
        }
        ConditionKind::DaemonId => {
            "make room in the state directory, make it writable, or bring `daemon-id` back as it was; if there is none, move away \
             what is there: it is tried again every few seconds"
        }
        ConditionKind::Growth => "do what the reason says: it is tried again every 5 s",
        ConditionKind::Conversion => {
            "mend what the reason says: it is tried again every 5 s; nothing is lost meanwhile"
        }
        ConditionKind::Spare => {
            let name = &subject.name;
            return format!("mend what the reason says, then `hotset pool add-spare {name} --ssd PATH`");
        }
        ConditionKind::SpareUnusable => {
            let name = &subject.name;
            return format!(
                "see to the device; if it does not come back as it was, `hotset pool remove-spare {name} --ssd PATH`, then `hotset \
                 pool add-spare {name} --ssd PATH` with one that can be read"
            );
        }
        ConditionKind::Flush => "mend what the reason says, then ask for the same again",
        ConditionKind::Removal => {
            let name = &subject.name;
            return format!("mend what the reason says, then `hotset pool remove-ssd {name} --ssd PATH` again");
        }
        ConditionKind::LocalDevice => {
            "do what the reason says: it is tried again every second; hosts reach the volume over NBD meanwhile"
        }
        ConditionKind::Reload => {
            "mend what the reason says, then `systemctl reload hotset`, or send the daemon a HUP, again"
        }
        ConditionKind::Log => "see to what standard error is connected to: it is full, gone, or read too slowly",
    };
    fixed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: F12
    #[test]
    fn what_is_raised_counts_from_its_first_time_until_it_is_cleared() {
        let register = ConditionRegister::default();
        assert_eq!(register.all(Vec::new()), []);
        register.follow(ConditionKind::Statistics, &Err::<(), _>("disk full"));
        let since = register.all(Vec::new())[0].since_unix_ms;
        register.raise(ConditionKind::Statistics, "disk full still");
        let all = register.all(Vec::new());
        assert_eq!((all.len(), all[0].count, all[0].reason.as_str()), (1, 2, "disk full still"));
        assert_eq!((all[0].since_unix_ms, all[0].health), (since, Health::Degraded));
        register.follow(ConditionKind::Statistics, &Ok::<_, String>(()));
        assert_eq!(register.all(Vec::new()), []);
    }

    // proves: F12
    #[test]
    fn errors_of_hosts_are_told_for_an_hour_also_over_a_restart_and_follow_a_renamed_volume() {
        let register = ConditionRegister::default();
        register.count_host_errors("v", 3);
        register.count_host_errors("v", 2);
        let recorded = register.unsaved_host_errors().expect("they are new");
        assert_eq!(register.unsaved_host_errors(), None);
        let again = ConditionRegister::default();
        again.remember_host_errors(&recorded);
        let volume = Subject::new(SubjectKind::Volume, "v");
        assert_eq!(again.raised_of(&volume), register.raised_of(&volume));
        assert_eq!(again.raised_of(&volume)[0].count, 5);
        again.rename_volume("v", Some("w"));
        let latest = recorded[0].latest_unix_ms;
        again.forget_old_host_errors(latest + HOST_ERRORS_TOLD_MS - 1);
        assert_eq!(again.all(Vec::new())[0].subject.name, "w");
        again.forget_old_host_errors(latest + HOST_ERRORS_TOLD_MS);
        assert_eq!(again.all(Vec::new()), []);
        assert_eq!(again.unsaved_host_errors(), Some(Vec::new()));
    }

    #[test]
    fn what_is_seen_keeps_its_beginning_as_long_as_it_is_seen_and_the_worst_comes_first() {
        let register = ConditionRegister::default();
        let pool = Seen {
            kind: ConditionKind::Pool,
            subject: Subject::new(SubjectKind::Pool, "p"),
            path: String::new(),
            pool: None,
            health: Health::Failed,
            reason: "no SSD is left".to_owned(),
            action: "replace its SSDs".to_owned(),
        };
        register.raise(ConditionKind::EventHook, "it ended with 1");
        let since = register.all(vec![pool.clone()])[0].since_unix_ms;
        let all = register.all(vec![pool.clone()]);
        assert_eq!(all.iter().map(|one| one.kind).collect::<Vec<_>>(), [ConditionKind::Pool, ConditionKind::EventHook]);
        assert_eq!(all[0].since_unix_ms, since);
        register.all(Vec::new());
        assert!(register.known().seen.is_empty(), "it is over");
    }

    #[test]
    fn whatever_is_raised_says_what_to_do() {
        let volume = Subject::new(SubjectKind::Volume, "v");
        for kind in [
            ConditionKind::HostErrors,
            ConditionKind::StateDirectory,
            ConditionKind::RecordUnreadable,
            ConditionKind::RecordsSetAside,
            ConditionKind::RecordOutdated,
            ConditionKind::Events,
            ConditionKind::Statistics,
            ConditionKind::StatisticsSetAside,
            ConditionKind::SsdWrites,
            ConditionKind::Failures,
            ConditionKind::Guard,
            ConditionKind::EventHook,
            ConditionKind::WebHook,
            ConditionKind::Mail,
            ConditionKind::Log,
            ConditionKind::Certificate,
            ConditionKind::ConnectionsRefused,
            ConditionKind::SocketNotServed,
            ConditionKind::OtherBacking,
            ConditionKind::Backings,
            ConditionKind::DaemonId,
            ConditionKind::Growth,
            ConditionKind::Conversion,
            ConditionKind::Spare,
            ConditionKind::SpareUnusable,
            ConditionKind::Flush,
            ConditionKind::Removal,
            ConditionKind::Reload,
        ] {
            assert!(!action(kind, &volume).is_empty(), "{}", kind.word());
        }
    }
}
