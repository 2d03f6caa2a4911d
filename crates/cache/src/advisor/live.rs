//! What is known of one volume while it serves: the curves of LRU and of its pool's own policy, and its days, in a mebibyte at most,
//! what is on the way in the volume's tap (`tap.rs`) included.

use std::time::Duration;

use crate::address::low_half;
use crate::config::{BlockBytes, PolicyKind, PoolKind};
use crate::format::Corrupt;
use crate::format::codec::{Reader, Writer};

use super::access::{Access, Accesses};
use super::curve::Curve;
use super::days::BlockDays;
use super::miniature::Setup;
use super::reuse::ReuseDistances;
use super::sample::Rate;
use super::sizes::{Sizes, half_octaves};
use super::tallies::{Tallies, read_duration, write_duration};
use super::tap::{Taken, Wanted};

/// Blocks whose reuse distances are watched, at most.
const REUSE_BLOCKS: u32 = 6144;
/// Slots of a miniature.
const SLOTS: u32 = 512;
/// What miniatures may take, in bytes; reuse distances and the tap take less than the rest of a mebibyte.
const MINIATURES_MEMORY: u64 = 768 << 10;
/// The smallest cache that is tried, in blocks.
const BLOCKS_MIN: u64 = 2;

/// Of what is kept for the time after a restart: other versions are not read, and the curves begin anew.
pub(crate) const VERSION: u32 = 2;

/// The curves of a volume.
pub struct Live {
    setup: Setup,
    size_bytes: u64,
    /// Seconds since 1970: since when blocks are watched, and since when with this setup.
    began: u64,
    pool_began: u64,
    /// How long it was watched with this setup.
    pool_watched: Duration,
    sizes: Vec<u64>,
    reuse: ReuseDistances,
    miniatures: Sizes,
}

impl Live {
    /// Of a volume of `size_bytes`, of whose blocks `rate` is what is told at most.
    pub fn new(setup: Setup, size_bytes: u64, rate: Rate) -> Self {
        let sizes = sizes_of(setup, size_bytes);
        let miniatures = Sizes::new(setup, &sizes, SLOTS, rate, MINIATURES_MEMORY);
        let reuse = ReuseDistances::new(REUSE_BLOCKS, rate);
        Self { setup, size_bytes, began: 0, pool_began: 0, pool_watched: Duration::ZERO, reuse, sizes, miniatures }
    }

    pub fn setup(&self) -> Setup {
        self.setup
    }

    /// Takes note of an access, of a block that is watched or not.
    pub fn access(&mut self, access: &Access) {
        self.reuse.access(access);
        self.miniatures.access(access);
    }

    /// Takes note of what came through the tap of the volume in a time of this length. What is of blocks of another size tells
    /// nothing.
    pub fn take_in(&mut self, taken: &Taken, time: Duration) {
        let Some(rate) = taken.rate.filter(|_| taken.block_bytes == self.setup.block_bytes) else { return };
        self.pool_watched = self.pool_watched.saturating_add(time);
        self.reuse.lower_to(rate);
        self.miniatures.lower_to(rate);
        for kept in &taken.kept {
            let access = kept.access();
            self.reuse.note(&access);
            self.miniatures.note(&access);
        }
        self.reuse.counted(taken.accesses);
        self.miniatures.counted(taken.accesses);
    }

    /// Half of what was watched is, from now on.
    pub fn watch_less(&mut self) {
        if let Some(rate) = self.reuse.rate().max(self.miniatures.rate()).halved() {
            self.reuse.lower_to(rate);
            self.miniatures.lower_to(rate);
        }
    }

    /// What the tap is to keep.
    pub fn wanted(&self) -> Wanted {
        let rate = self.reuse.rate().max(self.miniatures.rate());
        Wanted { block_bytes: self.setup.block_bytes, rate: Some(rate) }
    }

    /// The same volume with another pool, or other settings of it, from now on. What is known of its blocks stays, if they have the
    /// same size.
    #[must_use]
    pub fn with_setup(self, setup: Setup, size_bytes: u64, now: u64) -> Self {
        let anew = Self::new(setup, size_bytes, Rate::ALL).begun_at(now);
        if setup.block_bytes != self.setup.block_bytes {
            return anew;
        }
        Self { reuse: self.reuse, began: self.began, ..anew }
    }

