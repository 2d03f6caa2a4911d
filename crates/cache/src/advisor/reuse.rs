//! Reuse distances of watched blocks: how many other blocks were asked for between two accesses to one (Mattson et al., 1970). A cache
//! of more blocks than that with LRU would have hit.
//!
//! At most so many blocks are watched as were agreed: when there are more, the rate is lowered, and those are forgotten that it
//! does not take (SHARDS' fixed size). Each access weighs as many as its rate stood for then. What the sample has too many or too few of
//! all reads counts as hits of the smallest cache: mostly it is the hottest blocks that are in it or not (`SHARDS_adj`).
//! Only reads are counted by their distance, whatever accessed the block before. Beside it, each block remembers on which days it was read and written.

use std::collections::BTreeMap;

use crate::address::{BlockIndex, at, vec_bytes};
use crate::format::Corrupt;
use crate::format::codec::{Reader, Writer};

use super::access::{Access, Accesses, Direction};
use super::curve::Curve;
use super::days::{BlockDays, DaysOfBlock};
use super::figures::{count_of, number, weight};
use super::sample::{GROUPS, Rate, Sampled};
use super::tallies::{SizeTally, read_curve};

/// Classes of distances for each doubling.
const STEPS: u64 = 64;
const STEPS_LOG2: u32 = STEPS.trailing_zeros();
/// Distances below this have a class each.
const EXACT: u64 = 2 * STEPS;
/// Doublings: distances are those of blocks, which have 32 bits, and some more for their weight.
const OCTAVES: usize = 36;
/// The class of what was not seen before, beside those of [`OCTAVES`].
const COLD: usize = OCTAVES;

/// A watched block.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// Its place in the order of last accesses.
    place: u32,
    days: DaysOfBlock,
}

/// Reuse distances of a volume's blocks.
pub struct ReuseDistances {
    blocks: BTreeMap<u32, Watched>,
    blocks_max: usize,
    rate: Rate,
    order: TakenPlaces,
    accesses: Accesses,
    reads: Distances,
}

impl ReuseDistances {
    /// Watches `blocks_max` blocks at most, chosen at `rate` at first.
    pub fn new(blocks_max: u32, rate: Rate) -> Self {
        Self {
            blocks: BTreeMap::new(),
            blocks_max: at(blocks_max),
            rate,
            order: TakenPlaces::new(at(blocks_max) * 2),
            accesses: Accesses::default(),
            reads: Distances::default(),
        }
    }

    /// Takes note of an access, of a block that is watched or not.
    pub fn access(&mut self, access: &Access) {
        self.accesses.count(access.direction, access.passage);
        self.note(access);
    }

    /// So many accesses were made, of blocks that are watched or not.
    pub(crate) fn counted(&mut self, accesses: Accesses) {
        self.accesses = self.accesses.plus(accesses);
    }

    /// Takes note of an access that was counted already.
    pub(crate) fn note(&mut self, access: &Access) {
        let sampled = Sampled::new(access.block);
        if self.rate.takes(sampled) {
            self.watch(access.block, sampled, access.direction);
        }
    }

    fn watch(&mut self, block: BlockIndex, sampled: Sampled, direction: Direction) {
        if self.order.is_full() {
            self.renumber();
        }
        let place = self.order.next();
        let before = self.blocks.get(&block.0).copied();
        let mut days = before.map(|before| before.days).unwrap_or_default();
        days.accessed(direction);
        self.blocks.insert(block.0, Watched { place, days });
        let distance = before.map(|before| self.order.leave(before.place));
        let (watched, taken) = (self.blocks.len(), at(self.order.taken));
        assert_eq!(watched, taken, "each watched block has its place in the order");
        if direction == Direction::Read {
            let weight = self.rate.weight();
            let distance = distance.map(|distance| number(u64::from(distance)) * weight);
            self.reads.add(distance, weight, sampled.group());
        }
        while self.blocks.len() > self.blocks_max {
            self.lower_rate();
        }
    }

    /// Lowers the rate, and forgets what it does not take.
    fn lower_rate(&mut self) {
        self.lower_to(self.rate.lowered());
    }

    /// The rate is this from now on, if it was higher: what it does not take is forgotten.
    pub(crate) fn lower_to(&mut self, rate: Rate) {
        if rate >= self.rate {
            return;
        }
        self.rate = rate;
        let (rate, order) = (self.rate, &mut self.order);
        self.blocks.retain(|block, watched| {
            let stays = rate.takes(Sampled::new(BlockIndex(*block)));
            if !stays {
                order.leave(watched.place);
            }
            stays
        });
    }

