//! Everything that outlives a daemon: the disks, the models of the volumes, and what the administrator knows.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hotset_block::{ByteRange, DeviceInfo, Discard, Instant};
use hotset_cache::config::{PoolKind, PoolSettings, VolumeName, VolumeSettings, VolumeSpec};
use hotset_cache::{LABEL_BYTES, Pool, STATE_BYTES, SsdLabel, Unusable, inspect};

use crate::content::{self, CellPlace};
use crate::disk::{Disk, Failed, Saved, Speed, Watcher};
use crate::executor::{SimEnv, Simulation};
use crate::image::{Image, index};
use crate::log_shape;
use crate::model::{Ending, VolumeModel};
use crate::random::Random;
use crate::shape::{Profile, Shape, VolumeShape};

/// Which worlds have pauses is apart from all that they draw: those without are as if there were none.
const OF_PAUSES: u64 = 0x9A_05E5;

/// Likewise those whose state directory fails while a daemon runs, and those whose pool is read out between two daemons.
const OF_STATE_FAILURES: u64 = 0x57_A7E5;
const OF_RECOVERIES: u64 = 0x4E_C04E;

/// See the file's summary.
pub struct World {
    pub simulation: Rc<Simulation>,
    pub shape: Shape,
    /// The daemon's process is stopped now and then.
    pub pauses: bool,
    pub state_fails: bool,
    pub recovers: bool,
    pub ssds: Vec<Ssd>,
    pub state: RefCell<Rc<Disk>>,
    pub volumes: Vec<Rc<HostVolume>>,
    pub pool: Cell<PoolKnown>,
    /// Differs with every pool that is made.
    pub pool_number: Cell<u64>,
    pub settings: Cell<PoolSettings>,
    pub boot: Cell<u128>,
    /// Something was wrong with SSDs or the state directory in the life of this daemon.
    pub cache_trouble: Cell<bool>,
    /// Something was wrong with an SSD at any time.
    pub ssds_suffered: Cell<bool>,
    /// The state directory was lost or has failed, and no daemon has been started since.
    pub state_is_blank: Cell<bool>,
    /// The newest state of the pool was lost at some time: what turns up later may be older or newer than expected.
    pub blind: Cell<bool>,
    /// A journal has lost a sector: it is noticed when the ring comes round to it, perhaps much later.
    pub journal_damaged: Cell<bool>,
    /// Nobody does anything by chance any more.
    pub calm: Cell<bool>,
    /// When two SSDs vanished at once: what only they had is lost.
    pub two_lost: Cell<Option<Instant>>,
    /// How long SSDs did not answer, in the life of this daemon.
    pub silent_for: Cell<std::time::Duration>,
    /// SSDs did not answer or took no writes, at some time: the others may have had one copy only.
    pub thinned: Cell<bool>,
    /// In this life the state directory may take nothing for a time: the SSDs have to stay a majority.
    pub state_is_failing: Cell<bool>,
    /// No byte rots any more.
    pub rot_has_ended: Cell<bool>,
    /// Commands of administrators that are not answered yet.
    pub commands: Cell<u64>,
    /// When the last one was answered, in the life of this daemon.
    pub command_answered: Cell<Option<Instant>>,
    /// What the daemon is doing, for the report of one that does not go on.
    pub phase: RefCell<String>,
}

/// What the administrator knows of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKnown {
    No,
    /// Making it was interrupted: nobody was told that it is there, and nothing is in it.
    Unmade,
    /// Deleting it was interrupted.
    Unsure,
    Yes,
}

/// An SSD and where it is.
pub struct Ssd {
    pub disk: Rc<Disk>,
    /// Plugged in when the next daemon starts.
    pub present: Cell<bool>,
    /// An administrator is about to give it to a pool: nobody else does.
    pub taken: Cell<bool>,
    /// A pool was opened while it was missing.
    pub missed: Cell<bool>,
    /// What it held some time ago.
    pub snapshot: RefCell<Option<Image>>,
    /// What it held when the last daemon started, where that is asked for.
    pub at_start: RefCell<Option<Image>>,
}

/// What the administrator knows of a volume's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    Detached,
    /// Attaching or detaching was interrupted.
    Unsure,
    Attached,
}

/// What a host asked for, as far as a fault can explain that it failed.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    Read(ByteRange),
    /// To write, trim or zero.
    Change(ByteRange),
    Flush,
}

