//! What the ring can be asked to do. An operation owns all memory and the descriptor that the kernel uses for it, and
//! lives in the ring's table until the kernel is done; so nobody can free them early.
//!
//! Why `unsafe`: the kernel answers an accept with the number of a descriptor, which is taken over here.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io_uring::{opcode, squeue, types};

use crate::closing::OpenFile;
use crate::sync::{Permit, Semaphore};
use crate::{Buf, ByteRange, Operation, sys};

/// The longest single transfer: the kernel cuts at 2 GiB less a page.
const TRANSFER_BYTES_MAX: usize = 1 << 30;

/// How often an interrupted step (EINTR, EAGAIN) is repeated before its error is believed.
const REPEATS_MAX: u32 = 1000;

/// Direct I/O stops at a multiple of this, or at the end of a file.
const SECTOR_BYTES: usize = 512;

/// The index of the one registered buffer, the arena.
const ARENA: u16 = 0;

/// An operation, and what it has done so far.
pub(crate) enum RingOperation {
    Transfer(Transfer),
    Sync(Rc<OpenFile>),
    /// fallocate(2) with a mode.
    Allocate(Rc<OpenFile>, i32, ByteRange),
    /// Waits until one of the poll events is there.
    Poll(Rc<OwnedFd>, u32),
    /// Receives once, at least one byte unless the stream ended.
    Receive(Rc<OwnedFd>, Buf),
    Send(Box<Message>),
    /// Takes one connection from a listening socket.
    Accept(Rc<OwnedFd>, Option<OwnedFd>),
    Driver(DriverCommand),
}

/// What the driver behind a file is asked for (`IORING_OP_URING_CMD`). It keeps that for as long as it likes.
pub(crate) struct DriverCommand {
    pub(crate) file: Arc<File>,
    pub(crate) number: u32,
    pub(crate) bytes: [u8; 16],
}

/// Bytes between a buffer and a file, whole or up to an error or the end of the file.
pub(crate) struct Transfer {
    pub(crate) file: Rc<OpenFile>,
    /// On a thread of the kernel's from the start, by this permission: submitting it may wait.
    pub(crate) apart: Option<ApartPermit>,
    pub(crate) direction: Direction,
    pub(crate) offset: u64,
    pub(crate) buf: Buf,
    pub(crate) done: usize,
}

/// One of the transfers that a file may have on threads of the kernel's, and one of those that all such files of a ring may.
pub(crate) struct ApartPermit {
    _held: Box<(Permit, Permit)>,
}

