//! The tasks of an executor and the wakers that name them.
//!
//! Why `unsafe`: a waker is made from a table of functions. It carries no pointer at all but three numbers (executor,
//! index, generation), so that copying it costs nothing, it may outlive its task and its executor, and it may be sent
//! to other threads, as `Waker` promises.

#![allow(unsafe_code)]

use std::pin::Pin;
use std::ptr;
use std::rc::Rc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::executor;

/// Names a task. A generation tells it from earlier ones at the same index; one that comes round again (after 2^24
/// tasks) wakes a stranger for nothing, which is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskId {
    pub(crate) executor: u16,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Bits of an index and of a generation in a waker's word; 16 bits are left for the executor.
const FIELD_BITS: u32 = 24;
const FIELD_MASK: u32 = (1 << FIELD_BITS) - 1;

/// The most tasks at one time.
const TASKS_MAX: usize = 1 << FIELD_BITS;

impl TaskId {
    pub(crate) fn waker(self) -> Waker {
        // SAFETY: the functions of `TABLE` keep the contract of `RawWakerVTable`: they treat the word as a number,
        // own nothing, and `wake` may run on any thread (`executor::wake` sees to that).
        unsafe { Waker::new(self.to_word(), &TABLE) }
    }

    fn to_word(self) -> *const () {
        let fields = (u64::from(self.generation & FIELD_MASK) << FIELD_BITS) | u64::from(self.index & FIELD_MASK);
        let word = (u64::from(self.executor) << (2 * FIELD_BITS)) | fields;
        ptr::without_provenance(usize::try_from(word).expect("Hotset runs on 64-bit machines"))
    }

    fn from_word(word: *const ()) -> Self {
        let word = u64::try_from(word.addr()).expect("an address fits 64 bits");
        let field = |shift: u32| u32::try_from((word >> shift) & u64::from(FIELD_MASK)).expect("24 bits fit 32");
        let executor = u16::try_from(word >> (2 * FIELD_BITS)).expect("16 bits are left");
        Self { executor, index: field(0), generation: field(FIELD_BITS) }
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, ignore);

fn clone(word: *const ()) -> RawWaker {
    RawWaker::new(word, &TABLE)
}

fn wake(word: *const ()) {
    executor::wake(TaskId::from_word(word));
}

fn ignore(_: *const ()) {}

pub(crate) struct Task {
    pub(crate) future: Pin<Box<dyn Future<Output = ()>>>,
    /// For whom it is at work, if that was said.
    pub(crate) subject: Option<Rc<str>>,
}

impl Task {
    pub(crate) fn new(subject: Option<Rc<str>>, future: impl Future<Output = ()> + 'static) -> Self {
        Self { future: Box::pin(future), subject }
    }
}

/// All tasks of an executor. Index 0 stands for the root future, which the executor keeps itself.
pub(crate) struct Tasks {
    executor: u16,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// No more tasks are taken: the executor ends.
    closed: bool,
}

struct Slot {
    generation: u32,
    /// It stands in the ready queue.
    ready: bool,
    state: State,
}

enum State {
    Free,
    /// The executor is polling it, or it is the root.
    Out,
    Waiting(Task),
}

pub(crate) const ROOT_INDEX: u32 = 0;

impl Tasks {
    pub(crate) fn new(executor: u16) -> Self {
        let root = Slot { generation: 0, ready: false, state: State::Out };
        Self { executor, slots: vec![root], free: Vec::new(), closed: false }
    }

    pub(crate) fn root(&self) -> TaskId {
        TaskId { executor: self.executor, index: ROOT_INDEX, generation: 0 }
    }

    /// Takes in a task, as ready. `Err` gives it back: the executor is ending.
    pub(crate) fn insert(&mut self, task: Task) -> Result<TaskId, Task> {
        if self.closed {
            return Err(task);
        }
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let slot = self.slot(index);
        *slot = Slot { generation: slot.generation, ready: true, state: State::Waiting(task) };
        let generation = slot.generation;
        Ok(TaskId { executor: self.executor, index, generation })
    }

    fn grow(&mut self) -> u32 {
        assert!(self.slots.len() < TASKS_MAX, "more than {TASKS_MAX} tasks: something does not wait for its work");
        self.slots.push(Slot { generation: 0, ready: false, state: State::Free });
        u32::try_from(self.slots.len() - 1).expect("checked against the limit")
    }

    /// Marks a task as ready; `false` if it is ready already or has ended.
    pub(crate) fn make_ready(&mut self, id: TaskId) -> bool {
        let Some(slot) = usize::try_from(id.index).ok().and_then(|index| self.slots.get_mut(index)) else {
            return false;
        };
        let news = !slot.ready && slot.generation == id.generation && !matches!(slot.state, State::Free);
        slot.ready |= news;
        news
    }

    /// Takes a task out of the table to poll it; `None` for the root, and if the task has ended since it was ready.
    pub(crate) fn take(&mut self, id: TaskId) -> Option<Task> {
        let slot = self.slot(id.index);
        if slot.generation != id.generation {
            return None;
        }
        slot.ready = false;
        match std::mem::replace(&mut slot.state, State::Out) {
            State::Waiting(task) => Some(task),
            State::Out | State::Free => None,
        }
    }

    pub(crate) fn put_back(&mut self, id: TaskId, task: Task) {
        self.slot(id.index).state = State::Waiting(task);
    }

    /// A task that was taken out has ended.
    pub(crate) fn end(&mut self, id: TaskId) {
        let slot = self.slot(id.index);
        slot.state = State::Free;
        slot.ready = false;
        slot.generation = (slot.generation + 1) & FIELD_MASK;
        self.free.push(id.index);
    }

    /// Takes no more tasks and gives up those that are left.
    pub(crate) fn close(&mut self) -> Vec<Task> {
        self.closed = true;
        let slots = self.slots.iter_mut();
        let taken = slots.map(|slot| std::mem::replace(&mut slot.state, State::Out));
        taken
            .filter_map(|state| match state {
                State::Waiting(task) => Some(task),
                State::Out | State::Free => None,
            })
            .collect()
    }

    fn slot(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[usize::try_from(index).expect("an index fits the address space")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_carries_all_three_numbers_and_equals_its_clone() {
        let id = TaskId { executor: 65_535, index: FIELD_MASK, generation: FIELD_MASK - 1 };
        assert_eq!(TaskId::from_word(id.to_word()), id);
        let waker = id.waker();
        assert!(waker.will_wake(&waker.clone()));
        assert!(!waker.will_wake(&TaskId { generation: 0, ..id }.waker()));
    }

    #[test]
    fn an_old_name_does_not_wake_the_next_task_at_its_index() {
        let mut tasks = Tasks::new(1);
        let Ok(first) = tasks.insert(Task::new(None, async {})) else { panic!("the table is open") };
        assert!(tasks.take(first).is_some());
        tasks.end(first);
        let Ok(second) = tasks.insert(Task::new(None, async {})) else { panic!("the table is open") };
        assert_eq!(second.index, first.index);
        assert!(tasks.take(second).is_some());
        assert!(!tasks.make_ready(first));
        assert!(tasks.make_ready(second));
        assert!(!tasks.make_ready(second), "it stands in the queue once");
    }
}
