//! Hosts at work: random reads, writes, zeroes and flushes in flight together, with a journal of what each was told.
//!
//! A region of a volume belongs to one writer. For every sector the journal knows the version that was acknowledged and
//! the one that may or may not have been stored when the connection ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Moment;
use crate::nbd::{Client, Error, FLAG_FUA, Reply, Verb};
use crate::pattern::{Random, SECTOR, SECTOR_BYTES, Version, describe, fill_sector, is_sector, sectors};

/// Requests that a writer keeps in flight.
const DEPTH: usize = 16;
/// The longest request, in sectors: two pages and a part.
const SECTORS_MAX: u64 = 20;

/// Ends the load when the test that began it fails: a scope waits for its threads, and nothing else would end them.
pub struct StopOnPanic<'a>(pub &'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// What the host knows of a sector.
#[derive(Clone, Copy)]
struct Known {
    acknowledged: Version,
    /// Written, and not answered yet (or never).
    pending: Option<Version>,
    /// Some request in flight touches it.
    busy: bool,
}

/// A request in flight.
struct Sent {
    verb: Verb,
    flags: u16,
    first: u64,
    count: u64,
    /// What it stores.
    version: Option<Version>,
}

fn transmit(client: &mut Client, request: &Sent) -> Result<u64, Error> {
    let Sent { verb, flags, first, count, version } = *request;
    if verb == Verb::Flush {
        return client.send(verb, flags, 0, 0, &[]);
    }
    let (offset, length) =
        (first * SECTOR_BYTES, u32::try_from(count * SECTOR_BYTES).expect("a request is below 4 GiB"));
    let data = version.filter(|_| verb == Verb::Write).map(|version| sectors(first, count, version));
    client.send(verb, flags, offset, length, &data.unwrap_or_default())
}

/// A host that uses sectors `first..first + count` of a volume, alone.
pub struct Host {
    first: u64,
    known: Vec<Known>,
    random: Random,
    next_version: u64,
    answered: Arc<AtomicU64>,
}

impl Host {
    /// The region holds version 0.
    pub fn new(first: u64, count: u64, seed: u64) -> Self {
        let fresh = Known { acknowledged: Version::Number(0), pending: None, busy: false };
        let len = usize::try_from(count).expect("an address has 64 bits at most");
        Self { first, known: vec![fresh; len], random: Random::new(seed), next_version: 1, answered: Arc::default() }
    }

    /// Requests that were answered.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Counts them together with other hosts'.
    pub fn count_in(&mut self, answered: &Arc<AtomicU64>) {
        self.answered = Arc::clone(answered);
    }

    /// Works until `stop` is set (then waits for what is in flight) or the connection ends (then returns its error).
    /// Panics on a wrong byte and on an error of the server.
    pub fn work(&mut self, client: &mut Client, stop: &AtomicBool) -> Result<(), Error> {
        let mut sent = BTreeMap::new();
        while self.step(client, &mut sent, stop)? {}
        Ok(())
    }

    /// Works until `stop` is set, through whatever ends the connection: then what was not answered is asked again by a new
    /// one. Returns the longest time in which nothing was answered. Panics on a wrong byte and on an error of the server.
    pub fn work_through(&mut self, connect: impl Fn() -> Client, stop: &AtomicBool) -> Duration {
        let (mut client, mut sent, mut answered) = (connect(), BTreeMap::new(), Moment::now());
        let mut longest = Duration::ZERO;
        loop {
            match self.step(&mut client, &mut sent, stop) {
                Ok(false) => return longest,
                Ok(true) => {
                    longest = longest.max(answered.elapsed());
                    answered = Moment::now();
                }
                Err(Error::Connection(_)) => {
                    client = connect();
                    let again = std::mem::take(&mut sent);
                    for request in again.into_values() {
                        // If this one breaks too, the rest is not lost: it is asked again by the next.
                        let cookie = transmit(&mut client, &request).unwrap_or_else(|_| client.last_cookie());
                        sent.insert(cookie, request);
                    }
                }
                Err(error @ Error::Answer(_)) => panic!("{error}"),
            }
        }
    }

    /// Sends as many requests as may be in flight, and takes one reply. False when there is no more to do.
    fn step(&mut self, client: &mut Client, sent: &mut BTreeMap<u64, Sent>, stop: &AtomicBool) -> Result<bool, Error> {
        while client.in_flight() < DEPTH && !stop.load(Ordering::Relaxed) {
            let request = self.choose();
            let outcome = transmit(client, &request);
            sent.insert(client.last_cookie(), request);
            outcome?;
        }
        if client.in_flight() == 0 {
            return Ok(false);
        }
        let reply = client.receive()?;
        let request = sent.remove(&reply.cookie).expect("the client checks that it was asked");
        self.account_for(&request, &reply);
        Ok(true)
    }

