//! Whether a client does its part: it sends what it announced, and takes its replies.

use std::cell::Cell;

/// In so many looks a client has to send or take as many bytes as it holds: two minutes, where there is a look every 2 s. A
/// client that drips holds up others as one that is silent does.
const TURNOVER_LOOKS: u64 = 60;

/// See the file's summary. What a client does is counted as it happens, and looked at now and then.
#[derive(Default)]
pub(crate) struct ClientWatch {
    /// Bytes of payloads that came, and of replies that went.
    progress: Cell<u64>,
    seen: Cell<Seen>,
}

/// What the last look saw.
#[derive(Clone, Copy, Default)]
struct Seen {
    progress: u64,
    /// Looks in a row at which the client had not done its part.
    stalled_looks: u32,
}

impl ClientWatch {
    /// The client sent or took so many bytes.
    pub(crate) fn made_progress(&self, bytes: usize) {
        self.progress.set(self.progress.get() + widened(bytes));
    }

    /// Whether the client was to send or to take something, and did too little of it for what it holds, over so many looks in
    /// a row. Every look asks this, with how many bytes that others may wait for it holds now; none, if nothing is its turn.
    pub(crate) fn is_stalled(&self, holds_bytes: usize, looks: u32) -> bool {
        let before = self.seen.get();
        let progress = self.progress.get();
        let enough = widened(holds_bytes).div_ceil(TURNOVER_LOOKS);
        let stalled = progress - before.progress < enough;
        let stalled_looks = if stalled { before.stalled_looks + 1 } else { 0 };
        self.seen.set(Seen { progress, stalled_looks });
        stalled_looks >= looks
    }
}

fn widened(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a length fits in 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWES: usize = 60_000;
    const OWES_NOTHING: usize = 0;

    #[test]
    fn only_looks_in_a_row_without_progress_end_a_client() {
        let client = ClientWatch::default();
        assert!(!client.is_stalled(OWES, 2));
        assert!(client.is_stalled(OWES, 2));
        client.made_progress(1000);
        assert!(!client.is_stalled(OWES, 2), "it did its part");
        assert!(!client.is_stalled(OWES, 2));
        assert!(!client.is_stalled(OWES_NOTHING, 2));
        assert!(!client.is_stalled(OWES, 2), "counted anew");
    }

    #[test]
    fn a_client_that_drips_is_as_one_that_is_silent() {
        let client = ClientWatch::default();
        let mut drips = (0..3).map(|_| {
            client.made_progress(999);
            client.is_stalled(OWES, 3)
        });
        assert!(!drips.next().unwrap() && !drips.next().unwrap());
        assert!(drips.next().unwrap(), "it holds others up for longer than it may");
        client.made_progress(999);
        assert!(!client.is_stalled(OWES / 2, 3), "enough for half as much");
    }
}
