//! Conversions of pools that were begun, as the state directory has them: how far each has come decides what its SSDs mean.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotset_api as api;
use hotset_api::{ApiError, ApiErrorKind, ConditionKind, SubjectKind};
use hotset_cache::config::PoolName;

use super::offline::RETRY_INTERVAL;
use super::offline::Waiting;
use super::records::Records;
use crate::daemon::conversion::{Conversion, ConversionPhase};
use crate::daemon::state::{PoolRecord, RecordedKind};
use crate::words;

/// Conversions of pools that were begun and are not done, as they are recorded.
pub(crate) struct Converting {
    pub(crate) records: Arc<Records>,
    /// By pool.
    pub(crate) known: Mutex<BTreeMap<String, Conversion>>,
}

impl Converting {
    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    pub(crate) fn conversions(&self) -> MutexGuard<'_, BTreeMap<String, Conversion>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write_conversion(&self, conversion: Conversion) -> Result<(), ApiError> {
        if let Err(error) = self.records.state.write_conversion(&conversion) {
            if !self.conversions().contains_key(&conversion.pool) {
                // It is not meant, and may be there all the same: a write that was given up can still happen.
                self.records.offline().ended_conversions.insert(conversion.pool.clone());
                let _ = self.remove_ended_conversion(&conversion.pool);
            }
            return Err(self.records.state_failed(&error));
        }
        self.records.offline().ended_conversions.remove(&conversion.pool);
        self.conversions().insert(conversion.pool.clone(), conversion);
        Ok(())
    }

    /// It is done, undone or cancelled. A record that cannot be removed is tried again: the next start would go on with it.
    pub(crate) fn forget_conversion(&self, pool: &str) -> Result<(), ApiError> {
        let known = self.conversions().remove(pool).is_some();
        let unread = self.records.offline().unread_conversions.remove(pool).is_some();
        if known || unread {
            self.records.offline().ended_conversions.insert(pool.to_owned());
        }
        self.remove_ended_conversion(pool)
    }

    /// Removes the record of a conversion that has ended, if it is still there.
    pub(super) fn remove_ended_conversion(&self, pool: &str) -> Result<(), ApiError> {
        if !self.records.offline().ended_conversions.contains(pool) {
            return Ok(());
        }
        let removed = self.records.state.remove_conversion(pool).map_err(|error| self.records.state_failed(&error));
        match &removed {
            Ok(()) => {
                self.records.offline().ended_conversions.remove(pool);
            }
            Err(_) => self.records.register.follow_for(
                ConditionKind::RecordOutdated,
                api::Subject::new(SubjectKind::Pool, pool),
                &removed,
            ),
        }
        removed
    }

    /// What is on the SSDs of such a pool is for its conversion alone.
    pub(crate) fn check_not_converted(&self, name: &PoolName) -> Result<(), ApiError> {
        if let Some(unread) = self.unread_conversion(name.as_str()) {
            return Err(unread);
        }
        if !self.conversions().contains_key(name.as_str()) {
            return Ok(());
        }
        let why = "it is being converted, which ends by itself; `hotset pool delete` gives it up";
        Err(refused(name.as_str(), why))
    }

    /// While its SSDs are rewritten, a pool is shown as one that is offline and caches nothing.
    pub(crate) fn show_rewritten(&self, conversion: &Conversion, reason: &str) {
        let record = PoolRecord {
            name: conversion.pool.clone(),
            kind: RecordedKind::of(words::engine_pool_kind(conversion.target.kind)),
            ..PoolRecord::default()
        };
        self.records.set_offline(&record, reason, Waiting::ForItsSsds);
    }

    /// At the start: what the last run had begun.
    pub(super) fn read_conversions(&self) {
        let read = match self.records.state.conversions() {
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
                    self.records.offline().unread_conversions.insert(pool, message);
                }
            }
        }
    }

    fn take_conversion(&self, conversion: Conversion) {
        if conversion.phase == ConversionPhase::Rewriting {
            self.show_rewritten(&conversion, "it is being converted");
        }
        self.conversions().insert(conversion.pool.clone(), conversion);
    }

    /// What could not be read at the start is known by now, or was moved away: the pools whose conversions these are.
    pub(super) async fn read_conversions_again(&self) -> Vec<String> {
        let _one_at_a_time = self.records.change.lock().await;
        let Ok(mut read) = self.records.state.conversions() else { return Vec::new() };
        let unread = std::mem::take(&mut self.records.offline().unread_conversions);
        let mut known = Vec::new();
        for (pool, before) in unread {
            match read.remove(&pool) {
                Some(Err(message)) => {
                    self.records.offline().unread_conversions.insert(pool, message);
                    continue;
                }
                Some(Ok(conversion)) if conversion.pool != pool => {
                    let message = format!("{before}; it is there, and of pool {}", conversion.pool);
                    self.records.offline().unread_conversions.insert(pool, message);
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
        let why = self.records.offline().unread_conversions.get(pool)?.clone();
        let message = format!("pool {pool}: it was being converted, and how far that has come cannot be read: {why}");
        let hint = format!(
            "bring the file back as it was, which is noticed within {} s; if there is none, move it away: then the pool is opened \
             as it is",
            RETRY_INTERVAL.as_secs()
        );
        Some(ApiError::new(ApiErrorKind::Refused, message).with_hint(hint))
    }

    /// Whether the SSDs of such a pool mean nothing, whatever is on them and in its record.
    pub(crate) fn is_rewritten(&self, pool: &str) -> bool {
        self.conversions().get(pool).is_some_and(|conversion| conversion.phase == ConversionPhase::Rewriting)
    }
}

pub(crate) fn refused(pool: &str, why: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Refused, format!("pool {pool}: {why}"))
}
