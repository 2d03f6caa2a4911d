//! SSDs that have left their pools. One that was missing comes back by itself, empty; one that failed is not used again before
//! the administrator says so.

use hotset_api::ApiError;
use hotset_cache::config::PoolName;
use hotset_cache::{FailedSsd, PoolStatus, SsdStatus};

use super::{Manager, uuid};
use crate::daemon::state::{LeftRecord, PoolRecord, SsdRecord};

impl Manager {
    /// What is to be recorded of the SSDs that have left an open pool.
    pub(super) fn departed_ssds_of(&self, pool: &PoolStatus) -> Vec<LeftRecord> {
        let mut offline = self.offline();
        let left = offline.departed_ssds.entry(pool.name.to_string()).or_default();
        follow(left, &pool.ssds);
        left.clone()
    }

    /// Tells a pool that was just opened which SSDs failed before; answers its status with them.
    pub(super) async fn remember_failed(&self, name: &PoolName, record: &PoolRecord) -> Result<PoolStatus, ApiError> {
        let failed = record.left.iter().filter(|left| !left.replaced).filter_map(failed).collect();
        let name = name.clone();
        self.plane.of_pool(&name.clone()).call(move |plane| plane.remember_failed(name, failed)).await
    }

    /// SSDs at these paths are in the pool again, under new identities.
    pub(super) fn forget_departed_at(&self, pool: &str, paths: &[String]) {
        if let Some(left) = self.offline().departed_ssds.get_mut(pool) {
            left.retain(|left| !paths.contains(&left.ssd.path));
        }
    }

    /// The administrator wants the pool to do without these SSDs. Those that failed stay on record, so that they do not come back.
    pub(super) fn forget_missing(&self, pool: &str, is_meant: impl Fn(&str) -> bool) {
        if let Some(left) = self.offline().departed_ssds.get_mut(pool) {
            left.retain(|left| left.failed.is_some() || !is_meant(&left.ssd.uuid));
        }
    }
}

impl LeftRecord {
    pub(super) fn of(ssd: &SsdStatus) -> Self {
        Self {
            ssd: SsdRecord { path: ssd.path.clone(), uuid: uuid(ssd.uuid) },
            failed: ssd.failed.then(|| ssd.reason.clone()),
            replaced: false,
        }
    }
}

impl PoolRecord {
    /// An SSD that failed, and that nobody has added again since.
    pub(super) fn has_failed(&self, ssd_uuid: &str) -> bool {
        self.left.iter().any(|left| left.failed.is_some() && left.ssd.uuid == ssd_uuid)
    }
}

fn failed(left: &LeftRecord) -> Option<FailedSsd> {
    let ssd_uuid = u128::from_str_radix(&left.ssd.uuid, 16).ok()?;
    Some(FailedSsd { path: left.ssd.path.clone(), uuid: ssd_uuid, reason: left.failed.clone()? })
}

/// Brings a record up to date with what an open pool says of its SSDs. The pool names those that failed until another one is
/// in their place.
fn follow(left: &mut Vec<LeftRecord>, ssds: &[SsdStatus]) {
    for ssd in ssds {
        let known = left.iter().position(|known| known.ssd.uuid == uuid(ssd.uuid));
        match (ssd.online, known) {
            (true, Some(place)) => drop(left.remove(place)),
            (false, None) => left.push(LeftRecord::of(ssd)),
            (true, None) | (false, Some(_)) => {}
        }
    }
    for known in left.iter_mut().filter(|known| known.failed.is_some()) {
        known.replaced = !ssds.iter().any(|ssd| uuid(ssd.uuid) == known.ssd.uuid);
    }
}
