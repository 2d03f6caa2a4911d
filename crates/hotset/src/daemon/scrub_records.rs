//! What lasts of scrubs: where one is that is under way, so that a later run goes on with it, and when a whole one has ended.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotset_cache::config::PoolName;
use hotset_cache::{PoolStatus, ScrubState, ScrubStatus, UnfinishedScrub};
use serde::{Deserialize, Serialize};

use crate::daemon::naming::uuid;

/// Of one pool, as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScrubRecord {
    /// Of the pool: 32 hexadecimal digits. Another pool of this name knows nothing of it.
    pub(crate) uuid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) whole_ended_unix_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) under_way: Option<ScrubUnderWay>,
}

/// How far a scrub is, as it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScrubUnderWay {
    slots_checked: u32,
    epoch: u64,
    checked_bytes: u64,
    total_bytes: u64,
    bad_pages: u64,
    repaired_pages: u64,
    dropped_pages: u64,
    lost_pages: u64,
    seconds: u64,
}

impl ScrubUnderWay {
    fn of(unfinished: UnfinishedScrub) -> Self {
        let UnfinishedScrub { found, slots_checked, epoch } = unfinished;
        Self {
            slots_checked,
            epoch,
            checked_bytes: found.checked_bytes,
            total_bytes: found.total_bytes,
            bad_pages: found.bad_pages,
            repaired_pages: found.repaired_pages,
            dropped_pages: found.dropped_pages,
            lost_pages: found.lost_pages,
            seconds: found.seconds,
        }
    }

    fn unfinished(self) -> UnfinishedScrub {
        let found = ScrubStatus {
            state: ScrubState::Running,
            checked_bytes: self.checked_bytes,
            total_bytes: self.total_bytes,
            bad_pages: self.bad_pages,
            repaired_pages: self.repaired_pages,
            dropped_pages: self.dropped_pages,
            lost_pages: self.lost_pages,
            seconds: self.seconds,
            ended_unix_seconds: 0,
        };
        UnfinishedScrub { found, slots_checked: self.slots_checked, epoch: self.epoch }
    }
}

/// What is asked of a pool that is open.
#[derive(Clone, Debug)]
pub(crate) struct PoolOfScrub {
    name: PoolName,
    uuid: u128,
    epoch: u64,
    scrub: ScrubStatus,
}

impl PoolOfScrub {
    pub(crate) fn of(pool: &PoolStatus) -> Self {
        Self { name: pool.name.clone(), uuid: pool.uuid, epoch: pool.epoch, scrub: pool.scrub }
    }
}

/// By the names of pools. See the file's summary.
#[derive(Debug, Default)]
pub(crate) struct ScrubRecords(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    records: BTreeMap<String, ScrubRecord>,
    /// They are not as they were written last.
    unsaved: bool,
}

impl ScrubRecords {
    pub(crate) fn of(records: BTreeMap<String, ScrubRecord>) -> Self {
        Self(Mutex::new(Known { records, unsaved: false }))
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One begins, or goes on.
    pub(crate) fn begins(&self, pool: &PoolOfScrub, unfinished: Option<UnfinishedScrub>) {
        let whole_ended_unix_ms = self.whole_ended_unix_ms(pool);
        let beginning = UnfinishedScrub { found: ScrubStatus::default(), slots_checked: 0, epoch: pool.epoch };
        let under_way = Some(ScrubUnderWay::of(unfinished.unwrap_or(beginning)));
        let mut known = self.known();
        known
            .records
            .insert(pool.name.to_string(), ScrubRecord { uuid: uuid(pool.uuid), whole_ended_unix_ms, under_way });
        known.unsaved = true;
    }

    /// How far the one is that runs. One that has ended meanwhile stays so.
    pub(crate) fn is_at(&self, pool: &PoolOfScrub, unfinished: UnfinishedScrub) {
        let mut known = self.known();
        let Some(record) = known.records.get_mut(pool.name.as_str()) else { return };
        let at = ScrubUnderWay::of(unfinished);
        if record.uuid == uuid(pool.uuid) && record.under_way.is_some_and(|before| before != at) {
            record.under_way = Some(at);
            known.unsaved = true;
        }
    }

    /// The one of that pool ended, or is not to go on. `whole`: it came to its end, and when.
    pub(crate) fn ended(&self, pool: &str, whole_ended_unix_ms: Option<u64>) {
        let mut known = self.known();
        let Some(record) = known.records.get_mut(pool) else { return };
        record.under_way = None;
        record.whole_ended_unix_ms = whole_ended_unix_ms.or(record.whole_ended_unix_ms);
        known.unsaved = true;
    }

    /// The pool is gone.
    pub(crate) fn forget(&self, pool: &str) {
        let mut known = self.known();
        known.unsaved |= known.records.remove(pool).is_some();
    }

    /// Some pool's has not ended.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.known().records.values().any(|record| record.under_way.is_some())
    }

