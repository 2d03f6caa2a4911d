//! An SSD that is to take the place of one that fails.

use std::rc::Rc;

use crate::status::SpareStatus;

/// A spare: it carries a superblock, and nothing else.
pub(crate) struct Spare<D> {
    pub(crate) uuid: u128,
    pub(crate) size_bytes: u64,
    pub(crate) path: String,
    /// `None`: it was not there at the start.
    pub(crate) device: Option<Rc<D>>,
    /// Why it cannot take over; empty if it can.
    pub(crate) reason: String,
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
