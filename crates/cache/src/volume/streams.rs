//! Detects sequential streams among the requests of a volume in one direction.
//!
//! A stream is a run of requests each of which starts where the one before ended, give or take the reordering of
//! requests that are in flight together. What such a request leaves out is *missing* until a later one fills it; a
//! stream that misses more than its window is none, and a request for what was seen already counts against it. So
//! random requests, however dense, do not add up to a stream.

use hotset_block::ByteRange;

use crate::address::low_half;
use crate::config::PAGE;
use crate::config::limits::{REQUEST_BYTES_MAX, STREAMS};

/// How far from its expected place a request may start: this, or that many lengths of it, if that is more; but not
/// so many lengths that the map of what was seen does not reach.
const WINDOW_BYTES: u64 = 1 << 20;
const WINDOW_REQUESTS_MIN: u64 = 16;
const WINDOW_REQUESTS_MAX: u64 = 128;
/// A stream may leave out this part of what it covers for good (1 / 4): blocks that the host has in its own cache.
const FORGIVEN_PART: u64 = 4;
/// What is requested again counts against a stream so many times.
const REPEAT_PENALTY: u64 = 16;
/// Requests without one of its own after which a stream's place may be taken.
const IDLE_REQUESTS: u64 = 1024;

fn window_bytes(request_bytes: u64) -> u64 {
    let request_bytes = request_bytes.min(REQUEST_BYTES_MAX);
    let [least, most] = [WINDOW_REQUESTS_MIN, WINDOW_REQUESTS_MAX].map(|count| request_bytes * count);
    WINDOW_BYTES.max(least).min(most)
}

#[derive(Clone, Copy)]
struct HostStream {
    /// Where the next request should start.
    next: u64,
    /// Bytes requested so far, less the penalties.
    seen: u64,
    /// Bytes left out so far, that may still come.
    missing: u64,
    /// The unit of `recent`, about a request, as a power of two.
    granule_shift: u32,
    /// Which of the last 128 granules were requested; the lowest bit is the one that ends at `next`.
    recent: u128,
    /// The number of its last request.
    used_at: u64,
    /// At least one request went on where another had ended.
    continued: bool,
}

impl HostStream {
    /// A stream that begins with this request.
    fn new(range: ByteRange) -> Self {
        let granule_shift = range.length().clamp(PAGE, 1 << 40).next_power_of_two().trailing_zeros();
        let (next, seen) = (range.end, range.length());
        Self { next, seen, missing: 0, granule_shift, recent: 1, used_at: 0, continued: false }
    }

    fn length(&self) -> u64 {
        self.seen.saturating_sub(self.missing)
    }

    /// What the stream is after this request; `None` if the request does not belong to it.
    fn with(&self, range: ByteRange, window: u64) -> Option<Self> {
        if range.end <= self.next { self.filled_by(range) } else { self.advanced_by(range, window) }
    }

    fn filled_by(&self, range: ByteRange) -> Option<Self> {
        let mask = self.mask(range).filter(|mask| mask & self.recent == 0)?;
        let missing = self.missing.saturating_sub(range.length());
        Some(Self { missing, seen: self.seen + range.length(), recent: self.recent | mask, ..*self })
    }

    fn advanced_by(&self, range: ByteRange, window: u64) -> Option<Self> {
        let granules = self.granule(range.end) - self.granule(self.next);
        let kept = u32::try_from(granules).ok().and_then(|granules| self.recent.checked_shl(granules)).unwrap_or(0);
        let mut after = Self { next: range.end, recent: kept, ..*self };
        after.recent |= after.mask(range).unwrap_or(u128::MAX);
        after.seen = after.seen.saturating_add(range.end - range.start.max(self.next));
        after.missing = after.missing.saturating_add(range.start.saturating_sub(self.next));
        after.missing = after.missing.saturating_sub(range.length() / FORGIVEN_PART);
        (after.missing <= window).then_some(after)
    }