    /// The same volume and pool when the volume has grown to `size_bytes`: nothing that is known is lost.
    #[must_use]
    pub fn grown(mut self, size_bytes: u64) -> Self {
        assert!(size_bytes >= self.size_bytes, "a volume of {} bytes has grown to {size_bytes}", self.size_bytes);
        self.size_bytes = size_bytes;
        self.sizes = sizes_of(self.setup, size_bytes);
        self.miniatures.grown_to(&self.sizes);
        self
    }

    /// Since when it watches, in seconds since 1970.
    #[must_use]
    pub fn begun_at(mut self, now: u64) -> Self {
        (self.began, self.pool_began) = (now, now);
        self
    }

    pub fn began(&self) -> u64 {
        self.began
    }

    /// So many days have ended since the last time.
    pub fn days_ended(&mut self, count: u32) {
        self.reuse.days_ended(count);
    }

    pub fn days(&self) -> BlockDays {
        self.reuse.days()
    }

    /// The part of all blocks that is watched, for the curve of LRU.
    pub fn rate(&self) -> Rate {
        self.reuse.rate()
    }

    /// All sums until now.
    pub fn tallies(&self) -> Tallies {
        Tallies {
            began: self.began,
            pool_began: self.pool_began,
            pool_watched: self.pool_watched,
            accesses: self.reuse.accesses(),
            pool_accesses: self.miniatures.accesses(),
            lru: self.sizes.iter().map(|blocks| self.reuse.tally(*blocks)).collect(),
            pool: self.miniatures.tallies().collect(),
        }
    }

    // ---- what outlives a restart

    /// For [`Self::decode`].
    pub fn encode(&self, day: u64) -> Vec<u8> {
        let mut to = Writer::new();
        to.u32(VERSION).u64(day).u64(self.began).u64(self.pool_began);
        write_setup(&mut to, self.setup);
        to.u64(self.size_bytes);
        write_duration(&mut to, self.pool_watched);
        self.reuse.encode(&mut to);
        self.miniatures.encode(&mut to);
        to.into_bytes()
    }

    /// What was encoded, and on which day.
    ///
    /// # Errors
    /// The bytes are of another version, or make no sense.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u64), Corrupt> {
        let mut from = Reader::new(bytes, "what the advisor knows of a volume");
        let version = from.u32()?;
        from.require(version == VERSION, "it is of another version")?;
        let (day, began, pool_began) = (from.u64()?, from.u64()?, from.u64()?);
        let setup = read_setup(&mut from)?;
        let size_bytes = from.u64()?;
        from.require((1..=SIZE_MAX).contains(&size_bytes), "the size of the volume is wrong")?;
        let pool_watched = read_duration(&mut from)?;
        let sizes = sizes_of(setup, size_bytes);
        let reuse = ReuseDistances::decode(&mut from, REUSE_BLOCKS)?;
        let miniatures = Sizes::decode(&mut from, setup, &sizes, SLOTS, MINIATURES_MEMORY)?;
        from.end()?;
        Ok((Self { setup, size_bytes, sizes, reuse, miniatures, began, pool_began, pool_watched }, day))
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub fn accesses(&self) -> Accesses {
        self.reuse.accesses()
    }

    /// What was accessed at all, each block once, about.
    pub fn footprint_bytes(&self) -> u64 {
        self.reuse.footprint_blocks().saturating_mul(self.setup.block_bytes.get())
    }

    /// Reads that a cache with LRU that takes everything would miss, at these sizes in blocks.
    pub fn lru_at(&self, sizes: &[u64]) -> Curve {
        self.reuse.curve(sizes)
    }

    /// Reads that a pool with the setup would miss.
    pub fn curve(&self) -> Curve {
        self.miniatures.curve()
    }

    pub fn block_bytes(&self) -> BlockBytes {
        self.setup.block_bytes
    }

    /// The memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.reuse.memory_bytes() + self.miniatures.memory_bytes()
    }
}

/// No volume is larger.
const SIZE_MAX: u64 = 1 << 62;

/// The sizes that are tried for a volume.
fn sizes_of(setup: Setup, size_bytes: u64) -> Vec<u64> {
    half_octaves(BLOCKS_MIN, size_bytes.div_ceil(setup.block_bytes.get()))
}

