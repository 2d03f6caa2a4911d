//! SSDs that join and leave a pool while it serves, and spares that take over, through the public face.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join;
use hotset_block::{Buf, ByteRange, Device, Env, MemoryDevice};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{
    Durability, ErrorKind, Health, LABEL_BYTES, Missing, Named, Pool, PoolSpec, PoolStatus, Removed, STATE_BYTES,
    SsdLabel, Volume, inspect,
};

use crate::harness::{Bad, TestDevice, TestEnv, run};
use crate::world::until;

const MIB: u64 = 1 << 20;
/// Where the second copy of a superblock lies, by `docs/FORMAT.md`.
const SECOND_SUPERBLOCK: u64 = 64 << 10;
/// Pages that the tests write.
const PAGES: u64 = 500;

/// Devices that outlive the pool: handles on the same memory.
struct World {
    env: TestEnv,
    kind: PoolKind,
    disks: Vec<MemoryDevice>,
    state: MemoryDevice,
    backing: MemoryDevice,
}

impl World {
    fn new(env: TestEnv, kind: PoolKind, disks: usize) -> Self {
        let disks = (0..disks).map(|_| MemoryDevice::new(32 * MIB, 4096)).collect();
        let state = MemoryDevice::new(STATE_BYTES, 512);
        Self { env, kind, disks, state, backing: MemoryDevice::new(64 * MIB, 512) }
    }

    fn named(&self, disks: impl IntoIterator<Item = usize>) -> Vec<Named<TestDevice>> {
        let named =
            |disk: usize| Named { path: format!("disk{disk}"), device: TestDevice::from(self.disks[disk].clone()) };
        disks.into_iter().map(named).collect()
    }

    /// A pool of the first so many disks.
    async fn create(&self, disks: usize) -> Pool<TestEnv> {
        let mut settings = PoolSettings::preset(self.kind, IoType::Custom);
        settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
        settings.populate_on_read = 1;
        let spec = PoolSpec { name: "tank".parse().unwrap(), kind: self.kind, settings };
        let state = TestDevice::from(self.state.clone());
        Pool::create(self.env.clone(), spec, self.named(0..disks), state).await.unwrap()
    }

    async fn open(&self, disks: &[usize]) -> Pool<TestEnv> {
        let state = Some(TestDevice::from(self.state.clone()));
        Pool::open(self.env.clone(), self.named(disks.iter().copied()), state, Missing::Leave).await.unwrap()
    }

    fn volume(&self) -> Volume<TestEnv> {
        let settings = VolumeSettings { read_cutoff_bytes: None, ..VolumeSettings::default() };
        let spec = VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".into(), settings };
        Volume::open(self.env.clone(), spec, TestDevice::from(self.backing.clone())).unwrap()
    }

    async fn is_of_pool(&self, disk: usize) -> bool {
        let (bytes, read) = self.disks[disk].read(0, Buf::zeroed(LABEL_BYTES)).await;
        read.unwrap();
        inspect(&bytes).unwrap().is_some()
    }
}

async fn attached(world: &World, pool: &Pool<TestEnv>) -> Volume<TestEnv> {
    let volume = world.volume();
    pool.attach(&volume).await.unwrap();
    volume
}

async fn write_all(volume: &Volume<TestEnv>, fill: u8) {
    for page in 0..PAGES {
        let mut buf = Buf::zeroed(4096);
        buf.fill(fill);
        volume.write(page * 4096, buf, Durability::Volatile).await.unwrap();
    }
}

async fn read_all(volume: &Volume<TestEnv>, fill: u8) {
    for page in 0..PAGES {
        let buf = volume.read(ByteRange::at(page * 4096, 4096)).await.unwrap();
        assert!(buf.iter().all(|byte| *byte == fill), "page {page}");
    }
}

fn uuid_of(status: &PoolStatus, path: &str) -> u128 {
    status.ssds.iter().find(|ssd| ssd.path == path).unwrap().uuid
}

