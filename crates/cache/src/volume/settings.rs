//! The settings of a pool as they are now: who has a handle on them sees what an administrator changes.

use std::cell::Cell;

use crate::config::PoolSettings;

/// See the file's summary.
pub(crate) struct SettingsNow(Cell<PoolSettings>);

impl SettingsNow {
    pub(crate) fn new(settings: PoolSettings) -> Self {
        Self(Cell::new(settings))
    }

    pub(crate) fn get(&self) -> PoolSettings {
        self.0.get()
    }

    /// What is decided from here on follows these, which are on record.
    pub(crate) fn take_effect(&self, settings: PoolSettings) {
        self.0.set(settings);
    }
}
