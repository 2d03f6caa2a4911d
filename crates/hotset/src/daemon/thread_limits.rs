//! Whether the daemon may have the threads that it needs. The kernel refuses one more for several reasons in the same words.

use std::fs;
use std::io;

/// Threads beside those that serve hosts.
pub(super) const OWN_THREADS: usize = 16;

/// # Errors
/// It may not have so many more, and what may be the limit.
pub(super) fn check_threads(count: usize) -> Result<(), String> {
    hotset_block::check_threads(count).map_err(|error| {
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        refused(count, &error, &limits)
    })
}

/// `limits` is /proc/self/limits (proc_pid_limits(5)).
fn refused(count: usize, error: &io::Error, limits: &str) -> String {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max processes"));
    let processes = line.and_then(|line| line.split_whitespace().next()).unwrap_or("unknown");
    format!(
        "threads: {count} more are needed, and the kernel refuses one of them ({error}): raise RLIMIT_NPROC, which counts all of \
         this user and is {processes} (LimitNPROC= of the service, `ulimit -u`), or pids.max of its control group (TasksMax= of the \
         service), or its address space (`ulimit -v`)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: F11
    #[test]
    fn threads_that_are_refused_are_told_with_the_limit_and_what_raises_it() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             20                   95808                processes \n";
        let told = refused(16, &io::Error::from_raw_os_error(libc::EAGAIN), limits);
        for part in ["threads: 16", "RLIMIT_NPROC", "is 20 ", "TasksMax="] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
