//! What is known of a volume's cleaning: who writes what is dirty to its backing device, from where on, and why that failed last.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use hotset_block::Instant;

use crate::error::Error;

/// Who cleans a volume: things that go on beside each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CleaningTask {
    cleaner: Cleaner,
    flush: FlushNow,
    /// The flush that is running, or was the last one.
    run: FlushRun,
    /// Passes of flushes that are under way: of one that was cancelled, too, for a device may take long.
    passes: u32,
}

/// The task that cleans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cleaner {
    #[default]
    Idle,
    Running,
}

/// What an administrator had flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FlushNow {
    #[default]
    Idle,
    Running,
    /// It is to end, and whoever asked for it has not heard of it yet.
    Cancelled,
}

/// Which flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlushRun(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CleaningChange {
    CleanerBegan,
    CleanerEnded,
    FlushBegan,
    FlushCancelled,
    /// Whoever asked for it has been told.
    FlushEnded,
    PassBegan,
    PassEnded,
}

impl CleaningTask {
    /// The state after `change`; `None`: that cannot happen in this state, or changes nothing.
    fn after(self, change: CleaningChange) -> Option<Self> {
        match (change, self.cleaner, self.flush) {
            (CleaningChange::CleanerBegan, Cleaner::Idle, _) => Some(Self { cleaner: Cleaner::Running, ..self }),
            (CleaningChange::CleanerEnded, Cleaner::Running, _) => Some(Self { cleaner: Cleaner::Idle, ..self }),
            (CleaningChange::FlushBegan, _, FlushNow::Idle) => {
                Some(Self { flush: FlushNow::Running, run: FlushRun(self.run.0 + 1), ..self })
            }
            (CleaningChange::FlushCancelled, _, FlushNow::Running) => Some(Self { flush: FlushNow::Cancelled, ..self }),
            (CleaningChange::FlushEnded, _, FlushNow::Running | FlushNow::Cancelled) => {
                Some(Self { flush: FlushNow::Idle, ..self })
            }
            (CleaningChange::PassBegan, _, _) => Some(Self { passes: self.passes + 1, ..self }),
            (CleaningChange::PassEnded, _, _) => self.passes.checked_sub(1).map(|passes| Self { passes, ..self }),
            (CleaningChange::CleanerBegan, Cleaner::Running, _)
            | (CleaningChange::CleanerEnded, Cleaner::Idle, _)
            | (CleaningChange::FlushBegan, _, FlushNow::Running | FlushNow::Cancelled)
            | (CleaningChange::FlushCancelled, _, FlushNow::Idle | FlushNow::Cancelled)
            | (CleaningChange::FlushEnded, _, FlushNow::Idle) => None,
        }
    }
}

/// See the file's summary.
#[derive(Default)]
pub(crate) struct VolumeCleaning {
    task: Cell<CleaningTask>,
    /// Where the next pass of the cleaner begins.
    sweep: Cell<u64>,
    /// Why the last pass failed.
    error: RefCell<Option<Error>>,
    /// The requests of hosts so far, and since when there were no more of them.
    idle_since: Cell<(u64, Instant)>,
    /// When what was written to the backing device beside the cleaner was flushed last.
    flushed_at: Cell<Option<Instant>>,
}

impl VolumeCleaning {
    /// Whether that changed anything.
    fn change(&self, change: CleaningChange) -> bool {
        let next = self.task.get().after(change);
        self.task.set(next.unwrap_or(self.task.get()));
        next.is_some()
    }

    /// False: the volume is being cleaned already.
    #[must_use]
    pub(super) fn begin(&self) -> bool {
        self.change(CleaningChange::CleanerBegan)
    }

    pub(super) fn end(&self) {
        let ended = self.change(CleaningChange::CleanerEnded);
        assert!(ended, "a cleaner ends that did not begin");
    }

    /// A task cleans it.
    pub(super) fn has_cleaner(&self) -> bool {
        self.task.get().cleaner == Cleaner::Running
    }

    /// By the task that does so, or by a flush.
    pub(crate) fn is_under_way(&self) -> bool {
        self.has_cleaner() || self.task.get().passes > 0
    }

    /// `None`: what is dirty is being flushed already.
    pub(super) fn begin_flush(&self) -> Option<FlushRun> {
        self.change(CleaningChange::FlushBegan).then(|| self.task.get().run)
    }

    pub(super) fn cancel_flush(&self) {
        self.change(CleaningChange::FlushCancelled);
    }

    /// Whoever asked for the flush is told how it ended.
    pub(super) fn end_flush(&self) {
        let ended = self.change(CleaningChange::FlushEnded);
        assert!(ended, "a flush ends that did not begin");
    }

    /// Somebody still waits for this flush.
    pub(super) fn wants(&self, run: FlushRun) -> bool {
        let CleaningTask { flush, run: now, .. } = self.task.get();
        flush == FlushNow::Running && run == now
    }

    pub(super) fn begin_pass(&self) {
        self.change(CleaningChange::PassBegan);
    }

    pub(super) fn end_pass(&self) {
        let ended = self.change(CleaningChange::PassEnded);
        assert!(ended, "a pass ends that did not begin");
    }

    pub(super) fn sweep(&self) -> u64 {
        self.sweep.get()
    }

    pub(super) fn sweep_from(&self, page: u64) {
        self.sweep.set(page);
    }

