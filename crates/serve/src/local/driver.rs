//! The drivers by which a volume becomes a block device of this machine. Everything here blocks, for as long as the kernel takes.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hotset_block::{KernelNbdDevice, UblkDisk};

use super::{kernel_nbd, ublk};

/// How long requests wait for the next daemon, until programs get errors: those of a driver that does not wait for ever.
pub const WAIT: Duration = Duration::from_secs(600);

/// A kernel driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalDriver {
    /// Requests come as commands of io_uring.
    Ublk,
    /// The kernel's own NBD client, configured by netlink.
    KernelNbd,
}

/// A block device that a driver has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalDevice {
    pub driver: LocalDriver,
    /// Where programs find it.
    pub path: PathBuf,
    pub size_bytes: u64,
    /// Of the block device, as of `stat`.
    pub number: u64,
}

/// What a driver cannot do.
#[derive(Debug)]
pub enum DriverError {
    /// The kernel has no such driver, or its module is not loaded.
    Missing,
    /// It is there, and refused.
    Refused(io::Error),
    /// It cannot change the size of a device.
    FixedSize,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("this kernel has no driver for local devices (module ublk_drv or nbd)"),
            Self::Refused(error) => write!(f, "the kernel's driver refuses it: {error}"),
            Self::FixedSize => f.write_str("this kernel's ublk cannot change the size of a device that is in use"),
        }
    }
}

impl From<io::Error> for DriverError {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

impl LocalDriver {
    /// The one that makes new devices here. Blocks, briefly.
    pub fn for_new_devices() -> Self {
        if ublk::is_there() { Self::Ublk } else { Self::KernelNbd }
    }

    /// Whether new devices can be made here, as far as that is seen without making one. Blocks, briefly.
    ///
    /// # Errors
    /// The kernel has no driver for them.
    pub fn check_is_there() -> Result<(), DriverError> {
        match Self::for_new_devices() {
            Self::Ublk => Ok(()),
            Self::KernelNbd => kernel_nbd::check_is_there(),
        }
    }

    /// What administrators know it by.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ublk => "ublk",
            Self::KernelNbd => "nbd",
        }
    }

    /// Tells the driver how large the volume is now.
    ///
    /// # Errors
    /// See [`DriverError`]; there is no such device.
    pub fn resize(self, identifier: &str, size_bytes: u64, block_bytes: u32) -> Result<(), DriverError> {
        match self {
            Self::Ublk => ublk::resize(identifier, size_bytes),
            Self::KernelNbd => kernel_nbd::resize(identifier, size_bytes, block_bytes),
        }
    }
}

impl LocalDevice {
    /// The device that is known by `identifier`, whoever made it, if there is one: with a daemon behind it, or waiting for one.
    /// Blocks, briefly.
    ///
    /// # Errors
    /// A driver does not say.
    pub fn find(identifier: &str) -> Result<Option<Self>, DriverError> {
        let found = ublk::find(identifier)?.map(Self::from);
        Ok(found.or_else(|| kernel_nbd::find(identifier).map(Self::from)))
    }

    /// Ends the device that is known by `identifier`, if there is one; who still uses it gets errors.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub fn end(identifier: &str) -> Result<(), DriverError> {
        match ublk::detach(identifier) {
            Ok(()) | Err(DriverError::Missing) => kernel_nbd::detach(identifier),
            Err(DriverError::Refused(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                kernel_nbd::detach(identifier)
            }
            refused => refused,
        }
    }
}

impl From<KernelNbdDevice> for LocalDevice {
    fn from(found: KernelNbdDevice) -> Self {
        let (path, KernelNbdDevice { size_bytes, number, .. }) = (found.path(), found);
        Self { driver: LocalDriver::KernelNbd, path, size_bytes, number }
    }
}

impl From<UblkDisk> for LocalDevice {
    fn from(found: UblkDisk) -> Self {
        let (path, UblkDisk { size_bytes, number, .. }) = (found.path(), found);
        Self { driver: LocalDriver::Ublk, path, size_bytes, number }
    }
}
