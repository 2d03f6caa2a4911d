//! What was lost with SSDs: listing it, and giving it up.

use hotset_api::{ApiError, LossAccepted, LossList, LostExtent, VolumeLoss};

use super::{Manager, pool_name};

/// Extents of a volume that are listed.
const EXTENTS_MAX: usize = 1000;

impl Manager {
    pub(crate) async fn losses(&self, name: &str) -> Result<LossList, ApiError> {
        let (pool, snapshot) = (pool_name(name)?, self.plane.snapshot().await?);
        if !snapshot.pools.iter().any(|open| open.name == pool) {
            return Err(self.not_open(name));
        }
        let lost = self.plane.call(move |plane| plane.losses(pool, EXTENTS_MAX)).await?;
        let volumes = lost.into_iter().map(|(volume, extents)| VolumeLoss {
            lost_bytes: snapshot.volumes.iter().find(|open| open.name == volume).map_or(0, |open| open.lost_bytes),
            name: volume.to_string(),
            extents: extents
                .into_iter()
                .map(|extent| LostExtent { offset: extent.start, length: extent.length() })
                .collect(),
        });
        Ok(LossList { volumes: volumes.collect() })
    }

    /// From now on what was lost is what the backing devices hold.
    pub(crate) async fn accept_loss(&self, name: &str) -> Result<LossAccepted, ApiError> {
        let pool = pool_name(name)?;
        if !self.plane.snapshot().await?.pools.iter().any(|open| open.name == pool) {
            return Err(self.not_open(name));
        }
        let accepted_bytes = self.plane.call(move |plane| plane.accept_loss(pool)).await?;
        tracing::warn!(pool = name, accepted_bytes, "what was lost is given up");
        Ok(LossAccepted { accepted_bytes })
    }
}
