//! What the words for pools, SSDs and the caches of volumes mean: from facts to a state, a health, the reason for them and the
//! action to take. Pure, so that one table can say it all.

use hotset_api::{CacheHealth, CacheState, FlushPurpose, Health, PoolKind, PoolState, SsdHealth, SsdState};
use hotset_cache::{FenceCause, Refusal};

/// How something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateAndHealth<State, Degree> {
    pub(crate) state: State,
    pub(crate) health: Degree,
    /// Why it is not simply online and good. One line; empty only if it is.
    pub(crate) reason: String,
    /// What to do about it.
    pub(crate) action: String,
}

/// What is known of an open pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolFacts<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: PoolKind,
    /// The engine's.
    pub(crate) health: Health,
    /// What the engine and the start say of it.
    pub(crate) said: &'a str,
    pub(crate) ssds_online: usize,
    /// Of them, those that do not answer and are waited for.
    pub(crate) ssds_silent: usize,
    /// SSDs that failed or are missing, and have no successor.
    pub(crate) ssds_gone: usize,
    /// SSDs out of use that are taken back by themselves: when they are there, answer, or take writes again.
    pub(crate) ssds_returnable: usize,
    /// All of it is flushed, to be deleted or converted.
    pub(crate) flushed_for: Option<FlushPurpose>,
    /// Copies are made of what has lost one.
    pub(crate) rebuilding: bool,
    /// Two copies cannot be kept: new writes go past the cache.
    pub(crate) write_caching_off: bool,
    pub(crate) dirty_bytes: u64,
    /// Somebody else has it: it serves nothing any more.
    pub(crate) taken_over: bool,
}

/// How an open pool is.
pub(crate) fn pool(facts: PoolFacts<'_>) -> StateAndHealth<PoolState, Health> {
    let PoolFacts { name, kind, .. } = facts;
    let missed = facts.ssds_gone > 0;
    let health = if missed { facts.health.max(Health::Degraded) } else { facts.health };
    let replace = || {
        format!(
            "`hotset pool add-ssd {name} --ssd PATH` puts a new SSD in its place; `hotset pool remove-ssd {name} --ssd PATH` \
             makes the pool do without it"
        )
    };
    if let Some(purpose) = facts.flushed_for {
        let action = format!("wait, or keep the pool as it is with `hotset pool cancel-flush {name}`");
        let reason = joined(flushed_for(purpose), facts.said);
        return StateAndHealth { state: PoolState::Flushing, health, reason, action };
    }
    if facts.taken_over {
        let action = "see to it that one machine uses the pool, then restart Hotset here if it is to be this one";
        let reason = first(facts.said, "another machine took it over");
        return StateAndHealth {
            state: PoolState::Online,
            health: health.max(Health::Failed),
            reason,
            action: action.to_owned(),
        };
    }
    if facts.ssds_online == 0 {
        let action = match kind {
            PoolKind::ReadWrite if facts.ssds_returnable > 0 => {
                "see to its SSDs: that they are connected, answer and can be written; all goes on by itself then"
                    .to_owned()
            }
            PoolKind::Read if facts.ssds_returnable > 0 => format!(
                "bring its SSDs back: it takes them by itself, empty; or `hotset pool add-ssd {name} --ssd PATH` gives it others"
            ),
            PoolKind::Read => {
                format!("`hotset pool add-ssd {name} --ssd PATH` gives it SSDs again, and it caches anew")
            }
            PoolKind::ReadWrite => format!(
                "`hotset pool add-ssd {name} --ssd PATH` gives it SSDs again, and it caches anew; what only those that failed hold is \
                 there again when they are back as they were"
            ),
        };
        let reason = first(facts.said, "no SSD is left");
        return StateAndHealth { state: PoolState::Online, health: health.max(Health::Failed), reason, action };
    }
    if facts.ssds_silent > 0 {
        let action =
            "see to what its SSDs share: controller, path, file system; when they answer again, all goes on by itself";
        let reason = first(facts.said, "its SSDs do not answer");
        return StateAndHealth { state: PoolState::Online, health, reason, action: action.to_owned() };
    }
    if kind == PoolKind::ReadWrite && facts.write_caching_off {
        let state = if facts.dirty_bytes > 0 { PoolState::Flushing } else { PoolState::Online };
        let action = format!("`hotset pool add-ssd {name} --ssd PATH`: the pool heals and caches writes again");
        let reason = first(facts.said, "two copies of dirty data cannot be kept: new writes go to the backing devices");
        return StateAndHealth { state, health: health.max(Health::Degraded), reason, action };
    }
    let state = if facts.rebuilding { PoolState::Rebuilding } else { PoolState::Online };
    let (why, action) = match (facts.rebuilding, missed, health) {
        (true, true, _) => (REBUILDING, format!("wait until all has two copies again; then {}", replace())),
        (true, false, _) => (REBUILDING, "wait: it ends by itself".to_owned()),
        (false, true, _) => ("an SSD of it is out of use", replace()),
        (false, false, Health::Good) => ("", String::new()),
        (false, false, Health::Degraded | Health::Failed) => {
            ("the log of the daemon says why", "see the reason, and the log of the daemon".to_owned())
        }
    };
    StateAndHealth { state, health, reason: first(facts.said, why), action }
}

