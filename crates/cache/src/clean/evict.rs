//! Slots are released for other blocks, for the write log, or because an SSD is to leave.
//!
//! Whoever has slots evicted counts them to their volumes: that is why the verbs answer whose they were.

use std::ops::Range;

use hotset_block::Env;

use crate::address::{BlockKey, SlotIndex, SsdIndex, VolumeIndex, at, at_u64, low_half};
use crate::clean::Clean;
use crate::clean::pending_drops::Drops;
use crate::clean::slot_ssd::SlotSsd;
use crate::clean::slots::Why;

/// Segments that are looked at to find the one that is released most cheaply.
const CANDIDATES: usize = 64;

/// Slots that the pool keeps ready for fills: a 64th, within these bounds, and at most an eighth.
const READY_MIN: usize = 8;
const READY_MAX: usize = 256;
const _: () = assert!(READY_MIN <= READY_MAX);

/// Slots that a pool with so many keeps ready.
pub(crate) fn ready_wanted(slots: u64) -> usize {
    let slots = at_u64(slots);
    (slots / 64).clamp(READY_MIN, READY_MAX).min(slots / 8).max(1)
}

/// What came of a look for room in a volume's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareRoom {
    /// It may have so many slots more.
    pub(crate) enough: bool,
    /// Blocks of its own that were evicted for that.
    pub(crate) evicted: u32,
}

/// What became of the slots of a segment that the log takes.
pub(crate) struct Claimed {
    /// Whose blocks they held, one for each.
    pub(crate) evicted: Vec<VolumeIndex>,
    /// Blocks that their volumes were promised to keep: they are to be filled anew.
    pub(crate) promised: Vec<BlockKey>,
}

/// A volume and the slots that it may have.
pub(crate) struct VolumeShare<'c, E: Env> {
    clean: &'c Clean<E>,
    volume: VolumeIndex,
}

impl<E: Env> Clean<E> {
    pub(crate) fn share_of(&self, volume: VolumeIndex) -> VolumeShare<'_, E> {
        VolumeShare { clean: self, volume }
    }

    /// Evicts until enough slots are ready, or on their way to be; answers whose blocks they held.
    #[must_use]
    pub(crate) fn make_room(&self) -> Vec<VolumeIndex> {
        let mut evicted = Vec::new();
        for _ in self.free_count()..self.free_wanted() {
            let victim = self.slots.borrow_mut().victim();
            let Some(slot) = victim else { break };
            evicted.extend(self.evict(slot));
        }
        evicted
    }

    /// For each block that comes in, another one goes.
    pub(crate) fn is_full(&self) -> bool {
        self.free_count() <= self.free_wanted()
    }

    /// Slots that are ready, or on their way to be.
    fn free_count(&self) -> usize {
        let ready = self.ssds.serving().map(|ssd| ssd.ready_count() + ssd.slots_in_limbo());
        ready.sum::<usize>() + self.index.freed_count()
    }

    fn free_wanted(&self) -> usize {
        ready_wanted(u64::from(self.slots.borrow().slot_count()))
    }

    /// Frees a used slot for something better; answers whose it was.
    fn evict(&self, slot: SlotIndex) -> Option<VolumeIndex> {
        let key = self.slots.borrow().key(slot)?;
        self.free_slot(slot, Why::Evicted);
        Some(key.volume)
    }

    // ---- segments for the log

    /// Takes a segment of an SSD from the slots for the log, the one with the fewest that are used among some, from `random` on;
    /// `None` if no segment is left. One that fills have slots of only if all others are such, too: those that still read lose
    /// them, for a backing device that hangs must not hold up the log. It is the log's when all of its slots are free.
    #[must_use]
    pub(crate) fn claim_segment(&self, index: SsdIndex, random: u64) -> Option<Claimed> {
        let ssd = self.ssds.get(index);
        // What volumes were promised goes last, and comes back.
        let used = |segment: &u32| self.slots.borrow().used_among(slots_of(ssd, *segment));
        let segment = self.claimable_segments(ssd, random).into_iter().min_by_key(used)?;
        let from_fills = ssd.segments.take_from_fills(segment);
        from_fills.iter().for_each(|local| self.fills.slot_is_taken(ssd.slot_index(*local)));
        ssd.segments.claim(segment);
        let slots = ssd.segments.slots(segment);
        for local in ssd.take_ready_of(&slots).into_iter().chain(from_fills) {
            ssd.segments.release_slot(local);
        }
        let mut claimed = Claimed { evicted: Vec::new(), promised: Vec::new() };
        for slot in slots.map(|local| ssd.slot_index(local)) {
            let key = self.slots.borrow().key(slot);
            let Some(key) = key else { continue };
            if self.slots.borrow().is_at_minimum(key.volume) {
                claimed.promised.push(key);
            }
            claimed.evicted.extend(self.evict(slot));
        }
        ssd.wake_for_segments();
        Some(claimed)
    }

    /// Some segments that the log could have, from a place on that `random` says: none that is written to, and none that fills have
    /// slots of unless there are no others.
    fn claimable_segments(&self, ssd: &SlotSsd<E>, random: u64) -> Vec<u32> {
        let segments = &ssd.segments;
        let mut all: Vec<u32> = segments.for_slots().filter(|segment| !segments.is_filling(*segment)).collect();
        if all.is_empty() {
            all = segments.for_slots().filter(|segment| !segments.is_written(*segment)).collect();
        }
        let from = all.len() - at(low_half(random)) % all.len().max(1);
        all.iter().cycle().skip(from % all.len().max(1)).take(all.len().min(CANDIDATES)).copied().collect()
    }

    /// The log needs a segment no more: its slots can be filled.
    pub(crate) fn return_segment(&self, index: SsdIndex, segment: u32) {
        let ssd = self.ssds.get(index);
        let is_for_slots = ssd.segments.is_for_slots(segment);
        assert!(is_for_slots, "SSD {}: segment {segment} is returned, and is not for slots", ssd.path);
        let slots = ssd.segments.slots(segment);
        ssd.add_ready(slots);
    }

    // ---- an SSD that is to leave

    /// A block, or a page of one, is brought to this SSD: how long that takes is up to a backing device.
    pub(crate) fn is_being_filled(&self, index: SsdIndex) -> bool {
        self.ssds.get(index).segments.fills_any()
    }

    /// Frees the slots of this range of an SSD, if it is in use; answers what has to be flushed before nothing believes them.
    pub(crate) fn empty_slots(&self, index: SsdIndex, locals: Range<u32>) -> Drops {
        let ssd = self.ssds.get(index);
        for slot in locals.map(|local| ssd.slot_index(local)) {
            let used = ssd.is_online() && self.slots.borrow().is_used(slot);
            if used {
                self.free_slot(slot, Why::Evicted);
            }
        }
        vec![(index, ssd.journal.last_ticket())]
    }
}

