//! What is believed after a crash although it is out of sight (rule `believed-until-dropped`): drops that are not flushed yet, and
//! the freed slots that wait for theirs.

use std::collections::BTreeMap;

use crate::address::{BlockKey, SsdIndex, VolumeIndex};
use crate::clean::index_journal::Ticket;

/// Drops that have to be flushed before something may happen.
pub(crate) type Drops = Vec<(SsdIndex, Ticket)>;

/// A freed slot that waits for its drop.
struct FreedSlot {
    ssd: SsdIndex,
    local: u32,
    ticket: Ticket,
}

/// A freed slot whose drop is durable: nothing believes it any more. Only [`PendingDrops::flushed`] says so.
#[derive(Debug)]
pub(super) struct DropDurable {
    ssd: SsdIndex,
    local: u32,
    ticket: Ticket,
}

impl DropDurable {
    pub(super) fn ssd(&self) -> SsdIndex {
        self.ssd
    }

    /// The slot's number on the SSD.
    pub(super) fn local(&self) -> u32 {
        self.local
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }
}

/// See the file's summary.
#[derive(Default)]
pub(super) struct PendingDrops {
    /// By the block whose pages they drop.
    drops: BTreeMap<BlockKey, Drops>,
    freed: Vec<FreedSlot>,
}

impl PendingDrops {
    /// A drop of pages of this block is queued.
    pub(super) fn queued(&mut self, key: BlockKey, ssd: SsdIndex, ticket: Ticket) {
        self.drops.entry(key).or_default().push((ssd, ticket));
    }

    /// Whoever changes pages of this block waits for these.
    pub(super) fn of(&self, key: BlockKey) -> &[(SsdIndex, Ticket)] {
        self.drops.get(&key).map_or(&[], Vec::as_slice)
    }

    /// A slot was freed, and can be filled again when this drop is flushed.
    pub(super) fn free_after(&mut self, ssd: SsdIndex, local: u32, ticket: Ticket) {
        self.freed.push(FreedSlot { ssd, local, ticket });
    }

    /// Slots that were freed and wait.
    pub(super) fn freed_count(&self) -> usize {
        self.freed.len()
    }

    /// More of an SSD's slot index is flushed: forgets those drops; answers the slots of it that waited for them.
    pub(super) fn flushed(&mut self, ssd: SsdIndex, is_flushed: impl Fn(Ticket) -> bool) -> Vec<DropDurable> {
        let done = |index: SsdIndex, ticket| index == ssd && is_flushed(ticket);
        self.drops.retain(|_, pending| {
            pending.retain(|(index, ticket)| !done(*index, *ticket));
            !pending.is_empty()
        });
        let freed = self.freed.extract_if(.., |slot| done(slot.ssd, slot.ticket));
        freed.map(|FreedSlot { ssd, local, ticket }| DropDurable { ssd, local, ticket }).collect()
    }

    /// The SSD has left durably: nothing of it is believed.
    pub(super) fn forget_ssd(&mut self, ssd: SsdIndex) {
        self.drops.retain(|_, pending| {
            pending.retain(|(index, _)| *index != ssd);
            !pending.is_empty()
        });
        self.freed.retain(|freed| freed.ssd != ssd);
    }

    /// The attachment is dead, durably: nothing of it is believed. Its slots wait all the same.
    pub(super) fn forget_volume(&mut self, volume: VolumeIndex) {
        self.drops.retain(|key, _| key.volume != volume);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::BlockIndex;
    use crate::clean::index_journal::Journal;
    use crate::format::index::IndexEntry;

    fn key(volume: u16, block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(volume), block: BlockIndex(block) }
    }

    proptest! {
        /// Against two plain lists.
        #[test]
        fn whoever_waits_for_a_drop_waits_until_it_is_flushed_or_of_nobody(
            steps in prop::collection::vec((0_u32..10, 0_u16..3, 0_u32..4, 0_u16..2, 0_usize..30), 1..200),
        ) {
            let (mut pending, journal) = (PendingDrops::default(), Journal::default());
            let mut drops: Vec<(BlockKey, SsdIndex, Ticket)> = Vec::new();
            let mut freed: Vec<(SsdIndex, u32, Ticket)> = Vec::new();
            let mut tickets = vec![journal.last_ticket()];
            for (local, (action, volume, block, ssd, until)) in (0..).zip(steps) {
                let (key, ssd) = (key(volume, block), SsdIndex(ssd));
                match action {
                    0..6 => {
                        let entry = IndexEntry::Drop { slot: local, generation: 1, first_page: 0, page_count: 1 };
                        let ticket = journal.push(entry);
                        tickets.push(ticket);
                        pending.queued(key, ssd, ticket);
                        drops.push((key, ssd, ticket));
                        if action < 3 {
                            pending.free_after(ssd, local, ticket);
                            freed.push((ssd, local, ticket));
                        }
                    }
                    6..8 => {
                        let until = tickets[until.min(tickets.len() - 1)];
                        let is_done = |other: SsdIndex, ticket: Ticket| other == ssd && ticket <= until;
                        let ready: Vec<u32> = freed.iter().filter(|slot| is_done(slot.0, slot.2)).map(|slot| slot.1).collect();
                        let flushed = pending.flushed(ssd, |ticket| ticket <= until);
                        prop_assert!(flushed.iter().all(|freed| freed.ssd() == ssd && freed.ticket() <= until));
                        prop_assert_eq!(flushed.iter().map(DropDurable::local).collect::<Vec<_>>(), ready);
                        drops.retain(|(_, other, ticket)| !is_done(*other, *ticket));
                        freed.retain(|(other, _, ticket)| !is_done(*other, *ticket));
                    }
                    8 => {
                        pending.forget_ssd(ssd);
                        drops.retain(|(_, other, _)| *other != ssd);
                        freed.retain(|(other, ..)| *other != ssd);
                    }
                    _ => {
                        pending.forget_volume(key.volume);
                        drops.retain(|(other, ..)| other.volume != key.volume);
                    }
                }
                prop_assert_eq!(pending.freed_count(), freed.len());
                for key in (0..3).flat_map(|volume| (0..4).map(move |block| super::tests::key(volume, block))) {
                    let of = drops.iter().filter(|(other, ..)| *other == key);
                    let expected: Drops = of.map(|(_, ssd, ticket)| (*ssd, *ticket)).collect();
                    prop_assert_eq!(pending.of(key), expected);
                }
            }
        }
    }
}
