//! What pools and volumes report about themselves: plain values, taken at one moment.

use hotset_block::DeviceErrorKind;

use crate::config::{PolicyKind, PoolKind, PoolName, PoolSettings, VolumeName, VolumeSettings};
use crate::reasons::{NotUsed, PoolReason, SpareReason, SsdReason, VolumeReason};

/// Health of a pool or of a volume's cache, worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    Good,
    Degraded,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    pub name: PoolName,
    pub uuid: u128,
    pub kind: PoolKind,
    pub settings: PoolSettings,
    /// The policy that is followed now; never `auto`.
    pub policy_followed: PolicyKind,
    /// What made `auto` follow it; `None`: it follows what it began with.
    pub policy_switch: Option<PolicySwitch>,
    pub health: Health,
    /// Why it is not Good, or does not do all that it could.
    pub reason: Option<PoolReason>,
    /// Another machine, or another daemon, has its SSDs: it writes and serves nothing any more.
    pub taken_over: bool,
    pub epoch: u64,
    /// Bytes of pages that its online SSDs hold when they are full of clean data. Another only after an SSD came or left, or
    /// a conversion.
    pub capacity_bytes: u64,
    /// What of that clean data has however much is dirty.
    pub capacity_min_bytes: u64,
    /// Bytes of pages that it holds, clean or dirty, each counted once: of all its volumes together.
    pub used_bytes: u64,
    /// The slots that the capacity is made of; those whose place the write log takes now are never in use.
    pub slots: u64,
    pub slots_used: u64,
    /// Of them, those that were filled lately: if the daemon were killed now, the next one would read them again.
    pub slots_unpublished: u64,
    /// Bytes of memory that the pool's tables take.
    pub memory_bytes: u64,
    /// What recovery found, for the administrator.
    pub recovery: String,
    /// Copies of dirty data that are being made anew; `None` if all are there.
    pub rebuild: Option<Rebuild>,
    /// Dirty data and the write log; `None` in a read pool.
    pub write_log: Option<WriteLogStatus>,
    pub scrub: ScrubStatus,
    /// Of the scrub that runs; `None`: none does.
    pub scrub_unfinished: Option<UnfinishedScrub>,
    pub ssd_writes: SsdWritesStatus,
    pub ssds: Vec<SsdStatus>,
    pub spares: Vec<SpareStatus>,
    pub volumes: Vec<VolumeName>,
    /// What of it each of them uses, open or not, in the same order.
    pub uses: Vec<CacheUse>,
}

/// What a volume has in its pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// As in [`VolumeStatus`].
    pub used_bytes: u64,
    pub write_log_bytes: u64,
    pub dirty_bytes: u64,
    pub lost_bytes: u64,
    pub oldest_dirty_seconds: Option<u64>,
}

/// What the pool writes to all its SSDs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SsdWritesStatus {
    /// Bytes within the last 24 hours, by the hour.
    pub day_bytes: u64,
    /// That is all that they may take in a day: nothing more is populated.
    pub populating_stopped: bool,
}

/// How far the copies are that are made anew because an SSD failed or is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuild {
    pub done_bytes: u64,
    /// Copied and still to be copied, about.
    pub total_bytes: u64,
    pub bytes_per_second: u64,
    /// Some of them are lost; else all are whole, on SSDs that are to be removed.
    pub copies_lost: bool,
    /// No SSD has room for the rest: dirty data is flushed instead.
    pub space_insufficient: bool,
}

/// The scrub that runs, or the last one that ended, in this run or before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    pub state: ScrubState,
    /// Bytes read and compared, of about how many: both copies of what lies in the write log count.
    pub checked_bytes: u64,
    pub total_bytes: u64,
    /// Pages that could not be read or were not what was stored, by copy.
    pub bad_pages: u64,
    /// Of them, written again from the other copy.
    pub repaired_pages: u64,
    /// Of them, taken out of the cache; they are read from the backing device again.
    pub dropped_pages: u64,
    /// Dirty pages of which no good copy is left: reads of them fail until they are overwritten.
    pub lost_pages: u64,
    /// How long it took.
    pub seconds: u64,
    /// When it ended; 0 if it has not.
    pub ended_unix_seconds: u64,
}

