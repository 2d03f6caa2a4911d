//! Requests on their way to somebody who records them: a bounded ring, taken from again and again.
//!
//! What finds no room is counted and lost; hosts wait for nobody. Who does not take for a while has gone, and the recording ends.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use hotset_block::{ByteRange, Instant};

use crate::advisor::access::Direction;
use crate::config::limits::RECORDED_REQUESTS_MAX;

/// A recording ends when nobody has taken from it for so long.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// A request as a host made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Since the recording began.
    pub at: Duration,
    pub range: ByteRange,
    pub direction: Direction,
}

/// What was recorded since it was taken last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    pub requests: Vec<RecordedRequest>,
    /// Requests that found no room.
    pub dropped: u64,
}

#[derive(Default)]
pub(crate) struct Recorder {
    /// Whether there is a recording: all that a request looks at when there is none.
    is_on: Cell<bool>,
    recording: RefCell<Option<Recording>>,
}

struct Recording {
    began: Instant,
    taken: Instant,
    recorded: Recorded,
}

impl Recorder {
    /// Begins a recording; false: there is one already.
    pub(crate) fn begin(&self, now: Instant) -> bool {
        let mut recording = self.recording.borrow_mut();
        if recording.as_ref().is_some_and(|recording| now.since(recording.taken) < TAKEN_WITHIN) {
            return false;
        }
        *recording = Some(Recording { began: now, taken: now, recorded: Recorded::default() });
        self.is_on.set(true);
        true
    }

    /// Takes note of a request; `now` is asked only if there is a recording.
    pub(crate) fn note(&self, range: ByteRange, direction: Direction, now: impl FnOnce() -> Instant) {
        if self.is_on.get() {
            self.keep(range, direction, now());
        }
    }

    fn keep(&self, range: ByteRange, direction: Direction, now: Instant) {
        let mut place = self.recording.borrow_mut();
        let Some(recording) = place.as_mut().filter(|recording| now.since(recording.taken) < TAKEN_WITHIN) else {
            *place = None;
            self.is_on.set(false);
            return;
        };
        if recording.recorded.requests.len() >= RECORDED_REQUESTS_MAX {
            recording.recorded.dropped += 1;
            return;
        }
        recording.recorded.requests.push(RecordedRequest { at: now.since(recording.began), range, direction });
    }

    /// What was recorded since the last time; `None`: there is no recording, or it ended because nobody took from it.
    pub(crate) fn take(&self, now: Instant) -> Option<Recorded> {
        let mut recording = self.recording.borrow_mut();
        let recording = recording.as_mut()?;
        recording.taken = now;
        Some(std::mem::take(&mut recording.recorded))
    }

    pub(crate) fn end(&self) {
        self.is_on.set(false);
        *self.recording.borrow_mut() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    fn note(recorder: &Recorder, page: u64, seconds: u64) {
        recorder.note(ByteRange::at(page * 4096, 4096), Direction::Read, || at(seconds));
    }

    // proves: A4
    #[test]
    fn what_is_recorded_is_bounded_and_what_is_lost_is_told() {
        let recorder = Recorder::default();
        note(&recorder, 1, 0);
        assert_eq!(recorder.take(at(0)), None, "nobody records");
        assert!(recorder.begin(at(5)) && !recorder.begin(at(6)), "one at a time");
        for page in 0..u64::try_from(RECORDED_REQUESTS_MAX).unwrap() + 3 {
            note(&recorder, page, 7);
        }
        let recorded = recorder.take(at(8)).expect("there is a recording");
        assert_eq!((recorded.requests.len(), recorded.dropped), (RECORDED_REQUESTS_MAX, 3));
        let first =
            RecordedRequest { at: Duration::from_secs(2), range: ByteRange::at(0, 4096), direction: Direction::Read };
        assert_eq!(recorded.requests[0], first);
        assert_eq!(recorder.take(at(9)), Some(Recorded::default()));
        recorder.end();
        assert_eq!(recorder.take(at(9)), None);
    }

    #[test]
    fn a_recording_from_which_nobody_takes_ends() {
        let recorder = Recorder::default();
        assert!(recorder.begin(at(0)));
        note(&recorder, 1, 9);
        note(&recorder, 2, 11);
        assert_eq!(recorder.take(at(11)), None);
        assert!(recorder.begin(at(11)), "another may begin");
    }
}
