//! A file that is no whole number of blocks is read and written to its last byte: in a directory of this machine, and on file systems
//! whose direct I/O takes blocks of 4096 bytes, for which it takes root, `losetup` and `mkfs`; says so loudly where it has not got
//! them.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use futures_util::future::{join_all, join3};
use hotset_block::{Buf, ByteRange, Device, DeviceErrorKind, FileDevice, FileOptions, ZeroMode};

use crate::together::{Alone, run};

const TO_THE_END: FileOptions = FileOptions { read_only: false, claimed: false, to_the_end: true };
const WHOLE_BYTES: u64 = 1 << 20;

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// A directory, maybe of a file system of its own, taken down with the value.
struct Place {
    path: PathBuf,
    device: Option<String>,
    _directory: tempfile::TempDir,
}

impl Place {
    fn here() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { path: directory.path().to_owned(), device: None, _directory: directory }
    }

    /// On a disk with sectors of 4096 bytes; `None` if that cannot be made here.
    fn of_large_sectors(kind: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let (image, path) = (directory.path().join("image"), directory.path().join("place"));
        fs::create_dir(&path).unwrap();
        assert!(succeeds("truncate", &["-s", "320M", image.to_str().unwrap()]));
        let arguments = ["--sector-size", "4096", "--find", "--show", image.to_str().unwrap()];
        let output = Command::new("losetup").args(arguments).output().ok()?;
        if !output.status.success() {
            return None;
        }
        let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        // Whoever had it before may have left it read-only.
        succeeds("blockdev", &["--setrw", &device]);
        let place = Self { path, device: Some(device.clone()), _directory: directory };
        let mounted = succeeds(&format!("mkfs.{kind}"), &["-q", &device])
            && succeeds("mount", &[&device, place.path.to_str().unwrap()]);
        mounted.then_some(place)
    }

    fn all() -> Vec<Self> {
        let large = ["ext4", "xfs", "btrfs"].into_iter().filter_map(|kind| {
            let place = Self::of_large_sectors(kind);
            if place.is_none() {
                // Past the test harness, which keeps to itself what a passing test prints.
                let said = format!("\nSKIPPED: {kind} with sectors of 4096 bytes cannot be mounted here\n");
                std::io::stdout().write_all(said.as_bytes()).expect("standard output takes what tests print");
            }
            place
        });
        std::iter::once(Self::here()).chain(large).collect()
    }

    /// A file of `WHOLE_BYTES` of 1 and then so many bytes of 2.
    fn file(&self, more: u64) -> PathBuf {
        let path = self.path.join(format!("image-{more}"));
        let mut bytes = vec![1; usize::try_from(WHOLE_BYTES).unwrap()];
        bytes.resize(bytes.len() + usize::try_from(more).unwrap(), 2);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(device) = &self.device else { return };
        succeeds("umount", &[self.path.to_str().unwrap()]);
        assert!(succeeds("losetup", &["--detach", device]), "{device} stays behind");
    }
}

fn filled(length: u64, value: u8) -> Buf {
    let mut buf = Buf::zeroed(usize::try_from(length).unwrap());
    buf.fill(value);
    buf
}

async fn read(device: &FileDevice, range: ByteRange) -> Vec<u8> {
    let (buf, result) = device.read(range.start, filled(range.length(), 0xee)).await;
    result.unwrap_or_else(|error| panic!("{range:?}: {error}"));
    buf.to_vec()
}

/// The last blocks of a device, across the place where direct I/O ends.
fn end_of(device: &FileDevice) -> ByteRange {
    ByteRange { start: WHOLE_BYTES - 65_536, end: device.info().size_bytes }
}

fn sizes_beside_blocks() -> [u64; 4] {
    [2560, 512, 700, 4096 + 1]
}

// proves: D13
#[test]
fn the_last_bytes_are_read_and_written_like_all_others() {
    let alone = Alone::among_tests();
    for place in Place::all() {
        for more in sizes_beside_blocks() {
            let path = place.file(more);
            alone.run(async |env| {
                let device = FileDevice::open(&env, &path, TO_THE_END).unwrap();
                let sectors = (WHOLE_BYTES + more).next_multiple_of(512);
                assert_eq!((device.info().size_bytes, device.end_bytes()), (sectors, WHOLE_BYTES + more), "{path:?}");
                let bytes = read(&device, end_of(&device)).await;
                let (before, last) = bytes.split_at(65_536);
                let (last, lacking) = last.split_at(usize::try_from(more).unwrap());
                assert!(before.iter().all(|byte| *byte == 1) && last.iter().all(|byte| *byte == 2), "{path:?}");
                assert!(lacking.iter().all(|byte| *byte == 0), "{path:?}");
                let length = end_of(&device).length();
                device.write(end_of(&device).start, filled(length, 7)).await.1.unwrap();
                device.flush().await.unwrap();
                assert!(read(&device, end_of(&device)).await.iter().all(|byte| *byte == 7), "{path:?}");
            });
            let bytes = fs::read(&path).unwrap();
            assert_eq!(u64::try_from(bytes.len()).unwrap(), (WHOLE_BYTES + more).next_multiple_of(512), "{path:?}");
            assert!(bytes[usize::try_from(WHOLE_BYTES).unwrap()..].iter().all(|byte| *byte == 7), "{path:?}");
        }
    }
}

