//! Two SSDs are lost at once while they hold the only copies of dirty data, and the daemon dies at write 0, 1, 2 … of what
//! follows: whatever is read afterwards is the newest that was flushed, or an error. Never anything older.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use crate::device::SimDevice;
use crate::disk::{Disk, Faults, Refuses, Speed};
use crate::executor::{SimEnv, Simulation};
use crate::model::Ending;
use crate::tests::stage::{at_every_write, hang, run_for_writes};
use futures_util::future::{Either, join_all, select};
use hotset_block::{ByteRange, DeviceErrorKind, Env};
use hotset_cache::config::{
    BlockBytes, Cleaning, FlushRate, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec, WriteMode,
};
use hotset_cache::planted::{Planted, plant};
use hotset_cache::{
    Durability, Error, FenceCause, Health, MemoryCache, Missing, Named, Pool, PoolSpec, Reattached, STATE_BYTES, Volume,
};

const PAGE: u64 = 4096;
pub(super) const PAGES: u64 = 64;
/// Where the state directory has its record of losses (docs/FORMAT.md).
pub(super) const LOSSES_OFFSET: u64 = (384 << 10) + (8 << 20);
/// Of worlds in one of which a batch that was discarded says something else than what was written past the cache later.
const ORPHANED: Range<u64> = 60..160;
const WRITERS: u64 = 16;

/// What a page may hold: the newest that was answered as durable, and what was on its way since.
#[derive(Clone, Copy, Default)]
struct Expected {
    durable: u8,
    begun: u8,
}

#[derive(Clone)]
pub(super) struct Scene {
    simulation: Rc<Simulation>,
    pub(super) ssds: Vec<Rc<Disk>>,
    pub(super) state: Rc<Disk>,
    pub(super) backing: Rc<Disk>,
    memory: MemoryCache,
    pages: Rc<RefCell<Vec<Expected>>>,
    pub(super) pool: Rc<RefCell<Option<Rc<Pool<SimEnv>>>>>,
    volume: Rc<RefCell<Option<Volume<SimEnv>>>>,
}

/// A scene and its end: nothing of it runs, or takes memory, afterwards.
pub(super) struct Stage(Scene);

impl Stage {
    pub(super) fn new(seed: u64, ssds: usize) -> Self {
        Self(Scene::new(seed, ssds))
    }

    /// One in which a row has more pages than are read at a time.
    pub(super) fn with_large_ssds(seed: u64, ssds: usize) -> Self {
        let mut scene = Scene::new(seed, ssds);
        scene.ssds = (0..ssds).map(|index| Disk::plain(&scene.simulation, &format!("ssd{index}"), 128 << 20)).collect();
        Self(scene)
    }

    fn with_slow_state(seed: u64, ssds: usize) -> Self {
        Self(Scene::with_slow_state(seed, ssds))
    }

    fn with_memory(seed: u64, ssds: usize) -> Self {
        Self(Scene { memory: MemoryCache::new(1 << 20), ..Scene::new(seed, ssds) })
    }
}

impl std::ops::Deref for Stage {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.0
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.crash(Ending::Kill);
        }
    }
}

impl Scene {
    fn new(seed: u64, ssds: usize) -> Self {
        let simulation = Simulation::new(seed, false);
        let disk = |name: &str, size_bytes| Disk::plain(&simulation, name, size_bytes);
        Self {
            ssds: (0..ssds).map(|index| disk(&format!("ssd{index}"), 8 << 20)).collect(),
            state: disk("state", STATE_BYTES),
            backing: disk("backing", PAGES * PAGE),
            memory: MemoryCache::new(0),
            pages: Rc::new(RefCell::new(vec![Expected::default(); usize::try_from(PAGES).unwrap()])),
            pool: Rc::default(),
            volume: Rc::default(),
            simulation,
        }
    }

    /// One in which rows take long to open: the state directory is slow.
    fn with_slow_state(seed: u64, ssds: usize) -> Self {
        let scene = Self::new(seed, ssds);
        let speed = Speed { least_us: 20, most_us: 20_000, flush_slowness: 1 };
        Self { state: Disk::plain_of(&scene.simulation, "state", STATE_BYTES, speed), ..scene }
    }

    /// One in which what is looked at on the first SSD takes long.
    fn with_slow_ssd(seed: u64, ssds: usize) -> Self {
        let mut scene = Self::new(seed, ssds);
        let speed = Speed { least_us: 2_000, most_us: 4_000, flush_slowness: 1 };
        scene.ssds[0] = Disk::plain_of(&scene.simulation, "ssd0", 8 << 20, speed);
        scene
    }

    pub(super) fn env(&self) -> SimEnv {
        SimEnv { simulation: Rc::clone(&self.simulation) }
    }

    pub(super) fn run(&self, flow: impl Future<Output = ()> + 'static, writes_max: Option<u64>) -> bool {
        run_for_writes(&self.simulation, flow, writes_max)
    }

    pub(super) fn crash(&self, ending: Ending) {
        self.volume.take();
        self.simulation.drop_tasks();
        if let Some(pool) = self.pool.take() {
            pool.abandon();
        }
        for disk in self.ssds.iter().chain([&self.state, &self.backing]) {
            match ending {
                Ending::Kill => disk.kill(),
                Ending::CutBefore | Ending::PowerCut => disk.cut_power(),
            }
        }
    }

