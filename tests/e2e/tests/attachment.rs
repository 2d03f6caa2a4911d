//! A backing device that already holds data: attached in place, unchanged, and free again at any time.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::{MIB, assert_file_pages};
use hotset_e2e::load::{Host, StopOnPanic};
use hotset_e2e::pattern::{PAGE_BYTES, Random, assert_pages, pages};
use hotset_e2e::tools::{eventually, fail, run, succeed, text};

/// An ext4 image with a few hundred known files, made without root.
fn make_ext4(daemon: &Daemon, size_mib: u64) -> (std::path::PathBuf, std::path::PathBuf) {
    let tree = daemon.site.path("tree");
    let mut random = Random::new(42);
    for folder in 0..8 {
        let folder = tree.join(format!("folder{folder}"));
        fs::create_dir_all(&folder).expect("a folder can be made");
        for file in 0..24 {
            let len = usize::try_from(random.below(160 << 10)).expect("an address has 64 bits at most");
            fs::write(folder.join(format!("file{file}")), random.bytes(len)).expect("a file can be written");
        }
    }
    let image = daemon.site.blank("ext4", size_mib * MIB);
    let paths = (tree.display().to_string(), image.display().to_string());
    succeed("mke2fs", &["-q", "-F", "-t", "ext4", "-d", &paths.0, &paths.1]);
    (image, tree)
}

/// Asserts that the image's files are those of the tree.
fn assert_ext4(image: &std::path::Path, tree: &std::path::Path, out: &std::path::Path) {
    let checked = run("e2fsck", &["-f", "-n", &image.display().to_string()]);
    assert!(checked.status.success(), "e2fsck: {}", text(&checked));
    fs::create_dir_all(out).expect("a folder can be made");
    let dump = format!("rdump / {}", out.display());
    succeed("debugfs", &["-R", &dump, &image.display().to_string()]);
    // mke2fs adds lost+found.
    let arguments = ["--recursive", "--exclude=lost+found", &tree.display().to_string(), &out.display().to_string()];
    succeed("diff", &arguments);
    fs::remove_dir_all(out).expect("what was just made can be removed");
}

// proves: P12, D2, D3
#[test]
fn an_ext4_image_is_cached_in_place_and_unchanged_and_usable_without_us() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16, 24, 40], "--populate-on-read 1");
    let (image, tree) = make_ext4(&daemon, 48);
    let before = fs::read(&image).expect("the image can be read");
    daemon.ok(&format!("volume create v --backing {} --pool p", image.display()));
    daemon.ok("volume set v read-cutoff=off");

    let copy = daemon.site.path("copy");
    for _ in 0..3 {
        succeed("nbdcopy", &[daemon.uri("v"), copy.display().to_string()]);
        assert!(fs::read(&copy).expect("the copy can be read") == before, "the copy differs from the image");
    }
    assert!(daemon.stat("v", "read_hits") > 0);
    assert_ext4(&copy, &tree, &daemon.site.path("out"));

    daemon.ok("volume disable-cache v");
    daemon.ok("volume delete v");
    assert!(fs::read(&image).expect("the image can be read") == before, "the image was changed");
    assert_ext4(&image, &tree, &daemon.site.path("out"));
}

// proves: P12
#[test]
fn an_image_written_through_the_cache_is_whole_without_us() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[16, 24], "--populate-on-read 1 --populate-on-write 1");
    let (image, tree) = make_ext4(&daemon, 32);
    daemon.ok(&format!("volume create v --backing {} --pool p", image.display()));
    // A new file, written by libext2fs over NBD through a copy and back.
    let copy = daemon.site.path("copy").display().to_string();
    fs::write(tree.join("added"), Random::new(9).bytes(100_000)).expect("a file can be written");
    succeed("nbdcopy", &[daemon.uri("v"), copy.clone()]);
    let add = format!("write {} added", tree.join("added").display());
    succeed("debugfs", &["-w", "-R", &add, &copy]);
    succeed("nbdcopy", &["--flush", &copy, &daemon.uri("v")]);
    assert!(daemon.stop().success());
    assert_ext4(&image, &tree, &daemon.site.path("out"));
}

