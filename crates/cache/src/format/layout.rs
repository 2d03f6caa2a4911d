//! Where everything lies on an SSD. Computed once when a pool is made, then read from the superblock.

use crate::config::{BlockBytes, PAGE, limits};
use crate::error::{Error, ErrorKind};
use crate::format::record::LOSSES_AREA_BYTES;

use super::{index, slot_header};

/// Offsets of the two superblock copies.
pub(crate) const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 64 << 10];
/// Bytes of one superblock copy.
pub(crate) const SUPERBLOCK_BYTES: u64 = 4096;
/// Where the owner mark lies, between the two.
pub(crate) const OWNER_OFFSET: u64 = 32 << 10;
/// Where the member records begin on an SSD; on the state directory's member they begin at 0.
pub(crate) const RECORDS_OFFSET: u64 = 128 << 10;
/// Bytes of one area of the members record, of one of the witness record behind it, and of the row records.
pub(crate) const MEMBERS_AREA_BYTES: u64 = 52 << 10;
pub(crate) const WITNESS_AREA_BYTES: u64 = 12 << 10;
pub(crate) const ROWS_AREA_BYTES: u64 = 128 << 10;
/// Bytes of one area of the catalogue, on the state directory's member and on SSDs of 1 GiB and more.
pub(crate) const CATALOGUE_AREA_BYTES_MAX: u64 = 4 << 20;
const CATALOGUE_AREA_BYTES_MIN: u64 = 128 << 10;
/// Slots that an SSD must have to be of use: some to serve from, some to fill.
const SLOTS_MIN: u64 = 4;
/// What a segment is made to hold, about.
const SEGMENT_BYTES_TARGET: u64 = 32 << 20;
/// What a segment may hold at most: 32 pairs of a row, counted in pages, are told apart by 20 bits.
const SEGMENT_BYTES_MAX: u64 = PAGE << 15;
/// The journal ring: a 512th of the SSD, within these bounds.
const JOURNAL_BYTES_MIN: u64 = 64 << 10;
const JOURNAL_BYTES_MAX: u64 = 32 << 20;
// Nothing at the beginning of an SSD lies on anything else.
const _: () = assert!(SUPERBLOCK_OFFSETS[0] + SUPERBLOCK_BYTES <= OWNER_OFFSET);
const _: () = assert!(OWNER_OFFSET + 4096 <= SUPERBLOCK_OFFSETS[1]);
const _: () = assert!(SUPERBLOCK_OFFSETS[1] + SUPERBLOCK_BYTES <= RECORDS_OFFSET);
// 32 pairs of a row, counted in pages, are told apart by 20 bits.
const _: () = assert!(32 * SEGMENT_BYTES_MAX / PAGE <= 1 << 20);

/// The geometry of one SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) ssd_bytes: u64,
    /// The unit that the SSD writes atomically, and the size of an index sector: 512 or 4096.
    pub(crate) sector_bytes: u32,
    pub(crate) block_bytes: BlockBytes,
    /// Equal on all SSDs of a pool.
    pub(crate) segment_bytes: u64,
    pub(crate) catalogue_area_bytes: u64,
    /// Bytes of one of the two checkpoint areas.
    pub(crate) checkpoint_area_bytes: u64,
    pub(crate) journal_bytes: u64,
}

impl Layout {
    /// The layout of a new SSD in a pool with these segments.
    pub(crate) fn new(
        ssd_bytes: u64,
        sector_bytes: u32,
        block_bytes: BlockBytes,
        segment_bytes: u64,
    ) -> Result<Self, Error> {
        let usable = ssd_bytes & !(PAGE - 1);
        let slots_max = usable / stride(block_bytes);
        let per_sector = index::entries_per_sector_min(sector_bytes, block_bytes);
        let checkpoint = (slots_max.div_ceil(per_sector) + 1) * u64::from(sector_bytes);
        let catalogue = (usable / 256).clamp(CATALOGUE_AREA_BYTES_MIN, CATALOGUE_AREA_BYTES_MAX);
        let layout = Self {
            ssd_bytes: usable,
            sector_bytes,
            block_bytes,
            segment_bytes,
            catalogue_area_bytes: catalogue.next_multiple_of(PAGE),
            checkpoint_area_bytes: checkpoint.next_multiple_of(PAGE),
            journal_bytes: (usable / 512).clamp(JOURNAL_BYTES_MIN, JOURNAL_BYTES_MAX).next_multiple_of(PAGE),
        };
        if usable < limits::SSD_BYTES_MIN || layout.slot_count_wide() < SLOTS_MIN {
            let least = limits::SSD_BYTES_MIN
                .max(layout.segments_offset() + layout.index_bytes() + (SLOTS_MIN + 1) * segment_bytes);
            let message = format!("an SSD of {ssd_bytes} bytes is too small for this pool: it needs {least} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        layout.check().map_err(|rule| {
            Error::new(ErrorKind::Invalid, format!("an SSD of {ssd_bytes} bytes does not fit the format: {rule}"))
        })?;
        Ok(layout)
    }

