//! Of writes that come too fast, how many go around: as many of them as they are over, evenly.

use std::cell::Cell;

/// See the file's summary.
#[derive(Default)]
pub(crate) struct Pace(Cell<u64>);

impl Pace {
    /// Whether a write goes around that is so much over what goes nowhere around, where `slack` over all of them do.
    pub(crate) fn sends_around(&self, over: u64, slack: u64) -> bool {
        let sum = self.0.get() + over;
        self.0.set(sum % slack.max(1));
        sum >= slack
    }
}
