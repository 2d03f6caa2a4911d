//! One storage has many names, and is used once. With loop devices and QEMU; says so loudly where they are not there.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::files::{self, MIB};
use hotset_e2e::loops::LoopDevice;
use hotset_e2e::tools::{self, run, skip, succeed};

/// Longer than the daemon takes to try again what it could not open.
const LIMIT: Duration = Duration::from_secs(60);

// proves: F8, F10
#[test]
fn what_the_daemon_uses_is_refused_under_every_name_and_force_does_not_help() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[16, 16], "");
    let backing = daemon.make_volume(4096, "p");
    let (ssd, free) = (daemon.site.path("ssd0"), daemon.site.blank("free", 16 * MIB));
    let Some(over_ssd) = LoopDevice::over(&ssd) else { return };
    let Some(over_backing) = LoopDevice::over(&backing) else { return };
    let create = "pool create q --type read --io-type custom --force --ssd";
    for (path, user) in [(&over_ssd.name, "an SSD of pool p"), (&over_backing.name, "the backing device of volume v")] {
        daemon.refuse(&format!("{create} {path}"), 1, user);
        daemon.refuse(&format!("pool add-ssd p --force --ssd {path}"), 1, user);
        daemon.refuse(&format!("volume create w --backing {path}"), 1, user);
        daemon.refuse(&format!("volume create w --read-only --backing {path}"), 1, user);
    }
    daemon.refuse(&format!("{create} {}", backing.display()), 1, "the backing device of volume v");
    let Some(over_free) = LoopDevice::over(&free) else { return };
    daemon.refuse(&format!("{create} {} {}", over_free.name, free.display()), 1, "the same device");
    daemon.refuse(&format!("{create} {}", free.display()), 1, "losetup -d");
    daemon.ok(&format!("{create} {}", over_free.name));
    daemon.refuse(&format!("volume create w --backing {}", free.display()), 1, "an SSD of pool q");
    daemon.ok("pool delete q");
    daemon.assert_volume_pages(4096);
}

// proves: F10
#[test]
fn what_qemu_has_open_is_refused_by_name_and_qemu_refuses_what_is_ours() {
    let daemon = Daemon::start();
    let backing = daemon.make_volume(256, "");
    let output = run("qemu-io", &["-f", "raw", "-c", "read 0 4k", &backing.display().to_string()]);
    assert!(!output.status.success() && tools::text(&output).contains("lock"), "{}", tools::text(&output));
    let other = daemon.site.blank("other", 16 * MIB);
    let mut server =
        tools::command("qemu-nbd", &["-f", "raw", "-t", "-k", &daemon.site.socket("qemu").display().to_string()]);
    let mut server = server.arg(&other).spawn().expect("qemu-nbd is there");
    tools::eventually("qemu-nbd serves", std::time::Duration::from_secs(20), || daemon.site.socket("qemu").exists());
    daemon.refuse(&format!("volume create w --backing {}", other.display()), 1, "qemu-nbd (process");
    daemon.refuse(
        &format!("pool create q --type read --io-type custom --force --ssd {}", other.display()),
        1,
        "qemu-nbd (process",
    );
    // The program that bounds its life hands this on.
    succeed("kill", &["-TERM", &server.id().to_string()]);
    server.wait().expect("it is ours");
    daemon.ok(&format!("volume create w --backing {}", other.display()));
    files::assert_file_pages(&backing, 0);
}

// proves: F10
#[test]
fn what_stores_nothing_is_taken_for_nothing() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16], "");
    for path in ["/sys/kernel/uevent_seqnum", "/proc/version", "/proc/kcore", "/dev/zero", "/dev/null", "/dev", "/"] {
        for spelling in [path.to_owned(), format!("emulated:disks=4,size=1G,file={path}")] {
            daemon.refuse(&format!("volume create w --backing {spelling}"), 1, "");
        }
        daemon.refuse(&format!("volume create w --read-only --backing {path}"), 1, "");
        daemon.refuse(&format!("pool create q --type read --io-type custom --force --ssd {path}"), 1, "");
        daemon.refuse(&format!("pool add-ssd p --force --ssd {path}"), 1, "");
        daemon.refuse(&format!("pool import --ssd {path}"), 1, "");
    }
    daemon.refuse("image create /dev/hotset-image 16M", 1, "memory");
    daemon.refuse("pool create q --type read --io-type custom --ssd /dev/no-such-disk", 1, "lsblk");
}

