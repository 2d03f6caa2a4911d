//! The protocols through which hosts use volumes: NBD with its server, and a load generator that speaks it.
//!
//! Each `wire.rs` is pure decoding and encoding; sessions turn bytes into calls of `hotset_cache::Volume` and back.
//! This crate decides nothing about caching, and reaches the kernel through `hotset_block` alone.

mod exports;
mod inflight;
pub mod load;
pub mod local;
pub mod nbd;
mod receive;
mod tls;
mod transport;

pub use exports::{
    ConnectionStatus, Door, ExportId, ExportInfo, ExportList, Exports, Link, ServerCounters, ServerSettings,
};
pub use tls::{PemFile, TlsAcceptor, TlsError, TlsFiles};
