//! What `/sys` and `/proc` tell about block devices: identity, parents, queue limits.

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::{ByteRange, DeviceIdentity, closing, file_system, sys};

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
    let queue = directory(device).map(|found| disk_of(&found).join("queue")).unwrap_or_default();
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
    let metadata = closing::metadata(file)?;
    let boot = boot_id()?;
    if metadata.file_type().is_block_device() {
        Ok(block_device_identity(&metadata, path, boot))
    } else {
        file_identity(file, &metadata, path, boot)
    }
}

fn file_identity(file: &OwnedFd, metadata: &Metadata, path: &Path, boot: u128) -> io::Result<DeviceIdentity> {
    let mut id = format!("file:{}:", file_system::id_of(file, metadata.dev())?);
    match path.file_name().filter(|_| file_system::makes_up_inodes(file).unwrap_or(false)) {
        Some(name) => id.push_str(&name.to_string_lossy()),
        None => id.push_str(&metadata.ino().to_string()),
    }
    // An inode number can come back for another file; its generation cannot. Not every file system has one.
    if let Ok(generation) = sys::file_generation(file) {
        id.push_str(&format!(":{generation:08x}"));
    }
    let parent = directory(metadata.dev()).map(|found| bottom_of(&found));
    let change_mark = modified(metadata);
    Ok(DeviceIdentity { id, parent: parent.unwrap_or_default(), change_mark, boot })
}