// proves: P9
#[test]
fn a_spare_that_is_smaller_than_every_ssd_is_refused() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 32], "");
    let (small, fits) = (daemon.site.blank("small", 16 * MIB), daemon.site.blank("fits", 32 * MIB));
    daemon.refuse(&format!("pool add-spare p --ssd {}", small.display()), 1, "it can take the place of none");
    daemon.ok(&format!("pool add-spare p --ssd {}", fits.display()));
}

/// Two files change their names.
fn swap(one: &Path, other: &Path) {
    let between = one.with_extension("between");
    for (from, to) in [(one, between.as_path()), (other, one), (&between, other)] {
        fs::rename(from, to).expect("a file can be renamed");
    }
}

fn is_served(daemon: &Daemon, volume: &str, fill: u8) -> bool {
    daemon.is_online(volume) && daemon.client(volume).read(4096, 512).expect("a read") == [fill; 512]
}

// proves: F8
#[test]
fn swapped_paths_of_volumes_without_dirty_data_are_refused_until_they_are_right_or_accepted() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[16], "");
    let image = |name: &str, fill: u8| {
        let path = daemon.site.path(name);
        fs::write(&path, vec![fill; files::usize_of(MIB)]).expect("an image can be written");
        path
    };
    let volumes = [("a", 1, ""), ("b", 2, ""), ("c", 3, " --pool p"), ("d", 4, " --pool p")];
    let paths = volumes.map(|(name, fill, _)| image(name, fill));
    for ((name, _, pool), path) in volumes.iter().zip(&paths) {
        daemon.ok(&format!("volume create {name} --backing {}{pool}", path.display()));
    }
    daemon.stop();
    swap(&paths[0], &paths[1]);
    swap(&paths[2], &paths[3]);
    daemon.launch();
    for (name, ..) in volumes {
        tools::eventually("the swap is told", LIMIT, || {
            daemon.json("status")["volumes"].as_array().map(Vec::len) == Some(4)
        });
        let volume = daemon.json(&format!("volume show {name}"));
        assert_eq!(volume["state"], "offline", "{volume}");
        let says = |field: &str, part: &str| volume[field].as_str().is_some_and(|text| text.contains(part));
        assert!(says("reason", "paths were swapped") && says("action", "accept-backing"), "{volume}");
    }
    assert_ne!(daemon.hotset("status --check").status.code(), Some(0));
    swap(&paths[0], &paths[1]);
    tools::eventually("they are right again", LIMIT, || is_served(&daemon, "a", 1) && is_served(&daemon, "b", 2));
    assert!(daemon.ok("volume accept-backing c --dry-run").contains("paths were swapped"));
    daemon.ok("volume accept-backing c");
    daemon.ok("volume accept-backing d");
    assert!(is_served(&daemon, "c", 4) && is_served(&daemon, "d", 3));
    daemon.restart();
    for (name, fill) in [("a", 1), ("b", 2), ("c", 4), ("d", 3)] {
        assert!(is_served(&daemon, name, fill), "{name}");
    }
    assert_eq!(daemon.json("status")["health"], "good");
}

// proves: F8, F12
#[test]
fn a_file_that_took_the_place_of_a_backing_device_is_served_and_told_of_until_it_is_accepted() {
    let mut daemon = Daemon::start();
    let path = daemon.site.path("image");
    fs::write(&path, vec![1; files::usize_of(MIB)]).expect("an image can be written");
    daemon.ok(&format!("volume create v --backing {}", path.display()));
    daemon.stop();
    let restored = path.with_extension("restored");
    fs::write(&restored, vec![2; files::usize_of(MIB)]).expect("an image can be written");
    fs::rename(&restored, &path).expect("a file can be renamed");
    daemon.launch();
    daemon.restart();
    assert!(is_served(&daemon, "v", 2));
    let conditions = daemon.json("status")["conditions"].clone();
    let told = |kind: &str| conditions.as_array().is_some_and(|all| all.iter().any(|one| one["kind"] == kind));
    assert!(told("other-backing"), "{conditions}");
    tools::eventually("an event tells of it", LIMIT, || daemon.ok("events").contains("is another file"));
    daemon.ok("volume accept-backing v");
    assert_eq!(daemon.json("status")["conditions"], serde_json::json!([]));
    daemon.restart();
    assert_eq!(daemon.json("status")["conditions"], serde_json::json!([]));
}

