//! What the words for pools, SSDs and the caches of volumes mean: from facts to a state, a health and the action to take.
//! Pure, so that one table can say it all.

use hotset_api::{CacheHealth, CacheState, Health, PoolKind, PoolState, SsdHealth, SsdState};
use hotset_cache::FenceCause;

/// What is known of an open pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolFacts<'a> {
    pub(super) name: &'a str,
    pub(super) kind: PoolKind,
    /// The engine's.
    pub(super) health: Health,
    pub(super) ssds_online: usize,
    /// SSDs that failed or are missing, and have no successor.
    pub(super) ssds_gone: usize,
    /// All of it is flushed, to be deleted or converted.
    pub(super) flushing: bool,
    /// Copies are made of what has lost one.
    pub(super) rebuilding: bool,
    /// Two copies cannot be kept: new writes go past the cache.
    pub(super) write_caching_off: bool,
    pub(super) dirty_bytes: u64,
}

/// The state of an open pool, its health, and what to do.
pub(super) fn pool(facts: PoolFacts<'_>) -> (PoolState, Health, String) {
    let PoolFacts { name, kind, .. } = facts;
    let missed = facts.ssds_gone > 0;
    let health = if missed { facts.health.max(Health::Degraded) } else { facts.health };
    let replace = || {
        format!(
            "`hotset pool add-ssd {name} --ssd PATH` puts a new SSD in its place; `hotset pool remove-ssd {name} --ssd PATH` \
             makes the pool do without it"
        )
    };
    if facts.flushing {
        let action = format!("wait, or keep the pool as it is with `hotset pool cancel-flush {name}`");
        return (PoolState::Flushing, health, action);
    }
    if facts.ssds_online == 0 {
        let action = format!("replace its SSDs, then `hotset pool delete {name}` and make it anew");
        return (PoolState::Online, health.max(Health::Failed), action);
    }
    if kind == PoolKind::ReadWrite && facts.write_caching_off {
        let state = if facts.dirty_bytes > 0 { PoolState::Flushing } else { PoolState::Online };
        let action = format!("`hotset pool add-ssd {name} --ssd PATH`: the pool heals and caches writes again");
        return (state, health.max(Health::Degraded), action);
    }
    let state = if facts.rebuilding { PoolState::Rebuilding } else { PoolState::Online };
    let action = match (facts.rebuilding, missed, health) {
        (true, true, _) => format!("wait until all has two copies again; then {}", replace()),
        (true, false, _) => "wait: it ends by itself".to_owned(),
        (false, true, _) => replace(),
        (false, false, Health::Good) => String::new(),
        (false, false, Health::Degraded | Health::Failed) => "see the reason, and the log of the daemon".to_owned(),
    };
    (state, health, action)
}

/// What is known of an SSD of an open pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct SsdFacts {
    pub(super) online: bool,
    pub(super) missing: bool,
    pub(super) rebuilding: bool,
    /// It is being emptied.
    pub(super) leaving: bool,
}

pub(super) fn ssd_state(facts: SsdFacts) -> SsdState {
    match (facts.online, facts.missing) {
        (true, _) if facts.leaving => SsdState::Flushing,
        (true, _) if facts.rebuilding => SsdState::Rebuilding,
        (true, _) => SsdState::Online,
        (false, true) => SsdState::Missing,
        (false, false) => SsdState::Expelled,
    }
}

/// What to do about an SSD.
pub(super) fn ssd_action(state: SsdState, pool: &str, path: &str, health: SsdHealth) -> String {
    match (state, health) {
        (SsdState::Flushing, _) => format!("wait, or keep it with `hotset pool cancel-remove {pool}`"),
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
        (SsdState::Rebuilding, SsdHealth::Good | SsdHealth::Failed) => "wait: it ends by itself".to_owned(),
        (SsdState::Online, SsdHealth::Good | SsdHealth::Failed) => String::new(),
    }
}

/// What is known of a volume that has a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheFacts<'a> {
    pub(super) volume: &'a str,
    pub(super) pool_name: &'a str,
    /// The volume's own, without the pool's: its backing device.
    pub(super) health: Health,
    /// Why hosts cannot use it, if so.
    pub(super) fenced: Option<FenceCause>,
    /// Something of it was lost with SSDs: reads of that fail, nothing else does.
    pub(super) has_lost: bool,
    /// It is not open, or its pool is not.
    pub(super) offline: bool,
    /// Its cache is flushed, to be taken away.
    pub(super) flushing: bool,
    /// Of its pool; `None` while that is not open.
    pub(super) pool: Option<(PoolState, Health, &'a str)>,
    /// Of its pool: new writes go past the cache.
    pub(super) write_caching_off: bool,
}

