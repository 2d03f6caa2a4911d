//! The control API's listeners: unix sockets for their owner only, loopback TCP, and TLS for every other address.

use std::fs::Permissions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use hotset_block::{DescriptorUse, InheritedListener, listen_on, may_keep};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::counters::Counters;
use super::http::{ApiTls, ClientDoor, Peer};
use super::room::{Room, Visit};
use crate::endpoint::{Endpoint, Socket};
use crate::paths::own_user;
use crate::running_time::{self, RunningTimer};

/// How long accepting rests after an error that is not the connection's own (no descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// How long a client has for its TLS handshake, and for the head of each request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// All listeners of the API, bound and not yet served.
pub(super) struct Listeners {
    unix: Vec<OwnerOnly>,
    loopback: Vec<TcpListener>,
    tls: Vec<(TcpListener, ApiTls)>,
}

/// Binds all sockets that are not there yet; those that are not of this machine alone need `tls`. An error is a message
/// for people.
pub(super) async fn bind(sockets: Vec<Socket>, tls: Option<&ApiTls>) -> Result<Listeners, String> {
    let mut listeners = Listeners { unix: Vec::new(), loopback: Vec::new(), tls: Vec::new() };
    for Socket { endpoint, inherited } in sockets {
        let context = |error: io::Error| format!("api {endpoint}: {error}");
        match &endpoint {
            Endpoint::Unix(path) => {
                let bound = match inherited {
                    Some(inherited) => OwnerOnly::over_inherited(inherited),
                    None => OwnerOnly::bind(path).await,
                };
                listeners.unix.push(bound.map_err(context)?);
            }
            Endpoint::Tcp(address) => {
                let listener = match inherited {
                    Some(inherited) => tcp_over_inherited(inherited),
                    None => listen_on(*address).and_then(from_std),
                };
                let listener = listener.map_err(context)?;
                tracing::info!("the control API listens on tcp:{}", listener.local_addr().map_err(context)?);
                endpoint.warn_if_nowhere("api");
                match tls {
                    _ if address.ip().is_loopback() => listeners.loopback.push(listener),
                    Some(acceptor) => listeners.tls.push((listener, acceptor.clone())),
                    None => return Err(format!("api {endpoint}: an address that others reach needs [api_tls]")),
                }
            }
        }
    }
    Ok(listeners)
}

fn tcp_over_inherited(inherited: InheritedListener) -> io::Result<TcpListener> {
    let InheritedListener::Tcp { listener, .. } = inherited else { unreachable!("its address is of TCP") };
    from_std(listener)
}

fn from_std(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

impl Listeners {
    /// Answers in the background, until the runtime ends. `router` makes the router for those who come by a door. Each
    /// listener has a room of its own, so that nobody takes room from those who come elsewhere.
    pub(super) fn serve(self, counters: &Counters, router: impl Fn(ClientDoor) -> Router) {
        for listener in self.unix {
            tokio::spawn(serve_unix(listener, router(ClientDoor::Unix)));
        }
        for listener in self.loopback {
            tokio::spawn(serve_tcp(listener, None, router(ClientDoor::Loopback), counters.clone()));
        }
        for (listener, acceptor) in self.tls {
            tokio::spawn(serve_tcp(listener, Some(acceptor), router(ClientDoor::Tls), counters.clone()));
        }
    }
}

async fn serve_unix(listener: OwnerOnly, router: Router) {
    let room = Room::default();
    loop {
        let stream = listener.accept().await;
        let Some(visit) = welcome(&stream, &room).await else { continue };
        let router = router.clone();
        let user = stream.peer_cred().ok().map(|peer| peer.uid());
        let peer = Peer { words: "a client of the unix socket".into(), user };
        tokio::spawn(async move { converse(stream, router, visit, peer).await });
    }
}

async fn serve_tcp(listener: TcpListener, tls: Option<ApiTls>, router: Router, counters: Counters) {
    let room = Room::default();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok((stream, peer)) => (stream, peer.to_string()),
            Err(error) => {
                tracing::warn!("control API: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(visit) = welcome(&stream, &room).await else { continue };
        let (router, tls, counters) = (router.clone(), tls.clone(), counters.clone());
        tokio::spawn(async move {
            let Some(tls) = tls else { return converse(stream, router, visit, over_tcp(&peer)).await };
            // One who cannot do it in time, or does not want to, is none of ours.
            match running_time::timeout(CLIENT_TIMEOUT, tls.acceptor().accept(stream)).await {
                Ok(Ok(stream)) => converse(stream, router, visit, over_tcp(&peer)).await,
                Ok(Err(error)) => counters.tls_handshake_refused(&peer, &error.to_string()),
                Err(_) => counters.tls_handshake_refused(&peer, "it took too long"),
            }
        });
    }
}

/// A place for a connection, if it leaves enough descriptors to the state directory. If not, another one goes too, so that
/// who asks again finds room.
async fn welcome(stream: &impl AsFd, room: &Room) -> Option<Visit> {
    if !may_keep(stream, DescriptorUse::Administrator) {
        tracing::warn!("control API: a connection is refused, for too few file descriptors are left");
        room.let_go_of_one();
        return None;
    }
    Some(room.enter().await)
}

/// Answers one connection until it ends, or has to.
async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    router: Router,
    visit: Visit,
    peer: Peer,
) {
    let service = OfVisit { visit: visit.clone(), peer, router: TowerToHyperService::new(router) };
    let connection = http1::Builder::new()
        .timer(RunningTimer)
        .header_read_timeout(CLIENT_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!("control API: a connection ended: {error}");
            }
        }
        () = visit.ended() => tracing::debug!("control API: an idle connection made room"),
    }
}

