//! How tests that look at what processes have open run in one process with all others.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hotset_block::{Executor, ExecutorOptions, HostEnv};

/// A program that is being started has, for a moment, whatever is open in this process, and its locks with it.
static STARTING: RwLock<()> = RwLock::new(());

/// Held all through a test that starts programs: meanwhile none of the others opens or closes anything that it looks at.
pub(crate) struct Alone(#[expect(dead_code, reason = "it is held")] RwLockWriteGuard<'static, ()>);

impl Alone {
    pub(crate) fn among_tests() -> Self {
        // A test that failed has left nothing behind that another one looks at.
        Self(STARTING.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn run<T>(&self, root: impl AsyncFnOnce(HostEnv) -> T) -> T {
        run_to_its_end(root)
    }
}

/// Of a test that starts no program.
pub(crate) fn run<T>(root: impl AsyncFnOnce(HostEnv) -> T) -> T {
    let _beside: RwLockReadGuard<'_, ()> = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    run_to_its_end(root)
}

fn run_to_its_end<T>(root: impl AsyncFnOnce(HostEnv) -> T) -> T {
    let options = ExecutorOptions { ring_entries: 8, registered_bytes: 1 << 20, ..ExecutorOptions::default() };
    Executor::new(options).expect("io_uring is there").run(root)
}
