//! Requests of hosts that change pages keep their order where one of them waits for room.
//!
//! While a write waits for room in the write log it holds no page (rule `reserves`), and its host may be told meanwhile that it failed,
//! or be gone. What the same host, or the next one, then writes there is newer, and must not be overwritten when there is room: it stands
//! in line behind.

use std::cell::Cell;
use std::ops::Range;

use crate::volume::locks::{Exclusive, Held, RangeLocks};

/// The line of a volume.
#[derive(Default)]
pub(crate) struct Line {
    places: RangeLocks,
    /// Requests that stand in it.
    standing: Cell<u32>,
}

/// A request's place in the line; most have none, for nobody waits.
pub(crate) struct PlaceInLine<'l> {
    line: &'l Line,
    /// All that the request changes.
    pages: Range<u64>,
    stands: bool,
    held: Option<Held>,
}

impl Line {
    /// For a request that changes these pages, not empty. It has no place yet.
    pub(crate) fn place(&self, pages: Range<u64>) -> PlaceInLine<'_> {
        PlaceInLine { line: self, pages, stands: false, held: None }
    }
}

impl PlaceInLine<'_> {
    /// Somebody came before who waits with some of the pages.
    pub(crate) fn is_behind_another(&self) -> bool {
        !self.stands && self.line.standing.get() > 0 && self.line.places.try_exclusive(&self.pages).is_none()
    }

    /// Stands in line until the request ends. What this answers completes when all that came before with some of the pages have ended,
    /// and is for [`Self::comes_first`]; `None`: it stands already. The caller holds no page.
    pub(crate) fn stand(&mut self) -> Option<Exclusive> {
        if std::mem::replace(&mut self.stands, true) {
            return None;
        }
        self.line.standing.set(self.line.standing.get() + 1);
        Some(self.line.places.exclusive(self.pages.clone()))
    }

    /// Nobody is before it any more.
    pub(crate) fn comes_first(&mut self, held: Held) {
        self.held = Some(held);
    }
}

impl Drop for PlaceInLine<'_> {
    fn drop(&mut self) {
        if self.stands {
            self.line.standing.set(self.line.standing.get() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Its turn comes at once.
    fn stand(place: &mut PlaceInLine<'_>) {
        let held = place.stand().expect("it does not stand yet").now_or_never().expect("nobody came before");
        place.comes_first(held);
    }

    #[test]
    fn whoever_comes_later_with_the_same_pages_stands_behind_and_nobody_else() {
        let line = Line::default();
        let (mut first, mut second, other) = (line.place(0..256), line.place(8..9), line.place(256..257));
        assert!(!first.is_behind_another() && !second.is_behind_another());
        stand(&mut first);
        assert!(!first.is_behind_another() && second.is_behind_another() && !other.is_behind_another());
        assert!(first.stand().is_none(), "it stands already");
        let mut turn = second.stand().unwrap();
        assert!((&mut turn).now_or_never().is_none());
        drop(first);
        second.comes_first(turn.now_or_never().expect("its turn has come"));
        assert!(!second.is_behind_another() && line.place(0..9).is_behind_another());
        drop(second);
        assert_eq!(line.standing.get(), 0);
        assert!(!line.place(0..9).is_behind_another());
    }

    #[test]
    fn whoever_leaves_while_he_stands_holds_up_nobody() {
        let line = Line::default();
        let (mut first, mut second, mut third) = (line.place(0..4), line.place(0..4), line.place(0..4));
        stand(&mut first);
        let mut turn = second.stand().unwrap();
        assert!((&mut turn).now_or_never().is_none());
        drop(turn);
        drop(second);
        assert!(third.is_behind_another());
        drop(first);
        stand(&mut third);
        drop(third);
        assert_eq!(line.standing.get(), 0);
    }
}
