//! Time in which this program ran.
//!
//! A process that is stopped, frozen with its machine, or waits for its own memory, does not run, and what it waits for
//! cannot be blamed for that. So time-outs are measured with a clock that counts from mark to mark. The loop marks it
//! several times in a turn, and never waits longer than [`WAIT_MAX`] between two marks: what lies between two marks that
//! are further apart than [`STRETCH_MAX`] was no waiting, and the difference is forgiven, to everybody. Devices and
//! sockets have the next turn to say what they did meanwhile before anything is late.
//!
//! A turn that is long because the processor is busy counts as [`STRETCH_MAX`]: something that hangs is noticed then, too,
//! only later.

use std::cell::Cell;
use std::time::Duration;

use crate::{Instant, RealInstant};

/// The longest that a loop waits before it marks the clock.
pub const WAIT_MAX: Duration = Duration::from_millis(200);

/// What counts at most of the time between two marks.
pub const STRETCH_MAX: Duration = Duration::from_millis(250);

/// See the file's summary.
#[derive(Debug)]
pub struct RunningClock {
    counted: Cell<Instant>,
    marked: Cell<RealInstant>,
}

impl RunningClock {
    /// It shows `counted` at the real time `real`.
    pub fn new(counted: Instant, real: RealInstant) -> Self {
        Self { counted: Cell::new(counted), marked: Cell::new(real) }
    }

    /// The time that was counted until the real time `real`.
    pub fn at(&self, real: RealInstant) -> Instant {
        self.counted.get().plus(real.since(self.marked.get()).min(STRETCH_MAX))
    }

    /// The program runs at the real time `real`.
    pub fn mark(&self, real: RealInstant) {
        self.counted.set(self.at(real));
        self.marked.set(real.max(self.marked.get()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock() -> (RunningClock, RealInstant) {
        (RunningClock::new(Instant(0), RealInstant(7)), RealInstant(7))
    }

    #[test]
    fn a_loop_that_waits_counts_everything() {
        let (clock, mut real) = clock();
        for _ in 0..50 {
            real = real.plus(WAIT_MAX);
            clock.mark(real);
        }
        assert_eq!(clock.at(real), Instant(0).plus(10 * SECOND));
    }

    #[test]
    fn a_pause_counts_as_one_stretch_whenever_it_is_seen_first() {
        for pause in [SECOND, 12 * SECOND, 3600 * SECOND] {
            let (clock, real) = clock();
            let resumed = real.plus(pause);
            assert_eq!(clock.at(resumed), Instant(0).plus(STRETCH_MAX), "read within the turn that was stopped");
            clock.mark(resumed);
            assert_eq!(clock.at(resumed), Instant(0).plus(STRETCH_MAX), "and after it");
        }
    }

    #[test]
    fn turns_that_are_long_still_count() {
        let (clock, mut real) = clock();
        for _ in 0..40 {
            real = real.plus(3 * SECOND);
            clock.mark(real);
        }
        assert_eq!(clock.at(real), Instant(0).plus(10 * SECOND));
    }

    #[test]
    fn it_never_goes_back() {
        let (clock, real) = clock();
        clock.mark(real.plus(SECOND));
        let shown = clock.at(real.plus(SECOND));
        clock.mark(real);
        assert_eq!(clock.at(real.plus(SECOND)), shown);
    }
}
