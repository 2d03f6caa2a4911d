//! The emulated array as a device: the model's time, a store's bytes.
//!
//! Every operation goes to the store at once and to the model beside it, and is answered when both are done. One task
//! per array sleeps until the model has something to say; while nothing happens, nothing runs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join, select};

use super::Parameters;
use super::model::{ArrayModel, ArrayRequest, RequestId};
use crate::sync::{Event, Promise, Promised};
use crate::{
    Buf, ByteRange, Device, DeviceError, DeviceErrorKind, DeviceIdentity, DeviceInfo, Discard, Env, Extent, Instant,
    Operation, ZeroMode,
};

/// The unit of a transfer that the disks know.
const LOGICAL_BLOCK_BYTES: u32 = 512;

/// The task wakes at multiples of this, so that what is due at about the same time costs one wake-up. The model makes
/// up for the lateness.
const WAKE_UP_GRID: Duration = Duration::from_micros(250);

/// The most that is written as allocated zeroes in one step of the model.
const ZERO_STEP_BYTES: u64 = 64 << 20;

/// An emulated array over a store of its bytes. A handle: cloning it is cheap.
pub struct EmulatedArray<E: Env, S: Device> {
    shared: Rc<Shared<E, S>>,
}

struct Shared<E: Env, S: Device> {
    env: E,
    store: S,
    info: DeviceInfo,
    clockwork: Rc<Clockwork>,
}

impl<E: Env, S: Device> Clone for EmulatedArray<E, S> {
    fn clone(&self) -> Self {
        Self { shared: Rc::clone(&self.shared) }
    }
}

impl<E: Env, S: Device> Drop for Shared<E, S> {
    fn drop(&mut self) {
        self.clockwork.close();
    }
}

impl<E: Env, S: Device> EmulatedArray<E, S> {
    /// An array whose bytes are those of `store`.
    ///
    /// # Panics
    /// If the store is smaller than the volume.
    pub fn new(env: &E, parameters: &Parameters, store: S) -> Self {
        let beneath = store.info();
        assert!(beneath.size_bytes >= parameters.size_bytes, "the store holds the whole volume");
        let info = DeviceInfo {
            size_bytes: parameters.size_bytes,
            logical_block_bytes: beneath.logical_block_bytes.max(LOGICAL_BLOCK_BYTES),
            optimal_io_bytes: u32::try_from(parameters.stripe_bytes()).unwrap_or(0),
            // What the model would keep in a power cut lies in the store all the same.
            volatile_cache: parameters.controller_cache_bytes == 0 || beneath.volatile_cache,
            discard: Discard::Zeroes,
            read_only: beneath.read_only,
            emulated: true,
        };
        let clockwork = Rc::new(Clockwork::new(ArrayModel::new(parameters)));
        env.spawn(drive(env.clone(), Rc::clone(&clockwork)));
        Self { shared: Rc::new(Shared { env: env.clone(), store, info, clockwork }) }
    }

    /// Completes when the model has answered.
    fn takes(&self, request: ArrayRequest) -> Promised<()> {
        self.shared.clockwork.submit(self.shared.env.now(), request)
    }

    fn check(&self, operation: Operation, range: ByteRange) -> Result<(), DeviceError> {
        let info = &self.shared.info;
        if range.end > info.size_bytes || !range.is_aligned_to(u64::from(info.logical_block_bytes)) {
            return Err(DeviceError::new(DeviceErrorKind::OutOfRange, operation, range));
        }
        Ok(())
    }

    async fn write_allocated_zeroes(&self, range: ByteRange) -> Result<(), DeviceError> {
        let mut start = range.start;
        while start < range.end {
            let step = ByteRange { start, end: range.end.min(start + ZERO_STEP_BYTES) };
            let stored = self.shared.store.write_zeroes(step, ZeroMode::KeepAllocated);
            join(stored, self.takes(ArrayRequest::Write(step))).await.0?;
            start = step.end;
        }
        Ok(())
    }
}

