//! Stream sockets on the ring: unix and TCP.
//!
//! A descriptor is closed when its last user is gone, and operations in flight are users: so its number cannot pass to
//! another file while the kernel works with it.

use std::fs;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use socket2::{Domain, Socket, Type};

use crate::descriptors::{DescriptorUse, may_keep};
use crate::operation::{Message, Outcome, RingOperation};
use crate::{Buf, HostEnv, sys};

/// Room for what is under way in one direction; measured: replies of a whole turn fit, which halves the CPU per hit.
const SOCKET_BUFFER_BYTES: i32 = 2 << 20;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A silent TCP peer is asked for a sign of life after so many seconds, then so often, and is disconnected after so many
/// questions without an answer: after 30 seconds in all.
const KEEPALIVE_IDLE_SECONDS: i32 = 15;
const KEEPALIVE_INTERVAL_SECONDS: i32 = 5;
const KEEPALIVE_QUESTIONS: i32 = 3;

/// The same where the kernel does not ask, because something of ours is under way to the peer.
const SILENCE_MAX_MS: u32 = 30_000;

/// The mode of a unix socket: its owner alone.
const SOCKET_MODE: u32 = 0o600;

/// Listens on a TCP address; port 0 lets the kernel choose. Also on one that no interface of this machine has yet: a daemon that
/// serves disks comes before the network at boot, and whoever connects to the address later reaches it (`IP_FREEBIND`, ip(7)).
pub fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // As std does: connections of the daemon before do not keep the address.
    socket.set_reuse_address(true)?;
    match address {
        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) => socket.set_freebind_v6(true)?,
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether an interface of this machine has the address now.
pub fn has_address(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// A socket that takes connections. Dropping it removes its socket file, if it made that.
pub struct Listener {
    env: HostEnv,
    socket: Rc<OwnedFd>,
    address: Address,
    buffer_bytes: i32,
}

enum Address {
    Unix {
        path: PathBuf,
        /// Of the socket file, if we made it.
        made: Option<u64>,
    },
    Tcp(SocketAddr),
}

impl Listener {
    /// Listens on a unix socket that its owner alone may use. A socket file that nothing listens on is replaced.
    pub fn bind_unix(env: &HostEnv, path: &Path) -> io::Result<Self> {
        Self::bind_unix_for(env, path, SOCKET_MODE, None)
    }

    /// As `bind_unix`, for those whom `mode` allows, of whom `group` is the group.
    pub fn bind_unix_for(env: &HostEnv, path: &Path, mode: u32, group: Option<u32>) -> io::Result<Self> {
        remove_stale(path)?;
        let socket = sys::unix_socket_bound_to(path)?;
        if group.is_some() {
            chown(path, None, group)?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        sys::listen(&socket, BACKLOG)?;
        let address = Address::Unix { path: path.to_owned(), made: Some(fs::metadata(path)?.ino()) };
        Ok(Self { env: env.clone(), socket: Rc::new(socket), address, buffer_bytes: SOCKET_BUFFER_BYTES })
    }

    /// As [`listen_on`].
    pub fn bind_tcp(env: &HostEnv, address: SocketAddr) -> io::Result<Self> {
        let listener = listen_on(address)?;
        let address = Address::Tcp(listener.local_addr()?);
        Ok(Self {
            env: env.clone(),
            socket: Rc::new(OwnedFd::from(listener)),
            address,
            buffer_bytes: SOCKET_BUFFER_BYTES,
        })
    }

    /// Listens on a socket that somebody else made, and keeps when we are gone.
    pub fn over_inherited(env: &HostEnv, inherited: InheritedListener) -> io::Result<Self> {
        // The ring waits by itself; on a socket that does not wait, it would answer at once that there is nobody.
        let (socket, bound) = match inherited {
            InheritedListener::Unix { listener, path } => {
                listener.set_nonblocking(false)?;
                (OwnedFd::from(listener), Address::Unix { path, made: None })
            }
            InheritedListener::Tcp { listener, address } => {
                listener.set_nonblocking(false)?;
                (OwnedFd::from(listener), Address::Tcp(address))
            }
        };
        Ok(Self { env: env.clone(), socket: Rc::new(socket), address: bound, buffer_bytes: SOCKET_BUFFER_BYTES })
    }

    /// Connections from now on have at most so much room in the kernel, in each direction.
    pub fn limit_buffers(&mut self, bytes: usize) {
        self.buffer_bytes = i32::try_from(bytes).map_or(SOCKET_BUFFER_BYTES, |bytes| bytes.min(SOCKET_BUFFER_BYTES));
    }

    /// Where it listens: `unix:PATH` or `tcp:ADDRESS:PORT`.
    pub fn local_addr(&self) -> String {
        match &self.address {
            Address::Unix { path, .. } => format!("unix:{}", path.display()),
            Address::Tcp(address) => format!("tcp:{address}"),
        }
    }

    pub async fn accept(&self) -> io::Result<Stream> {
        let (operation, outcome) = self.env.submit(RingOperation::Accept(Rc::clone(&self.socket), None)).await;
        check(outcome)?;
        let RingOperation::Accept(_, Some(socket)) = operation else {
            unreachable!("a successful accept brings a connection");
        };
        match &self.address {
            Address::Unix { .. } => Stream::over_unix(&self.env, socket, self.buffer_bytes),
            Address::Tcp(_) => Stream::over_tcp(&self.env, TcpStream::from(socket), self.buffer_bytes),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix { path, made: Some(inode) } = &self.address
            && fs::metadata(path).is_ok_and(|metadata| metadata.ino() == *inode)
        {
            // Whoever comes next removes it if we cannot.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the socket file that a dead process has left. Anything else at `path` is an error.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file in the place of the socket"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on this socket")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// A listening socket that this process was started with, by a service manager that keeps it while daemons come and go.
#[derive(Debug)]
pub enum InheritedListener {
    Unix { listener: UnixListener, path: PathBuf },
    Tcp { listener: TcpListener, address: SocketAddr },
}

impl InheritedListener {
    /// Those that `LISTEN_FDS` names (sd_listen_fds(3)), once in the life of a process: later calls find none.
    ///
    /// # Errors
    /// If one of them is no listening stream socket with an address.
    pub fn all() -> io::Result<Vec<Self>> {
        sys::inherited_descriptors()?.into_iter().map(Self::identify).collect()
    }

    fn identify(socket: OwnedFd) -> io::Result<Self> {
        if !sys::listens(&socket)? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it does not listen (Accept=yes?)"));
        }
        let listener = UnixListener::from(socket);
        if let Ok(address) = listener.local_addr() {
            let path = address.as_pathname().map(Path::to_owned);
            let path = path.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no path"))?;
            return Ok(Self::Unix { listener, path });
        }
        // It was no unix socket.
        let listener = TcpListener::from(OwnedFd::from(listener));
        let address = listener.local_addr()?;
        Ok(Self::Tcp { listener, address })
    }
}

/// A connection on its way from one executor to another. Nothing of it is under way on a ring.
pub struct DetachedStream {
    socket: OwnedFd,
    peer: String,
    is_tcp: bool,
}

/// A connection. A handle: cloning it is cheap; one clone may send while another receives.
#[derive(Clone)]
pub struct Stream {
    env: HostEnv,
    socket: Rc<OwnedFd>,
    peer: Rc<str>,
    is_tcp: bool,
}

impl Stream {
    /// Connects to a unix socket. Blocks until the listener has room.
    pub fn connect_unix(env: &HostEnv, path: &Path) -> io::Result<Self> {
        Self::over_unix(env, OwnedFd::from(UnixStream::connect(path)?), SOCKET_BUFFER_BYTES)
    }

    /// Connects over TCP. Blocks until the peer answers.
    pub fn connect_tcp(env: &HostEnv, address: SocketAddr) -> io::Result<Self> {
        Self::over_tcp(env, TcpStream::connect(address)?, SOCKET_BUFFER_BYTES)
    }

    /// Over one end of a pair of sockets whose other end `peer`, in words, has.
    ///
    /// # Errors
    /// The kernel gives it no buffers.
    pub fn over_pair(env: &HostEnv, end: UnixStream, peer: &str) -> io::Result<Self> {
        end.set_nonblocking(false)?;
        let socket = OwnedFd::from(end);
        enlarge_buffers(&socket, SOCKET_BUFFER_BYTES)?;
        Ok(Self { env: env.clone(), socket: Rc::new(socket), peer: Rc::from(peer), is_tcp: false })
    }

    fn over_unix(env: &HostEnv, socket: OwnedFd, buffer_bytes: i32) -> io::Result<Self> {
        enlarge_buffers(&socket, buffer_bytes)?;
        let (process, user) = sys::peer_credentials(&socket)?;
        let peer = format!("unix:process {process}, user {user}");
        Ok(Self { env: env.clone(), socket: Rc::new(socket), peer: Rc::from(peer), is_tcp: false })
    }

    fn over_tcp(env: &HostEnv, stream: TcpStream, buffer_bytes: i32) -> io::Result<Self> {
        let peer = format!("tcp:{}", stream.peer_addr()?);
        stream.set_nodelay(true)?;
        let socket = OwnedFd::from(stream);
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        for (name, value) in [
            (libc::TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS),
            (libc::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS),
            (libc::TCP_KEEPCNT, KEEPALIVE_QUESTIONS),
        ] {
            sys::set_option(&socket, libc::IPPROTO_TCP, name, value)?;
        }
        for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            // Without the privilege the kernel's own tuning gets further than a buffer at the system's limit.
            let _ = sys::set_option(&socket, libc::SOL_SOCKET, name, buffer_bytes);
        }
        Ok(Self { env: env.clone(), socket: Rc::new(socket), peer: Rc::from(peer), is_tcp: true })
    }

    /// Takes the connection off its executor. The caller has waited for what it began on it.
    ///
    /// # Errors
    /// There is another clone, and no descriptor is left.
    pub fn detach(self) -> io::Result<DetachedStream> {
        let Self { socket, peer, is_tcp, .. } = self;
        // A wait that was cancelled may have it until the kernel says so.
        let socket = Rc::try_unwrap(socket).or_else(|shared| shared.try_clone())?;
        Ok(DetachedStream { socket, peer: peer.to_string(), is_tcp })
    }

    /// Puts a connection on the executor of `env`.
    pub fn attach(env: &HostEnv, detached: DetachedStream) -> Self {
        let DetachedStream { socket, peer, is_tcp } = detached;
        Self { env: env.clone(), socket: Rc::new(socket), peer: Rc::from(peer), is_tcp }
    }

    /// Whether the connection's descriptor leaves enough to what matters more than another host.
    pub fn may_be_kept(&self) -> bool {
        may_keep(&*self.socket, DescriptorUse::Host)
    }

    /// Whether a peer over TCP has given no sign of life for 30 seconds although it was asked for one: by what was sent to it
    /// and not confirmed, or by questions whether it takes more. (Where neither is under way the kernel asks by itself, and
    /// ends the connection.)
    pub fn is_abandoned(&self) -> bool {
        let asked = |info: &libc::tcp_info| info.tcpi_unacked > 0 || info.tcpi_probes > 0;
        self.is_tcp
            && sys::tcp_info(&self.socket).is_ok_and(|info| {
                asked(&info) && info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv) > SILENCE_MAX_MS
            })
    }

    /// Who is at the other end, for people to read.
    pub fn peer(&self) -> String {
        self.peer.to_string()
    }

    /// Receives what is there, at least one byte; 0 is the end of the stream. If the future is dropped, bytes that
    /// have arrived meanwhile may be lost.
    pub async fn recv(&self, buf: Buf) -> (Buf, io::Result<usize>) {
        let (operation, outcome) = self.env.submit(RingOperation::Receive(Rc::clone(&self.socket), buf)).await;
        let RingOperation::Receive(_, buf) = operation else {
            unreachable!("the ring gives back what it was given");
        };
        (buf, check(outcome))
    }

    /// As [`Stream::recv`], until `stop` completes: then nothing more is received, and nothing that came is lost. `None`:
    /// nothing had come by then.
    pub async fn recv_until(&self, buf: Buf, stop: impl Future<Output = ()>) -> (Buf, Option<io::Result<usize>>) {
        let receive = self.env.submit(RingOperation::Receive(Rc::clone(&self.socket), buf));
        let (operation, outcome) = match select(receive, pin!(stop)).await {
            Either::Left((received, _)) => received,
            Either::Right(((), receive)) => {
                receive.cancel();
                receive.await
            }
        };
        let RingOperation::Receive(_, buf) = operation else {
            unreachable!("the ring gives back what it was given");
        };
        match outcome {
            Err(libc::ECANCELED) => (buf, None),
            received => (buf, Some(check(received))),
        }
    }

    /// Receives what is there; `WouldBlock` if nothing is.
    pub fn try_recv(&self, into: &mut [u8]) -> io::Result<usize> {
        sys::receive_now(&self.socket, into)
    }

    /// Sends what the socket takes at once, in one message of at most 1024 parts; `WouldBlock` if it takes nothing.
    pub fn try_send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::send_now(&self.socket, parts)
    }

    /// Sends all of `parts`. They go out whole, also if the future is dropped once it was polled.
    pub async fn send_all(&self, parts: Vec<Buf>) -> io::Result<()> {
        let message = Message::new(Rc::clone(&self.socket), parts);
        if message.is_empty() {
            return Ok(());
        }
        let (_, outcome) = self.env.submit(RingOperation::Send(Box::new(message))).await;
        check(outcome).map(drop)
    }

    /// Waits until there is something to receive, the end included.
    pub async fn readable(&self) -> io::Result<()> {
        check(self.env.wait_for(&self.socket, libc::POLLIN).await).map(drop)
    }

    /// Waits until the socket takes something.
    pub async fn writable(&self) -> io::Result<()> {
        check(self.env.wait_for(&self.socket, libc::POLLOUT).await).map(drop)
    }

    /// Ends the stream in both directions; whoever waits on it is told.
    pub fn shutdown(&self) {
        sys::shutdown(&self.socket);
    }
}

fn enlarge_buffers(socket: &OwnedFd, buffer_bytes: i32) -> io::Result<()> {
    for option in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        // Going past the system's limit needs a privilege; up to the limit everybody may.
        sys::set_option(socket, libc::SOL_SOCKET, option.0, buffer_bytes)
            .or_else(|_| sys::set_option(socket, libc::SOL_SOCKET, option.1, buffer_bytes))?;
    }
    Ok(())
}

fn check(outcome: Outcome) -> io::Result<usize> {
    outcome.map_err(io::Error::from_raw_os_error)
}
