//! The journal of what was flushed, outside of the machine whose power is cut: of the volume `pages`, to which this
//! program writes, and of the files that the machine's kernel made safe.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use hotset_e2e::files::{MIB, read_part, usize_of};
use hotset_e2e::nbd::{Client, Error, FLAG_FUA, Verb};
use hotset_e2e::pattern::{Random, SECTOR, SECTOR_BYTES, Version, describe, is_sector, sectors};

use crate::guest_machine::Machine;

/// The part of the volume `pages` that is written.
const REGION_SECTORS: u64 = 12 * MIB / SECTOR_BYTES;
/// How many requests are in flight.
const DEPTH: usize = 16;

/// What a sector of the volume may hold.
#[derive(Clone, Default)]
struct Sector {
    /// Flushed: nothing older may come back.
    flushed: u64,
    /// The newest one that was answered.
    answered: u64,
    /// Sent, and newer than the flushed one.
    since: Vec<u64>,
    busy: bool,
}

/// What waits for its answer.
enum Sent {
    Write {
        first: u64,
        count: u64,
        version: u64,
        through: bool,
    },
    /// With the versions that were answered when it was sent.
    Flush(Vec<u64>),
}

/// What an answer of the volume promises to survive whatever follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    Nothing,
    /// To a FUA write: what it wrote.
    Through,
    /// To a flush: everything that was answered when it was sent.
    Flush,
}

impl Sent {
    fn promise(&self) -> Promise {
        match self {
            Self::Write { through: false, .. } => Promise::Nothing,
            Self::Write { through: true, .. } => Promise::Through,
            Self::Flush(_) => Promise::Flush,
        }
    }
}

/// The journal of the volume `pages`.
pub(crate) struct Pages {
    known: Vec<Sector>,
    version: u64,
    random: Random,
}

impl Pages {
    pub(crate) fn new() -> Self {
        Self { known: vec![Sector::default(); usize_of(REGION_SECTORS)], version: 0, random: Random::new(7) }
    }

    fn range(&mut self, first: u64, count: u64) -> &mut [Sector] {
        &mut self.known[usize_of(first)..usize_of(first + count)]
    }

    /// Writes and flushes; `look` is told how many were answered and what the last answer promises, and cuts the power at some time.
    /// Returns how many.
    pub(crate) fn work_until_the_power_goes(&mut self, client: &mut Client, mut look: impl FnMut(u64, Promise)) -> u64 {
        let (mut sent, mut answered) = (BTreeMap::new(), 0);
        loop {
            while client.in_flight() < DEPTH {
                match self.send(client) {
                    Ok((cookie, request)) => sent.insert(cookie, request),
                    Err(_) => return answered,
                };
            }
            let Some(promise) = self.receive(client, &mut sent) else { return answered };
            answered += 1;
            look(answered, promise);
        }
    }

    /// Writes and flushes, that many requests, of which none is in flight in the end.
    pub(crate) fn work(&mut self, client: &mut Client, requests: u64) {
        let mut sent = BTreeMap::new();
        for _ in 0..requests {
            let (cookie, request) = self.send(client).expect("it serves");
            sent.insert(cookie, request);
            if client.in_flight() == DEPTH {
                self.receive(client, &mut sent).expect("it serves");
            }
        }
        while client.in_flight() > 0 {
            self.receive(client, &mut sent).expect("it serves");
        }
    }

    /// `None`: the connection is gone.
    fn receive(&mut self, client: &mut Client, sent: &mut BTreeMap<u64, Sent>) -> Option<Promise> {
        let reply = match client.receive() {
            Err(Error::Connection(_)) => return None,
            Err(error) => panic!("{error}"),
            Ok(reply) => reply,
        };
        // Without power, its devices are gone for the daemon too.
        assert_eq!(reply.error, 0, "a request fails");
        let answered = sent.remove(&reply.cookie).expect("the client checks that it was asked");
        let promise = answered.promise();
        self.account_for(answered);
        Some(promise)
    }

    fn send(&mut self, client: &mut Client) -> Result<(u64, Sent), Error> {
        let kind = self.random.below(200);
        if kind < 3 {
            let answered = self.known.iter().map(|sector| sector.answered).collect();
            return Ok((client.send(Verb::Flush, 0, 0, 0, &[])?, Sent::Flush(answered)));
        }
        let (first, count) = self.free_range();
        self.version += 1;
        let (version, through) = (self.version, kind < 6);
        for sector in self.range(first, count) {
            sector.busy = true;
            sector.since.push(version);
        }
        let data = sectors(first, count, Version::Number(version));
        let length = u32::try_from(count * SECTOR_BYTES).expect("a request is below 4 GiB");
        let flags = if through { FLAG_FUA } else { 0 };
        let cookie = client.send(Verb::Write, flags, first * SECTOR_BYTES, length, &data)?;
        Ok((cookie, Sent::Write { first, count, version, through }))
    }

