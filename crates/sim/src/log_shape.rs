//! What a seed chooses once for a read-write pool.

use hotset_block::DeviceInfo;
use hotset_cache::config::{Cleaning, FlushRate, PoolKind, PoolSettings, VolumeSettings, WriteMode};

use crate::random::Random;
use crate::shape::{self, Profile, Shape, Troubles, VolumeShape};

pub(crate) fn draw(random: &mut Random) -> Shape {
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
        ssds,
        volumes,
        settings,
        troubles: Troubles { rot: troubles.rot && settings.checksums, misplaced_slots: false, ..troubles },
        hosts: random.between(1, 4),
        lives: random.between(2, 6),
        wander_percent: random.pick(&[5, 20, 60]),
        durable_percent: random.pick(&[0, 1, 10, 30]),
        think_ms: random.pick(&[1, 5, 30, 300]),
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
