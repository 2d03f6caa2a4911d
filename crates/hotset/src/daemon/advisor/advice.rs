//! From sums to advice: pure.

use std::collections::BTreeMap;

use hotset_api::{Advice, AdvisedDay, AdvisedDays, AdvisedPool, AdvisedSize, ApiError, LiveWhatIf, LiveWhatIfPool};
use hotset_cache::VolumeStatus;
use hotset_cache::advisor::access::Accesses;
use hotset_cache::advisor::curve::{Curve, Point, blocks_in};
use hotset_cache::advisor::days::BlockDays;
use hotset_cache::advisor::miniature::Setup;
use hotset_cache::advisor::whatif;
use hotset_cache::config::{PolicyKind, PoolKind, VolumeName};

use super::reads::{ASSUMED_HIT_MICROSECONDS, ReadLatencies};
use super::sums::{AdviceAsked, Sums};
use crate::advice::{PAYS_MIN, beyond, check_case, knee, nothing_pays, per_day, writes_taken, years};
use crate::plane::Handle;
use crate::size::{grouped, human, percent};
use crate::words;

const DAY: u64 = 86_400;
/// Less reads that may populate are too few to recommend a size.
const READS_MIN: u64 = 1000;
/// Sizes begin at this part of what is accessed.
const SMALLEST_PART: u64 = 512;

/// How a volume is served now.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pool: Option<String>,
    present_bytes: Option<u64>,
    /// Other volumes that are open in its pool.
    shared_with: u32,
    reads: ReadLatencies,
}

/// A pool that is asked about: what is not said is as the volume's own, or as that of an uncached volume would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) size_bytes: u64,
    pub(crate) kind: Option<PoolKind>,
    pub(crate) block_bytes: Option<hotset_cache::config::BlockBytes>,
    pub(crate) policy: Option<PolicyKind>,
    pub(crate) populate_on_read: Option<u8>,
    pub(crate) populate_on_write: Option<u8>,
}

impl Facts {
    /// Of all volumes that are open.
    pub(super) async fn of_all(plane: &Handle) -> Result<BTreeMap<VolumeName, Self>, ApiError> {
        let (snapshot, latencies) = plane.look().await?;
        let latencies: BTreeMap<_, _> = latencies.into_iter().collect();
        let mut all = BTreeMap::new();
        for volume in &snapshot.volumes {
            let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == volume.pool.as_ref());
            let reads = latencies.get(&volume.name).map(|(reads, _)| reads.counts());
            let (hits, in_memory) = (volume.stats.hit_ratio(), volume.stats.memory_hit_ratio());
            let reads = reads.map(|reads| ReadLatencies::of(&reads, hits, in_memory)).unwrap_or_default();
            let present_bytes = pool.map(|pool| share_of(volume, pool.capacity_bytes));
            let others = snapshot.volumes.iter().filter(|other| other.pool == volume.pool && other.name != volume.name);
            let shared_with = volume.pool.as_ref().map_or(0, |_| u32::try_from(others.count()).unwrap_or(u32::MAX));
            let pool = volume.pool.as_ref().map(ToString::to_string);
            all.insert(volume.name.clone(), Self { pool, present_bytes, shared_with, reads });
        }
        // What hits take elsewhere here, for volumes that have none.
        let known = all.values().find_map(|facts: &Self| facts.reads.hit);
        all.values_mut().for_each(|facts| facts.reads.hit = facts.reads.hit.or(known));
        Ok(all)
    }
}

/// What a volume may have of its pool at most.
fn share_of(volume: &VolumeStatus, capacity_bytes: u64) -> u64 {
    volume.settings.cache_max.map_or(capacity_bytes, |share| share.of(capacity_bytes))
}

/// The curves of a volume, ready to be asked.
struct Curves<'a> {
    sums: &'a Sums,
    facts: &'a Facts,
    asked: AdviceAsked,
    pool: Curve,
    lru: Curve,
}