    fn die_and_start_again(&self, seed: u64) {
        self.crash(if seed.is_multiple_of(2) { Ending::Kill } else { Ending::PowerCut });
        self.run(self.clone().start_again(), None);
        self.crash(Ending::Kill);
    }

    fn named(&self) -> Vec<Named<SimDevice>> {
        let there = self.ssds.iter().filter(|disk| !disk.is_gone());
        there.map(|disk| Named { path: disk.name.clone(), device: SimDevice::open(disk) }).collect()
    }

    pub(super) fn volume(&self) -> Volume<SimEnv> {
        self.volume.borrow().clone().unwrap()
    }

    fn open_volume(&self) -> Volume<SimEnv> {
        let settings = VolumeSettings { write_cutoff_bytes: None, ..VolumeSettings::default() };
        let spec = VolumeSpec { name: "disk".parse().unwrap(), backing: "backing".into(), settings };
        let volume = Volume::open_in(self.env(), spec, SimDevice::open(&self.backing), &self.memory).unwrap();
        *self.volume.borrow_mut() = Some(volume.clone());
        volume
    }

    pub(super) async fn create(&self, dirty_age_max_seconds: u32) {
        let mut settings = PoolSettings::preset(PoolKind::ReadWrite, IoType::Custom);
        settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
        settings.cleaning =
            Cleaning { flush_rate: FlushRate::High, dirty_watermark_percent: 90, dirty_age_max_seconds };
        let spec = PoolSpec { name: "tank".parse().unwrap(), kind: PoolKind::ReadWrite, settings };
        let pool = Pool::create(self.env(), spec, self.named(), SimDevice::open(&self.state)).await.unwrap();
        pool.attach(&self.open_volume()).await.unwrap();
        *self.pool.borrow_mut() = Some(Rc::new(pool));
    }

    /// Three versions of every page, all of them durable, over some rows.
    pub(super) async fn prepare(self, dirty_age_max_seconds: u32) {
        self.create(dirty_age_max_seconds).await;
        for round in 0..3 {
            for page in 0..PAGES {
                self.write((page * 5 + round) % PAGES).await.unwrap();
            }
        }
    }

    pub(super) async fn write(&self, page: u64) -> Result<(), Error> {
        let fill = self.write_next(page, Durability::Durable).await?;
        self.pages.borrow_mut()[usize::try_from(page).unwrap()].durable = fill;
        Ok(())
    }

    async fn write_volatile(&self, page: u64) -> Result<(), Error> {
        self.write_next(page, Durability::Volatile).await.map(drop)
    }

    /// Writes what the page never held; answers it.
    async fn write_next(&self, page: u64, durability: Durability) -> Result<u8, Error> {
        let place = usize::try_from(page).unwrap();
        let fill = self.pages.borrow()[place].begun + 1;
        self.pages.borrow_mut()[place].begun = fill;
        let mut buf = self.env().buffers().take(4096);
        buf.fill(fill);
        self.volume().write(page * PAGE, buf, durability).await.map(|()| fill)
    }

    async fn write_all_volatile(&self) {
        for page in 0..PAGES {
            self.write_volatile(page).await.unwrap();
        }
    }

    /// A host flushes: all that was written is durable.
    async fn flush(&self) {
        self.volume().flush().await.unwrap();
        self.pages.borrow_mut().iter_mut().for_each(|expected| expected.durable = expected.begun);
    }

    /// Two SSDs go, and hosts go on.
    async fn lose_two(self) {
        self.ssds[0].vanish();
        self.ssds[1].vanish();
        for turn in 0..24 {
            // One that is on its way just then may fail.
            let _ = self.write(turn * 7 % PAGES).await;
        }
        for _ in 0..20 {
            self.env().sleep(Duration::from_millis(20)).await;
        }
    }