// Nothing was known here of the device, and what was there was taken for the right one.
// proves: F8, F12
#[test]
fn after_an_import_the_record_of_the_pool_says_whose_backing_device_is_whose() {
    for ssds in [1, 2] {
        let mut daemon = Daemon::start();
        if ssds == 1 {
            daemon.make_pool(&[16], "");
        } else {
            daemon.make_read_write_pool(&[48, 48], "");
        }
        let path = daemon.site.path("image");
        fs::write(&path, vec![1; files::usize_of(MIB)]).expect("an image can be written");
        daemon.ok(&format!("volume create v --backing {} --pool p", path.display()));
        daemon.stop();
        let other = path.with_extension("other");
        fs::write(&other, vec![2; files::usize_of(MIB)]).expect("an image can be written");
        fs::rename(&other, &path).expect("a file can be renamed");
        fs::remove_dir_all(daemon.site.path("state")).expect("it is there");
        daemon.launch();
        let paths: Vec<String> =
            (0..ssds).map(|number| daemon.site.path(&format!("ssd{number}")).display().to_string()).collect();
        daemon.ok(&format!("pool import --ssd {}", paths.join(" ")));
        tools::eventually("it is served", LIMIT, || is_served(&daemon, "v", 2));
        let conditions = daemon.json("status")["conditions"].clone();
        let told = conditions.as_array().is_some_and(|all| all.iter().any(|one| one["kind"] == "other-backing"));
        assert!(told, "{conditions}");
    }
}

// proves: F6, F11
#[test]
fn a_file_whose_opening_hangs_holds_up_no_other_volume() {
    let daemon = Daemon::start();
    daemon.make_volume(64, "");
    let image = daemon.site.path("image");
    daemon.ok(&format!("image create {} 24M", image.display()));
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("fuse"), &image) else { return };
    let mut client = daemon.client("v");
    let path = faulty.path().display();
    let pool = format!("pool create p --type read --io-type custom --block-size 64K --ssd {path}");
    let array = format!("emulated:disks=5,level=raid5,size=24M,chunk=16K,file={path}");
    for (create, delete) in [
        (format!("volume create w --backing {path}"), "volume delete w"),
        (format!("volume create w --backing {array}"), "volume delete w"),
        (pool, "pool delete p"),
    ] {
        faulty.set(Fault::HangOpens);
        let creating = daemon.begin(&create);
        tools::eventually("it is being opened", LIMIT, || faulty.is_awaited());
        client.read(0, 4096).expect("another volume is served");
        daemon.ok("status");
        let output = creating.wait_with_output().expect("it ends");
        let said = tools::text(&output);
        assert!(!output.status.success() && said.contains("does not answer"), "{said}");
        client.read(0, 4096).expect("another volume is served");
        faulty.set(Fault::None);
        tools::eventually(&format!("it can be done: {create}"), LIMIT, || daemon.hotset(&create).status.success());
        daemon.ok(delete);
    }
}

// proves: F6, F11
#[test]
fn a_start_serves_everything_but_what_lies_on_a_file_whose_opening_hangs() {
    let mut daemon = Daemon::start();
    daemon.make_volume(64, "");
    let behind = daemon.site.blank("behind", MIB);
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("fuse"), &behind) else { return };
    daemon.ok(&format!("volume create w --backing {}", faulty.path().display()));
    daemon.stop();
    faulty.set(Fault::HangOpens);
    daemon.launch();
    daemon.client("v").read(0, 4096).expect("another volume is served");
    assert!(!daemon.is_online("w"), "it does not answer");
    faulty.set(Fault::None);
    tools::eventually("it comes when it answers", LIMIT, || daemon.is_online("w"));
}

