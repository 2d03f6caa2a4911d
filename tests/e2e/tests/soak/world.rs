//! A daemon with pools, volumes and hosts, to which things are done; and what is looked at whatever was done.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use hotset_e2e::clock::Moment;
use hotset_e2e::daemon::{Daemon, descriptors_of, resident_bytes_of};
use hotset_e2e::faulty::FaultyFile;
use hotset_e2e::files::MIB;
use hotset_e2e::pattern::Random;
use hotset_e2e::tools::text;
use serde_json::Value;

use super::other_build;
use super::record::{Record, Sample};
use super::steps::Step;
use super::volumes::Volume;

/// A read-write pool and a read pool, until they are converted.
pub(super) const POOLS: [&str; 2] = ["p", "q"];
const VOLUMES: [(&str, &str); 3] = [("a", "p"), ("b", "p"), ("c", "q")];
pub(super) const SSD_MIB: u64 = 40;
/// SSDs that a pool has at least, and at most.
pub(super) const SSDS_MIN: usize = 2;
pub(super) const SSDS_MAX: usize = 5;
/// The longest that a pool takes to be good again.
const HEALS: Duration = Duration::from_secs(240);
/// The longest pause between two steps.
const PAUSE_MAX_MS: u64 = 700;
/// Steps that are shown of a world that failed.
const LAST_STEPS: usize = 40;

/// What is done to a world's daemon.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is killed, restarted, upgraded.
    Replaced,
    /// It lives as long as the world.
    Lasting,
}

/// What can be seen of a world from beside it.
#[derive(Default)]
pub(super) struct Seen {
    /// 0: none runs now.
    pub(super) pid: AtomicU32,
    steps: AtomicU64,
    answered: Arc<AtomicU64>,
    samples: Mutex<Vec<Sample>>,
}

impl Seen {
    /// Looks at memory and descriptors, if there is a daemon.
    pub(super) fn sample(&self, elapsed: Duration) {
        let pid = self.pid.load(Ordering::Relaxed);
        let (Some(resident), Some(descriptors)) = (resident_bytes_of(pid), descriptors_of(pid)) else { return };
        let float = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        let sample = Sample {
            at_seconds: elapsed.as_secs_f64(),
            resident_bytes: float(resident / 1024) * 1024.0,
            descriptors: float(u64::try_from(descriptors).unwrap_or(u64::MAX)),
        };
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Steps, and requests that were answered.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.steps.load(Ordering::Relaxed), self.answered.load(Ordering::Relaxed))
    }
}

/// See the file's summary.
pub(super) struct World<'a> {
    pub(super) kind: Kind,
    pub(super) daemon: Daemon,
    pub(super) volumes: Vec<Volume>,
    pub(super) record: Record,
    pub(super) builds: [PathBuf; 2],
    pub(super) seen: &'a Seen,
    seed: u64,
    begun: Moment,
    steps: u64,
    /// Images made so far.
    images: u64,
    pub(super) faulty: Vec<FaultyFile>,
    journal: Vec<String>,
}

impl<'a> World<'a> {
    pub(super) fn new(kind: Kind, seed: u64, asked_build: Option<&Path>, seen: &'a Seen) -> Self {
        let mut daemon = Daemon::prepare("--missing-wait 1");
        daemon.allow_memory_cache();
        daemon.add_arguments("--memory-cache 16M");
        daemon.keep_sockets(None);
        daemon.launch();
        seen.pid.store(daemon.pid(), Ordering::Relaxed);
        daemon.make_read_write_pool(&[SSD_MIB; 3], "--populate-on-read 1");
        let builds = [
            hotset_e2e::daemon::binary().to_owned(),
            if kind == Kind::Replaced {
                other_build(asked_build, daemon.site.path("other-build"))
            } else {
                PathBuf::new()
            },
        ];
        let mut world = Self {
            kind,
            daemon,
            volumes: Vec::new(),
            record: Record { lasting: kind == Kind::Lasting, ..Record::default() },
            builds,
            seen,
            seed,
            begun: Moment::now(),
            steps: 0,
            images: 0,
            faulty: Vec::new(),
            journal: Vec::new(),
        };
        world.make_read_pool();
        for (index, (name, pool)) in (0..).zip(VOLUMES) {
            let mut volume = Volume::new(&world.daemon, name, seed.wrapping_add(16 * index), &seen.answered);
            world.daemon.ok(&format!("volume create {name} --backing {} --pool {pool}", volume.backing.display()));
            volume.start(&world.daemon.nbd_socket());
            world.volumes.push(volume);
        }
        world
    }