    /// Two SSDs go, one shortly after the other, while many write.
    async fn work_and_lose_two(self, seed: u64, after_us: u64, goes_on_us: u64) {
        let env = self.env();
        let (stop, left) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(WRITERS)));
        // What nobody writes is moved.
        for writer in 0..WRITERS {
            let (scene, stop, left) = (self.clone(), Rc::clone(&stop), Rc::clone(&left));
            env.spawn(async move {
                while !stop.get() {
                    // Not in step, which would make one batch of all.
                    scene.env().sleep(Duration::from_micros(scene.simulation.draw(|random| random.below(2_000)))).await;
                    // One that is on its way just then may fail.
                    let _ = scene.write(writer * 5 % PAGES).await;
                }
                left.set(left.get() - 1);
            });
        }
        env.sleep(Duration::from_micros(after_us)).await;
        if seed.is_multiple_of(2) {
            self.ssds[0].vanish();
            env.sleep(Duration::from_micros(seed * 13 % 120)).await;
            self.ssds[1].vanish();
        } else {
            self.never_get_it().await;
        }
        env.sleep(Duration::from_micros(seed * 1013 % goes_on_us)).await;
        stop.set(true);
        while left.get() > 0 {
            env.sleep(Duration::from_micros(100)).await;
        }
    }

    /// Two SSDs go, and the others take meanwhile what comes after a batch that those never get.
    async fn never_get_it(&self) {
        self.ssds[..2].iter().for_each(|disk| disk.fall_silent());
        self.env().sleep(Duration::from_millis(20)).await;
        self.ssds[..2].iter().for_each(|disk| disk.vanish());
        self.ssds[..2].iter().for_each(|disk| disk.answer_again());
    }

    pub(super) async fn drain(&self) {
        let pool = self.pool.borrow().clone().unwrap();
        // What is lost cannot be drained.
        let _ = pool.drain(&self.volume().name()).await;
    }

    /// All is cleaned, its rows are freed, and hosts write past the cache.
    async fn write_around(self) {
        let volume = self.volume();
        self.drain().await;
        self.env().sleep(Duration::from_secs(1)).await;
        volume.set(VolumeSettings { write_mode: WriteMode::WriteAround, ..volume.settings() }).await.unwrap();
        for page in 0..PAGES {
            self.write(page).await.unwrap();
        }
    }

    pub(super) async fn open(&self) -> Result<(), Error> {
        let state = Some(SimDevice::open(&self.state));
        let pool = Pool::open(self.env(), self.named(), state, Missing::Leave).await?;
        pool.reattach(&self.open_volume()).await.unwrap();
        *self.pool.borrow_mut() = Some(Rc::new(pool));
        Ok(())
    }

    /// Opens the pool. If what is lost is not known it stays closed, until the SSDs are there again.
    pub(super) async fn start_again(self) {
        if let Err(error) = self.open().await {
            assert!(error.to_string().contains("bring back") || error.to_string().contains("Bring back"), "{error}");
            self.ssds.iter().for_each(|disk| disk.come_back());
            self.open().await.unwrap();
        }
        let first = self.read_all().await;
        assert_eq!(first, self.read_all().await, "what was read stays");
        // What is lost can be written again.
        for page in 0..PAGES {
            self.write(page).await.unwrap();
        }
        assert!(self.read_all().await.iter().all(Option::is_some));
    }

    /// The daemon starts without the SSDs that vanished, if it can, and hosts write some of what is unavailable.
    async fn go_on_without(self) {
        if self.open().await.is_ok() {
            self.write_some(5).await;
        }
    }

    async fn write_some(&self, step: u64) {
        for turn in 0..12 {
            let _ = self.write(turn * step % PAGES).await;
        }
    }

    /// All SSDs are there again at a start: so is everything.
    async fn start_with_all(self) {
        self.ssds.iter().for_each(|disk| disk.come_back());
        self.open().await.unwrap();
        self.all_is_there().await;
    }

    async fn all_is_there(&self) {
        let first = self.read_all().await;
        let missing: Vec<usize> = (0..first.len()).filter(|page| first[*page].is_none()).collect();
        assert!(missing.is_empty(), "pages {missing:?} are unavailable though all SSDs are there");
        assert_eq!(first, self.read_all().await, "what was read stays");
        assert_eq!(self.volume().status().lost_bytes, 0);
        self.drain().await;
        assert_eq!(first, self.read_all().await, "cleaned is what was read");
    }

    async fn write_volatile_and_lose_two(self) {
        self.write_all_volatile().await;
        self.lose_two().await;
    }

    /// Hosts' writes go through the log to the backing device, and a flush leaves them in its cache.
    async fn write_through(self) {
        let volume = self.volume();
        volume.set(VolumeSettings { write_mode: WriteMode::WriteThrough, ..volume.settings() }).await.unwrap();
        self.write_all_volatile().await;
        self.flush().await;
    }

    /// The SSDs vanish, or refuse, and nothing else happens for so long.
    async fn lose_all(self, refuses: Option<Refuses>, lasts: Duration) {
        match refuses {
            None => self.ssds.iter().for_each(|disk| disk.vanish()),
            Some(refuses) => self.ssds.iter().for_each(|disk| disk.refuse(Some(refuses))),
        }
        // It is what finds out.
        let (scene, env) = (self.clone(), self.env());
        select(pin!(scene.write_volatile(0)), pin!(env.sleep(lasts))).await;
        env.sleep(lasts).await;
    }

    /// The SSDs that are left answer reads with errors for a while, while what is dirty is to be cleaned.
    async fn fail_reads(self) {
        let failing = Faults { read_errors: 1000, ..Faults::default() };
        self.ssds.iter().for_each(|disk| disk.set_faults(failing));
        self.env().sleep(Duration::from_secs(60)).await;
        self.ssds.iter().for_each(|disk| disk.set_faults(Faults::default()));
        assert_eq!(self.volume().status().lost_bytes, 0);
        // What is asked again is asked a second later.
        self.env().sleep(Duration::from_secs(3)).await;
        assert!(self.read_all().await.iter().all(Option::is_some), "an SSD with a copy is there");
        self.drain().await;
        assert_eq!(self.volume().status().dirty_bytes, 0);
    }

    /// The flush of a durable write fails on all SSDs, which takes along what was written before it; the next flush would go well. The
    /// backing device hangs meanwhile.
    async fn fail_durable_write(self) {
        self.write_all_volatile().await;
        hang(&self.backing);
        let failing = Faults { flush_errors: 1000, ..Faults::default() };
        self.ssds.iter().for_each(|disk| disk.set_faults(failing));
        let answered: Vec<Expected> = self.pages.borrow().clone();
        let (scene, env) = (self.clone(), self.env());
        env.spawn(async move { drop(scene.write(0).await) });
        while self.ssds.iter().any(|disk| disk.failed_operations() == 0) {
            env.sleep(Duration::from_micros(10)).await;
        }
        self.ssds.iter().for_each(|disk| disk.set_faults(Faults::default()));
        // Whatever it answers is true, and it need not answer.
        let volume = self.volume();
        let is_flushed = match select(pin!(volume.flush()), pin!(env.sleep(Duration::from_secs(5)))).await {
            Either::Left((flushed, _)) => flushed.is_ok(),
            Either::Right(_) => false,
        };
        if is_flushed {
            let mut pages = self.pages.borrow_mut();
            pages.iter_mut().zip(answered).for_each(|(page, answered)| page.durable = page.durable.max(answered.begun));
        }
    }

    /// The backing device fails to flush what is cleaned: all of that is on the SSDs still.
    async fn fail_cleaning(self) {
        self.backing.set_faults(Faults { flush_errors: 1000, ..Faults::default() });
        self.drain().await;
        self.write_all_volatile().await;
        self.flush().await;
    }

    /// No SSD takes writes any more, and some take no flushes; hosts go on, and notice nothing.
    async fn refuse(self, flushes: bool, lands: bool) {
        let refuses = Refuses { error: DeviceErrorKind::ReadOnly, flushes, lands };
        self.ssds.iter().for_each(|disk| disk.refuse(Some(refuses)));
        // Of each page first what is accepted as lost, then something newer.
        for _ in 0..2 {
            join_all((0..12).map(|turn| self.write(turn * 7 % PAGES))).await.into_iter().for_each(Result::unwrap);
        }
        for _ in 0..20 {
            self.env().sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(self.volume().status().lost_bytes, 0);
        assert!(self.read_all().await.iter().all(Option::is_some));
    }

    /// Hosts write what nobody flushed yet; then SSDs refuse to, and what a host flushes is durable all the same.
    async fn refuse_to_flush(self) {
        self.write_all_volatile().await;
        let refuses = Refuses { error: DeviceErrorKind::Media, flushes: true, lands: false };
        self.ssds.iter().for_each(|disk| disk.refuse(Some(refuses)));
        self.flush().await;
    }

    /// The SSDs take writes again, at a start or by themselves.
    async fn all_take_writes_again(self) {
        let pool = self.pool.borrow().clone().unwrap();
        self.ssds.iter().for_each(|disk| disk.refuse(None));
        for turn in 0..100 {
            self.write(turn * 11 % PAGES).await.unwrap();
            self.env().sleep(Duration::from_millis(200)).await;
        }
        let status = pool.status();
        assert!(status.ssds.iter().all(|ssd| ssd.online), "{status:?}");
        assert_eq!(status.health, Health::Good, "{:?}", status.reason);
        self.all_is_there().await;
    }

    /// The SSDs come back in the running daemon, one after the other, while hosts write.
    async fn bring_back(self) {
        let pool = self.pool.borrow().clone().unwrap();
        let busy = self.clone();
        self.env().spawn(async move { busy.write_some(11).await });
        for (uuid, path) in pool.ssds_returning() {
            let disk = self.ssds.iter().find(|disk| disk.name == path).unwrap();
            disk.come_back();
            let named = Named { path, device: SimDevice::open(disk) };
            pool.bring_back(named).await.unwrap_or_else(|error| panic!("{uuid:x}: {error}"));
            assert!(pool.ssds_returning().iter().all(|(other, _)| *other != uuid));
            self.write_some(13).await;
        }
    }

    /// The first SSD does not answer until it has left.
    async fn fall_silent(self) {
        let pool = self.pool.borrow().clone().unwrap();
        self.ssds[0].fall_silent();
        self.write(0).await.unwrap();
        while pool.ssds_returning().is_empty() {
            self.env().sleep(Duration::from_millis(1)).await;
        }
        self.ssds[0].answer_again();
    }

    /// It is on its way back for so long, and hosts write.
    async fn begin_return(self, for_us: u64) {
        let pool = self.pool.borrow().clone().unwrap();
        let (env, back, busy) = (self.env(), self.clone(), self.clone());
        env.spawn(async move {
            let named = || Named { path: "ssd0".into(), device: SimDevice::open(&back.ssds[0]) };
            // Not before what is written just now is sealed.
            while pool.bring_back(named()).await.is_err() && !pool.ssds_returning().is_empty() {
                back.env().sleep(Duration::from_millis(1)).await;
            }
        });
        env.spawn(async move {
            for turn in 0..1000 {
                // One that is on its way when an SSD goes may fail.
                let _ = busy.write(turn * 7 % PAGES).await;
            }
        });
        env.sleep(Duration::from_micros(for_us)).await;
    }

    /// Opens the pool where nobody knows any more what was lost, and accepts that.
    pub(super) async fn start_without_record(self) {
        let state = Some(SimDevice::open(&self.state));
        let pool = Pool::open(self.env(), self.named(), state, Missing::Leave).await.unwrap();
        let volume = self.open_volume();
        let found = pool.reattach(&volume).await.unwrap();
        assert!(matches!(found, Reattached::Fenced { cause: FenceCause::UnknownLoss, .. }), "{found:?}");
        pool.accept_loss().await.unwrap();
        let found = pool.reattach(&volume).await.unwrap();
        assert!(matches!(found, Reattached::Warm { .. }), "{found:?}");
        *self.pool.borrow_mut() = Some(Rc::new(pool));
        for page in 0..PAGES {
            self.write(page).await.unwrap();
        }
        assert!(self.read_all().await.iter().all(Option::is_some));
    }

    /// What each page holds, sector by sector, for a write that was on its way may be torn; `None`: it is lost.
    /// Of a page that nobody writes after the loss.
    async fn lose_what_was_read(self) {
        let page = ByteRange::at(PAGE, PAGE);
        for _ in 0..3 {
            self.read_all().await;
        }
        assert!(self.memory.status().used_bytes >= PAGE * PAGES, "it is in memory");
        self.clone().lose_two().await;
        assert!(self.volume().read(page).await.is_err(), "of what is unavailable nothing is shown");
        let pool = self.pool.borrow().clone().unwrap();
        pool.accept_loss().await.unwrap();
        let mut on_backing = [0];
        self.backing.peek(PAGE, &mut on_backing);
        assert_eq!(self.volume().read(page).await.unwrap()[0], on_backing[0], "its loss is a fact");
    }

    pub(super) async fn read_all(&self) -> Vec<Option<Vec<u8>>> {
        let mut found = Vec::new();
        for page in 0..PAGES {
            let read = self.volume().read(ByteRange::at(page * PAGE, PAGE)).await;
            let expected = self.pages.borrow()[usize::try_from(page).unwrap()];
            found.push(read.ok().map(|bytes| {
                let held = |sector: &[u8]| {
                    assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector of page {page} is torn");
                    assert!(
                        (expected.durable..=expected.begun).contains(&sector[0]),
                        "page {page} holds {}, and {} was durable",
                        sector[0],
                        expected.durable
                    );
                    sector[0]
                };
                bytes.chunks_exact(512).map(held).collect()
            }));
        }
        found
    }
}

