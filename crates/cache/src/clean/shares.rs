//! The queues of a pool's slots: those of volumes that have a share of their own, and one pair for all others.
//!
//! Without shares everything is in one pair, and the policy's order is that of the whole pool. A volume that gets a
//! minimum or a maximum gets queues of its own, so that its oldest block is found without a look at others'. Whose
//! block goes then is decided by size: queues above their minimum, the longer the likelier.

use crate::address::{SlotIndex, VolumeIndex};
use crate::clean::links::List;
use crate::clean::map::Map;

/// One pair of queues; what they mean is up to the policy.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) small: List,
    pub(super) main: List,
}

impl Queues {
    pub(super) fn len(&self) -> u32 {
        self.small.len() + self.main.len()
    }
}

/// Whose queues: a volume's own, or those of all others.
pub(super) type QueueOwner = Option<VolumeIndex>;

/// A volume's queues.
struct Own {
    queues: Queues,
    min_slots: u32,
    max_slots: u32,
    /// Slots below this index are here, if they hold blocks of the volume; the others are still with all others'.
    moved: u32,
}

/// See the file's summary.
#[derive(Default)]
pub(super) struct Shares {
    all: Queues,
    /// By [`VolumeIndex`].
    own: Vec<Option<Own>>,
    /// How many are `Some`.
    owners: usize,
    turn: u64,
}

impl Shares {
    /// Everything is in one pair of queues.
    pub(super) fn is_alone(&self) -> bool {
        self.owners == 0
    }

    fn own(&self, volume: VolumeIndex) -> Option<&Own> {
        self.own.get(usize::from(volume.0))?.as_ref()
    }

    fn own_mut(&mut self, volume: VolumeIndex) -> Option<&mut Own> {
        self.own.get_mut(usize::from(volume.0))?.as_mut()
    }

    /// Sets what a volume is to have. The first limit gives it queues of its own, to which its slots have to be moved
    /// (`take_over`); it keeps them.
    pub(super) fn set(&mut self, map: &Map, volume: VolumeIndex, min_slots: u32, max_slots: u32) {
        if let Some(own) = self.own_mut(volume) {
            (own.min_slots, own.max_slots) = (min_slots, max_slots);
            return;
        }
        if (min_slots, max_slots) == (0, u32::MAX) {
            return;
        }
        let place = usize::from(volume.0);
        if self.own.len() <= place {
            self.own.resize_with(place + 1, || None);
        }
        let moved = if map.slots_used_by(volume) == 0 { u32::MAX } else { 0 };
        self.own[place] = Some(Own { queues: Queues::default(), min_slots, max_slots, moved });
        self.owners += 1;
    }

    /// The volume is gone, and nothing of it is listed.
    pub(super) fn forget(&mut self, volume: VolumeIndex) {
        let Some(place) = self.own.get_mut(usize::from(volume.0)) else { return };
        if let Some(own) = place.take() {
            assert_eq!(own.queues.len(), 0, "a volume is forgotten with its slots");
            self.owners -= 1;
        }
    }

    /// The first slot that is not looked at yet of those to be moved to the volume's own queues; `None`: all are.
    pub(super) fn next_to_move(&self, volume: VolumeIndex) -> Option<SlotIndex> {
        self.own(volume).filter(|own| own.moved != u32::MAX).map(|own| SlotIndex(own.moved))
    }

    /// Slots below this one are in the volume's own queues from here on.
    pub(super) fn set_moved(&mut self, volume: VolumeIndex, moved: u32) {
        if let Some(own) = self.own_mut(volume) {
            own.moved = moved;
        }
    }

    /// The most slots that the volume may have.
    pub(super) fn max_slots(&self, volume: VolumeIndex) -> u32 {
        self.own(volume).map_or(u32::MAX, |own| own.max_slots)
    }

    /// The volume has no more slots than it is promised.
    pub(super) fn is_at_minimum(&self, map: &Map, volume: VolumeIndex) -> bool {
        self.own(volume).is_some_and(|own| map.slots_used_by(volume) <= own.min_slots)
    }

    /// In whose queues a used slot is, or is to be.
    pub(super) fn owner(&self, map: &Map, slot: SlotIndex) -> QueueOwner {
        if self.is_alone() {
            return None;
        }
        let volume = map.key(slot)?.volume;
        self.own(volume).filter(|own| slot.0 < own.moved).map(|_| volume)
    }

    pub(super) fn queues(&self, owner: QueueOwner) -> &Queues {
        owner.and_then(|volume| self.own(volume)).map_or(&self.all, |own| &own.queues)
    }

    pub(super) fn queues_mut(&mut self, owner: QueueOwner) -> &mut Queues {
        let place = owner.map(|volume| usize::from(volume.0));
        match place.and_then(|place| self.own.get_mut(place)).and_then(Option::as_mut) {
            Some(own) => &mut own.queues,
            None => &mut self.all,
        }
    }

    fn owners(&self) -> impl Iterator<Item = QueueOwner> {
        let indexes = (0_u16..).zip(&self.own);
        let own = indexes.filter(|(_, own)| own.is_some()).map(|(index, _)| Some(VolumeIndex(index)));
        std::iter::once(None).chain(own)
    }

    /// The length of all queues together: small ones, main ones.
    pub(super) fn lengths(&self) -> (u32, u32) {
        self.owners()
            .map(|owner| self.queues(owner))
            .fold((0, 0), |(small, main), queues| (small + queues.small.len(), main + queues.main.len()))
    }

    /// Slots above what is promised; negative: below.
    fn surplus(&self, map: &Map, owner: QueueOwner) -> i64 {
        match owner.and_then(|volume| Some((volume, self.own(volume)?))) {
            Some((volume, own)) => i64::from(map.slots_used_by(volume)) - i64::from(own.min_slots),
            None => i64::from(self.all.len()),
        }
    }

    /// Whose block goes next, of those that are not in `passed`: of who has more than promised, the likelier the longer
    /// the queue is that `length` names; if nobody has, who lacks least.
    pub(super) fn pick(
        &mut self,
        map: &Map,
        passed: &[QueueOwner],
        length: impl Fn(&Queues) -> u32,
    ) -> Option<QueueOwner> {
        let there: Vec<QueueOwner> =
            self.owners().filter(|owner| self.queues(*owner).len() > 0 && !passed.contains(owner)).collect();
        let above: Vec<QueueOwner> = there.iter().copied().filter(|owner| self.surplus(map, *owner) > 0).collect();
        if above.is_empty() {
            return there.into_iter().max_by_key(|owner| self.surplus(map, *owner));
        }
        let weight = |owner: &QueueOwner| u64::from(length(self.queues(*owner)));
        let total: u64 = above.iter().map(weight).sum();
        if total == 0 {
            return above.first().copied();
        }
        let mut left = mixed(self.turn) % total;
        let found = above.iter().copied().find(|owner| {
            let weight = weight(owner);
            let here = left < weight;
            left = left.saturating_sub(weight);
            here
        });
        self.turn = self.turn.wrapping_add(1);
        found
    }
}

/// Well mixed bits of a count (the finalizer of SplitMix64).
fn mixed(count: u64) -> u64 {
    let mut bits = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