    /// What the superblock says must be possible; `Err` names the rule that it breaks.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let page_multiple = [
            self.ssd_bytes,
            self.segment_bytes,
            self.catalogue_area_bytes,
            self.checkpoint_area_bytes,
            self.journal_bytes,
        ];
        if !matches!(self.sector_bytes, 512 | 4096) {
            return Err("its sector size is neither 512 nor 4096");
        }
        if page_multiple.iter().any(|bytes| *bytes == 0 || bytes % PAGE != 0 || *bytes > 1 << 50) {
            return Err("a size in it is no multiple of 4096, or is impossible");
        }
        if self.catalogue_area_bytes > CATALOGUE_AREA_BYTES_MAX || self.journal_bytes > JOURNAL_BYTES_MAX {
            return Err("an area in it is larger than this format allows");
        }
        if self.segment_bytes < stride(self.block_bytes) {
            return Err("a segment in it holds no slot");
        }
        if self.segment_bytes > SEGMENT_BYTES_MAX {
            return Err("a segment in it is larger than this format allows");
        }
        if self.segments_offset() + self.index_bytes() + self.segment_bytes > self.ssd_bytes {
            return Err("its areas do not fit on the SSD");
        }
        if self.slot_count_wide() > u64::from(u32::MAX / 16) {
            return Err("it has more slots than this format allows");
        }
        let per_sector = index::entries_per_sector_min(self.sector_bytes, self.block_bytes);
        let sectors = self.checkpoint_area_bytes / u64::from(self.sector_bytes);
        if (sectors - 1) * per_sector < self.slot_count_wide() {
            return Err("its checkpoint areas cannot describe all slots");
        }
        Ok(())
    }

    pub(crate) fn stride(&self) -> u64 {
        stride(self.block_bytes)
    }

    pub(crate) fn header_bytes(&self) -> u64 {
        slot_header::bytes_for(self.block_bytes)
    }

    /// Where the first segment begins.
    pub(crate) fn segments_offset(&self) -> u64 {
        RECORDS_OFFSET + records_bytes(self.catalogue_area_bytes)
    }

    pub(crate) fn index_bytes(&self) -> u64 {
        2 * self.checkpoint_area_bytes + self.journal_bytes
    }

    pub(crate) fn segment_count(&self) -> u64 {
        (self.ssd_bytes.saturating_sub(self.segments_offset())) / self.segment_bytes
    }

    /// The first segments hold the slot index; all others are for slots (and, in a read-write pool, the write log).
    pub(crate) fn index_segments(&self) -> u64 {
        self.index_bytes().div_ceil(self.segment_bytes)
    }

    pub(crate) fn slots_per_segment(&self) -> u64 {
        self.segment_bytes / self.stride()
    }

    fn slot_count_wide(&self) -> u64 {
        self.segment_count().saturating_sub(self.index_segments()) * self.slots_per_segment()
    }

    pub(crate) fn slot_count(&self) -> u32 {
        u32::try_from(self.slot_count_wide()).expect("`check` bounds the number of slots")
    }

    /// Where the header of a slot begins; its pages follow the header.
    pub(crate) fn slot_offset(&self, slot: u32) -> u64 {
        self.slot_places().offset(slot)
    }

    /// For whoever asks at every hit where slots are.
    pub(crate) fn slot_places(&self) -> SlotPlaces {
        SlotPlaces {
            first_offset: self.segments_offset() + self.index_segments() * self.segment_bytes,
            per_segment: self.slots_per_segment(),
            segment_bytes: self.segment_bytes,
            stride: self.stride(),
        }
    }

    /// Where a segment begins; segments are counted with those of the index.
    pub(crate) fn segment_offset(&self, segment: u32) -> u64 {
        self.segments_offset() + u64::from(segment) * self.segment_bytes
    }

    pub(crate) fn checkpoint_offset(&self, area: u64) -> u64 {
        self.segments_offset() + area * self.checkpoint_area_bytes
    }

    pub(crate) fn journal_offset(&self) -> u64 {
        self.checkpoint_offset(2)
    }

    pub(crate) fn journal_sectors(&self) -> u64 {
        self.journal_bytes / u64::from(self.sector_bytes)
    }
}

