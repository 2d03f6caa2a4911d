//! Reaching an executor from other threads: commands of the control plane, and wakers that were sent away.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::task_id::TaskId;
use crate::{HostEnv, sys};

/// Commands that wait at most; more are refused.
pub const COMMANDS_MAX: usize = 1024;

/// What runs on the executor's thread.
pub type Command = Box<dyn FnOnce(&HostEnv) + Send>;

/// Sends commands to an executor's thread. A handle: cloning it is cheap.
#[derive(Clone)]
pub struct Remote {
    inbox: Arc<Inbox>,
}

impl Remote {
    pub(crate) fn to(inbox: Arc<Inbox>) -> Self {
        Self { inbox }
    }

    /// Runs `command` on the executor's thread soon, in the order of posting. It must not block.
    pub fn post(&self, command: Command) -> Result<(), PostError> {
        let mut letters = self.inbox.letters();
        if letters.closed {
            return Err(PostError::Ended);
        }
        if letters.commands.len() >= COMMANDS_MAX {
            return Err(PostError::Full);
        }
        letters.commands.push_back(command);
        drop(letters);
        sys::eventfd_raise(&self.inbox.bell);
        Ok(())
    }
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The executor has ended, or is about to.
    Ended,
    /// [`COMMANDS_MAX`] commands wait already.
    Full,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the data plane has stopped",
            Self::Full => "too many commands wait for the data plane",
        })
    }
}

impl std::error::Error for PostError {}

/// What other threads leave for an executor.
pub(crate) struct Inbox {
    letters: Mutex<Letters>,
    /// An eventfd that the executor's ring polls.
    bell: OwnedFd,
}

#[derive(Default)]
struct Letters {
    commands: VecDeque<Command>,
    wakes: BTreeSet<TaskId>,
    closed: bool,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { letters: Mutex::default(), bell: sys::eventfd()? })
    }

    /// The letters, also if a thread panicked while it held them: they are whole between any two statements.
    fn letters(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes no more commands and drops those that wait.
    pub(crate) fn close(&self) {
        let commands = {
            let mut letters = self.letters();
            letters.closed = true;
            mem::take(&mut letters.commands)
        };
        drop(commands);
    }
}

/// The executor's side: runs what arrives, until the executor ends. `wake` makes one of its tasks ready.
pub(crate) async fn serve(env: HostEnv, inbox: Arc<Inbox>, wake: impl Fn(TaskId)) {
    let bell = Rc::new(inbox.bell.try_clone().expect("one more descriptor is left at the start"));
    while env.wait_for(&bell, libc::POLLIN).await.is_ok() {
        sys::eventfd_clear(&inbox.bell);
        let (wakes, commands) = {
            let mut letters = inbox.letters();
            (mem::take(&mut letters.wakes), mem::take(&mut letters.commands))
        };
        wakes.into_iter().for_each(&wake);
        for command in commands {
            command(&env);
        }
    }
}

/// The executors of this process, for wakers that are far from theirs. Locked only by such wakers and at starts and
/// ends.
static INBOXES: Mutex<BTreeMap<u16, Arc<Inbox>>> = Mutex::new(BTreeMap::new());

fn inboxes() -> MutexGuard<'static, BTreeMap<u16, Arc<Inbox>>> {
    INBOXES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn enlist(executor: u16, inbox: &Arc<Inbox>) {
    inboxes().insert(executor, Arc::clone(inbox));
}

pub(crate) fn strike_off(executor: u16) {
    inboxes().remove(&executor);
}

/// Wakes a task of an executor that does not run on this thread now. If it has ended, there is nobody to wake.
pub(crate) fn wake(id: TaskId) {
    let inbox = inboxes().get(&id.executor).cloned();
    if let Some(inbox) = inbox {
        inbox.letters().wakes.insert(id);
        sys::eventfd_raise(&inbox.bell);
    }
}
