//! A volume of a read-write pool beside the log that has its dirty data: what its writes, its zeroes and its cleaning work on.

use std::rc::Rc;

use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::log::Log;
use crate::volume::inner::VolumeInner;
use crate::volume::place::{Attached, PoolRooms};

/// See the file's summary.
pub(crate) struct LoggedVolume<'v, E: Env> {
    pub(super) volume: &'v Rc<VolumeInner<E>>,
    pub(super) attached: &'v Attached<E>,
    pub(super) log: &'v Log<E>,
}

impl<E: Env> Clone for LoggedVolume<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Env> Copy for LoggedVolume<'_, E> {}

impl<'v, E: Env> LoggedVolume<'v, E> {
    /// `None`: its pool has no write log.
    pub(crate) fn of(volume: &'v Rc<VolumeInner<E>>, attached: &'v Attached<E>) -> Option<Self> {
        let log = attached.pool.log.as_deref()?;
        Some(Self { volume, attached, log })
    }

    pub(super) fn pool(self) -> &'v PoolRooms<E> {
        &self.attached.pool
    }

    pub(crate) fn index(self) -> VolumeIndex {
        self.attached.index
    }

    /// The volume has not left its place in the pool.
    pub(super) fn is_in_place(self) -> bool {
        self.volume.attached().is_some_and(|attached| std::ptr::eq(&raw const *attached, self.attached))
    }
}
