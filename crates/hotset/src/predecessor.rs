//! A daemon that was just killed holds its locks, claims and sockets until the kernel has ended its I/O. Its successor
//! waits for that a moment, so that `kill -9` and a new start need no wait of their caller; a daemon that lives is refused
//! after that moment.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hotset_block::{Env, HostEnv};

use crate::running_time::{Tries, receive};

/// How long the kernel may take to end the I/O of a process.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Locks the file, waiting for a moment if somebody else has it.
pub(crate) fn lock_with_retries(file: &File) -> Result<(), TryLockError> {
    let mut tries = Tries::within(END_TIMEOUT);
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if tries.pause_again() => {}
            result => return result,
        }
    }
}

/// Listens by `bind`, again and again for a moment while it says that the address is in use.
pub(crate) async fn bind_with_retries<T>(env: &HostEnv, bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut tries = Tries::within(END_TIMEOUT);
    loop {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries.again() => env.sleep(Tries::PAUSE).await,
            result => return result,
        }
    }
}

/// Returns when nobody holds any of these files and block devices, or after a moment. Who still holds one then, and what
/// to do, is told when it is opened; so is what does not answer.
pub(crate) fn wait_for_files(paths: impl Iterator<Item = PathBuf>) {
    let paths: Vec<PathBuf> = paths.collect();
    let (free, until_free) = mpsc::channel();
    // On a thread apart: one that hangs holds up no start.
    let asking = thread::Builder::new().name("predecessor".to_owned()).spawn(move || {
        let mut tries = Tries::within(END_TIMEOUT);
        while paths.iter().any(|path| is_held(path)) && tries.pause_again() {}
        // Nobody waits any more if that took too long.
        let _ = free.send(());
    });
    if asking.is_ok() {
        receive(&until_free, 2 * END_TIMEOUT);
    }
}

/// Whether another process has locked the file, or claimed the block device. What cannot be asked is judged where it is
/// opened.
fn is_held(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    if metadata.file_type().is_block_device() {
        // open(2): who else has opened it with O_EXCL, or mounted it.
        let opened = File::options().read(true).custom_flags(libc::O_EXCL).open(path);
        return opened.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy);
    }
    if !metadata.is_file() {
        return false;
    }
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use hotset_block::{Executor, ExecutorOptions};

    use super::*;

    #[test]
    fn a_lock_that_is_released_in_time_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("held");
        let holder = File::create(&path).unwrap();
        holder.try_lock().unwrap();
        let (ready, wait) = std::sync::mpsc::channel();
        let release = thread::spawn(move || {
            wait.recv().unwrap();
            drop(holder);
        });
        assert!(is_held(&path));
        ready.send(()).unwrap();
        wait_for_files([path.clone(), directory.path().join("none")].into_iter());
        assert!(!is_held(&path));
        assert!(lock_with_retries(&File::open(&path).unwrap()).is_ok());
        release.join().unwrap();
    }

    #[test]
    fn a_socket_that_is_released_in_time_is_waited_for() {
        let left = Cell::new(3);
        let bind = || {
            left.set(left.get() - 1);
            if left.get() > 0 { Err(io::Error::from(io::ErrorKind::AddrInUse)) } else { Ok(()) }
        };
        let refused = || Err::<(), _>(io::Error::from(io::ErrorKind::PermissionDenied));
        let options = ExecutorOptions { ring_entries: 8, registered_bytes: 1 << 20, ..ExecutorOptions::default() };
        Executor::new(options).expect("io_uring is there").run(async |env| {
            bind_with_retries(&env, bind).await.expect("the third try succeeds");
            let error = bind_with_retries(&env, refused).await.expect_err("nobody may");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        });
        assert_eq!(left.get(), 0);
    }
}
