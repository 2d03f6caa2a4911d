//! A pool and a volume on devices in memory: the flows in their simplest order, through the public face.

use hotset_block::{Buf, ByteRange, Device, MemoryDevice, ZeroMode};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{Durability, Missing, Named, Pool, PoolSpec, Reattached, STATE_BYTES, Volume, ZeroEffort};

use crate::harness::{TestDevice, TestEnv, run};
use crate::world::until;

const MIB: u64 = 1 << 20;

/// Devices that outlive the pool: handles on the same memory.
struct World {
    env: TestEnv,
    ssds: Vec<MemoryDevice>,
    state: MemoryDevice,
    backing: MemoryDevice,
}

impl World {
    fn new(env: TestEnv, ssd_sizes: &[u64], backing_bytes: u64) -> Self {
        let ssds = ssd_sizes.iter().map(|size| MemoryDevice::new(*size, 512)).collect();
        let state = MemoryDevice::new(STATE_BYTES, 512);
        Self { env, ssds, state, backing: MemoryDevice::new(backing_bytes, 512) }
    }

    fn named(&self) -> Vec<Named<TestDevice>> {
        let device = |(index, ssd): (usize, &MemoryDevice)| Named {
            path: format!("ssd{index}"),
            device: TestDevice::from(ssd.clone()),
        };
        self.ssds.iter().enumerate().map(device).collect()
    }

    fn spec() -> PoolSpec {
        let mut settings = PoolSettings::preset(PoolKind::Read, IoType::Custom);
        settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
        settings.populate_on_read = 2;
        PoolSpec { name: "tank".parse().unwrap(), kind: PoolKind::Read, settings }
    }

    async fn create(&self) -> Pool<TestEnv> {
        let state = TestDevice::from(self.state.clone());
        Pool::create(self.env.clone(), Self::spec(), self.named(), state).await.unwrap()
    }

    async fn open(&self) -> Pool<TestEnv> {
        let state = Some(TestDevice::from(self.state.clone()));
        Pool::open(self.env.clone(), self.named(), state, Missing::Refuse).await.unwrap()
    }

    fn volume(&self) -> Volume<TestEnv> {
        let spec =
            VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".into(), settings: VolumeSettings::default() };
        Volume::open(self.env.clone(), spec, TestDevice::from(self.backing.clone())).unwrap()
    }
}

fn page(fill: u8) -> Buf {
    let mut buf = Buf::zeroed(4096);
    buf.fill(fill);
    buf
}

// proves: D2, D3, D4
#[test]
fn the_second_read_of_a_block_fills_it_and_the_third_is_a_hit() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 24 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = world.volume();
        pool.attach(&volume).await.unwrap();
        volume.write(8192, page(7), Durability::Volatile).await.unwrap();
        for _ in 0..2 {
            assert_eq!(volume.read(ByteRange::at(8192, 4096)).await.unwrap()[..], page(7)[..]);
        }
        assert_eq!(volume.status().stats.read_hits, 0);
        until(&env, "the block is in the cache", || volume.status().cache_used_bytes == 64 << 10).await;
        assert_eq!(volume.read(ByteRange::at(8192 + 512, 1024)).await.unwrap()[..], page(7)[..1024]);
        assert_eq!(volume.status().stats.read_hits, 1);
        volume.write(8192, page(9), Durability::Durable).await.unwrap();
        assert_eq!(volume.read(ByteRange::at(8192, 4096)).await.unwrap()[..], page(9)[..]);
        let all = volume.read(ByteRange::at(0, 128 << 10)).await.unwrap();
        assert_eq!((all[8191], all[8192], all[12_287], all[12_288]), (0, 9, 9, 0));
        pool.close().await.unwrap();
    });
}

