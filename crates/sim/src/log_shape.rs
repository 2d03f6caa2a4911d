//! What a seed chooses once for a read-write pool.

use hotset_block::DeviceInfo;
use hotset_cache::config::{BlockBytes, Cleaning, FlushRate, PoolKind, PoolSettings, VolumeSettings, WriteMode};

use crate::random::Random;
use crate::shape::{self, Profile, Shape, Troubles, VolumeShape};

pub(crate) fn draw(random: &mut Random) -> Shape {
    match random.below(26) {
        0..8 => everything(random),
        8 => lost_tails(random),
        9..12 => log_cuts(random),
        12 | 13 => late_log(random),
        14 | 15 => one_copy(random),
        16 | 17 => alternate_missing(random),
        18 | 19 => hung_backing(random),
        20 | 21 => clean_cuts(random),
        22 | 23 => mode_changes(random),
        _ => scrubs(random),
    }
}

fn log_cuts(random: &mut Random) -> Shape {
    let block_bytes = random.pick(&[64 << 10, 256 << 10, 512 << 10]);
    let lazy = !random.one_in(4);
    let mut shape = Shape { lives: random.between(3, 7), ..busy(Profile::LogCuts, random) };
    shape.settings.block_bytes = BlockBytes::new(block_bytes).expect("the sizes above are valid");
    shape.settings.cleaning.dirty_age_max_seconds = if lazy { 600 } else { 1 };
    shape.settings.cleaning.dirty_watermark_percent = if lazy { 90 } else { 1 };
    // What fills and drops write is flushed, and the log with it.
    shape.volumes[0].settings.read_cache = random.one_in(3);
    shape.durable_percent = random.pick(&[1, 1, 5, 10]);
    shape.forgetful_ssds = !random.one_in(4);
    shape.think_ms = random.pick(&[1, 1, 5]);
    shape
}

/// Rows are long, and little but hosts flushes them.
fn clean_cuts(random: &mut Random) -> Shape {
    let mut shape = Shape { lives: random.between(3, 7), ..busy(Profile::CleanCuts, random) };
    shape.settings.block_bytes = BlockBytes::new(512 << 10).expect("the size is valid");
    shape.settings.cleaning.dirty_age_max_seconds = 1;
    shape.settings.cleaning.dirty_watermark_percent = 1;
    shape.settings.cleaning.flush_rate = FlushRate::High;
    shape.volumes[0].settings.read_cache = random.one_in(3);
    shape.wander_percent = 5;
    shape.durable_percent = random.pick(&[1, 2, 5]);
    shape.think_ms = random.pick(&[5, 30]);
    shape.forgetful_ssds = !random.one_in(4);
    shape
}

/// One SSD rots. The log is short, so that its rows are soon used again.
fn scrubs(random: &mut Random) -> Shape {
    let mut shape = Shape { weak_ssd: random.index(2), ..busy(Profile::Scrubs, random) };
    shape.settings.checksums = true;
    shape.settings.block_bytes = BlockBytes::new(64 << 10).expect("the size is valid");
    shape.troubles = Troubles { crashes: random.one_in(2), rot: true, administrators: true, ..Troubles::NONE };
    shape.wander_percent = random.pick(&[20, 60]);
    shape
}

/// Copies take their time, so that pages are cleaned while they move.
fn mode_changes(random: &mut Random) -> Shape {
    let mut shape = Shape { lives: random.between(3, 7), ..busy(Profile::ModeChanges, random) };
    shape.settings.block_bytes = BlockBytes::new(64 << 10).expect("the size is valid");
    shape.troubles.administrators = true;
    shape.hosts = 4;
    shape.think_ms = random.pick(&[1, 5]);
    shape
}

/// All goes around the log, and through the slots.
fn lost_tails(random: &mut Random) -> Shape {
    let mut shape = Shape { lives: random.between(3, 7), ..busy(Profile::LostTails, random) };
    shape.settings.populate_on_read = 1;
    shape.volumes[0].settings.read_cache = true;
    shape.volumes[0].settings.write_mode = random.pick(&[WriteMode::WriteAround, WriteMode::WriteThrough]);
    shape
}

