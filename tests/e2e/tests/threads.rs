//! A daemon with several threads: each pool is served by one of its own, a volume goes to its pool's thread and back while hosts
//! use it, and what holds up one holds up no other.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use hotset_e2e::daemon::{Daemon, free_port};
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::files::{MIB, assert_file_pages};
use hotset_e2e::load::{Host, StopOnPanic};
use hotset_e2e::nbd::{Client, Verb};
use hotset_e2e::pattern::{PAGE_BYTES, assert_pages, pages};
use hotset_e2e::tools::{eventually, succeed};

use crate::live::{HOSTS, REGION, under_load};
use crate::tls;

/// The longest that anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);
/// A host that waits for longer was held up by another pool.
const HELD_UP: Duration = Duration::from_secs(4);
const THREADS: &str = "--missing-wait 1 --threads 3";
/// Of a volume that hosts of `under_load` use.
const PAGES: u64 = HOSTS * REGION * 512 / PAGE_BYTES;

fn make_pool(daemon: &Daemon, name: &str) {
    let ssds = ["a", "b"].map(|ssd| daemon.site.blank(&format!("{name}-{ssd}"), 48 * MIB).display().to_string());
    let ssds = ssds.join(" ");
    daemon.ok(&format!("pool create {name} --type read-write --io-type custom --block-size 64K --ssd {ssds}"));
}

fn make_volume(daemon: &Daemon, name: &str, pages: u64, pool: &str) {
    let backing = daemon.site.numbered(&format!("{name}.img"), pages);
    daemon.ok(&format!("volume create {name} --backing {} {pool}", backing.display()));
}

/// How long each thread of the data plane has run so far, in nanoseconds (proc_pid_schedstat).
fn ran(daemon: &Daemon) -> BTreeMap<String, u64> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("the daemon runs");
    let mut ran = BTreeMap::new();
    for task in tasks.flatten() {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let nanoseconds = read("schedstat").split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0);
        ran.insert(read("comm").trim().to_owned(), nanoseconds);
    }
    ran.retain(|name, _| name.starts_with("data-plane-"));
    ran
}

/// Asserts that reads of a volume are the work of this thread, and of no other.
#[track_caller]
fn assert_served_by(daemon: &Daemon, volume: &str, thread: &str) {
    let mut client = daemon.client(volume);
    let before = ran(daemon);
    assert_eq!(before.len(), 3, "{before:?}");
    let grown = |name: &str| ran(daemon)[name] - before[name];
    let work = |client: &mut Client| {
        for page in 0..256 {
            client.read(page % 64 * PAGE_BYTES, 4096).unwrap_or_else(|error| panic!("{volume}: {error}"));
        }
    };
    eventually("a thread has worked", TIMEOUT, || {
        work(&mut client);
        before.keys().any(|name| grown(name) > 200_000_000)
    });
    let most = before.keys().max_by_key(|name| grown(name)).expect("there are threads");
    assert_eq!(most, thread, "{volume}: {:?}", before.keys().map(|name| (name, grown(name))).collect::<Vec<_>>());
    for other in before.keys().filter(|name| *name != thread) {
        assert!(grown(other) < grown(thread) / 4, "{volume}: {other} worked too, for {} ns", grown(other));
    }
}

#[test]
fn each_pool_is_served_by_a_thread_of_its_own_whatever_way_its_hosts_come() {
    let mut daemon = Daemon::prepare(THREADS);
    let port = free_port();
    daemon.add_arguments(&format!("--nbd tcp:127.0.0.1:{port}"));
    daemon.launch();
    assert_eq!(daemon.json("status")["threads"], 3);
    make_pool(&daemon, "p");
    make_pool(&daemon, "q");
    make_volume(&daemon, "in-p", 1024, "--pool p");
    make_volume(&daemon, "in-q", 1024, "--pool q");
    make_volume(&daemon, "alone", 1024, "");
    let placed = [("in-p", "data-plane-1"), ("in-q", "data-plane-2"), ("alone", "data-plane-0")];
    for (volume, thread) in placed {
        assert_served_by(&daemon, volume, thread);
    }
    copy_there_and_back(&daemon, placed.map(|(volume, _)| volume), |volume| format!("nbd://127.0.0.1:{port}/{volume}"));
    let connected = daemon.client("in-q");
    let status = daemon.json("volume show in-q");
    assert_eq!(status["clients"].as_array().map(Vec::len), Some(1), "those of all threads are told: {status}");
    drop(connected);
    daemon.kill();
    let certificates = tls::make(&daemon.site, "tls");
    let at = certificates.folder.display();
    daemon.add_arguments(&format!(
        "--tls-cert {at}/server-cert.pem --tls-key {at}/server-key.pem --tls-client-ca {}",
        certificates.authority.display()
    ));
    daemon.launch();
    copy_there_and_back(&daemon, placed.map(|(volume, _)| volume), |volume| {
        format!("nbds://localhost:{port}/{volume}?tls-certificates={at}")
    });
    assert!(daemon.stop().success());
}

