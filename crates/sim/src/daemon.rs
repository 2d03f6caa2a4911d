//! One life of the daemon: finds the pool on the SSDs, opens the volumes, serves hosts, stops.
//!
//! It does with the engine what the real daemon does, and judges every answer that an administrator gets.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{ByteRange, Env};
use hotset_cache::config::{BlockBytes, PoolSettings};
use hotset_cache::{
    Closed, DirtyData, Error, ErrorKind, MemoryCache, Missing, Named, Pool, PoolSpec, Reattached, Volume,
};

use crate::device::SimDevice;
use crate::executor::SimEnv;
use crate::world::{Attachment, HostVolume, PoolKnown, World};

/// What the memory cache of a life may take: a few pages, some hundred, or none, so that slots are read.
const MEMORY_BYTES: [u64; 4] = [0, 40 << 10, 160 << 10, 2 << 20];

/// See the file's summary. A handle: cloning it is cheap.
#[derive(Clone)]
pub struct Daemon {
    pub world: Rc<World>,
    pub env: SimEnv,
    pool: Rc<RefCell<Option<Pool<SimEnv>>>>,
    volumes: Rc<RefCell<Vec<Option<Volume<SimEnv>>>>>,
    /// Small, so that pages come and go.
    pub memory: MemoryCache,
    /// Hosts are to finish.
    pub stopping: Rc<Cell<bool>>,
    /// The pool is being closed: requests may be refused.
    pub closing: Rc<Cell<bool>>,
    /// It has stopped, well or not, and has no SSD in use.
    pub closed: Rc<Cell<bool>>,
    pub hosts_running: Rc<Cell<u64>>,
    /// The daemon has ended by itself.
    pub finished: Rc<Cell<bool>>,
    /// It stopped cleanly.
    pub clean: Rc<Cell<bool>>,
    /// Bytes that reattached volumes found in the cache.
    pub warm_bytes: Rc<Cell<u64>>,
}

impl Daemon {
    pub fn new(world: &Rc<World>) -> Self {
        Self {
            world: Rc::clone(world),
            env: SimEnv { simulation: Rc::clone(&world.simulation) },
            pool: Rc::default(),
            volumes: Rc::new(RefCell::new(vec![None; world.volumes.len()])),
            memory: MemoryCache::new(world.simulation.draw(|random| random.pick(&MEMORY_BYTES))),
            stopping: Rc::default(),
            closing: Rc::default(),
            closed: Rc::default(),
            hosts_running: Rc::default(),
            finished: Rc::default(),
            clean: Rc::default(),
            warm_bytes: Rc::default(),
        }
    }

    pub fn pool(&self) -> Option<Pool<SimEnv>> {
        self.pool.borrow().clone()
    }

    /// The volume, if it is served.
    pub fn volume(&self, number: usize) -> Option<Volume<SimEnv>> {
        self.volumes.borrow()[number].clone()
    }

    // ---- start

    /// Opens or makes the pool, then every volume.
    pub async fn start(&self) {
        self.world.set_phase("opening the pool");
        self.open_pool().await;
        for number in 0..self.world.volumes.len() {
            self.world.set_phase(&format!("opening volume {number}"));
            self.open_volume(number).await;
        }
    }

    async fn open_pool(&self) {
        if self.world.pool.get() != PoolKnown::No {
            match self.find_pool().await {
                Ok(pool) => return self.found(pool),
                Err(error) if self.world.writes_back() && !self.is_deleted() => return self.refused(&error),
                Err(error) if self.world.pool.get() == PoolKnown::Yes && !self.world.blind.get() => {
                    return self.world.violate(format!("the pool does not open: {error}"));
                }
                Err(error) => self.world.simulation.note(|| format!("there is no pool: {error}")),
            }
        }
        self.create_pool().await;
    }

    /// The deletion of the pool got so far that every volume had left it before; or none ever came to it.
    fn is_deleted(&self) -> bool {
        if self.world.pool.get() == PoolKnown::Unmade {
            return true;
        }
        // What is damaged is not blank.
        let told = self.world.present_ssds().filter(|ssd| !self.world.may_suffer(ssd) || ssd.is_blank());
        self.world.pool.get() == PoolKnown::Unsure && told.into_iter().any(|ssd| !self.world.carries_pool(ssd))
    }

