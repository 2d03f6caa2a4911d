//! SSDs that lie, vanish, shrink or come back old; backing devices that others changed. Hosts see none of it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::files::{self, MIB, assert_file_pages, overwrite};
use hotset_e2e::nbd::Verb;
use hotset_e2e::pattern::{PAGE_BYTES, Random, assert_pages, pages};
use hotset_e2e::tools;

const PAGES: u64 = 4096;

/// Two SSDs, a volume of 16 MiB that is all in the cache.
fn warm_daemon() -> (Daemon, [PathBuf; 2]) {
    let daemon = Daemon::start();
    daemon.make_pool(&[24, 32], "--populate-on-read 1 --populate-on-write 1");
    daemon.make_volume(PAGES, "p");
    daemon.warm_up(PAGES);
    let ssds = [daemon.site.path("ssd0"), daemon.site.path("ssd1")];
    (daemon, ssds)
}

/// Overwrites a part of an image with random bytes.
fn scramble(path: &std::path::Path, from: u64) {
    let size_bytes = fs::metadata(path).expect("the image is there").len();
    let mut random = Random::new(size_bytes + from);
    for offset in (from..size_bytes).step_by(files::usize_of(MIB)) {
        let len = files::usize_of((size_bytes - offset).min(MIB));
        overwrite(path, offset, &random.bytes(len));
    }
}

fn health(daemon: &Daemon) -> String {
    daemon.json("status")["health"].as_str().expect("a word").to_owned()
}

// proves: D3, D15, F1
#[test]
fn random_bytes_on_an_ssd_in_use_are_never_served() {
    let (daemon, ssds) = warm_daemon();
    scramble(&ssds[0], MIB);
    for _ in 0..2 {
        daemon.assert_volume_pages(PAGES);
    }
    let hidden = daemon.stat("v", "read_errors_hidden");
    assert!(hidden > 0, "bad pages were met and not shown");
    assert_eq!(daemon.stat("v", "errors"), 0);
    let pool = daemon.json("pool show p");
    let errors: u64 =
        pool["ssds"].as_array().expect("a pool has SSDs").iter().filter_map(|ssd| ssd["read_errors"].as_u64()).sum();
    assert!(errors > 0, "{pool}");
}

// proves: D15, F1, F7
#[test]
fn ssds_overwritten_from_end_to_end_while_running_or_stopped_are_never_served() {
    let (mut daemon, ssds) = warm_daemon();
    scramble(&ssds[0], 0);
    scramble(&ssds[1], 0);
    daemon.assert_volume_pages(PAGES);
    daemon.kill();
    daemon.launch();
    daemon.assert_volume_pages(PAGES);
    assert_ne!(health(&daemon), "good");
    assert_eq!(daemon.hotset("status --check").status.code().map(|code| code > 0), Some(true));
    assert!(daemon.stop().success());
    assert_file_pages(&daemon.site.path("backing"), 0);
}

// proves: F1, D3
#[test]
fn an_ssd_that_answers_errors_drops_out_and_hosts_see_nothing() {
    let (daemon, ssds) = warm_daemon();
    // Past the end of a file that shrank there is nothing to read and (by direct I/O on our side) an error or a gap.
    fs::File::options().write(true).open(&ssds[0]).and_then(|file| file.set_len(MIB)).expect("a file can shrink");
    daemon.assert_volume_pages(PAGES);
    assert!(daemon.stat("v", "read_errors_hidden") > 0);
    assert_eq!(daemon.stat("v", "errors"), 0);
    // Writes go on too, and reads after them are right.
    let mut client = daemon.client("v");
    client.write(0, &pages(0, 64, 1)).expect("a write");
    assert_pages(&client.read(0, 64 * 4096).expect("a read"), 0, 1);
    assert_eq!(daemon.json("pool show p")["ssds"][0]["state"], "expelled");
    assert_eq!(fs::metadata(&ssds[0]).expect("it is there").len(), MIB, "no write made it grow again");
}

