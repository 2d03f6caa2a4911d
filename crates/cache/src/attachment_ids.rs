//! Which attachment an index of a volume stands for: one table for all rooms, for slots and batches on SSDs name attachments, and
//! tables in memory indexes.

use std::cell::RefCell;

use crate::address::VolumeIndex;
use crate::config::limits;

/// What an index stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Attachment(u64),
    /// Nobody: what was under it is being forgotten.
    Detached,
    /// Nobody, and it may be given away.
    Free,
}

/// By [`VolumeIndex`].
#[derive(Default)]
pub(crate) struct AttachmentIds(RefCell<Vec<Use>>);

impl AttachmentIds {
    /// Of the volumes of a catalogue, in its order.
    pub(crate) fn new(attachments: impl Iterator<Item = u64>) -> Self {
        Self(RefCell::new(attachments.map(Use::Attachment).collect()))
    }

    /// The attachment of an index; `None` also while what was under it is being forgotten.
    pub(crate) fn of(&self, index: VolumeIndex) -> Option<u64> {
        match self.use_of(index) {
            Use::Attachment(attachment) => Some(attachment),
            Use::Detached | Use::Free => None,
        }
    }

    /// What was under the index is being forgotten.
    pub(crate) fn is_detached(&self, index: VolumeIndex) -> bool {
        self.use_of(index) == Use::Detached
    }

    fn use_of(&self, index: VolumeIndex) -> Use {
        self.0.borrow().get(usize::from(index.0)).copied().unwrap_or(Use::Free)
    }

    pub(crate) fn index_of(&self, attachment: u64) -> Option<VolumeIndex> {
        let found = self.0.borrow().iter().position(|of| *of == Use::Attachment(attachment));
        found.map(|index| VolumeIndex(u16::try_from(index).expect("a pool has at most VOLUMES_MAX volumes")))
    }

    /// Every index up to the highest that was ever in use, also those that nobody has.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = VolumeIndex> + use<> {
        let count = u16::try_from(self.0.borrow().len()).expect("a pool has at most VOLUMES_MAX volumes");
        (0..count).map(VolumeIndex)
    }

    /// How many are in use, those included under which something is being forgotten.
    pub(crate) fn in_use(&self) -> usize {
        self.0.borrow().iter().filter(|of| **of != Use::Free).count()
    }

    /// An index that nobody has.
    pub(crate) fn free_index(&self) -> VolumeIndex {
        let mut ids = self.0.borrow_mut();
        let index = ids.iter().position(|of| *of == Use::Free).unwrap_or(ids.len());
        assert!(index < limits::VOLUMES_MAX, "a volume joins, and {index} others have their places");
        if index == ids.len() {
            ids.push(Use::Free);
        }
        VolumeIndex(u16::try_from(index).expect("a pool has at most VOLUMES_MAX volumes"))
    }

    /// The index stands for this attachment. Nothing if the pool has stopped meanwhile.
    pub(crate) fn attach(&self, index: VolumeIndex, attachment: u64) {
        let other = self.index_of(attachment).filter(|other| *other != index);
        assert!(other.is_none(), "attachment {attachment} gets index {}, and has another one", index.0);
        let before = self.of(index);
        let is_free = before.is_none_or(|before| before == attachment);
        assert!(is_free, "attachment {attachment} gets index {}, which attachment {before:?} has", index.0);
        self.set(index, Use::Attachment(attachment));
    }

    /// What is still on its way under the index is of nobody; the index is not given away yet.
    pub(crate) fn detach(&self, index: VolumeIndex) {
        self.set(index, Use::Detached);
    }

    /// Nothing is left of what was under the index.
    pub(crate) fn release(&self, index: VolumeIndex) {
        let id = self.of(index);
        assert!(id.is_none(), "index {} is given away while attachment {id:?} has it", index.0);
        self.set(index, Use::Free);
    }

    /// The pool has stopped: no index stands for anything.
    pub(crate) fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    fn set(&self, index: VolumeIndex, stands_for: Use) {
        if let Some(place) = self.0.borrow_mut().get_mut(usize::from(index.0)) {
            *place = stands_for;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn an_index_is_given_away_when_nothing_is_left_of_what_was_under_it() {
        let ids = AttachmentIds::new([7, 9].into_iter());
        assert_eq!((ids.of(VolumeIndex(1)), ids.index_of(9)), (Some(9), Some(VolumeIndex(1))));
        ids.detach(VolumeIndex(0));
        assert_eq!((ids.of(VolumeIndex(0)), ids.index_of(7)), (None, None));
        assert_eq!([0, 1, 2].map(|index| ids.is_detached(VolumeIndex(index))), [true, false, false]);
        assert_eq!(ids.free_index(), VolumeIndex(2), "the first is not free yet");
        ids.release(VolumeIndex(0));
        assert_eq!(ids.free_index(), VolumeIndex(0));
        ids.attach(VolumeIndex(0), 11);
        assert_eq!((ids.index_of(11), ids.indexes().count()), (Some(VolumeIndex(0)), 3));
        ids.clear();
        ids.attach(VolumeIndex(0), 12);
        assert_eq!((ids.of(VolumeIndex(0)), ids.indexes().count()), (None, 0), "the pool has stopped");
    }

    #[test]
    #[should_panic(expected = "gets index 1, and has another one")]
    fn an_attachment_has_one_index() {
        let ids = AttachmentIds::new([7, 9].into_iter());
        ids.detach(VolumeIndex(1));
        ids.attach(VolumeIndex(1), 7);
    }

    #[test]
    #[should_panic(expected = "index 0 is given away while attachment Some(7) has it")]
    fn an_index_is_not_given_away_while_an_attachment_has_it() {
        AttachmentIds::new([7].into_iter()).release(VolumeIndex(0));
    }

    #[test]
    fn an_index_stands_for_one_attachment_and_there_are_as_many_as_volumes() {
        let ids = AttachmentIds::new(1..=u64::try_from(limits::VOLUMES_MAX).unwrap());
        assert_refused("gets index 3, which attachment Some(4) has", || ids.attach(VolumeIndex(3), 5000));
        ids.detach(VolumeIndex(3));
        assert_eq!(ids.in_use(), limits::VOLUMES_MAX, "it has its place until nothing is left of it");
        assert_refused("and 1024 others have their places", || ids.free_index());
        ids.release(VolumeIndex(3));
        assert_eq!((ids.in_use(), ids.free_index()), (limits::VOLUMES_MAX - 1, VolumeIndex(3)));
    }
}