    pub(super) fn make_read_pool(&mut self) {
        let ssds = [self.new_image(), self.new_image()].map(|ssd| ssd.display().to_string()).join(" ");
        let create = "pool create q --type read --io-type custom --block-size 64K --populate-on-read 1 --ssd";
        assert!(self.ask("create pool", &format!("{create} {ssds}")), "two fresh SSDs make a pool");
    }

    /// Does the next thing; which one follows from the seed and how many were before.
    pub(super) fn step(&mut self) {
        let world = u64::from(self.kind == Kind::Replaced);
        let mut random = Random::new(self.seed.wrapping_mul(2).wrapping_add(world).wrapping_mul(1 << 32) ^ self.steps);
        // Seeds that are alike begin alike.
        for _ in 0..8 {
            random.number();
        }
        let step = Step::choose(self.seed.wrapping_add(world), self.steps, &mut random, self.kind);
        self.steps += 1;
        self.seen.steps.fetch_add(1, Ordering::Relaxed);
        self.note(&format!("step {}: {step:?}", self.steps));
        self.take(step, &mut random);
        self.look_after();
        thread::sleep(Duration::from_millis(random.below(PAUSE_MAX_MS)));
    }

    /// Runs a verb that may be refused; whether it was done.
    pub(super) fn ask(&mut self, what: &'static str, arguments: &str) -> bool {
        let output = self.daemon.hotset(arguments);
        let said = text(&output);
        assert!(matches!(output.status.code(), Some(0 | 1)), "hotset {arguments}: {said}");
        self.daemon.assert_running();
        let done = output.status.success();
        self.record.count(what, done);
        let outcome = if done { "done".to_owned() } else { format!("refused: {said}") };
        self.note(&format!("{arguments}: {outcome}"));
        if !done {
            let said = String::from_utf8_lossy(&output.stderr);
            let words: String = said.chars().filter(|letter| !letter.is_ascii_digit()).take(160).collect();
            *self.record.refusals.entry(format!("{what}: {words}")).or_default() += 1;
        }
        done
    }

    pub(super) fn note(&mut self, what: &str) {
        self.journal.push(format!("{:8.1} s: {}", self.begun.elapsed().as_secs_f64(), what.replace('\n', " ")));
    }

    /// Panics if a host saw something wrong or the daemon ended.
    pub(super) fn look_after(&mut self) {
        self.volumes.iter_mut().for_each(Volume::watch);
        self.daemon.assert_running();
    }

    /// Asks again until the answer is yes; hosts are looked after meanwhile.
    pub(super) fn eventually(&mut self, what: &str, limit: Duration, mut is_so: impl FnMut(&mut Self) -> bool) {
        let begun = Moment::now();
        while !is_so(self) {
            self.look_after();
            assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
            thread::sleep(Duration::from_millis(300));
        }
    }

    pub(super) fn new_image(&mut self) -> PathBuf {
        self.images += 1;
        self.daemon.site.blank(&format!("ssd-{}", self.images), SSD_MIB * MIB)
    }

    /// An SSD that fails on command. None where that cannot be made, which was said.
    pub(super) fn new_faulty(&mut self) -> Option<usize> {
        let behind = self.new_image();
        let at = self.daemon.site.path(&format!("faulty-{}", self.images));
        self.faulty.push(FaultyFile::mount(&at, &behind)?);
        Some(self.faulty.len() - 1)
    }

    /// Paths of a pool's SSDs: of those that work, and of all.
    pub(super) fn ssds(&self, pool: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let shown = self.daemon.json(&format!("pool show {pool}"));
        let ssds = shown["ssds"].as_array().expect("a list");
        let path = |ssd: &Value| PathBuf::from(ssd["path"].as_str().expect("an SSD has a path"));
        let online = ssds.iter().filter(|ssd| ssd["online"] == true).map(path).collect();
        (online, ssds.iter().map(path).collect())
    }

    pub(super) fn spares(&self, pool: &str) -> Vec<PathBuf> {
        let shown = self.daemon.json(&format!("pool show {pool}"));
        let spares = shown["spares"].as_array().expect("a list").iter();
        spares.map(|spare| PathBuf::from(spare["path"].as_str().expect("a spare has a path"))).collect()
    }

