//! What `/sys` and `/proc` tell about block devices: identity, parents, queue limits.

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::{DeviceIdentity, sys};

/// Devices stacked on one another that are followed down to a disk (LVM on md on …).
const STACK_MAX: usize = 8;

/// Where a block device's sysfs `stat` counts the sectors written: the seventh number (Documentation/block/stat.rst).
const STAT_SECTORS_WRITTEN: usize = 6;

/// Limits of a block device's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) optimal_io_bytes: u32,
    pub(crate) volatile_cache: bool,
    /// It can write zeroes without being sent them.
    pub(crate) zeroes_by_itself: bool,
}

pub(crate) fn queue(device: u64) -> Queue {
    let queue = sysfs_directory(device).map(|directory| disk_of(&directory).join("queue")).unwrap_or_default();
    Queue {
        optimal_io_bytes: number(&queue.join("optimal_io_size")).unwrap_or(0),
        // A device that does not say is not trusted to keep what it was not told to flush.
        volatile_cache: text(&queue.join("write_cache")).is_none_or(|kind| kind == "write back"),
        zeroes_by_itself: number::<u64>(&queue.join("write_zeroes_max_bytes")).is_some_and(|bytes| bytes > 0),
    }
}

/// What tells the file or block device at `path` from others. Takes no lock, so that it can be asked of a device in use.
/// Blocks briefly.
///
/// # Errors
/// Those of opening it for reading.
pub fn identify(path: &Path) -> io::Result<DeviceIdentity> {
    identity(&OwnedFd::from(fs::File::open(path)?), path)
}

/// What tells the open file or block device from others; see [`DeviceIdentity`].
pub(crate) fn identity(file: &OwnedFd, path: &Path) -> io::Result<DeviceIdentity> {
    let metadata = fs::File::from(file.try_clone()?).metadata()?;
    let boot = boot_id()?;
    if metadata.file_type().is_block_device() {
        Ok(block_device_identity(&metadata, path, boot))
    } else {
        file_identity(file, &metadata, boot)
    }
}

fn file_identity(file: &OwnedFd, metadata: &Metadata, boot: u128) -> io::Result<DeviceIdentity> {
    let mut id = format!("file:{:016x}:{}", sys::file_system_id(file)?, metadata.ino());
    // An inode number can come back for another file; its generation cannot. Not every file system has one.
    if let Ok(generation) = sys::file_generation(file) {
        id.push_str(&format!(":{generation:08x}"));
    }
    let parent = sysfs_directory(metadata.dev()).map(|directory| name_of_disk(&bottom_of(directory)));
    let nanoseconds = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    let change_mark = u64::try_from(nanoseconds).ok();
    Ok(DeviceIdentity { id, parent: parent.unwrap_or_default(), change_mark, boot })
}

fn block_device_identity(metadata: &Metadata, path: &Path, boot: u128) -> DeviceIdentity {
    let Some(directory) = sysfs_directory(metadata.rdev()) else {
        return DeviceIdentity {
            id: format!("path:{}", path.display()),
            parent: String::new(),
            change_mark: None,
            boot,
        };
    };
    let mut id = name_of_disk(&disk_of(&directory));
    if let Some(partition) = text(&directory.join("partition")) {
        id.push_str(&format!("-part{partition}"));
    }
    let change_mark = text(&directory.join("stat"))
        .and_then(|stat| stat.split_ascii_whitespace().nth(STAT_SECTORS_WRITTEN).and_then(|word| word.parse().ok()));
    DeviceIdentity { id, parent: name_of_disk(&bottom_of(directory)), change_mark, boot }
}

/// The directory of a block device in sysfs. Anonymous devices (btrfs, network file systems) have none.
fn sysfs_directory(device: u64) -> Option<PathBuf> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

/// The whole disk of a partition; the device itself if it is no partition.
fn disk_of(directory: &Path) -> PathBuf {
    match directory.parent() {
        Some(parent) if directory.join("partition").exists() => parent.to_owned(),
        Some(_) | None => directory.to_owned(),
    }
}

/// The disk at the bottom of a stack in which each device has one device under it.
fn bottom_of(directory: PathBuf) -> PathBuf {
    let mut device = disk_of(&directory);
    for _ in 0..STACK_MAX {
        let below: Vec<PathBuf> = fs::read_dir(device.join("slaves"))
            .map(|entries| entries.flatten().filter_map(|entry| fs::canonicalize(entry.path()).ok()).collect())
            .unwrap_or_default();
        match below.as_slice() {
            [only] => device = disk_of(only),
            [] | [_, _, ..] => break,
        }
    }
    device
}

/// The most durable name that a disk has: its world-wide id, a serial number, the id of what it is made of; at last
/// its name, which holds only until the next start.
fn name_of_disk(directory: &Path) -> String {
    let marks = [
        ("wwid", "wwid"),
        ("device/wwid", "wwid"),
        ("dm/uuid", "dm"),
        ("md/uuid", "md"),
        ("serial", "serial"),
        ("device/serial", "serial"),
        ("loop/backing_file", "loop"),
    ];
    let mark = marks.iter().find_map(|(file, kind)| text(&directory.join(file)).map(|value| format!("{kind}:{value}")));
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    mark.unwrap_or_else(|| format!("name:{name}"))
}

fn boot_id() -> io::Result<u128> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.trim().chars().filter(|character| *character != '-').collect();
    u128::from_str_radix(&digits, 16).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A file's text without the spaces around it; `None` if it is empty or cannot be read.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up `/sys`: a disk with a partition, and a volume on top of it.
    fn stack() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let partition = root.path().join("sda/sda1");
        fs::create_dir_all(&partition).unwrap();
        fs::write(partition.join("partition"), "1\n").unwrap();
        fs::create_dir_all(root.path().join("sda/device")).unwrap();
        fs::write(root.path().join("sda/device/wwid"), "naa.5000\n").unwrap();
        let slaves = root.path().join("dm-0/slaves");
        fs::create_dir_all(&slaves).unwrap();
        std::os::unix::fs::symlink(&partition, slaves.join("sda1")).unwrap();
        root
    }

    #[test]
    fn a_volume_on_one_disk_has_that_disk_as_its_parent() {
        let root = stack();
        assert_eq!(name_of_disk(&bottom_of(root.path().join("dm-0"))), "wwid:naa.5000");
        assert_eq!(name_of_disk(&disk_of(&root.path().join("sda/sda1"))), "wwid:naa.5000");
    }

    #[test]
    fn a_volume_on_two_disks_is_its_own_parent() {
        let root = stack();
        fs::create_dir_all(root.path().join("sdb")).unwrap();
        std::os::unix::fs::symlink(root.path().join("sdb"), root.path().join("dm-0/slaves/sdb")).unwrap();
        assert_eq!(name_of_disk(&bottom_of(root.path().join("dm-0"))), "name:dm-0");
    }

    #[test]
    fn the_boot_has_an_id_that_stays() {
        assert_ne!(boot_id().unwrap(), 0);
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
    }
}
