//! The drivers by which a volume becomes a block device of this machine. Everything here blocks, for as long as the kernel takes.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use hotset_block::KernelNbdDevice;

use super::kernel_nbd;
use crate::exports::ExportInfo;

/// How long requests wait for the next daemon, until programs get errors.
pub const WAIT: Duration = Duration::from_secs(600);

/// A kernel driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalDriver {
    /// The kernel's own NBD client, configured by netlink.
    KernelNbd,
}

/// A block device that a driver has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalDevice {
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
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("this kernel has no driver for local devices (module nbd)"),
            Self::Refused(error) => write!(f, "the kernel's NBD client refuses it: {error}"),
        }
    }
}

impl From<io::Error> for DriverError {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

impl LocalDriver {
    /// What administrators know it by.
    pub fn word(self) -> &'static str {
        match self {
            Self::KernelNbd => "nbd",
        }
    }

    /// The device that is known by `identifier`, if there is one: with a daemon behind it, or waiting for one.
    pub fn find(self, identifier: &str) -> Option<LocalDevice> {
        match self {
            Self::KernelNbd => kernel_nbd::find(identifier).as_ref().map(device),
        }
    }

    /// Gives the driver one end of a connection whose other end serves `export`: to the device that is known by `identifier`, which
    /// is made if there is none.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub fn attach(self, identifier: &str, export: &ExportInfo, end: UnixStream) -> Result<LocalDevice, DriverError> {
        match self {
            Self::KernelNbd => kernel_nbd::attach(identifier, export, &end).map(|found| device(&found)),
        }
    }

    /// Tells the driver how large the volume is now.
    ///
    /// # Errors
    /// See [`DriverError`]; there is no such device.
    pub fn resize(self, identifier: &str, size_bytes: u64, block_bytes: u32) -> Result<(), DriverError> {
        match self {
            Self::KernelNbd => kernel_nbd::resize(identifier, size_bytes, block_bytes),
        }
    }

    /// Ends the device that is known by `identifier`, if there is one; who still uses it gets errors.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub fn detach(self, identifier: &str) -> Result<(), DriverError> {
        match self {
            Self::KernelNbd => kernel_nbd::detach(identifier),
        }
    }
}

fn device(found: &KernelNbdDevice) -> LocalDevice {
    LocalDevice { path: found.path(), size_bytes: found.size_bytes, number: found.number }
}
