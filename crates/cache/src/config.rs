//! Names, settings and limits: everything an administrator may choose, and every bound the engine keeps.
//!
//! A value of a type in this file is valid: parsing and construction are the only places where input is judged.

use std::fmt;
use std::str::FromStr;

use hotset_block::PAGE_BYTES;

use crate::error::{Error, ErrorKind};

/// [`PAGE_BYTES`] as a length on a device.
pub const PAGE: u64 = 4096;
const _: () = assert!(PAGE_BYTES == 4096);

/// Smallest and largest cache block (REQUIREMENTS P7).
pub const BLOCK_BYTES_MIN: u64 = 64 << 10;
pub const BLOCK_BYTES_MAX: u64 = 4 << 20;

/// The engine's limits. At a limit it waits or refuses; it never grows past one.
pub mod limits {
    use std::time::Duration;

    /// Spares of a pool.
    pub const SPARES_MAX: usize = 16;
    /// SSDs that may join a pool between two starts.
    pub const JOINS_MAX: usize = 4096;
    /// SSDs of a pool.
    pub const SSDS_MAX: usize = 64;
    /// Volumes attached to a pool.
    pub const VOLUMES_MAX: usize = 1024;
    /// Bytes of a volume name.
    pub const VOLUME_NAME_BYTES_MAX: usize = 64;
    /// Bytes of a backing device's spelling.
    pub const BACKING_BYTES_MAX: usize = 4096;
    /// The longest request that a volume takes in one piece.
    pub const REQUEST_BYTES_MAX: u64 = 32 << 20;
    /// The smallest SSD that a pool takes.
    pub const SSD_BYTES_MIN: u64 = 8 << 20;
    /// Bytes that fills hold in memory at most, per pool, while backing devices answer them.
    pub const FILL_BYTES_MAX: u64 = 96 << 20;
    /// Bytes of blocks that misses read for the cache as well and that are on their way there, at most, per pool: with the reads that
    /// brought them, twice that is held in memory.
    pub const CARRIED_FILL_BYTES_MAX: u64 = 16 << 20;
    /// So many times as many fills as `FILL_BYTES_MAX` has room for run at once, if most of them wait for backing devices that hang.
    pub const STUCK_FILLS: usize = 4;
    /// Blocks that wait for their fill at most, per pool.
    pub const FILL_QUEUE_MAX: usize = 4096;
    /// One read of a fill from the backing device.
    pub const FILL_CHUNK_BYTES: u64 = 512 << 10;
    /// Streams that a volume remembers per direction.
    pub const STREAMS: usize = 32;
    /// How long a filled slot stays unpublished at most while the pool is otherwise idle.
    pub const PUBLISH_INTERVAL: Duration = Duration::from_secs(2);
    /// How often fingerprint pages that were written to are judged again, in a pool of few volumes.
    pub const SETTLE_INTERVAL: Duration = Duration::from_secs(30);
    /// How long that may hold up a host that writes to one, at its backing device.
    pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);
    /// How long an SSD may take to answer before it is expelled.
    pub const SSD_TIMEOUT: Duration = Duration::from_secs(10);
    /// How often a pool that is open moves the owner mark on its SSDs.
    pub const OWNER_REFRESH: Duration = Duration::from_secs(5);
    /// How long the mark of another owner is watched until it is said that it does not move: longer than any owner takes for two.
    pub const OWNER_WATCH: Duration = Duration::from_secs(12);
    /// How long whoever takes SSDs from another owner waits to see that no third one does at the same moment.
    pub const OWNER_SETTLE: Duration = Duration::from_secs(1);
    /// How long a stop waits until the marks say that it was clean.
    pub const OWNER_RELEASE: Duration = Duration::from_secs(2);
    /// Time in which the daemon did not run after which it looks at the marks before it writes anything: far less than
    /// [`OWNER_WATCH`].
    pub const OWNER_PAUSE: Duration = Duration::from_secs(5);
    /// How long SSDs of a read-write pool are waited for that fell silent together, if nothing is dirty.
    pub const SSD_GONE_TIMEOUT: Duration = Duration::from_secs(150);
    /// How long a backing device may answer nothing until it counts as one that hangs, and an administrator's change does not
    /// wait for it; how long a fill may take until other volumes' fills do not wait for it; and how long a host waits for what the
    /// device says of its holes.
    pub const BACKING_TIMEOUT: Duration = Duration::from_secs(10);
    /// How long an administrator's change waits at most for one thing of a backing device that is only slow. Hosts are held off
    /// meanwhile.
    pub const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);
    /// Read errors (medium or checksum), in all runs, from which on an SSD is to be replaced, and its pool is Degraded.
    pub const SSD_READ_ERRORS_WARN: u64 = 100;
    /// Read errors (medium or checksum) of one run after which an SSD is expelled.
    pub const SSD_READ_ERRORS_MAX: u64 = 1000;
    /// Pages of a volume in the write log that one answer to what of the volume is allocated looks at: what one turn of the thread
    /// has time for.
    pub const STATUS_PAGES_MAX: usize = 16_384;
    /// How long a stop waits for a backing device to flush.
    pub const STOP_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
    /// Bytes of zeroes that are written in one piece where a device cannot zero by itself.
    pub const ZERO_CHUNK_BYTES: u64 = 1 << 20;
    /// The smallest share of a pool that is given in bytes, and the smallest limit on what is written per day.
    pub const SHARE_BYTES_MIN: u64 = 1 << 20;
    /// Requests of a volume that wait to be recorded; more are lost, and counted.
    pub const RECORDED_REQUESTS_MAX: usize = 65_536;
    /// Fingerprint pages of a backing device.
    pub const FINGERPRINTS: usize = 16;
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// A pool's name: 1 to 16 characters of `A-Z a-z 0-9 - _ < >` (REQUIREMENTS P6).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolName(String);