    /// Where the one was that has not ended; `None`: there is none.
    pub(crate) fn unfinished(&self, pool: &PoolOfScrub) -> Option<UnfinishedScrub> {
        self.record(pool)?.under_way.map(ScrubUnderWay::unfinished)
    }

    /// When a scrub of the pool last came to its end, in this run or before; `None`: none is known.
    pub(crate) fn whole_ended_unix_ms(&self, pool: &PoolOfScrub) -> Option<u64> {
        let recorded = self.record(pool).and_then(|record| record.whole_ended_unix_ms);
        let last = (pool.scrub.state == ScrubState::Finished).then(|| pool.scrub.ended_unix_seconds * 1000);
        recorded.max(last)
    }

    fn record(&self, pool: &PoolOfScrub) -> Option<ScrubRecord> {
        self.known().records.get(pool.name.as_str()).filter(|record| record.uuid == uuid(pool.uuid)).cloned()
    }

    /// All, if they are not as this told last.
    pub(crate) fn unsaved(&self) -> Option<BTreeMap<String, ScrubRecord>> {
        let mut known = self.known();
        std::mem::take(&mut known.unsaved).then(|| known.records.clone())
    }

    /// They could not be written.
    pub(crate) fn are_unsaved(&self) {
        self.known().unsaved = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNFINISHED: UnfinishedScrub = UnfinishedScrub {
        found: ScrubStatus {
            state: ScrubState::Running,
            checked_bytes: 1,
            total_bytes: 2,
            bad_pages: 3,
            repaired_pages: 4,
            dropped_pages: 5,
            lost_pages: 6,
            seconds: 7,
            ended_unix_seconds: 0,
        },
        slots_checked: 8,
        epoch: 9,
    };

    fn pool(uuid: u128) -> PoolOfScrub {
        PoolOfScrub { name: "p".parse().unwrap(), uuid, epoch: 9, scrub: ScrubStatus::default() }
    }

    // proves: D15
    #[test]
    fn where_a_scrub_was_is_the_same_when_it_comes_back_from_the_record_and_another_pool_of_its_name_has_none() {
        let known = ScrubRecords::default();
        assert!(!known.has_unfinished());
        known.begins(&pool(1), None);
        assert!(known.has_unfinished());
        assert_eq!(known.unfinished(&pool(1)).map(|unfinished| unfinished.slots_checked), Some(0), "it has begun");
        known.is_at(&pool(1), UNFINISHED);
        let text = serde_json::to_string(&known.unsaved().unwrap()).unwrap();
        assert_eq!(known.unsaved(), None, "it is written already");
        let read = ScrubRecords::of(serde_json::from_str(&text).unwrap());
        assert_eq!((read.unfinished(&pool(1)), read.unfinished(&pool(2))), (Some(UNFINISHED), None));
    }

    // proves: D15
    #[test]
    fn a_scrub_that_has_ended_or_was_cancelled_stays_so_and_the_last_whole_one_is_known() {
        let known = ScrubRecords::default();
        known.begins(&pool(1), None);
        known.ended("p", Some(5000));
        assert!(!known.has_unfinished());
        known.is_at(&pool(1), UNFINISHED);
        assert_eq!((known.unfinished(&pool(1)), known.whole_ended_unix_ms(&pool(1))), (None, Some(5000)));
        known.begins(&pool(1), Some(UNFINISHED));
        known.ended("p", None);
        assert_eq!((known.unfinished(&pool(1)), known.whole_ended_unix_ms(&pool(1))), (None, Some(5000)));
        let finished = ScrubStatus { state: ScrubState::Finished, ended_unix_seconds: 6, ..ScrubStatus::default() };
        let of_an_earlier_version = PoolOfScrub { scrub: finished, ..pool(2) };
        assert_eq!(known.whole_ended_unix_ms(&of_an_earlier_version), Some(6000), "the engine knows the last one");
        known.forget("p");
        assert_eq!(known.whole_ended_unix_ms(&pool(1)), None);
    }
}