/// What is wrong with a backing device when a host asks for something.
#[derive(Clone, Copy, Debug)]
pub struct FaultsBefore {
    is_gone: bool,
    failed_operations: usize,
    /// How many of them came before it was opened.
    trusted_after: usize,
    /// How many of them came before the host's last flush that failed.
    told_of: usize,
}

/// A volume: its backing device, and what its hosts may see.
pub struct HostVolume {
    pub spec: RefCell<VolumeSpec>,
    /// Names and settings that an administrator has asked for, and was not answered: they may be there after a crash.
    pub names_asked: RefCell<Vec<VolumeName>>,
    pub settings_asked: RefCell<Vec<VolumeSettings>>,
    pub shape: VolumeShape,
    pub disk: Rc<Disk>,
    pub model: Rc<RefCell<VolumeModel>>,
    pub attachment: Cell<Attachment>,
    /// Somebody else wrote to the backing device since it was last attached.
    pub changed: Cell<bool>,
    /// The backing device failed while it was attached last: what is cached of it may be dropped.
    pub shaken: Cell<bool>,
    /// The backing device lost its power in the life of this daemon.
    pub cut: Cell<bool>,
    /// Failed operations of the backing device when this daemon started.
    pub failures_before: Cell<usize>,
    /// Failed operations of the backing device when it was last opened.
    pub trusted_after: Cell<usize>,
    /// The backing device may take for ever in the life of this daemon.
    pub may_hang: Cell<bool>,
    pub hot: RefCell<Vec<u64>>,
    /// Requests that are not answered yet.
    pub waiting: Cell<u64>,
    /// An administrator holds its writes.
    pub held: Cell<bool>,
    /// Another device, or another state of it, is in the place of the backing device: this is the right one. No host has
    /// been served from what is there now.
    pub right_one: RefCell<Option<Saved>>,
    /// An administrator discarded its dirty data, and the daemon died before it said whether that was done.
    pub discarded: Cell<bool>,
}

impl HostVolume {
    pub fn size_bytes(&self) -> u64 {
        self.disk.info().size_bytes
    }

    pub fn name(&self) -> VolumeName {
        self.spec.borrow().name.clone()
    }

    /// What a pool knows of the volume, under whatever name it may have.
    pub fn recorded_in(&self, pool: &Pool<SimEnv>) -> Option<VolumeSpec> {
        let may_be = |name: &VolumeName| *name == self.name() || self.names_asked.borrow().contains(name);
        pool.unattached_volumes().into_iter().find(|spec| may_be(&spec.name))
    }

    /// What was recorded is what an administrator was told, or what he was about to be told.
    pub fn check_spec(&self, recorded: &VolumeSpec) -> Result<(), String> {
        let settings = self.spec.borrow().settings;
        if settings == recorded.settings || self.settings_asked.borrow().contains(&recorded.settings) {
            return Ok(());
        }
        Err(format!("{}: the settings were {settings:?}, and are {:?}", recorded.name, recorded.settings))
    }

    /// From now on it is what was recorded.
    pub fn adopt_spec(&self, recorded: Option<VolumeSpec>) {
        if let Some(recorded) = recorded {
            self.spec.replace(recorded);
        }
        self.names_asked.borrow_mut().clear();
        self.settings_asked.borrow_mut().clear();
    }

    /// The volume is from now on what its backing device holds. Who lets that happen has it all on the medium first: which
    /// of the versions that were not flushed is there after a power cut, nobody could say any more.
    pub fn adopt_backing(&self) {
        let content = self.disk.content();
        self.model.borrow_mut().adopt(&content);
        self.disk.replace_content(content);
    }

    /// What is there now in place of the right backing device is served from now on, and hosts know it.
    pub fn accept_replacement(&self) {
        self.changed.set(false);
        if self.right_one.take().is_some() {
            self.model.borrow_mut().adopt(&self.disk.content());
        }
    }

    /// The right backing device is where it was.
    pub fn put_right(&self) {
        if let Some(saved) = self.right_one.take() {
            self.disk.put_back(saved);
            self.changed.set(false);
            // A daemon may have died when it had just got used to the other one.
            self.shaken.set(true);
        }
    }

    /// What is wrong with the backing device before a host asks for something, which had an error from its last flush when so
    /// many operations had failed.
    pub fn faults(&self, told_of: usize) -> FaultsBefore {
        FaultsBefore {
            is_gone: self.disk.is_gone(),
            failed_operations: self.disk.failed_operations(),
            trusted_after: self.trusted_after.get(),
            told_of: told_of.max(self.failures_before.get()),
        }
    }