    /// Gives the blocks the lowest places, in the order that they have.
    fn renumber(&mut self) {
        let in_order: Vec<(u32, DaysOfBlock)> = self.oldest_first().collect();
        self.order.clear();
        for (block, days) in in_order {
            let place = self.order.next();
            self.blocks.insert(block, Watched { place, days });
        }
    }

    /// The watched blocks, the one first whose last access is longest ago.
    fn oldest_first(&self) -> impl Iterator<Item = (u32, DaysOfBlock)> + use<> {
        let places = self.blocks.iter().map(|(block, watched)| (watched.place, *block, watched.days));
        let mut places: Vec<(u32, u32, DaysOfBlock)> = places.collect();
        places.sort_unstable_by_key(|(place, _, _)| *place);
        places.into_iter().map(|(_, block, days)| (block, days))
    }

    // ---- days

    /// So many days have ended since the last time.
    pub fn days_ended(&mut self, count: u32) {
        self.blocks.values_mut().for_each(|watched| watched.days.ended(count));
    }

    /// What was done on which day.
    pub fn days(&self) -> BlockDays {
        let mut counts = BlockDays::default();
        self.blocks.values().for_each(|watched| counts.add(watched.days));
        counts.times(self.rate)
    }

    // ---- what outlives a restart

    pub(crate) fn encode(&self, to: &mut Writer) {
        to.u64(self.rate.bits());
        self.accesses.encode(to);
        to.u32(count_of(self.blocks.len()));
        for (block, DaysOfBlock { read, written, read_again }) in self.oldest_first() {
            to.u32(block).u8(read).u8(written).u8(read_again);
        }
        self.reads.encode(to);
    }

    /// # Errors
    /// The bytes are not what [`Self::encode`] makes of one that watches so many blocks at most.
    pub(crate) fn decode(from: &mut Reader<'_>, blocks_max: u32) -> Result<Self, Corrupt> {
        let rate = Rate::of_bits(from.u64()?).ok_or_else(|| from.corrupt("a rate is not one"))?;
        let mut reuse = Self::new(blocks_max, rate);
        reuse.accesses = Accesses::decode(from)?;
        let count = from.u32()?;
        from.require(count <= blocks_max, "more blocks are watched than may be")?;
        for _ in 0..count {
            let block = from.u32()?;
            let days = DaysOfBlock { read: from.u8()?, written: from.u8()?, read_again: from.u8()? };
            let place = reuse.order.next();
            let before = reuse.blocks.insert(block, Watched { place, days });
            from.require(before.is_none(), "a block is watched twice")?;
        }
        reuse.reads = Distances::decode(from)?;
        Ok(reuse)
    }

    /// What LRU would have missed with so many blocks until now. Nobody knows what it would have written.
    pub(crate) fn tally(&self, blocks: u64) -> SizeTally {
        SizeTally {
            blocks,
            rate: self.rate,
            reads_missed: self.reads.misses(blocks),
            reads_missed_by_group: self.reads.groups.each_ref().map(|group| misses_of_group(group, blocks)),
            writes_missed: 0.0,
            ssd_written_bytes: 0.0,
        }
    }

    /// The part of all blocks that is watched now.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    pub fn accesses(&self) -> Accesses {
        self.accesses
    }

    /// Blocks that were accessed at all, about.
    pub fn footprint_blocks(&self) -> u64 {
        self.rate.whole_of(u64::try_from(self.blocks.len()).expect("they are in memory"))
    }

    /// Reads that LRU misses at these sizes, in blocks.
    pub fn curve(&self, sizes: &[u64]) -> Curve {
        read_curve(sizes.iter().map(|blocks| self.tally(*blocks)), self.accesses)
    }

    /// The memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        // A node of a B-tree has room for eleven entries and is two thirds full on average.
        let entry = u64::try_from(size_of::<(u32, Watched)>() * 3 / 2 + 4).expect("an address has 64 bits at most");
        let entries = u64::try_from(self.blocks.len()).expect("they are in memory") * entry;
        entries + self.order.memory_bytes() + self.reads.memory_bytes()
    }
}

/// Which places are taken, so that those behind one can be counted (Fenwick, 1994).
struct TakenPlaces {
    sums: Vec<u32>,
    next: u32,
    taken: u32,
}

