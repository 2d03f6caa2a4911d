//! The one world and the one device of these tests: over another kind of either, the whole engine would be built once more.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use hotset_block::sync::Event;
use hotset_block::{
    Buf, BufPool, ByteRange, Device, DeviceError, DeviceErrorKind, DeviceIdentity, DeviceInfo, Discard, Env, Executor,
    ExecutorOptions, Extent, FileDevice, HostDevice, HostEnv, Instant, Machine, MemoryDevice, Operation, RealInstant,
    ZeroMode,
};

/// The world of an executor; its clock and its pauses can be made faster.
#[derive(Clone)]
pub(crate) struct TestEnv {
    pub(crate) host: HostEnv,
    /// So many times as fast as the real one.
    clock_pace: u32,
    /// Whoever sleeps does so for this part of the time.
    sleep_pace: u32,
    /// Time in which the daemon did not run.
    pub(crate) paused: Rc<Cell<Duration>>,
}

impl TestEnv {
    fn of(host: HostEnv) -> Self {
        Self { host, clock_pace: 1, sleep_pace: 1, paused: Rc::default() }
    }

    /// Of an executor that nobody runs.
    pub(crate) fn unborn() -> Self {
        Self::of(Executor::new(ExecutorOptions::default()).unwrap().env())
    }

    /// Nobody waits for long.
    pub(crate) fn with_short_sleeps(self) -> Self {
        Self { sleep_pace: 1000, ..self }
    }

    /// Time passes so many times as fast.
    pub(crate) fn at_pace(self, pace: u32) -> Self {
        Self { clock_pace: pace, sleep_pace: pace, ..self }
    }

    /// The same world, as another daemon sees it that never was paused.
    pub(crate) fn on_machine(&self, machine: Machine) -> Self {
        Self { host: self.host.on_machine(machine), paused: Rc::default(), ..self.clone() }
    }
}

impl Env for TestEnv {
    type Device = TestDevice;

    fn now(&self) -> Instant {
        Instant(self.host.now().0 * u64::from(self.clock_pace))
    }

    fn real_now(&self) -> RealInstant {
        RealInstant(self.now().0).plus(self.paused.get())
    }

    fn unix_seconds(&self) -> u64 {
        self.host.unix_seconds()
    }

    fn machine(&self) -> Machine {
        self.host.machine()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        self.host.sleep(duration / self.sleep_pace)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.host.spawn(task);
    }

    fn random(&self) -> u64 {
        self.host.random()
    }

    fn buffers(&self) -> &BufPool {
        self.host.buffers()
    }
}

/// So much faster than real time, with room for a machine that is busy: a moment in which the program does not run counts for
/// 5 s at most (`STRETCH_MAX`), and an SSD is silent after 10 s.
pub(crate) const PACE: u32 = 20;

pub(crate) fn run(test: impl AsyncFnOnce(TestEnv)) {
    Executor::new(ExecutorOptions::default()).unwrap().run(async |env| test(TestEnv::of(env)).await);
}

/// Where [`Bad::HangsAt`] makes it say nothing of its holes: no place of a transfer, nor of a flush.
pub(crate) const TELLS_ALLOCATION: u64 = u64::MAX - 1;

/// A device, mostly in memory, that can be made to misbehave. Clones are one device.
#[derive(Clone)]
pub(crate) struct TestDevice {
    store: HostDevice,
    /// What it says of its cache.
    volatile_cache: bool,
    /// Its identity outlives this process.
    is_kept: bool,
    /// It takes what is written and forgets it: of so many bytes, whatever lies in memory.
    forgets: Option<u64>,
    /// What it is asked for is not done within the same turn, as with every real device.
    takes_a_turn: bool,
    ways: Rc<Ways>,
}

/// A daemon that is killed, or its power cut, at one of its writes.
pub(crate) struct Kill {
    /// Writes that are still done.
    writes_left: Cell<u64>,
    /// The write at which it happens is done by half.
    tears: bool,
    done: Cell<bool>,
    changed: Event,
}

impl Kill {
    pub(crate) fn at(write: u64, tears: bool) -> Rc<Self> {
        Rc::new(Self { writes_left: Cell::new(write), tears, done: Cell::new(false), changed: Event::new() })
    }

    pub(crate) async fn happens(&self) {
        while !self.done.get() {
            self.changed.wait().await;
        }
    }

    /// False: the writer is no more.
    fn lets_write(&self) -> bool {
        match self.writes_left.get().checked_sub(1) {
            Some(left) => self.writes_left.set(left),
            None => {
                self.done.set(true);
                self.changed.wake_all();
            }
        }
        !self.done.get()
    }
}

/// How long a device takes for it that does nothing at once.
const TURNS_OF_A_FLUSH: u32 = 50;

