//! Sockets that a service manager keeps while daemons come and go, so that nobody is refused meanwhile: whoever connects
//! waits until the next daemon takes connections.
//!
//! The configuration alone says who may come by which address: an inherited socket is used in the place of one that the
//! daemon would make at the same address, and one of no such address is an error.

use hotset_block::InheritedListener;

use crate::endpoint::{Endpoint, Socket};

/// What this process was started with, and is not used yet.
#[derive(Debug)]
pub(super) struct Inherited(Vec<InheritedListener>);

impl Inherited {
    /// An error is a message for people.
    pub(super) fn of_this_process() -> Result<Self, String> {
        let all = InheritedListener::all().map_err(|error| format!("inherited sockets (LISTEN_FDS): {error}"))?;
        Ok(Self(all))
    }

    /// The endpoints with the sockets that are there for them.
    pub(super) fn take(&mut self, endpoints: &[Endpoint]) -> Vec<Socket> {
        let one = |endpoint: &Endpoint| {
            let index = self.0.iter().position(|inherited| is_at(inherited, endpoint));
            Socket { endpoint: endpoint.clone(), inherited: index.map(|index| self.0.swap_remove(index)) }
        };
        endpoints.iter().map(one).collect()
    }

    /// Fails if there are sockets that nobody has a use for: their clients would wait for ever.
    pub(super) fn check_all_taken(&self) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some(left) => Err(format!(
                "inherited socket {}: neither `api` nor `nbd` of the configuration names this address; name it there as it is \
                 spelled here, or take it out of the socket unit",
                address(left)
            )),
        }
    }
}

fn address(inherited: &InheritedListener) -> Endpoint {
    match inherited {
        InheritedListener::Unix { path, .. } => Endpoint::Unix(path.clone()),
        InheritedListener::Tcp { address, .. } => Endpoint::Tcp(*address),
    }
}

fn is_at(inherited: &InheritedListener, endpoint: &Endpoint) -> bool {
    address(inherited) == *endpoint
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn each_socket_goes_to_its_endpoint_and_none_is_left_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nbd");
        let unix = InheritedListener::Unix { listener: UnixListener::bind(&path).unwrap(), path: path.clone() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut inherited = Inherited(vec![unix, InheritedListener::Tcp { listener, address }]);
        let other = Endpoint::Tcp("127.0.0.1:1".parse().unwrap());
        let api = inherited.take(&[other, Endpoint::Tcp(address)]);
        assert_eq!(api.iter().map(|socket| socket.inherited.is_some()).collect::<Vec<_>>(), [false, true]);
        let message = inherited.check_all_taken().expect_err("one is left");
        assert!(message.contains(&path.display().to_string()) && message.contains("nbd"), "{message}");
        assert!(inherited.take(&[Endpoint::Unix(path)])[0].inherited.is_some());
        assert_eq!(inherited.check_all_taken(), Ok(()));
    }
}