fn late_log(random: &mut Random) -> Shape {
    let mut shape = busy(Profile::LateLog, random);
    shape.settings.cleaning.dirty_age_max_seconds = 1;
    shape.settings.cleaning.dirty_watermark_percent = 1;
    shape.settings.cleaning.flush_rate = FlushRate::High;
    shape
}

fn one_copy(random: &mut Random) -> Shape {
    Shape { lives: random.between(2, 4), ..busy(Profile::OneCopy, random) }
}

fn alternate_missing(random: &mut Random) -> Shape {
    let mut shape = busy(Profile::AlternateMissing, random);
    let troubles = Troubles { ssd_errors: !random.one_in(5), ..shape.troubles };
    let mut ssds = shape.ssds;
    if random.one_in(4) {
        ssds.push(ssd(random));
    }
    let slow_state = !random.one_in(4);
    if slow_state {
        // Hosts write, and little else does, while the disk of the state directory takes its time.
        shape.volumes[0].settings.read_cache = random.one_in(3);
        shape.durable_percent = random.pick(&[1, 5]);
        (shape.hosts, shape.think_ms) = (4, random.pick(&[1, 5]));
    }
    Shape { lives: random.between(3, 7), troubles, ssds_at_first: ssds.len(), ssds, slow_state, ..shape }
}

/// Dirty data stays, on more SSDs than two.
pub(crate) fn second_loss(random: &mut Random) -> Shape {
    let mut shape = Shape { lives: random.between(2, 5), ..busy(Profile::SecondLoss, random) };
    shape.ssds.extend((0..random.pick(&[0, 1, 1, 2])).map(|_| ssd(random)));
    shape.ssds_at_first = shape.ssds.len();
    shape.settings.cleaning.dirty_watermark_percent = random.pick(&[10, 90, 90]);
    shape.troubles = Troubles { crashes: !random.one_in(4), administrators: true, ..Troubles::NONE };
    shape
}

/// Dirty data stays, and little is cleaned by the time the SSDs fall silent.
pub(crate) fn silence(random: &mut Random) -> Shape {
    let mut shape = Shape { lives: random.between(2, 4), ..busy(Profile::Silence, random) };
    shape.ssds.extend((0..random.pick(&[0, 0, 1])).map(|_| ssd(random)));
    shape.ssds_at_first = shape.ssds.len();
    shape.settings.cleaning.dirty_watermark_percent = random.pick(&[10, 90, 90]);
    shape.troubles = Troubles { crashes: random.one_in(2), ..Troubles::NONE };
    shape
}

/// Dirty data stays, and little is cleaned by the time the SSDs take no more writes.
pub(crate) fn refusal(random: &mut Random) -> Shape {
    Shape { profile: Profile::Refusal, ..silence(random) }
}

/// One host, so that nothing comes between its writes and their flushes.
pub(crate) fn commits(random: &mut Random) -> Shape {
    let mut shape = Shape { lives: random.between(3, 7), hosts: 1, ..busy(Profile::Commits, random) };
    shape.volumes[0].settings.read_cache = random.one_in(3);
    shape.forgetful_ssds = !random.one_in(4);
    shape.think_ms = random.pick(&[1, 1, 5]);
    shape
}

/// The volume whose device hangs has dirty data that can only be moved.
fn hung_backing(random: &mut Random) -> Shape {
    let mut shape = busy(Profile::HungBacking, random);
    shape.volumes.push(shape.volumes[0]);
    shape.wander_percent = 60;
    let block_bytes = random.pick(&[64 << 10, 512 << 10]);
    shape.settings.block_bytes = BlockBytes::new(block_bytes).expect("the sizes above are valid");
    shape.think_ms = 1;
    shape.hosts = 4;
    shape.durable_percent = 0;
    shape.lives = 2;
    shape.troubles.crashes = false;
    shape
}