impl ApartPermit {
    /// In the order of asking, first among those of the file.
    pub(crate) async fn acquire(of_file: &Semaphore, of_ring: &Semaphore) -> Self {
        let of_file = of_file.acquire(1).await;
        Self { _held: Box::new((of_file, of_ring.acquire(1).await)) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
    /// Durable when it is done (`RWF_DSYNC`, pwritev2(2)).
    WriteDurable,
}

impl Direction {
    pub(crate) fn operation(self) -> Operation {
        match self {
            Self::Read => Operation::Read,
            Self::Write | Self::WriteDurable => Operation::Write,
        }
    }
}

/// Buffers on their way out through a socket.
pub(crate) struct Message {
    socket: Rc<OwnedFd>,
    /// Owns what `parts` points to.
    _buffers: Vec<Buf>,
    parts: Vec<libc::iovec>,
    first_part: usize,
    /// One, in memory of its own that stays where it is when the message is moved: the kernel has its address.
    header: Vec<libc::msghdr>,
}

/// What an operation answers: bytes transferred (0 where there are none), or an errno.
pub(crate) type Outcome = Result<usize, i32>;

/// What follows from a completion.
pub(crate) enum Step {
    Done(Outcome),
    /// There is a rest to do: `entry` again.
    Again,
}

impl RingOperation {
    /// The kernel's form of what is left to do. `arena` is the memory that is registered with the ring.
    pub(crate) fn entry(&mut self, arena: &Range<usize>) -> squeue::Entry {
        match self {
            Self::Transfer(transfer) => transfer.entry(arena),
            Self::Sync(file) => opcode::Fsync::new(fd(file)).flags(types::FsyncFlags::DATASYNC).build(),
            Self::Allocate(file, mode, range) => {
                opcode::Fallocate::new(fd(file), range.length()).offset(range.start).mode(*mode).build()
            }
            Self::Poll(file, events) => opcode::PollAdd::new(fd(file), *events).build(),
            Self::Receive(socket, buf) => {
                opcode::Recv::new(fd(socket), buf.as_mut_ptr(), entry_length(buf.len())).build()
            }
            Self::Send(message) => message.entry(),
            Self::Accept(socket, _) => {
                let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
                opcode::Accept::new(fd(socket), address, length).flags(libc::SOCK_CLOEXEC).build()
            }
            Self::Driver(command) => {
                opcode::UringCmd16::new(fd(&*command.file), command.number).cmd(command.bytes).build()
            }
        }
    }

    /// Does on this thread, and waits for, what it is asked for of a file, where there is no ring. The answer is that of a
    /// completion; what waits for peers is not answered, but for events that are there.
    pub(crate) fn perform(&mut self) -> Option<i32> {
        let performed = match self {
            Self::Transfer(transfer) => transfer.perform(),
            Self::Sync(file) => copy(file).and_then(|file| File::from(file).sync_data()).map(|()| 0),
            Self::Allocate(file, mode, range) => sys::allocate(file, *mode, *range).map(|()| 0),
            Self::Poll(file, events) => poll(file, *events).transpose()?,
            Self::Receive(..) | Self::Send(_) | Self::Accept(..) | Self::Driver(_) => return None,
        };
        let answer = performed.unwrap_or_else(|error| -error.raw_os_error().unwrap_or(libc::EIO));
        Some(answer)
    }

    /// What poll(2) is asked for by an operation that waits for events.
    pub(crate) fn poll_request(&self) -> Option<libc::pollfd> {
        match self {
            Self::Poll(file, events) => Some(poll_request(file, *events)),
            Self::Transfer(_)
            | Self::Sync(_)
            | Self::Allocate(..)
            | Self::Receive(..)
            | Self::Send(_)
            | Self::Accept(..)
            | Self::Driver(_) => None,
        }
    }

    /// Bytes of a device's transfer; of everything else none.
    pub(crate) fn transfer_bytes(&self) -> usize {
        match self {
            Self::Transfer(transfer) => transfer.buf.len(),
            Self::Sync(_)
            | Self::Allocate(..)
            | Self::Poll(..)
            | Self::Receive(..)
            | Self::Send(_)
            | Self::Accept(..)
            | Self::Driver(_) => 0,
        }
    }

    /// Takes note of a completion.
    pub(crate) fn advance(&mut self, result: i32) -> Step {
        match self {
            Self::Transfer(transfer) => transfer.advance(result),
            Self::Send(message) => message.advance(result),
            Self::Accept(_, connection) => {
                if result >= 0 {
                    // SAFETY: the kernel made this descriptor for this accept, and its completion is the only one to say so.
                    *connection = Some(unsafe { sys::adopt(result) });
                }
                Step::Done(outcome(result))
            }
            Self::Sync(_) | Self::Allocate(..) | Self::Poll(..) | Self::Receive(..) | Self::Driver(_) => {
                Step::Done(outcome(result))
            }
        }
    }

    /// Whether nothing is lost if the operation is stopped when nobody wants its answer. Transfers and messages go on
    /// to their end.
    pub(crate) fn only_waits(&self) -> bool {
        match self {
            Self::Poll(..) | Self::Receive(..) | Self::Accept(..) => true,
            Self::Transfer(_) | Self::Sync(_) | Self::Allocate(..) | Self::Send(_) | Self::Driver(_) => false,
        }
    }

    /// Whether the kernel keeps it for as long as a device lives, so that nobody waits for its end.
    pub(crate) fn stays(&self) -> bool {
        matches!(self, Self::Driver(_))
    }

    /// Whether the operation may last as long as somebody at the other end of a socket likes.
    pub(crate) fn waits_for_peer(&self) -> bool {
        match self {
            Self::Poll(..) | Self::Receive(..) | Self::Accept(..) | Self::Send(_) => true,
            Self::Transfer(_) | Self::Sync(_) | Self::Allocate(..) | Self::Driver(_) => false,
        }
    }
}

impl Transfer {
    fn entry(&mut self, arena: &Range<usize>) -> squeue::Entry {
        let file = fd(&self.file);
        let offset = self.offset + u64::try_from(self.done).expect("a buffer's length fits 64 bits");
        let registered = |address: usize| arena.contains(&address);
        let flags = if self.apart.is_some() { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
        let entry = match self.direction {
            Direction::Read => {
                let rest = &mut self.buf[self.done..];
                let (memory, length) = (rest.as_mut_ptr(), entry_length(rest.len()));
                if registered(memory.addr()) {
                    opcode::ReadFixed::new(file, memory, length, ARENA).offset(offset).build()
                } else {
                    opcode::Read::new(file, memory, length).offset(offset).build()
                }
            }
            Direction::Write | Direction::WriteDurable => {
                // Only read: the buffer may be shared with another write.
                let rest = &self.buf[self.done..];
                let (memory, length) = (rest.as_ptr(), entry_length(rest.len()));
                let how = if self.direction == Direction::WriteDurable { libc::RWF_DSYNC } else { 0 };
                if registered(memory.addr()) {
                    opcode::WriteFixed::new(file, memory, length, ARENA).offset(offset).rw_flags(how).build()
                } else {
                    opcode::Write::new(file, memory, length).offset(offset).rw_flags(how).build()
                }
            }
        };
        entry.flags(flags)
    }

    fn perform(&mut self) -> io::Result<i32> {
        let file = File::from(copy(&self.file)?);
        let offset = self.offset + u64::try_from(self.done).expect("a buffer's length fits 64 bits");
        let end = self.buf.len().min(self.done + TRANSFER_BYTES_MAX);
        let count = match self.direction {
            Direction::Read => file.read_at(&mut self.buf[self.done..end], offset),
            Direction::Write => file.write_at(&self.buf[self.done..end], offset),
            Direction::WriteDurable => {
                let count = file.write_at(&self.buf[self.done..end], offset);
                count.and_then(|count| file.sync_data().map(|()| count))
            }
        }?;
        Ok(i32::try_from(count).expect("a transfer is cut at 1 GiB"))
    }

    fn advance(&mut self, result: i32) -> Step {
        match outcome(result) {
            Err(errno) => Step::Done(Err(errno)),
            Ok(count) => {
                self.done += count;
                let ended = count == 0 || self.done == self.buf.len() || !self.done.is_multiple_of(SECTOR_BYTES);
                if ended { Step::Done(Ok(self.done)) } else { Step::Again }
            }
        }
    }
}

impl Message {
    pub(crate) fn new(socket: Rc<OwnedFd>, mut buffers: Vec<Buf>) -> Self {
        let part = |buf: &mut Buf| libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        let parts = buffers.iter_mut().filter(|buf| !buf.is_empty()).map(part).collect();
        let header = vec![sys::message_of(std::ptr::null_mut(), 0)];
        Self { socket, _buffers: buffers, parts, first_part: 0, header }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first_part == self.parts.len()
    }

    fn entry(&mut self) -> squeue::Entry {
        let rest = &mut self.parts[self.first_part..];
        self.header[0] = sys::message_of(rest.as_mut_ptr(), rest.len().min(sys::MESSAGE_PARTS_MAX));
        let flags = u32::try_from(libc::MSG_NOSIGNAL | libc::MSG_WAITALL).expect("flags are positive");
        opcode::SendMsg::new(fd(&self.socket), self.header.as_ptr()).flags(flags).build()
    }

    fn advance(&mut self, result: i32) -> Step {
        match outcome(result) {
            Err(errno) => Step::Done(Err(errno)),
            Ok(0) => Step::Done(Err(libc::EPIPE)),
            Ok(count) => {
                self.skip(count);
                if self.is_empty() { Step::Done(Ok(0)) } else { Step::Again }
            }
        }
    }

    /// Leaves out the next `count` bytes, which are sent.
    fn skip(&mut self, mut count: usize) {
        while let Some(part) = self.parts.get_mut(self.first_part) {
            if count < part.iov_len {
                part.iov_base = part.iov_base.wrapping_byte_add(count);
                part.iov_len -= count;
                return;
            }
            count -= part.iov_len;
            self.first_part += 1;
        }
    }
}

/// Another descriptor of the same file description.
fn copy(file: &OwnedFd) -> io::Result<OwnedFd> {
    file.try_clone()
}

fn poll_request(file: &OwnedFd, events: u32) -> libc::pollfd {
    let events = libc::c_short::try_from(events).expect("the events of poll(2) are below 2^15");
    libc::pollfd { fd: file.as_raw_fd(), events, revents: 0 }
}

/// Which of the events are there; `None` if none are.
fn poll(file: &OwnedFd, events: u32) -> io::Result<Option<i32>> {
    let mut request = poll_request(file, events);
    sys::poll(std::slice::from_mut(&mut request), Duration::ZERO)?;
    Ok(Some(i32::from(request.revents)).filter(|found| *found != 0))
}

fn fd(file: &impl AsRawFd) -> types::Fd {
    types::Fd(file.as_raw_fd())
}

fn entry_length(bytes: usize) -> u32 {
    u32::try_from(bytes.min(TRANSFER_BYTES_MAX)).expect("the limit fits 32 bits")
}

fn outcome(result: i32) -> Outcome {
    usize::try_from(result).map_err(|_| -result)
}

/// Counts the repeats of an operation that is interrupted.
#[derive(Default)]
pub(crate) struct Repeats(u32);

impl Repeats {
    /// Whether a completion with `result` means "not now, once more".
    pub(crate) fn allow(&mut self, result: i32) -> bool {
        let interrupted = result == -libc::EINTR || result == -libc::EAGAIN;
        self.0 += u32::from(interrupted);
        interrupted && self.0 <= REPEATS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closing::Closed;

    fn message(lengths: &[usize]) -> Message {
        let socket = Rc::new(sys::eventfd().unwrap());
        Message::new(socket, lengths.iter().map(|len| Buf::zeroed(*len)).collect())
    }

    #[test]
    fn a_message_goes_on_where_the_kernel_stopped_and_leaves_out_empty_parts() {
        let mut message = message(&[10, 0, 20]);
        assert!(matches!(message.advance(4), Step::Again));
        assert_eq!((message.first_part, message.parts[0].iov_len), (0, 6));
        assert!(matches!(message.advance(7), Step::Again));
        assert_eq!((message.first_part, message.parts[1].iov_len), (1, 19));
        assert!(matches!(message.advance(19), Step::Done(Ok(_))));
    }

    #[test]
    fn a_socket_that_takes_nothing_is_an_error_and_not_a_loop() {
        assert!(matches!(message(&[1]).advance(0), Step::Done(Err(libc::EPIPE))));
    }

    #[test]
    fn only_memory_of_the_arena_is_transferred_as_registered() {
        let file = Rc::new(OpenFile::new(sys::eventfd().unwrap(), Closed::AtOnce));
        let pool = crate::BufPool::with_arena(1 << 20, 0);
        let code_of = |buf: Buf, direction| {
            let transfer = Transfer { file: Rc::clone(&file), apart: None, direction, offset: 0, buf, done: 0 };
            RingOperation::Transfer(transfer).entry(&pool.arena()).get_opcode()
        };
        assert_eq!(code_of(pool.take(4096), Direction::Read), u32::from(opcode::ReadFixed::CODE));
        assert_eq!(code_of(pool.take(4096), Direction::Write), u32::from(opcode::WriteFixed::CODE));
        assert_eq!(code_of(Buf::zeroed(4096), Direction::Read), u32::from(opcode::Read::CODE));
        assert_eq!(code_of(Buf::zeroed(4096), Direction::Write), u32::from(opcode::Write::CODE));
    }

    #[test]
    fn a_short_transfer_goes_on_and_one_inside_a_sector_has_met_the_end_of_the_file() {
        let file = Rc::new(OpenFile::new(sys::eventfd().unwrap(), Closed::AtOnce));
        let (apart, direction) = (None, Direction::Read);
        let mut transfer = Transfer { file, apart, direction, offset: 0, buf: Buf::zeroed(4096), done: 0 };
        assert!(matches!(transfer.advance(512), Step::Again));
        assert!(matches!(transfer.advance(100), Step::Done(Ok(612))));
    }

    #[test]
    fn interruptions_are_repeated_only_so_often() {
        let mut repeats = Repeats::default();
        assert!(!repeats.allow(-libc::EIO));
        let allowed = (0..2 * REPEATS_MAX).filter(|_| repeats.allow(-libc::EINTR)).count();
        assert_eq!(u32::try_from(allowed).unwrap(), REPEATS_MAX);
    }
}
