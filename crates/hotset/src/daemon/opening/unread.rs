//! Records that could not be read at the start are read when they can be: what they name comes then, without a restart.

use std::sync::Arc;

use hotset_api::ApiError;
use hotset_cache::DirtyData;
use hotset_cache::config::PoolName;

use super::converting::Converting;
use super::offline::RETRY_INTERVAL;
use super::offline::Waiting;
use super::records::Records;
use super::serve::Serving;
use super::start::Opening;
use crate::daemon::blocking::blocking;
use crate::daemon::naming::pool_name;
use crate::daemon::state::PoolRecord;
use crate::daemon::tokens::Tokens;

/// Reads again what could not be read.
pub(crate) struct UnreadRecords {
    pub(crate) records: Arc<Records>,
    pub(crate) converting: Arc<Converting>,
    pub(crate) serving: Arc<Serving>,
    pub(crate) opening: Arc<Opening>,
}

impl UnreadRecords {
    /// Runs until the runtime ends.
    pub(crate) async fn read_records_again(self: Arc<Self>, tokens: Arc<Tokens>) {
        loop {
            let (this, of_api) = (Arc::clone(&self), Arc::clone(&tokens));
            let unread = blocking(move || of_api.read_again(this.records.state())).await.unwrap_or_default();
            self.records.offline().unread_tokens = unread;
            let this = Arc::clone(&self);
            let forgotten = blocking(move || this.records.state.forgotten_pools()).await;
            self.records.offline().unread_forgotten = forgotten.ok().and_then(Result::err);
            let (pools, volumes, conversions, taken) = {
                let offline = self.records.offline();
                let (pools, volumes) = (!offline.unread_pools.is_empty(), offline.unread_volumes.is_some());
                (pools, volumes, !offline.unread_conversions.is_empty(), !offline.taken.is_empty())
            };
            if conversions {
                self.open_converted().await;
            }
            if pools {
                self.read_pools_again().await;
            }
            if volumes {
                self.serving.open_uncached_volumes().await;
            }
            if taken {
                self.detach_taken_again().await;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Pools that were not opened because nobody knew how far their conversions had come.
    async fn open_converted(self: &Arc<Self>) {
        for pool in self.converting.read_conversions_again().await {
            if self.converting.is_rewritten(&pool) {
                // Its volumes are among those without a pool.
                self.records.release_offline_volumes(&pool);
                self.serving.open_uncached_volumes().await;
                continue;
            }
            let record = self.records.offline().pools.get(&pool).map(|offline| offline.record.clone());
            if let Some(record) = record {
                tokio::spawn(Arc::clone(&self.opening).open_and_wait(record));
            }
        }
    }

    /// What was taken from pools while they were closed, and could not be detached when they were opened.
    async fn detach_taken_again(&self) {
        let pools: Vec<String> = self.records.offline().taken.keys().cloned().collect();
        for pool in pools {
            let Ok(name) = pool_name(&pool) else { continue };
            let _one_at_a_time = self.records.change.lock().await;
            if !self.records.is_open(&name).await {
                continue;
            }
            match self.detach_taken_from(&name).await {
                Ok(()) => {
                    tracing::info!(pool, "what was taken from it while it was closed is detached");
                    self.records.offline().taken.remove(&pool);
                    // A record that cannot be written is a condition, and is written when it can be.
                    let _ = self.records.save_pool(&name).await;
                }
                // It was told when the pool was opened, and is tried again.
                Err(error) => tracing::debug!(pool, "{error}"),
            }
        }
    }

    async fn detach_taken_from(&self, name: &PoolName) -> Result<(), ApiError> {
        let taken = self.records.offline().taken.get(name.as_str()).cloned().unwrap_or_default();
        let pool = name.clone();
        let left = self
            .records
            .plane
            .of_pool(name)
            .call(move |plane| async move { Ok(plane.pool(&pool)?.unattached_volumes()) })
            .await?;
        for volume in left.into_iter().filter(|volume| taken.has(volume)) {
            let pool = name.clone();
            self.records
                .plane
                .of_pool(name)
                .call(move |plane| plane.pools().detach(pool, volume.name, DirtyData::Discard))
                .await?;
        }
        Ok(())
    }

    async fn read_pools_again(self: &Arc<Self>) {
        let this = Arc::clone(self);
        let Ok(Ok(read)) = blocking(move || this.records.state.pools()).await else { return };
        let (records, unread): (Vec<_>, Vec<_>) = read.into_iter().partition(Result::is_ok);
        self.records.offline().unread_pools = unread.into_iter().filter_map(Result::err).collect();
        for record in records.into_iter().flatten() {
            if self.comes_now(&record).await {
                tracing::info!(pool = record.name, "its record can be read again");
                tokio::spawn(Arc::clone(&self.opening).open_and_wait(record));
            }
        }
    }

    /// Shows a pool as one that is being opened, if nobody knows it yet.
    async fn comes_now(&self, record: &PoolRecord) -> bool {
        let _one_at_a_time = self.records.change.lock().await;
        let Ok(name) = pool_name(&record.name) else { return false };
        let known =
            self.converting.is_rewritten(&record.name) || self.records.offline().pools.contains_key(&record.name);
        // It may have been deleted since it was read.
        let comes = !known && !self.records.is_open(&name).await && self.records.state.has_record_of(&name);
        if comes {
            self.records.set_offline(record, "it is being opened", Waiting::ForItsSsds);
            // Before any host can write.
            self.opening.guard.update_udev_rules().await;
        }
        comes
    }
}