impl<'a> Curves<'a> {
    fn new(sums: &'a Sums, facts: &'a Facts, asked: AdviceAsked) -> Self {
        let (pool, lru) = (sums.tallies.pool_curve(), sums.tallies.lru_curve());
        Self { sums, facts, asked, pool, lru }
    }

    /// Of which the curve of the pool is made.
    fn pool_accesses(&self) -> Accesses {
        self.sums.tallies.pool_accesses
    }

    /// A pool of this size, as the volume's own is set.
    fn at(&self, size_bytes: u64) -> Option<AdvisedSize> {
        self.size(size_bytes, &self.pool)
    }

    /// One with LRU that takes everything.
    fn lru_at(&self, size_bytes: u64) -> Option<AdvisedSize> {
        let size = self.size(size_bytes, &self.lru)?;
        Some(AdvisedSize { write_hit_ratio: None, ssd_written_bytes_per_day: None, years: None, ..size })
    }

    /// `None`: nothing is known, or nothing was read.
    fn size(&self, size_bytes: u64, curve: &Curve) -> Option<AdvisedSize> {
        let tallies = &self.sums.tallies;
        let blocks = blocks_in(size_bytes, self.sums.setup.block_bytes);
        let Point { misses, error, .. } = curve.at(blocks)?;
        let hit_ratio = 1.0 - misses;
        let written = tallies.ssd_written_bytes(blocks);
        let written_per_day = written.and_then(|bytes| per_day(bytes, tallies.pool_watched.as_secs_f64()));
        Some(AdvisedSize {
            size_bytes,
            hit_ratio,
            error,
            write_hit_ratio: self.writes_taken(blocks),
            lru_hit_ratio: self.lru.at(blocks).map_or(0.0, |point| 1.0 - point.misses),
            ssd_written_bytes_per_day: written_per_day,
            read_microseconds: self.facts.reads.mean(hit_ratio),
            years: years(self.asked.endurance_bytes, written_per_day),
        })
    }

    /// The part of the writes that SSDs take; `None`: there were none, or such a pool takes none.
    fn writes_taken(&self, blocks: u64) -> Option<f64> {
        match self.sums.setup.kind {
            PoolKind::Read => None,
            PoolKind::ReadWrite => self.sums.tallies.pool_writes_taken(blocks),
        }
    }

    fn sizes(&self) -> Vec<AdvisedSize> {
        let block_bytes = self.sums.setup.block_bytes.get();
        let bytes = self.pool.points().iter().map(|point| point.blocks.saturating_mul(block_bytes));
        let worth_telling = bytes.filter(|bytes| *bytes >= self.sums.footprint_bytes / SMALLEST_PART);
        worth_telling.filter_map(|bytes| self.at(bytes)).collect()
    }

    fn recommended(&self) -> Option<AdvisedSize> {
        let accesses = self.pool_accesses();
        let size = knee(&self.pool, accesses).filter(|_| accesses.counted_reads() >= READS_MIN)?;
        self.at(size.blocks.saturating_mul(self.sums.setup.block_bytes.get()))
    }
}

pub(super) fn advice(name: &VolumeName, sums: &Sums, facts: &Facts, asked: AdviceAsked) -> Advice {
    let curves = Curves::new(sums, facts, asked);
    let (curve, recommended) = (curves.sizes(), curves.recommended());
    let present = facts.present_bytes.and_then(|bytes| curves.at(bytes));
    let sentence = sentence(&curves, recommended.as_ref(), present.as_ref(), &curve);
    Advice {
        volume: name.to_string(),
        pool: facts.pool.clone(),
        size_bytes: sums.size_bytes,
        window: sums.window,
        from_unix_seconds: sums.from,
        to_unix_seconds: sums.to,
        reads: sums.tallies.accesses.reads,
        stream_reads: sums.tallies.accesses.stream_reads,
        writes: sums.tallies.accesses.writes,
        sample: sums.sample,
        footprint_bytes: sums.footprint_bytes.min(sums.size_bytes),
        setup: advised_pool(sums.setup),
        curve,
        present,
        shared_with: facts.shared_with,
        recommended,
        sentence,
        days: days(sums),
    }
}

