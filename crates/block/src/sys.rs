//! The system calls that neither the standard library nor the ring offers, each behind a safe function.
//!
//! Why `unsafe`: they are foreign functions. Each function here passes only pointers to memory that lives in its own
//! frame or is borrowed by its arguments, and lengths that belong to it.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_ulong, c_void};
use std::io::{self, IoSlice};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ByteRange;

/// The most parts that one message may have (`UIO_MAXIOV` of Linux).
pub(crate) const MESSAGE_PARTS_MAX: usize = 1024;

/// Of `linux/prctl.h`, since Linux 5.6.
const PR_SET_IO_FLUSHER: c_int = 57;

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_size(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(mem::size_of::<T>()).expect("an argument of a socket has fewer than 2^31 bytes")
}

/// Takes over a file descriptor that the kernel has just made, or that this process was given at its start.
///
/// # Panics
/// If `fd` is negative.
///
/// # Safety
/// The descriptor is open, and whoever calls is its only owner: it is closed with what this answers.
pub(crate) unsafe fn adopt(fd: RawFd) -> OwnedFd {
    assert!(fd >= 0, "a descriptor that the kernel made is not negative");
    // SAFETY: that is what the caller promises.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Fills `bytes` with the kernel's randomness.
pub(crate) fn random_bytes(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: the pointer and the length are those of one live slice.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match check_size(got) {
            Ok(count) => filled += count,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Interrupted, "getrandom only fails when interrupted"),
        }
    }
}

/// A counter that one thread raises and another one waits for.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    // SAFETY: the call that succeeded made the descriptor, and gave it to nobody else.
    check(fd).map(|fd| unsafe { adopt(fd) })
}

/// A socket to the kernel's generic netlink families.
pub(crate) fn generic_netlink() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_GENERIC) };
    // SAFETY: the call that succeeded made the descriptor, and gave it to nobody else.
    check(fd).map(|fd| unsafe { adopt(fd) })
}

/// Memory that this thread, and threads that it starts from now on, ask for is never waited for by writing to block devices.
pub(crate) fn become_io_flusher() -> io::Result<()> {
    let (on, nothing) = (c_ulong::from(true), c_ulong::from(false));
    // SAFETY: the option takes numbers only.
    check(unsafe { libc::prctl(PR_SET_IO_FLUSHER, on, nothing, nothing, nothing) }).map(drop)
}

/// Memory of this process stays where it is once it was touched.
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) }).map(drop)
}

/// How many bytes this process may lock; `None`: any number.
pub(crate) fn locked_bytes_max() -> io::Result<Option<u64>> {
    let (now, _) = limits_of(libc::RLIMIT_MEMLOCK)?;
    Ok((now != libc::RLIM_INFINITY).then_some(now))
}

/// Raises an eventfd. A counter at its limit is raised already, so that an error is no loss.
pub(crate) fn eventfd_raise(fd: &OwnedFd) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: the pointer and the length are those of one live array.
    let _ = unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// Sets an eventfd back to zero.
pub(crate) fn eventfd_clear(fd: &OwnedFd) {
    let mut count = [0_u8; 8];
    // SAFETY: the pointer and the length are those of one live array.
    let _ = unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}

/// Waits for at most so long, but for whole milliseconds, until one of the descriptors has what is asked of it; no time at all only
/// looks.
pub(crate) fn poll(descriptors: &mut [libc::pollfd], limit: Duration) -> io::Result<()> {
    let count = libc::nfds_t::try_from(descriptors.len()).expect("descriptors are numbered with 31 bits");
    let limit_ms = c_int::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX);
    // SAFETY: the pointer and the count are those of one live slice.
    check(unsafe { libc::poll(descriptors.as_mut_ptr(), count, limit_ms) }).map(drop)
}

/// `flock` without waiting.
pub(crate) fn lock(fd: &OwnedFd, operation: c_int) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::flock(fd.as_raw_fd(), operation | libc::LOCK_NB) }).map(drop)
}

/// The smallest unit of a block device's transfers, in bytes.
pub(crate) fn logical_block_bytes(fd: &OwnedFd) -> io::Result<c_int> {
    // SAFETY: this request writes an int.
    unsafe { ioctl_int(fd, libc::BLKSSZGET) }
}