    /// The next request; its range is busy from now on.
    fn choose(&mut self) -> Sent {
        let (first, count) = self.free_range();
        let (verb, flags) = match self.random.below(100) {
            0..40 => (Verb::Read, 0),
            40..90 => (Verb::Write, 0),
            90..95 => (Verb::Write, FLAG_FUA),
            95..98 => (Verb::WriteZeroes, 0),
            _ => return Sent { verb: Verb::Flush, flags: 0, first, count: 0, version: None },
        };
        let version = self.version(verb);
        for known in self.range(first, count) {
            known.busy = true;
            known.pending = version;
        }
        Sent { verb, flags, first, count, version }
    }

    /// The version that a request of this kind stores.
    fn version(&mut self, verb: Verb) -> Option<Version> {
        self.next_version += 1;
        match verb {
            Verb::Write => Some(Version::Number(self.next_version)),
            Verb::WriteZeroes => Some(Version::Zeroes),
            Verb::Read | Verb::Flush | Verb::Trim | Verb::Cache | Verb::Disconnect => None,
        }
    }

    /// A random range that no request in flight touches. Half of them are whole pages, half anything.
    fn free_range(&mut self) -> (u64, u64) {
        let total = u64::try_from(self.known.len()).expect("an address has 64 bits at most");
        loop {
            let (first, count) = if self.random.below(2) == 0 {
                (self.random.below(total / 8) * 8, 8)
            } else {
                let count = 1 + self.random.below(SECTORS_MAX);
                (self.random.below(total - count), count)
            };
            let first = self.first + first;
            if self.range(first, count).iter().all(|known| !known.busy) {
                return (first, count);
            }
        }
    }

    fn range(&mut self, first: u64, count: u64) -> &mut [Known] {
        let start = usize::try_from(first - self.first).expect("an address has 64 bits at most");
        let len = usize::try_from(count).expect("an address has 64 bits at most");
        &mut self.known[start..start + len]
    }

    fn account_for(&mut self, sent: &Sent, reply: &Reply) {
        assert_eq!(reply.error, 0, "{:?} of {} sectors at {} failed", sent.verb, sent.count, sent.first);
        self.answered.fetch_add(1, Ordering::Relaxed);
        if sent.verb == Verb::Read {
            self.check(sent.first, &reply.data);
        }
        for known in self.range(sent.first, sent.count) {
            known.busy = false;
            known.acknowledged = known.pending.take().unwrap_or(known.acknowledged);
        }
    }

    /// Asserts that what was read is what was acknowledged.
    fn check(&mut self, first: u64, data: &[u8]) {
        for (sector, bytes) in (first..).zip(data.chunks_exact(SECTOR)) {
            let expected = self.range(sector, 1)[0].acknowledged;
            assert!(is_sector(bytes, sector, expected), "sector {sector} is not {expected:?}: {}", describe(bytes));
        }
    }

    /// After a crash: asserts that every sector is in a legal version, which is from now on the only one.
    pub fn reconcile_after_crash(&mut self, client: &mut Client) {
        self.each_piece(client, |host, first, data| {
            for (sector, bytes) in (first..).zip(data.chunks_exact(SECTOR)) {
                let known = &mut host.range(sector, 1)[0];
                let legal = [Some(known.acknowledged), known.pending];
                let found = legal.into_iter().flatten().find(|version| is_sector(bytes, sector, *version));
                let Some(found) = found else {
                    panic!("sector {sector}: acknowledged and pending {legal:?}, but it is {}", describe(bytes));
                };
                *known = Known { acknowledged: found, pending: None, busy: false };
            }
        });
    }

    /// Asserts that every sector is in its acknowledged version; nothing may be in flight.
    pub fn check_all(&mut self, client: &mut Client) {
        self.each_piece(client, |host, first, data| host.check(first, data));
    }

    fn each_piece(&mut self, client: &mut Client, mut visit: impl FnMut(&mut Self, u64, &[u8])) {
        let (start, end) =
            (self.first, self.first + u64::try_from(self.known.len()).expect("an address has 64 bits at most"));
        for first in (start..end).step_by(128) {
            let count = 128.min(end - first);
            let length = u32::try_from(count * SECTOR_BYTES).expect("a piece is below 4 GiB");
            let data = client.read(first * SECTOR_BYTES, length);
            let data = data.unwrap_or_else(|error| panic!("reading sector {first}: {error}"));
            visit(self, first, &data);
        }
    }

    /// Asserts that the same region of a file (the backing device, after a detach) is in its acknowledged versions.
    pub fn check_file(&mut self, path: &std::path::Path) {
        let mut expected = [0; SECTOR];
        for index in 0..self.known.len() {
            let sector = self.first + u64::try_from(index).expect("an address has 64 bits at most");
            fill_sector(&mut expected, sector, self.known[index].acknowledged);
            let found = crate::files::read_part(path, sector * SECTOR_BYTES, SECTOR);
            assert!(found == expected, "sector {sector} of the file is {}", describe(&found));
        }
    }
}
