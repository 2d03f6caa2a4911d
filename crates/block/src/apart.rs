//! Work that may wait for who keeps a file or device, on a thread of its own: others go on meanwhile.
//!
//! open(2), fstat(2) and the like have no answer before a file system in user space or on another machine gives one. Whoever asks
//! waits for a time, and the thread until the kernel lets it go; what it brings too late is dropped there.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use futures_util::future::{Either, poll_fn, select};

use crate::sync::{Promise, Semaphore};
use crate::{Env, HostEnv};

/// Threads at work at once. With so many that hang, what comes is refused.
const THREADS_MAX: usize = 64;

/// How long an answer is waited for.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Where a thread leaves what it brings.
struct Answer<T> {
    value: Option<T>,
    waker: Option<Waker>,
    /// The thread has ended, with a value or by a panic.
    ended: bool,
}

/// Whole between any two statements.
fn lock<T>(answer: &Mutex<Answer<T>>) -> MutexGuard<'_, Answer<T>> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Belongs to a thread: tells its end, however it comes.
struct End<T>(Arc<Mutex<Answer<T>>>);

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
        let waker = {
            let mut answer = lock(&self.0);
            answer.ended = true;
            answer.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Belongs to who waits. What came after he looked last is dropped on a thread of its own, as if it came too late.
struct Waiting<T: Send + 'static>(Arc<Mutex<Answer<T>>>);

impl<T: Send + 'static> Waiting<T> {
    fn poll(&self, waker: &Waker) -> Poll<Option<T>> {
        let mut answer = lock(&self.0);
        if answer.ended {
            return Poll::Ready(answer.value.take());
        }
        answer.waker = Some(waker.clone());
        Poll::Pending
    }
}

impl<T: Send + 'static> Drop for Waiting<T> {
    fn drop(&mut self) {
        let value = lock(&self.0).value.take();
        if let Some(value) = value {
            // Without a thread it is dropped here.
            let _ = thread::Builder::new().name("open".to_owned()).spawn(move || drop(value));
        }
    }
}

/// Does `work`, which a file system or device may hold up, on a thread of its own; meanwhile others go on.
///
/// # Errors
/// `TimedOut`: it takes longer than [`ANSWER_LIMIT`], or too many others do.
pub async fn apart<T: Send + 'static>(env: &HostEnv, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    if THREADS.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
        THREADS.fetch_sub(1, Ordering::Relaxed);
        return Err(io::Error::new(io::ErrorKind::TimedOut, "too many devices do not answer"));
    }
    let answer = Arc::new(Mutex::new(Answer { value: None, waker: None, ended: false }));
    let end = End(Arc::clone(&answer));
    thread::Builder::new().name("open".to_owned()).spawn(move || {
        let value = work();
        // Nobody may wait any more: then it is dropped here, with this thread's half.
        lock(&end.0).value = Some(value);
        drop(end);
    })?;
    let waiting = Waiting(answer);
    let brought = poll_fn(move |context| waiting.poll(context.waker()));
    match select(brought, Box::pin(env.sleep(ANSWER_LIMIT))).await {
        Either::Left((value, _)) => value.ok_or_else(|| io::Error::other("the thread that asked it has panicked")),
        Either::Right(_) => Err(silent()),
    }
}

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it does not answer")
}

/// What is asked of one device, one question after the other: a device that hangs takes one thread, however often it is asked.
pub(crate) struct Questions {
    turn: Semaphore,
    /// Lives as long as the thread with the last question.
    last: RefCell<Weak<()>>,
}

impl Questions {
    pub(crate) fn new() -> Self {
        Self { turn: Semaphore::new(1), last: RefCell::default() }
    }

    /// Asks [`apart`].
    ///
    /// # Errors
    /// As `apart`; and `TimedOut` at once, if the question before has not come back.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        env: &HostEnv,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let turn = self.turn.acquire(1).await;
        if self.last.borrow().strong_count() > 0 {
            return Err(silent());
        }
        let asking = Arc::new(());
        *self.last.borrow_mut() = Arc::downgrade(&asking);
        let work = move || {
            let _asking = asking;
            question()
        };
        let (promise, answer) = Promise::new();
        let of_task = env.clone();
        // Whoever waits may stop waiting: the next question has its turn when this one has come back, or never will.
        env.spawn(async move {
            let _turn = turn;
            promise.set(apart(&of_task, work).await);
        });
        answer.await.unwrap_or_else(|| Err(silent()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::future::poll_immediate;

    use super::*;
    use crate::{Executor, ExecutorOptions};

    #[test]
    fn what_waits_holds_up_nobody_and_its_answer_comes() {
        Executor::new(ExecutorOptions::default()).unwrap().run(async |env| {
            let (go, wait) = mpsc::channel();
            let waits = apart(&env, move || wait.recv().unwrap());
            // Others are not held up: this is done while it waits.
            let others = async {
                env.sleep(Duration::from_millis(1)).await;
                go.send(7).unwrap();
            };
            let (answer, ()) = futures_util::future::join(waits, others).await;
            assert_eq!(answer.unwrap(), 7);
        });
    }

    #[test]
    fn what_nobody_takes_is_dropped_on_another_thread() {
        struct Brought(mpsc::Sender<thread::ThreadId>);
        impl Drop for Brought {
            fn drop(&mut self) {
                self.0.send(thread::current().id()).unwrap();
            }
        }
        let (dropped, by) = mpsc::channel();
        let answer = Answer { value: Some(Brought(dropped)), waker: None, ended: true };
        drop(Waiting(Arc::new(Mutex::new(answer))));
        assert_ne!(by.recv().unwrap(), thread::current().id());
    }

    #[test]
    fn a_device_that_hangs_takes_one_thread_and_answers_again_when_it_can() {
        Executor::new(ExecutorOptions::default()).unwrap().run(async |env| {
            let questions = Questions::new();
            let (go, wait) = mpsc::channel::<()>();
            let mut hangs = Box::pin(questions.ask(&env, move || wait.recv()));
            assert!(poll_immediate(&mut hangs).await.is_none());
            drop(hangs);
            let mut waits = Box::pin(questions.ask(&env, || 7));
            assert!(poll_immediate(&mut waits).await.is_none(), "one after the other");
            go.send(()).unwrap();
            assert_eq!(waits.await.unwrap(), 7, "what nobody waits for has come back");

            let given_up = Arc::new(());
            *questions.last.borrow_mut() = Arc::downgrade(&given_up);
            let refused = poll_immediate(Box::pin(questions.ask(&env, || 7))).await;
            assert_eq!(refused.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut, "at once");
            drop(given_up);
            assert_eq!(questions.ask(&env, || 7).await.unwrap(), 7);
        });
    }

    #[test]
    fn a_panic_is_an_error_to_who_waits() {
        Executor::new(ExecutorOptions::default()).unwrap().run(async |env| {
            let answer: io::Result<()> = apart(&env, || panic!("on purpose")).await;
            assert!(answer.unwrap_err().to_string().contains("panicked"));
        });
    }
}
