//! How a session ends, pauses or leaves: it takes no more requests, and finishes those in flight, when it ends within a limit.

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
    course: Cell<Course>,
    /// It leaves as soon as it rests.
    is_to_depart: Cell<bool>,
    changed: Event,
}

/// Where a session is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// It takes requests.
    Serving,
    /// It takes no requests for now, and finishes those that it took.
    Pausing,
    /// Those are finished.
    Resting,
    /// It goes on on another thread.
    Departing,
    /// It takes no more.
    Stopping,
}

impl Ending {
    /// Of a session that its client ends: what is in flight then has `drain_timeout` to finish.
    pub(crate) fn new(drain_timeout: Duration) -> Self {
        Self {
            drain_timeout: Cell::new(drain_timeout),
            course: Cell::new(Course::Serving),
            is_to_depart: Cell::new(false),
            changed: Event::new(),
        }
    }

    /// No more requests; those in flight have `limit` to finish, from now on.
    pub(crate) fn stop(&self, limit: Duration) {
        self.drain_timeout.set(limit);
        self.turn_to(Course::Stopping);
    }

    pub(crate) fn course(&self) -> Course {
        self.course.get()
    }

    /// No more requests for now.
    pub(crate) fn pause(&self) {
        if self.course.get() == Course::Serving {
            self.turn_to(Course::Pausing);
        }
    }

    /// Those that were in flight when it began to pause are finished.
    pub(crate) fn rest(&self) {
        if self.course.get() == Course::Pausing {
            self.turn_to(if self.is_to_depart.get() { Course::Departing } else { Course::Resting });
        }
    }

    /// The pause is over.
    pub(crate) fn resume(&self) {
        if matches!(self.course.get(), Course::Pausing | Course::Resting) {
            self.turn_to(Course::Serving);
        }
    }

    /// The session goes on elsewhere, as soon as it rests: one that came during the pause may not do so yet.
    pub(crate) fn depart(&self) {
        self.is_to_depart.set(true);
        if self.course.get() == Course::Resting {
            self.turn_to(Course::Departing);
        }
    }

    fn turn_to(&self, course: Course) {
        self.course.set(course);
        self.changed.wake_all();
    }

    /// Completes when the session is on another course than `course`.
    pub(crate) async fn leaves(&self, course: Course) {
        loop {
            let changed = self.changed.wait();
            if self.course.get() != course {
                return;
            }
            changed.await;
        }
    }

    /// Completes when the session is stopped.
    pub(crate) async fn stopped(&self) {
        loop {
            let changed = self.changed.wait();
            if self.course.get() == Course::Stopping {
                return;
            }
            changed.await;
        }
    }

    /// `future`, unless the session is stopped before.
    pub(crate) async fn unless_stopped<T>(&self, future: impl Future<Output = T>) -> Result<T, Stopped> {
        if self.course.get() == Course::Stopping {
            return Err(Stopped);
        }
        match select(pin!(future), pin!(self.stopped())).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(((), _)) => Err(Stopped),
        }
    }

    /// A pause from its beginning to its end: rests when what is in flight has `finished`, and waits for what comes after.
    pub(crate) async fn pause_over<T>(&self, finished: impl Future<Output = T>) {
        if let Either::Left(_) = select(pin!(finished), pin!(self.leaves(Course::Pausing))).await {
            self.rest();
        }
        self.leaves(Course::Resting).await;
    }

    /// Waits for `finished`, as long as the time limit allows; a stop may shorten that.
    pub(crate) async fn drain<T>(&self, env: &impl Env, finished: impl Future<Output = T>) {
        let mut finished = pin!(finished);
        loop {
            let limit = pin!(env.sleep(self.drain_timeout.get()));
            match select(finished.as_mut(), select(self.changed.wait(), limit)).await {
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
    fn one_that_is_to_leave_before_it_rests_leaves_then() {
        let ending = Ending::new(FOREVER);
        ending.pause();
        ending.depart();
        assert_eq!(ending.course(), Course::Pausing, "what it took is not finished");
        ending.rest();
        assert_eq!(ending.course(), Course::Departing);
    }

    #[test]
    fn a_pause_ends_by_going_on_leaving_or_a_stop_and_is_no_reason_to_receive_half_a_request() {
        run(async |env| {
            let ending = Ending::new(FOREVER);
            ending.pause();
            assert_eq!(ending.unless_stopped(async { 7 }).await, Ok(7), "what was begun is received");
            ending.rest();
            ending.resume();
            assert_eq!(ending.course(), Course::Serving);
            ending.rest();
            assert_eq!(ending.course(), Course::Serving, "a late rest means nothing");
            ending.pause();
            ending.rest();
            ending.depart();
            ending.resume();
            assert_eq!(ending.course(), Course::Departing, "who left does not come back");
            ending.stop(MOMENT);
            ending.leaves(Course::Departing).await;
            ending.drain(&env, pending::<()>()).await;
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
