//! Runs tasks on one thread, over one io_uring.
//!
//! A turn of the loop: run what is ready, in the order in which it became ready; tell those who wait for the end of
//! the turn, and run what that made ready; then one visit to the kernel, which submits everything that was begun and
//! waits if nothing is ready; then completions and timers make tasks ready. Only what is large is submitted at once.
//!
//! Time is that in which the loop ran (`running.rs`): after a pause completions come first, and timers are late by the
//! pause.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::buf::POOL_KEEPS_BYTES;
use crate::operation::{Outcome, RingOperation};
use crate::remote::{self, Inbox, Remote};
use crate::ring::{APART_MAX, Ring, Wait};
use crate::running::{RunningClock, WAIT_MAX};
use crate::sync::Semaphore;
use crate::task::{ROOT_INDEX, Task, Tasks, waker};
use crate::task_id::TaskId;
use crate::{BufPool, Env as _, HostEnv, Instant, RealInstant, sys};

/// The most polls between two visits to the kernel, so that tasks which always wake each other do not starve I/O.
const POLLS_PER_TURN_MAX: usize = 4096;

/// How long the end waits for the kernel to give back what is in flight.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// How much of that peers have to take what is sent to them.
const PEER_DRAIN_TIME: Duration = Duration::from_millis(500);

/// How often memory is released that was not used for so long.
const RELEASE_EVERY: Duration = Duration::from_secs(10);

/// The least memory that is worth registering.
const REGISTERED_BYTES_MIN: usize = 1 << 20;

/// When this process made its first executor: real time is counted from there on all threads, so that they can compare it.
static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// What an executor is made with.
#[derive(Clone, Copy, Debug)]
pub struct ExecutorOptions {
    /// Entries of the ring's submission queue; more operations than that may be in flight.
    pub ring_entries: u32,
    /// Buffer memory that is registered with the ring; less if the process may not lock so much.
    pub registered_bytes: usize,
    /// Buffer memory beside it that is kept for reuse at most.
    pub kept_bytes: usize,
}

impl Default for ExecutorOptions {
    fn default() -> Self {
        Self { ring_entries: 1024, registered_bytes: 64 << 20, kept_bytes: POOL_KEEPS_BYTES }
    }
}

/// A thread's event loop, not yet running. Cannot leave the thread it was made on.
pub struct Executor {
    core: Rc<Core>,
}

impl Executor {
    /// # Errors
    /// If the kernel has no io_uring for us.
    pub fn new(options: ExecutorOptions) -> io::Result<Self> {
        Self::over(Ring::new(options.ring_entries).map_err(|error| explain(&error))?, options)
    }

    /// One that needs no io_uring, and does one thing after the other: for files, not for sockets.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn blocking() -> io::Result<Self> {
        Self::over(Ring::blocking(), ExecutorOptions { registered_bytes: 0, ..ExecutorOptions::default() })
    }

    fn over(mut ring: Ring, options: ExecutorOptions) -> io::Result<Self> {
        let pool = registered_pool(&mut ring, options);
        let id = next_id();
        let inbox = Arc::new(Inbox::new()?);
        remote::enlist(id, &inbox);
        let core = Core {
            id,
            ring: RefCell::new(ring),
            tasks: RefCell::new(Tasks::new(id)),
            ready: RefCell::default(),
            timers: RefCell::default(),
            turn: Turn::default(),
            woken: RefCell::default(),
            random: RefCell::default(),
            clock: RunningClock::new(Instant::default(), RealInstant::default().plus(START.elapsed())),
            pool,
            apart: Semaphore::new(APART_MAX),
            inbox,
        };
        Ok(Self { core: Rc::new(core) })
    }

    pub fn env(&self) -> HostEnv {
        HostEnv::of(Rc::clone(&self.core))
    }

    /// A way to reach this executor from other threads.
    pub fn remote(&self) -> Remote {
        Remote::to(Arc::clone(&self.core.inbox))
    }

    /// Runs `root` to its end. Tasks that are left are dropped; operations in flight are waited for (a few seconds at
    /// most, then what they own is leaked).
    pub fn run<T>(self, root: impl AsyncFnOnce(HostEnv) -> T) -> T {
        let _current = CurrentGuard::set(&self.core);
        let env = self.env();
        self.core.spawn(None, remote::serve(env.clone(), Arc::clone(&self.core.inbox), wake));
        self.core.spawn(None, release_unused(env.clone()));
        let mut output = None;
        {
            let future = root(env.clone());
            self.core.run(pin!(async { output = Some(future.await) }));
        }
        self.core.end();
        output.expect("the root future has ended")
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.core.inbox.close();
        remote::strike_off(self.core.id);
    }
}

