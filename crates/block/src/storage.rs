//! What can store a volume's or a pool's bytes at all: regular files and block devices.
//!
//! The kernel shows many things as regular files that are none: a write to one of them does something, or vanishes.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::sys;

/// File systems whose files are the kernel's words, not anybody's bytes (linux/magic.h and their own headers).
const PSEUDO_FILE_SYSTEMS: [(u32, &str); 26] = [
    (0x0000_9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x6265_6570, "configfs"),
    (0x6165_676c, "pstore"),
    (0xcafe_4a11, "bpf"),
    (0xde5e_81e4, "efivarfs"),
    (0x6173_6e77, "efivars"),
    (0x0000_1cd1, "devpts"),
    (0x1980_0202, "mqueue"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6759_6969, "rpc_pipefs"),
    (0x6573_5543, "fusectl"),
    (0x6e73_6673, "nsfs"),
    (0x0904_1934, "anon_inode"),
    (0x5049_5045, "pipefs"),
    (0x534f_434b, "sockfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x6c6f_6f70, "binder"),
    (0x5a4f_4653, "zonefs"),
];

/// What is at `path`, if that can store bytes. Blocks briefly.
///
/// # Errors
/// Those of looking; `Unsupported` with the reason if it is no storage.
pub fn check_is_storage(path: &Path) -> io::Result<Metadata> {
    let metadata = std::fs::metadata(path)?;
    match why_not(path, &metadata)? {
        None => Ok(metadata),
        Some(why) => Err(io::Error::new(io::ErrorKind::Unsupported, why)),
    }
}

fn why_not(path: &Path, metadata: &Metadata) -> io::Result<Option<String>> {
    let kind = metadata.file_type();
    if kind.is_block_device() {
        return Ok(None);
    }
    if !kind.is_file() {
        let found = [
            (kind.is_dir(), "a directory"),
            (kind.is_char_device(), "a character device"),
            (kind.is_fifo(), "a pipe"),
            (kind.is_socket(), "a socket"),
        ];
        let what = found.into_iter().find_map(|(is, what)| is.then_some(what)).unwrap_or("something else");
        return Ok(Some(format!("it is neither a block device nor a regular file, but {what}")));
    }
    if let Some(name) = pseudo_file_system(path)? {
        return Ok(Some(format!("it is a file of the kernel ({name}), which stores nothing")));
    }
    Ok(lies_among_devices(metadata).then(|| {
        "it is a regular file in /dev, which is memory and gone at the next start: name the device, or a file elsewhere"
            .to_owned()
    }))
}

/// Reads nothing: it may be a file that does something when it is read.
fn pseudo_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    let file = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    let found = sys::file_system_kind(&OwnedFd::from(file))?;
    let known = PSEUDO_FILE_SYSTEMS.iter().find(|(kind, _)| i64::from(*kind) == found);
    Ok(known.map(|(_, name)| *name))
}

/// Whether a file lies on the file system that is `/dev`, and not on one mounted in there.
pub fn lies_among_devices(metadata: &Metadata) -> bool {
    let device = |path: &str| std::fs::metadata(path).ok().map(|metadata| metadata.dev());
    let among = device("/dev");
    among == Some(metadata.dev()) && among != device("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: F10
    #[test]
    fn what_stores_nothing_is_refused_by_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, word) in [
            (Path::new("/sys/kernel/mm/transparent_hugepage/enabled"), "sysfs"),
            (Path::new("/proc/version"), "proc"),
            (Path::new("/proc/self/mem"), "proc"),
            (Path::new("/dev/null"), "a character device"),
            (directory.path(), "a directory"),
            (&socket, "a socket"),
        ] {
            let error = check_is_storage(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{}", path.display());
            assert!(error.to_string().contains(word), "{}: {error}", path.display());
        }
        let file = directory.path().join("file");
        std::fs::write(&file, b"x").unwrap();
        assert!(check_is_storage(&file).is_ok());
    }
}