/// How far a scrub is that has not come to its end: another one of the same pool goes on from there, in a later run too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfinishedScrub {
    /// What it has found in them, and in the write log, which is checked before them.
    pub found: ScrubStatus,
    /// Slots that are checked, from the first one on; 0: the write log is not checked yet.
    pub slots_checked: u32,
    /// The pool's epoch when the scrub began. In another one SSDs have come or gone, and slots have other numbers.
    pub epoch: u64,
}

/// See [`ScrubStatus`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubState {
    /// None is on record.
    #[default]
    Never,
    Running,
    Finished,
    Cancelled,
}

/// How far an SSD is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evacuation {
    pub left_bytes: u64,
    pub total_bytes: u64,
    pub bytes_per_second: u64,
}

/// A spare of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareStatus {
    pub path: String,
    pub uuid: u128,
    pub size_bytes: u64,
    /// It was there when the pool was opened.
    pub present: bool,
    /// Why it cannot take over, if it cannot.
    pub reason: Option<SpareReason>,
}

/// The write log of a read-write pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteLogStatus {
    /// Bytes that hosts may have dirty at once.
    pub dirty_capacity_bytes: u64,
    /// Bytes acknowledged to hosts and not yet on the backing devices.
    pub dirty_bytes: u64,
    /// Bytes of newest pages that lie in the log, dirty or clean, each counted once.
    pub live_bytes: u64,
    /// Bytes of SSDs that log segments take, both copies.
    pub log_bytes: u64,
    pub rows: u64,
    /// New writes go past the cache, because two copies cannot be kept.
    pub write_caching_off: bool,
    /// What the last start read of the log, in bytes and milliseconds.
    pub recovered_bytes: u64,
    pub recovery_milliseconds: u64,
}

/// Why an SSD takes no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It lacks space: its file system is full, its quota is used up, or it is thin and its pool is full.
    NoSpace,
    /// It is write-protected, as an SSD that is worn out may be, or the file system of its image.
    ReadOnly,
    /// It answered a write or a flush with an error.
    Failed,
}

impl Refusal {
    pub(crate) fn of(kind: DeviceErrorKind) -> Self {
        match kind {
            DeviceErrorKind::Full => Self::NoSpace,
            DeviceErrorKind::ReadOnly => Self::ReadOnly,
            DeviceErrorKind::Media
            | DeviceErrorKind::Unsupported
            | DeviceErrorKind::Gone
            | DeviceErrorKind::OutOfRange
            | DeviceErrorKind::Busy => Self::Failed,
        }
    }