    /// A random range that nothing in flight touches: whole pages, parts of them, and now and then many.
    fn free_range(&mut self) -> (u64, u64) {
        loop {
            let count = [8, 8, 8, 1 + self.random.below(24), 256][usize_of(self.random.below(5))];
            let first = self.random.below((REGION_SECTORS - count) / 8) * 8;
            let first = if count < 8 { first + self.random.below(8 - count) } else { first };
            if self.range(first, count).iter().all(|sector| !sector.busy) {
                return (first, count);
            }
        }
    }

    fn account_for(&mut self, sent: Sent) {
        match sent {
            Sent::Write { first, count, version, through } => {
                for sector in self.range(first, count) {
                    sector.busy = false;
                    sector.answered = version;
                    if through {
                        sector.flush_up_to(version);
                    }
                }
            }
            Sent::Flush(answered) => {
                self.known.iter_mut().zip(answered).for_each(|(sector, version)| sector.flush_up_to(version));
            }
        }
    }

    /// Asserts that every sector is in a legal version, and flushes: it is the only one from now on.
    pub(crate) fn reconcile_after_cut(&mut self, client: &mut Client, machine: &mut Machine) {
        for first in (0..REGION_SECTORS).step_by(512) {
            let bytes = client.read(first * SECTOR_BYTES, 512 * 512);
            let bytes = bytes.unwrap_or_else(|error| panic!("sector {first}: {error}\n{}", machine.take()));
            for (number, bytes) in (first..).zip(bytes.chunks_exact(SECTOR)) {
                let sector = &mut self.range(number, 1)[0];
                let found = sector.find(number, bytes);
                *sector = Sector { flushed: found, answered: found, since: Vec::new(), busy: false };
            }
        }
        client.flush().expect("a flush");
    }

    /// Asserts that a file is what was found last.
    pub(crate) fn check_file(&self, path: &Path) {
        let bytes = read_part(path, 0, usize_of(REGION_SECTORS * SECTOR_BYTES));
        for ((number, bytes), sector) in (0..).zip(bytes.chunks_exact(SECTOR)).zip(&self.known) {
            sector.find(number, bytes);
        }
    }
}

impl Sector {
    fn flush_up_to(&mut self, version: u64) {
        self.flushed = self.flushed.max(version);
        let flushed = self.flushed;
        self.since.retain(|version| *version > flushed);
    }

    /// The version that these bytes are; panics unless it is a legal one.
    fn find(&self, number: u64, bytes: &[u8]) -> u64 {
        let is = |version| match version {
            0 => is_sector(bytes, number, Version::Zeroes),
            version => is_sector(bytes, number, Version::Number(version)),
        };
        let found = self.since.iter().copied().chain([self.flushed]).find(|version| is(*version));
        found.unwrap_or_else(|| {
            panic!("sector {number}: flushed {}, sent {:?}, but it is {}", self.flushed, self.since, describe(bytes))
        })
    }
}

/// The files that the machine's kernel said are safe: of each file system, its files and their sums.
#[derive(Default)]
pub(crate) struct Files(BTreeMap<String, BTreeMap<String, String>>);

impl Files {
    /// Takes down what the machine said, in its order.
    pub(crate) fn learn(&mut self, said: &str) {
        for line in said.lines() {
            if let Some(name) = line.split("guest: forget ").nth(1) {
                self.0.insert(name.trim().to_owned(), BTreeMap::new());
            } else if let Some((name, sum, path)) = sum_line(line, "guest: safe ") {
                self.0.entry(name).or_default().insert(path, sum);
            }
        }
    }

    /// Asserts that the file systems that were just checked have all of their safe files.
    pub(crate) fn check(&self, said: &str) {
        for name in said.lines().filter_map(|line| line.split("guest: checked ").nth(1)) {
            let name = name.trim();
            let lines = said.lines().filter_map(|line| sum_line(line, "guest: sum "));
            let found: BTreeMap<_, _> = lines.filter(|line| line.0 == name).map(|(_, sum, path)| (path, sum)).collect();
            for (path, sum) in self.0.get(name).into_iter().flatten() {
                assert_eq!(found.get(path), Some(sum), "{path} on {name} was safe:\n{said}");
            }
        }
    }
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<_> =
            self.0.iter().map(|(name, files)| format!("{} files safe on {name}", files.len())).collect();
        f.write_str(&counts.join(", "))
    }
}

/// File system, sum and path of such a line.
fn sum_line(line: &str, mark: &str) -> Option<(String, String, String)> {
    let mut words = line.split(mark).nth(1)?.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.next()?, words.next()?))
}