    /// Its volumes may have dirty data there: nothing is served of them.
    fn refused(&self, error: &Error) {
        self.world.simulation.note(|| format!("the pool is not opened: {error}"));
        let whole = self.world.ssds.iter().all(|ssd| ssd.present.get() && !ssd.disk.is_gone());
        let excused = self.world.ssds_suffered.get() || self.world.state_is_blank.get() || !whole;
        if self.world.calm.get() || !excused {
            self.world.violate(format!("the pool does not open: {error}"));
        }
    }

    fn found(&self, pool: Pool<SimEnv>) {
        for ssd in self.world.ssds.iter().filter(|ssd| !ssd.present.get()) {
            ssd.missed.set(true);
        }
        self.world.pool.set(PoolKnown::Yes);
        self.world.state_is_blank.set(false);
        self.world.settings.set(pool.status().settings);
        self.world.simulation.note(|| format!("pool open: {:?}", pool.status()));
        *self.pool.borrow_mut() = Some(pool);
    }

    async fn find_pool(&self) -> Result<Pool<SimEnv>, Error> {
        let ours: Vec<_> =
            self.world.present_ssds().filter(|ssd| self.world.carries_pool(ssd)).map(|ssd| &ssd.disk).collect();
        let named =
            || ours.iter().map(|disk| Named { path: disk.name.clone(), device: SimDevice::open(disk) }).collect();
        let state = || Some(SimDevice::open(&self.world.state.borrow()));
        match Pool::open(self.env.clone(), named(), state(), Missing::Refuse).await {
            Ok(pool) => Ok(pool),
            Err(error) => {
                self.world.simulation.note(|| format!("refused: {error}"));
                self.world.ssds_suffered.set(true);
                Pool::open(self.env.clone(), named(), state(), Missing::Leave).await
            }
        }
    }

    async fn create_pool(&self) {
        self.world.pool_number.set(self.world.pool_number.get() + 1);
        let mut settings = self.world.settings.get();
        settings.checksums = self.world.shape.settings.checksums;
        let name = self.world.pool_name().parse().expect("it follows the rule");
        let spec = PoolSpec { name, kind: self.world.shape.kind, settings };
        let first = self.world.present_ssds().take(self.world.shape.ssds_at_first);
        let ssds: Vec<_> = first.map(|ssd| Rc::clone(&ssd.disk)).collect();
        if ssds.len() < if self.world.writes_back() { 2 } else { 1 } {
            self.world.pool.set(PoolKnown::No);
            return;
        }
        self.world.present_ssds().for_each(|ssd| ssd.missed.set(false));
        self.world.pool.set(PoolKnown::Unmade);
        for volume in &self.world.volumes {
            // A volume of a pool that is gone for good is nobody's.
            volume.attachment.set(Attachment::Detached);
        }
        self.world.lose_state();
        let named = ssds.iter().map(|disk| Named { path: disk.name.clone(), device: SimDevice::open(disk) }).collect();
        let state = SimDevice::open(&self.world.state.borrow());
        match Pool::create(self.env.clone(), spec, named, state).await {
            Ok(pool) => {
                self.world.pool.set(PoolKnown::Yes);
                self.world.state_is_blank.set(false);
                *self.pool.borrow_mut() = Some(pool);
            }
            Err(error) => self.expect_cache_trouble("creating the pool", &error),
        }
    }

