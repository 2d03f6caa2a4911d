//! A fenced volume's backing device is the right one, although it was taken for another: what speaks for and against it, and the
//! administrator's word.

use std::sync::Arc;

use hotset_api::{ApiError, ApiErrorKind, BackingAccept, BackingEvidence};
use hotset_block::Likeness;
use hotset_cache::FenceCause;
use hotset_cache::config::{PoolName, VolumeName};

use crate::daemon::opening::guard::Guard;
use crate::daemon::opening::recognise::Backings;
use crate::daemon::opening::records::Records;
use crate::daemon::opening::serve::Serving;
use crate::size::human;

/// Takes the administrator's word for a backing device.
pub(crate) struct Acceptance {
    pub(crate) records: Arc<Records>,
    pub(crate) backings: Arc<Backings>,
    pub(crate) serving: Arc<Serving>,
    pub(crate) guard: Arc<Guard>,
}

impl Acceptance {
    pub(crate) async fn backing_evidence(&self, name: &str) -> Result<BackingEvidence, ApiError> {
        if let Some(evidence) = self.backings.unexpected_evidence(name) {
            return Ok(evidence);
        }
        let (pool, volume) = self.cached_volume(name).await?;
        let found = self
            .records
            .plane
            .of_pool(&pool.clone())
            .call(move |plane| plane.pools().backing_evidence(pool, volume))
            .await?;
        let fenced = self.records.offline().fenced.get(name).cloned();
        let fenced = fenced.filter(|fenced| fenced.cause == FenceCause::OtherBacking);
        let count = |pages: usize| u64::try_from(pages).expect("an address has 64 bits at most");
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

    pub(crate) async fn accept_backing(&self, name: &str, accept: BackingAccept) -> Result<bool, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        if self.backings.accept_unexpected(name).await? {
            self.serving.retry_volume(name).await;
            return Ok(true);
        }
        let evidence = self.backing_evidence(name).await?;
        if !evidence.fenced {
            return Ok(false);
        }
        if evidence.needs_force && !accept.force {
            return Err(refusal(name, &evidence));
        }
        let (pool, volume) = self.cached_volume(name).await?;
        let (of, accepted) = (pool.clone(), volume.clone());
        self.records.plane.of_pool(&pool).call(move |plane| plane.pools().accept_backing(of, accepted)).await?;
        self.records.offline().fenced.remove(name);
        self.records.plane.of_volume(&volume.clone()).call(move |plane| plane.export(volume)).await?;
        self.guard.update_udev_rules().await;
        if let Ok(status) = self.records.open_volume_status(name).await {
            self.backings.note_backing(name, &status.backing).await;
        }
        self.records.save_pool(&pool).await?;
        tracing::warn!(volume = name, against = evidence.against, "its backing device is accepted as the right one");
        Ok(true)
    }

    async fn cached_volume(&self, name: &str) -> Result<(PoolName, VolumeName), ApiError> {
        let status = self.records.open_volume_status(name).await?;
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
