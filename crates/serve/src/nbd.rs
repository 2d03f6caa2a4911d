//! The NBD protocol: its bytes, its handshake, its requests, and the server that listens for it.

pub mod fuzz;
pub mod negotiation;
pub mod wire;
