//! Volumes as block devices of this machine, by a driver of the kernel. One is told what is behind it, and either given one end of a
//! connection whose other end is served as any host is, or asked for its requests, which are served in the same manner.
//!
//! A driver keeps its block device while nobody serves it, the kernel's NBD client for [`WAIT`], and goes on with whoever does so
//! next: the daemon may be killed, restarted or replaced under a mounted file system.

mod driver;
pub mod kernel_nbd;
pub mod ublk;
mod wire;

pub use self::driver::{DriverError, LocalDevice, LocalDriver, WAIT};

use std::io;
use std::os::unix::net::UnixStream;

use hotset_block::Stream;

use crate::exports::{ExportInfo, Exports, Link};
use crate::nbd::serve_without_handshake;

/// Serves the export of that name over `end`, whose other end is for a driver. Answers what that has to be told; `None`: there is no
/// such export now.
///
/// # Errors
/// The kernel gives the connection no buffers.
pub fn serve(exports: &Exports, name: &str, end: UnixStream) -> io::Result<Option<ExportInfo>> {
    let stream = Stream::over_pair(exports.env(), end, "the kernel of this machine")?;
    Ok(serve_without_handshake(exports, name, stream, Link::LocalDevice))
}

/// What a driver has to be told of the export of that name; `None`: there is no such export now.
pub fn export_info(exports: &Exports, name: &str) -> Option<ExportInfo> {
    exports.list(|list| list.find(name).cloned())
}
