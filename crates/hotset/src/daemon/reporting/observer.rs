//! Watches the status: publishes it for those who follow, and makes events of what changed in it.
//!
//! It only looks. What it finds is the same that an administrator would see who asked every second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hotset_api::{CacheHealth, CacheState, ConditionKind, Health, Severity, Status, Subject, SubjectKind};
use tokio::sync::watch;

use super::events::{EventLog, Happened};
use super::hook::Hook;
use super::seen::{ssd_health, volume_health};
use super::status::Reporting;
use crate::clock::unix_ms;
use crate::daemon::changes::{Change, Changes, Shown};
use crate::daemon::changing::volumes::Volumes;
use crate::daemon::history;
use crate::daemon::opening::upkeep::Upkeep;
use crate::daemon::register::{ConditionRegister, is_raised};
use crate::size::human;
use crate::words;

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// What is watched of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WatchedState {
    state: &'static str,
    health: Health,
    /// The word for it: SSDs have more words than there are degrees.
    health_word: &'static str,
    /// Of a volume that has one.
    cache: Option<(CacheState, CacheHealth)>,
    reason: String,
    /// The pool that an SSD is in, or that caches a volume.
    pool: Option<String>,
    path: String,
    /// Of a volume that is open; else 0.
    size_bytes: u64,
    /// What was raised of it, which `reason` says, too.
    raised: BTreeSet<ConditionKind>,
}

type Conditions = BTreeMap<Subject, WatchedState>;

/// What was raised, by whom it concerns.
type SeenCondition = BTreeMap<(ConditionKind, Subject), hotset_api::Condition>;

/// Who looks, and who is told.
pub(crate) struct Observer {
    pub(crate) reporting: Arc<Reporting>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) hook: Option<Hook>,
    pub(crate) history: history::HistoryHandle,
    pub(crate) register: ConditionRegister,
    pub(crate) changes: Changes,
}

impl Observer {
    /// Runs until the runtime ends.
    pub(crate) async fn run(self, latest: watch::Sender<Option<Arc<Status>>>) {
        let mut before: Option<Conditions> = None;
        let mut raised_before = SeenCondition::new();
        let mut renamed = Vec::new();
        let mut errors = ErrorsOfHosts::default();
        let mut asked = Vec::new();
        let mut switches = Switches::default();
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Ok(status) = self.reporting.observe().await else { continue };
            let now = conditions(&status);
            for (from, to) in self.volumes.take_renamed() {
                errors.rename(&self.register, &from, &to);
                renamed.push((from, to));
            }
            errors.count(&self.register, &status);
            self.upkeep.save_host_errors().await;
            let mut happened = before.as_mut().map_or_else(Vec::new, |before| follow(&mut renamed, before, &now));
            happened.extend(match &before {
                Some(before) => changes(before, &now),
                None => not_good(&now),
            });
            let raised_now = raised(&status);
            let told = changes_of_raised(&raised_before, &raised_now, &happened);
            happened.extend(told);
            happened.extend(switches.follow(&status));
            raised_before = raised_now;
            if let Some(before) = &before {
                for volume in newly_cached(before, &now) {
                    self.history.note_cache_enabled(&volume.name);
                }
            }
            asked.extend(self.changes.take().into_iter().map(|change| AskedChange { change, looks: 0 }));
            let unseen = attribute(&mut asked, &mut happened, &now);
            happened.extend(unseen);
            before = Some(now);
            latest.send_replace(Some(Arc::new(status)));
            record(&self.log, self.hook.as_ref(), happened);
        }
    }
}

/// A change that somebody asked for, and that may be seen, too.
struct AskedChange {
    change: Change,
    /// How often it was not seen.
    looks: u32,
}

/// Looks until what was asked for is told by itself: it may be seen one later than it was done.
const LOOKS_MAX: u32 = 2;

