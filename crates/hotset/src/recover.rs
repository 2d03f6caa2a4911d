//! The `recover` verb, for when all else failed: reads a pool's SSDs without a daemon, checks what is dirty on them, and
//! writes it to the backing devices if that is asked for. Nothing is ever written to an SSD here.

use std::fmt::Write as _;
use std::path::Path;

use hotset_api::{ApiError, ApiErrorKind};
use hotset_block::{Executor, ExecutorOptions, HostEnv};
use hotset_cache::config::{VolumeName, VolumeSettings, VolumeSpec};
use hotset_cache::offline::{Applied, Offline, Report, Verified};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::args::{BackingOf, Output, RecoverArguments};
use crate::client::{fill_bar, print};
use crate::plane::device::{open_backing, open_ssd};
use crate::size::human;
use crate::words;

/// Dirty stretches that the text lists for a volume; JSON has them all.
const EXTENTS_LISTED: usize = 10;

#[derive(Serialize)]
struct Recovery {
    pool: String,
    pool_uuid: String,
    pool_type: &'static str,
    epoch: u64,
    clean_stop: bool,
    ssds: Vec<Ssd>,
    volumes: Vec<Volume>,
    dirty_bytes: u64,
    good_bytes: u64,
    one_copy_bytes: u64,
    lost_bytes: u64,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct Ssd {
    path: String,
    uuid: String,
    present: bool,
    member: bool,
}

#[derive(Serialize)]
struct Volume {
    name: String,
    backing: String,
    size_bytes: u64,
    dirty_bytes: u64,
    /// First byte and length of each stretch.
    dirty_extents: Vec<(u64, u64)>,
    /// What was written to its backing device; left out where nothing was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    written_bytes: Option<u64>,
}

pub(crate) fn run(output: Output, arguments: &RecoverArguments) -> Result<(), ApiError> {
    let executor = Executor::new(ExecutorOptions::default())
        .map_err(|error| ApiError::new(ApiErrorKind::Internal, format!("io_uring: {error}")))?;
    let recovery = executor.run(async |env| recover(&env, arguments).await)?;
    print(output, &recovery, text)?;
    if recovery.lost_bytes > 0 {
        let message = format!("{} of dirty data cannot be read from any copy", human(recovery.lost_bytes));
        return Err(ApiError::new(ApiErrorKind::Device, message));
    }
    Ok(())
}

async fn recover(env: &HostEnv, arguments: &RecoverArguments) -> Result<Recovery, ApiError> {
    let ssds = arguments.ssd.iter().map(|path| open_ssd(env, &path.to_string_lossy())).collect::<Result<Vec<_>, _>>();
    let ssds = ssds.map_err(|error| words::error(&error))?;
    let offline = Offline::open(env.clone(), ssds).await.map_err(|error| words::error(&error))?;
    check_backings(offline.report(), &arguments.backing)?;
    let dirty = offline.report().volumes.iter().map(|volume| volume.dirty_bytes).sum();
    let bar = fill_bar(dirty, "Checking");
    let verified = offline.verify(|done| bar.set_position(done)).await;
    bar.finish_and_clear();
    let mut recovery = described(offline.report(), &verified);
    if !arguments.write {
        return Ok(recovery);
    }
    for volume in &mut recovery.volumes {
        if volume.dirty_bytes > 0 {
            let bar = fill_bar(volume.dirty_bytes, "Writing");
            let applied = write_volume(env, &offline, arguments, volume, &bar).await;
            bar.finish_and_clear();
            volume.written_bytes = Some(applied?.written_bytes);
        }
    }
    Ok(recovery)
}

fn check_backings(report: &Report, backings: &[BackingOf]) -> Result<(), ApiError> {
    for backing in backings {
        if !report.volumes.iter().any(|volume| volume.name == backing.volume) {
            let message = format!("pool {} caches no volume {}", report.pool, backing.volume);
            return Err(ApiError::new(ApiErrorKind::NotFound, message));
        }
    }
    Ok(())
}

/// Writes a volume's dirty data to the device given for it, else to the one that the pool remembers.
async fn write_volume(
    env: &HostEnv,
    offline: &Offline<HostEnv>,
    arguments: &RecoverArguments,
    volume: &Volume,
    bar: &ProgressBar,
) -> Result<Applied, ApiError> {
    let name: VolumeName = volume.name.parse().map_err(|error| words::error(&error))?;
    let given = arguments.backing.iter().find(|backing| backing.volume == name);
    let backing = given.map_or_else(|| volume.backing.clone(), |backing| backing.path.clone());
    let spec = VolumeSpec { name: name.clone(), backing, settings: VolumeSettings::default() };
    let device = open_backing(env, &spec).map_err(|error| words::error(&error))?;
    let applied = offline.apply(&name, device, arguments.force, |done| bar.set_position(done)).await;
    applied.map_err(|error| words::error(&error))
}

fn described(report: &Report, verified: &Verified) -> Recovery {
    let ssds = report.ssds.iter().map(|ssd| Ssd {
        path: ssd.path.clone(),
        uuid: format!("{:032x}", ssd.uuid),
        present: ssd.present,
        member: ssd.member,
    });
    let volumes = report.volumes.iter().map(|volume| Volume {
        name: volume.name.to_string(),
        backing: volume.backing.clone(),
        size_bytes: volume.size_bytes,
        dirty_bytes: volume.dirty_bytes,
        dirty_extents: volume.dirty_extents.clone(),
        written_bytes: None,
    });
    Recovery {
        pool: report.pool.to_string(),
        pool_uuid: format!("{:032x}", report.pool_uuid),
        pool_type: report.kind.word(),
        epoch: report.epoch,
        clean_stop: report.clean_stop,
        ssds: ssds.collect(),
        volumes: volumes.collect(),
        dirty_bytes: verified.dirty_bytes,
        good_bytes: verified.good_bytes,
        one_copy_bytes: verified.one_copy_bytes,
        lost_bytes: verified.lost_bytes,
        problems: report.problems.clone(),
    }
}

fn text(recovery: &Recovery) -> String {
    let mut text = String::new();
    let stop = if recovery.clean_stop { "stopped cleanly" } else { "not stopped cleanly" };
    let _ = writeln!(text, "Pool {} ({}), epoch {}, {stop}", recovery.pool, recovery.pool_type, recovery.epoch);
    for ssd in &recovery.ssds {
        let standing = match (ssd.present, ssd.member) {
            (true, true) => "here",
            (true, false) => "left the pool earlier: not believed",
            (false, _) => "missing",
        };
        let _ = writeln!(text, "  SSD {}  {standing}", if ssd.path.is_empty() { &ssd.uuid } else { &ssd.path });
    }
    for volume in &recovery.volumes {
        let _ = writeln!(
            text,
            "  Volume {} on {}: {}, {} dirty",
            volume.name,
            volume.backing,
            human(volume.size_bytes),
            human(volume.dirty_bytes)
        );
        for (start, length) in volume.dirty_extents.iter().take(EXTENTS_LISTED) {
            let _ = writeln!(text, "    {length} bytes at {start}");
        }
        if volume.dirty_extents.len() > EXTENTS_LISTED {
            let _ = writeln!(
                text,
                "    and {} more stretches (-o json lists them)",
                volume.dirty_extents.len() - EXTENTS_LISTED
            );
        }
        if let Some(written) = volume.written_bytes {
            let _ = writeln!(text, "    {} written to its backing device and flushed", human(written));
        }
    }
    let _ = writeln!(
        text,
        "Dirty: {}; with two good copies {}, with one {}, lost {}",
        human(recovery.dirty_bytes),
        human(recovery.good_bytes - recovery.one_copy_bytes),
        human(recovery.one_copy_bytes),
        human(recovery.lost_bytes)
    );
    for problem in &recovery.problems {
        let _ = writeln!(text, "Problem: {problem}");
    }
    if recovery.dirty_bytes > 0 && recovery.volumes.iter().all(|volume| volume.written_bytes.is_none()) {
        text.push_str("Nothing was written. With --write, dirty data goes to the backing devices.\n");
    }
    text
}

impl std::str::FromStr for BackingOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (volume, path) = text.split_once('=').ok_or("it is VOLUME=PATH")?;
        let volume = volume.parse().map_err(|error: hotset_cache::Error| error.to_string())?;
        if path.is_empty() {
            return Err("the path is missing".to_owned());
        }
        let path = if path.starts_with("emulated:") || Path::new(path).is_absolute() {
            path.to_owned()
        } else {
            crate::paths::absolute(Path::new(path)).map_err(|error| error.to_string())?
        };
        Ok(Self { volume, path })
    }
}
