//! Why pools, SSDs and volumes are as they are: facts. What people are told of them is said elsewhere, but for what errors say, too.

use std::fmt;

use hotset_block::DeviceError;

use crate::config::{PoolName, limits};
use crate::date::date_and_time;
use crate::error::Error;

/// Why a pool is not good, or does not do all that it could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolReason {
    /// What it had to put on record could not be: it writes nothing any more.
    Fenced(Error),
    /// SSDs do not answer, and have what no other one has.
    Silent {
        paths: Vec<String>,
    },
    /// No SSD takes writes; what is dirty is read from them.
    NoneTakesWrites,
    NoSsd,
    /// So many SSDs of a read pool are out of use.
    FewerSsds {
        gone: usize,
    },
    /// A read-write pool has one SSD only.
    OneSsd,
    /// There is no room for a second copy of all that is dirty.
    NoRoomForCopies,
    /// Copies of dirty data that were lost are made anew.
    CopiesAreMade {
        done_bytes: u64,
        total_bytes: u64,
    },
    /// These SSDs of a read-write pool are out of use, and the others have two copies of everything.
    Missed {
        paths: Vec<String>,
    },
    /// Something is wrong with SSDs in use, with these paths.
    Doubts(Vec<(String, SsdDoubt)>),
    /// The state directory did not take its newest records.
    StateIsBehind,
    /// Nothing is wrong: its SSDs have taken what they may in a day.
    WornForToday {
        day_bytes: u64,
        limit_bytes: u64,
    },
}

/// Why an SSD is not simply in use, or what is wrong with one that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SsdReason {
    /// It has not answered for so long, and is waited for.
    NotAnswering {
        seconds: u64,
    },
    /// It did not answer: the pool goes on without it until it does.
    WithoutIt {
        why: OutOfUse,
    },
    /// It takes no writes. What no other one has is read from it; it may be taken back by itself.
    TakesNoWrites {
        why: OutOfUse,
        only_here_bytes: u64,
        may_pass: bool,
    },
    OutOfUse {
        why: OutOfUse,
    },
    /// It was not taken into use when the pool was opened, or is on record as one that failed before.
    NotUsed {
        why: NotUsed,
    },
    /// It is in use.
    Doubt(SsdDoubt),
}

/// What took an SSD out of use in this run. Its words are here, for they go on record on the other SSDs, and errors say them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutOfUse {
    /// It failed what was asked of it, or refused it.
    Failed(DeviceError),
    /// So many of its reads failed or brought wrong bytes.
    Misread {
        reads: u64,
    },
    DidNotAnswer {
        seconds: u64,
    },
    /// It took no writes before.
    RefusedThenSilent {
        seconds: u64,
    },
    /// The pool stopped meanwhile.
    SilentAtStop {
        seconds: u64,
    },
    Removed,
    /// It came back, and is used by another name.
    CameBack,
    /// Somebody else has the pool.
    TakenOver(VolumeFence),
    PoolStopped,
}

impl fmt::Display for OutOfUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "{error}"),
            Self::Misread { reads } => write!(f, "{reads} of its reads failed or brought wrong bytes"),
            Self::DidNotAnswer { seconds } => write!(f, "it did not answer for {seconds} s"),
            Self::RefusedThenSilent { seconds } => {
                write!(f, "it took no writes, and then did not answer for {seconds} s")
            }
            Self::SilentAtStop { seconds } => {
                write!(f, "it did not answer for {seconds} s when the pool stopped, and was not left clean")
            }
            Self::Removed => f.write_str("it was removed"),
            Self::CameBack => f.write_str("it came back, and is used anew"),
            Self::TakenOver(fence) => write!(f, "{fence}"),
            Self::PoolStopped => f.write_str("the pool has stopped"),
        }
    }
}

/// Why an SSD was not taken into use when the pool was opened. Its words are here, for they go on record on the SSDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotUsed {
    /// Nothing with its label was there.
    Missing,
    /// Its device is there, and could not be used.
    LeftOut(Error),
    /// It left before, and is back while there is dirty data.
    LeftEarlier,
    /// It left before, and is back where it has no place any more.
    NoRoom { limit: PoolLimit },
    /// Its label says that it is a spare, and the pool knows of no such one.
    UnknownSpare,
    /// It failed in an earlier run, of which this is on record.
    FailedBefore { how: String },
    /// It was missing in an earlier run, or did not answer, of which this is on record.
    MissedBefore { how: String },
}

impl NotUsed {
    /// What goes on record of it: that, of one that is on record already.
    pub(crate) fn on_record(&self) -> String {
        match self {
            Self::FailedBefore { how } | Self::MissedBefore { how } => how.clone(),
            Self::Missing | Self::LeftOut(_) | Self::LeftEarlier | Self::NoRoom { .. } | Self::UnknownSpare => {
                self.to_string()
            }
        }
    }
}

impl fmt::Display for NotUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing at the start: it left the pool"),
            Self::LeftOut(error) => write!(f, "{error}: it left the pool"),
            Self::LeftEarlier => f.write_str(
                "it left the pool earlier: what it holds is not believed, and not touched while there is dirty data",
            ),
            Self::NoRoom { limit } => write!(f, "it left the pool earlier, and does not join it again: {limit}"),
            Self::UnknownSpare => {
                f.write_str("it is marked as a spare of the pool, which does not know it: add it again")
            }
            Self::FailedBefore { how } => write!(
                f,
                "it failed before ({how}): what it holds is not believed, and it is not used unless it is added again"
            ),
            Self::MissedBefore { how } => {
                write!(f, "{how}; what it holds is not believed before it is taken back, by itself, when it is there")
            }
        }
    }
}

