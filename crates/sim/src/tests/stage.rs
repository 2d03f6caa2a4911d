//! A pool on a stage: its SSDs, two volumes, and their backing devices, each of which a flow may let hang.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use crate::device::SimDevice;
use crate::disk::{Disk, Faults};
use crate::executor::{SimEnv, Simulation, Step};
use crate::model::Ending;
use futures_util::future::{Either, select};
use hotset_block::{ByteRange, Env};
use hotset_cache::config::{
    BlockBytes, Cleaning, FlushRate, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec,
};
use hotset_cache::{Durability, Error, Named, Pool, PoolSpec, STATE_BYTES, Volume};

pub(crate) const PAGE: u64 = 4096;
pub(crate) const BLOCK: u64 = 64 << 10;
pub(crate) const VOLUME_BYTES: u64 = 16 * BLOCK;

/// Longer than all that a test does may take.
const TOO_LONG: Duration = Duration::from_secs(1000);

/// Of one run that may end at a write; far more than any of them takes.
const STEPS_MAX: u64 = 500_000;

/// From here on it answers nothing.
pub(crate) fn hang(disk: &Disk) {
    disk.set_faults(Faults { hang: 1000, ..Faults::default() });
}

/// A pool, and two volumes in it: something is going to hang for the first of them.
pub(crate) struct World {
    pub(crate) env: SimEnv,
    pub(crate) ssds: Vec<Rc<Disk>>,
    pub(crate) state: Rc<Disk>,
    pub(crate) pool: Pool<SimEnv>,
    pub(crate) volume: Volume<SimEnv>,
    pub(crate) backing: Rc<Disk>,
    pub(crate) sound: Volume<SimEnv>,
    pub(crate) sound_backing: Rc<Disk>,
}

impl World {
    async fn create(env: SimEnv, kind: PoolKind, ssds: &[&str]) -> Self {
        let ssds: Vec<_> = ssds.iter().map(|name| Disk::plain(&env.simulation, name, 16 << 20)).collect();
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

    pub(crate) async fn write(&self, volume: &Volume<SimEnv>, page: u64, byte: u8) -> Result<(), Error> {
        let mut buf = self.env.buffers().take(4096);
        buf.fill(byte);
        volume.write(page * PAGE, buf, Durability::Volatile).await
    }

    pub(crate) async fn read(&self, volume: &Volume<SimEnv>, page: u64) -> u8 {
        volume.read(ByteRange::at(page * PAGE, PAGE)).await.unwrap()[0]
    }
}

pub(crate) fn named(disks: &[Rc<Disk>]) -> Vec<Named<SimDevice>> {
    disks.iter().map(|disk| Named { path: disk.name.clone(), device: SimDevice::open(disk) }).collect()
}

pub(crate) fn open(env: &SimEnv, backing: &Rc<Disk>) -> Volume<SimEnv> {
    let settings = VolumeSettings { write_cutoff_bytes: None, ..VolumeSettings::default() };
    let spec = VolumeSpec { name: backing.name.parse().unwrap(), backing: backing.name.clone(), settings };
    Volume::open(env.clone(), spec, SimDevice::open(backing)).unwrap()
}

/// Runs `flow` to its end, in a world of its own.
pub(crate) fn run_one(seed: u64, kind: PoolKind, ssds: &'static [&str], flow: impl AsyncFn(World) + 'static) {
    let simulation = Simulation::new(seed, false);
    let ended = Rc::new(Cell::new(false));
    let (env, at_end) = (SimEnv { simulation: Rc::clone(&simulation) }, Rc::clone(&ended));
    simulation.spawn(async move {
        let limit = env.clone();
        let whole = async { flow(World::create(env, kind, ssds).await).await };
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

/// Lets `flow` run until it has ended (true) or has begun more than `writes_max` writes (false).
pub(crate) fn run_for_writes(
    simulation: &Rc<Simulation>,
    flow: impl Future<Output = ()> + 'static,
    writes_max: Option<u64>,
) -> bool {
    let done = Rc::new(Cell::new(false));
    let ended = Rc::clone(&done);
    simulation.spawn(async move {
        flow.await;
        ended.set(true);
    });
    let before = simulation.writes.get();
    for _ in 0..STEPS_MAX {
        if writes_max.is_some_and(|most| simulation.writes.get() - before > most) {
            return false;
        }
        if done.get() {
            return true;
        }
        assert_ne!(simulation.step(), Step::Idle, "nothing happens any more");
    }
    panic!("it runs in circles");
}

/// Dies at each write in turn, in both ways, until `crash_at` answers that what it tries has ended before.
pub(crate) fn at_every_write(what: &str, crash_at: impl Fn(u64, Ending) -> bool) {
    for ending in [Ending::Kill, Ending::PowerCut] {
        let writes = (0..).take_while(|write| {
            let caught = catch_unwind(AssertUnwindSafe(|| crash_at(*write, ending)));
            caught.unwrap_or_else(|_| panic!("{what}: {ending:?} at write {write}"))
        });
        println!("{what}: {} writes, {ending:?} at each of them", writes.count());
    }
}