#[test]
fn ssds_that_come_and_go_do_not_make_the_tables_grow() {
    run(async |env| {
        let world = World::new(env.clone(), PoolKind::Read, 3);
        let pool = world.create(2).await;
        let volume = attached(&world, &pool).await;
        write_all(&volume, 3).await;
        let mut memory = Vec::new();
        for _ in 0..6 {
            pool.add_ssds(world.named(2..3)).await.unwrap();
            volume.populate(ByteRange::at(0, PAGES * 4096)).await.unwrap();
            read_all(&volume, 3).await;
            let status = pool.status();
            memory.push(status.memory_bytes);
            let newest = status.ssds.iter().rfind(|ssd| ssd.online).unwrap().uuid;
            pool.remove_ssds(&[newest]).await.unwrap();
            read_all(&volume, 3).await;
        }
        let (first, last) = (memory[0], memory[5]);
        assert!(last <= first + first / 20, "{memory:?}");
    });
}

/// Of what carries both copies of its superblock, the second cannot be written any more.
async fn fails_when(env: &TestEnv, labelled: &MemoryDevice, failing: &TestDevice) {
    while label_of(labelled).await.is_none() {
        env.sleep(Duration::ZERO).await;
    }
    failing.become_bad(Bad::FailsAt(SECOND_SUPERBLOCK));
}

async fn label_of(disk: &MemoryDevice) -> Option<SsdLabel> {
    let (bytes, _) = disk.read(0, Buf::zeroed(LABEL_BYTES)).await;
    inspect(&bytes).expect("it is whole or nothing")
}

// It carried the pool's name for ever, and no other pool took it.
// proves: P4
#[test]
fn what_could_not_join_a_pool_is_as_free_as_before() {
    run(async |env| {
        let world = World::new(env.clone(), PoolKind::Read, 3);
        let pool = world.create(1).await;
        for is_spare in [false, true] {
            let joining = || -> (Vec<Named<TestDevice>>, TestDevice) {
                let unhurried = |named: Named<TestDevice>| Named { device: named.device.unhurried(), ..named };
                let named: Vec<_> = world.named([1, 2]).into_iter().map(unhurried).collect();
                let second = named[1].device.clone();
                (named, second)
            };
            let (named, second) = joining();
            let joined = async { if is_spare { pool.add_spares(named).await } else { pool.add_ssds(named).await } };
            let (joined, ()) = join(joined, fails_when(&env, &world.disks[1], &second)).await;
            let error = joined.expect_err("its superblock could not be written");
            assert!(error.to_string().contains("disk2"), "{error}");
            assert_eq!((label_of(&world.disks[1]).await, label_of(&world.disks[2]).await), (None, None));
            let status = pool.status();
            assert_eq!((status.ssds.len(), status.spares.len(), status.health), (1, 0, Health::Good));
        }
        pool.add_ssds(world.named([1, 2])).await.unwrap();
        assert_eq!(pool.status().ssds.len(), 3);
    });
}

#[test]
fn what_a_pool_could_not_be_made_of_is_as_free_as_before() {
    run(async |env| {
        let world = World::new(env.clone(), PoolKind::Read, 2);
        let unhurried = |named: Named<TestDevice>| Named { device: named.device.unhurried(), ..named };
        let named: Vec<_> = world.named(0..2).into_iter().map(unhurried).collect();
        let second = named[1].device.clone();
        let settings = PoolSettings::preset(PoolKind::Read, IoType::Custom);
        let spec = PoolSpec { name: "tank".parse().unwrap(), kind: PoolKind::Read, settings };
        let made = Pool::create(env.clone(), spec, named, TestDevice::from(world.state.clone()));
        let (made, ()) = join(made, fails_when(&env, &world.disks[0], &second)).await;
        assert!(made.is_err(), "its superblock could not be written");
        assert_eq!((label_of(&world.disks[0]).await, label_of(&world.disks[1]).await), (None, None));
        assert_eq!(world.create(2).await.status().ssds.len(), 2);
    });
}

