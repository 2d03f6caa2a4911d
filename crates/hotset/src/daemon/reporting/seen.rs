//! What a status shows of pools, SSDs and volumes that are not good, as conditions.

use std::collections::BTreeSet;

use hotset_api::{
    CacheHealth, ConditionKind, Health, Pool, PoolState, Ssd, SsdHealth, SsdState, Subject, SubjectKind, Volume,
};
use hotset_cache::config::limits;

use super::conditions::joined;
use crate::daemon::register::Seen;

/// Of a pool and its SSDs. What its SSDs are while it is not open is said of the pool.
pub(crate) fn of_pool(pool: &Pool) -> Vec<Seen> {
    let itself = Seen {
        kind: ConditionKind::Pool,
        subject: Subject::new(SubjectKind::Pool, pool.name.as_str()),
        path: String::new(),
        pool: None,
        health: pool.health,
        reason: pool.reason.clone(),
        action: pool.action.clone(),
    };
    let ssds = pool.ssds.iter().filter(|_| pool.state != PoolState::Offline).map(|ssd| Seen {
        kind: ConditionKind::Ssd,
        subject: Subject::new(SubjectKind::Ssd, ssd.uuid.as_str()),
        path: ssd.path.clone(),
        pool: Some(pool.name.clone()),
        // What it means for hosts is said of the pool.
        health: ssd_health(ssd).min(Health::Degraded),
        reason: ssd.reason.clone(),
        action: ssd.action.clone(),
    });
    std::iter::once(itself).chain(ssds).filter(|seen| seen.health != Health::Good).collect()
}

/// A pool is not good while one of its SSDs is not. Of those that are out of use it says so itself, if it is not good.
/// `moved`: paths of those of which the pool says already what to do. What is to be done about several is said once.
pub(super) fn blame_ssds(pool: &mut Pool, moved: &BTreeSet<String>) {
    if pool.state == PoolState::Offline {
        return;
    }
    let was_good = pool.health == Health::Good;
    let mut told = Vec::new();
    for ssd in pool.ssds.iter().filter(|ssd| ssd_health(ssd) != Health::Good && (was_good || ssd.online)) {
        pool.health = pool.health.max(Health::Degraded);
        pool.reason = joined(&pool.reason, &format!("SSD {}: {}", ssd.path, ssd.reason));
        let what = (ssd.state, ssd.health, names_the_ssd(ssd).then_some(&ssd.path));
        if !moved.contains(&ssd.path) && !told.contains(&what) {
            pool.action = joined(&pool.action, &ssd.action);
            told.push(what);
        }
    }
}

/// Whether what is to be done about an SSD is about that one alone.
fn names_the_ssd(ssd: &Ssd) -> bool {
    match (ssd.state, ssd.health) {
        (SsdState::Silent | SsdState::NoSpace | SsdState::Flushing | SsdState::Offline, _) => false,
        (SsdState::ReadOnly | SsdState::Missing | SsdState::Expelled, _) => true,
        (SsdState::Online | SsdState::Rebuilding, SsdHealth::ErrorAlert) => true,
        (
            SsdState::Online | SsdState::Rebuilding,
            SsdHealth::Good | SsdHealth::Unknown | SsdHealth::Failed | SsdHealth::ReadErrors,
        ) => false,
    }
}

/// Of a volume.
pub(crate) fn of_volume(volume: &Volume) -> Vec<Seen> {
    of_itself(volume).into_iter().chain(of_end(volume)).collect()
}

fn of_itself(volume: &Volume) -> Option<Seen> {
    (volume.health != Health::Good).then(|| Seen {
        kind: ConditionKind::Volume,
        subject: Subject::new(SubjectKind::Volume, volume.name.as_str()),
        path: String::new(),
        pool: None,
        health: volume.health,
        reason: volume.reason.clone(),
        action: volume.action.clone(),
    })
}

/// Of a volume that is smaller than its backing device.
fn of_end(volume: &Volume) -> Option<Seen> {
    let (name, unserved) = (&volume.name, volume.unserved_bytes);
    (unserved > 0).then(|| Seen {
        kind: ConditionKind::EndNotServed,
        subject: Subject::new(SubjectKind::Volume, name.as_str()),
        path: String::new(),
        pool: None,
        health: Health::Degraded,
        reason: format!("hosts do not see the last {unserved} bytes of {}: they are no whole block", volume.backing),
        action: format!(
            "`hotset volume delete {name}` when its hosts have stopped, and attach its backing device again: with --block \
             512 all of it is served, if it is a file"
        ),
    })
}