    /// The bits of `recent` that stand for a range that ends at `next` or before; `None` if they do not reach back to
    /// its start.
    fn mask(&self, range: ByteRange) -> Option<u128> {
        let head = self.granule(self.next);
        let (first, last) = (range.start >> self.granule_shift, self.granule(range.end));
        let (age_max, age_min) = (u32::try_from(head - first).ok()?, u32::try_from(head - last).ok()?);
        (age_max < u128::BITS).then(|| (!0 >> (u128::BITS - 1 - age_max)) & (!0 << age_min))
    }

    /// The granule that holds the last byte before `end`.
    fn granule(&self, end: u64) -> u64 {
        end.saturating_sub(1) >> self.granule_shift
    }

    fn has_seen(&self, range: ByteRange) -> bool {
        range.end <= self.next && self.mask(range).is_some_and(|mask| mask & self.recent != 0)
    }
}

/// The streams of a volume in one direction.
pub struct Streams {
    /// The lower half of each stream's next page, close together: most requests belong to no stream, and this says so.
    next_pages: [u32; STREAMS],
    streams: [HostStream; STREAMS],
    /// The place that is taken next.
    hand: usize,
    requests: u64,
}

impl Default for Streams {
    fn default() -> Self {
        Self::new()
    }
}

impl Streams {
    pub fn new() -> Self {
        let nowhere = HostStream::new(ByteRange { start: u64::MAX, end: u64::MAX });
        Self { next_pages: [u32::MAX; STREAMS], streams: [nowhere; STREAMS], hand: 0, requests: 0 }
    }

    /// Takes note of a request; answers how many bytes its stream has requested so far, this request included.
    pub fn record(&mut self, range: ByteRange) -> u64 {
        if range.is_empty() {
            return 0;
        }
        self.requests += 1;
        let window = window_bytes(range.length());
        if !self.is_near_any(range, window) {
            return self.start(range);
        }
        match self.continued_by(range, window) {
            Some((place, stream)) => self.go_on(place, stream, range),
            None => {
                self.count_repeats(range);
                self.start(range)
            }
        }
    }

    /// The stream to which the request belongs (the longest, then the nearest), as it is after it.
    fn continued_by(&self, range: ByteRange, window: u64) -> Option<(usize, HostStream)> {
        let distance = |stream: &HostStream| stream.next.abs_diff(range.start);
        let near = self.streams.iter().enumerate().filter(|(_, stream)| distance(stream) <= window);
        let fitting = near.filter_map(|(place, before)| Some((before, place, before.with(range, window)?)));
        let best = fitting.min_by_key(|(before, _, after)| (u64::MAX - after.length(), distance(before)));
        best.map(|(_, place, after)| (place, after))
    }

    /// Whether a stream may be near: wrong only where pages 16 TiB apart look alike.
    fn is_near_any(&self, range: ByteRange, window: u64) -> bool {
        let page = low_half(range.start / PAGE);
        let reach = low_half(window / PAGE) + 1;
        let is_near = |next: &u32| page.wrapping_sub(*next).wrapping_add(reach) <= 2 * reach;
        self.next_pages.iter().fold(false, |near, next| near | is_near(next))
    }

    fn go_on(&mut self, place: usize, mut stream: HostStream, range: ByteRange) -> u64 {
        stream.used_at = self.requests;
        stream.continued |= stream.length() > range.length();
        self.put(place, stream);
        stream.length()
    }

    fn start(&mut self, range: ByteRange) -> u64 {
        let place = self.place_to_take();
        self.hand = (place + 1) % STREAMS;
        self.put(place, HostStream { used_at: self.requests, ..HostStream::new(range) });
        range.length()
    }

    fn count_repeats(&mut self, range: ByteRange) {
        for stream in self.streams.iter_mut().filter(|stream| stream.has_seen(range)) {
            stream.seen = stream.seen.saturating_sub(range.length().saturating_mul(REPEAT_PENALTY));
        }
    }

    /// The next place without a live stream, else that of the stream used longest ago.
    fn place_to_take(&self) -> usize {
        let is_live = |stream: &HostStream| stream.continued && self.requests - stream.used_at <= IDLE_REQUESTS;
        let places = || (self.hand..STREAMS).chain(0..self.hand);
        let unused = places().find(|place| !is_live(&self.streams[*place]));
        let oldest = || places().min_by_key(|place| self.streams[*place].used_at);
        unused.or_else(oldest).expect("there is at least one place")
    }

