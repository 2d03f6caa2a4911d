//! What an administrator does to a volume whose backing device answers nothing: it ends in time, loses nothing that he did not
//! give up, and holds up nobody else.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::{ByteRange, Env};
use hotset_cache::config::{
    BlockBytes, Cleaning, FlushRate, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec, limits,
};
use hotset_cache::{
    DirtyData, Durability, Error, ErrorKind, Health, Missing, Named, Pool, PoolSpec, Reattached, STATE_BYTES, Volume,
};
use hotset_sim::device::SimDevice;
use hotset_sim::disk::{Disk, Faults};
use hotset_sim::executor::{SimEnv, Simulation, Step};

const PAGE: u64 = 4096;
const BLOCK: u64 = 64 << 10;
const VOLUME_BYTES: u64 = 16 * BLOCK;

/// Longer than all that a test does may take.
const TOO_LONG: Duration = Duration::from_secs(1000);

fn hang(disk: &Disk) {
    disk.set_faults(Faults { hang: 1000, ..Faults::default() });
}

/// A pool, and two volumes in it: the backing device of one is going to hang.
struct World {
    env: SimEnv,
    ssds: Vec<Rc<Disk>>,
    state: Rc<Disk>,
    pool: Pool<SimEnv>,
    volume: Volume<SimEnv>,
    backing: Rc<Disk>,
    sound: Volume<SimEnv>,
    sound_backing: Rc<Disk>,
}

impl World {
    async fn create(env: SimEnv, kind: PoolKind) -> Self {
        let ssds: Vec<_> = ["one", "two"].iter().map(|name| Disk::plain(&env.simulation, name, 16 << 20)).collect();
        let state = Disk::plain(&env.simulation, "state", STATE_BYTES);
        let cleaning =
            Cleaning { flush_rate: FlushRate::High, dirty_watermark_percent: 90, dirty_age_max_seconds: 600 };
        let preset = PoolSettings::preset(kind, IoType::Custom);
        let settings = PoolSettings { block_bytes: BlockBytes::new(BLOCK).unwrap(), cleaning, ..preset };
        let spec = PoolSpec { name: "pool".parse().unwrap(), kind, settings };
        let pool = Pool::create(env.clone(), spec, named(&ssds), SimDevice::open(&state)).await.unwrap();
        let backing = Disk::plain(&env.simulation, "backing", VOLUME_BYTES);
        let sound_backing = Disk::plain(&env.simulation, "sound", VOLUME_BYTES);
        let (volume, sound) = (open(&env, &backing), open(&env, &sound_backing));
        pool.attach(&volume).await.unwrap();
        pool.attach(&sound).await.unwrap();
        Self { env, ssds, state, pool, volume, backing, sound, sound_backing }
    }

    async fn write(&self, volume: &Volume<SimEnv>, page: u64, byte: u8) -> Result<(), Error> {
        let mut buf = self.env.buffers().take(4096);
        buf.fill(byte);
        volume.write(page * PAGE, buf, Durability::Volatile).await
    }

    async fn read(&self, volume: &Volume<SimEnv>, page: u64) -> u8 {
        volume.read(ByteRange::at(page * PAGE, PAGE)).await.unwrap()[0]
    }

    /// The device hangs over a read, a write, a fill and, if there is dirty data, over its cleaning.
    async fn let_it_hang(&self) {
        self.write(&self.volume, 5, 1).await.unwrap();
        hang(&self.backing);
        let volume = self.volume.clone();
        self.env.spawn(async move { drop(volume.read(ByteRange::at(32 * PAGE, PAGE)).await) });
        let volume = self.volume.clone();
        self.env.spawn(async move { drop(volume.populate(ByteRange::at(64 * PAGE, BLOCK)).await) });
        let (volume, half_page) = (self.volume.clone(), self.env.buffers().take(2048));
        self.env.spawn(async move { drop(volume.write(100 * PAGE, half_page, Durability::Volatile).await) });
        self.env.sleep(Duration::from_secs(20)).await;
    }

    /// The cache is taken from the other volume and given back, and it is read and written all the while.
    async fn change_the_other(&self) {
        self.write(&self.sound, 7, 7).await.unwrap();
        self.pool.detach(&self.sound.name(), DirtyData::Clean).await.unwrap();
        assert_eq!(self.read(&self.sound, 7).await, 7);
        self.pool.attach(&self.sound).await.unwrap();
        self.sound.populate(ByteRange::at(0, BLOCK)).await.unwrap();
        assert_eq!(self.read(&self.sound, 7).await, 7);
    }
}

