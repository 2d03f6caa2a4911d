//! Where hosts connect.

use std::rc::Rc;

use hotset_cache::{Error, ErrorKind};
use hotset_serve::TlsAcceptor;

use super::open::Plane;
use crate::endpoint::{Endpoint, Socket};
use crate::predecessor::bind_with_retries;

impl Plane {
    /// Begins to accept hosts on all `sockets`; on TCP with `tls`, if there is one (who may use a unix socket
    /// is decided by its permissions). Answers where it listens, with the ports that the kernel chose.
    pub(crate) async fn listen(
        self: Rc<Self>,
        sockets: Vec<Socket>,
        tls: Option<TlsAcceptor>,
    ) -> Result<Vec<Endpoint>, Error> {
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
        let mut listening = Vec::new();
        for Socket { endpoint, inherited } in sockets {
            let tls = || match endpoint {
                Endpoint::Unix(_) => None,
                Endpoint::Tcp(_) => tls.clone(),
            };
            let bind = || match &endpoint {
                Endpoint::Unix(path) => self.nbd.listen_unix(path, tls()),
                Endpoint::Tcp(address) => self.nbd.listen_tcp(*address, tls()),
            };
            let bound = match inherited {
                Some(inherited) => self.nbd.listen_inherited(inherited, tls()),
                None => bind_with_retries(&self.env, bind).await,
            };
            let address = bound.map_err(|error| invalid(format!("nbd {endpoint}: {error}")))?;
            tracing::info!("hosts may connect to {address}");
            endpoint.warn_if_nowhere("nbd");
            listening.push(address.parse().map_err(invalid)?);
        }
        Ok(listening)
    }

    /// Hosts that ask for one of these volumes wait until it is exported, or expected no more.
    pub(crate) async fn expect_exports(self: Rc<Self>, names: Vec<String>) -> Result<(), Error> {
        self.exports.expect(names);
        Ok(())
    }

    /// Those of these volumes that are not exported will not be by themselves.
    pub(crate) async fn expect_no_more(self: Rc<Self>, names: Vec<String>) -> Result<(), Error> {
        self.exports.expect_no_more(&names);
        Ok(())
    }
}
