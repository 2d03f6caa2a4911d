//! A pool: its rooms, and who works on them.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use hotset_block::Env;
use hotset_block::sync::Semaphore;

use crate::pool::join::Joiner;
use crate::pool::publish::Publisher;
use crate::pool::scrub::Scrubber;
use crate::pool::scrub_progress::Scrub;
use crate::pool::silence::SsdWatch;
use crate::volume::place::PoolRooms;

/// A pool is a frame over its rooms, `members`, `clean`, `log` and `attachments`, and over parts that see to one thing each.
pub(crate) struct PoolInner<E: Env> {
    pub(super) rooms: Rc<PoolRooms<E>>,
    /// One removal of SSDs at a time.
    pub(super) removal_lock: Semaphore,
    pub(super) removal_cancelled: Cell<bool>,
    pub(super) recovery: RefCell<String>,
    pub(super) publisher: Rc<Publisher<E>>,
    pub(super) scrubber: Rc<Scrubber<E>>,
    pub(super) joiner: Rc<Joiner<E>>,
    pub(super) watch: Rc<SsdWatch<E>>,
}

/// The rooms are at hand in every step of the frame.
impl<E: Env> Deref for PoolInner<E> {
    type Target = PoolRooms<E>;

    fn deref(&self) -> &PoolRooms<E> {
        &self.rooms
    }
}

impl<E: Env> PoolInner<E> {
    pub(super) fn of(rooms: PoolRooms<E>, scrub: Scrub) -> Self {
        let rooms = Rc::new(rooms);
        let joiner = Rc::new(Joiner::new(&rooms));
        Self {
            removal_lock: Semaphore::new(1),
            removal_cancelled: Cell::new(false),
            recovery: RefCell::default(),
            publisher: Rc::new(Publisher::new(&rooms)),
            scrubber: Rc::new(Scrubber::new(&rooms, scrub)),
            watch: Rc::new(SsdWatch::new(&rooms, &joiner)),
            joiner,
            rooms,
        }
    }
}
