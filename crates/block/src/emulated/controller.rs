//! The controller's write cache: non-volatile memory that acknowledges writes at once and brings them to the disks
//! later, in the order of their addresses, joined to full stripes where possible.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::RequestId;
use crate::{ByteRange, Instant};

/// The unit in which the controller accounts for what it holds, in bytes.
const PAGE_BYTES: u64 = 4096;

/// How long data may stay before it is brought to the disks although there is room: a sequential writer fills its
/// stripe within it, and a pause of the host is used.
const DESTAGE_DELAY: Duration = Duration::from_millis(500);

/// Above this share of the cache (in quarters), stripes are brought to the disks whatever their age.
const HIGH_WATER_QUARTERS: u64 = 3;

/// What the controller does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// These ranges of this stripe go to the disks now.
    Stripe(u64, Vec<ByteRange>),
    /// Nothing before this time.
    At(Instant),
    Nothing,
}

#[derive(Debug)]
pub(super) struct ControllerCache {
    stripe_bytes: u64,
    capacity_pages: u64,
    /// Pages that are dirty or on their way to the disks.
    used_pages: u64,
    dirty: BTreeMap<u64, DirtyStripe>,
    full: BTreeSet<u64>,
    by_age: VecDeque<(Instant, u64)>,
    /// The stripe after the last one that went to the disks.
    cursor: u64,
    blocked: VecDeque<(RequestId, ByteRange)>,
}

#[derive(Debug)]
struct DirtyStripe {
    since: Instant,
    pages: BTreeSet<u64>,
}

impl ControllerCache {
    pub(super) fn new(capacity_bytes: u64, stripe_bytes: u64) -> Self {
        Self {
            stripe_bytes,
            capacity_pages: capacity_bytes / PAGE_BYTES,
            used_pages: 0,
            dirty: BTreeMap::new(),
            full: BTreeSet::new(),
            by_age: VecDeque::new(),
            cursor: 0,
            blocked: VecDeque::new(),
        }
    }

    /// The write waits for room, behind those that wait already; `admit` tells when it has it.
    pub(super) fn submit(&mut self, request: RequestId, range: ByteRange) {
        self.blocked.push_back((request, range));
    }

    /// Takes in the writes for which there is room. One that is larger than the cache goes through it alone.
    pub(super) fn admit(&mut self, now: Instant) -> Vec<RequestId> {
        let mut admitted = Vec::new();
        while let Some((request, range)) = self.blocked.front().copied() {
            let fits = self.used_pages + page_count(range) <= self.capacity_pages || self.used_pages == 0;
            if !fits {
                break;
            }
            self.blocked.pop_front();
            self.insert(range, now);
            admitted.push(request);
        }
        admitted
    }

    /// All of it is here and not yet on its way to the disks.
    pub(super) fn holds(&self, range: ByteRange) -> bool {
        pages(range).all(|page| {
            let stripe = self.dirty.get(&(page * PAGE_BYTES / self.stripe_bytes));
            stripe.is_some_and(|stripe| stripe.pages.contains(&page))
        })
    }

    /// Full stripes first; then, above the high-water mark or when the oldest data has waited long enough, whichever
    /// stripe comes next in the order of addresses.
    pub(super) fn take_due(&mut self, now: Instant) -> Due {
        if let Some(stripe) = next_around(self.full.range(self.cursor..).next(), self.full.first()) {
            return self.take(stripe);
        }
        let Some(oldest) = self.oldest() else { return Due::Nothing };
        let due_at = oldest.plus(DESTAGE_DELAY);
        let above_high_water = self.used_pages * 4 > self.capacity_pages * HIGH_WATER_QUARTERS;
        if !above_high_water && self.blocked.is_empty() && due_at > now {
            return Due::At(due_at);
        }
        let following = self.dirty.range(self.cursor..).next().map(|(stripe, _)| stripe);
        let first = self.dirty.first_key_value().map(|(stripe, _)| stripe);
        next_around(following, first).map_or(Due::Nothing, |stripe| self.take(stripe))
    }

    /// So many bytes have reached the disks.
    pub(super) fn destaged(&mut self, bytes: u64) {
        self.used_pages -= bytes / PAGE_BYTES;
    }

    fn insert(&mut self, range: ByteRange, now: Instant) {
        for page in pages(range) {
            let number = page * PAGE_BYTES / self.stripe_bytes;
            let stripe = self.dirty.entry(number).or_insert_with(|| {
                self.by_age.push_back((now, number));
                DirtyStripe { since: now, pages: BTreeSet::new() }
            });
            if stripe.pages.insert(page) {
                self.used_pages += 1;
            }
            if u64::try_from(stripe.pages.len()).is_ok_and(|count| count * PAGE_BYTES == self.stripe_bytes) {
                self.full.insert(number);
            }
        }
    }