// proves: F1, F4, D5
#[test]
fn an_ssd_that_was_away_while_data_changed_is_not_believed_when_it_comes_back() {
    let (mut daemon, ssds) = warm_daemon();
    assert!(daemon.stop().success());
    let away = daemon.site.path("away");
    fs::rename(&ssds[0], &away).expect("the SSD can be taken away");
    daemon.launch();
    tools::eventually("the volume is served without the SSD", Duration::from_secs(30), || daemon.is_online("v"));
    daemon.assert_volume_pages(PAGES);
    let said = daemon.ok("status");
    assert!(said.contains(&ssds[0].display().to_string()) || said.contains("ssd0"), "it says what is missing: {said}");
    assert_ne!(health(&daemon), "good");
    let mut client = daemon.client("v");
    for first in (0..PAGES).step_by(64) {
        client.write(first * PAGE_BYTES, &pages(first, 64, 1)).expect("a write");
    }
    client.flush().expect("a flush");
    drop(client);
    assert!(daemon.stop().success());
    fs::rename(&away, &ssds[0]).expect("the SSD comes back");
    daemon.launch();
    for _ in 0..2 {
        let mut client = daemon.client("v");
        for first in (0..PAGES).step_by(64) {
            assert_pages(&client.read(first * PAGE_BYTES, 64 * 4096).expect("a read"), first, 1);
        }
    }
    let pool = daemon.json("pool show p");
    let back = pool["ssds"].as_array().and_then(|all| all.iter().find(|ssd| ssd["path"].to_string().contains("ssd0")));
    assert_eq!(back.map(|ssd| &ssd["state"]), Some(&"online".into()), "it is in the pool again: {pool}");
    let recovery = pool["recovery"].to_string();
    assert!(recovery.contains("ssd0 starts empty"), "and nothing that it held is believed: {recovery}");
    assert!(daemon.log().contains("ssd0 is there again"), "the log says so: {}", daemon.log());
    assert_eq!(health(&daemon), "good");
    assert!(daemon.stop().success());
    assert_file_pages(&daemon.site.path("backing"), 1);
}

/// What the pool says of the SSDs at a path.
fn shown_at(daemon: &Daemon, path: &std::path::Path) -> Vec<serde_json::Value> {
    let ssds = daemon.json("pool show p")["ssds"].as_array().expect("a list").clone();
    ssds.into_iter().filter(|ssd| ssd["path"] == path.display().to_string()).collect()
}

/// Cuts `ssd0` short until it has failed, then gives it its size back.
#[track_caller]
fn fail_for_a_while(daemon: &Daemon) -> PathBuf {
    let ssd = daemon.site.path("ssd0");
    let set_len = |bytes| {
        let file = fs::File::options().write(true).open(&ssd);
        file.and_then(|file| file.set_len(bytes)).expect("a file can change its size");
    };
    let size_bytes = fs::metadata(&ssd).expect("the image is there").len();
    set_len(MIB);
    let mut client = daemon.client("v");
    tools::eventually("the SSD has failed", Duration::from_secs(30), || {
        client.write(0, &pages(0, 64, 0)).and_then(|()| client.flush()).expect("no host sees an error");
        client.cache(0, 4 << 20).expect("the cache has room");
        shown_at(daemon, &ssd)[0]["state"] == "expelled"
    });
    let record = daemon.site.path("state").join("pools/p.json");
    tools::eventually("that is on record", Duration::from_secs(30), || {
        fs::read_to_string(&record).expect("the record is there").contains("failed")
    });
    set_len(size_bytes);
    ssd
}

#[track_caller]
fn assert_not_used_again(daemon: &Daemon, ssd: &std::path::Path) {
    let shown = shown_at(daemon, ssd);
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!((&shown[0]["state"], &shown[0]["health"]), (&"expelled".into(), &"failed".into()), "{shown:?}");
    let said = |key: &str| shown[0][key].as_str().expect("it is words").to_owned();
    assert!(said("reason").contains("it failed before"), "{shown:?}");
    assert!(said("action").contains(&format!("add-ssd p --ssd {}", ssd.display())), "{shown:?}");
    assert_eq!(health(daemon), "degraded", "{}", daemon.ok("status"));
}