fn block_device_identity(metadata: &Metadata, path: &Path, boot: u128) -> DeviceIdentity {
    let Some(directory) = directory(metadata.rdev()) else {
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
    let change_mark = match text(&disk_of(&directory).join("loop/backing_file")) {
        // What a loop device counts is not of its file: it goes on when another one is shown.
        Some(file) => fs::metadata(file).ok().and_then(|metadata| modified(&metadata)),
        None => text(&directory.join("stat")).and_then(|stat| {
            stat.split_ascii_whitespace().nth(STAT_SECTORS_WRITTEN).and_then(|word| word.parse().ok())
        }),
    };
    DeviceIdentity { id, parent: bottom_of(&directory), change_mark, boot }
}

/// Nanoseconds since 1970.
fn modified(metadata: &Metadata) -> Option<u64> {
    let nanoseconds = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    u64::try_from(nanoseconds).ok()
}

/// The directory of a block device in sysfs. Anonymous devices (btrfs, network file systems) have none.
pub(crate) fn directory(device: u64) -> Option<PathBuf> {
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

/// The disk at the bottom of a stack in which each device has one device under it; for a loop device over a file of a file system
/// without a disk, that file system.
fn bottom_of(found: &Path) -> String {
    let mut device = disk_of(found);
    for _ in 0..STACK_MAX {
        if let Some(shown) = number_of(&device).and_then(|number| loop_backing(&device, number)) {
            let holder = shown.device.unwrap_or(shown.file_system);
            let Some(below) = directory(holder) else { return format!("file system {holder}") };
            device = disk_of(&below);
            continue;
        }
        match slaves(&device).as_slice() {
            [only] => device = disk_of(only),
            [] | [_, _, ..] => break,
        }
    }
    name_of_disk(&device)
}

/// The devices that a RAID, LVM or multipath device is made of.
pub(crate) fn slaves(device: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(device.join("slaves"));
    entries.map_or_else(
        |_| Vec::new(),
        |entries| entries.flatten().filter_map(|entry| fs::canonicalize(entry.path()).ok()).collect(),
    )
}

/// The number of a block device, by its directory.
pub(crate) fn number_of(directory: &Path) -> Option<u64> {
    let text = text(&directory.join("dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// What a loop device shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// `None`: a regular file.
    pub(crate) device: Option<u64>,
    pub(crate) file_system: u64,
    pub(crate) inode: u64,
    pub(crate) range: ByteRange,
}

/// What a loop device shows, if it is one and shows something.
pub(crate) fn loop_backing(directory: &Path, device: u64) -> Option<Shown> {
    let path = text(&directory.join("loop/backing_file"))?;
    shown_by_driver(directory, device).or_else(|| shown_by_path(directory, &path))
}

fn shown_by_driver(directory: &Path, device: u64) -> Option<Shown> {
    let node = Path::new("/dev").join(directory.file_name()?);
    let file = fs::File::open(&node).ok()?;
    if file.metadata().ok()?.rdev() != device {
        return None;
    }
    let info = sys::loop_info(&OwnedFd::from(file)).ok()?;
    let device = Some(info.shown_device).filter(|device| *device != 0);
    let range = shown_range(info.offset, info.size_limit);
    Some(Shown { device, file_system: info.device, inode: info.inode, range })
}

/// Where the driver cannot be asked: the file may have gone from its path.
fn shown_by_path(directory: &Path, path: &str) -> Option<Shown> {
    let metadata = fs::metadata(path).ok()?;
    let device = metadata.file_type().is_block_device().then(|| metadata.rdev());
    let bytes = |file: &str| number(&directory.join(file)).unwrap_or(0);
    let range = shown_range(bytes("loop/offset"), bytes("loop/sizelimit"));
    Some(Shown { device, file_system: metadata.dev(), inode: metadata.ino(), range })
}

fn shown_range(offset: u64, size_limit: u64) -> ByteRange {
    let end = if size_limit == 0 { u64::MAX } else { offset.saturating_add(size_limit) };
    ByteRange { start: offset, end }
}

/// The loop devices that show something: name and number.
pub(crate) fn bound_loops() -> Vec<(String, u64)> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
    let directories = entries.flatten().map(|entry| entry.path());
    let bound = directories.filter(|directory| directory.join("loop/backing_file").exists());
    bound.filter_map(|found| Some((found.file_name()?.to_str()?.to_owned(), number_of(&found)?))).collect()
}

/// All disks and partitions, by number.
pub(crate) fn all() -> Vec<u64> {
    let entries = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    entries.filter_map(|entry| number_of(&entry.path())).collect()
}

/// Whether nobody can write to a block device.
pub(crate) fn is_read_only(device: u64) -> bool {
    directory(device).and_then(|found| text(&found.join("ro"))).is_some_and(|ro| ro == "1")
}

/// A block device and its partitions.
pub(crate) fn with_partitions(device: u64) -> Vec<u64> {
    let entries = directory(device).and_then(|found| fs::read_dir(found).ok());
    let inside = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let partitions = inside.filter(|inside| inside.join("partition").exists());
    std::iter::once(device).chain(partitions.filter_map(|partition| number_of(&partition))).collect()
}

/// The first device that is made of this one, by name.
pub(crate) fn holder(device: u64) -> Option<String> {
    let mut holders = fs::read_dir(directory(device)?.join("holders")).ok()?.flatten();
    holders.next().map(|holder| holder.file_name().to_string_lossy().into_owned())
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
        ("dm/name", "dm-name"),
    ];
    let mark = marks.iter().find_map(|(file, kind)| text(&directory.join(file)).map(|value| format!("{kind}:{value}")));
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Two loop devices may show two parts of one file.
    let part = number::<u64>(&directory.join("loop/offset")).filter(|offset| *offset > 0);
    let mark = mark.map(|mark| part.map_or(mark.clone(), |offset| format!("{mark}@{offset}")));
    mark.unwrap_or_else(|| format!("name:{name}"))
}

fn boot_id() -> io::Result<u128> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.trim().chars().filter(|character| *character != '-').collect();
    u128::from_str_radix(&digits, 16).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A file's text without the spaces around it; `None` if it is empty or cannot be read.
pub(crate) fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

pub(crate) fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
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
        assert_eq!(bottom_of(&root.path().join("dm-0")), "wwid:naa.5000");
        assert_eq!(name_of_disk(&disk_of(&root.path().join("sda/sda1"))), "wwid:naa.5000");
    }

    #[test]
    fn a_volume_on_two_disks_is_its_own_parent() {
        let root = stack();
        fs::create_dir_all(root.path().join("sdb")).unwrap();
        std::os::unix::fs::symlink(root.path().join("sdb"), root.path().join("dm-0/slaves/sdb")).unwrap();
        assert_eq!(bottom_of(&root.path().join("dm-0")), "name:dm-0");
    }

    #[test]
    fn the_boot_has_an_id_that_stays() {
        assert_ne!(boot_id().unwrap(), 0);
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
    }
}