/// What pools of other sizes would have done: as far as what is watched tells.
///
/// # Errors
/// One of them is a pool that there cannot be.
pub(super) fn whatif(
    name: &VolumeName,
    sums: &Sums,
    facts: &Facts,
    asked: AdviceAsked,
    cases: &[Case],
) -> Result<LiveWhatIf, ApiError> {
    for case in cases {
        check_case(&whatif::Case { setup: setup(case, sums.setup), size_bytes: case.size_bytes })?;
    }
    let curves = Curves::new(sums, facts, asked);
    let mut untried: Vec<(Setup, Vec<u64>)> = Vec::new();
    let pool = |case: &Case| {
        let setup = setup(case, sums.setup);
        let answer = answer(&curves, setup, case.size_bytes);
        let unanswered = match answer {
            Some(_) => String::new(),
            None if setup == sums.setup => nothing_known(name, sums),
            None => {
                note_untried(&mut untried, setup, case.size_bytes);
                only_other_sizes(name, sums.setup)
            }
        };
        LiveWhatIfPool { setup: advised_pool(setup), size_bytes: case.size_bytes, answer, unanswered }
    };
    Ok(LiveWhatIf {
        volume: name.to_string(),
        window: sums.window,
        from_unix_seconds: sums.from,
        to_unix_seconds: sums.to,
        pools: cases.iter().map(pool).collect(),
        trials: untried.iter().map(|(setup, sizes)| trial(name, *setup, sizes)).collect(),
    })
}

/// What is asked for; where nothing is, as `own`.
fn setup(case: &Case, own: Setup) -> Setup {
    let kind = case.kind.unwrap_or(own.kind);
    let on_write = if kind == own.kind { own.populate_on_write } else { u8::from(kind == PoolKind::ReadWrite) };
    Setup {
        kind,
        block_bytes: case.block_bytes.unwrap_or(own.block_bytes),
        policy: case.policy.unwrap_or(own.policy),
        populate_on_read: case.populate_on_read.unwrap_or(own.populate_on_read),
        populate_on_write: case.populate_on_write.unwrap_or(on_write),
    }
}

fn answer(curves: &Curves<'_>, setup: Setup, size_bytes: u64) -> Option<AdvisedSize> {
    let own = curves.sums.setup;
    let takes_everything =
        setup.kind == PoolKind::ReadWrite && setup.populate_on_read == 1 && setup.populate_on_write == 1;
    let is_lru = takes_everything
        && setup.policy == PolicyKind::Lru
        && own.kind == setup.kind
        && setup.block_bytes == own.block_bytes;
    match () {
        () if setup == own => curves.at(size_bytes),
        () if is_lru => curves.lru_at(size_bytes),
        () => None,
    }
}

fn nothing_known(name: &VolumeName, sums: &Sums) -> String {
    match sums.tallies.pool_accesses.all() {
        0 => format!("nothing was accessed on volume {name} while it was watched"),
        _ => format!(
            "nothing was read from volume {name} while it was watched, and sizes differ in what they hit of the reads"
        ),
    }
}

fn note_untried(untried: &mut Vec<(Setup, Vec<u64>)>, setup: Setup, size_bytes: u64) {
    match untried.iter_mut().find(|(other, _)| *other == setup) {
        Some((_, sizes)) => sizes.push(size_bytes),
        None => untried.push((setup, vec![size_bytes])),
    }
}

fn only_other_sizes(name: &VolumeName, own: Setup) -> String {
    format!(
        "volume {name} is watched as a {} pool, {}, blocks of {}, populate-on-read {}, populate-on-write {}: only other sizes of that are \
         known",
        own.kind.word(),
        own.policy.word(),
        human(own.block_bytes.get()),
        own.populate_on_read,
        own.populate_on_write,
    )
}

