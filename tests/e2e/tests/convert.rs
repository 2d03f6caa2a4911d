//! Pools that get another cache block or another type in place: under load, cancelled, refused, and cut off at any moment.

use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hotset_e2e::apart::{assert_written_apart, with_dirty_pages};
use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::{MIB, overwrite};
use hotset_e2e::load::{Host, StopOnPanic};
use hotset_e2e::nbd::Error;
use hotset_e2e::pattern::PAGE_BYTES;
use hotset_e2e::tools::eventually;
use serde_json::{Value, json};

use crate::clients::fio_verify;

/// Sectors of one host's region: 4 MiB.
const REGION: u64 = 4 * MIB / 512;
const HOSTS: u64 = 2;
/// The longest that anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Dirty pages that take seconds to flush.
const MUCH: u64 = 2000;

/// What a pool is: its cache block and its type.
fn form(daemon: &Daemon) -> (u64, String) {
    let pool = daemon.json("pool show p");
    let kind = pool["type"].as_str().expect("a pool has a type").to_owned();
    (pool["block_size_bytes"].as_u64().expect("a pool has a block"), kind)
}

fn is_converting(daemon: &Daemon) -> bool {
    record(daemon).exists()
}

/// The one operation that this daemon knows of.
fn conversion(daemon: &Daemon) -> Value {
    let operation = daemon.json("operations")["operations"][0].clone();
    assert_eq!(operation["kind"], "convert-pool", "{operation}");
    operation
}

fn record(daemon: &Daemon) -> PathBuf {
    daemon.site.path("state/pools/p.convert")
}

// proves: P16
#[test]
fn fio_finds_no_wrong_byte_and_no_error_while_a_pool_is_converted_to_and_fro() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 40, 32], "--populate-on-read 1");
    daemon.make_volume(32 * MIB / PAGE_BYTES, "p");
    let spare = daemon.site.blank("spare", 48 * MIB);
    daemon.ok(&format!("pool add-spare p --ssd {}", spare.display()));
    daemon.ok("pool set p policy=lru fetch-rate=high dirty-age=30d dirty-watermark=77");
    daemon.ok("volume set v write-cutoff=off");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopOnPanic(&done);
        // For as long as it takes: each of them checks what it wrote.
        let load = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fio_verify(&daemon, 2, 16, &["--time_based", "--runtime=4"]);
            }
        });
        eventually("there is a load", TIMEOUT, || daemon.stat("v", "write_hits") > 300);
        let said = daemon.ok("pool convert p --block-size 1M");
        assert!(said.contains("cache block of 1 MiB"), "{said}");
        daemon.ok("pool convert p --type read");
        daemon.ok("pool convert p --block-size 128K --type read-write");
        done.store(true, Ordering::Relaxed);
        load.join().expect("fio found no wrong byte");
    });
    for _ in 0..2 {
        assert_eq!(form(&daemon), (128 << 10, "read-write".to_owned()));
        let pool = daemon.json("pool show p");
        assert_eq!((&pool["policy"], &pool["dirty_watermark_percent"]), (&json!("lru"), &json!(77)), "{pool}");
        assert_eq!((&pool["fetch_rate"], &pool["dirty_age_max_seconds"]), (&json!("high"), &json!(30 * 86_400)));
        assert_eq!((&pool["health"], &pool["io_type"]), (&json!("good"), &json!("custom")), "{pool}");
        assert_eq!(pool["ssds"].as_array().map(Vec::len), Some(3), "{pool}");
        assert_eq!(pool["spares"][0]["path"], spare.display().to_string(), "{pool}");
        let volume = daemon.json("volume show v");
        assert_eq!((&volume["pool"], &volume["write_cutoff_bytes"]), (&json!("p"), &Value::Null), "{volume}");
        assert_eq!(volume["stats"]["errors"], 0);
        daemon.restart();
    }
    let said = daemon.ok("pool convert p --block-size 128K");
    assert!(said.contains("128 KiB now"), "what is so already is no error: {said}");
}

