//! A conversion of a pool as the state directory keeps it: what is to become of the pool, and how far it has come.
//!
//! It is written before each step that the next start must not mistake for something else; see `changing/convert.rs`.

use hotset_api::{IoType, PolicyKind, PoolKind, PoolSet};
use hotset_cache::PoolStatus;
use hotset_cache::config::{BlockBytes, Cleaning, PoolSettings};
use serde::{Deserialize, Serialize};

use crate::words;

/// What a pool is to be, other than it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConversionTarget {
    #[serde(rename = "type")]
    pub(crate) kind: PoolKind,
    pub(crate) block_size_bytes: u64,
    /// Records of older versions do not say it: they had no pools without.
    #[serde(default = "with_checksums")]
    pub(crate) checksums: bool,
}

fn with_checksums() -> bool {
    true
}

/// How far a conversion has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ConversionPhase {
    /// The pool is as it was; its dirty data is flushed. This is where the conversion can be undone.
    Draining,
    /// The pool holds nothing that anybody needs, and its volumes are served uncached: its SSDs are made anew, from the
    /// beginning if need be.
    Rewriting,
    /// The pool is the new one; not all of its volumes and spares have joined it.
    Joining,
}

/// An SSD or a spare of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Converted {
    pub(crate) path: String,
    /// What the device says that it is, whatever it holds.
    pub(crate) identity: String,
    /// The boot in which it said so, as hexadecimal digits: a name of the kernel's is the same device's until its end. Records of older
    /// versions do not say it.
    #[serde(default)]
    pub(crate) boot: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Conversion {
    pub(crate) pool: String,
    pub(crate) phase: ConversionPhase,
    pub(crate) target: ConversionTarget,
    /// Of the pool before: 32 hexadecimal digits.
    pub(crate) uuid: String,
    /// Of the pool that it becomes: one for each time that somebody began to make it, as far as SSDs may still have it. Records of older
    /// versions do not say them.
    #[serde(default)]
    pub(crate) new_uuids: Vec<String>,
    pub(crate) io_type: IoType,
    pub(crate) settings: PoolSet,
    pub(crate) ssds: Vec<Converted>,
    pub(crate) spares: Vec<Converted>,
    /// Names of the volumes that have still to join the new pool.
    pub(crate) volumes: Vec<String>,
}

impl ConversionTarget {
    /// What the pool is now.
    pub(crate) fn of(now: &PoolStatus) -> Self {
        Self {
            kind: words::pool_kind(now.kind),
            block_size_bytes: now.settings.block_bytes.get(),
            checksums: now.settings.checksums,
        }
    }

    /// The settings of a pool with these ones, made anew so. A threshold that the new type does not know becomes its
    /// preset; a block that is not the preset's makes the I/O type `custom`.
    ///
    /// # Errors
    /// A block that no pool can have.
    pub(crate) fn settings(self, now: PoolSettings) -> Result<PoolSettings, hotset_cache::Error> {
        let kind = words::engine_pool_kind(self.kind);
        let block_bytes = BlockBytes::new(self.block_size_bytes)?;
        let preset = PoolSettings::preset(kind, now.io_type);
        let io_type =
            if preset.block_bytes == block_bytes { now.io_type } else { hotset_cache::config::IoType::Custom };
        let kept = PoolSettings { io_type, block_bytes, checksums: self.checksums, ..now };
        match kept.check(kind) {
            Ok(()) => Ok(kept),
            Err(_) => Ok(PoolSettings { populate_on_write: preset.populate_on_write, ..kept }),
        }
    }
}

impl Conversion {
    /// Whether a pool of this UUID is the one before, or the one that it becomes. A name is no proof: a pool of another machine may
    /// have the same.
    pub(crate) fn is_of_it(&self, uuid: &str) -> bool {
        uuid == self.uuid || self.new_uuids.iter().any(|new| new == uuid)
    }

    /// The settings of the new pool, as they were recorded.
    pub(crate) fn new_settings(&self) -> Result<PoolSettings, hotset_cache::Error> {
        let kind = words::engine_pool_kind(self.target.kind);
        let preset = PoolSettings::preset(kind, words::engine_io_type(self.io_type));
        let block_bytes = BlockBytes::new(self.target.block_size_bytes)?;
        let bare = PoolSettings { block_bytes, checksums: self.target.checksums, ..preset };
        let settings = merged(kind, bare, self.settings);
        settings.check(kind)?;
        Ok(settings)
    }
}

/// Settings of a pool of this type with some of them changed; the thresholds of an I/O type give way to those that are named.
pub(crate) fn merged(kind: hotset_cache::config::PoolKind, now: PoolSettings, set: PoolSet) -> PoolSettings {
    let now = set.io_type.map_or(now, |io_type| now.with_io_type(kind, words::engine_io_type(io_type)));
    PoolSettings {
        policy: set.policy.map_or(now.policy, words::engine_policy),
        populate_on_read: set.populate_on_read.unwrap_or(now.populate_on_read),
        populate_on_write: set.populate_on_write.unwrap_or(now.populate_on_write),
        fetch_rate: set.fetch_rate.map_or(now.fetch_rate, words::engine_fetch_rate),
        cleaning: Cleaning {
            flush_rate: set.flush_rate.map_or(now.cleaning.flush_rate, words::engine_flush_rate),
            dirty_watermark_percent: set.dirty_watermark_percent.unwrap_or(now.cleaning.dirty_watermark_percent),
            dirty_age_max_seconds: set.dirty_age_max_seconds.unwrap_or(now.cleaning.dirty_age_max_seconds),
        },
        // No bytes: no limit.
        ssd_writes_per_day_bytes: set
            .ssd_writes_per_day_bytes
            .map_or(now.ssd_writes_per_day_bytes, |bytes| (bytes > 0).then_some(bytes)),
        ..now
    }
}

