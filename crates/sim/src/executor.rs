//! A seeded executor: virtual time, tasks polled in an order that the seed chooses, and the `Env` made of them.
//!
//! Time moves only when no task is ready, or while the daemon is paused: then devices go on, no task runs, and the clock
//! that the engine sees (`RunningClock`, as in the real executor) forgives the time. The same seed gives the same history: nothing here looks at a real clock, an
//! address or a hash map.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use hotset_block::{BufPool, Env, Instant, RealInstant, RunningClock, WAIT_MAX};

use crate::device::SimDevice;
use crate::random::Random;
use crate::recognise::{is_publication, is_row_record, is_slot};
use crate::trace::Trace;

/// Clock, tasks, timers and chance of one simulated world.
pub struct Simulation {
    real: Cell<RealInstant>,
    clock: RunningClock,
    random: RefCell<Random>,
    tasks: RefCell<BTreeMap<u64, Task>>,
    ready: Arc<Mutex<Vec<u64>>>,
    /// Who sleeps, by the running time at which he wakes.
    sleepers: RefCell<BTreeMap<(Instant, u64), Waker>>,
    /// What the world does, by the real time at which it does it: a device completes an operation.
    calls: RefCell<BTreeMap<(RealInstant, u64), Call>>,
    next_id: Cell<u64>,
    buffers: BufPool,
    pub trace: Trace,
    /// Flushes begun on any disk.
    pub flushes: Cell<u64>,
    /// Flushes of backing devices that succeeded.
    pub backing_flushes: Cell<u64>,
    /// Hosts' flushes that succeeded.
    pub host_flushes: Cell<u64>,
    /// Operations that failed on any disk.
    pub failures: Cell<u64>,
    /// Writes begun on any disk.
    pub writes: Cell<u64>,
    /// Slots that began to be written on any disk.
    pub slot_writes: Cell<u64>,
    /// Batches of a slot index that publish slots and began to be written on any disk.
    pub publications: Cell<u64>,
    /// Records of the write log's rows that began to be written on any disk.
    pub row_records: Cell<u64>,
}

struct Task {
    /// Taken out while it is polled.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    waker: Waker,
    flag: Arc<TaskWaker>,
}

/// Puts its task on the ready list, once until it is polled.
struct TaskWaker {
    task: u64,
    queued: AtomicBool,
    ready: Arc<Mutex<Vec<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().expect("one thread uses it").push(self.task);
        }
    }
}

type Call = Box<dyn FnOnce()>;

/// Whose turn is next when no task is ready.
enum Next {
    Sleeper,
    Call,
}

/// What is due so soon may come before what is ready.
const NEAR: Duration = Duration::from_micros(200);

/// When the first daemon begins, in either time.
const BEGINNING_NS: u64 = 1_000_000_000;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Polled,
    /// Time moved to the next timer, which fired.
    Fired,
    /// Nothing is ready and nothing will be.
    Idle,
}

impl Simulation {
    pub fn new(seed: u64, traced: bool) -> Rc<Self> {
        Rc::new(Self {
            real: Cell::new(RealInstant(BEGINNING_NS)),
            clock: RunningClock::new(Instant(BEGINNING_NS), RealInstant(BEGINNING_NS)),
            random: RefCell::new(Random::new(seed)),
            tasks: RefCell::default(),
            ready: Arc::default(),
            sleepers: RefCell::default(),
            calls: RefCell::default(),
            next_id: Cell::new(1),
            buffers: BufPool::new(),
            trace: Trace::new(traced),
            flushes: Cell::new(0),
            backing_flushes: Cell::new(0),
            host_flushes: Cell::new(0),
            failures: Cell::new(0),
            writes: Cell::new(0),
            slot_writes: Cell::new(0),
            publications: Cell::new(0),
            row_records: Cell::new(0),
        })
    }