/// Gives memory back that a burst needed, as long as the executor runs.
async fn release_unused(env: HostEnv) {
    loop {
        env.sleep(RELEASE_EVERY).await;
        env.buffers().release_unused();
    }
}

fn explain(error: &io::Error) -> io::Error {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let hint =
        why_no_ring(error.raw_os_error(), &read("/proc/sys/kernel/io_uring_disabled"), &read("/proc/self/status"));
    io::Error::new(error.kind(), format!("cannot set up io_uring: {error}{hint}"))
}

/// Who forbids it: `sysctl` is what io_uring_disabled says (Documentation/admin-guide/sysctl/kernel.rst), `status` what
/// /proc says of this process (proc_pid_status(5)).
fn why_no_ring(errno: Option<i32>, sysctl: &str, status: &str) -> &'static str {
    let filtered = status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]));
    match (errno, sysctl.trim()) {
        (Some(libc::EPERM | libc::EACCES), "2") => {
            " (the sysctl kernel.io_uring_disabled is 2, which forbids it to all; set it to 0)"
        }
        (Some(libc::EPERM | libc::EACCES), "1") => {
            " (the sysctl kernel.io_uring_disabled is 1, which forbids it to all but root and the group of \
             kernel.io_uring_group; set it to 0, or put this user into that group)"
        }
        (Some(libc::EPERM | libc::EACCES | libc::ENOSYS), _) if filtered => {
            " (a seccomp filter of this process forbids it, as the default profile of a container does; give it a profile that \
             allows io_uring_setup, io_uring_enter and io_uring_register)"
        }
        (Some(libc::EPERM | libc::EACCES), _) => " (a security module forbids it)",
        (Some(libc::ENOSYS), _) => " (the kernel has none: Linux 5.18 or later is needed)",
        (Some(libc::ENOMEM), _) => {
            " (there is too little memory that may be locked: raise RLIMIT_MEMLOCK, LimitMEMLOCK=infinity of the service or \
             `ulimit -l unlimited`)"
        }
        (Some(libc::EMFILE | libc::ENFILE), _) => " (raise the limit of file descriptors: LimitNOFILE= of the service)",
        (Some(_) | None, _) => "",
    }
}

/// Without its ring there is nothing an executor can do, and nothing it could report through.
fn enter(ring: &mut Ring, wait: Wait) {
    ring.enter(wait).expect("a healthy ring can be entered");
}

/// A pool whose arena the ring knows; halves the arena until the kernel takes it.
fn registered_pool(ring: &mut Ring, options: ExecutorOptions) -> BufPool {
    let mut bytes = options.registered_bytes;
    while bytes >= REGISTERED_BYTES_MIN {
        let pool = BufPool::with_arena(bytes, options.kept_bytes);
        if ring.register(pool.arena()).is_ok() {
            return pool;
        }
        bytes /= 2;
    }
    BufPool::with_arena(0, options.kept_bytes)
}

fn next_id() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

thread_local! {
    /// The executor that runs on this thread now, for wakers.
    static CURRENT: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
    static AT_WORK_FOR: RefCell<Option<Rc<str>>> = const { RefCell::new(None) };
}

/// For whom the task that runs on this thread is at work; for a panic to say.
pub fn at_work_for() -> Option<String> {
    AT_WORK_FOR.try_with(|subject| subject.borrow().as_deref().map(str::to_owned)).ok().flatten()
}

