//! The ground that Hotset stands on: byte ranges, buffers, the two seams `Device` and `Env`, and their real
//! implementations (io_uring executor, files and block devices, memory, the emulated HDD array).
//!
//! This crate knows nothing of caching. It holds the only `unsafe` code of the project.

mod buf;
mod device;
pub mod emulated;
mod env;
mod range;
pub mod sync;

pub use buf::{Buf, BufPool, PAGE_BYTES};
pub use device::{
    Device, DeviceError, DeviceErrorKind, DeviceIdentity, DeviceInfo, Discard, Extent, ExtentKind, Operation, ZeroMode,
};
pub use env::{Env, Instant};
pub use range::ByteRange;
