//! A real block device: a loop device over a file. Needs root and `losetup`; says so loudly where it has not got them.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hotset_block::{
    Buf, ByteRange, Device, DeviceErrorKind, Env, ExtentKind, FileDevice, FileOptions, HostEnv, create_image,
};

use crate::together::Alone;

const SIZE_BYTES: u64 = 8 << 20;

/// A loop device that goes away with the value.
struct LoopDevice {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl LoopDevice {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        create_image(&image, SIZE_BYTES, &mut |_| ()).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
        match output {
            Ok(output) if output.status.success() => {
                let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
                let disk = Self { path, _directory: directory };
                // Whoever had it before may have left it read-only.
                disk.protect("--setrw");
                Some(disk)
            }
            Ok(_) | Err(_) => {
                // Past the test harness, which keeps to itself what a passing test prints.
                let said = b"\nSKIPPED: a loop device cannot be made here (needs root and losetup)\n";
                std::io::stdout().write_all(said).expect("standard output takes what tests print");
                None
            }
        }
    }

    /// `--setro` or `--setrw`.
    fn protect(&self, how: &str) {
        let done = Command::new("blockdev").arg(how).arg(&self.path).status();
        assert!(done.is_ok_and(|status| status.success()), "{how} of {}", self.path.display());
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.path).status();
        assert!(detached.is_ok_and(|status| status.success()), "{} stays behind", self.path.display());
    }
}

fn open(env: &HostEnv, path: &Path) -> FileDevice {
    FileDevice::open(env, path, FileOptions::default()).unwrap()
}

#[test]
fn a_block_device_stores_flushes_and_zeroes() {
    let alone = Alone::among_tests();
    let Some(disk) = LoopDevice::new() else { return };
    alone.run(async |env| {
        let device = open(&env, &disk.path);
        assert!(device.direct());
        let info = device.info();
        assert_eq!((info.size_bytes, info.read_only, info.emulated), (SIZE_BYTES, false, false));
        let mut buf = env.buffers().take(8192);
        buf.fill(7);
        device.write(4096, buf).await.1.unwrap();
        device.flush().await.unwrap();
        device.discard(ByteRange::at(8192, 4096)).await.unwrap();
        let (buf, result) = device.read(0, Buf::zeroed(16_384)).await;
        result.unwrap();
        assert_eq!((buf[4095], buf[4096], buf[8191], buf[8192]), (0, 7, 7, 0));
        let extents = device.allocation(ByteRange::at(0, SIZE_BYTES), 10).await.unwrap();
        assert!(extents.iter().all(|extent| extent.kind == ExtentKind::Data), "a block device cannot tell");
        assert_eq!(extents.iter().map(|extent| extent.length).sum::<u64>(), SIZE_BYTES);
    });
}

#[test]
fn a_block_device_that_is_in_use_is_busy() {
    let alone = Alone::among_tests();
    let Some(disk) = LoopDevice::new() else { return };
    alone.run(async |env| {
        let ours = open(&env, &disk.path);
        let error = FileDevice::open(&env, &disk.path, FileOptions::default()).map(drop).unwrap_err();
        assert_eq!(error.kind, DeviceErrorKind::Busy);
        let error = FileDevice::open(&env, &disk.path, CLAIMED_TO_READ).map(drop).unwrap_err();
        assert_eq!(error.kind, DeviceErrorKind::Busy);
        drop(ours);
        let reader = FileDevice::open(&env, &disk.path, CLAIMED_TO_READ).unwrap();
        assert!(reader.info().read_only);
        let mounting = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&disk.path);
        assert_eq!(mounting.unwrap_err().raw_os_error(), Some(libc::EBUSY), "nobody else begins to use it");
    });
}

const CLAIMED_TO_READ: FileOptions = FileOptions { read_only: true, claimed: true, to_the_end: false };

#[test]
fn a_block_device_that_was_write_protected_is_written_when_it_is_not() {
    let alone = Alone::among_tests();
    let Some(disk) = LoopDevice::new() else { return };
    disk.protect("--setro");
    alone.run(async |env| {
        let device = FileDevice::open(&env, &disk.path, CLAIMED_TO_READ).unwrap();
        let write = async || device.write(4096, Buf::zeroed(4096)).await.1.map_err(|error| error.kind);
        assert_eq!(write().await, Err(DeviceErrorKind::ReadOnly), "nobody asked for it");
        // Not every driver minds that a protected device is opened to be written (Linux 6.18: "sd" does, "loop" does not).
        assert!(device.begin_to_write().await.is_ok_and(|()| !device.info().read_only));
        assert_eq!(write().await, Err(DeviceErrorKind::ReadOnly), "it is protected");
        disk.protect("--setrw");
        assert_eq!(write().await, Ok(()));
        device.flush().await.unwrap();
        device.begin_to_write().await.unwrap();
        let error = FileDevice::open(&env, &disk.path, CLAIMED_TO_READ).map(drop).unwrap_err();
        assert_eq!(error.kind, DeviceErrorKind::Busy, "it is ours alone");
        let mounting = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&disk.path);
        assert_eq!(mounting.unwrap_err().raw_os_error(), Some(libc::EBUSY), "and claimed as before");
    });
}

#[test]
fn a_file_that_is_written_only_later_is_locked_as_one_that_is_written() {
    let alone = Alone::among_tests();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    create_image(&path, SIZE_BYTES, &mut |_| ()).unwrap();
    let lock = |how: &str| Command::new("flock").args(["--nonblock", how]).arg(&path).arg("true").status().unwrap();
    alone.run(async |env| {
        let device = FileDevice::open(&env, &path, CLAIMED_TO_READ).unwrap();
        let reader = std::fs::File::open(&path).unwrap();
        reader.lock_shared().unwrap();
        assert!(device.begin_to_write().await.is_err(), "somebody else reads it");
        assert!(lock("--shared").success() && !lock("--exclusive").success(), "it is locked as before");
        // Closing it is not enough: a program that another test starts just now may have it for a moment, and the lock with it.
        reader.unlock().unwrap();
        device.begin_to_write().await.unwrap();
        assert!(!lock("--shared").success());
        let mut buf = env.buffers().take(4096);
        buf.fill(7);
        device.write(0, buf).await.1.unwrap();
        device.flush().await.unwrap();
        let (buf, read) = device.read(0, env.buffers().take(4096)).await;
        assert!(read.is_ok() && buf.iter().all(|byte| *byte == 7));
        drop(device);
        // What may only be looked at is never written.
        let options = FileOptions { read_only: true, ..FileOptions::default() };
        let looked_at = FileDevice::open(&env, &path, options).unwrap();
        assert_eq!(looked_at.begin_to_write().await.unwrap_err().kind, DeviceErrorKind::ReadOnly);
    });
}

#[test]
fn a_block_device_tells_what_it_is_and_that_it_was_written() {
    let alone = Alone::among_tests();
    let Some(disk) = LoopDevice::new() else { return };
    alone.run(async |env| {
        let device = open(&env, &disk.path);
        let before = device.identity_now().await.unwrap();
        // The kernel's clock for mtime, of the file that the loop device shows, ticks only so often.
        env.sleep(Duration::from_millis(20)).await;
        device.write(0, Buf::zeroed(4096)).await.1.unwrap();
        device.flush().await.unwrap();
        let after = device.identity_now().await.unwrap();
        assert!(!before.id.is_empty() && before.id == after.id);
        assert!(after.change_mark.unwrap() > before.change_mark.unwrap());
    });
}
