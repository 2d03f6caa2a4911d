//! `volume flush` and `pool flush`: what is dirty is written to the backing devices now, while hosts go on; with `--hold` it stays so.

use std::time::Duration;

use hotset_e2e::apart::{assert_alone, assert_written_apart, pages_apart, with_dirty_pages};
use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::read_part;
use hotset_e2e::pattern::{PAGE_BYTES, pages};
use hotset_e2e::tools::eventually;
use serde_json::Value;

/// A page that is none of those that are dirty.
const BESIDE: u64 = 7;

fn operation(daemon: &Daemon, id: &Value) -> Value {
    let list = daemon.json("operations")["operations"].clone();
    let found = list.as_array().and_then(|all| all.iter().find(|operation| operation["id"] == *id));
    found.unwrap_or_else(|| panic!("no operation {id}: {list}")).clone()
}

fn changes(daemon: &Daemon) -> Vec<(String, String)> {
    let list = daemon.json("events")["events"].clone();
    let told = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    list.as_array().expect("a list").iter().map(|event| (told(event, "change"), told(event, "by"))).collect()
}

// proves: O3
#[test]
fn what_is_dirty_is_flushed_while_hosts_go_on_and_the_volume_caches_on() {
    let (daemon, file) = with_dirty_pages(1500);
    let begun = daemon.json("volume flush v --background");
    assert_eq!((&begun["kind"], &begun["state"]), (&"flush-volume".into(), &"running".into()), "{begun}");
    assert!(begun["total_bytes"].as_u64().is_some_and(|bytes| bytes > 1000 * PAGE_BYTES), "{begun}");
    daemon.refuse("pool flush p", 1, &format!("hotset operations cancel {}", begun["id"]));
    let (mut client, mut version) = (daemon.client("v"), 0);
    eventually(
        "progress is told and the flush ends, whatever a host writes meanwhile",
        Duration::from_secs(60),
        || {
            version += 1;
            client.write(BESIDE * PAGE_BYTES, &pages(BESIDE, 1, version)).expect("a write");
            let now = operation(&daemon, &begun["id"]);
            assert!(now["done_bytes"].as_u64() <= now["total_bytes"].as_u64(), "{now}");
            now["state"] == "done"
        },
    );
    for page in pages_apart(1500) {
        assert_alone(&read_part(&file, page * PAGE_BYTES, 2 * 4096), page);
    }
    assert_eq!(daemon.json("volume show v")["state"], "online");
    let before = daemon.stat("v", "write_hits");
    client.write(BESIDE * PAGE_BYTES, &pages(BESIDE, 1, version)).expect("a write");
    assert_eq!(daemon.stat("v", "write_hits"), before + 1, "writes are cached as before");
    let said = daemon.ok("pool flush p");
    assert!(said.starts_with("Flushed pool p: "), "{said}");
    assert_eq!(daemon.dirty_bytes("v"), 0);
    eventually("the events say who did it", Duration::from_secs(10), || {
        let told = changes(&daemon);
        ["flush-volume begins", "flush-volume done", "flush-pool done"]
            .iter()
            .all(|change| told.iter().any(|(told, by)| told == change && by.starts_with("user ")))
    });
    daemon.refuse("volume flush nobody", 1, "no such volume");
    daemon.refuse("pool flush nowhere", 1, "no such pool");
}

// proves: O3
#[test]
fn a_flush_in_the_background_can_be_cancelled_and_what_is_dirty_stays() {
    let (daemon, _) = with_dirty_pages(2000);
    let begun = daemon.json("volume flush v --hold --background");
    assert_eq!(daemon.json(&format!("operations cancel {}", begun["id"]))["changed"], true);
    eventually("it has ended", Duration::from_secs(20), || operation(&daemon, &begun["id"])["state"] == "cancelled");
    assert!(daemon.dirty_bytes("v") > 0);
    assert_eq!(daemon.json("volume show v")["writes_held"], Value::Null, "the hold went with it");
    assert_written_apart(&daemon, 2000);
}

// proves: O3
#[test]
fn what_is_held_stays_on_the_backing_device_over_a_kill_until_it_is_released() {
    let (mut daemon, file) = with_dirty_pages(100);
    let said = daemon.ok("pool flush p --hold");
    assert!(said.contains("hotset pool release p"), "{said}");
    let write = |daemon: &Daemon, version| {
        daemon.client("v").write(BESIDE * PAGE_BYTES, &pages(BESIDE, 2, version)).expect("a write");
        read_part(&file, BESIDE * PAGE_BYTES, 2 * 4096) == pages(BESIDE, 2, version)
    };
    assert!(write(&daemon, 2), "it is there when it is answered");
    let held = daemon.json("volume show v");
    assert_eq!((&held["effective_write_mode"], &held["dirty_bytes"]), (&"write-around".into(), &0.into()), "{held}");
    assert!(held["writes_held"]["by"].as_str().is_some_and(|by| by.starts_with("user ")), "{held}");
    let shown = daemon.ok("volume show v");
    assert!(shown.contains("hotset volume release v"), "{shown}");
    daemon.kill();
    daemon.launch();
    eventually("the volume is back", Duration::from_secs(20), || daemon.is_online("v"));
    assert!(write(&daemon, 3), "it is held by the next daemon, too");
    daemon.ok("volume rename v w");
    daemon.ok("volume rename w v");
    assert!(write(&daemon, 4), "a name changes nothing in that");
    assert_eq!(daemon.json("pool release p")["changed"], true);
    assert_eq!(daemon.json("volume release v")["changed"], false);
    assert!(!write(&daemon, 5), "it is cached again");
    // Whoever deletes a volume does not find it held when it is made anew.
    daemon.ok("volume flush v --hold");
    daemon.ok("volume disable-cache v");
    assert!(daemon.json("volume show v")["writes_held"].is_object(), "it has no cache and stays held");
    let backing = daemon.json("volume show v")["backing"].as_str().expect("a path").to_owned();
    daemon.ok("volume delete v");
    daemon.ok(&format!("volume create v --backing {backing} --pool p"));
    assert_eq!(daemon.json("volume show v")["writes_held"], Value::Null);
}