/// Says of what was seen who asked for it; answers what was asked for and is not seen.
fn attribute(asked: &mut Vec<AskedChange>, seen: &mut [Happened], now: &Conditions) -> Vec<Happened> {
    let mut unseen = Vec::new();
    asked.retain_mut(|one| {
        let is_it = |event: &&mut Happened| {
            event.subject == one.change.subject
                && event.by.is_empty()
                && event.shown.is_some()
                && event.shown == one.change.shown
        };
        if let Some(event) = seen.iter_mut().find(is_it) {
            event.by = one.change.by.words();
            return false;
        }
        one.looks += 1;
        let is_over = one.change.shown.is_none() || one.looks > LOOKS_MAX;
        if is_over {
            unseen.push(of_change(one.change.clone(), now));
        }
        !is_over
    });
    unseen
}

/// What was asked for, or done by the daemon.
fn of_change(change: Change, now: &Conditions) -> Happened {
    let Change { severity, subject, change, cause, by, shown } = change;
    let pool = now.get(&subject).and_then(|condition| condition.pool.clone());
    let (path, by, tells) = (String::new(), by.words(), BTreeSet::new());
    Happened { severity, pool, path, change, cause, by, tells, shown, subject }
}

/// Gives what was seen of renamed volumes their new names, so that nothing seems to come or go. A renaming that came after
/// the last look is kept for the next one.
fn follow(renamed: &mut Vec<(String, String)>, before: &mut Conditions, now: &Conditions) -> Vec<Happened> {
    let volume = |name: &str| Subject::new(SubjectKind::Volume, name);
    let mut happened_now = Vec::new();
    renamed.retain(|(from, to)| {
        let (old, new) = (volume(from), volume(to));
        if now.contains_key(&old) || !before.contains_key(&old) {
            return now.contains_key(&old);
        }
        if let Some(condition) = before.remove(&old) {
            happened_now.push(shown(&new, &condition, Shown::Renamed { from: from.clone() }));
            before.insert(new, condition);
        }
        false
    });
    happened_now
}

/// Volumes that have a cache which they did not have before.
fn newly_cached<'a>(before: &'a Conditions, now: &'a Conditions) -> impl Iterator<Item = &'a Subject> {
    let cached = now.iter().filter(|(subject, new)| subject.kind == SubjectKind::Volume && new.pool.is_some());
    let newly = cached.filter(|(subject, new)| before.get(subject).is_none_or(|old| old.pool != new.pool));
    newly.map(|(subject, _)| subject)
}

/// Appends events, and hands them to the hook.
pub(crate) fn record(log: &EventLog, hook: Option<&Hook>, happened: Vec<Happened>) {
    if happened.is_empty() {
        return;
    }
    // What an SSD does to its pool is said of the pool.
    let of_its_pool = |event: &&Happened| {
        event.subject.kind == SubjectKind::Ssd
            && happened.iter().any(|other| {
                other.subject.kind == SubjectKind::Pool
                    && other.severity != Severity::Info
                    && Some(&other.subject.name) == event.pool.as_ref()
            })
    };
    for event in happened.iter().filter(|event| !of_its_pool(event)) {
        match event.severity {
            Severity::Info => tracing::info!("event: {}: {}", event.subject, said(event)),
            Severity::Warning | Severity::Error => tracing::warn!("event: {}: {}", event.subject, said(event)),
        }
    }
    let appended = log.append(happened);
    if let Some(hook) = hook {
        hook.tell(appended);
    }
}

fn said(event: &Happened) -> String {
    let by = if event.by.is_empty() { String::new() } else { format!(", by {}", event.by) };
    match event.cause.as_str() {
        "" => format!("{}{by}", event.change),
        cause => format!("{}{by} ({cause})", event.change),
    }
}

