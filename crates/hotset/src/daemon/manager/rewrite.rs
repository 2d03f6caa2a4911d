//! The second half of a conversion: the drained pool's volumes leave it, its SSDs are made anew, and what belonged to it
//! joins again. Each step may be the last one before a crash: the next start goes on from the record.

use std::sync::Arc;

use hotset_api::{ApiError, ApiErrorKind, ConditionKind, Subject, SubjectKind};
use hotset_cache::config::{PoolName, VolumeName};
use hotset_cache::{DirtyData, Missing, PoolSpec, PoolStatus};

use super::convert::{conversion_of, refused};
use super::serve::RETRY_INTERVAL;
use super::{Manager, Waiting, blocking, pool_name, uuid, volume_name};
use crate::daemon::conversion::{Conversion, Converted, Phase};
use crate::daemon::probe::{self, Candidate};
use crate::daemon::state::{PoolRecord, RecordedKind};
use crate::words;

impl Manager {
    /// Makes a drained pool anew. The caller holds the change lock.
    pub(super) async fn convert_now(&self, name: &PoolName) -> Result<(), ApiError> {
        let begun = self.conversions().get(name.as_str()).cloned();
        let begun = begun.ok_or_else(|| refused(name.as_str(), "nothing is known of its conversion"))?;
        let snapshot = self.plane.snapshot().await?;
        let now = snapshot.pools.iter().find(|pool| pool.name == *name).ok_or_else(|| self.not_open(name.as_str()))?;
        self.check_convertible(now, &snapshot)?;
        // Settings, SSDs and volumes may have changed while it was drained.
        let conversion = conversion_of(now, begun.target, begun.volumes).await?;
        self.write_conversion(conversion.clone())?;
        tracing::info!(pool = %name, "drained; it is made anew");
        self.offline().begun_conversions.insert(name.to_string());
        for volume in now.volumes.clone() {
            let from = name.clone();
            self.plane.of_pool(name).call(move |plane| plane.detach(from, volume, DirtyData::Clean)).await?;
        }
        self.save_volumes().await?;
        self.dissolve(now, conversion).await?;
        self.go_on(name).await
    }

    /// The pool holds nothing: from here on only the new one counts.
    async fn dissolve(&self, now: &PoolStatus, conversion: Conversion) -> Result<(), ApiError> {
        self.write_conversion(Conversion { phase: Phase::Rewriting, ..conversion.clone() })?;
        self.show_rewritten(&conversion, "it is being converted");
        let name = now.name.clone();
        if let Err(error) = self.plane.of_pool(&now.name).call(move |plane| plane.dissolve_pool(name)).await {
            tracing::warn!(pool = %now.name, "{error}; it is overwritten");
        }
        self.state.remove_pool(&now.name).map_err(|error| self.state_failed(&error))?;
        self.forget_ssds(now.name.as_str());
        self.update_udev_rules().await;
        Ok(())
    }

    /// While its SSDs are rewritten, a pool is shown as one that is offline and caches nothing.
    fn show_rewritten(&self, conversion: &Conversion, reason: &str) {
        let record = PoolRecord {
            name: conversion.pool.clone(),
            kind: RecordedKind::of(words::engine_pool_kind(conversion.target.kind)),
            ..PoolRecord::default()
        };
        self.set_offline(&record, reason, Waiting::ForItsSsds);
    }

    /// At the start: what the last run had begun.
    pub(super) fn read_conversions(&self) {
        let read = match self.state.conversions() {
            Ok(read) => read,
            // The pools' records are in the same folder: neither can be read.
            Err(error) => {
                tracing::error!("state directory: {error}");
                return;
            }
        };
        for (pool, conversion) in read {
            match conversion {
                Ok(conversion) => self.take_conversion(conversion),
                Err(message) => {
                    tracing::error!("{message}");
                    self.offline().unread_conversions.insert(pool, message);
                }
            }
        }
    }

