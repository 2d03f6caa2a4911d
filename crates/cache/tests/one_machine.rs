//! Several machines that reach the same SSDs: one at a time has the pool.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join, select};
use hotset_block::{Buf, ByteRange, Device, Env, Machine, MemoryDevice, Operation};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec, limits};
use hotset_cache::{
    DirtyData, Durability, Error, ErrorKind, Health, Missing, Named, Pool, PoolReason, PoolSpec, STATE_BYTES, Takeover,
    Volume, dismiss_owner,
};

use crate::harness::{Bad, PACE, TestDevice, TestEnv, run};
use crate::world::MIB;

/// Where the mark lies.
const MARK: u64 = 32 << 10;

/// The world as one machine sees it, at [`PACE`].
fn machine(env: &TestEnv, number: u128) -> TestEnv {
    let machine =
        Machine { daemon: number, fallback: number, machine: number, boot: number, name: format!("m{number}") };
    env.clone().at_pace(PACE).on_machine(machine)
}

/// SSDs and a backing device that all machines reach; each has a state directory of its own.
struct Shared {
    ssds: [MemoryDevice; 2],
    backing: MemoryDevice,
    states: [MemoryDevice; 3],
}

impl Shared {
    fn new() -> Self {
        Self {
            ssds: [(); 2].map(|()| MemoryDevice::new(16 * MIB, 512)),
            backing: MemoryDevice::new(16 * MIB, 512),
            states: [(); 3].map(|()| MemoryDevice::new(STATE_BYTES, 512)),
        }
    }

    fn named(&self) -> Vec<Named<TestDevice>> {
        let named = |ssd: &MemoryDevice| Named { path: "ssd".to_owned(), device: TestDevice::from(ssd.clone()) };
        self.ssds.iter().map(named).collect()
    }

    fn state(&self, at: &TestEnv) -> TestDevice {
        TestDevice::from(self.states[usize::try_from(at.machine().daemon).unwrap()].clone())
    }

    async fn create(&self, at: &TestEnv) -> Result<Pool<TestEnv>, Error> {
        let mut settings = PoolSettings::preset(PoolKind::ReadWrite, IoType::Custom);
        settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
        let spec = PoolSpec { name: "tank".parse().unwrap(), kind: PoolKind::ReadWrite, settings };
        Pool::create(at.clone(), spec, self.named(), self.state(at)).await
    }

    /// A pool with a volume and a dirty page in it.
    async fn with_dirt(&self, at: &TestEnv, fill: u8) -> (Pool<TestEnv>, Volume<TestEnv>) {
        let pool = self.create(at).await.unwrap();
        let volume = self.volume(at);
        pool.attach(&volume).await.unwrap();
        write(&volume, 0, fill).await.unwrap();
        (pool, volume)
    }

    async fn open(&self, at: &TestEnv) -> Result<Pool<TestEnv>, Error> {
        Pool::open(at.clone(), self.named(), Some(self.state(at)), Missing::Refuse).await
    }

    async fn reopened(&self, at: &TestEnv) -> (Pool<TestEnv>, Volume<TestEnv>) {
        let (pool, volume) = (self.open(at).await.unwrap(), self.volume(at));
        pool.reattach(&volume).await.unwrap();
        (pool, volume)
    }

    fn volume(&self, at: &TestEnv) -> Volume<TestEnv> {
        let spec =
            VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".into(), settings: VolumeSettings::default() };
        Volume::open(at.clone(), spec, TestDevice::from(self.backing.clone())).unwrap()
    }

    async fn everything(&self) -> Vec<Buf> {
        let mut all = Vec::new();
        for device in [&self.ssds[0], &self.ssds[1], &self.backing] {
            let length = usize::try_from(device.info().size_bytes).unwrap();
            let (mut bytes, read) = device.read(0, Buf::zeroed(length)).await;
            read.unwrap();
            let mark = usize::try_from(MARK).unwrap();
            bytes[mark..mark + 4096].fill(0);
            all.push(bytes);
        }
        all
    }
}

async fn write(volume: &Volume<TestEnv>, page: u64, fill: u8) -> Result<(), Error> {
    let mut buf = Buf::zeroed(4096);
    buf.fill(fill);
    volume.write(page * 4096, buf, Durability::Durable).await
}

async fn read(volume: &Volume<TestEnv>, page: u64) -> Result<u8, Error> {
    volume.read(ByteRange::at(page * 4096, 4096)).await.map(|buf| buf[0])
}

