//! `volume clear`: a backing device that failed and works again is checked and opened again, without a restart.

use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::files::{overwrite, read_part};
use hotset_e2e::pattern::{PAGE_BYTES, pages};
use hotset_e2e::tools::eventually;

const TIMEOUT: Duration = Duration::from_secs(60);

fn is_failed(daemon: &Daemon) -> bool {
    daemon.json("volume show v")["health"] == "failed"
}

/// Writes `v` while its backing device fails, and flushes: from here on it is not trusted.
fn fail(daemon: &Daemon, faulty: &FaultyFile) {
    let mut client = daemon.client("v");
    client.write(0, &pages(0, 8, 1)).expect("it is written");
    faulty.set(Fault::Error);
    let _ = client.flush();
    eventually("the device is not trusted any more", TIMEOUT, || {
        let _ = client.write(PAGE_BYTES * 8, &pages(8, 1, 1));
        let _ = client.flush();
        is_failed(daemon)
    });
    let volume = daemon.json("volume show v");
    let said = [&volume["reason"], &volume["action"]].map(ToString::to_string).join(" ");
    assert!(said.contains("hotset volume clear v"), "{volume}");
    assert_eq!(daemon.hotset("status --check").status.code(), Some(2));
}

// proves: F6, F12
#[test]
fn a_backing_device_that_works_again_is_cleared_without_a_restart_and_hosts_go_on() {
    let mut daemon = Daemon::start();
    let behind = daemon.site.numbered("behind", 64);
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("faulty"), &behind) else { return };
    daemon.ok(&format!("volume create v --backing {}", faulty.path().display()));
    assert!(daemon.ok("volume clear v").contains("nothing to clear"));
    fail(&daemon, &faulty);
    let mut client = daemon.client("v");
    daemon.refuse("volume clear v", 1, "disk");
    assert!(is_failed(&daemon), "it fails still");
    faulty.set(Fault::None);
    client.write(0, &pages(0, 1, 2)).expect_err("nobody vouches for it yet");
    assert!(daemon.ok("volume clear v").contains("open again"));
    // What hosts were told of and had not flushed may be gone: each of them learns it by its next flush, once.
    let _ = client.flush();
    client.write(0, &pages(0, 16, 3)).expect("it is written again");
    client.flush().expect("it is flushed");
    assert!(!is_failed(&daemon));
    assert_eq!(read_part(&behind, 0, 16 * 4096), pages(0, 16, 3));
    assert!(daemon.ok("volume clear v").contains("nothing to clear"));
    drop(client);
    daemon.restart();
    assert!(daemon.is_online("v") && !is_failed(&daemon));
    let read = daemon.client("v").read(0, 16 * 4096).expect("it is read");
    assert_eq!(read, pages(0, 16, 3));
}

// proves: F6, D8
#[test]
fn what_is_dirty_is_written_again_to_a_device_that_is_cleared() {
    let daemon = Daemon::start();
    let behind = daemon.site.numbered("behind", 64);
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("faulty"), &behind) else { return };
    daemon.make_read_write_pool(&[24, 24], "");
    daemon.ok(&format!("volume create v --backing {} --pool p", faulty.path().display()));
    let mut client = daemon.client("v");
    let before = read_part(&behind, 0, 32 * 4096);
    faulty.set(Fault::FailFlushes);
    client.write(0, &pages(0, 32, 1)).expect("the SSDs take it");
    client.flush().expect("they have it");
    eventually("it was written, and cannot be flushed", TIMEOUT, || is_failed(&daemon));
    assert_eq!(daemon.dirty_bytes("v"), 32 * PAGE_BYTES, "kept");
    faulty.set(Fault::None);
    // What the device had not flushed is gone.
    overwrite(&behind, 0, &before);
    daemon.ok("volume clear v");
    eventually("it is cleaned", TIMEOUT, || daemon.dirty_bytes("v") == 0);
    assert_eq!(read_part(&behind, 0, 32 * 4096), pages(0, 32, 1));
    assert_eq!(client.read(0, 32 * 4096).expect("it is read"), pages(0, 32, 1));
    eventually("all is well", TIMEOUT, || daemon.json("volume show v")["health"] == "good");
    assert_eq!(daemon.stat("v", "errors"), 0);
}