    fn take_conversion(&self, conversion: Conversion) {
        if conversion.phase == Phase::Rewriting {
            self.show_rewritten(&conversion, "it is being converted");
        }
        self.conversions().insert(conversion.pool.clone(), conversion);
    }

    /// What could not be read at the start is known by now, or was moved away: the pools whose conversions these are.
    pub(super) async fn read_conversions_again(&self) -> Vec<String> {
        let _one_at_a_time = self.change.lock().await;
        let Ok(mut read) = self.state.conversions() else { return Vec::new() };
        let unread = std::mem::take(&mut self.offline().unread_conversions);
        let mut known = Vec::new();
        for (pool, before) in unread {
            match read.remove(&pool) {
                Some(Err(message)) => {
                    self.offline().unread_conversions.insert(pool, message);
                    continue;
                }
                Some(Ok(conversion)) if conversion.pool != pool => {
                    let message = format!("{before}; it is there, and of pool {}", conversion.pool);
                    self.offline().unread_conversions.insert(pool, message);
                    continue;
                }
                Some(Ok(conversion)) => self.take_conversion(conversion),
                None => {}
            }
            tracing::info!(pool, "how far its conversion has come can be read again");
            known.push(pool);
        }
        known
    }

    /// Why a pool is not to be opened: nobody knows whether what its SSDs hold means anything.
    pub(super) fn unread_conversion(&self, pool: &str) -> Option<ApiError> {
        let why = self.offline().unread_conversions.get(pool)?.clone();
        let message = format!("pool {pool}: it was being converted, and how far that has come cannot be read: {why}");
        let hint = format!(
            "bring the file back as it was, which is noticed within {} s; if there is none, move it away: then the pool is opened \
             as it is",
            RETRY_INTERVAL.as_secs()
        );
        Some(ApiError::new(ApiErrorKind::Refused, message).with_hint(hint))
    }

    /// Whether the SSDs of such a pool mean nothing, whatever is on them and in its record.
    pub(super) fn is_rewritten(&self, pool: &str) -> bool {
        self.conversions().get(pool).is_some_and(|conversion| conversion.phase == Phase::Rewriting)
    }