/// What it does beside storing.
#[derive(Default)]
struct Ways {
    kill: RefCell<Option<Rc<Kill>>>,
    reads: Cell<u64>,
    /// It is gone when it was read so often.
    reads_left: Cell<Option<u64>>,
    /// How long each read takes, by whose clock.
    reads_take: RefCell<Option<(TestEnv, Duration)>>,
    flushes: Cell<u64>,
    /// The next operation of this kind is held back, and fails in the end.
    armed: Cell<Option<Operation>>,
    /// That one has begun, or one that hangs.
    begun: Cell<bool>,
    released: Cell<bool>,
    changed: Event,
    bad: RefCell<Vec<Bad>>,
}

/// A place at which transfers end badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// Every write.
    HangsToWrite,
    /// Every read.
    HangsToRead,
    HangsAt(u64),
    FailsAt(u64),
    FailsToReadAt(u64),
    /// Every read from here on.
    FailsToReadFrom(u64),
}

impl From<MemoryDevice> for TestDevice {
    fn from(memory: MemoryDevice) -> Self {
        Self::over(HostDevice::Memory(memory))
    }
}

impl From<FileDevice> for TestDevice {
    fn from(file: FileDevice) -> Self {
        Self::over(HostDevice::File(file))
    }
}

impl TestDevice {
    fn over(store: HostDevice) -> Self {
        let volatile_cache = store.info().volatile_cache;
        Self { store, volatile_cache, is_kept: false, forgets: None, takes_a_turn: false, ways: Rc::default() }
    }

    pub(crate) fn new(bytes: u64) -> Self {
        Self::from(MemoryDevice::new(bytes, 512))
    }

    /// One of any size, that holds nothing: its blocks read as whatever was in the buffer.
    pub(crate) fn forgetful(bytes: u64) -> Self {
        Self { forgets: Some(bytes), ..Self::from(MemoryDevice::new(0, 4096)) }
    }

    /// One that a flush may fail of.
    pub(crate) fn with_cache(bytes: u64) -> Self {
        Self { volatile_cache: true, ..Self::new(bytes) }
    }

    /// The same, never done at once.
    pub(crate) fn unhurried(self) -> Self {
        Self { takes_a_turn: true, ..self }
    }

    /// One whose identity outlives this process.
    pub(crate) fn kept(bytes: u64) -> Self {
        Self { is_kept: true, ..Self::new(bytes) }
    }

    /// The same, with this in it.
    pub(crate) async fn holding(bytes: &[u8]) -> Self {
        let device = Self::kept(u64::try_from(bytes.len()).unwrap());
        let mut buf = Buf::zeroed(bytes.len());
        buf.copy_from_slice(bytes);
        device.store.write(0, buf).await.1.unwrap();
        device
    }

    pub(crate) async fn content(&self) -> Vec<u8> {
        let length = usize::try_from(self.store.info().size_bytes).unwrap();
        self.store.read(0, Buf::zeroed(length)).await.0.to_vec()
    }

    pub(crate) fn vanish(&self) {
        let HostDevice::Memory(memory) = &self.store else { panic!("only what lies in memory vanishes") };
        memory.vanish();
    }

    /// It is gone when it was read so often.
    pub(crate) fn vanishes_after(self, reads: u64) -> Self {
        self.ways.reads_left.set(Some(reads));
        self
    }

    /// How often it was read since this was asked last.
    pub(crate) fn take_reads(&self) -> u64 {
        self.ways.reads.take()
    }

    /// From now on each read takes so long.
    pub(crate) fn slow_down_reads(&self, env: &TestEnv, each: Duration) {
        *self.ways.reads_take.borrow_mut() = Some((env.clone(), each));
    }

    /// How often it was flushed.
    pub(crate) fn flushes(&self) -> u64 {
        self.ways.flushes.get()
    }

    /// The next operation of this kind waits for [`Self::release`], and fails then. Like the kernel, it tells of a failure once.
    pub(crate) fn hold_next(&self, operation: Operation) {
        self.ways.armed.set(Some(operation));
    }

    /// Returns when an operation is held back, or hangs, that was not when this returned last.
    pub(crate) async fn until_held(&self) {
        while !self.ways.begun.replace(false) {
            self.ways.changed.wait().await;
        }
    }

    /// Whatever is held back fails, now or as soon as it begins.
    pub(crate) fn release(&self) {
        self.ways.released.set(true);
        self.ways.changed.wake_all();
    }

    /// How many have it, beside whoever asks.
    pub(crate) fn holders(&self) -> usize {
        Rc::strong_count(&self.ways) - 1
    }

    pub(crate) fn become_bad(&self, bad: Bad) {
        self.ways.bad.borrow_mut().push(bad);
    }

    /// It is good again, and what hung goes on.
    pub(crate) fn recover(&self) {
        self.ways.bad.borrow_mut().clear();
        self.ways.changed.wake_all();
    }

