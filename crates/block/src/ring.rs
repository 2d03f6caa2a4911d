//! One io_uring and the table of what is in flight on it.
//!
//! Why `unsafe`: the kernel reads and writes memory through the pointers of submitted entries. The invariant, kept by
//! this file: an [`RingOperation`] stays in the table, and so do the buffers and descriptors it owns, until the kernel has
//! completed it. If the ring must go before that, they are leaked.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::ops::Range;
use std::task::{Poll, Waker};
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::operation::{Outcome, Repeats, RingOperation, Step};
use crate::sys;

/// Marks completions that nobody waits for: those of cancellations.
const NOBODY: u64 = u64::MAX;

/// Completions that the kernel's queue holds, per entry of the submission queue; what is over waits in the kernel.
const COMPLETIONS_PER_ENTRY: u32 = 8;

/// Operations that the kernel may wait with at once, each on a thread of its own: flushes, and transfers of files that
/// cannot be begun without waiting (FUSE, network file systems). By itself it would be four per CPU
/// (io_uring_register(2), `IORING_REGISTER_IOWQ_MAX_WORKERS`): one file that hangs would take them all, and every other
/// device's flushes would wait with it.
const WAITING_MAX: u32 = 1024;

/// How many of them may be transfers, three quarters: the rest is for flushes and allocations, whatever hangs.
pub(crate) const APART_MAX: u64 = 768;

/// A transfer of this length reaches its device at once, not with everything else at the end of the turn: the device
/// works while other tasks run, and one visit more to the kernel is little beside it.
pub(crate) const AT_ONCE_BYTES: usize = 64 << 10;

pub(crate) struct Ring {
    engine: Engine,
    slots: Vec<Slot>,
    free: Vec<usize>,
    in_flight: usize,
    /// Those of them that the kernel keeps.
    staying: usize,
    /// Something large was begun since the kernel was visited last.
    urgent: bool,
    /// What the kernel did not take yet, in order. Empty but for moments.
    backlog: VecDeque<squeue::Entry>,
    /// The addresses that are registered for fixed-buffer transfers; empty if none are.
    arena: Range<usize>,
}

/// Who does what is begun.
enum Engine {
    Uring(Box<IoUring>),
    /// This thread, one operation after the other, where the kernel has no io_uring for us: for files alone.
    Blocking(Blocking),
}

#[derive(Default)]
struct Blocking {
    /// What was begun and is not done, or is to be stopped: by index, `true` for the latter.
    begun: VecDeque<(usize, bool)>,
}

enum Slot {
    Free,
    InFlight(InFlight),
    Done(RingOperation, Outcome),
}

struct InFlight {
    operation: RingOperation,
    repeats: Repeats,
    /// Whom to wake; `None` if nobody.
    waker: Option<Waker>,
    /// Nobody wants the answer.
    abandoned: bool,
    /// The kernel was asked to stop it: what it says next is the last.
    cancelled: bool,
}

/// How long a visit to the kernel may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    No,
    AtMost(Duration),
}

impl Ring {
    pub(crate) fn new(entries: u32) -> io::Result<Self> {
        let uring = IoUring::builder()
            .setup_clamp()
            .setup_submit_all()
            .setup_cqsize(entries.saturating_mul(COMPLETIONS_PER_ENTRY))
            .dontfork()
            .build(entries)?;
        // For regular files and for everything else; the second may have as many as it likes.
        uring.submitter().register_iowq_max_workers(&mut [WAITING_MAX, 0])?;
        Ok(Self::over(Engine::Uring(Box::new(uring))))
    }

    /// One that does everything on this thread.
    pub(crate) fn blocking() -> Self {
        Self::over(Engine::Blocking(Blocking::default()))
    }

    fn over(engine: Engine) -> Self {
        Self {
            engine,
            slots: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            staying: 0,
            urgent: false,
            backlog: VecDeque::new(),
            arena: 0..0,
        }
    }

    /// Lets the kernel pin `arena` once and for all. Without the right to (RLIMIT_MEMLOCK) transfers work the same,
    /// a little slower.
    pub(crate) fn register(&mut self, arena: Range<usize>) -> io::Result<()> {
        let Engine::Uring(uring) = &self.engine else { return Err(io::ErrorKind::Unsupported.into()) };
        let base = std::ptr::without_provenance_mut(arena.start);
        let part = libc::iovec { iov_base: base, iov_len: arena.len() };
        // SAFETY: the kernel pins the pages, so that even freed memory stays theirs; and each transfer that names the
        // arena owns a `Buf` in it, which keeps it allocated (see `buf.rs`).
        unsafe { uring.submitter().register_buffers(&[part]) }?;
        self.arena = arena;
        Ok(())
    }

