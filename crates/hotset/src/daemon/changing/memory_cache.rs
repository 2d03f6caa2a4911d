//! The memory cache of all threads together: how large it is to be, and what it may have of that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hotset_api::{ApiError, ApiErrorKind, MemoryCache, MemoryCacheSet};

use super::memory_parts::MemoryParts;
use crate::daemon::opening::records::Records;
use crate::daemon::pressure::{Allowance, AllowanceChange, Pressure};
use crate::plane::Snapshot;
use crate::size::human;

/// Decides how large the memory cache is.
pub(crate) struct MemoryCaching {
    records: Arc<Records>,
    wanted: Mutex<MemoryWanted>,
    parts: Mutex<MemoryParts>,
}

#[derive(Clone, Copy, Debug)]
struct MemoryWanted {
    /// What an administrator has set; none: as configured.
    set_bytes: Option<u64>,
    configured_bytes: u64,
    /// What there is memory for.
    most_bytes: u64,
    allowance: Allowance,
}

impl MemoryWanted {
    /// What it may take when memory is not short. What was set is on record for a machine that may have had more memory than this one.
    fn size_bytes(&self) -> u64 {
        self.set_bytes.map_or(self.configured_bytes, |bytes| bytes.min(self.most_bytes))
    }

    /// What was set, if there is not memory enough for that.
    fn too_large(&self) -> Option<u64> {
        self.set_bytes.filter(|bytes| *bytes > self.most_bytes)
    }
}

impl MemoryCaching {
    pub(crate) fn new(records: Arc<Records>) -> Self {
        let config = &records.config;
        let wanted = MemoryWanted {
            set_bytes: records.state.memory_cache_bytes(),
            configured_bytes: config.memory_cache_bytes,
            most_bytes: config.memory.for_memory_cache_at_most(config.memory_limit_bytes),
            allowance: Allowance::default(),
        };
        Self { records, wanted: Mutex::new(wanted), parts: Mutex::default() }
    }

    /// Why it is smaller than it was set, and what to do; `None`: it is not.
    pub(crate) fn why_smaller_than_set(&self) -> Option<String> {
        let bytes = self.wanted().too_large()?;
        let why = self.why_too_large(bytes);
        Some(format!(
            "{why}; it is that until there is more memory, or `hotset memory-cache set` gives it another size"
        ))
    }

    /// As it is now.
    pub(crate) fn seen_in(&self, snapshot: &Snapshot) -> MemoryCache {
        let wanted = *self.wanted();
        let (size_bytes, configured_bytes) = (wanted.size_bytes(), wanted.configured_bytes);
        MemoryCache {
            size_bytes,
            set_bytes: wanted.set_bytes,
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
        if bytes <= self.wanted().most_bytes {
            return Ok(());
        }
        Err(ApiError::new(ApiErrorKind::Invalid, self.why_too_large(bytes)))
    }

    fn why_too_large(&self, bytes: u64) -> String {
        let memory = &self.records.config.memory;
        format!(
            "a memory cache of {} is too large: of the {} that {} gives, {} are for the tables of pools (memory_limit) and the \
             rest is not only for it: it is at most {}",
            human(bytes),
            human(memory.bytes),
            memory.set_by,
            human(self.records.config.memory_limit_bytes),
            human(self.wanted().most_bytes)
        )
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
        let threads = self.records.plane.memory_of_threads().await?;
        let wanted = *self.wanted();
        let parts = self.parts().divide(wanted.size_bytes(), &threads, Instant::now());
        let given: Vec<(u64, u64)> = parts.into_iter().map(|bytes| (bytes, wanted.allowance.of(bytes))).collect();
        self.records.plane.give_memory(&threads, &given).await
    }

    fn parts(&self) -> MutexGuard<'_, MemoryParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn wanted(&self) -> MutexGuard<'_, MemoryWanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: M3
    #[test]
    fn what_was_set_on_a_machine_with_more_memory_is_no_more_than_this_one_has() {
        let wanted = MemoryWanted {
            set_bytes: Some(24 << 30),
            configured_bytes: 1 << 30,
            most_bytes: 3 << 30,
            allowance: Allowance::default(),
        };
        assert_eq!((wanted.size_bytes(), wanted.too_large()), (3 << 30, Some(24 << 30)));
        let fits = MemoryWanted { set_bytes: Some(2 << 30), ..wanted };
        assert_eq!((fits.size_bytes(), fits.too_large()), (2 << 30, None));
        let not_set = MemoryWanted { set_bytes: None, ..wanted };
        assert_eq!((not_set.size_bytes(), not_set.too_large()), (1 << 30, None));
    }
}
