//! The kernel's driver for block devices of user space: its requests come as commands of the data plane's ring.
//!
//! A device keeps its requests while nobody serves it, for as long as that takes, and asks again what the last server had not
//! answered.

mod driver;
mod requests;
mod session;
#[cfg(test)]
mod session_tests;
mod wire;

use std::io;

use super::driver::DriverError;
use crate::exports::{ExportInfo, Exports};

pub use self::driver::{PreparedUblk, Start};
pub(super) use self::driver::{detach, find, is_there, resize};
pub use self::requests::UblkRequests;

/// The device that is known by `identifier`, waiting for its server, or a new one like `export`. Blocks.
///
/// # Errors
/// See [`DriverError`].
pub fn prepare(identifier: &str, export: &ExportInfo) -> Result<PreparedUblk, DriverError> {
    driver::prepare(identifier, export)
}

/// Fetches the requests of a device on this thread from now on; [`serve`] has them served.
pub fn fetch(exports: &Exports, name: &str, prepared: PreparedUblk) -> UblkRequests {
    let env = exports.env().at_work_for(&format!("volume {name}"));
    UblkRequests::fetch(&env, prepared.queue)
}

/// Has the export of that name serve the requests of a device. False: there is no such export now, or they are served.
///
/// # Errors
/// No descriptor is left.
pub fn serve(exports: &Exports, name: &str, requests: &UblkRequests) -> io::Result<bool> {
    session::serve(exports, name, requests)
}
