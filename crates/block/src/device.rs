//! The `Device` seam: what the cache may ask of an SSD or of a backing device.

use std::fmt;

use crate::{Buf, ByteRange};

/// Something that stores bytes. A transfer is whole or an error. A write is durable after a later successful
/// `flush`; before it, a crash may keep, lose or tear it, sector by sector, in any order.
///
/// The operation owns its buffer until the device is done with it, **also when its future is dropped**: dropping a
/// future abandons the answer, never the transfer. Offsets and lengths are multiples of
/// [`DeviceInfo::logical_block_bytes`]; what reaches the end of a device whose size is no such multiple ends there.
pub trait Device {
    fn info(&self) -> DeviceInfo;

    /// Looks whether the device has grown since it was opened or asked this last: from then on [`Device::info`] says so, and
    /// what was added can be used. Answers the size in bytes. May block briefly. Most devices never grow. Of a file that
    /// another program or machine keeps, what this machine knows of it counts.
    ///
    /// # Errors
    /// The device does not say its size any more.
    fn grow(&self) -> Result<u64, DeviceError> {
        Ok(self.info().size_bytes)
    }

    /// The size that the device says it has, as far as that is known. What of it is no whole block may not be usable.
    fn end_bytes(&self) -> u64 {
        self.info().size_bytes
    }

    /// What tells this device from another, and whether it was written to behind our back, as it was when it was opened: it is not
    /// asked again.
    fn identity(&self) -> Result<DeviceIdentity, DeviceError>;

    /// The same as it is now. Where there is no answer, as of a disk that hangs, only who asks waits.
    fn identity_now(&self) -> impl Future<Output = Result<DeviceIdentity, DeviceError>> {
        std::future::ready(self.identity())
    }

    /// Of a device that is only read because it took no writes when it was opened: it is written from now on, if it takes them.
    ///
    /// # Errors
    /// `ReadOnly` if it takes none.
    fn begin_to_write(&self) -> impl Future<Output = Result<(), DeviceError>> {
        let refusal = DeviceError::new(DeviceErrorKind::ReadOnly, Operation::Open, ByteRange::at(0, 0));
        std::future::ready(if self.info().read_only { Err(refusal) } else { Ok(()) })
    }

    /// Fills `buf` from the bytes at `offset`.
    fn read(&self, offset: u64, buf: Buf) -> impl Future<Output = (Buf, Result<(), DeviceError>)>;

    /// Stores `buf` at `offset`.
    fn write(&self, offset: u64, buf: Buf) -> impl Future<Output = (Buf, Result<(), DeviceError>)>;

    /// Stores `buf` at `offset`; it is durable when that is answered. Writes before it may still need a flush.
    fn write_durable(&self, offset: u64, buf: Buf) -> impl Future<Output = (Buf, Result<(), DeviceError>)> {
        async move {
            match self.write(offset, buf).await {
                (buf, Ok(())) => (buf, self.flush().await),
                failed => failed,
            }
        }
    }

    /// Makes every write durable that had completed when `flush` was called.
    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>>;

    /// Gives the range back to the device. What is read there afterwards is what [`DeviceInfo::discard`] says.
    fn discard(&self, range: ByteRange) -> impl Future<Output = Result<(), DeviceError>>;

    /// Makes the range read as zeroes. `Unsupported` means: write zeroes yourself.
    fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> impl Future<Output = Result<(), DeviceError>>;

    /// Which parts of `range` hold data, in order, at most `extents_max` of them; they may end before the range does. The answer is
    /// that of some moment between the call and its end. Where there is none, as of a disk that hangs, only who asks waits.
    fn allocation(
        &self,
        range: ByteRange,
        extents_max: usize,
    ) -> impl Future<Output = Result<Vec<Extent>, DeviceError>>;
}

/// What a device is like. Fixed while it is open, but for the size, which [`Device::grow`] changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// A multiple of 512. Of a file that is served to its end it may be no multiple of [`DeviceInfo::logical_block_bytes`].
    pub size_bytes: u64,
    /// The smallest unit of a transfer: 512 or 4096.
    pub logical_block_bytes: u32,
    /// The transfer that the device likes best, for instance a RAID stripe; 0 if it does not say.
    pub optimal_io_bytes: u32,
    /// A write may be lost in a power cut until a flush.
    pub volatile_cache: bool,
    pub discard: Discard,
    pub read_only: bool,
    /// The device is a model of one (the emulated HDD array): whoever reports on it says so.
    pub emulated: bool,
}

/// What a discarded range reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// `discard` fails.
    Unsupported,
    /// Anything.
    Undefined,
    /// Zeroes.
    Zeroes,
}

/// How zeroes may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroMode {
    /// As a hole, if the device has such a thing.
    MayPunch,
    /// As allocated space that reads as zeroes (NBD's `NO_HOLE`).
    KeepAllocated,
}

/// A device's own marks. Compared at every start; see the identity rules in `docs/ARCHITECTURE.md`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeviceIdentity {
    /// World-wide name, by-id name, or file system and inode: stable over restarts, different for another device.
    pub id: String,
    /// The physical device under it (disk wwid or name); two SSDs with the same one fail together. Empty if unknown.
    pub parent: String,
    /// Rises with every write: mtime in nanoseconds of a file, sectors written of a block device. `None` if unknown.
    pub change_mark: Option<u64>,
    /// The boot in which `change_mark` was read; marks of different boots cannot be compared (those of block devices).
    pub boot: u128,
}

/// A stretch of a device, for block status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub length: u64,
    pub kind: ExtentKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    Data,
    /// Not allocated; reads as zeroes.
    Hole,
    /// Allocated; reads as zeroes.
    Zero,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Open,
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
    Allocation,
    Identity,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
            Self::Allocation => "allocation query",
            Self::Identity => "identity query",
        })
    }
}

/// What the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceErrorKind {
    /// These bytes cannot be transferred.
    Media,
    /// The device is not there any more, or nothing it says can be trusted.
    Gone,
    /// The device has no room (a file system that is full).
    Full,
    ReadOnly,
    /// The device does not know this operation.
    Unsupported,
    /// The request does not fit the device: our bug, or a device that shrank.
    OutOfRange,
    /// Somebody else holds it.
    Busy,
}

/// A failed operation: what failed, where, and the system's own number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceError {
    pub kind: DeviceErrorKind,
    pub operation: Operation,
    pub range: ByteRange,
    /// The errno, where the kernel gave one.
    pub errno: Option<i32>,
}

impl DeviceError {
    pub fn new(kind: DeviceErrorKind, operation: Operation, range: ByteRange) -> Self {
        Self { kind, operation, range, errno: None }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.kind {
            DeviceErrorKind::Media => "I/O error",
            DeviceErrorKind::Gone => "the device is gone",
            DeviceErrorKind::Full => "no space left on the device",
            DeviceErrorKind::ReadOnly => "the device is read-only",
            DeviceErrorKind::Unsupported => "not supported by the device",
            DeviceErrorKind::OutOfRange => "outside the device",
            DeviceErrorKind::Busy => "the device is in use",
        };
        write!(f, "{} of {} bytes at {}: {why}", self.operation, self.range.length(), self.range.start)?;
        self.errno.map_or(Ok(()), |errno| write!(f, " ({})", std::io::Error::from_raw_os_error(errno)))
    }
}

impl std::error::Error for DeviceError {}
