//! The demo's client: a thread with an executor of its own, which reaches the volume through the NBD socket alone.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hotset_block::{ByteRange, Executor, ExecutorOptions, HostEnv};
use hotset_serve::load::{Client, Endpoint, Limit, Pattern, Progress, Workload};
use tokio::sync::oneshot;

use super::content::Content;

/// Requests in flight, as in the vendor's tests.
const DEPTH: usize = 128;

/// A load without end is made of pieces this long.
const PIECE: Duration = Duration::from_secs(1);

/// What is asked of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    pub(super) request_bytes: u32,
    pub(super) read_percent: u8,
}

/// Where the volume is.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) endpoint: Endpoint,
    pub(super) export: String,
    pub(super) size_bytes: u64,
}

/// A load that is running. Give it back its content with [`Load::finish`].
pub(super) struct Load {
    pub(super) progress: Arc<Progress>,
    enough: Arc<AtomicBool>,
    outcome: oneshot::Receiver<io::Result<Content>>,
}

impl Load {
    /// Starts a load that ends after `duration`, or earlier with `finish`.
    pub(super) fn start(target: &Target, mix: Mix, duration: Duration, content: Content) -> io::Result<Self> {
        let progress = Arc::new(Progress::new());
        let enough = Arc::new(AtomicBool::new(false));
        let (done, outcome) = oneshot::channel();
        let work = Work {
            target: target.clone(),
            mix,
            duration,
            progress: Arc::clone(&progress),
            enough: Arc::clone(&enough),
        };
        std::thread::Builder::new().name("demo-client".to_owned()).spawn(move || {
            // If nobody waits any more, the demo was interrupted.
            let _ = done.send(work.run(content));
        })?;
        Ok(Self { progress, enough, outcome })
    }

    /// Ends it, and waits until its last request is answered.
    pub(super) async fn finish(self) -> io::Result<Content> {
        self.enough.store(true, Ordering::Relaxed);
        self.ended().await
    }

    /// Waits until its time is over.
    pub(super) async fn ended(self) -> io::Result<Content> {
        self.outcome.await.unwrap_or_else(|_| Err(io::Error::other("the client's thread died")))
    }
}

struct Work {
    target: Target,
    mix: Mix,
    duration: Duration,
    progress: Arc<Progress>,
    enough: Arc<AtomicBool>,
}

impl Work {
    fn run(self, content: Content) -> io::Result<Content> {
        let options = ExecutorOptions { registered_bytes: 0, ..ExecutorOptions::default() };
        let executor = Executor::new(options)?;
        executor.run(|env| async move { self.drive(&env, content).await })
    }

    async fn drive(self, env: &HostEnv, mut content: Content) -> io::Result<Content> {
        let mut client = Client::connect(env, &self.target.endpoint, &self.target.export).await?;
        content.set_request(self.mix.request_bytes);
        let content = RefCell::new(content);
        let mut left = self.duration;
        let mut seed = u64::from(self.mix.request_bytes) + self.duration.as_secs();
        while left > Duration::ZERO && !self.enough.load(Ordering::Relaxed) {
            let piece = left.min(PIECE);
            let workload = Workload {
                read_percent: self.mix.read_percent,
                request_bytes: self.mix.request_bytes,
                depth: DEPTH,
                range: ByteRange::at(0, self.target.size_bytes),
                pattern: Pattern::Random,
                limit: Limit::Duration(piece),
                seed,
            };
            let check = |offset, data: &[u8]| content.borrow_mut().check(offset, data);
            let fill = |offset, buf: &mut [u8]| content.borrow_mut().fill(offset, buf);
            let follow = |event| content.borrow_mut().follow(event);
            client.run_followed(&workload, check, fill, follow, &self.progress).await?;
            left -= piece;
            seed = seed.wrapping_add(1);
        }
        client.disconnect().await?;
        Ok(content.into_inner())
    }
}