impl<E: Env, S: Device> Device for EmulatedArray<E, S> {
    fn info(&self) -> DeviceInfo {
        self.shared.info
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        self.shared.store.identity()
    }

    async fn identity_now(&self) -> Result<DeviceIdentity, DeviceError> {
        self.shared.store.identity_now().await
    }

    async fn read(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let range = range_of(offset, &buf);
        if let Err(error) = self.check(Operation::Read, range) {
            return (buf, Err(error));
        }
        let answer = self.takes(ArrayRequest::Read(range));
        join(self.shared.store.read(offset, buf), answer).await.0
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        let range = range_of(offset, &buf);
        if let Err(error) = self.check(Operation::Write, range) {
            return (buf, Err(error));
        }
        let answer = self.takes(ArrayRequest::Write(range));
        join(self.shared.store.write(offset, buf), answer).await.0
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        join(self.shared.store.flush(), self.takes(ArrayRequest::Flush)).await.0
    }

    async fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        self.check(Operation::Discard, range)?;
        join(self.shared.store.discard(range), self.takes(ArrayRequest::Discard)).await.0
    }

    async fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> Result<(), DeviceError> {
        self.check(Operation::WriteZeroes, range)?;
        match mode {
            ZeroMode::MayPunch => {
                let stored = self.shared.store.write_zeroes(range, mode);
                join(stored, self.takes(ArrayRequest::Discard)).await.0
            }
            ZeroMode::KeepAllocated => self.write_allocated_zeroes(range).await,
        }
    }

    async fn allocation(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        self.check(Operation::Allocation, range)?;
        self.shared.store.allocation(range, extents_max).await
    }
}

fn range_of(offset: u64, buf: &Buf) -> ByteRange {
    let length = u64::try_from(buf.len()).expect("a buffer's length fits 64 bits");
    ByteRange { start: offset, end: offset.saturating_add(length) }
}

/// The model, and who waits for it.
struct Clockwork {
    model: RefCell<ArrayModel>,
    waiting: RefCell<BTreeMap<RequestId, Promise<()>>>,
    /// Until when the task sleeps; `None` without end.
    sleeps_until: Cell<Option<Instant>>,
    closed: Cell<bool>,
    /// The task must look again.
    changed: Event,
}

impl Clockwork {
    fn new(model: ArrayModel) -> Self {
        Self {
            model: RefCell::new(model),
            waiting: RefCell::default(),
            sleeps_until: Cell::new(None),
            closed: Cell::new(false),
            changed: Event::new(),
        }
    }

    fn submit(&self, now: Instant, request: ArrayRequest) -> Promised<()> {
        let (promise, promised) = Promise::new();
        let due = {
            let mut model = self.model.borrow_mut();
            let id = model.submit(now, request);
            self.waiting.borrow_mut().insert(id, promise);
            model.next_event().map(on_grid)
        };
        if due.is_some_and(|due| self.sleeps_until.get().is_none_or(|until| due < until)) {
            self.changed.wake_all();
        }
        promised
    }

    /// Answers whatever is due.
    fn deliver(&self, now: Instant) {
        let answers = self.model.borrow_mut().advance(now);
        for answer in answers {
            let promise = self.waiting.borrow_mut().remove(&answer.request);
            promise.expect("every request is answered once").set(());
        }
    }

    fn close(&self) {
        self.closed.set(true);
        self.changed.wake_all();
    }
}

/// Lets the model's time pass until the array is closed.
async fn drive<E: Env>(env: E, clockwork: Rc<Clockwork>) {
    while !clockwork.closed.get() {
        clockwork.deliver(env.now());
        let until = clockwork.model.borrow().next_event().map(on_grid);
        clockwork.sleeps_until.set(until);
        let changed = clockwork.changed.wait();
        match until {
            None => changed.await,
            Some(until) => {
                select(pin!(env.sleep(until.since(env.now()))), changed).await;
            }
        }
    }
}

fn on_grid(at: Instant) -> Instant {
    let grid_ns = Instant(0).plus(WAKE_UP_GRID).0;
    Instant(at.0.next_multiple_of(grid_ns))
}