// proves: F1, F4, P10
#[test]
fn an_ssd_that_failed_is_not_used_again_after_a_restart_until_it_is_added() {
    for read_write in [false, true] {
        let mut daemon = Daemon::start();
        match read_write {
            false => daemon.make_pool(&[24, 32], "--populate-on-read 1"),
            true => daemon.make_read_write_pool(&[48, 48, 48], "--populate-on-read 1"),
        }
        daemon.make_volume(PAGES, "p");
        daemon.warm_up(1024);
        let ssd = fail_for_a_while(&daemon);
        for _ in 0..2 {
            daemon.restart();
            assert_not_used_again(&daemon, &ssd);
            daemon.assert_volume_pages(PAGES);
        }
        tools::eventually("nothing lacks a copy", Duration::from_secs(30), || {
            daemon.json("pool show p")["rebuild"].is_null()
        });
        // Whole or not: a failed SSD is not good before it is replaced or removed, whoever asks when.
        let pool = daemon.json("pool show p");
        assert_eq!((&pool["health"], health(&daemon).as_str()), (&"degraded".into(), "degraded"), "{pool}");
        assert!(pool["reason"] != "" && pool["action"] != "", "{pool}");
        assert_eq!(daemon.hotset("status --check").status.code(), Some(1));
        daemon.ok(&format!("pool add-ssd p --ssd {}", ssd.display()));
        for _ in 0..2 {
            let shown = shown_at(&daemon, &ssd);
            assert_eq!(shown.len(), 1, "{shown:?}");
            assert_eq!(shown[0]["state"], "online", "{shown:?}");
            assert_eq!(health(&daemon), "good", "{}", daemon.ok("status"));
            daemon.restart();
        }
        daemon.assert_volume_pages(PAGES);
    }
}

// proves: F4, P10
#[test]
fn an_ssd_that_failed_is_forgotten_when_the_pool_is_to_do_without_it() {
    let (mut daemon, _) = warm_daemon();
    let ssd = fail_for_a_while(&daemon);
    daemon.restart();
    assert_not_used_again(&daemon, &ssd);
    daemon.ok(&format!("pool remove-ssd p --ssd {}", ssd.display()));
    for _ in 0..2 {
        assert!(shown_at(&daemon, &ssd).is_empty(), "{}", daemon.ok("status"));
        assert_eq!(health(&daemon), "good", "{}", daemon.ok("status"));
        daemon.restart();
    }
    daemon.assert_volume_pages(PAGES);
}

// proves: F4, D5
#[test]
fn old_copies_of_all_ssds_are_not_believed() {
    let (mut daemon, ssds) = warm_daemon();
    assert!(daemon.stop().success());
    let old: Vec<_> = ssds.iter().map(|path| (path, path.with_extension("old"))).collect();
    for (path, old) in &old {
        fs::copy(path, old).expect("an SSD can be copied");
    }
    daemon.launch();
    let mut client = daemon.client("v");
    client.write(0, &pages(0, 1024, 1)).expect("a write");
    client.flush().expect("a flush");
    drop(client);
    assert!(daemon.stop().success());
    for (path, old) in &old {
        fs::rename(old, path).expect("the old copies take their place");
    }
    daemon.launch();
    let mut client = daemon.client("v");
    assert_pages(&client.read(0, 1024 * 4096).expect("a read"), 0, 1);
    assert_pages(&client.read(1024 * PAGE_BYTES, 1024 * 4096).expect("a read"), 1024, 0);
}

