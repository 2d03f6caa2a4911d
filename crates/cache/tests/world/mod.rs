//! A pool's devices in memory, which outlive the pool: handles on the same bytes.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use hotset_block::{Buf, ByteRange, Device, Env, MemoryDevice};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{Durability, Missing, Named, Pool, PoolSpec, STATE_BYTES, Volume};

use crate::harness::{TestDevice, TestEnv};

pub(crate) const MIB: u64 = 1 << 20;

/// Where the two areas of the losses record are in the state directory (docs/FORMAT.md).
pub(crate) const LOSSES_OFFSETS: [u64; 2] = [(384 << 10) + 8 * MIB, (384 << 10) + 8 * MIB + (3904 << 10)];

/// Where the records of an SSD end, and its first segment begins (docs/FORMAT.md): after 128 KiB, two areas of each kind, of which that
/// of the catalogue is a 256th of the SSD.
pub(crate) fn records_end(ssd_bytes: u64) -> u64 {
    let catalogue = (ssd_bytes / 256).max(128 << 10).next_multiple_of(4096);
    (128 << 10) + 2 * ((52 << 10) + (12 << 10) + (128 << 10) + catalogue)
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) env: TestEnv,
    pub(crate) ssds: Vec<MemoryDevice>,
    state: MemoryDevice,
    backing: MemoryDevice,
}

impl World {
    pub(crate) fn new(env: TestEnv, ssd_sizes: &[u64], backing_bytes: u64) -> Self {
        let ssds = ssd_sizes.iter().map(|size| MemoryDevice::new(*size, 4096)).collect();
        Self { env, ssds, state: MemoryDevice::new(STATE_BYTES, 512), backing: MemoryDevice::new(backing_bytes, 512) }
    }

    /// The same with these SSDs alone.
    pub(crate) fn with(&self, ssds: &[MemoryDevice]) -> Self {
        Self { ssds: ssds.to_vec(), ..self.clone() }
    }

    /// Its member file is one as older versions made it, which has no room for a list of losses.
    pub(crate) fn shorten_state(&mut self) {
        let mut bytes = self.state.unplug();
        bytes.truncate(usize::try_from(10 * MIB).unwrap());
        self.state = MemoryDevice::holding(bytes, 512);
    }

    pub(crate) fn named(&self) -> Vec<Named<TestDevice>> {
        let device = |(index, ssd): (usize, &MemoryDevice)| Named {
            path: format!("ssd{index}"),
            device: TestDevice::from(ssd.clone()),
        };
        self.ssds.iter().enumerate().map(device).collect()
    }

    /// The same bytes in other SSDs and another state directory.
    pub(crate) fn copied(&self) -> Self {
        Self { ssds: self.ssds.iter().map(copy_of).collect(), state: copy_of(&self.state), ..self.clone() }
    }

