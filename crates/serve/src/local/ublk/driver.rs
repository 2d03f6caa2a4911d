//! How a device is made, found, changed and ended. Everything here blocks, for as long as the kernel takes.
//!
//! A device is made in three steps, of which the second is the data plane's: [`prepare`], fetching its requests, and
//! [`PreparedUblk::start`], which lets programs use it.

use std::io;
use std::thread;
use std::time::Duration;

use hotset_block::{UblkCommand, UblkControl, UblkDisk, UblkQueue};

use super::wire::{self, DeviceInfo, Features, State, command};
use crate::exports::ExportInfo;
use crate::local::driver::DriverError;

/// How often, and how far apart, it is tried to take over a device: its last server may be about to end.
const TRIES: u32 = 200;
const TRY_PAUSE: Duration = Duration::from_millis(50);

/// Of a command that is about no device.
const NO_DEVICE: u32 = u32::MAX;

/// A device whose requests can be fetched, and which no program can use before that.
pub struct PreparedUblk {
    pub(super) queue: UblkQueue,
    start: Start,
}

/// What lets programs use a device when its requests are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    command: u32,
    device: u32,
}

impl PreparedUblk {
    pub fn start(&self) -> Start {
        self.start
    }
}

impl Start {
    /// What the block device is called.
    pub fn device_name(self) -> String {
        format!("ublkb{}", self.device)
    }

    /// Lets programs use the device.
    ///
    /// # Errors
    /// See [`DriverError`]; its requests are not fetched.
    pub fn run(self) -> Result<UblkDisk, DriverError> {
        let process = u64::from(std::process::id());
        let mut driver = Driver::open()?;
        if let Err(error) = driver.command(self.command, self.device, process) {
            // It may have been done the last time, after nobody waited for that any more.
            if !driver.info(self.device).is_ok_and(|info| info.state == State::Live) {
                return Err(error);
            }
        }
        UblkDisk::of(self.device).ok_or_else(|| io::Error::other("its device did not appear in /sys/block").into())
    }
}

/// Whether the kernel has such a driver, and it can do what we need.
pub(crate) fn is_there() -> bool {
    UblkControl::is_there() && Driver::open().is_ok()
}

pub(crate) fn find(identifier: &str) -> Result<Option<UblkDisk>, DriverError> {
    let mut driver = match Driver::open() {
        // Who may not ask has made none.
        Err(DriverError::Refused(error)) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(DriverError::Missing) => return Ok(None),
        opened => opened?,
    };
    let Some(mark) = mark_of(identifier) else { return Ok(None) };
    Ok(driver.find(mark)?.and_then(|found| UblkDisk::of(found.device)))
}

/// The device that is known by `identifier`, waiting for its server, or a new one.
pub(crate) fn prepare(identifier: &str, export: &ExportInfo) -> Result<PreparedUblk, DriverError> {
    let mut driver = Driver::open()?;
    let mark = mark_of(identifier).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    if let Some(found) = driver.find(mark)? {
        if found.state != State::Dead {
            driver.take_over(found.device)?;
            let queue = UblkQueue::open(found.device, found.depth)?;
            return Ok(PreparedUblk { queue, start: Start { command: command::END_RECOVERY, device: found.device } });
        }
        // Somebody made it and came no further.
        driver.delete(found.device)?;
    }
    let made = driver.with_memory(command::ADD, NO_DEVICE, DeviceInfo::new_device(mark))?;
    let device = understood(DeviceInfo::decode(&made))?.device;
    let begun = driver.begin(device, export);
    if begun.is_err() {
        // What is wrong is known already.
        let _ = driver.delete(device);
    }
    begun
}

pub(crate) fn resize(identifier: &str, size_bytes: u64) -> Result<(), DriverError> {
    let mut driver = Driver::open()?;
    if !driver.features.can_resize() {
        return Err(DriverError::FixedSize);
    }
    let found = mark_of(identifier).map_or(Ok(None), |mark| driver.find(mark))?;
    let device = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?.device;
    driver.command(command::UPDATE_SIZE, device, wire::sectors(size_bytes))
}

pub(crate) fn detach(identifier: &str) -> Result<(), DriverError> {
    let mut driver = Driver::open()?;
    let Some(found) = mark_of(identifier).map_or(Ok(None), |mark| driver.find(mark))? else { return Ok(()) };
    driver.command(command::STOP, found.device, 0)?;
    driver.delete(found.device)
}

/// By what the driver keeps a device: sixty-four of the bits by which it is known. `None`: it is none of ours.
fn mark_of(identifier: &str) -> Option<u64> {
    let digits: String = identifier.chars().filter(char::is_ascii_hexdigit).collect();
    let last = digits.get(digits.len().checked_sub(16)?..)?;
    u64::from_str_radix(last, 16).ok().filter(|mark| *mark != 0)
}

