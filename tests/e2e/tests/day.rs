//! A day in the life of a pool, played from a script: it is made and loaded, its SSDs are killed in every way one after the
//! other and spares take over, it grows and shrinks, is scrubbed and converted, the daemon is replaced, and in the end the
//! pool is deleted. All day long hosts verify every byte, and none of them sees an error.
//!
//! `HOTSET_DAYS` plays as many days one after the other on one pool (nightly: 20); by default it is one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hotset_e2e::daemon::Daemon;
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::files::{MIB, overwrite};
use hotset_e2e::load::{Host, StopOnPanic};
use hotset_e2e::pattern::PAGE_BYTES;
use hotset_e2e::tools::{command_within, eventually, text};

use crate::live::{is_good_with, serves_with};
use crate::restart::{Between, connect_again};

/// Sectors of one host's region: 4 MiB.
const REGION: u64 = 4 * MIB / 512;
const HOSTS: u64 = 2;
/// What fio has for itself, behind the hosts' regions.
const FIO_BYTES: u64 = 8 * MIB;
const SSD_MIB: u64 = 48;
/// SSDs that the pool has whenever it is whole.
const SSDS: usize = 3;
/// The longest that a day takes on a busy machine.
const DAY_S: u64 = 600;
/// The longest that anything in it takes.
const TIMEOUT: Duration = Duration::from_secs(90);

fn days() -> u64 {
    std::env::var("HOTSET_DAYS").ok().and_then(|days| days.parse().ok()).unwrap_or(1)
}

/// The pool `p` and what is done to it.
struct Script<'a> {
    daemon: &'a mut Daemon,
    /// Images made so far.
    images: u64,
    /// Paths of the pool's SSDs.
    ssds: Vec<PathBuf>,
    begun: Instant,
}

impl Script<'_> {
    /// Says what was done; the output of a failed day ends with it.
    fn note(&self, what: &str) {
        println!("{:6.1} s: {what}", self.begun.elapsed().as_secs_f64());
    }

    fn new_image(&mut self) -> PathBuf {
        self.images += 1;
        self.daemon.site.blank(&format!("ssd-{}", self.images), SSD_MIB * MIB)
    }

    /// An SSD that fails on command.
    fn new_faulty(&mut self) -> Option<FaultyFile> {
        let behind = self.new_image();
        FaultyFile::mount(&self.daemon.site.path(&format!("faulty-{}", self.images)), &behind)
    }

    /// Lets `kill` do something to the pool's first SSD, for which a spare takes over.
    fn replace_first(&mut self, how: &str, kill: impl FnOnce(&mut Daemon, &Path)) {
        self.note(&format!("an SSD is killed: {how}"));
        let spare = self.new_image();
        self.daemon.ok(&format!("pool add-spare p --ssd {}", spare.display()));
        let victim = self.ssds.remove(0);
        kill(self.daemon, &victim);
        eventually("the spare has taken over", TIMEOUT, || {
            // Asked for last: before the SSD has left, the pool may be good, and its copies are not made again yet.
            is_online(self.daemon, &spare) && !is_online(self.daemon, &victim) && is_good_with(self.daemon, SSDS)
        });
        self.note("the spare has taken over");
        self.ssds.push(spare);
    }

    /// Puts the SSD first in the pool, in the place of another one.
    fn join(&mut self, ssd: &Path) {
        self.daemon.ok(&format!("pool add-ssd p --ssd {}", ssd.display()));
        // The one that leaves may have had too many bad reads for a good pool.
        eventually("the pool has one more", TIMEOUT, || serves_with(self.daemon, SSDS + 1));
        let leaves = self.ssds.remove(0);
        self.daemon.ok(&format!("pool remove-ssd p --ssd {}", leaves.display()));
        eventually("the pool has one less", TIMEOUT, || is_good_with(self.daemon, SSDS));
        fs::remove_file(leaves).expect("it is nobody's");
        self.ssds.insert(0, ssd.to_owned());
        self.note("one SSD was added, and one removed");
    }

    fn play(&mut self, day: u64) {
        self.replace_first("cut short", |_, ssd| {
            let file = File::options().write(true).open(ssd).expect("the SSD is a file");
            file.set_len(MIB).expect("a file can shrink");
        });
        self.replace_first("deleted, and the daemon replaced", |daemon, ssd| {
            fs::remove_file(ssd).expect("a file can be removed");
            daemon.restart();
        });
        for (fault, how) in [(Fault::Error, "it answers EIO"), (Fault::Hang, "it hangs")] {
            // Where it cannot be mounted, that was said.
            let Some(faulty) = self.new_faulty() else { break };
            self.join(faulty.path());
            self.replace_first(how, |_, _| faulty.set(fault));
        }
        self.fill_with_zeroes();
        let block = if day.is_multiple_of(2) { "128K" } else { "64K" };
        self.daemon.ok(&format!("pool convert p --block-size {block}"));
        eventually("the converted pool is good", TIMEOUT, || is_good_with(self.daemon, SSDS));
        self.note("the pool was converted");
        self.daemon.kill();
        self.daemon.launch();
        eventually("the pool is good after a kill", TIMEOUT, || is_good_with(self.daemon, SSDS));
        self.note("the daemon was killed and started");
    }

    /// What it held is on another one: the scrub mends it. If hosts are faster and meet too much of it, the pool does without
    /// that SSD.
    fn fill_with_zeroes(&mut self) {
        let zeroes = vec![0; 1 << 20];
        (1..SSD_MIB).for_each(|mebibyte| overwrite(&self.ssds[0], mebibyte * MIB, &zeroes));
        let said = self.daemon.ok("pool scrub p");
        self.note(&format!("an SSD was filled with zeroes and scrubbed: {}", said.trim().replace('\n', "; ")));
        let fresh = self.new_image();
        if is_online(self.daemon, &self.ssds[0]) {
            return self.join(&fresh);
        }
        self.daemon.ok(&format!("pool add-ssd p --ssd {}", fresh.display()));
        eventually("the pool is whole again", TIMEOUT, || is_good_with(self.daemon, SSDS));
        self.ssds[0] = fresh;
        self.note("it had left the pool, and another one is in its place");
    }
}