impl TakenPlaces {
    fn new(places: usize) -> Self {
        Self { sums: vec![0; places + 2], next: 1, taken: 0 }
    }

    fn is_full(&self) -> bool {
        at(self.next) + 1 >= self.sums.len()
    }

    fn clear(&mut self) {
        self.sums.fill(0);
        (self.next, self.taken) = (1, 0);
    }

    /// Takes the place behind all others.
    fn next(&mut self) -> u32 {
        assert!(at(self.next) < self.sums.len(), "place {} of the order is behind all that there are", self.next);
        let place = self.next;
        self.next += 1;
        self.taken += 1;
        let mut index = at(place);
        while index < self.sums.len() {
            self.sums[index] += 1;
            index += lowest_bit(index);
        }
        place
    }

    /// Leaves a place; answers how many are taken behind it, without the last one.
    fn leave(&mut self, place: u32) -> u32 {
        let mut upto = 0;
        let mut index = at(place);
        while index > 0 {
            upto += self.sums[index];
            index -= lowest_bit(index);
        }
        assert!(0 < upto && upto <= self.taken, "place {place} is left, {upto} are taken up to it of {}", self.taken);
        let behind = self.taken - upto;
        let mut index = at(place);
        while index < self.sums.len() {
            self.sums[index] -= 1;
            index += lowest_bit(index);
        }
        self.taken -= 1;
        behind.saturating_sub(1)
    }

    fn memory_bytes(&self) -> u64 {
        vec_bytes(&self.sums)
    }
}

fn lowest_bit(index: usize) -> usize {
    1 << index.trailing_zeros()
}

/// How often each distance was seen, weighed.
#[derive(Default)]
struct Distances {
    /// By class; grows to the largest distance.
    classes: Vec<f64>,
    cold: f64,
    /// By group of blocks and doubling.
    groups: [Vec<f64>; GROUPS],
}

impl Distances {
    fn add(&mut self, distance: Option<f64>, weight: f64, group: usize) {
        let octaves = &mut self.groups[group];
        if octaves.is_empty() {
            octaves.resize(COLD + 1, 0.0);
        }
        let Some(distance) = distance else {
            self.cold += weight;
            octaves[COLD] += weight;
            return;
        };
        let distance = whole(distance);
        let class = class_of(distance);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, 0.0);
        }
        self.classes[class] += weight;
        octaves[octave_of(distance)] += weight;
    }

    /// Accesses that a cache of so many blocks would miss.
    fn misses(&self, blocks: u64) -> f64 {
        let class = class_of(blocks);
        let further: f64 = self.classes.iter().skip(class + 1).sum();
        let own = self.classes.get(class).copied().unwrap_or(0.0);
        let (start, length) = bounds_of(class);
        let hit = number(blocks - start) / number(length);
        self.cold + further + own * (1.0 - hit)
    }

    fn encode(&self, to: &mut Writer) {
        to.u32(count_of(self.classes.len()));
        for weight in self.classes.iter().chain([&self.cold]) {
            to.u64(weight.to_bits());
        }
        for group in &self.groups {
            to.flag(!group.is_empty());
            group.iter().for_each(|weight| {
                to.u64(weight.to_bits());
            });
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let count = at(from.u32()?);
        from.require(count <= class_of(1 << (OCTAVES + 1)), "a distance is too long")?;
        let mut distances = Self { classes: Vec::with_capacity(count), ..Self::default() };
        for _ in 0..count {
            distances.classes.push(weight(from)?);
        }
        distances.cold = weight(from)?;
        for group in &mut distances.groups {
            if from.flag()? {
                *group = (0..=COLD).map(|_| weight(from)).collect::<Result<_, _>>()?;
            }
        }
        Ok(distances)
    }

    fn memory_bytes(&self) -> u64 {
        vec_bytes(&self.classes) + self.groups.iter().map(vec_bytes).sum::<u64>()
    }
}

fn misses_of_group(octaves: &[f64], blocks: u64) -> f64 {
    octaves.iter().skip(octave_of(blocks)).sum()
}

/// The number without its fraction: at most what classes reach to.
fn whole(distance: f64) -> u64 {
    let mut low = 0_u64;
    for bit in (0..u32::try_from(OCTAVES).expect("no number has 2^32 binary digits")).rev() {
        let tried = low | (1 << bit);
        if number(tried) <= distance {
            low = tried;
        }
    }
    low
}

fn octave_of(distance: u64) -> usize {
    let octave = u64::BITS - distance.leading_zeros();
    at(octave).min(OCTAVES - 1)
}