fn conditions(status: &Status) -> Conditions {
    let mut conditions = Conditions::new();
    let raised_of = |kind, name: &str| -> BTreeSet<ConditionKind> {
        let subject = Subject::new(kind, name);
        let of_it = status.conditions.iter().filter(|one| one.subject == subject && is_raised(one.kind));
        of_it.map(|one| one.kind).collect()
    };
    for pool in &status.pools {
        let condition = WatchedState {
            state: pool.state.word(),
            health: pool.health,
            health_word: pool.health.word(),
            cache: None,
            reason: pool.reason.clone(),
            pool: None,
            path: String::new(),
            size_bytes: 0,
            raised: raised_of(SubjectKind::Pool, &pool.name),
        };
        conditions.insert(Subject::new(SubjectKind::Pool, pool.name.as_str()), condition);
        for ssd in pool.ssds.iter().filter(|ssd| !ssd.uuid.is_empty()) {
            let condition = WatchedState {
                state: ssd.state.word(),
                health: ssd_health(ssd),
                health_word: ssd.health.word(),
                cache: None,
                reason: ssd.reason.clone(),
                pool: Some(pool.name.clone()),
                path: ssd.path.clone(),
                size_bytes: 0,
                raised: BTreeSet::new(),
            };
            conditions.insert(Subject::new(SubjectKind::Ssd, ssd.uuid.as_str()), condition);
        }
    }
    for volume in &status.volumes {
        let condition = WatchedState {
            state: volume.state.word(),
            health: volume_health(volume),
            health_word: volume.health.word(),
            cache: volume.cache_state.zip(volume.cache_health),
            reason: volume.reason.clone(),
            pool: volume.pool.clone(),
            path: String::new(),
            size_bytes: volume.size_bytes,
            raised: raised_of(SubjectKind::Volume, &volume.name),
        };
        conditions.insert(Subject::new(SubjectKind::Volume, volume.name.as_str()), condition);
    }
    conditions
}

/// What the daemon's parts say is not as it should be.
fn raised(status: &Status) -> SeenCondition {
    let raised = status.conditions.iter().filter(|condition| match condition.kind {
        ConditionKind::Pool | ConditionKind::Ssd | ConditionKind::Volume => false,
        ConditionKind::HostErrors
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
        | ConditionKind::PoolNotOpened
        | ConditionKind::Reload => true,
    });
    raised.map(|one| ((one.kind, one.subject.clone()), one.clone())).collect()
}

/// Each that begins or is over. `happened` may say so, too: a change of health says why.
fn changes_of_raised(before: &SeenCondition, now: &SeenCondition, happened: &[Happened]) -> Vec<Happened> {
    let event = |one: &hotset_api::Condition, severity, change: String, cause| Happened {
        severity,
        subject: one.subject.clone(),
        pool: one.pool.clone(),
        path: String::new(),
        change,
        cause,
        by: String::new(),
        tells: BTreeSet::from([one.kind]),
        shown: None,
    };
    let is_said = |one: &hotset_api::Condition| {
        happened.iter().any(|other| other.subject == one.subject && other.tells.contains(&one.kind))
    };
    let begun = now.iter().filter(|(key, one)| !before.contains_key(key) && !is_said(one)).map(|(_, one)| {
        let cause = format!("{}; {}", one.reason, one.action);
        event(one, severity(one.health), format!("condition {} begins", one.kind.word()), cause)
    });
    let ended = before
        .iter()
        .filter(|(key, _)| !now.contains_key(key))
        .map(|(_, one)| event(one, Severity::Info, format!("condition {} is over", one.kind.word()), String::new()));
    begun.chain(ended).collect()
}

/// How often each pool with policy `auto` has followed another policy.
#[derive(Default)]
struct Switches(BTreeMap<String, u64>);

impl Switches {
    fn follow(&mut self, status: &Status) -> Vec<Happened> {
        let now = status.pools.iter().map(|pool| (pool.name.clone(), pool.policy_switches)).collect();
        let before = std::mem::replace(&mut self.0, now);
        let is_new = |pool: &&hotset_api::Pool| {
            pool.policy_switches > 0 && before.get(&pool.name).is_none_or(|known| *known != pool.policy_switches)
        };
        status.pools.iter().filter(is_new).map(switched).collect()
    }
}

