//! A daemon that serves block devices to its own machine must not wait for memory that the kernel would free by writing to them.

use std::fs;
use std::io;

use crate::sys;

/// `CAP_IPC_LOCK` in the masks of `/proc/self/status`.
const CAP_IPC_LOCK: u32 = 14;

/// Memory that this thread, and threads that it starts from now on, ask for is never waited for by writing to block devices or file
/// systems (`PR_SET_IO_FLUSHER`).
///
/// # Errors
/// This process lacks the capability `CAP_SYS_RESOURCE`.
pub fn never_wait_for_writeback() -> io::Result<()> {
    sys::become_io_flusher()
}

/// Memory of this process is not swapped out once it was touched. False: it may not lock as much as it may need, and locks nothing.
///
/// # Errors
/// The kernel refuses it.
pub fn keep_memory() -> io::Result<bool> {
    if sys::locked_bytes_max()?.is_some() && !may_lock_any_memory() {
        return Ok(false);
    }
    sys::lock_memory().map(|()| true)
}

fn may_lock_any_memory() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 == 1)
}