fn over_tcp(address: &str) -> Peer {
    Peer { words: address.into(), user: None }
}

/// Lets the router know on which connection a request came.
struct OfVisit {
    visit: Visit,
    peer: Peer,
    router: TowerToHyperService<Router>,
}

type Routed = TowerToHyperService<Router>;

impl Service<Request<Incoming>> for OfVisit {
    type Response = <Routed as Service<Request<Incoming>>>::Response;
    type Error = <Routed as Service<Request<Incoming>>>::Error;
    type Future = <Routed as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.visit.clone());
        request.extensions_mut().insert(self.peer.clone());
        self.router.call(request)
    }
}

/// A unix socket that only this process's own user, and root, may use.
struct OwnerOnly {
    listener: UnixListener,
    owner: u32,
    path: PathBuf,
    /// Of the socket file, if we made it.
    made: Option<u64>,
}

impl OwnerOnly {
    /// Replaces a socket that nobody listens on any more.
    async fn bind(path: &Path) -> io::Result<Self> {
        if UnixStream::connect(path).await.is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
        }
        // Bound under another name, so that it never exists under its own with other permissions.
        let beside = path.with_extension("new");
        remove_socket(&beside)?;
        let listener = UnixListener::bind(&beside)?;
        std::fs::set_permissions(&beside, Permissions::from_mode(0o600))?;
        remove_socket(path)?;
        std::fs::rename(&beside, path)?;
        let made = Some(std::fs::symlink_metadata(path)?.ino());
        Ok(Self { listener, owner: own_user()?, path: path.to_owned(), made })
    }

    /// Over a socket that somebody else keeps.
    fn over_inherited(inherited: InheritedListener) -> io::Result<Self> {
        let InheritedListener::Unix { listener, path } = inherited else { unreachable!("its address is a path") };
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, owner: own_user()?, path, made: None })
    }

    /// Waits for the next client that is admitted.
    async fn accept(&self) -> UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) if self.admits(&stream) => return stream,
                Ok(_) => tracing::warn!("refused a client of another user on the control API"),
                Err(error) => {
                    tracing::warn!("control API: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn admits(&self, stream: &UnixStream) -> bool {
        let peer = stream.peer_cred().map(|peer| peer.uid());
        peer.is_ok_and(|user| user == self.owner || user == 0)
    }
}

impl Drop for OwnerOnly {
    /// Takes the socket away if it is ours, and no other one has taken its place.
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|metadata| Some(metadata.ino()) == self.made) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket, and nothing that is not one.
fn remove_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "something that is no socket is there")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn the_socket_is_its_owners_alone_and_replaces_a_dead_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        block_on(async {
            let alive = OwnerOnly::bind(&path).await.unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(OwnerOnly::bind(&path).await.err().unwrap().kind(), io::ErrorKind::AddrInUse);
            drop(alive);
            assert!(!path.exists(), "it is taken away in the end");
        });
    }

    #[test]
    fn a_file_in_the_way_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        std::fs::write(&path, b"precious").unwrap();
        let error = block_on(OwnerOnly::bind(&path)).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn another_user_is_not_admitted() {
        block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("api.sock");
            let mut socket = OwnerOnly::bind(&path).await.unwrap();
            let (client, accepted) = tokio::join!(UnixStream::connect(&path), socket.listener.accept());
            drop(client.unwrap());
            let (stream, _) = accepted.unwrap();
            assert!(socket.admits(&stream));
            let own = own_user().unwrap();
            socket.owner = own + 1;
            assert_eq!(socket.admits(&stream), own == 0, "root may, others may not");
        });
    }
}
