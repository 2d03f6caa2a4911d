//! A crash at write 0, 1, 2 … of every flow of a read-write pool, until none is left: the daemon is killed, or the power
//! fails everywhere. Whatever was told to hosts before has to be there afterwards.

use std::cell::RefCell;
use std::rc::Rc;

use crate::device::SimDevice;
use crate::disk::Disk;
use crate::executor::{SimEnv, Simulation};
use crate::model::{Answered, Ending, VolumeModel};
use crate::tests::stage::{at_every_write, run_for_writes};
use hotset_block::{ByteRange, Env};
use hotset_cache::config::{BlockBytes, Cleaning, FlushRate, IoType, PoolKind, PoolSettings};
use hotset_cache::config::{VolumeSettings, VolumeSpec, WriteMode};
use hotset_cache::{
    DirtyData, Durability, Error, LABEL_BYTES, Missing, Named, Pool, PoolSpec, STATE_BYTES, Volume, inspect,
};

const PAGE: u64 = 4096;
const VOLUME_BYTES: u64 = 512 << 10;
const PAGES: u64 = VOLUME_BYTES / PAGE;

/// Devices that outlive the daemon, and what its hosts may see.
#[derive(Clone)]
struct Scene {
    simulation: Rc<Simulation>,
    ssds: Vec<Rc<Disk>>,
    /// Not in a new pool.
    others: Vec<Rc<Disk>>,
    state: Rc<Disk>,
    backing: Rc<Disk>,
    model: Rc<RefCell<VolumeModel>>,
    pool: Rc<RefCell<Option<Pool<SimEnv>>>>,
    volume: Rc<RefCell<Option<Volume<SimEnv>>>>,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let simulation = Simulation::new(seed, false);
        let disk = |name: &str, size_bytes| Disk::plain(&simulation, name, size_bytes);
        let backing = disk("backing", VOLUME_BYTES);
        let model = VolumeModel::new(0, VOLUME_BYTES, 512, backing.content());
        Self {
            ssds: vec![disk("ssd0", 8 << 20), disk("ssd1", 9 << 20)],
            others: vec![disk("ssd2", 9 << 20), disk("ssd3", 8 << 20)],
            state: disk("state", STATE_BYTES),
            backing,
            model: Rc::new(RefCell::new(model)),
            pool: Rc::default(),
            volume: Rc::default(),
            simulation,
        }
    }

    fn env(&self) -> SimEnv {
        SimEnv { simulation: Rc::clone(&self.simulation) }
    }

    fn run(&self, flow: impl Future<Output = ()> + 'static, writes_max: Option<u64>) -> bool {
        run_for_writes(&self.simulation, flow, writes_max)
    }

    /// The daemon dies, by itself or with the power.
    fn crash(&self, ending: Ending) {
        self.volume.take();
        self.simulation.drop_tasks();
        if let Some(pool) = self.pool.take() {
            pool.abandon();
        }
        for disk in self.ssds.iter().chain(&self.others).chain([&self.state, &self.backing]) {
            match ending {
                Ending::Kill => disk.kill(),
                Ending::CutBefore | Ending::PowerCut => disk.cut_power(),
            }
        }
        self.model.borrow_mut().end_run(ending);
    }

    fn named(disks: &[Rc<Disk>]) -> Vec<Named<SimDevice>> {
        let named = |disk: &Rc<Disk>| Named { path: disk.name.clone(), device: SimDevice::open(disk) };
        disks.iter().map(named).collect()
    }

    /// The disks that say that they are of the pool.
    fn found(&self) -> Vec<Named<SimDevice>> {
        let is_ours = |disk: &&Rc<Disk>| {
            let mut start = vec![0; LABEL_BYTES];
            disk.content().read(0, &mut start);
            !disk.is_gone() && matches!(inspect(&start), Ok(Some(_)))
        };
        let ours: Vec<_> = self.ssds.iter().chain(&self.others).filter(is_ours).cloned().collect();
        Self::named(&ours)
    }

    fn pool(&self) -> Pool<SimEnv> {
        self.pool.borrow().clone().unwrap()
    }

    fn volume(&self) -> Volume<SimEnv> {
        self.volume.borrow().clone().unwrap()
    }

    // ---- what daemons, administrators and hosts do

    async fn create(&self) {
        let mut settings = PoolSettings::preset(PoolKind::ReadWrite, IoType::Custom);
        settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
        settings.cleaning =
            Cleaning { flush_rate: FlushRate::High, dirty_watermark_percent: 90, dirty_age_max_seconds: 600 };
        let spec = PoolSpec { name: "tank".parse().unwrap(), kind: PoolKind::ReadWrite, settings };
        let pool = Pool::create(self.env(), spec, Self::named(&self.ssds), SimDevice::open(&self.state)).await.unwrap();
        *self.pool.borrow_mut() = Some(pool);
    }

    async fn open(&self) -> Result<(), Error> {
        let state = Some(SimDevice::open(&self.state));
        let lost = self.ssds.iter().any(|disk| disk.is_gone());
        let missing = if lost { Missing::Leave } else { Missing::Refuse };
        let pool = Pool::open(self.env(), self.found(), state, missing).await?;
        *self.pool.borrow_mut() = Some(pool);
        Ok(())
    }

    /// Serves the volume: out of the cache if the pool knows it.
    async fn serve(&self) {
        let spec = VolumeSpec {
            name: "disk".parse().unwrap(),
            backing: "backing".into(),
            settings: VolumeSettings { write_cutoff_bytes: None, ..VolumeSettings::default() },
        };
        let volume = Volume::open(self.env(), spec, SimDevice::open(&self.backing)).unwrap();
        if !self.pool().unattached_volumes().is_empty() {
            self.pool().reattach(&volume).await.unwrap();
        }
        *self.volume.borrow_mut() = Some(volume);
    }

    async fn attach(&self) {
        let volume = self.volume();
        self.pool().attach(&volume).await.unwrap();
    }

    async fn write(&self, page: u64, durability: Durability) {
        let range = ByteRange::at(page % PAGES * PAGE, PAGE);
        let mut buf = self.env().buffers().take(4096);
        let number = {
            let mut model = self.model.borrow_mut();
            let number = model.begin_write(range, false);
            model.fill(number, range, &mut buf);
            number
        };
        let volume = self.volume();
        volume.write(range.start, buf, durability).await.unwrap();
        let answered = match durability {
            Durability::Volatile => Answered::Done,
            Durability::Durable => Answered::Durable,
        };
        self.model.borrow_mut().end_write(number, answered);
    }

    /// Writes pages one after the other; every fifth is flushed.
    async fn write_some(&self, pages: impl Iterator<Item = u64>) {
        for (turn, page) in pages.enumerate() {
            let durability = if turn % 5 == 4 { Durability::Durable } else { Durability::Volatile };
            self.write(page, durability).await;
        }
    }

    /// Everything can be read as it has to be, now and after all of it went to the backing device.
    async fn verify(&self) {
        self.read_all().await;
        let known = !self.pool().status().volumes.is_empty();
        if known {
            self.pool().drain(&self.volume().name()).await.unwrap();
        }
        self.model.borrow_mut().may_hold_all(&self.backing.content()).unwrap();
        self.read_all().await;
        self.pool().close().await.unwrap();
    }

    async fn read_all(&self) {
        for start in (0..VOLUME_BYTES).step_by(128 << 10) {
            let range = ByteRange::at(start, 128 << 10);
            let begun = self.model.borrow_mut().begin_read();
            let volume = self.volume();
            let bytes = volume.read(range).await.unwrap();
            self.model.borrow_mut().end_read(begun, range, Some(&bytes)).unwrap();
        }
    }
}

