//! What makes a host see an error, or breaks a promise, is a condition: in the status, its exit code, the events and the
//! metrics, with what to do about it, as long as it is so; and the same after a restart.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::files::MIB;
use hotset_e2e::http::ask;
use hotset_e2e::loops::LoopDevice;
use hotset_e2e::tools::{eventually, succeed};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The condition of that kind, if it is there.
fn condition(daemon: &Daemon, kind: &str) -> Option<Value> {
    let status = daemon.json("status");
    let conditions = status["conditions"].as_array().expect("a list").clone();
    conditions.into_iter().find(|condition| condition["kind"] == kind)
}

/// Waits until it is there, and looks for it wherever it has to be told.
fn is_told(daemon: &Daemon, kind: &str) -> Value {
    eventually(&format!("condition {kind} begins"), TIMEOUT, || condition(daemon, kind).is_some());
    let told = condition(daemon, kind).expect("it was just there");
    assert!(told["reason"] != "" && told["action"] != "" && told["since_unix_ms"].as_u64() > Some(0), "{told}");
    let code = match daemon.json("status")["health"].as_str() {
        Some("degraded") => 1,
        Some("failed") => 2,
        other => panic!("health {other:?}: {told}"),
    };
    let check = daemon.hotset("status --check");
    assert_eq!(check.status.code(), Some(code), "{kind}");
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    let reason = told["reason"].as_str().expect("a reason is words");
    assert!(said.contains(reason), "{said}");
    let metric = format!("hotset_condition{{kind=\"{kind}\",");
    assert!(ask(daemon, "GET", "/metrics", "").body.contains(&metric), "{metric}");
    // Or a change of its subject's health, which says why.
    let begins = format!("condition {kind} begins");
    let is_said = |events: &str| events.contains(&begins) || events.contains(reason);
    eventually("an event says so", TIMEOUT, || is_said(&daemon.ok("events")));
    told
}

fn is_over(daemon: &Daemon, kind: &str) {
    eventually(&format!("condition {kind} is over"), TIMEOUT, || condition(daemon, kind).is_none());
    let over = format!("condition {kind} is over");
    eventually("an event says so", TIMEOUT, || daemon.ok("events").contains(&over));
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
    eventually("all of them are counted", TIMEOUT, || {
        condition(&daemon, "host-errors").is_some_and(|told| told["count"].as_u64() == Some(3))
    });
    let cause = format!("backing device {}", faulty.path().display());
    eventually("the log says why", TIMEOUT, || {
        daemon.log().lines().any(|line| line.contains("of host") && line.contains(" failed") && line.contains(&cause))
    });
    let told = is_told(&daemon, "host-errors");
    assert_eq!((&told["subject"]["name"], &told["health"]), (&"v".into(), &"degraded".into()), "{told}");
    let volume = daemon.json("volume show v");
    assert_eq!(volume["health"], "degraded", "{volume}");
    assert!(volume["reason"].as_str().is_some_and(|reason| reason.contains("3 requests of hosts")), "{volume}");
    eventually("an event says so", TIMEOUT, || daemon.ok("events").contains("of hosts w"));
    // The same facts are the same health.
    daemon.restart();
    let again = is_told(&daemon, "host-errors");
    assert_eq!((&again["count"], &again["since_unix_ms"]), (&told["count"], &told["since_unix_ms"]), "{again}");
    daemon.ok("volume rename v w");
    let name = || condition(&daemon, "host-errors").map(|told| told["subject"]["name"].clone());
    eventually("it goes by the new name", TIMEOUT, || name() == Some("w".into()));
    drop(client);
    daemon.ok("volume delete w");
    eventually("nobody is left whom it concerns", TIMEOUT, || name().is_none());
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
    // Nobody ever reads from it or writes to it.
    succeed("mkfifo", &[&rules]);
    daemon.ok(&format!("volume create w --backing {} --pool p", daemon.site.numbered("w", 16).display()));
    is_told(&daemon, "guard");
    daemon.ok("volume delete w");
    fs::remove_file(&rules).expect("it is there");
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
    eventually("the pool goes on without it", TIMEOUT, || daemon.json("pool show p")["state"] == "online");
    let pool = daemon.json("pool show p");
    assert_eq!(
        (&pool["health"], pool["ssds"][0]["action"].clone()),
        (&"failed".into(), pool["action"].clone()),
        "{pool}"
    );
    let said = pool.to_string();
    assert!(said.contains("hotset pool add-ssd p --ssd PATH") && !said.contains("delete"), "{said}");
    eventually("it is logged", TIMEOUT, || daemon.log().contains("WARN event: pool p"));
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

// proves: F12, P16
#[test]
fn records_that_cannot_be_read_are_begun_anew_and_told_until_they_are_taken_away() {
    let mut daemon = Daemon::start();
    assert!(daemon.stop().success());
    let state = daemon.site.path("state");
    let records = ["ssds.json", "failures.json", "host-errors.json", "backings.json", "events.jsonl"];
    records.iter().for_each(|name| fs::write(state.join(name), "noise\n").expect("a file can be written"));
    daemon.launch();
    let reason = is_told(&daemon, "records-set-aside")["reason"].to_string();
    // The same facts are the same health.
    daemon.restart();
    assert_eq!(is_told(&daemon, "records-set-aside")["reason"].to_string(), reason);
    for name in records {
        let aside = state.join(format!("{name}.broken"));
        assert!(reason.contains(&aside.display().to_string()), "{name}: {reason}");
        assert_eq!(fs::read_to_string(&aside).expect("it is kept"), "noise\n");
        fs::remove_file(aside).expect("it is there");
    }
    is_over(&daemon, "records-set-aside");
    assert_eq!(daemon.hotset("status --check").status.code(), Some(0), "{}", daemon.ok("status"));
}

// proves: F12
#[test]
fn a_record_of_deleted_pools_that_cannot_be_read_is_told_until_it_can() {
    let mut daemon = Daemon::start();
    assert!(daemon.stop().success());
    let record = daemon.site.path("state").join("forgotten.json");
    fs::write(&record, "{").expect("a file can be written");
    daemon.launch();
    let told = is_told(&daemon, "record-unreadable");
    assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("forgotten.json")), "{told}");
    fs::remove_file(&record).expect("it is there");
    is_over(&daemon, "record-unreadable");
}

