//! How a file is read that is not the daemon's own (the configuration, certificates and keys, udev rules), and how the state
//! directory is asked, which may lie on a disk that hangs: the one way for all of them.
//!
//! It is an ordinary file of bounded size, or an error that says so; and who keeps it has a limited time to answer. A pipe that
//! nobody writes to and a file server that is away hold up nobody for longer. What does not answer has one thread at a time.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{running_time, state_file};

/// How long who keeps a file may take. What a clean stop does with such a file has to fit beside its other steps.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// What such a file has at most: 16 MiB.
const BYTES_MAX: u64 = 16 << 20;

/// How much work with each path has not come to its end in time, and still has not.
static OVERDUE: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

/// A file that somebody named and that cannot be used: which, and why, in words that name it.
#[derive(Debug)]
pub(crate) struct UnusableFile {
    pub(crate) file: PathBuf,
    pub(crate) message: String,
}

impl From<UnusableFile> for String {
    fn from(unusable: UnusableFile) -> Self {
        unusable.message
    }
}

/// What the file holds. Blocks, for a limited time.
///
/// # Errors
/// As of any read; also if it is no ordinary file, is too large, or does not answer. They do not name the file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    answered(path, read_ordinary)
}

/// The same of a file of text.
///
/// # Errors
/// As of [`read`]; also if it is not UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Whether something is there. Blocks, for a limited time.
///
/// # Errors
/// It is not known: nothing but "not found" means that nothing is there.
pub(crate) fn is_there(path: &Path) -> io::Result<bool> {
    answered(path, Path::try_exists)
}

/// What `work` with a file or its folder comes to. Blocks, for a limited time; the work goes on after that.
///
/// # Errors
/// Those of `work`; `TimedOut` if it takes too long, or earlier work with the same path has not ended yet.
pub(crate) fn answered<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    answered_within(ANSWER_LIMIT, path, work)
}

fn answered_within<T: Send + 'static>(
    limit: Duration,
    path: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if overdue().contains_key(path) {
        return Err(unanswered());
    }
    let (done, answer) = mpsc::channel();
    let asked = path.to_owned();
    // Changes under the lock only.
    let is_late = Arc::new(AtomicBool::new(false));
    let was_late = Arc::clone(&is_late);
    thread::Builder::new().name("given file".to_owned()).spawn(move || {
        let worked = work(&asked);
        let mut overdue = overdue();
        if was_late.load(Ordering::Relaxed) {
            let others = overdue.remove(&asked).unwrap_or_default().saturating_sub(1);
            if others > 0 {
                overdue.insert(asked, others);
            }
        }
        let _ = done.send(worked);
    })?;
    if let Some(worked) = running_time::receive(&answer, limit) {
        return worked;
    }
    // It may have come just now.
    let mut overdue = overdue();
    answer.try_recv().unwrap_or_else(|error| match error {
        TryRecvError::Empty => {
            is_late.store(true, Ordering::Relaxed);
            *overdue.entry(path.to_owned()).or_default() += 1;
            Err(unanswered())
        }
        TryRecvError::Disconnected => Err(io::Error::other("the thread that asks for it died")),
    })
}

/// Whole between any two statements, so a panic elsewhere does not make it wrong.
fn overdue() -> MutexGuard<'static, BTreeMap<PathBuf, usize>> {
    OVERDUE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unanswered() -> io::Error {
    let seconds = ANSWER_LIMIT.as_secs();
    io::Error::new(io::ErrorKind::TimedOut, format!("who keeps it does not answer within {seconds} s"))
}

/// What the file holds, for who does not mind waiting.
///
/// # Errors
/// As of [`read`], but for the limit of time.
pub(crate) fn read_ordinary(path: &Path) -> io::Result<Vec<u8>> {
    let file = state_file::open(path, OpenOptions::new().read(true))?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= BYTES_MAX) {
        return Ok(bytes);
    }
    let mib = BYTES_MAX >> 20;
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has more than {mib} MiB, which no such file has")))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::process::Command;

    use super::*;

    // proves: F11
    #[test]
    fn a_given_file_is_an_ordinary_one_of_bounded_size_or_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("given");
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!is_there(&path).unwrap());
        fs::write(&path, "text").unwrap();
        assert_eq!((read_text(&path).unwrap().as_str(), is_there(&path).unwrap()), ("text", true));
        fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path).unwrap_err().to_string().contains("not UTF-8"));
        File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("16 MiB"));
        fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(read(&path).unwrap_err().to_string().contains("not an ordinary file"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        is_there(&path).expect_err("a loop of links is not nothing");
        read(Path::new("/dev/zero")).unwrap_err();
    }

    // proves: F11
    #[test]
    fn what_does_not_answer_is_waited_for_once_until_it_answers() {
        let path = Path::new("/nowhere/that/answers");
        let (answers, answer) = mpsc::channel::<()>();
        let hangs = move |_: &Path| answer.recv().map_err(io::Error::other);
        let limit = Duration::from_millis(50);
        assert_eq!(answered_within(limit, path, hangs).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let again = answered(path, |_| -> io::Result<()> { panic!("nobody asks meanwhile") });
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(answered(Path::new("/nowhere/else"), |_| Ok(7)).unwrap(), 7);
        answers.send(()).unwrap();
        while overdue().contains_key(path) {
            thread::yield_now();
        }
        assert_eq!(answered(path, |_| Ok(7)).unwrap(), 7);
    }

    // Of two writes that hung, the one that went on let a third pass by the other.
    // proves: F11
    #[test]
    fn what_hangs_twice_is_left_alone_until_both_answer() {
        let path = Path::new("/nowhere/that/answers/either");
        let ends = [(); 2].map(|()| {
            let (answers, answer) = mpsc::channel::<()>();
            (answers, move |_: &Path| answer.recv().map_err(io::Error::other))
        });
        let begun: Vec<_> = ends
            .into_iter()
            .map(|(answers, hangs)| {
                (answers, thread::spawn(move || answered_within(Duration::from_millis(500), path, hangs)))
            })
            .collect();
        let answers: Vec<_> = begun
            .into_iter()
            .map(|(answers, work)| {
                work.join().unwrap().expect_err("it takes too long");
                answers
            })
            .collect();
        for (others, answers) in [1, 0].into_iter().zip(answers) {
            assert!(answered(path, |_| Ok(7)).is_err());
            answers.send(()).unwrap();
            while overdue().get(path).copied().unwrap_or_default() > others {
                thread::yield_now();
            }
        }
        assert_eq!(answered(path, |_| Ok(7)).unwrap(), 7);
    }
}
