//! Files are closed where that holds up nobody.
//!
//! close(2) may wait: a file system in user space or on another machine is told of it, and answers. So what such a system keeps is
//! closed by threads of their own, never by the one whose last handle goes.

use std::collections::VecDeque;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::descriptors::{self, DescriptorUse};
use crate::sys;

/// Threads that close at once. What comes while each of them waits is closed when one of them goes on.
const THREADS_MAX: usize = 16;

/// How often, and how far apart, it is looked whether a file that is being closed is closed: two seconds in all.
const LOOKS: u32 = 100;
const LOOK_PAUSE: Duration = Duration::from_millis(20);

static CLOSING: Mutex<Closing> = Mutex::new(Closing { waiting: VecDeque::new(), under_way: Vec::new(), threads: 0 });

struct Closing {
    waiting: VecDeque<(FileKey, OwnedFd)>,
    /// What threads are closing now.
    under_way: Vec<FileKey>,
    threads: usize,
}

/// Tells a file from others: its file system and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileKey(u64, u64);

impl FileKey {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

/// Where the last handle on a descriptor closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// By the thread that has it.
    AtOnce,
    /// By another thread.
    Apart(FileKey),
}

impl Closed {
    /// As suits a file with these metadata.
    pub(crate) fn for_file(file: &OwnedFd, metadata: &Metadata) -> io::Result<Self> {
        let apart = metadata.is_file() && sys::is_kept_elsewhere(file)?;
        Ok(if apart { Self::Apart(FileKey::of(metadata)) } else { Self::AtOnce })
    }
}

/// An open file that is closed as it says.
pub(crate) struct OpenFile {
    /// None while it is dropped.
    descriptor: Option<OwnedFd>,
    closed: Closed,
    /// Goes with it.
    life: Arc<()>,
}

impl OpenFile {
    pub(crate) fn new(descriptor: OwnedFd, closed: Closed) -> Self {
        Self { descriptor: Some(descriptor), closed, life: Arc::default() }
    }

    /// Tells, on any thread, whether it is still open.
    pub(crate) fn life(&self) -> Weak<()> {
        Arc::downgrade(&self.life)
    }

    /// Opens the same file once more.
    pub(crate) fn open_again(&self, options: &OpenOptions) -> io::Result<Self> {
        // By the descriptor: another file may have the path by now.
        let again = options.open(format!("/proc/self/fd/{}", self.as_raw_fd()))?;
        if !descriptors::may_keep(&again, DescriptorUse::Device) {
            return Err(descriptors::none_left(DescriptorUse::Device));
        }
        Ok(Self::new(OwnedFd::from(again), self.closed))
    }

    /// Where it is closed.
    pub(crate) fn closed(&self) -> Closed {
        self.closed
    }
}

impl Deref for OpenFile {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        self.descriptor.as_ref().expect("it is there until it is dropped")
    }
}

impl AsRawFd for OpenFile {
    fn as_raw_fd(&self) -> RawFd {
        (**self).as_raw_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        match (self.descriptor.take(), self.closed) {
            (Some(descriptor), Closed::Apart(key)) => close_apart(key, descriptor),
            (descriptor, Closed::AtOnce | Closed::Apart(_)) => drop(descriptor),
        }
    }
}

/// What is known of an open file, without a wait for who keeps it.
pub(crate) fn metadata(file: &OwnedFd) -> io::Result<Metadata> {
    let again = File::from(file.try_clone()?);
    let metadata = again.metadata();
    let again = OwnedFd::from(again);
    let closed = metadata.as_ref().map_or(Ok(Closed::AtOnce), |metadata| Closed::for_file(&again, metadata));
    drop(OpenFile::new(again, closed.unwrap_or(Closed::AtOnce)));
    metadata
}

/// Waits a moment for this process to have closed a file: until then its locks are there.
pub(crate) fn wait_for(metadata: &Metadata) {
    let key = FileKey::of(metadata);
    for _ in 0..LOOKS {
        let closing = closing();
        let under_way = closing.under_way.contains(&key) || closing.waiting.iter().any(|(waits, _)| *waits == key);
        drop(closing);
        if !under_way {
            return;
        }
        thread::sleep(LOOK_PAUSE);
    }
}

fn close_apart(key: FileKey, descriptor: OwnedFd) {
    let mut closing = closing();
    closing.waiting.push_back((key, descriptor));
    if closing.threads >= THREADS_MAX {
        return;
    }
    closing.threads += 1;
    drop(closing);
    if thread::Builder::new().name("close".to_owned()).spawn(close_waiting).is_err() {
        // A thread that comes later takes it along.
        self::closing().threads -= 1;
    }
}

fn close_waiting() {
    loop {
        let mut closing = closing();
        let Some((key, descriptor)) = closing.waiting.pop_front() else {
            closing.threads -= 1;
            return;
        };
        closing.under_way.push(key);
        drop(closing);
        drop(descriptor);
        let mut closing = self::closing();
        let at = closing.under_way.iter().position(|under_way| *under_way == key).expect("it was put there");
        closing.under_way.swap_remove(at);
    }
}

/// Whole between any two statements.
fn closing() -> MutexGuard<'static, Closing> {
    CLOSING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_closed_apart_is_closed() {
        let pairs: Vec<_> = (0..3 * THREADS_MAX).map(|_| UnixStream::pair().unwrap()).collect();
        for (ours, mut theirs) in pairs {
            drop(OpenFile::new(OwnedFd::from(ours), Closed::Apart(FileKey(0, 0))));
            assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0, "its end is seen");
        }
    }
}