    /// Begins an operation. The answer is fetched with [`Ring::poll`] and the index, or discarded with
    /// [`Ring::abandon`].
    pub(crate) fn begin(&mut self, operation: RingOperation, waker: Waker) -> usize {
        self.urgent |= operation.transfer_bytes() >= AT_ONCE_BYTES;
        self.staying += usize::from(operation.stays());
        let repeats = Repeats::default();
        let slot =
            Slot::InFlight(InFlight { operation, repeats, waker: Some(waker), abandoned: false, cancelled: false });
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.in_flight += 1;
        self.go_on(index);
        index
    }

    /// Hands over what an operation has left to do.
    fn go_on(&mut self, index: usize) {
        let Slot::InFlight(running) = &mut self.slots[index] else {
            unreachable!("what goes on is in flight");
        };
        match &mut self.engine {
            Engine::Uring(_) => {
                let entry = running.operation.entry(&self.arena);
                self.submit(entry.user_data(user_data(index)));
            }
            Engine::Blocking(blocking) => blocking.begun.push_back((index, false)),
        }
    }

    /// The answer of operation `index`, once. `waker` is woken when it is there.
    pub(crate) fn poll(&mut self, index: usize, waker: &Waker) -> Poll<(RingOperation, Outcome)> {
        match mem::replace(&mut self.slots[index], Slot::Free) {
            Slot::Done(operation, outcome) => {
                self.free.push(index);
                Poll::Ready((operation, outcome))
            }
            Slot::InFlight(mut running) => {
                running.waker = Some(waker.clone());
                self.slots[index] = Slot::InFlight(running);
                Poll::Pending
            }
            Slot::Free => unreachable!("an answer is fetched once"),
        }
    }

    /// Discards the answer of operation `index`; the operation keeps what it owns until the kernel is done with it.
    pub(crate) fn abandon(&mut self, index: usize) {
        let only_waits = match &mut self.slots[index] {
            Slot::Done(..) => {
                self.slots[index] = Slot::Free;
                self.free.push(index);
                return;
            }
            Slot::InFlight(running) => {
                running.abandoned = true;
                running.waker = None;
                running.operation.only_waits()
            }
            Slot::Free => unreachable!("an answer is discarded once"),
        };
        if only_waits {
            self.cancel(index);
        }
    }

