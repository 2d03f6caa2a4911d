//! The state directory: the lock, a record and a member file for each pool, and the uncached volumes.
//!
//! Records are replaced as a whole (`state_file.rs`). What the SSDs say wins over a pool's record; the record serves to find them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotset_api::{Share, WriteMode};
use hotset_cache::STATE_BYTES;
use hotset_cache::config::{PoolKind, PoolName, VolumeName, VolumeSettings, VolumeSpec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::conversion::Conversion;
use super::register::HostErrors;
use super::scrub_records::ScrubRecord;
use super::smart::Ledger;
use crate::given_file;
use crate::paths::{EVENTS, POOLS, files_of_pools};
use crate::predecessor::{lock_with_retries, wait_for_files};
use crate::state_file::{self, remove_if_there};
use crate::words;

/// The newest version of the records; a newer one is not read.
const VERSION: u32 = 2;

/// What a record needs its reader to know: 1, or 2 for a read-write pool, whose volumes must never be served without it.
const VERSION_OF_READ_POOLS: u32 = 1;

const SSD_WRITES: &str = "ssds.json";
const FAILURES: &str = "failures.json";
const HOST_ERRORS: &str = "host-errors.json";
const BACKINGS: &str = "backings.json";
const MEMORY_CACHE: &str = "memory-cache.json";
const LOCAL_DEVICES: &str = "local-devices.json";
const HELD_WRITES: &str = "held-writes.json";
const SCRUBS: &str = "scrubs.json";

/// Records without which the daemon can do: one that cannot be read is set aside and begun anew, and then this is so.
const BEGUN_ANEW: [(&str, &str); 9] = [
    (SSD_WRITES, "what was written to the SSDs is counted anew"),
    (FAILURES, "how earlier runs ended, and which pools were fenced for that, is forgotten"),
    (HOST_ERRORS, "errors that hosts got in earlier runs are forgotten"),
    (BACKINGS, "which backing device is whose was found out anew: paths that were swapped meanwhile were not noticed"),
    (MEMORY_CACHE, "the memory cache has the size that the configuration says"),
    (LOCAL_DEVICES, "no volume is a local device any more: `hotset volume set NAME local=on` makes it one again"),
    (HELD_WRITES, "no volume's writes are held any more: `hotset volume flush NAME --hold` holds them again"),
    (SCRUBS, "scrubs that the last run did not come to the end of do not go on: `hotset pool scrub` begins anew"),
    (EVENTS, "events that cannot be read are forgotten"),
];

/// What must fit into the state directory beside what is there.
const PROBE_BYTES: usize = 64 * 1024;

/// A volume as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VolumeRecord {
    pub(crate) name: String,
    pub(crate) backing: String,
    pub(crate) logical_block_bytes: u32,
    pub(crate) read_only: bool,
    pub(crate) read_cutoff_bytes: Option<u64>,
    pub(crate) write_cutoff_bytes: Option<u64>,
    #[serde(default = "default_write_mode")]
    pub(crate) write_mode: WriteMode,
    #[serde(default = "default_read_cache")]
    pub(crate) read_cache: bool,
    #[serde(default = "default_memory_cache")]
    pub(crate) memory_cache: bool,
    #[serde(default = "default_read_ahead")]
    pub(crate) read_ahead: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dirty_cap: Option<Share>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache_min: Option<Share>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache_max: Option<Share>,
}

fn default_write_mode() -> WriteMode {
    words::write_mode(VolumeSettings::default().write_mode)
}

fn default_read_cache() -> bool {
    VolumeSettings::default().read_cache
}

fn default_memory_cache() -> bool {
    VolumeSettings::default().memory_cache
}

fn default_read_ahead() -> bool {
    VolumeSettings::default().read_ahead
}

impl VolumeRecord {
    pub(crate) fn of(spec: &VolumeSpec) -> Self {
        Self {
            name: spec.name.to_string(),
            backing: spec.backing.clone(),
            logical_block_bytes: spec.settings.logical_block_bytes,
            read_only: spec.settings.read_only,
            read_cutoff_bytes: spec.settings.read_cutoff_bytes,
            write_cutoff_bytes: spec.settings.write_cutoff_bytes,
            write_mode: words::write_mode(spec.settings.write_mode),
            read_cache: spec.settings.read_cache,
            memory_cache: spec.settings.memory_cache,
            read_ahead: spec.settings.read_ahead,
            dirty_cap: spec.settings.dirty_cap.map(words::share),
            cache_min: spec.settings.cache_min.map(words::share),
            cache_max: spec.settings.cache_max.map(words::share),
        }
    }