/// Tells a file from others that had its inode number before. Not every file system knows it.
pub(crate) fn file_generation(fd: &OwnedFd) -> io::Result<c_int> {
    // SAFETY: this request writes an int, and is declared with a long.
    unsafe { ioctl_int(fd, libc::FS_IOC_GETVERSION) }
}

/// An ioctl that writes one `c_int`.
///
/// # Safety
/// The request takes a pointer, and writes at most a long there.
unsafe fn ioctl_int(fd: &OwnedFd, request: libc::Ioctl) -> io::Result<c_int> {
    let mut value: [c_int; 2] = [0; 2];
    // SAFETY: the caller promises that a long is the most that is written, for which `value` has room.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request, value.as_mut_ptr()) })?;
    Ok(value[0])
}

fn statx(fd: &OwnedFd, flags: c_int, mask: u32) -> io::Result<libc::statx> {
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    let flags = flags | libc::AT_EMPTY_PATH;
    // SAFETY: the path is a static C string and `status` is large enough for what the call writes.
    check(unsafe { libc::statx(fd.as_raw_fd(), c"".as_ptr(), flags, mask, status.as_mut_ptr()) })?;
    // SAFETY: all bit patterns are valid for this plain struct, and it was zeroed.
    Ok(unsafe { status.assume_init() })
}

/// The offset alignment that direct I/O on this file needs, if the file system tells.
pub(crate) fn direct_io_alignment(fd: &OwnedFd) -> Option<u32> {
    let status = statx(fd, 0, libc::STATX_DIOALIGN).ok()?;
    (status.stx_mask & libc::STATX_DIOALIGN != 0).then_some(status.stx_dio_offset_align).filter(|align| *align > 0)
}

