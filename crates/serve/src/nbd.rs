//! The NBD protocol: its bytes, its handshake, its requests, and where its clients connect. It knows its wire, and serves whatever [`crate::Exports`] has.

pub(crate) mod command;
mod connection;
pub mod fuzz;
pub mod negotiation;
mod replies;
mod server;
mod session;
pub mod wire;

pub(crate) use connection::serve_without_handshake;
pub use server::Server;
