//! The clean stop: hosts first, then volumes, then pools; each step has its limit.

use std::rc::Rc;
use std::time::Duration;

use hotset_block::{Env, HostEnv};
use hotset_cache::config::PoolName;
use hotset_cache::{Error, Pool};
use tokio::sync::oneshot;

use super::Plane;

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

impl Plane {
    /// Refuses new hosts, finishes or abandons what is in flight, flushes, and closes the pools. Nothing serves after it.
    pub(crate) async fn stop(self: Rc<Self>) -> Result<StopReport, Error> {
        self.server.stop(HOSTS_LIMIT).await;
        let mut endings = Vec::new();
        let volumes: Vec<_> = self.volumes.borrow().values().cloned().collect();
        for volume in volumes.into_iter().filter(|volume| volume.status().pool.is_none()) {
            let what = format!("volume {}: its last flush", volume.name());
            endings.push(self.limited(what, async move { volume.flush().await }));
        }
        let pools: Vec<_> = self.pools.borrow().values().cloned().collect();
        for pool in &pools {
            let (what, pool) = (format!("pool {}: its clean stop", pool.status().name), pool.clone());
            endings.push(self.limited(what, async move { pool.close().await }));
        }
        let mut report = StopReport::default();
        for ending in endings {
            report.problems.extend(ending.await.ok().flatten());
        }
        if report.problems.is_empty() {
            report.clean_pools = pools.iter().filter_map(clean_pool).collect();
        }
        Ok(report)
    }

    /// Starts `work` and tells what became of it: nothing if it is done in time.
    fn limited(
        &self,
        what: String,
        work: impl Future<Output = Result<(), Error>> + 'static,
    ) -> oneshot::Receiver<Option<String>> {
        let (done, outcome) = oneshot::channel();
        let limit = self.env.sleep(CLOSE_LIMIT);
        self.env.spawn(async move {
            let problem = tokio::select! {
                result = work => result.err().map(|error| format!("{what} failed: {error}")),
                () = limit => Some(format!("{what} took more than {} s and was given up", CLOSE_LIMIT.as_secs())),
            };
            // The receiver waits in `stop`, unless the data plane is torn down under it.
            let _ = done.send(problem);
        });
        outcome
    }
}

/// The name of a pool without dirty data.
fn clean_pool(pool: &Pool<HostEnv>) -> Option<PoolName> {
    let status = pool.status();
    let dirty_bytes = status.write_log.map_or(0, |log| log.dirty_bytes);
    (dirty_bytes == 0).then_some(status.name)
}