// proves: P4
#[test]
fn a_read_pool_grows_and_shrinks_while_it_serves_and_what_it_keeps_stays_warm() {
    run(async |env| {
        let world = World::new(env.clone(), PoolKind::Read, 3);
        let pool = world.create(1).await;
        let volume = attached(&world, &pool).await;
        let before = pool.status();
        pool.add_ssds(world.named([1, 2])).await.unwrap();
        assert_eq!(pool.status().slots, 3 * before.slots);
        assert_eq!(pool.status().epoch, before.epoch + 1);
        let again = pool.add_ssds(world.named([1])).await.unwrap_err();
        assert_eq!(again.kind, ErrorKind::Refused, "it is in the pool already: {again}");
        for start in (0..32 * MIB).step_by(64 << 10) {
            volume.read(ByteRange::at(start, 64 << 10)).await.unwrap();
        }
        until(&env, "all of them are used", || pool.status().ssds.iter().all(|ssd| ssd.slots_used > 50)).await;
        let leaving = uuid_of(&pool.status(), "disk0");
        assert_eq!(pool.remove_ssds(&[leaving]).await.unwrap(), Removed::Done);
        let status = pool.status();
        assert_eq!((status.ssds.len(), status.slots, status.health), (2, 2 * before.slots, Health::Good));
        assert!(!world.is_of_pool(0).await && world.is_of_pool(1).await);
        let last: Vec<u128> = status.ssds.iter().map(|ssd| ssd.uuid).collect();
        assert_eq!(pool.remove_ssds(&last).await.unwrap_err().kind, ErrorKind::Refused, "nothing would be left");
        pool.close().await.unwrap();
        drop((pool, volume));
        let pool = world.open(&[1, 2]).await;
        assert!(pool.status().used_bytes > 16 * MIB, "{:?}", pool.status());
        pool.close().await.unwrap();
    });
}

// proves: F2, P5
#[test]
fn a_degraded_pool_heals_with_an_ssd_that_is_added() {
    run(async |env| {
        let world = World::new(env.clone(), PoolKind::ReadWrite, 3);
        let pool = world.create(2).await;
        let volume = attached(&world, &pool).await;
        write_all(&volume, 1).await;
        world.disks[0].vanish();
        write_all(&volume, 2).await;
        assert_eq!(pool.status().health, Health::Degraded);
        pool.add_ssds(world.named([2])).await.unwrap();
        until(&env, "all of it has two copies again", || pool.status().health == Health::Good).await;
        write_all(&volume, 3).await;
        assert!(!pool.status().write_log.unwrap().write_caching_off);
        assert!(volume.status().dirty_bytes > 0);
        world.disks[1].vanish();
        read_all(&volume, 3).await;
        pool.close().await.unwrap();
    });
}

// proves: P5
#[test]
fn an_ssd_is_removed_with_everything_on_it_and_is_free_then() {
    run(async |env| {
        let world = World::new(env.clone(), PoolKind::ReadWrite, 4);
        let pool = world.create(3).await;
        let volume = attached(&world, &pool).await;
        write_all(&volume, 1).await;
        for disk in [0, 1] {
            let leaving = uuid_of(&pool.status(), &format!("disk{disk}"));
            assert_eq!(pool.remove_ssds(&[leaving]).await.unwrap(), Removed::Done);
            assert!(!world.is_of_pool(disk).await);
            assert_eq!(volume.status().dirty_bytes, PAGES * 4096, "nothing had to be flushed");
            assert_eq!(pool.status().health, Health::Good);
            pool.add_ssds(world.named([3 - disk * 3])).await.unwrap();
            // What was removed is not needed any more.
            read_all(&volume, 1).await;
        }
        let two: Vec<u128> = pool.status().ssds.iter().take(2).map(|ssd| ssd.uuid).collect();
        let error = pool.remove_ssds(&two).await.unwrap_err();
        assert!(error.to_string().contains("two copies"), "{error}");
        pool.close().await.unwrap();
        drop((pool, volume));
        let pool = world.open(&[0, 2, 3]).await;
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        read_all(&volume, 1).await;
        assert_eq!(pool.status().health, Health::Good);
        pool.close().await.unwrap();
    });
}

