//! The `recover` verb, for when all else failed: reads a pool's SSDs without a daemon, checks what is dirty on them, and
//! writes it to the backing devices if that is asked for. Nothing is ever written to an SSD here.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hotset_api::{ApiError, ApiErrorKind};
use hotset_block::emulated::EmulatedArraySpec;
use hotset_block::{Executor, ExecutorOptions, HostDevice, HostEnv};
use hotset_cache::config::{VolumeName, VolumeSettings, VolumeSpec};
use hotset_cache::offline::{self, Applied, Given, Offline, Report, Verified};
use hotset_cache::{Error, Named, Takeover};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::args::{BackingOf, Output, RecoverArguments};
use crate::client::{fill_bar, print, tell};
use crate::daemon::{DiscardedCaches, discarded};
use crate::escape::escaped;
use crate::machine;
use crate::paths;
use crate::plane::device::{open_backing, open_member_to_recover, open_ssd_to_recover};
use crate::size::human;
use crate::words;

/// What to do where another machine has the pool.
const OTHER_MACHINE: &str = "stop Hotset on that machine, or make sure that it is off, then use --force";

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
    /// What the state directory says is unavailable, because the SSDs that have it left the pool.
    unavailable_bytes: u64,
    /// Of that, what these SSDs have a good copy of.
    found_bytes: u64,
    /// What the SSDs say without the state directory, where that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_state: Option<View>,
    problems: Vec<String>,
    /// Why nothing was written although that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// What is to be done after something was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// What is dirty by one word.
#[derive(Clone, Copy, Serialize)]
struct View {
    dirty_bytes: u64,
    good_bytes: u64,
    /// It is what was written, for nothing else was found.
    written: bool,
}