/// All of the settings that change online, but the I/O type: it would bring its thresholds.
pub(crate) fn as_set(settings: &PoolSettings) -> PoolSet {
    let policy: PolicyKind = words::policy(settings.policy);
    PoolSet {
        io_type: None,
        policy: Some(policy),
        populate_on_read: Some(settings.populate_on_read),
        populate_on_write: Some(settings.populate_on_write),
        fetch_rate: Some(words::fetch_rate(settings.fetch_rate)),
        flush_rate: Some(words::flush_rate(settings.cleaning.flush_rate)),
        dirty_watermark_percent: Some(settings.cleaning.dirty_watermark_percent),
        dirty_age_max_seconds: Some(settings.cleaning.dirty_age_max_seconds),
        ssd_writes_per_day_bytes: Some(settings.ssd_writes_per_day_bytes.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use hotset_cache::config::{FetchRate, FlushRate, IoType, PoolKind};

    use super::*;

    fn target(kind: PoolKind, block_size_bytes: u64) -> ConversionTarget {
        ConversionTarget { kind: words::pool_kind(kind), block_size_bytes, checksums: true }
    }

    #[test]
    fn a_converted_pool_keeps_every_setting_that_its_new_form_knows() {
        let preset = PoolSettings::preset(PoolKind::Read, IoType::FileSystem);
        let cleaning = Cleaning { flush_rate: FlushRate::High, dirty_watermark_percent: 7, dirty_age_max_seconds: 9 };
        let now = PoolSettings { populate_on_read: 4, fetch_rate: FetchRate::Low, cleaning, ..preset };
        let new = target(PoolKind::Read, 64 << 10).settings(now).unwrap();
        assert_eq!((new.io_type, new.block_bytes.get()), (IoType::Custom, 64 << 10));
        assert_eq!(PoolSettings { io_type: now.io_type, block_bytes: now.block_bytes, ..new }, now);
        assert_eq!(target(PoolKind::ReadWrite, 2 << 20).settings(now).unwrap(), now, "2 MiB is the preset's block");
    }

    #[test]
    fn a_threshold_that_the_new_type_does_not_know_becomes_its_preset() {
        let now = PoolSettings::preset(PoolKind::Read, IoType::Database);
        assert_eq!(now.populate_on_write, 0);
        let new = target(PoolKind::ReadWrite, 1 << 20).settings(now).unwrap();
        assert_eq!(new.populate_on_write, 1);
        assert!(target(PoolKind::Read, 3).settings(now).is_err(), "no pool has blocks of 3 bytes");
    }

    // proves: P7
    #[test]
    fn an_io_type_brings_its_thresholds_but_no_block_and_what_is_named_beside_it_wins() {
        let own = PoolSettings { populate_on_read: 4, ..PoolSettings::preset(PoolKind::Read, IoType::WebService) };
        let to = |io_type, set: PoolSet| merged(PoolKind::Read, own, PoolSet { io_type: Some(io_type), ..set });
        let bare = PoolSet::default();
        let expected = PoolSettings { io_type: IoType::FileSystem, populate_on_read: 2, populate_on_write: 2, ..own };
        assert_eq!(to(hotset_api::IoType::FileSystem, bare), expected, "the block stays");
        let named = PoolSet { populate_on_write: Some(3), ..bare };
        assert_eq!(to(hotset_api::IoType::FileSystem, named), PoolSettings { populate_on_write: 3, ..expected });
        assert_eq!(to(hotset_api::IoType::Custom, bare), PoolSettings { io_type: IoType::Custom, ..own });
    }

    // proves: D15
    #[test]
    fn checksums_are_part_of_what_a_pool_is_to_be_and_were_always_on_before() {
        let now = PoolSettings::preset(PoolKind::Read, IoType::Database);
        let without = ConversionTarget { checksums: false, ..target(PoolKind::Read, 1 << 20) };
        assert_eq!(without.settings(now).unwrap(), PoolSettings { checksums: false, ..now });
        let old: ConversionTarget = serde_json::from_str(r#"{"type": "read", "block_size_bytes": 1048576}"#).unwrap();
        assert_eq!(old, target(PoolKind::Read, 1 << 20));
    }

    #[test]
    fn settings_are_the_same_when_they_come_back_from_the_record() {
        let cleaning = Cleaning { flush_rate: FlushRate::Low, dirty_watermark_percent: 80, dirty_age_max_seconds: 5 };
        let preset = PoolSettings::preset(PoolKind::ReadWrite, IoType::Custom);
        let settings = PoolSettings { populate_on_write: 3, checksums: false, cleaning, ..preset };
        let conversion = Conversion {
            pool: "p".into(),
            phase: ConversionPhase::Rewriting,
            target: ConversionTarget { checksums: false, ..target(PoolKind::ReadWrite, settings.block_bytes.get()) },
            uuid: String::new(),
            new_uuids: Vec::new(),
            io_type: words::io_type(settings.io_type),
            settings: as_set(&settings),
            ssds: Vec::new(),
            spares: Vec::new(),
            volumes: Vec::new(),
        };
        assert_eq!(conversion.new_settings().unwrap(), settings);
    }
}
