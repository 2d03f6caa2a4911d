//! What makes a host see an error, or breaks a promise, is a condition: in the status, its exit code, the events and the
//! metrics, with what to do about it, as long as it is so; and the same after a restart.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::http::ask;
use hotset_e2e::tools::eventually;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// The condition of that kind, if it is there.
fn condition(daemon: &Daemon, kind: &str) -> Option<Value> {
    let status = daemon.json("status");
    let conditions = status["conditions"].as_array().expect("a list").clone();
    conditions.into_iter().find(|condition| condition["kind"] == kind)
}

/// Waits until it is there, and looks for it wherever it has to be told.
fn is_told(daemon: &Daemon, kind: &str) -> Value {
    eventually(&format!("condition {kind} begins"), PATIENCE, || condition(daemon, kind).is_some());
    let told = condition(daemon, kind).expect("it was just there");
    assert!(told["reason"] != "" && told["action"] != "" && told["since_unix_ms"].as_u64() > Some(0), "{told}");
    assert_ne!(daemon.json("status")["health"], "good");
    let check = daemon.hotset("status --check");
    assert_eq!(check.status.code(), Some(1), "{kind}");
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(said.contains(told["reason"].as_str().expect("words")), "{said}");
    let metric = format!("hotset_condition{{kind=\"{kind}\",");
    assert!(ask(daemon, "GET", "/metrics", "").body.contains(&metric), "{metric}");
    told
}

fn is_over(daemon: &Daemon, kind: &str) {
    eventually(&format!("condition {kind} is over"), PATIENCE, || condition(daemon, kind).is_none());
    let over = format!("condition {kind} is over");
    eventually("an event says so", PATIENCE, || daemon.ok("events").contains(&over));
}

// proves: F12, H5
#[test]
fn errors_that_hosts_got_are_a_condition_for_an_hour_also_after_a_restart() {
    let mut daemon = Daemon::start();
    let behind = daemon.site.numbered("behind", 64);
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("faulty"), &behind) else { return };
    daemon.ok(&format!("volume create v --backing {}", faulty.path().display()));
    assert_eq!(daemon.hotset("status --check").status.code(), Some(0));
    let mut client = daemon.client("v");
    faulty.set(Fault::Error);
    for page in 0..3 {
        client.read(page * 4096, 4096).expect_err("the device fails");
    }
    faulty.set(Fault::None);
    eventually("all of them are counted", PATIENCE, || {
        condition(&daemon, "host-errors").is_some_and(|told| told["count"].as_u64() == Some(3))
    });
    let told = is_told(&daemon, "host-errors");
    assert_eq!((&told["subject"]["name"], &told["health"]), (&"v".into(), &"degraded".into()), "{told}");
    let volume = daemon.json("volume show v");
    assert_eq!(volume["health"], "degraded", "{volume}");
    assert!(volume["reason"].as_str().is_some_and(|reason| reason.contains("3 requests of hosts")), "{volume}");
    eventually("an event says so", PATIENCE, || daemon.ok("events").contains("of hosts w"));
    // The same facts are the same health.
    daemon.restart();
    let again = is_told(&daemon, "host-errors");
    assert_eq!((&again["count"], &again["since_unix_ms"]), (&told["count"], &told["since_unix_ms"]), "{again}");
    daemon.ok("volume rename v w");
    let name = || condition(&daemon, "host-errors").map(|told| told["subject"]["name"].clone());
    eventually("it goes by the new name", PATIENCE, || name() == Some("w".into()));
    drop(client);
    daemon.ok("volume delete w");
    eventually("nobody is left whom it concerns", PATIENCE, || name().is_none());
}

// proves: F12
#[test]
fn a_hook_that_fails_and_a_guard_that_cannot_be_written_are_conditions_until_they_work() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let (hook, rules, config) = (daemon.site.path("hook"), daemon.site.path("rules"), daemon.site.path("toml"));
    let text = format!("event_hook = [{:?}]\nudev_rules = {:?}\n", hook.display(), rules.display());
    fs::write(&config, text.replace('\'', "")).expect("a file can be written");
    // Where a file should be.
    fs::create_dir(&rules).expect("a folder can be made");
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.launch();
    daemon.make_read_write_pool(&[24, 24], "");
    daemon.make_volume(64, "p");
    is_told(&daemon, "event-hook");
    let guard = is_told(&daemon, "guard");
    assert!(guard["reason"].as_str().is_some_and(|reason| reason.contains("not guarded")), "{guard}");
    fs::remove_dir(&rules).expect("it is empty");
    is_over(&daemon, "guard");
    fs::write(&hook, "#!/bin/sh\n").expect("a file can be written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o700)).expect("it is ours");
    daemon.ok("volume delete v");
    // Its deletion is an event that the hook takes.
    is_over(&daemon, "event-hook");
    assert_eq!(daemon.hotset("status --check").status.code(), Some(0), "{}", daemon.ok("status"));
}

// proves: F12, P9, P10
#[test]
fn a_read_pool_without_ssds_has_one_advice_which_works_and_says_it_once() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[24], "");
    daemon.make_volume(64, "p");
    assert!(daemon.stop().success());
    let (ssd, away) = (daemon.site.path("ssd0"), daemon.site.path("away"));
    fs::rename(&ssd, &away).expect("it can be taken away");
    daemon.launch();
    eventually("the pool goes on without it", PATIENCE, || daemon.json("pool show p")["state"] == "online");
    let pool = daemon.json("pool show p");
    assert_eq!(
        (&pool["health"], pool["ssds"][0]["action"].clone()),
        (&"failed".into(), pool["action"].clone()),
        "{pool}"
    );
    let said = pool.to_string();
    assert!(said.contains("hotset pool add-ssd p --ssd PATH") && !said.contains("delete"), "{said}");
    eventually("it is logged", PATIENCE, || daemon.log().contains("WARN event: pool p"));
    let warnings = daemon.log().lines().filter(|line| line.contains("WARN") && line.contains("ssd0")).count();
    assert_eq!(warnings, 1, "{}", daemon.log());
    daemon.ok(&format!("image create {} 24M", ssd.display()));
    daemon.ok(&format!("pool add-ssd p --ssd {}", ssd.display()));
    assert_eq!(daemon.json("status")["health"], "good", "{}", daemon.ok("status"));
}

// proves: P8
#[test]
fn a_volume_of_a_read_pool_says_where_its_writes_go_and_takes_nothing_that_means_nothing() {
    let daemon = Daemon::start();
    daemon.make_pool(&[24], "");
    daemon.make_volume(64, "p");
    let volume = daemon.json("volume show v");
    assert_eq!((&volume["effective_write_mode"], &volume["pool_type"]), (&"write-around".into(), &"read".into()));
    let shown = daemon.ok("volume show v");
    assert!(shown.contains("write-around: its pool caches no writes") && !shown.contains("Dirty cap"), "{shown}");
    for setting in ["mode=write-through", "mode=write-back", "dirty-cap=10%"] {
        let said = daemon.refuse(&format!("volume set v {setting}"), 1, "read pool");
        assert!(said.contains("pool convert p"), "{said}");
    }
    daemon.ok("volume set v mode=write-around dirty-cap=auto");
}
