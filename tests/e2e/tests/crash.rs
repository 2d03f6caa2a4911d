//! The daemon's death at any moment, and clean restarts: nothing lost, nothing stale, warm.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::{MIB, assert_file_pages};
use hotset_e2e::load::{Host, StopOnPanic};
use hotset_e2e::nbd::Error;
use hotset_e2e::pattern::{PAGE_BYTES, Random, assert_pages};
use hotset_e2e::tools;

/// Sectors of one host's region: 12 MiB.
const REGION: u64 = 12 * MIB / 512;

// proves: F7, D5, D11, D14
#[test]
fn killed_ten_times_under_load_it_loses_nothing_and_shows_nothing_stale() {
    let mut daemon = Daemon::start();
    // Smaller than the regions together: blocks come and go all the time.
    daemon.make_pool(&[12, 10], "--populate-on-read 1 --populate-on-write 1");
    daemon.make_volume(3 * REGION * 512 / PAGE_BYTES, "p");
    let mut hosts: Vec<_> = (0..3).map(|index| Host::new(index * REGION, REGION, index + 1)).collect();
    let mut random = Random::new(5);
    for _ in 0..10 {
        let load_ms = 200 + random.below(600);
        work_until_killed(&mut daemon, &mut hosts, Duration::from_millis(load_ms));
        daemon.launch();
        let mut client = daemon.client("v");
        for host in &mut hosts {
            host.reconcile_after_crash(&mut client);
        }
        // Reads stay as they were first seen, also when they come from the cache.
        for host in &mut hosts {
            host.check_all(&mut client);
        }
    }
    assert!(hosts.iter().map(Host::answered).sum::<u64>() > 1000, "there was a load");
    assert!(daemon.stop().success());
    let backing = daemon.site.path("backing");
    hosts.iter_mut().for_each(|host| host.check_file(&backing));
}

fn work_until_killed(daemon: &mut Daemon, hosts: &mut [Host], load: Duration) {
    let started = Barrier::new(hosts.len() + 1);
    let never = AtomicBool::new(false);
    let clients: Vec<_> = hosts.iter().map(|_| daemon.client("v")).collect();
    thread::scope(|scope| {
        let _stop = StopOnPanic(&never);
        for (host, mut client) in hosts.iter_mut().zip(clients) {
            let (started, never) = (&started, &never);
            scope.spawn(move || {
                started.wait();
                match host.work(&mut client, never) {
                    Err(Error::Connection(_)) => {}
                    Err(error) => panic!("{error}"),
                    Ok(()) => unreachable!("nobody says stop"),
                }
            });
        }
        started.wait();
        // The length of the load is what this test varies.
        thread::sleep(load);
        daemon.kill();
    });
}

// proves: D14
#[test]
fn it_is_warm_after_a_clean_restart() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[16, 24, 40], "--populate-on-read 1");
    daemon.make_volume(8192, "p");
    daemon.warm_up(8192);
    let before = daemon.cache_used_bytes("v");
    for round in 0..3 {
        daemon.restart();
        let after = daemon.cache_used_bytes("v");
        assert!(after * 100 >= before * 95, "restart {round}: {after} of {before} bytes are left");
        assert_hit_ratio(&daemon, 0.95);
    }
    assert_eq!(daemon.stat("v", "populated_bytes"), 0, "nothing had to be read again");
}

// proves: D14
#[test]
fn it_is_warm_after_a_kill_as_far_as_it_was_published() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[24, 40], "--populate-on-read 1");
    daemon.make_volume(8192, "p");
    daemon.warm_up(8192);
    let before = daemon.cache_used_bytes("v");
    tools::eventually("all slots are published", Duration::from_secs(60), || {
        daemon.json("pool show p")["slots_unpublished"] == 0
    });
    daemon.kill();
    daemon.launch();
    let after = daemon.cache_used_bytes("v");
    assert!(after * 100 >= before * 90, "{after} of {before} bytes are left");
    assert_hit_ratio(&daemon, 0.9);
    // And again, without anything new: what is believed stays believed.
    daemon.kill();
    daemon.launch();
    let again = daemon.cache_used_bytes("v");
    assert!(again * 100 >= after * 99, "{again} of {after} bytes are left");
}

/// Reads 2000 random pages and asserts their bytes and how many of them the cache answered.
fn assert_hit_ratio(daemon: &Daemon, least: f64) {
    let (reads, hits) = (daemon.stat("v", "reads"), daemon.stat("v", "read_hits"));
    let mut client = daemon.client("v");
    let mut random = Random::new(reads + 3);
    for _ in 0..2000 {
        let page = random.below(8192);
        assert_pages(&client.read(page * PAGE_BYTES, 4096).expect("a read"), page, 0);
    }
    assert_eq!(daemon.stat("v", "reads") - reads, 2000);
    let ratio = f64::from(u32::try_from(daemon.stat("v", "read_hits") - hits).expect("at most 2000")) / 2000.0;
    assert!(ratio >= least, "hit ratio {ratio}");
}

// proves: F7
#[test]
fn killed_while_it_starts_it_starts_the_next_time() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[16, 16], "--populate-on-read 1 --populate-on-write 1");
    let backing = daemon.make_volume(2048, "p");
    daemon.warm_up(2048);
    let mut random = Random::new(11);
    for _ in 0..12 {
        daemon.kill();
        daemon.launch_and_kill_after(Duration::from_micros(random.below(60_000)));
        daemon.launch();
    }
    daemon.assert_volume_pages(2048);
    assert!(daemon.stop().success());
    assert_file_pages(&backing, 0);
}

// proves: D8, S4
#[test]
fn it_stops_within_seconds_and_cleanly_whatever_the_load() {
    for signal in ["-TERM", "-INT"] {
        let mut daemon = Daemon::start();
        daemon.make_pool(&[16], "--populate-on-read 1 --populate-on-write 1");
        daemon.make_volume(3 * REGION * 512 / PAGE_BYTES, "p");
        let mut hosts: Vec<_> = (0..3).map(|index| Host::new(index * REGION, REGION, index + 1)).collect();
        let clients: Vec<_> = hosts.iter().map(|_| daemon.client("v")).collect();
        let never = AtomicBool::new(false);
        let status = thread::scope(|scope| {
            let _stop = StopOnPanic(&never);
            for (host, mut client) in hosts.iter_mut().zip(clients) {
                let never = &never;
                scope.spawn(move || host.work(&mut client, never).expect_err("the daemon ends the connection"));
            }
            let busy = || daemon.stat("v", "writes") > 500;
            tools::eventually("there is a load", Duration::from_secs(20), busy);
            daemon.stop_by(signal)
        });
        assert_eq!(status.code(), Some(0), "{signal}");
        daemon.launch();
        let mut client = daemon.client("v");
        hosts.iter_mut().for_each(|host| host.reconcile_after_crash(&mut client));
    }
}
