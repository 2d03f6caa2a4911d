//! Volumes as block devices of this machine: a kernel driver is given one end of a connection and told what is behind it, the other
//! end is served as any host is.
//!
//! A driver keeps its block device while nobody serves it, for [`WAIT`], and goes on with the next connection: the daemon may
//! be killed, restarted or replaced under a mounted file system.

mod driver;
mod kernel_nbd;
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
