//! Which copy of clean data a stream reads: the one on the SSDs, or the one on the backing device.
//!
//! A few SSDs may stream more slowly than many disks. A request then goes where the answer is expected first, so that both
//! work at once. What is expected follows from what each is asked for now, and from how long it took for that of late.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Instant;

/// What the SSDs are expected to answer within this time they are asked for: a disk's single answer takes longer.
const SSDS_SUFFICE: Duration = Duration::from_millis(4);
/// What a copy took tells nothing any more after this time.
const FORGOTTEN: Duration = Duration::from_secs(5);
/// The newest answer counts for one in so many.
const ANSWERS: u64 = 8;

/// One of the two copies of what is clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CleanCopy {
    Ssds,
    Backing,
}

/// What streams read of one volume's clean data.
#[derive(Default)]
pub(super) struct ReadBalance {
    ssds: Rc<ReadQueue>,
    backing: Rc<ReadQueue>,
}

impl ReadBalance {
    /// The copy that a request of so many pages is to read. The backing device is asked only while it `serves_only` these
    /// requests, as many as were sent to it from here: its time belongs to those who miss.
    pub(super) fn choose(&self, pages: u64, now: Instant, serves_only: impl FnOnce(u64) -> bool) -> CleanCopy {
        let Some(ssds) = self.ssds.expected(pages, now).filter(|expected| *expected > SSDS_SUFFICE) else {
            return CleanCopy::Ssds;
        };
        // A single request finds out what is not known.
        let backing_is_sooner = match self.backing.expected(pages, now) {
            Some(backing) => backing < ssds,
            None => self.backing.requests.get() == 0,
        };
        if backing_is_sooner && serves_only(self.backing.requests.get()) { CleanCopy::Backing } else { CleanCopy::Ssds }
    }

    /// A copy is asked for so many pages.
    pub(super) fn begin(&self, copy: CleanCopy, pages: u64, now: Instant) -> QueuedRead {
        let queue = Rc::clone(match copy {
            CleanCopy::Ssds => &self.ssds,
            CleanCopy::Backing => &self.backing,
        });
        queue.requests.set(queue.requests.get() + 1);
        queue.pages.set(queue.pages.get() + pages);
        QueuedRead { pages, asked_for: queue.pages.get(), began: now, queue }
    }

    /// The backing device did not answer as it had: a single request finds out how it does now.
    pub(super) fn forget_backing(&self) {
        self.backing.speed.set(None);
    }
}

/// What one copy is asked for, and how fast it answers.
#[derive(Default)]
struct ReadQueue {
    requests: Cell<u64>,
    pages: Cell<u64>,
    speed: Cell<Option<Speed>>,
}

#[derive(Clone, Copy)]
struct Speed {
    /// For each page that it was asked for when a request came, that request's included.
    ns_per_page: u64,
    measured: Instant,
}

impl ReadQueue {
    /// How long a request of so many pages would take; `None`: that is not known.
    fn expected(&self, pages: u64, now: Instant) -> Option<Duration> {
        let speed = self.speed.get().filter(|speed| now.since(speed.measured) < FORGOTTEN)?;
        Some(Duration::from_nanos(speed.ns_per_page.saturating_mul(self.pages.get() + pages)))
    }

    fn took(&self, took: Duration, pages: u64, now: Instant) {
        let newest = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / pages;
        let before = self.speed.get().filter(|speed| now.since(speed.measured) < FORGOTTEN);
        let ns_per_page =
            before.map_or(newest, |before| before.ns_per_page - before.ns_per_page / ANSWERS + newest / ANSWERS);
        self.speed.set(Some(Speed { ns_per_page, measured: now }));
    }
}

/// A request that a copy works on, while it lives.
pub(super) struct QueuedRead {
    queue: Rc<ReadQueue>,
    pages: u64,
    /// Pages that the copy was asked for when it came, its own included.
    asked_for: u64,
    began: Instant,
}

impl QueuedRead {
    /// It was answered.
    pub(super) fn end(self, now: Instant) {
        self.queue.took(now.since(self.began), self.asked_for, now);
    }
}

