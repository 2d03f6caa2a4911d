//! What is known of each volume, and when it is to be kept.

use std::collections::BTreeMap;
use std::time::Duration;

use hotset_api::AdviceWindow;
use hotset_cache::advisor::live::Live;
use hotset_cache::advisor::sample::Rate;
use hotset_cache::advisor::tap::{KEPT_MAX, Wanted};
use hotset_cache::config::VolumeName;

use super::sums::Sums;
use crate::plane::{TakenOfVolume, uncached_setup};

const DAY: u64 = 86_400;
const HOUR: u64 = 3600;
/// Between two times that what is known of a volume is kept.
const KEPT_EVERY: u64 = 300;
/// Accesses of all volumes together that are gone through in a second, as long as they come: 2 % of a processor, at a microsecond for each.
const ACCESSES_PER_SECOND_MAX: usize = 1 << 14;
/// And how many at once, after a time with few.
const BURST_MAX: usize = 1 << 16;
/// Names that volumes have lost that are known apart.
const LOST_MAX: usize = 1024;

/// What is known of all volumes.
pub(super) struct Watches {
    volumes: BTreeMap<VolumeName, WatchedVolume>,
    /// Accesses that may be gone through before less is watched.
    allowance: usize,
    /// Rises with each name that a volume loses.
    generation: u64,
    /// The generation from which on such a name is another volume's, if anybody's: what was taken before is not taken in under it.
    lost: BTreeMap<VolumeName, u64>,
    /// The same for all other names: names that were lost before that are not known any more.
    lost_before: u64,
}

impl Default for Watches {
    fn default() -> Self {
        Self { volumes: BTreeMap::new(), allowance: BURST_MAX, generation: 0, lost: BTreeMap::new(), lost_before: 0 }
    }
}

/// What is known of one volume.
struct WatchedVolume {
    /// `None`: it was not asked yet what is kept of it.
    live: Option<Live>,
    /// Days since 1970.
    day: u64,
    /// When it was kept last, and in which hour its sums were; seconds and hours since 1970.
    kept: u64,
    sums_hour: u64,
    /// Something was accessed since.
    changed: bool,
    /// What was kept of it before, to be gone on with.
    before: Option<Vec<u8>>,
}

/// What is to be kept now.
#[derive(Default)]
pub(super) struct Due {
    pub(super) states: Vec<(VolumeName, Vec<u8>)>,
    pub(super) sums: Vec<(VolumeName, Vec<u8>)>,
    /// Some ring was a quarter full.
    pub(super) is_busy: bool,
    /// When it was taken: see [`Watches::has_its_name`].
    pub(super) generation: u64,
}

impl Watches {
    /// What each tap is to keep.
    pub(super) fn wanted(&self) -> BTreeMap<VolumeName, Wanted> {
        let live = self.volumes.iter().filter_map(|(name, watch)| Some((name, watch.live.as_ref()?)));
        live.map(|(name, live)| (name.clone(), live.wanted())).collect()
    }

    /// Volumes that were not seen before: they are asked about, and [`Self::restore`]d.
    pub(super) fn fresh(&self, taken: &[TakenOfVolume]) -> Vec<VolumeName> {
        let names = taken.iter().map(|volume| &volume.name);
        names.filter(|name| !self.volumes.contains_key(*name)).cloned().collect()
    }

    /// To be asked for before anything is taken.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// What is kept of a volume, if anything is; of one that was taken in this generation.
    pub(super) fn restore(&mut self, name: &VolumeName, before: Option<Vec<u8>>, generation: u64) {
        if !self.has_its_name(name, generation) {
            return;
        }
        let watch = WatchedVolume { live: None, day: 0, kept: 0, sums_hour: 0, changed: false, before };
        self.volumes.entry(name.clone()).or_insert(watch);
    }

    /// Takes note of what came through the taps in this time, and was taken in this generation.
    pub(super) fn take_in(&mut self, taken: Vec<TakenOfVolume>, interval: Duration, now: u64, generation: u64) -> Due {
        let mut due = Due { is_busy: taken.iter().any(is_busy), generation, ..Due::default() };
        let all: usize = taken.iter().map(|volume| volume.taken.kept.len()).sum();
        let milliseconds = usize::try_from(interval.as_millis()).unwrap_or(usize::MAX);
        let earned = self.allowance.saturating_add(ACCESSES_PER_SECOND_MAX.saturating_mul(milliseconds) / 1000);
        let left = earned.min(BURST_MAX).checked_sub(all);
        self.allowance = left.unwrap_or(BURST_MAX);
        let fair = all / taken.len().max(1);
        for volume in taken {
            if !self.has_its_name(&volume.name, generation) {
                continue;
            }
            let Some(watch) = self.volumes.get_mut(&volume.name) else { continue };
            let live = watch.live_for(&volume, now);
            live.take_in(&volume.taken, interval);
            if left.is_none() && volume.taken.kept.len() >= fair {
                live.watch_less();
            }
            watch.changed |= volume.taken.accesses.all() > 0;
            watch.note_time(now);
            watch.due(&volume.name, now, &mut due);
        }
        due
    }

