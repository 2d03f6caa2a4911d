//! `hotset pool scrub`: what rotted on an SSD in use is found and mended before a host needs it.

use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::{MIB, overwrite};
use hotset_e2e::pattern::{PAGE_BYTES, Random, assert_pages, pages};
use hotset_e2e::tools;

const PAGES: u64 = 500;

// proves: D15, S4
#[test]
fn a_scrub_mends_a_rotten_copy_of_dirty_data_and_the_report_says_so() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 48], "--populate-on-read 1");
    daemon.make_volume(4096, "p");
    daemon.ok("pool set p flush-rate=low dirty-age=30d dirty-watermark=90");
    let mut client = daemon.client("v");
    client.write(0, &pages(0, PAGES, 1)).expect("a write");
    assert!(daemon.ok("pool scrub p").contains("nothing bad"));
    let mut random = Random::new(5);
    let junk = random.bytes(1 << 20);
    (2..48).for_each(|mebibyte| overwrite(&daemon.site.path("ssd0"), mebibyte * MIB, &junk));
    let said = daemon.ok("pool scrub p");
    assert!(said.contains("written again from the other copy"), "{said}");
    let scrub = daemon.json("pool show p")["scrub"].clone();
    assert_eq!((&scrub["state"], &scrub["lost_pages"]), (&"finished".into(), &0.into()), "{scrub}");
    assert!(scrub["repaired_pages"].as_u64().is_some_and(|repaired| repaired > 100), "{scrub}");
    assert_eq!(daemon.json("operations")["operations"][0]["kind"], "scrub");
    events_say(&daemon, &["info", "warning"]);
    // The first copy is good again: the second one may rot now.
    (2..48).for_each(|mebibyte| overwrite(&daemon.site.path("ssd1"), mebibyte * MIB, &junk));
    let length = u32::try_from(PAGES * PAGE_BYTES).expect("a read is below 4 GiB");
    assert_pages(&client.read(0, length).expect("a read"), 0, 1);
    assert_eq!(daemon.stat("v", "errors"), 0);
}

/// So bad was the end of each scrub, the first one's first.
fn events_say(daemon: &Daemon, severities: &[&str]) {
    tools::eventually("the ends are events", Duration::from_secs(20), || ends_of_scrubs(daemon) == severities);
}

/// How bad the events say each scrub's end was, the first scrub's first; and they say what it found.
fn ends_of_scrubs(daemon: &Daemon) -> Vec<String> {
    let events = daemon.json("events")["events"].clone();
    let ends = events.as_array().expect("events are a list").iter().filter(|event| event["change"] == "scrub done");
    let severity = |event: &serde_json::Value| {
        assert!(event["cause"].as_str().is_some_and(|found| found.contains(" checked in ")), "{event}");
        event["severity"].as_str().expect("an event has a severity").to_owned()
    };
    ends.map(severity).collect()
}

// proves: D15, O4
#[test]
fn a_scrub_that_finds_dirty_data_without_a_good_copy_is_an_error_among_the_events() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 48], "--populate-on-read 1");
    daemon.make_volume(4096, "p");
    daemon.ok("pool set p flush-rate=low dirty-age=30d dirty-watermark=90");
    daemon.client("v").write(0, &pages(0, PAGES, 1)).expect("a write");
    let junk = Random::new(5).bytes(1 << 20);
    for ssd in ["ssd0", "ssd1"] {
        (2..48).for_each(|mebibyte| overwrite(&daemon.site.path(ssd), mebibyte * MIB, &junk));
    }
    let said = daemon.ok("pool scrub p");
    assert!(said.contains("DIRTY PAGES HAVE NO GOOD COPY"), "{said}");
    events_say(&daemon, &["error"]);
}

// proves: D15, S4
#[test]
fn a_scrub_in_the_background_is_an_operation_that_can_be_cancelled() {
    let daemon = Daemon::start();
    daemon.make_pool(&[64], "--populate-on-read 1");
    daemon.make_volume(8192, "p");
    daemon.warm_up(8192);
    daemon.ok("pool set p fetch-rate=low");
    let begun = daemon.json("pool scrub p --background");
    let id = begun["id"].as_u64().expect("an operation has an id");
    assert_eq!(daemon.json(&format!("operations cancel {id}"))["changed"], true);
    tools::eventually("it has ended", Duration::from_secs(20), || {
        daemon.json("operations")["operations"][0]["state"] == "cancelled"
    });
    assert_eq!(daemon.json("pool show p")["scrub"]["state"], "cancelled");
    daemon.refuse("pool scrub nowhere", 1, "no such pool");
}

// proves: D15, S4
#[test]
fn a_scrub_that_a_kill_cuts_off_goes_on_after_the_start_until_it_is_cancelled() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[64], "--populate-on-read 1");
    daemon.make_volume(8192, "p");
    daemon.warm_up(8192);
    daemon.ok("pool scrub p");
    let whole = daemon.json("pool show p")["scrub"]["whole_ended_unix_ms"].clone();
    assert!(whole.is_u64(), "{whole}");
    daemon.ok("pool set p fetch-rate=low");
    daemon.ok("pool scrub p --background");
    daemon.kill();
    daemon.launch();
    tools::eventually("it goes on", Duration::from_secs(20), || !scrub_operation(&daemon).is_null());
    let operation = scrub_operation(&daemon);
    assert_eq!(operation["asked_by"], "", "{operation}");
    assert!(operation["began_because"].as_str().is_some_and(|why| why.contains("cut off")), "{operation}");
    assert_eq!(daemon.json("pool show p")["scrub"]["whole_ended_unix_ms"], whole);
    daemon.ok(&format!("operations cancel {}", operation["id"]));
    let record = daemon.site.path("state").join("scrubs.json");
    tools::eventually("no start goes on with it", Duration::from_secs(20), || {
        std::fs::read_to_string(&record).is_ok_and(|text| !text.contains("under_way"))
    });
}

fn scrub_operation(daemon: &Daemon) -> serde_json::Value {
    daemon.json("operations")["operations"][0].clone()
}