/// Where the slots of an SSD lie, with what is divided to know it divided once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotPlaces {
    /// Of the first segment behind those of the index.
    first_offset: u64,
    per_segment: u64,
    segment_bytes: u64,
    stride: u64,
}

impl SlotPlaces {
    /// Where the header of a slot begins.
    pub(crate) fn offset(&self, slot: u32) -> u64 {
        let (segment, within) = (u64::from(slot) / self.per_segment, u64::from(slot) % self.per_segment);
        self.first_offset + segment * self.segment_bytes + within * self.stride
    }
}

/// Bytes of a slot: header and pages.
fn stride(block_bytes: BlockBytes) -> u64 {
    slot_header::bytes_for(block_bytes) + block_bytes.get()
}

/// Bytes of all record areas (two of each kind).
pub(crate) const fn records_bytes(catalogue_area_bytes: u64) -> u64 {
    2 * (MEMBERS_AREA_BYTES + WITNESS_AREA_BYTES + ROWS_AREA_BYTES + catalogue_area_bytes)
}

/// The segment size of a new pool: whole slots, about 32 MiB, and small enough that the smallest SSD has some dozens.
pub(crate) fn segment_bytes_for(block_bytes: BlockBytes, smallest_ssd_bytes: u64) -> u64 {
    let target = SEGMENT_BYTES_TARGET.min(smallest_ssd_bytes / 64);
    let stride = stride(block_bytes);
    (target / stride).max(1) * stride
}

/// Bytes that the state directory's member device must have (a file of this size per pool).
pub const STATE_BYTES: u64 = 16 << 20;
/// What older versions gave it: without room for losses.
pub(crate) const STATE_BYTES_MIN: u64 = 10 << 20;
const _: () = assert!(STATE_BYTES_MIN >= records_bytes(CATALOGUE_AREA_BYTES_MAX));
const _: () = assert!(STATE_BYTES >= records_bytes(CATALOGUE_AREA_BYTES_MAX) + 2 * LOSSES_AREA_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_never_overlap_the_index_each_other_or_the_end() {
        for block in [64 << 10, 1 << 20, 4 << 20] {
            for (ssd, sector) in [(64 << 20, 512), (100_000_000, 4096), (5 << 30, 512)] {
                let block_bytes = BlockBytes::new(block).expect("a valid value of the test");
                let layout = Layout::new(ssd, sector, block_bytes, segment_bytes_for(block_bytes, ssd))
                    .expect("the SSD is large enough");
                assert_eq!(layout.check(), Ok(()));
                let mut end = layout.journal_offset() + layout.journal_bytes;
                for slot in 0..layout.slot_count() {
                    assert!(layout.slot_offset(slot) >= end, "slot {slot} of {layout:?}");
                    end = layout.slot_offset(slot) + layout.stride();
                }
                assert!(end <= layout.ssd_bytes);
            }
        }
    }

    #[test]
    fn a_segment_whose_pages_a_row_could_not_count_is_refused() {
        let block_bytes = BlockBytes::new(4 << 20).expect("a valid value of the test");
        let layout = |segment_bytes| Layout::new(1 << 40, 512, block_bytes, segment_bytes);
        let sound = layout(segment_bytes_for(block_bytes, 1 << 40)).expect("the SSD is large enough");
        assert_eq!(Layout { segment_bytes: 128 << 20, ..sound }.check(), Ok(()));
        assert!(Layout { segment_bytes: (128 << 20) + 4096, ..sound }.check().is_err());
        assert!(layout(1 << 36).is_err());
    }

    #[test]
    fn an_ssd_that_is_too_small_is_refused_with_the_size_it_needs() {
        let block_bytes = BlockBytes::new(4 << 20).expect("a valid value of the test");
        let error = Layout::new(9 << 20, 512, block_bytes, segment_bytes_for(block_bytes, 9 << 20))
            .expect_err("9 MiB are not enough");
        assert!(error.to_string().contains("too small"), "{error}");
    }

    #[test]
    fn most_of_a_large_ssd_holds_pages() {
        let block_bytes = BlockBytes::new(1 << 20).expect("a valid value of the test");
        let ssd = 400 << 30;
        let layout =
            Layout::new(ssd, 512, block_bytes, segment_bytes_for(block_bytes, ssd)).expect("the SSD is large enough");
        assert!(u64::from(layout.slot_count()) * block_bytes.get() > ssd / 1000 * 990);
    }
}
