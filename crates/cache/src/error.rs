//! The engine's errors: a small kind, by which the caller decides, and a message for people.

use std::fmt;

use hotset_block::{DeviceError, DeviceErrorKind};

use crate::config::PoolName;
use crate::format::{Unreadable, Unusable};

/// What the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A name, a setting or a request that can never work.
    Invalid,
    /// The request reaches past the end of the volume, or is not aligned to its logical block.
    OutOfRange,
    /// The volume or its backing device is read-only.
    ReadOnly,
    /// The bytes cannot be read or written.
    Media,
    /// A device is gone or not trusted any more.
    Gone,
    /// SSDs of a pool are not there; it may go on without them.
    Missing,
    /// No room on the backing device.
    Full,
    /// The device cannot do this (or not fast enough, where the client asked for that).
    Unsupported,
    /// It exists already, is in use, or something has to be done first.
    Refused,
    /// No such pool, volume or SSD.
    NotFound,
    /// Bytes on an SSD that break the format.
    Corrupt,
    /// Bytes on an SSD, or in the state directory, of this later version of the format. Nothing was changed.
    NewerFormat(u32),
    /// Bytes on an SSD, or in the state directory, of a stream of the pool other than the first: a later Hotset has split the pool.
    /// Nothing was changed.
    OtherStream,
    /// Another machine uses the pool, or may come back to it.
    OtherMachine,
    /// The volume or pool is being stopped.
    Stopping,
}

impl ErrorKind {
    /// What is there is good, and only a later Hotset can tell what it is.
    pub(crate) fn needs_later_hotset(self) -> bool {
        matches!(self, Self::NewerFormat(_) | Self::OtherStream)
    }
}

/// What an administrator can do about it by a verb; how that is spelt is the business of whoever offers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Do it all the same.
    Force,
    /// Accept that data of which no copy is left is lost.
    AcceptLoss(PoolName),
    /// Go on without the SSDs that are missing, and without what only they have.
    GoOnWithoutMissing,
    /// Read what can be read from the SSDs alone, and write it to the backing devices.
    RecoverByHand,
    /// Convert the pool in place.
    Convert(PoolName),
}

/// A failure: what failed, on what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    /// Apart, for every answer has room for an error, and hardly any is one.
    told: Box<Told>,
}

/// What people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    message: String,
    remedy: Option<Remedy>,
}

const _: () = assert!(size_of::<Result<(), Error>>() <= 16);

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, told: Box::new(Told { message: message.into(), remedy: None }) }
    }

    /// The same, with what can be done about it.
    #[must_use]
    pub(crate) fn with_remedy(mut self, remedy: Remedy) -> Self {
        self.told.remedy = Some(remedy);
        self
    }

    /// What can be done about it besides what the message advises.
    pub fn remedy(&self) -> Option<&Remedy> {
        self.told.remedy.as_ref()
    }

    /// What is wrong with bytes on `what`.
    pub(crate) fn unusable(what: &str, unusable: &Unusable) -> Self {
        let kind = match unusable {
            Unusable::Corrupt(_) => ErrorKind::Corrupt,
            Unusable::Newer(newer) => ErrorKind::NewerFormat(newer.version),
        };
        Self::new(kind, format!("{what}: {unusable}"))
    }

    /// What is wrong with bytes on `what` that belong to a stream of the pool.
    pub(crate) fn unreadable(what: &str, unreadable: &Unreadable) -> Self {
        let kind = match unreadable {
            Unreadable::Corrupt(_) => ErrorKind::Corrupt,
            Unreadable::OtherStream(_) => ErrorKind::OtherStream,
        };
        Self::new(kind, format!("{what}: {unreadable}"))
    }

    /// A device's error, with the device's name.
    pub fn device(what: &str, error: &DeviceError) -> Self {
        let kind = match error.kind {
            DeviceErrorKind::Media => ErrorKind::Media,
            DeviceErrorKind::Gone => ErrorKind::Gone,
            DeviceErrorKind::Full => ErrorKind::Full,
            DeviceErrorKind::ReadOnly => ErrorKind::ReadOnly,
            DeviceErrorKind::Unsupported => ErrorKind::Unsupported,
            DeviceErrorKind::OutOfRange => ErrorKind::OutOfRange,
            DeviceErrorKind::Busy => ErrorKind::Refused,
        };
        Self::new(kind, format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told.message)
    }
}

impl std::error::Error for Error {}