/// What a pool has no more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolLimit {
    Ssds,
    /// Of all SSDs together.
    Slots,
    /// The catalogue is longer than the area for it on this SSD.
    Catalogue,
}

impl fmt::Display for PoolLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssds => write!(f, "a pool has at most {} SSDs", limits::SSDS_MAX),
            Self::Slots => f.write_str("its cache blocks would be more than a pool can hold: use larger blocks"),
            Self::Catalogue => f.write_str("its catalogue has no room on so small an SSD"),
        }
    }
}

/// What is wrong with an SSD although it is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SsdDoubt {
    /// It lost what it had said was flushed.
    LostWrites,
    /// So many of its reads failed or brought wrong bytes.
    Misread { reads: u64 },
    /// It failed before, as is on record, and is used again.
    FailedBefore { how: String },
}

/// Why a volume, or its cache, is not good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeReason {
    /// Its pool is not.
    OfPool(PoolReason),
    /// Nothing is written to its backing device any more, which refused something, is opened again, or is another one.
    BackingStopped(BackingStop),
    /// It serves nothing.
    Fenced(VolumeFence),
    /// Some of what hosts wrote is unavailable.
    Lost { bytes: u64, why: NoCopy },
    /// What is dirty cannot be written to the backing device.
    NotCleaned(Error),
    /// The backing device has answered nothing of a kind for so long.
    BackingSilent { device: String, what: &'static str, seconds: u64 },
}

/// Why a volume serves nothing. Its words are here, for hosts' requests fail with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeFence {
    /// It has dirty data, and its backing device is not as it was when that was written.
    OtherBacking { dirty_bytes: u64, difference: String },
    /// It lost dirty data, and nobody knows what.
    UnknownLoss,
    /// Somebody else has its pool, as one of the SSDs says.
    OtherMachine { pool: PoolName, by: String, since_unix_seconds: u64, ssd: String },
    /// It left its pool while its backing device did not answer, which may still take what it was sent before.
    LeftBehind { backing: String },
}

impl fmt::Display for VolumeFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherBacking { dirty_bytes, difference } => write!(
                f,
                "{dirty_bytes} bytes of dirty data belong to another backing device or another state of it ({difference}): \
                 the volume serves nothing and nothing is lost. Put the right device back and restart; or, if this is the right \
                 one, accept it; or discard the dirty data"
            ),
            Self::UnknownLoss => f.write_str(
                "SSDs were lost with dirty data of this volume, and the record of what it was is gone from the state \
                 directory: any of it may be older than what hosts wrote last, so the volume serves nothing. Bring back the \
                 state directory as it was and restart, or accept the loss, which goes on with what is left",
            ),
            Self::OtherMachine { pool, by, since_unix_seconds, ssd } => write!(
                f,
                "pool {pool}: another machine, or another daemon, took it over: {by}, at {} by the clock there, as SSD {ssd} \
                 says; nothing is written here any more; see to it that one machine uses the pool, then restart Hotset here if \
                 it is to be this one",
                date_and_time(*since_unix_seconds)
            ),
            Self::LeftBehind { backing } => write!(
                f,
                "its cache was discarded while backing device {backing} did not answer: it serves nothing until what was sent \
                 there before has ended"
            ),
        }
    }
}

/// Why nothing is written to a backing device any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackingStop {
    /// A flush of it failed.
    FlushFailed(Error),
    /// It is being closed and opened again.
    Reopening { backing: String },
    /// As that, by another thread.
    Moving { backing: String },
    /// It was closed, and is to be opened again.
    Closed { backing: String },
    /// It could not be opened again.
    NotReopened(Error),
}

impl fmt::Display for BackingStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FlushFailed(error) => {
                write!(f, "{error}; after a failed flush nothing more is written to it until it is cleared")
            }
            Self::Reopening { backing } => write!(f, "backing device {backing} is being opened again"),
            Self::Moving { backing } => write!(f, "backing device {backing} is being opened on another thread"),
            Self::Closed { backing } => write!(f, "backing device {backing} was closed, and is to be opened again"),
            Self::NotReopened(error) => write!(f, "{error}"),
        }
    }
}

/// Why no copy of dirty data can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCopy {
    Unreadable,
    /// Those that have it are away: their paths, or else their identities.
    Away {
        ssds: Vec<String>,
    },
}

impl fmt::Display for NoCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("no copy of it can be read"),
            Self::Away { ssds } => {
                write!(f, "its only copies are on SSD {}, which is away: bring it back as it was", ssds.join(" or "))
            }
        }
    }
}

/// Why a spare cannot take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpareReason {
    /// It was not there when the pool was opened.
    Missing,
    /// It was to take over, and that failed.
    CouldNotJoin(Error),
}

/// Why nothing on any SSD is believed at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllCold {
    /// The state directory is of an older time than the SSDs.
    StateIsBehind,
    /// Too few members are there and can be read to know what is the newest.
    FewMembers { present: usize, all: usize },
    /// The write log that had what superseded it is lost.
    SupersedingLost,
    /// A member knows how far the others had come, and that cannot be read.
    WitnessUnread,
}

impl fmt::Display for AllCold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StateIsBehind => f.write_str("the state directory does not know the pool's newest state"),
            Self::FewMembers { present, all } => write!(f, "only {present} of {all} members are there and can be read"),
            Self::SupersedingLost => f.write_str("what superseded some of its content was lost with the write log"),
            Self::WitnessUnread => {
                f.write_str("the record of how far its flushes had come cannot be read on another member")
            }
        }
    }
}