    /// Whether a host may see that the backing device failed.
    pub fn explains(&self, asked: Asked, before: FaultsBefore) -> bool {
        let touches = |range: ByteRange, kinds: &[Failed]| {
            let page = range.widened_to(4096);
            self.disk.has_failed_since(before.failed_operations, |failure| {
                kinds.contains(&failure.kind) && failure.range.overlaps(page)
            })
        };
        let no_flush_since = |count: usize| self.disk.has_failed_since(count, |failure| failure.kind == Failed::Flush);
        before.is_gone
            || self.disk.is_gone()
            || match asked {
                Asked::Read(range) => touches(range, &[Failed::Read]),
                Asked::Change(range) => {
                    touches(range, &[Failed::Read, Failed::Write]) || no_flush_since(before.trusted_after)
                }
                // Who was not told that something may not be there is told, by the next flush.
                Asked::Flush => no_flush_since(before.trusted_after.min(before.told_of)),
            }
    }

    /// Whether administrators may see errors of the backing device.
    pub fn may_fail(&self) -> bool {
        self.cut.get() || self.disk.is_gone() || self.disk.failed_operations() > self.failures_before.get()
    }

    /// Compares all that the backing device holds with what hosts may see: in a read pool, and where nothing is dirty, it
    /// is never behind.
    pub fn check_backing(&self) -> Result<(), String> {
        let outcome = self.model.borrow_mut().may_hold_all(&self.disk.content());
        outcome.map_err(|what| format!("backing device: {what}"))
    }
}

/// Watches that nothing is written to a backing device but what hosts wrote, one write after the other, and nothing older over
/// something newer, whatever crashes.
struct BackingWatcher {
    kind: PoolKind,
    simulation: Rc<Simulation>,
    model: Rc<RefCell<VolumeModel>>,
}

impl Watcher for BackingWatcher {
    fn wrote(&self, offset: u64, bytes: &[u8], held: &[u8], alone: bool) {
        let range = ByteRange::at(offset, u64::try_from(bytes.len()).expect("a length fits in 64 bits"));
        let now = self.simulation.now().0;
        if !alone {
            self.simulation.trace.violate(now, format!("two writes at once to the backing device: one is {range:?}"));
        }
        let outcome = {
            let mut model = self.model.borrow_mut();
            match self.kind {
                PoolKind::Read => model.may_hold(range, bytes),
                // The cleaner may be on its way with what a host has just replaced.
                PoolKind::ReadWrite => model.may_replace(range, bytes, held),
            }
        };
        if let Err(what) = outcome {
            self.simulation.trace.violate(now, format!("written to the backing device though no host did: {what}"));
        }
    }
}

impl World {
    pub fn new(seed: u64, traced: bool) -> Rc<Self> {
        let simulation = Simulation::new(seed / 2, traced);
        let shape = simulation.draw(|random| draw_shape(seed, random));
        simulation.note(|| format!("{shape:#?}"));
        let ssds = shape.ssds.iter().enumerate();
        let ssds = ssds.map(|(number, info)| Ssd::new(&simulation, number, *info, &shape)).collect();
        let volumes = shape.volumes.iter().enumerate();
        let volumes =
            volumes.map(|(number, shape)| Rc::new(host_volume(&simulation, kind_of(seed), number, *shape))).collect();
        let state = RefCell::new(state_disk(&simulation, &shape));
        Rc::new(Self {
            settings: Cell::new(shape.settings),
            simulation,
            shape,
            pauses: Random::new(seed ^ OF_PAUSES).one_in(4),
            state_fails: Random::new(seed ^ OF_STATE_FAILURES).one_in(8),
            recovers: Random::new(seed ^ OF_RECOVERIES).one_in(4),
            ssds,
            state,
            volumes,
            pool: Cell::new(PoolKnown::No),
            pool_number: Cell::new(0),
            boot: Cell::new(1),
            cache_trouble: Cell::new(false),
            ssds_suffered: Cell::new(false),
            state_is_blank: Cell::new(false),
            blind: Cell::new(false),
            journal_damaged: Cell::new(false),
            calm: Cell::new(false),
            two_lost: Cell::new(None),
            silent_for: Cell::new(std::time::Duration::ZERO),
            thinned: Cell::new(false),
            state_is_failing: Cell::new(false),
            rot_has_ended: Cell::new(false),
            commands: Cell::new(0),
            command_answered: Cell::new(None),
            phase: RefCell::default(),
        })
    }

