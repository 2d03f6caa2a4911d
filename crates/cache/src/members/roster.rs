//! The SSDs that a pool has had in this run: some join while it serves, and none is ever taken out, so that an index means
//! the same SSD for as long as the pool is open.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// A list that only grows, up to what it was made for; whoever looks at it needs no lock.
pub(crate) struct Roster<T> {
    places: Vec<OnceCell<Rc<T>>>,
    taken: Cell<usize>,
}

impl<T> Roster<T> {
    /// With room for so many more.
    pub(crate) fn new(first: Vec<Rc<T>>, more: usize) -> Self {
        let taken = Cell::new(first.len());
        let mut places: Vec<OnceCell<Rc<T>>> = first.into_iter().map(OnceCell::from).collect();
        places.resize_with(places.len() + more, OnceCell::new);
        Self { places, taken }
    }

    pub(crate) fn len(&self) -> usize {
        self.taken.get()
    }

    pub(crate) fn room(&self) -> usize {
        self.places.len() - self.len()
    }

    /// # Panics
    /// If there is no room.
    pub(crate) fn push(&self, item: Rc<T>) {
        assert!(self.room() > 0, "{} SSDs have joined, and there is room for no more", self.len());
        let added = self.places[self.len()].set(item).is_ok();
        assert!(added, "a place is taken once");
        self.taken.set(self.len() + 1);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<T>> {
        self.places.iter().map_while(OnceCell::get)
    }
}

impl<T> std::ops::Index<usize> for Roster<T> {
    type Output = Rc<T>;

    fn index(&self, index: usize) -> &Rc<T> {
        self.places[index].get().expect("an index names an SSD that has joined")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_joins_comes_last_and_whoever_is_looking_sees_it() {
        let roster = Roster::new(vec![Rc::new(10), Rc::new(20)], 1);
        let mut looking = roster.iter();
        looking.next();
        roster.push(Rc::new(30));
        assert_eq!(looking.map(|item| **item).collect::<Vec<_>>(), [20, 30]);
        assert_eq!((roster.len(), roster.room(), *roster[2]), (3, 0, 30));
    }
    #[test]
    #[should_panic(expected = "there is room for no more")]
    fn what_joins_needs_room() {
        let roster = Roster::new(vec![Rc::new(10)], 0);
        roster.push(Rc::new(20));
    }
}