fn switched(pool: &hotset_api::Pool) -> Happened {
    Happened {
        severity: Severity::Info,
        subject: Subject::new(SubjectKind::Pool, pool.name.as_str()),
        pool: None,
        path: String::new(),
        change: format!("policy auto follows {}", words::engine_policy(pool.policy_followed)),
        cause: pool.policy_reason.clone(),
        by: String::new(),
        tells: BTreeSet::new(),
        shown: None,
    }
}

/// Which errors that hosts got have been counted.
#[derive(Default)]
struct ErrorsOfHosts(BTreeMap<String, u64>);

impl ErrorsOfHosts {
    fn rename(&mut self, register: &ConditionRegister, from: &str, to: &str) {
        register.rename_volume(from, Some(to));
        if let Some(known) = self.0.remove(from) {
            self.0.insert(to.to_owned(), known);
        }
    }

    fn count(&mut self, register: &ConditionRegister, status: &Status) {
        for volume in &status.volumes {
            let known = self.0.insert(volume.name.clone(), volume.stats.errors).unwrap_or(0);
            // One that was opened anew counts from 0 again.
            let more = volume.stats.errors.checked_sub(known).unwrap_or(volume.stats.errors);
            if more > 0 {
                register.count_host_errors(&volume.name, more);
            }
        }
        let is_gone = |name: &String| !status.volumes.iter().any(|volume| volume.name == *name);
        for name in self.0.keys().filter(|name| is_gone(name)) {
            register.rename_volume(name, None);
        }
        self.0.retain(|name, _| status.volumes.iter().any(|volume| volume.name == *name));
        register.forget_old_host_errors(unix_ms());
        register.forget_gone(status);
    }
}

/// At the start: what is not as it should be.
fn not_good(now: &Conditions) -> Vec<Happened> {
    let bad = now.iter().filter(|(_, condition)| condition.health != Health::Good);
    bad.map(|(subject, condition)| {
        let cache = match condition.cache {
            Some((state, health)) if health != CacheHealth::Optimal => {
                format!(", cache {}, {}", state.word(), health.word())
            }
            Some(_) | None => String::new(),
        };
        let change = format!("{}, health {}{cache} at the start", condition.state, condition.health_word);
        happened(subject, condition, change)
    })
    .collect()
}

fn changes(before: &Conditions, now: &Conditions) -> Vec<Happened> {
    let mut all = Vec::new();
    for (subject, condition) in now {
        match before.get(subject) {
            Some(old) => all.extend(change(subject, old, condition)),
            None => all.push(shown(subject, condition, Shown::New)),
        }
    }
    for (subject, condition) in before.iter().filter(|(subject, _)| !now.contains_key(subject)) {
        let gone =
            WatchedState { health: Health::Good, reason: String::new(), raised: BTreeSet::new(), ..condition.clone() };
        all.push(shown(subject, &gone, Shown::Removed));
    }
    all
}

fn change(subject: &Subject, old: &WatchedState, new: &WatchedState) -> Option<Happened> {
    let mut parts = Vec::new();
    if old.state != new.state {
        parts.push(format!("{} → {}", old.state, new.state));
    }
    if old.health_word != new.health_word {
        parts.push(format!("health {} → {}", old.health_word, new.health_word));
    }
    if let (Some((old_state, old_health)), Some((state, health))) = (old.cache, new.cache) {
        if old_state != state {
            parts.push(format!("cache {} → {}", old_state.word(), state.word()));
        }
        if old_health != health {
            parts.push(format!("cache health {} → {}", old_health.word(), health.word()));
        }
    }
    let has_moved = subject.kind == SubjectKind::Volume && old.pool != new.pool;
    let shown = has_moved.then(|| match new.pool.clone() {
        Some(pool) => Shown::CacheEnabled { pool },
        None => Shown::CacheDisabled,
    });
    parts.extend(shown.as_ref().map(Shown::to_string));
    if old.size_bytes > 0 && new.size_bytes > old.size_bytes {
        parts.push(format!("size {} → {}", human(old.size_bytes), human(new.size_bytes)));
    }
    (!parts.is_empty()).then(|| Happened { shown, ..happened(subject, new, parts.join(", ")) })
}