    pub(crate) fn settings(&self) -> VolumeSettings {
        VolumeSettings {
            logical_block_bytes: self.logical_block_bytes,
            read_only: self.read_only,
            read_cutoff_bytes: self.read_cutoff_bytes,
            write_cutoff_bytes: self.write_cutoff_bytes,
            write_mode: words::engine_write_mode(self.write_mode),
            read_cache: self.read_cache,
            memory_cache: self.memory_cache,
            read_ahead: self.read_ahead,
            dirty_cap: self.dirty_cap.and_then(words::engine_share),
            cache_min: self.cache_min.and_then(words::engine_share),
            cache_max: self.cache_max.and_then(words::engine_share),
        }
    }

    /// Fails if somebody edited the record into something that no volume can be.
    pub(crate) fn spec(&self) -> Result<VolumeSpec, hotset_cache::Error> {
        let name = self.name.parse::<VolumeName>()?;
        Ok(VolumeSpec { name, backing: self.backing.clone(), settings: self.settings() })
    }
}

/// The size of the memory cache, as it is recorded; none: what the configuration says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct MemoryCacheRecord {
    size_bytes: Option<u64>,
}

/// What a volume's backing device was when it was opened last, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackingRecord {
    pub(crate) volume: String,
    pub(crate) backing: String,
    pub(crate) id: String,
    pub(crate) size_bytes: u64,
    /// A name of the device that stays its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) better_path: Option<String>,
}

/// An SSD as it is recorded: where it was last, and who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SsdRecord {
    pub(crate) path: String,
    pub(crate) uuid: String,
}

/// An SSD that has left its pool, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftRecord {
    #[serde(flatten)]
    pub(crate) ssd: SsdRecord,
    /// How it failed. None: it was missing; older records do not tell one from the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<String>,
    /// It failed, and another one is in its place, or none is wanted there.
    #[serde(default)]
    pub(crate) replaced: bool,
}

/// A volume that is to be a block device, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocalRecord {
    pub(crate) volume: String,
    /// By which the volume is known again under another name.
    pub(crate) backing: String,
    /// What the driver knows the device by: no other one is called so.
    pub(crate) identifier: String,
}

/// A volume whose writes are held, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HoldRecord {
    /// By which the volume is known, whatever it is called.
    pub(crate) backing: String,
    pub(crate) since_unix_ms: u64,
    pub(crate) by: String,
}

/// A pool as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PoolRecord {
    pub(crate) name: String,
    /// 32 hexadecimal digits.
    pub(crate) uuid: String,
    /// A read-write pool may hold what its volumes' backing devices lack.
    #[serde(default, rename = "type")]
    pub(crate) kind: RecordedKind,
    pub(crate) ssds: Vec<SsdRecord>,
    #[serde(default)]
    pub(crate) spares: Vec<SsdRecord>,
    /// A copy of what the pool's catalogue names, for the time when the pool cannot be opened.
    pub(crate) volumes: Vec<VolumeRecord>,
    /// SSDs that have left the pool. One that was missing joins it, empty, when it comes back; one that failed does not.
    #[serde(default)]
    pub(crate) left: Vec<LeftRecord>,
    /// Volumes that were taken from the pool while it could not be opened; its catalogue still names them.
    #[serde(default)]
    pub(crate) detached: Vec<String>,
    /// The backing devices of those volumes: the catalogue may know them by other names.
    #[serde(default)]
    pub(crate) detached_backings: Vec<String>,
}

impl PoolRecord {
    /// The volume was taken from the pool while it could not be opened.
    pub(crate) fn is_detached(&self, name: &str, backing: &str) -> bool {
        self.detached.iter().any(|taken| taken == name) || self.detached_backings.iter().any(|taken| taken == backing)
    }
}

/// A pool's type as it is recorded. Records that do not say are older than read-write pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RecordedKind {
    #[default]
    Read,
    ReadWrite,
}

impl RecordedKind {
    pub(crate) fn of(kind: PoolKind) -> Self {
        match kind {
            PoolKind::Read => Self::Read,
            PoolKind::ReadWrite => Self::ReadWrite,
        }
    }

    pub(crate) fn engine(self) -> PoolKind {
        match self {
            Self::Read => PoolKind::Read,
            Self::ReadWrite => PoolKind::ReadWrite,
        }
    }

