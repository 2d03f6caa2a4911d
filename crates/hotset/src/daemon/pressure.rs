//! Whether memory is short, for the machine or for a control group of this process, and what the memory cache does about it.
//!
//! The kernel tells how long tasks have waited for memory (Documentation/accounting/psi.rst), of the machine and of each group, and how
//! often a group came to its limits (Documentation/admin-guide/cgroup-v2.rst, `memory.events`).

use std::fs;
use std::path::Path;

use super::memory::groups_of_version_two;

/// Tasks waited so long for memory of late, in hundredths of a percent of the time: then it is short.
const SHORT_FROM: u32 = 10_00;
/// Below this it is not.
const CALM_BELOW: u32 = 1_00;
/// The machine is short of memory when so small a part of it is available.
const AVAILABLE_PART: u64 = 32;

/// The memory cache is given and taken in so many parts of its size.
pub(crate) const PARTS: u64 = 16;
/// Looks between two steps while memory is short: it shows with a delay what a step has brought.
const LOOKS_BETWEEN_CUTS: u32 = 3;
/// Looks that memory has to be calm until the first part is given back, and then the next.
const CALM_LOOKS: u32 = 30;
const LOOKS_BETWEEN_GIFTS: u32 = 5;

/// How memory is, at one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// And by what that shows.
    Short(String),
    /// Neither.
    Some,
    Calm,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct PressureWatch {
    /// How often each group came to its limits.
    at_limits: Vec<u64>,
}

impl PressureWatch {
    /// `root` is where /proc and /sys are: `/`, but for tests.
    pub(crate) fn look(&mut self, root: &Path) -> Pressure {
        let groups = groups_of_version_two(root);
        let read = |path: &Path| fs::read_to_string(root.join(path.strip_prefix("/").unwrap_or(path))).ok();
        let at_limits: Vec<u64> = groups
            .iter()
            .map(|group| read(&group.join("memory.events")).map_or(0, |text| limits_reached(&text)))
            .collect();
        let before = std::mem::replace(&mut self.at_limits, at_limits);
        let reached = groups.iter().zip(&self.at_limits).zip(&before).find(|((_, now), before)| now > before);
        if let Some(((group, _), _)) = reached {
            return Pressure::Short(format!("the control group {} came to its limit of memory", group.display()));
        }
        if let Some((available, total)) = read(Path::new("/proc/meminfo")).as_deref().and_then(available_of)
            && available < total / AVAILABLE_PART
        {
            return Pressure::Short(format!("{available} KiB of the machine's {total} KiB of memory are available"));
        }
        let machine = Path::new("/proc/pressure/memory").to_owned();
        let files = groups.iter().map(|group| group.join("memory.pressure")).chain([machine]);
        let waits = files.filter_map(|file| Some((waited(&read(&file)?)?, file)));
        match waits.max_by_key(|(waited, _)| *waited) {
            Some((waited, file)) if waited >= SHORT_FROM => Pressure::Short(format!(
                "tasks waited for memory for {}.{:02} % of the last ten seconds ({})",
                waited / 100,
                waited % 100,
                file.display()
            )),
            Some((waited, _)) if waited >= CALM_BELOW => Pressure::Some,
            Some(_) | None => Pressure::Calm,
        }
    }
}

/// The share of the last ten seconds in which some task waited, in hundredths of a percent: `some avg10=12.34 …`.
fn waited(text: &str) -> Option<u32> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let (whole, part) = some.split(' ').find_map(|word| word.strip_prefix("avg10="))?.split_once('.')?;
    let hundredths = part.get(..2)?.parse::<u32>().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(hundredths)
}

/// How often the group was throttled, or could not grow.
fn limits_reached(text: &str) -> u64 {
    let counts = text.lines().filter_map(|line| line.split_once(' '));
    counts.filter(|(event, _)| ["high", "max"].contains(event)).filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
}

/// What is available of the machine's memory, and how much it has, in KiB (proc_meminfo(5)).
fn available_of(text: &str) -> Option<(u64, u64)> {
    let kib = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Some((kib("MemAvailable:")?, kib("MemTotal:")?))
}

/// What the memory cache may have of its size, by what was seen of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// [`PARTS`] at most.
    parts: u64,
    looks_since_cut: u32,
    calm_looks: u32,
}

/// How an allowance has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowanceChange {
    /// It was whole.
    Cut,
    /// It is whole.
    Whole,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { parts: PARTS, looks_since_cut: LOOKS_BETWEEN_CUTS, calm_looks: 0 }
    }
}

impl Allowance {
    /// Of so many bytes.
    pub(crate) fn of(self, size_bytes: u64) -> u64 {
        if self.parts == PARTS { size_bytes } else { size_bytes / PARTS * self.parts }
    }