/// Dies at this write of what follows the loss; false if that ended before.
fn crash_at(ssds: usize, crash_at: u64, ending: Ending) -> bool {
    let scene = Stage::new(crash_at % 7, ssds);
    scene.run(scene.clone().prepare(600), None);
    if scene.run(scene.clone().lose_two(), Some(crash_at)) {
        return false;
    }
    scene.crash(ending);
    scene.run(scene.clone().start_again(), None);
    true
}

fn crash_everywhere(ssds: usize) {
    at_every_write(&format!("{ssds} SSDs"), |write, ending| crash_at(ssds, write, ending));
}

// proves: F5, F7
#[test]
fn a_crash_at_every_write_after_the_loss_of_all_ssds_never_shows_anything_older() {
    crash_everywhere(2);
}

// proves: F5, F7
#[test]
fn a_crash_at_every_write_after_the_loss_of_two_of_three_ssds_never_shows_anything_older() {
    crash_everywhere(3);
}

// proves: F5, F7
#[test]
fn a_crash_at_every_write_after_the_loss_of_two_of_four_ssds_never_shows_anything_older() {
    crash_everywhere(4);
}

/// Dies at this write of what follows the loss, goes on without the SSDs and dies again, and then they are there.
fn die_and_return(ssds: usize, crash_at: u64, ending: Ending) -> bool {
    let scene = Stage::new(crash_at % 7, ssds);
    scene.run(scene.clone().prepare(600), None);
    if scene.run(scene.clone().lose_two(), Some(crash_at)) {
        return false;
    }
    scene.crash(ending);
    if !crash_at.is_multiple_of(3) {
        scene.run(scene.clone().go_on_without(), Some(crash_at % 50));
        scene.crash(Ending::PowerCut);
    }
    scene.run(scene.clone().start_with_all(), None);
    scene.crash(ending);
    scene.run(scene.clone().start_with_all(), None);
    true
}

