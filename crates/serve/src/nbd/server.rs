//! Where NBD clients connect: unix sockets, TCP with or without TLS, sockets that this process was started with.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use hotset_block::{InheritedListener, Listener};

use super::connection;
use crate::exports::{Exports, ServerSettings};
use crate::tls::TlsAcceptor;

/// Serves exports to NBD clients, until the exports are stopped.
pub struct Server {
    exports: Exports,
}

impl Server {
    /// Listens nowhere yet.
    pub fn new(exports: Exports) -> Self {
        Self { exports }
    }

    /// Listens on a unix socket. With `tls`, clients must begin TLS before anything else. Answers where it listens.
    pub fn listen_unix(&self, path: &Path, tls: Option<TlsAcceptor>) -> io::Result<String> {
        let ServerSettings { socket_mode, socket_group, .. } = self.exports.settings();
        Ok(self.listen(Listener::bind_unix_for(self.exports.env(), path, socket_mode, socket_group)?, tls))
    }

    /// Listens on a TCP address; port 0 lets the kernel choose one. As [`Server::listen_unix`].
    pub fn listen_tcp(&self, address: SocketAddr, tls: Option<TlsAcceptor>) -> io::Result<String> {
        Ok(self.listen(Listener::bind_tcp(self.exports.env(), address)?, tls))
    }

    /// Listens on a socket that this process was started with. As [`Server::listen_unix`].
    pub fn listen_inherited(&self, inherited: InheritedListener, tls: Option<TlsAcceptor>) -> io::Result<String> {
        Ok(self.listen(Listener::over_inherited(self.exports.env(), inherited)?, tls))
    }

    fn listen(&self, listener: Listener, tls: Option<TlsAcceptor>) -> String {
        self.exports.accept(listener, tls, connection::run)
    }
}
