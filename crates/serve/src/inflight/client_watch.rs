//! Whether a client does its part: it sends what it announced, and takes its replies.

use std::cell::Cell;

/// See the file's summary. What a client does is counted as it happens, and looked at now and then.
#[derive(Default)]
pub(crate) struct ClientWatch {
    /// Counts the pieces of payloads that came, and the replies that went.
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
    /// The client sent or took something.
    pub(crate) fn made_progress(&self) {
        self.progress.set(self.progress.get() + 1);
    }

    /// Whether the client owed something that others may wait for, and did nothing of it, over so many looks in a row. Every
    /// look asks this, with whether the client owes something now.
    pub(crate) fn is_stalled(&self, owes: bool, looks: u32) -> bool {
        let before = self.seen.get();
        let progress = self.progress.get();
        let stalled = owes && progress == before.progress;
        let stalled_looks = if stalled { before.stalled_looks + 1 } else { 0 };
        self.seen.set(Seen { progress, stalled_looks });
        stalled_looks >= looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWES: bool = true;
    const OWES_NOTHING: bool = false;

    #[test]
    fn only_looks_in_a_row_without_progress_end_a_client() {
        let client = ClientWatch::default();
        assert!(!client.is_stalled(OWES, 2));
        assert!(client.is_stalled(OWES, 2));
        client.made_progress();
        assert!(!client.is_stalled(OWES, 2), "it did something");
        assert!(!client.is_stalled(OWES, 2));
        assert!(!client.is_stalled(OWES_NOTHING, 2));
        assert!(!client.is_stalled(OWES, 2), "counted anew");
    }
}
