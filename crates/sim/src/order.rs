//! The order of all writes of a volume, also of those that no cell remembers: what may lie over what on a backing device.
//!
//! A write must not land where one lies that began when it had ended, and of which a host knows: it was answered without an
//! error, at any time, or a read has returned it from this very cell, and no power cut has taken that back. It makes no difference
//! whether hosts might still read the older one. Of a write that was never answered nothing follows for the cells in which
//! nobody saw it: it may have gone past the cache where the log's newest copies could not be had, and died before these were
//! off the list of what is lost; then they are dirty again, and legal, and go over it. Nor does what was seen of such a write in one
//! cell say anything of the others.

use crate::cell::Tick;
use crate::image::index;
use crate::model::{Answered, WriteNumber};

/// See the file's summary. Writes have the numbers from one on; number zero is what was there before.
pub(crate) struct Order {
    writes: Vec<Span>,
}

/// When a write ran.
struct Span {
    began: Tick,
    ended: Option<Tick>,
    /// A host was told that it is done.
    done: bool,
}

impl Order {
    pub(crate) fn new() -> Self {
        Self { writes: vec![Span { began: 0, ended: Some(0), done: true }] }
    }

    /// The number that the next write has.
    pub(crate) fn next(&self) -> u64 {
        u64::try_from(self.writes.len()).expect("a length fits in 64 bits")
    }

    pub(crate) fn begin(&mut self, now: Tick) -> WriteNumber {
        let number = WriteNumber(self.next());
        self.writes.push(Span { began: now, ended: None, done: false });
        number
    }

    pub(crate) fn end(&mut self, number: WriteNumber, now: Tick, answered: Answered) {
        let span = &mut self.writes[index(number.0)];
        span.ended.get_or_insert(now);
        span.done = match answered {
            Answered::Done | Answered::Durable => true,
            Answered::Unknown => false,
        };
    }

    /// The daemon is gone, and all writes with it.
    pub(crate) fn end_all(&mut self, now: Tick) {
        self.writes.iter_mut().for_each(|span| {
            span.ended.get_or_insert(now);
        });
    }

    /// `newer` began when `older` had ended, and a host knows of it. `seen`: a host has read it.
    pub(crate) fn replaces(&self, newer: WriteNumber, older: WriteNumber, seen: bool) -> bool {
        let (Some(newer), Some(older)) = (self.span(newer), self.span(older)) else { return false };
        (newer.done || seen) && older.ended.is_some_and(|ended| ended < newer.began)
    }

    fn span(&self, number: WriteNumber) -> Option<&Span> {
        self.writes.get(index(number.0))
    }
}
