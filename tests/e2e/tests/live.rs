//! A pool whose SSDs fail, come and go under the load of hosts that check every byte: writes stay cached, nothing is lost, and no
//! host sees an error.

use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::MIB;
use hotset_e2e::load::{Host, StopOnPanic};
use hotset_e2e::pattern::PAGE_BYTES;
use hotset_e2e::tools::eventually;
use serde_json::{Value, json};

/// Sectors of one host's region: 4 MiB.
pub(crate) const REGION: u64 = 4 * MIB / 512;
pub(crate) const HOSTS: u64 = 3;
/// The longest that anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

fn daemon_with(ssds_mib: &[u64]) -> Daemon {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(ssds_mib, "--populate-on-read 1");
    daemon.make_volume(HOSTS * REGION * 512 / PAGE_BYTES, "p");
    daemon
}

/// Does something to the daemon while hosts work; then compares all that they wrote.
pub(crate) fn under_load(daemon: &mut Daemon, act: impl FnOnce(&mut Daemon)) {
    let mut hosts: Vec<Host> = (0..HOSTS).map(|index| Host::new(index * REGION, REGION, index + 1)).collect();
    let (started, stop) = (Barrier::new(hosts.len() + 1), AtomicBool::new(false));
    let clients: Vec<_> = hosts.iter().map(|_| daemon.client("v")).collect();
    thread::scope(|scope| {
        let _stop = StopOnPanic(&stop);
        for (host, mut client) in hosts.iter_mut().zip(clients) {
            let (started, stop) = (&started, &stop);
            scope.spawn(move || {
                started.wait();
                host.work(&mut client, stop).expect("no host sees an error");
            });
        }
        started.wait();
        eventually("there is a load", TIMEOUT, || daemon.stat("v", "writes") > 300);
        act(daemon);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(daemon.stat("v", "errors"), 0);
    let mut client = daemon.client("v");
    hosts.iter_mut().for_each(|host| host.check_all(&mut client));
}

/// An image for one more SSD.
fn image(daemon: &Daemon, name: &str, mib: u64) -> String {
    let path = daemon.site.path(name);
    fs::write(&path, vec![0x5a; usize::try_from(mib * MIB).expect("an image fits in memory")])
        .expect("an image can be written");
    path.display().to_string()
}

fn shrink(daemon: &Daemon, name: &str) {
    let file = fs::File::options().write(true).open(daemon.site.path(name));
    file.and_then(|file| file.set_len(MIB)).expect("a file can shrink");
}

pub(crate) fn is_good_with(daemon: &Daemon, ssds: usize) -> bool {
    // Health is asked for last: it was good before an SSD left, too.
    serves_with(daemon, ssds) && daemon.json("pool show p")["health"] == "good"
}

/// Whatever is to be said of the SSDs.
pub(crate) fn serves_with(daemon: &Daemon, ssds: usize) -> bool {
    let pool = daemon.json("pool show p");
    let online = pool["ssds"].as_array().map_or(0, |ssds| ssds.iter().filter(|ssd| ssd["online"] == true).count());
    online == ssds && pool["write_log"]["write_caching_off"] == false
}

/// So many SSDs have two copies of everything again, and the one that failed is not forgotten.
fn has_healed_with(daemon: &Daemon, ssds: usize) -> bool {
    let pool = daemon.json("pool show p");
    let reason = pool["reason"].as_str().unwrap_or("");
    let tells = pool["health"] == "degraded" && reason.contains("out of use");
    tells && pool["rebuild"].is_null() && serves_with(daemon, ssds)
}

/// The newest operation of a kind.
#[track_caller]
fn last_operation(daemon: &Daemon, kind: &str) -> Value {
    let list = daemon.json("operations");
    let found = list["operations"].as_array().and_then(|all| all.iter().find(|one| one["kind"] == kind)).cloned();
    found.unwrap_or_else(|| panic!("no {kind} in {list}"))
}

// proves: F2
#[test]
fn a_pool_of_three_ssds_heals_by_itself_and_stays_in_write_back() {
    let mut daemon = daemon_with(&[48, 48, 48]);
    under_load(&mut daemon, |daemon| {
        shrink(daemon, "ssd0");
        eventually("all of it has two copies again", TIMEOUT, || has_healed_with(daemon, 2));
        let hits = daemon.stat("v", "write_hits");
        eventually("writes are cached", TIMEOUT, || daemon.stat("v", "write_hits") > hits + 100);
    });
    let status = daemon.ok("status");
    assert!(status.contains("expelled") && status.contains("pool add-ssd p"), "what to do is said: {status}");
    assert!(daemon.stop().success());
}

// proves: P5
#[test]
fn ssds_are_added_and_removed_under_load() {
    let mut daemon = daemon_with(&[48, 48]);
    let more = image(&daemon, "more", 48);
    let first = daemon.site.path("ssd0").display().to_string();
    under_load(&mut daemon, |daemon| {
        daemon.ok(&format!("pool add-ssd p --ssd {more}"));
        assert!(is_good_with(daemon, 3));
        daemon.refuse(&format!("pool add-ssd p --ssd {more}"), 1, "in use");
        daemon.ok(&format!("pool remove-ssd p --ssd {first}"));
        assert!(is_good_with(daemon, 2));
        daemon.refuse(&format!("pool remove-ssd p --ssd {more}"), 1, "two copies");
    });
    assert_eq!(last_operation(&daemon, "remove-ssds")["state"], "failed", "the one that was refused is the last");
    fs::remove_file(first).expect("it is nobody's");
    daemon.restart();
    assert!(is_good_with(&daemon, 2));
    assert!(daemon.stop().success());
}

// proves: F3
#[test]
fn a_spare_takes_over_under_load_and_is_an_ssd_after_a_restart() {
    let mut daemon = daemon_with(&[48, 48]);
    let spare = image(&daemon, "spare", 48);
    daemon.ok(&format!("pool add-spare p --ssd {spare}"));
    daemon.restart();
    assert_eq!(daemon.json("pool show p")["spares"].as_array().map(Vec::len), Some(1));
    under_load(&mut daemon, |daemon| {
        shrink(daemon, "ssd1");
        eventually("the spare has taken over", TIMEOUT, || is_good_with(daemon, 2));
    });
    assert!(daemon.stop().success());
}

/// A pool of three SSDs that are slow, so that whatever is done to them takes its time, with 4 MiB of dirty data.
fn with_slow_ssds() -> (Daemon, [String; 3]) {
    let daemon = Daemon::start();
    let ssds = ["ssd0", "ssd1", "ssd2"].map(|name| {
        let file = daemon.site.blank(name, 32 * MIB);
        format!("emulated-ssd:iops=4000,rate=2M,flush=1ms,file={}", file.display())
    });
    let create = "pool create p --type read-write --io-type custom --block-size 64K --ssd";
    daemon.ok(&format!("{create} {}", ssds.join(" ")));
    daemon.make_volume(1024, "p");
    daemon.ok("pool set p dirty-age=30d dirty-watermark=90 flush-rate=low");
    let mut client = daemon.client("v");
    (0..64).for_each(|piece| client.write(piece * 65536, &[3; 65536]).expect("a write"));
    (daemon, ssds)
}

// proves: P5, P10
#[test]
fn a_removal_is_an_operation_with_progress_that_can_be_cancelled() {
    let (daemon, ssds) = with_slow_ssds();
    let begun = daemon.json(&format!("pool remove-ssd p --ssd {} --background", ssds[0]));
    assert_eq!((&begun["kind"], &begun["cancellable"]), (&json!("remove-ssds"), &json!(true)), "{begun}");
    let state = |daemon: &Daemon| daemon.json("pool show p")["ssds"][0]["state"].clone();
    assert_eq!(state(&daemon), "flushing");
    assert_eq!(daemon.json("pool show p")["ssds"][0]["reason"], "it is being emptied, so that it can be removed");
    assert!(daemon.ok("status").contains("remove-ssds"), "{}", daemon.ok("status"));
    // Who cancelled one of two would end the other.
    daemon.refuse(&format!("pool remove-ssd p --ssd {} --background", ssds[1]), 1, "SSDs are being removed");
    eventually("its progress is shown", TIMEOUT, || {
        let now = last_operation(&daemon, "remove-ssds");
        let known = |key: &str| now[key].as_u64().is_some_and(|value| value > 0);
        known("total_bytes") && known("rate_bytes_per_second") && known("eta_seconds")
    });
    assert!(daemon.ok(&format!("operations cancel {}", begun["id"])).contains("Cancelled"));
    eventually("it has ended", TIMEOUT, || last_operation(&daemon, "remove-ssds")["state"] == "cancelled");
    assert_eq!(state(&daemon), "online");
    daemon.ok(&format!("pool remove-ssd p --ssd {}", ssds[0]));
    assert_eq!(last_operation(&daemon, "remove-ssds")["state"], "done");
    assert!(is_good_with(&daemon, 2));
    assert_eq!(daemon.client("v").read(63 * 65536, 65536).expect("a read"), [3; 65536]);
}

// proves: F2, P9, P10
#[test]
fn what_lost_a_copy_is_made_anew_as_an_operation_and_the_words_say_so() {
    let (daemon, ssds) = with_slow_ssds();
    shrink(&daemon, "ssd0");
    let mut client = daemon.client("v");
    (0..16).for_each(|piece| client.write(piece * 65536, &[4; 65536]).expect("no host sees an error"));
    let word = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let mut seen = (String::new(), String::new(), Value::Null);
    eventually("the rebuild is shown", TIMEOUT, || {
        let pool = daemon.json("pool show p");
        seen = (word(&pool["state"]), word(&pool["health"]), daemon.json("volume show v"));
        let gets_copies = |ssd: &Value| ssd["state"] == "rebuilding" && word(&ssd["reason"]).contains("gets copies");
        seen.0 == "rebuilding" && pool["ssds"].as_array().is_some_and(|ssds| ssds.iter().any(gets_copies))
    });
    assert_eq!(seen.1, "degraded");
    assert_eq!((&seen.2["cache_state"], &seen.2["cache_health"]), (&json!("rebuilding"), &json!("degraded")));
    assert!(word(&seen.2["reason"]).contains("second copies of dirty data"), "{}", seen.2);
    let is_event = |subject: &str, change: &str| {
        daemon.ok("events").lines().any(|line| line.contains(subject) && line.contains(change))
    };
    for subject in ["volume v", "pool p"] {
        eventually("what is rebuilt is an event", TIMEOUT, || is_event(subject, "→ rebuilding"));
    }
    assert!(is_event("pool p", "→ degraded"), "{}", daemon.ok("events"));
    eventually("all has two copies again", TIMEOUT, || has_healed_with(&daemon, 2));
    eventually("it has ended", TIMEOUT, || last_operation(&daemon, "rebuild")["state"] == "done");
    // The one that failed is not forgotten before it is replaced or removed.
    daemon.ok(&format!("pool remove-ssd p --ssd {}", ssds[0]));
    eventually("so is that the cache is as good as before", TIMEOUT, || is_event("volume v", "→ optimal"));
    eventually("so is that the pool is", TIMEOUT, || is_event("pool p", "→ good"));
}

// proves: F3, P9
#[test]
fn a_spare_that_took_over_for_an_ssd_that_was_missing_at_the_start_makes_the_pool_good_for_good() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 48], "");
    daemon.make_volume(256, "p");
    let spare = image(&daemon, "spare", 48);
    daemon.ok(&format!("pool add-spare p --ssd {spare}"));
    daemon.client("v").write(0, &[7; 4096]).expect("a write");
    daemon.kill();
    fs::rename(daemon.site.path("ssd0"), daemon.site.path("away")).expect("an SSD can be pulled out");
    daemon.launch();
    eventually("the spare has taken over", TIMEOUT, || is_good_with(&daemon, 2));
    let volume = daemon.json("volume show v");
    assert_eq!((&volume["cache_state"], &volume["cache_health"]), (&json!("online"), &json!("optimal")), "{volume}");
    assert_eq!(daemon.json("pool show p")["reason"], "");
    daemon.restart();
    assert!(is_good_with(&daemon, 2), "{}", daemon.ok("status"));
    assert_eq!(daemon.client("v").read(0, 4096).expect("a read"), [7; 4096]);
}