/// Keeps the kernel from reading more of the file than is asked for.
pub(crate) fn expect_random_reads(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: the call takes no memory.
    match unsafe { libc::posix_fadvise(fd.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// The pages in which this machine's memory, and so the page cache, is divided.
pub(crate) fn memory_page_bytes() -> u64 {
    // SAFETY: the call takes no memory.
    let answer = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(answer).ok().filter(|bytes| bytes.is_power_of_two()).expect("every machine has pages")
}

/// A regular file's size as this machine knows it. Never waits: neither for who holds the inode's lock (as a `SEEK_END`
/// would), nor for the server of a network file system.
pub(crate) fn known_size(fd: &OwnedFd) -> io::Result<u64> {
    Ok(statx(fd, libc::AT_STATX_DONT_SYNC, libc::STATX_SIZE)?.stx_size)
}

/// The id of the file system that holds the file.
pub(crate) fn file_system_id(fd: &OwnedFd) -> io::Result<u64> {
    let mut status = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: `status` is large enough for what the call writes.
    check(unsafe { libc::fstatvfs(fd.as_raw_fd(), status.as_mut_ptr()) })?;
    // SAFETY: all bit patterns are valid for this plain struct, and it was zeroed.
    Ok(unsafe { status.assume_init() }.f_fsid)
}

/// The UUID of the file system that holds the file, where the kernel tells (`FS_IOC_GETFSUUID` of Linux 6.9).
pub(crate) fn file_system_uuid(fd: &OwnedFd) -> Option<Vec<u8>> {
    const FS_IOC_GETFSUUID: libc::Ioctl = 0x8011_1500;
    // A length, and room for so many bytes.
    let mut answer = [0_u8; 17];
    // SAFETY: the kernel writes the 17 bytes of a `struct fsuuid2`, for which `answer` has room.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_GETFSUUID, answer.as_mut_ptr()) }).ok()?;
    let length = usize::from(answer[0]);
    answer.get(1..=length).filter(|uuid| uuid.iter().any(|byte| *byte != 0)).map(<[u8]>::to_vec)
}

/// Whether another program or machine keeps the file, so that whatever is asked of it may wait for that one: even I/O
/// that is not to wait, as on FUSE once its program has enough to do (`fuse_get_req` of Linux 6.18).
pub(crate) fn is_kept_elsewhere(fd: &OwnedFd) -> io::Result<bool> {
    /// Of virtiofs too; then 9P, NFS, CIFS and SMB (linux/magic.h), Ceph (linux/ceph/ceph_fs.h).
    const ELSEWHERE: [u32; 6] = [0x6573_5546, 0x0102_1997, 0x6969, SMB[0], SMB[1], 0x00c3_6400];
    let kind = file_system_kind(fd)?;
    Ok(ELSEWHERE.into_iter().any(|known| i64::from(known) == kind))
}

/// CIFS and SMB of version 2 (linux/magic.h).
const SMB: [u32; 2] = [0xff53_4d42, 0xfe53_4d42];

/// Whether a locked byte cannot be written, by whoever has locked it either.
pub(crate) fn byte_locks_are_mandatory(fd: &OwnedFd) -> io::Result<bool> {
    let kind = file_system_kind(fd)?;
    Ok(SMB.into_iter().any(|known| i64::from(known) == kind))
}

/// Of what kind the file system is that holds the file (statfs(2)). A descriptor opened with `O_PATH` will do.
pub(crate) fn file_system_kind(fd: &OwnedFd) -> io::Result<i64> {
    let mut status = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `status` is large enough for what the call writes.
    check(unsafe { libc::fstatfs(fd.as_raw_fd(), status.as_mut_ptr()) })?;
    // SAFETY: all bit patterns are valid for this plain struct, and it was zeroed.
    Ok(unsafe { status.assume_init() }.f_type)
}

/// One byte of a file, for `fcntl`.
fn one_byte(kind: c_int, start: i64) -> libc::flock {
    let short = |value: c_int| libc::c_short::try_from(value).expect("the constants of locks are below 2^15");
    libc::flock { l_type: short(kind), l_whence: short(libc::SEEK_SET), l_start: start, l_len: 1, l_pid: 0 }
}

/// Locks one byte for reading, for as long as the file description lives; others may do so too. Never waits.
pub(crate) fn lock_byte(fd: &OwnedFd, byte: i64) -> io::Result<()> {
    let wanted = one_byte(libc::F_RDLCK, byte);
    // SAFETY: the pointer is to a live struct of the kind that this command reads.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const wanted) }).map(drop)
}

/// Gives back all locks of bytes that this file description has.
pub(crate) fn unlock_bytes(fd: &OwnedFd) -> io::Result<()> {
    // A length of 0 is up to the end, wherever that is (fcntl(2)).
    let all = libc::flock { l_len: 0, ..one_byte(libc::F_UNLCK, 0) };
    // SAFETY: the pointer is to a live struct of the kind that this command reads.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const all) }).map(drop)
}

/// Whether another file description has locked that byte.
pub(crate) fn is_byte_locked(fd: &OwnedFd, byte: i64) -> io::Result<bool> {
    let mut found = one_byte(libc::F_WRLCK, byte);
    // SAFETY: the pointer is to a live struct of the kind that this command reads and writes.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_GETLK, &raw mut found) })?;
    Ok(c_int::from(found.l_type) != libc::F_UNLCK)
}

/// Whether anybody has the file open for writing; `fd` is open for reading only. False where the file system cannot tell.
pub(crate) fn is_open_for_writing(fd: &OwnedFd) -> Option<bool> {
    /// fcntl(2).
    const F_SETSIG: c_int = 10;
    let raw = fd.as_raw_fd();
    // Who opens the file for writing while the lease is there makes the kernel send a signal: one that nobody heeds.
    // SAFETY: no pointers are passed.
    if check(unsafe { libc::fcntl(raw, F_SETSIG, libc::SIGURG) }).is_err() {
        return None;
    }
    // SAFETY: no pointers are passed.
    match check(unsafe { libc::fcntl(raw, libc::F_SETLEASE, libc::F_RDLCK) }) {
        Ok(_) => {
            // A lease that cannot be given back goes with the descriptor.
            // SAFETY: no pointers are passed.
            let _ = unsafe { libc::fcntl(raw, libc::F_SETLEASE, libc::F_UNLCK) };
            Some(false)
        }
        Err(error) => (error.raw_os_error() == Some(libc::EAGAIN)).then_some(true),
    }
}

/// What the kernel says of a loop device (linux/loop.h).
#[repr(C)]
pub(crate) struct LoopInfo {
    /// The device of the file system that holds the file.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The block device that is shown, if it is no file.
    pub(crate) shown_device: u64,
    pub(crate) offset: u64,
    /// 0: to the end.
    pub(crate) size_limit: u64,
    rest: [u64; 24],
}

/// Fails if nothing is bound to the loop device.
pub(crate) fn loop_info(fd: &OwnedFd) -> io::Result<LoopInfo> {
    const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
    let mut info = LoopInfo { device: 0, inode: 0, shown_device: 0, offset: 0, size_limit: 0, rest: [0; 24] };
    // SAFETY: the kernel writes a `struct loop_info64` of 232 bytes, which is what `LoopInfo` has.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) })?;
    Ok(info)
}

/// Where the next data or the next hole is, or the end: `whence` is `SEEK_DATA`, `SEEK_HOLE` or `SEEK_END`.
pub(crate) fn seek(fd: &OwnedFd, offset: u64, whence: c_int) -> io::Result<u64> {
    let offset = i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: no pointers are passed.
    let found = unsafe { libc::lseek(fd.as_raw_fd(), offset, whence) };
    u64::try_from(found).map_err(|_| io::Error::last_os_error())
}

/// Reserves the first `length` bytes of a file.
pub(crate) fn reserve(fd: &OwnedFd, length: u64) -> io::Result<()> {
    let length = i64::try_from(length).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: no pointers are passed.
    check(unsafe { libc::fallocate(fd.as_raw_fd(), 0, 0, length) }).map(drop)
}

/// Gives a file that was opened without a name this one, which nothing may have.
pub(crate) fn give_name(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    let own = CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    let path = CString::new(path.as_os_str().as_bytes())?;
    let here = libc::AT_FDCWD;
    // SAFETY: both pointers are of live strings that end with a zero, which `CString` keeps.
    check(unsafe { libc::linkat(here, own.as_ptr(), here, path.as_ptr(), libc::AT_SYMLINK_FOLLOW) }).map(drop)
}

/// Gives back what the file takes there; it reads as zeroes.
pub(crate) fn punch(fd: &OwnedFd, start: u64, length: u64) -> io::Result<()> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let (start, length) = (i64::try_from(start).map_err(invalid)?, i64::try_from(length).map_err(invalid)?);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no pointers are passed.
    check(unsafe { libc::fallocate(fd.as_raw_fd(), mode, start, length) }).map(drop)
}

/// Sets an integer socket option.
pub(crate) fn set_option(fd: &OwnedFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let pointer: *const c_void = (&raw const value).cast();
    // SAFETY: the pointer and the length are those of one live integer.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, pointer, length_of::<c_int>()) }).map(drop)
}

/// Who connected to a unix socket: process and user.
pub(crate) fn peer_credentials(fd: &OwnedFd) -> io::Result<(i32, u32)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = length_of::<libc::ucred>();
    let pointer: *mut c_void = (&raw mut credentials).cast();
    // SAFETY: the pointer and the length are those of one live struct.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, pointer, &raw mut length) };
    check(result)?;
    Ok((credentials.pid, credentials.uid))
}

/// A unix socket bound to `path`. Nobody can connect before `listen`, so that its mode can be set in between.
pub(crate) fn unix_socket_bound_to(path: &Path) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the call that succeeded made the descriptor, and gave it to nobody else.
    let fd = unsafe { adopt(fd) };
    let mut address = libc::sockaddr_un {
        sun_family: libc::sa_family_t::try_from(libc::AF_UNIX).expect("AF_UNIX is 1 on Linux"),
        sun_path: [0; 108],
    };
    let name = CString::new(path.as_os_str().as_bytes())?;
    let name = name.as_bytes_with_nul();
    if name.len() > address.sun_path.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path of a unix socket has at most 107 bytes"));
    }
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    let pointer: *const libc::sockaddr = (&raw const address).cast();
    // SAFETY: the pointer and the length are those of one live address.
    check(unsafe { libc::bind(fd.as_raw_fd(), pointer, length_of::<libc::sockaddr_un>()) })?;
    Ok(fd)
}