/// The SSDs come back in the running daemon, which dies at this write of that.
fn return_and_die(ssds: usize, crash_at: u64, ending: Ending) -> bool {
    let scene = Stage::new(crash_at % 7, ssds);
    scene.run(scene.clone().prepare(600), None);
    scene.run(scene.clone().lose_two(), None);
    let ended = scene.run(scene.clone().bring_back(), Some(crash_at));
    if ended {
        let all = scene.clone();
        scene.run(async move { all.all_is_there().await }, None);
    }
    scene.crash(ending);
    scene.run(scene.clone().start_with_all(), None);
    !ended
}

fn everywhere(scenario: fn(usize, u64, Ending) -> bool, ssds: usize, stride: usize) {
    for ending in [Ending::Kill, Ending::PowerCut] {
        let writes = (0..).step_by(stride).take_while(|write| {
            let caught = std::panic::catch_unwind(|| scenario(ssds, *write, ending));
            caught.unwrap_or_else(|_| panic!("{ssds} SSDs: {ending:?} at write {write}"))
        });
        println!("{ssds} SSDs: {ending:?} at {} writes", writes.count());
    }
}

// proves: F5, F7, F9
#[test]
fn whenever_the_daemon_dies_everything_is_there_when_the_ssds_are_there_again() {
    [2, 3, 4].into_iter().for_each(|ssds| everywhere(die_and_return, ssds, 1));
}

// proves: F5, F7, F9
#[test]
fn whenever_the_daemon_dies_while_ssds_come_back_everything_is_there_afterwards() {
    [2, 3, 4].into_iter().for_each(|ssds| everywhere(return_and_die, ssds, 1));
}

/// The SSDs take no writes, or say so, and the daemon dies at this write of what follows.
fn refuse_and_die(ssds: usize, crash_at: u64, ending: Ending) -> bool {
    [false, true].into_iter().all(|lands| refuse_and_die_where(lands, ssds, crash_at, ending))
}