// proves: F1, F4
#[test]
fn an_ssd_that_comes_back_truncated_or_empty_is_not_believed() {
    type Damage = fn(&std::path::Path);
    let damages: [(&str, Damage); 3] = [
        ("truncated", |path| {
            fs::File::options()
                .write(true)
                .open(path)
                .and_then(|file| file.set_len(4 * MIB))
                .expect("a file can shrink");
        }),
        ("zeroed", |path| files::write_zeroes(path, 24 * MIB)),
        ("half overwritten", |path| scramble(path, 5 * MIB)),
    ];
    for (what, damage) in damages {
        let (mut daemon, ssds) = warm_daemon();
        assert!(daemon.stop().success());
        damage(&ssds[0]);
        daemon.launch();
        tools::eventually("the volume is served", Duration::from_secs(30), || daemon.is_online("v"));
        for _ in 0..2 {
            daemon.assert_volume_pages(PAGES);
        }
        assert_eq!(daemon.stat("v", "errors"), 0, "{what}");
    }
}

// proves: F8, D5
#[test]
fn a_backing_device_that_was_changed_while_we_were_away_is_noticed() {
    let (mut daemon, _) = warm_daemon();
    let backing = daemon.site.path("backing");
    assert!(daemon.stop().success());
    // In the middle, where no fingerprint need be.
    overwrite(&backing, 1234 * PAGE_BYTES, &pages(1234, 16, 5));
    daemon.launch();
    let mut client = daemon.client("v");
    assert_pages(&client.read(1234 * PAGE_BYTES, 16 * 4096).expect("a read"), 1234, 5);
    assert_pages(&client.read(0, 1234 * 4096).expect("a read"), 0, 0);
    let told = format!("{}{}", daemon.ok("status"), daemon.log());
    assert!(
        told.contains("written to while Hotset was stopped"),
        "it says that the backing device was changed: {told}"
    );
    assert_eq!(daemon.stat("v", "cache_drops"), 1);
}

// proves: F8
#[test]
fn a_backing_device_that_was_replaced_by_another_is_noticed() {
    let (mut daemon, _) = warm_daemon();
    let backing = daemon.site.path("backing");
    for clean in [true, false] {
        if clean {
            assert!(daemon.stop().success());
        } else {
            daemon.kill();
        }
        let version = if clean { 6 } else { 7 };
        fs::remove_file(&backing).expect("the image can be removed");
        fs::write(&backing, pages(0, PAGES, version)).expect("another image takes its place");
        daemon.launch();
        let mut client = daemon.client("v");
        for first in (0..PAGES).step_by(256) {
            assert_pages(&client.read(first * PAGE_BYTES, 256 * 4096).expect("a read"), first, version);
        }
        daemon.warm_up(PAGES);
    }
}