fn named(disks: &[Rc<Disk>]) -> Vec<Named<SimDevice>> {
    disks.iter().map(|disk| Named { path: disk.name.clone(), device: SimDevice::open(disk) }).collect()
}

fn open(env: &SimEnv, backing: &Rc<Disk>) -> Volume<SimEnv> {
    let settings = VolumeSettings { write_cutoff_bytes: None, ..VolumeSettings::default() };
    let spec = VolumeSpec { name: backing.name.parse().unwrap(), backing: backing.name.clone(), settings };
    Volume::open(env.clone(), spec, SimDevice::open(backing)).unwrap()
}

/// Runs `flow` to its end, in worlds of its own with pools of either kind.
fn run(flow: impl AsyncFn(World) + Copy + 'static) {
    for kind in [PoolKind::Read, PoolKind::ReadWrite] {
        for seed in 0..20 {
            run_one(seed, kind, flow);
        }
    }
}

fn run_one(seed: u64, kind: PoolKind, flow: impl AsyncFn(World) + 'static) {
    let simulation = Simulation::new(seed, false);
    let ended = Rc::new(Cell::new(false));
    let (env, at_end) = (SimEnv { simulation: Rc::clone(&simulation) }, Rc::clone(&ended));
    simulation.spawn(async move {
        let limit = env.clone();
        let whole = async { flow(World::create(env, kind).await).await };
        match select(pin!(whole), pin!(limit.sleep(TOO_LONG))).await {
            Either::Left(((), _)) => at_end.set(true),
            Either::Right(_) => panic!("seed {seed}, {kind:?}: it takes too long"),
        }
    });
    while !ended.get() {
        assert_ne!(simulation.step(), Step::Idle, "seed {seed}, {kind:?}: nothing happens any more");
    }
    simulation.drop_tasks();
}

async fn change_what_hangs(world: World) {
    let World { env, pool, volume, backing, .. } = &world;
    world.let_it_hang().await;
    let began = env.now();

    let newcomer = Disk::plain(&env.simulation, "newcomer", VOLUME_BYTES);
    let joining = open(env, &newcomer);
    hang(&newcomer);
    let error = pool.attach(&joining).await.unwrap_err();
    assert!(error.to_string().contains("backing device newcomer did not answer within 10 s"), "{error}");
    assert_eq!(joining.status().pool, None);

    backing.grow(2 * VOLUME_BYTES);
    let error = volume.grow().await.unwrap_err();
    assert!(error.to_string().contains("backing device backing did not answer"), "{error}");
    assert_eq!(volume.size_bytes(), VOLUME_BYTES, "what is not recorded is not served");
    let beyond = world.write(volume, VOLUME_BYTES / PAGE, 1).await.unwrap_err();
    assert_eq!(beyond.kind, ErrorKind::OutOfRange);

    let error = pool.detach(&volume.name(), DirtyData::Clean).await.unwrap_err();
    assert!([ErrorKind::Refused, ErrorKind::Media].contains(&error.kind), "{error}");
    assert!(volume.status().pool.is_some() && !volume.status().draining);
    assert!(env.now().since(began) <= 4 * limits::BACKING_TIMEOUT + Duration::from_secs(1), "four waits at most");
    world.change_the_other().await;

    backing.answer_all();
    newcomer.answer_all();
    env.sleep(Duration::from_secs(30)).await;
    assert_eq!(volume.grow().await.unwrap(), 2 * VOLUME_BYTES);
    pool.attach(&joining).await.unwrap();
    pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
    assert_eq!(world.read(volume, 5).await, 1);
}

// They waited for as long as the device took, and every other change of the pool behind them.
// proves: F6
#[test]
fn changes_of_a_volume_whose_device_hangs_are_refused_in_time_and_others_are_made() {
    run(change_what_hangs);
}

