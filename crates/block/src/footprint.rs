//! Which bytes of which storage a file or block device stands for, so that two names of the same bytes are known as such.
//!
//! A partition stands for a part of its disk, a loop device for a part of its file, a path of a multipath device for the
//! device with its world-wide name. Where only the kernel knows which part (LVM, RAID), it keeps others off itself; what
//! is below is known here as used in some part.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::{ByteRange, sysfs};

/// Devices stacked on one another that are followed down.
const STACK_MAX: usize = 8;

/// In the unit of sysfs, whatever the device's own sector is.
const SECTOR_BYTES: u64 = 512;

/// What a file or block device stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    /// A file or a block device by number, or a disk by its durable name.
    object: String,
    range: ByteRange,
    /// Some of it is used, and it is not known which.
    partly: bool,
}

impl Footprint {
    /// Of the file or block device at `path`. Takes no lock. Blocks briefly.
    ///
    /// # Errors
    /// Those of looking at the path.
    pub fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|metadata| Self::of_metadata(&metadata))
    }

    pub(crate) fn of_metadata(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            return Self::of_device(metadata.rdev());
        }
        let mut footprint = Self::default();
        footprint.add(file(metadata.dev(), metadata.ino()), WHOLE, Part::Whole);
        footprint
    }

    pub(crate) fn of_device(device: u64) -> Self {
        let mut footprint = Self::default();
        footprint.add_device(device, WHOLE, Part::Whole, STACK_MAX);
        footprint
    }

    /// Whether both stand for the same bytes, in part at least.
    pub fn overlaps(&self, other: &Self) -> bool {
        let overlap = |a: &Piece, b: &Piece| {
            let (start, end) = (a.range.start.max(b.range.start), a.range.end.min(b.range.end));
            a.object == b.object && start < end && !(a.partly && b.partly)
        };
        self.pieces.iter().any(|piece| other.pieces.iter().any(|of_other| overlap(piece, of_other)))
    }

    /// Whether what is at `path` lies on a block device: it is that or a part of it, is made of it, or is a file on it. Blocks briefly.
    ///
    /// # Errors
    /// Those of looking at the path.
    pub fn lies_on(path: &Path, device: u64) -> io::Result<bool> {
        let metadata = fs::metadata(path)?;
        let own = Self::of_metadata(&metadata);
        Ok(own.stands_on(device) || Self::of_device(metadata.dev()).stands_on(device))
    }

    /// Whether a block device is a part of what this stands on.
    pub(crate) fn stands_on(&self, device: u64) -> bool {
        let object = object_of(device);
        self.pieces.iter().any(|piece| piece.object == object)
    }

    fn add(&mut self, object: String, range: ByteRange, part: Part) {
        self.pieces.push(Piece { object, range, partly: part == Part::Some });
    }

    /// A block device and what is below it.
    fn add_device(&mut self, device: u64, range: ByteRange, part: Part, depth: usize) {
        self.add(object_of(device), range, part);
        let Some(directory) = sysfs::directory(device) else { return };
        if let Some(name) = durable_name(&directory) {
            self.add(name, range, part);
        }
        if depth > 0 {
            self.add_below(&directory, device, range, part, depth - 1);
        }
    }

    fn add_below(&mut self, directory: &Path, device: u64, range: ByteRange, part: Part, depth: usize) {
        if let Some((disk, place)) = disk_under_partition(directory) {
            return self.add_device(disk, within(range, place), part, depth);
        }
        if let Some(under) = sysfs::loop_backing(directory, device) {
            let place = within(range, under.range);
            return match under.device {
                Some(device) => self.add_device(device, place, part, depth),
                None => self.add(file(under.file_system, under.inode), place, part),
            };
        }
        // All paths of a multipath device are the whole of it.
        let exactly = sysfs::text(&directory.join("dm/uuid")).is_some_and(|uuid| uuid.starts_with("mpath-"));
        let (range, part) = if exactly { (range, part) } else { (WHOLE, Part::Some) };
        for below in sysfs::slaves(directory) {
            if let Some(device) = sysfs::number_of(&below) {
                self.add_device(device, range, part, depth);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    /// Some of it.
    Some,
}

const WHOLE: ByteRange = ByteRange { start: 0, end: u64::MAX };

fn file(file_system: u64, inode: u64) -> String {
    format!("file {file_system} {inode}")
}

fn object_of(device: u64) -> String {
    format!("device {}:{}", libc::major(device), libc::minor(device))
}

/// Where the bytes `range` of a part lie in the whole, of which the part is `place`.
fn within(range: ByteRange, place: ByteRange) -> ByteRange {
    let moved = |position: u64| position.saturating_add(place.start).min(place.end);
    ByteRange { start: moved(range.start), end: moved(range.end) }
}

fn disk_under_partition(directory: &Path) -> Option<(u64, ByteRange)> {
    if !directory.join("partition").exists() {
        return None;
    }
    let sectors = |file: &str| sysfs::number::<u64>(&directory.join(file));
    let start = sectors("start")?.saturating_mul(SECTOR_BYTES);
    let place = ByteRange { start, end: start.saturating_add(sectors("size")?.saturating_mul(SECTOR_BYTES)) };
    let disk: PathBuf = directory.parent()?.to_owned();
    Some((sysfs::number_of(&disk)?, place))
}

/// By what a whole disk is known whichever path leads to it: its world-wide id, or its model, serial number and size.
fn durable_name(directory: &Path) -> Option<String> {
    if directory.join("partition").exists() {
        return None;
    }
    let first = |files: [&str; 2]| files.iter().find_map(|file| sysfs::text(&directory.join(file)));
    if let Some(id) = first(["wwid", "device/wwid"]) {
        return Some(format!("wwid {id}"));
    }
    let serial = first(["serial", "device/serial"])?;
    let model = sysfs::text(&directory.join("device/model")).unwrap_or_default();
    let size = sysfs::text(&directory.join("size")).unwrap_or_default();
    Some(format!("serial {model} {serial} {size}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[(&str, u64, u64, bool)]) -> Footprint {
        let piece = |(object, start, end, partly): &(&str, u64, u64, bool)| Piece {
            object: (*object).to_owned(),
            range: ByteRange { start: *start, end: *end },
            partly: *partly,
        };
        Footprint { pieces: pieces.iter().map(piece).collect() }
    }

    // proves: F10
    #[test]
    fn parts_of_one_disk_overlap_where_their_bytes_do() {
        let disk = of(&[("sda", 0, u64::MAX, false)]);
        let (first, second) = (of(&[("sda", 0, 100, false)]), of(&[("sda", 100, 200, false)]));
        assert!(disk.overlaps(&first) && second.overlaps(&disk) && first.overlaps(&first));
        assert!(!first.overlaps(&second));
        assert!(!first.overlaps(&of(&[("sdb", 0, 100, false)])));
    }

    // proves: F10
    #[test]
    fn two_volumes_of_one_group_do_not_overlap_and_the_disk_under_them_does() {
        let (root, home) = (
            of(&[("dm-0", 0, u64::MAX, false), ("sda", 0, u64::MAX, true)]),
            of(&[("dm-1", 0, u64::MAX, false), ("sda", 0, u64::MAX, true)]),
        );
        assert!(!root.overlaps(&home));
        assert!(root.overlaps(&of(&[("sdb", 0, u64::MAX, false), ("sda", 0, u64::MAX, false)])));
    }

    #[test]
    fn a_part_of_a_part_lies_within_it() {
        let place = ByteRange { start: 1000, end: 2000 };
        assert_eq!(within(ByteRange { start: 0, end: u64::MAX }, place), place);
        assert_eq!(within(ByteRange { start: 10, end: 20 }, place), ByteRange { start: 1010, end: 1020 });
    }

    // proves: F10
    #[test]
    fn a_file_is_the_same_by_every_path_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link, other) = (directory.path().join("a"), directory.path().join("b"), directory.path().join("c"));
        fs::write(&file, b"x").unwrap();
        fs::write(&other, b"x").unwrap();
        fs::hard_link(&file, &link).unwrap();
        assert!(Footprint::of(&file).unwrap().overlaps(&Footprint::of(&link).unwrap()));
        assert!(!Footprint::of(&file).unwrap().overlaps(&Footprint::of(&other).unwrap()));
    }

    // proves: F10
    #[test]
    fn a_disk_is_known_by_its_world_wide_id_on_every_path_and_a_partition_by_its_disk() {
        let root = tempfile::tempdir().unwrap();
        let disk = |name: &str, files: &[(&str, &str)]| {
            let directory = root.path().join(name);
            for (file, content) in files {
                let path = directory.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            directory
        };
        let path = [("device/wwid", "naa.5\n"), ("dev", "8:0\n"), ("sda1/partition", "1\n"), ("sda1/start", "2\n")];
        let sda = disk("sda", &[&path[..], &[("sda1/size", "4\n")]].concat());
        assert_eq!(durable_name(&sda), durable_name(&disk("sdb", &[("wwid", "naa.5\n")])));
        let place = ByteRange { start: 1024, end: 3072 };
        assert_eq!(disk_under_partition(&sda.join("sda1")), Some((libc::makedev(8, 0), place)));
        let serial = [("serial", "7\n"), ("size", "100\n")];
        assert_eq!(durable_name(&disk("vda", &serial)), durable_name(&disk("vdb", &serial)));
        assert_ne!(
            durable_name(&disk("vda", &serial)),
            durable_name(&disk("vdc", &[("serial", "7\n"), ("size", "9\n")]))
        );
        assert_eq!(durable_name(&disk("loop9", &[("size", "9\n")])), None);
    }
}
