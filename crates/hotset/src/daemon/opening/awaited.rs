//! SSDs that are away and have the only copies of dirty data, or were silent, or were missing at the start of a read pool: they come back
//! by themselves, at a start and while the daemon runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use hotset_api::ApiError;
use hotset_cache::config::PoolName;

use super::devices::Devices;
use super::offline::RETRY_INTERVAL;
use super::records::Records;
use super::scan::FoundSsd;
use crate::daemon::naming::{pool_name, uuid};
use crate::daemon::state::PoolRecord;

/// Looks for SSDs that open pools wait for.
pub(crate) struct AwaitedSsds {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
}

impl AwaitedSsds {
    /// Of the SSDs that left a pool which is not open, those that it has use for: they are opened with it although they failed.
    pub(super) async fn awaited_by(&self, record: &PoolRecord) -> BTreeSet<String> {
        let Ok(name) = pool_name(&record.name) else { return BTreeSet::new() };
        // What cannot be looked at fails where it is read.
        let has_member = self.records.state.has_member(&name).unwrap_or(true);
        if record.left.iter().all(|left| left.failed.is_none()) || !has_member {
            return BTreeSet::new();
        }
        let member = self.records.state.member(&name);
        match self.records.plane.first().call(move |plane| plane.pools().ssds_awaited_by(member)).await {
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
            let Ok(awaited) = self.records.plane.all(|plane| plane.pools().ssds_returning()).await else { return };
            for (pool, ssds) in awaited.concat() {
                self.look_for(&pool, ssds).await;
            }
        }
    }

    /// Brings back what is there of the SSDs that a pool waits for.
    async fn look_for(&self, pool: &PoolName, ssds: Vec<(u128, String)>) {
        let known = ssds.iter().map(|(_, path)| path.clone()).filter(|path| !path.is_empty()).collect();
        let found = self.devices.scanner.ssds(known, self.records.config.ssd_scan.clone()).await.ssds;
        let is_awaited = |ssd: &FoundSsd| ssds.iter().any(|(ssd_uuid, _)| *ssd_uuid == ssd.label.ssd_uuid);
        let mut changed = false;
        for ssd in found.into_iter().filter(is_awaited) {
            let path = ssd.path;
            match self.bring_back(pool, path.clone()).await {
                Ok(()) => {
                    changed = true;
                    tracing::warn!(%pool, "SSD {path} is there again and is used: what was unavailable and lies on it is served, and it is cached on");
                }
                Err(error) => tracing::debug!(%pool, "SSD {path} cannot be taken back: {error}"),
            }
        }
        if changed && let Err(error) = self.records.save_pool(pool).await {
            tracing::warn!(%pool, "the record of its SSDs is behind: {error}");
        }
    }

    async fn bring_back(&self, pool: &PoolName, path: String) -> Result<(), ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        let pool = pool.clone();
        self.records.plane.of_pool(&pool.clone()).call(move |plane| plane.pools().bring_back(pool, path)).await
    }
}