fn class_of(distance: u64) -> usize {
    if distance < EXACT {
        return at(u32::try_from(distance).expect("EXACT is below 2^32"));
    }
    let octave = distance.ilog2();
    let step = (distance >> (octave - STEPS_LOG2)) - STEPS;
    let class = EXACT + u64::from(octave - STEPS_LOG2 - 1) * STEPS + step;
    at(u32::try_from(class).expect("64 classes a doubling"))
}

/// Where a class begins, and how long it is.
fn bounds_of(class: usize) -> (u64, u64) {
    let class = u64::try_from(class).expect("an address has 64 bits at most");
    let Some(beyond) = class.checked_sub(EXACT) else { return (class, 1) };
    let shift = beyond / STEPS + 1;
    ((STEPS + beyond % STEPS) << shift, 1 << shift)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::advisor::access::Passage;
    use crate::refused::assert_refused;

    /// The blocks that a stack of `size` blocks with LRU misses.
    fn exact_misses(accesses: &[u32], size: usize) -> usize {
        let mut stack = VecDeque::new();
        let mut misses = 0;
        for block in accesses {
            match stack.iter().position(|held| held == block) {
                Some(place) => drop(stack.remove(place)),
                None => misses += 1,
            }
            stack.push_front(*block);
            stack.truncate(size);
        }
        misses
    }

    fn read(block: u32) -> Access {
        Access { block: BlockIndex(block), pages: 0..1, direction: Direction::Read, passage: Passage::Counted }
    }

    fn misses(distances: &ReuseDistances, blocks: u64) -> f64 {
        distances.curve(&[blocks]).at(blocks).expect("there is one").misses
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn all_blocks_watched_give_exactly_what_lru_misses(
            accesses in prop::collection::vec(prop_oneof![0_u32..20, 0_u32..120], 1..2000),
            size in 1_u32..110,
        ) {
            let mut distances = ReuseDistances::new(128, Rate::ALL);
            for block in &accesses {
                distances.access(&read(*block));
            }
            let exact = exact_misses(&accesses, at(size));
            let ours = misses(&distances, u64::from(size)) * f64::from(u32::try_from(accesses.len()).unwrap());
            prop_assert!((ours - f64::from(u32::try_from(exact).unwrap())).abs() < 1e-6, "{} is not {}", ours, exact);
            prop_assert_eq!(distances.rate(), Rate::ALL);
        }

        #[test]
        fn each_distance_lies_in_its_class_and_classes_follow_each_other(distance in 0_u64..1 << 36) {
            let (start, length) = bounds_of(class_of(distance));
            prop_assert!((start..start + length).contains(&distance));
            prop_assert_eq!(class_of(start + length), class_of(distance) + 1);
            prop_assert_eq!(whole(number(distance) + 0.25), distance);
        }
    }

    #[test]
    fn no_more_blocks_are_watched_than_agreed_and_their_number_tells_how_many_there_are() {
        let mut distances = ReuseDistances::new(1024, Rate::ALL);
        for block in (0..100_000).chain(0..100_000) {
            distances.access(&read(block));
        }
        assert!(distances.blocks.len() <= 1024 && distances.blocks.len() > 700);
        let footprint = distances.footprint_blocks();
        assert!((92_000..108_000).contains(&footprint), "{footprint}");
        assert!(distances.memory_bytes() < 64 << 10, "{}", distances.memory_bytes());
        assert!(misses(&distances, 110_000) < 0.56, "a loop fits");
        assert!(misses(&distances, 80_000) > 0.95, "it does not");
    }

    // proves: A3
    #[test]
    fn a_write_counts_as_the_last_access_to_its_block_and_not_as_a_read_that_hits() {
        let mut distances = ReuseDistances::new(128, Rate::ALL);
        for block in 0..50 {
            distances.access(&Access { direction: Direction::Write, ..read(7) });
            distances.access(&read(block));
            distances.access(&read(7));
        }
        assert!((misses(&distances, 10) - 0.49).abs() < 1e-9, "half of the reads hit, and that of 7 itself");
    }

    #[test]
    fn a_place_in_the_order_is_taken_and_left_once() {
        let mut order = TakenPlaces::new(1);
        assert_eq!((order.next(), order.next()), (1, 2));
        assert_refused("place 3 of the order is behind all that there are", || order.next());
        order.leave(1);
        assert_refused("place 1 is left, 0 are taken up to it", || order.leave(1));
    }
}
