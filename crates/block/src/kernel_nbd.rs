//! What sysfs tells of the block devices of the kernel's NBD client, and what can be set there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sysfs;

/// In the unit of sysfs, whatever the device's own sector is.
const SECTOR_BYTES: u64 = 512;

/// A block device of the kernel's NBD client that has a server, or had one and waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelNbdDevice {
    /// Its number among those of this driver.
    pub index: u32,
    /// What whoever configured it calls what is behind it.
    pub backend: String,
    pub size_bytes: u64,
    /// Of the block device.
    pub number: u64,
}

impl KernelNbdDevice {
    /// All that say what is behind them. Blocks briefly.
    pub fn all() -> Vec<Self> {
        let entries = fs::read_dir("/sys/block");
        let directories = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        directories.filter_map(|directory| Self::at(&directory)).collect()
    }

    fn at(directory: &Path) -> Option<Self> {
        let index = directory.file_name()?.to_str()?.strip_prefix("nbd")?.parse().ok()?;
        Some(Self {
            index,
            backend: sysfs::text(&directory.join("backend"))?,
            size_bytes: sysfs::number::<u64>(&directory.join("size"))? * SECTOR_BYTES,
            number: sysfs::number_of(directory)?,
        })
    }

    /// Where programs find it.
    pub fn path(&self) -> PathBuf {
        Path::new("/dev").join(self.name())
    }

    fn name(&self) -> String {
        format!("nbd{}", self.index)
    }

    /// How long a request may be under way until the driver looks whether its connection is still there, and sends it again over the
    /// next one if not.
    ///
    /// # Errors
    /// sysfs cannot be written.
    pub fn look_after_requests_every(&self, interval: Duration) -> io::Result<()> {
        let file = Path::new("/sys/block").join(self.name()).join("queue/io_timeout");
        fs::write(file, interval.as_millis().to_string())
    }

    /// Has the kernel tell udev of the device once more, as of one that is new. It was new when it had no content: what is to be
    /// activated on it, as LVM does it (`69-lvm.rules`), passes over what merely changes.
    ///
    /// # Errors
    /// sysfs cannot be written.
    pub fn announce(&self) -> io::Result<()> {
        fs::write(Path::new("/sys/block").join(self.name()).join("uevent"), "add")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_known_by_what_it_says_is_behind_it() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("nbd3");
        fs::create_dir(&device).unwrap();
        fs::write(device.join("size"), "2048\n").unwrap();
        fs::write(device.join("dev"), "43:48\n").unwrap();
        assert_eq!(KernelNbdDevice::at(&device), None, "it has no server");
        fs::write(device.join("backend"), "hotset:1\n").unwrap();
        let found = KernelNbdDevice::at(&device).unwrap();
        assert_eq!((found.index, found.backend.as_str(), found.size_bytes), (3, "hotset:1", 1 << 20));
        assert_eq!((found.path(), found.number), (PathBuf::from("/dev/nbd3"), libc::makedev(43, 48)));
        let other = root.path().join("sda");
        fs::create_dir(&other).unwrap();
        assert_eq!(KernelNbdDevice::at(&other), None);
    }
}