/// Makes an executor the current one, and the former one afterwards.
struct CurrentGuard(Option<Rc<Core>>);

impl CurrentGuard {
    fn set(core: &Rc<Core>) -> Self {
        Self(CURRENT.replace(Some(Rc::clone(core))))
    }
}

impl Drop for CurrentGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Makes a task ready, from any thread.
pub(crate) fn wake(id: TaskId) {
    let here = CURRENT.try_with(|current| match current.borrow().as_ref() {
        Some(core) if core.id == id.executor => {
            core.make_ready(id);
            true
        }
        Some(_) | None => false,
    });
    if !here.unwrap_or(false) {
        remote::wake(id);
    }
}

/// What the loop, the environment and the devices share.
pub(crate) struct Core {
    id: u16,
    ring: RefCell<Ring>,
    tasks: RefCell<Tasks>,
    ready: RefCell<VecDeque<TaskId>>,
    /// By deadline; the second number tells equal deadlines apart.
    timers: RefCell<Timers>,
    turn: Turn,
    /// Room for wakers between the ring and the ready queue, kept from turn to turn.
    woken: RefCell<Vec<Waker>>,
    random: RefCell<Vec<u64>>,
    clock: RunningClock,
    pub(crate) pool: BufPool,
    /// Transfers that may be on threads of the kernel's at once.
    pub(crate) apart: Semaphore,
    inbox: Arc<Inbox>,
}

#[derive(Default)]
struct Timers {
    waiting: BTreeMap<(Instant, u64), Waker>,
    next_number: u64,
}

#[derive(Default)]
struct Turn {
    number: Cell<u64>,
    waiters: RefCell<Vec<Waker>>,
}

/// Random numbers are fetched from the kernel so many bytes at once.
const RANDOM_BYTES: usize = 256;

impl Core {
    /// Time in which the loop ran.
    pub(crate) fn now(&self) -> Instant {
        self.clock.at(self.real_now())
    }

    pub(crate) fn real_now(&self) -> RealInstant {
        RealInstant::default().plus(START.elapsed())
    }

    /// The loop runs: what passed since it last said so was waiting or work, unless it was too long for either.
    fn mark_clock(&self) {
        self.clock.mark(self.real_now());
    }

