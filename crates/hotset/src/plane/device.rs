//! Opens devices by the spelling that administrators use. Who keeps one may take its time: nobody else waits for that.

use std::fs::OpenOptions;
use std::path::Path;

use hotset_block::emulated::{EmulatedArray, EmulatedArraySpec, EmulatedSsd, EmulatedSsdSpec, SpellingError};
use hotset_block::{Device, DeviceErrorKind, FileDevice, FileOptions, HostDevice, HostEnv, OpenError, apart};
use hotset_cache::config::VolumeSpec;
use hotset_cache::{Error, ErrorKind, LABEL_BYTES, Named, STATE_BYTES};

use crate::state_file;

/// The smallest logical block.
const SECTOR_BYTES: u32 = 512;
const FOR_US_ALONE: FileOptions = FileOptions { read_only: false, claimed: true, to_the_end: false };
/// Nothing is written to it, and nobody else has it.
const CLAIMED_TO_READ: FileOptions = FileOptions { read_only: true, claimed: true, to_the_end: false };

/// A block device or image file that a pool uses, or an emulated SSD. One that is write-protected is opened to be read: it may
/// have what no other SSD has.
pub(crate) async fn open_ssd(env: &HostEnv, path: &str) -> Result<Named<HostDevice>, Error> {
    let device = match open_file_or_ssd(env, path, FOR_US_ALONE, "SSD").await {
        Err(error) if error.kind == ErrorKind::ReadOnly => open_file_or_ssd(env, path, CLAIMED_TO_READ, "SSD").await?,
        opened => opened?,
    };
    Ok(Named { path: path.to_owned(), device })
}

async fn open_file_or_ssd(env: &HostEnv, path: &str, options: FileOptions, what: &str) -> Result<HostDevice, Error> {
    if EmulatedSsdSpec::is_spelled_by(path) {
        let spec: EmulatedSsdSpec =
            path.parse().map_err(|error: SpellingError| Error::new(ErrorKind::Invalid, format!("{what}: {error}")))?;
        let ssd = EmulatedSsd::open(env, &spec, FileOptions { to_the_end: false, ..options })
            .await
            .map_err(|error| of_open(what, &error))?;
        return Ok(HostDevice::EmulatedSsd(ssd));
    }
    let device = FileDevice::open_apart(env, Path::new(path), options).await.map_err(|error| of_open(what, &error))?;
    Ok(HostDevice::File(device))
}

/// A block device or image file that is only looked at.
pub(super) async fn open_to_look(env: &HostEnv, path: &str) -> Result<HostDevice, Error> {
    open_file_or_ssd(env, path, FileOptions { read_only: true, claimed: false, to_the_end: false }, "SSD").await
}

