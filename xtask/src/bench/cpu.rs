//! The CPU time that a process has taken: the figure that a busy machine disturbs least. And its memory.

use std::fs;

use anyhow::{Context, Result};

/// Of `/proc/PID/stat`; the kernel fixes it for all programs (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds in user and kernel mode, of all threads.
pub(crate) fn seconds_of(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    ticks(&text).map(|ticks| ticks / TICKS_PER_SECOND).with_context(|| format!("{path} is not as expected"))
}

fn ticks(stat: &str) -> Option<f64> {
    // The name before may hold anything, blanks and parentheses too. After it: state is field 3, utime 14, stime 15.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11).map(str::parse::<f64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

/// Bytes that the process has in memory.
pub(crate) fn resident_bytes_of(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    resident_bytes(&text).with_context(|| format!("{path} is not as expected"))
}

/// Told in KiB, however large a page is.
fn resident_bytes(status: &str) -> Option<f64> {
    let told = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    told.trim().strip_suffix(" kB")?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_summed_whatever_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 120 34 0 0 20 0 1 0 100 1000 10";
        assert_eq!(ticks(stat), Some(154.0));
        assert_eq!(ticks("nonsense"), None);
    }

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident_bytes("Name:\ta\nVmHWM:\t   20000 kB\nVmRSS:\t   12345 kB\n"), Some(12_641_280.0));
        assert_eq!(resident_bytes("Name:\tVmRSS"), None);
        assert!(resident_bytes_of(std::process::id()).is_ok_and(|bytes| bytes > 1e5));
    }
}