// proves: D14
#[test]
fn the_cache_is_warm_after_a_clean_restart_and_after_a_kill() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = world.volume();
        pool.attach(&volume).await.unwrap();
        for block in 0..50 {
            volume.populate(ByteRange::at(block * 64 * 1024, 4096)).await.unwrap();
        }
        assert_eq!(volume.status().cache_used_bytes, 50 * 64 * 1024);
        pool.close().await.unwrap();
        let pool = world.open().await;
        let volume = world.volume();
        assert_eq!(pool.reattach(&volume).await.unwrap(), Reattached::Warm { bytes: 50 * 64 * 1024 });
        volume.write(0, page(3), Durability::Volatile).await.unwrap();
        assert_eq!(volume.status().cache_used_bytes, 50 * 64 * 1024 - 4096);
        drop((pool, volume));
        let pool = world.open().await;
        let volume = world.volume();
        let Reattached::Warm { bytes } = pool.reattach(&volume).await.unwrap() else { panic!("dropped") };
        assert_eq!(bytes, 50 * 64 * 1024 - 4096);
        assert_eq!(volume.read(ByteRange::at(0, 4096)).await.unwrap()[..], page(3)[..]);
        volume.read(ByteRange::at(4096, 4096)).await.unwrap();
        assert_eq!(volume.status().stats.read_hits, 1);
    });
}

// proves: D12
#[test]
fn a_pool_smaller_than_the_working_set_evicts_and_stays_right() {
    run(async |env| {
        let world = World::new(env.clone(), &[8 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = world.volume();
        pool.attach(&volume).await.unwrap();
        for block in 0..400_u64 {
            volume.write(block * 65536, page(u8::try_from(block % 251).unwrap()), Durability::Volatile).await.unwrap();
            volume.populate(ByteRange::at(block * 65536, 4096)).await.unwrap();
        }
        for block in (0..400_u64).rev() {
            let read = volume.read(ByteRange::at(block * 65536, 4096)).await.unwrap();
            assert_eq!(read[..], page(u8::try_from(block % 251).unwrap())[..]);
        }
        let stats = volume.status().stats;
        assert!(stats.evicted_blocks > 200 && stats.read_hits > 50, "{stats:?}");
        assert!(volume.status().cache_used_bytes <= pool.status().capacity_bytes);
    });
}

// proves: D13
#[test]
fn trim_and_zeroes_reach_cached_pages_of_any_part() {
    run(async |env| {
        let world = World::new(env.clone(), &[8 * MIB], 8 * MIB + 1536);
        let pool = world.create().await;
        let volume = world.volume();
        pool.attach(&volume).await.unwrap();
        assert_eq!(volume.size_bytes(), 8 * MIB + 1536);
        for offset in (0..8 * MIB).step_by(4096) {
            volume.write(offset, page(5), Durability::Volatile).await.unwrap();
        }
        volume.populate(ByteRange::at(0, 8 * MIB + 1536)).await.unwrap();
        let zero = async |range| {
            volume.write_zeroes(range, ZeroMode::MayPunch, ZeroEffort::Any, Durability::Volatile).await.unwrap();
        };
        zero(ByteRange::at(4096 + 512, 8192)).await;
        volume.trim(ByteRange::at(100 * 4096, 512), Durability::Volatile).await.unwrap();
        let bytes = volume.read(ByteRange::at(0, 4 * 4096)).await.unwrap();
        let expected = |index: usize| if (4096 + 512..4096 + 512 + 8192).contains(&index) { 0 } else { 5 };
        assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == expected(index)));
        let bytes = volume.read(ByteRange::at(100 * 4096, 4096)).await.unwrap();
        assert!(bytes[..512].iter().all(|byte| *byte == 0) && bytes[512..].iter().all(|byte| *byte == 5));
    });
}

// proves: P12
#[test]
fn detach_and_attach_leave_the_backing_device_alone_and_forget_what_was_cached() {
    run(async |env| {
        let world = World::new(env.clone(), &[8 * MIB], 8 * MIB);
        let pool = world.create().await;
        let volume = world.volume();
        pool.attach(&volume).await.unwrap();
        volume.write(0, page(1), Durability::Volatile).await.unwrap();
        volume.populate(ByteRange::at(0, 4096)).await.unwrap();
        pool.detach(&volume.name(), hotset_cache::DirtyData::Clean).await.unwrap();
        assert_eq!(volume.status().pool, None);
        volume.write(0, page(2), Durability::Volatile).await.unwrap();
        pool.attach(&volume).await.unwrap();
        assert_eq!(volume.status().cache_used_bytes, 0);
        assert_eq!(volume.read(ByteRange::at(0, 4096)).await.unwrap()[..], page(2)[..]);
        pool.close().await.unwrap();
        let changed = world.backing.clone();
        changed.write(0, page(8)).await.1.unwrap();
        let pool = world.open().await;
        let volume = world.volume();
        let Reattached::Dropped { reason } = pool.reattach(&volume).await.unwrap() else { panic!("not noticed") };
        assert!(reason.contains("written") || reason.contains("changed"), "{reason}");
        assert_eq!(volume.read(ByteRange::at(0, 4096)).await.unwrap()[..], page(8)[..]);
    });
}

