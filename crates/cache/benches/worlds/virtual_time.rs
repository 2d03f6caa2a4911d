//! A world whose clock moves only when all tasks wait: what is measured in it is the same on every machine.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use hotset_block::emulated::{EmulatedArray, Parameters};
use hotset_block::{
    Buf, BufPool, ByteRange, Device, DeviceError, DeviceIdentity, DeviceInfo, Env, Extent, Instant, ZeroMode,
};

use crate::instant::InstantDevice;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A handle: cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Virtual(Rc<World>);

struct World {
    now: Cell<u64>,
    tasks: RefCell<Vec<Option<(Task, Waker)>>>,
    free: RefCell<Vec<usize>>,
    ready: Arc<Mutex<VecDeque<usize>>>,
    timers: RefCell<BTreeMap<(u64, u64), Waker>>,
    next_id: Cell<u64>,
    buffers: BufPool,
}

struct Ready(usize, Arc<Mutex<VecDeque<usize>>>);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.1.lock().expect("no task panics").push_back(self.0);
    }
}

struct Sleep {
    world: Rc<World>,
    until: u64,
    id: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.world.now.get() >= self.until {
            return Poll::Ready(());
        }
        self.world.timers.borrow_mut().insert((self.until, self.id), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.world.timers.borrow_mut().remove(&(self.until, self.id));
    }
}

impl Virtual {
    pub(crate) fn new() -> Self {
        Self(Rc::new(World {
            now: Cell::new(1_000_000_000),
            tasks: RefCell::default(),
            free: RefCell::default(),
            ready: Arc::default(),
            timers: RefCell::default(),
            next_id: Cell::new(0),
            buffers: BufPool::new(),
        }))
    }

    /// Runs `main` to its end, and what it spawned until then.
    pub(crate) fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let out = Rc::clone(&result);
        self.spawn(async move {
            let value = main.await;
            *out.borrow_mut() = Some(value);
        });
        while result.borrow().is_none() {
            let next = self.0.ready.lock().expect("no task panics").pop_front();
            match next {
                Some(index) => self.poll(index),
                None => self.pass_time(),
            }
        }
        result.take().expect("just seen")
    }

    fn poll(&self, index: usize) {
        let Some((mut task, waker)) = self.0.tasks.borrow_mut()[index].take() else { return };
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.0.tasks.borrow_mut()[index] = Some((task, waker));
        } else {
            self.0.free.borrow_mut().push(index);
        }
    }

    fn pass_time(&self) {
        let ((at, _), waker) = self.0.timers.borrow_mut().pop_first().expect("somebody waits for time");
        self.0.now.set(at.max(self.0.now.get()));
        waker.wake();
    }

    fn id(&self) -> u64 {
        self.0.next_id.set(self.0.next_id.get() + 1);
        self.0.next_id.get()
    }
}

impl Env for Virtual {
    type Device = AnyDevice;

    fn now(&self) -> Instant {
        Instant(self.0.now.get())
    }

    fn unix_seconds(&self) -> u64 {
        0
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        Sleep { world: Rc::clone(&self.0), until: self.now().plus(duration).0, id: self.id() }
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let mut tasks = self.0.tasks.borrow_mut();
        let index = self.0.free.borrow_mut().pop().unwrap_or(tasks.len());
        if index == tasks.len() {
            tasks.push(None);
        }
        let waker = Waker::from(Arc::new(Ready(index, Arc::clone(&self.0.ready))));
        tasks[index] = Some((Box::pin(task), waker));
        self.0.ready.lock().expect("no task panics").push_back(index);
    }

    fn random(&self) -> u64 {
        self.id().wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn buffers(&self) -> &BufPool {
        &self.0.buffers
    }
}

/// An instant device, one with a rate, or an array.
pub(crate) enum AnyDevice {
    Instant(InstantDevice),
    Rated(Rated),
    Array(EmulatedArray<Virtual, InstantDevice>),
}

/// An instant device that transfers so many bytes a second, one after the other, and flushes in no time.
pub(crate) struct Rated {
    env: Virtual,
    device: InstantDevice,
    bytes_per_second: u64,
    busy_until: Cell<u64>,
}

impl Rated {
    async fn takes(&self, bytes: usize) {
        let now = self.env.now().0;
        let length = u64::try_from(bytes).expect("a buffer's length fits 64 bits");
        let done = self.busy_until.get().max(now) + length * 1_000_000_000 / self.bytes_per_second;
        self.busy_until.set(done);
        self.env.sleep(Duration::from_nanos(done - now)).await;
    }
}

macro_rules! each {
    ($self:ident, $device:ident => $call:expr) => {
        match $self {
            AnyDevice::Instant($device) => $call,
            AnyDevice::Rated(Rated { device: $device, .. }) => $call,
            AnyDevice::Array($device) => $call,
        }
    };
}

impl AnyDevice {
    pub(crate) fn instant(bytes: u64) -> Self {
        Self::Instant(InstantDevice::new(bytes, 4096))
    }

    pub(crate) fn rated(env: &Virtual, bytes: u64, bytes_per_second: u64) -> Self {
        let (env, device) = (env.clone(), InstantDevice::new(bytes, 4096));
        Self::Rated(Rated { env, device, bytes_per_second, busy_until: Cell::new(0) })
    }

    pub(crate) fn array(env: &Virtual, parameters: &Parameters) -> Self {
        Self::Array(EmulatedArray::new(env, parameters, InstantDevice::new(parameters.size_bytes, 512)))
    }

    async fn takes(&self, bytes: usize) {
        if let Self::Rated(rated) = self {
            rated.takes(bytes).await;
        }
    }
}

impl Device for AnyDevice {
    fn info(&self) -> DeviceInfo {
        each!(self, device => device.info())
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        each!(self, device => device.identity())
    }

    async fn read(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        self.takes(buf.len()).await;
        each!(self, device => device.read(offset, buf).await)
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        self.takes(buf.len()).await;
        each!(self, device => device.write(offset, buf).await)
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        each!(self, device => device.flush().await)
    }

    async fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        each!(self, device => device.discard(range).await)
    }

    async fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> Result<(), DeviceError> {
        each!(self, device => device.write_zeroes(range, mode).await)
    }

    async fn allocation(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        each!(self, device => device.allocation(range, extents_max).await)
    }
}

/// Numbers that look random and are the same in every run: xorshift (G. Marsaglia, "Xorshift RNGs", 2003), 13, 7, 17.
pub(crate) struct Random(Cell<u64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Zero would be drawn for ever.
        Self(Cell::new(seed.max(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    pub(crate) fn draw(&self) -> u64 {
        let mut state = self.0.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.0.set(state);
        state
    }
}