/// The command that tries pools of these sizes.
fn trial(name: &VolumeName, setup: Setup, sizes_bytes: &[u64]) -> String {
    let sizes: Vec<String> = sizes_bytes.iter().map(|bytes| argument(*bytes)).collect();
    format!(
        "hotset whatif {name} --seconds 3600 --type {} --size {} --block-size {} --policy {} --populate-on-read {} --populate-on-write {}",
        setup.kind.word(),
        sizes.join(","),
        argument(setup.block_bytes.get()),
        setup.policy.word(),
        setup.populate_on_read,
        setup.populate_on_write,
    )
}

/// A size as the command line takes it, without a space.
fn argument(bytes: u64) -> String {
    let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
    let whole = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

fn advised_pool(setup: Setup) -> AdvisedPool {
    AdvisedPool {
        r#type: words::pool_kind(setup.kind),
        block_bytes: setup.block_bytes.get(),
        policy: words::policy(setup.policy),
        populate_on_read: setup.populate_on_read,
        populate_on_write: setup.populate_on_write,
    }
}

fn days(sums: &Sums) -> AdvisedDays {
    let block_bytes = sums.setup.block_bytes.get();
    // Estimates may say a little more than there is.
    let bytes = |blocks: u64| blocks.saturating_mul(block_bytes).min(sums.size_bytes);
    let BlockDays { days, hot, warm, cold } = sums.days;
    let today = sums.to / DAY;
    let day = |(before, day): (u64, &hotset_cache::advisor::days::DayOfBlocks)| AdvisedDay {
        begins_unix_seconds: today.saturating_sub(before) * DAY,
        read_bytes: bytes(day.read),
        written_bytes: bytes(day.written),
        read_again_bytes: bytes(day.read_again),
    };
    let (hot_bytes, warm_bytes, cold_bytes) = (bytes(hot), bytes(warm), bytes(cold));
    let accessed = hot_bytes.saturating_add(warm_bytes).saturating_add(cold_bytes);
    AdvisedDays {
        days: (0..).zip(&days).map(day).collect(),
        hot_bytes,
        warm_bytes,
        cold_bytes,
        archived_bytes: sums.size_bytes.saturating_sub(accessed),
    }
}

/// Of all volumes together.
pub(super) fn days_of_all<'a>(volumes: impl Iterator<Item = &'a AdvisedDays>) -> AdvisedDays {
    let mut all = AdvisedDays::default();
    for volume in volumes {
        all.hot_bytes = all.hot_bytes.saturating_add(volume.hot_bytes);
        all.warm_bytes = all.warm_bytes.saturating_add(volume.warm_bytes);
        all.cold_bytes = all.cold_bytes.saturating_add(volume.cold_bytes);
        all.archived_bytes = all.archived_bytes.saturating_add(volume.archived_bytes);
        if all.days.is_empty() {
            all.days.clone_from(&volume.days);
            continue;
        }
        for (sum, day) in all.days.iter_mut().zip(&volume.days) {
            sum.read_bytes = sum.read_bytes.saturating_add(day.read_bytes);
            sum.written_bytes = sum.written_bytes.saturating_add(day.written_bytes);
            sum.read_again_bytes = sum.read_again_bytes.saturating_add(day.read_again_bytes);
        }
    }
    all
}

fn sentence(
    curves: &Curves<'_>,
    recommended: Option<&AdvisedSize>,
    present: Option<&AdvisedSize>,
    curve: &[AdvisedSize],
) -> String {
    let largest = curve.last().map(|best| (best.size_bytes, best.hit_ratio));
    let Some(size) = recommended else {
        return nothing_recommended(curves.pool_accesses(), largest) + &for_writes(curves, None);
    };
    let mut text = format!(
        "Recommended: {}, which hits {} of the reads (+- {})",
        human(size.size_bytes),
        percent(size.hit_ratio),
        percent(size.error)
    );
    text.push_str(&time_of_reads(curves.facts, size, present));
    text.push('.');
    text.push_str(&present.map(|present| now(present, curves.facts.shared_with)).unwrap_or_default());
    if let Some(half) = curves.at(size.size_bytes / 2).filter(|half| half.hit_ratio + PAYS_MIN < size.hit_ratio) {
        text.push_str(&format!(" Half of the recommended size hits {}.", percent(half.hit_ratio)));
    }
    text.push_str(&beyond((size.size_bytes, size.hit_ratio), largest, size.ssd_written_bytes_per_day, size.years));
    text + &for_writes(curves, Some(size))
}

