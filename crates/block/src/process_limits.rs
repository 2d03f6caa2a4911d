//! What this process may have of stacks and threads. Where there is too little, the language's runtime ends it without a word that
//! helps; so whoever starts asks here first.

use std::io;
use std::sync::mpsc;
use std::thread;

use crate::sys;

/// Lets the stack of the first thread grow to `wanted` bytes, as far as it may. Answers how far that is.
///
/// # Errors
/// What the kernel says; the limit is then what it was.
pub fn raise_stack_limit(wanted: u64) -> io::Result<u64> {
    sys::raise_limit(libc::RLIMIT_STACK, wanted)
}

/// Whether this process may have `count` more threads at once. They are there for a moment.
///
/// # Errors
/// That of the first which it may not have.
pub fn check_threads(count: usize) -> io::Result<()> {
    let mut threads = Vec::with_capacity(count);
    let mut outcome = Ok(());
    for _ in 0..count {
        let (release, wait) = mpsc::channel::<()>();
        match thread::Builder::new().name("check".to_owned()).spawn(move || {
            // It is never told anything.
            let _ = wait.recv();
        }) {
            Ok(thread) => threads.push((release, thread)),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    for (release, thread) in threads {
        drop(release);
        thread.join().expect("it only waits");
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_were_there_for_a_moment_are_gone() {
        check_threads(3).unwrap();
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        assert_eq!(names.filter(|name| name.trim() == "check").count(), 0);
    }
}