    /// For as long as the daemon runs: what keeps a conversion from its end may pass.
    pub(super) async fn follow_conversions(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RETRY_INTERVAL).await;
            self.resume_conversions().await;
        }
    }

    /// Goes on with the conversions that nobody carries on.
    pub(super) async fn resume_conversions(self: &Arc<Self>) {
        let pools: Vec<String> = self.conversions().keys().cloned().collect();
        for pool in pools {
            let _one_at_a_time = self.change.lock().await;
            let outcome = self.resume_conversion(&pool).await;
            let told = outcome.map_err(|error| format!("its conversion cannot go on yet: {error}"));
            let told = told.and_then(|()| self.check_all_joined(&pool));
            self.register.follow_for(ConditionKind::Conversion, Subject::new(SubjectKind::Pool, pool), &told);
        }
    }

    /// Volumes that are still to join a pool that was converted.
    fn check_all_joined(&self, pool: &str) -> Result<(), String> {
        let conversions = self.conversions();
        let joining = conversions.get(pool).filter(|conversion| conversion.phase == Phase::Joining);
        joining.map_or(Ok(()), |conversion| {
            let volumes = conversion.volumes.join(", ");
            Err(format!("it is converted, and these volumes could not join it again yet, and are uncached: {volumes}"))
        })
    }

    async fn resume_conversion(self: &Arc<Self>, pool: &str) -> Result<(), ApiError> {
        let (name, phase) = (pool_name(pool)?, self.conversions().get(pool).map(|conversion| conversion.phase));
        match phase {
            None => Ok(()),
            Some(Phase::Draining) => self.drain_again(&name).await,
            Some(Phase::Rewriting | Phase::Joining) => self.go_on(&name).await,
        }
    }

    async fn drain_again(self: &Arc<Self>, name: &PoolName) -> Result<(), ApiError> {
        if self.flushes.flushes_pool(name) {
            return Ok(());
        }
        let snapshot = self.plane.snapshot().await?;
        let Some(now) = snapshot.pools.iter().find(|pool| pool.name == *name) else {
            // It may still wait for its SSDs.
            let waits = self.offline().pools.contains_key(name.as_str());
            return if waits { Ok(()) } else { self.forget_conversion(name.as_str()) };
        };
        if let Err(error) = self.check_convertible(now, &snapshot) {
            let reason = format!("its conversion is undone: {error}");
            self.register.raise_for(ConditionKind::Flush, Subject::new(SubjectKind::Pool, name.as_str()), reason);
            return self.undo(name).await;
        }
        tracing::info!(pool = %name, "its conversion goes on");
        self.drain_to_convert(name, &snapshot);
        Ok(())
    }

    /// The pool stays as it was, with all of its volumes.
    async fn undo(&self, name: &PoolName) -> Result<(), ApiError> {
        let volumes = self.conversions().get(name.as_str()).map(|conversion| conversion.volumes.clone());
        for volume in volumes.unwrap_or_default() {
            self.join(name, &volume_name(&volume)?).await?;
        }
        self.forget_conversion(name.as_str())
    }

    /// Carries a conversion on from where its record says that it is.
    async fn go_on(&self, name: &PoolName) -> Result<(), ApiError> {
        let recorded = self.conversions().get(name.as_str()).cloned();
        let Some(mut conversion) = recorded else { return Ok(()) };
        if conversion.phase == Phase::Rewriting {
            if let Err(error) = self.make_anew(name, &conversion).await {
                let reason = format!(
                    "its conversion cannot go on: {error}; it is tried every {} s; `hotset pool delete {name}` gives the pool \
                     up; its volumes are served uncached",
                    RETRY_INTERVAL.as_secs()
                );
                self.show_rewritten(&conversion, &reason);
                return Err(error);
            }
            conversion.phase = Phase::Joining;
            self.write_conversion(conversion.clone())?;
        }
        if self.is_open(name).await {
            self.join_again(name, conversion).await
        } else {
            let waits = self.offline().pools.contains_key(name.as_str());
            if waits { Ok(()) } else { self.forget_conversion(name.as_str()) }
        }
    }

    /// The new pool, empty. If a crash came between its making and the record of that, it is there already.
    async fn make_anew(&self, name: &PoolName, conversion: &Conversion) -> Result<(), ApiError> {
        let of = conversion.clone();
        let candidates = blocking(move || own_ssds(&of)).await??;
        let paths: Vec<String> = candidates.iter().map(|candidate| candidate.path.clone()).collect();
        if is_made(conversion, &candidates)
            && let Ok(opened) = self.open(name, paths.clone(), Missing::Refuse).await
        {
            self.open_volumes_of(name, opened).await;
            return Ok(());
        }
        let settings = conversion.new_settings().map_err(|error| words::error(&error))?;
        let kind = words::engine_pool_kind(conversion.target.kind);
        let spec = PoolSpec { name: name.clone(), kind, settings };
        self.state.reset_member(name).map_err(|error| self.state_failed(&error))?;
        let member = self.state.member(name);
        let (thread, opening) = self.plane.for_pool();
        let status = thread.call(move |plane| plane.create_pool(spec, paths, member)).await?;
        drop(opening);
        self.offline().pools.remove(name.as_str());
        self.note_shared_disks(&status).await?;
        self.save_pool(name).await?;
        tracing::info!(pool = %name, "made anew");
        Ok(())
    }

    /// Volumes whose backing device is away come later, with the next try.
    async fn join_again(&self, name: &PoolName, mut conversion: Conversion) -> Result<(), ApiError> {
        let mut waiting = Vec::new();
        for volume in std::mem::take(&mut conversion.volumes) {
            if self.offline().volumes.contains_key(&volume) {
                waiting.push(volume);
            } else if let Err(error) = self.join(name, &volume_name(&volume)?).await {
                tracing::warn!(pool = %name, volume, "it is served uncached, because it cannot join again: {error}");
                waiting.push(volume);
            }
        }
        self.take_spares(name, &conversion.spares).await;
        self.save_joined(name).await?;
        self.update_udev_rules().await;
        if waiting.is_empty() {
            tracing::info!(pool = %name, "converted");
            return self.forget_conversion(name.as_str());
        }
        self.write_conversion(Conversion { volumes: waiting, spares: Vec::new(), ..conversion })
    }

    /// A volume that is open and uncached is cached by the pool; any other one has gone its own way.
    async fn join(&self, pool: &PoolName, name: &VolumeName) -> Result<(), ApiError> {
        let snapshot = self.plane.snapshot().await?;
        if !snapshot.volumes.iter().any(|volume| volume.name == *name && volume.pool.is_none()) {
            return Ok(());
        }
        self.attach(pool, name).await?;
        self.save_joined(pool).await
    }

    /// A pool is whole without its spares.
    async fn take_spares(&self, name: &PoolName, spares: &[Converted]) {
        let wanted = spares.to_vec();
        let found = blocking(move || wanted.iter().filter_map(|spare| own(spare, None).ok()).collect::<Vec<_>>()).await;
        let missing = spares.len() - found.as_ref().map_or(0, Vec::len);
        if missing > 0 {
            self.spare_is_left(name, &format!("{missing} of its spares are not there, and were not taken again"));
        }
        let paths: Vec<String> = found.unwrap_or_default().into_iter().map(|spare| spare.path).collect();
        for path in paths {
            let (of, one) = (name.clone(), vec![path.clone()]);
            if let Err(error) = self.plane.of_pool(&of.clone()).call(move |plane| plane.add_spares(of, one)).await {
                self.spare_is_left(name, &format!("{path} was not taken again: {error}"));
            }
        }
    }
}