impl FromStr for PoolName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_<>".contains(c);
        if !text.is_empty() && text.len() <= 16 && text.chars().all(allowed) {
            return Ok(Self(text.to_owned()));
        }
        Err(invalid(format!("pool name {text:?}: a pool name has 1 to 16 characters of A-Z a-z 0-9 - _ < >")))
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PoolName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A volume's name, and the name of its export: 1 to 64 characters of `A-Z a-z 0-9 - _ .`, not starting with a dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeName(String);

impl FromStr for VolumeName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let fits = !text.is_empty() && text.len() <= limits::VOLUME_NAME_BYTES_MAX && !text.starts_with('.');
        if fits && text.chars().all(allowed) {
            return Ok(Self(text.to_owned()));
        }
        Err(invalid(format!(
            "volume name {text:?}: a volume name has 1 to 64 characters of A-Z a-z 0-9 - _ . and does not start with a dot"
        )))
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl VolumeName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Defines a fieldless enum with the words by which people and the API name its values.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident, $what:literal, $($(#[$vmeta:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            /// Every value with its word, in the order of presentation.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$variant, $word)),+];

            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                let found = Self::ALL.iter().find(|(_, word)| *word == text);
                found.map(|(value, _)| *value).ok_or_else(|| {
                    let words: Vec<_> = Self::ALL.iter().map(|(_, word)| *word).collect();
                    invalid(format!("{} {text:?}: it is one of {}", $what, words.join(", ")))
                })
            }
        }
    };
}

words! {
    /// What a pool may hold.
    PoolKind, "pool type",
    /// Clean data only, single copies over all SSDs.
    Read = "read",
    /// Also dirty data, mirrored on pairs of SSDs.
    ReadWrite = "read-write",
}

words! {
    /// The preset by which a pool was made (REQUIREMENTS P7).
    IoType, "I/O type",
    Database = "database",
    FileSystem = "file-system",
    WebService = "web-service",
    Custom = "custom",
}

words! {
    /// What is evicted first.
    PolicyKind, "policy",
    /// Scan-resistant: S3-FIFO (Yang et al., SOSP'23).
    S3Fifo = "s3-fifo",
    Lru = "lru",
    Fifo = "fifo",
    /// Scan-resistant: 2Q (Johnson and Shasha, VLDB'94).
    TwoQ = "2q",
    /// Follows whichever of them suits the pool best.
    Auto = "auto",
}