/// The state of a volume's cache, its health, and what to do.
pub(super) fn cache(facts: CacheFacts<'_>) -> (CacheState, CacheHealth, String) {
    let CacheFacts { volume, pool_name, .. } = facts;
    if let Some(cause) = facts.fenced {
        return (CacheState::Offline, CacheHealth::Failed, unfence(cause, volume, pool_name));
    }
    let Some((pool_state, pool_health, pool_action)) = facts.pool.filter(|_| !facts.offline) else {
        let action = match facts.pool {
            Some(_) => "make its backing device available: it is tried every 5 s".to_owned(),
            None => "bring its pool back: see the pool".to_owned(),
        };
        return (CacheState::Offline, CacheHealth::Failed, action);
    };
    if facts.flushing {
        let action = format!("wait, or keep its cache with `hotset volume cancel-flush {volume}`");
        return (CacheState::Flushing, cache_health(facts.health, pool_health, facts.write_caching_off), action);
    }
    let health = cache_health(facts.health, pool_health, facts.write_caching_off);
    let state = match (pool_state, health) {
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
    let action = match (facts.health, facts.has_lost) {
        (Health::Good, _) => pool_action.to_owned(),
        (Health::Degraded, true) => format!(
            "`hotset pool recover {pool_name}` lists what is lost; write it again, from a backup, or give it up with `hotset pool \
             recover {pool_name} --accept-loss`"
        ),
        (Health::Degraded, false) | (Health::Failed, _) => {
            "look after its backing device; the volume is opened anew when the daemon \
                                              restarts"
                .to_owned()
        }
    };
    (state, health, action)
}

fn unfence(cause: FenceCause, volume: &str, pool: &str) -> String {
    let give_up = format!("`hotset volume disable-cache {volume} --force --yes-lose-data`");
    match cause {
        FenceCause::OtherBacking => {
            format!(
                "put the right backing device back and restart the daemon; or give its dirty data up with {give_up}"
            )
        }
        FenceCause::UnknownLoss => format!(
            "`hotset pool recover {pool} --accept-loss` goes on with what is left, which may be older; or bring back the state \
             directory as it was and restart the daemon; or do without the cache with {give_up}"
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
        ssds_online: 3,
        ssds_gone: 0,
        flushing: false,
        rebuilding: false,
        write_caching_off: false,
        dirty_bytes: 0,
    };

    // proves: P9
    #[test]
    fn a_pool_has_each_state_and_each_health_for_a_reason_and_says_what_to_do() {
        use Health::{Degraded, Failed, Good};
        let rebuilding = PoolFacts { health: Degraded, ssds_gone: 1, ssds_online: 2, rebuilding: true, ..POOL };
        let alone = PoolFacts { health: Degraded, ssds_gone: 1, ssds_online: 1, write_caching_off: true, ..POOL };
        let read = PoolFacts { kind: PoolKind::Read, ..POOL };
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
                "no SSD",
                PoolFacts { ssds_online: 0, health: Failed, ..read },
                PoolState::Online,
                Failed,
                "replace its SSDs",
            ),
            (
                "an SSD of a read pool is gone",
                PoolFacts { ssds_gone: 1, health: Degraded, ..read },
                PoolState::Online,
                Degraded,
                "remove-ssd p",
            ),
            ("on its way out", PoolFacts { flushing: true, ..POOL }, PoolState::Flushing, Good, "cancel-flush p"),
        ] {
            let (is, well, advice) = pool(facts);
            assert_eq!((is, well), (state, health), "{what}");
            assert_eq!(advice.is_empty(), action.is_empty(), "{what}: {advice}");
            assert!(advice.contains(action), "{what}: {advice}");
        }
    }

    // proves: P10
    #[test]
    fn an_ssd_has_each_state_and_says_what_to_do() {
        let facts = SsdFacts { online: true, missing: false, rebuilding: false, leaving: false };
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
            (SsdFacts { missing: true, ..gone }, SsdHealth::Good, SsdState::Missing, "add-ssd p"),
            (gone, SsdHealth::Failed, SsdState::Expelled, "--ssd /a"),
        ] {
            let advice = ssd_action(state, "p", "/a", health);
            assert_eq!(ssd_state(facts), state);
            assert_eq!(advice.is_empty(), action.is_empty(), "{state:?}: {advice}");
            assert!(advice.contains(action), "{state:?}: {advice}");
        }
    }

    // proves: P11
    #[test]
    fn the_cache_of_a_volume_has_each_state_and_each_health_and_says_what_to_do() {
        use CacheHealth::{Degraded, Failed, Optimal, PartiallyOptimal};
        use CacheState::{Flushing, Offline, Online, Rebuilding};
        let good = CacheFacts {
            volume: "v",
            pool_name: "p",
            health: Health::Good,
            fenced: None,
            has_lost: false,
            offline: false,
            flushing: false,
            pool: Some((PoolState::Online, Health::Good, "")),
            write_caching_off: false,
        };
        let of = |state, health| Some((state, health, "mend the pool"));
        let lame = CacheFacts { write_caching_off: true, ..good };
        for (what, facts, state, health, action) in [
            ("good", good, Online, Optimal, ""),
            (
                "fewer SSDs",
                CacheFacts { pool: of(PoolState::Online, Health::Degraded), ..good },
                Online,
                PartiallyOptimal,
                "mend the pool",
            ),
            (
                "copies are made",
                CacheFacts { pool: of(PoolState::Rebuilding, Health::Degraded), ..good },
                Rebuilding,
                Degraded,
                "mend the pool",
            ),
            (
                "two copies cannot be kept",
                CacheFacts { pool: of(PoolState::Flushing, Health::Degraded), ..lame },
                Flushing,
                Degraded,
                "mend the pool",
            ),
            (
                "no SSD is left",
                CacheFacts { pool: of(PoolState::Online, Health::Failed), ..good },
                Offline,
                Failed,
                "mend",
            ),
            ("taken away", CacheFacts { flushing: true, ..good }, Flushing, Optimal, "cancel-flush v"),
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
            let (is, well, advice) = cache(facts);
            assert_eq!((is, well), (state, health), "{what}");
            assert_eq!(advice.is_empty(), action.is_empty(), "{what}: {advice}");
            assert!(advice.contains(action), "{what}: {advice}");
        }
    }
}
