//! A fenced volume's backing device is the right one, although it was taken for another: what speaks for and against it, and the
//! administrator's word.

use hotset_api::{ApiError, ApiErrorKind, BackingAccept, BackingEvidence, VolumeChange};
use hotset_block::Likeness;
use hotset_cache::FenceCause;
use hotset_cache::config::{PoolName, VolumeName};

use super::Manager;
use crate::size::human;

impl Manager {
    pub(crate) async fn backing_evidence(&self, name: &str) -> Result<BackingEvidence, ApiError> {
        if let Some(evidence) = self.unexpected_evidence(name) {
            return Ok(evidence);
        }
        let (pool, volume) = self.cached_volume(name).await?;
        let found = self.plane.of_pool(&pool.clone()).call(move |plane| plane.backing_evidence(pool, volume)).await?;
        let fenced = self.offline().fenced.get(name).cloned();
        let fenced = fenced.filter(|fenced| fenced.cause == FenceCause::OtherBacking);
        let count = |pages: usize| u64::try_from(pages).expect("fingerprints are few");
        Ok(BackingEvidence {
            fenced: fenced.is_some(),
            dirty_bytes: fenced.map_or(0, |fenced| fenced.dirty_bytes),
            size_bytes_before: found.size_bytes_before,
            size_bytes: found.size_bytes,
            same_identity: match found.likeness {
                Likeness::Same => Some(true),
                Likeness::Unknown => None,
                Likeness::Other => Some(false),
            },
            fingerprints_matching: count(found.matching),
            fingerprints_telling: count(found.telling),
            fingerprints_unsettled: count(found.unsettled),
            written: found.written,
            against: found.against().unwrap_or_default(),
            needs_force: found.is_grave(),
            identity_before: found.identity_before,
            identity: found.identity,
            fingerprints_changed: found.changed,
        })
    }

    pub(crate) async fn accept_backing(&self, name: &str, accept: BackingAccept) -> Result<VolumeChange, ApiError> {
        let _one_at_a_time = self.change.lock().await;
        if self.accept_unexpected(name).await? {
            return Ok(VolumeChange { changed: true, volume: self.volume(name).await? });
        }
        let evidence = self.backing_evidence(name).await?;
        if !evidence.fenced {
            return Ok(VolumeChange { changed: false, volume: self.volume(name).await? });
        }
        if evidence.needs_force && !accept.force {
            return Err(refusal(name, &evidence));
        }
        let (pool, volume) = self.cached_volume(name).await?;
        let (of, accepted) = (pool.clone(), volume.clone());
        self.plane.of_pool(&pool).call(move |plane| plane.accept_backing(of, accepted)).await?;
        self.offline().fenced.remove(name);
        self.plane.of_volume(&volume.clone()).call(move |plane| plane.export(volume)).await?;
        self.update_udev_rules().await;
        if let Ok(status) = self.open_volume_status(name).await {
            self.note_backing(name, &status.backing).await;
        }
        self.save_pool(&pool).await?;
        tracing::warn!(volume = name, against = evidence.against, "its backing device is accepted as the right one");
        Ok(VolumeChange { changed: true, volume: self.volume(name).await? })
    }

    async fn cached_volume(&self, name: &str) -> Result<(PoolName, VolumeName), ApiError> {
        let status = self.open_volume_status(name).await?;
        let pool = status.pool.ok_or_else(|| {
            let message = format!("volume {name}: no pool caches it, so nothing of it waits for its backing device");
            ApiError::new(ApiErrorKind::Refused, message)
        })?;
        Ok((pool, status.name))
    }
}

fn refusal(name: &str, evidence: &BackingEvidence) -> ApiError {
    let dirty = human(evidence.dirty_bytes);
    let message = format!(
        "volume {name}: more than its name speaks against this backing device: {}; {dirty} of dirty data would be written over \
         what is there",
        evidence.against
    );
    ApiError::new(ApiErrorKind::Refused, message).with_hint(format!(
        "`hotset volume accept-backing {name} --dry-run` shows all that is known; --force accepts it nevertheless"
    ))
}
