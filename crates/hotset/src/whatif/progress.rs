//! How far a trace was gone through, for whoever waits for that.

use std::time::{Duration, Instant};

use crate::args::Output;
use crate::client::{Shown, time_left};
use crate::size::human;

/// What takes less than this is not told of.
const QUIET: Duration = Duration::from_secs(2);

/// Of one time through a trace.
pub(super) struct Progress {
    shown: Shown,
    what: &'static str,
    began: Instant,
}

impl Progress {
    /// `what` is being done.
    pub(super) fn new(output: Output, what: &'static str) -> Self {
        Self { shown: Shown::new(output, what), what, began: Instant::now() }
    }

    /// So many bytes of the file were gone through, of so many.
    pub(super) fn at(&mut self, (passed_bytes, size_bytes): (u64, u64)) {
        let elapsed = self.began.elapsed();
        if elapsed < QUIET {
            return;
        }
        let (what, left) = (self.what, seconds_left(elapsed, passed_bytes, size_bytes));
        self.shown.at(passed_bytes, size_bytes, left, || line(what, passed_bytes, size_bytes, left));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shown.finish();
    }
}

fn line(what: &str, passed_bytes: u64, size_bytes: u64, left: Option<u64>) -> String {
    format!("{what}: {} of {}, {}", human(passed_bytes), human(size_bytes), time_left(left))
}

/// At the speed so far; `None`: nothing was read yet.
fn seconds_left(elapsed: Duration, passed_bytes: u64, size_bytes: u64) -> Option<u64> {
    elapsed.as_secs().saturating_mul(size_bytes.saturating_sub(passed_bytes)).checked_div(passed_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_the_speed_so_far() {
        let ten = Duration::from_secs(10);
        assert_eq!((seconds_left(ten, 0, 100), seconds_left(ten, 25, 100)), (None, Some(30)));
        assert_eq!(line("Reading", 1 << 20, 4 << 20, Some(30)), "Reading: 1 MiB of 4 MiB, 30 s left");
    }
}