/// Copies the volumes, all at once, over a unix socket and by another way, and back.
fn copy_there_and_back(daemon: &Daemon, volumes: [&str; 3], uri: impl Fn(&str) -> String + Sync) {
    thread::scope(|scope| {
        for volume in volumes {
            let uri = &uri;
            scope.spawn(move || {
                let copy = daemon.site.path(&format!("{volume}-copy")).display().to_string();
                for uri in [daemon.uri(volume), uri(volume)] {
                    succeed("nbdcopy", &[&uri, &copy]);
                    assert_file_pages(copy.as_ref(), 0);
                    succeed("nbdcopy", &["--flush", &copy, &uri]);
                }
            });
        }
    });
}

/// Connects again and again, and asks for the first pages.
fn come_and_go(daemon: &Daemon, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut client = daemon.client("w");
        assert_pages(&client.read(0, 8192).expect("a host that comes sees no error"), 0, 0);
        drop(client.send(Verb::Disconnect, 0, 0, 0, &[]));
    }
}

#[test]
fn a_volume_goes_to_its_pools_thread_and_back_under_load_and_no_host_sees_an_error() {
    let mut daemon = Daemon::start_with(THREADS);
    make_pool(&daemon, "p");
    make_pool(&daemon, "q");
    daemon.make_volume(PAGES, "");
    make_volume(&daemon, "w", 64, "");
    under_load(&mut daemon, |daemon| {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop = StopOnPanic(&stop);
            let (asked, stop) = (&*daemon, &stop);
            scope.spawn(move || come_and_go(asked, stop));
            for (pool, thread) in [("p", "data-plane-1"), ("q", "data-plane-2")] {
                for volume in ["v", "w"] {
                    daemon.ok(&format!("volume enable-cache {volume} --pool {pool}"));
                }
                let hits = daemon.stat("v", "write_hits");
                eventually("writes are cached", TIMEOUT, || daemon.stat("v", "write_hits") > hits + 100);
                eventually("the hosts went with it", TIMEOUT, || does_the_most(daemon, thread));
                for volume in ["w", "v"] {
                    daemon.ok(&format!("volume disable-cache {volume}"));
                }
                let writes = daemon.stat("v", "writes");
                eventually("hosts go on", TIMEOUT, || daemon.stat("v", "writes") > writes + 100);
            }
            daemon.ok("volume enable-cache v --pool p");
            stop.store(true, Ordering::Relaxed);
        });
    });
    assert!(daemon.log().lines().all(|line| !line.contains("stays on its pool's thread")), "{}", daemon.log());
    assert_served_by(&daemon, "w", "data-plane-0");
    assert_served_by(&daemon, "v", "data-plane-1");
    assert!(daemon.stop().success());
}

/// Whether that thread does the most while `v` is written to.
fn does_the_most(daemon: &Daemon, thread: &str) -> bool {
    let (before, writes) = (ran(daemon), daemon.stat("v", "writes"));
    eventually("hosts go on", TIMEOUT, || daemon.stat("v", "writes") > writes + 200);
    let after = ran(daemon);
    let grown = |name: &String| after[name] - before[name];
    before.keys().max_by_key(|name| grown(name)).is_some_and(|most| most == thread)
}