// proves: F12, P10
#[test]
fn a_removal_that_fails_after_it_began_is_told_until_it_is_asked_for_again() {
    let daemon = Daemon::start();
    let images = ["one", "two", "three"].map(|name| {
        let image = daemon.site.path(name);
        daemon.ok(&format!("image create {} 64M", image.display()));
        image
    });
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("faulty"), &images[2]) else { return };
    let (one, two, three) = (images[0].display(), images[1].display(), faulty.path().display());
    daemon.ok(&format!("pool create p --type read-write --io-type custom --block-size 64K --ssd {one} {two} {three}"));
    daemon.make_volume(1024, "p");
    daemon.ok("pool set p dirty-age=30d dirty-watermark=90 flush-rate=low");
    let mut client = daemon.client("v");
    (0..64).for_each(|piece| client.write(piece * 65536, &[3; 65536]).expect("a write"));
    // One that was refused is known to whoever asked.
    daemon.refuse(&format!("pool remove-ssd p --ssd {one} {two}"), 1, "two copies");
    assert!(condition(&daemon, "removal").is_none());
    faulty.set(Fault::HangWrites);
    daemon.ok(&format!("pool remove-ssd p --ssd {one} --background"));
    eventually("it is under way", TIMEOUT, || daemon.json("pool show p")["ssds"][0]["state"] == "flushing");
    faulty.set(Fault::Error);
    client.write(0, &[4; 65536]).expect("a write");
    let told = is_told(&daemon, "removal");
    assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("another SSD failed")), "{told}");
    assert_eq!(told["subject"]["name"], "p", "{told}");
    // What is asked for anew is told anew.
    faulty.set(Fault::None);
    daemon.ok(&format!("pool remove-ssd p --ssd {three}"));
    is_over(&daemon, "removal");
}

// proves: F12, N6
#[test]
fn a_pool_that_the_scan_finds_and_that_is_not_opened_is_told_until_it_is_known() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[24], "");
    assert!(daemon.stop().success());
    let record = daemon.site.path("state").join("pools/p.json");
    fs::write(&record, "{").expect("a file can be written");
    let config = daemon.site.path("toml");
    fs::write(&config, format!("ssd_scan = [\"{}*\"]\n", daemon.site.path("ssd").display())).expect("it is new");
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.launch();
    let told = is_told(&daemon, "pool-not-opened");
    assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("pool p")), "{told}");
    // As if there had never been one.
    fs::remove_file(&record).expect("it is there");
    daemon.ok(&format!("pool import --ssd {}", daemon.site.path("ssd0").display()));
    is_over(&daemon, "pool-not-opened");
}

// proves: F12
#[test]
fn a_configuration_that_a_hup_cannot_read_is_told_until_one_can() {
    let mut daemon = Daemon::prepare("");
    let config = daemon.site.path("toml");
    fs::write(&config, "log = \"info\"\n").expect("a file can be written");
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.launch();
    let hang_up = || drop(succeed("kill", &["-HUP", &daemon.pid().to_string()]));
    fs::write(&config, "log = ").expect("it is there");
    hang_up();
    let told = is_told(&daemon, "reload");
    assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("nothing was changed")), "{told}");
    // Nobody ever writes to it.
    fs::remove_file(&config).expect("it is there");
    succeed("mkfifo", &[&config]);
    hang_up();
    eventually("a pipe is told", TIMEOUT, || {
        condition(&daemon, "reload").is_some_and(|told| told.to_string().contains("not an ordinary file"))
    });
    fs::remove_file(&config).expect("it is there");
    fs::write(&config, "log = \"debug\"\n").expect("a file can be written");
    hang_up();
    is_over(&daemon, "reload");
}

