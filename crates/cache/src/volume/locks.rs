//! Exclusive locks on page ranges of one volume: one backing write or discard per page at a time.
//!
//! Waiters are served in order of arrival as far as their ranges touch, so that nobody starves.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::address::touch;
use crate::volume::held_pages::{HeldPages, words_in_short};

/// The locks of a volume. A handle: cloning it is cheap.
#[derive(Clone, Default)]
pub(crate) struct RangeLocks {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    held: RefCell<HeldPages>,
    waiting: RefCell<Waiting>,
}

/// In order of arrival: what each waits for.
#[derive(Default)]
struct Waiting {
    queue: VecDeque<(Range<u64>, Rc<Waiter>)>,
    /// Of all that is waited for, as [`words_in_short`]: most ranges have nothing to do with it, and this says so.
    words: u64,
}

impl Waiting {
    fn push(&mut self, pages: Range<u64>, waiter: Rc<Waiter>) {
        self.words |= words_in_short(&pages);
        self.queue.push_back((pages, waiter));
    }

    /// Somebody waits for some of these pages.
    fn is_touched_by(&self, pages: &Range<u64>) -> bool {
        self.words & words_in_short(pages) != 0 && self.queue.iter().any(|(wanted, _)| touch(wanted, pages))
    }

    fn remove(&mut self, mut leaves: impl FnMut(&Rc<Waiter>) -> bool) {
        self.queue.retain(|(_, waiter)| !leaves(waiter));
        self.words = self.queue.iter().fold(0, |words, (wanted, _)| words | words_in_short(wanted));
    }
}

struct Waiter {
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Inner {
    /// Holds `pages`; false: somebody has some of them.
    fn hold(&self, pages: &Range<u64>) -> bool {
        self.held.borrow_mut().hold(pages)
    }

    /// `pages` are held, or waited for, by one less: gives the lock to every waiter whose range touches neither a held one
    /// nor an earlier waiter's. Those whose ranges do not touch `pages` wait for what they waited for before.
    fn grant(&self, pages: &Range<u64>) {
        let mut waiting = self.waiting.borrow_mut();
        for (index, (wanted, waiter)) in waiting.queue.iter().enumerate() {
            let granted = touch(wanted, pages)
                && !waiting.queue.iter().take(index).any(|(earlier, _)| touch(earlier, wanted))
                && self.hold(wanted);
            waiter.granted.set(granted);
        }
        let mut wakers = Vec::new();
        waiting.remove(|waiter| {
            let granted = waiter.granted.get();
            if granted {
                wakers.extend(waiter.waker.take());
            }
            granted
        });
        drop(waiting);
        for waker in wakers {
            waker.wake();
        }
    }

    fn release(&self, pages: &Range<u64>) {
        self.held.borrow_mut().release(pages);
        let wanted = self.waiting.borrow().is_touched_by(pages);
        if wanted {
            self.grant(pages);
        }
    }
}

impl RangeLocks {
    /// Waits for `pages` (not empty) and holds them until the guard is dropped.
    pub(crate) fn exclusive(&self, pages: Range<u64>) -> Exclusive {
        assert!(!pages.is_empty(), "no page is held, and nobody would wait for it");
        Exclusive { locks: self.clone(), pages, waiter: None }
    }

    /// Holds `pages`, if that is possible without waiting for anybody.
    pub(crate) fn try_exclusive(&self, pages: &Range<u64>) -> Option<Held> {
        assert!(!pages.is_empty(), "no page is held, and nobody would wait for it");
        let queued = self.inner.waiting.borrow().is_touched_by(pages);
        if queued || !self.inner.hold(pages) {
            return None;
        }
        Some(Held { locks: self.clone(), pages: pages.clone() })
    }

    /// What of `pages`, which are few, is held, in pieces.
    pub(crate) fn held_in(&self, pages: &Range<u64>) -> Vec<Range<u64>> {
        self.inner.held.borrow().within(pages)
    }
}

/// See [`RangeLocks::exclusive`].
pub(crate) struct Exclusive {
    locks: RangeLocks,
    pages: Range<u64>,
    waiter: Option<Rc<Waiter>>,
}

impl Future for Exclusive {
    type Output = Held;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Held> {
        if let Some(waiter) = &self.waiter {
            if waiter.granted.get() {
                self.waiter = None;
                return Poll::Ready(Held { locks: self.locks.clone(), pages: self.pages.clone() });
            }
            *waiter.waker.borrow_mut() = Some(context.waker().clone());
            return Poll::Pending;
        }
        if let Some(held) = self.locks.try_exclusive(&self.pages) {
            return Poll::Ready(held);
        }
        let inner = Rc::clone(&self.locks.inner);
        let waker = RefCell::new(Some(context.waker().clone()));
        let waiter = Rc::new(Waiter { granted: Cell::new(false), waker });
        inner.waiting.borrow_mut().push(self.pages.clone(), Rc::clone(&waiter));
        self.waiter = Some(waiter);
        Poll::Pending
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        if waiter.granted.get() {
            self.locks.inner.release(&self.pages);
        } else {
            self.locks.inner.waiting.borrow_mut().remove(|queued| Rc::ptr_eq(queued, &waiter));
            self.locks.inner.grant(&self.pages);
        }
    }
}

/// The lock on a range; dropping it gives the range free.
pub(crate) struct Held {
    locks: RangeLocks,
    pages: Range<u64>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.inner.release(&self.pages);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn poll(lock: &mut Exclusive) -> Option<Held> {
        match Pin::new(lock).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(held) => Some(held),
            Poll::Pending => None,
        }
    }