fn shown(subject: &Subject, condition: &WatchedState, shown: Shown) -> Happened {
    let seen = happened(subject, condition, shown.to_string());
    Happened { shown: Some(shown), ..seen }
}

fn happened(subject: &Subject, condition: &WatchedState, change: String) -> Happened {
    Happened {
        severity: severity(condition.health),
        subject: subject.clone(),
        pool: condition.pool.clone(),
        path: condition.path.clone(),
        change,
        cause: condition.reason.clone(),
        by: String::new(),
        tells: condition.raised.clone(),
        shown: None,
    }
}

fn severity(health: Health) -> Severity {
    match health {
        Health::Good => Severity::Info,
        Health::Degraded => Severity::Warning,
        Health::Failed => Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::who::Who;

    fn one(kind: SubjectKind, state: &'static str, health: Health, pool: Option<&str>) -> Conditions {
        let condition = WatchedState {
            state,
            health,
            health_word: health.word(),
            cache: None,
            reason: "why".to_owned(),
            pool: pool.map(str::to_owned),
            path: String::new(),
            size_bytes: 0,
            raised: BTreeSet::new(),
        };
        Conditions::from([(Subject::new(kind, "x"), condition)])
    }

    #[test]
    fn a_renamed_volume_neither_comes_nor_goes() {
        let mut before = one(SubjectKind::Volume, "online", Health::Good, Some("p"));
        let condition = before.values().next().cloned().expect("there is one");
        let now = Conditions::from([(Subject::new(SubjectKind::Volume, "y"), condition)]);
        let mut renamed = vec![("x".to_owned(), "y".to_owned())];
        let not_yet = before.clone();
        assert_eq!(follow(&mut renamed, &mut before, &not_yet), [], "it was renamed after the look");
        let happened = follow(&mut renamed, &mut before, &now);
        assert_eq!(happened.iter().map(|one| one.change.as_str()).collect::<Vec<_>>(), ["renamed, it was x"]);
        assert!(renamed.is_empty() && changes(&before, &now).is_empty());
        assert_eq!(newly_cached(&before, &now).count(), 0, "its warm-up goes on");
    }

    #[test]
    fn a_condition_is_no_event_of_its_own_where_a_change_of_its_subject_tells_it_whatever_the_words() {
        let flush = |reason: &str| hotset_api::Condition {
            kind: ConditionKind::Flush,
            subject: Subject::new(SubjectKind::Pool, "x"),
            path: String::new(),
            pool: None,
            health: Health::Degraded,
            reason: reason.to_owned(),
            action: String::new(),
            since_unix_ms: 0,
            latest_unix_ms: 0,
            count: 1,
        };
        let begun = |one: hotset_api::Condition, happened: &[Happened]| {
            let raised = SeenCondition::from([((one.kind, one.subject.clone()), one)]);
            changes_of_raised(&SeenCondition::new(), &raised, happened).len()
        };
        let good = one(SubjectKind::Pool, "online", Health::Good, None);
        let mut bad = one(SubjectKind::Pool, "online", Health::Degraded, None);
        // "why" is what it says of itself: the same words are no proof that it speaks of the flush.
        assert_eq!(begun(flush("why"), &changes(&good, &bad)), 1);
        bad.values_mut().for_each(|condition| condition.raised = BTreeSet::from([ConditionKind::Flush]));
        assert_eq!(begun(flush("said in other words"), &changes(&good, &bad)), 0);
        assert_eq!(begun(flush("why"), &changes(&bad, &Conditions::new())), 1, "what is gone tells nothing");
    }

    #[test]
    fn who_asked_is_told_by_what_was_changed_and_not_by_its_words() {
        let token = || Who::Token { name: "t".to_owned(), console: false };
        let ask = |change: &str, shown| {
            let (subject, by) = (Subject::new(SubjectKind::Pool, "x"), token());
            let (severity, change, cause) = (Severity::Info, change.to_owned(), String::new());
            AskedChange { change: Change { severity, subject, change, cause, by, shown }, looks: 0 }
        };
        let now = one(SubjectKind::Pool, "online", Health::Good, None);
        let mut seen = changes(&Conditions::new(), &now);
        let mut asked = vec![ask("new", None), ask("made", Some(Shown::New)), ask("gone", Some(Shown::Removed))];
        let unseen = attribute(&mut asked, &mut seen, &now);
        assert_eq!(unseen.iter().map(|one| one.change.as_str()).collect::<Vec<_>>(), ["new"], "that is not shown");
        assert_eq!((seen.len(), seen[0].by.clone()), (1, token().words()));
        assert_eq!(asked.len(), 1, "what may still be seen is waited for");
    }

    #[test]
    fn what_stays_as_it_is_is_no_event() {
        let good = one(SubjectKind::Pool, "online", Health::Good, None);
        assert_eq!(changes(&good, &good), []);
        assert_eq!(not_good(&good), []);
    }

    #[test]
    fn a_change_of_state_and_health_is_one_event_with_its_cause() {
        let good = one(SubjectKind::Ssd, "online", Health::Good, Some("p"));
        let failed = one(SubjectKind::Ssd, "expelled", Health::Failed, Some("p"));
        let happened = changes(&good, &failed);
        assert_eq!(happened.len(), 1);
        assert_eq!(happened[0].change, "online → expelled, health good → failed");
        assert_eq!((happened[0].severity, happened[0].cause.as_str()), (Severity::Error, "why"));
        assert_eq!(not_good(&failed).len(), 1);
    }

    // proves: P11
    #[test]
    fn what_the_cache_of_a_volume_goes_through_is_told_with_its_cause() {
        use CacheHealth::{Degraded, Optimal, PartiallyOptimal};
        use CacheState::{Online, Rebuilding};
        let with = |cache, health| {
            let mut volume = one(SubjectKind::Volume, "online", Health::Good, Some("p"));
            volume.values_mut().for_each(|condition| (condition.cache, condition.health) = (Some(cache), health));
            volume
        };
        let good = with((Online, Optimal), Health::Good);
        let rebuilding = with((Rebuilding, Degraded), Health::Degraded);
        let fewer = with((Online, PartiallyOptimal), Health::Degraded);
        for (before, now, change, severity) in [
            (&good, &rebuilding, "cache online → rebuilding, cache health optimal → degraded", Severity::Warning),
            (
                &rebuilding,
                &fewer,
                "cache rebuilding → online, cache health degraded → partially optimal",
                Severity::Warning,
            ),
            (&fewer, &good, "cache health partially optimal → optimal", Severity::Info),
        ] {
            let happened = changes(before, now);
            assert_eq!(happened.iter().map(|one| one.change.as_str()).collect::<Vec<_>>(), [change]);
            assert_eq!((happened[0].severity, happened[0].cause.as_str()), (severity, "why"));
        }
        assert_eq!(changes(&good, &good), []);
        assert_eq!(not_good(&fewer)[0].change, "online, health good, cache online, partially optimal at the start");
    }

    #[test]
    fn what_comes_goes_or_gets_a_cache_is_told() {
        let (none, volume) = (Conditions::new(), one(SubjectKind::Volume, "online", Health::Good, None));
        assert_eq!(changes(&none, &volume)[0].change, "new");
        assert_eq!(changes(&volume, &none)[0].change, "removed");
        let cached = one(SubjectKind::Volume, "online", Health::Good, Some("p"));
        assert_eq!(changes(&volume, &cached)[0].change, "cache enabled in pool p");
        assert_eq!(changes(&cached, &volume)[0].change, "cache disabled");
    }
}