/// A daemon of machine `number`; what of it still runs at the end is killed.
fn daemon(number: u128, test: impl AsyncFnOnce(TestEnv)) {
    run(async |env| test(machine(&env, number)).await);
}

fn refused<T>(outcome: Result<T, Error>) -> String {
    let error = outcome.err().unwrap();
    assert_eq!(error.kind, ErrorKind::OtherMachine, "{error}");
    error.to_string()
}

async fn until(at: &TestEnv, what: &str, holds: impl Fn() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        at.host.sleep(Duration::from_millis(5)).await;
    }
    panic!("never came true: {what}");
}

// proves: F10
#[test]
fn a_pool_that_another_machine_uses_is_neither_opened_nor_taken_nor_made_anew() {
    let shared = Shared::new();
    daemon(1, async |here| {
        let (pool, volume) = shared.with_dirt(&here, 7).await;
        let there = machine(&here, 2);
        let why = refused(shared.open(&there).await);
        assert!(why.contains("m1") && why.contains("nothing else helps"), "{why}");
        refused(dismiss_owner(&there, &shared.named(), Takeover::Forced).await);
        refused(shared.create(&there).await);
        let other = Shared::new();
        let elsewhere = other.create(&there).await.unwrap();
        refused(elsewhere.add_ssds(shared.named()).await);
        refused(elsewhere.add_spares(shared.named()).await);
        assert_eq!(read(&volume, 0).await.unwrap(), 7);
        write(&volume, 1, 8).await.unwrap();
        assert!(pool.status().ssds.iter().all(|ssd| ssd.online));
        pool.close().await.unwrap();
    });
}

// proves: F10
#[test]
fn after_a_kill_another_machine_needs_force_and_the_same_one_no_time() {
    let shared = Shared::new();
    daemon(1, async |here| drop(shared.with_dirt(&here, 7).await));
    daemon(1, async |here| {
        let began = here.now();
        let (_pool, volume) = shared.reopened(&here).await;
        assert!(here.now().since(began) < limits::OWNER_WATCH, "it need not watch itself");
        assert_eq!(read(&volume, 0).await.unwrap(), 7);
    });
    daemon(2, async |there| {
        let why = refused(shared.open(&there).await);
        assert!(why.contains("m1") && why.contains("not stopped cleanly"), "{why}");
        refused(dismiss_owner(&there, &shared.named(), Takeover::Own).await);
        dismiss_owner(&there, &shared.named(), Takeover::Forced).await.unwrap();
        let (_pool, volume) = shared.reopened(&there).await;
        assert_eq!(read(&volume, 0).await.unwrap(), 7);
        write(&volume, 0, 9).await.unwrap();
    });
    daemon(1, async |here| {
        refused(shared.open(&here).await);
    });
}

// proves: F10
#[test]
fn after_a_restart_of_the_machine_a_daemon_opens_at_once_and_one_that_lost_its_state_watches_first() {
    let shared = Shared::new();
    daemon(1, async |here| drop(shared.with_dirt(&here, 7).await));
    for (daemon_id, boot, watches) in [(1, 9, false), (2, 9, true)] {
        daemon(1, async |here| {
            let machine = Machine { daemon: daemon_id, fallback: daemon_id, boot, ..here.machine() };
            let again = here.on_machine(machine);
            let began = again.now();
            let (_pool, volume) = shared.reopened(&again).await;
            assert_eq!(again.now().since(began) >= limits::OWNER_WATCH, watches);
            assert_eq!(read(&volume, 0).await.unwrap(), 7);
        });
    }
}

// proves: F10
#[test]
fn after_a_clean_stop_any_machine_opens_and_of_two_at_once_not_both() {
    let shared = Shared::new();
    daemon(1, async |here| {
        let (pool, _volume) = shared.with_dirt(&here, 7).await;
        pool.close().await.unwrap();
    });
    daemon(2, async |there| {
        let (pool, volume) = shared.reopened(&there).await;
        assert_eq!(read(&volume, 0).await.unwrap(), 7);
        pool.close().await.unwrap();
    });
    daemon(1, async |here| {
        let there = machine(&here, 2);
        let (one, other) = join(shared.open(&here), shared.open(&there)).await;
        assert!(one.is_err() || other.is_err(), "both have it");
        for outcome in [one, other] {
            match outcome {
                Ok(pool) => drop(pool.close().await.unwrap()),
                Err(error) => assert_eq!(error.kind, ErrorKind::OtherMachine, "{error}"),
            }
        }
        let (pool, _volume) = shared.reopened(&here).await;
        pool.close().await.unwrap();
    });
}