    /// What has begun and has an end.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight - self.staying
    }

    /// Stops what waits for peers, messages on their way out included.
    pub(crate) fn cancel_sockets(&mut self) {
        for index in 0..self.slots.len() {
            let waits_for_peer = match &self.slots[index] {
                Slot::InFlight(running) => running.operation.waits_for_peer(),
                Slot::Done(..) | Slot::Free => false,
            };
            if waits_for_peer {
                self.cancel(index);
            }
        }
    }

    /// Asks the kernel to stop operation `index`. Its answer is fetched, or discarded, as before.
    pub(crate) fn cancel(&mut self, index: usize) {
        if let Slot::InFlight(running) = &mut self.slots[index] {
            running.cancelled = true;
            match &mut self.engine {
                Engine::Uring(_) => self.submit(opcode::AsyncCancel::new(user_data(index)).build().user_data(NOBODY)),
                Engine::Blocking(blocking) => blocking.begun.push_back((index, true)),
            }
        }
    }

    /// Whether what was begun is to reach the kernel before other tasks run.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Hands everything that was begun to the kernel and waits as told.
    pub(crate) fn enter(&mut self, wait: Wait) -> io::Result<()> {
        self.urgent = false;
        self.submit_backlog();
        let wait = if self.backlog.is_empty() { wait } else { Wait::No };
        let submitter = match &self.engine {
            Engine::Uring(uring) => uring.submitter(),
            Engine::Blocking(_) => return self.look(wait),
        };
        let result = match wait {
            Wait::No => submitter.submit(),
            Wait::AtMost(limit) => {
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&types::Timespec::from(limit)))
            }
        };
        match result {
            Ok(_) => Ok(()),
            // ETIME: the limit; EINTR: a signal; EBUSY, EAGAIN: completions must be fetched first.
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                Some(_) | None => Err(error),
            },
        }
    }

    /// Without io_uring: waits as told, or not at all if there is something to do, for the events that operations wait for.
    fn look(&mut self, wait: Wait) -> io::Result<()> {
        let Engine::Blocking(blocking) = &mut self.engine else { return Ok(()) };
        let (waiting, mut requests): (Vec<usize>, Vec<libc::pollfd>) =
            self.slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.poll_request()?))).unzip();
        let limit = match wait {
            Wait::AtMost(limit) if blocking.begun.is_empty() => limit,
            Wait::AtMost(_) | Wait::No => Duration::ZERO,
        };
        match sys::poll(&mut requests, limit) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let ready = waiting.into_iter().zip(requests).filter(|(_, request)| request.revents != 0);
        blocking.begun.extend(ready.map(|(index, _)| (index, false)));
        Ok(())
    }

    /// Whether the kernel has to be visited even if nobody waits: to hand something over, to fetch completions for which
    /// its queue had no room, or to see what other threads say.
    pub(crate) fn needs_visit(&mut self) -> bool {
        let Engine::Uring(uring) = &mut self.engine else { return true };
        let queue = uring.submission();
        !queue.is_empty() || queue.cq_overflow() || !self.backlog.is_empty()
    }

    pub(crate) fn has_completions(&mut self) -> bool {
        match &mut self.engine {
            Engine::Uring(uring) => !uring.completion().is_empty(),
            Engine::Blocking(blocking) => !blocking.begun.is_empty(),
        }
    }

    /// Takes in what the kernel completed. Who waits for it is added to `woken`, to be woken when the ring is free.
    pub(crate) fn complete(&mut self, woken: &mut Vec<Waker>) {
        self.perform(woken);
        while let Some(completion) = self.next_completion() {
            if completion.user_data() != NOBODY {
                let index = usize::try_from(completion.user_data()).expect("user data are indexes of the table");
                woken.extend(self.complete_one(index, completion.result()));
            }
        }
    }

    fn next_completion(&mut self) -> Option<cqueue::Entry> {
        match &mut self.engine {
            Engine::Uring(uring) => uring.completion().next(),
            Engine::Blocking(_) => None,
        }
    }

    /// Without io_uring: does what was begun.
    fn perform(&mut self, woken: &mut Vec<Waker>) {
        while let Some((index, stops)) = self.next_begun() {
            let result = match &mut self.slots[index] {
                Slot::InFlight(running) if stops && running.operation.waits_for_peer() => Some(-libc::ECANCELED),
                Slot::InFlight(running) if !stops => running.operation.perform(),
                Slot::InFlight(_) | Slot::Done(..) | Slot::Free => None,
            };
            if let Some(result) = result {
                woken.extend(self.complete_one(index, result));
            }
        }
    }

    fn next_begun(&mut self) -> Option<(usize, bool)> {
        match &mut self.engine {
            Engine::Uring(_) => None,
            Engine::Blocking(blocking) => blocking.begun.pop_front(),
        }
    }

    fn complete_one(&mut self, index: usize, result: i32) -> Option<Waker> {
        let Slot::InFlight(mut running) = mem::replace(&mut self.slots[index], Slot::Free) else {
            unreachable!("the kernel completes what is in flight, once");
        };
        let step = if !running.cancelled && running.repeats.allow(result) {
            Step::Again
        } else {
            match running.operation.advance(result) {
                // A message of which a part went out answers with its length, not with "cancelled".
                Step::Again if running.cancelled => Step::Done(Err(libc::ECANCELED)),
                step @ (Step::Done(_) | Step::Again) => step,
            }
        };
        match step {
            Step::Again => {
                self.slots[index] = Slot::InFlight(running);
                self.go_on(index);
                None
            }
            Step::Done(_) if running.abandoned => {
                self.in_flight -= 1;
                self.staying -= usize::from(running.operation.stays());
                self.free.push(index);
                None
            }
            Step::Done(outcome) => {
                self.in_flight -= 1;
                self.staying -= usize::from(running.operation.stays());
                self.slots[index] = Slot::Done(running.operation, outcome);
                running.waker
            }
        }
    }

    /// Queues an entry, in order, whatever room there is.
    fn submit(&mut self, entry: squeue::Entry) {
        if self.backlog.is_empty() && self.push(&entry) {
            return;
        }
        self.backlog.push_back(entry);
        self.submit_backlog();
    }

    fn submit_backlog(&mut self) {
        let Engine::Uring(_) = &self.engine else { return };
        while let Some(entry) = self.backlog.pop_front() {
            if !self.push(&entry) {
                self.backlog.push_front(entry);
                // The queue is full: the kernel empties it. If it refuses (it wants completions fetched first), the
                // backlog waits for the next visit.
                if self.is_stuck() {
                    return;
                }
            }
        }
    }

    /// Whether the kernel does not empty the queue.
    fn is_stuck(&mut self) -> bool {
        match &mut self.engine {
            Engine::Uring(uring) => uring.submit().is_err() || uring.submission().is_full(),
            Engine::Blocking(_) => true,
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> bool {
        let Engine::Uring(uring) = &mut self.engine else { return false };
        // SAFETY: the entry points to memory and a descriptor that an `RingOperation` in `slots` owns, on the heap, until
        // its completion arrives (the file's invariant); cancellations point to nothing.
        unsafe { uring.submission().push(entry) }.is_ok()
    }
}

impl Slot {
    /// What poll(2) is asked for by an operation in flight that waits for events.
    fn poll_request(&self) -> Option<libc::pollfd> {
        match self {
            Self::InFlight(running) => running.operation.poll_request(),
            Self::Free | Self::Done(..) => None,
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            // The kernel may still write to these buffers. Leaking them is the only safe thing to do: the process is
            // about to end, or a device has hung.
            mem::forget(mem::take(&mut self.slots));
        }
    }
}

fn user_data(index: usize) -> u64 {
    u64::try_from(index).expect("an index fits 64 bits")
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;
    use std::sync::Arc;

    use super::*;
    use crate::Buf;
    use crate::operation::{DriverCommand, Message};

    /// A ring on which `operation` has reached the kernel.
    fn ring_with(operation: RingOperation) -> (Ring, usize) {
        let mut ring = Ring::new(4).unwrap();
        let index = ring.begin(operation, Waker::noop().clone());
        ring.enter(Wait::No).unwrap();
        (ring, index)
    }

    #[test]
    fn a_ring_that_goes_before_its_operations_leaks_what_the_kernel_may_still_use() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        let socket = Rc::new(OwnedFd::from(socket));
        let (ring, _) = ring_with(RingOperation::Receive(Rc::clone(&socket), Buf::zeroed(100)));
        drop(ring);
        assert_eq!(Rc::strong_count(&socket), 2, "the operation, and the buffer with it, is still there");
    }

    #[test]
    fn a_completed_operation_gives_back_what_it_owned_although_nobody_wants_the_answer() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        let socket = Rc::new(OwnedFd::from(socket));
        let message = Message::new(Rc::clone(&socket), vec![Buf::zeroed(10)]);
        let (mut ring, index) = ring_with(RingOperation::Send(Box::new(message)));
        ring.abandon(index);
        while ring.in_flight() > 0 {
            ring.enter(Wait::AtMost(Duration::from_secs(10))).unwrap();
            ring.complete(&mut Vec::new());
        }
        assert_eq!(Rc::strong_count(&socket), 1);
    }

    #[test]
    fn nobody_waits_for_what_a_driver_keeps_and_its_answer_comes_all_the_same() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let command = DriverCommand { file: Arc::clone(&file), number: 0, bytes: [0; 16] };
        let (mut ring, index) = ring_with(RingOperation::Driver(command));
        assert_eq!((ring.in_flight(), Arc::strong_count(&file)), (0, 2));
        let answer = loop {
            ring.enter(Wait::AtMost(Duration::from_secs(10))).unwrap();
            ring.complete(&mut Vec::new());
            if let Poll::Ready(answer) = ring.poll(index, Waker::noop()) {
                break answer.1;
            }
        };
        assert_eq!((answer, ring.in_flight(), ring.staying), (Err(libc::EOPNOTSUPP), 0, 0));
    }

    #[test]
    fn a_stopped_receive_answers_and_its_place_is_used_again() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        let socket = Rc::new(OwnedFd::from(socket));
        let (mut ring, index) = ring_with(RingOperation::Receive(Rc::clone(&socket), Buf::zeroed(100)));
        ring.abandon(index);
        while ring.in_flight() > 0 {
            ring.enter(Wait::AtMost(Duration::from_secs(10))).unwrap();
            ring.complete(&mut Vec::new());
        }
        let again = ring.begin(RingOperation::Poll(socket, 4), Waker::noop().clone());
        assert_eq!(again, index);
    }
}
