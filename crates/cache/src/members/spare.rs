//! SSDs that are to take the place of those that fail.

use std::cell::RefCell;
use std::rc::Rc;

use hotset_block::sync::Event;

use crate::reasons::SpareReason;
use crate::status::SpareStatus;

/// A spare: it carries a superblock, and nothing else.
pub(crate) struct Spare<D> {
    pub(crate) uuid: u128,
    pub(crate) size_bytes: u64,
    pub(crate) path: String,
    /// `None`: it was not there at the start.
    pub(crate) device: Option<Rc<D>>,
    /// Why it cannot take over, if it cannot.
    pub(crate) reason: Option<SpareReason>,
}

impl<D> Spare<D> {
    pub(crate) fn status(&self) -> SpareStatus {
        SpareStatus {
            path: self.path.clone(),
            uuid: self.uuid,
            size_bytes: self.size_bytes,
            present: self.device.is_some(),
            reason: self.reason.clone(),
        }
    }
}

/// Those of a pool, in the order in which they take over.
pub(crate) struct Spares<D> {
    spares: RefCell<Vec<Rc<Spare<D>>>>,
    wanted: Event,
}

impl<D> Spares<D> {
    pub(crate) fn new(spares: Vec<Spare<D>>) -> Self {
        Self { spares: RefCell::new(spares.into_iter().map(Rc::new).collect()), wanted: Event::new() }
    }

    /// Completes when somebody may be missed, or a spare is there.
    pub(crate) fn wanted(&self) -> &Event {
        &self.wanted
    }

    pub(crate) fn all(&self) -> Vec<Rc<Spare<D>>> {
        self.spares.borrow().clone()
    }

    pub(crate) fn add(&self, spare: Spare<D>) {
        self.spares.borrow_mut().push(Rc::new(spare));
    }

    /// Takes out those that `wanted` names.
    pub(crate) fn take(&self, wanted: impl Fn(u128) -> bool) -> Vec<Rc<Spare<D>>> {
        let (taken, kept) = self.spares.take().into_iter().partition(|spare| wanted(spare.uuid));
        *self.spares.borrow_mut() = kept;
        taken
    }

    /// The first one that can take over.
    pub(crate) fn usable(&self) -> Option<Rc<Spare<D>>> {
        let spares = self.spares.borrow();
        spares.iter().find(|spare| spare.device.is_some() && spare.reason.is_none()).cloned()
    }

    pub(crate) fn statuses(&self) -> Vec<SpareStatus> {
        self.spares.borrow().iter().map(|spare| spare.status()).collect()
    }
}
