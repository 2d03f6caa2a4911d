//! Block devices that this process serves, by the kernel's driver for such (`drivers/block/ublk_drv.c`, `linux/ublk_cmd.h`): commands
//! to the driver, and the requests of a device. What they mean is known above.
//!
//! Why `unsafe`: the driver reads and writes memory that commands point to, and shows its requests in memory of its own. The
//! invariants, kept by this file: a command owns its memory until the driver is done with it, and else it is leaked; the driver's
//! memory is read while it is mapped, in whole words, and never written.

#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::operation::{DriverCommand, RingOperation};
use crate::{HostEnv, sys, sysfs};

/// Where commands go.
const CONTROL: &str = "/dev/ublk-control";

/// How long the driver may take: what it does meanwhile is making or ending a block device.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// What a description of a request takes.
pub const UBLK_REQUEST_BYTES: usize = 24;
const WORDS: usize = UBLK_REQUEST_BYTES / size_of::<u64>();

/// `UBLK_U_IO_FETCH_REQ` and `UBLK_U_IO_COMMIT_AND_FETCH_REQ`.
const FETCH: u32 = 0xc010_7520;
const COMMIT_AND_FETCH: u32 = 0xc010_7521;

/// Where the bytes of requests are in the device's file, and how many each may have there.
const DATA_OFFSET: u64 = 0x8000_0000;
const DATA_BITS: u32 = 25;

/// In the unit of sysfs, whatever the device's own sector is.
const SECTOR_BYTES: u64 = 512;

/// A command to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkCommand {
    /// An ioctl's.
    pub number: u32,
    /// The number of a device of this driver's.
    pub device: u32,
    pub value: u64,
}

impl UblkCommand {
    /// `struct ublksrv_ctrl_cmd`: which device, which queue (none), the memory, the value.
    fn encode(&self, memory: &mut [u8]) -> [u8; 80] {
        let mut bytes = [0; 80];
        let length = u16::try_from(memory.len()).expect("a command is about a structure of fewer than 2^16 bytes");
        let address = if memory.is_empty() { 0 } else { memory.as_mut_ptr().expose_provenance() };
        let address = u64::try_from(address).expect("an address fits 64 bits");
        bytes[0..4].copy_from_slice(&self.device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
        bytes[6..8].copy_from_slice(&length.to_ne_bytes());
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.value.to_ne_bytes());
        bytes
    }
}

/// A way to the driver. Its calls block.
pub struct UblkControl {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    file: File,
}

impl UblkControl {
    /// # Errors
    /// `NotFound`: the kernel has no such driver, or its module is not loaded.
    pub fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        let ring = IoUring::builder().dontfork().build(2)?;
        Ok(Self { ring, file })
    }

    /// Whether there is a driver to ask. Blocks briefly.
    pub fn is_there() -> bool {
        Path::new(CONTROL).exists()
    }

    /// Has the driver do something with `memory`, and answers that when it has done it.
    ///
    /// # Errors
    /// The driver's; `TimedOut`: it has not done it in half a minute.
    pub fn command(mut self, command: &UblkCommand, mut memory: Vec<u8>) -> io::Result<(Self, Vec<u8>)> {
        let bytes = command.encode(&mut memory);
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), command.number).cmd(bytes).build();
        // SAFETY: the entry points to `memory`, which is on the heap and lives until the completion below, or for ever.
        unsafe { self.ring.submission().push(&entry) }.expect("nothing else is in the queue");
        let limit = types::Timespec::from(COMMAND_TIMEOUT);
        let waited = self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&limit));
        let Some(completion) = self.ring.completion().next() else {
            mem::forget(memory);
            return Err(waited.err().unwrap_or_else(|| io::ErrorKind::TimedOut.into()));
        };
        match completion.result() {
            0.. => Ok((self, memory)),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}

/// A block device of this driver's, as sysfs tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkDisk {
    /// Its number among those of this driver.
    pub device: u32,
    pub size_bytes: u64,
    /// Of the block device.
    pub number: u64,
}

impl UblkDisk {
    /// The numbers of all devices of this driver's, those that have no block device yet included. Blocks briefly.
    pub fn devices() -> Vec<u32> {
        Self::devices_in(Path::new("/sys/class/ublk-char"))
    }

