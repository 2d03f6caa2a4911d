//! The NBD protocol: its bytes, its handshake, its requests, and the server that listens for it.

mod command;
mod connection;
pub mod fuzz;
pub mod negotiation;
mod replies;
mod server;
mod session;
pub mod wire;

pub use server::{ConnectionStatus, Server, ServerCounters, ServerSettings};
