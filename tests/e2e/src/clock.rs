//! Time in which this process ran: a run of hours may be stopped (SIGSTOP) with all that it started, and go on later. What
//! was waited for meanwhile was not waited for.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the time is looked at.
const TICK: Duration = Duration::from_millis(200);
/// What passed between two looks counts as no more than this: in the rest of it the process did not run.
const TICK_MAX: Duration = Duration::from_secs(1);

struct Clock {
    looked: Instant,
    ran: Duration,
}

impl Clock {
    /// It is `now`; answers the time in which the process ran.
    fn look(&mut self, now: Instant) -> Duration {
        self.ran += now.duration_since(self.looked).min(TICK_MAX);
        self.looked = now;
        self.ran
    }
}

static CLOCK: LazyLock<Mutex<Clock>> = LazyLock::new(|| {
    thread::spawn(|| {
        loop {
            thread::sleep(TICK);
            look();
        }
    });
    Mutex::new(Clock { looked: Instant::now(), ran: Duration::ZERO })
});

fn look() -> Duration {
    let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    clock.look(Instant::now())
}

/// A moment, as `Instant` is one.
#[derive(Clone, Copy, Debug)]
pub struct Moment(Duration);

impl Moment {
    #[must_use]
    pub fn now() -> Self {
        Self(look())
    }

    /// The time since then in which the process ran.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        look().saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_which_nothing_ran_counts_as_a_tick() {
        let begun = Instant::now();
        let mut clock = Clock { looked: begun, ran: Duration::ZERO };
        assert_eq!(clock.look(begun + Duration::from_millis(300)), Duration::from_millis(300));
        assert_eq!(clock.look(begun + Duration::from_secs(3600)), Duration::from_millis(1300));
        assert_eq!(clock.look(begun + Duration::from_secs(3601)), Duration::from_millis(2300));
    }
}