    /// Draws from the world's chance.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.random.borrow_mut())
    }

    /// Running time.
    pub fn now(&self) -> Instant {
        self.clock.at(self.real.get())
    }

    pub fn real_now(&self) -> RealInstant {
        self.real.get()
    }

    /// A write of this begins on some disk.
    pub fn count_write(&self, bytes: &[u8], sector_bytes: usize) {
        self.writes.set(self.writes.get() + 1);
        self.slot_writes.set(self.slot_writes.get() + u64::from(is_slot(bytes)));
        self.row_records.set(self.row_records.get() + u64::from(is_row_record(bytes)));
        let publishes = bytes.chunks(sector_bytes).any(is_publication);
        self.publications.set(self.publications.get() + u64::from(publishes));
    }

    /// Writes a line of history.
    pub fn note(&self, line: impl FnOnce() -> String) {
        self.trace.note(self.real.get().0, line);
    }

    /// A number never given before in this world.
    pub fn unique(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let id = self.unique();
        let flag = Arc::new(TaskWaker { task: id, queued: AtomicBool::new(false), ready: Arc::clone(&self.ready) });
        let waker = Waker::from(Arc::clone(&flag));
        waker.wake_by_ref();
        self.tasks.borrow_mut().insert(id, Task { future: Some(Box::pin(future)), waker, flag });
    }

    /// Calls `action` after `delay`, unless the tasks are dropped before.
    pub fn call_after(&self, delay: Duration, action: impl FnOnce() + 'static) {
        let key = (self.real.get().plus(delay), self.unique());
        self.calls.borrow_mut().insert(key, Box::new(action));
    }

    /// Polls one ready task, or lets time pass until the next timer.
    pub fn step(&self) -> Step {
        // Sometimes the world is faster than the daemon: what is due soon comes before what is ready.
        if self.draw(|random| random.one_in(16)) && self.next_timer_is_near() {
            return self.fire_next();
        }
        match self.next_ready() {
            Some(task) => {
                self.poll(task);
                Step::Polled
            }
            None => self.fire_next(),
        }
    }

    fn next_ready(&self) -> Option<u64> {
        let mut ready = self.ready.lock().expect("one thread uses it");
        let count = ready.len();
        (count > 0).then(|| ready.swap_remove(self.draw(|random| random.index(count))))
    }

    fn next_timer_is_near(&self) -> bool {
        self.next().is_some_and(|(_, when, _)| when.since(self.real.get()) < NEAR)
    }

    fn poll(&self, id: u64) {
        let taken = {
            let mut tasks = self.tasks.borrow_mut();
            let Some(task) = tasks.get_mut(&id) else { return };
            task.flag.queued.store(false, Ordering::Relaxed);
            task.future.take().map(|future| (future, task.waker.clone()))
        };
        let Some((mut future, waker)) = taken else { return };
        self.trace.mix(id);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => {
                let finished = self.tasks.borrow_mut().remove(&id);
                drop(finished);
            }
            Poll::Pending => {
                if let Some(task) = self.tasks.borrow_mut().get_mut(&id) {
                    task.future = Some(future);
                }
            }
        }
    }

    fn fire_next(&self) -> Step {
        let Some((next, when, id)) = self.next() else { return Step::Idle };
        self.run_until(when);
        self.trace.mix(when.0 ^ id.rotate_left(32));
        match next {
            Next::Sleeper => {
                let sleeper = self.sleepers.borrow_mut().pop_first();
                sleeper.into_iter().for_each(|(_, waker)| waker.wake());
            }
            Next::Call => {
                let call = self.calls.borrow_mut().pop_first();
                call.into_iter().for_each(|(_, action)| action());
            }
        }
        Step::Fired
    }

    /// What comes next, in which real time, if the daemon runs until then, and its number.
    fn next(&self) -> Option<(Next, RealInstant, u64)> {
        let sleeper = self.sleepers.borrow().first_key_value().map(|((until, id), _)| {
            let left = until.since(self.now());
            (Next::Sleeper, self.real.get().plus(left), *id)
        });
        let call = self.calls.borrow().first_key_value().map(|((when, id), _)| (Next::Call, *when, *id));
        match (sleeper, call) {
            (Some(sleeper), Some(call)) if (sleeper.1, sleeper.2) < (call.1, call.2) => Some(sleeper),
            (sleeper, call) => call.or(sleeper),
        }
    }

    /// The daemon waits until then, marking its clock as the loop of the real one does.
    fn run_until(&self, when: RealInstant) {
        let mut real = self.real.get();
        while real < when {
            real = real.plus(WAIT_MAX).min(when);
            self.clock.mark(real);
        }
        self.real.set(real);
    }

    /// The daemon does not run for a while; devices complete what they work on, and take their time for the rest. With
    /// `counted`, it does not notice that it did not run.
    pub fn pause(&self, duration: Duration, counted: bool) {
        let until = self.real.get().plus(duration);
        self.note(|| format!("-- the daemon is paused for {duration:?}"));
        loop {
            let Some(call) = self
                .calls
                .borrow_mut()
                .first_entry()
                .filter(|call| call.key().0 <= until)
                .map(|call| call.remove_entry())
            else {
                break;
            };
            let ((when, id), action) = call;
            self.real.set(self.real.get().max(when));
            self.trace.mix(when.0 ^ id.rotate_left(32));
            action();
        }
        if counted {
            self.run_until(until);
        }
        self.real.set(until);
        self.clock.mark(until);
    }

    /// The daemon dies: nothing that was spawned runs again, and no timer fires.
    pub fn drop_tasks(&self) {
        let tasks = self.tasks.take();
        drop(tasks);
        // Dropping a task may have spawned or woken others.
        let late = self.tasks.take();
        drop(late);
        let waiting = (self.sleepers.take(), self.calls.take());
        drop(waiting);
        self.ready.lock().expect("one thread uses it").clear();
    }

    /// Lets time pass while no daemon runs.
    pub fn skip(&self, duration: Duration) {
        self.real.set(self.real.get().plus(duration));
        self.clock.mark(self.real.get());
    }
}

