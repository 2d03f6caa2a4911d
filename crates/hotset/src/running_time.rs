//! Waiting with limits outside the data plane, in time in which this process ran.
//!
//! A limit is a number of short slices, and each counts as one however long it took: whatever stops the process for a
//! minute costs those who wait for something one slice, and what they wait for is looked at before the next one begins.
//! The data plane has a clock for that (`hotset_block::RunningClock`).

use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use hotset_block::WAIT_MAX;
use tokio::task::JoinHandle;

/// A limit has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// Completes when so much time has passed in which this process ran.
pub(crate) async fn sleep(duration: Duration) {
    let mut left = duration;
    while !left.is_zero() {
        let slice = left.min(WAIT_MAX);
        tokio::time::sleep(slice).await;
        left -= slice;
    }
}

/// What `operation` comes to, if it does within `limit`.
pub(crate) async fn timeout<T>(limit: Duration, operation: impl Future<Output = T>) -> Result<T, Elapsed> {
    match select(pin!(operation), pin!(sleep(limit))).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right(((), _)) => Err(Elapsed),
    }
}

/// Waits on this thread for what is sent, if it comes within `limit`.
pub(crate) fn receive<T>(receiver: &mpsc::Receiver<T>, limit: Duration) -> Option<T> {
    in_slices(limit, |slice| match receiver.recv_timeout(slice) {
        Ok(sent) => ControlFlow::Break(Some(sent)),
        Err(RecvTimeoutError::Disconnected) => ControlFlow::Break(None),
        Err(RecvTimeoutError::Timeout) => ControlFlow::Continue(()),
    })
    .flatten()
}

/// Waits slice by slice until `wait` has something, or `limit` has passed.
pub(crate) fn in_slices<T>(limit: Duration, mut wait: impl FnMut(Duration) -> ControlFlow<T>) -> Option<T> {
    let mut left = limit;
    while !left.is_zero() {
        let slice = left.min(WAIT_MAX);
        if let ControlFlow::Break(found) = wait(slice) {
            return Some(found);
        }
        left -= slice;
    }
    None
}

/// Runs out by itself, beside whatever is done meanwhile.
pub(crate) struct Countdown(JoinHandle<()>);

impl Countdown {
    pub(crate) fn of(limit: Duration) -> Self {
        Self(tokio::spawn(sleep(limit)))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Pauses of a thread or task that tries something again and again.
pub(crate) struct Tries {
    left: u32,
}

impl Tries {
    pub(crate) const PAUSE: Duration = Duration::from_millis(20);

    /// As many as fit into `limit`.
    pub(crate) fn within(limit: Duration) -> Self {
        Self { left: u32::try_from(limit.as_millis() / Self::PAUSE.as_millis()).unwrap_or(u32::MAX) }
    }

    /// Whether there is another try, after a pause.
    pub(crate) fn again(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Whether there is another try; the pause before it is made here.
    pub(crate) fn pause_again(&mut self) -> bool {
        let again = self.again();
        if again {
            thread::sleep(Self::PAUSE);
        }
        again
    }
}

/// The same for connections of the control API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningTimer;

impl hyper::rt::Timer for RunningTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(RunningSleep(Box::pin(sleep(duration))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep(deadline.saturating_duration_since(Instant::now()))
    }
}

struct RunningSleep(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl Future for RunningSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl hyper::rt::Sleep for RunningSleep {}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn a_pause_of_the_process_is_no_time_for_a_limit() {
        runtime().block_on(async {
            let late = async {
                // Nothing of this thread runs, as after SIGSTOP; the answer comes after that.
                tokio::time::sleep(Duration::from_millis(1)).await;
                thread::sleep(5 * WAIT_MAX);
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            assert_eq!(timeout(3 * WAIT_MAX, late).await, Ok(()));
        });
    }

    #[test]
    fn a_pause_takes_one_slice_of_what_a_thread_waits_for() {
        let mut waits = 0;
        let found = in_slices(3 * WAIT_MAX, |_| {
            waits += 1;
            if waits == 1 {
                // As after SIGSTOP: longer than all of the limit.
                thread::sleep(5 * WAIT_MAX);
            }
            if waits == 3 { ControlFlow::Break("sent") } else { ControlFlow::Continue(()) }
        });
        assert_eq!((found, waits), (Some("sent"), 3));
        assert_eq!(in_slices(3 * WAIT_MAX, |_| ControlFlow::<()>::Continue(())), None);
    }

    #[test]
    fn who_is_waited_for_may_say_something_or_go() {
        let (tell, told) = mpsc::channel();
        tell.send(7).unwrap();
        assert_eq!(receive(&told, Duration::from_secs(60)), Some(7));
        drop(tell);
        assert_eq!(receive(&told, Duration::from_secs(60)), None);
    }

    #[test]
    fn a_limit_ends_what_does_not_answer() {
        runtime().block_on(async {
            assert_eq!(timeout(Duration::from_millis(30), std::future::pending::<()>()).await, Err(Elapsed));
            let countdown = Countdown::of(Duration::from_millis(30));
            assert!(!countdown.is_over());
            sleep(Duration::from_millis(60)).await;
            while !countdown.is_over() {
                tokio::task::yield_now().await;
            }
        });
    }
}
