//! A pool of 4 TB whose devices hold nothing: the tables are real, every slot gets filled, and what the process allocates is
//! what was stated before the pool was made (REQUIREMENTS P14). Every byte is counted where it is allocated, so this binary
//! has one test only.

#![allow(clippy::unwrap_used)] // the lint spares test functions, but not what they call

use std::time::Duration;

use hotset_block::{
    Buf, BufPool, ByteRange, Device, DeviceError, DeviceIdentity, DeviceInfo, Discard, Env, Executor, ExecutorOptions,
    Extent, HostEnv, Instant, MemoryDevice, ZeroMode,
};
use hotset_cache::config::{BlockBytes, FetchRate, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{Named, Pool, PoolSpec, STATE_BYTES, Volume};
use peak_alloc::PeakAlloc;

const TERABYTE: u64 = 1_000_000_000_000 / 4096 * 4096;
const BLOCK: u64 = 4 << 20;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// A device of any size: it takes what is written and forgets it. The state directory alone remembers.
#[derive(Clone)]
enum Stub {
    Nothing(u64),
    State(MemoryDevice),
}

impl Device for Stub {
    fn info(&self) -> DeviceInfo {
        match self {
            Self::Nothing(size_bytes) => DeviceInfo {
                size_bytes: *size_bytes,
                logical_block_bytes: 4096,
                optimal_io_bytes: 0,
                volatile_cache: false,
                discard: Discard::Unsupported,
                read_only: false,
                emulated: false,
            },
            Self::State(memory) => memory.info(),
        }
    }

    fn identity(&self) -> Result<DeviceIdentity, DeviceError> {
        match self {
            Self::Nothing(size) => {
                Ok(DeviceIdentity { id: format!("{size}"), parent: String::new(), change_mark: None, boot: 1 })
            }
            Self::State(memory) => memory.identity(),
        }
    }

    async fn read(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        match self {
            Self::Nothing(_) => (buf, Ok(())),
            Self::State(memory) => memory.read(offset, buf).await,
        }
    }

    async fn write(&self, offset: u64, buf: Buf) -> (Buf, Result<(), DeviceError>) {
        match self {
            Self::Nothing(_) => (buf, Ok(())),
            Self::State(memory) => memory.write(offset, buf).await,
        }
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, _range: ByteRange) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn write_zeroes(&self, _range: ByteRange, _mode: ZeroMode) -> Result<(), DeviceError> {
        Ok(())
    }

    fn allocation(&self, _range: ByteRange, _extents_max: usize) -> Result<Vec<Extent>, DeviceError> {
        Ok(Vec::new())
    }
}

#[derive(Clone)]
struct StubEnv(HostEnv);

impl Env for StubEnv {
    type Device = Stub;

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

fn allocated_bytes() -> u64 {
    ALLOCATED.current_usage().try_into().unwrap()
}

// proves: P14
#[test]
fn a_pool_of_4_tb_takes_the_memory_that_was_stated_and_no_more() {
    Executor::new(ExecutorOptions::default()).unwrap().run(async |env| {
        let env = StubEnv(env);
        let mut settings = PoolSettings::preset(PoolKind::Read, IoType::WebService);
        settings.block_bytes = BlockBytes::new(BLOCK).unwrap();
        (settings.checksums, settings.fetch_rate) = (false, FetchRate::High);
        let spec = PoolSpec { name: "large".parse().unwrap(), kind: PoolKind::Read, settings };
        let plan = Pool::<StubEnv>::plan(&spec, &[TERABYTE; 4]).unwrap();
        let ssd = |index: u32| Named { path: format!("ssd{index}"), device: Stub::Nothing(TERABYTE) };
        let state = Stub::State(MemoryDevice::new(STATE_BYTES, 512));
        let before = allocated_bytes();
        let pool = Pool::create(env.clone(), spec, (0..4).map(ssd).collect(), state).await.unwrap();
        let volume = VolumeSpec {
            name: "disk".parse().unwrap(),
            backing: "nothing".into(),
            settings: VolumeSettings::default(),
        };
        let volume = Volume::open(env.clone(), volume, Stub::Nothing(8 * TERABYTE)).unwrap();
        pool.attach(&volume).await.unwrap();
        // More than there is room for: slots are evicted and filled again too.
        let blocks = plan.slots + plan.slots / 50;
        for first in (0..blocks).step_by(8) {
            volume.populate(ByteRange::at(first * BLOCK, 8 * BLOCK)).await.unwrap();
        }
        let status = pool.status();
        assert!(status.slots_used * 100 > plan.slots * 98, "{} of {} slots are filled", status.slots_used, plan.slots);
        assert!(volume.status().stats.evicted_blocks > 0);
        assert!(
            status.memory_bytes <= plan.memory_bytes + plan.memory_bytes / 50,
            "{} stated, {} in tables",
            plan.memory_bytes,
            status.memory_bytes
        );
        let taken = allocated_bytes() - before;
        // Buffers of fills that run, records and executor: bounded, whatever the pool's size.
        let beside = 8 << 20;
        println!("{} bytes stated, {} in tables, {taken} allocated", plan.memory_bytes, status.memory_bytes);
        assert!(taken <= plan.memory_bytes + beside, "{} bytes stated, {taken} allocated", plan.memory_bytes);
        assert!(taken >= status.memory_bytes, "{} in tables, {taken} allocated", status.memory_bytes);
        assert!(plan.memory_bytes <= 4000 * 460_000, "REQUIREMENTS P14: 460 KB per GB");
    });
}
