//! The name of a task, as three numbers that fit in the one word that a waker has room for.

use std::ptr;

/// Names a task. A generation tells it from earlier ones at the same index; one that comes round again (after 2^24
/// tasks) wakes another task for nothing, which is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskId {
    pub(crate) executor: u16,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Bits of an index and of a generation in a waker's word; 16 bits are left for the executor.
pub(crate) const FIELD_BITS: u32 = 24;
pub(crate) const FIELD_MASK: u32 = (1 << FIELD_BITS) - 1;

impl TaskId {
    pub(crate) fn to_word(self) -> *const () {
        let fields = (u64::from(self.generation & FIELD_MASK) << FIELD_BITS) | u64::from(self.index & FIELD_MASK);
        let word = (u64::from(self.executor) << (2 * FIELD_BITS)) | fields;
        ptr::without_provenance(usize::try_from(word).expect("Hotset runs on 64-bit machines"))
    }

    pub(crate) fn from_word(word: *const ()) -> Self {
        let word = u64::try_from(word.addr()).expect("an address fits 64 bits");
        let field = |shift: u32| u32::try_from((word >> shift) & u64::from(FIELD_MASK)).expect("24 bits fit 32");
        let executor = u16::try_from(word >> (2 * FIELD_BITS)).expect("16 bits are left");
        Self { executor, index: field(0), generation: field(FIELD_BITS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_carries_all_three_numbers() {
        let id = TaskId { executor: 65_535, index: FIELD_MASK, generation: FIELD_MASK - 1 };
        assert_eq!(TaskId::from_word(id.to_word()), id);
    }
}