impl PolicyKind {
    /// What a pool with it begins with: never `auto`.
    #[must_use]
    pub fn begins_with(self) -> Self {
        match self {
            Self::Auto => Self::S3Fifo,
            Self::S3Fifo | Self::TwoQ | Self::Lru | Self::Fifo => self,
        }
    }
}

words! {
    /// How much of the backing device's time fills may take beside hosts.
    FetchRate, "fetch rate",
    Low = "low",
    Medium = "medium",
    High = "high",
}

words! {
    /// How much of the backing device's time cleaning may take beside hosts.
    FlushRate, "flush rate",
    Low = "low",
    Medium = "medium",
    High = "high",
}

words! {
    /// Where a volume's writes go (REQUIREMENTS D7). In a read pool every mode is `WriteAround`.
    WriteMode, "write mode",
    /// To the SSDs, except detected streams and, with a populate-on-write threshold above 1, a block's first writes.
    WriteBack = "write-back",
    /// To the SSDs, streams too, until the dirty watermark is reached.
    InstantWriteBack = "instant-write-back",
    /// To the backing device, then into the cache.
    WriteThrough = "write-through",
    /// To the backing device; what is cached of it is dropped.
    WriteAround = "write-around",
}

/// The size of a cache block: a power of two from 64 KiB to 4 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockBytes(u32);

impl BlockBytes {
    pub fn new(bytes: u64) -> Result<Self, Error> {
        let fits = bytes.is_power_of_two() && (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&bytes);
        let small = u32::try_from(bytes).ok().filter(|_| fits);
        small
            .map(Self)
            .ok_or_else(|| invalid(format!("cache block of {bytes} bytes: it is a power of two from 64 KiB to 4 MiB")))
    }

    pub fn get(self) -> u64 {
        u64::from(self.0)
    }

    pub fn pages(self) -> u32 {
        self.0 / 4096
    }

    /// A block of so many pages; `None` if there is no such block.
    pub(crate) fn of_pages(pages: u32) -> Option<Self> {
        Self::new(u64::from(pages) * PAGE).ok()
    }
}

/// A pool's settings. `block_bytes` and `checksums` are fixed when the pool is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    pub io_type: IoType,
    pub block_bytes: BlockBytes,
    /// Reads of a block until it is populated: 1 to 4.
    pub populate_on_read: u8,
    /// Writes of a block until it is populated: 1 to 4; in a read pool 0 means never.
    pub populate_on_write: u8,
    pub policy: PolicyKind,
    pub fetch_rate: FetchRate,
    /// Page checksums of slots.
    pub checksums: bool,
    /// When and how fast dirty data is cleaned. Without meaning in a read pool.
    pub cleaning: Cleaning,
    /// Once the pool has written so many bytes to all its SSDs together within 24 hours, it populates nothing more;
    /// `None`: no limit. At least 1 MiB.
    pub ssd_writes_per_day_bytes: Option<u64>,
}

/// A part of something that has bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Bytes(u64),
    /// 1 to 100.
    Percent(u8),
}

impl Share {
    /// In bytes, rounded down, and never more than the whole.
    pub fn of(self, whole_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.min(whole_bytes),
            Self::Percent(percent) => {
                let part = u128::from(whole_bytes) * u128::from(percent.min(100)) / 100;
                u64::try_from(part).expect("a part is no more than the whole")
            }
        }
    }

    fn check(self, what: &str) -> Result<(), Error> {
        match self {
            Self::Percent(1..=100) => Ok(()),
            Self::Bytes(bytes) if bytes >= limits::SHARE_BYTES_MIN => Ok(()),
            Self::Bytes(_) | Self::Percent(_) => {
                Err(invalid(format!("{what}: it is a size of 1 MiB or more, or 1 to 100 percent")))
            }
        }
    }
}

/// How dirty data leaves the write log for the backing devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaning {
    pub flush_rate: FlushRate,
    /// Cleaning goes on beside hosts from this share of the dirty capacity on: 1 to 90 percent.
    pub dirty_watermark_percent: u8,
    /// Dirty data older than this is cleaned whatever hosts do: 1 s to 30 days.
    pub dirty_age_max_seconds: u32,
}