/// A block device or image file of a pool that no daemon runs. It may be write-protected.
pub(crate) async fn open_ssd_to_recover(env: &HostEnv, path: &str) -> Result<Named<HostDevice>, Error> {
    let device = open_file_or_ssd(env, path, CLAIMED_TO_READ, "SSD").await?;
    if device.info().size_bytes < u64::try_from(LABEL_BYTES).expect("an address has 64 bits at most") {
        let message = format!("{path} is too short for an SSD of a pool: it carries no Hotset superblock");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(Named { path: path.to_owned(), device })
}

/// The state directory's copy of a pool that no daemon runs.
pub(crate) async fn open_member_to_recover(env: &HostEnv, path: &Path) -> Result<HostDevice, Error> {
    let device = FileDevice::open_apart(env, path, CLAIMED_TO_READ)
        .await
        .map_err(|error| of_open("state of the pool", &error))?;
    Ok(HostDevice::File(device))
}

/// The state directory's copy of a pool, which is only looked at.
pub(super) async fn open_member_to_look(env: &HostEnv, path: &Path) -> Result<HostDevice, Error> {
    let options = FileOptions { read_only: true, claimed: false, to_the_end: false };
    let device =
        FileDevice::open_apart(env, path, options).await.map_err(|error| of_open("state of the pool", &error))?;
    Ok(HostDevice::File(device))
}

/// The state directory's copy of a pool.
pub(super) async fn open_member(env: &HostEnv, path: &Path) -> Result<HostDevice, Error> {
    let lengthened = path.to_owned();
    let unanswered = |error| Error::new(ErrorKind::Gone, format!("state of the pool, {}: {error}", path.display()));
    apart(env, move || lengthen_member(&lengthened)).await.map_err(unanswered)??;
    let device =
        FileDevice::open_apart(env, path, FOR_US_ALONE).await.map_err(|error| of_open("state of the pool", &error))?;
    Ok(HostDevice::File(device))
}

/// Older versions made it shorter, without room for losses. Where it cannot grow the pool does without that.
///
/// # Errors
/// It is no file that can be written.
fn lengthen_member(path: &Path) -> Result<(), Error> {
    let unusable =
        |error: std::io::Error| Error::new(ErrorKind::Gone, format!("state of the pool, {}: {error}", path.display()));
    let file = state_file::open(path, OpenOptions::new().read(true).write(true)).map_err(unusable)?;
    let grown = match file.metadata().map_err(unusable)?.len() {
        1..STATE_BYTES => file.set_len(STATE_BYTES),
        _ => Ok(()),
    };
    if let Err(error) = grown {
        tracing::warn!("{}: {error}", path.display());
    }
    Ok(())
}

/// The device that holds a volume's data.
pub(crate) async fn open_backing(env: &HostEnv, spec: &VolumeSpec) -> Result<HostDevice, Error> {
    let read_only = spec.settings.read_only;
    let options = FileOptions { read_only, claimed: !read_only, to_the_end: true };
    if EmulatedArraySpec::is_spelled_by(&spec.backing) {
        return open_emulated(env, &spec.backing, options).await;
    }
    open_file_or_ssd(env, &spec.backing, options, "backing device").await
}

/// The logical block of a new volume over `device`, if nobody chose one: the device's, or one that its size allows.
pub(super) fn block_of(device: &HostDevice) -> u32 {
    let info = device.info();
    match info.size_bytes.is_multiple_of(u64::from(info.logical_block_bytes)) {
        true => info.logical_block_bytes,
        false => SECTOR_BYTES,
    }
}

/// Refuses to serve less than the whole of a device.
pub(super) fn check_whole(device: &HostDevice, path: &str, block_bytes: u32) -> Result<(), Error> {
    let (end_bytes, usable_bytes) = (device.end_bytes(), device.info().size_bytes);
    let served_bytes = usable_bytes - usable_bytes % u64::from(block_bytes);
    if served_bytes >= end_bytes {
        return Ok(());
    }
    let smaller = usable_bytes >= end_bytes && block_bytes > SECTOR_BYTES;
    let advice = if smaller { "choose --block 512" } else { "give it a whole number of them" };
    let message = format!(
        "backing device {path} has {end_bytes} bytes, which is no multiple of blocks of {block_bytes} bytes: its last {} bytes \
         would not be served: {advice}",
        end_bytes - served_bytes
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

async fn open_emulated(env: &HostEnv, spelling: &str, options: FileOptions) -> Result<HostDevice, Error> {
    let spec: EmulatedArraySpec = spelling
        .parse()
        .map_err(|error: SpellingError| Error::new(ErrorKind::Invalid, format!("backing device: {error}")))?;
    let array = EmulatedArray::open(env, &spec, FileOptions { to_the_end: false, ..options })
        .await
        .map_err(|error| of_open("backing device", &error))?;
    Ok(HostDevice::Emulated(array))
}

/// As an error of the engine; `what` says what was to be opened.
pub(crate) fn of_open(what: &str, error: &OpenError) -> Error {
    let kind = match error.kind {
        DeviceErrorKind::Media => ErrorKind::Media,
        DeviceErrorKind::Gone => ErrorKind::Gone,
        DeviceErrorKind::Full => ErrorKind::Full,
        DeviceErrorKind::ReadOnly => ErrorKind::ReadOnly,
        DeviceErrorKind::Unsupported => ErrorKind::Unsupported,
        DeviceErrorKind::OutOfRange => ErrorKind::Invalid,
        DeviceErrorKind::Busy => ErrorKind::Refused,
    };
    Error::new(kind, format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use hotset_block::{Device, Executor, ExecutorOptions};

    use super::*;

    #[test]
    fn an_ssd_is_recovered_from_without_a_right_to_write_to_it_and_not_while_a_daemon_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ssd");
        fs::write(&path, vec![0; 1 << 20]).unwrap();
        let spelling = path.to_str().unwrap();
        Executor::new(ExecutorOptions::default()).unwrap().run(async |env| {
            let daemon = open_ssd(&env, spelling).await.unwrap();
            let refused = open_ssd_to_recover(&env, spelling).await.err().unwrap();
            assert_eq!(refused.kind, ErrorKind::Refused, "{refused}");
            drop(daemon);
            fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
            let ssd = open_ssd_to_recover(&env, spelling).await.unwrap();
            assert!(ssd.device.info().read_only);
            assert!(open_ssd(&env, spelling).await.is_err(), "no daemon takes it meanwhile");
        });
    }
}
