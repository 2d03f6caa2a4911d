//! How a session ends: it takes no more requests, and finishes those in flight within a limit.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::Env;
use hotset_block::sync::Event;

/// The session was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// See the file's summary.
pub(crate) struct Ending {
    /// How long finishing what is in flight may take.
    drain_timeout: Cell<Duration>,
    stopping: Cell<bool>,
    stop: Event,
}

impl Ending {
    /// Of a session that its client ends: what is in flight then has `drain_timeout` to finish.
    pub(crate) fn new(drain_timeout: Duration) -> Self {
        Self { drain_timeout: Cell::new(drain_timeout), stopping: Cell::new(false), stop: Event::new() }
    }

    /// No more requests; those in flight have `limit` to finish, from now on.
    pub(crate) fn stop(&self, limit: Duration) {
        self.drain_timeout.set(limit);
        self.stopping.set(true);
        self.stop.wake_all();
    }

    /// `future`, unless the session is stopped before.
    pub(crate) async fn unless_stopped<T>(&self, future: impl Future<Output = T>) -> Result<T, Stopped> {
        let stop = self.stop.wait();
        if self.stopping.get() {
            return Err(Stopped);
        }
        match select(pin!(future), stop).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(((), _)) => Err(Stopped),
        }
    }

    /// Waits for `finished`, as long as the time limit allows; a stop may shorten that.
    pub(crate) async fn drain<T>(&self, env: &impl Env, finished: impl Future<Output = T>) {
        let mut finished = pin!(finished);
        loop {
            let limit = pin!(env.sleep(self.drain_timeout.get()));
            match select(finished.as_mut(), select(self.stop.wait(), limit)).await {
                Either::Right((Either::Left(_), _)) => {}
                Either::Right((Either::Right(_), _)) | Either::Left(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::rc::Rc;

    use hotset_block::{Executor, ExecutorOptions, HostEnv};

    use super::*;

    const FOREVER: Duration = Duration::from_secs(3600);
    const MOMENT: Duration = Duration::from_millis(1);

    fn run(test: impl AsyncFnOnce(HostEnv)) {
        Executor::new(ExecutorOptions::default()).expect("io_uring is available").run(test);
    }

    #[test]
    fn what_is_stopped_receives_nothing_more() {
        run(async |env| {
            let ending = Rc::new(Ending::new(FOREVER));
            assert_eq!(ending.unless_stopped(async { 7 }).await, Ok(7));
            let (stopper, clock) = (Rc::clone(&ending), env.clone());
            env.spawn(async move {
                clock.sleep(MOMENT).await;
                stopper.stop(FOREVER);
            });
            assert_eq!(ending.unless_stopped(pending::<()>()).await, Err(Stopped));
            assert_eq!(ending.unless_stopped(async { 7 }).await, Err(Stopped), "not even what is there");
        });
    }

    #[test]
    fn a_stop_shortens_a_drain_that_has_begun() {
        run(async |env| {
            let ending = Rc::new(Ending::new(FOREVER));
            ending.drain(&env, async {}).await;
            let (stopper, clock) = (Rc::clone(&ending), env.clone());
            env.spawn(async move {
                clock.sleep(MOMENT).await;
                stopper.stop(MOMENT);
            });
            ending.drain(&env, pending::<()>()).await;
        });
    }
}