    async fn open_volume(&self, number: usize) {
        let host = Rc::clone(&self.world.volumes[number]);
        let pool = self.pool();
        let known = self.adopt_spec(&host, pool.as_ref());
        let device = SimDevice::open(&host.disk);
        let spec = host.spec.borrow().clone();
        let volume = match Volume::open_in(self.env.clone(), spec, device, &self.memory) {
            Ok(volume) => volume,
            Err(error) => return self.world.violate(format!("volume {number} does not open: {error}")),
        };
        if pool.is_none() && self.world.may_hold_dirty_data(&host) {
            return;
        }
        self.check_catalogue(&host, pool.is_some(), known);
        let served = match pool.filter(|_| known) {
            Some(pool) => self.open_and_attach(&pool, &host, &volume).await,
            None => {
                host.attachment.set(Attachment::Detached);
                host.accept_replacement();
                if host.discarded.replace(false) {
                    host.adopt_backing();
                }
                true
            }
        };
        if served {
            self.volumes.borrow_mut()[number] = Some(volume);
        }
    }

    /// Whether the pool knows the volume; it is what the pool says.
    fn adopt_spec(&self, host: &HostVolume, pool: Option<&Pool<SimEnv>>) -> bool {
        let Some(pool) = pool else { return false };
        let recorded = host.recorded_in(pool);
        if let Some(recorded) = recorded.as_ref().filter(|_| host.attachment.get() == Attachment::Attached) {
            self.world.report(host.check_spec(recorded));
        }
        let known = recorded.is_some();
        host.adopt_spec(recorded);
        known
    }

    fn check_catalogue(&self, host: &HostVolume, pool_is_open: bool, known: bool) {
        if self.world.blind.get() {
            return;
        }
        match (host.attachment.get(), known) {
            (Attachment::Attached, false) if pool_is_open => {
                self.world.violate(format!("{} was attached, and the pool does not know it", host.name()));
            }
            (Attachment::Detached, true) => {
                self.world.violate(format!("{} was detached, and the pool still knows it", host.name()));
            }
            (Attachment::Attached | Attachment::Detached | Attachment::Unsure, true | false) => {}
        }
    }

    /// Puts the cache in front of a volume that the catalogue names, or takes it out of the catalogue. Whether the volume
    /// may be served.
    async fn open_and_attach(&self, pool: &Pool<SimEnv>, host: &HostVolume, volume: &Volume<SimEnv>) -> bool {
        let meddles = self.world.shape.troubles.administrators && !self.world.calm.get();
        if meddles && self.world.simulation.draw(|random| random.one_in(20)) {
            return match self.world.writes_back() {
                false => self.detach(pool, host).await,
                true => self.discard(pool, host).await,
            };
        }
        let dirty_before = dirty_bytes(pool);
        match pool.reattach(volume).await {
            Ok(Reattached::Warm { bytes }) => {
                self.warm_bytes.set(self.warm_bytes.get() + bytes);
                if host.changed.get() && (bytes > 0 || volume.status().dirty_bytes > 0) {
                    self.world.violate(format!("{} was changed behind our back and is warm", host.name()));
                }
                self.world.simulation.note(|| format!("{} is warm: {bytes} bytes", host.name()));
            }
            Ok(Reattached::Fenced { reason, .. }) => {
                self.world.simulation.note(|| format!("{} is fenced: {reason}", host.name()));
                self.check_fence(host, volume, &reason.to_string()).await;
                return false;
            }
            Ok(Reattached::Dropped { reason }) => {
                self.world.simulation.note(|| format!("{} is cold: {reason}", host.name()));
                self.check_drop(host, &reason);
                if dirty_bytes(pool) < dirty_before && self.volumes.borrow().iter().all(Option::is_none) {
                    self.world.violate(format!("dirty data of {} was dropped: {reason}", host.name()));
                }
            }
            Err(error) => {
                if !host.may_fail() {
                    self.expect_cache_trouble("reattaching", &error);
                }
                return false;
            }
        }
        host.accept_replacement();
        host.shaken.set(false);
        host.attachment.set(Attachment::Attached);
        true
    }

    async fn check_fence(&self, host: &HostVolume, volume: &Volume<SimEnv>, reason: &str) {
        if host.right_one.borrow().is_none() && !host.may_fail() {
            self.world.violate(format!("{} is fenced though nobody changed it: {reason}", host.name()));
        }
        if volume.read(ByteRange::at(0, 4096)).await.is_ok() {
            self.world.violate(format!("{} is fenced, and serves", host.name()));
        }
    }

