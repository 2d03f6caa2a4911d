//! Volumes as block devices of this machine: `/dev/hotset/NAME` is there as long as the volume is to be one, whatever becomes of the
//! daemon meanwhile.
//!
//! A device is known to its driver by an identifier that is recorded before the device is made. So one that a daemon of before left
//! behind, waiting, is found again, and goes on. What ends a device's connection is noticed within a second, and mended by another
//! connection. A clean stop ends devices that nobody uses; others wait for the next daemon.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind, ConditionKind, Subject, SubjectKind};
use hotset_block::{Footprint, User, holder_of, keep_memory};
use hotset_cache::VolumeStatus;
use hotset_serve::Link;
use hotset_serve::local::{DriverError, LocalDevice, LocalDriver, kernel_nbd, ublk};

use ring::rand::{SecureRandom, SystemRandom};

use super::locals::{Fetched, Local};
use super::records::Records;
use crate::daemon::blocking::blocking;
use crate::daemon::naming::uuid;
use crate::daemon::state::{LocalRecord, StateDirectory};
use crate::plane::Snapshot;
use crate::udev;

/// Where the devices are found by the names of their volumes.
const FOLDER: &str = "/dev/hotset";

/// How often connections are looked after.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often a device is looked at before it is said that it is in use, and how long after one another: udev looks at each new one.
const LOOKS_FOR_HOLDERS: u32 = 6;
const HOLDER_INTERVAL: Duration = Duration::from_millis(100);

/// How long udev may take to know a device.
const UDEV_LIMIT: Duration = Duration::from_secs(5);

/// See the file's summary.
pub(crate) struct LocalDevices {
    pub(crate) records: Arc<Records>,
    /// Held while devices are made, mended or ended.
    working: tokio::sync::Mutex<()>,
    keeps_memory: AtomicBool,
}

impl LocalDevices {
    pub(crate) fn new(records: Arc<Records>) -> Self {
        Self { records, working: tokio::sync::Mutex::default(), keeps_memory: AtomicBool::new(false) }
    }