// proves: F11, F12
#[test]
fn what_lies_in_the_place_of_the_daemons_number_or_of_a_pools_copy_is_told() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let state = daemon.site.path("state");
    fs::create_dir_all(state.join("daemon-id")).expect("a folder can be made");
    daemon.launch();
    is_told(&daemon, "daemon-id");
    fs::remove_dir(state.join("daemon-id")).expect("it is empty");
    is_over(&daemon, "daemon-id");
    daemon.make_pool(&[24], "");
    assert!(daemon.stop().success());
    // Something is there, and nobody knows what: its volumes are served without the pool, which comes back without its content.
    let member = state.join("pools/p.member");
    fs::remove_file(&member).expect("it is there");
    std::os::unix::fs::symlink(&member, &member).expect("a link can be made");
    daemon.launch();
    eventually("it is told", TIMEOUT, || daemon.log().contains("pools/p.member: Too many levels"));
    eventually("it is open", TIMEOUT, || daemon.json("pool show p")["state"] == "online");
    assert!(!daemon.log().contains("it opens cold"), "{}", daemon.log());
}

// proves: F10, F12
#[test]
fn a_loop_device_that_is_made_over_what_is_served_is_a_condition_until_it_is_detached() {
    let daemon = Daemon::start();
    daemon.make_pool(&[24], "");
    let backing = daemon.make_volume(64, "p");
    for (path, subject, advice) in [(backing, "v", "disable-cache v"), (daemon.site.path("ssd0"), "p", "pool scrub p")]
    {
        let Some(late) = LoopDevice::over(&path) else { return };
        let told = is_told(&daemon, "second-writer");
        assert_eq!(told["subject"]["name"], subject, "{told}");
        let reason = told["reason"].as_str().expect("a reason is words");
        assert!(reason.contains(&late.name) && reason.contains(&path.display().to_string()), "{reason}");
        assert!(told["action"].as_str().is_some_and(|action| action.contains(advice)), "{told}");
        drop(late);
        is_over(&daemon, "second-writer");
    }
    assert_eq!(daemon.hotset("status --check").status.code(), Some(0), "{}", daemon.ok("status"));
}

// proves: P10
#[test]
fn ssds_of_a_pool_that_is_not_open_are_shown_as_what_they_are() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[24, 24], "");
    daemon.make_volume(64, "p");
    daemon.stop();
    let places = ["ssd0", "ssd1"].map(|name| (daemon.site.path(name), daemon.site.path(&format!("{name}-away"))));
    for (place, away) in &places {
        fs::rename(place, away).expect("it can be moved");
    }
    daemon.launch();
    let is = |states: [&str; 2]| {
        let pool = daemon.json("pool show p");
        let ssds = pool["ssds"].as_array().expect("a list").clone();
        ssds.iter().map(|ssd| &ssd["state"]).eq(&states)
    };
    eventually("none is there", TIMEOUT, || is(["missing", "missing"]));
    let [(first, first_away), (second, second_away)] = &places;
    fs::rename(second_away, second).expect("it can be put back");
    eventually("one is there, and one is not", TIMEOUT, || is(["missing", "offline"]));
    let shown = daemon.ok("pool show p");
    assert!(shown.contains("it was not found") && shown.contains("it is there; its pool is not open"), "{shown}");
    fs::rename(first_away, first).expect("it can be put back");
    eventually("the pool is open", TIMEOUT, || is(["online", "online"]));
}

// proves: F2, P9
#[test]
fn a_read_pool_takes_ssds_back_that_come_after_the_wait_and_a_spare_that_is_gone_is_told() {
    let mut daemon = Daemon::start_with("--missing-wait 1");
    daemon.make_pool(&[24, 24], "");
    let spare = daemon.site.blank("spare", 24 * MIB);
    daemon.ok(&format!("pool add-spare p --ssd {}", spare.display()));
    assert!(daemon.stop().success());
    let here = ["ssd0", "ssd1", "spare"].map(|name| daemon.site.path(name));
    let away = here.each_ref().map(|path| path.with_extension("away"));
    let rename = |from: &[PathBuf], to: &[PathBuf]| {
        from.iter().zip(to).for_each(|(from, to)| fs::rename(from, to).expect("it can be renamed"));
    };
    rename(&here, &away);
    daemon.launch();
    let shown = || daemon.json("pool show p");
    eventually("the pool is open without its SSDs", TIMEOUT, || shown()["state"] == "online");
    is_told(&daemon, "spare-unusable");
    assert!(shown()["action"].as_str().is_some_and(|action| action.contains("by itself")), "{}", shown());
    rename(&away, &here);
    eventually("its SSDs are in it again", TIMEOUT, || {
        shown()["ssds"].as_array().is_some_and(|ssds| ssds.iter().all(|ssd| ssd["state"] == "online"))
    });
}