impl<E: Env> VolumeShare<'_, E> {
    /// It is between so many slots and so many from here on. What the volume has already follows by [`Self::list_some`] and
    /// [`Self::make_room`].
    pub(crate) fn set(&self, min_slots: u32, max_slots: u32) {
        self.clean.slots.borrow_mut().set_share(self.volume, min_slots, max_slots);
    }

    /// The volume is like all others that have no share.
    pub(crate) fn forget(&self) {
        self.clean.slots.borrow_mut().forget_share(self.volume);
    }

    /// Moves slots of the volume to its own queues, after a look at so many; true: there are more.
    pub(crate) fn list_some(&self, count: u32) -> bool {
        self.clean.slots.borrow_mut().list_by_share(self.volume, count)
    }

    /// Evicts blocks of the volume, at most `count`, until it may have so many slots more.
    #[must_use]
    pub(crate) fn make_room(&self, more: u32, count: u32) -> ShareRoom {
        let Self { clean, volume } = *self;
        let coming = clean.fills.running_for(volume) + more;
        let mut evicted = 0;
        while evicted < count && !clean.slots.borrow().has_room_in_share(volume, coming) {
            let victim = clean.slots.borrow_mut().victim_of(volume);
            let Some(slot) = victim else { return ShareRoom { enough: false, evicted } };
            clean.free_slot(slot, Why::Evicted);
            evicted += 1;
        }
        ShareRoom { enough: clean.slots.borrow().has_room_in_share(volume, coming), evicted }
    }

    /// Whether the volume may have one slot more, beside those that are on their way.
    pub(crate) fn has_room(&self) -> bool {
        let coming = self.clean.fills.running_for(self.volume) + 1;
        self.clean.slots.borrow().has_room_in_share(self.volume, coming)
    }

    /// Whether a block of the volume could be evicted.
    pub(crate) fn has_victim(&self) -> bool {
        self.clean.slots.borrow_mut().victim_of(self.volume).is_some()
    }
}

fn slots_of<E: Env>(ssd: &SlotSsd<E>, segment: u32) -> Range<SlotIndex> {
    let local = ssd.segments.slots(segment);
    ssd.slot_index(local.start)..ssd.slot_index(local.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::open::tests::with_pool;

    #[test]
    #[should_panic(expected = "is returned, and is not for slots")]
    fn a_segment_that_the_log_has_is_not_filled() {
        with_pool(&[1, 2], async |pool| {
            let segments = &pool.members.ssd(SsdIndex(0)).segments;
            let segment = segments.for_slots().last().expect("it has segments");
            assert!(segments.set_log(segment, 7));
            pool.clean.return_segment(SsdIndex(0), segment);
        });
    }
}
