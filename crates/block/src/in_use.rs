//! Who else uses a file or block device: programs, the kernel, this process under another name. Nobody else writes what we
//! use, and we use nothing that somebody else writes; what can be noticed of that is noticed here, whoever opens.
//!
//! Not to be noticed: another machine, a program behind another file system's name for the same file (overlayfs), one in a
//! container that this process does not see into, and one that only reads.

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
use crate::{programs, sys, sysfs};

/// How often, and how far apart, something is looked at that another program seems to write: a program that this one just starts has
/// for a moment whatever this one had open, and one that looks for a free loop device opens others on its way. On a busy machine a
/// moment is long.
const LOOKS: u32 = 25;
const LOOK_PAUSE: Duration = Duration::from_millis(20);

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
    /// The kernel keeps others off, and nobody whom this process sees has it.
    Claimed,
}

impl User {
    /// `None`: there are none.
    fn of_programs(programs: Vec<String>) -> Option<Self> {
        (!programs.is_empty()).then_some(Self::Programs(programs))
    }

    /// How it uses the device: a sentence about "it".
    pub fn use_of_it(&self) -> String {
        match self {
            Self::Ourselves(path) => format!("this daemon uses the same storage as {}", path.display()),
            Self::Loop(name) => format!("/dev/{name} shows the same bytes"),
            Self::Mounted(place) => format!("it is mounted at {place}"),
            Self::Swap => "it is used for swap".to_owned(),
            Self::Holder(name) => format!("it is a part of {name}"),
            Self::Programs(programs) if programs.is_empty() => {
                "another program has it open for writing or has locked it".to_owned()
            }
            Self::Programs(programs) => format!("{} has it open for writing or has locked it", programs.join(" and ")),
            Self::Claimed => {
                "the kernel keeps others off it: it is mounted, a part of another device, or claimed by a program, where this \
                 daemon does not see it"
                    .to_owned()
            }
        }
    }

    /// What to do before the device can be used.
    fn advice(&self) -> String {
        match self {
            Self::Ourselves(_) => "it can be used once only".to_owned(),
            Self::Loop(name) => format!("detach that first (`losetup -d /dev/{name}`), or use /dev/{name} itself"),
            Self::Mounted(place) => format!("`umount {place}` first"),
            Self::Swap => "`swapoff` it first".to_owned(),
            Self::Holder(_) => "use that, or take it apart first".to_owned(),
            Self::Programs(programs) if programs.is_empty() => "`lsof` finds which; end that first".to_owned(),
            Self::Programs(_) => "end that first".to_owned(),
            Self::Claimed => "look for it in other containers and on the host; end that first".to_owned(),
        }
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.use_of_it(), self.advice())
    }
}

