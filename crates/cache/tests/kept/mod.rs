//! What golden images are made of: devices in memory whose identity outlives the process, and bytes that follow from
//! their place.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{
    Buf, BufPool, ByteRange, Device, DeviceError, DeviceIdentity, DeviceInfo, Env, Executor, ExecutorOptions, Extent,
    HostEnv, Instant, MemoryDevice, ZeroMode,
};

pub(crate) const PAGE: u64 = 4096;
pub(crate) const BLOCK: u64 = 64 << 10;
pub(crate) const VOLUME_BYTES: u64 = 16 << 20;

/// A device in memory whose identity outlives the process, and which counts its reads.
#[derive(Clone)]
pub(crate) struct Kept {
    memory: MemoryDevice,
    pub(crate) reads: Rc<Cell<u64>>,
}

impl Kept {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { memory: MemoryDevice::new(bytes, 512), reads: Rc::default() }
    }

    pub(crate) async fn holding(bytes: &[u8]) -> Self {
        let device = Self::new(u64::try_from(bytes.len()).unwrap());
        let mut buf = Buf::zeroed(bytes.len());
        buf.copy_from_slice(bytes);
        device.memory.write(0, buf).await.1.unwrap();
        device
    }

    pub(crate) fn vanish(&self) {
        self.memory.vanish();
    }

    pub(crate) async fn content(&self) -> Vec<u8> {
        let length = usize::try_from(self.memory.info().size_bytes).unwrap();
        self.memory.read(0, Buf::zeroed(length)).await.0.to_vec()
    }
}

impl Device for Kept {
    fn info(&self) -> DeviceInfo {
        self.memory.info()
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        Ok(DeviceIdentity { id: "golden".into(), parent: "memory".into(), change_mark: Some(7), boot: 1 })
    }

    async fn read(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        self.reads.set(self.reads.get() + 1);
        self.memory.read(offset, buf).await
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        self.memory.write(offset, buf).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.memory.flush().await
    }

    async fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        self.memory.discard(range).await
    }

    async fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> Result<(), DeviceError> {
        self.memory.write_zeroes(range, mode).await
    }

    fn allocation(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        self.memory.allocation(range, extents_max)
    }
}

#[derive(Clone)]
pub(crate) struct KeptEnv(HostEnv);

impl Env for KeptEnv {
    type Device = Kept;

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn unix_seconds(&self) -> u64 {
        self.0.unix_seconds()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        self.0.sleep(duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(task);
    }

    fn random(&self) -> u64 {
        self.0.random()
    }

    fn buffers(&self) -> &BufPool {
        self.0.buffers()
    }
}

/// Every page of the backing device is this word over and over. Pages that hosts wrote hold another one.
pub(crate) fn word(page: u64, written: bool) -> u64 {
    (page + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(written)
}

pub(crate) fn fill_page(bytes: &mut [u8], page: u64, written: bool) {
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&word(page, written).to_le_bytes());
    }
}

/// A backing device on which hosts wrote these pages.
pub(crate) async fn backing(written: &BTreeSet<u64>) -> Kept {
    let mut bytes = vec![0; usize::try_from(VOLUME_BYTES).unwrap()];
    for (page, chunk) in (0..).zip(bytes.chunks_exact_mut(usize::try_from(PAGE).unwrap())) {
        fill_page(chunk, page, written.contains(&page));
    }
    Kept::holding(&bytes).await
}

pub(crate) fn run(test: impl AsyncFnOnce(KeptEnv)) {
    Executor::new(ExecutorOptions::default()).unwrap().run(async |env| test(KeptEnv(env)).await);
}
