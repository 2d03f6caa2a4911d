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
pub(super) const DEPTH: usize = 128;

/// Requests in flight, and their length, when everything is read once.
const READ_ALL_DEPTH: usize = 8;
const READ_ALL_BYTES: u32 = 256 << 10;

/// A load without end is made of pieces this long.
const PIECE: Duration = Duration::from_secs(1);

/// What is asked of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoadShape {
    pub(super) request_bytes: u32,
    pub(super) read_percent: u8,
    /// From the volume's start.
    pub(super) range_bytes: u64,
    /// At random for so long; `None`: once through, one after the other.
    pub(super) duration: Option<Duration>,
}

impl LoadShape {
    pub(super) fn reads(range_bytes: u64, duration: Duration) -> Self {
        Self { request_bytes: 4096, read_percent: 100, range_bytes, duration: Some(duration) }
    }

    pub(super) fn writes(range_bytes: u64, duration: Duration) -> Self {
        Self { read_percent: 0, ..Self::reads(range_bytes, duration) }
    }

    /// What databases do, says the vendor.
    pub(super) fn database(range_bytes: u64, duration: Duration) -> Self {
        Self { request_bytes: 8192, read_percent: 67, ..Self::reads(range_bytes, duration) }
    }

    pub(super) fn read_all(range_bytes: u64) -> Self {
        Self { request_bytes: READ_ALL_BYTES, read_percent: 100, range_bytes, duration: None }
    }

    fn workload(&self, seed: u64, piece: Duration) -> Workload {
        let random = Workload {
            read_percent: self.read_percent,
            request_bytes: self.request_bytes,
            depth: DEPTH,
            range: ByteRange::at(0, self.range_bytes),
            pattern: Pattern::Random,
            limit: Limit::Duration(piece),
            seed,
        };
        if self.duration.is_some() {
            return random;
        }
        let requests = self.range_bytes / u64::from(self.request_bytes);
        Workload { depth: READ_ALL_DEPTH, pattern: Pattern::Sequential, limit: Limit::Requests(requests), ..random }
    }
}

/// Where the volume is.
#[derive(Clone, Debug)]
pub(super) struct LoadTarget {
    pub(super) endpoint: Endpoint,
    pub(super) export: String,
}

/// A load that is running.
pub(super) struct Load {
    pub(super) progress: Arc<Progress>,
    /// Set, it ends the load early.
    pub(super) enough: Arc<AtomicBool>,
    outcome: oneshot::Receiver<io::Result<Content>>,
}

impl Load {
    /// Starts a load that ends by itself, or when it is told that it is enough.
    pub(super) fn start(target: &LoadTarget, job: LoadShape, content: Content) -> io::Result<Self> {
        let progress = Arc::new(Progress::new());
        let enough = Arc::new(AtomicBool::new(false));
        let (done, outcome) = oneshot::channel();
        let work = Work { target: target.clone(), job, progress: Arc::clone(&progress), enough: Arc::clone(&enough) };
        std::thread::Builder::new().name("demo-client".to_owned()).spawn(move || {
            // If nobody waits any more, the demo was interrupted.
            let _ = done.send(work.run(content));
        })?;
        Ok(Self { progress, enough, outcome })
    }

    /// Waits until its last request is answered.
    pub(super) async fn ended(self) -> io::Result<Content> {
        self.outcome.await.unwrap_or_else(|_| Err(io::Error::other("the client's thread died")))
    }
}

struct Work {
    target: LoadTarget,
    job: LoadShape,
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
        content.set_request(self.job.request_bytes);
        let content = RefCell::new(content);
        let mut left = self.job.duration.unwrap_or(PIECE);
        let mut seed = u64::from(self.job.request_bytes) + left.as_secs();
        while left > Duration::ZERO && !self.enough.load(Ordering::Relaxed) {
            let piece = left.min(PIECE);
            let workload = self.job.workload(seed, piece);
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
