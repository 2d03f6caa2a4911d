//! The verbs that go on until they are interrupted.

use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::load::StopOnPanic;
use serde_json::Value;

// proves: P11, S4
#[test]
fn events_are_followed_from_the_past_into_what_happens_next() {
    let daemon = Daemon::start();
    daemon.make_volume(64, "");
    let mut follower = daemon.begin("events --follow");
    let mut lines = BufReader::new(follower.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let mut wait_for = |words: &[&str]| {
        let found = lines.find(|line| words.iter().all(|word| line.contains(word)));
        found.unwrap_or_else(|| panic!("no event with {words:?}"))
    };
    wait_for(&["info", "daemon", "started"]);
    wait_for(&["volume v", "new"]);
    daemon.ok("volume rename v w");
    wait_for(&["volume w"]);
    let newest = daemon.json("events")["newest_id"].as_u64().expect("events are counted");
    daemon.ok("volume delete w");
    wait_for(&["volume w", "removed"]);
    follower.kill().expect("it follows on");
    follower.wait().expect("it is ours");

    // From an event on, as JSON, one a line.
    let mut follower = daemon.begin(&format!("events --follow --after {newest} -o json"));
    let line = BufReader::new(follower.stdout.take().expect("it is piped")).lines().next();
    let event: Value = serde_json::from_str(&line.expect("an event").expect("it is text")).expect("JSON on one line");
    assert_eq!(event["id"].as_u64(), Some(newest + 1), "{event}");
    follower.kill().expect("it follows on");
    follower.wait().expect("it is ours");
}

// proves: S2, S4
#[test]
fn top_shows_what_volumes_do_now() {
    let daemon = Daemon::start();
    daemon.make_pool(&[32], "--populate-on-read 1");
    daemon.make_volume(1024, "p");
    daemon.warm_up(1024);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopOnPanic(&stop);
        scope.spawn(|| {
            let mut client = daemon.client("v");
            while !stop.load(Ordering::Relaxed) {
                client.read(0, 4096).expect("a read");
            }
        });
        let said = daemon.ok("top --count 2 --sort hit-ratio");
        let shown = daemon.hotset("top --count 1 -o json");
        stop.store(true, Ordering::Relaxed);
        let drawn: Vec<&str> = said.lines().filter(|line| line.starts_with("v ")).collect();
        assert_eq!(drawn.len(), 2, "{said}");
        assert!(said.contains("READ IOPS") && drawn[1].contains("100") && drawn[1].contains('█'), "{said}");
        let rates: Value = serde_json::from_slice(&shown.stdout).expect("it is JSON");
        let volume = &rates[0];
        assert_eq!((&volume["name"], volume["hit_ratio"].as_f64()), (&"v".into(), Some(1.0)), "{rates}");
        assert!(volume["read_iops"].as_f64().is_some_and(|iops| iops > 10.0), "{rates}");
    });
}