// proves: F7, P16
#[test]
fn killed_at_any_moment_a_conversion_ends_by_itself_after_the_next_start() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[32, 32], "--populate-on-read 1");
    daemon.make_volume(HOSTS * REGION * 512 / PAGE_BYTES, "p");
    let mut hosts: Vec<Host> = (0..HOSTS).map(|index| Host::new(index * REGION, REGION, index + 1)).collect();
    let mut cut_off = 0;
    for round in 0..10_u64 {
        let block = if round % 2 == 0 { 1 << 20 } else { 64 << 10 };
        convert_and_kill(&mut daemon, &mut hosts, block, Duration::from_millis(25 * round));
        cut_off += u32::from(is_converting(&daemon));
        daemon.launch();
        eventually("the conversion has ended", TIMEOUT, || !is_converting(&daemon));
        eventually("the pool is there", TIMEOUT, || daemon.json("pool show p")["health"] == "good");
        assert_eq!(form(&daemon), (block, "read-write".to_owned()), "round {round}");
        assert_eq!(daemon.json("volume show v")["pool"], "p");
        let mut client = daemon.client("v");
        hosts.iter_mut().for_each(|host| host.reconcile_after_crash(&mut client));
        hosts.iter_mut().for_each(|host| host.check_all(&mut client));
    }
    assert!(cut_off > 0, "the kills came in the middle");
    daemon.ok("pool delete p");
    assert!(daemon.stop().success());
    let backing = daemon.site.path("backing");
    hosts.iter_mut().for_each(|host| host.check_file(&backing));
}

/// Hosts write while a conversion is begun, which lives no longer than `life`.
fn convert_and_kill(daemon: &mut Daemon, hosts: &mut [Host], block_bytes: u64, life: Duration) {
    let (started, never) = (Barrier::new(hosts.len() + 1), AtomicBool::new(false));
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
        eventually("there is a load", TIMEOUT, || daemon.stat("v", "writes") > 200);
        daemon.ok(&format!("pool convert p --block-size {block_bytes} --background"));
        // How far it has come is what this test varies.
        thread::sleep(life);
        daemon.kill();
    });
}

// proves: P16
#[test]
fn a_conversion_shows_its_progress_is_cancelled_and_goes_on_after_a_clean_stop() {
    let (mut daemon, _) = with_dirty_pages(MUCH);
    let other = daemon.site.blank("other", MIB);
    let begun = daemon.json("pool convert p --block-size 256K --background");
    assert_eq!((&begun["kind"], &begun["cancellable"]), (&json!("convert-pool"), &json!(true)), "{begun}");
    assert!(begun["total_bytes"].as_u64().is_some_and(|bytes| bytes > MIB), "{begun}");
    let again = daemon.json("pool convert p --block-size 256K --background");
    assert_eq!(again["id"], begun["id"], "the same conversion is joined");
    daemon.refuse("pool convert p --block-size 1M", 1, "cancel");
    daemon.refuse("pool delete p", 1, "convert-pool");
    daemon.ok(&format!("operations cancel {}", begun["id"]));
    assert!(!is_converting(&daemon));
    assert_eq!(form(&daemon), (64 << 10, "read-write".to_owned()));
    let ended = &daemon.json("operations")["operations"][0];
    assert_eq!(ended["state"], "cancelled", "{ended}");

    daemon.json("pool convert p --block-size 256K --background");
    assert!(daemon.ok("status").contains("convert-pool"));
    daemon.refuse(&format!("volume create w --backing {} --pool p", other.display()), 1, "flushed");
    daemon.restart();
    assert!(is_converting(&daemon), "what is meant outlives a clean stop");
    daemon.ok("pool set p flush-rate=high");
    eventually("it ends by itself", TIMEOUT, || !is_converting(&daemon));
    assert_eq!(form(&daemon), (256 << 10, "read-write".to_owned()));
    assert_written_apart(&daemon, MUCH);
}

// proves: P14
#[test]
fn a_conversion_is_refused_with_its_reason_and_changes_nothing() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[64], "");
    daemon.make_volume(1024, "p");
    daemon.refuse("pool convert p", 2, "--block-size");
    daemon.refuse("pool convert p --block-size 3M", 2, "power of two");
    daemon.refuse("pool convert p --type read-write", 1, "at least two");
    daemon.refuse("pool convert q --block-size 1M", 1, "no such pool");
    daemon.refuse("pool set p block-size=1M", 2, "pool convert");
    let plan = daemon.ok("pool convert p --block-size 4M --dry-run");
    assert!(plan.contains("not made: dry run") && plan.contains("of 4 MiB"), "{plan}");
    let more = daemon.site.blank("more", 64 * MIB).display().to_string();
    daemon.ok(&format!("pool add-ssd p --ssd {more}"));
    let plan = daemon.json("pool convert p --type read-write --dry-run");
    daemon.add_arguments(&format!("--memory-limit {}", plan["memory_bytes"].as_u64().expect("a plan says it") - 1));
    daemon.restart();
    daemon.refuse("pool convert p --type read-write", 1, "of memory");
    let file = fs::File::options().write(true).open(&more);
    file.and_then(|file| file.set_len(MIB)).expect("a file can shrink");
    let mut client = daemon.client("v");
    client.cache(0, 1 << 20).expect("the cache has room");
    eventually("the pool is degraded", TIMEOUT, || {
        // Something has to be asked of the SSD.
        client.cache(1 << 20, 1 << 20).expect("the cache has room");
        daemon.json("pool show p")["health"] == "degraded"
    });
    daemon.refuse("pool convert p --block-size 1M", 1, "only a good pool");
    assert_eq!(form(&daemon), (64 << 10, "read".to_owned()));
    assert!(!is_converting(&daemon));
}