    /// It is one of those whose writes are counted.
    pub(crate) fn killed_by(&self, kill: &Rc<Kill>) {
        *self.ways.kill.borrow_mut() = Some(Rc::clone(kill));
    }

    /// Returns if whoever writes is not killed at this write.
    async fn survive(&self, offset: u64, buf: &Buf) {
        let kill = self.ways.kill.borrow().clone();
        let Some(kill) = kill else { return };
        let was_alive = !kill.done.get();
        if kill.lets_write() {
            return;
        }
        if was_alive && kill.tears {
            let mut half = Buf::zeroed((buf.len() / 2).next_multiple_of(512));
            let length = half.len();
            half.copy_from_slice(&buf[..length]);
            let _ = self.store.write(offset, half).await;
        }
        pending().await
    }

    /// Something begins that does not go on by itself.
    fn begin(&self) {
        self.ways.begun.set(true);
        self.ways.changed.wake_all();
    }

    async fn pass(&self, operation: Operation, offset: u64) -> Result<(), DeviceError> {
        let failure = Err(DeviceError::new(DeviceErrorKind::Media, operation, ByteRange::at(0, 0)));
        let is_bad = |bad: Bad| self.ways.bad.borrow().contains(&bad);
        let hangs = || {
            is_bad(Bad::HangsAt(offset))
                || operation == Operation::Write && is_bad(Bad::HangsToWrite)
                || operation == Operation::Read && is_bad(Bad::HangsToRead)
        };
        if hangs() {
            self.begin();
        }
        while hangs() {
            self.ways.changed.wait().await;
        }
        let fails_to_read = |bad: &Bad| match bad {
            Bad::FailsToReadAt(place) => *place == offset,
            Bad::FailsToReadFrom(first) => *first <= offset,
            Bad::HangsToWrite | Bad::HangsToRead | Bad::HangsAt(_) | Bad::FailsAt(_) => false,
        };
        let is_unread = operation == Operation::Read && self.ways.bad.borrow().iter().any(fails_to_read);
        if is_bad(Bad::FailsAt(offset)) || is_unread {
            return failure;
        }
        if self.takes_a_turn {
            next_turn().await;
        }
        if self.ways.armed.get() != Some(operation) {
            return Ok(());
        }
        self.ways.armed.set(None);
        self.begin();
        while !self.ways.released.get() {
            self.ways.changed.wait().await;
        }
        failure
    }
}

async fn next_turn() {
    let mut came = false;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut came, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Device for TestDevice {
    fn info(&self) -> DeviceInfo {
        let store = self.store.info();
        let info = DeviceInfo { volatile_cache: self.volatile_cache, ..store };
        match self.forgets {
            Some(size_bytes) => DeviceInfo { size_bytes, discard: Discard::Unsupported, ..info },
            None => info,
        }
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        if self.is_kept {
            return Ok(DeviceIdentity { id: "golden".into(), parent: "memory".into(), change_mark: Some(7), boot: 1 });
        }
        self.store.identity()
    }

    async fn read(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        self.ways.reads.set(self.ways.reads.get() + 1);
        if let Some(left) = self.ways.reads_left.get() {
            if left == 0 {
                self.vanish();
            }
            self.ways.reads_left.set(Some(left.saturating_sub(1)));
        }
        let takes = self.ways.reads_take.borrow().clone();
        if let Some((env, each)) = takes {
            env.sleep(each).await;
        }
        match self.pass(Operation::Read, offset).await {
            Ok(()) if self.forgets.is_some() => (buf, Ok(())),
            Ok(()) => self.store.read(offset, buf).await,
            failed => (buf, failed),
        }
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        self.survive(offset, &buf).await;
        match self.pass(Operation::Write, offset).await {
            Ok(()) if self.forgets.is_some() => (buf, Ok(())),
            Ok(()) => self.store.write(offset, buf).await,
            failed => (buf, failed),
        }
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.ways.flushes.set(self.ways.flushes.get() + 1);
        if self.takes_a_turn {
            // Longer than any transfer.
            for _ in 0..TURNS_OF_A_FLUSH {
                next_turn().await;
            }
        }
        // No place at which a transfer ends badly.
        self.pass(Operation::Flush, u64::MAX).await?;
        self.store.flush().await
    }

    async fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        if self.forgets.is_some() {
            return Ok(());
        }
        self.store.discard(range).await
    }

    async fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> Result<(), DeviceError> {
        if self.forgets.is_some() {
            return Ok(());
        }
        self.store.write_zeroes(range, mode).await
    }

    async fn allocation(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        if self.forgets.is_some() {
            return Ok(Vec::new());
        }
        let answer = self.store.allocation(range, extents_max).await;
        // It says how it was when it was asked, however long that takes.
        self.pass(Operation::Allocation, TELLS_ALLOCATION).await?;
        answer
    }
}