/// Overwrites random pages of the first `set` until it is told to stop.
async fn overwrite(volume: Volume<TestEnv>, set: u64, seed: u64, work: Rc<HostsAtWork>) {
    let mut random = seed;
    while !work.stop.get() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        volume.write((random >> 33) % set * 4096, Buf::zeroed(4096), Durability::Volatile).await.unwrap();
        work.written.set(work.written.get() + 1);
    }
    work.ended.set(work.ended.get() + 1);
}

#[derive(Default)]
struct HostsAtWork {
    stop: Cell<bool>,
    /// Pages.
    written: Cell<u64>,
    /// Hosts.
    ended: Cell<u64>,
}

// proves: P5, F2
#[test]
fn an_ssd_leaves_that_has_more_of_the_log_than_the_others_have_room_for_and_nothing_waits_for_ever() {
    const HOSTS: u64 = 8;
    run(async |env| {
        let world = World::new(env.clone(), PoolKind::ReadWrite, 4);
        let pool = world.create(4).await;
        let mut settings = pool.status().settings;
        settings.cleaning.dirty_watermark_percent = 90;
        pool.set(settings).await.unwrap();
        let volume = attached(&world, &pool).await;
        // Overwritten again and again, it makes the log three times as long as what is dirty.
        let set = pool.status().write_log.unwrap().dirty_capacity_bytes / 4096 * 52 / 100;
        let work = Rc::new(HostsAtWork::default());
        (0..HOSTS).for_each(|seed| env.spawn(overwrite(volume.clone(), set, seed, Rc::clone(&work))));
        until(&env, "the log is long", || work.written.get() > 6 * set).await;
        let leaving = uuid_of(&pool.status(), "disk0");
        let removed = Rc::new(Cell::new(None));
        let (leaves, answer) = (pool.clone(), Rc::clone(&removed));
        env.spawn(async move { answer.set(Some(leaves.remove_ssds(&[leaving]).await.unwrap())) });
        until(&env, "the SSD has left", || {
            assert!(!pool.status().write_log.unwrap().write_caching_off, "what is dirty has room for two copies");
            removed.get() == Some(Removed::Done)
        })
        .await;
        let before = work.written.get();
        until(&env, "hosts go on", || work.written.get() > before + set).await;
        assert!(volume.status().dirty_bytes > set * 4096 * 9 / 10, "nothing had to be flushed");
        work.stop.set(true);
        until(&env, "all hosts were answered", || work.ended.get() == HOSTS).await;
        pool.close().await.unwrap();
    });
}

// proves: P4
#[test]
fn a_read_pool_that_was_opened_without_any_ssd_takes_others_while_it_serves() {
    run(async |env| {
        let world = World::new(env, PoolKind::Read, 3);
        let pool = world.create(1).await;
        let volume = attached(&world, &pool).await;
        write_all(&volume, 1).await;
        pool.close().await.unwrap();
        drop((pool, volume));
        let pool = world.open(&[]).await;
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        read_all(&volume, 1).await;
        pool.add_ssds(world.named([1, 2])).await.unwrap();
        volume.populate(ByteRange::at(0, PAGES * 4096)).await.unwrap();
        let before = volume.status().stats.read_hits;
        read_all(&volume, 1).await;
        assert_eq!(volume.status().stats.read_hits - before, PAGES);
        pool.close().await.unwrap();
        drop((pool, volume));
        let pool = world.open(&[1, 2]).await;
        assert!(pool.status().used_bytes >= PAGES * 4096, "it starts warm: {:?}", pool.status());
        assert_eq!((pool.status().ssds.len(), pool.status().health), (2, Health::Good));
        pool.close().await.unwrap();
    });
}

