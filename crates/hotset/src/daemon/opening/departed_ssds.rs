//! SSDs that have left their pools. One that was missing comes back by itself, empty; one that failed is not used again before
//! the administrator says so.

use hotset_cache::{FailedSsd, SsdStatus};

use crate::daemon::naming::uuid;
use crate::daemon::state::{LeftRecord, PoolRecord, SsdRecord};

impl LeftRecord {
    pub(crate) fn of(ssd: &SsdStatus) -> Self {
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

pub(crate) fn failed(left: &LeftRecord) -> Option<FailedSsd> {
    let ssd_uuid = u128::from_str_radix(&left.ssd.uuid, 16).ok()?;
    Some(FailedSsd { path: left.ssd.path.clone(), uuid: ssd_uuid, reason: left.failed.clone()? })
}

/// Brings a record up to date with what an open pool says of its SSDs. The pool names those that failed until another one is
/// in their place.
pub(crate) fn follow(left: &mut Vec<LeftRecord>, ssds: &[SsdStatus]) {
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
