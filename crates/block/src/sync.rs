//! Waiting on one thread: an event, a semaphore and a one-time value. None of them is `Send`; none allocates after
//! its waiters have woken. Waiters wake in the order in which they began to wait.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A place where tasks wait for somebody else's change. `wake_all` wakes those that wait now; each looks again.
#[derive(Default)]
pub struct Event {
    turn: Cell<u64>,
    waiters: RefCell<Vec<Waker>>,
}

impl Event {
    pub fn new() -> Self {
        Self::default()
    }

    /// Completes at the first `wake_all` after this call (not after the first poll).
    pub fn wait(&self) -> Wait<'_> {
        Wait { event: self, turn: self.turn.get() }
    }

    pub fn wake_all(&self) {
        self.turn.set(self.turn.get() + 1);
        for waker in self.waiters.take() {
            waker.wake();
        }
    }
}

/// See [`Event::wait`].
pub struct Wait<'a> {
    event: &'a Event,
    turn: u64,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.event.turn.get() != self.turn {
            return Poll::Ready(());
        }
        let mut waiters = self.event.waiters.borrow_mut();
        if !waiters.iter().any(|waker| waker.will_wake(context.waker())) {
            waiters.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// A counted allowance. Waiters are served in order, so that a large request is not starved by small ones.
pub struct Semaphore {
    inner: Rc<SemaphoreInner>,
}

struct SemaphoreInner {
    free: Cell<u64>,
    queue: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    wanted: u64,
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Clone for Semaphore {
    fn clone(&self) -> Self {
        Self { inner: Rc::clone(&self.inner) }
    }
}

impl Semaphore {
    pub fn new(permits: u64) -> Self {
        Self { inner: Rc::new(SemaphoreInner { free: Cell::new(permits), queue: RefCell::default() }) }
    }

    pub fn free(&self) -> u64 {
        self.inner.free.get()
    }

    /// Takes `wanted` permits if they are free and nobody waits.
    pub fn try_acquire(&self, wanted: u64) -> Option<Permit> {
        let free = self.inner.free.get();
        (self.inner.queue.borrow().is_empty() && free >= wanted).then(|| {
            self.inner.free.set(free - wanted);
            Permit { inner: Rc::clone(&self.inner), count: wanted }
        })
    }

    /// Waits for `wanted` permits. More than there are in all would wait for ever: callers clamp.
    pub fn acquire(&self, wanted: u64) -> Acquire {
        Acquire { inner: Rc::clone(&self.inner), wanted, waiter: None }
    }
}

/// See [`Semaphore::acquire`].
pub struct Acquire {
    inner: Rc<SemaphoreInner>,
    wanted: u64,
    waiter: Option<Rc<Waiter>>,
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        if let Some(waiter) = &self.waiter {
            if waiter.granted.get() {
                self.waiter = None;
                return Poll::Ready(Permit { inner: Rc::clone(&self.inner), count: self.wanted });
            }
            *waiter.waker.borrow_mut() = Some(context.waker().clone());
            return Poll::Pending;
        }
        let free = self.inner.free.get();
        if self.inner.queue.borrow().is_empty() && free >= self.wanted {
            self.inner.free.set(free - self.wanted);
            return Poll::Ready(Permit { inner: Rc::clone(&self.inner), count: self.wanted });
        }
        let waker = RefCell::new(Some(context.waker().clone()));
        let waiter = Rc::new(Waiter { wanted: self.wanted, granted: Cell::new(false), waker });
        self.inner.queue.borrow_mut().push_back(Rc::clone(&waiter));
        self.waiter = Some(waiter);
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        if waiter.granted.get() {
            self.inner.release(self.wanted);
        } else {
            self.inner.queue.borrow_mut().retain(|queued| !Rc::ptr_eq(queued, &waiter));
            self.inner.release(0);
        }
    }
}

/// Permits that go back when it is dropped.
pub struct Permit {
    inner: Rc<SemaphoreInner>,
    count: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.inner.release(self.count);
    }
}

impl SemaphoreInner {
    fn release(&self, count: u64) {
        self.free.set(self.free.get() + count);
        loop {
            let granted = {
                let mut queue = self.queue.borrow_mut();
                let Some(waiter) = queue.front() else { return };
                if waiter.wanted > self.free.get() {
                    return;
                }
                self.free.set(self.free.get() - waiter.wanted);
                queue.pop_front()
            };
            let Some(waiter) = granted else { return };
            waiter.granted.set(true);
            let waker = waiter.waker.take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// A value that one task sets once and one task waits for.
pub struct Promise<T> {
    inner: Rc<PromiseInner<T>>,
}

struct PromiseInner<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
    abandoned: Cell<bool>,
}

/// The other end of a [`Promise`].
pub struct Promised<T> {
    inner: Rc<PromiseInner<T>>,
}

impl<T> Promise<T> {
    pub fn new() -> (Self, Promised<T>) {
        let inner =
            Rc::new(PromiseInner { value: RefCell::new(None), waker: RefCell::new(None), abandoned: Cell::new(false) });
        (Self { inner: Rc::clone(&inner) }, Promised { inner })
    }

    pub fn set(self, value: T) {
        *self.inner.value.borrow_mut() = Some(value);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.inner.abandoned.set(true);
        let waker = self.inner.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Promised<T> {
    /// `None` if the promise was dropped unset.
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.inner.value.take() {
            return Poll::Ready(Some(value));
        }
        if self.inner.abandoned.get() {
            return Poll::Ready(None);
        }
        *self.inner.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn an_event_wakes_those_who_waited_before_it_and_not_later_ones() {
        let event = Event::new();
        let mut early = event.wait();
        assert!(poll(&mut early).is_pending());
        event.wake_all();
        assert!(poll(&mut early).is_ready());
        assert!(poll(&mut event.wait()).is_pending());
    }

    #[test]
    fn a_semaphore_serves_in_order_and_survives_a_waiter_that_leaves() {
        let semaphore = Semaphore::new(2);
        let held = semaphore.try_acquire(2).expect("two are free");
        let mut large = semaphore.acquire(2);
        let mut small = semaphore.acquire(1);
        assert!(poll(&mut large).is_pending() && poll(&mut small).is_pending());
        drop(held);
        assert!(semaphore.try_acquire(1).is_none(), "the two permits went to the large one");
        drop(large);
        assert!(poll(&mut small).is_ready());
        assert_eq!(semaphore.free(), 2, "the permit of `small` came back when it was dropped");
    }

    #[test]
    fn a_dropped_promise_answers_none() {
        let (promise, mut promised) = Promise::<u8>::new();
        assert!(poll(&mut promised).is_pending());
        drop(promise);
        assert!(matches!(poll(&mut promised), Poll::Ready(None)));
    }
}
