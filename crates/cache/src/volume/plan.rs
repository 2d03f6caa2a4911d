//! Where the pages of a request are: log over slot over backing device.

use std::ops::Range;

use hotset_block::Env;

use crate::address::{BlockKey, SlotIndex, VolumeIndex};
use crate::clean::BlockLookup;
use crate::log::run::LogRun;
use crate::volume::place::PoolRooms;

/// Where consecutive pages of a request are.
pub(super) enum Source {
    /// The slot, and the block that it holds.
    Slot(SlotIndex, BlockKey),
    Log(LogRun),
    Backing,
}

pub(super) struct Run {
    pub(super) source: Source,
    pub(super) pages: Range<u64>,
}

impl Run {
    pub(super) fn is_cached(&self) -> bool {
        !matches!(self.source, Source::Backing)
    }

    pub(super) fn is_of_log(&self) -> bool {
        matches!(self.source, Source::Log(_))
    }
}

/// Where the pages of a request are.
pub(super) enum Plan {
    /// All in one slot.
    Hit(SlotIndex, BlockKey),
    /// None in the cache.
    Miss,
    Mixed(Vec<Run>),
}

impl Plan {
    /// Whether all pages lie in slots: then the backing device has the same.
    pub(super) fn is_clean(&self) -> bool {
        match self {
            Self::Hit(..) => true,
            Self::Miss => false,
            Self::Mixed(runs) => runs.iter().all(|run| matches!(run.source, Source::Slot(..))),
        }
    }
}

impl<E: Env> PoolRooms<E> {
    /// Finds where pages are now, and tells the policy what is hit.
    pub(super) fn plan(&self, volume: VolumeIndex, pages: &Range<u64>) -> Plan {
        let live = self.log.as_ref().is_some_and(|log| log.any_live(volume, pages));
        if !live && let Some(block) = self.blocks.one_of(pages) {
            let key = BlockKey { volume, block };
            match self.clean.find(key, &self.blocks.within(pages)) {
                BlockLookup::Nothing => return Plan::Miss,
                BlockLookup::All(slot) => return Plan::Hit(slot, key),
                BlockLookup::Some => {}
            }
        }
        self.plan_runs(volume, pages)
    }

    /// Log over slot over backing device.
    fn plan_runs(&self, volume: VolumeIndex, pages: &Range<u64>) -> Plan {
        let mut runs: Vec<Run> = Vec::new();
        let mut start = pages.start;
        for live in self.log.iter().flat_map(|log| log.runs(volume, pages.clone(), |_| true)) {
            if start < live.pages.start {
                self.plan_clean_runs(&mut runs, volume, start..live.pages.start);
            }
            start = live.pages.end;
            runs.push(Run { pages: live.pages.clone(), source: Source::Log(live) });
        }
        if start < pages.end {
            self.plan_clean_runs(&mut runs, volume, start..pages.end);
        }
        if runs.iter().any(Run::is_cached) { Plan::Mixed(runs) } else { Plan::Miss }
    }

    /// Of pages that have no live copy in the log.
    fn plan_clean_runs(&self, runs: &mut Vec<Run>, volume: VolumeIndex, pages: Range<u64>) {
        self.clean.find_runs(volume, pages, |pages, slot| {
            let source = slot.map_or(Source::Backing, |(slot, key)| Source::Slot(slot, key));
            push_run(runs, Run { source, pages });
        });
    }
}

/// Appends a run, or lengthens the last one.
fn push_run(runs: &mut Vec<Run>, run: Run) {
    let Some(last) = runs.last_mut().filter(|last| last.pages.end == run.pages.start) else {
        runs.push(run);
        return;
    };
    let same = match (&last.source, &run.source) {
        (Source::Backing, Source::Backing) => true,
        (Source::Slot(slot, key), Source::Slot(other, other_key)) => (slot, key) == (other, other_key),
        (Source::Slot(..) | Source::Log(_) | Source::Backing, _) => false,
    };
    if same {
        last.pages.end = run.pages.end;
    } else {
        runs.push(run);
    }
}