    pub(crate) fn random(&self) -> u64 {
        let mut words = self.random.borrow_mut();
        if words.is_empty() {
            let mut bytes = [0; RANDOM_BYTES];
            sys::random_bytes(&mut bytes);
            words.extend(bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)));
        }
        words.pop().expect("it was just filled")
    }

    /// Starts a task, at work for `subject`.
    pub(crate) fn spawn(&self, subject: Option<Rc<str>>, task: impl Future<Output = ()> + 'static) {
        let inserted = self.tasks.borrow_mut().insert(Task::new(subject, task));
        if let Ok(id) = inserted {
            self.ready.borrow_mut().push_back(id);
        }
    }

    pub(crate) fn make_ready(&self, id: TaskId) {
        if self.tasks.borrow_mut().make_ready(id) {
            self.ready.borrow_mut().push_back(id);
        }
    }

    /// Of no type, as what it calls: a loop of its own for each root is built for each test.
    fn run(&self, mut root: Pin<&mut dyn Future<Output = ()>>) {
        let root_id = self.tasks.borrow().root();
        self.make_ready(root_id);
        while !self.turn(root.as_mut()) {}
    }

    /// One turn of the loop. True if the root has ended.
    fn turn(&self, mut root: Pin<&mut dyn Future<Output = ()>>) -> bool {
        if self.run_ready(root.as_mut()) {
            return true;
        }
        self.end_turn();
        if self.run_ready(root) {
            return true;
        }
        self.mark_clock();
        let idle = self.ready.borrow().is_empty() && self.turn.waiters.borrow().is_empty();
        self.visit_kernel(if idle { self.wait_for_timer() } else { Wait::No });
        self.mark_clock();
        self.fire_timers();
        false
    }

    fn run_ready(&self, mut root: Pin<&mut dyn Future<Output = ()>>) -> bool {
        for _ in 0..POLLS_PER_TURN_MAX {
            let Some(id) = self.ready.borrow_mut().pop_front() else { return false };
            let task = self.tasks.borrow_mut().take(id);
            let waker = waker(id);
            let mut context = Context::from_waker(&waker);
            match task {
                Some(mut task) => {
                    let outer = AT_WORK_FOR.replace(task.subject.take());
                    let polled = task.future.as_mut().poll(&mut context);
                    task.subject = AT_WORK_FOR.replace(outer);
                    match polled {
                        Poll::Ready(()) => self.tasks.borrow_mut().end(id),
                        Poll::Pending => self.tasks.borrow_mut().put_back(id, task),
                    }
                }
                None if id.index == ROOT_INDEX && root.as_mut().poll(&mut context).is_ready() => return true,
                None => {}
            }
            if self.ring.borrow().is_urgent() {
                enter(&mut self.ring.borrow_mut(), Wait::No);
            }
        }
        false
    }

    fn end_turn(&self) {
        self.turn.number.set(self.turn.number.get() + 1);
        for waker in self.turn.waiters.take() {
            waker.wake();
        }
    }

    fn wait_for_timer(&self) -> Wait {
        let timers = self.timers.borrow();
        let next = timers.waiting.first_key_value();
        let left = next.map_or(WAIT_MAX, |((deadline, _), _)| deadline.since(self.now()).min(WAIT_MAX));
        if left.is_zero() { Wait::No } else { Wait::AtMost(left) }
    }

    fn visit_kernel(&self, wait: Wait) {
        let mut woken = self.woken.take();
        {
            let mut ring = self.ring.borrow_mut();
            let wait = if ring.has_completions() { Wait::No } else { wait };
            if ring.needs_visit() || !matches!(wait, Wait::No) {
                enter(&mut ring, wait);
            }
            ring.complete(&mut woken);
        }
        for waker in woken.drain(..) {
            waker.wake();
        }
        *self.woken.borrow_mut() = woken;
    }

    fn fire_timers(&self) {
        if self.timers.borrow().waiting.is_empty() {
            return;
        }
        let now = self.now();
        loop {
            let due = {
                let mut timers = self.timers.borrow_mut();
                let first = timers.waiting.first_entry().filter(|entry| entry.key().0 <= now);
                first.map(std::collections::btree_map::OccupiedEntry::remove)
            };
            let Some(waker) = due else { return };
            waker.wake();
        }
    }

    /// Drops what is left and waits for the kernel.
    fn end(&self) {
        self.inbox.close();
        let tasks = self.tasks.borrow_mut().close();
        drop(tasks);
        let (started, mut peers_have_time) = (self.now(), true);
        while self.ring.borrow().in_flight() > 0 {
            let passed = self.now().since(started);
            if peers_have_time && passed >= PEER_DRAIN_TIME {
                self.ring.borrow_mut().cancel_sockets();
                peers_have_time = false;
            }
            let left = if peers_have_time { PEER_DRAIN_TIME } else { DRAIN_TIME }.saturating_sub(passed);
            if left.is_zero() {
                return;
            }
            self.visit_kernel(Wait::AtMost(left.min(WAIT_MAX)));
            self.mark_clock();
        }
    }
}

/// An operation on the ring: begun when first polled. Dropping it discards the answer, not the operation (but one that
/// only waits for a peer is cancelled).
pub(crate) struct Submitted {
    core: Rc<Core>,
    state: SubmittedState,
}

enum SubmittedState {
    New(RingOperation),
    Begun(usize),
    Answered,
}

impl Submitted {
    pub(crate) fn new(core: &Rc<Core>, operation: RingOperation) -> Self {
        Self { core: Rc::clone(core), state: SubmittedState::New(operation) }
    }
}