    /// Opens the pool, and dies after so many turns, in each of which every device does one thing at most. Answers whether the
    /// start had come to its end.
    pub(crate) async fn die_while_opening(&self, turns: usize) -> bool {
        let ssds = self.named().into_iter().map(|named| Named { device: named.device.unhurried(), ..named }).collect();
        let state = TestDevice::from(self.state.clone()).unhurried();
        let mut opening = Box::pin(Pool::open(self.env.clone(), ssds, Some(state), Missing::Refuse));
        let mut turns = turns;
        let ended = poll_fn(|context| match opening.as_mut().poll(context) {
            Poll::Ready(opened) => Poll::Ready(Some(opened)),
            Poll::Pending if turns == 0 => Poll::Ready(None),
            Poll::Pending => {
                turns -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        });
        let ended = ended.await;
        std::mem::forget(opening);
        let is_open = ended.is_some();
        std::mem::forget(ended.map(Result::unwrap));
        is_open
    }

    /// The same bytes in other SSDs and another state directory: whoever still runs on these finds nothing there any more.
    pub(crate) fn moved(&self) -> Self {
        let moved = |device: &MemoryDevice| MemoryDevice::holding(device.unplug(), device.info().logical_block_bytes);
        Self { ssds: self.ssds.iter().map(moved).collect(), state: moved(&self.state), ..self.clone() }
    }

    pub(crate) fn state(&self) -> MemoryDevice {
        self.state.clone()
    }

    pub(crate) fn backing(&self) -> MemoryDevice {
        self.backing.clone()
    }

    /// A pool with blocks of 64 KiB, in which dirty data stays dirty.
    pub(crate) async fn create(&self, kind: PoolKind) -> Pool<TestEnv> {
        self.create_on(kind, self.named()).await
    }

    /// The same on these devices.
    pub(crate) async fn create_on(&self, kind: PoolKind, ssds: Vec<Named<TestDevice>>) -> Pool<TestEnv> {
        let mut settings = PoolSettings::preset(kind, IoType::Custom);
        settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
        let spec = PoolSpec { name: "tank".parse().unwrap(), kind, settings };
        Pool::create(self.env.clone(), spec, ssds, TestDevice::from(self.state.clone())).await.unwrap()
    }

    /// Opens the pool again.
    pub(crate) async fn open(&self, missing: Missing) -> Pool<TestEnv> {
        let state = Some(TestDevice::from(self.state.clone()));
        Pool::open(self.env.clone(), self.named(), state, missing).await.unwrap()
    }

    /// The pool opened again, and the volume with it.
    pub(crate) async fn reopened(&self, missing: Missing) -> (Pool<TestEnv>, Volume<TestEnv>) {
        let (pool, volume) = (self.open(missing).await, self.volume());
        pool.reattach(&volume).await.unwrap();
        (pool, volume)
    }

    pub(crate) async fn attached(&self, pool: &Pool<TestEnv>) -> Volume<TestEnv> {
        let volume = self.volume();
        pool.attach(&volume).await.unwrap();
        volume
    }

    pub(crate) fn volume(&self) -> Volume<TestEnv> {
        self.volume_on(TestDevice::from(self.backing.clone()))
    }

    /// The same on this backing device.
    pub(crate) fn volume_on(&self, backing: TestDevice) -> Volume<TestEnv> {
        let spec =
            VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".into(), settings: VolumeSettings::default() };
        Volume::open(self.env.clone(), spec, backing).unwrap()
    }

    /// What the backing device itself holds.
    pub(crate) async fn on_backing(&self, page: u64) -> u8 {
        let (buf, read) = self.backing.read(page * 4096, Buf::zeroed(4096)).await;
        read.unwrap();
        buf[0]
    }

    /// The state directory has no record of losses any more.
    pub(crate) async fn forget_losses(&self) {
        let [first, _] = LOSSES_OFFSETS;
        let length = usize::try_from(STATE_BYTES - first).unwrap();
        self.state.write(first, Buf::zeroed(length)).await.1.unwrap();
    }

    /// Overwrites what an SSD holds behind its superblocks and records.
    pub(crate) async fn rot(&self, ssd: usize) {
        let ssd = &self.ssds[ssd];
        let size_bytes = ssd.info().size_bytes;
        let start = records_end(size_bytes);
        let mut junk = Buf::zeroed(usize::try_from(size_bytes - start).unwrap());
        junk.chunks_exact_mut(2).for_each(|pair| pair.copy_from_slice(&[0xA5, 0x5A]));
        ssd.write(start, junk).await.1.unwrap();
    }
}

/// What holds zeroes takes no memory in the copy: most of the time of a copy would go into that.
fn copy_of(device: &MemoryDevice) -> MemoryDevice {
    let bytes = device.unplug();
    let mut copied = vec![0; bytes.len()];
    for (from, to) in bytes.chunks(4096).zip(copied.chunks_mut(4096)) {
        if from != &[0; 4096][..from.len()] {
            to.copy_from_slice(from);
        }
    }
    device.plug(bytes);
    MemoryDevice::holding(copied, device.info().logical_block_bytes)
}

pub(crate) async fn write(volume: &Volume<TestEnv>, number: u64, fill: u8) {
    let mut page = Buf::zeroed(4096);
    page.fill(fill);
    volume.write(number * 4096, page, Durability::Volatile).await.unwrap();
}

pub(crate) async fn read(volume: &Volume<TestEnv>, number: u64) -> u8 {
    let buf = volume.read(ByteRange::at(number * 4096, 4096)).await.unwrap();
    assert!(buf.iter().all(|byte| *byte == buf[0]), "page {number} is torn");
    buf[0]
}

pub(crate) async fn until(env: &TestEnv, what: &str, holds: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        env.sleep(Duration::from_millis(1)).await;
    }
    panic!("never came true: {what}");
}