    fn devices_in(folder: &Path) -> Vec<u32> {
        let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.strip_prefix("ublkc")?.parse().ok()).collect()
    }

    /// The block device of that number; `None`: there is none now. Blocks briefly.
    pub fn of(device: u32) -> Option<Self> {
        Self::at(device, &Path::new("/sys/block").join(format!("ublkb{device}")))
    }

    fn at(device: u32, directory: &Path) -> Option<Self> {
        let size_bytes = sysfs::number::<u64>(&directory.join("size"))? * SECTOR_BYTES;
        Some(Self { device, size_bytes, number: sysfs::number_of(directory)? })
    }

    /// Where programs find it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.device))
    }
}

/// The requests of a device. It goes to the thread that is to fetch them, and stays there.
pub struct UblkQueue {
    data: UblkData,
    descriptions: Descriptions,
    depth: u16,
}

impl UblkQueue {
    /// Of the device of that number, which nobody serves now, and which has so many requests at once.
    ///
    /// # Errors
    /// Somebody has it open.
    pub fn open(device: u32, depth: u16) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/dev/ublkc{device}"))?;
        let descriptions = Descriptions::map(&file, usize::from(depth))?;
        Ok(Self { data: UblkData::of(file), descriptions, depth })
    }

    /// How many requests there are at once at most. They are told apart by a tag below that.
    pub fn depth(&self) -> u16 {
        self.depth
    }

    pub fn data(&self) -> UblkData {
        self.data.clone()
    }

    /// Waits for the first request of a tag.
    ///
    /// # Errors
    /// The device is gone.
    pub async fn fetch(&self, env: &HostEnv, tag: u16) -> io::Result<[u8; UBLK_REQUEST_BYTES]> {
        self.ask(env, FETCH, tag, 0).await
    }

    /// Answers the request of a tag with a count of bytes, or an error number below zero, and waits for the next one.
    ///
    /// # Errors
    /// The device is gone.
    pub async fn answer_and_fetch(&self, env: &HostEnv, tag: u16, answer: i32) -> io::Result<[u8; UBLK_REQUEST_BYTES]> {
        self.ask(env, COMMIT_AND_FETCH, tag, answer).await
    }

    async fn ask(&self, env: &HostEnv, number: u32, tag: u16, answer: i32) -> io::Result<[u8; UBLK_REQUEST_BYTES]> {
        let (file, bytes) = (Arc::clone(&self.data.0), encode_answer(tag, answer));
        let (_, outcome) = env.submit(RingOperation::Driver(DriverCommand { file, number, bytes })).await;
        outcome.map_err(io::Error::from_raw_os_error)?;
        Ok(self.descriptions.read(usize::from(tag)))
    }
}

/// `struct ublksrv_io_cmd`: the queue (the first), the tag, the answer, no address.
fn encode_answer(tag: u16, answer: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&answer.to_ne_bytes());
    bytes
}

/// The bytes of a device's requests, on any thread. A handle: cloning it is cheap. Nothing here waits.
#[derive(Clone, Debug)]
pub struct UblkData(Arc<File>);

impl UblkData {
    /// Those that are in a file, each tag's at its place.
    pub fn of(file: File) -> Self {
        Self(Arc::new(file))
    }

    /// What the request of a tag writes.
    ///
    /// # Errors
    /// The driver has no such request.
    pub fn take(&self, tag: u16, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, data_offset(tag))
    }

    /// What the request of a tag reads.
    ///
    /// # Errors
    /// The driver has no such request.
    pub fn give(&self, tag: u16, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, data_offset(tag))
    }
}

fn data_offset(tag: u16) -> u64 {
    DATA_OFFSET + (u64::from(tag) << DATA_BITS)
}

/// The driver's memory in which it describes its requests.
struct Descriptions {
    base: NonNull<u64>,
    bytes: usize,
    count: usize,
}

// SAFETY: the memory is the process's, and only read, whatever thread does so.
unsafe impl Send for Descriptions {}

