//! The kernel's NBD client (`drivers/block/nbd.c`), configured by generic netlink. No program stands between.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hotset_block::{GenericNetlink, KernelNbdDevice};

use super::driver::{DriverError, LocalDevice, WAIT};
use super::wire::{self, Answer, DeviceRequest, Message};
use crate::exports::ExportInfo;
use crate::nbd::negotiation::abilities;

/// The driver sends a request again that was under way when its connection ended only when it looks after it, and says in the
/// kernel's log that it waits for it whenever it does. Its own interval is 30 s.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

pub(super) fn find(identifier: &str) -> Option<KernelNbdDevice> {
    KernelNbdDevice::all().into_iter().find(|device| device.backend == identifier)
}

pub(super) fn check_is_there() -> Result<(), DriverError> {
    Family::find().map(drop)
}

/// Gives the driver one end of a connection whose other end serves `export`: to the device that is known by `identifier`, which
/// is made if there is none. Blocks.
///
/// # Errors
/// See [`DriverError`].
pub fn attach(identifier: &str, export: &ExportInfo, end: &UnixStream) -> Result<LocalDevice, DriverError> {
    let family = Family::find()?;
    let request = DeviceRequest {
        index: find(identifier).map(|device| device.index),
        size: Some((export.size_bytes, u64::from(export.block_bytes_min))),
        server_flags: Some(u64::from(abilities(export))),
        dead_connection_timeout_s: Some(WAIT.as_secs()),
        socket: Some(u32::try_from(end.as_raw_fd()).expect("a descriptor is not negative")),
        identifier: Some(identifier),
    };
    match request.index {
        // Where its old connection is not known to have ended yet this one is not taken, and ends.
        Some(_) => family.ask(wire::Command::Reconfigure, &request)?,
        None => family.ask(wire::Command::Connect, &request)?,
    }
    let device = find(identifier).ok_or_else(|| io::Error::other("its device did not appear in /sys/block"))?;
    // Without the right to write there a restart of the daemon is noticed later, not less surely.
    let _ = device.look_after_requests_every(LOOK_INTERVAL);
    if request.index.is_none() {
        // Without it what is on the device is there all the same, and is activated by hand.
        let _ = device.announce();
    }
    Ok(device.into())
}

pub(super) fn resize(identifier: &str, size_bytes: u64, block_bytes: u32) -> Result<(), DriverError> {
    let device = find(identifier).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let size = Some((size_bytes, u64::from(block_bytes)));
    let request = DeviceRequest { index: Some(device.index), size, identifier: Some(identifier), ..Default::default() };
    Family::find()?.ask(wire::Command::Reconfigure, &request)
}

pub(super) fn detach(identifier: &str) -> Result<(), DriverError> {
    let Some(device) = find(identifier) else { return Ok(()) };
    let request = DeviceRequest { index: Some(device.index), ..Default::default() };
    Family::find()?.ask(wire::Command::Disconnect, &request)
}

/// The netlink family of the driver.
struct Family {
    netlink: GenericNetlink,
    number: u16,
}

impl Family {
    fn find() -> Result<Self, DriverError> {
        let netlink = GenericNetlink::open()?;
        netlink.send(&wire::family_request())?;
        loop {
            for answer in wire::answers(&netlink.receive()?)? {
                match answer {
                    Answer::Family(number) => return Ok(Self { netlink, number }),
                    Answer::Done(Err(error)) if wire::is_unknown(error) => return Err(DriverError::Missing),
                    Answer::Done(Err(error)) => return Err(io::Error::from_raw_os_error(error).into()),
                    Answer::Done(Ok(())) => return Err(DriverError::Missing),
                    Answer::Other => {}
                }
            }
        }
    }

    /// Has the driver do something, and waits for its word that it did.
    fn ask(&self, command: wire::Command, request: &DeviceRequest<'_>) -> Result<(), DriverError> {
        self.netlink.send(&Message::to_driver(self.number, command, request).into_bytes())?;
        loop {
            for answer in wire::answers(&self.netlink.receive()?)? {
                match answer {
                    Answer::Done(Ok(())) => return Ok(()),
                    Answer::Done(Err(error)) => return Err(io::Error::from_raw_os_error(error).into()),
                    Answer::Family(_) | Answer::Other => {}
                }
            }
        }
    }
}