const REBUILDING: &str = "second copies of dirty data are being made";

fn flushed_for(purpose: FlushPurpose) -> &'static str {
    match purpose {
        FlushPurpose::DisableCache => "its dirty data is being flushed, so that its cache can be taken away",
        FlushPurpose::DeleteVolume => "its dirty data is being flushed, so that the volume can be deleted",
        FlushPurpose::DeletePool => "its dirty data is being flushed, so that the pool can be deleted",
        FlushPurpose::ConvertPool => "its dirty data is being flushed, so that the pool can be converted",
    }
}

/// What is said, or else why.
fn first(said: &str, why: &str) -> String {
    if said.is_empty() { why.to_owned() } else { said.to_owned() }
}

pub(crate) fn joined(one: &str, other: &str) -> String {
    match (one, other) {
        (one, "") => one.to_owned(),
        ("", other) => other.to_owned(),
        (one, other) => format!("{one}; {other}"),
    }
}

/// What is known of an SSD of an open pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SsdFacts {
    pub(crate) online: bool,
    pub(crate) missing: bool,
    /// It does not answer.
    pub(crate) silent: bool,
    /// It takes no writes, and is read.
    pub(crate) refuses: Option<Refusal>,
    pub(crate) rebuilding: bool,
    /// It is being emptied.
    pub(crate) leaving: bool,
}

pub(super) fn ssd_state(facts: SsdFacts) -> SsdState {
    match (facts.online, facts.missing) {
        _ if facts.silent => SsdState::Silent,
        (false, false) if facts.refuses == Some(Refusal::NoSpace) => SsdState::NoSpace,
        (false, false) if facts.refuses.is_some() => SsdState::ReadOnly,
        (true, _) if facts.leaving => SsdState::Flushing,
        (true, _) if facts.rebuilding => SsdState::Rebuilding,
        (true, _) => SsdState::Online,
        (false, true) => SsdState::Missing,
        (false, false) => SsdState::Expelled,
    }
}

/// Why an SSD is not simply online and good. `said`: by its pool; `alert`: by itself.
pub(super) fn ssd_reason(state: SsdState, health: SsdHealth, said: &str, alert: &str) -> String {
    let of_state = match state {
        SsdState::Online => "",
        SsdState::Rebuilding => "it gets copies of dirty data that has lost one",
        SsdState::Flushing => "it is being emptied, so that it can be removed",
        SsdState::Silent => "it does not answer",
        SsdState::ReadOnly | SsdState::NoSpace => "it takes no writes",
        SsdState::Offline => "its pool is not open",
        SsdState::Missing => "it was not there when the pool was opened",
        SsdState::Expelled => "it left the pool",
    };
    let of_health = match health {
        SsdHealth::Good | SsdHealth::Unknown | SsdHealth::Failed => String::new(),
        SsdHealth::ReadErrors => "it had read errors, which hosts did not see".to_owned(),
        SsdHealth::ErrorAlert => format!("{alert}; replace it soon"),
    };
    joined(&first(said, of_state), &of_health)
}