/// What a read takes then and now, as far as it is known.
fn time_of_reads(facts: &Facts, size: &AdvisedSize, present: Option<&AdvisedSize>) -> String {
    let now = present.map_or_else(|| facts.reads.mean(0.0), |present| present.read_microseconds);
    let (Some(then), Some(now)) = (size.read_microseconds, now) else { return String::new() };
    let [then, now] = [then, now].map(time);
    let assumed = match facts.reads.hit {
        Some(_) => String::new(),
        None => format!(", an SSD hit being taken for {}", time(ASSUMED_HIT_MICROSECONDS)),
    };
    match then == now {
        true => format!(", so that a read takes {then} on average, as now{assumed}"),
        false => format!(", so that a read takes {then} on average instead of {now}{assumed}"),
    }
}

/// The cache that it has: all of its pool, where other volumes take their part.
fn now(present: &AdvisedSize, shared_with: u32) -> String {
    let (size, hits) = (human(present.size_bytes), percent(present.hit_ratio));
    match shared_with {
        0 => format!(" The cache has {size} now, which hits {hits}."),
        1 => format!(" The cache has {size} now, shared with 1 other volume; all of it would hit {hits}."),
        others => format!(" The cache has {size} now, shared with {others} other volumes; all of it would hit {hits}."),
    }
}

/// What a size does for writes, by default the smallest one, and the largest; nothing, where they take none.
fn for_writes(curves: &Curves<'_>, size: Option<&AdvisedSize>) -> String {
    let Sums { setup, tallies, .. } = curves.sums;
    let taken = |blocks: u64| Some((blocks.saturating_mul(setup.block_bytes.get()), curves.writes_taken(blocks)?));
    let own = size.map(|size| blocks_in(size.size_bytes, setup.block_bytes));
    let own = own.or_else(|| tallies.pool.first().map(|smallest| smallest.blocks));
    let largest = tallies.pool.last().map(|largest| largest.blocks);
    match own.and_then(taken).zip(largest.and_then(taken)) {
        Some((own, largest)) => writes_taken(own, largest),
        None => String::new(),
    }
}

fn nothing_recommended(accesses: Accesses, largest: Option<(u64, f64)>) -> String {
    match accesses.counted_reads() {
        0 if accesses.all() == 0 => "Nothing was accessed in this time.".to_owned(),
        few if (1..READS_MIN).contains(&few) => {
            format!("Only {} reads are known: {READS_MIN} are needed to recommend a size.", grouped(few))
        }
        _ => nothing_pays(accesses, largest),
    }
}

