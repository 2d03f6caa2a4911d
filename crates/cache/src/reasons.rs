//! Why pools, SSDs and volumes are as they are: facts. What people are told of them is said elsewhere.

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
        why: String,
    },
    /// It takes no writes. What no other one has is read from it; it may be taken back by itself.
    TakesNoWrites {
        why: String,
        only_here_bytes: u64,
        may_pass: bool,
    },
    OutOfUse {
        why: String,
    },
    /// It was not taken into use when the pool was opened, or is on record as one that failed before.
    NotUsed {
        why: String,
    },
    /// It is in use.
    Doubt(SsdDoubt),
}

impl SsdReason {
    /// Of one that is not used; `None` if there is nothing to say.
    pub(crate) fn not_used(why: String) -> Option<Self> {
        (!why.is_empty()).then_some(Self::NotUsed { why })
    }

    /// What was said of one that is not used.
    pub(crate) fn why_not_used(&self) -> Option<&str> {
        match self {
            Self::NotUsed { why } => Some(why),
            Self::NotAnswering { .. }
            | Self::WithoutIt { .. }
            | Self::TakesNoWrites { .. }
            | Self::OutOfUse { .. }
            | Self::Doubt(_) => None,
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
    BackingStopped { why: String },
    /// It serves nothing.
    Fenced { why: String },
    /// Some of what hosts wrote is unavailable.
    Lost { bytes: u64, why: String },
    /// What is dirty cannot be written to the backing device.
    NotCleaned { why: String },
    /// The backing device has answered nothing of a kind for so long.
    BackingSilent { device: String, what: &'static str, seconds: u64 },
}