    fn check_drop(&self, host: &HostVolume, reason: &str) {
        let excused = host.changed.get() || host.shaken.get() || host.may_fail() || self.world.cache_trouble.get();
        if !excused {
            self.world.violate(format!("{} was dropped though nobody changed it: {reason}", host.name()));
        }
    }

    // ---- what administrators do

    /// Whether the volume is certainly not in the pool afterwards.
    pub async fn detach(&self, pool: &Pool<SimEnv>, host: &HostVolume) -> bool {
        self.world.simulation.note(|| format!("detach {}", host.name()));
        host.attachment.set(Attachment::Unsure);
        match pool.detach(&host.name(), DirtyData::Clean).await {
            Ok(()) => {
                host.attachment.set(Attachment::Detached);
                host.changed.set(false);
                // What a device lost with its power is known when this life is over.
                if !host.cut.get() {
                    self.world.report(host.check_backing().map_err(|what| format!("after detaching: {what}")));
                }
                true
            }
            Err(error) => {
                if error.kind == ErrorKind::Refused {
                    host.attachment.set(Attachment::Attached);
                }
                self.expect_cache_trouble("detaching", &error);
                false
            }
        }
    }

    /// Takes a volume that is not attached yet out of the pool, and discards its dirty data.
    async fn discard(&self, pool: &Pool<SimEnv>, host: &HostVolume) -> bool {
        self.world.simulation.note(|| format!("detach {}, and lose its dirty data", host.name()));
        host.attachment.set(Attachment::Unsure);
        host.discarded.set(true);
        match pool.detach(&host.name(), DirtyData::Discard).await {
            Ok(()) => {
                host.discarded.set(false);
                host.attachment.set(Attachment::Detached);
                host.right_one.take();
                host.changed.set(false);
                host.adopt_backing();
                true
            }
            Err(error) => {
                self.expect_cache_trouble("detaching", &error);
                false
            }
        }
    }

    pub async fn attach(&self, number: usize) {
        let host = &self.world.volumes[number];
        let (Some(pool), Some(volume)) = (self.pool(), self.volume(number)) else { return };
        if host.attachment.get() != Attachment::Detached {
            return;
        }
        self.world.simulation.note(|| format!("attach {}", host.name()));
        host.attachment.set(Attachment::Unsure);
        match pool.attach(&volume).await {
            // Its deletion may have overtaken this answer.
            Ok(()) if self.world.pool.get() != PoolKnown::Yes => {}
            Ok(()) => host.attachment.set(Attachment::Attached),
            Err(error) if host.may_fail() => self.world.simulation.note(|| format!("not attached: {error}")),
            // Its share of the cache does not fit this pool.
            Err(error) if error.kind == ErrorKind::Refused => host.attachment.set(Attachment::Detached),
            Err(error) => self.expect_cache_trouble("attaching", &error),
        }
    }

    pub async fn delete_pool(&self) {
        let Some(pool) = self.pool() else { return };
        self.world.simulation.note(|| "delete the pool".to_owned());
        self.world.pool.set(PoolKnown::Unsure);
        self.world.volumes.iter().for_each(|host| host.attachment.set(Attachment::Unsure));
        match pool.delete(DirtyData::Clean).await {
            Ok(()) => {
                self.pool.borrow_mut().take();
                self.world.pool.set(PoolKnown::No);
                self.world.volumes.iter().for_each(|host| host.attachment.set(Attachment::Detached));
            }
            Err(error) => self.expect_cache_trouble("deleting the pool", &error),
        }
    }

    /// Makes a pool while volumes are served. A conversion, if their caches come back with it: to another cache block, or to
    /// the same.
    pub async fn replace_pool(&self) {
        let (converts, block_bytes) = self.world.simulation.draw(|random| {
            let smallest = BlockBytes::new(64 << 10).expect("it is the least");
            (random.one_in(2), random.pick(&[smallest, self.world.shape.settings.block_bytes]))
        });
        self.delete_pool().await;
        if self.world.pool.get() != PoolKnown::No || self.stopping.get() {
            return;
        }
        self.world.settings.set(PoolSettings { block_bytes, ..self.world.settings.get() });
        self.create_pool().await;
        if converts {
            self.world.simulation.note(|| format!("converted to blocks of {} bytes", block_bytes.get()));
            for number in 0..self.world.volumes.len() {
                self.attach(number).await;
            }
        }
    }

