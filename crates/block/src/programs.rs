//! Which programs have a file or block device open for writing, as far as `/proc` shows them.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Processes that are looked at: more than run on any machine that stores something, threads of the kernel included.
const PROCESSES_MAX: usize = 65_536;

/// The programs that have it open for writing, or have it in their memory to be written, for people: name and process id.
/// Empty where that cannot be told.
pub(crate) fn that_write(metadata: &Metadata) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ours = std::process::id();
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let others = processes.filter(|process| *process != ours).take(PROCESSES_MAX);
    others.filter(|process| writes(*process, metadata)).map(described).collect()
}

fn writes(process: u32, metadata: &Metadata) -> bool {
    let folder = Path::new("/proc").join(process.to_string());
    has_open(&folder, metadata) || metadata.is_file() && has_in_memory(&folder, metadata)
}

fn has_open(process: &Path, metadata: &Metadata) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        let link = descriptor.path();
        let Ok(target) = fs::read_link(&link) else { return false };
        let may_be = if metadata.is_file() { target.is_absolute() } else { target.starts_with("/dev") };
        if !may_be {
            return false;
        }
        let info = fs::read_to_string(process.join("fdinfo").join(descriptor.file_name())).unwrap_or_default();
        // Looking at what is open may wait for a file system that does not answer: so the number of the inode is compared first.
        let may_be_it = || {
            let inode = field(&info, "ino").filter(|_| metadata.is_file());
            inode.is_none_or(|inode| inode == metadata.ino().to_string())
        };
        is_to_write(&info) && may_be_it() && fs::metadata(&link).is_ok_and(|opened| is_same(&opened, metadata))
    })
}

/// A block device is the same by any node.
fn is_same(opened: &Metadata, metadata: &Metadata) -> bool {
    if metadata.file_type().is_block_device() {
        return opened.file_type().is_block_device() && opened.rdev() == metadata.rdev();
    }
    (opened.dev(), opened.ino()) == (metadata.dev(), metadata.ino())
}

/// What is in memory stays so when its descriptor is closed.
fn has_in_memory(process: &Path, metadata: &Metadata) -> bool {
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    maps.lines().any(|line| is_written_in_memory(line, metadata.dev(), metadata.ino()))
}

/// Of /proc/PID/maps (proc_pid_maps(5)): the second word says how it may be used, the fourth is the device in hexadecimal
/// numbers, the fifth the inode.
fn is_written_in_memory(line: &str, device: u64, inode: u64) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().take(5).collect();
    let &[_, how, _, of_device, of_inode] = words.as_slice() else { return false };
    let number = || {
        let (major, minor) = of_device.split_once(':')?;
        let [major, minor] = [major, minor].map(|part| u32::from_str_radix(part, 16).ok());
        Some(libc::makedev(major?, minor?))
    };
    how.contains('w') && how.ends_with('s') && of_inode == inode.to_string() && number() == Some(device)
}

/// Of /proc/PID/fdinfo (proc_pid_fdinfo(5)): the mode in which it was opened are the two lowest bits of its flags.
fn is_to_write(info: &str) -> bool {
    let flags = field(info, "flags").and_then(|flags| u32::from_str_radix(flags, 8).ok());
    flags.is_some_and(|flags| flags & 0o3 != 0)
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn described(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    format!("{} (process {process})", name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_a_file_does_not_write_it() {
        assert!(is_to_write("pos:\t0\nflags:\t0100002\nmnt_id:\t29\n") && is_to_write("flags:\t01\n"));
        assert!(!is_to_write("pos:\t0\nflags:\t0100000\n"));
    }

    // proves: F10
    #[test]
    fn who_has_a_file_in_memory_writes_it_if_he_shares_it_and_may() {
        let device = libc::makedev(0, 1);
        let is = |line| is_written_in_memory(line, device, 1044);
        assert!(is("7f0000000000-7f0000800000 rw-s 00000000 00:01 1044   /memfd:disk (deleted)"));
        assert!(!is("7f0000000000-7f0000800000 r--s 00000000 00:01 1044   /memfd:disk (deleted)"));
        assert!(!is("7f0000000000-7f0000800000 rw-p 00000000 00:01 1044   /memfd:disk (deleted)"));
        assert!(!is("7f0000000000-7f0000800000 rw-s 00000000 00:01 1045   /memfd:disk (deleted)"));
        assert!(!is("7f0000000000-7f0000800000 rw-s 00000000 08:01 1044   /disk"));
        assert!(!is("7f0000000000-7f0000800000 rw-p 00000000 00:00 0"));
    }
}