fn refuse_and_die_where(lands: bool, ssds: usize, crash_at: u64, ending: Ending) -> bool {
    let scene = Stage::new(crash_at % 7, ssds);
    scene.run(scene.clone().prepare(600), None);
    if scene.run(scene.clone().refuse(false, lands), Some(crash_at)) {
        return false;
    }
    scene.crash(ending);
    // The next daemon finds them as they are, or well.
    if crash_at.is_multiple_of(2) {
        scene.ssds.iter().for_each(|disk| disk.refuse(None));
    }
    scene.run(scene.clone().start_with_all(), None);
    scene.crash(ending);
    scene.ssds.iter().for_each(|disk| disk.refuse(None));
    scene.run(scene.clone().start_with_all(), None);
    true
}

// proves: F5, F7
#[test]
fn whenever_the_daemon_dies_while_no_ssd_takes_writes_everything_is_there() {
    [2, 3, 4].into_iter().for_each(|ssds| everywhere(refuse_and_die, ssds, 1));
}

// proves: F5, F9
#[test]
fn ssds_that_take_writes_again_are_in_use_again_by_themselves() {
    for ssds in [2, 3, 4] {
        let scene = Stage::new(5, ssds);
        scene.run(scene.clone().prepare(600), None);
        scene.run(scene.clone().refuse(false, ssds == 3), None);
        scene.run(scene.clone().all_take_writes_again(), None);
        scene.crash(Ending::PowerCut);
        scene.run(scene.clone().start_with_all(), None);
    }
}

fn flush_what_is_refused() {
    for seed in 0..60 {
        let scene = Stage::new(seed, 2 + usize::try_from(seed % 3).unwrap());
        scene.run(scene.clone().prepare(600), None);
        scene.run(scene.clone().refuse_to_flush(), None);
        scene.crash(Ending::PowerCut);
        scene.ssds.iter().for_each(|disk| disk.refuse(None));
        scene.run(scene.clone().start_with_all(), None);
    }
}

// proves: F5, F7
#[test]
fn what_a_host_flushes_is_durable_although_the_ssds_refuse_to_flush_it() {
    flush_what_is_refused();
}

/// SSDs lose what nobody flushed when they vanish: that does not come back as something else.
fn lose_what_was_not_flushed() {
    for seed in 0..60 {
        let scene = Stage::new(seed, 2 + usize::try_from(seed % 3).unwrap());
        scene.run(scene.clone().prepare(600), None);
        scene.run(scene.clone().write_volatile_and_lose_two(), None);
        scene.run(scene.clone().bring_back(), None);
        let again = scene.clone();
        scene.run(async move { drop(again.read_all().await) }, None);
        scene.crash(Ending::Kill);
        scene.run(scene.clone().start_again(), None);
    }
}

// proves: F5, F9
#[test]
fn what_an_ssd_lost_when_it_went_does_not_come_back_as_something_else() {
    lose_what_was_not_flushed();
}

// proves: F5, F7
#[test]
fn what_was_written_through_and_flushed_is_no_older_after_the_ssds_and_the_power_went() {
    let full = Refuses { error: DeviceErrorKind::Full, flushes: false, lands: false };
    for (step, refuses) in (0..200).flat_map(|step| [(step, None), (step, Some(full))]) {
        let scene = Stage::new(step % 7, 2);
        scene.backing.forgetful.set(true);
        scene.run(scene.clone().prepare(600), None);
        scene.run(scene.clone().write_through(), None);
        scene.run(scene.clone().lose_all(refuses, Duration::from_micros(step * 100)), None);
        scene.crash(Ending::PowerCut);
        scene.ssds.iter().for_each(|disk| disk.refuse(None));
        scene.run(scene.clone().start_again(), None);
    }
}

// proves: F5, F9
#[test]
fn reads_that_fail_for_a_while_lose_nothing() {
    for (seed, is_degraded) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let scene = Stage::new(seed, 2);
        scene.run(scene.clone().prepare(1), None);
        if is_degraded {
            scene.ssds[1].vanish();
        }
        scene.run(scene.clone().fail_reads(), None);
        scene.crash(Ending::PowerCut);
        scene.run(scene.clone().start_again(), None);
    }
}

// proves: F5, F7
#[test]
fn a_flush_after_a_durable_write_that_failed_promises_no_more_than_is_there() {
    for seed in 0..60 {
        let scene = Stage::new(seed, 2);
        scene.ssds.iter().for_each(|disk| disk.forgetful.set(true));
        scene.run(scene.clone().prepare(600), None);
        scene.run(scene.clone().fail_durable_write(), None);
        scene.crash(Ending::PowerCut);
        scene.backing.set_faults(Faults::default());
        // What is nowhere any more may be unavailable, and nothing is older.
        scene.run(scene.clone().start_again(), None);
    }
}

// proves: F6
#[test]
fn a_host_may_flush_although_the_backing_device_cannot() {
    for seed in 0..20 {
        let scene = Stage::new(seed, 2);
        scene.run(scene.clone().prepare(600), None);
        scene.run(scene.clone().fail_cleaning(), None);
        scene.crash(Ending::PowerCut);
        scene.backing.set_faults(Faults::default());
        scene.run(scene.clone().start_with_all(), None);
    }
}

