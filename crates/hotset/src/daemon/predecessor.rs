//! A daemon that was just killed holds its locks until the kernel has ended its I/O. Its successor waits for that a
//! moment, so that `kill -9` and a new start need nobody's patience; a daemon that lives is refused after that moment.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long the kernel may take to end the I/O of a process.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Locks the file, waiting for a moment if somebody else has it.
pub(super) fn lock_patiently(file: &File) -> Result<(), TryLockError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

/// Returns when nobody holds any of these regular files, or after a moment. Who still holds one then, and what to do,
/// is told when it is opened.
pub(super) fn wait_for_files(paths: impl Iterator<Item = PathBuf>) {
    let files: Vec<File> = paths.filter_map(|path| open_file(&path)).collect();
    let deadline = Instant::now() + PATIENCE;
    while files.iter().any(is_held) && Instant::now() < deadline {
        thread::sleep(PAUSE);
    }
}

fn open_file(path: &Path) -> Option<File> {
    let regular = path.metadata().is_ok_and(|metadata| metadata.is_file());
    if regular { File::open(path).ok() } else { None }
}

fn is_held(file: &File) -> bool {
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return true;
    }
    // A file that cannot be locked for another reason is judged where it is opened.
    file.unlock().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_given_up_in_time_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("held");
        let holder = File::create(&path).unwrap();
        holder.try_lock().unwrap();
        let (ready, wait) = std::sync::mpsc::channel();
        let release = thread::spawn(move || {
            wait.recv().unwrap();
            drop(holder);
        });
        let file = File::open(&path).unwrap();
        assert!(is_held(&file));
        ready.send(()).unwrap();
        wait_for_files([path, directory.path().join("none")].into_iter());
        assert!(!is_held(&file));
        assert!(lock_patiently(&file).is_ok());
        release.join().unwrap();
    }
}