/// What was prepared before the flow, and the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Create,
    Attach,
    /// Rows are opened, filled and sealed.
    FillRows,
    /// The oldest rows are emptied and freed.
    FreeRows,
    Clean,
    ChangeModes,
    Detach,
    Close,
    Delete,
    AddSsds,
    RemoveSsd,
    /// An SSD is lost, and what it had gets another copy.
    MirrorAgain,
    SpareTakesOver,
    /// The start after a daemon died while rows were filled.
    Recover(Ending),
}

impl Flow {
    /// A pool, and a volume with dirty data.
    async fn prepare(self, scene: Scene) {
        if self == Self::Create {
            return;
        }
        scene.create().await;
        scene.serve().await;
        if self == Self::Attach {
            return scene.write_some(0..4).await;
        }
        scene.attach().await;
        match self {
            Self::FreeRows => scene.write_some((0..100).map(|turn| turn % 7)).await,
            Self::Create
            | Self::Attach
            | Self::FillRows
            | Self::Clean
            | Self::ChangeModes
            | Self::Detach
            | Self::Close
            | Self::Delete
            | Self::AddSsds
            | Self::Recover(_) => scene.write_some((0..23).map(|turn| turn * 5)).await,
            Self::RemoveSsd | Self::MirrorAgain => {
                scene.pool().add_ssds(Scene::named(&scene.others[..1])).await.unwrap();
                scene.write_some((0..23).map(|turn| turn * 5)).await;
            }
            Self::SpareTakesOver => {
                scene.pool().add_spares(Scene::named(&scene.others[..1])).await.unwrap();
                scene.write_some((0..23).map(|turn| turn * 5)).await;
            }
        }
    }

    async fn act(self, scene: Scene) {
        match self {
            Self::Create => scene.create().await,
            Self::Attach => scene.attach().await,
            Self::FillRows => scene.write_some((0..25).map(|turn| turn * 3)).await,
            Self::FreeRows => scene.write_some((0..25).map(|turn| turn % 9)).await,
            Self::Clean => drop(scene.pool().drain(&scene.volume().name()).await.unwrap()),
            Self::ChangeModes => change_modes(&scene).await,
            Self::Detach => scene.pool().detach(&scene.volume().name(), DirtyData::Clean).await.unwrap(),
            Self::Close => drop(scene.pool().close().await.unwrap()),
            Self::Delete => scene.pool().delete(DirtyData::Clean).await.unwrap(),
            Self::AddSsds => drop(scene.pool().add_ssds(Scene::named(&scene.others)).await.unwrap()),
            Self::RemoveSsd => {
                let leaving = scene.pool().status().ssds[0].uuid;
                scene.pool().remove_ssds(&[leaving]).await.unwrap();
            }
            Self::MirrorAgain | Self::SpareTakesOver => lose_one(&scene).await,
            Self::Recover(_) => scene.open().await.unwrap(),
        }
    }
}