/// Two SSDs go while many batches are on their way, and the daemon dies later.
fn lose_two_at_work(ssds: usize, seed: u64) {
    let scene = Stage::with_slow_state(seed, ssds);
    scene.run(scene.clone().prepare(600), None);
    scene.run(scene.clone().work_and_lose_two(seed, 300_000 + seed * 12_379 % 700_000, 200_000), None);
    scene.die_and_start_again(seed);
}

/// Two SSDs are lost, and what was on its way to the head of the log is cleaned, its rows are freed, and hosts write past the cache.
fn lose_two_and_write_around() {
    ORPHANED.for_each(write_around_after_loss);
}

fn write_around_after_loss(seed: u64) {
    let scene = Stage::with_slow_state(seed, 4);
    // What is that old is cleaned, and a part of it is on its way by then.
    scene.run(scene.clone().prepare(1), None);
    scene.run(scene.clone().work_and_lose_two(seed, 200_000 + seed * 12_379 % 1_000_000, 500), None);
    scene.run(scene.clone().write_around(), None);
    scene.die_and_start_again(seed);
}

// proves: F5, F7
#[test]
fn batches_that_were_discarded_break_no_chain() {
    for ssds in [3, 4, 5] {
        (0..100).for_each(|seed| lose_two_at_work(ssds, seed));
    }
}

// proves: F5, F7
#[test]
fn batches_that_were_discarded_do_not_come_back() {
    lose_two_and_write_around();
}

impl Scene {
    /// What is dirty was read and is on its way to a backing device that takes its time, when the SSDs go that alone have it. It is there
    /// when the pages are unavailable, and what is written elsewhere takes hints along. Answers the pages that are unavailable.
    async fn lose_what_is_being_cleaned(&self) -> Vec<u64> {
        let env = self.env();
        hang(&self.backing);
        let draining = self.clone();
        env.spawn(async move { draining.drain().await });
        while !self.backing.in_flight().contains("write") {
            env.sleep(Duration::from_micros(100)).await;
        }
        env.sleep(Duration::from_millis(20)).await;
        self.ssds[..2].iter().for_each(|disk| disk.vanish());
        while self.volume().status().lost_bytes == 0 {
            self.read_in_turn(0..PAGES).await;
        }
        // While the volume is drained these wait until they are on the backing device.
        for page in 0..PAGES {
            if self.volume().read(ByteRange::at(page * PAGE, PAGE)).await.is_ok() {
                env.spawn(self.clone().write_each(vec![page]));
            }
        }
        env.sleep(Duration::from_millis(20)).await;
        self.backing.answer_all();
        env.sleep(Duration::from_millis(100)).await;
        let mut unavailable = Vec::new();
        for page in 0..PAGES {
            match self.volume().read(ByteRange::at(page * PAGE, PAGE)).await {
                Ok(_) => self.write_volatile(page).await.unwrap(),
                Err(_) => unavailable.push(page),
            }
        }
        assert!(!unavailable.is_empty());
        env.sleep(Duration::from_millis(100)).await;
        unavailable
    }

    /// Finds out which SSDs are gone. Who waits for an answer is not waited for.
    async fn read_in_turn(&self, pages: Range<u64>) {
        for page in pages {
            let volume = self.volume();
            let read = volume.read(ByteRange::at(page * PAGE, PAGE));
            select(pin!(read), pin!(self.env().sleep(Duration::from_millis(5)))).await;
        }
    }

    /// Hosts write these pages, one after the other, whatever becomes of it.
    async fn write_each(self, pages: Vec<u64>) {
        for page in pages {
            let _ = self.write_volatile(page).await;
        }
    }

    /// Newer pages are on their way to a slow SSD, when those go that alone have the pages as they were before in the same row.
    /// Answers whether the hosts were told after the loss that they are written.
    async fn lose_beside_newer(&self, pages: Range<u64>, gone: [usize; 2], slow: usize) -> bool {
        let env = self.env();
        for page in pages.clone().chain(0..self.simulation.draw(|random| random.below(5))) {
            self.write(page).await.unwrap();
        }
        self.ssds[slow].set_faults(Faults { late: 1000, late_ms: &[3_000], ..Faults::default() });
        let (answered, writer, written) = (Rc::new(Cell::new(false)), self.clone(), pages.clone());
        let told = Rc::clone(&answered);
        env.spawn(async move {
            let all = join_all(written.map(|page| writer.write_volatile(page))).await;
            told.set(all.iter().all(Result::is_ok));
        });
        env.sleep(Duration::from_millis(1)).await;
        self.ssds[slow].set_faults(Faults::default());
        gone.iter().for_each(|index| self.ssds[*index].vanish());
        for _ in 0..8 {
            self.read_in_turn(pages.end..PAGES).await;
        }
        let is_beside = self.volume().status().lost_bytes > 0 && !answered.get();
        env.sleep(Duration::from_secs(10)).await;
        is_beside && answered.get()
    }

    /// A kill loses nothing that was answered.
    fn expect_what_was_answered(&self, pages: Range<u64>) {
        let mut expected = self.pages.borrow_mut();
        for page in pages {
            let page = &mut expected[usize::try_from(page).unwrap()];
            page.durable = page.begun;
        }
    }
}

fn clean_what_is_lost() {
    for crash_at in 0..40 {
        let scene = Stage::new(crash_at % 7, 3);
        scene.run(scene.clone().prepare(600), None);
        let (losing, unavailable) = (scene.clone(), Rc::new(RefCell::new(Vec::new())));
        let found = Rc::clone(&unavailable);
        scene.run(async move { *found.borrow_mut() = losing.lose_what_is_being_cleaned().await }, None);
        let ended = scene.run(scene.clone().write_each(unavailable.take()), Some(crash_at));
        scene.crash(Ending::Kill);
        scene.run(scene.clone().start_with_all(), None);
        if ended {
            break;
        }
    }
}