    /// The pool may hold what the backing devices do not have yet.
    pub fn writes_back(&self) -> bool {
        self.shape.kind == PoolKind::ReadWrite
    }

    /// Of a pool with two copies only one SSD is damaged: the other one has to make it good.
    pub fn may_suffer(&self, ssd: &Ssd) -> bool {
        !self.writes_back() || Rc::ptr_eq(&ssd.disk, &self.weak_ssd().disk)
    }

    /// The SSD of a pool with two copies that is damaged.
    pub fn weak_ssd(&self) -> &Ssd {
        &self.ssds[self.shape.weak_ssd]
    }

    /// Whether an SSD may be damaged now: not while the state directory, which would have to vouch for the others, is lost;
    /// nor one that is alone in the pool because the others were not told of it before its making was cut off.
    pub fn may_damage(&self, ssd: &Ssd) -> bool {
        self.may_suffer(ssd) && !(self.writes_back() && (self.state_is_blank.get() || !self.has_another(ssd)))
    }

    /// Another SSD is in the pool, and knows what this one has flushed.
    pub fn has_another(&self, ssd: &Ssd) -> bool {
        self.ssds.iter().any(|other| !Rc::ptr_eq(&other.disk, &ssd.disk) && matches!(other.label(), Ok(Some(_))))
    }

    /// The pool may have newer data of this volume than its backing device.
    pub fn may_hold_dirty_data(&self, host: &HostVolume) -> bool {
        self.writes_back() && self.pool.get() != PoolKnown::No && host.attachment.get() != Attachment::Detached
    }

    /// Something happened that must not.
    pub fn violate(&self, what: String) {
        self.simulation.trace.violate(self.simulation.now().0, what);
    }

    pub fn report(&self, outcome: Result<(), String>) {
        if let Err(what) = outcome {
            self.violate(what);
        }
    }

    pub fn set_phase(&self, phase: &str) {
        self.simulation.note(|| format!("-- {phase}"));
        phase.clone_into(&mut self.phase.borrow_mut());
    }

    /// Something is wrong with an SSD.
    pub fn trouble_ssds(&self) {
        self.cache_trouble.set(true);
        self.ssds_suffered.set(true);
        if self.state_is_blank.get() {
            self.forget_what_is_known();
        }
    }

    /// Where SSDs have failed and the state directory is lost, the newest state of the pool may be lost: then nobody can
    /// know which volumes it cached, or that it was there at all. What SSDs hold must not be believed in any case.
    pub fn forget_what_is_known(&self) {
        self.blind.set(true);
        for volume in &self.volumes {
            volume.attachment.set(Attachment::Unsure);
            volume.shaken.set(true);
        }
    }

    pub fn present_ssds(&self) -> impl Iterator<Item = &Ssd> {
        self.ssds.iter().filter(|ssd| ssd.present.get())
    }

    /// The state directory was lost; there is a new, empty one.
    pub fn lose_state(&self) {
        self.simulation.note(|| "the state directory is lost".to_owned());
        *self.state.borrow_mut() = state_disk(&self.simulation, &self.shape);
        self.state_is_blank.set(true);
    }

    /// Records may not be in the state directory.
    pub fn distrust_state(&self) {
        self.cache_trouble.set(true);
        self.state_is_blank.set(true);
        if self.ssds_suffered.get() {
            self.forget_what_is_known();
        }
    }

    /// Whether it says that it is of the pool that is there now.
    pub fn carries_pool(&self, ssd: &Ssd) -> bool {
        let label = ssd.label();
        self.simulation.note(|| format!("{}: {label:?}", ssd.disk.name));
        matches!(label, Ok(Some(label)) if label.pool_name.as_str() == self.pool_name())
    }

    pub fn pool_name(&self) -> String {
        format!("pool-{}", self.pool_number.get())
    }

