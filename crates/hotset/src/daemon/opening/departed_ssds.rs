//! SSDs that have left their pools. One that was missing comes back by itself, empty; one that failed is not used again before
//! the administrator says so.

use hotset_cache::{FailedSsd, SsdStatus};

use crate::daemon::naming::uuid;
use crate::daemon::state::{LeftRecord, PoolRecord, SsdRecord};
use crate::words;

impl LeftRecord {
    pub(crate) fn of(ssd: &SsdStatus) -> Self {
        Self {
            ssd: SsdRecord { path: ssd.path.clone(), uuid: uuid(ssd.uuid) },
            failed: ssd.has_failed_for_good().then(|| words::ssd_reason(ssd.reason.as_ref())),
            replaced: false,
        }
    }
}

impl PoolRecord {
    /// An SSD that failed, and that nobody has added again since.
    pub(crate) fn has_failed(&self, ssd_uuid: &str) -> bool {
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
            // What was silent, or took no writes, may have failed since.
            (false, Some(place)) if left[place].failed.is_none() => left[place] = LeftRecord::of(ssd),
            (true, None) | (false, Some(_)) => {}
        }
    }
    for known in left.iter_mut().filter(|known| known.failed.is_some()) {
        known.replaced = !ssds.iter().any(|ssd| uuid(ssd.uuid) == known.ssd.uuid);
    }
}

#[cfg(test)]
mod tests {
    use hotset_cache::{OutOfUse, Refusal, SsdReason};

    use super::*;

    fn status() -> SsdStatus {
        SsdStatus {
            path: "/dev/a".to_owned(),
            uuid: 7,
            size_bytes: 1 << 30,
            online: false,
            missing: false,
            failed: true,
            disk: String::new(),
            silent: false,
            refuses: None,
            rebuilding: false,
            evacuation: None,
            reason: Some(SsdReason::OutOfUse { why: OutOfUse::DidNotAnswer { seconds: 30 } }),
            slots: 0,
            slots_used: 0,
            read_errors: 0,
            lost_writes: false,
            bytes_written: 0,
            io: hotset_cache::DeviceIo::default(),
        }
    }

    #[test]
    fn what_may_pass_is_no_failure_for_later_runs_until_it_is_one() {
        let passing = [
            SsdStatus { refuses: Some(Refusal::ReadOnly), ..status() },
            SsdStatus { refuses: Some(Refusal::NoSpace), ..status() },
            SsdStatus { silent: true, ..status() },
            SsdStatus { failed: false, missing: true, ..status() },
        ];
        for ssd in passing {
            let mut left = Vec::new();
            follow(&mut left, std::slice::from_ref(&ssd));
            assert_eq!(left.iter().map(|left| &left.failed).collect::<Vec<_>>(), [&None], "{ssd:?}");
            follow(&mut left, &[status()]);
            assert_eq!(left[0].failed.as_deref(), Some("it did not answer for 30 s"), "{ssd:?}");
            follow(&mut left, &[SsdStatus { online: true, ..status() }]);
            assert!(left.is_empty());
        }
        let refused = SsdStatus { refuses: Some(Refusal::Failed), ..status() };
        assert!(LeftRecord::of(&refused).failed.is_some(), "it answered a write with an error");
    }
}