#[test]
fn a_device_that_hangs_and_a_pool_that_is_deleted_hold_up_no_other_pool() {
    let daemon = Daemon::start_with(THREADS);
    make_pool(&daemon, "p");
    make_pool(&daemon, "q");
    let image = daemon.site.numbered("hung.img", 256);
    let Some(hung) = FaultyFile::mount(&daemon.site.path("mounted"), &image) else { return };
    daemon.ok(&format!("volume create hung --backing {} --pool p", hung.path().display()));
    make_volume(&daemon, "w", REGION * 512 / PAGE_BYTES, "--pool q");
    let (stop, mut host) = (AtomicBool::new(false), Host::new(0, REGION, 7));
    let longest = thread::scope(|scope| {
        let _stop = StopOnPanic(&stop);
        let (asked, stop) = (&daemon, &stop);
        let host = &mut host;
        let works = scope.spawn(move || host.work_through(|| asked.client("w"), stop));
        eventually("there is a load", TIMEOUT, || daemon.stat("w", "writes") > 300);
        hung.set(Fault::Hang);
        let mut waits = daemon.client("hung");
        waits.send(Verb::Read, 0, 128 * PAGE_BYTES, 4096, &[]).expect("it is taken");
        let writes = daemon.stat("w", "writes");
        eventually("the other one goes on", TIMEOUT, || daemon.stat("w", "writes") > writes + 1000);
        assert_eq!(waits.in_flight(), 1, "this one waits");
        hung.set(Fault::None);
        drop(waits);
        daemon.ok("volume delete hung --force");
        daemon.ok("pool delete p");
        let writes = daemon.stat("w", "writes");
        eventually("the other one goes on", TIMEOUT, || daemon.stat("w", "writes") > writes + 1000);
        stop.store(true, Ordering::Relaxed);
        works.join().expect("no host sees an error")
    });
    assert!(longest < HELD_UP, "a host waited for {longest:?}");
    assert_eq!(daemon.stat("w", "errors"), 0);
    host.check_all(&mut daemon.client("w"));
}

/// Pieces of a volume that is larger than what its pool can have dirty.
const PIECES: u64 = 96;
const PIECE_PAGES: u64 = 256;

#[test]
fn a_full_log_of_one_pool_holds_up_no_other() {
    let daemon = Daemon::start_with(THREADS);
    make_pool(&daemon, "p");
    make_pool(&daemon, "q");
    let image = daemon.site.numbered("full.img", PIECES * PIECE_PAGES);
    let Some(hung) = FaultyFile::mount(&daemon.site.path("mounted"), &image) else { return };
    daemon.ok(&format!("volume create full --backing {} --pool p", hung.path().display()));
    // All of it is one stream.
    daemon.ok("volume set full write-cutoff=off");
    make_volume(&daemon, "w", REGION * 512 / PAGE_BYTES, "--pool q");
    let capacity = daemon.json("pool show p")["write_log"]["dirty_capacity_bytes"].as_u64().expect("it takes writes");
    assert!(capacity < PIECES * PIECE_PAGES * PAGE_BYTES, "{capacity} bytes: the volume does not fill its log");
    let (stop, answered, mut host) = (AtomicBool::new(false), AtomicU64::new(0), Host::new(0, REGION, 7));
    let longest = thread::scope(|scope| {
        let _stop = StopOnPanic(&stop);
        let (asked, stop, answered, host) = (&daemon, &stop, &answered, &mut host);
        let works = scope.spawn(move || host.work_through(|| asked.client("w"), stop));
        eventually("there is a load", TIMEOUT, || daemon.stat("w", "writes") > 300);
        hung.set(Fault::HangWrites);
        // Until one is not answered, or too late.
        let fills = scope.spawn(move || fill(&mut asked.client("full"), answered));
        let mut before = 0;
        // One whose backing device hangs for long has half of it.
        eventually("the log is full", TIMEOUT, || {
            let now = answered.load(Ordering::Relaxed);
            let waits = std::mem::replace(&mut before, now) == now;
            waits && daemon.dirty_bytes("full") + 2 * MIB > capacity / 2
        });
        let writes = daemon.stat("w", "writes");
        eventually("the other one goes on", TIMEOUT, || daemon.stat("w", "writes") > writes + 1000);
        assert!(daemon.dirty_bytes("full") <= capacity, "{before} pieces were answered");
        assert!(answered.load(Ordering::Relaxed) < PIECES, "some of them wait");
        hung.set(Fault::None);
        fills.join().expect("it ends");
        stop.store(true, Ordering::Relaxed);
        works.join().expect("no host sees an error")
    });
    assert!(longest < HELD_UP, "a host waited for {longest:?}");
    assert_eq!(daemon.stat("w", "errors"), 0);
    host.check_all(&mut daemon.client("w"));
    let mut client = daemon.client("full");
    for first in (0..answered.load(Ordering::Relaxed)).map(|piece| piece * PIECE_PAGES) {
        assert_pages(&client.read(first * PAGE_BYTES, PIECE_LENGTH).expect("a read"), first, 1);
    }
}

const PIECE_LENGTH: u32 = 1 << 20;

/// Writes piece after piece, and counts those that are answered as done.
fn fill(client: &mut Client, answered: &AtomicU64) {
    for first in (0..PIECES).map(|piece| piece * PIECE_PAGES) {
        if client.write(first * PAGE_BYTES, &pages(first, PIECE_PAGES, 1)).is_err() {
            return;
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
}