    /// What it lacks may be given to it: it is taken back by itself then.
    pub(crate) fn may_pass(self) -> bool {
        match self {
            Self::NoSpace | Self::ReadOnly => true,
            Self::Failed => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdStatus {
    pub path: String,
    pub uuid: u128,
    pub size_bytes: u64,
    pub online: bool,
    /// It was not there when the pool was opened. An SSD that is neither online nor missing was expelled.
    pub missing: bool,
    /// It failed, or did not answer, in this run or before.
    pub failed: bool,
    /// The physical device with which it fails; empty if that is not known.
    pub disk: String,
    /// It does not answer: it is waited for, or the pool goes on without it until it answers.
    pub silent: bool,
    /// It takes no writes, and is out of use but for what only it has, which is read.
    pub refuses: Option<Refusal>,
    /// It gets copies of what has lost one.
    pub rebuilding: bool,
    /// It is being emptied, so that it can be removed.
    pub evacuation: Option<Evacuation>,
    /// Why it is not online, or a warning.
    pub reason: Option<SsdReason>,
    pub slots: u64,
    pub slots_used: u64,
    /// Medium errors and checksum failures that hosts never saw.
    pub read_errors: u64,
    /// A start found that it had lost what it had flushed; on record until it is replaced or removed.
    pub lost_writes: bool,
    pub bytes_written: u64,
    /// Of the pool's own, since it was opened.
    pub io: DeviceIo,
}

impl SsdStatus {
    /// Of one that the pool does not use.
    pub(crate) fn unused(path: &str, uuid: u128, size_bytes: u64, why: NotUsed) -> Self {
        Self {
            path: path.to_owned(),
            uuid,
            size_bytes,
            online: false,
            missing: false,
            failed: false,
            disk: String::new(),
            silent: false,
            refuses: None,
            rebuilding: false,
            evacuation: None,
            reason: Some(SsdReason::NotUsed { why }),
            slots: 0,
            slots_used: 0,
            read_errors: 0,
            lost_writes: false,
            bytes_written: 0,
            io: DeviceIo::default(),
        }
    }

    /// It left the pool though nobody wanted that.
    pub(crate) fn is_missed(&self) -> bool {
        self.missing || self.failed
    }

    /// It was missing because nothing was there with its label, at this start or one before; not because what was there could not be used.
    pub fn was_away(&self) -> bool {
        let is_away = |why: &NotUsed| matches!(why, NotUsed::Missing | NotUsed::MissedBefore { .. });
        self.missing && matches!(&self.reason, Some(SsdReason::NotUsed { why }) if is_away(why))
    }

    /// It failed in a way that does not pass: it is not taken back by itself, in this run or another. What is silent may answer again,
    /// and what is write-protected or lacks space may take writes again.
    pub fn has_failed_for_good(&self) -> bool {
        self.failed && !self.silent && !self.refuses.is_some_and(Refusal::may_pass)
    }
}

/// An SSD that failed in an earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedSsd {
    pub path: String,
    pub uuid: u128,
    /// How it failed.
    pub reason: String,
}

/// Transfers that a device was asked for and that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceIo {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    pub name: VolumeName,
    pub backing: String,
    pub settings: VolumeSettings,
    pub size_bytes: u64,
    /// Bytes at the end of the backing device that hosts do not see, because they are no whole block; what it grew by does not
    /// count.
    pub unserved_bytes: u64,
    pub pool: Option<PoolName>,
    pub health: Health,
    pub reason: Option<VolumeReason>,
    /// Bytes of its pages that its pool holds, clean or dirty, each counted once.
    pub cache_used_bytes: u64,
    /// Of them, what lies in the write log.
    pub write_cache_used_bytes: u64,
    /// Bytes acknowledged to the host and not yet on the backing device, zeroes included: what is at risk.
    pub dirty_bytes: u64,
    /// Of them, what is unavailable: reads of it fail until an SSD that has it is back, it is written again or its loss accepted.
    pub lost_bytes: u64,
    /// How long the oldest of what is dirty has been so, in seconds, counted anew at a start; `None` if nothing is dirty.
    pub oldest_dirty_seconds: Option<u64>,
    /// The cache is being flushed, so that it can be taken away.
    pub draining: bool,
    /// Nothing new stays dirty, because an administrator wants that.
    pub writes_held: bool,
    pub backing_emulated: bool,
    /// Of the backing device, since the volume was opened.
    pub backing_io: DeviceIo,
    pub stats: VolumeStats,
}

/// Why a host was answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorAnswer {
    /// It could not be done.
    Failed,
    /// It made no progress for too long.
    TimedOut,
    /// The request itself was wrong.
    Invalid,
}