/// The mark of machine 2 on the first SSD.
async fn take_over(shared: &Shared, here: &TestEnv) {
    let other = Shared::new();
    let _theirs = other.create(&machine(here, 2)).await.unwrap();
    let (mark, read) = other.ssds[0].read(MARK, Buf::zeroed(4096)).await;
    read.unwrap();
    shared.ssds[0].write(MARK, mark).await.1.unwrap();
}

// proves: F10
#[test]
fn a_pool_that_somebody_took_writes_nothing_more_and_says_who_it_was() {
    let shared = Shared::new();
    daemon(1, async |here| {
        let (pool, volume) = shared.with_dirt(&here, 7).await;
        take_over(&shared, &here).await;
        let by = |reason| matches!(reason, Some(PoolReason::Fenced(error)) if error.to_string().contains("m2"));
        until(&here, "it has noticed", || by(pool.status().reason)).await;
        let before = shared.everything().await;
        for outcome in [write(&volume, 0, 9).await, write(&volume, 3, 9).await, read(&volume, 0).await.map(drop)] {
            assert!(outcome.unwrap_err().to_string().contains("took it over"));
        }
        here.sleep(4 * limits::OWNER_REFRESH).await;
        refused(pool.close().await);
        assert!(before.iter().zip(shared.everything().await).all(|(before, after)| before[..] == after[..]));
        assert!(pool.status().taken_over);
        assert!(pool.status().ssds.iter().all(|ssd| !ssd.failed), "nothing is wrong with them");
    });
}

// proves: F8
#[test]
fn a_pool_that_somebody_took_is_not_changed_and_none_of_its_volumes_leaves_it() {
    daemon(1, async |here| {
        let shared = Shared::new();
        let (pool, volume) = shared.with_dirt(&here, 1).await;
        pool.drain(&volume.name()).await.unwrap();
        pool.cancel_drain(&volume.name());
        let spare = MemoryDevice::new(16 * MIB, 512);
        let named = Named { path: "spare".to_owned(), device: TestDevice::from(spare.clone()) };
        let spares = pool.add_spares(vec![named]).await.unwrap();
        take_over(&shared, &here).await;
        until(&here, "it is known", || pool.status().taken_over).await;
        let state = shared.state(&here).content().await;
        let everything = shared.everything().await;
        refused(pool.detach(&volume.name(), DirtyData::Clean).await);
        refused(pool.detach(&volume.name(), DirtyData::Discard).await);
        refused(pool.remove_spares(&spares).await);
        refused(pool.delete(DirtyData::Discard).await);
        assert!(read(&volume, 0).await.is_err() && write(&volume, 0, 2).await.is_err(), "it serves nothing");
        assert!(everything.iter().zip(shared.everything().await).all(|(before, after)| before[..] == after[..]));
        assert!(state == shared.state(&here).content().await, "nor is it on record");
        let (label, read) = spare.read(0, Buf::zeroed(4096)).await;
        read.unwrap();
        assert_ne!(label[..8], [0; 8], "the spare is somebody else's now");
    });
}

// proves: F10
#[test]
fn after_a_pause_nothing_is_written_before_it_is_known_whether_somebody_took_the_pool() {
    let shared = Shared::new();
    daemon(1, async |here| {
        let (_pool, volume) = shared.with_dirt(&here, 7).await;
        here.paused.set(Duration::from_secs(60));
        write(&volume, 1, 8).await.unwrap();
        assert_eq!(read(&volume, 1).await.unwrap(), 8);
        take_over(&shared, &here).await;
        let before = shared.everything().await;
        here.paused.set(Duration::from_secs(120));
        // Far sooner than the next look.
        assert!(write(&volume, 2, 9).await.is_err());
        assert!(before.iter().zip(shared.everything().await).all(|(before, after)| before[..] == after[..]));
    });
}

fn named(device: &TestDevice) -> Named<TestDevice> {
    Named { path: "ssd".to_owned(), device: device.clone() }
}