/// The descriptors that a service manager passed to this process (sd_listen_fds(3)). Children do not get them.
///
/// The first call takes them; later ones find none.
pub(crate) fn inherited_descriptors() -> io::Result<Vec<OwnedFd>> {
    /// Where they begin, by the protocol.
    const FIRST: RawFd = 3;
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let count = RawFd::try_from(number("LISTEN_FDS").unwrap_or(0)).unwrap_or(0);
    let mut descriptors = Vec::new();
    for fd in FIRST..FIRST.saturating_add(count) {
        // SAFETY: no pointers are passed.
        check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
        // SAFETY: it is open, and was there before anything of ours: the manager says so to this process, by its id. The
        // flag above keeps a second call from taking it again.
        descriptors.push(unsafe { adopt(fd) });
    }
    Ok(descriptors)
}

/// Whether a socket takes connections.
pub(crate) fn listens(fd: &OwnedFd) -> io::Result<bool> {
    let mut value: c_int = 0;
    let mut length = length_of::<c_int>();
    let pointer: *mut c_void = (&raw mut value).cast();
    // SAFETY: the pointer and the length are those of one live integer.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ACCEPTCONN, pointer, &raw mut length) };
    check(result)?;
    Ok(value != 0)
}

pub(crate) fn listen(fd: &OwnedFd, backlog: c_int) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// Receives what is there, without waiting.
pub(crate) fn receive_now(fd: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length are those of one live slice.
    check_size(unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) })
}

