//! SSDs that a later version of Hotset has written to: refused with the version that they need, and left as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::overwrite;
use hotset_e2e::pattern::{PAGE_BYTES, assert_pages, pages};
use hotset_e2e::tools::eventually;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Gives both copies of a superblock this format version. Their checksums cover what is behind it.
fn set_version(ssd: &Path, version: u8) {
    for copy in [0, 64 << 10] {
        overwrite(ssd, copy + 8, &[version]);
    }
}

/// Starts a daemon whose pool has an SSD of version 3, and asserts that it says so and leaves both SSDs alone; answers what they
/// held.
#[track_caller]
fn start_with_newer_ssd(daemon: &mut Daemon, ssds: &[PathBuf; 2]) -> [Vec<u8>; 2] {
    assert!(daemon.stop().success());
    set_version(&ssds[0], 3);
    let held = ssds.each_ref().map(|ssd| fs::read(ssd).expect("an image can be read"));
    daemon.launch();
    let reason = |daemon: &Daemon| daemon.json("pool show p")["reason"].as_str().unwrap_or("").to_owned();
    let needed = "it needs a Hotset that knows format version 3; this one knows version 2";
    eventually("the pool says which version it needs", TIMEOUT, || reason(daemon).contains(needed));
    assert!(reason(daemon).contains(&ssds[0].display().to_string()), "{}", reason(daemon));
    let pool = daemon.json("pool show p");
    assert_eq!((&pool["state"], &pool["health"]), (&"offline".into(), &"failed".into()), "{pool}");
    assert_eq!(pool["action"], "install a Hotset that knows version 3", "{pool}");
    assert!(daemon.ok("status").contains(needed), "{}", daemon.ok("status"));
    eventually("it is an event", TIMEOUT, || daemon.json("events").to_string().contains(needed));
    daemon.refuse("pool open p", 1, needed);
    // Whoever wants to go on without it takes it out first.
    daemon.refuse(&format!("pool import --ssd {} --accept-missing", ssds[1].display()), 1, needed);
    held
}

#[track_caller]
fn assert_untouched(ssds: &[PathBuf; 2], held: &[Vec<u8>; 2]) {
    for (ssd, held) in ssds.iter().zip(held) {
        assert!(fs::read(ssd).expect("an image can be read") == *held, "{} was written to", ssd.display());
    }
}

fn ssds_of(daemon: &Daemon) -> [PathBuf; 2] {
    ["ssd0", "ssd1"].map(|name| daemon.site.path(name))
}

// proves: P16, F4
#[test]
fn a_read_pool_with_an_ssd_of_a_newer_version_stays_closed_and_its_volume_is_served_without_it() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[24, 32], "--populate-on-read 1");
    daemon.make_volume(1024, "p");
    daemon.warm_up(1024);
    let ssds = ssds_of(&daemon);
    let held = start_with_newer_ssd(&mut daemon, &ssds);
    daemon.assert_volume_pages(1024);
    let mut client = daemon.client("v");
    client.write(0, &pages(0, 16, 1)).expect("a write");
    drop(client);
    assert!(daemon.is_online("v"));
    // For another daemon it is not free, either.
    let create = format!("pool create q --type read --io-type custom --ssd {}", ssds[0].display());
    Daemon::start().refuse(&create, 1, "an SSD of a later Hotset");
    assert!(daemon.stop().success());
    assert_untouched(&ssds, &held);
    set_version(&ssds[0], 2);
    daemon.launch();
    let pool = daemon.json("pool show p");
    let online = pool["ssds"].as_array().map(|ssds| ssds.iter().filter(|ssd| ssd["online"] == true).count());
    assert_eq!((&pool["health"], online), (&"good".into(), Some(2)), "{pool}");
    let mut client = daemon.client("v");
    assert_pages(&client.read(0, 16 * 4096).expect("a read"), 0, 1);
    assert_pages(&client.read(16 * PAGE_BYTES, 16 * 4096).expect("a read"), 16, 0);
}

// proves: P16, F4
#[test]
fn a_read_write_pool_with_an_ssd_of_a_newer_version_keeps_its_dirty_data_for_when_it_can_be_read() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 48], "");
    daemon.make_volume(1024, "p");
    daemon.ok("pool set p flush-rate=low dirty-age=30d dirty-watermark=90");
    let mut client = daemon.client("v");
    client.write(0, &pages(0, 100, 1)).expect("a write");
    drop(client);
    let ssds = ssds_of(&daemon);
    let held = start_with_newer_ssd(&mut daemon, &ssds);
    assert!(!daemon.is_online("v"), "its backing device lacks what was written");
    assert_untouched(&ssds, &held);
    set_version(&ssds[0], 2);
    daemon.ok("pool open p");
    eventually("the volume is served", TIMEOUT, || daemon.is_online("v"));
    let mut client = daemon.client("v");
    assert_pages(&client.read(0, 100 * 4096).expect("a read"), 0, 1);
    assert_eq!(daemon.json("pool show p")["health"], "good");
}