// proves: P16
#[test]
fn a_conversion_that_is_cancelled_after_a_volume_has_left_gives_it_back_to_the_pool() {
    let (mut daemon, _) = with_dirty_pages(MUCH);
    let other = daemon.site.blank("other", MIB);
    daemon.ok(&format!("volume create w --backing {}", other.display()));
    daemon.json("pool convert p --block-size 256K --background");
    let mut meant = recorded(&daemon);
    daemon.ok("pool cancel-flush p");
    daemon.kill();
    // As it is when the conversion was cut off while volumes left the pool, one after the other.
    meant["volumes"] = json!(["v", "w"]);
    fs::write(record(&daemon), meant.to_string()).expect("the record can be written");
    daemon.launch();
    daemon.ok("pool cancel-flush p");
    eventually("it is undone", TIMEOUT, || !is_converting(&daemon));
    assert_eq!(daemon.json("volume show w")["pool"], "p");
    assert_eq!(form(&daemon), (64 << 10, "read-write".to_owned()));
    let operations = daemon.json("operations");
    let states: Vec<&Value> =
        operations["operations"].as_array().expect("a list").iter().map(|one| &one["state"]).collect();
    assert!(states.iter().all(|state| *state == "cancelled"), "{operations}");
    daemon.ok("pool set p flush-rate=high");
    assert_written_apart(&daemon, MUCH);
}

/// What is meant, as it is on record while the pool is drained.
fn recorded(daemon: &Daemon) -> Value {
    let text = fs::read_to_string(record(daemon)).expect("what is meant is recorded");
    let meant: Value = serde_json::from_str(&text).expect("the record is JSON");
    assert_eq!(meant["phase"], "draining");
    meant
}

/// The record of a conversion that was cut off while the SSDs were made anew.
fn cut_off_while_rewriting(daemon: &mut Daemon) {
    daemon.ok("pool set p flush-rate=high");
    daemon.json("pool convert p --block-size 256K --background");
    let mut meant = recorded(daemon);
    daemon.ok("pool cancel-flush p");
    daemon.ok("volume disable-cache v");
    assert!(daemon.stop().success());
    meant["phase"] = json!("rewriting");
    fs::write(record(daemon), meant.to_string()).expect("the record can be written");
    // One SSD has forgotten its pool, the other one has not.
    overwrite(&daemon.site.path("ssd0"), 0, &vec![0; 1 << 17]);
}

// proves: F7
#[test]
fn ssds_that_were_being_made_anew_are_made_anew_from_the_beginning() {
    let (mut daemon, _) = with_dirty_pages(MUCH);
    cut_off_while_rewriting(&mut daemon);
    daemon.launch();
    assert!(!is_converting(&daemon), "that takes no time");
    assert_eq!(form(&daemon), (256 << 10, "read-write".to_owned()));
    assert_eq!(daemon.json("volume show v")["pool"], "p");
    assert_eq!(daemon.json("pool show p")["flush_rate"], "high");
    assert_written_apart(&daemon, MUCH);
}

// proves: F7, F11
#[test]
fn a_pool_that_was_made_anew_and_could_not_be_recorded_is_recorded_when_it_can_be() {
    let (mut daemon, _) = with_dirty_pages(MUCH);
    cut_off_while_rewriting(&mut daemon);
    let in_the_way = daemon.site.path("state/pools/p.json.new");
    fs::create_dir(&in_the_way).expect("a folder can be made");
    daemon.launch();
    assert!(is_converting(&daemon), "its record cannot be written");
    fs::remove_dir(&in_the_way).expect("it is empty");
    eventually("the conversion ends", TIMEOUT, || !is_converting(&daemon));
    assert_eq!(form(&daemon), (256 << 10, "read-write".to_owned()));
    eventually("its volume is in it", TIMEOUT, || daemon.json("volume show v")["pool"] == "p");
    assert_written_apart(&daemon, MUCH);
}