impl Future for Submitted {
    type Output = (RingOperation, Outcome);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut ring = this.core.ring.borrow_mut();
        match mem::replace(&mut this.state, SubmittedState::Answered) {
            SubmittedState::New(operation) => {
                this.state = SubmittedState::Begun(ring.begin(operation, context.waker().clone()));
                Poll::Pending
            }
            SubmittedState::Begun(index) => {
                let poll = ring.poll(index, context.waker());
                if poll.is_pending() {
                    this.state = SubmittedState::Begun(index);
                }
                poll
            }
            SubmittedState::Answered => unreachable!("a future is not polled after its end"),
        }
    }
}

impl Submitted {
    /// Asks the kernel to stop it, if it has begun: it still has to be waited for, and may have succeeded all the same.
    pub(crate) fn cancel(&self) {
        if let SubmittedState::Begun(index) = self.state {
            self.core.ring.borrow_mut().cancel(index);
        }
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        if let SubmittedState::Begun(index) = self.state {
            self.core.ring.borrow_mut().abandon(index);
        }
    }
}

/// See [`HostEnv::end_of_turn`].
pub(crate) struct EndOfTurn {
    core: Rc<Core>,
    since: Option<u64>,
}

impl EndOfTurn {
    pub(crate) fn new(core: &Rc<Core>) -> Self {
        Self { core: Rc::clone(core), since: None }
    }
}

impl Future for EndOfTurn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let number = self.core.turn.number.get();
        if self.since.is_some_and(|since| since != number) {
            return Poll::Ready(());
        }
        self.since = Some(number);
        self.core.turn.waiters.borrow_mut().push(context.waker().clone());
        Poll::Pending
    }
}

/// Completes at a point in time, and not before its task has given others their turn.
pub(crate) struct Sleep {
    core: Rc<Core>,
    deadline: Instant,
    number: Option<u64>,
}

