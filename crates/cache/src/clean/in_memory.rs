//! What is in memory of volumes that are attached: whatever changes their pages changes that, too.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use crate::address::VolumeIndex;
use crate::memory_cache::VolumePages;

/// By [`VolumeIndex`].
#[derive(Default)]
pub(crate) struct InMemory(RefCell<Vec<Option<Rc<VolumePages>>>>);

impl InMemory {
    /// From here on what changes of the volume changes in memory, too.
    pub(crate) fn keep(&self, volume: VolumeIndex, pages: Rc<VolumePages>) {
        let (mut volumes, index) = (self.0.borrow_mut(), usize::from(volume.0));
        if volumes.len() <= index {
            volumes.resize_with(index + 1, || None);
        }
        volumes[index] = Some(pages);
    }

    /// The volume has left.
    pub(crate) fn forget(&self, volume: VolumeIndex) {
        if let Some(pages) = self.0.borrow_mut().get_mut(usize::from(volume.0)) {
            *pages = None;
        }
    }

    /// Pages are something else from now on, or nothing that could be read, wherever they lie: they leave the memory cache.
    pub(crate) fn supersede(&self, volume: VolumeIndex, pages: &Range<u64>) {
        if let Some(Some(memory)) = self.0.borrow().get(usize::from(volume.0)) {
            memory.supersede(pages);
        }
    }

    /// What is in memory of the volume.
    pub(crate) fn pages_of(&self, volume: VolumeIndex) -> Option<Rc<VolumePages>> {
        self.0.borrow().get(usize::from(volume.0)).cloned().flatten()
    }
}