    /// After one more look: a quarter less while memory is short, and one part more at a time when it has been calm for a while.
    pub(crate) fn follow(&mut self, pressure: &Pressure) -> Option<AllowanceChange> {
        let before = self.parts;
        self.looks_since_cut = self.looks_since_cut.saturating_add(1);
        match pressure {
            Pressure::Short(_) => {
                self.calm_looks = 0;
                if self.looks_since_cut > LOOKS_BETWEEN_CUTS {
                    self.looks_since_cut = 0;
                    self.parts -= self.parts.div_ceil(4);
                }
            }
            Pressure::Some => self.calm_looks = 0,
            Pressure::Calm => {
                self.calm_looks = self.calm_looks.saturating_add(1);
                if self.calm_looks >= CALM_LOOKS {
                    self.calm_looks -= LOOKS_BETWEEN_GIFTS;
                    self.parts = PARTS.min(self.parts + 1);
                }
            }
        }
        match (before == PARTS, self.parts == PARTS) {
            (true, false) => Some(AllowanceChange::Cut),
            (false, true) => Some(AllowanceChange::Whole),
            (true, true) | (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn psi(avg10: &str) -> String {
        format!("some avg10={avg10} avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    }

    const PLENTY: (&str, &str) = ("proc/meminfo", "MemTotal: 6400000 kB\nMemAvailable: 3000000 kB\n");

    #[test]
    fn memory_is_short_when_tasks_wait_for_it_or_little_is_available() {
        for (avg10, expected) in [("0.00", Pressure::Calm), ("0.99", Pressure::Calm), ("1.00", Pressure::Some)] {
            let root = machine(&[PLENTY, ("proc/pressure/memory", &psi(avg10))]);
            assert_eq!(PressureWatch::default().look(root.path()), expected, "{avg10}");
        }
        let root = machine(&[PLENTY, ("proc/pressure/memory", &psi("12.34"))]);
        let Pressure::Short(why) = PressureWatch::default().look(root.path()) else { panic!("it is short") };
        assert!(why.contains("12.34 %") && why.contains("/proc/pressure/memory"), "{why}");
        let root = machine(&[("proc/meminfo", "MemTotal: 6400000 kB\nMemAvailable: 150000 kB\n")]);
        assert!(matches!(PressureWatch::default().look(root.path()), Pressure::Short(_)));
        assert_eq!(
            PressureWatch::default().look(machine(&[PLENTY]).path()),
            Pressure::Calm,
            "an old kernel says nothing"
        );
    }

    #[test]
    fn memory_is_short_for_a_group_that_waits_or_came_to_its_limit_since_the_last_look() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let files = [("proc/self/mountinfo", mounts), ("proc/self/cgroup", "0::/a.slice/b.service\n"), PLENTY];
        let root = machine(&files);
        let group = root.path().join("sys/fs/cgroup/a.slice/b.service");
        fs::create_dir_all(&group).unwrap();
        let mut watch = PressureWatch::default();
        let events = |high: u32| fs::write(group.join("memory.events"), format!("low 0\nhigh {high}\nmax 0\noom 0\n"));
        events(3).unwrap();
        watch.look(root.path());
        assert_eq!(watch.look(root.path()), Pressure::Calm, "that was long ago");
        events(4).unwrap();
        let Pressure::Short(why) = watch.look(root.path()) else { panic!("it is short") };
        assert!(why.contains("b.service"), "{why}");
        assert_eq!(watch.look(root.path()), Pressure::Calm);
        fs::write(group.join("memory.pressure"), psi("50.00")).unwrap();
        assert!(matches!(watch.look(root.path()), Pressure::Short(_)));
    }

    // proves: M1
    #[test]
    fn the_memory_cache_shrinks_while_memory_is_short_and_grows_back_when_it_was_calm_for_a_while() {
        let mut allowance = Allowance::default();
        assert_eq!((allowance.of(1000), allowance.follow(&Pressure::Calm)), (1000, None));
        let short = Pressure::Short(String::new());
        assert_eq!((allowance.follow(&short), allowance.of(1600)), (Some(AllowanceChange::Cut), 1200));
        assert_eq!((allowance.follow(&short), allowance.of(1600)), (None, 1200), "the first step has yet to show");
        for _ in 0..100 {
            assert_eq!(allowance.follow(&short), None);
        }
        assert_eq!(allowance.of(1600), 0);
        for _ in 0..100 {
            allowance.follow(&Pressure::Some);
        }
        assert_eq!(allowance.of(1600), 0, "not calm enough");
        let calm_looks = (1..).find(|_| allowance.follow(&Pressure::Calm) == Some(AllowanceChange::Whole));
        assert_eq!((calm_looks, allowance.of(1601)), (Some(30 + 15 * 5), 1601));
    }
}