/// What to do about an SSD.
pub(super) fn ssd_action(state: SsdState, pool: &str, path: &str, health: SsdHealth) -> String {
    match (state, health) {
        (SsdState::Flushing, _) => format!("wait, or keep it with `hotset pool cancel-remove {pool}`"),
        (SsdState::Silent, _) => {
            "see to its controller, its path, or the file system of its image: when it answers again, all goes on by itself"
                .to_owned()
        }
        (SsdState::NoSpace, _) => {
            "make room in the file system of its image, or raise its quota: it is taken back by itself then".to_owned()
        }
        (SsdState::ReadOnly, _) => format!(
            "if it is write-protected, end that, and it is taken back by itself; else replace it with `hotset pool add-ssd \
             {pool} --ssd PATH`, and `hotset pool remove-ssd {pool} --ssd {path}` forgets it"
        ),
        // Nothing can be done to it alone: its pool says what to do.
        (SsdState::Offline, _) => String::new(),
        (SsdState::Missing, _) => format!(
            "replace it with `hotset pool add-ssd {pool} --ssd PATH`; `hotset pool remove-ssd {pool} --ssd {path}` forgets it"
        ),
        (SsdState::Expelled, _) => format!(
            "replace it with `hotset pool add-ssd {pool} --ssd PATH`, or use it again with `hotset pool add-ssd {pool} --ssd \
             {path}`; `hotset pool remove-ssd {pool} --ssd {path}` forgets it"
        ),
        (SsdState::Online | SsdState::Rebuilding, SsdHealth::ErrorAlert) => format!(
            "replace it soon: `hotset pool add-ssd {pool} --ssd PATH`, then `hotset pool remove-ssd {pool} --ssd {path}`"
        ),
        (SsdState::Online | SsdState::Rebuilding, SsdHealth::ReadErrors) => {
            format!("`hotset pool scrub {pool}` mends what is bad; replace it if errors go on")
        }
        (SsdState::Rebuilding, SsdHealth::Good | SsdHealth::Unknown | SsdHealth::Failed) => {
            "wait: it ends by itself".to_owned()
        }
        (SsdState::Online, SsdHealth::Good | SsdHealth::Unknown | SsdHealth::Failed) => String::new(),
    }
}

/// What is known of a volume that has a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheFacts<'a> {
    pub(crate) volume: &'a str,
    pub(crate) pool_name: &'a str,
    /// The volume's own, without the pool's: its backing device.
    pub(crate) health: Health,
    /// What is said of the volume itself.
    pub(crate) said: &'a str,
    /// Why hosts cannot use it, if so.
    pub(crate) fenced: Option<FenceCause>,
    /// Something of it is unavailable: reads of that fail, nothing else does.
    pub(crate) has_lost: bool,
    /// It is not open, or its pool is not.
    pub(crate) offline: bool,
    /// Its cache is flushed, to be taken away.
    pub(crate) flushed_for: Option<FlushPurpose>,
    /// Of its pool; `None` while that is not open.
    pub(crate) pool: Option<&'a StateAndHealth<PoolState, Health>>,
    /// Of its pool: new writes go past the cache.
    pub(crate) write_caching_off: bool,
}

/// How the cache of a volume is.
pub(crate) fn cache(facts: CacheFacts<'_>) -> StateAndHealth<CacheState, CacheHealth> {
    let CacheFacts { volume, pool_name, said, .. } = facts;
    let offline = |why, action| StateAndHealth {
        state: CacheState::Offline,
        health: CacheHealth::Failed,
        reason: first(said, why),
        action,
    };
    if let Some(cause) = facts.fenced {
        return offline("hosts cannot use it", unfence(cause, volume, pool_name));
    }
    let Some(pool) = facts.pool else {
        return offline("its pool is not open", "bring its pool back: see the pool".to_owned());
    };
    if facts.offline {
        let action = "make its backing device available: it is tried every 5 s".to_owned();
        return offline("its backing device is not available", action);
    }
    let health = cache_health(facts.health, pool.health, facts.write_caching_off);
    if let Some(purpose) = facts.flushed_for {
        let reason = joined(flushed_for(purpose), said);
        return StateAndHealth {
            state: CacheState::Flushing,
            health,
            reason,
            action: keep(purpose, volume, pool_name),
        };
    }
    let state = match (pool.state, health) {
        (_, CacheHealth::Failed) | (PoolState::Offline, _) => CacheState::Offline,
        (PoolState::Flushing, _) => CacheState::Flushing,
        (PoolState::Rebuilding, _) => CacheState::Rebuilding,
        (PoolState::Online, _) => CacheState::Online,
    };
    let health = match (health, state) {
        // What lost a copy has one only until it is made anew.
        (CacheHealth::PartiallyOptimal, CacheState::Rebuilding) => CacheHealth::Degraded,
        (health, _) => health,
    };
    let (reason, action) = match (facts.health, facts.has_lost) {
        (Health::Good, _) if (state, health) == (CacheState::Online, CacheHealth::Optimal) => {
            (said.to_owned(), String::new())
        }
        (Health::Good, _) => (pool.reason.clone(), pool.action.clone()),
        (Health::Degraded, true) => (
            first(said, "some of what hosts wrote is unavailable"),
            format!(
                "bring back the SSDs that are named, as they were: what only they have is there again by itself, also without a \
                 restart; `hotset pool recover {pool_name}` lists it. If they never come back, write it again, or accept the loss \
                 with `hotset pool recover {pool_name} --accept-loss`"
            ),
        ),
        (Health::Degraded, false) | (Health::Failed, _) => (
            first(said, "its backing device is in trouble"),
            format!(
                "look after its backing device, then have it checked and opened again: `hotset volume clear {volume}`"
            ),
        ),
    };
    StateAndHealth { state, health, reason, action }
}

