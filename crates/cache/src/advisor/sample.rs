//! Which blocks are watched.

use crate::address::{BlockIndex, mixed};

use super::figures::number;

/// Makes the choice independent of where tables put the block: they take bits of another hash.
const SALT: u64 = 0x5eed_5a3b_1e0f_ca5e;

/// Groups of blocks from whose differences the error is estimated: each is a sample by itself.
pub const GROUPS: usize = 8;

/// Every block: one of one.
const WHOLE: u64 = 1 << 32;

/// How many blocks are watched: a part of all, with 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

/// The hash by which a block is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled(u64);

impl Sampled {
    pub fn new(block: BlockIndex) -> Self {
        Self(mixed(u64::from(block.0) ^ SALT))
    }

    /// The group of the block: below [`GROUPS`].
    pub fn group(self) -> usize {
        usize::from(u8::try_from(self.0 & 7).expect("three bits"))
    }
}

impl Rate {
    pub const ALL: Self = Self(WHOLE);

    /// `part` of `whole` blocks; all, if that is more. Not none.
    pub fn of(part: u64, whole: u64) -> Self {
        if part >= whole {
            return Self::ALL;
        }
        let bits = u128::from(part) * u128::from(WHOLE) / u128::from(whole);
        Self(u64::try_from(bits).expect("it is less than the whole").max(1))
    }

    /// Whether a block is watched. Whatever a lower rate watches, a higher one does.
    pub fn takes(self, block: Sampled) -> bool {
        block.0 >> 32 < self.0
    }

    /// An eighth less.
    #[must_use]
    pub fn lowered(self) -> Self {
        Self((self.0 - self.0 / 8).max(1))
    }

    /// To be kept, and made a rate again by [`Self::of_bits`].
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn of_bits(bits: u64) -> Option<Self> {
        (1..=WHOLE).contains(&bits).then_some(Self(bits))
    }

    /// Half of it; `None` if that would watch nothing.
    pub fn halved(self) -> Option<Self> {
        (self.0 > 1).then_some(Self(self.0 / 2))
    }

    /// So much of `count`, rounded up.
    pub fn share_of(self, count: u64) -> u64 {
        let share = (u128::from(count) * u128::from(self.0)).div_ceil(u128::from(WHOLE));
        u64::try_from(share).expect("a share is no more than the whole")
    }

    /// How many blocks there are, if so many are watched: about.
    pub fn whole_of(self, watched: u64) -> u64 {
        let whole = (u128::from(watched) * u128::from(WHOLE)) / u128::from(self.0);
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    /// Blocks for each one that is watched: 1 or more.
    pub fn weight(self) -> f64 {
        number(WHOLE) / number(self.0)
    }

    /// The part of all blocks that is watched: up to 1.
    pub fn part(self) -> f64 {
        number(self.0) / number(WHOLE)
    }
}

/// How far a sum over watched blocks is off, from what each group of them has of it: two standard deviations, in the unit of the
/// sums. Nothing, if all are watched.
pub fn deviation(groups: [f64; GROUPS], rate: Rate) -> f64 {
    let count = f64::from(u32::try_from(GROUPS).expect("groups are numbered in 32 bits"));
    let mean = groups.iter().sum::<f64>() / count;
    let squares: f64 = groups.iter().map(|sum| (sum - mean) * (sum - mean)).sum();
    2.0 * (squares * count / (count - 1.0) * (1.0 - rate.part())).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_takes_its_part_of_the_blocks_and_a_lower_one_none_besides() {
        let rates = [Rate::ALL, Rate::of(1, 4), Rate::of(1, 100), Rate::of(1, 4).lowered()];
        let counts =
            rates.map(|rate| (0..400_000).filter(|block| rate.takes(Sampled::new(BlockIndex(*block)))).count());
        assert_eq!(counts[0], 400_000);
        assert!((98_500..101_500).contains(&counts[1]), "{counts:?}");
        assert!((3800..4200).contains(&counts[2]), "{counts:?}");
        assert!((86_000..89_000).contains(&counts[3]), "{counts:?}");
        let nested = (0..100_000).map(|block| Sampled::new(BlockIndex(block)));
        assert!(nested.into_iter().all(|block| !rates[3].takes(block) || rates[1].takes(block)));
    }

    #[test]
    fn shares_and_weights_fit_each_other() {
        let rate = Rate::of(3, 12);
        assert_eq!((rate.share_of(400), rate.share_of(1), Rate::ALL.share_of(7), rate.whole_of(9)), (100, 1, 7, 36));
        assert!((rate.weight() - 4.0).abs() < 1e-9 && (rate.part() - 0.25).abs() < 1e-9);
        assert_eq!((Rate::of(9, 3), Rate::of(0, 5).share_of(1)), (Rate::ALL, 1));
    }

    #[test]
    fn what_is_known_wholly_has_no_deviation() {
        let groups = [5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        assert!(deviation(groups, Rate::ALL) < 1e-9 && deviation([3.0; GROUPS], Rate::of(1, 9)) < 1e-9);
        assert!(deviation(groups, Rate::of(1, 2)) > 5.0);
    }
}
