//! SSDs that are away with the only copies of dirty data: they come back by themselves, at a start and while the daemon runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use hotset_api::ApiError;
use hotset_cache::config::PoolName;

use super::serve::RETRY_INTERVAL;
use super::{Manager, pool_name, uuid};
use crate::daemon::scan::Found;
use crate::daemon::state::PoolRecord;

impl Manager {
    /// Of the SSDs that left a pool which is not open, those that it has use for: they are opened with it although they failed.
    pub(super) async fn awaited_by(&self, record: &PoolRecord) -> BTreeSet<String> {
        let Ok(name) = pool_name(&record.name) else { return BTreeSet::new() };
        let member = self.state.member(&name);
        if record.left.iter().all(|left| left.failed.is_none()) || !member.exists() {
            return BTreeSet::new();
        }
        match self.plane.first().call(move |plane| plane.ssds_awaited_by(member)).await {
            Ok(ssds) => ssds.into_iter().map(uuid).collect(),
            Err(error) => {
                tracing::warn!(pool = record.name, "it is not known which SSDs it waits for: {error}");
                BTreeSet::new()
            }
        }
    }

    /// Looks again and again, for as long as the daemon runs.
    pub(crate) async fn watch_awaited(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            let Ok(awaited) = self.plane.all(|plane| plane.ssds_returning()).await else { return };
            for (pool, ssds) in awaited.concat() {
                self.look_for(&pool, ssds).await;
            }
        }
    }

    /// Brings back what is there of the SSDs that a pool waits for.
    async fn look_for(&self, pool: &PoolName, ssds: Vec<(u128, String)>) {
        let known = ssds.iter().map(|(_, path)| path.clone()).filter(|path| !path.is_empty()).collect();
        let found = self.scanner.ssds(known, self.config.ssd_scan.clone()).await.ssds;
        let is_awaited = |ssd: &Found| ssds.iter().any(|(ssd_uuid, _)| *ssd_uuid == ssd.label.ssd_uuid);
        let mut changed = false;
        for ssd in found.into_iter().filter(is_awaited) {
            let path = ssd.path;
            match self.bring_back(pool, path.clone()).await {
                Ok(()) => {
                    changed = true;
                    tracing::warn!(%pool, "SSD {path} is there again: what was unavailable and lies on it is served again");
                }
                Err(error) => tracing::debug!(%pool, "SSD {path} cannot be taken back: {error}"),
            }
        }
        if changed && let Err(error) = self.save_pool(pool).await {
            tracing::warn!(%pool, "the record of its SSDs is behind: {error}");
        }
    }

    async fn bring_back(&self, pool: &PoolName, path: String) -> Result<(), ApiError> {
        let _one_at_a_time = self.change.lock().await;
        let pool = pool.clone();
        self.plane.of_pool(&pool.clone()).call(move |plane| plane.bring_back(pool, path)).await
    }
}
