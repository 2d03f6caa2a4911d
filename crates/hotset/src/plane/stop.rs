//! The clean stop: hosts first, then volumes, then pools; each step has its limit.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;
use hotset_cache::config::{PoolName, VolumeName};
use hotset_cache::{Closed, Error};
use tokio::sync::oneshot;

use super::open::Plane;

/// How long requests in flight may take before their connections are cut.
pub(super) const HOSTS_LIMIT: Duration = Duration::from_secs(3);

/// How long a volume may take to flush, and a pool to close. A pool waits for backing devices itself, for
/// `limits::STOP_FLUSH_TIMEOUT`.
const CLOSE_LIMIT: Duration = Duration::from_secs(8);

/// What did not stop cleanly; empty if all did.
#[derive(Debug, Default)]
pub(crate) struct StopReport {
    pub(crate) problems: Vec<String>,
    /// Pools that stopped cleanly and hold nothing that the backing devices lack.
    pub(crate) clean_pools: Vec<PoolName>,
}

impl StopReport {
    /// Of all threads. While something did not stop cleanly, no pool is said to have.
    pub(super) fn of(parts: Vec<Self>) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.problems.extend(part.problems);
            all.clean_pools.extend(part.clean_pools);
        }
        if !all.problems.is_empty() {
            all.clean_pools.clear();
        }
        all
    }
}

impl Plane {
    /// Refuses new hosts, finishes or abandons what is in flight, flushes, and closes the pools. Nothing serves after it.
    pub(crate) async fn stop(self: Rc<Self>) -> Result<StopReport, Error> {
        self.stopping.set(true);
        self.exports.stop(HOSTS_LIMIT).await;
        let clean_pools = Rc::new(RefCell::new(Vec::new()));
        let mut endings = Vec::new();
        let volumes: Vec<_> = self.volumes.borrow().values().cloned().collect();
        for volume in volumes.into_iter().filter(|volume| volume.status().pool.is_none()) {
            let what = format!("volume {}: its last flush", volume.name());
            endings.push(self.limited(what, async move { volume.flush().await.map(|()| Vec::new()) }));
        }
        let pools: Vec<_> = self.pools.borrow().values().cloned().collect();
        for pool in pools {
            let (name, clean_pools) = (pool.status().name, Rc::clone(&clean_pools));
            let what = format!("pool {name}: its clean stop");
            endings.push(self.limited(what, async move {
                let closed = pool.close().await?;
                if closed.dirty_bytes == 0 {
                    clean_pools.borrow_mut().push(name);
                }
                Ok(not_left_clean(&closed))
            }));
        }
        let mut report = StopReport::default();
        for ending in endings {
            report.problems.extend(ending.await.unwrap_or_default());
        }
        if report.problems.is_empty() {
            report.clean_pools = clean_pools.take();
        }
        Ok(report)
    }

    /// Starts `work` and tells its problems: what it says, or that it failed or is not done in time.
    fn limited(
        &self,
        what: String,
        work: impl Future<Output = Result<Vec<String>, Error>> + 'static,
    ) -> oneshot::Receiver<Vec<String>> {
        let (done, outcome) = oneshot::channel();
        let limit = self.env.sleep(CLOSE_LIMIT);
        self.env.spawn(async move {
            let problems = tokio::select! {
                result = work => result.unwrap_or_else(|error| vec![format!("{what} failed: {error}")]),
                () = limit => vec![format!("{what} took more than {} s and was not waited for", CLOSE_LIMIT.as_secs())],
            };
            // The receiver waits in `stop`, unless the data plane is torn down under it.
            let _ = done.send(problems);
        });
        outcome
    }
}

/// What is to be told of backing devices that a clean stop did not leave clean.
fn not_left_clean(closed: &Closed) -> Vec<String> {
    let one = |(volume, error): &(VolumeName, Error)| {
        format!("volume {volume} was not left clean: {error}; the next start treats it as after a crash")
    };
    closed.not_durable.iter().map(one).collect()
}