async fn give_up_what_hangs(world: World) {
    let World { env, pool, volume, backing, .. } = &world;
    world.let_it_hang().await;
    pool.detach(&volume.name(), DirtyData::Discard).await.unwrap();
    let status = volume.status();
    assert_eq!((status.pool, status.dirty_bytes, status.health), (None, 0, Health::Failed));
    let error = volume.read(ByteRange::at(5 * PAGE, PAGE)).await.unwrap_err();
    assert!(error.to_string().contains("given up while backing device backing did not answer"), "{error}");

    // Nothing of what is still on its way is taken for another volume's.
    world.change_the_other().await;
    let newcomer = Disk::plain(&env.simulation, "newcomer", VOLUME_BYTES);
    let joining = open(env, &newcomer);
    pool.attach(&joining).await.unwrap();
    joining.populate(ByteRange::at(0, VOLUME_BYTES)).await.unwrap();

    backing.answer_reads();
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(volume.status().health, Health::Failed, "a write is still on its way");
    backing.answer_all();
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(volume.status().health, Health::Good);
    // What was sent before is over: it does not come after this.
    for page in [5, 100] {
        world.write(volume, page, 9).await.unwrap();
    }
    env.sleep(Duration::from_secs(30)).await;
    for page in [5, 100] {
        assert_eq!(world.read(volume, page).await, 9);
    }
    pool.attach(volume).await.unwrap();
    volume.populate(ByteRange::at(0, VOLUME_BYTES)).await.unwrap();
    for page in 0..VOLUME_BYTES / PAGE {
        assert_eq!(world.read(volume, page).await, if [5, 100].contains(&page) { 9 } else { 0 });
        assert_eq!(world.read(&joining, page).await, 0);
    }
}

// Whoever gives up what a dead device was to get had to wait for the device.
// proves: F6
#[test]
fn a_volume_whose_device_hangs_can_be_given_up_and_serves_again_when_all_that_was_sent_has_ended() {
    run(give_up_what_hangs);
}

async fn detach_beside_a_fill_that_hangs(world: World) {
    let World { env, pool, volume, backing, .. } = &world;
    hang(backing);
    let filled = volume.clone();
    env.spawn(async move { drop(filled.populate(ByteRange::at(0, BLOCK)).await) });
    env.sleep(Duration::from_secs(1)).await;
    pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
    assert_eq!((volume.status().pool, volume.status().health), (None, Health::Degraded), "it serves, and hangs");
    world.change_the_other().await;
    let newcomer = Disk::plain(&env.simulation, "newcomer", VOLUME_BYTES);
    let joining = open(env, &newcomer);
    pool.attach(&joining).await.unwrap();
    joining.populate(ByteRange::at(0, VOLUME_BYTES)).await.unwrap();
    assert_eq!(joining.status().cache_used_bytes, VOLUME_BYTES, "the fill that hangs is not taken for one of its own");
}

// It waited for the fill, and every other change of the pool behind it.
// proves: F6
#[test]
fn a_fill_that_hangs_holds_up_no_change() {
    run(detach_beside_a_fill_that_hangs);
}

async fn start_while_it_hangs(world: World) {
    let World { env, ssds, state, pool, volume, backing, sound, sound_backing } = world;
    let dirty = pool.status().kind == PoolKind::ReadWrite;
    let write = |byte| {
        let mut buf = env.buffers().take(4096);
        buf.fill(byte);
        volume.write(5 * PAGE, buf, Durability::Durable)
    };
    write(3).await.unwrap();
    pool.abandon();
    drop((volume, sound));
    hang(&backing);
    let state = SimDevice::open(&state);
    let pool = Pool::open(env.clone(), named(&ssds), Some(state), Missing::Refuse).await.unwrap();
    let (volume, sound) = (open(&env, &backing), open(&env, &sound_backing));
    let error = pool.reattach(&volume).await.unwrap_err();
    assert!(error.to_string().contains("did not answer within 10 s"), "{error}");
    assert!(matches!(pool.reattach(&sound).await.unwrap(), Reattached::Warm { .. }));
    backing.answer_all();
    assert!(matches!(pool.reattach(&volume).await.unwrap(), Reattached::Warm { .. }));
    assert_eq!(volume.status().dirty_bytes, if dirty { PAGE } else { 0 });
    assert_eq!(volume.read(ByteRange::at(5 * PAGE, PAGE)).await.unwrap()[0], 3);
}

// It waited, and with it every volume behind it.
// proves: F6
#[test]
fn a_volume_whose_device_hangs_at_the_start_is_left_out_in_time_and_comes_back_with_its_data() {
    run(start_while_it_hangs);
}