#[test]
fn zeroes_and_discards_reach_the_last_byte_and_make_the_file_no_longer() {
    let alone = Alone::among_tests();
    for place in Place::all() {
        for more in sizes_beside_blocks() {
            for zeroes in ["written", "allocated", "punched", "discarded"] {
                let path = place.file(more);
                alone.run(async |env| {
                    let device = FileDevice::open(&env, &path, TO_THE_END).unwrap();
                    let range = end_of(&device);
                    // In the page cache first: what is there must not come back.
                    device.write(range.start, filled(range.length(), 7)).await.1.unwrap();
                    match zeroes {
                        "written" => device.write(range.start, filled(range.length(), 0)).await.1.unwrap(),
                        "allocated" => device.write_zeroes(range, ZeroMode::KeepAllocated).await.unwrap(),
                        "punched" => device.write_zeroes(range, ZeroMode::MayPunch).await.unwrap(),
                        _ => device.discard(range).await.unwrap(),
                    }
                    assert!(read(&device, range).await.iter().all(|byte| *byte == 0), "{path:?}: {zeroes}");
                    let parts = device.allocation(range, 100).await.unwrap();
                    assert!(parts.iter().all(|part| part.length.is_multiple_of(512)), "{path:?}: {parts:?}");
                    assert_eq!(parts.iter().map(|part| part.length).sum::<u64>(), range.length(), "{path:?}");
                });
                fs::remove_file(&path).unwrap();
                let path = place.file(more);
                alone.run(async |env| {
                    let device = FileDevice::open(&env, &path, TO_THE_END).unwrap();
                    let range = end_of(&device);
                    device.write(range.start, filled(range.length(), 0)).await.1.unwrap();
                });
                let bytes = fs::read(&path).unwrap();
                assert_eq!(u64::try_from(bytes.len()).unwrap(), WHOLE_BYTES + more, "{path:?}");
            }
        }
    }
}

#[test]
fn a_file_that_grows_is_served_to_its_new_end_and_one_that_is_cut_is_gone() {
    let alone = Alone::among_tests();
    for place in Place::all() {
        let path = place.file(0);
        alone.run(async |env| {
            let device = FileDevice::open(&env, &path, TO_THE_END).unwrap();
            for more in [700, 2560, 4096, 12_288 + 512] {
                let file = OpenOptions::new().write(true).open(&path).unwrap();
                let before = file.metadata().unwrap().len();
                file.write_all_at(&vec![3; usize::try_from(WHOLE_BYTES + more - before).unwrap()], before).unwrap();
                let sectors = (WHOLE_BYTES + more).next_multiple_of(512);
                assert_eq!(device.grow().unwrap(), sectors, "{path:?}");
                let bytes = read(&device, ByteRange { start: WHOLE_BYTES, end: sectors }).await;
                assert!(bytes[..usize::try_from(more).unwrap()].iter().all(|byte| *byte == 3), "{path:?}: {more}");
                // Of somebody who saw the file before it grew.
                let then = before.next_multiple_of(512);
                let start = then / 4096 * 4096;
                device.write(start, filled(then - start, 3)).await.1.unwrap();
            }
            File::options().write(true).open(&path).unwrap().set_len(WHOLE_BYTES + 100).unwrap();
            let end = ByteRange { start: WHOLE_BYTES, end: device.info().size_bytes };
            let (_, result) = device.read(end.start, filled(end.length(), 0)).await;
            assert_eq!(result.unwrap_err().kind, DeviceErrorKind::Gone, "{path:?}");
            let (_, result) = device.write(0, filled(4096, 0)).await;
            assert_eq!(result.unwrap_err().kind, DeviceErrorKind::Gone, "{path:?}");
        });
    }
}

// A read that the kernel answered from the shorter file may be looked at after the write that made it longer.
// proves: D13
#[test]
fn a_read_beside_the_write_that_fills_the_last_sector_is_no_sign_that_the_file_was_cut() {
    let place = Place::here();
    for _ in 0..1000 {
        let path = place.file(2060);
        run(async |env| {
            let device = FileDevice::open(&env, &path, TO_THE_END).unwrap();
            let range = ByteRange { start: WHOLE_BYTES, end: device.info().size_bytes };
            let write = async { device.write(range.start, filled(range.length(), 7)).await.1 };
            let (read, written, after) =
                join3(join_all((0..4).map(|_| read(&device, range))), write, read(&device, range)).await;
            written.unwrap();
            assert!(read.iter().chain([&after]).all(|bytes| bytes[..2060].iter().all(|byte| [2, 7].contains(byte))));
            assert_eq!(self::read(&device, range).await, vec![7; usize::try_from(range.length()).unwrap()]);
        });
    }
}

#[test]
fn who_does_not_ask_for_the_end_gets_whole_blocks() {
    let place = Place::here();
    let path: &Path = &place.file(700);
    run(async |env| {
        let device = FileDevice::open(&env, path, FileOptions::default()).unwrap();
        assert_eq!((device.info().size_bytes, device.end_bytes()), (WHOLE_BYTES + 512, WHOLE_BYTES + 700));
    });
}
