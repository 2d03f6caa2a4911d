//! The requests of a device on their way from the driver to whoever serves its volume, and the answers back.
//!
//! The driver takes answers from the thread that has fetched the first requests, and from no other, for as long as this process
//! serves the device. So the one that the volume is on then fetches, and sessions take requests from it, wherever their volume is and
//! however often it is opened anew: what none has answered is asked of the next one.

use std::fmt;
use std::future::pending;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use hotset_block::{Env, HostEnv, UblkData, UblkQueue};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use super::wire;
use crate::nbd::wire::{Request, errno};

/// A request that wants an answer; if this is dropped it is asked again.
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) answer: oneshot::Sender<i32>,
}

/// The requests of a device. A handle: cloning it is cheap.
#[derive(Clone)]
pub struct UblkRequests {
    /// As many as the device has tags.
    asked: Arc<Mutex<UnboundedReceiver<Asked>>>,
    data: UblkData,
    fetching: Weak<()>,
    /// What nobody serves is to fail.
    refused: Arc<AtomicBool>,
}

impl fmt::Debug for UblkRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UblkRequests({})", if self.are_fetched() { "fetched" } else { "over" })
    }
}

impl UblkRequests {
    /// Fetches the requests of `queue` on the thread of `env`, until its device is gone.
    pub(super) fn fetch(env: &HostEnv, queue: UblkQueue) -> Self {
        let (requests, asker) = Self::over(queue.data());
        let depth = queue.depth();
        let fetcher = Rc::new(Fetcher { env: env.clone(), queue, asker });
        for tag in 0..depth {
            let fetcher = Rc::clone(&fetcher);
            env.spawn(async move { fetcher.serve(tag).await });
        }
        requests
    }

    /// Those that the other value asks, as long as it is there.
    pub(super) fn over(data: UblkData) -> (Self, Asker) {
        let (sender, asked) = unbounded_channel();
        let (life, refused) = (Arc::new(()), Arc::default());
        let asker = Asker { sender, refused: Arc::clone(&refused), _life: Arc::clone(&life) };
        (Self { asked: Arc::new(Mutex::new(asked)), data, fetching: Arc::downgrade(&life), refused }, asker)
    }

    /// Whether the device is there, and this process serves it.
    pub fn are_fetched(&self) -> bool {
        self.fetching.strong_count() > 0
    }

    /// Whether there is a session that serves them.
    pub fn are_served(&self) -> bool {
        self.asked.try_lock().is_err()
    }

    /// Has all that nobody serves fail, now and later.
    pub fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
        let Ok(mut asked) = self.asked.try_lock() else { return };
        asked.close();
        while let Ok(one) = asked.try_recv() {
            // Whoever asked may be gone.
            let _ = one.answer.send(failed(errno::EIO));
        }
    }

    pub(super) fn data(&self) -> &UblkData {
        &self.data
    }

    /// For the one session that there may be; `None`: there is one.
    pub(super) fn take(&self) -> Option<OwnedMutexGuard<UnboundedReceiver<Asked>>> {
        Arc::clone(&self.asked).try_lock_owned().ok()
    }
}

/// An answer that says why not.
pub(super) fn failed(error: u32) -> i32 {
    -i32::try_from(error).expect("an error number is below 4096")
}

/// Asks whoever serves.
pub(super) struct Asker {
    sender: UnboundedSender<Asked>,
    refused: Arc<AtomicBool>,
    /// Goes with it.
    _life: Arc<()>,
}

impl Asker {
    /// The answer, whoever gives it and whenever. None while this process ends: the driver asks the next one.
    pub(super) async fn ask(&self, request: Request) -> i32 {
        loop {
            let (answer, answered) = oneshot::channel();
            if self.sender.send(Asked { request, answer }).is_err() {
                return if self.refused.load(Ordering::Relaxed) { failed(errno::EIO) } else { pending().await };
            }
            // Else the session ended before it was done.
            if let Ok(answer) = answered.await {
                return answer;
            }
            if self.refused.load(Ordering::Relaxed) {
                return failed(errno::EIO);
            }
        }
    }
}

struct Fetcher {
    env: HostEnv,
    queue: UblkQueue,
    asker: Asker,
}

impl Fetcher {
    /// The requests of one tag, one after the other, until the device is gone.
    async fn serve(&self, tag: u16) {
        let mut fetched = self.queue.fetch(&self.env, tag).await;
        while let Ok(description) = fetched {
            let answer = self.asker.ask(wire::request(tag, &description)).await;
            fetched = self.queue.answer_and_fetch(&self.env, tag, answer).await;
        }
    }
}