    /// The daemon is dead and gone, and every disk that `cut` says lost its power with it.
    pub fn end_life(&self, power_fails: bool, cut: impl Fn() -> bool) {
        let trouble = self.cache_trouble.replace(false);
        self.simulation.drop_tasks();
        end_disk(&self.state.borrow(), power_fails && cut());
        let (mut ssds_cut, mut sound_ssds_cut) = (0, 0);
        for ssd in &self.ssds {
            let loses_power = power_fails && cut();
            end_disk(&ssd.disk, loses_power);
            let cut = loses_power || ssd.disk.is_gone();
            ssds_cut += u64::from(cut);
            sound_ssds_cut += u64::from(cut && !self.may_suffer(ssd));
        }
        // Of two copies one that keeps its power is enough, if there were two, and nothing happens to that one.
        let two_copies = !trouble && !self.ssds_suffered.get() && !self.thinned.get();
        let alternate = self.shape.profile == Profile::AlternateMissing;
        let one_is_enough = two_copies && !alternate && (sound_ssds_cut == 0 || !self.shape.troubles.of_ssds());
        let log_cut = self.writes_back() && ssds_cut > u64::from(one_is_enough);
        for volume in &self.volumes {
            let loses_power = power_fails && cut();
            end_disk(&volume.disk, loses_power);
            volume.shaken.set(volume.shaken.get() || volume.may_fail());
            let ending = match (loses_power || volume.cut.get(), log_cut) {
                (true, _) => Ending::PowerCut,
                (false, true) => Ending::CutBefore,
                (false, false) => Ending::Kill,
            };
            volume.model.borrow_mut().end_run(ending);
            if !self.writes_back() {
                self.report(volume.check_backing());
            }
        }
        if power_fails {
            self.boot.set(self.boot.get() + 1);
            self.volumes.iter().for_each(|volume| volume.disk.set_boot(self.boot.get()));
        }
    }

    /// Before a daemon starts: nothing is broken any more but what stays broken.
    pub fn begin_life(&self) {
        for volume in &self.volumes {
            volume.disk.come_back();
            volume.disk.set_faults(crate::disk::Faults::default());
            volume.failures_before.set(volume.disk.failed_operations());
            volume.trusted_after.set(volume.disk.failed_operations());
            volume.cut.set(false);
            volume.may_hang.set(false);
            volume.waiting.set(0);
            volume.held.set(false);
        }
        self.state.borrow().set_faults(crate::disk::Faults::default());
        self.state_is_failing.set(false);
        self.commands.set(0);
        self.command_answered.set(None);
        self.silent_for.set(std::time::Duration::ZERO);
        self.ssds.iter().for_each(|ssd| ssd.disk.answer_again());
        let refuses = self.shape.profile == Profile::Refusal;
        if refuses && (self.calm.get() || self.simulation.draw(|random| random.one_in(2))) {
            self.ssds.iter().for_each(|ssd| ssd.disk.refuse(None));
        }
        self.ssds.iter().for_each(|ssd| ssd.taken.set(false));
        for ssd in self.present_ssds() {
            if self.shape.profile == Profile::LostTails {
                *ssd.at_start.borrow_mut() = Some(ssd.disk.content());
            }
            ssd.disk.come_back();
            ssd.disk.set_faults(crate::disk::Faults::default());
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The timers hold disks, which hold the simulation, which holds the timers.
        self.simulation.drop_tasks();
    }
}

/// The shape of the world that a seed makes.
pub fn shape_of(seed: u64) -> Shape {
    draw_shape(seed, &mut Random::new(seed / 2))
}

fn draw_shape(seed: u64, random: &mut Random) -> Shape {
    if loses_two(seed) {
        return log_shape::second_loss(random);
    }
    if commits(seed) {
        return log_shape::commits(random);
    }
    if falls_silent(seed) {
        return log_shape::silence(random);
    }
    if refuses_writes(seed) {
        return log_shape::refusal(random);
    }
    let draw = if is_changing(seed) { Shape::changing } else { Shape::draw };
    draw(kind_of(seed), random)
}

/// One seed of fifty is of a read-write pool that loses two SSDs at once.
fn loses_two(seed: u64) -> bool {
    seed % 50 == 49
}

/// One seed of fifty is of a read-write pool whose SSDs take no writes for a time.
fn refuses_writes(seed: u64) -> bool {
    seed % 50 == 43
}

/// One seed of fifty is of a read-write pool whose host flushes all that it writes.
fn commits(seed: u64) -> bool {
    seed % 50 == 7
}

/// One seed of fifty is of a read-write pool whose SSDs do not answer for a time.
fn falls_silent(seed: u64) -> bool {
    seed % 50 == 21
}

/// One seed of five is of a pool whose SSDs come and go.
pub fn is_changing(seed: u64) -> bool {
    seed % 10 >= 8
}

/// Every other seed is of a read-write pool.
pub fn kind_of(seed: u64) -> PoolKind {
    if seed.is_multiple_of(2) { PoolKind::Read } else { PoolKind::ReadWrite }
}

fn end_disk(disk: &Disk, loses_power: bool) {
    if loses_power {
        disk.cut_power();
    } else {
        disk.kill();
    }
}

impl Ssd {
    /// Which pool it says that it is of.
    pub fn label(&self) -> Result<Option<SsdLabel>, Unusable> {
        inspect(&self.start())
    }