/// Whether an SSD is one of the pool's that work.
fn is_online(daemon: &Daemon, ssd: &Path) -> bool {
    let pool = daemon.json("pool show p");
    let mut ssds = pool["ssds"].as_array().expect("a list").iter();
    ssds.any(|known| known["path"] == ssd.display().to_string() && known["online"] == true)
}

/// Ends fio, also where the day ends in a panic: fio looks whether this file is there.
struct EndsFio<'a>(&'a Path);

impl Drop for EndsFio<'_> {
    fn drop(&mut self) {
        File::create(self.0).expect("a file can be made");
    }
}

/// fio all day long, on one connection: one that is opened while the daemon is away is refused by what is between them. See
/// [`EndsFio`] for how it ends.
fn fio_verifies(between: &Path, end: &Path) {
    let fixed = "--name=day --ioengine=nbd --rw=randrw --bsrange=4k-32k --iodepth=8 --verify=crc32c --verify_fatal=1 \
        --verify_backlog=64 --verify_state_save=0 --time_based --runtime=1d --rate_iops=1500 --trigger=true";
    let mut words: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
    words.extend([
        format!("--uri=nbd+unix:///?socket={}", between.display()),
        format!("--offset={}", HOSTS * REGION * 512),
        format!("--size={FIO_BYTES}"),
        format!("--trigger-file={}", end.display()),
    ]);
    let mut fio = command_within(days() * DAY_S, "fio", &words);
    // Ended by its trigger, it leaves a file where it runs, whatever it is told.
    let output = fio.current_dir(end.parent().expect("it is in a folder")).output().expect("fio starts");
    let said = text(&output);
    assert!(output.status.success() && !said.contains("verify:") && !said.contains("bad magic"), "{said}");
}

// proves: F2, F3, F7, D15, P4, P5, P16
#[test]
fn a_day_in_the_life_of_a_pool_passes_without_a_host_error_or_a_wrong_byte() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    daemon.keep_sockets(None);
    daemon.launch();
    daemon.make_read_write_pool(&[SSD_MIB; SSDS], "--populate-on-read 1");
    let backing = daemon.make_volume((HOSTS * REGION * 512 + FIO_BYTES) / PAGE_BYTES, "p");
    let (socket, between, end) = (daemon.nbd_socket(), daemon.site.socket("between"), daemon.site.path("end"));
    let retries = Between::nbdkit(&daemon);
    let ssds = (0..SSDS).map(|index| daemon.site.path(&format!("ssd{index}"))).collect();
    let mut hosts: Vec<Host> = (0..HOSTS).map(|index| Host::new(index * REGION, REGION, index + 1)).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopOnPanic(&stop);
        let ends = EndsFio(&end);
        let fio = scope.spawn(|| fio_verifies(&between, &end));
        eventually("fio writes", TIMEOUT, || daemon.stat("v", "writes") > 0);
        let workers: Vec<_> =
            hosts.iter_mut().map(|host| scope.spawn(|| host.work_through(|| connect_again(&socket), &stop))).collect();
        let mut script = Script { daemon: &mut daemon, images: 0, ssds, begun: Instant::now() };
        (0..days()).for_each(|day| script.play(day));
        // The pool goes, and the volume serves on.
        daemon.ok("pool delete p");
        assert_eq!(daemon.json("volume show v")["pool"], serde_json::Value::Null);
        assert!(!fio.is_finished() && workers.iter().all(|worker| !worker.is_finished()), "there was a load all day");
        stop.store(true, Ordering::Relaxed);
        drop(ends);
        let pauses = workers.into_iter().map(|worker| worker.join().expect("no wrong byte and no error"));
        println!("the longest pause of the day: {:.2} s", pauses.max().expect("there are hosts").as_secs_f64());
        fio.join().expect("fio found no wrong byte");
    });
    drop(retries);
    assert_eq!(daemon.stat("v", "errors"), 0);
    end_of_the_day(&daemon, &mut hosts, &backing);
    assert!(daemon.stop().success());
}

/// Every byte is right without the pool, and at last without Hotset.
fn end_of_the_day(daemon: &Daemon, hosts: &mut [Host], backing: &Path) {
    let mut client = daemon.client("v");
    hosts.iter_mut().for_each(|host| host.check_all(&mut client));
    assert_eq!(daemon.stat("v", "errors"), 0);
    drop(client);
    daemon.ok("volume delete v");
    hosts.iter_mut().for_each(|host| host.check_file(backing));
}