/// Who else uses the file or block device at `path`, other than this process; as far as that can be told without opening it for
/// writing. Blocks briefly.
///
/// # Errors
/// Those of looking at the path.
pub fn user_of(path: &Path, access: Access) -> io::Result<Option<User>> {
    let metadata = fs::metadata(path)?;
    let footprint = Footprint::of_metadata(&metadata);
    if let Some(user) = loop_over(&footprint, access) {
        return Ok(Some(user));
    }
    if metadata.is_file() && swaps().iter().any(|swap| swap.overlaps(&footprint)) {
        return Ok(Some(User::Swap));
    }
    if metadata.file_type().is_block_device()
        && let Some(user) = claimant(metadata.rdev(), access)
    {
        return Ok(Some(user));
    }
    for _ in 1..LOOKS {
        if program_with(path, &metadata, access).is_none() {
            return Ok(None);
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    Ok(program_with(path, &metadata, access))
}

/// Who has it open, or claimed, in a way that is over when a program ends.
fn program_with(path: &Path, metadata: &Metadata, access: Access) -> Option<User> {
    if metadata.file_type().is_block_device() {
        let writers = User::of_programs(programs::that_write(metadata));
        return writers.or_else(|| (access == Access::Alone && is_claimed(path)).then_some(User::Claimed));
    }
    match is_written(path) {
        Some(true) => Some(User::Programs(programs::that_write(metadata))),
        // Files that never had a name (memfd_create(2), shmget(2)) count no writers; some file systems do not tell.
        Some(false) if metadata.nlink() > 0 => None,
        Some(false) | None => User::of_programs(programs::that_write(metadata)),
    }
}

/// Whether somebody keeps others off a block device. It is claimed for a moment, for nothing else asks the kernel.
fn is_claimed(path: &Path) -> bool {
    let flags = libc::O_EXCL | libc::O_NONBLOCK;
    let claimed = File::options().read(true).custom_flags(flags).open(path);
    claimed.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

/// Who else uses a block device that nobody is kept off: by a mount, by a device made of it, open for writing, or by keeping others
/// off it, as a file system of several devices and one that is mounted elsewhere do. Blocks briefly.
///
/// # Errors
/// Those of looking at the path.
pub fn holder_of(path: &Path) -> io::Result<Option<User>> {
    let metadata = fs::metadata(path)?;
    let shown = loop_over(&Footprint::of_metadata(&metadata), Access::Alone)
        .or_else(|| claimant(metadata.rdev(), Access::Alone));
    Ok(shown.or_else(|| program_with(path, &metadata, Access::Alone)))
}

/// Who keeps us from a device that the kernel says is busy.
pub(crate) fn user_of_busy(metadata: &Metadata) -> User {
    let is_block_device = metadata.file_type().is_block_device();
    let shown = is_block_device.then(|| claimant(metadata.rdev(), Access::Alone)).flatten();
    shown.unwrap_or_else(|| match programs::that_write(metadata) {
        programs if programs.is_empty() && is_block_device => User::Claimed,
        programs => User::Programs(programs),
    })
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

/// Who has come since this process opened something, and can write the same bytes: with the path of what is open. Blocks briefly.
pub fn latecomers() -> Vec<(PathBuf, User)> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|device| device.life.strong_count() > 0);
    let ours: Vec<(PathBuf, Footprint)> =
        open.iter().map(|device| (device.path.clone(), device.footprint.clone())).collect();
    drop(open);
    if ours.is_empty() {
        return Vec::new();
    }
    let (writers, swaps) = (Writer::all(), swaps());
    let latecomer = |(path, footprint): (PathBuf, Footprint)| {
        let swap = || swaps.iter().any(|swap| swap.overlaps(&footprint)).then_some(User::Swap);
        let user = writers.iter().find_map(|writer| writer.writes(&footprint).then(|| writer.user.clone()));
        Some((path, user.or_else(swap)?))
    };
    ours.into_iter().filter_map(latecomer).collect()
}

/// A block device through which somebody writes, or can.
struct Writer {
    device: u64,
    footprint: Footprint,
    user: User,
    /// Whoever stands on the device itself is no other.
    is_loop: bool,
}

impl Writer {
    fn all() -> Vec<Self> {
        let claims = Claims::now();
        let of = |device: u64, user, is_loop| Self { device, footprint: Footprint::of_device(device), user, is_loop };
        let loops = sysfs::bound_loops().into_iter().filter(|(_, device)| !sysfs::is_read_only(*device));
        let loops = loops.map(|(name, device)| of(device, User::Loop(name), true));
        let claimed = sysfs::all().into_iter().filter_map(|device| {
            let user = claims.of(device, Access::Read)?;
            Some(of(device, user, false))
        });
        loops.chain(claimed).collect()
    }

    /// Whether it can write what somebody else has that stands for `footprint`. What that lies on is shared with others.
    fn writes(&self, footprint: &Footprint) -> bool {
        let is_below = footprint.stands_on(self.device) && (self.is_loop || self.footprint != *footprint);
        !is_below && self.footprint.overlaps(footprint)
    }
}

/// Who has claimed a block device or a partition of it, as far as that is shown. Programs that do so are not.
fn claimant(device: u64, access: Access) -> Option<User> {
    let claims = Claims::now();
    sysfs::with_partitions(device).into_iter().find_map(|device| claims.of(device, access))
}

/// Who has claimed what by now, read once for all devices that are asked about.
struct Claims {
    mounts: Vec<Mount>,
    /// Block devices that the kernel swaps to.
    swaps: Vec<u64>,
}

impl Claims {
    fn now() -> Self {
        let mounts = mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
        let swaps = swap_metadata().filter(|metadata| metadata.file_type().is_block_device());
        Self { mounts, swaps: swaps.map(|metadata| metadata.rdev()).collect() }
    }

    fn of(&self, device: u64, access: Access) -> Option<User> {
        let mount = mount_of(&self.mounts, device).filter(|mount| !mount.read_only || access == Access::Alone);
        let mounted = mount.map(|mount| User::Mounted(mount.place.clone()));
        let swap = || self.swaps.contains(&device).then_some(User::Swap);
        mounted.or_else(swap).or_else(|| sysfs::holder(device).map(User::Holder))
    }
}

struct Mount {
    /// By the number that it has, and by its source: some file systems (btrfs) have a number of their own.
    devices: [Option<u64>; 2],
    place: String,
    read_only: bool,
}

/// proc_pid_mountinfo(5): major:minor is the third word, the mount point the fifth, the superblock's options the last.
fn mounts(mountinfo: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (mount, source) = line.split_once(" - ")?;
        let words: Vec<&str> = mount.split(' ').collect();
        let (major, minor) = words.get(2)?.split_once(':')?;
        let number = major.parse().ok().zip(minor.parse().ok()).map(|(major, minor)| libc::makedev(major, minor));
        let metadata = source.split(' ').nth(1).and_then(|source| fs::metadata(source).ok());
        let by_source = metadata.filter(|metadata| metadata.file_type().is_block_device());
        let read_only = source.rsplit(' ').next()?.split(',').any(|option| option == "ro");
        let devices = [number, by_source.map(|metadata| metadata.rdev())];
        Some(Mount { devices, place: (*words.get(4)?).to_owned(), read_only })
    };
    mountinfo.lines().filter_map(mount).collect()
}

fn mount_of(mounts: &[Mount], device: u64) -> Option<&Mount> {
    mounts.iter().find(|mount| mount.devices.contains(&Some(device)))
}

/// Of the devices and files that the kernel swaps to.
fn swaps() -> Vec<Footprint> {
    swap_metadata().map(|metadata| Footprint::of_metadata(&metadata)).collect()
}

fn swap_metadata() -> impl Iterator<Item = Metadata> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths: Vec<String> =
        swaps.lines().skip(1).filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    paths.into_iter().filter_map(|path| fs::metadata(path).ok())
}

/// Whether anybody has the file open for writing: its file system grants a lease for reading only then not. `None`: it does not tell.
fn is_written(path: &Path) -> Option<bool> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    let metadata = file.metadata();
    let file = OwnedFd::from(file);
    let closed = metadata.and_then(|metadata| Closed::for_file(&file, &metadata)).unwrap_or(Closed::AtOnce);
    sys::is_open_for_writing(&OpenFile::new(file, closed))
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

#[cfg(test)]
mod tests {
    use super::*;

    // proves: F10
    #[test]
    fn a_mount_is_found_by_number_and_tells_whether_it_writes() {
        let mountinfo = "29 1 8:17 / /home rw,relatime shared:1 - ext4 /dev/sdb1 rw,errors=remount-ro\n\
                      30 1 8:33 / /media/with\\040space ro - vfat /nowhere/sdc1 ro\n";
        let mounts = mounts(mountinfo);
        let home = mount_of(&mounts, libc::makedev(8, 17)).unwrap();
        assert_eq!((home.place.as_str(), home.read_only), ("/home", false));
        assert!(mount_of(&mounts, libc::makedev(8, 33)).unwrap().read_only);
        assert!(mount_of(&mounts, libc::makedev(8, 18)).is_none());
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
