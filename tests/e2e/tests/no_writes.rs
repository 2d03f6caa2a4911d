//! SSDs that can be read and take no writes: a full file system, a quota, an SSD that is worn out. No host notices, everything is
//! read and flushed, and they are in use again when they take writes.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use hotset_e2e::apart::{APART, make_dirty, pages_apart};
use hotset_e2e::daemon::Daemon;
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::files::read_part;
use hotset_e2e::pattern::{PAGE_BYTES, assert_pages, pages};
use hotset_e2e::tools;

const COUNT: u64 = 64;
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

struct Scene {
    daemon: Daemon,
    ssds: Vec<FaultyFile>,
}

impl Scene {
    fn new() -> Option<Self> {
        let daemon = Daemon::start();
        let mounted = ["one", "two"].map(|name| {
            let image = daemon.site.path(name);
            daemon.ok(&format!("image create {} 64M", image.display()));
            FaultyFile::mount(&daemon.site.path(&format!("mounted-{name}")), &image)
        });
        let ssds: Vec<FaultyFile> = mounted.into_iter().collect::<Option<_>>()?;
        let paths: Vec<String> = ssds.iter().map(|ssd| ssd.path().display().to_string()).collect();
        Some(Self { daemon: with_dirty_pages(daemon, &paths), ssds })
    }

    fn set(&self, fault: Fault) {
        self.ssds.iter().for_each(|ssd| ssd.set(fault));
    }

    fn states(&self) -> Vec<String> {
        let pool = self.daemon.json("pool show p");
        let ssds = pool["ssds"].as_array().expect("a list").iter();
        ssds.map(|ssd| ssd["state"].as_str().expect("a word").to_owned()).collect()
    }

    /// Hosts write, flush and read: nothing is an error, and nothing is older than it was. The first page is in `version`.
    fn work(&self, version: u64) {
        let mut client = self.daemon.client("v");
        client.write(0, &pages(0, 1, version)).expect("a write");
        client.flush().expect("a flush");
        for page in pages_apart(COUNT) {
            let bytes = client.read(page * PAGE_BYTES, 4096).expect("a read");
            assert_pages(&bytes, page, if page == 0 { version } else { 1 });
        }
        assert_eq!(self.daemon.json("volume show v")["lost_bytes"], 0);
    }

    fn expect_drained(&self) {
        tools::eventually("everything is on the backing device", RECOVERY_LIMIT, || self.daemon.dirty_bytes("v") == 0);
        for page in pages_apart(COUNT).skip(1) {
            assert_pages(&read_part(&self.daemon.site.path("backing"), page * PAGE_BYTES, 4096), page, 1);
        }
    }

    fn expect_all_well(&self) {
        tools::eventually("the SSDs are in use again", RECOVERY_LIMIT, || {
            let pool = self.daemon.json("pool show p");
            self.states().iter().all(|state| state == "online") && pool["health"] == "good"
        });
    }
}

/// A volume of which pages are dirty in version 1, on these SSDs.
fn with_dirty_pages(daemon: Daemon, ssds: &[String]) -> Daemon {
    let pool = "pool create p --type read-write --io-type custom --block-size 64K --ssd";
    daemon.ok(&format!("{pool} {}", ssds.join(" ")));
    let (file, size_bytes) = (daemon.site.path("backing"), COUNT * APART * PAGE_BYTES);
    File::create(&file).and_then(|file| file.set_len(size_bytes)).expect("a sparse file can be made");
    daemon.ok(&format!("volume create v --backing {} --pool p", file.display()));
    make_dirty(&daemon, COUNT);
    daemon
}

/// A directory in which nothing may be written for a time.
struct Mount(String);

impl Mount {
    /// `None`, loudly, where nothing can be mounted.
    fn new(place: &Path) -> Option<Self> {
        std::fs::create_dir(place).expect("a directory can be made");
        let place = place.display().to_string();
        let mounted = tools::command("mount", &["--bind", &place, &place]).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(place));
        }
        tools::skip("no directory can be mounted here (needs root)");
        None
    }

    /// `ro` or `rw`.
    fn remount(&self, how: &str) {
        tools::succeed("mount", &["-o", &format!("remount,bind,{how}"), &self.0]);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        tools::run("umount", &["--lazy", &self.0]);
    }
}

fn nothing_is_lost(fault: Fault, word: &str, advice: &str) {
    let Some(scene) = Scene::new() else { return };
    scene.set(fault);
    scene.work(2);
    tools::eventually("they are told", RECOVERY_LIMIT, || scene.states() == [word, word]);
    let pool = scene.daemon.json("pool show p");
    assert!(pool["health"] == "failed", "{pool}");
    let shown = scene.daemon.ok("pool show p");
    for told in ["takes no writes", advice] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    scene.expect_drained();
    scene.work(3);
    scene.set(Fault::None);
    scene.expect_all_well();
    scene.work(4);
    assert_eq!(scene.daemon.stat("v", "errors"), 0);
}

// proves: F1, F5
#[test]
fn ssds_without_room_are_read_and_flushed_and_in_use_again_when_they_have_some() {
    nothing_is_lost(Fault::NoSpace, "no-space", "make room");
}

// proves: F1, F5
#[test]
fn ssds_that_are_write_protected_are_read_and_flushed_and_in_use_again_when_they_are_not() {
    nothing_is_lost(Fault::ReadOnly, "read-only", "write-protected");
}

// proves: F1, F5, F7
#[test]
fn a_daemon_that_starts_with_ssds_that_take_no_writes_serves_everything_they_have() {
    let Some(mut scene) = Scene::new() else { return };
    scene.set(Fault::NoSpace);
    scene.daemon.kill();
    scene.daemon.launch();
    tools::eventually("the volume is served", RECOVERY_LIMIT, || scene.daemon.is_online("v"));
    scene.work(2);
    // It knows of them from its records only.
    scene.daemon.kill();
    scene.daemon.launch();
    tools::eventually("the volume is served", RECOVERY_LIMIT, || scene.daemon.is_online("v"));
    scene.work(3);
    scene.expect_drained();
    scene.set(Fault::None);
    scene.expect_all_well();
    scene.work(4);
}

// proves: F1, F5, F7
#[test]
fn ssds_that_could_only_be_opened_to_be_read_are_in_use_again_when_they_can_be_written() {
    let daemon = Daemon::start();
    let Some(mount) = Mount::new(&daemon.site.path("mounted")) else { return };
    let ssds = ["one", "two"].map(|name| format!("{}/{name}", mount.0));
    ssds.iter().for_each(|ssd| drop(daemon.ok(&format!("image create {ssd} 64M"))));
    let mut scene = Scene { daemon: with_dirty_pages(daemon, &ssds), ssds: Vec::new() };
    // Taken down before the daemon's directory.
    let mount = mount;
    scene.daemon.kill();
    mount.remount("ro");
    scene.daemon.launch();
    tools::eventually("the volume is served", RECOVERY_LIMIT, || scene.daemon.is_online("v"));
    scene.work(2);
    assert_eq!(scene.states(), ["read-only", "read-only"]);
    scene.expect_drained();
    // Started and stopped before it has found out more of them than that they are not in use.
    assert!(scene.daemon.stop().success());
    scene.daemon.launch();
    let pool = scene.daemon.json("pool show p");
    assert!(pool["action"].as_str().is_some_and(|action| action.contains("by itself")), "{pool}");
    assert!(scene.daemon.stop().success());
    mount.remount("rw");
    scene.daemon.launch();
    scene.expect_all_well();
    scene.work(3);
    assert_eq!(scene.daemon.stat("v", "errors"), 0);
}