    /// It was erased, or never written.
    pub fn is_blank(&self) -> bool {
        self.start().iter().all(|byte| *byte == 0)
    }

    fn start(&self) -> Vec<u8> {
        let mut start = vec![0; LABEL_BYTES];
        self.disk.peek(0, &mut start);
        start
    }

    fn new(simulation: &Rc<Simulation>, number: usize, info: DeviceInfo, shape: &Shape) -> Self {
        let profile = shape.profile;
        let slownesses = if [Profile::PowerCuts, Profile::LogCuts].contains(&profile) {
            [20, 100, 400]
        } else if [Profile::OneCopy, Profile::ModeChanges].contains(&profile) {
            // Writes are slow enough there: no flush may take so long that the SSD is taken for dead.
            [3, 3, 20]
        } else {
            [3, 20, 100]
        };
        let flush_slowness = simulation.draw(|random| random.pick(&slownesses));
        let slow = (profile == Profile::OneCopy && number > 0) || profile == Profile::ModeChanges;
        let most_us = if slow { 10_000 } else { 400 };
        let speed = Speed { least_us: 20, most_us, flush_slowness };
        let disk = Disk::new(simulation, &format!("ssd{number}"), info, speed);
        disk.forgetful.set(shape.forgetful_ssds);
        Self {
            disk,
            present: Cell::new(true),
            taken: Cell::new(false),
            missed: Cell::new(false),
            snapshot: RefCell::default(),
            at_start: RefCell::default(),
        }
    }
}

fn state_disk(simulation: &Rc<Simulation>, shape: &Shape) -> Rc<Disk> {
    let info = DeviceInfo {
        size_bytes: STATE_BYTES,
        logical_block_bytes: 4096,
        optimal_io_bytes: 0,
        volatile_cache: true,
        discard: Discard::Unsupported,
        read_only: false,
        emulated: false,
    };
    let most_us = if shape.slow_state { 20_000 } else { 1000 };
    Disk::new(simulation, "state", info, Speed { least_us: 50, most_us, flush_slowness: 10 })
}

fn host_volume(simulation: &Rc<Simulation>, kind: PoolKind, number: usize, shape: VolumeShape) -> HostVolume {
    let disk = Disk::new(
        simulation,
        &format!("backing{number}"),
        shape.backing,
        Speed { least_us: 200, most_us: 6000, flush_slowness: 10 },
    );
    disk.reports_changes(shape.reports_changes);
    let id = u64::try_from(number).expect("there are two at most");
    let initial = initial_content(simulation, id, &shape);
    disk.replace_content(initial.clone());
    let model = VolumeModel::new(id, shape.backing.size_bytes, shape.cell_bytes(), initial);
    let model = Rc::new(RefCell::new(model));
    disk.watch(Rc::new(BackingWatcher { kind, simulation: Rc::clone(simulation), model: Rc::clone(&model) }));
    let name: VolumeName = format!("volume{number}").parse().expect("it follows the rule");
    let spec = VolumeSpec { name, backing: disk.name.clone(), settings: shape.settings };
    HostVolume {
        spec: RefCell::new(spec),
        names_asked: RefCell::default(),
        settings_asked: RefCell::default(),
        shape,
        disk,
        model,
        attachment: Cell::new(Attachment::Detached),
        changed: Cell::new(false),
        shaken: Cell::new(false),
        cut: Cell::new(false),
        failures_before: Cell::new(0),
        trusted_after: Cell::new(0),
        may_hang: Cell::new(false),
        hot: RefCell::default(),
        waiting: Cell::new(0),
        held: Cell::new(false),
        right_one: RefCell::default(),
        discarded: Cell::new(false),
    }
}

/// Volumes are attached in place: there is data before there is a cache.
fn initial_content(simulation: &Simulation, volume: u64, shape: &VolumeShape) -> Image {
    let size = shape.backing.size_bytes;
    let mut image = Image::zeroed(size);
    let cell = shape.cell_bytes();
    let mut bytes = vec![0; index(cell)];
    for start in (0..size).step_by(1 << 20) {
        if simulation.draw(|random| random.one_in(3)) {
            continue;
        }
        for at in (start..(start + (1 << 20)).min(size)).step_by(index(cell)) {
            content::fill(&mut bytes, CellPlace { volume, cell: at / cell }, 0);
            image.write(at, &bytes);
        }
    }
    image
}
