//! Who else uses a file or block device: programs, the kernel, this process under another name. Nobody else writes what we
//! use, and we use nothing that somebody else writes; what can be noticed of that is noticed here, whoever opens.
//!
//! Not to be noticed: another machine, a program behind another file system's name for the same file (overlayfs), one that opens
//! a block device without claiming it, and one that only reads.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::closing::{Closed, OpenFile};
use crate::footprint::Footprint;
use crate::{sys, sysfs};

/// Processes that are looked at to say who has a file open.
const PROCESSES_MAX: usize = 4096;

/// How often, and how far apart, a file is looked at that another program seems to write: a program that this one just starts has
/// for a moment whatever this one had open.
const LOOKS: u32 = 5;
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// What is wanted of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read it, beside others who read.
    Read,
    /// To have it alone.
    Alone,
}

/// Who uses a device, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// This process, by this path.
    Ourselves(PathBuf),
    /// A loop device that shows the same bytes, by name.
    Loop(String),
    Mounted(String),
    Swap,
    /// A device made of it, by name.
    Holder(String),
    /// Programs that have it open for writing, or lock it as QEMU does.
    Programs(Vec<String>),
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ourselves(path) => {
                write!(f, "this daemon uses the same storage as {}; it can be used once only", path.display())
            }
            Self::Loop(name) => write!(
                f,
                "/dev/{name} shows the same bytes; detach that first (`losetup -d /dev/{name}`), or use /dev/{name} itself"
            ),
            Self::Mounted(place) => write!(f, "it is mounted at {place}; `umount {place}` first"),
            Self::Swap => f.write_str("it is used for swap; `swapoff` it first"),
            Self::Holder(name) => write!(f, "it is a part of {name}; use that, or take it apart first"),
            Self::Programs(programs) if programs.is_empty() => f.write_str(
                "another program has it open for writing or has locked it; `lsof` finds which; end that first",
            ),
            Self::Programs(programs) => {
                write!(f, "{} has it open for writing or has locked it; end that first", programs.join(" and "))
            }
        }
    }
}

/// Who else uses the file or block device at `path`, other than this process; as far as that can be told without opening it for
/// writing. Blocks briefly.
///
/// # Errors
/// Those of looking at the path.
pub fn user_of(path: &Path, access: Access) -> io::Result<Option<User>> {
    let metadata = fs::metadata(path)?;
    if let Some(user) = loop_over(&Footprint::of_metadata(&metadata), access) {
        return Ok(Some(user));
    }
    if metadata.file_type().is_block_device() {
        return Ok(claimant(&metadata, access));
    }
    for _ in 1..LOOKS {
        if !is_written(path) {
            return Ok(None);
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    Ok(is_written(path).then(|| User::Programs(programs_with(&metadata))))
}

/// Who else uses a block device that nobody is kept off: by a mount, by a device made of it, or open for writing. Blocks briefly.
///
/// # Errors
/// Those of looking at the path.
pub fn holder_of(path: &Path) -> io::Result<Option<User>> {
    let metadata = fs::metadata(path)?;
    let programs = || Some(programs_with(&metadata)).filter(|programs| !programs.is_empty()).map(User::Programs);
    Ok(claimant(&metadata, Access::Alone).or_else(programs))
}

/// Who keeps us from a device that the kernel says is busy.
pub(crate) fn user_of_busy(metadata: &Metadata) -> User {
    let shown = metadata.file_type().is_block_device().then(|| claimant(metadata, Access::Alone)).flatten();
    shown.unwrap_or_else(|| User::Programs(programs_with(metadata)))
}

/// What this process has open, on whatever thread, by what that stands for.
static OPEN: Mutex<Vec<OpenDevice>> = Mutex::new(Vec::new());

struct OpenDevice {
    /// Until it is closed: as long as the kernel does I/O on it, it is open.
    life: Weak<()>,
    path: PathBuf,
    access: Access,
    footprint: Footprint,
}

/// Which of what this process has open stands for the same bytes, where not both only read.
pub(crate) fn our_own(footprint: &Footprint, access: Access) -> Option<User> {
    find(&mut OPEN.lock().unwrap_or_else(PoisonError::into_inner), footprint, access)
}

/// Notes that this process has `file` open; refuses it if another thread was faster with the same bytes.
pub(crate) fn note_open(file: &OpenFile, path: &Path, access: Access, footprint: Footprint) -> Result<(), User> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    match find(&mut open, &footprint, access) {
        Some(user) => Err(user),
        None => {
            open.push(OpenDevice { life: file.life(), path: path.to_owned(), access, footprint });
            Ok(())
        }
    }
}

/// One that was only read is written from now on.
pub(crate) fn have_alone(file: &OpenFile) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let life = file.life();
    open.iter_mut().filter(|device| device.life.ptr_eq(&life)).for_each(|device| device.access = Access::Alone);
}

