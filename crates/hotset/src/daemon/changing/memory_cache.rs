//! The memory cache of all threads together: how large it is to be, and what it may have of that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotset_api::{ApiError, ApiErrorKind, MemoryCache, MemoryCacheSet};

use crate::daemon::opening::records::Records;
use crate::daemon::pressure::{Allowance, AllowanceChange, Pressure};
use crate::plane::Snapshot;
use crate::size::human;

/// Decides how large the memory cache is.
pub(crate) struct MemoryCaching {
    records: Arc<Records>,
    wanted: Mutex<MemoryWanted>,
}

#[derive(Clone, Copy, Debug, Default)]
struct MemoryWanted {
    /// What an administrator has set; none: as configured.
    set_bytes: Option<u64>,
    allowance: Allowance,
}

impl MemoryCaching {
    pub(crate) fn new(records: Arc<Records>) -> Self {
        let wanted = MemoryWanted { set_bytes: records.state.memory_cache_bytes(), ..MemoryWanted::default() };
        Self { records, wanted: Mutex::new(wanted) }
    }

    /// As it is now.
    pub(crate) fn seen_in(&self, snapshot: &Snapshot) -> MemoryCache {
        let (wanted, configured_bytes) = (*self.wanted(), self.records.config.memory_cache_bytes);
        let size_bytes = wanted.set_bytes.unwrap_or(configured_bytes);
        MemoryCache {
            size_bytes,
            allowed_bytes: wanted.allowance.of(size_bytes),
            used_bytes: snapshot.memory_cache.used_bytes,
            configured_bytes,
        }
    }

    /// Sets its size, for later runs too. Answers whether it was another one.
    ///
    /// # Errors
    /// `Invalid` if the daemon would take more memory than there is; or the size cannot be recorded.
    pub(crate) async fn set(&self, set: MemoryCacheSet) -> Result<bool, ApiError> {
        let _one_at_a_time = self.records.change.lock().await;
        if let Some(bytes) = set.size_bytes {
            self.check(bytes)?;
        }
        let before = self.wanted().set_bytes;
        if before == set.size_bytes {
            return Ok(false);
        }
        self.records.state.write_memory_cache_bytes(set.size_bytes).map_err(|error| {
            ApiError::new(ApiErrorKind::Internal, format!("the size of the memory cache cannot be recorded: {error}"))
        })?;
        self.wanted().set_bytes = set.size_bytes;
        tracing::info!(size_bytes = set.size_bytes, "changed the size of the memory cache");
        self.give().await?;
        Ok(true)
    }

    fn check(&self, bytes: u64) -> Result<(), ApiError> {
        let memory = &self.records.config.memory;
        let tables = self.records.config.memory_limit_bytes;
        let most = memory.for_memory_cache_at_most(tables);
        if bytes <= most {
            return Ok(());
        }
        let message = format!(
            "a memory cache of {} is too large: of the {} that {} gives, {} are for the tables of pools (memory_limit) and the \
             rest is not only for it: it is at most {}",
            human(bytes),
            human(memory.bytes),
            memory.set_by,
            human(tables),
            human(most)
        );
        Err(ApiError::new(ApiErrorKind::Invalid, message))
    }

    /// Takes note of how memory is, and gives each thread what it may have now. Answers if that is less than all from here on, or all
    /// again.
    pub(crate) async fn follow(&self, pressure: &Pressure) -> Option<AllowanceChange> {
        let change = self.wanted().allowance.follow(pressure);
        // The data plane stops: then nothing is to be given any more.
        let _ = self.give().await;
        change
    }

    async fn give(&self) -> Result<(), ApiError> {
        let wanted = *self.wanted();
        let size_bytes = wanted.set_bytes.unwrap_or(self.records.config.memory_cache_bytes);
        self.records.plane.give_memory(size_bytes, wanted.allowance.of(size_bytes)).await
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn wanted(&self) -> MutexGuard<'_, MemoryWanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