impl Default for Cleaning {
    fn default() -> Self {
        Self { flush_rate: FlushRate::Medium, dirty_watermark_percent: 50, dirty_age_max_seconds: 600 }
    }
}

impl Cleaning {
    fn check(self) -> Result<(), Error> {
        if !(1..=90).contains(&self.dirty_watermark_percent) {
            return Err(invalid(format!("dirty-watermark {}: it is 1 to 90 percent", self.dirty_watermark_percent)));
        }
        if !(1..=30 * 24 * 3600).contains(&self.dirty_age_max_seconds) {
            let message = format!("dirty-age {} s: it is 1 s to 30 days", self.dirty_age_max_seconds);
            return Err(invalid(message));
        }
        Ok(())
    }
}

impl PoolSettings {
    /// The presets of REQUIREMENTS P7. `Custom` starts as `Database`.
    pub fn preset(kind: PoolKind, io_type: IoType) -> Self {
        let (block, read, write) = match io_type {
            IoType::Database | IoType::Custom => (1 << 20, 2, 0),
            IoType::FileSystem => (2 << 20, 2, 2),
            IoType::WebService => (4 << 20, 2, 0),
        };
        let populate_on_write = match kind {
            PoolKind::Read => write,
            PoolKind::ReadWrite => 1,
        };
        Self {
            io_type,
            block_bytes: BlockBytes::new(block).expect("presets are valid block sizes"),
            populate_on_read: read,
            populate_on_write,
            policy: PolicyKind::S3Fifo,
            fetch_rate: FetchRate::Medium,
            checksums: true,
            cleaning: Cleaning::default(),
            ssd_writes_per_day_bytes: None,
        }
    }

    /// With this I/O type and the thresholds of its preset; `Custom` has none, and leaves those that there are. The cache block
    /// stays, whatever the preset's is.
    #[must_use]
    pub fn with_io_type(self, kind: PoolKind, io_type: IoType) -> Self {
        let thresholds = match io_type {
            IoType::Custom => self,
            IoType::Database | IoType::FileSystem | IoType::WebService => Self::preset(kind, io_type),
        };
        let Self { populate_on_read, populate_on_write, .. } = thresholds;
        Self { io_type, populate_on_read, populate_on_write, ..self }
    }

    /// # Errors
    /// A setting is one that no pool of the kind has.
    pub fn check(&self, kind: PoolKind) -> Result<(), Error> {
        check_thresholds(kind, self.populate_on_read, self.populate_on_write)?;
        if self.ssd_writes_per_day_bytes.is_some_and(|bytes| bytes < limits::SHARE_BYTES_MIN) {
            return Err(invalid("ssd-writes-per-day: it is a size of 1 MiB or more, or off".to_owned()));
        }
        self.cleaning.check()
    }
}

/// The thresholds' rule (REQUIREMENTS P8).
///
/// # Errors
/// One of them is out of its range.
pub fn check_thresholds(kind: PoolKind, populate_on_read: u8, populate_on_write: u8) -> Result<(), Error> {
    if !(1..=4).contains(&populate_on_read) {
        return Err(invalid(format!("populate-on-read {populate_on_read}: it is 1 to 4")));
    }
    let (least, rule) = match kind {
        PoolKind::Read => (0, "0 (off) to 4 in a read pool"),
        PoolKind::ReadWrite => (1, "1 to 4 in a read-write pool"),
    };
    if !(least..=4).contains(&populate_on_write) {
        return Err(invalid(format!("populate-on-write {populate_on_write}: it is {rule}")));
    }
    Ok(())
}