// proves: P5
#[test]
fn several_ssds_leave_at_once_if_what_is_dirty_has_room_for_two_copies_without_them() {
    run(async |env| {
        let world = World::new(env, PoolKind::ReadWrite, 4);
        let pool = world.create(4).await;
        let mut settings = pool.status().settings;
        settings.cleaning.dirty_watermark_percent = 90;
        pool.set(settings).await.unwrap();
        let volume = attached(&world, &pool).await;
        write_all(&volume, 1).await;
        let more = pool.status().write_log.unwrap().dirty_capacity_bytes / 4096 * 65 / 100;
        // Not one behind the other: a stream would go past the cache.
        for number in 0..more - PAGES {
            let page = PAGES + 2 * number;
            volume.write(page * 4096, Buf::zeroed(4096), Durability::Volatile).await.unwrap();
        }
        let two = ["disk0", "disk2"].map(|path| uuid_of(&pool.status(), path));
        let error = pool.remove_ssds(&two).await.unwrap_err();
        let dirty = volume.status().dirty_bytes;
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.to_string().contains(&format!("{dirty} bytes are dirty")), "{dirty} bytes: {error}");
        assert_eq!(pool.status().ssds.len(), 4);
        pool.drain(&volume.name()).await.unwrap();
        pool.cancel_drain(&volume.name());
        write_all(&volume, 2).await;
        assert_eq!(pool.remove_ssds(&two).await.unwrap(), Removed::Done);
        assert!(!world.is_of_pool(0).await && !world.is_of_pool(2).await);
        assert_eq!((pool.status().ssds.len(), pool.status().health), (2, Health::Good));
        assert_eq!(volume.status().dirty_bytes, PAGES * 4096, "nothing had to be flushed");
        world.disks[1].vanish();
        read_all(&volume, 2).await;
        pool.close().await.unwrap();
    });
}

// proves: F3
#[test]
fn of_many_spares_the_first_that_can_takes_over_in_pools_of_both_kinds() {
    for kind in [PoolKind::Read, PoolKind::ReadWrite] {
        run(async |env| {
            let world = World::new(env.clone(), kind, 8);
            let pool = world.create(2).await;
            let volume = attached(&world, &pool).await;
            pool.add_spares(world.named(2..8)).await.unwrap();
            write_all(&volume, 1).await;
            volume.populate(ByteRange::at(0, PAGES * 4096)).await.unwrap();
            world.disks[2].vanish();
            world.disks[0].vanish();
            write_all(&volume, 2).await;
            read_all(&volume, 2).await;
            let took_over = || pool.status().ssds.iter().any(|ssd| ssd.path == "disk3" && ssd.online);
            until(&env, "the second spare is in the pool", took_over).await;
            until(&env, "the pool is well", || pool.status().health == Health::Good).await;
            let spares = pool.status().spares;
            let (sound, bad): (Vec<_>, Vec<_>) = spares.iter().partition(|spare| spare.reason.is_none());
            let paths: Vec<&str> = sound.iter().map(|spare| spare.path.as_str()).collect();
            assert_eq!(paths, ["disk4", "disk5", "disk6", "disk7"]);
            assert!(bad.len() == 1 && bad[0].path == "disk2", "{bad:?}");
            read_all(&volume, 2).await;
            pool.close().await.unwrap();
        });
    }
}

// proves: F3
#[test]
fn a_spare_takes_over_by_itself_also_after_a_restart() {
    run(async |env| {
        let world = World::new(env.clone(), PoolKind::ReadWrite, 4);
        let pool = world.create(2).await;
        let volume = attached(&world, &pool).await;
        pool.add_spares(world.named([2])).await.unwrap();
        write_all(&volume, 1).await;
        pool.close().await.unwrap();
        drop((pool, volume));
        let pool = world.open(&[0, 1, 2]).await;
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        assert_eq!((pool.status().spares.len(), pool.status().ssds.len()), (1, 2));
        world.disks[0].vanish();
        write_all(&volume, 2).await;
        let healed = || pool.status().health == Health::Good && pool.status().spares.is_empty();
        until(&env, "the spare has taken over", healed).await;
        assert!(pool.status().ssds.iter().all(|ssd| ssd.online), "{:?}", pool.status().ssds);
        let spare = pool.add_spares(world.named([3])).await.unwrap();
        pool.remove_spares(&spare).await.unwrap();
        assert!(!world.is_of_pool(3).await);
        world.disks[1].vanish();
        read_all(&volume, 2).await;
        pool.close().await.unwrap();
    });
}