    /// Waits until a pool is good, and helps as an administrator does: with SSDs for those that are gone. Nothing may be lost.
    pub(super) fn heal(&mut self, pool: &'static str) {
        let (begun, mut added) = (Moment::now(), 0);
        loop {
            self.look_after();
            let shown = self.daemon.json(&format!("pool show {pool}"));
            let (online, all) = self.ssds(pool);
            if shown["health"] == "good" && online.len() >= SSDS_MIN && online.len() == all.len() {
                break;
            }
            assert!(begun.elapsed() < HEALS, "pool {pool} is not good within {HEALS:?}: {shown}");
            if online.len() < SSDS_MIN && added < SSDS_MAX {
                added += 1;
                let ssd = self.new_image();
                self.ask("add SSD", &format!("pool add-ssd {pool} --ssd {}", ssd.display()));
            }
            for away in all.iter().filter(|ssd| !online.contains(ssd)) {
                // Refused as long as it has what nobody else has.
                let removed = self.daemon.hotset(&format!("pool remove-ssd {pool} --ssd {}", away.display()));
                if removed.status.success() {
                    self.note(&format!("removed from {pool}: {}", away.display()));
                }
            }
            thread::sleep(Duration::from_millis(500));
        }
        for (name, _) in VOLUMES {
            let shown = self.daemon.json(&format!("volume show {name}"));
            assert!(shown["lost_bytes"] == 0 && shown["stats"]["errors"] == 0, "{shown}");
        }
        self.forget_what_nobody_uses();
    }

    /// Images that belong to no pool any more.
    pub(super) fn forget_what_nobody_uses(&mut self) {
        let used: Vec<PathBuf> =
            POOLS.iter().flat_map(|pool| [self.ssds(pool).1, self.spares(pool)].concat()).collect();
        let is_used = |path: &Path| used.iter().any(|known| known == path);
        self.faulty.retain(|file| is_used(file.path()));
        for number in 1..=self.images {
            let (image, faulty) = (format!("ssd-{number}"), format!("faulty-{number}/disk"));
            let image = self.daemon.site.path(&image);
            if !is_used(&image) && !is_used(&self.daemon.site.path(&faulty)) && image.exists() {
                fs::remove_file(image).expect("it is nobody's");
            }
        }
    }

    /// The end of the world: all of it is as it was told, with the daemon and without.
    pub(super) fn finish(&mut self) -> Record {
        POOLS.iter().for_each(|pool| self.heal(pool));
        self.volumes.iter_mut().for_each(Volume::stop);
        for index in 0..self.volumes.len() {
            self.volumes[index].check(&self.daemon);
            self.delete_volume(index);
        }
        self.seen.pid.store(0, Ordering::Relaxed);
        let status = self.daemon.stop();
        assert!(status.success() && !self.daemon.log().contains("panicked"), "a clean end: {status}");
        self.record.requests = self.seen.counts().1;
        let pauses = self.volumes.iter().map(|volume| volume.longest_pause);
        self.record.longest_pause = pauses.max().expect("there are volumes");
        std::mem::take(&mut self.record)
    }

    /// Takes a volume away whose hosts are stopped; every byte is on its backing device then.
    pub(super) fn delete_volume(&mut self, index: usize) {
        let name = self.volumes[index].name;
        self.eventually("a volume that nobody uses is deleted", HEALS, |world| {
            world.ask("delete volume", &format!("volume delete {name}"))
        });
        self.volumes[index].check_backing();
    }

    /// What is left of a world.
    pub(super) fn keep(&self, folder: &Path) {
        let name = if self.kind == Kind::Replaced { "replaced" } else { "lasting" };
        let kept = fs::write(folder.join(format!("{name}.log")), self.daemon.log());
        let kept = kept.and_then(|()| fs::write(folder.join(format!("{name}.steps")), self.journal.join("\n")));
        kept.expect("the folder can be written");
    }

    pub(super) fn tell_last_steps(&self) {
        let shown = self.journal.len().saturating_sub(LAST_STEPS);
        println!(
            "---- seed {}: the last of {} steps ----\n{}",
            self.seed,
            self.steps,
            self.journal[shown..].join("\n")
        );
    }
}
