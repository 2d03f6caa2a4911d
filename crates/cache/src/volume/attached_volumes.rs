//! The volumes of a pool that are there, by index: one that the catalogue names comes when it is attached again after a start.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::attachment_ids::AttachmentIds;
use crate::volume::VolumeInner;

/// See the file's summary.
pub(crate) struct AttachedVolumes<E: Env> {
    ids: Rc<AttachmentIds>,
    there: RefCell<BTreeMap<VolumeIndex, Rc<VolumeInner<E>>>>,
}

impl<E: Env> AttachedVolumes<E> {
    /// None is there yet.
    pub(crate) fn new(ids: Rc<AttachmentIds>) -> Self {
        Self { ids, there: RefCell::default() }
    }

    /// The volume at this index, and its attachment id.
    pub(crate) fn get(&self, index: VolumeIndex) -> Option<(Rc<VolumeInner<E>>, u64)> {
        let volume = Rc::clone(self.there.borrow().get(&index)?);
        Some((volume, self.ids.of(index)?))
    }

    pub(crate) fn all(&self) -> Vec<(VolumeIndex, Rc<VolumeInner<E>>)> {
        let known = self.ids.indexes();
        known.filter_map(|index| self.get(index).map(|(volume, _)| (index, volume))).collect()
    }

    pub(crate) fn has(&self, index: VolumeIndex) -> bool {
        self.there.borrow().contains_key(&index)
    }

    pub(crate) fn put(&self, index: VolumeIndex, volume: &Rc<VolumeInner<E>>) {
        self.there.borrow_mut().insert(index, Rc::clone(volume));
    }

    pub(crate) fn remove(&self, index: VolumeIndex) {
        self.there.borrow_mut().remove(&index);
    }

    pub(crate) fn clear(&self) {
        self.there.borrow_mut().clear();
    }
}