    /// Keeps devices connected, for as long as the daemon runs.
    pub(crate) async fn keep_connected(self: Arc<Self>) {
        loop {
            self.connect_all().await;
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Connects every device whose volume is served, and waits until udev knows them, if it runs.
    pub(crate) async fn start(&self) {
        self.connect_all().await;
        let devices: Vec<u64> = self.devices().into_iter().map(|(_, device)| device.number).collect();
        let _ = blocking(move || udev::wait_for_local_devices(&devices, UDEV_LIMIT)).await;
    }

    async fn connect_all(&self) {
        if self.records.locals.all().is_empty() {
            return;
        }
        let _alone = self.working.lock().await;
        let Ok(snapshot) = self.records.plane.snapshot().await else { return };
        self.follow_renames(&snapshot);
        for local in self.records.locals.all() {
            if self.records.stopping.load(Ordering::Relaxed) {
                return;
            }
            let name = &local.record.volume;
            // A volume that is not open says why by itself.
            let Some(volume) = snapshot.volumes.iter().find(|volume| volume.name.as_str() == name) else { continue };
            if volume.backing != local.record.backing {
                // What is mounted there would go on with other data.
                let refused: Result<(), _> = Err(other_volume(&local, volume));
                self.records.register.follow_for(ConditionKind::LocalDevice, of_volume(name), &refused);
                continue;
            }
            let is_connected = snapshot.connections.iter().any(|(connection, _)| {
                connection.link == Link::LocalDevice && connection.export.as_deref() == Some(name)
            });
            let outcome = match (is_connected, &local.device) {
                (true, Some(device)) => self.follow_size(&local, device, volume).await,
                (true, None) | (false, _) => self.connect(&local, volume).await,
            };
            self.records.register.follow_for(ConditionKind::LocalDevice, of_volume(name), &outcome);
        }
    }

    /// A crash came between a volume's getting another name and the record of that.
    fn follow_renames(&self, snapshot: &Snapshot) {
        for Local { record, .. } in self.records.locals.all() {
            let is_named = |name: &str| snapshot.volumes.iter().any(|volume| volume.name.as_str() == name);
            let renamed = snapshot.volumes.iter().find(|volume| volume.backing == record.backing);
            if let Some(renamed) = renamed.filter(|_| !is_named(&record.volume)) {
                self.rename_now(&record.volume, renamed.name.as_str());
            }
        }
    }

    /// Has the volume serve its device, which is made if there is none, and has that found by the volume's name.
    async fn connect(&self, local: &Local, volume: &VolumeStatus) -> Result<(), ApiError> {
        let (record, identifier) = (&local.record, local.record.identifier.clone());
        let driver = blocking(move || {
            let found = LocalDevice::find(&identifier)?;
            Ok(found.map_or_else(LocalDriver::for_new_devices, |device| device.driver))
        });
        let driver = driver.await?.map_err(|error| driver_error(&record.volume, &error))?;
        let connected = match driver {
            LocalDriver::Ublk => self.connect_ublk(local, volume).await?,
            LocalDriver::KernelNbd => self.connect_kernel_nbd(record, volume).await?,
        };
        // It is about to be served, or fenced.
        let Some(device) = connected else { return Ok(()) };
        link(&record.volume, &device.path).map_err(|error| device_error(&record.volume, &error.to_string()))?;
        let path = device.path.display();
        tracing::info!(volume = record.volume, "is {path}, and {FOLDER}/{}", record.volume);
        self.records.locals.is_at(&record.volume, Some(device));
        self.keep_memory();
        Ok(())
    }

    /// Gives the driver another connection to the volume.
    async fn connect_kernel_nbd(
        &self,
        record: &LocalRecord,
        volume: &VolumeStatus,
    ) -> Result<Option<LocalDevice>, ApiError> {
        let failed = |error: io::Error| device_error(&record.volume, &error.to_string());
        let (ours, drivers) = UnixStream::pair().map_err(failed)?;
        let name = volume.name.clone();
        let thread = self.records.plane.of_volume(&volume.name);
        let served = thread.call(move |plane| plane.serve_local(name, ours)).await?;
        let Some(export) = served else { return Ok(None) };
        let identifier = record.identifier.clone();
        let attached = blocking(move || kernel_nbd::attach(&identifier, &export, &drivers)).await?;
        attached.map(Some).map_err(|error| driver_error(&record.volume, &error))
    }

    /// Serves the requests of the device, which are fetched if they are not.
    async fn connect_ublk(&self, local: &Local, volume: &VolumeStatus) -> Result<Option<LocalDevice>, ApiError> {
        let fetched = match local.fetched.clone().filter(|fetched| fetched.requests.are_fetched()) {
            Some(fetched) => fetched,
            None => match self.fetch(&local.record, volume).await? {
                Some(fetched) => fetched,
                None => return Ok(None),
            },
        };
        let (name, requests) = (volume.name.clone(), fetched.requests.clone());
        let thread = self.records.plane.of_volume(&volume.name);
        // Where it is served, what comes behind that has failed the last time.
        if !fetched.requests.are_served() && !thread.call(move |plane| plane.serve_fetched(name, requests)).await? {
            return Ok(None);
        }
        let identifier = local.record.identifier.clone();
        let Some(start) = fetched.start else {
            let found = blocking(move || LocalDevice::find(&identifier)).await?;
            return found.map_err(|error| driver_error(&local.record.volume, &error));
        };
        let started = blocking(move || start.run()).await?;
        let disk = started.map_err(|error| driver_error(&local.record.volume, &error))?;
        let requests = fetched.requests;
        self.records.locals.fetches(&local.record.volume, Some(Fetched { requests, start: None }));
        Ok(Some(disk.into()))
    }

    /// Takes over the device of a daemon before, or makes one, and fetches its requests.
    async fn fetch(&self, record: &LocalRecord, volume: &VolumeStatus) -> Result<Option<Fetched>, ApiError> {
        let name = volume.name.clone();
        let thread = self.records.plane.of_volume(&volume.name);
        let told = thread.call(move |plane| plane.local_export(name)).await?;
        let Some(export) = told else { return Ok(None) };
        let identifier = record.identifier.clone();
        let prepared = blocking(move || ublk::prepare(&identifier, &export)).await?;
        let prepared = prepared.map_err(|error| driver_error(&record.volume, &error))?;
        let start = prepared.start();
        mark(&start.device_name()).map_err(|error| device_error(&record.volume, &error.to_string()))?;
        let name = volume.name.clone();
        let requests = thread.call(move |plane| plane.fetch_local(name, prepared)).await?;
        let fetched = Fetched { requests, start: Some(start) };
        self.records.locals.fetches(&record.volume, Some(fetched.clone()));
        Ok(Some(fetched))
    }

    /// The device of a volume that has grown grows.
    async fn follow_size(&self, local: &Local, device: &LocalDevice, volume: &VolumeStatus) -> Result<(), ApiError> {
        let (record, driver, size_bytes) = (&local.record, device.driver, volume.size_bytes);
        if device.size_bytes == size_bytes {
            return Ok(());
        }
        let (identifier, block_bytes) = (record.identifier.clone(), volume.settings.logical_block_bytes);
        match blocking(move || driver.resize(&identifier, size_bytes, block_bytes)).await? {
            Err(DriverError::FixedSize) if matches!(holder_now(local).await, Ok(None)) => {
                // Nobody uses it: another one takes its place.
                self.end(local).await?;
                self.connect(&Local::new(record.clone()), volume).await?;
            }
            Err(error) => return Err(driver_error(&record.volume, &error)),
            Ok(()) => {
                self.records.locals.is_at(&record.volume, Some(LocalDevice { size_bytes, ..device.clone() }));
            }
        }
        tracing::info!(volume = record.volume, size_bytes, "its local device has grown with it");
        Ok(())
    }

    /// What a local device has not written yet must not be swapped against memory that is needed to write it.
    fn keep_memory(&self) {
        if self.keeps_memory.swap(true, Ordering::Relaxed) {
            return;
        }
        match keep_memory() {
            Ok(true) => tracing::info!("a local device is served: the daemon's memory is kept from being swapped out"),
            Ok(false) => tracing::warn!(
                "a local device is served, and the daemon's memory may be swapped out: raise the limit of locked memory (LimitMEMLOCK=)"
            ),
            Err(error) => {
                tracing::warn!("a local device is served, and the daemon's memory may be swapped out: {error}")
            }
        }
    }

    /// Makes a volume a block device, over restarts too. False: it is one.
    pub(crate) async fn enable(&self, volume: &VolumeStatus) -> Result<bool, ApiError> {
        let name = volume.name.to_string();
        let _alone = self.working.lock().await;
        if self.records.locals.of_volume(&name).is_some() {
            return Ok(false);
        }
        let identifier = new_identifier().map_err(|error| device_error(&name, &error))?;
        let record = LocalRecord { volume: name.clone(), backing: volume.backing.clone(), identifier };
        self.records.locals.add(record.clone());
        let done = match self.save() {
            Ok(()) => self.connect(&Local::new(record.clone()), volume).await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            if let Some(begun) = self.records.locals.of_volume(&name) {
                // Why it did not succeed is more worth telling.
                let _ = self.end(&begun).await;
            }
            self.records.locals.remove(&name);
            // The next start would only find a device that it cannot make, and say so.
            let _ = self.save();
            return Err(error);
        }
        Ok(true)
    }

    /// Whether a volume could be given a block device here; changes nothing.
    ///
    /// # Errors
    /// The kernel has no driver for it.
    pub(crate) async fn check_possible(&self, volume: &str) -> Result<(), ApiError> {
        if self.records.locals.of_volume(volume).is_some() {
            return Ok(());
        }
        blocking(LocalDriver::check_is_there).await?.map_err(|error| driver_error(volume, &error))
    }

    /// Ends a volume's block device. False: it has none.
    ///
    /// # Errors
    /// Somebody uses it, and `force` does not say that those may get errors.
    pub(crate) async fn disable(&self, volume: &str, force: bool) -> Result<bool, ApiError> {
        let _alone = self.working.lock().await;
        let Some(local) = self.records.locals.of_volume(volume) else { return Ok(false) };
        if !force {
            self.check_unheld(volume).await?;
        }
        self.end(&local).await?;
        self.records.locals.remove(volume);
        self.records.register.clear_for(ConditionKind::LocalDevice, of_volume(volume));
        self.save()?;
        Ok(true)
    }

    /// Refuses what would take its device from somebody who uses it.
    pub(crate) async fn check_unheld(&self, volume: &str) -> Result<(), ApiError> {
        let Some(local) = self.records.locals.of_volume(volume) else { return Ok(()) };
        let mut holder = None;
        for look in 0..LOOKS_FOR_HOLDERS {
            if look > 0 {
                tokio::time::sleep(HOLDER_INTERVAL).await;
            }
            holder = holder_now(&local).await?;
            if holder.is_none() {
                return Ok(());
            }
        }
        let Some((path, user)) = holder else { return Ok(()) };
        let message = format!("volume {volume}: its local device {} is in use: {user}", path.display());
        Err(ApiError::new(ApiErrorKind::InUse, message)
            .with_hint("--force takes it away all the same: whoever uses it gets errors"))
    }

    async fn end(&self, local: &Local) -> Result<(), ApiError> {
        let (identifier, volume) = (local.record.identifier.clone(), local.record.volume.clone());
        if let Some(fetched) = &local.fetched {
            fetched.requests.refuse();
        }
        let ended = blocking(move || {
            let found = LocalDevice::find(&identifier)?;
            let ended = LocalDevice::end(&identifier);
            unlink(&volume);
            if let Some(name) = found.as_ref().and_then(|device| device.path.file_name()) {
                unmark(&name.to_string_lossy());
            }
            ended
        });
        ended.await?.map_err(|error| driver_error(&local.record.volume, &error))?;
        self.records.locals.is_at(&local.record.volume, None);
        self.records.locals.fetches(&local.record.volume, None);
        Ok(())
    }

    /// At a clean stop, before volumes are closed: programs that only look at a device would wait for the next daemon.
    pub(crate) async fn end_unheld(&self) {
        let _alone = self.working.lock().await;
        for local in self.records.locals.all() {
            if matches!(holder_now(&local).await, Ok(None))
                && let Err(error) = self.end(&local).await
            {
                tracing::warn!("{error}");
            }
        }
    }

    /// The device of a volume that has another name is found by that.
    pub(crate) async fn rename(&self, from: &str, to: &str) {
        let _alone = self.working.lock().await;
        self.rename_now(from, to);
    }

    fn rename_now(&self, from: &str, to: &str) {
        if !self.records.locals.rename(from, to) {
            return;
        }
        unlink(from);
        if let Some(device) = self.records.locals.of_volume(to).and_then(|local| local.device)
            && let Err(error) = link(to, &device.path)
        {
            tracing::warn!(volume = to, "{FOLDER}/{to}: {error}");
        }
        // By its backing device it is found again.
        if let Err(error) = self.save() {
            tracing::warn!("{error}");
        }
    }

    fn devices(&self) -> Vec<(String, LocalDevice)> {
        let all = self.records.locals.all();
        all.into_iter().filter_map(|local| Some((local.record.volume, local.device?))).collect()
    }

    fn save(&self) -> Result<(), ApiError> {
        let saved = self.records.state.write_locals(&self.records.locals.records());
        saved.map_err(|error| self.records.state_failed(&error))
    }
}

/// Where programs find the device of a volume.
pub(crate) fn path_of(volume: &str) -> String {
    format!("{FOLDER}/{volume}")
}

/// Refuses a state directory that lies on a device that only the daemon itself would bring back.
///
/// # Errors
/// A message for people.
pub(crate) fn check_state_directory(state: &StateDirectory) -> Result<(), String> {
    let own =
        state.locals().into_iter().filter_map(|record| Some((LocalDevice::find(&record.identifier).ok()??, record)));
    for (device, record) in own {
        if Footprint::lies_on(state.path(), device.number).unwrap_or(false) {
            return Err(format!(
                "state directory {}: it lies on {}, the local device of volume {}, which needs this daemon: put it elsewhere",
                state.path().display(),
                device.path.display(),
                record.volume
            ));
        }
    }
    Ok(())
}

/// Which local device of this daemon something lies on. Blocking.
pub(crate) fn local_device_under(path: &Path, locals: &[Local]) -> Option<String> {
    let mut devices = locals.iter().filter_map(|local| Some((local.device.as_ref()?, &local.record.volume)));
    let (device, volume) = devices.find(|(device, _)| Footprint::lies_on(path, device.number).unwrap_or(false))?;
    Some(format!(
        "it lies on {}, the local device of volume {volume}, which this daemon serves: it would wait for itself",
        device.path.display()
    ))
}

async fn holder_now(local: &Local) -> Result<Option<(PathBuf, User)>, ApiError> {
    let identifier = local.record.identifier.clone();
    let found = blocking(move || {
        let Some(device) = LocalDevice::find(&identifier)? else { return Ok(None) };
        match holder_of(&device.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            looked => Ok(looked?.map(|user| (device.path, user))),
        }
    });
    found.await?.map_err(|error| driver_error(&local.record.volume, &error))
}

/// Each device says itself who may use it: what leads there is open to all, whatever the daemon's umask is.
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

fn link(volume: &str, device: &Path) -> io::Result<()> {
    let path = Path::new(FOLDER).join(volume);
    if fs::read_link(&path).is_ok_and(|to| to == device) {
        return Ok(());
    }
    make_folder(Path::new(FOLDER))?;
    unlink(volume);
    symlink(device, &path)
}

/// udev's rules know a device of ublk as ours by this: the driver has no room for more than its number.
fn mark(device: &str) -> io::Result<()> {
    make_folder(Path::new(FOLDER))?;
    fs::write(mark_of(device), [])
}

/// What is not there is gone.
fn unmark(device: &str) {
    let _ = fs::remove_file(mark_of(device));
}

fn mark_of(device: &str) -> PathBuf {
    Path::new(FOLDER).join(format!(".{device}"))
}

/// What is not there is gone.
fn unlink(volume: &str) {
    let path = Path::new(FOLDER).join(volume);
    if path.is_symlink() {
        let _ = fs::remove_file(path);
    }
}

fn new_identifier() -> Result<String, String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the kernel gives no random bytes".to_owned())?;
    Ok(format!("hotset:{}", uuid(u128::from_be_bytes(bytes))))
}

fn of_volume(name: &str) -> Subject {
    Subject::new(SubjectKind::Volume, name)
}

fn device_error(volume: &str, why: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Device, format!("volume {volume}: its local device: {why}"))
}

