//! A half-open range of bytes on a device or a volume.

/// The bytes `start .. end`. Never inverted; may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteRange {
    pub start: u64,
    pub end: u64,
}

impl ByteRange {
    /// The `length` bytes from `start`.
    ///
    /// # Panics
    /// If the range would end past `u64::MAX`: callers check requests against a device's size first.
    pub fn at(start: u64, length: u64) -> Self {
        let end = start.checked_add(length).expect("a range inside a device cannot overflow");
        Self { start, end }
    }

    pub fn length(self) -> u64 {
        self.end - self.start
    }

    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// What both ranges share, if anything.
    pub fn intersection(self, other: Self) -> Option<Self> {
        let start = self.start.max(other.start);
        let end = self.end.min(other.end);
        (start < end).then_some(Self { start, end })
    }

    /// The smallest range that contains this one and starts and ends at multiples of `unit` (a power of two).
    pub fn widened_to(self, unit: u64) -> Self {
        debug_assert!(unit.is_power_of_two());
        let end = self.end.checked_add(unit - 1).expect("a range inside a device cannot overflow");
        Self { start: self.start & !(unit - 1), end: end & !(unit - 1) }
    }

    /// The largest range inside this one that starts and ends at multiples of `unit` (a power of two); may be empty.
    pub fn narrowed_to(self, unit: u64) -> Self {
        debug_assert!(unit.is_power_of_two());
        let end = self.end & !(unit - 1);
        let start = self.start.checked_add(unit - 1).map_or(end, |start| start & !(unit - 1));
        Self { start: start.min(end), end }
    }

    pub fn is_aligned_to(self, unit: u64) -> bool {
        (self.start | self.end) & (unit - 1) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_and_narrowing_meet_at_aligned_ranges() {
        let aligned = ByteRange::at(8192, 4096);
        assert_eq!(aligned.widened_to(4096), aligned);
        assert_eq!(aligned.narrowed_to(4096), aligned);
        let ragged = ByteRange::at(100, 8192);
        assert_eq!(ragged.widened_to(4096), ByteRange::at(0, 12_288));
        assert_eq!(ragged.narrowed_to(4096), ByteRange::at(4096, 4096));
        assert!(ByteRange::at(100, 200).narrowed_to(4096).is_empty());
    }
}