/// Until everything has two copies again.
async fn lose_one(scene: &Scene) {
    scene.ssds[0].vanish();
    scene.write_some((0..10).map(|turn| turn * 3)).await;
    let healed = || {
        let status = scene.pool().status();
        status.rebuild.is_none() && status.ssds.iter().all(|ssd| !ssd.online || ssd.path != "ssd0")
    };
    while !healed() {
        scene.env().sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn change_modes(scene: &Scene) {
    for (turn, mode) in (0..).zip([WriteMode::WriteThrough, WriteMode::WriteAround, WriteMode::WriteBack]) {
        let volume = scene.volume();
        volume.set(VolumeSettings { write_mode: mode, ..volume.settings() }).await.unwrap();
        // What is dirty, and what was never written.
        scene.write_some([turn * 5, 100 + turn].into_iter()).await;
    }
}

/// A pool may have been on its way to be made, or to be deleted: then there is none, and no dirty data.
async fn start_again(flow: Flow, scene: Scene) {
    if let Err(error) = scene.open().await {
        assert!(matches!(flow, Flow::Create | Flow::Delete), "the pool does not open: {error}");
        scene.create().await;
    }
    scene.serve().await;
    scene.verify().await;
}

/// Runs the flow until it begins its write number `crash_at`, then once more from what is left; false if it ended before.
fn crash_at(flow: Flow, crash_at: u64, ending: Ending) -> bool {
    let scene = Scene::new(crash_at % 7);
    scene.run(flow.prepare(scene.clone()), None);
    if let Flow::Recover(first) = flow {
        scene.crash(first);
    }
    if scene.run(flow.act(scene.clone()), Some(crash_at)) {
        return false;
    }
    scene.crash(ending);
    scene.run(start_again(flow, scene.clone()), None);
    true
}

fn crash_everywhere(flow: Flow) {
    at_every_write(&format!("{flow:?}"), |write, ending| crash_at(flow, write, ending));
}

// proves: D11, F7
#[test]
fn a_crash_at_every_write_of_making_a_pool_leaves_one_or_none() {
    crash_everywhere(Flow::Create);
}

// proves: D11, F7
#[test]
fn a_crash_at_every_write_of_attaching_changes_no_byte() {
    crash_everywhere(Flow::Attach);
}

// proves: D6, D11, F7
#[test]
fn a_crash_at_every_write_while_rows_are_opened_and_sealed_loses_nothing() {
    crash_everywhere(Flow::FillRows);
}

// proves: D11, D12, F7
#[test]
fn a_crash_at_every_write_while_rows_are_emptied_and_freed_loses_nothing() {
    crash_everywhere(Flow::FreeRows);
}

// proves: D8, D11, F7
#[test]
fn a_crash_at_every_write_of_cleaning_loses_nothing() {
    crash_everywhere(Flow::Clean);
}

// proves: D7, D11, F7
#[test]
fn a_crash_at_every_write_of_changing_modes_loses_nothing() {
    crash_everywhere(Flow::ChangeModes);
}

// proves: D11, F7
#[test]
fn a_crash_at_every_write_of_detaching_loses_nothing() {
    crash_everywhere(Flow::Detach);
}

// proves: D11, D14, F7
#[test]
fn a_crash_at_every_write_of_closing_loses_nothing() {
    crash_everywhere(Flow::Close);
}

// proves: D11, F7
#[test]
fn a_crash_at_every_write_of_deleting_a_pool_loses_nothing() {
    crash_everywhere(Flow::Delete);
}

// proves: D11, F7
#[test]
fn a_crash_at_every_write_of_recovery_changes_nothing() {
    crash_everywhere(Flow::Recover(Ending::Kill));
    crash_everywhere(Flow::Recover(Ending::PowerCut));
}

// proves: D11, F7, P5
#[test]
fn a_crash_at_every_write_of_adding_ssds_loses_nothing() {
    crash_everywhere(Flow::AddSsds);
}

// proves: D11, F7, P5
#[test]
fn a_crash_at_every_write_of_removing_an_ssd_loses_nothing() {
    crash_everywhere(Flow::RemoveSsd);
}

// proves: D11, F2, F7
#[test]
fn a_crash_at_every_write_of_mirroring_again_loses_nothing() {
    crash_everywhere(Flow::MirrorAgain);
}

// proves: D11, F3, F7
#[test]
fn a_crash_at_every_write_while_a_spare_takes_over_loses_nothing() {
    crash_everywhere(Flow::SpareTakesOver);
}
