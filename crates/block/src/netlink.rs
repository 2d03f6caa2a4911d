//! Questions to the kernel's generic netlink families: a message there, its answers back. What they mean is known above.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::sys;

/// How long the kernel may take to answer: what it does meanwhile is making or ending a block device.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest datagram that is expected.
const ANSWER_BYTES_MAX: usize = 32 << 10;

/// A socket to the families. Its calls block.
#[derive(Debug)]
pub struct GenericNetlink {
    /// A socket of another kind, whose calls to send and receive are the same.
    socket: UnixDatagram,
}

impl GenericNetlink {
    /// # Errors
    /// The kernel has no generic netlink, or no descriptor is left.
    pub fn open() -> io::Result<Self> {
        let socket = UnixDatagram::from(sys::generic_netlink()?);
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { socket })
    }

    /// Sends one message. The kernel does what it asks for before this returns; the answers wait.
    ///
    /// # Errors
    /// The kernel takes no message of this length now.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        self.socket.send(message).map(drop)
    }

    /// The next datagram, of one or several messages.
    ///
    /// # Errors
    /// There is none within ten seconds.
    pub fn receive(&self) -> io::Result<Vec<u8>> {
        let mut answer = vec![0; ANSWER_BYTES_MAX];
        let received = self.socket.recv(&mut answer)?;
        answer.truncate(received);
        Ok(answer)
    }
}