/// A pool on these, with a volume.
async fn over(at: &TestEnv, kind: PoolKind, ssds: &[TestDevice]) -> (Pool<TestEnv>, Volume<TestEnv>) {
    let mut settings = PoolSettings::preset(kind, IoType::Custom);
    settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
    let spec = PoolSpec { name: "tank".parse().unwrap(), kind, settings };
    let ssds = ssds.iter().map(named).collect();
    let pool = Pool::create(at.clone(), spec, ssds, TestDevice::new(STATE_BYTES)).await.unwrap();
    let spec =
        VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".into(), settings: VolumeSettings::default() };
    let volume = Volume::open(at.clone(), spec, TestDevice::new(16 * MIB)).unwrap();
    pool.attach(&volume).await.unwrap();
    (pool, volume)
}

/// What `work` brings, which may take as long as SSDs are waited for, and no longer.
async fn in_time<T>(at: &TestEnv, work: impl Future<Output = T>) -> T {
    match select(pin!(work), pin!(at.sleep(12 * limits::SSD_TIMEOUT))).await {
        Either::Left((value, _)) => value,
        Either::Right(_) => panic!("it waits for good"),
    }
}

// proves: F10, F1
#[test]
fn a_mark_that_hangs_or_fails_holds_nobody_up_and_costs_no_ssd() {
    for bad in [Bad::HangsAt(MARK), Bad::FailsAt(MARK)] {
        run(async |env| {
            let at = machine(&env, 1);
            let devices = [(); 2].map(|()| TestDevice::new(16 * MIB));
            let (pool, volume) = over(&at, PoolKind::ReadWrite, &devices).await;
            devices.iter().for_each(|device| device.become_bad(bad));
            for _ in 0..4 {
                at.sleep(limits::SSD_TIMEOUT / 2).await;
                volume.write(0, Buf::zeroed(4096), Durability::Durable).await.unwrap();
            }
            let status = pool.status();
            assert_eq!(status.health, Health::Good, "{bad:?}: {:?}", status.reason);
            assert!(status.ssds.iter().all(|ssd| ssd.online && !ssd.silent), "{bad:?}");
            pool.close().await.unwrap();
        });
    }
}

// proves: F10, F1
#[test]
fn after_a_pause_a_look_lets_go_on_though_the_mark_cannot_be_moved() {
    run(async |env| {
        let at = machine(&env, 1);
        let ssd = TestDevice::new(16 * MIB);
        let (pool, volume) = over(&at, PoolKind::Read, std::slice::from_ref(&ssd)).await;
        at.paused.set(Duration::from_secs(60));
        // The first one is that of the mark: all others wait for the look.
        ssd.hold_next(Operation::Write);
        in_time(&at, write(&volume, 1, 8)).await.unwrap();
        assert!(pool.status().ssds.iter().all(|ssd| ssd.online && !ssd.silent));
        in_time(&at, pool.close()).await.unwrap();
    });
}

// proves: F10, F1
#[test]
fn after_a_pause_an_ssd_whose_mark_hangs_leaves_and_holds_up_no_host() {
    for spares in 0..2 {
        run(async |env| {
            let at = machine(&env, 1);
            let devices = [(); 3].map(|()| TestDevice::new(16 * MIB));
            let (pool, volume) = over(&at, PoolKind::Read, &devices[..2]).await;
            pool.add_spares(devices[2..].iter().take(spares).map(named).collect()).await.unwrap();
            devices.iter().for_each(|device| device.become_bad(Bad::HangsAt(MARK)));
            at.paused.set(Duration::from_secs(60));
            in_time(&at, write(&volume, 1, 8)).await.unwrap();
            assert_eq!(in_time(&at, read(&volume, 1)).await.unwrap(), 8);
            let status = pool.status();
            assert_eq!(status.ssds.iter().filter(|ssd| ssd.silent).count(), 2, "{status:?}");
            in_time(&at, pool.close()).await.unwrap();
        });
    }
}

// proves: F10, F1
#[test]
fn after_a_pause_a_pool_whose_marks_hang_stops_in_time() {
    for kind in [PoolKind::Read, PoolKind::ReadWrite] {
        run(async |env| {
            let at = machine(&env, 1);
            let devices = [(); 2].map(|()| TestDevice::new(16 * MIB));
            let (pool, volume) = over(&at, kind, &devices).await;
            write(&volume, 0, 7).await.unwrap();
            devices.iter().for_each(|device| device.become_bad(Bad::HangsAt(MARK)));
            at.paused.set(Duration::from_secs(60));
            let closed = in_time(&at, pool.close()).await;
            // Dirty data stays where it is, and the next start finds it.
            assert_eq!(closed.is_err(), kind == PoolKind::ReadWrite, "{:?}", closed.err());
        });
    }
}
