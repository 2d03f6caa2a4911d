//! The `Env` seam: everything the cache may ask of the world beside its devices.

use std::time::Duration;

use crate::{BufPool, Device, Machine};

/// A point in the time in which this program ran, in nanoseconds since an arbitrary start. What is due, late or too slow
/// is measured with it: see [`Env::now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A point in monotonic time, whether this program ran or not, in nanoseconds since an arbitrary start. What people are
/// told is measured with it: see [`Env::real_now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RealInstant(pub u64);

impl RealInstant {
    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The world, as the cache sees it. A handle: cloning it is cheap. Everything it starts runs on one thread.
pub trait Env: Clone + 'static {
    type Device: Device + 'static;

    /// Time in which this program ran: what it was stopped or frozen for is left out. Every time-out, timer and pace is
    /// measured with it, for a device or host that could not be heard was not silent.
    fn now(&self) -> Instant;

    /// Time as it passes for everybody else: for latencies, ages of data and durations that people are told of, never
    /// to say that somebody is late. Worlds that are never stopped have one time.
    fn real_now(&self) -> RealInstant {
        RealInstant(self.now().0)
    }

    /// Wall-clock time in seconds since 1970, for what people read; never for decisions.
    fn unix_seconds(&self) -> u64;

    /// Who asks: other machines may reach the same devices. Worlds with one machine need not say.
    fn machine(&self) -> Machine {
        Machine::only()
    }

    /// Completes when so much time of [`Env::now`] has passed.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static;

    /// Runs `task` beside the caller, to its end.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// Unpredictable in production, seeded in the simulator.
    fn random(&self) -> u64;

    /// Where buffers come from.
    fn buffers(&self) -> &BufPool;
}