fn time(microseconds: f64) -> String {
    if microseconds < 1000.0 { format!("{microseconds:.0} us") } else { format!("{:.1} ms", microseconds / 1000.0) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hotset_api::AdviceWindow;
    use hotset_cache::advisor::access::Accesses;
    use hotset_cache::advisor::days::DayOfBlocks;
    use hotset_cache::advisor::figures::number;
    use hotset_cache::advisor::sample::Rate;
    use hotset_cache::advisor::tallies::{SizeTally, Tallies};
    use hotset_cache::config::BlockBytes;

    use super::*;

    const ASKED: AdviceAsked = AdviceAsked { window: AdviceWindow::Week, endurance_bytes: Some(600_000_000_000_000) };

    fn size(blocks: u64, reads_missed: f64) -> SizeTally {
        let reads_missed_by_group = [reads_missed / 8.0; 8];
        let rate = Rate::of(1, 2);
        SizeTally { blocks, rate, reads_missed, reads_missed_by_group, writes_missed: 0.0, ssd_written_bytes: 1e9 }
    }

    fn sums(reads: u64) -> Sums {
        let setup = Setup {
            kind: PoolKind::Read,
            block_bytes: BlockBytes::new(1 << 20).unwrap(),
            policy: PolicyKind::S3Fifo,
            populate_on_read: 2,
            populate_on_write: 0,
        };
        let accesses = Accesses { reads, ..Accesses::default() };
        let part = number(reads) / 10_000.0;
        let pool: Vec<_> = [(100, 9000.0), (200, 6000.0), (400, 2000.0), (800, 1900.0)]
            .map(|(blocks, missed)| size(blocks, missed * part))
            .into();
        let days =
            BlockDays { days: [DayOfBlocks { read: 10, written: 2, read_again: 5 }; 7], hot: 10, warm: 20, cold: 30 };
        Sums {
            window: AdviceWindow::Week,
            from: 1_800_000_000,
            to: 1_800_000_000 + DAY,
            setup,
            size_bytes: 1 << 30,
            sample: 0.5,
            footprint_bytes: 900 << 20,
            tallies: Tallies {
                began: 0,
                pool_began: 0,
                pool_watched: Duration::from_secs(DAY),
                accesses,
                pool_accesses: accesses,
                lru: pool.clone(),
                pool,
            },
            days,
        }
    }

    fn facts() -> Facts {
        let reads = ReadLatencies { hit: Some(100.0), miss: Some(8000.0), ..ReadLatencies::default() };
        Facts { pool: Some("p".to_owned()), present_bytes: Some(200 << 20), shared_with: 0, reads }
    }

    fn name() -> VolumeName {
        "v".parse().unwrap()
    }

    /// A pool of this size, and otherwise as the volume's.
    fn sized(size_mib: u64) -> Case {
        Case {
            size_bytes: size_mib << 20,
            kind: None,
            block_bytes: None,
            policy: None,
            populate_on_read: None,
            populate_on_write: None,
        }
    }

    // proves: A3
    #[test]
    fn a_size_is_recommended_with_what_it_buys_and_the_present_one_beside_it() {
        let advice = advice(&name(), &sums(10_000), &facts(), ASKED);
        assert_eq!(advice.recommended.map(|size| size.size_bytes), Some(400 << 20));
        assert_eq!(advice.present.map(|size| size.hit_ratio), Some(0.4));
        for part in [
            "Recommended: 400 MiB, which hits 80.0 % of the reads (+- 0.0 %), so that a read takes 1.7 ms on average instead of 4.8 ms.",
            "The cache has 200 MiB now, which hits 40.0 %.",
            "Half of the recommended size hits 40.0 %.",
            "800 MiB would bring 1.0 % more.",
            "a day to the SSDs, which last",
        ] {
            assert!(advice.sentence.contains(part), "{part}: {}", advice.sentence);
        }
        assert_eq!(advice.curve.len(), 4);
        let as_now = super::advice(&name(), &sums(10_000), &Facts { present_bytes: Some(400 << 20), ..facts() }, ASKED);
        assert!(as_now.sentence.contains("a read takes 1.7 ms on average, as now."), "{}", as_now.sentence);
    }

    // proves: A3
    #[test]
    fn a_cache_that_others_share_and_a_hit_that_nobody_has_seen_are_told_as_such() {
        let reads = ReadLatencies { miss: Some(8000.0), ..ReadLatencies::default() };
        let told = |shared_with| {
            let facts = Facts { shared_with, reads, ..facts() };
            advice(&name(), &sums(10_000), &facts, ASKED).sentence
        };
        assert!(
            told(1).contains("200 MiB now, shared with 1 other volume; all of it would hit 40.0 %."),
            "{}",
            told(1)
        );
        assert!(told(4).contains("shared with 4 other volumes"), "{}", told(4));
        assert!(
            told(0).contains("takes 1.7 ms on average instead of 4.8 ms, an SSD hit being taken for 100 us."),
            "{}",
            told(0)
        );
    }

    // proves: A3
    #[test]
    fn writes_and_streams_hide_no_reads_and_are_told_by_themselves() {
        let mut both = sums(10_000);
        both.setup.kind = PoolKind::ReadWrite;
        both.tallies.pool.iter_mut().for_each(|size| size.writes_missed = 9000.0);
        let written = Accesses { reads: 10_000, stream_reads: 0, writes: 90_000 };
        (both.tallies.accesses, both.tallies.pool_accesses) = (written, written);
        let told = advice(&name(), &both, &facts(), ASKED);
        let best = told.recommended.expect("a size is recommended");
        assert_eq!((best.size_bytes, best.hit_ratio, best.write_hit_ratio), (400 << 20, 0.8, Some(0.9)));
        assert!(told.sentence.contains("The SSDs take 90.0 % of the writes, whatever their size"), "{}", told.sentence);
        both.setup.kind = PoolKind::Read;
        assert_eq!(advice(&name(), &both, &facts(), ASKED).recommended.and_then(|size| size.write_hit_ratio), None);
        both.setup.kind = PoolKind::ReadWrite;
        both.tallies.pool_accesses.reads = 0;
        let told = advice(&name(), &both, &facts(), ASKED).sentence;
        assert!(told.starts_with("Nothing was read") && told.contains("take 90.0 % of the writes"), "{told}");
        let mut streams = sums(100_000);
        streams.tallies.pool = vec![size(100, 99_000.0), size(200, 98_400.0)];
        let of = |stream_reads, sums: &mut Sums| {
            sums.tallies.pool_accesses.stream_reads = stream_reads;
            advice(&name(), sums, &facts(), ASKED)
        };
        assert_eq!(of(0, &mut streams).recommended, None);
        assert_eq!(of(90_000, &mut streams).recommended.map(|size| size.size_bytes), Some(200 << 20));
        let few = of(99_001, &mut streams).sentence;
        assert!(few.contains("Only 999 reads are known"), "{few}");
    }

    // proves: A3
    #[test]
    fn what_is_written_in_a_day_is_of_the_time_that_was_watched() {
        let written = |watched| {
            let mut sums = sums(10_000);
            sums.tallies.pool_watched = watched;
            let told = advice(&name(), &sums, &facts(), ASKED);
            told.recommended.and_then(|size| size.ssd_written_bytes_per_day)
        };
        let of_half_a_day = written(Duration::from_secs(DAY / 2)).expect("it is long enough");
        assert!((of_half_a_day - 2e9).abs() < 1.0, "{of_half_a_day}");
        assert_eq!(written(Duration::from_secs(9)), None);
    }

    // proves: A3
    #[test]
    fn what_is_too_little_or_never_hits_is_said() {
        let few = advice(&name(), &sums(500), &facts(), ASKED);
        assert!(few.recommended.is_none() && few.sentence.contains("Only 500 reads"), "{}", few.sentence);
        let mut hardly = sums(10_000);
        hardly.tallies.pool = vec![size(100, 9999.0), size(200, 9890.0)];
        let hardly = advice(&name(), &hardly, &facts(), ASKED);
        assert!(hardly.sentence.starts_with("No size pays: the largest that was tried, 200 MiB, would hit 1.1 %."));
        assert!(hardly.recommended.is_none() && hardly.curve.len() == 2);
        let mut never = sums(10_000);
        never.tallies.pool = vec![size(100, 10_000.0), size(200, 10_000.0)];
        let never = advice(&name(), &never, &facts(), ASKED);
        assert!(never.sentence.contains("No cache of any size"), "{}", never.sentence);
    }

    // proves: A3, A4
    #[test]
    fn of_writes_alone_a_read_pool_tells_nothing() {
        let mut written = sums(0);
        let accesses = Accesses { writes: 10_000, ..Accesses::default() };
        (written.tallies.accesses, written.tallies.pool_accesses) = (accesses, accesses);
        let told = advice(&name(), &written, &facts(), ASKED);
        assert_eq!((told.curve.len(), told.present, told.recommended), (0, None, None));
        assert!(told.sentence.starts_with("Nothing was read in this time"), "{}", told.sentence);
        let case = sized(200);
        let told = whatif(&name(), &written, &facts(), ASKED, &[case]).unwrap();
        assert_eq!(told.pools[0].answer, None);
        assert!(told.pools[0].unanswered.starts_with("nothing was read"), "{}", told.pools[0].unanswered);
        let mut few = sums(999);
        few.tallies.pool_accesses.writes = 10_000;
        assert_eq!(advice(&name(), &few, &facts(), ASKED).recommended, None, "writes are not answered");
    }

    // proves: A4
    #[test]
    fn other_sizes_are_answered_and_what_is_not_watched_says_how_to_ask() {
        let case = |size_mib: u64, policy| Case { policy, ..sized(size_mib) };
        let cases = [case(200, None), case(400, Some(PolicyKind::Lru)), case(1536, Some(PolicyKind::Lru))];
        let told = whatif(&name(), &sums(10_000), &facts(), ASKED, &cases).unwrap();
        assert_eq!(told.pools[0].answer.map(|size| size.hit_ratio), Some(0.4));
        assert!(told.pools[0].unanswered.is_empty());
        assert_eq!(told.pools[1].answer, None);
        assert!(told.pools[1].unanswered.ends_with("only other sizes of that are known"));
        let [trial] = told.trials.as_slice() else { panic!("{:?}", told.trials) };
        for part in ["hotset whatif v --seconds 3600 ", " --size 400M,1536M ", " --policy lru "] {
            assert!(trial.contains(part), "{part}: {trial}");
        }
        let mut nothing = sums(0);
        nothing.tallies.pool.clear();
        let cases = [case(200, None), case(400, Some(PolicyKind::Fifo))];
        let nothing = whatif(&name(), &nothing, &facts(), ASKED, &cases).unwrap();
        assert_eq!(nothing.pools[0].unanswered, "nothing was accessed on volume v while it was watched");
        assert_eq!(nothing.trials.len(), 1, "{:?}", nothing.trials);
    }

    // proves: A4
    #[test]
    fn a_pool_that_there_cannot_be_is_refused() {
        let case = sized(200);
        let refused = |case: Case| whatif(&name(), &sums(10_000), &facts(), ASKED, &[case]).unwrap_err().message;
        assert!(refused(Case { size_bytes: 1 << 19, ..case }).contains("size 512 KiB: it holds no block of 1 MiB"));
        assert!(refused(Case { populate_on_read: Some(0), ..case }).contains("populate-on-read 0: it is 1 to 4"));
        let never = Case { kind: Some(PoolKind::ReadWrite), populate_on_write: Some(0), ..case };
        assert!(refused(never).contains("populate-on-write 0: it is 1 to 4 in a read-write pool"));
        assert!(
            whatif(&name(), &sums(10_000), &facts(), ASKED, &[Case { populate_on_write: Some(0), ..case }]).is_ok()
        );
    }

    // proves: A2
    #[test]
    fn days_are_bytes_of_each_volume_and_of_all_together() {
        let days = days(&sums(10_000));
        assert_eq!((days.hot_bytes, days.warm_bytes, days.cold_bytes), (10 << 20, 20 << 20, 30 << 20));
        assert_eq!(days.archived_bytes, (1 << 30) - (60 << 20));
        assert_eq!((days.days.len(), days.days[0].read_bytes, days.days[6].read_again_bytes), (7, 10 << 20, 5 << 20));
        assert_eq!(days.days[0].begins_unix_seconds - days.days[6].begins_unix_seconds, 6 * DAY);
        let all = days_of_all([&days, &days].into_iter());
        assert_eq!((all.hot_bytes, all.days[3].written_bytes), (20 << 20, 4 << 20));
    }
}