// proves: F6, F8
#[test]
fn a_volume_whose_backing_device_is_missing_says_so_and_the_others_serve() {
    let (mut daemon, _) = warm_daemon();
    let other = daemon.site.numbered("other", 64);
    daemon.ok(&format!("volume create other --backing {}", other.display()));
    assert!(daemon.stop().success());
    let (backing, away) = (daemon.site.path("backing"), daemon.site.path("away"));
    fs::rename(&backing, &away).expect("the backing device can be taken away");
    daemon.launch();
    let shown = daemon.json("volume show v");
    assert_eq!(shown["state"], "offline", "{shown}");
    assert!(shown["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{shown}");
    assert_eq!(daemon.hotset("status --check").status.code(), Some(2));
    let mut client = daemon.client("other");
    assert_pages(&client.read(0, 64 * 4096).expect("a read"), 0, 0);
    drop(client);
    assert!(daemon.stop().success());
    fs::rename(&away, &backing).expect("the backing device comes back");
    daemon.launch();
    daemon.assert_volume_pages(PAGES);
}

// proves: F1, F4
#[test]
fn a_backing_device_that_hangs_holds_up_its_own_volume_alone_whatever_is_asked_of_it() {
    /// More than a file system in user space takes at once (12), or the kernel has threads for by itself (four per CPU).
    const ASKED: u64 = 100;
    let (daemon, _) = warm_daemon();
    let behind = daemon.site.numbered("behind", ASKED);
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("faulty"), &behind) else { return };
    daemon.ok(&format!("volume create hangs --backing {}", faulty.path().display()));
    let mut asks = daemon.client("hangs");
    faulty.set(Fault::Hang);
    for page in 0..ASKED {
        let (verb, data) = if page % 2 == 0 { (Verb::Read, vec![]) } else { (Verb::Write, pages(page, 1, 1)) };
        asks.send(verb, 0, page * PAGE_BYTES, 4096, &data).expect("the server takes it");
    }
    tools::succeed("nbdinfo", &["--map", "--totals", &daemon.uri("hangs")]);
    // Hits, misses, writes and flushes of the other one.
    let mut client = daemon.client("v");
    client.write(0, &pages(0, 16, 1)).expect("a write");
    client.flush().expect("a flush");
    assert_pages(&client.read(0, 16 * 4096).expect("a read"), 0, 1);
    daemon.ok("volume disable-cache v");
    assert_pages(&client.read(0, 16 * 4096).expect("a read"), 0, 1);
    assert!(daemon.is_online("v"));
    assert_eq!(asks.in_flight(), usize::try_from(ASKED).expect("an index has 64 bits"));
    faulty.set(Fault::Error);
    (0..ASKED).for_each(|_| assert_ne!(asks.receive().expect("an answer").error, 0));
    faulty.set(Fault::None);
    client.flush().expect("a flush");
}

// Changes waited for as long as the device took, and so did every other change of any volume behind them; a start waited too.
// proves: F4, F6
#[test]
fn a_backing_device_that_hangs_holds_up_no_change_of_another_volume_and_no_start() {
    let (mut daemon, _) = warm_daemon();
    let behind = daemon.site.numbered("behind", 64);
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("faulty"), &behind) else { return };
    let create = format!("volume create hangs --backing {} --pool p", faulty.path().display());
    daemon.ok(&create);
    let mut asks = daemon.client("hangs");
    faulty.set(Fault::Hang);
    asks.send(Verb::Write, 0, 0, 4096, &pages(0, 1, 1)).expect("the server takes it");
    asks.send(Verb::Read, 0, PAGE_BYTES, 4096, &[]).expect("the server takes it");
    daemon.refuse("volume disable-cache hangs", 1, "did not answer within 10 s, and nothing was changed");
    daemon.ok("volume disable-cache v");
    daemon.ok("volume enable-cache v --pool p");
    assert_eq!(daemon.json("volume show hangs")["pool"], "p");
    let discarded = "its cache was discarded while backing device";
    let said = daemon.ok("volume disable-cache hangs --force --yes-lose-data");
    assert!(said.contains(discarded), "{said}");
    let shown = daemon.json("volume show hangs");
    assert!(shown["reason"].as_str().is_some_and(|reason| reason.contains(discarded)), "{shown}");
    daemon.ok("volume disable-cache v");
    daemon.ok("volume enable-cache v --pool p");
    faulty.set(Fault::None);
    (0..2).for_each(|_| drop(asks.receive().expect("an answer")));
    drop(asks);
    tools::eventually("it serves again", Duration::from_secs(60), || {
        let reason = daemon.json("volume show hangs")["reason"].to_string();
        !reason.contains("did not answer") && !reason.contains("was discarded")
    });
    daemon.ok("volume enable-cache hangs --pool p");

    assert!(daemon.stop().success());
    faulty.set(Fault::Hang);
    daemon.launch();
    assert_pages(&daemon.client("v").read(0, 64 * 4096).expect("a read"), 0, 0);
    let shown = daemon.json("volume show hangs");
    let reason = shown["reason"].as_str().unwrap_or_default();
    assert!(shown["state"] == "offline" && reason.contains("does not answer within 15 s"), "{shown}");
    daemon.ok("volume set v read-cutoff=2M");
    daemon.refuse(&create.replace("hangs", "again"), 1, "does not answer");
    faulty.set(Fault::None);
    tools::eventually("it is served again", Duration::from_secs(60), || daemon.is_online("hangs"));
    let mut asks = daemon.client("hangs");
    assert_pages(&asks.read(PAGE_BYTES, 63 * 4096).expect("a read"), 1, 0);
    faulty.set(Fault::Hang);
    asks.send(Verb::Write, 0, 0, 4096, &pages(0, 1, 2)).expect("the server takes it");
    daemon.ok("volume delete hangs --force --yes-lose-data");
    daemon.ok("volume disable-cache v");
    assert!(daemon.stop().success());
}