impl Drop for QueuedRead {
    fn drop(&mut self) {
        let (requests, pages) = (self.queue.requests.get(), self.queue.pages.get());
        assert!(requests > 0 && pages >= self.pages, "a read of {} pages ends, and {pages} are asked for", self.pages);
        self.queue.requests.set(requests - 1);
        self.queue.pages.set(pages - self.pages);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const PAGES: u64 = 256;
    const MS: u64 = 1_000_000;

    /// Two devices that each work on what they are asked for one after the other.
    struct Devices {
        ssds_ns: u64,
        backing_ns: u64,
        others_on_backing: bool,
    }

    impl Devices {
        /// How many of a thousand requests each copy answered, and how long all of them took, at so many requests in flight.
        fn stream(&self, depth: usize) -> (u64, u64, Duration) {
            let balance = ReadBalance::default();
            let (mut now, mut free) = (0, [0, 0]);
            let mut in_flight: VecDeque<(u64, QueuedRead)> = VecDeque::new();
            let mut answered = [0, 0];
            for _ in 0..1000 {
                if in_flight.len() == depth {
                    let next = (0..depth).min_by_key(|index| in_flight[*index].0).expect("a depth is not zero");
                    let (ends, read) = in_flight.remove(next).expect("it is one of them");
                    now = ends;
                    read.end(Instant(now));
                }
                let copy = balance.choose(PAGES, Instant(now), |requests| {
                    assert!(requests <= u64::try_from(depth).expect("a depth fits in 64 bits"));
                    !self.others_on_backing
                });
                let (index, takes) = match copy {
                    CleanCopy::Ssds => (0, self.ssds_ns),
                    CleanCopy::Backing => (1, self.backing_ns),
                };
                answered[index] += 1;
                free[index] = now.max(free[index]) + takes;
                in_flight.push_back((free[index], balance.begin(copy, PAGES, Instant(now))));
            }
            (answered[0], answered[1], Duration::from_nanos(now))
        }
    }

    #[test]
    fn a_stream_that_the_ssds_hold_up_is_read_from_both_copies() {
        let devices = Devices { ssds_ns: 2 * MS, backing_ns: MS, others_on_backing: false };
        let (ssds, backing, took) = devices.stream(16);
        assert!((300..370).contains(&ssds) && ssds + backing == 1000, "{ssds} and {backing}");
        assert!(took < Duration::from_millis(720), "{took:?}, and the best possible is 667 ms");
    }

    #[test]
    fn what_the_ssds_answer_soon_they_are_asked_for() {
        let fast = Devices { ssds_ns: MS / 5, backing_ns: MS / 10, others_on_backing: false };
        assert_eq!(fast.stream(16).1, 0);
        let alone = Devices { ssds_ns: 2 * MS, backing_ns: MS, others_on_backing: false };
        assert_eq!(alone.stream(1).1, 0);
    }

    #[test]
    fn slow_disks_answer_little_of_a_stream() {
        let devices = Devices { ssds_ns: MS, backing_ns: 20 * MS, others_on_backing: false };
        let (_, backing, took) = devices.stream(16);
        assert!(backing < 60, "{backing}");
        assert!(took < Duration::from_millis(1010), "{took:?}");
    }

    #[test]
    fn the_backing_device_is_left_to_others() {
        let devices = Devices { ssds_ns: 2 * MS, backing_ns: MS, others_on_backing: true };
        assert_eq!(devices.stream(16).1, 0);
    }

    #[test]
    fn what_a_copy_took_is_forgotten_and_one_request_finds_it_out_again() {
        let balance = ReadBalance::default();
        let ask = |copy, ms: u64| balance.begin(copy, PAGES, Instant(ms * MS));
        ask(CleanCopy::Ssds, 0).end(Instant(10 * MS));
        let choose = |ms: u64| balance.choose(PAGES, Instant(ms * MS), |_| true);
        assert_eq!(choose(10), CleanCopy::Backing);
        let first = ask(CleanCopy::Backing, 10);
        assert_eq!(choose(10), CleanCopy::Ssds, "one is enough to find it out");
        first.end(Instant(1000 * MS));
        assert_eq!(choose(1000), CleanCopy::Ssds, "it is slow");
        balance.forget_backing();
        assert_eq!(choose(1000), CleanCopy::Backing);
        ask(CleanCopy::Backing, 0).end(Instant(1000 * MS));
        ask(CleanCopy::Ssds, 5990).end(Instant(6000 * MS));
        assert_eq!(choose(6000), CleanCopy::Backing);
    }

    #[test]
    #[should_panic(expected = "a read of 256 pages ends, and 0 are asked for")]
    fn a_read_ends_once() {
        let balance = ReadBalance::default();
        let read = balance.begin(CleanCopy::Ssds, PAGES, Instant(0));
        balance.ssds.pages.set(0);
        drop(read);
    }
}