// proves: F8
#[test]
fn another_device_in_the_place_of_an_ssd_is_not_overwritten_and_the_volume_is_served_meanwhile() {
    let (mut daemon, _) = with_dirty_pages(MUCH);
    cut_off_while_rewriting(&mut daemon);
    let (ssd, away) = (daemon.site.path("ssd1"), daemon.site.path("away"));
    fs::rename(&ssd, &away).expect("an SSD can be taken out");
    let other = vec![7; 64 << 20];
    fs::write(&ssd, &other).expect("another one takes its place");
    daemon.launch();
    let pool = daemon.json("pool show p");
    assert_eq!(pool["state"], "offline", "{pool}");
    assert!(pool["reason"].as_str().is_some_and(|why| why.contains("another device is in its place")), "{pool}");
    assert!(daemon.is_online("v"));
    let operation = conversion(&daemon);
    assert_eq!(
        (&operation["state"], &operation["asked_by"]),
        (&json!("running"), &json!("")),
        "{operation}: by the daemon itself"
    );
    assert!(operation["waits_for"].as_str().is_some_and(|what| what.contains("devices")), "{operation}");
    assert_written_apart(&daemon, MUCH);
    daemon.refuse(&format!("pool import --ssd {}", away.display()), 1, "being converted");
    assert!(fs::read(&ssd).expect("it can be read") == other, "not a byte of it has changed");
    fs::rename(&away, &ssd).expect("the right one comes back");
    eventually("the conversion ends", TIMEOUT, || !is_converting(&daemon));
    eventually("so does its operation, the same one", TIMEOUT, || {
        let ended = conversion(&daemon);
        ended["id"] == operation["id"] && ended["state"] == "done"
    });
    assert_eq!(form(&daemon), (256 << 10, "read-write".to_owned()));
    assert_eq!(daemon.json("volume show v")["pool"], "p");
}

// proves: F8
#[test]
fn a_conversion_that_waits_for_an_ssd_is_given_up_with_its_pool() {
    let (mut daemon, _) = with_dirty_pages(MUCH);
    cut_off_while_rewriting(&mut daemon);
    fs::remove_file(daemon.site.path("ssd1")).expect("an SSD can be lost");
    daemon.launch();
    assert_eq!(conversion(&daemon)["state"], "running");
    daemon.ok("pool delete p --force --yes-lose-data");
    eventually("nobody goes on with it", TIMEOUT, || conversion(&daemon)["state"] == "cancelled");
    assert!(!is_converting(&daemon));
    assert_written_apart(&daemon, MUCH);
}

// proves: F7, F11
#[test]
fn a_conversion_of_which_nothing_can_be_read_waits_for_its_record_and_needs_no_restart() {
    let (mut daemon, _) = with_dirty_pages(MUCH);
    cut_off_while_rewriting(&mut daemon);
    let away = daemon.site.path("away");
    fs::rename(record(&daemon), &away).expect("it can be taken away");
    fs::create_dir(record(&daemon)).expect("a folder can be made");
    daemon.launch();
    daemon.refuse("status --check", 2, "p.convert");
    // Its SSDs mean nothing, if the record says so.
    let ssds = ["ssd0", "ssd1"].map(|name| daemon.site.path(name).display().to_string()).join(" ");
    daemon.refuse("pool open p", 1, "p.convert");
    let create = "pool create p --type read --io-type database --force --allow-same-disk --ssd";
    daemon.refuse(&format!("{create} {ssds}"), 1, "exists already");
    fs::remove_dir(record(&daemon)).expect("it is empty");
    fs::rename(&away, record(&daemon)).expect("it can be put back");
    eventually("the conversion ends", TIMEOUT, || {
        !is_converting(&daemon) && daemon.hotset("pool show p").status.success()
    });
    assert_eq!(form(&daemon), (256 << 10, "read-write".to_owned()));
    eventually("its volume is in it", TIMEOUT, || daemon.json("volume show v")["pool"] == "p");
    assert_written_apart(&daemon, MUCH);
    assert_eq!(daemon.hotset("status --check").status.code(), Some(0), "{}", daemon.ok("status"));
}

// proves: F7, F11
#[test]
fn a_pool_whose_record_of_a_conversion_means_nothing_opens_as_it_is_when_that_is_moved_away() {
    let (mut daemon, _) = with_dirty_pages(8);
    assert!(daemon.stop().success());
    fs::write(record(&daemon), "{").expect("the record can be written");
    daemon.launch();
    let pool = daemon.json("pool show p");
    assert_eq!(pool["state"], "offline", "{pool}");
    assert!(pool["action"].as_str().is_some_and(|action| action.contains("move it away")), "{pool}");
    assert!(!daemon.is_online("v"), "the pool may have newer data");
    fs::remove_file(record(&daemon)).expect("it can be moved away");
    eventually("its volume is served", TIMEOUT, || daemon.is_online("v"));
    assert_written_apart(&daemon, 8);
}
