//! Records that could not be read at the start are read when they can be: what they name comes then, without a restart.

use std::sync::Arc;

use super::serve::RETRY_INTERVAL;
use super::{Manager, blocking};
use crate::daemon::state::PoolRecord;
use crate::daemon::tokens::Tokens;

impl Manager {
    /// Runs until the runtime ends.
    pub(crate) async fn read_records_again(self: Arc<Self>, tokens: Arc<Tokens>) {
        loop {
            let (manager, of_api) = (Arc::clone(&self), Arc::clone(&tokens));
            let unread = blocking(move || of_api.read_again(manager.state())).await.unwrap_or_default();
            self.offline().unread_tokens = unread;
            let (pools, volumes) = {
                let offline = self.offline();
                (!offline.unread_pools.is_empty(), offline.unread_volumes.is_some())
            };
            if pools {
                self.read_pools_again().await;
            }
            if volumes {
                self.open_uncached_volumes().await;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    async fn read_pools_again(self: &Arc<Self>) {
        let manager = Arc::clone(self);
        let Ok(Ok(read)) = blocking(move || manager.state.pools()).await else { return };
        let (records, unread): (Vec<_>, Vec<_>) = read.into_iter().partition(Result::is_ok);
        self.offline().unread_pools = unread.into_iter().filter_map(Result::err).collect();
        for record in records.into_iter().flatten() {
            if self.comes_now(&record).await {
                tracing::info!(pool = record.name, "its record can be read again");
                tokio::spawn(Arc::clone(self).open_and_wait(record));
            }
        }
    }

    /// Shows a pool as one that is being opened, if nobody knows it yet.
    async fn comes_now(&self, record: &PoolRecord) -> bool {
        let _one_at_a_time = self.change.lock().await;
        let Ok(name) = super::pool_name(&record.name) else { return false };
        let known = self.is_rewritten(&record.name) || self.offline().pools.contains_key(&record.name);
        // It may have been deleted since it was read.
        let comes = !known && !self.is_open(&name).await && self.state.has_record_of(&name);
        if comes {
            self.set_offline(record, "it is being opened", super::Waiting::ForItsSsds);
        }
        comes
    }

    /// What cannot be read of the state directory, and why.
    pub(super) fn unread(&self) -> Vec<String> {
        let offline = self.offline();
        let all = offline.broken.iter().chain(&offline.unread_pools);
        all.chain(&offline.unread_volumes).chain(&offline.unread_tokens).cloned().collect()
    }
}
