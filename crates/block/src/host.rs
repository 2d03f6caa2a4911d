//! The real world: `HostEnv` is the `Env` over an executor, `HostDevice` any device of this machine.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use crate::emulated::{EmulatedArray, EmulatedSsd};
use crate::executor::{Core, EndOfTurn, Sleep, Submitted};
use crate::operation::{Outcome, RingOperation};
use crate::sync::Semaphore;
use crate::{
    Buf, BufPool, ByteRange, Device, DeviceError, DeviceIdentity, DeviceInfo, Env, Extent, FileDevice, Instant,
    Machine, MemoryDevice, RealInstant, ZeroMode,
};

/// The world of an executor. A handle: cloning it is cheap.
#[derive(Clone)]
pub struct HostEnv {
    core: Rc<Core>,
    /// For whom its tasks are at work, if that was said.
    subject: Option<Rc<str>>,
    machine: Rc<Machine>,
}

impl HostEnv {
    pub(crate) fn of(core: Rc<Core>) -> Self {
        Self { core, subject: None, machine: Rc::new(Machine::only()) }
    }

    /// The same world, as this daemon sees it.
    #[must_use]
    pub fn on_machine(&self, machine: Machine) -> Self {
        Self { machine: Rc::new(machine), ..self.clone() }
    }

    /// The same world; what is spawned through it, and through its clones, is at work for `subject`.
    #[must_use]
    pub fn at_work_for(&self, subject: &str) -> Self {
        Self { subject: Some(Rc::from(subject)), ..self.clone() }
    }

    /// Completes when all ready tasks of this turn have run, before the kernel is entered: the moment to send what the
    /// turn has gathered. Call it only with something to do then: the loop does not rest while somebody waits here.
    pub fn end_of_turn(&self) -> impl Future<Output = ()> + 'static {
        EndOfTurn::new(&self.core)
    }

    /// Begins an operation when first polled.
    pub(crate) fn submit(&self, operation: RingOperation) -> Submitted {
        Submitted::new(&self.core, operation)
    }

    /// The transfers that may be on threads of the kernel's at once, of all files.
    pub(crate) fn apart(&self) -> &Semaphore {
        &self.core.apart
    }

    /// Waits until one of the poll events is there.
    pub(crate) async fn wait_for(&self, file: &Rc<OwnedFd>, events: i16) -> Outcome {
        let events = u32::from(events.cast_unsigned());
        self.submit(RingOperation::Poll(Rc::clone(file), events)).await.1
    }
}

impl Env for HostEnv {
    type Device = HostDevice;

    fn now(&self) -> Instant {
        self.core.now()
    }

    fn real_now(&self) -> RealInstant {
        self.core.real_now()
    }

    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn machine(&self) -> Machine {
        (*self.machine).clone()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        Sleep::new(&self.core, duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.core.spawn(self.subject.clone(), task);
    }

    fn random(&self) -> u64 {
        self.core.random()
    }

    fn buffers(&self) -> &BufPool {
        &self.core.pool
    }
}

/// Any device of this machine. A handle: cloning it is cheap. What emulated ones do is boxed: beside their waiting that
/// costs nothing, and the futures of everything that reads and writes devices stay small.
#[derive(Clone)]
pub enum HostDevice {
    File(FileDevice),
    Emulated(EmulatedArray<HostEnv, FileDevice>),
    EmulatedSsd(EmulatedSsd<HostEnv, FileDevice>),
    Memory(MemoryDevice),
}

impl Device for HostDevice {
    fn info(&self) -> DeviceInfo {
        match self {
            Self::File(device) => device.info(),
            Self::Emulated(device) => device.info(),
            Self::EmulatedSsd(device) => device.info(),
            Self::Memory(device) => device.info(),
        }
    }

    fn grow(&self) -> Result<u64, DeviceError> {
        match self {
            Self::File(device) => device.grow(),
            Self::Emulated(device) => device.grow(),
            Self::EmulatedSsd(device) => device.grow(),
            Self::Memory(device) => device.grow(),
        }
    }

    fn end_bytes(&self) -> u64 {
        match self {
            Self::File(device) => device.end_bytes(),
            Self::Emulated(device) => device.end_bytes(),
            Self::EmulatedSsd(device) => device.end_bytes(),
            Self::Memory(device) => device.end_bytes(),
        }
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        match self {
            Self::File(device) => device.identity(),
            Self::Emulated(device) => device.identity(),
            Self::EmulatedSsd(device) => device.identity(),
            Self::Memory(device) => device.identity(),
        }
    }

    async fn identity_now(&self) -> Result<DeviceIdentity, DeviceError> {
        match self {
            Self::File(device) => device.identity_now().await,
            Self::Emulated(device) => Box::pin(device.identity_now()).await,
            Self::EmulatedSsd(device) => Box::pin(device.identity_now()).await,
            Self::Memory(device) => device.identity_now().await,
        }
    }

    async fn begin_to_write(&self) -> Result<(), DeviceError> {
        match self {
            Self::File(device) => device.begin_to_write().await,
            Self::Emulated(device) => device.begin_to_write().await,
            Self::EmulatedSsd(device) => device.begin_to_write().await,
            Self::Memory(device) => device.begin_to_write().await,
        }
    }

    async fn read(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        match self {
            Self::File(device) => device.read(offset, buf).await,
            Self::Emulated(device) => Box::pin(device.read(offset, buf)).await,
            Self::EmulatedSsd(device) => Box::pin(device.read(offset, buf)).await,
            Self::Memory(device) => device.read(offset, buf).await,
        }
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        match self {
            Self::File(device) => device.write(offset, buf).await,
            Self::Emulated(device) => Box::pin(device.write(offset, buf)).await,
            Self::EmulatedSsd(device) => Box::pin(device.write(offset, buf)).await,
            Self::Memory(device) => device.write(offset, buf).await,
        }
    }

    async fn write_durable(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        match self {
            Self::File(device) => device.write_durable(offset, buf).await,
            Self::Emulated(device) => Box::pin(device.write_durable(offset, buf)).await,
            Self::EmulatedSsd(device) => Box::pin(device.write_durable(offset, buf)).await,
            Self::Memory(device) => device.write_durable(offset, buf).await,
        }
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        match self {
            Self::File(device) => device.flush().await,
            Self::Emulated(device) => device.flush().await,
            Self::EmulatedSsd(device) => device.flush().await,
            Self::Memory(device) => device.flush().await,
        }
    }

    async fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        match self {
            Self::File(device) => device.discard(range).await,
            Self::Emulated(device) => device.discard(range).await,
            Self::EmulatedSsd(device) => device.discard(range).await,
            Self::Memory(device) => device.discard(range).await,
        }
    }

    async fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> Result<(), DeviceError> {
        match self {
            Self::File(device) => device.write_zeroes(range, mode).await,
            Self::Emulated(device) => device.write_zeroes(range, mode).await,
            Self::EmulatedSsd(device) => device.write_zeroes(range, mode).await,
            Self::Memory(device) => device.write_zeroes(range, mode).await,
        }
    }

    async fn allocation(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        match self {
            Self::File(device) => device.allocation(range, extents_max).await,
            Self::Emulated(device) => Box::pin(device.allocation(range, extents_max)).await,
            Self::EmulatedSsd(device) => Box::pin(device.allocation(range, extents_max)).await,
            Self::Memory(device) => device.allocation(range, extents_max).await,
        }
    }
}
