//! Devices, sockets and the executor as their users have them: one program.

#![allow(clippy::unwrap_used)] // the lint spares test functions, but not what they call

mod block_device;
mod emulated;
mod executor;
mod file;
mod in_use;
mod mounted;
mod net;
mod to_the_end;
mod together;