/// A volume's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeSettings {
    /// The block that hosts see: 512 or 4096.
    pub logical_block_bytes: u32,
    pub read_only: bool,
    /// A read stream longer than this bypasses the cache; `None`: never.
    pub read_cutoff_bytes: Option<u64>,
    /// A write stream longer than this bypasses the cache; `None`: never.
    pub write_cutoff_bytes: Option<u64>,
    pub write_mode: WriteMode,
    /// Whether reads populate the cache.
    pub read_cache: bool,
    /// Whether pages that are read again are kept in memory.
    pub memory_cache: bool,
    /// Whether streams that bypass the cache are read into memory before hosts ask for them, where the memory cache is on.
    pub read_ahead: bool,
    /// How much of the volume may be dirty at once, of the pool's dirty capacity; `None`: all of that.
    pub dirty_cap: Option<Share>,
    /// Clean data that others do not evict, of the clean capacity that the pool has at any time; `None`: none.
    pub cache_min: Option<Share>,
    /// The most that the volume has of the clean capacity; `None`: all of it.
    pub cache_max: Option<Share>,
}

impl VolumeSettings {
    /// Whether the shares are within their bounds; what a pool has room for is judged there.
    pub fn check(&self) -> Result<(), Error> {
        let shares = [("dirty-cap", self.dirty_cap), ("cache-min", self.cache_min), ("cache-max", self.cache_max)];
        shares.into_iter().try_for_each(|(what, share)| share.map_or(Ok(()), |share| share.check(what)))?;
        match (self.cache_min, self.cache_max) {
            (Some(Share::Bytes(min)), Some(Share::Bytes(max))) if min > max => {
                Err(invalid(format!("cache-min of {min} bytes: it is above cache-max, {max} bytes")))
            }
            (Some(Share::Percent(min)), Some(Share::Percent(max))) if min > max => {
                Err(invalid(format!("cache-min of {min} %: it is above cache-max, {max} %")))
            }
            (_, _) => Ok(()),
        }
    }
}

impl Default for VolumeSettings {
    fn default() -> Self {
        Self {
            logical_block_bytes: 512,
            read_only: false,
            read_cutoff_bytes: Some(4 << 20),
            write_cutoff_bytes: Some(4 << 20),
            write_mode: WriteMode::WriteBack,
            read_cache: true,
            memory_cache: true,
            read_ahead: true,
            dirty_cap: None,
            cache_min: None,
            cache_max: None,
        }
    }
}

/// A volume as it is recorded: its name, its settings and the spelling of its backing device, which the daemon opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    pub name: VolumeName,
    pub backing: String,
    pub settings: VolumeSettings,
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: P6
    #[test]
    fn pool_names_follow_the_rule_and_the_message_states_it() {
        assert!("Pool-1_<a>".parse::<PoolName>().is_ok());
        for bad in ["", "seventeen-letters", "with space", "slash/", "ü"] {
            let error = bad.parse::<PoolName>().expect_err(bad);
            assert!(error.to_string().contains("A-Z a-z 0-9 - _ < >"), "{error}");
        }
    }

    // proves: P7
    #[test]
    fn presets_match_the_requirements_and_pass_their_own_check() {
        for (kind, _) in PoolKind::ALL {
            for (io_type, _) in IoType::ALL {
                PoolSettings::preset(*kind, *io_type).check(*kind).expect("a preset is valid");
            }
        }
        let web = PoolSettings::preset(PoolKind::Read, IoType::WebService);
        assert_eq!((web.block_bytes.get(), web.populate_on_read, web.populate_on_write), (4 << 20, 2, 0));
        let files = PoolSettings::preset(PoolKind::ReadWrite, IoType::FileSystem);
        assert_eq!((files.block_bytes.get(), files.populate_on_read, files.populate_on_write), (2 << 20, 2, 1));
    }

    // proves: P8
    #[test]
    fn thresholds_outside_their_range_are_refused() {
        let mut settings = PoolSettings::preset(PoolKind::Read, IoType::Custom);
        settings.populate_on_read = 0;
        assert!(settings.check(PoolKind::Read).is_err());
        settings.populate_on_read = 1;
        settings.populate_on_write = 0;
        assert!(settings.check(PoolKind::Read).is_ok());
        assert!(settings.check(PoolKind::ReadWrite).is_err());
        settings.populate_on_write = 5;
        assert!(settings.check(PoolKind::Read).is_err());
    }
}
