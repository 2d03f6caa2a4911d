//! Changing and importing pools.

use hotset_api::{ApiError, ApiErrorKind, PoolChange, PoolImport, PoolSet, PoolSettingsChange};
use hotset_cache::config::{IoType, PoolKind, PoolName, PoolSettings};
use hotset_cache::{Missing, Takeover};

use super::{Manager, blocking, no_such_pool, pool_name, uuid};
use crate::daemon::conversion::merged;
use crate::daemon::probe;
use crate::daemon::scan::Found;
use crate::size::human;
use crate::words;

impl Manager {
    pub(crate) async fn set_pool(&self, name: &str, set: PoolSet) -> Result<PoolSettingsChange, ApiError> {
        let _one_at_a_time = self.change.lock().await;
        let pool = pool_name(name)?;
        let snapshot = self.plane.snapshot().await?;
        let Some(now) = snapshot.pools.iter().find(|open| open.name == pool) else {
            return Err(self.not_open(name));
        };
        let settings = merged(now.kind, now.settings, set);
        settings.check(now.kind).map_err(|error| words::error(&error))?;
        let changed = settings != now.settings;
        let warnings = set.io_type.and_then(|_| other_block(name, now.kind, &settings)).into_iter().collect();
        if changed {
            self.plane.of_pool(&pool.clone()).call(move |plane| plane.set_pool(pool, settings)).await?;
            tracing::info!(pool = name, ?set, "changed settings");
        }
        Ok(PoolSettingsChange { changed, pool: self.pool(name).await?, warnings })
    }

    /// An offline pool exists, but cannot be changed.
    pub(super) fn not_open(&self, name: &str) -> ApiError {
        match self.offline().pools.get(name) {
            None => no_such_pool(name),
            Some(pool) => ApiError::new(ApiErrorKind::Refused, format!("pool {name} is offline: {}", pool.reason)),
        }
    }

    pub(crate) async fn import_pool(&self, request: &PoolImport) -> Result<PoolChange, ApiError> {
        // Others are not held up while marks are watched.
        let takeover = if request.force { Takeover::Forced } else { Takeover::Own };
        self.dismiss_owner(request.ssds.clone(), takeover).await?;
        let _one_at_a_time = self.change.lock().await;
        let paths = request.ssds.clone();
        let found = blocking(move || found_at(&paths)).await??;
        let first =
            found.first().ok_or_else(|| ApiError::new(ApiErrorKind::Invalid, "an import needs at least one SSD"))?;
        let name = first.label.pool_name.clone();
        self.check_not_converted(&name)?;
        self.check_record_of(&name)?;
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
        let snapshot = self.plane.snapshot().await?;
        match snapshot.pools.iter().find(|pool| pool.name == name) {
            Some(open) if uuid(open.uuid) == wanted => {
                return Ok(PoolChange { changed: false, pool: self.pool(name.as_str()).await? });
            }
            Some(_) => return Err(self.name_is_taken(&name)),
            None => {}
        }
        if self.is_forgotten(&wanted)? {
            return Err(ApiError::new(ApiErrorKind::Refused, words::forgotten_pool(name.as_str())));
        }
        let missing = match (request.accept_missing, request.accept_loss) {
            (_, true) => Missing::AcceptLoss,
            (true, false) => Missing::Leave,
            (false, false) => Missing::Refuse,
        };
        self.open_imported(&name, &wanted, found, missing).await?;
        Ok(PoolChange { changed: true, pool: self.pool(name.as_str()).await? })
    }

    fn name_is_taken(&self, name: &PoolName) -> ApiError {
        let message = format!("pool {name}: another pool of this name exists already; delete that one first");
        ApiError::new(ApiErrorKind::Refused, message)
    }

    async fn open_imported(
        &self,
        name: &PoolName,
        wanted: &str,
        found: Vec<Found>,
        missing: Missing,
    ) -> Result<(), ApiError> {
        let known = self.offline().pools.get(name.as_str()).map(|pool| pool.record.clone());
        match known {
            Some(known) if known.uuid != wanted => return Err(self.name_is_taken(name)),
            // What a later Hotset can read is not missing.
            Some(known) => self.newer_format(&known).await.map_or(Ok(()), Err)?,
            // Nothing here knows this pool, so nothing on its SSDs is believed.
            None => self.state.reset_member(name).map_err(|error| self.state_failed(&error))?,
        }
        let paths = found.into_iter().map(|ssd| ssd.path).collect();
        self.failures.lift(&self.state, name.as_str());
        let opened = self.open(name, paths, missing).await?;
        self.open_volumes_of(name, opened).await;
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

fn found_at(paths: &[String]) -> Result<Vec<Found>, ApiError> {
    let one = |path: &String| {
        let candidate = probe::candidate(path)?;
        let label = candidate.label.ok_or_else(|| {
            let carries = candidate.signature.map_or(String::new(), |signature| format!(", but {signature}"));
            ApiError::new(ApiErrorKind::Invalid, format!("SSD {path}: it carries no Hotset pool{carries}"))
        })?;
        Ok(Found { path: path.clone(), label })
    };
    paths.iter().map(one).collect()
}