// proves: F6, F11
#[test]
fn a_file_that_does_not_say_what_it_is_holds_up_neither_another_volume_nor_a_stop() {
    let mut daemon = Daemon::start();
    let behind = daemon.site.blank("behind", MIB);
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("fuse"), &behind) else { return };
    daemon.make_read_write_pool(&[64, 64], "");
    daemon.make_volume(64, "p");
    daemon.ok(&format!("volume create w --backing {} --pool p", faulty.path().display()));
    daemon.ok(&format!("volume create x --backing {}", daemon.site.blank("other", MIB).display()));
    let mut client = daemon.client("v");
    faulty.set(Fault::HangQuestions);
    let asking = daemon.begin("volume accept-backing w --dry-run");
    tools::eventually("it is asked", LIMIT, || faulty.is_asked());
    client.read(0, 4096).expect("another volume is served");
    client.write(0, &[7; 4096]).expect("another volume is served");
    let output = asking.wait_with_output().expect("it ends");
    assert!(!output.status.success(), "{}", tools::text(&output));
    drop(client);
    let log = daemon.site.path("log");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let has_stopped = || fs::read_to_string(&log).expect("it is there").contains("INFO stopped");
            tools::eventually("the daemon has stopped", LIMIT, has_stopped);
            // The kernel lets nobody go who waits for an answer.
            faulty.set(Fault::None);
        });
        daemon.stop();
    });
    daemon.launch();
    assert_eq!(daemon.client("v").read(0, 4096).expect("it is served again"), [7; 4096]);
}

// proves: F6, F11
#[test]
fn a_file_whose_close_hangs_holds_up_no_other_volume() {
    let daemon = Daemon::start();
    daemon.make_volume(64, "");
    let behind = daemon.site.blank("behind", MIB);
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("fuse"), &behind) else { return };
    let create = format!("volume create w --backing {}", faulty.path().display());
    daemon.ok(&create);
    let mut client = daemon.client("v");
    faulty.set(Fault::HangCloses);
    daemon.ok("volume delete w");
    client.read(0, 4096).expect("another volume is served");
    faulty.set(Fault::None);
    daemon.ok(&create);
    daemon.ok("volume delete w");
}

// proves: F10
#[test]
fn what_others_have_is_refused_without_a_word_of_force_wherever_they_have_it() {
    let daemon = Daemon::start();
    let image = daemon.site.blank("image", 16 * MIB);
    succeed("mke2fs", &["-q", "-F", &image.display().to_string()]);
    let Some(disk) = LoopDevice::over(&image) else { return };
    let place = daemon.site.path("place");
    fs::create_dir(&place).expect("a folder can be made");
    // In a mount namespace of its own: nobody else sees it.
    let script = format!("mount {} {} && echo mounted && read line", disk.name, place.display());
    let mut elsewhere = Command::new("unshare");
    elsewhere.args(["--mount", "sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut elsewhere = elsewhere.spawn().expect("unshare is there");
    let mut said = [0; 8];
    if elsewhere.stdout.take().expect("it is piped").read_exact(&mut said).is_err() {
        elsewhere.wait().expect("it ends");
        return skip("nothing can be mounted here");
    }
    let verbs = ["pool create q --type read --io-type custom --ssd", "volume create w --backing"];
    for verb in verbs {
        let said = daemon.refuse(&format!("{verb} {}", disk.name), 1, "does not see it");
        assert!(!said.contains("--force"), "{said}");
    }
    daemon.refuse(&format!("{} {} --force", verbs[0], disk.name), 1, "does not see it");
    drop(elsewhere.stdin.take());
    elsewhere.wait().expect("it ends");
    succeed("mount", &[&disk.name, &place.display().to_string()]);
    for verb in verbs {
        let said = daemon.refuse(&format!("{verb} {}", disk.name), 1, "it is mounted at");
        assert!(!said.contains("--force"), "{said}");
    }
    succeed("umount", &[&place]);
    daemon.refuse(&format!("{} {}", verbs[0], disk.name), 1, "use --force");
}

// proves: F10
#[test]
fn memory_that_a_program_can_write_is_no_backing_device_and_no_ssd() {
    let daemon = Daemon::start();
    let script = "import os, sys\nfd = os.memfd_create('disk')\nos.ftruncate(fd, 16 << 20)\n\
                  print(f'/proc/{os.getpid()}/fd/{fd}', flush=True)\nsys.stdin.read()";
    let mut writer = Command::new("python3");
    let mut writer =
        writer.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 is there");
    let mut path = String::new();
    BufReader::new(writer.stdout.take().expect("it is piped")).read_line(&mut path).expect("it says so");
    let path = path.trim();
    for verb in ["volume create v --backing", "pool create p --force --type read --io-type custom --ssd"] {
        let said = daemon.refuse(&format!("{verb} {path}"), 1, "python3 (process ");
        assert!(said.contains("in use"), "{said}");
    }
    drop(writer.stdin.take());
    writer.wait().expect("it ends");
}
