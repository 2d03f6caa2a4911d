//! The memory that the tables of a pool take, stated before the pool is made (REQUIREMENTS P14).
//!
//! The formula is the sum of four terms, each so many things at so many bytes: when every slot is in use and all that may be
//! dirty is. What does not grow with any of them is left out.

use crate::clean::{counters, ghost, map};
use crate::log::overlay;
use crate::status::{MemoryTerm, MemoryTerms};

/// What `slots` slots take when all are in use, and `dirty_pages` are dirty.
pub(super) fn table_memory(slots: u64, pages_per_block: u32, checksums: bool, dirty_pages: u64) -> MemoryTerms {
    let pages = slots * u64::from(pages_per_block);
    let per_slot = map::BYTES_PER_SLOT + ghost::BYTES_PER_SLOT + counters::bytes_per_slot(pages_per_block);
    MemoryTerms {
        slots: MemoryTerm { count: slots, bytes_each: per_slot },
        slot_pages: MemoryTerm { count: pages, bytes_each: map::BYTES_PER_PAGE },
        checksums: MemoryTerm { count: if checksums { pages } else { 0 }, bytes_each: map::BYTES_PER_CHECKSUM },
        dirty_pages: MemoryTerm { count: dirty_pages, bytes_each: overlay::bytes_per_page() },
    }
}

#[cfg(test)]
mod tests {
    use crate::clean::counters::Counters;
    use crate::clean::map::Map;
    use crate::clean::policy::Policy;

    use super::*;

    /// Slots of 64 KiB with a header of 4 KiB in 10^12 bytes of SSD.
    const SLOTS_PER_TERABYTE: u64 = 1_000_000_000_000 / (68 * 1024);

    fn bytes(slots: u64, pages_per_block: u32, checksums: bool) -> u64 {
        table_memory(slots, pages_per_block, checksums, 0).bytes()
    }

    // proves: P14
    #[test]
    fn a_terabyte_of_64_kib_slots_takes_no_more_memory_than_promised() {
        let (without, with) = (bytes(SLOTS_PER_TERABYTE, 16, false), bytes(SLOTS_PER_TERABYTE, 16, true));
        assert!(without <= 460_000_000, "{without}");
        assert!(with <= 1_500_000_000, "{with}");
    }

    #[test]
    fn larger_blocks_take_less_memory_for_the_same_bytes() {
        for pages_per_block in [16, 32, 64, 128, 256, 512] {
            let half_as_many = bytes(500_000, pages_per_block * 2, false);
            assert!(half_as_many < bytes(1_000_000, pages_per_block, false), "{pages_per_block}");
        }
    }

    // proves: P14
    #[test]
    fn the_terms_add_up_to_the_sum() {
        let terms = table_memory(1000, 16, true, 77);
        let counts = [terms.slots, terms.slot_pages, terms.checksums, terms.dirty_pages].map(|term| term.count);
        assert_eq!(counts, [1000, 16_000, 16_000, 77]);
        assert_eq!(
            (terms.slot_pages.bytes(), terms.checksums.bytes()),
            (2000, 66_000),
            "a bit each, and four bytes and a bit"
        );
        assert_eq!(terms.bytes(), terms.slots.bytes() + 68_000 + terms.dirty_pages.bytes());
        assert_eq!(table_memory(1000, 16, false, 77).bytes(), terms.bytes() - 66_000);
    }

    // proves: P14
    #[test]
    fn policy_auto_takes_less_than_a_third_of_a_mebibyte_more() {
        use crate::config::PolicyKind::{Auto, S3Fifo};
        let (map, slots) = (Map::new(16, false), 1_000_000);
        let mut auto = Policy::new(Auto, slots);
        for block in 0..4_000_000 {
            let key = crate::address::BlockKey {
                volume: crate::address::VolumeIndex(0),
                block: crate::address::BlockIndex(block),
            };
            auto.missed(&map, key, crate::clean::policy::Enters::AtOnce);
        }
        let more = auto.memory_bytes() - Policy::new(S3Fifo, slots).memory_bytes();
        assert!((100 << 10..340 << 10).contains(&more), "{more}");
    }

    #[test]
    fn a_full_pool_takes_the_memory_stated() {
        const SLOTS: u32 = 300_000;
        let mut map = Map::new(16, true);
        map.add_slots(SLOTS);
        let policy = Policy::new(crate::config::PolicyKind::S3Fifo, SLOTS);
        let counters = Counters::new(SLOTS, 16);
        let taken = map.memory_bytes() + policy.memory_bytes() + counters.memory_bytes();
        let stated = bytes(u64::from(SLOTS), 16, true);
        assert!(taken.abs_diff(stated) < stated / 1000, "{taken} {stated}");
    }
}