    fn take(&mut self, number: u64) -> Due {
        let stripe = self.dirty.remove(&number).expect("a stripe that is chosen is dirty");
        self.full.remove(&number);
        self.cursor = number + 1;
        Due::Stripe(number, runs(&stripe.pages))
    }

    /// Since when the oldest dirty stripe has been so.
    fn oldest(&mut self) -> Option<Instant> {
        while let Some((since, number)) = self.by_age.front().copied() {
            if self.dirty.get(&number).is_some_and(|stripe| stripe.since == since) {
                return Some(since);
            }
            self.by_age.pop_front();
        }
        None
    }
}

/// The next one at or after the cursor, else the first.
fn next_around(following: Option<&u64>, first: Option<&u64>) -> Option<u64> {
    following.or(first).copied()
}

fn pages(range: ByteRange) -> std::ops::Range<u64> {
    range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)
}

fn page_count(range: ByteRange) -> u64 {
    let pages = pages(range);
    pages.end - pages.start
}

/// The fewest ranges that cover the pages.
fn runs(pages: &BTreeSet<u64>) -> Vec<ByteRange> {
    let mut runs: Vec<ByteRange> = Vec::new();
    for page in pages {
        let start = page * PAGE_BYTES;
        match runs.last_mut() {
            Some(last) if last.end == start => last.end += PAGE_BYTES,
            Some(_) | None => runs.push(ByteRange::at(start, PAGE_BYTES)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIPE: u64 = 4 * PAGE_BYTES;

    fn cache(stripes: u64) -> ControllerCache {
        ControllerCache::new(stripes * STRIPE, STRIPE)
    }

    fn write(cache: &mut ControllerCache, request: u64, page: u64, count: u64, now: Instant) -> Vec<RequestId> {
        cache.submit(RequestId(request), ByteRange::at(page * PAGE_BYTES, count * PAGE_BYTES));
        cache.admit(now)
    }

    #[test]
    fn small_neighbouring_writes_become_one_full_stripe() {
        let mut cache = cache(4);
        for page in 0..4 {
            assert_eq!(cache.take_due(Instant(0)), if page == 0 { Due::Nothing } else { delayed() });
            write(&mut cache, page, page, 1, Instant(0));
        }
        assert_eq!(cache.take_due(Instant(0)), Due::Stripe(0, vec![ByteRange::at(0, STRIPE)]));
    }

    #[test]
    fn a_partial_stripe_goes_to_the_disks_after_a_while() {
        let mut cache = cache(4);
        write(&mut cache, 1, 5, 1, Instant(0));
        assert_eq!(cache.take_due(Instant(0)), delayed());
        let later = Instant(0).plus(DESTAGE_DELAY);
        assert_eq!(cache.take_due(later), Due::Stripe(1, vec![ByteRange::at(5 * PAGE_BYTES, PAGE_BYTES)]));
    }

    #[test]
    fn a_full_cache_lets_writes_wait_until_data_has_reached_the_disks() {
        let mut cache = cache(1);
        assert_eq!(write(&mut cache, 1, 0, 4, Instant(0)), [RequestId(1)]);
        assert_eq!(write(&mut cache, 2, 8, 1, Instant(0)), []);
        assert_eq!(cache.take_due(Instant(0)), Due::Stripe(0, vec![ByteRange::at(0, STRIPE)]));
        assert_eq!(cache.admit(Instant(1)), [], "what is on its way still takes room");
        cache.destaged(STRIPE);
        assert_eq!(cache.admit(Instant(2)), [RequestId(2)]);
    }

    #[test]
    fn stripes_go_to_the_disks_in_the_order_of_their_addresses() {
        let mut cache = cache(100);
        for stripe in [7, 3, 9, 5] {
            write(&mut cache, stripe, stripe * 4, 1, Instant(0));
        }
        cache.cursor = 4;
        let later = Instant(0).plus(DESTAGE_DELAY);
        let order: Vec<u64> = std::iter::from_fn(|| match cache.take_due(later) {
            Due::Stripe(stripe, _) => Some(stripe),
            Due::At(_) | Due::Nothing => None,
        })
        .collect();
        assert_eq!(order, [5, 7, 9, 3]);
    }

    fn delayed() -> Due {
        Due::At(Instant(0).plus(DESTAGE_DELAY))
    }
}