    /// No more than so many requests came for so long.
    pub(super) fn is_idle_for(&self, time: Duration, requests: u64, now: Instant) -> bool {
        let (before, since) = self.idle_since.get();
        if before != requests || since.0 == 0 {
            self.idle_since.set((requests, now));
            return false;
        }
        now.since(since) >= time
    }

    /// What was written to the backing device beside the cleaner is flushed.
    pub(super) fn begin_to_flush(&self, now: Instant) {
        self.flushed_at.set(Some(now));
    }

    /// That was not done for so long.
    pub(super) fn is_flush_due(&self, interval: Duration, now: Instant) -> bool {
        self.flushed_at.get().is_none_or(|flushed| now.since(flushed) >= interval)
    }

    /// The backing device did not take what was dirty.
    pub(super) fn failed(&self, error: Error) {
        *self.error.borrow_mut() = Some(error);
    }

    /// It took it, or may do so from here on.
    pub(super) fn forget_error(&self) {
        *self.error.borrow_mut() = None;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.error.borrow().is_some()
    }

    pub(super) fn error(&self) -> Option<Error> {
        self.error.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEANERS: [Cleaner; 2] = [Cleaner::Idle, Cleaner::Running];
    const FLUSHES: [FlushNow; 3] = [FlushNow::Idle, FlushNow::Running, FlushNow::Cancelled];

    /// Everything that may happen beside the passes, and nothing else may.
    #[test]
    fn every_change_in_every_state_of_cleaning_leads_where_the_table_says() {
        let of_cleaner = [
            (Cleaner::Idle, CleaningChange::CleanerBegan, Cleaner::Running),
            (Cleaner::Running, CleaningChange::CleanerEnded, Cleaner::Idle),
        ];
        let of_flush = [
            (FlushNow::Idle, CleaningChange::FlushBegan, FlushNow::Running),
            (FlushNow::Running, CleaningChange::FlushCancelled, FlushNow::Cancelled),
            (FlushNow::Running, CleaningChange::FlushEnded, FlushNow::Idle),
            (FlushNow::Cancelled, CleaningChange::FlushEnded, FlushNow::Idle),
        ];
        for (cleaner, flush, passes) in CLEANERS
            .into_iter()
            .flat_map(|cleaner| FLUSHES.map(|flush| (cleaner, flush)))
            .flat_map(|(cleaner, flush)| [0, 1, 2].map(|passes| (cleaner, flush, passes)))
        {
            let state = CleaningTask { cleaner, flush, run: FlushRun(7), passes };
            for change in [CleaningChange::CleanerBegan, CleaningChange::CleanerEnded] {
                let next = of_cleaner.iter().find(|(from, by, _)| (*from, *by) == (cleaner, change));
                let told = next.map(|(_, _, cleaner)| CleaningTask { cleaner: *cleaner, ..state });
                assert_eq!(state.after(change), told, "{state:?} {change:?}");
            }
            for change in [CleaningChange::FlushBegan, CleaningChange::FlushCancelled, CleaningChange::FlushEnded] {
                let run = FlushRun(if change == CleaningChange::FlushBegan { 8 } else { 7 });
                let next = of_flush.iter().find(|(from, by, _)| (*from, *by) == (flush, change));
                let told = next.map(|(_, _, flush)| CleaningTask { flush: *flush, run, ..state });
                assert_eq!(state.after(change), told, "{state:?} {change:?}");
            }
            let more = CleaningTask { passes: passes + 1, ..state };
            assert_eq!(state.after(CleaningChange::PassBegan), Some(more), "{state:?}");
            assert_eq!(more.after(CleaningChange::PassEnded), Some(state), "{state:?}");
        }
        assert_eq!(CleaningTask::default().after(CleaningChange::PassEnded), None);
    }

    #[test]
    fn a_flush_that_was_cancelled_is_not_wanted_whatever_follows_and_its_pass_counts_until_it_ends() {
        let cleaning = VolumeCleaning::default();
        let first = cleaning.begin_flush().unwrap();
        assert!(cleaning.wants(first) && cleaning.begin_flush().is_none());
        cleaning.begin_pass();
        cleaning.cancel_flush();
        assert!(!cleaning.wants(first) && cleaning.begin_flush().is_none());
        cleaning.end_flush();
        let second = cleaning.begin_flush().unwrap();
        assert!(!cleaning.wants(first) && cleaning.wants(second) && cleaning.is_under_way());
        cleaning.end_pass();
        assert!(!cleaning.is_under_way());
        assert!(cleaning.begin() && !cleaning.begin() && cleaning.is_under_way());
        cleaning.end();
        assert!(cleaning.begin());
    }

    #[test]
    #[should_panic(expected = "a pass ends that did not begin")]
    fn a_pass_ends_once() {
        let cleaning = VolumeCleaning::default();
        cleaning.begin_pass();
        cleaning.end_pass();
        cleaning.end_pass();
    }

    #[test]
    #[should_panic(expected = "a cleaner ends that did not begin")]
    fn a_cleaner_ends_once() {
        let cleaning = VolumeCleaning::default();
        assert!(cleaning.begin());
        cleaning.end();
        cleaning.end();
    }

    #[test]
    #[should_panic(expected = "a flush ends that did not begin")]
    fn a_flush_ends_once() {
        let cleaning = VolumeCleaning::default();
        assert!(cleaning.begin_flush().is_some());
        cleaning.end_flush();
        cleaning.end_flush();
    }
}
