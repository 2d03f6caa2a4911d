//! The tasks of an executor and the wakers that name them.
//!
//! Why `unsafe`: a waker is made from a table of functions. It carries no pointer at all but three numbers (executor,
//! index, generation), so that copying it costs nothing, it may outlive its task and its executor, and it may be sent
//! to other threads, as `Waker` promises.

#![allow(unsafe_code)]

use std::pin::Pin;
use std::rc::Rc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::executor;
use crate::task_id::{FIELD_BITS, FIELD_MASK, TaskId};

/// The most tasks at one time.
const TASKS_MAX: usize = 1 << FIELD_BITS;

/// What wakes this task, from any thread.
pub(crate) fn waker(id: TaskId) -> Waker {
    // SAFETY: the functions of `TABLE` keep the contract of `RawWakerVTable`: they treat the word as a number,
    // own nothing, and `wake` may run on any thread (`executor::wake` sees to that).
    unsafe { Waker::new(id.to_word(), &TABLE) }
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

    /// Takes no more tasks and drops those that are left.
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
    fn a_waker_equals_its_clone_and_no_other() {
        let id = TaskId { executor: 65_535, index: FIELD_MASK, generation: FIELD_MASK - 1 };
        let first = waker(id);
        assert!(first.will_wake(&first.clone()));
        assert!(!first.will_wake(&waker(TaskId { generation: 0, ..id })));
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
