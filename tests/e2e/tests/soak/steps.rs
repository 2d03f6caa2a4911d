//! What is done to a world, as chance has it.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotset_e2e::files::MIB;
use hotset_e2e::pattern::Random;

use super::world::{Kind, POOLS, SSDS_MAX, SSDS_MIN, World};

/// How often each is done, of a hundred.
const CHANCES: [(Step, u64); 21] = [
    (Step::PoolSettings, 11),
    (Step::VolumeSettings, 13),
    (Step::Flush, 6),
    (Step::FlushAndHold, 2),
    (Step::Reattach, 6),
    (Step::RecreateVolume, 4),
    (Step::RecreatePool, 2),
    (Step::Grow, 4),
    (Step::Rename, 3),
    (Step::AddSsd, 6),
    (Step::RemoveSsd, 6),
    (Step::AddSpare, 4),
    (Step::RemoveSpare, 2),
    (Step::Scrub, 3),
    (Step::Convert, 5),
    (Step::Look, 5),
    (Step::Fault, 7),
    (Step::Pause, 4),
    (Step::Kill, 3),
    (Step::Restart, 2),
    (Step::Upgrade, 2),
];

/// The longest time in which a daemon does not run.
const PAUSE_MAX_MS: u64 = 4_000;
/// Each so manieth pause is longer than an SSD may be silent.
const LONG_PAUSES: u64 = 6;
const LONG_PAUSE: Duration = Duration::from_secs(12);
/// What takes a moment has happened by then.
const SOON: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    PoolSettings,
    VolumeSettings,
    Flush,
    FlushAndHold,
    Reattach,
    RecreateVolume,
    RecreatePool,
    Grow,
    Rename,
    AddSsd,
    RemoveSsd,
    AddSpare,
    RemoveSpare,
    Scrub,
    Convert,
    Look,
    Fault,
    Pause,
    Kill,
    Restart,
    Upgrade,
}

impl Step {
    /// The how-manieth step of a life: at first each kind has its turn once, so that none is missing in a short one.
    pub(super) fn choose(seed: u64, number: u64, random: &mut Random, kind: Kind) -> Self {
        let mut first: Vec<Self> = CHANCES.iter().map(|(step, _)| *step).collect();
        shuffle(&mut Random::new(seed), &mut first);
        let turn = usize::try_from(number).ok().and_then(|number| first.get(number).copied());
        let step = turn.unwrap_or_else(|| Self::by_chance(random));
        let replaces = matches!(step, Self::Kill | Self::Restart | Self::Upgrade);
        if replaces && kind == Kind::Lasting { Self::Pause } else { step }
    }

    fn by_chance(random: &mut Random) -> Self {
        let mut chance = random.below(CHANCES.iter().map(|(_, chance)| chance).sum());
        let chosen = CHANCES.iter().find(|(_, chances)| {
            let is_it = chance < *chances;
            chance = chance.saturating_sub(*chances);
            is_it
        });
        chosen.expect("the chance is below their sum").0
    }
}

fn shuffle(random: &mut Random, steps: &mut [Step]) {
    for index in (1..steps.len()).rev() {
        let other = random.below(u64::try_from(index + 1).expect("an address has 64 bits at most"));
        steps.swap(index, usize::try_from(other).expect("an address has 64 bits at most"));
    }
}

fn one_of<T: Copy>(random: &mut Random, of: &[T]) -> T {
    let index = random.below(u64::try_from(of.len()).expect("an address has 64 bits at most"));
    of[usize::try_from(index).expect("an address has 64 bits at most")]
}

fn path_of(random: &mut Random, of: &[PathBuf]) -> Option<PathBuf> {
    (!of.is_empty()).then(|| {
        of[usize::try_from(random.below(u64::try_from(of.len()).expect("an address has 64 bits at most")))
            .expect("an address has 64 bits at most")]
        .clone()
    })
}