// proves: P12, D5, D12
#[test]
fn the_cache_comes_and_goes_under_load_without_a_wrong_byte() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16], "--populate-on-read 1 --populate-on-write 1");
    let backing = daemon.make_volume(24 * MIB / PAGE_BYTES, "");
    let stop = AtomicBool::new(false);
    let mut hosts: Vec<_> = (0..2).map(|index| Host::new(index * 24576, 24576, index + 1)).collect();
    thread::scope(|scope| {
        let _stop = StopOnPanic(&stop);
        for host in &mut hosts {
            let (daemon, stop) = (&daemon, &stop);
            scope.spawn(move || host.work(&mut daemon.client("v"), stop).expect("the connection holds"));
        }
        for _ in 0..8 {
            daemon.ok("volume enable-cache v --pool p");
            let busy = || daemon.stat("v", "populated_bytes") > 0 && daemon.cache_used_bytes("v") > 0;
            hotset_e2e::tools::eventually("blocks come in", Duration::from_secs(20), busy);
            daemon.ok("volume disable-cache v");
            assert_eq!(daemon.cache_used_bytes("v"), 0);
        }
        stop.store(true, Ordering::Relaxed);
    });
    for host in &mut hosts {
        assert!(host.answered() > 100, "hosts were served meanwhile");
        host.check_all(&mut daemon.client("v"));
    }
    daemon.ok("volume delete v");
    hosts.iter_mut().for_each(|host| host.check_file(&backing));
}

// proves: P13
#[test]
fn a_deleted_pool_leaves_volumes_serving_and_ssds_free_for_a_new_one() {
    let daemon = Daemon::start();
    daemon.make_pool(&[32], "--populate-on-read 1");
    let backing = daemon.make_volume(1024, "p");
    daemon.warm_up(1024);
    daemon.ok("pool delete p");
    daemon.assert_volume_pages(1024);
    assert_eq!(daemon.json("volume show v")["pool"], serde_json::Value::Null);
    let ssd = daemon.site.path("ssd0").display().to_string();
    daemon.ok(&format!("pool create q --type read --io-type database --ssd {ssd}"));
    daemon.ok("volume enable-cache v --pool q");
    daemon.assert_volume_pages(1024);
    assert_file_pages(&backing, 0);
    let said = fail("nbdinfo", &[daemon.uri("gone")]);
    assert!(!said.is_empty());
}

// proves: P12
#[test]
fn a_volume_is_deleted_only_for_good_and_its_name_is_free_again() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[32], "");
    let backing = daemon.make_volume(256, "p");
    daemon.ok("volume delete v");
    daemon.refuse("volume show v", 1, "v");
    daemon.restart();
    daemon.refuse("volume show v", 1, "v");
    daemon.ok(&format!("volume create v --backing {} --pool p", backing.display()));
    daemon.assert_volume_pages(256);
}

/// Longer than what is offline is left alone between two tries.
const TRIED_AGAIN: Duration = Duration::from_secs(7);

// Hosts would write past dirty data which the next start believes.
// proves: D1, F11
#[test]
fn a_volume_that_cannot_be_taken_from_an_offline_pool_on_record_stays_with_it() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 48], "");
    daemon.make_volume(64, "p");
    daemon.client("v").write(0, &pages(0, 16, 1)).expect("a write");
    assert!(daemon.stop().success());
    let ssds = ["ssd0", "ssd1"].map(|name| (daemon.site.path(name), daemon.site.path(&format!("{name}-away"))));
    ssds.iter().for_each(|(ssd, away)| fs::rename(ssd, away).expect("it can be taken away"));
    daemon.launch();
    for record in ["volumes.json.new", "pools/p.json.new"] {
        let in_the_way = daemon.site.path("state").join(record);
        fs::create_dir(&in_the_way).expect("a folder can be made");
        daemon.refuse("volume disable-cache v --force --yes-lose-data", 1, "state directory");
        thread::sleep(TRIED_AGAIN);
        assert!(!daemon.is_online("v"), "{record}: it is served without what its pool has");
        fs::remove_dir(&in_the_way).expect("it is empty");
        eventually("the records are written", Duration::from_secs(60), || {
            daemon.json("status")["conditions"]
                .as_array()
                .is_some_and(|conditions| conditions.iter().all(|condition| condition["kind"] != "record-outdated"))
        });
        let text = fs::read_to_string(daemon.site.path("state/pools/p.json")).expect("it is there");
        let known: serde_json::Value = serde_json::from_str(&text).expect("the record is JSON");
        assert_eq!(known["volumes"][0]["name"], "v", "{record}: {known}");
    }
    ssds.iter().for_each(|(ssd, away)| fs::rename(away, ssd).expect("it can be put back"));
    eventually("the pool is open", Duration::from_secs(60), || daemon.is_online("v"));
    assert_pages(&daemon.client("v").read(0, 16 * 4096).expect("a read"), 0, 1);
}