/// A way to the driver, which can do what our devices need.
struct Driver {
    /// `None` while a command is under way, and after one that was not answered.
    control: Option<UblkControl>,
    features: Features,
}

impl Driver {
    fn open() -> Result<Self, DriverError> {
        let control = match UblkControl::open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(DriverError::Missing),
            opened => opened?,
        };
        let ask = UblkCommand { number: command::FEATURES, device: NO_DEVICE, value: 0 };
        // One that cannot say what it can do is too old.
        let Ok((control, features)) = control.command(&ask, vec![0; Features::BYTES]) else {
            return Err(DriverError::Missing);
        };
        let features = understood(Features::decode(&features))?;
        if features.suffice() { Ok(Self { control: Some(control), features }) } else { Err(DriverError::Missing) }
    }

    fn command(&mut self, number: u32, device: u32, value: u64) -> Result<(), DriverError> {
        self.ask(&UblkCommand { number, device, value }, Vec::new()).map(drop)
    }

    fn with_memory(&mut self, number: u32, device: u32, memory: Vec<u8>) -> Result<Vec<u8>, DriverError> {
        self.ask(&UblkCommand { number, device, value: 0 }, memory)
    }

    fn ask(&mut self, command: &UblkCommand, memory: Vec<u8>) -> Result<Vec<u8>, DriverError> {
        let control = match self.control.take() {
            Some(control) => control,
            // After a command that failed.
            None => UblkControl::open()?,
        };
        let (control, memory) = control.command(command, memory)?;
        self.control = Some(control);
        Ok(memory)
    }

    fn find(&mut self, mark: u64) -> Result<Option<DeviceInfo>, DriverError> {
        for device in UblkDisk::devices() {
            match self.info(device) {
                Ok(found) if found.mark == mark => return Ok(Some(found)),
                Ok(_) => {}
                // It has gone meanwhile; or it is that of a user, of which the driver tells who names its path alone.
                Err(DriverError::Refused(error))
                    if matches!(error.raw_os_error(), Some(NO_SUCH_DEVICE | INVALID_ARGUMENT)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn info(&mut self, device: u32) -> Result<DeviceInfo, DriverError> {
        let info = self.with_memory(command::DEVICE_INFO, device, vec![0; DeviceInfo::BYTES])?;
        understood(DeviceInfo::decode(&info))
    }

    /// Of a new device.
    fn begin(&mut self, device: u32, export: &ExportInfo) -> Result<PreparedUblk, DriverError> {
        self.with_memory(command::SET_PARAMETERS, device, wire::parameters(export))?;
        let queue = UblkQueue::open(device, wire::DEPTH)?;
        Ok(PreparedUblk { queue, start: Start { command: command::START, device } })
    }

    fn take_over(&mut self, device: u32) -> Result<(), DriverError> {
        let mut tries = TRIES;
        loop {
            match self.command(command::START_RECOVERY, device, 0) {
                Err(DriverError::Refused(error)) if error.kind() == io::ErrorKind::ResourceBusy && tries > 0 => {
                    tries -= 1;
                    thread::sleep(TRY_PAUSE);
                }
                // A daemon has begun to take it over, and come no further.
                Err(DriverError::Refused(error)) if error.kind() == io::ErrorKind::InvalidInput => return Ok(()),
                taken => return taken,
            }
        }
    }

    /// Its number is free when whoever still has it open has closed it: nobody waits for that.
    fn delete(&mut self, device: u32) -> Result<(), DriverError> {
        match self.command(command::DELETE_LATER, device, 0) {
            Err(DriverError::Refused(error))
                if matches!(error.raw_os_error(), Some(UNSUPPORTED | UNSUPPORTED_IN_THE_KERNEL)) =>
            {
                match self.command(command::DELETE, device, 0) {
                    // It is deleted, and waits for those who have it open: this process, too.
                    Err(DriverError::Refused(error)) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
                    deleted => deleted,
                }
            }
            deleted => deleted,
        }
    }
}

/// `ENODEV`, `EINVAL`, `EOPNOTSUPP`, and `ENOTSUPP`, which the kernel keeps to itself elsewhere: what the drivers before 6.9 say to a
/// command that they do not know.
const NO_SUCH_DEVICE: i32 = 19;
const INVALID_ARGUMENT: i32 = 22;
const UNSUPPORTED: i32 = 95;
const UNSUPPORTED_IN_THE_KERNEL: i32 = 524;

fn understood<T>(decoded: Option<T>) -> Result<T, DriverError> {
    decoded.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_marked_with_the_last_bits_of_its_identifier() {
        let mark = mark_of("hotset:01234567-89ab-cdef-fedc-ba9876543210");
        assert_eq!(mark, Some(0xfedc_ba98_7654_3210));
        assert_eq!(mark_of("hotset:0000000000000000"), None, "no mark is no mark");
        assert_eq!(mark_of("hotset:12"), None);
    }
}