/// Of records that cannot be read.
pub(super) fn of_records(broken: &[String]) -> Option<Seen> {
    (!broken.is_empty()).then(|| Seen {
        kind: ConditionKind::RecordUnreadable,
        subject: Subject::new(SubjectKind::Daemon, ""),
        path: String::new(),
        pool: None,
        health: Health::Failed,
        reason: broken.join("; "),
        action: "bring the file back as it was: records are read again every 5 s".to_owned(),
    })
}

/// Of pools that the scan found and that are not opened: hosts do not get what they have.
pub(super) fn of_not_opened(reasons: &[String]) -> Option<Seen> {
    (!reasons.is_empty()).then(|| Seen {
        kind: ConditionKind::PoolNotOpened,
        subject: Subject::new(SubjectKind::Daemon, ""),
        path: String::new(),
        pool: None,
        health: Health::Degraded,
        reason: format!("found by the scan, and not opened: {}", reasons.join("; ")),
        action: "mend what the reason says, then restart the daemon, or open it with `hotset pool import`; or take its SSDs out \
                 of `ssd_scan`, if nobody needs it here"
            .to_owned(),
    })
}

/// How bad it is with a volume and its cache.
pub(super) fn volume_health(volume: &Volume) -> Health {
    let of_cache = match volume.cache_health {
        None | Some(CacheHealth::Optimal) => Health::Good,
        Some(CacheHealth::PartiallyOptimal | CacheHealth::Degraded) => Health::Degraded,
        Some(CacheHealth::Failed) => Health::Failed,
    };
    volume.health.max(of_cache)
}

/// How bad it is with an SSD.
pub(super) fn ssd_health(ssd: &Ssd) -> Health {
    let of_state = match ssd.state {
        // What that means is said of the pool.
        SsdState::Online | SsdState::Rebuilding | SsdState::Flushing | SsdState::Offline => Health::Good,
        SsdState::Missing | SsdState::Silent => Health::Degraded,
        SsdState::ReadOnly | SsdState::NoSpace | SsdState::Expelled => Health::Failed,
    };
    let of_health = match ssd.health {
        SsdHealth::Good | SsdHealth::Unknown => Health::Good,
        SsdHealth::ReadErrors if ssd.read_errors < limits::SSD_READ_ERRORS_WARN => Health::Good,
        SsdHealth::ReadErrors | SsdHealth::ErrorAlert => Health::Degraded,
        SsdHealth::Failed => Health::Failed,
    };
    of_state.max(of_health)
}

#[cfg(test)]
mod tests {
    use hotset_api::DeviceIo;

    use super::*;
    use crate::daemon::reporting::conditions::ssd_action;

    fn ssd(path: &str, state: SsdState) -> Ssd {
        Ssd {
            path: path.to_owned(),
            uuid: String::new(),
            size_bytes: 0,
            disk: String::new(),
            online: true,
            state,
            evacuation: None,
            health: SsdHealth::Good,
            identity: hotset_api::SsdIdentity::default(),
            smart: hotset_api::Smart::default(),
            reason: "it does not answer".to_owned(),
            action: ssd_action(state, "p", path, SsdHealth::Good),
            slots: 0,
            slots_used: 0,
            read_errors: 0,
            lost_writes: false,
            written_bytes: 0,
            io: DeviceIo::default(),
        }
    }

    #[test]
    fn what_is_to_be_done_about_several_ssds_is_said_once_and_what_is_about_one_of_each() {
        let said = |ssds: Vec<Ssd>, moved: &[&str]| {
            let settings = hotset_cache::config::PoolSettings::preset(
                hotset_cache::config::PoolKind::Read,
                hotset_cache::config::IoType::Custom,
            );
            let mut pool =
                crate::daemon::reporting::status::with_settings(hotset_cache::config::PoolKind::Read, settings);
            (pool.state, pool.health, pool.ssds) = (PoolState::Online, Health::Good, ssds);
            blame_ssds(&mut pool, &moved.iter().map(|path| (*path).to_owned()).collect());
            (pool.reason.matches("SSD /").count(), pool.action)
        };
        let silent = || vec![ssd("/a", SsdState::Silent), ssd("/b", SsdState::Silent)];
        let (reasons, action) = said(silent(), &[]);
        assert_eq!((reasons, action.matches("goes on by itself").count()), (2, 1), "{action}");
        let (reasons, action) = said(vec![ssd("/a", SsdState::Missing), ssd("/b", SsdState::Missing)], &[]);
        assert_eq!((reasons, action.matches("forgets it").count()), (2, 2), "{action}");
        assert_eq!(said(silent(), &["/a", "/b"]), (2, String::new()), "the pool says it already");
    }
}