    fn version(self) -> u32 {
        match self {
            Self::Read => VERSION_OF_READ_POOLS,
            Self::ReadWrite => VERSION,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    content: T,
}

#[derive(Default, Serialize, Deserialize)]
struct VolumeRecords {
    volumes: Vec<VolumeRecord>,
}

#[derive(Default, Serialize, Deserialize)]
struct ForgottenPools {
    uuids: Vec<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct HostErrorsOfVolumes {
    volumes: Vec<HostErrors>,
}

#[derive(Default, Serialize, Deserialize)]
struct BackingRecords {
    volumes: Vec<BackingRecord>,
}

#[derive(Default, Serialize, Deserialize)]
struct LocalRecords {
    volumes: Vec<LocalRecord>,
}

#[derive(Default, Serialize, Deserialize)]
struct HoldRecords {
    volumes: Vec<HoldRecord>,
}

#[derive(Default, Serialize, Deserialize)]
struct ScrubsOfPools {
    pools: BTreeMap<String, ScrubRecord>,
}

#[derive(Serialize, Deserialize)]
struct TokenRecords<T> {
    tokens: Vec<T>,
}

impl<T> Default for TokenRecords<T> {
    fn default() -> Self {
        Self { tokens: Vec::new() }
    }
}

/// The directory, locked for this process.
pub(crate) struct StateDirectory {
    path: PathBuf,
    /// Records that could not be read, nor be set aside.
    in_the_way: Mutex<BTreeSet<&'static str>>,
    /// Holds the lock as long as it is open.
    _lock: File,
}

impl StateDirectory {
    /// Makes the directory if need be, for its owner only, and locks it.
    ///
    /// # Errors
    /// A message for people; also if another daemon uses it.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let context = |error: io::Error| format!("state directory {}: {error}", path.display());
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(path.join(POOLS)).map_err(context)?;
        let lock = lock(path)?;
        Ok(Self { path: path.to_owned(), in_the_way: Mutex::default(), _lock: lock })
    }

    /// Waits a moment for the files that a daemon which was just killed may still hold.
    pub(crate) fn wait_for_predecessor(&self) {
        let pools: Vec<PoolRecord> = self.pools().unwrap_or_default().into_iter().flatten().collect();
        let ssds = pools.iter().flat_map(|pool| &pool.ssds).map(|ssd| PathBuf::from(&ssd.path));
        let cached = pools.iter().flat_map(|pool| &pool.volumes).map(|volume| PathBuf::from(&volume.backing));
        let members = pools.iter().map(|pool| self.path.join(POOLS).join(format!("{}.member", pool.name)));
        let uncached = self.volumes().unwrap_or_default().into_iter().map(|volume| PathBuf::from(volume.backing));
        wait_for_files(ssds.chain(cached).chain(members).chain(uncached));
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The records of all pools. One that cannot be read is an error by itself and hides no other.
    pub(crate) fn pools(&self) -> io::Result<Vec<Result<PoolRecord, String>>> {
        self.files_of_pools("json").map(|paths| paths.iter().map(|path| self.read_record(path)).collect())
    }

    /// Checks that what is on record of a pool of this name, if anything is, can be read.
    ///
    /// # Errors
    /// Its record cannot be read: nothing may take its place.
    pub(crate) fn check_record_of(&self, name: &PoolName) -> Result<(), String> {
        let path = self.path.join(POOLS).join(format!("{name}.json"));
        self.read_if_there::<PoolRecord>(&path).map(drop).map_err(|error| {
            format!(
                "pool {name} is on record, and the record cannot be read: {error}; what was taken from the pool, and which of \
                 its SSDs failed, may be on record there alone: bring the file back as it was and restart, or, if there is \
                 none, move it away"
            )
        })
    }

    /// Whether there is one; where that cannot be said, there may be.
    pub(crate) fn has_record_of(&self, name: &PoolName) -> bool {
        let path = self.path.join(POOLS).join(format!("{name}.json"));
        self.within(move || Ok(path.exists())).unwrap_or(true)
    }

    pub(crate) fn write_pool(&self, record: &PoolRecord) -> io::Result<()> {
        self.write_record(self.path.join(POOLS), format!("{}.json", record.name), record.kind.version(), record)
    }

    /// Forgets a pool: its record first, then its member file, which means nothing without it.
    pub(crate) fn remove_pool(&self, name: &PoolName) -> io::Result<()> {
        let (pools, member) = (self.path.join(POOLS), self.member(name));
        let record = pools.join(format!("{name}.json"));
        self.within(move || {
            remove_if_there(&record)?;
            remove_if_there(&member)?;
            File::open(&pools)?.sync_all()
        })
    }

    /// The conversions that were begun, by pool. One that cannot be read is an error by itself and hides no other.
    pub(crate) fn conversions(&self) -> io::Result<BTreeMap<String, Result<Conversion, String>>> {
        let paths = self.files_of_pools("convert")?;
        let pool_of = |path: &PathBuf| path.file_stem().map(|name| name.to_string_lossy().into_owned());
        Ok(paths.iter().filter_map(|path| Some((pool_of(path)?, self.read_record(path)))).collect())
    }

    pub(crate) fn write_conversion(&self, conversion: &Conversion) -> io::Result<()> {
        self.write_record(self.path.join(POOLS), format!("{}.convert", conversion.pool), VERSION, conversion)
    }

    pub(crate) fn remove_conversion(&self, pool: &str) -> io::Result<()> {
        let pools = self.path.join(POOLS);
        let record = pools.join(format!("{pool}.convert"));
        self.within(move || {
            remove_if_there(&record)?;
            File::open(&pools)?.sync_all()
        })
    }

    /// The uncached volumes. A missing file means none.
    pub(crate) fn volumes(&self) -> Result<Vec<VolumeRecord>, String> {
        self.read_if_there::<VolumeRecords>(&self.path.join("volumes.json")).map(|file| file.volumes)
    }

    pub(crate) fn write_volumes(&self, volumes: &[VolumeRecord]) -> io::Result<()> {
        self.write_in("volumes.json", VERSION_OF_READ_POOLS, &VolumeRecords { volumes: volumes.to_vec() })
    }

    /// UUIDs of pools that were deleted while they were offline, with the dirty data that their SSDs may hold. A missing file
    /// means none.
    pub(crate) fn forgotten_pools(&self) -> Result<Vec<String>, String> {
        self.read_if_there::<ForgottenPools>(&self.path.join("forgotten.json")).map(|file| file.uuids)
    }

    /// From here on nothing that the SSDs of this pool hold is dirty data of a volume.
    pub(crate) fn forget_pool(&self, uuid: &str) -> Result<(), String> {
        let mut uuids = self.forgotten_pools()?;
        uuids.retain(|known| known != uuid);
        uuids.push(uuid.to_owned());
        self.write_in("forgotten.json", VERSION_OF_READ_POOLS, &ForgottenPools { uuids })
            .map_err(|error| format!("state directory {}: {error}", self.path.display()))
    }

    /// The tokens of the API. A missing file means none.
    pub(crate) fn tokens<T: DeserializeOwned>(&self) -> Result<Vec<T>, String> {
        self.read_if_there::<TokenRecords<T>>(&self.path.join("tokens.json")).map(|file| file.tokens)
    }

    pub(crate) fn write_tokens<T: Clone + Serialize>(&self, tokens: &[T]) -> io::Result<()> {
        self.write_in("tokens.json", VERSION_OF_READ_POOLS, &TokenRecords { tokens: tokens.to_vec() })
    }

    /// What was written to which SSD. Begun anew if it cannot be read.
    pub(crate) fn ssd_ledger(&self) -> Ledger {
        self.read_or_begin_anew(SSD_WRITES)
    }

    pub(crate) fn write_ssd_ledger(&self, ledger: &Ledger) -> io::Result<()> {
        self.write_begun_anew(SSD_WRITES, ledger)
    }

    /// How earlier runs ended. Begun anew if it cannot be read.
    pub(crate) fn failures<T: DeserializeOwned + Default>(&self) -> T {
        self.read_or_begin_anew(FAILURES)
    }

    pub(crate) fn write_failures(&self, record: &impl Serialize) -> io::Result<()> {
        self.write_begun_anew(FAILURES, record)
    }

    /// Errors that hosts got in earlier runs. Begun anew if it cannot be read.
    pub(crate) fn host_errors(&self) -> Vec<HostErrors> {
        self.read_or_begin_anew::<HostErrorsOfVolumes>(HOST_ERRORS).volumes
    }

    pub(crate) fn write_host_errors(&self, errors: &[HostErrors]) -> io::Result<()> {
        self.write_begun_anew(HOST_ERRORS, &HostErrorsOfVolumes { volumes: errors.to_vec() })
    }

    /// The size of the memory cache that an administrator has set. Begun anew if it cannot be read.
    pub(crate) fn memory_cache_bytes(&self) -> Option<u64> {
        self.read_or_begin_anew::<MemoryCacheRecord>(MEMORY_CACHE).size_bytes
    }

    pub(crate) fn write_memory_cache_bytes(&self, size_bytes: Option<u64>) -> io::Result<()> {
        self.write_begun_anew(MEMORY_CACHE, &MemoryCacheRecord { size_bytes })
    }

    /// Whose backing device was whose. Begun anew if it cannot be read.
    pub(crate) fn backings(&self) -> Vec<BackingRecord> {
        self.read_or_begin_anew::<BackingRecords>(BACKINGS).volumes
    }

    pub(crate) fn write_backings(&self, known: &[BackingRecord]) -> io::Result<()> {
        self.write_begun_anew(BACKINGS, &BackingRecords { volumes: known.to_vec() })
    }

    /// Which volumes are block devices of this machine. Begun anew if it cannot be read.
    pub(crate) fn locals(&self) -> Vec<LocalRecord> {
        self.read_or_begin_anew::<LocalRecords>(LOCAL_DEVICES).volumes
    }

    pub(crate) fn write_locals(&self, locals: &[LocalRecord]) -> io::Result<()> {
        self.write_begun_anew(LOCAL_DEVICES, &LocalRecords { volumes: locals.to_vec() })
    }

    /// The volumes whose writes are held. Begun anew if it cannot be read.
    pub(crate) fn holds(&self) -> Vec<HoldRecord> {
        self.read_or_begin_anew::<HoldRecords>(HELD_WRITES).volumes
    }

    pub(crate) fn write_holds(&self, holds: &[HoldRecord]) -> io::Result<()> {
        self.write_begun_anew(HELD_WRITES, &HoldRecords { volumes: holds.to_vec() })
    }

    /// Scrubs that are under way, and when whole ones ended, by pool. Begun anew if it cannot be read.
    pub(crate) fn scrubs(&self) -> BTreeMap<String, ScrubRecord> {
        self.read_or_begin_anew::<ScrubsOfPools>(SCRUBS).pools
    }

    pub(crate) fn write_scrubs(&self, pools: BTreeMap<String, ScrubRecord>) -> io::Result<()> {
        self.write_begun_anew(SCRUBS, &ScrubsOfPools { pools })
    }

    /// A missing file means that nothing is remembered; so does one that is no such record, which is kept beside. One that its file
    /// system does not give now stays where it is until something is to be written: the next start may read it.
    fn read_or_begin_anew<T: DeserializeOwned + Default>(&self, name: &'static str) -> T {
        let path = self.path.join(name);
        let text = self.text_of(&path);
        // What is no file has been put there, and gives way like one that means nothing.
        let is_given = text.as_ref().err().is_none_or(|error| error.kind() == io::ErrorKind::InvalidInput);
        record_in(&path, text).map(Option::unwrap_or_default).unwrap_or_else(|error| {
            tracing::warn!("{error}; this record begins anew");
            if !is_given {
                self.in_the_way().insert(name);
            } else if let Err(error) = self.set_aside(path.clone()) {
                tracing::warn!("{}: it cannot be set aside: {error}", path.display());
                self.in_the_way().insert(name);
            }
            T::default()
        })
    }

    /// What could not be read is not overwritten.
    fn write_begun_anew<T: Serialize>(&self, name: &'static str, content: &T) -> io::Result<()> {
        if self.in_the_way().contains(name) {
            self.set_aside(self.path.join(name))?;
            self.in_the_way().remove(name);
        }
        self.write_in(name, VERSION_OF_READ_POOLS, content)
    }

    /// Does something in the directory, on a thread apart: its file system may hang, and is waited for once then.
    fn within<T: Send + 'static>(&self, work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        given_file::answered(&self.path, move |_| work())
    }

    fn write_in<T: Serialize>(&self, name: &str, version: u32, content: &T) -> io::Result<()> {
        self.write_record(self.path.clone(), name.to_owned(), version, content)
    }

    fn write_record<T: Serialize>(
        &self,
        directory: PathBuf,
        name: String,
        version: u32,
        content: &T,
    ) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&Versioned { version, content })?;
        self.within(move || state_file::replace(&directory, &name, &text))
    }