fn write_setup(to: &mut Writer, setup: Setup) {
    let kind = match setup.kind {
        PoolKind::Read => 0,
        PoolKind::ReadWrite => 1,
    };
    let policy = match setup.policy {
        PolicyKind::S3Fifo => 0,
        PolicyKind::Lru => 1,
        PolicyKind::Fifo => 2,
        PolicyKind::TwoQ => 3,
        PolicyKind::Auto => 4,
    };
    let block_bytes = low_half(setup.block_bytes.get());
    to.u8(kind).u8(policy).u32(block_bytes).u8(setup.populate_on_read).u8(setup.populate_on_write);
}

fn read_setup(from: &mut Reader<'_>) -> Result<Setup, Corrupt> {
    let kind = match from.u8()? {
        0 => PoolKind::Read,
        1 => PoolKind::ReadWrite,
        _ => return Err(from.corrupt("the type of the pool is not one")),
    };
    let policy = match from.u8()? {
        0 => PolicyKind::S3Fifo,
        1 => PolicyKind::Lru,
        2 => PolicyKind::Fifo,
        3 => PolicyKind::TwoQ,
        4 => PolicyKind::Auto,
        _ => return Err(from.corrupt("the policy is not one")),
    };
    let block_bytes =
        BlockBytes::new(from.u32()?.into()).map_err(|_| from.corrupt("the size of a block is not one"))?;
    let (populate_on_read, populate_on_write) = (from.u8()?, from.u8()?);
    from.require((1..=4).contains(&populate_on_read) && populate_on_write <= 4, "a threshold is not one")?;
    Ok(Setup { kind, block_bytes, policy, populate_on_read, populate_on_write })
}

#[cfg(test)]
mod tests {
    use hotset_block::ByteRange;

    use super::*;
    use crate::address::pages_of;
    use crate::advisor::access::{Direction, Passage};
    use crate::advisor::tap::Tap;

    const SECOND: Duration = Duration::from_secs(1);

    fn setup(populate_on_read: u8) -> Setup {
        Setup {
            kind: PoolKind::Read,
            block_bytes: BlockBytes::new(64 << 10).unwrap(),
            policy: PolicyKind::S3Fifo,
            populate_on_read,
            populate_on_write: 0,
        }
    }