    /// All that is known, to be kept.
    pub(super) fn everything(&mut self) -> Due {
        let mut due = Due { generation: self.generation, ..Due::default() };
        for (name, watch) in &mut self.volumes {
            if let Some(live) = &watch.live {
                due.states.push((name.clone(), live.encode(watch.day)));
                watch.changed = false;
            }
        }
        due
    }

    /// Whether what was taken of a volume of this name in this generation is of the volume that has it now, if any has.
    pub(super) fn has_its_name(&self, name: &VolumeName, generation: u64) -> bool {
        generation >= self.lost.get(name).copied().unwrap_or(self.lost_before)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let (Ok(from), Ok(to)) = (from.parse::<VolumeName>(), to.parse()) else { return };
        self.lose_name(&from);
        if let Some(watch) = self.volumes.remove(&from) {
            self.volumes.insert(to, watch);
        }
    }

    pub(super) fn forget(&mut self, volume: &str) {
        if let Ok(name) = volume.parse::<VolumeName>() {
            self.lose_name(&name);
            self.volumes.remove(&name);
        }
    }

    fn lose_name(&mut self, name: &VolumeName) {
        self.generation += 1;
        if self.lost.len() >= LOST_MAX {
            self.lost.clear();
            self.lost_before = self.generation;
        }
        self.lost.insert(name.clone(), self.generation);
    }

    pub(super) fn names(&self) -> Vec<VolumeName> {
        self.volumes.keys().cloned().collect()
    }

    /// All that is known of a volume until now.
    pub(super) fn sums(&self, name: &VolumeName, window: AdviceWindow, now: u64) -> Option<Sums> {
        let live = self.volumes.get(name)?.live.as_ref()?;
        Some(Sums {
            window,
            from: live.began(),
            to: now,
            setup: live.setup(),
            size_bytes: live.size_bytes(),
            sample: live.rate().part(),
            footprint_bytes: live.footprint_bytes(),
            tallies: live.tallies(),
            days: live.days(),
        })
    }
}

fn is_busy(volume: &TakenOfVolume) -> bool {
    volume.taken.kept.len() >= KEPT_MAX / 4
}

impl WatchedVolume {
    /// What is known of it, for the pool that it has now.
    fn live_for(&mut self, volume: &TakenOfVolume, now: u64) -> &mut Live {
        if self.before.is_some() {
            // Whatever is found there, it may be better than what is known in the first moments.
            self.kept = now;
        }
        let known = self.live.take().or_else(|| self.restored(&volume.name));
        let is_quiet = volume.taken.accesses.all() == 0;
        // One without a pool is watched as with the pool that it had: that may open later than the volume, or be given back to it.
        let setup = volume.setup.or(known.as_ref().map(Live::setup)).unwrap_or_else(uncached_setup);
        let live = match known {
            Some(live) if live.setup() == setup && live.size_bytes() == volume.size_bytes => live,
            Some(live) if live.setup() == setup && live.size_bytes() < volume.size_bytes => {
                live.grown(volume.size_bytes)
            }
            // Who changes a setting and changes it back loses nothing.
            Some(live) if is_quiet => live,
            Some(live) => live.with_setup(setup, volume.size_bytes, now),
            None => Live::new(setup, volume.size_bytes, Rate::ALL).begun_at(now),
        };
        if self.day == 0 {
            self.day = now / DAY;
        }
        self.live.insert(live)
    }

    fn restored(&mut self, name: &VolumeName) -> Option<Live> {
        match Live::decode(&self.before.take()?) {
            Ok((live, day)) => {
                self.day = day;
                Some(live)
            }
            Err(why) => {
                tracing::warn!(
                    "volume {name}: what the advisor knew of it is of no use ({why}); its curves begin anew"
                );
                None
            }
        }
    }

    /// Days end by the clock; one that was set back ends none, and neither does a day end twice if that was about midnight.
    fn note_time(&mut self, now: u64) {
        let today = now / DAY;
        if today + 1 < self.day {
            self.day = today;
        }
        self.kept = self.kept.min(now);
        if let Some(ended) = today.checked_sub(self.day).filter(|ended| *ended > 0) {
            if let Some(live) = &mut self.live {
                live.days_ended(u32::try_from(ended).unwrap_or(u32::MAX));
            }
            (self.day, self.changed) = (today, true);
        }
    }