fn find(open: &mut Vec<OpenDevice>, footprint: &Footprint, access: Access) -> Option<User> {
    open.retain(|device| device.life.strong_count() > 0);
    let both_read = |device: &OpenDevice| device.access == Access::Read && access == Access::Read;
    let mut others = open.iter().filter(|device| !both_read(device));
    others.find(|device| device.footprint.overlaps(footprint)).map(|device| User::Ourselves(device.path.clone()))
}

/// A loop device other than those that this stands on, and that shows some of the same bytes.
fn loop_over(footprint: &Footprint, access: Access) -> Option<User> {
    sysfs::bound_loops().into_iter().find_map(|(name, device)| {
        let harmless = footprint.stands_on(device) || access == Access::Read && sysfs::is_read_only(device);
        let shows = !harmless && Footprint::of_device(device).overlaps(footprint);
        shows.then_some(User::Loop(name))
    })
}

/// Who has claimed a block device or a partition of it, as far as that is shown. Programs that do so are not.
pub(crate) fn claimant(metadata: &Metadata, access: Access) -> Option<User> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    sysfs::with_partitions(metadata.rdev()).into_iter().find_map(|device| {
        let mount = mount_of(&mounts, device).filter(|mount| !mount.read_only || access == Access::Alone);
        let mounted = mount.map(|mount| User::Mounted(mount.place));
        let swap = || is_swap(device).then_some(User::Swap);
        mounted.or_else(swap).or_else(|| sysfs::holder(device).map(User::Holder))
    })
}

struct Mount {
    place: String,
    read_only: bool,
}

/// proc_pid_mountinfo(5): major:minor is the third word, the mount point the fifth, the superblock's options the last; some
/// file systems (btrfs) have a number of their own there, and are found by their source.
fn mount_of(mounts: &str, device: u64) -> Option<Mount> {
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    mounts.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let words: Vec<&str> = mount.split(' ').collect();
        let by_source = || {
            let source = source.split(' ').nth(1)?;
            let metadata = fs::metadata(source).ok()?;
            (metadata.file_type().is_block_device() && metadata.rdev() == device).then_some(())
        };
        if *words.get(2)? != number {
            by_source()?;
        }
        let read_only = source.rsplit(' ').next()?.split(',').any(|option| option == "ro");
        Some(Mount { place: (*words.get(4)?).to_owned(), read_only })
    })
}

fn is_swap(device: u64) -> bool {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    paths.filter_map(|path| fs::metadata(path).ok()).any(|metadata| metadata.rdev() == device)
}

/// Whether anybody has the file open for writing, as far as its file system tells: it grants a lease for reading only then not.
fn is_written(path: &Path) -> bool {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    file.is_ok_and(|file| {
        let metadata = file.metadata();
        let file = OwnedFd::from(file);
        let closed = metadata.and_then(|metadata| Closed::for_file(&file, &metadata)).unwrap_or(Closed::AtOnce);
        sys::is_open_for_writing(&OpenFile::new(file, closed))
    })
}