    #[test]
    fn overlapping_ranges_wait_in_order_and_others_pass() {
        let locks = RangeLocks::default();
        let first = poll(&mut locks.exclusive(0..10)).expect("nobody holds them");
        let mut wide = locks.exclusive(5..20);
        assert!(poll(&mut wide).is_none());
        let mut behind = locks.exclusive(15..16);
        assert!(poll(&mut behind).is_none(), "the wide one was there first");
        assert!(poll(&mut locks.exclusive(30..31)).is_some());
        assert_eq!(locks.held_in(&(9..40)), vec![Range { start: 9, end: 10 }]);
        drop(first);
        let wide = poll(&mut wide).expect("nobody else holds it");
        assert!(poll(&mut behind).is_none());
        drop(wide);
        assert!(poll(&mut behind).is_some());
    }

    #[test]
    fn who_does_not_wait_gets_nothing_that_is_held_or_waited_for() {
        let locks = RangeLocks::default();
        let held = locks.try_exclusive(&(0..10)).expect("nobody holds them");
        assert!(locks.try_exclusive(&(9..11)).is_none());
        let mut wide = locks.exclusive(5..20);
        assert!(poll(&mut wide).is_none());
        assert!(locks.try_exclusive(&(15..16)).is_none(), "it would overtake");
        assert!(locks.try_exclusive(&(20..21)).is_some());
        drop(held);
        drop(poll(&mut wide).expect("nobody else holds it"));
        assert!(locks.try_exclusive(&(0..20)).is_some());
    }

    proptest! {
        #[test]
        fn whatever_is_held_nobody_else_gets(
            steps in prop::collection::vec((any::<bool>(), 0_u64..30_000, 0_u32..14, any::<prop::sample::Index>()), 1..300),
        ) {
            let locks = RangeLocks::default();
            let mut held: Vec<Held> = Vec::new();
            for (release, start, length, which) in steps {
                if release && !held.is_empty() {
                    held.swap_remove(which.index(held.len()));
                    continue;
                }
                let pages = start..start + (1 << length);
                let others: Vec<_> = held.iter().map(|held| held.pages.clone()).collect();
                let of_others = |page: &u64| others.iter().any(|other| other.contains(page));
                let expected: Vec<u64> = pages.clone().filter(of_others).collect();
                let mut found: Vec<u64> = locks.held_in(&pages).into_iter().flatten().collect();
                found.sort_unstable();
                prop_assert_eq!(&found, &expected);
                let got = locks.try_exclusive(&pages);
                prop_assert_eq!(got.is_some(), expected.is_empty());
                held.extend(got);
            }
        }
    }

    #[test]
    fn who_waits_for_many_pages_is_served_when_the_last_of_them_are_free() {
        let locks = RangeLocks::default();
        for held in [3_u64, 65, 4000, 5000, 100_000] {
            let held = locks.try_exclusive(&(held..held + 1)).expect("nobody holds them");
            let mut wide = locks.exclusive(0..200_000);
            assert!(poll(&mut wide).is_none());
            assert!(locks.try_exclusive(&(150_000..150_001)).is_none(), "it would overtake");
            drop(held);
            assert!(poll(&mut wide).is_some());
        }
    }

    #[test]
    fn a_waiter_that_leaves_blocks_nobody() {
        let locks = RangeLocks::default();
        let held = poll(&mut locks.exclusive(0..10)).expect("nobody holds them");
        let mut leaver = locks.exclusive(0..20);
        assert!(poll(&mut leaver).is_none());
        let mut stayer = locks.exclusive(10..20);
        assert!(poll(&mut stayer).is_none());
        drop(leaver);
        assert!(poll(&mut stayer).is_some());
        drop(held);
        assert!(locks.held_in(&(0..100)).is_empty());
    }

    #[test]
    #[should_panic(expected = "no page is held")]
    fn a_lock_is_of_some_pages() {
        drop(RangeLocks::default().try_exclusive(&(3..3)));
    }

    #[test]
    #[should_panic(expected = "no page is held")]
    fn nobody_waits_for_a_lock_of_no_page() {
        drop(RangeLocks::default().exclusive(3..3));
    }
}