/// The world as the engine sees it.
#[derive(Clone)]
pub struct SimEnv {
    pub simulation: Rc<Simulation>,
}

impl Env for SimEnv {
    type Device = SimDevice;

    fn now(&self) -> Instant {
        self.simulation.now()
    }

    fn real_now(&self) -> RealInstant {
        self.simulation.real_now()
    }

    fn unix_seconds(&self) -> u64 {
        1_700_000_000 + self.simulation.real_now().0 / 1_000_000_000
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        let key = (self.now().plus(duration), self.simulation.unique());
        Sleep { simulation: Rc::clone(&self.simulation), key, has_begun: false }
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.simulation.spawn(task);
    }

    fn random(&self) -> u64 {
        self.simulation.draw(Random::draw)
    }

    fn buffers(&self) -> &BufPool {
        &self.simulation.buffers
    }
}

/// See [`Env::sleep`].
struct Sleep {
    simulation: Rc<Simulation>,
    key: (Instant, u64),
    has_begun: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.has_begun, true) && self.simulation.now() >= self.key.0 {
            return Poll::Ready(());
        }
        self.simulation.sleepers.borrow_mut().insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = self.simulation.sleepers.borrow_mut().remove(&self.key);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_of_three_sleepers(seed: u64) -> (Vec<u64>, u64) {
        let simulation = Simulation::new(seed, false);
        let env = SimEnv { simulation: Rc::clone(&simulation) };
        let order: Rc<RefCell<Vec<u64>>> = Rc::default();
        for name in 0..8 {
            let (env, order) = (env.clone(), Rc::clone(&order));
            simulation.spawn({
                let env = env.clone();
                async move {
                    env.sleep(Duration::from_millis(name / 4)).await;
                    order.borrow_mut().push(name);
                }
            });
            drop(env);
        }
        while simulation.step() != Step::Idle {}
        (order.take(), simulation.trace.hash())
    }

    #[test]
    fn a_seed_fixes_the_order_and_another_seed_changes_it() {
        assert_eq!(order_of_three_sleepers(1), order_of_three_sleepers(1));
        let orders: std::collections::BTreeSet<_> = (0..10).map(|seed| order_of_three_sleepers(seed).0).collect();
        assert!(orders.len() > 5, "tasks that are ready together run in an order that the seed chooses");
        let (order, _) = order_of_three_sleepers(3);
        assert!(order[..4].iter().all(|name| *name < 4), "those that sleep longer wake later: {order:?}");
    }

    #[test]
    fn a_dropped_world_runs_nothing_more() {
        let simulation = Simulation::new(1, false);
        let env = SimEnv { simulation: Rc::clone(&simulation) };
        let ran: Rc<Cell<bool>> = Rc::default();
        simulation.spawn({
            let ran = Rc::clone(&ran);
            async move {
                env.sleep(Duration::from_secs(1)).await;
                ran.set(true);
            }
        });
        assert_eq!(simulation.step(), Step::Polled);
        simulation.drop_tasks();
        assert_eq!(simulation.step(), Step::Idle);
        assert!(!ran.get());
    }
}