    fn set_aside(&self, path: PathBuf) -> io::Result<PathBuf> {
        self.within(move || state_file::set_aside(&path))
    }

    fn files_of_pools(&self, extension: &'static str) -> io::Result<Vec<PathBuf>> {
        let directory = self.path.clone();
        self.within(move || files_of_pools(&directory, extension))
    }

    fn read_record<T: DeserializeOwned>(&self, path: &Path) -> Result<T, String> {
        self.read_if_any(path)?.ok_or_else(|| format!("{}: it is not there", path.display()))
    }

    /// A missing file means that there is nothing yet.
    fn read_if_there<T: DeserializeOwned + Default>(&self, path: &Path) -> Result<T, String> {
        self.read_if_any(path).map(Option::unwrap_or_default)
    }

    fn read_if_any<T: DeserializeOwned>(&self, path: &Path) -> Result<Option<T>, String> {
        record_in(path, self.text_of(path))
    }

    fn text_of(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let there = path.to_owned();
        self.within(move || state_file::read(&there))
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn in_the_way(&self) -> MutexGuard<'_, BTreeSet<&'static str>> {
        self.in_the_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that were begun anew, as long as what could not be read is still there; and what is not known for that.
    pub(crate) fn begun_anew(&self) -> io::Result<Vec<String>> {
        let directory = self.path.clone();
        let there = self.within(move || {
            let names = fs::read_dir(&directory)?.map(|entry| entry.map(|entry| entry.file_name()));
            names.collect::<io::Result<Vec<_>>>()
        })?;
        let mut told = Vec::new();
        for (name, what) in BEGUN_ANEW {
            let aside = format!("{name}{}", state_file::BROKEN);
            let is_aside = |file: &&OsString| file.to_string_lossy().starts_with(&aside);
            let is_told = |file: String| format!("{}: it could not be read: {what}", self.path.join(file).display());
            told.extend(there.iter().filter(is_aside).map(|file| is_told(file.to_string_lossy().into_owned())));
            told.extend(self.in_the_way().get(name).map(|name| is_told((*name).to_owned())));
        }
        Ok(told)
    }

    /// Fails where a record of some size could not be written now. Leaves nothing behind.
    pub(crate) fn try_to_write(&self) -> io::Result<()> {
        let path = self.path.join("probe");
        self.within(move || {
            remove_if_there(&path)?;
            let mut file = state_file::open(&path, OpenOptions::new().write(true).create_new(true))?;
            let written = file.write_all(&[0; PROBE_BYTES]);
            let removed = remove_if_there(&path);
            written.and(removed)
        })
    }

    /// The state directory's copy of a pool: the pool's member beside its SSDs.
    pub(crate) fn member(&self, name: &PoolName) -> PathBuf {
        self.path.join(POOLS).join(format!("{name}.member"))
    }

    /// Whether the state directory has a copy of a pool.
    ///
    /// # Errors
    /// It is not known: nothing may take its place.
    pub(crate) fn has_member(&self, name: &PoolName) -> io::Result<bool> {
        let path = self.member(name);
        self.within(move || path.try_exists()).map_err(|error| of_member(name, &error))
    }

    /// Makes the member file anew, knowing nothing: what the pool's SSDs hold is not believed at its next open.
    pub(crate) fn reset_member(&self, name: &PoolName) -> io::Result<()> {
        let path = self.member(name);
        let made = self.within(move || {
            remove_if_there(&path)?;
            hotset_block::create_image(&path, STATE_BYTES, &mut |_| ())
        });
        made.map_err(|error| of_member(name, &error))
    }

    /// A pool of this name was not made: its member file gives its room back.
    pub(crate) fn remove_member(&self, name: &PoolName) -> io::Result<()> {
        let path = self.member(name);
        self.within(move || remove_if_there(&path))
    }
}

/// Says which file it is about.
fn of_member(name: &PoolName, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{POOLS}/{name}.member: {error}"))
}

/// What of a pool was discarded while its SSDs were away.
#[derive(Default)]
pub(crate) struct DiscardedCaches {
    record: PoolRecord,
    /// The pool was deleted, or nobody can say what was discarded.
    pub(crate) doubts: Vec<String>,
}

impl DiscardedCaches {
    /// The volume was taken from the pool.
    pub(crate) fn has(&self, name: &str, backing: &str) -> bool {
        self.record.is_detached(name, backing)
    }
}

/// Looks that up without a daemon. A directory that is not there knows of nothing.
pub(crate) fn discarded(directory: &Path, pool: &PoolName, pool_uuid: u128) -> DiscardedCaches {
    let uuid = format!("{pool_uuid:032x}");
    let mut discarded = DiscardedCaches::default();
    match read_if_there::<PoolRecord>(&directory.join(POOLS).join(format!("{pool}.json"))) {
        Ok(record) if record.uuid == uuid => discarded.record = record,
        Ok(_) => {}
        Err(error) => discarded.doubts.push(format!("what was discarded of the pool cannot be read: {error}")),
    }
    match read_if_there::<ForgottenPools>(&directory.join("forgotten.json")) {
        Ok(forgotten) if forgotten.uuids.contains(&uuid) => {
            let deleted = "the pool was deleted while its SSDs were away, and what they hold was discarded";
            discarded.doubts.push(deleted.to_owned());
        }
        Ok(_) => {}
        Err(error) => discarded.doubts.push(format!("which pools were deleted cannot be read: {error}")),
    }
    discarded
}

fn lock(directory: &Path) -> Result<File, String> {
    let path = directory.join("state.lock");
    let context = |error: io::Error| format!("{}: {error}", path.display());
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let mut file = state_file::open(&path, &options).map_err(context)?;
    match lock_with_retries(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(directory, &mut file)),
        Err(TryLockError::Error(error)) => return Err(context(error)),
    }
    // The lock is what counts: a full file system, which cannot say who has it, keeps no daemon from serving.
    if let Err(error) = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())) {
        tracing::warn!("{}: who uses the state directory is not written down: {error}", path.display());
    }
    Ok(file)
}