    fn due(&mut self, name: &VolumeName, now: u64, due: &mut Due) {
        let Some(live) = &self.live else { return };
        if self.changed && now.saturating_sub(self.kept) >= KEPT_EVERY {
            due.states.push((name.clone(), live.encode(self.day)));
            (self.kept, self.changed) = (now, false);
        }
        if self.sums_hour != now / HOUR {
            due.sums.push((name.clone(), live.tallies().encode()));
            self.sums_hour = now / HOUR;
        }
    }
}

#[cfg(test)]
mod tests {
    use hotset_cache::advisor::access::{Accesses, Direction, Passage};
    use hotset_cache::advisor::miniature::Setup;
    use hotset_cache::advisor::tap::{Kept, Taken};
    use hotset_cache::state::BlockIndex;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn taken(name: &str, reads: u64, setup: Option<Setup>) -> TakenOfVolume {
        let rate = Some(Rate::ALL);
        let block_bytes = setup.unwrap_or_else(uncached_setup).block_bytes;
        let accesses = Accesses { reads, ..Accesses::default() };
        let taken = Taken { block_bytes, rate, accesses, kept: Vec::new() };
        TakenOfVolume { name: name.parse().unwrap(), size_bytes: 1 << 30, setup, taken }
    }

    fn take_in(watches: &mut Watches, taken: Vec<TakenOfVolume>, interval: Duration, now: u64) -> Due {
        watches.take_in(taken, interval, now, watches.generation())
    }

    fn seen(watches: &mut Watches, before: Option<Vec<u8>>) -> VolumeName {
        let name = "v".parse().unwrap();
        watches.restore(&name, before, watches.generation());
        name
    }

    // proves: A1
    #[test]
    fn what_is_known_is_kept_now_and_then_and_gone_on_with_after_a_restart() {
        let now = 1_800_000_000;
        let mut watches = Watches::default();
        assert_eq!(watches.fresh(&[taken("v", 0, None)]).len(), 1);
        let name = seen(&mut watches, None);
        let first = take_in(&mut watches, vec![taken("v", 5, None)], SECOND, now);
        assert_eq!((first.states.len(), first.sums.len()), (1, 1));
        let second = take_in(&mut watches, vec![taken("v", 5, None)], SECOND, now + 10);
        assert_eq!((second.states.len(), second.sums.len()), (0, 0), "not that soon");
        let third = take_in(&mut watches, vec![taken("v", 0, None)], SECOND, now + 4000);
        assert_eq!((third.states.len(), third.sums.len()), (1, 1));
        let idle = take_in(&mut watches, vec![taken("v", 0, None)], SECOND, now + 4500);
        assert_eq!(idle.states.len(), 0, "nothing has changed");
        let kept = watches.everything().states.remove(0).1;
        let mut next = Watches::default();
        seen(&mut next, Some(kept));
        take_in(&mut next, vec![taken("v", 7, None)], SECOND, now + 9 * DAY);
        let sums = next.sums(&name, AdviceWindow::All, now + 9 * DAY).unwrap();
        assert_eq!((sums.tallies.accesses.reads, sums.from), (17, now));
    }

    // proves: A1, A2
    #[test]
    fn what_is_known_outlives_a_pool_that_opens_later_than_its_volume() {
        let now = 1_800_000_000;
        let pool = Setup { populate_on_read: 3, ..uncached_setup() };
        let mut watches = Watches::default();
        let name = seen(&mut watches, None);
        take_in(&mut watches, vec![taken("v", 5, Some(pool))], SECOND, now);
        let good = watches.everything().states.remove(0).1;
        let mut next = Watches::default();
        seen(&mut next, Some(good));
        let without_pool = take_in(&mut next, vec![taken("v", 0, None)], SECOND, now + 60);
        assert!(without_pool.states.is_empty(), "nothing has changed");
        let sums = |watches: &Watches| watches.sums(&name, AdviceWindow::All, now + 70).unwrap();
        assert_eq!((sums(&next).setup, sums(&next).tallies.pool_accesses.reads), (pool, 5), "it is as it was");
        take_in(&mut next, vec![taken("v", 0, Some(pool))], SECOND, now + 61);
        assert_eq!((sums(&next).setup, sums(&next).tallies.pool_accesses.reads), (pool, 5));
        // What hosts ask while there is no pool is gone through with the one that there was.
        take_in(&mut next, vec![taken("v", 1, None)], SECOND, now + 62);
        assert_eq!((sums(&next).setup, sums(&next).tallies.pool_accesses.reads), (pool, 6));
        let another = Setup { populate_on_read: 1, ..pool };
        take_in(&mut next, vec![taken("v", 1, Some(another))], SECOND, now + 63);
        assert_eq!((sums(&next).setup, sums(&next).tallies.pool_accesses.reads), (another, 1));
    }