impl Manager {
    fn spare_is_left(&self, pool: &PoolName, reason: &str) {
        self.register.raise_for(ConditionKind::Spare, Subject::new(SubjectKind::Pool, pool.as_str()), reason);
    }
}

/// The SSDs of a conversion, if all are there. Blocking.
fn own_ssds(conversion: &Conversion) -> Result<Vec<Candidate>, ApiError> {
    conversion.ssds.iter().map(|ssd| own(ssd, Some(&conversion.pool))).collect()
}

/// An SSD that may be overwritten: it is the very device that was the pool's, and holds nothing or what is the pool's.
fn own(ssd: &Converted, pool: Option<&str>) -> Result<Candidate, ApiError> {
    let path = &ssd.path;
    if probe::identity(path)? != ssd.identity {
        let message = format!("SSD {path}: another device is in its place; bring the right one back");
        return Err(ApiError::new(ApiErrorKind::Refused, message));
    }
    let candidate = probe::candidate(path)?;
    let is_pools = candidate.label.as_ref().is_some_and(|label| Some(label.pool_name.as_str()) == pool);
    match &candidate.signature {
        Some(signature) if !is_pools => {
            let message = format!("SSD {path}: it carries {signature}; it is not overwritten");
            Err(ApiError::new(ApiErrorKind::Refused, message))
        }
        Some(_) | None => Ok(candidate),
    }
}

/// Whether all SSDs are of one pool, and that is not the old one.
fn is_made(conversion: &Conversion, candidates: &[Candidate]) -> bool {
    let mut uuids = candidates.iter().map(|candidate| candidate.label.as_ref().map(|label| uuid(label.pool_uuid)));
    let Some(Some(first)) = uuids.next() else { return false };
    first != conversion.uuid && uuids.all(|other| other.as_ref() == Some(&first))
}