/// Sends as much of `parts` as the socket takes, without waiting; at most [`MESSAGE_PARTS_MAX`] parts.
pub(crate) fn send_now(fd: &OwnedFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = parts.len().min(MESSAGE_PARTS_MAX);
    // The kernel does not write through these pointers; `IoSlice` has the layout of `iovec` by its documentation.
    let message = message_of(parts.as_ptr().cast_mut().cast(), count);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `message` and the parts it points to outlive the call.
    check_size(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, flags) })
}

/// A message of the `count` parts that start at `parts`.
pub(crate) fn message_of(parts: *mut libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: all bit patterns are valid for this plain struct of pointers and lengths.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = parts;
    message.msg_iovlen = count;
    message
}

pub(crate) fn shutdown(fd: &OwnedFd) {
    // A socket that is not connected any more is shut down already.
    // SAFETY: no pointers are passed.
    let _ = unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
}

/// What this process may have now of a resource (getrlimit(2)), and what it may let itself have.
pub(crate) fn limits_of(resource: libc::__rlimit_resource_t) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to one live struct.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Lets this process have as much as it may, up to `wanted`; answers how much it has now. After an error the limit is what it was.
pub(crate) fn raise_limit(resource: libc::__rlimit_resource_t, wanted: u64) -> io::Result<u64> {
    let (soft, hard) = limits_of(resource)?;
    let wanted = hard.min(wanted);
    if soft >= wanted {
        return Ok(soft);
    }
    let limit = libc::rlimit { rlim_cur: wanted, rlim_max: hard };
    // SAFETY: the pointer is to one live struct.
    check(unsafe { libc::setrlimit(resource, &raw const limit) })?;
    Ok(wanted)
}

/// What the kernel knows of a TCP connection.
pub(crate) fn tcp_info(fd: &OwnedFd) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = length_of::<libc::tcp_info>();
    let pointer: *mut c_void = info.as_mut_ptr().cast();
    // SAFETY: the pointer and the length are those of one live struct.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, pointer, &raw mut length) };
    check(result)?;
    // SAFETY: all bit patterns are valid for this plain struct, and it was zeroed.
    Ok(unsafe { info.assume_init() })
}

/// fallocate(2) with a mode.
pub(crate) fn allocate(fd: &OwnedFd, mode: c_int, range: ByteRange) -> io::Result<()> {
    let signed = |bytes: u64| i64::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG));
    let (start, length) = (signed(range.start)?, signed(range.length())?);
    // SAFETY: no pointers are passed.
    check(unsafe { libc::fallocate(fd.as_raw_fd(), mode, start, length) }).map(drop)
}