    // proves: A1
    #[test]
    fn a_volume_that_grows_keeps_what_is_known_of_it() {
        let now = 1_800_000_000;
        let mut watches = Watches::default();
        let name = seen(&mut watches, None);
        take_in(&mut watches, vec![taken("v", 5, None)], SECOND, now);
        let mut grown = taken("v", 2, None);
        grown.size_bytes = 2 << 30;
        take_in(&mut watches, vec![grown], SECOND, now + 1);
        let sums = watches.sums(&name, AdviceWindow::All, now + 2).unwrap();
        assert_eq!((sums.size_bytes, sums.tallies.pool_accesses.reads), (2 << 30, 7));
    }

    // proves: A3
    #[test]
    fn a_time_in_which_the_daemon_does_not_run_or_the_volume_is_away_is_not_watched() {
        let now = 1_800_000_000;
        let mut watches = Watches::default();
        let name = seen(&mut watches, None);
        take_in(&mut watches, vec![taken("v", 5, None)], SECOND, now);
        take_in(&mut watches, Vec::new(), 60 * SECOND, now + 60);
        let kept = watches.everything().states.remove(0).1;
        let mut next = Watches::default();
        seen(&mut next, Some(kept));
        let mut first = taken("v", 0, None);
        first.taken.rate = None;
        take_in(&mut next, vec![first], 30 * SECOND, now + 6 * DAY);
        take_in(&mut next, vec![taken("v", 5, None)], 2 * SECOND, now + 6 * DAY + 2);
        let sums = next.sums(&name, AdviceWindow::All, now + 6 * DAY + 3).unwrap();
        assert_eq!(sums.tallies.pool_watched, 3 * SECOND);
    }

    // proves: A1
    #[test]
    fn what_was_kept_is_not_overwritten_in_the_first_minutes() {
        let now = 1_800_000_000;
        let mut watches = Watches::default();
        seen(&mut watches, Some(vec![1, 0, 0, 0, 9, 9]));
        let first = take_in(&mut watches, vec![taken("v", 5, None)], SECOND, now);
        assert!(first.states.is_empty());
        let later = take_in(&mut watches, vec![taken("v", 5, None)], SECOND, now + KEPT_EVERY);
        assert_eq!(later.states.len(), 1);
    }

    // proves: A1, A2
    #[test]
    fn a_clock_that_ran_ahead_once_stops_neither_days_nor_what_is_kept() {
        let now = 1_800_000_000;
        let mut watches = Watches::default();
        let name = seen(&mut watches, None);
        take_in(&mut watches, vec![taken("v", 1, None)], SECOND, now);
        let ahead = take_in(&mut watches, vec![taken("v", 1, None)], SECOND, now + 400 * DAY);
        assert_eq!(ahead.states.len(), 1);
        take_in(&mut watches, vec![taken("v", 1, None)], SECOND, now + 1);
        let kept = take_in(&mut watches, vec![taken("v", 1, None)], SECOND, now + 1 + KEPT_EVERY);
        assert_eq!(kept.states.len(), 1, "it is kept as before");
        let read = |watches: &mut Watches, at: u64| {
            let mut volume = taken("v", 1, None);
            volume.taken.kept = vec![Kept::new(BlockIndex(0), &(0..1), Direction::Read, Passage::Counted)];
            take_in(watches, vec![volume], SECOND, at);
        };
        let days = |watches: &Watches, at: u64| watches.sums(&name, AdviceWindow::All, at).unwrap().days;
        read(&mut watches, now + 2 * KEPT_EVERY);
        assert_eq!(days(&watches, now).hot, 1);
        take_in(&mut watches, vec![taken("v", 0, None)], SECOND, now + DAY);
        let tomorrow = days(&watches, now + DAY);
        assert_eq!((tomorrow.hot, tomorrow.days[1].read), (0, 1), "a day has ended");
        // About midnight the clock goes back a little.
        let midnight = (now / DAY + 2) * DAY;
        for at in [midnight, midnight - 2, midnight] {
            take_in(&mut watches, vec![taken("v", 0, None)], SECOND, at);
        }
        assert_eq!(days(&watches, midnight).days[2].read, 1, "that day has ended once");
    }