// proves: F1
#[test]
fn a_read_pool_whose_only_ssd_cannot_be_used_opens_without_it_when_it_may_be_left_out() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB], 64 * MIB);
        let (pool, volume) = (world.create().await, world.volume());
        pool.attach(&volume).await.unwrap();
        pool.close().await.unwrap();
        let spoilt = MemoryDevice::new(16 * MIB, 512);
        let ssd = Named { path: "ssd0".to_owned(), device: TestDevice::from(spoilt) };
        let state = Some(TestDevice::from(world.state.clone()));
        let pool = Pool::open(env.clone(), vec![ssd], state, Missing::Leave).await.unwrap();
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        assert_eq!(volume.read(ByteRange::at(0, 4096)).await.unwrap()[..], page(0)[..]);
    });
}

/// The sectors of the slot index's journal that lie on an SSD: number, number below which all is flushed, and offset
/// (docs/FORMAT.md).
async fn journal(ssd: &MemoryDevice) -> Vec<(u64, u64, u64)> {
    let bytes = ssd.read(0, Buf::zeroed(usize::try_from(ssd.info().size_bytes).unwrap())).await.0;
    let number = |sector: &[u8], at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().unwrap());
    let sectors = (0..).step_by(512).zip(bytes.chunks(512));
    let journal = sectors.filter(|(_, sector)| sector.starts_with(b"HSix") && sector[8..10] == [1, 0]);
    let mut found: Vec<_> = journal.map(|(offset, sector)| (number(sector, 20), number(sector, 28), offset)).collect();
    found.sort_unstable();
    found
}

// proves: D14
#[test]
fn a_batch_torn_in_the_first_lap_of_the_journal_costs_no_warmth_when_the_ring_comes_round() {
    const RING: u64 = 128;
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB], 64 * MIB);
        let (pool, volume) = (world.create().await, world.volume());
        pool.attach(&volume).await.unwrap();
        for block in 0..80 {
            volume.populate(ByteRange::at(block * 65536, 4096)).await.unwrap();
        }
        pool.close().await.unwrap();
        let (pool, volume) = (world.open().await, world.volume());
        pool.reattach(&volume).await.unwrap();
        // The drops of so many blocks take two sectors, of which the first is lost.
        volume.write(0, Buf::zeroed(48 * 65536), Durability::Volatile).await.unwrap();
        drop((pool, volume));
        let written = journal(&world.ssds[0]).await;
        let [.., (torn, _, offset), (_, flushed_below, _)] = written[..] else { panic!("{written:?}") };
        assert_eq!(flushed_below, torn, "both are of one batch");
        world.ssds[0].write(offset, Buf::zeroed(512)).await.1.unwrap();
        // It was never flushed: the state directory's witness records do not know of it.
        for area in [52 << 10, 116 << 10] {
            world.state.write(area, Buf::zeroed(4096)).await.1.unwrap();
        }
        let (pool, volume) = (world.open().await, world.volume());
        pool.reattach(&volume).await.unwrap();
        for page in 60 * 16.. {
            volume.write(page * 4096, Buf::zeroed(4096), Durability::Volatile).await.unwrap();
            if journal(&world.ssds[0]).await.last().unwrap().0 >= RING {
                break;
            }
        }
        drop((pool, volume));
        let pool = world.open().await;
        let status = pool.status();
        assert!(status.slots_used > 0, "{}", status.recovery);
    });
}
