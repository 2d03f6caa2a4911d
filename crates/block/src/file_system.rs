//! By what a file system is known wherever it is mounted: its own id, in what the kernel tells of it or in its superblock.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};

use crate::likeness::{NUMBER, UUID};
use crate::{sys, sysfs};

/// Bytes of a device in which the file systems that are known here say what they are.
const START_BYTES: usize = 4096;

/// What tells the file system of an open file from others. One that gives its device number as its id (XFS, FAT, exFAT, F2FS)
/// is known by its UUID.
pub(crate) fn id_of(file: &OwnedFd, device: u64) -> std::io::Result<String> {
    let given = sys::file_system_id(file)?;
    if given != device {
        return Ok(format!("{given:016x}"));
    }
    let uuid = sys::file_system_uuid(file).map(|bytes| hexadecimal(&bytes));
    let uuid = uuid.or_else(|| in_superblock(device)).or_else(|| linked_by_udev(device));
    Ok(uuid.map_or_else(|| format!("{NUMBER}{given:x}"), |uuid| format!("{UUID}{uuid}")))
}

/// Whether a file's inode has another number at the next mount: FAT and exFAT have none on the disk.
pub(crate) fn makes_up_inodes(file: &OwnedFd) -> std::io::Result<bool> {
    const MADE_UP: [i64; 2] = [0x4d44, 0x2011_bab0];
    Ok(MADE_UP.contains(&sys::file_system_kind(file)?))
}

fn in_superblock(device: u64) -> Option<String> {
    let name = sysfs::directory(device)?.file_name()?.to_owned();
    let file = File::open(std::path::Path::new("/dev").join(name)).ok()?;
    if file.metadata().ok()?.rdev() != device {
        return None;
    }
    let mut start = vec![0; START_BYTES];
    file.read_exact_at(&mut start, 0).ok()?;
    uuid_in(&start)
}

/// Of the first bytes of a device: XFS, exFAT, FAT of both kinds, F2FS.
fn uuid_in(start: &[u8]) -> Option<String> {
    let has = |offset: usize, magic: &[u8]| start.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    let field = |offset: usize, length: usize| start.get(offset..offset + length).map(hexadecimal);
    if has(0, b"XFSB") {
        return field(32, 16);
    }
    if has(1024, &0xf2f5_2010_u32.to_le_bytes()) {
        return field(1024 + 108, 16);
    }
    if has(3, b"EXFAT   ") {
        return field(100, 4);
    }
    if has(82, b"FAT32   ") {
        return field(67, 4);
    }
    if has(54, b"FAT") { field(39, 4) } else { None }
}

/// What udev has found there.
fn linked_by_udev(device: u64) -> Option<String> {
    let links = fs::read_dir("/dev/disk/by-uuid").ok()?.flatten();
    let mut own = links.filter(|link| {
        let target = fs::metadata(link.path());
        target.is_ok_and(|target| target.file_type().is_block_device() && target.rdev() == device)
    });
    own.next().and_then(|link| link.file_name().into_string().ok())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: F8
    #[test]
    fn superblocks_tell_their_uuid_and_other_bytes_none() {
        let with = |parts: &[(usize, &[u8])]| {
            let mut start = vec![0; START_BYTES];
            for (offset, bytes) in parts {
                start[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            uuid_in(&start)
        };
        assert_eq!(with(&[(0, b"XFSB"), (32, &[7; 16])]), Some("07".repeat(16)));
        assert_eq!(with(&[(82, b"FAT32   "), (67, &[1, 2, 3, 4])]), Some("01020304".to_owned()));
        assert_eq!(with(&[(54, b"FAT16   "), (39, &[1, 2, 3, 4])]), Some("01020304".to_owned()));
        assert_eq!(with(&[(3, b"EXFAT   "), (100, &[9; 4])]), Some("09090909".to_owned()));
        assert_eq!(with(&[(1024, &0xf2f5_2010_u32.to_le_bytes()), (1132, &[5; 16])]), Some("05".repeat(16)));
        assert_eq!(with(&[]), None);
        assert_eq!(uuid_in(b"XFSB"), None);
    }
}