/// Takes the locks by which QEMU keeps others off an image, on the file description that does the I/O, and looks whether somebody
/// else has some of them that speak against it.
///
/// # Errors
/// `EAGAIN` if so.
pub(crate) fn lock_as_qemu_does(file: &OwnedFd, access: Access) -> io::Result<()> {
    // Of QEMU's `block/file-posix.c`: a lock of byte 100 + n says that who has it does n, one of 200 + n that nobody else may.
    // 0 is to read what is consistent, 1 to write, 2 to write what is there already, 3 to resize.
    const DOES: i64 = 100;
    const FORBIDS: i64 = 200;
    let (does, forbids): (&[i64], &[i64]) = match access {
        Access::Read => (&[0], &[1, 3]),
        Access::Alone => (&[0, 1, 2, 3], &[0, 1, 2, 3]),
    };
    if sys::byte_locks_are_mandatory(file)? {
        return Ok(());
    }
    let ours = does.iter().map(|n| DOES + n).chain(forbids.iter().map(|n| FORBIDS + n));
    for byte in ours {
        match sys::lock_byte(file, byte) {
            Err(error) if is_unknown(&error) => return Ok(()),
            result => result?,
        }
    }
    let theirs = does.iter().map(|n| FORBIDS + n).chain(forbids.iter().map(|n| DOES + n));
    for byte in theirs {
        if sys::is_byte_locked(file, byte)? {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
    }
    Ok(())
}

/// Gives back the locks that [`lock_as_qemu_does`] took.
///
/// # Errors
/// Those of fcntl(2).
pub(crate) fn unlock_as_qemu_does(file: &OwnedFd) -> io::Result<()> {
    match sys::unlock_bytes(file) {
        Err(error) if is_unknown(&error) => Ok(()),
        result => result,
    }
}

/// The file system knows no such locks.
fn is_unknown(error: &io::Error) -> bool {
    let unknown = [libc::EINVAL, libc::EOPNOTSUPP, libc::ENOSYS, libc::ENOLCK];
    error.raw_os_error().is_some_and(|errno| unknown.contains(&errno))
}

/// The programs that have it open for writing, for people: name and process id. Empty where that cannot be told.
fn programs_with(metadata: &Metadata) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ours = std::process::id();
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let others = processes.filter(|process| *process != ours).take(PROCESSES_MAX);
    others.filter(|process| has_open(*process, metadata)).map(described).collect()
}

fn has_open(process: u32, metadata: &Metadata) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fdinfo")) else { return false };
    descriptors.flatten().any(|descriptor| {
        let info = fs::read_to_string(descriptor.path()).unwrap_or_default();
        // Looking at what is open may wait for a file system that does not answer: so the number of the inode is compared first.
        let is_it = || {
            let opened = fs::metadata(format!("/proc/{process}/fd/{}", descriptor.file_name().to_string_lossy()));
            opened.is_ok_and(|opened| {
                (opened.dev(), opened.ino(), opened.rdev()) == (metadata.dev(), metadata.ino(), metadata.rdev())
            })
        };
        writes(&info) && field(&info, "ino").is_none_or(|inode| inode == metadata.ino().to_string()) && is_it()
    })
}

/// Of /proc/PID/fdinfo (proc_pid_fdinfo(5)): the mode in which it was opened are the two lowest bits of its flags.
fn writes(info: &str) -> bool {
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

    // proves: F10
    #[test]
    fn a_mount_is_found_by_number_and_tells_whether_it_writes() {
        let mounts = "29 1 8:17 / /home rw,relatime shared:1 - ext4 /dev/sdb1 rw,errors=remount-ro\n\
                      30 1 8:33 / /media/with\\040space ro - vfat /nowhere/sdc1 ro\n";
        let home = mount_of(mounts, libc::makedev(8, 17)).unwrap();
        assert_eq!((home.place.as_str(), home.read_only), ("/home", false));
        assert!(mount_of(mounts, libc::makedev(8, 33)).unwrap().read_only);
        assert!(mount_of(mounts, libc::makedev(8, 18)).is_none());
    }

    #[test]
    fn who_reads_a_file_does_not_write_it() {
        assert!(writes("pos:\t0\nflags:\t0100002\nmnt_id:\t29\n") && writes("flags:\t01\n"));
        assert!(!writes("pos:\t0\nflags:\t0100000\n"));
    }

    // proves: F10
    #[test]
    fn a_file_that_another_writes_is_in_use_and_one_that_another_reads_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        let writer = File::create(&path).unwrap();
        assert!(matches!(user_of(&path, Access::Alone).unwrap(), Some(User::Programs(_))));
        drop(writer);
        let _reader = File::open(&path).unwrap();
        assert_eq!(user_of(&path, Access::Alone).unwrap(), None);
    }
}