/// How a flush is ended: that of its pool, or its own.
fn keep(purpose: FlushPurpose, volume: &str, pool: &str) -> String {
    match purpose {
        FlushPurpose::DisableCache | FlushPurpose::DeleteVolume => {
            format!("wait, or keep its cache with `hotset volume cancel-flush {volume}`")
        }
        FlushPurpose::DeletePool | FlushPurpose::ConvertPool => {
            format!("wait, or keep the pool as it is with `hotset pool cancel-flush {pool}`")
        }
    }
}

fn unfence(cause: FenceCause, volume: &str, pool: &str) -> String {
    let discard = format!("`hotset volume disable-cache {volume} --force --yes-lose-data`");
    match cause {
        FenceCause::OtherBacking => {
            format!(
                "put the right backing device back and restart the daemon; if it is the right one, `hotset volume accept-backing \
                 {volume}` says what speaks for and against it, and serves it again; or discard its dirty data with {discard}"
            )
        }
        FenceCause::UnknownLoss => format!(
            "`hotset pool recover {pool} --accept-loss` goes on with what is left, which may be older; or bring back the state \
             directory as it was and restart the daemon; or do without the cache with {discard}"
        ),
    }
}

fn cache_health(own: Health, pool: Health, write_caching_off: bool) -> CacheHealth {
    match (own, pool) {
        (_, Health::Failed) | (Health::Failed, _) => CacheHealth::Failed,
        (Health::Degraded, _) => CacheHealth::Degraded,
        (Health::Good, Health::Degraded) if write_caching_off => CacheHealth::Degraded,
        (Health::Good, Health::Degraded) => CacheHealth::PartiallyOptimal,
        (Health::Good, Health::Good) => CacheHealth::Optimal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: PoolFacts<'_> = PoolFacts {
        name: "p",
        kind: PoolKind::ReadWrite,
        health: Health::Good,
        said: "",
        ssds_online: 3,
        ssds_silent: 0,
        ssds_gone: 0,
        ssds_returnable: 0,
        flushed_for: None,
        rebuilding: false,
        write_caching_off: false,
        dirty_bytes: 0,
        taken_over: false,
    };

    // proves: P9
    #[test]
    fn a_pool_has_each_state_and_each_health_for_a_reason_and_says_what_to_do() {
        use Health::{Degraded, Failed, Good};
        let rebuilding = PoolFacts { health: Degraded, ssds_gone: 1, ssds_online: 2, rebuilding: true, ..POOL };
        let alone = PoolFacts { health: Degraded, ssds_gone: 1, ssds_online: 1, write_caching_off: true, ..POOL };
        let read = PoolFacts { kind: PoolKind::Read, ..POOL };
        let out = Some(FlushPurpose::DeletePool);
        for (what, facts, state, health, action) in [
            ("whole", POOL, PoolState::Online, Good, ""),
            ("mirroring again", rebuilding, PoolState::Rebuilding, Degraded, "wait until all has two copies"),
            (
                "a spare took over",
                PoolFacts { ssds_gone: 0, ..rebuilding },
                PoolState::Rebuilding,
                Degraded,
                "wait: it ends by itself",
            ),
            (
                "mirrored again",
                PoolFacts { rebuilding: false, health: Good, ..rebuilding },
                PoolState::Online,
                Degraded,
                "add-ssd p",
            ),
            ("too few SSDs", PoolFacts { dirty_bytes: 1, ..alone }, PoolState::Flushing, Degraded, "add-ssd p"),
            ("too few, clean", alone, PoolState::Online, Degraded, "add-ssd p"),
            (
                "another machine took it",
                PoolFacts { taken_over: true, health: Failed, write_caching_off: true, ..POOL },
                PoolState::Online,
                Failed,
                "one machine uses the pool",
            ),
            ("no SSD", PoolFacts { ssds_online: 0, health: Failed, ..read }, PoolState::Online, Failed, "add-ssd p"),
            (
                "no SSD of a read pool now",
                PoolFacts { ssds_online: 0, ssds_returnable: 1, health: Failed, ..read },
                PoolState::Online,
                Failed,
                "it takes them by itself",
            ),
            (
                "no SSD now",
                PoolFacts { ssds_online: 0, ssds_returnable: 1, health: Failed, ..POOL },
                PoolState::Online,
                Failed,
                "by itself",
            ),
            (
                "an SSD of a read pool is gone",
                PoolFacts { ssds_gone: 1, health: Degraded, ..read },
                PoolState::Online,
                Degraded,
                "remove-ssd p",
            ),
            ("on its way out", PoolFacts { flushed_for: out, ..POOL }, PoolState::Flushing, Good, "cancel-flush p"),
            (
                "converted",
                PoolFacts { flushed_for: Some(FlushPurpose::ConvertPool), ..rebuilding },
                PoolState::Flushing,
                Degraded,
                "cancel-flush p",
            ),
        ] {
            let is = pool(facts);
            assert_eq!((is.state, is.health), (state, health), "{what}");
            let plain = (state, health) == (PoolState::Online, Good);
            assert_eq!(is.reason.is_empty(), plain, "{what}: {}", is.reason);
            assert_eq!(is.action.is_empty(), action.is_empty(), "{what}: {}", is.action);
            assert!(is.action.contains(action), "{what}: {}", is.action);
            let said = pool(PoolFacts { said: "the engine knows why", ..facts }).reason;
            assert!(said.ends_with("the engine knows why"), "{what}: {said}");
        }
        let said = pool(PoolFacts { flushed_for: out, said: "an SSD is gone", ..POOL }).reason;
        assert_eq!(said, "its dirty data is being flushed, so that the pool can be deleted; an SSD is gone");
    }

    // proves: P10
    #[test]
    fn an_ssd_has_each_state_for_a_reason_and_says_what_to_do() {
        let facts =
            SsdFacts { online: true, missing: false, silent: false, refuses: None, rebuilding: false, leaving: false };
        let gone = SsdFacts { online: false, ..facts };
        for (facts, health, state, action) in [
            (facts, SsdHealth::Good, SsdState::Online, ""),
            (facts, SsdHealth::ReadErrors, SsdState::Online, "scrub p"),
            (facts, SsdHealth::ErrorAlert, SsdState::Online, "replace it soon"),
            (SsdFacts { rebuilding: true, ..facts }, SsdHealth::Good, SsdState::Rebuilding, "wait"),
            (
                SsdFacts { rebuilding: true, leaving: true, ..facts },
                SsdHealth::Good,
                SsdState::Flushing,
                "cancel-remove p",
            ),
            (SsdFacts { rebuilding: true, ..facts }, SsdHealth::ReadErrors, SsdState::Rebuilding, "scrub p"),
            (SsdFacts { silent: true, ..facts }, SsdHealth::Good, SsdState::Silent, "goes on by itself"),
            (SsdFacts { silent: true, ..gone }, SsdHealth::Good, SsdState::Silent, "goes on by itself"),
            (
                SsdFacts { refuses: Some(Refusal::NoSpace), ..gone },
                SsdHealth::Good,
                SsdState::NoSpace,
                "make room in the file system",
            ),
            (
                SsdFacts { refuses: Some(Refusal::ReadOnly), ..gone },
                SsdHealth::Good,
                SsdState::ReadOnly,
                "write-protected",
            ),
            (SsdFacts { refuses: Some(Refusal::Failed), ..gone }, SsdHealth::Failed, SsdState::ReadOnly, "add-ssd p"),
            (SsdFacts { missing: true, ..gone }, SsdHealth::Unknown, SsdState::Missing, "add-ssd p"),
            (gone, SsdHealth::Failed, SsdState::Expelled, "--ssd /a"),
        ] {
            let advice = ssd_action(state, "p", "/a", health);
            assert_eq!(ssd_state(facts), state);
            assert_eq!(advice.is_empty(), action.is_empty(), "{state:?}: {advice}");
            assert!(advice.contains(action), "{state:?}: {advice}");
            let why = ssd_reason(state, health, "", "it is worn out");
            let plain = (state, health) == (SsdState::Online, SsdHealth::Good);
            assert_eq!(why.is_empty(), plain, "{state:?}, {health:?}: {why}");
        }
        let why = ssd_reason(SsdState::Rebuilding, SsdHealth::ErrorAlert, "", "it is worn out");
        assert_eq!(why, "it gets copies of dirty data that has lost one; it is worn out; replace it soon");
        assert_eq!(ssd_reason(SsdState::Expelled, SsdHealth::Failed, "it did not answer", ""), "it did not answer");
    }

    // proves: P11
    #[test]
    fn the_cache_of_a_volume_has_each_state_and_each_health_for_a_reason_and_says_what_to_do() {
        use CacheHealth::{Degraded, Failed, Optimal, PartiallyOptimal};
        use CacheState::{Flushing, Offline, Online, Rebuilding};
        let of = |state, health| StateAndHealth {
            state,
            health,
            reason: "the pool is ill".to_owned(),
            action: "mend the pool".to_owned(),
        };
        let whole = pool(POOL);
        let fewer = of(PoolState::Online, Health::Degraded);
        let rebuilding = of(PoolState::Rebuilding, Health::Degraded);
        let alone = of(PoolState::Flushing, Health::Degraded);
        let none = of(PoolState::Online, Health::Failed);
        let good = CacheFacts {
            volume: "v",
            pool_name: "p",
            health: Health::Good,
            said: "",
            fenced: None,
            has_lost: false,
            offline: false,
            flushed_for: None,
            pool: Some(&whole),
            write_caching_off: false,
        };
        let lame = CacheFacts { write_caching_off: true, ..good };
        for (what, facts, state, health, action) in [
            ("good", good, Online, Optimal, ""),
            ("fewer SSDs", CacheFacts { pool: Some(&fewer), ..good }, Online, PartiallyOptimal, "mend the pool"),
            ("copies are made", CacheFacts { pool: Some(&rebuilding), ..good }, Rebuilding, Degraded, "mend the pool"),
            (
                "two copies cannot be kept",
                CacheFacts { pool: Some(&alone), ..lame },
                Flushing,
                Degraded,
                "mend the pool",
            ),
            ("no SSD is left", CacheFacts { pool: Some(&none), ..good }, Offline, Failed, "mend"),
            (
                "taken away",
                CacheFacts { flushed_for: Some(FlushPurpose::DisableCache), ..good },
                Flushing,
                Optimal,
                "volume cancel-flush v",
            ),
            (
                "its pool is taken away",
                CacheFacts { flushed_for: Some(FlushPurpose::DeletePool), ..good },
                Flushing,
                Optimal,
                "pool cancel-flush p",
            ),
            (
                "its backing device fails",
                CacheFacts { health: Health::Degraded, ..good },
                Online,
                Degraded,
                "backing device",
            ),
            ("its backing device is away", CacheFacts { offline: true, ..good }, Offline, Failed, "backing device"),
            ("its pool is away", CacheFacts { pool: None, ..good }, Offline, Failed, "pool"),
            (
                "something is lost",
                CacheFacts { health: Health::Degraded, has_lost: true, ..good },
                Online,
                Degraded,
                "recover p --accept-loss",
            ),
            (
                "something is lost, and its backing device fails",
                CacheFacts { health: Health::Failed, has_lost: true, ..good },
                Offline,
                Failed,
                "backing device",
            ),
            (
                "another backing device",
                CacheFacts { fenced: Some(FenceCause::OtherBacking), ..good },
                Offline,
                Failed,
                "put the right backing device back",
            ),
            (
                "nobody knows what is lost",
                CacheFacts { fenced: Some(FenceCause::UnknownLoss), ..good },
                Offline,
                Failed,
                "recover p --accept-loss",
            ),
        ] {
            let is = cache(facts);
            assert_eq!((is.state, is.health), (state, health), "{what}");
            assert_eq!(is.reason.is_empty(), (state, health) == (Online, Optimal), "{what}: {}", is.reason);
            assert_eq!(is.action.is_empty(), action.is_empty(), "{what}: {}", is.action);
            assert!(is.action.contains(action), "{what}: {}", is.action);
        }
        assert_eq!(cache(CacheFacts { pool: Some(&fewer), ..good }).reason, "the pool is ill");
    }
}