macro_rules! stats {
    ($([$(
        $(#[$api:meta])* $name:ident, $metric:literal, $help:literal, history($($kept:tt)*),
            $how:ident($($said:tt)*);
    )*])*) => {
        /// Counters since the volume was opened, as the table in `hotset-counters` names them. Requests count once, whatever their length.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct VolumeStats {
            $($(#[doc = $help] pub $name: u64,)*)*
        }
    };
}
hotset_counters::volume_counters!(stats);

impl VolumeStatus {
    /// Health and reason are its own; else they are those of its pool.
    pub fn has_own_health(&self) -> bool {
        !matches!(self.reason, None | Some(VolumeReason::OfPool(_)))
    }
}

impl VolumeStats {
    /// Hits per read; 0 without reads.
    pub fn hit_ratio(&self) -> f64 {
        if self.reads == 0 { 0.0 } else { ratio(self.read_hits, self.reads) }
    }

    /// Hits in memory per read; 0 without reads.
    pub fn memory_hit_ratio(&self) -> f64 {
        if self.reads == 0 { 0.0 } else { ratio(self.memory_hits, self.reads) }
    }

    /// Reads that were not answered from the cache, by the sum of the reasons.
    pub fn missed(&self) -> u64 {
        self.missed_first_touch
            + self.missed_below_threshold
            + self.missed_evicted
            + self.missed_overwritten
            + self.missed_stream
            + self.missed_no_room
            + self.missed_fetch_rate
            + self.missed_share
            + self.missed_wear_limit
            + self.missed_degraded
            + self.missed_off
    }
}

#[allow(clippy::as_conversions, reason = "a ratio for people: the rounding of u64 to f64 does not matter")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// What a pool would be like, before it is made (`pool create --dry-run`).
#[derive(Clone, Debug, PartialEq)]
pub struct PoolPlan {
    /// Bytes of pages that its SSDs hold when they are full of clean data.
    pub capacity_bytes: u64,
    /// What of that clean data has however much is dirty.
    pub capacity_min_bytes: u64,
    pub slots: u64,
    pub segment_bytes: u64,
    /// Memory for the tables when every slot is in use, and as much is dirty as may be: what `memory` adds up to.
    pub memory_bytes: u64,
    pub memory: MemoryTerms,
    pub policy: PolicyKind,
    /// Per SSD, in order: bytes of cached pages it can hold at most.
    pub ssd_capacity_bytes: Vec<u64>,
    /// Bytes that hosts may have dirty at once; 0 in a read pool.
    pub dirty_capacity_bytes: u64,
}

/// That another policy is followed from now on, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicySwitch {
    /// The first one is 1.
    pub number: u64,
    pub from: PolicyKind,
    pub to: PolicyKind,
    /// Accesses that were watched of late, and what either of them would have missed of those.
    pub accesses: u64,
    pub from_missed: u64,
    pub to_missed: u64,
}

/// So many of one thing, and the bytes of memory for each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryTerm {
    pub count: u64,
    pub bytes_each: f64,
}

/// What the memory of a pool's tables adds up from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryTerms {
    /// What each slot holds, its turn to be evicted, and what is remembered of blocks that are not cached.
    pub slots: MemoryTerm,
    /// Pages of slots: whether each is valid.
    pub slot_pages: MemoryTerm,
    /// Checksums of these pages; none in a pool without.
    pub checksums: MemoryTerm,
    /// Pages that may be dirty at once, wherever they lie; none in a read pool.
    pub dirty_pages: MemoryTerm,
}

impl MemoryTerm {
    /// Rounded up.
    #[allow(
        clippy::as_conversions,
        reason = "an estimate for people: the rounding between u64 and f64 does not matter"
    )]
    pub fn bytes(self) -> u64 {
        (self.count as f64 * self.bytes_each).ceil() as u64
    }
}

impl MemoryTerms {
    /// All of it.
    pub fn bytes(self) -> u64 {
        let Self { slots, slot_pages, checksums, dirty_pages } = self;
        [slots, slot_pages, checksums, dirty_pages].into_iter().map(MemoryTerm::bytes).sum()
    }
}
