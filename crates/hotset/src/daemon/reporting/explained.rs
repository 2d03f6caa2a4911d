//! Where a page is now, why reads of it missed, and what would get it into the cache, in words.

use hotset_api as api;
use hotset_api::ApiError;
use hotset_cache::config::PoolName;
use hotset_cache::{Explanation, FillState, InPool, LogCopy, Missed, SlotCopy};

use super::status::Reporting;
use crate::words::miss_reason;

impl Reporting {
    /// Of the page of a volume in which this byte lies.
    pub(crate) async fn explain(&self, name: &str, offset: u64) -> Result<api::Explanation, ApiError> {
        let status = self.records.open_volume_status(name).await?;
        let name = status.name.clone();
        let plane = self.records.plane.of_volume(&name);
        let explanation = plane.call(move |plane| plane.explain(status.name, offset)).await?;
        Ok(explained(name.as_str(), status.pool.as_ref(), explanation))
    }
}

fn explained(volume: &str, pool: Option<&PoolName>, known: Explanation) -> api::Explanation {
    let (now, then) = (now(&known), then(&known));
    let places = |(pool, places): (&PoolName, InPool)| api::PagePlaces {
        pool: pool.to_string(),
        block: places.block,
        in_log: places.in_log.map(|LogCopy { row, ssds, dirty, zeroes, unavailable }| api::LogCopy {
            row,
            ssds,
            dirty,
            zeroes,
            unavailable,
        }),
        in_slot: places.in_slot.map(|SlotCopy { ssd, slot, has_page, published }| api::SlotCopy {
            ssd,
            slot,
            has_page,
            published,
        }),
        reads_counted: places.reads_counted,
        writes_counted: places.writes_counted,
        populate_on_read: places.populate_on_read,
        populate_on_write: places.populate_on_write,
        fill_waits: places.fill == FillState::Waits,
        fill_runs: places.fill == FillState::Runs,
        was_evicted: places.was_evicted,
        hindrance: places.hindrance.map(miss_reason),
    };
    api::Explanation {
        volume: volume.to_owned(),
        page_offset: known.page_bytes,
        in_memory: known.in_memory,
        in_pool: pool.zip(known.in_pool).map(places),
        last_missed: known.last_missed.map(miss_reason),
        would_miss: known.would_miss.map(miss_reason),
        now,
        then,
    }
}

/// Where a read is answered from.
fn now(known: &Explanation) -> String {
    let below = match &known.in_pool {
        None => "the backing device".to_owned(),
        Some(InPool { in_log: Some(copy), .. }) => in_log(copy),
        Some(InPool { in_slot: Some(SlotCopy { ssd, slot, has_page: true, .. }), .. }) => {
            format!("slot {slot} of SSD {ssd}")
        }
        Some(InPool { in_slot: Some(_), .. }) => {
            "the backing device: its block is cached, but a host has written to this page since".to_owned()
        }
        Some(_) => "the backing device".to_owned(),
    };
    if known.in_memory { format!("memory; below that {below}") } else { below }
}

fn in_log(copy: &LogCopy) -> String {
    let LogCopy { row, ssds, dirty, zeroes, unavailable } = copy;
    let state = if *dirty { "dirty" } else { "clean" };
    match (unavailable, zeroes) {
        (true, _) => format!("nowhere: it is unavailable, row {row} of the write log had it"),
        (false, true) => format!("the write log, row {row}: zeroes, {state}"),
        (false, false) => format!("the write log, row {row}, on {}, {state}", ssds.join(" and ")),
    }
}

/// What would get it into the cache of its pool; empty if it is there.
fn then(known: &Explanation) -> String {
    let Some(places) = &known.in_pool else {
        return if known.in_memory { String::new() } else { "enable the cache of the volume".to_owned() };
    };
    if places.in_log.is_some() || places.in_slot.as_ref().is_some_and(|slot| slot.has_page) {
        return String::new();
    }
    if known.read_cache_off {
        return "reads of the volume do not use the cache: set read-cache=on".to_owned();
    }
    match places.fill {
        FillState::Runs => return "its block is being read into the cache".to_owned(),
        FillState::Waits => {
            return "its block waits for its turn; a higher fetch rate of the pool shortens that".to_owned();
        }
        FillState::None => {}
    }
    let more = places.populate_on_read.saturating_sub(places.reads_counted).max(1);
    let reads = if more == 1 { "one more read".to_owned() } else { format!("{more} more reads") };
    match places.hindrance.map(hindrance) {
        Some(hindrance) => format!("{reads} of its block, and {hindrance}"),
        None => format!("{reads} of its block that miss and belong to no stream past the cut-off"),
    }
}

/// What has to change first.
fn hindrance(missed: Missed) -> &'static str {
    match missed {
        Missed::WearLimit => {
            "the SSDs have written what they may in a day: they take more tomorrow, or with a higher limit"
        }
        Missed::Share => "the volume has all of its share and nothing to evict: raise cache-max",
        Missed::NoRoom => "no slot is free now: they are made free all the time",
        Missed::Degraded
        | Missed::FirstTouch
        | Missed::BelowThreshold
        | Missed::Evicted
        | Missed::Overwritten
        | Missed::Stream
        | Missed::FetchRate
        | Missed::Off => "the pool populates nothing until what is wrong with it is put right; its status says what",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> InPool {
        InPool {
            block: 3,
            in_log: None,
            in_slot: None,
            reads_counted: 1,
            writes_counted: 0,
            populate_on_read: 2,
            populate_on_write: 0,
            fill: FillState::None,
            was_evicted: false,
            hindrance: None,
            would_miss: None,
        }
    }

    fn said(in_memory: bool, in_pool: Option<InPool>) -> (String, String) {
        let known = Explanation {
            page_bytes: 0,
            in_memory,
            in_pool,
            last_missed: None,
            would_miss: None,
            read_cache_off: false,
        };
        let api = explained("v", Some(&"p".parse().unwrap()), known);
        (api.now, api.then)
    }

    // proves: A6
    #[test]
    fn where_a_page_is_and_what_would_get_it_in_is_told_in_words() {
        let (now, then) = said(false, None);
        assert!(now.contains("backing device") && then.contains("enable the cache"), "{now}; {then}");
        let (now, then) = said(true, Some(places()));
        assert!(
            now.starts_with("memory; below that the backing") && then.starts_with("one more read"),
            "{now}; {then}"
        );
        let slot = |has_page| SlotCopy { ssd: "/dev/s".to_owned(), slot: 9, has_page, published: true };
        let (now, then) = said(false, Some(InPool { in_slot: Some(slot(true)), ..places() }));
        assert_eq!((now.as_str(), then.as_str()), ("slot 9 of SSD /dev/s", ""));
        let (now, then) = said(false, Some(InPool { in_slot: Some(slot(false)), reads_counted: 0, ..places() }));
        assert!(now.contains("written to this page") && then.starts_with("2 more reads"), "{now}; {then}");
        let copy = LogCopy {
            row: 7,
            ssds: vec!["a".to_owned(), "b".to_owned()],
            dirty: true,
            zeroes: false,
            unavailable: false,
        };
        let (now, _) = said(false, Some(InPool { in_log: Some(copy), ..places() }));
        assert_eq!(now, "the write log, row 7, on a and b, dirty");
        let (_, then) = said(false, Some(InPool { hindrance: Some(Missed::WearLimit), ..places() }));
        assert!(then.contains("in a day"), "{then}");
        let (_, then) = said(false, Some(InPool { fill: FillState::Waits, ..places() }));
        assert!(then.contains("waits for its turn"), "{then}");
    }
}