    // proves: A1
    #[test]
    fn a_burst_of_a_second_is_watched_whole_and_what_lasts_is_watched_less() {
        let mut watches = Watches::default();
        let name = seen(&mut watches, None);
        let read = Kept::new(BlockIndex(0), &(0..1), Direction::Read, Passage::Counted);
        let look = |watches: &mut Watches, accesses: usize, interval: Duration| {
            let mut volume = taken("v", 0, None);
            volume.taken.kept = vec![read; accesses];
            take_in(watches, vec![volume], interval, 1_800_000_000);
            watches.sums(&name, AdviceWindow::All, 1_800_000_001).unwrap().sample
        };
        let hurried = Duration::from_millis(50);
        let burst: Vec<f64> = (0..4).map(|_| look(&mut watches, 15_000, hurried)).collect();
        assert_eq!(burst, [1.0; 4], "65,536 at once, and 819 more in each look");
        assert_eq!(look(&mut watches, 15_000, hurried), 0.5);
        let next: Vec<f64> = (0..4).map(|_| look(&mut watches, 15_000, hurried)).collect();
        assert_eq!(next, [0.5; 4], "what it brings shows in a while");
        let lasting: Vec<f64> = (0..1000).map(|_| look(&mut watches, 800, hurried)).collect();
        assert!(lasting.iter().all(|rate| *rate > 0.4), "16,000 a second for 50 s are not too many");
    }

    #[test]
    fn what_makes_no_sense_is_no_reason_to_stop_watching() {
        let mut watches = Watches::default();
        let name = seen(&mut watches, Some(vec![1, 0, 0, 0, 9, 9]));
        take_in(&mut watches, vec![taken("v", 3, None)], SECOND, 1_800_000_000);
        let sums = watches.sums(&name, AdviceWindow::All, 1_800_000_001).unwrap();
        assert_eq!((sums.tallies.accesses.reads, sums.from), (3, 1_800_000_000));
    }

    #[test]
    fn a_renamed_volume_keeps_what_is_known_and_a_deleted_one_does_not() {
        let mut watches = Watches::default();
        seen(&mut watches, None);
        take_in(&mut watches, vec![taken("v", 3, None)], SECOND, 1_800_000_000);
        watches.rename("v", "w");
        assert_eq!(watches.names(), ["w".parse().unwrap()]);
        assert_eq!(watches.wanted().len(), 1);
        watches.forget("w");
        assert!(watches.names().is_empty());
    }

    // proves: A1
    #[test]
    fn what_was_taken_before_a_volume_lost_its_name_leaves_nothing_under_it() {
        let losses: [&dyn Fn(&mut Watches); 2] = [&|watches| watches.forget("v"), &|watches| watches.rename("v", "w")];
        for lose in losses {
            let mut watches = Watches::default();
            let name = seen(&mut watches, None);
            take_in(&mut watches, vec![taken("v", 3, None)], SECOND, 1_800_000_000);
            let (generation, under_way) = (watches.generation(), vec![taken("v", 5, None)]);
            lose(&mut watches);
            watches.restore(&name, Some(vec![1]), generation);
            let due = watches.take_in(under_way, SECOND, 1_800_001_000, generation);
            assert!(!watches.names().contains(&name) && due.states.is_empty() && due.sums.is_empty());
        }
    }

    // One that was renamed or deleted took a look at all volumes with it.
    // proves: A1
    #[test]
    fn a_volume_that_loses_its_name_costs_the_others_nothing_of_what_was_taken() {
        let mut watches = Watches::default();
        let (other, fresh) = ("other".parse().unwrap(), "fresh".parse().unwrap());
        seen(&mut watches, None);
        watches.restore(&other, None, 0);
        let generation = watches.generation();
        watches.rename("v", "w");
        watches.restore(&fresh, None, generation);
        let under_way = ["v", "other", "fresh"].map(|name| taken(name, 5, None)).into();
        let due = watches.take_in(under_way, SECOND, 1_800_000_000, generation);
        let reads = |name| watches.sums(name, AdviceWindow::All, 1_800_000_001).map(|sums| sums.tallies.accesses.reads);
        assert_eq!((reads(&other), reads(&fresh), reads(&"v".parse().unwrap())), (Some(5), Some(5), None));
        assert!(watches.has_its_name(&other, due.generation));
        // Of very many names it is not known any more which they were.
        (0..LOST_MAX).for_each(|number| watches.forget(&format!("v{number}")));
        assert!(!watches.has_its_name(&other, generation) && watches.has_its_name(&other, watches.generation()));
    }
}
