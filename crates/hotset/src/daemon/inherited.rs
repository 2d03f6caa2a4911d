//! Sockets that a service manager keeps while daemons come and go, so that nobody is refused meanwhile: whoever connects
//! waits until the next daemon takes connections.
//!
//! The configuration alone says who may come by which address: an inherited socket is used in the place of one that the
//! daemon would make at the same address. Who comes by one of no such address is turned away, and the status says so: hosts of
//! the other addresses are served all the same.

use std::io;
use std::time::Duration;

use hotset_api::ConditionKind;
use hotset_block::InheritedListener;

use super::register::ConditionRegister;
use crate::endpoint::{Endpoint, Socket};

/// How long nobody is turned away after an error that is not the connection's own (no descriptors left).
const PAUSE: Duration = Duration::from_millis(500);

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

    /// Closes each connection that comes by a socket which nobody has a use for: its client would wait for ever. In the background, until
    /// the daemon ends.
    pub(super) fn turn_away(self, register: &ConditionRegister) {
        if self.0.is_empty() {
            return;
        }
        let addresses: Vec<String> = self.0.iter().map(|inherited| address(inherited).to_string()).collect();
        register.raise(
            ConditionKind::SocketNotServed,
            format!(
                "the service manager listens on {}, which neither `api` nor `nbd` of the configuration names: who comes there is \
                 turned away",
                addresses.join(", ")
            ),
        );
        for inherited in self.0 {
            let socket = address(&inherited);
            let thread = std::thread::Builder::new().name("turn-away".to_owned());
            if let Err(error) = thread.spawn(move || turn_away_from(&inherited)) {
                tracing::warn!("inherited socket {socket}: no thread: {error}; its clients wait");
            }
        }
    }
}

fn turn_away_from(inherited: &InheritedListener) {
    loop {
        if accept(inherited).is_err() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Waits for a connection, and closes it.
fn accept(inherited: &InheritedListener) -> io::Result<()> {
    match inherited {
        InheritedListener::Unix { listener, .. } => {
            listener.set_nonblocking(false)?;
            listener.accept().map(drop)
        }
        InheritedListener::Tcp { listener, .. } => {
            listener.set_nonblocking(false)?;
            listener.accept().map(drop)
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
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn each_socket_goes_to_its_endpoint_and_who_comes_by_another_one_is_turned_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nbd");
        let unix = InheritedListener::Unix { listener: UnixListener::bind(&path).unwrap(), path: path.clone() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut inherited = Inherited(vec![unix, InheritedListener::Tcp { listener, address }]);
        let other = Endpoint::Tcp("127.0.0.1:1".parse().unwrap());
        let api = inherited.take(&[other, Endpoint::Tcp(address)]);
        assert_eq!(api.iter().map(|socket| socket.inherited.is_some()).collect::<Vec<_>>(), [false, true]);
        let register = ConditionRegister::default();
        inherited.turn_away(&register);
        let condition = register.all(Vec::new()).remove(0);
        assert_eq!(condition.kind, ConditionKind::SocketNotServed);
        assert!(condition.reason.contains(&path.display().to_string()), "{}", condition.reason);
        for _ in 0..2 {
            let mut client = UnixStream::connect(&path).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            assert_eq!(client.read(&mut [0]).unwrap(), 0, "it waits for nobody");
        }
    }

    #[test]
    fn where_each_socket_has_its_endpoint_nothing_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nbd");
        let unix = InheritedListener::Unix { listener: UnixListener::bind(&path).unwrap(), path: path.clone() };
        let mut inherited = Inherited(vec![unix]);
        assert!(inherited.take(&[Endpoint::Unix(path)])[0].inherited.is_some());
        let register = ConditionRegister::default();
        inherited.turn_away(&register);
        assert_eq!(register.all(Vec::new()), []);
    }
}