    /// An administrator's command failed: that has to have a reason.
    pub fn expect_cache_trouble(&self, what: &str, error: &Error) {
        self.world.simulation.note(|| format!("{what}: {error}"));
        // What cannot be cleaned holds up whoever needs it clean.
        let cannot_clean = |host: &Rc<HostVolume>| host.may_fail() || host.right_one.borrow().is_some();
        let dirty = self.world.writes_back() && self.world.volumes.iter().any(cannot_clean);
        // What another administrator does at the same time may stand in the way.
        let refused = matches!(error.kind, ErrorKind::Refused | ErrorKind::NotFound | ErrorKind::Stopping);
        let in_the_way = refused && self.world.shape.administrators > 1;
        let lost = self.world.two_lost.get().is_some();
        // A backing device took longer than anybody waits.
        let slow = error.kind == ErrorKind::Media && self.world.volumes.iter().any(|host| host.may_hang.get());
        if !self.world.cache_trouble.get() && !self.closing.get() && !dirty && !in_the_way && !lost && !slow {
            self.world.violate(format!("{what} failed though nothing was wrong: {error}"));
        }
    }

    // ---- stop

    /// Waits for the hosts, then stops cleanly. Sometimes it does not wait.
    pub async fn stop(&self) {
        self.world.set_phase("stopping the hosts");
        self.stopping.set(true);
        let patient = self.world.simulation.draw(|random| !random.one_in(4));
        while patient && self.hosts_running.get() > 0 {
            self.env.sleep(Duration::from_millis(5)).await;
        }
        self.world.set_phase("closing the pool");
        self.closing.set(true);
        let started = self.env.now();
        let mut clean = true;
        if let Some(pool) = self.pool() {
            match pool.close().await {
                Ok(closed) => self.left_unclean(&closed),
                Err(error) => {
                    clean = false;
                    let may_fail = self.world.volumes.iter().any(|host| host.may_fail());
                    if !self.world.cache_trouble.get() && !may_fail && !self.saw_silence() {
                        self.world.violate(format!("the pool does not close: {error}"));
                    }
                }
            }
        }
        self.closed.set(true);
        // The command that it waited for took its own time.
        let began = self.world.command_answered.get().map_or(started, |answered| answered.max(started));
        let took = self.env.now().since(began);
        if took > Duration::from_secs(60) && !self.world.volumes.iter().any(|host| host.may_hang.get()) {
            self.world.violate(format!("closing took {took:?}"));
        }
        while self.hosts_running.get() > 0 {
            self.env.sleep(Duration::from_millis(5)).await;
        }
        self.world.set_phase("stopped");
        self.clean.set(clean);
        self.finished.set(true);
    }

    /// Of these volumes there is no mark that would show a change.
    fn left_unclean(&self, closed: &Closed) {
        for (name, error) in &closed.not_durable {
            self.world.simulation.note(|| format!("{name} is not left clean: {error}"));
            self.world.volumes.iter().filter(|host| host.name() == *name).for_each(|host| host.shaken.set(true));
        }
    }

    /// The process is gone, and its memory with it.
    pub fn vanish(self) {
        self.world.simulation.drop_tasks();
        if let Some(pool) = self.pool() {
            pool.abandon();
        }
    }

    fn saw_silence(&self) -> bool {
        !self.world.silent_for.get().is_zero()
    }

    /// A pool that stops refuses, and does not wait for SSDs that do not answer.
    pub fn stops(&self, error: &Error) -> bool {
        let stops = error.kind == ErrorKind::Stopping || (error.kind == ErrorKind::Gone && self.saw_silence());
        stops && self.closing.get()
    }
}

fn dirty_bytes(pool: &Pool<SimEnv>) -> u64 {
    pool.status().write_log.map_or(0, |log| log.dirty_bytes)
}
