//! Which volume is whose: the attachments on record, and how a backing device is recognised.
//!
//! An attachment id names a volume in all that is said of its pages; [`Attachments`] has the catalogue that says which id that is. It
//! knows no volume that is open, and touches no backing device: whoever does tells what it found.

// Nouns: what is true now.
pub(crate) mod evidence;
pub(crate) mod identity;

// Verbs: what happens.
mod catalogue;

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::attachment_ids::AttachmentIds;
use crate::config::{PoolName, VolumeName, limits};
use crate::error::{Error, ErrorKind};
use crate::format::catalogue::{Catalogue, CataloguedVolume};
use crate::members::Members;

/// The volumes that a pool caches, as they are on record.
pub(crate) struct Attachments<E: Env> {
    pool_name: PoolName,
    members: Rc<Members<E>>,
    ids: Rc<AttachmentIds>,
    catalogue: RefCell<Catalogue>,
}

impl<E: Env> Attachments<E> {
    pub(crate) fn new(
        pool_name: PoolName,
        members: Rc<Members<E>>,
        ids: Rc<AttachmentIds>,
        catalogue: Catalogue,
    ) -> Self {
        Self { pool_name, members, ids, catalogue: RefCell::new(catalogue) }
    }

    /// What is durable; let go before anything is recorded.
    pub(crate) fn catalogue(&self) -> Ref<'_, Catalogue> {
        self.catalogue.borrow()
    }

    /// The volume on record under this index.
    pub(crate) fn at(&self, index: VolumeIndex) -> Option<CataloguedVolume> {
        let attachment = self.ids.of(index)?;
        self.catalogue.borrow().volumes.iter().find(|known| known.attachment == attachment).cloned()
    }

    /// The volume on record under this name; an error if there is none.
    pub(crate) fn named(&self, name: &VolumeName) -> Result<CataloguedVolume, Error> {
        let known = self.catalogue.borrow().volumes.iter().find(|known| known.spec.name == *name).cloned();
        known.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("pool {} knows no volume {name}", self.pool_name)))
    }

    /// The index of the volume of this name; an error if there is none.
    pub(crate) fn index_named(&self, name: &VolumeName) -> Result<VolumeIndex, Error> {
        let known = self.named(name).ok();
        known
            .and_then(|volume| self.ids.index_of(volume.attachment))
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("pool {} caches no volume {name}", self.pool_name)))
    }

    /// Whether a volume of this name may join.
    pub(crate) fn check_newcomer(&self, name: &VolumeName) -> Result<(), Error> {
        self.check_new_name(name)?;
        self.check_room(1, 0)
    }

    /// Whether there are places for so many more volumes, once so many have left.
    pub(crate) fn check_room(&self, newcomers: usize, leavers: usize) -> Result<(), Error> {
        // One that left keeps its place until its backing device has taken all that it was sent.
        if newcomers > 0 && self.ids.in_use() + newcomers > limits::VOLUMES_MAX + leavers {
            let message = format!("pool {} has {} volumes, which is the most", self.pool_name, limits::VOLUMES_MAX);
            return Err(Error::new(ErrorKind::Refused, message));
        }
        Ok(())
    }

    fn check_new_name(&self, name: &VolumeName) -> Result<(), Error> {
        if self.catalogue.borrow().volumes.iter().any(|other| other.spec.name == *name) {
            let message = format!("pool {} knows a volume {name} already", self.pool_name);
            return Err(Error::new(ErrorKind::Refused, message));
        }
        Ok(())
    }

    /// The id of the next volume that joins. It is taken when that is recorded.
    pub(crate) fn next_attachment(&self) -> u64 {
        self.catalogue.borrow().next_attachment.max(1)
    }
}