// proves: F5, F7
#[test]
fn what_was_cleaned_while_its_ssds_went_is_not_older_than_what_a_host_wrote_then() {
    clean_what_is_lost();
}

/// What was answered of a row is there after a kill, although pages of that row were set aside before; if all SSDs are there again or
/// only those that were left.
fn lose_beside_newer(gone: [usize; 2], slow: usize, seed: u64, with_all: bool) -> bool {
    let (scene, pages) = (Stage::new(seed, 4), 0..4);
    scene.run(scene.clone().prepare(600), None);
    let (losing, answered) = (scene.clone(), Rc::new(Cell::new(false)));
    let (of_losing, told) = (pages.clone(), Rc::clone(&answered));
    scene.run(async move { told.set(losing.lose_beside_newer(of_losing, gone, slow).await) }, None);
    scene.crash(Ending::Kill);
    if !answered.get() {
        return false;
    }
    scene.expect_what_was_answered(pages);
    let again = scene.clone();
    let starts = async move {
        if with_all {
            return again.start_with_all().await;
        }
        again.open().await.unwrap();
        again.read_all().await;
    };
    scene.run(starts, None);
    true
}

fn lose_everywhere_beside_newer() {
    let mut beside = 0;
    for (gone, slow) in [([0, 1], 2), ([0, 2], 1), ([0, 3], 1), ([1, 2], 0), ([1, 3], 0), ([2, 3], 0)] {
        for (seed, with_all) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
            beside += u32::from(lose_beside_newer(gone, slow, seed, with_all));
        }
    }
    assert!(beside > 0, "nothing was on its way when the SSDs went");
}

// proves: F5, F7
#[test]
fn what_is_answered_is_newer_than_what_is_listed_of_its_row() {
    lose_everywhere_beside_newer();
}

/// An SSD comes back, another one goes after so long, and the daemon dies at this write of what follows.
fn lose_one_while_another_returns(after_us: u64, crash_at: u64) {
    let scene = Stage(Scene::with_slow_ssd(crash_at % 7, 3));
    scene.run(scene.clone().prepare(600), None);
    scene.run(scene.clone().fall_silent(), None);
    scene.run(scene.clone().begin_return(after_us), None);
    scene.ssds[1].vanish();
    let env = scene.env();
    scene.run(async move { env.sleep(Duration::from_secs(1)).await }, Some(crash_at));
    scene.crash(Ending::Kill);
    scene.ssds.iter().for_each(|disk| disk.come_back());
    let all = scene.clone();
    let opens = async move {
        all.open().await.unwrap();
        assert!(all.read_all().await.iter().all(Option::is_some));
    };
    scene.run(opens, None);
}

// proves: F5, F7, F9
#[test]
fn whenever_the_daemon_dies_after_an_ssd_went_while_another_one_came_back_everything_is_there() {
    for after_us in (0..120_000).step_by(3_000) {
        for crash_at in (0..40).step_by(2) {
            lose_one_while_another_returns(after_us, crash_at);
        }
    }
}

/// All SSDs are lost, and then the record of what was lost with them.
fn lose_the_record() {
    let scene = Stage::new(3, 2);
    scene.run(scene.clone().prepare(600), None);
    scene.run(scene.clone().lose_two(), None);
    assert!(scene.volume().status().lost_bytes > 0);
    scene.crash(Ending::Kill);
    let length = usize::try_from(STATE_BYTES - LOSSES_OFFSET).unwrap();
    scene.state.overwrite(LOSSES_OFFSET, &vec![0; length]);
    scene.run(scene.clone().start_without_record(), None);
}

// proves: F5
#[test]
fn where_the_record_of_losses_is_lost_nothing_older_is_shown_before_that_is_accepted() {
    lose_the_record();
}

fn lose_what_is_in_memory() {
    let scene = Stage::with_memory(3, 2);
    scene.run(scene.clone().prepare(600), None);
    scene.run(scene.clone().lose_what_was_read(), None);
}

// proves: F5, M2
#[test]
fn what_is_lost_is_not_shown_from_memory() {
    lose_what_is_in_memory();
}

#[test]
fn bugs_that_are_planted_into_a_second_loss_are_found() {
    let crashes: fn() = || crash_everywhere(2);
    let returns: fn() = || everywhere(die_and_return, 2, 1);
    for (bug, scenario) in [
        (Planted::LossForgotten, crashes),
        (Planted::WithLossForgotten, lose_the_record),
        (Planted::OffListTooEarly, returns),
        (Planted::OffListTooLate, returns),
        (Planted::ReturnedWhole, returns),
        (Planted::ReturnNotCompared, lose_what_was_not_flushed),
        (Planted::RefusedFlushBelieved, flush_what_is_refused),
        (Planted::MemoryKeepsLost, lose_what_is_in_memory),
        (Planted::UncleanHinted, clean_what_is_lost),
        (Planted::ListedTakesEffect, lose_everywhere_beside_newer),
    ] {
        plant(Some(bug));
        let found = std::panic::catch_unwind(scenario).is_err();
        plant(None);
        assert!(found, "{bug:?} was not found");
    }
}