/// Another volume has the name of the one whose device it is.
fn other_volume(local: &Local, volume: &VolumeStatus) -> ApiError {
    let LocalRecord { volume: name, backing, .. } = &local.record;
    let message = format!(
        "volume {name}: its local device belongs to a volume with the backing device {backing}, and this one has {}",
        volume.backing
    );
    ApiError::new(ApiErrorKind::Refused, message).with_hint(format!(
        "`hotset volume set {name} local=off` takes the device away; then local=on makes one for this volume"
    ))
}

fn driver_error(volume: &str, error: &DriverError) -> ApiError {
    let message = format!("volume {volume}: its local device: {error}");
    match error {
        DriverError::Missing => ApiError::new(ApiErrorKind::Unsupported, message).with_hint(
            "`modprobe ublk_drv` or `modprobe nbd` loads one (hotset.service does so by itself); without it hosts reach the volume over \
             NBD as before",
        ),
        DriverError::FixedSize => ApiError::new(ApiErrorKind::Unsupported, message).with_hint(
            "end its use (`umount`), and it has the volume's size within a second; from Linux 6.16 on it grows while it is in use",
        ),
        DriverError::Refused(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
            ApiError::new(ApiErrorKind::Device, message)
                .with_hint("the daemon needs the capability CAP_SYS_ADMIN for it")
        }
        DriverError::Refused(_) => {
            ApiError::new(ApiErrorKind::Device, message).with_hint("see what the kernel says of it: `dmesg`")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: H3
    #[test]
    fn the_folder_of_local_devices_is_open_to_all() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("hotset");
        fs::create_dir(&folder).unwrap();
        // As the service's umask makes it.
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        make_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
