//! A pool whose opening ends the daemon again and again.

use std::fs;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::files::MIB;
use hotset_e2e::pattern::{assert_pages, pages};
use hotset_e2e::tools::eventually;

/// Two pools with a volume each: one SSD of `bad` fails on command. `None` where that is not possible.
fn daemon_with_two_pools() -> Option<(Daemon, FaultyFile)> {
    let daemon = Daemon::start();
    let behind = daemon.site.blank("behind", 48 * MIB);
    let faulty = FaultyFile::mount(&daemon.site.path("faulty"), &behind)?;
    for (pool, volume, first) in
        [("bad", "v", faulty.path().to_owned()), ("good", "w", daemon.site.blank("c", 48 * MIB))]
    {
        let second = daemon.site.blank(&format!("{pool}-second"), 48 * MIB);
        let ssds = format!("{} {}", first.display(), second.display());
        daemon.ok(&format!("pool create {pool} --type read-write --io-type custom --block-size 64K --ssd {ssds}"));
        let backing = daemon.site.numbered(&format!("{volume}-backing"), 256);
        daemon.ok(&format!("volume create {volume} --backing {} --pool {pool}", backing.display()));
        daemon.ok(&format!("pool set {pool} flush-rate=low dirty-age=30d dirty-watermark=90"));
        daemon.client(volume).write(0, &pages(0, 16, 1)).expect("a write");
    }
    Some((daemon, faulty))
}

/// Whether the daemon says that it is opening `bad` right now, after so many failures before.
fn is_opening_after(daemon: &Daemon, failures: usize) -> bool {
    let text = fs::read_to_string(daemon.site.path("state/failures.json")).unwrap_or_default();
    let record: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    record.is_some_and(|record| {
        record["opening"] == "bad" && record["failures"].as_array().map(Vec::len) == Some(failures)
    })
}

fn assert_version(daemon: &Daemon, volume: &str, version: u64) {
    assert_pages(&daemon.client(volume).read(0, 16 * 4096).expect("a read"), 0, version);
}

// proves: F7, S4, P9
#[test]
fn a_pool_whose_opening_ends_the_daemon_three_times_is_fenced_and_the_others_are_served() {
    let Some((mut daemon, faulty)) = daemon_with_two_pools() else { return };
    assert!(daemon.stop().success());
    for failures in 0..3 {
        faulty.set(Fault::HangWrites);
        daemon.launch_and_kill_when(|daemon| is_opening_after(daemon, failures), || faulty.set(Fault::Error));
    }
    faulty.set(Fault::HangWrites);
    daemon.launch();
    let pool = daemon.json("pool show bad");
    assert_eq!(pool["state"], "offline", "{pool}");
    let reason = pool["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("is fenced: the daemon ended 3 times") && reason.contains("hotset pool open bad"),
        "{pool}"
    );
    assert!(!daemon.is_online("v"), "its pool may hold newer data");
    assert_version(&daemon, "w", 1);
    eventually("its SSDs are shown to be there", Duration::from_secs(60), || {
        let ssds = daemon.json("pool show bad")["ssds"].as_array().expect("a list").clone();
        ssds.iter().all(|ssd| ssd["state"] == "offline")
    });
    daemon.refuse("status --check", 2, "fenced");

    // Time, and a start that goes well, lift no fence: an administrator does.
    faulty.set(Fault::None);
    daemon.restart();
    assert!(!daemon.is_online("v"));

    // Nor does a loss of its record: a scan finds its SSDs.
    assert!(daemon.stop().success());
    let config = daemon.site.path("toml");
    let patterns =
        format!("ssd_scan = [\"{}*\", \"{}\"]\n", daemon.site.path("bad").display(), faulty.path().display());
    fs::write(&config, patterns).expect("it is new");
    fs::remove_file(daemon.site.path("state/pools/bad.json")).expect("it is there");
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.launch();
    let pool = daemon.json("pool show bad");
    assert!(pool["reason"].as_str().is_some_and(|reason| reason.contains("is fenced")), "{pool}");
    let opened = daemon.ok("pool open bad");
    assert!(opened.contains("Opened pool bad"), "{opened}");
    assert_version(&daemon, "v", 1);
    assert!(daemon.ok("pool open bad").contains("open already"));
    daemon.refuse("pool open nobody", 1, "no such pool");
    daemon.restart();
    assert_version(&daemon, "v", 1);
    assert_eq!(daemon.json("status")["health"], "good");
}

// proves: F7
#[test]
fn a_daemon_that_is_killed_often_and_opens_its_pools_in_between_fences_nothing() {
    let Some((mut daemon, faulty)) = daemon_with_two_pools() else { return };
    for _ in 0..3 {
        daemon.kill();
        faulty.set(Fault::HangWrites);
        daemon.launch_and_kill_when(|daemon| is_opening_after(daemon, 0), || faulty.set(Fault::Error));
        faulty.set(Fault::None);
        daemon.launch();
        assert_version(&daemon, "v", 1);
    }
}

// proves: F1, F4
#[test]
fn an_ssd_that_does_not_answer_at_the_start_counts_as_missing_and_holds_up_nobody() {
    let Some((mut daemon, faulty)) = daemon_with_two_pools() else { return };
    assert!(daemon.stop().success());
    faulty.set(Fault::Hang);
    daemon.launch();
    // The other copy is there.
    assert_version(&daemon, "v", 1);
    assert_version(&daemon, "w", 1);
    let status = daemon.ok("status");
    assert!(status.contains(&faulty.path().display().to_string()), "{status}");
    assert!(daemon.log().contains("does not answer"), "{}", daemon.log());
    faulty.set(Fault::Error);
}