/// Two SSDs, one volume that caches writes, and hosts that write a lot.
pub(crate) fn busy(profile: Profile, random: &mut Random) -> Shape {
    let mut settings = shape::settings(random);
    settings.populate_on_read = 1;
    settings.populate_on_write = 1;
    settings.cleaning = cleaning(random);
    let mut volume = volume(random);
    volume.settings.write_mode = WriteMode::InstantWriteBack;
    volume.settings.read_cache = true;
    volume.settings.write_cutoff_bytes = None;
    volume.hot_blocks = random.between(1, 5);
    let ssd = |random: &mut Random| DeviceInfo { volatile_cache: true, ..shape::ssd(random) };
    Shape {
        profile,
        kind: PoolKind::ReadWrite,
        ssds: vec![ssd(random), ssd(random)],
        ssds_at_first: 2,
        volumes: vec![volume],
        settings,
        troubles: Troubles { crashes: true, ..Troubles::NONE },
        hosts: random.between(2, 4),
        lives: random.between(2, 5),
        wander_percent: random.pick(&[5, 20, 60]),
        durable_percent: random.pick(&[5, 10, 30]),
        think_ms: random.pick(&[1, 5, 30]),
        forgetful_ssds: false,
        slow_state: false,
        weak_ssd: 0,
        administrators: 1,
    }
}

fn everything(random: &mut Random) -> Shape {
    let troubles = Troubles::draw(random);
    let settings = PoolSettings {
        populate_on_write: random.pick(&[1, 1, 1, 2]),
        cleaning: cleaning(random),
        ..shape::settings(random)
    };
    let ssds: Vec<_> = (0..random.pick(&[2, 2, 2, 3, 4])).map(|_| ssd(random)).collect();
    let volumes = (0..random.pick(&[1, 1, 2])).map(|_| volume(random)).collect();
    Shape {
        profile: Profile::Everything,
        kind: PoolKind::ReadWrite,
        ssds_at_first: ssds.len(),
        ssds,
        volumes,
        settings,
        troubles: Troubles { rot: troubles.rot && settings.checksums, misplaced_slots: false, ..troubles },
        hosts: random.between(1, 4),
        lives: random.between(2, 6),
        wander_percent: random.pick(&[5, 20, 60]),
        durable_percent: random.pick(&[0, 1, 10, 30]),
        think_ms: random.pick(&[1, 5, 30, 300]),
        forgetful_ssds: false,
        slow_state: false,
        weak_ssd: 0,
        administrators: random.pick(&[1, 1, 2, 3]),
    }
}

/// Now and then much larger than the others.
fn ssd(random: &mut Random) -> DeviceInfo {
    let ssd = shape::ssd(random);
    let factor = random.pick(&[1, 1, 1, 2]);
    DeviceInfo { size_bytes: ssd.size_bytes * factor, ..ssd }
}

fn volume(random: &mut Random) -> VolumeShape {
    let volume = VolumeShape::draw(random);
    let settings = VolumeSettings { write_mode: write_mode(random), read_cache: !random.one_in(8), ..volume.settings };
    let optimal_io_bytes = random.pick(&[0, 0, 64 << 10, 192 << 10]);
    VolumeShape { settings, backing: DeviceInfo { optimal_io_bytes, ..volume.backing }, ..volume }
}

pub fn write_mode(random: &mut Random) -> WriteMode {
    random.pick(&[
        WriteMode::WriteBack,
        WriteMode::WriteBack,
        WriteMode::WriteBack,
        WriteMode::InstantWriteBack,
        WriteMode::InstantWriteBack,
        WriteMode::WriteThrough,
        WriteMode::WriteAround,
    ])
}

/// Dirty data stays long, or goes at once, or something between.
pub fn cleaning(random: &mut Random) -> Cleaning {
    Cleaning {
        flush_rate: random.pick(&[FlushRate::Low, FlushRate::Medium, FlushRate::High]),
        dirty_watermark_percent: random.pick(&[1, 10, 50, 90]),
        dirty_age_max_seconds: random.pick(&[1, 5, 600]),
    }
}