#[derive(Serialize)]
struct Ssd {
    path: String,
    /// Empty: it cannot be read, and none that the pool knows was found at its path.
    uuid: String,
    present: bool,
    member: bool,
    /// It left the pool, and has copies of what is unavailable.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    awaited: bool,
    /// It was given, and why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

#[derive(Serialize)]
struct Volume {
    name: String,
    /// The one that is given for it, else the one that the pool remembers.
    backing: String,
    size_bytes: u64,
    dirty_bytes: u64,
    /// Of them, what the state directory says is unavailable.
    unavailable_bytes: u64,
    /// First byte and length of each stretch.
    dirty_extents: Vec<(u64, u64)>,
    /// It was taken from the pool while that was away: what is dirty of it was discarded.
    #[serde(rename = "given_up", skip_serializing_if = "std::ops::Not::not")]
    discarded: bool,
    /// What was written to its backing device; left out where nothing was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    written_bytes: Option<u64>,
    /// What could not be read when it was to be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_bytes: Option<u64>,
    /// Why it could not be written, or not to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) fn run(output: Output, arguments: &RecoverArguments) -> Result<(), ApiError> {
    // What is left when all else failed asks nothing of the kernel that a container or an administrator may forbid.
    let executor = Executor::new(ExecutorOptions::default()).or_else(|why| {
        tell(&format!("hotset: {why}; going on without it, one transfer after the other"));
        Executor::blocking()
    });
    let executor =
        executor.map_err(|error| ApiError::new(ApiErrorKind::Internal, format!("file descriptors: {error}")))?;
    let directory = arguments.state.clone().unwrap_or_else(paths::state_directory);
    let machine = machine::of_reader(&directory, None);
    let recovery = executor.run(async |env: HostEnv| recover(&env.on_machine(machine), arguments).await)?;
    print(output, &recovery, text)?;
    failure(&recovery).map_or(Ok(()), Err)
}

/// Everything that went wrong, so that nobody who looks at the exit code alone takes it for whole.
fn failure(recovery: &Recovery) -> Option<ApiError> {
    let mut failures = Vec::new();
    for ssd in &recovery.ssds {
        failures.extend(ssd.unreadable.as_ref().map(|reason| format!("SSD {} cannot be read: {reason}", ssd.path)));
    }
    for volume in &recovery.volumes {
        failures.extend(
            volume.error.as_ref().map(|error| format!("volume {} is not written to the end: {error}", volume.name)),
        );
    }
    // Some may have been lost only between the check and the writing.
    let unwritten: u64 = recovery.volumes.iter().filter_map(|volume| volume.lost_bytes).sum();
    let lost_bytes = recovery.lost_bytes.max(unwritten);
    if lost_bytes > 0 {
        failures.push(format!("{} of dirty data cannot be read from any copy", human(lost_bytes)));
    }
    if let Some(refused) = &recovery.refused {
        let message = [failures, vec![refused.clone()]].concat().join("; ");
        return Some(ApiError::new(ApiErrorKind::Refused, message));
    }
    (!failures.is_empty()).then(|| ApiError::new(ApiErrorKind::Device, failures.join("; ")))
}

async fn recover(env: &HostEnv, arguments: &RecoverArguments) -> Result<Recovery, ApiError> {
    let (ssds, unopened) = open_ssds(env, &arguments.ssd).await?;
    if arguments.write {
        // What it has by now is newer, and it writes to the backing devices, too.
        let takeover = if arguments.force { Takeover::Forced } else { Takeover::Own };
        let free = hotset_cache::check_owner(env, &ssds, takeover).await;
        free.map_err(|error| words::error(&error).with_hint(OTHER_MACHINE))?;
    }
    let directory = arguments.state.clone().unwrap_or_else(paths::state_directory);
    let (state, unread) = open_state(env, &directory, arguments.state.is_some(), &ssds).await;
    let is_known = state.is_some();
    let alone = if is_known { without_state(env, &ssds).await } else { None };
    let given = Given { ssds, unopened, state };
    let offline = Offline::open(env.clone(), given).await.map_err(|error| words::error(&error))?;
    let discarded = discarded(&directory, &offline.report().pool, offline.report().pool_uuid);
    if arguments.state.is_some() && !is_known && discarded.doubts.is_empty() {
        return Err(unknown_pool(&directory, &unread));
    }
    check_backings(offline.report(), &arguments.backing)?;
    let dirty = offline.report().volumes.iter().map(|volume| volume.dirty_bytes).sum();
    let bar = fill_bar(dirty, "Checking");
    let verified = offline.verify(|done| bar.set_position(done)).await;
    bar.finish_and_clear();
    let mut recovery = described(offline.report(), &verified, &discarded);
    let more = alone.filter(|(_, alone)| alone.good_bytes > verified.good_bytes);
    let replaces = arguments.write && arguments.force && verified.good_bytes == 0;
    if let Some((_, alone)) = &more {
        let View { dirty_bytes, good_bytes, .. } = View::of(alone, replaces);
        recovery.problems.push(format!(
            "without the state directory, which says that the pool went on without these SSDs, {} are dirty on them, {} with a \
             good copy: hosts may have written newer data since; with --write --force that is written where nothing else is \
             found",
            human(dirty_bytes),
            human(good_bytes)
        ));
        recovery.without_state = Some(View::of(alone, replaces));
    }
    let offline = match more {
        Some((alone, verified)) if replaces => {
            let by_state = recovery;
            recovery = described(alone.report(), &verified, &discarded);
            recovery.problems = by_state.problems;
            recovery.without_state = by_state.without_state;
            alone
        }
        Some(_) | None => offline,
    };
    for BackingOf { volume: name, path } in &arguments.backing {
        let given = recovery.volumes.iter_mut().filter(|volume| volume.name == name.as_str());
        given.for_each(|volume| volume.backing.clone_from(path));
    }
    recovery.problems.extend(unread);
    if arguments.write {
        warn(&recovery);
        let doubts = [&offline.report().doubts[..], &discarded.doubts[..]].concat();
        recovery.refused = refusal(&doubts, arguments.force);
        if recovery.refused.is_none() {
            write_all(env, &offline, arguments, &mut recovery).await;
        }
    }
    Ok(recovery)
}

/// What the SSDs say, whatever the state directory does.
async fn without_state(env: &HostEnv, ssds: &[Named<HostDevice>]) -> Option<(Offline<HostEnv>, Verified)> {
    let again = |ssd: &Named<HostDevice>| Named { path: ssd.path.clone(), device: ssd.device.clone() };
    let ssds: Ssds = ssds.iter().map(again).collect();
    let offline = Offline::open(env.clone(), ssds).await.ok()?;
    let verified = offline.verify(|_| {}).await;
    Some((offline, verified))
}

impl View {
    fn of(verified: &Verified, written: bool) -> Self {
        Self { dirty_bytes: verified.dirty_bytes, good_bytes: verified.good_bytes, written }
    }
}

async fn write_all(env: &HostEnv, offline: &Offline<HostEnv>, arguments: &RecoverArguments, recovery: &mut Recovery) {
    for volume in recovery.volumes.iter_mut().filter(|volume| volume.dirty_bytes > 0) {
        if volume.discarded && !arguments.force {
            let why = "it was taken from the pool while that was away, and what these SSDs hold of it was discarded: its backing \
                       device may be newer; write it all the same with --force";
            volume.error = Some(why.to_owned());
            continue;
        }
        let bar = fill_bar(volume.dirty_bytes, "Writing");
        let applied = write_volume(env, offline, arguments, volume, &bar).await;
        bar.finish_and_clear();
        match applied {
            Ok(applied) => {
                volume.written_bytes = Some(applied.written_bytes);
                volume.lost_bytes = (applied.lost_bytes > 0).then_some(applied.lost_bytes);
            }
            Err(error) => volume.error = Some(error.to_string()),
        }
    }
    recovery.advice = advice(recovery);
}

type Ssds = Vec<Named<HostDevice>>;

/// The SSDs that can be opened, and why the others cannot.
async fn open_ssds(env: &HostEnv, paths: &[PathBuf]) -> Result<(Ssds, Vec<(String, Error)>), ApiError> {
    let (mut ssds, mut unopened) = (Vec::new(), Vec::new());
    for path in paths {
        let path = paths::absolute_backing(&path.to_string_lossy())
            .map_err(|error| ApiError::new(ApiErrorKind::Invalid, format!("SSD {}: {error}", path.display())))?;
        match open_ssd_to_recover(env, &path).await {
            Ok(ssd) => ssds.push(ssd),
            Err(error) => unopened.push((path, error)),
        }
    }
    Ok((ssds, unopened))
}

/// The copy of the pool in the state directory, if that has one; and what of the latter could not be looked at. One that was not
/// asked for need not be there.
async fn open_state(
    env: &HostEnv,
    directory: &Path,
    is_asked_for: bool,
    ssds: &[Named<HostDevice>],
) -> (Option<HostDevice>, Vec<String>) {
    let (mut members, mut unread) = (Vec::new(), Vec::new());
    match paths::files_of_pools(directory, "member") {
        Ok(files) => {
            for file in files {
                match open_member_to_recover(env, &file).await {
                    Ok(member) => members.push(member),
                    Err(error) => unread.push(error.to_string()),
                }
            }
        }
        Err(error) if is_asked_for => unread.push(format!("{}: {error}", directory.display())),
        Err(_) => {}
    }
    let state = offline::state_of_pool(env, ssds, members).await;
    // What is read makes up for what is not.
    let unread = if state.is_some() { Vec::new() } else { unread };
    (state, unread)
}

fn unknown_pool(directory: &Path, unread: &[String]) -> ApiError {
    let reasons: String = unread.iter().map(|reason| format!(" ({reason})")).collect();
    let message = format!(
        "state directory {} has no copy of the pool to which these SSDs belong{reasons}: give another one, or none",
        directory.display()
    );
    ApiError::new(ApiErrorKind::NotFound, message)
}

/// Tells what is wrong while nothing is written yet.
fn warn(recovery: &Recovery) {
    for problem in &recovery.problems {
        tell(&format!("hotset: {}", escaped(problem)));
    }
    if recovery.lost_bytes > 0 {
        tell(&format!("hotset: {} of dirty data cannot be read from any copy", human(recovery.lost_bytes)));
    }
}

/// Why dirty data is not written: what a backing device holds may be newer.
fn refusal(doubts: &[String], force: bool) -> Option<String> {
    if doubts.is_empty() || force {
        return None;
    }
    Some(format!(
        "nothing was written, for newer data than what is found here may be elsewhere: {}. Give what is missing, or write what \
         there is with --force",
        doubts.join("; ")
    ))
}

/// What was written stays dirty on the SSDs, and would be written again.
fn advice(recovery: &Recovery) -> Option<String> {
    let written = recovery.volumes.iter().any(|volume| volume.written_bytes.is_some());
    written.then(|| {
        format!(
            "The SSDs still hold this data as dirty, and a start of the pool may write it again, over what has become of the \
             backing devices until then. Before one of them is used without the pool, delete the pool: hotset pool delete {} \
             --force --yes-lose-data",
            recovery.pool
        )
    })
}

/// Whether a volume is named twice.
pub(crate) fn check_named_once(RecoverArguments { backing: backings, .. }: &RecoverArguments) -> Result<(), ApiError> {
    let is_named_before = |(index, backing): &(usize, &BackingOf)| {
        backings[..*index].iter().any(|before| before.volume == backing.volume)
    };
    backings.iter().enumerate().find(is_named_before).map_or(Ok(()), |(_, backing)| {
        let message = format!("--backing {}=PATH is given twice", backing.volume);
        Err(ApiError::new(ApiErrorKind::Invalid, message))
    })
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

/// Writes a volume's dirty data to its backing device.
async fn write_volume(
    env: &HostEnv,
    offline: &Offline<HostEnv>,
    arguments: &RecoverArguments,
    volume: &Volume,
    bar: &ProgressBar,
) -> Result<Applied, ApiError> {
    let name: VolumeName = volume.name.parse().map_err(|error| words::error(&error))?;
    let spec = VolumeSpec { name: name.clone(), backing: volume.backing.clone(), settings: VolumeSettings::default() };
    let device = open_backing(env, &spec).await.map_err(|error| words::error(&error))?;
    let applied = offline.apply(&name, device, arguments.force, |done| bar.set_position(done)).await;
    applied.map_err(|error| words::error(&error))
}

fn described(report: &Report, verified: &Verified, discarded: &DiscardedCaches) -> Recovery {
    let ssds = report.ssds.iter().map(|ssd| Ssd {
        path: ssd.path.clone(),
        uuid: if ssd.uuid == 0 { String::new() } else { format!("{:032x}", ssd.uuid) },
        present: ssd.present,
        member: ssd.member,
        awaited: ssd.awaited,
        unreadable: ssd.unreadable.clone(),
    });
    let volumes = report.volumes.iter().map(|volume| Volume {
        name: volume.name.to_string(),
        backing: volume.backing.clone(),
        size_bytes: volume.size_bytes,
        dirty_bytes: volume.dirty_bytes,
        unavailable_bytes: volume.unavailable_bytes,
        dirty_extents: volume.dirty_extents.clone(),
        discarded: discarded.has(volume.name.as_str(), &volume.backing),
        written_bytes: None,
        lost_bytes: None,
        error: None,
    });
    let unread = (!report.state_read).then(|| {
        "the state directory's copy of the pool was not read (--state DIR): if the pool went on without these SSDs, only that may \
         know, and what they hold is old"
            .to_owned()
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
        unavailable_bytes: verified.unavailable_bytes,
        found_bytes: verified.found_bytes,
        without_state: None,
        problems: [unread.as_slice(), &report.problems, &discarded.doubts].concat(),
        refused: None,
        advice: None,
    }
}

fn text(recovery: &Recovery) -> String {
    let mut text = String::new();
    let stop = if recovery.clean_stop { "stopped cleanly" } else { "not stopped cleanly" };
    let _ = writeln!(text, "Pool {} ({}), epoch {}, {stop}", recovery.pool, recovery.pool_type, recovery.epoch);
    for ssd in &recovery.ssds {
        let standing = match (&ssd.unreadable, ssd.present, ssd.member) {
            (Some(reason), _, _) => reason,
            (None, true, true) => "here",
            (None, true, false) if ssd.awaited => {
                "left the pool earlier: what is unavailable is believed, and nothing else"
            }
            (None, true, false) => "left the pool earlier: not believed",
            (None, false, false) => "missing; it left the pool, and may have what is unavailable",
            (None, false, true) => "missing",
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
        if volume.discarded {
            text.push_str("    It was taken from the pool while that was away: its dirty data was discarded\n");
        }
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
        if let Some(lost) = volume.lost_bytes {
            let _ = writeln!(text, "    {} not written: no copy of it can be read", human(lost));
        }
        if let Some(error) = &volume.error {
            let _ = writeln!(text, "    Not written to the end: {error}");
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
    if recovery.unavailable_bytes > 0 {
        let _ = writeln!(
            text,
            "Unavailable, by the state directory: {}; these SSDs have {} of it, as hosts wrote it last",
            human(recovery.unavailable_bytes),
            human(recovery.found_bytes)
        );
    }
    for problem in &recovery.problems {
        let _ = writeln!(text, "Problem: {problem}");
    }
    let untouched = |volume: &Volume| volume.written_bytes.is_none() && volume.error.is_none();
    if recovery.dirty_bytes > 0 && recovery.refused.is_none() && recovery.volumes.iter().all(untouched) {
        text.push_str("Nothing was written. With --write, dirty data goes to the backing devices.\n");
    }
    if let Some(advice) = &recovery.advice {
        let _ = writeln!(text, "{advice}");
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
        let path = if EmulatedArraySpec::is_spelled_by(path) || Path::new(path).is_absolute() {
            path.to_owned()
        } else {
            crate::paths::absolute(Path::new(path)).map_err(|error| error.to_string())?
        };
        Ok(Self { volume, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovery(volume: Volume) -> Recovery {
        Recovery {
            pool: "p".to_owned(),
            pool_uuid: String::new(),
            pool_type: "read-write",
            epoch: 1,
            clean_stop: false,
            ssds: Vec::new(),
            volumes: vec![volume],
            dirty_bytes: 8192,
            good_bytes: 8192,
            one_copy_bytes: 0,
            lost_bytes: 0,
            unavailable_bytes: 0,
            found_bytes: 0,
            without_state: None,
            problems: Vec::new(),
            refused: None,
            advice: None,
        }
    }

    fn volume() -> Volume {
        Volume {
            name: "v".to_owned(),
            backing: "/dev/v".to_owned(),
            size_bytes: 1 << 20,
            dirty_bytes: 8192,
            unavailable_bytes: 0,
            dirty_extents: vec![(0, 8192)],
            discarded: false,
            written_bytes: Some(8192),
            lost_bytes: None,
            error: None,
        }
    }

    #[test]
    fn what_is_lost_between_the_check_and_the_writing_is_told_and_is_a_failure() {
        assert!(failure(&recovery(volume())).is_none());
        let recovery = recovery(Volume { written_bytes: Some(4096), lost_bytes: Some(4096), ..volume() });
        assert!(failure(&recovery).is_some_and(|error| error.to_string().contains("4 KiB of dirty data")));
        let shown = text(&recovery);
        assert!(shown.contains("4 KiB not written"), "{shown}");
    }

    #[test]
    fn doubts_refuse_the_writing_unless_it_is_forced() {
        let doubts = ["no copy of row 3 is there".to_owned()];
        assert!(
            refusal(&doubts, false).is_some_and(|refused| refused.contains("row 3") && refused.contains("--force"))
        );
        assert_eq!((refusal(&doubts, true), refusal(&[], false)), (None, None));
    }
}
