//! Work on a file system that may not answer, waited for so long and no longer.
//!
//! A disk that hangs, a network file system without its server and a frozen file system stop whatever thread touches them, for as long as
//! they like. So each piece of work is done on a thread of its own. When one takes too long, it is left alone, and all others fail at once until it
//! comes to its end: whoever waits does so once, and not again and again.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{io, panic, thread};

use crate::running_time;

/// How long it is waited for. Less than who asks the daemon for something waits.
const LIMIT: Duration = Duration::from_secs(4);

/// What is known of one file system.
#[derive(Clone, Default)]
pub(crate) struct Answering {
    /// Since when work goes on that took too long, by number.
    hanging: Arc<Mutex<BTreeMap<u64, Instant>>>,
}

impl Answering {
    /// What the work comes to. What took too long is done some time nevertheless, or fails, and nobody is told.
    ///
    /// # Errors
    /// Its own; also if the file system does not answer.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.within_limit(LIMIT, work)
    }

    fn within_limit<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        if let Some(since) = self.hanging().values().next() {
            return Err(hangs(*since));
        }
        let (began, (done, comes)) = (Instant::now(), mpsc::channel());
        let hanging = Arc::clone(&self.hanging);
        let (give_number, number) = mpsc::channel();
        let thread = move || {
            // Whatever becomes of it, it has ended.
            let ended = panic::catch_unwind(AssertUnwindSafe(work));
            let result = ended.unwrap_or_else(|_| Err(io::Error::other("the work on it ended in a panic")));
            let mut hanging = lock(&hanging);
            // Whoever waited does so no more if there is a number.
            if let Ok(number) = number.try_recv() {
                hanging.remove(&number);
            }
            // It may have gone.
            let _ = done.send(result);
        };
        thread::Builder::new().name("state".to_owned()).spawn(thread)?;
        if let Some(result) = running_time::receive(&comes, limit) {
            return result;
        }
        let mut hanging = self.hanging();
        if let Ok(result) = comes.try_recv() {
            return result;
        }
        let number = hanging.keys().next_back().map_or(0, |last| last + 1);
        // The thread looks for it when it has the lock.
        let _ = give_number.send(number);
        hanging.insert(number, began);
        Err(hangs(began))
    }

    fn hanging(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        lock(&self.hanging)
    }
}

/// Whole between any two statements, so a panic elsewhere does not make it wrong.
fn lock(hanging: &Mutex<BTreeMap<u64, Instant>>) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
    hanging.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hangs(since: Instant) -> io::Error {
    let seconds = since.elapsed().as_secs();
    io::Error::new(io::ErrorKind::TimedOut, format!("its file system has not answered for {seconds} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(30);

    #[test]
    fn what_does_not_answer_is_waited_for_once_and_believed_again_when_it_does() {
        let answering = Answering::default();
        assert_eq!(answering.within(|| Ok(5)).unwrap(), 5);
        let (thaw, frozen) = mpsc::channel::<()>();
        let work = move || {
            let _ = frozen.recv();
            Ok(6)
        };
        let error = answering.within_limit(SHORT, work).unwrap_err();
        assert!(error.kind() == io::ErrorKind::TimedOut && error.to_string().contains("has not answered"), "{error}");
        let error = answering.within(|| -> io::Result<()> { panic!("it is not begun") }).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        thaw.send(()).unwrap();
        // Its end is seen by whoever asks next.
        while answering.within(|| Ok(())).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(answering.within(|| Ok(7)).unwrap(), 7);
    }

    #[test]
    fn its_own_errors_are_told_and_a_panic_is_one() {
        let answering = Answering::default();
        let full = || -> io::Result<()> { Err(io::ErrorKind::StorageFull.into()) };
        assert_eq!(answering.within(full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        let error = answering.within(|| -> io::Result<()> { panic!("planted") }).unwrap_err();
        assert!(error.to_string().contains("panic"), "{error}");
    }
}
