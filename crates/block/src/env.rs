//! The `Env` seam: everything the cache may ask of the world beside its devices.

use std::time::Duration;

use crate::{BufPool, Device};

/// A point in monotonic time, in nanoseconds since an arbitrary start.
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

/// The world, as the cache sees it. A handle: cloning it is cheap. Everything it starts runs on one thread.
pub trait Env: Clone + 'static {
    type Device: Device + 'static;

    fn now(&self) -> Instant;

    /// Wall-clock time in seconds since 1970, for what people read; never for decisions.
    fn unix_seconds(&self) -> u64;

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static;

    /// Runs `task` beside the caller, to its end.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// Unpredictable in production, seeded in the simulator.
    fn random(&self) -> u64;

    /// Where buffers come from.
    fn buffers(&self) -> &BufPool;
}