impl World<'_> {
    pub(super) fn take(&mut self, step: Step, random: &mut Random) {
        let pool = one_of(random, &POOLS);
        let index = usize::try_from(random.below(3)).expect("an address has 64 bits at most");
        let volume = self.volumes[index].name;
        match step {
            Step::PoolSettings => self.set_pool(pool, random),
            Step::VolumeSettings => self.set_volume(volume, random),
            Step::Flush if random.below(2) == 0 => drop(self.ask("flush pool", &format!("pool flush {pool}"))),
            Step::Flush => drop(self.ask("flush volume", &format!("volume flush {volume}"))),
            Step::FlushAndHold => self.flush_and_hold(index, random),
            Step::Reattach => self.reattach(volume, pool),
            Step::RecreateVolume => self.recreate_volume(index, pool),
            Step::RecreatePool => self.recreate_pool(),
            Step::Grow => self.grow(index),
            Step::Rename => {
                if self.ask("rename volume", &format!("volume rename {volume} renamed")) {
                    assert!(self.ask("rename volume", &format!("volume rename renamed {volume}")), "the name is free");
                }
            }
            Step::AddSsd => self.add_ssd(pool),
            Step::RemoveSsd => self.remove_ssd(pool, random),
            Step::AddSpare => self.add_spare(pool),
            Step::RemoveSpare => self.remove_spare(pool, random),
            Step::Scrub => drop(self.ask("scrub pool", &format!("pool scrub {pool}"))),
            Step::Convert => self.convert(pool, random),
            Step::Look => self.look(),
            Step::Fault => self.fault(pool, random),
            Step::Pause => self.pause(random),
            Step::Kill => self.replace_daemon("kill -9", true),
            Step::Restart => self.replace_daemon("restart", false),
            Step::Upgrade => self.upgrade(random),
        }
    }

    pub(super) fn set_pool(&mut self, pool: &str, random: &mut Random) {
        let settings = match random.below(8) {
            0 => format!("policy={}", one_of(random, &["s3-fifo", "lru", "fifo", "2q", "auto"])),
            1 => format!("populate-on-read={}", 1 + random.below(4)),
            2 => format!("populate-on-write={}", random.below(5)),
            // Slower ones would have a scrub of these SSDs take longer than a verb may.
            3 => format!("fetch-rate={}", one_of(random, &["medium", "high"])),
            4 => format!("flush-rate={}", one_of(random, &["low", "medium", "high"])),
            5 => format!("dirty-watermark={}", 10 + random.below(81)),
            6 => format!("dirty-age={}", one_of(random, &["1m", "10m", "30d"])),
            _ => format!("ssd-writes-per-day={}", one_of(random, &["off", "100G", "1G"])),
        };
        self.ask("set pool", &format!("pool set {pool} {settings}"));
    }

    pub(super) fn set_volume(&mut self, volume: &str, random: &mut Random) {
        let switch = ["on", "off"];
        let settings = match random.below(9) {
            0 | 1 => {
                format!(
                    "mode={}",
                    one_of(random, &["write-back", "instant-write-back", "write-through", "write-around"])
                )
            }
            2 => format!("read-cache={}", one_of(random, &switch)),
            3 => format!("memory-cache={}", one_of(random, &switch)),
            4 => format!("read-ahead={}", one_of(random, &["auto", "off"])),
            5 => format!("read-cutoff={}", one_of(random, &["off", "64K", "1M"])),
            6 => format!("write-cutoff={}", one_of(random, &["off", "64K", "1M"])),
            7 => format!("dirty-cap={}", one_of(random, &["auto", "2M", "50%"])),
            _ => format!("cache-max={}", one_of(random, &["off", "4M", "30%"])),
        };
        self.ask("set volume", &format!("volume set {volume} {settings}"));
    }

    /// As for a backup of the backing device: it has all that hosts were answered, until it is released.
    fn flush_and_hold(&mut self, index: usize, random: &mut Random) {
        let name = self.volumes[index].name;
        if self.ask("flush and hold", &format!("volume flush {name} --hold")) {
            self.work_for(random.below(1000));
            self.volumes[index].stop();
            self.volumes[index].check_backing();
            self.volumes[index].start(&self.daemon.nbd_socket());
            assert!(self.ask("release", &format!("volume release {name}")), "volume {name} was held");
        }
    }

    /// Lets hosts work.
    pub(super) fn work_for(&mut self, duration_ms: u64) {
        std::thread::sleep(Duration::from_millis(duration_ms));
        self.look_after();
    }

    fn reattach(&mut self, volume: &str, pool: &str) {
        if self.ask("disable cache", &format!("volume disable-cache {volume}")) {
            self.ask("enable cache", &format!("volume enable-cache {volume} --pool {pool}"));
        }
    }

    /// Deleted, every byte is on its backing device; made again, hosts go on.
    fn recreate_volume(&mut self, index: usize, pool: &str) {
        self.volumes[index].stop();
        self.volumes[index].check(&self.daemon);
        self.delete_volume(index);
        let volume = &mut self.volumes[index];
        if volume.is_full_grown() {
            volume.shrink();
        }
        let create = format!("volume create {} --backing {} --pool {pool}", volume.name, volume.backing.display());
        assert!(self.ask("create volume", &create), "the name and the backing device are free");
        self.volumes[index].start(&self.daemon.nbd_socket());
    }

    fn recreate_pool(&mut self) {
        let mut cached: Vec<&str> = self.volumes.iter().map(|volume| volume.name).collect();
        cached.retain(|volume| self.daemon.json(&format!("volume show {volume}"))["pool"] == "q");
        if !self.ask("delete pool", "pool delete q") {
            return;
        }
        self.make_read_pool();
        for volume in cached {
            assert!(
                self.ask("enable cache", &format!("volume enable-cache {volume} --pool q")),
                "volume {volume} is uncached"
            );
        }
        self.forget_what_nobody_uses();
    }

    fn grow(&mut self, index: usize) {
        let volume = &mut self.volumes[index];
        if volume.is_full_grown() {
            return;
        }
        let (name, size_mib) = (volume.name, volume.size_mib + 1);
        volume.resize_backing(size_mib);
        self.eventually("a volume grows", SOON, |world| world.ask("grow volume", &format!("volume grow {name}")));
        assert_eq!(self.daemon.client(name).size_bytes(), size_mib * MIB, "volume {name} has grown");
    }

    fn add_ssd(&mut self, pool: &str) {
        if self.ssds(pool).1.len() < SSDS_MAX {
            let ssd = self.new_image();
            self.ask("add SSD", &format!("pool add-ssd {pool} --ssd {}", ssd.display()));
        }
    }

    fn remove_ssd(&mut self, pool: &str, random: &mut Random) {
        let (online, _) = self.ssds(pool);
        if online.len() <= SSDS_MIN {
            return;
        }
        if let Some(ssd) = path_of(random, &online) {
            self.ask("remove SSD", &format!("pool remove-ssd {pool} --ssd {}", ssd.display()));
            self.forget_what_nobody_uses();
        }
    }

    fn add_spare(&mut self, pool: &str) {
        if self.spares(pool).is_empty() {
            let spare = self.new_image();
            self.ask("add spare", &format!("pool add-spare {pool} --ssd {}", spare.display()));
        }
    }

    fn remove_spare(&mut self, pool: &str, random: &mut Random) {
        if let Some(spare) = path_of(random, &self.spares(pool)) {
            self.ask("remove spare", &format!("pool remove-spare {pool} --ssd {}", spare.display()));
            self.forget_what_nobody_uses();
        }
    }

    fn convert(&mut self, pool: &'static str, random: &mut Random) {
        let to = match random.below(3) {
            0 => format!("--type {}", one_of(random, &["read", "read-write"])),
            _ => format!("--block-size {}", one_of(random, &["64K", "128K", "512K", "1M"])),
        };
        self.ask("convert pool", &format!("pool convert {pool} {to}"));
        self.heal(pool);
    }

    /// All that an administrator and a graph look at; and the site, as text, is what it is.
    pub(super) fn look(&mut self) {
        for verb in ["status", "stats", "events", "operations", "pool list", "volume list", "memory-cache show"] {
            self.daemon.ok(verb);
        }
        let site = self.daemon.site.path("site.toml");
        std::fs::write(&site, self.daemon.ok("export")).expect("the folder can be written");
        self.ask("export and apply", &format!("apply {} --dry-run", site.display()));
    }

    pub(super) fn pause(&mut self, random: &mut Random) {
        let is_long = random.below(LONG_PAUSES) == 0;
        let pause = if is_long { LONG_PAUSE } else { Duration::from_millis(100 + random.below(PAUSE_MAX_MS)) };
        self.note(&format!("it does not run for {pause:?}"));
        self.daemon.pause_for(pause);
        self.record.count("pause (SIGSTOP)", true);
    }

    pub(super) fn replace_daemon(&mut self, what: &'static str, by_force: bool) {
        self.look_after();
        self.seen.pid.store(0, Ordering::Relaxed);
        if by_force {
            self.daemon.kill();
        } else {
            let status = self.daemon.stop();
            assert!(status.success(), "a clean stop ends with 0, not {status}");
        }
        self.daemon.launch();
        self.seen.pid.store(self.daemon.pid(), Ordering::Relaxed);
        self.note(what);
        self.record.count(what, true);
        self.eventually("its volumes are online again", SOON, |world| {
            world.volumes.iter().all(|volume| world.daemon.is_online(volume.name))
        });
    }

    /// To the other build, or back to the first one.
    fn upgrade(&mut self, random: &mut Random) {
        self.builds.reverse();
        let build = self.builds[0].clone();
        self.daemon.use_build(&build);
        self.replace_daemon("upgrade to the other build", random.below(2) == 0);
    }
}