// proves: F4, D11
#[test]
fn a_backing_device_that_hangs_leaves_the_others_half_of_what_may_be_dirty() {
    const MORE: u64 = 100;
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[24, 32], "--populate-on-write 1");
    daemon.make_volume(PAGES, "p");
    daemon.ok("pool set p dirty-watermark=1 flush-rate=high");
    let capacity = daemon.json("pool show p")["write_log"]["dirty_capacity_bytes"].as_u64().expect("a number");
    let half = capacity / PAGE_BYTES / 2;
    let behind = daemon.site.numbered("behind", half + MORE);
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("faulty"), &behind) else { return };
    daemon.ok(&format!("volume create hangs --backing {} --pool p", faulty.path().display()));
    // All of it is one stream.
    daemon.ok("volume set hangs write-cutoff=off");
    let mut asks = daemon.client("hangs");
    faulty.set(Fault::HangWrites);
    (0..half / 8).for_each(|page| asks.write(page * PAGE_BYTES, &pages(page, 1, 1)).expect("it is cached"));
    tools::eventually("it is seen to hang", Duration::from_secs(60), || {
        let shown = daemon.json("volume show hangs");
        shown["reason"].as_str().is_some_and(|reason| reason.contains("has answered no write, discard or flush for"))
    });
    (half / 8..half).for_each(|page| asks.write(page * PAGE_BYTES, &pages(page, 1, 1)).expect("it is cached"));
    for page in half..half + MORE {
        asks.send(Verb::Write, 0, page * PAGE_BYTES, 4096, &pages(page, 1, 1)).expect("the server takes it");
    }
    let mut client = daemon.client("v");
    let hits = daemon.stat("v", "write_hits");
    (0..MORE).for_each(|page| client.write(page * PAGE_BYTES, &pages(page, 1, 1)).expect("a write"));
    assert_eq!(daemon.stat("v", "write_hits"), hits + MORE, "the other one's writes are cached");
    assert_eq!(daemon.dirty_bytes("hangs"), half * PAGE_BYTES);
    faulty.set(Fault::None);
    // What went to the device and hung there fails.
    (0..MORE).for_each(|_| drop(asks.receive().expect("an answer")));
    tools::eventually("all of it is cleaned", Duration::from_secs(60), || daemon.dirty_bytes("hangs") == 0);
    // That hosts were told errors is remembered for a while.
    assert_eq!(daemon.json("pool show p")["health"], "good");
}

// proves: F7
#[test]
fn without_its_state_directory_a_pool_is_imported_from_its_ssds() {
    let (mut daemon, ssds) = warm_daemon();
    assert!(daemon.stop().success());
    fs::rename(daemon.site.path("state"), daemon.site.path("lost")).expect("the state can be lost");
    daemon.launch();
    let list = |daemon: &Daemon| daemon.json("pool list")["pools"].as_array().map(Vec::len);
    assert_eq!(list(&daemon), Some(0));
    daemon.ok(&format!("pool import --ssd {} {}", ssds[0].display(), ssds[1].display()));
    assert_eq!(list(&daemon), Some(1));
    tools::eventually("its volume is served", Duration::from_secs(10), || daemon.is_online("v"));
    daemon.assert_volume_pages(PAGES);
}