fn in_use(directory: &Path, file: &mut File) -> String {
    let mut holder = String::new();
    let process = match file.read_to_string(&mut holder) {
        Ok(_) if !holder.trim().is_empty() => format!("process {}", holder.trim()),
        Ok(_) | Err(_) => "another process".to_owned(),
    };
    format!(
        "state directory {}: {process} is using it already; stop that daemon, or choose another directory with --state",
        directory.display()
    )
}

/// What is on record there, by what was read. `None`: there is no such file.
fn record_in<T: DeserializeOwned>(path: &Path, text: io::Result<Option<Vec<u8>>>) -> Result<Option<T>, String> {
    let Some(text) = text.map_err(|error| format!("{}: {error}", path.display()))? else { return Ok(None) };
    let version: Result<serde_json::Value, _> = serde_json::from_slice(&text);
    let found = version.as_ref().ok().and_then(|value| value.get("version")?.as_u64());
    if found.is_some_and(|found| found > u64::from(VERSION)) {
        return Err(format!("{}: it was written by a newer version of hotset", path.display()));
    }
    let record: Versioned<T> = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Some(record.content))
}

/// A missing file means that there is nothing yet.
fn read_if_there<T: DeserializeOwned + Default>(path: &Path) -> Result<T, String> {
    record_in(path, state_file::read(path)).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str) -> VolumeRecord {
        let settings = VolumeSettings::default();
        VolumeRecord::of(&VolumeSpec { name: name.parse().unwrap(), backing: "/dev/x".into(), settings })
    }

    fn pool(name: &str) -> PoolRecord {
        let ssds = vec![SsdRecord { path: "/dev/s".into(), uuid: "00".into() }];
        PoolRecord { name: name.into(), uuid: "ff".into(), ssds, volumes: vec![volume("v")], ..PoolRecord::default() }
    }

    #[test]
    fn records_are_read_back_as_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        assert_eq!(state.volumes().unwrap(), []);
        state.write_volumes(&[volume("a"), volume("b")]).unwrap();
        assert_eq!(state.volumes().unwrap(), [volume("a"), volume("b")]);
        state.write_pool(&pool("<p>")).unwrap();
        assert_eq!(state.pools().unwrap(), [Ok(pool("<p>"))]);
        state.remove_pool(&"<p>".parse().unwrap()).unwrap();
        assert_eq!(state.pools().unwrap(), []);
    }

    #[test]
    fn a_read_write_pool_is_hidden_from_versions_that_would_serve_its_volumes_without_it() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let record = PoolRecord { kind: RecordedKind::ReadWrite, ..pool("p") };
        state.write_pool(&record).unwrap();
        assert_eq!(state.pools().unwrap(), [Ok(record)]);
        let version = |name: &str| {
            let text = fs::read_to_string(directory.path().join(name)).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap()["version"].as_u64()
        };
        assert_eq!(version("pools/p.json"), Some(2));
        state.write_pool(&pool("q")).unwrap();
        assert_eq!(version("pools/q.json"), Some(1));
    }

    #[test]
    fn a_record_from_before_write_modes_means_the_defaults() {
        let text = r#"{"name": "v", "backing": "/dev/x", "logical_block_bytes": 512, "read_only": false,
            "read_cutoff_bytes": null, "write_cutoff_bytes": 5}"#;
        let record: VolumeRecord = serde_json::from_str(text).unwrap();
        let defaults = VolumeSettings::default();
        assert_eq!(record.settings().write_mode, defaults.write_mode);
        assert_eq!(record.settings().read_cache, defaults.read_cache);
        let old = r#"{"name": "p", "uuid": "ff", "ssds": [], "volumes": []}"#;
        assert_eq!(serde_json::from_str::<PoolRecord>(old).unwrap().kind, RecordedKind::Read);
    }

    #[test]
    fn a_record_from_before_that_was_told_means_an_ssd_that_was_missing() {
        let old =
            r#"{"name": "p", "uuid": "ff", "ssds": [], "volumes": [], "left": [{"path": "/dev/s", "uuid": "00"}]}"#;
        let mut record: PoolRecord = serde_json::from_str(old).unwrap();
        let ssd = SsdRecord { path: "/dev/s".into(), uuid: "00".into() };
        assert_eq!(record.left, [LeftRecord { ssd: ssd.clone(), failed: None, replaced: false }]);
        record.left = vec![LeftRecord { ssd, failed: Some("it broke".into()), replaced: true }];
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<PoolRecord>(&text).unwrap(), record);
    }

    #[test]
    fn a_write_that_was_cut_leaves_the_old_record() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        state.write_volumes(&[volume("a")]).unwrap();
        let whole = fs::read(directory.path().join("volumes.json")).unwrap();
        for length in 0..whole.len() {
            fs::write(directory.path().join("volumes.json.new"), &whole[..length]).unwrap();
            assert_eq!(state.volumes().unwrap(), [volume("a")], "cut after {length} bytes");
        }
        state.write_volumes(&[volume("b")]).unwrap();
        assert_eq!(state.volumes().unwrap(), [volume("b")]);
    }

    #[test]
    fn a_broken_record_names_its_file_and_hides_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        state.write_pool(&pool("good")).unwrap();
        fs::write(directory.path().join("pools/bad.json"), "{").unwrap();
        fs::write(directory.path().join("pools/new.json"), r#"{"version": 3, "name": "new"}"#).unwrap();
        let pools = state.pools().unwrap();
        assert!(pools[0].as_ref().unwrap_err().contains("bad.json"));
        assert_eq!(pools[1], Ok(pool("good")));
        assert!(pools[2].as_ref().unwrap_err().contains("newer version"));
    }

    // proves: F12
    #[test]
    fn a_record_that_cannot_be_read_is_set_aside_and_told_until_it_is_taken_away() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        for (name, what) in BEGUN_ANEW.into_iter().filter(|(name, _)| *name != EVENTS) {
            assert_eq!(state.begun_anew().unwrap(), Vec::<String>::new());
            let path = directory.path().join(name);
            fs::write(&path, "{").unwrap();
            let _: (_, BTreeMap<String, String>, _, _) =
                (state.ssd_ledger(), state.failures(), state.host_errors(), state.backings());
            assert_eq!((state.memory_cache_bytes(), state.locals(), state.holds()), (None, Vec::new(), Vec::new()));
            assert_eq!(state.scrubs(), BTreeMap::new());
            state.write_ssd_ledger(&Ledger::default()).unwrap();
            state.write_failures(&BTreeMap::<String, String>::new()).unwrap();
            state.write_host_errors(&[]).unwrap();
            state.write_backings(&[]).unwrap();
            state.write_memory_cache_bytes(None).unwrap();
            state.write_locals(&[]).unwrap();
            state.write_holds(&[]).unwrap();
            state.write_scrubs(BTreeMap::new()).unwrap();
            let aside = directory.path().join(format!("{name}.broken"));
            let told = state.begun_anew().unwrap().join("; ");
            assert!(told.contains(&aside.display().to_string()) && told.contains(what), "{told}");
            assert_eq!(fs::read(&aside).unwrap(), b"{");
            fs::remove_file(&aside).unwrap();
        }
    }

    // proves: F12
    #[test]
    fn a_record_that_cannot_be_set_aside_is_told_and_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let path = directory.path().join(HOST_ERRORS);
        fs::write(&path, "{").unwrap();
        let aside = |number: u32| match number {
            1 => directory.path().join(format!("{HOST_ERRORS}.broken")),
            _ => directory.path().join(format!("{HOST_ERRORS}.broken.{number}")),
        };
        (1..=100).for_each(|number| fs::write(aside(number), "").unwrap());
        assert_eq!(state.host_errors(), []);
        (1..=100).for_each(|number| fs::remove_file(aside(number)).unwrap());
        let told = state.begun_anew().unwrap();
        assert!(told.len() == 1 && told[0].contains(HOST_ERRORS), "{told:?}");
        state.write_host_errors(&[]).unwrap();
        assert_eq!(fs::read(aside(1)).unwrap(), b"{");
        assert!(state.begun_anew().unwrap()[0].contains("host-errors.json.broken"));
    }

    // proves: F12
    #[test]
    fn a_record_that_its_file_system_does_not_give_is_read_by_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let local = LocalRecord { volume: "v".into(), backing: "/dev/x".into(), identifier: "i".into() };
        state.write_locals(std::slice::from_ref(&local)).unwrap();
        let path = directory.path().join(LOCAL_DEVICES);
        let elsewhere = directory.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        // Reading it fails.
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert_eq!(state.locals(), []);
        assert!(state.begun_anew().unwrap()[0].contains(LOCAL_DEVICES));
        drop(state);
        fs::remove_file(&path).expect("it was left alone");
        fs::rename(&elsewhere, &path).unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        assert_eq!((state.locals(), state.begun_anew().unwrap()), (vec![local], Vec::new()));
    }

    #[test]
    fn a_second_daemon_is_refused_and_told_who_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let first = StateDirectory::open(directory.path()).unwrap();
        let message = StateDirectory::open(directory.path()).err().expect("it is locked");
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
        drop(first);
        assert!(StateDirectory::open(directory.path()).is_ok());
    }

    // proves: F11
    #[test]
    fn a_member_that_cannot_be_looked_at_is_not_one_that_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let name = "p".parse().unwrap();
        assert!(!state.has_member(&name).unwrap());
        std::os::unix::fs::symlink(state.member(&name), state.member(&name)).unwrap();
        let error = state.has_member(&name).expect_err("a loop of links").to_string();
        assert!(error.contains("p.member"), "{error}");
    }

    #[test]
    fn a_reset_member_knows_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let name = "p".parse().unwrap();
        state.reset_member(&name).unwrap();
        fs::write(state.member(&name), b"something").unwrap();
        state.reset_member(&name).unwrap();
        let bytes = fs::read(state.member(&name)).unwrap();
        assert_eq!(u64::try_from(bytes.len()).unwrap(), STATE_BYTES);
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
}