impl Sleep {
    pub(crate) fn new(core: &Rc<Core>, duration: Duration) -> Self {
        Self { core: Rc::clone(core), deadline: core.now().plus(duration), number: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.number.is_some() && self.core.now() >= self.deadline {
            return Poll::Ready(());
        }
        let number = {
            let mut timers = self.core.timers.borrow_mut();
            let number = self.number.unwrap_or(timers.next_number);
            timers.next_number = timers.next_number.max(number + 1);
            timers.waiting.insert((self.deadline, number), context.waker().clone());
            number
        };
        self.number = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.core.timers.borrow_mut().waiting.remove(&(self.deadline, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::{Either, select};

    use super::*;
    use crate::apart::apart;
    use crate::closing::{Closed, OpenFile};
    use crate::operation::{Direction, Transfer};
    use crate::ring::AT_ONCE_BYTES;
    use crate::running::STRETCH_MAX;
    use crate::{Buf, Env};

    #[test]
    fn who_forbids_io_uring_is_named() {
        let (filtered, free) = ("Name:\thotset\nSeccomp:\t2\nSeccomp_filters:\t1\n", "Seccomp:\t0\n");
        for (errno, sysctl, status, part) in [
            (libc::EPERM, "2\n", free, "io_uring_disabled is 2"),
            (libc::EPERM, "1\n", filtered, "kernel.io_uring_group"),
            (libc::EPERM, "0\n", filtered, "seccomp"),
            (libc::EPERM, "", free, "security module"),
            (libc::ENOSYS, "0\n", filtered, "seccomp"),
            (libc::ENOSYS, "", free, "Linux 5.18"),
            (libc::ENOMEM, "0\n", free, "RLIMIT_MEMLOCK"),
        ] {
            let why = why_no_ring(Some(errno), sysctl, status);
            assert!(why.contains(part), "{errno} {sysctl:?}: {why}");
        }
    }

    #[test]
    fn files_are_read_written_and_made_durable_without_io_uring() {
        use crate::{ByteRange, Device, Env, FileDevice, FileOptions};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        Executor::blocking().unwrap().run(async |env| {
            let device = FileDevice::open(&env, &path, FileOptions::default()).unwrap();
            let mut buf = env.buffers().take(8192);
            buf.fill(7);
            let (buf, written) = device.write(4096, buf).await;
            written.unwrap();
            device.flush().await.unwrap();
            let (buf, read) = device.read(0, buf).await;
            read.unwrap();
            assert_eq!((buf[0], buf[4096]), (1, 7));
            device.write_zeroes(ByteRange::at(4096, 4096), crate::ZeroMode::MayPunch).await.unwrap();
            let (buf, read) = device.read(4096, buf).await;
            read.unwrap();
            assert_eq!((buf[0], buf[4096]), (0, 7));
            // Timers and tasks go on beside it.
            env.sleep(std::time::Duration::from_millis(1)).await;
        });
    }

    #[test]
    fn what_another_thread_says_is_heard_without_io_uring() {
        Executor::blocking().unwrap().run(async |env| {
            let answer = apart(&env, || std::thread::sleep(Duration::from_millis(1)));
            match select(pin!(env.sleep(Duration::from_secs(5))), pin!(answer)).await {
                Either::Left(_) => panic!("the answer was not heard"),
                Either::Right((answer, _)) => answer.unwrap(),
            }
        });
    }

    #[test]
    fn what_another_thread_says_is_heard_without_io_uring_although_a_task_never_rests() {
        Executor::blocking().unwrap().run(async |env| {
            let (busy, file) = (env.clone(), Rc::new(OpenFile::new(sys::eventfd().unwrap(), Closed::AtOnce)));
            env.spawn(async move {
                loop {
                    drop(busy.submit(RingOperation::Sync(Rc::clone(&file))).await);
                }
            });
            let answer = apart(&env, || std::thread::sleep(Duration::from_millis(1)));
            match select(pin!(env.sleep(Duration::from_secs(5))), pin!(answer)).await {
                Either::Left(_) => panic!("the answer was not heard"),
                Either::Right((answer, _)) => answer.unwrap(),
            }
        });
    }

    #[test]
    fn what_is_large_reaches_the_kernel_before_the_next_task_runs_and_the_rest_at_the_end_of_the_turn() {
        for (bytes, at_once) in [(AT_ONCE_BYTES - 1, false), (AT_ONCE_BYTES, true)] {
            let executor = Executor::new(ExecutorOptions::default()).unwrap();
            let core = Rc::clone(&executor.core);
            executor.run(async |env| {
                let file = Rc::new(OpenFile::new(sys::eventfd().unwrap(), Closed::AtOnce));
                let transfer = Transfer {
                    file,
                    apart: None,
                    direction: Direction::Write,
                    offset: 0,
                    buf: Buf::zeroed(bytes),
                    done: 0,
                };
                let submitted = env.submit(RingOperation::Transfer(transfer));
                core.spawn(None, async move { drop(submitted.await) });
                let seen = Rc::new(Cell::new(None));
                let (next, sees) = (Rc::clone(&core), Rc::clone(&seen));
                core.spawn(None, async move { sees.set(Some(!next.ring.borrow_mut().needs_visit())) });
                env.end_of_turn().await;
                assert_eq!(seen.get(), Some(at_once), "{bytes} bytes are with the kernel");
            });
        }
    }

    #[test]
    fn a_pause_is_no_time_for_timers_and_what_completed_meanwhile_is_seen_before_they_fire() {
        let executor = Executor::new(ExecutorOptions::default()).unwrap();
        executor.run(async |env| {
            let file = Rc::new(sys::eventfd().unwrap());
            let read = env.submit(RingOperation::Poll(Rc::clone(&file), u32::from(libc::POLLOUT.cast_unsigned())));
            let (counted, real) = (env.now(), env.real_now());
            let late = env.sleep(STRETCH_MAX * 2);
            // Nothing of this thread runs, as after SIGSTOP.
            std::thread::sleep(STRETCH_MAX * 4);
            assert!(env.real_now().since(real) >= STRETCH_MAX * 4);
            assert!(env.now().since(counted) <= STRETCH_MAX, "the same turn counts it as one stretch");
            match select(read, pin!(late)).await {
                Either::Left(_) => {}
                Either::Right(_) => panic!("the timer was late before the device was heard"),
            }
        });
    }
}
