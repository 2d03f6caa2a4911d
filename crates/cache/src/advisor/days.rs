//! On which days watched blocks were read and written: what is hot, warm and cold.

use super::access::Direction;
use super::sample::Rate;

/// Days that are told apart, today included.
pub const DAYS: usize = 7;
const DAYS_MASK: u8 = 0x7F;

/// What happened to a block, a bit for each day: today is the lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DaysOfBlock {
    pub(super) read: u8,
    pub(super) written: u8,
    /// Read, and read again on the same day.
    pub(super) read_again: u8,
}

impl DaysOfBlock {
    pub(super) fn accessed(&mut self, direction: Direction) {
        match direction {
            Direction::Read => {
                self.read_again |= self.read & 1;
                self.read |= 1;
            }
            Direction::Write => self.written |= 1,
        }
    }

    pub(super) fn ended(&mut self, count: u32) {
        for days in [&mut self.read, &mut self.written, &mut self.read_again] {
            *days = days.checked_shl(count).unwrap_or(0);
        }
    }
}

/// Blocks of one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayOfBlocks {
    pub read: u64,
    pub written: u64,
    pub read_again: u64,
}

/// Blocks by day, each once a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockDays {
    /// Today first.
    pub days: [DayOfBlocks; DAYS],
    /// Accessed today.
    pub hot: u64,
    /// Not today, but on one of the other days.
    pub warm: u64,
    /// Before.
    pub cold: u64,
}

impl BlockDays {
    pub(super) fn add(&mut self, block: DaysOfBlock) {
        for (shift, day) in self.days.iter_mut().enumerate() {
            let has = |days: u8| u64::from(days >> shift & 1);
            day.read += has(block.read);
            day.written += has(block.written);
            day.read_again += has(block.read_again);
        }
        let any = (block.read | block.written) & DAYS_MASK;
        let class = match any {
            0 => &mut self.cold,
            any if any & 1 == 1 => &mut self.hot,
            _ => &mut self.warm,
        };
        *class += 1;
    }

    /// As many as these watched ones stand for.
    pub(super) fn times(mut self, rate: Rate) -> Self {
        for day in &mut self.days {
            for count in [&mut day.read, &mut day.written, &mut day.read_again] {
                *count = rate.whole_of(*count);
            }
        }
        for count in [&mut self.hot, &mut self.warm, &mut self.cold] {
            *count = rate.whole_of(*count);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: A2
    #[test]
    fn a_block_cools_day_by_day_and_counts_once_a_day() {
        let mut block = DaysOfBlock::default();
        block.accessed(Direction::Read);
        block.accessed(Direction::Read);
        block.accessed(Direction::Write);
        let days = |block: DaysOfBlock| {
            let mut days = BlockDays::default();
            days.add(block);
            days
        };
        let today = days(block);
        assert_eq!(today.days[0], DayOfBlocks { read: 1, written: 1, read_again: 1 });
        assert_eq!((today.hot, today.warm, today.cold), (1, 0, 0));
        block.ended(2);
        block.accessed(Direction::Read);
        let later = days(block);
        assert_eq!(later.days[0], DayOfBlocks { read: 1, written: 0, read_again: 0 });
        assert_eq!((later.days[2].read, later.days[1].read, later.hot), (1, 0, 1));
        block.ended(6);
        assert_eq!((days(block).warm, days(block).cold), (1, 0));
        block.ended(1);
        assert_eq!((days(block).warm, days(block).cold), (0, 1));
        block.ended(200);
        assert_eq!(days(block).days, [DayOfBlocks::default(); DAYS]);
        assert_eq!(days(block).times(Rate::of(1, 4)).cold, 4);
    }
}