impl Descriptions {
    fn map(file: &File, count: usize) -> io::Result<Self> {
        let page = usize::try_from(sys::memory_page_bytes()).expect("a page has fewer bytes than 32 bits can count");
        let bytes = (count * UBLK_REQUEST_BYTES).next_multiple_of(page);
        let (nowhere, flags) = (std::ptr::null_mut(), libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping, where the kernel likes.
        let base = unsafe { libc::mmap(nowhere, bytes, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at the address 0");
        Ok(Self { base, bytes, count })
    }

    fn read(&self, index: usize) -> [u8; UBLK_REQUEST_BYTES] {
        assert!(index < self.count, "there is no such request");
        let mut request = [0; UBLK_REQUEST_BYTES];
        for (word, bytes) in request.as_chunks_mut().0.iter_mut().enumerate() {
            // SAFETY: it is below `count` descriptions (checked above), for which `map` has made room.
            let place = unsafe { self.base.add(index * WORDS + word) };
            // SAFETY: as above, and the words of a mapping, which begins with a page, are aligned.
            let value = unsafe { place.read_volatile() };
            *bytes = value.to_ne_bytes();
        }
        request
    }
}

impl Drop for Descriptions {
    fn drop(&mut self) {
        // SAFETY: it is the mapping that `map` made, of that length, and nobody else knows of it.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_command_names_its_device_no_queue_and_its_memory() {
        let mut memory = vec![0; 64];
        let bytes = UblkCommand { number: 1, device: 0x0102_0304, value: 7 }.encode(&mut memory);
        assert_eq!(bytes[0..4], 0x0102_0304_u32.to_ne_bytes());
        assert_eq!((&bytes[4..6], &bytes[6..8]), (&[0xff, 0xff][..], &64_u16.to_ne_bytes()[..]));
        assert_eq!(bytes[8..16], memory.as_ptr().addr().to_ne_bytes());
        assert_eq!((&bytes[16..24], &bytes[24..80]), (&7_u64.to_ne_bytes()[..], &[0; 56][..]));
        let none = UblkCommand { number: 1, device: 0, value: 0 }.encode(&mut []);
        assert_eq!(none[6..16], [0; 10], "without memory there is no address");
    }

    #[test]
    fn an_answer_names_the_tag_and_what_became_of_the_request() {
        let bytes = encode_answer(0x0102, -5);
        assert_eq!((&bytes[0..2], &bytes[2..4]), (&[0, 0][..], &0x0102_u16.to_ne_bytes()[..]));
        assert_eq!((&bytes[4..8], &bytes[8..16]), (&(-5_i32).to_ne_bytes()[..], &[0; 8][..]));
        // `_IOWR('u', 0x20, struct ublksrv_io_cmd)` and the next one.
        let number = |command: u32| 3 << 30 | 16 << 16 | u32::from(b'u') << 8 | command;
        assert_eq!((FETCH, COMMIT_AND_FETCH), (number(0x20), number(0x21)));
    }

    #[test]
    fn devices_are_found_by_their_numbers_and_have_a_size_when_they_are_block_devices() {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("ublkb3");
        fs::create_dir(&disk).unwrap();
        fs::create_dir(root.path().join("ublkc12")).unwrap();
        assert_eq!(UblkDisk::devices_in(root.path()), [12]);
        assert_eq!(UblkDisk::at(3, &disk), None);
        fs::write(disk.join("size"), "2048\n").unwrap();
        fs::write(disk.join("dev"), "259:3\n").unwrap();
        let found = UblkDisk::at(3, &disk).unwrap();
        assert_eq!((found.size_bytes, found.number), (1 << 20, libc::makedev(259, 3)));
        assert_eq!(found.path(), Path::new("/dev/ublkb3"));
    }

    #[test]
    fn the_bytes_of_each_tag_have_a_place_of_their_own() {
        assert_eq!((data_offset(0), data_offset(3)), (0x8000_0000, 0x8000_0000 + 3 * (32 << 20)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "a mapping of a file")]
    fn the_description_of_a_request_is_that_of_its_tag() {
        let mut file = tempfile::tempfile().unwrap();
        let words: Vec<u8> = (0..3 * WORDS).flat_map(|word| word.to_ne_bytes()).collect();
        file.write_all(&words).unwrap();
        file.set_len(sys::memory_page_bytes()).unwrap();
        let descriptions = Descriptions::map(&file, 3).unwrap();
        assert_eq!(descriptions.read(1)[..], words[UBLK_REQUEST_BYTES..2 * UBLK_REQUEST_BYTES]);
    }
}
