//! Changing and importing pools.

use std::sync::Arc;

use hotset_api::{ApiError, ApiErrorKind, ChangePlan, PoolImport, PoolSet};
use hotset_cache::config::{IoType, PoolKind, PoolName, PoolSettings};
use hotset_cache::{Missing, Takeover};

use super::create::check_distinct;
use crate::daemon::conversion::merged;
use crate::daemon::naming::{pool_name, uuid};
use crate::daemon::opening::converting::Converting;
use crate::daemon::opening::devices::Devices;
use crate::daemon::opening::probe::{Candidate, Role};
use crate::daemon::opening::records::Records;
use crate::daemon::opening::scan::FoundSsd;
use crate::daemon::opening::start::Opening;
use crate::size::human;
use crate::words;

/// Changes and imports pools.
pub(crate) struct Pools {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) converting: Arc<Converting>,
    pub(crate) opening: Arc<Opening>,
}

/// What settings would come to.
struct PlannedSettings {
    settings: PoolSettings,
    changed: bool,
    warnings: Vec<String>,
}

impl Pools {
    /// Whether that changed anything, and what to know about it.
    pub(crate) async fn set_pool(&self, name: &str, set: PoolSet) -> Result<(bool, Vec<String>), ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        let pool = pool_name(name)?;
        let PlannedSettings { settings, changed, warnings } = self.planned_settings(&pool, set).await?;
        if changed {
            self.records.plane.of_pool(&pool.clone()).call(move |plane| plane.pools().set_pool(pool, settings)).await?;
            tracing::info!(pool = name, ?set, "changed settings");
        }
        Ok((changed, warnings))
    }

    /// What would be refused is refused; nothing is changed.
    pub(crate) async fn plan_settings(&self, name: &str, set: PoolSet) -> Result<ChangePlan, ApiError> {
        let PlannedSettings { warnings, .. } = self.planned_settings(&pool_name(name)?, set).await?;
        Ok(ChangePlan { warnings, ..ChangePlan::default() })
    }

    async fn planned_settings(&self, pool: &PoolName, set: PoolSet) -> Result<PlannedSettings, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        let now = snapshot.pools.iter().find(|open| open.name == *pool);
        let now = now.ok_or_else(|| self.records.not_open(pool.as_str()))?;
        let settings = merged(now.kind, now.settings, set);
        settings.check(now.kind).map_err(|error| words::error(&error))?;
        let warnings = set.io_type.and_then(|_| other_block(pool.as_str(), now.kind, &settings)).into_iter().collect();
        Ok(PlannedSettings { settings, changed: settings != now.settings, warnings })
    }

    /// Whether that changed anything, and the name of the pool.
    pub(crate) async fn import_pool(&self, request: &PoolImport) -> Result<(bool, PoolName), ApiError> {
        let candidates = self.devices.candidates(&request.ssds, Role::SsdOfPool).await?;
        check_distinct(&candidates)?;
        self.records.check_state_takes_records().await?;
        // Others are not held up while marks are watched.
        let takeover = if request.force { Takeover::Forced } else { Takeover::Own };
        self.opening.dismiss_owner(request.ssds.clone(), takeover).await?;
        let found: Vec<FoundSsd> = candidates.into_iter().map(labelled).collect::<Result<_, _>>()?;
        let _one_at_a_time = self.records.change.lock().await;
        let first =
            found.first().ok_or_else(|| ApiError::new(ApiErrorKind::Invalid, "an import needs at least one SSD"))?;
        let name = first.label.pool_name.clone();
        self.converting.check_not_converted(&name)?;
        self.records.check_record_of(&name)?;
        if let Some(other) = found.iter().find(|other| other.label.pool_uuid != first.label.pool_uuid) {
            return Err(ApiError::new(
                ApiErrorKind::Invalid,
                format!(
                    "SSD {} is of pool {}, SSD {} of another one, {}; import one pool at a time",
                    first.path, name, other.path, other.label.pool_name
                ),
            ));
        }
        let wanted = uuid(first.label.pool_uuid);
        let snapshot = self.records.plane.snapshot().await?;
        match snapshot.pools.iter().find(|pool| pool.name == name) {
            Some(open) if uuid(open.uuid) == wanted => {
                return Ok((false, name));
            }
            Some(_) => return Err(self.name_is_taken(&name)),
            None => {}
        }
        if self.records.is_forgotten(&wanted)? {
            return Err(ApiError::new(ApiErrorKind::Refused, words::forgotten_pool(name.as_str())));
        }
        let missing = match (request.accept_missing, request.accept_loss) {
            (_, true) => Missing::AcceptLoss,
            (true, false) => Missing::Leave,
            (false, false) => Missing::Refuse,
        };
        self.open_imported(&name, &wanted, found, missing).await?;
        Ok((true, name))
    }

    fn name_is_taken(&self, name: &PoolName) -> ApiError {
        let message = format!("pool {name}: another pool of this name exists already; delete that one first");
        ApiError::new(ApiErrorKind::Refused, message)
    }

    async fn open_imported(
        &self,
        name: &PoolName,
        wanted: &str,
        found: Vec<FoundSsd>,
        missing: Missing,
    ) -> Result<(), ApiError> {
        let known = self.records.offline().pools.get(name.as_str()).map(|pool| pool.record.clone());
        match known {
            Some(known) if known.uuid != wanted => return Err(self.name_is_taken(name)),
            // What a later Hotset can read is not missing.
            Some(known) => self.opening.newer_format(&known).await.map_or(Ok(()), Err)?,
            None => self.records.make_member(name).await?,
        }
        let paths = found.into_iter().map(|ssd| ssd.path).collect();
        self.records.failures.lift(&self.records.state, name.as_str());
        let opened = self.opening.open(name, paths, missing).await?;
        self.opening.open_volumes_of(name, opened).await;
        tracing::info!(pool = %name, "imported");
        Ok(())
    }
}

/// The cache block does not follow the I/O type online.
fn other_block(pool: &str, kind: PoolKind, settings: &PoolSettings) -> Option<String> {
    let PoolSettings { io_type, block_bytes: now, .. } = *settings;
    let preset = PoolSettings::preset(kind, io_type).block_bytes;
    (io_type != IoType::Custom && preset != now).then(|| {
        format!(
            "its cache block stays {}; that of {io_type} is {}: `hotset pool convert {pool} --block-size {}M` changes it in \
             place",
            human(now.get()),
            human(preset.get()),
            preset.get() >> 20
        )
    })
}

fn labelled(candidate: Candidate) -> Result<FoundSsd, ApiError> {
    let Candidate { path, label, signature, .. } = candidate;
    let Some(label) = label else {
        let carries = signature.map_or(String::new(), |signature| format!(", but {signature}"));
        return Err(ApiError::new(ApiErrorKind::Invalid, format!("SSD {path}: it carries no Hotset pool{carries}")));
    };
    Ok(FoundSsd { path, label })
}
