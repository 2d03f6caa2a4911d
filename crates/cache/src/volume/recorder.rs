//! Requests on their way to somebody who records them: a bounded ring, taken from again and again.
//!
//! What finds no room is counted and lost; hosts wait for nobody. Who does not take for a while has gone, and the recording ends. A recording has an
//! id: who comes back late takes nothing of another one's.

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
    id: u64,
    began: Instant,
    taken: Instant,
    recorded: Recorded,
    /// The portion that was taken last, by its number: whoever did not get the answer asks for it again.
    last: Option<(u64, Recorded)>,
}

impl Recorder {
    /// Begins a recording of this id; false: there is one already.
    pub(crate) fn begin(&self, now: Instant, id: u64) -> bool {
        let mut recording = self.recording.borrow_mut();
        if recording.as_ref().is_some_and(|recording| now.since(recording.taken) < TAKEN_WITHIN) {
            return false;
        }
        *recording = Some(Recording { id, began: now, taken: now, recorded: Recorded::default(), last: None });
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

    /// The portion of this number: what was recorded since the last one, or the last one again. `None`: there is no recording of this id any more.
    pub(crate) fn take(&self, now: Instant, id: u64, portion: u64) -> Option<Recorded> {
        let mut recording = self.recording.borrow_mut();
        let recording = recording.as_mut().filter(|recording| recording.id == id)?;
        recording.taken = now;
        if let Some((number, last)) = &recording.last
            && *number == portion
        {
            return Some(last.clone());
        }
        let recorded = std::mem::take(&mut recording.recorded);
        recording.last = Some((portion, recorded.clone()));
        Some(recorded)
    }

    /// Ends the recording of this id, if it is there.
    pub(crate) fn end(&self, id: u64) {
        let mut recording = self.recording.borrow_mut();
        if recording.as_ref().is_some_and(|recording| recording.id == id) {
            self.is_on.set(false);
            *recording = None;
        }
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
        assert_eq!(recorder.take(at(0), 1, 0), None, "nobody records");
        assert!(recorder.begin(at(5), 1) && !recorder.begin(at(6), 2), "one at a time");
        for page in 0..u64::try_from(RECORDED_REQUESTS_MAX).unwrap() + 3 {
            note(&recorder, page, 7);
        }
        let recorded = recorder.take(at(8), 1, 0).expect("there is a recording");
        assert_eq!((recorded.requests.len(), recorded.dropped), (RECORDED_REQUESTS_MAX, 3));
        let first =
            RecordedRequest { at: Duration::from_secs(2), range: ByteRange::at(0, 4096), direction: Direction::Read };
        assert_eq!(recorded.requests[0], first);
        assert_eq!(recorder.take(at(9), 1, 1), Some(Recorded::default()));
        recorder.end(1);
        assert_eq!(recorder.take(at(9), 1, 2), None);
    }

    #[test]
    fn a_recording_from_which_nobody_takes_ends() {
        let recorder = Recorder::default();
        assert!(recorder.begin(at(0), 1));
        note(&recorder, 1, 9);
        note(&recorder, 2, 11);
        assert_eq!(recorder.take(at(11), 1, 0), None);
        assert!(recorder.begin(at(11), 2), "another may begin");
    }

    // proves: A4
    #[test]
    fn who_comes_back_late_takes_nothing_of_another_recording_and_does_not_end_it() {
        let recorder = Recorder::default();
        assert!(recorder.begin(at(0), 1) && recorder.begin(at(11), 2), "the first one was not taken from");
        note(&recorder, 5, 12);
        assert_eq!(recorder.take(at(13), 1, 0), None);
        recorder.end(1);
        assert_eq!(recorder.take(at(14), 2, 0).map(|recorded| recorded.requests.len()), Some(1));
    }

    // proves: A4
    #[test]
    fn a_portion_whose_answer_was_lost_is_answered_again() {
        let recorder = Recorder::default();
        assert!(recorder.begin(at(0), 1));
        note(&recorder, 1, 1);
        let first = recorder.take(at(2), 1, 0);
        note(&recorder, 2, 3);
        assert_eq!(recorder.take(at(4), 1, 0), first);
        let second = recorder.take(at(5), 1, 1).expect("it goes on");
        assert_eq!((second.requests.len(), second.requests[0].range.start), (1, 2 * 4096));
    }
}