    fn put(&mut self, place: usize, stream: HostStream) {
        self.next_pages[place] = low_half(stream.next / PAGE);
        self.streams[place] = stream;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// A fixed sequence of numbers below `bound` (xorshift64).
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |bound| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        }
    }

    // proves: D10
    #[test]
    fn a_sequential_stream_is_as_long_as_what_it_requested() {
        let mut streams = Streams::new();
        for request in 0..1000 {
            assert_eq!(streams.record(ByteRange::at(5 * MIB + request * 64 * KIB, 64 * KIB)), (request + 1) * 64 * KIB);
        }
    }

    #[test]
    fn a_stream_whose_requests_overtake_each_other_is_still_one() {
        for length in [4 * KIB, 64 * KIB, MIB] {
            let mut streams = Streams::new();
            let mut random = numbers(length);
            let in_flight = (MIB / length).clamp(4, 64);
            let mut order: Vec<u64> = (0..4096).collect();
            order.sort_by_cached_key(|request| request + random(in_flight));
            let mut longest = 0;
            for request in order {
                longest = longest.max(streams.record(ByteRange::at(request * length, length)));
            }
            assert!(longest >= 4000 * length, "{length}: {longest}");
        }
    }

    #[test]
    fn random_requests_never_look_like_a_stream_however_small_the_range_is() {
        for (range, length) in [(1, 4), (8, 4), (64, 4), (1024, 4), (1024, 64), (64, 64), (16, 16)] {
            let mut streams = Streams::new();
            let mut random = numbers(range * 7 + length);
            let mut longest = 0;
            for _ in 0..300_000 {
                let at = random(range * MIB / (length * KIB)) * length * KIB;
                longest = longest.max(streams.record(ByteRange::at(at, length * KIB)));
            }
            assert!(longest < 2 * MIB, "{length} KiB in {range} MiB: {longest}");
        }
    }

    #[test]
    fn as_many_streams_as_there_are_places_are_told_apart() {
        let mut streams = Streams::new();
        let count = u64::try_from(STREAMS).unwrap();
        let mut shortest = 0;
        for request in 0..100 {
            shortest = (0..count)
                .map(|stream| streams.record(ByteRange::at(stream * 100 * MIB + request * 128 * KIB, 128 * KIB)))
                .min()
                .unwrap();
        }
        assert_eq!(shortest, 100 * 128 * KIB);
    }

    // proves: D10
    #[test]
    fn a_stream_is_recognized_among_random_requests() {
        let mut streams = Streams::new();
        let mut random = numbers(11);
        let mut length = 0;
        for request in 0..2000 {
            length = streams.record(ByteRange::at(request * 256 * KIB, 256 * KIB));
            for _ in 0..20 {
                streams.record(ByteRange::at(600 * MIB + random(256 * KIB) * 4 * KIB, 4 * KIB));
            }
        }
        assert_eq!(length, 2000 * 256 * KIB);
    }

    #[test]
    fn a_stride_that_skips_most_is_no_stream() {
        let mut streams = Streams::new();
        let longest = (0..10_000).map(|request| streams.record(ByteRange::at(request * 16 * KIB, 4 * KIB))).max();
        assert!(longest.is_some_and(|longest| longest <= MIB), "{longest:?}");
    }

    #[test]
    fn requests_at_the_end_of_the_address_space_do_no_harm() {
        let mut streams = Streams::new();
        for _ in 0..100 {
            assert_eq!(streams.record(ByteRange { start: u64::MAX - 4096, end: u64::MAX }), 4096);
            assert_eq!(streams.record(ByteRange { start: 0, end: 4096 }), 4096);
            assert!(streams.record(ByteRange { start: 0, end: u64::MAX }) > MIB);
            assert_eq!(streams.record(ByteRange { start: 8192, end: 8192 }), 0);
        }
    }
}