    /// Reads of blocks that are the more frequent the lower their number.
    fn skewed(count: u32) -> impl Iterator<Item = u64> {
        let mut state = 88_172_645_463_325_252_u64;
        (0..count).map(move |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (a, b) = (state % 4001, (state >> 20) % 4001);
            a * b / 4001
        })
    }

    fn read(tap: &Tap, block: u64) {
        tap.note(&pages_of(ByteRange::at(block << 16, 4096)), Direction::Read, Passage::Counted);
    }

    fn misses(live: &Live, blocks: u64) -> f64 {
        live.curve().at(blocks).unwrap().misses
    }

    // proves: A1
    #[test]
    fn what_came_through_a_tap_gives_the_same_curve_as_all_accesses_and_takes_a_mebibyte() {
        let size = 1 << 40;
        let (mut all, mut tapped) = (Live::new(setup(1), size, Rate::ALL), Live::new(setup(1), size, Rate::ALL));
        let tap = Tap::default();
        tap.take(tapped.wanted());
        for (number, block) in skewed(200_000).enumerate() {
            let block_index = crate::address::BlockIndex(low_half(block));
            let access =
                Access { block: block_index, pages: 0..1, direction: Direction::Read, passage: Passage::Counted };
            all.access(&access);
            read(&tap, block);
            if number % 1000 == 0 {
                tapped.take_in(&tap.take(tapped.wanted()), SECOND);
            }
            // For some time nobody takes: the ring is full, and less blocks are watched from then on.
            if number == 100_000 {
                (0..20_000).for_each(|block| read(&tap, block % 4000));
                tapped.take_in(&tap.take(tapped.wanted()), SECOND);
            }
        }
        assert!(tapped.rate() < Rate::ALL && all.rate() == Rate::ALL);
        assert!(tapped.memory_bytes() + tap.memory_bytes() <= 1 << 20, "{}", tapped.memory_bytes());
        for blocks in [500, 1000, 2000] {
            let (all, tapped) = (misses(&all, blocks), misses(&tapped, blocks));
            assert!((all - tapped).abs() < 0.08, "{blocks}: {all} and {tapped}");
        }
    }

    // proves: A1
    #[test]
    fn curves_survive_a_restart_and_go_on_from_there() {
        let mut live = Live::new(setup(2), 1 << 36, Rate::ALL).begun_at(77);
        let tap = Tap::default();
        tap.take(live.wanted());
        for block in skewed(4000) {
            read(&tap, block);
        }
        live.take_in(&tap.take(live.wanted()), SECOND);
        live.days_ended(1);
        let bytes = live.encode(9);
        let (mut again, day) = Live::decode(&bytes).unwrap();
        assert_eq!((day, again.tallies(), again.days()), (9, live.tallies(), live.days()));
        assert_eq!((again.began(), again.setup(), again.size_bytes()), (77, setup(2), 1 << 36));
        for block in skewed(4000) {
            read(&tap, block);
        }
        let taken = tap.take(live.wanted());
        live.take_in(&taken, SECOND);
        again.take_in(&taken, SECOND);
        let lru = |live: &Live| live.lru_at(&[1000]).at(1000).unwrap().misses;
        assert!((lru(&again) - lru(&live)).abs() < 1e-9, "reuse distances are kept exactly");
        assert!((misses(&again, 2000) - misses(&live, 2000)).abs() < 0.05, "the miniatures have what they had");
    }

    // proves: A1
    #[test]
    fn a_volume_that_grows_keeps_its_curves_and_is_told_of_larger_sizes_later() {
        let mut live = Live::new(setup(1), 300 << 16, Rate::ALL).begun_at(5);
        let tap = Tap::default();
        tap.take(live.wanted());
        for block in (0..300).chain(0..300) {
            read(&tap, block);
        }
        live.take_in(&tap.take(live.wanted()), SECOND);
        let before = live.tallies();
        let mut live = live.grown(1200 << 16);
        assert_eq!((live.size_bytes(), live.tallies().pool), (1200 << 16, before.pool));
        let (kept, _) = Live::decode(&live.encode(1)).expect("a size that was the largest is kept");
        assert_eq!(kept.tallies(), live.tallies());
        for block in (0..1200).chain(0..1200) {
            read(&tap, block);
        }
        live.take_in(&tap.take(live.wanted()), SECOND);
        let tallies = live.tallies();
        assert_eq!((tallies.pool_accesses.reads, tallies.pool_began), (3000, 5));
        assert_eq!(tallies.pool_watched, 2 * SECOND);
        assert_eq!(tallies.pool.last().map(|size| size.blocks), Some(1200));
        assert!((misses(&live, 1200) - 0.4).abs() < 0.02, "{}: each block is missed once", misses(&live, 1200));
    }

    #[test]
    fn what_is_cut_or_of_another_version_is_refused() {
        let mut live = Live::new(setup(2), 1 << 30, Rate::ALL);
        let tap = Tap::default();
        tap.take(live.wanted());
        skewed(3000).for_each(|block| read(&tap, block % 512));
        live.take_in(&tap.take(live.wanted()), SECOND);
        let bytes = live.encode(1);
        assert!(Live::decode(&bytes).is_ok());
        for length in (0..bytes.len()).step_by(97) {
            assert!(Live::decode(&bytes[..length]).is_err(), "cut after {length} bytes");
        }
        let mut newer = bytes.clone();
        newer[0] = 9;
        assert!(Live::decode(&newer).is_err());
        let mut longer = bytes;
        longer.push(0);
        assert!(Live::decode(&longer).is_err());
    }

    #[test]
    fn another_setup_keeps_what_is_known_of_blocks_of_the_same_size() {
        let mut live = Live::new(setup(2), 1 << 30, Rate::ALL).begun_at(5);
        let tap = Tap::default();
        tap.take(live.wanted());
        (0..300).for_each(|block| read(&tap, block));
        live.take_in(&tap.take(live.wanted()), SECOND);
        let other = live.with_setup(setup(1), 1 << 30, 60);
        assert_eq!((other.began(), other.accesses().reads, other.days().hot), (5, 300, 300));
        assert_eq!(other.tallies().pool_accesses, Accesses::default());
        let larger = Setup { block_bytes: BlockBytes::new(1 << 20).unwrap(), ..setup(1) };
        assert_eq!(other.with_setup(larger, 1 << 30, 61).accesses().reads, 0);
    }
}
