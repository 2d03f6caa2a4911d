//! What was lost with SSDs: listing it, and accepting it.

use std::sync::Arc;

use hotset_api::{ApiError, LossAccepted, LossList, LostExtent, VolumeLoss};
use hotset_cache::config::{PoolName, VolumeName};
use hotset_cache::{FenceCause, VolumeStatus};

use crate::daemon::naming::pool_name;
use crate::daemon::opening::records::Records;
use crate::daemon::opening::serve::Serving;
use crate::plane::Snapshot;

/// Extents of a volume that are listed.
const EXTENTS_MAX: usize = 1000;

/// Lists what was lost, and accepts it.
pub(crate) struct Losses {
    pub(crate) records: Arc<Records>,
    pub(crate) serving: Arc<Serving>,
}

impl Losses {
    pub(crate) async fn losses(&self, name: &str) -> Result<LossList, ApiError> {
        let (pool, snapshot) = (pool_name(name)?, self.records.plane.snapshot().await?);
        if !snapshot.pools.iter().any(|open| open.name == pool) {
            return Err(self.records.not_open(name));
        }
        let unknown = self.unknown_losses(&pool, &snapshot);
        let lost = self
            .records
            .plane
            .of_pool(&pool.clone())
            .call(move |plane| plane.pools().losses(pool, EXTENTS_MAX))
            .await?;
        let known = lost.into_iter().filter(|(volume, _)| unknown.iter().all(|status| status.name != *volume));
        let volumes = known.map(|(volume, extents)| VolumeLoss {
            possible: false,
            lost_bytes: snapshot.volumes.iter().find(|open| open.name == volume).map_or(0, |open| open.lost_bytes),
            name: volume.to_string(),
            extents: extents
                .into_iter()
                .map(|extent| LostExtent { offset: extent.start, length: extent.length() })
                .collect(),
        });
        Ok(LossList { volumes: volumes.chain(unknown.iter().map(|status| possible_loss(status))).collect() })
    }

    /// The volumes of a pool of which nobody knows what was lost.
    fn unknown_losses<'a>(&self, pool: &PoolName, snapshot: &'a Snapshot) -> Vec<&'a VolumeStatus> {
        let offline = self.records.offline();
        let lost = |name: &VolumeName| {
            offline.fenced.get(name.as_str()).is_some_and(|fenced| fenced.cause == FenceCause::UnknownLoss)
        };
        snapshot.volumes.iter().filter(|volume| volume.pool.as_ref() == Some(pool) && lost(&volume.name)).collect()
    }

    /// From now on what was lost is what the backing devices hold.
    pub(crate) async fn accept_loss(&self, name: &str) -> Result<LossAccepted, ApiError> {
        let (pool, snapshot) = (pool_name(name)?, self.records.plane.snapshot().await?);
        if !snapshot.pools.iter().any(|open| open.name == pool) {
            return Err(self.records.not_open(name));
        }
        let unknown = self.unknown_losses(&pool, &snapshot);
        let mut accepted_bytes = self.accept_known_loss(&pool).await?;
        if !unknown.is_empty() {
            let one_at_a_time = self.records.change.lock().await;
            for status in &unknown {
                self.serving.lift_fence(&pool, status.name.clone()).await?;
            }
            drop(one_at_a_time);
            // Of those that were fenced some may be known to be lost, too.
            accepted_bytes += self.accept_known_loss(&pool).await?;
        }
        tracing::warn!(pool = name, accepted_bytes, volumes_unfenced = unknown.len(), "the loss was accepted");
        Ok(LossAccepted { accepted_bytes })
    }

    async fn accept_known_loss(&self, pool: &PoolName) -> Result<u64, ApiError> {
        let pool = pool.clone();
        self.records.plane.of_pool(&pool.clone()).call(move |plane| plane.pools().accept_loss(pool)).await
    }
}

fn possible_loss(status: &VolumeStatus) -> VolumeLoss {
    VolumeLoss {
        name: status.name.to_string(),
        possible: true,
        lost_bytes: status.lost_bytes,
        extents: vec![LostExtent { offset: 0, length: status.size_bytes }],
    }
}
