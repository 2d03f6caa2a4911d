//! What an administrator sees and changes: verbs, their JSON, their exit codes, the API's socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hotset_e2e::daemon::{Daemon, binary, free_port};
use hotset_e2e::files::MIB;
use hotset_e2e::tools::{self, succeed};
use serde_json::Value;

#[track_caller]
fn assert_keys(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(!value[key].is_null(), "no {key} in {value}");
    }
}

/// As the API describes them.
fn counters() -> Vec<String> {
    let document: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).expect("a document");
    let counters = document["components"]["schemas"]["VolumeStats"]["properties"].as_object().expect("they have names");
    counters.keys().cloned().collect()
}

// proves: S2, S4
#[test]
fn every_verb_answers_in_json_with_stable_keys() {
    let daemon = Daemon::start();
    let ssd = daemon.site.blank("ssd", 32 * MIB).display().to_string();
    let create = format!("pool create p --type read --io-type database --ssd {ssd}");
    let plan = daemon.json(&format!("{create} --dry-run"));
    assert_keys(&plan, &["capacity_bytes", "memory_bytes", "slots", "block_size_bytes"]);
    assert_eq!(daemon.json("pool list")["pools"], Value::Array(Vec::new()), "a dry run makes nothing");

    daemon.json(&create);
    let pool = daemon.json("pool show p");
    let keys =
        ["name", "type", "io_type", "health", "block_size_bytes", "capacity_bytes", "used_bytes", "ssds", "volumes"];
    assert_keys(&pool, &keys);
    assert_eq!((&pool["block_size_bytes"], &pool["populate_on_read"]), (&Value::from(1 << 20), &Value::from(2)));
    assert_keys(&pool["ssds"][0], &["path", "size_bytes", "online", "read_errors"]);
    assert_eq!(daemon.json("pool list")["pools"].as_array().map(Vec::len), Some(1));

    let backing = daemon.site.numbered("backing", 256).display().to_string();
    daemon.json(&format!("volume create v --backing {backing}"));
    daemon.json("volume enable-cache v --pool p");
    let volume = daemon.json("volume show v");
    assert_keys(&volume, &["name", "backing", "size_bytes", "cache_used_bytes", "pool", "health", "stats"]);
    let counters = counters();
    assert!(counters.len() > 30, "{counters:?}");
    let counters: Vec<&str> = counters.iter().map(String::as_str).collect();
    assert_keys(&volume["stats"], &counters);
    assert_eq!(daemon.json("volume list")["volumes"].as_array().map(Vec::len), Some(1));
    assert_keys(&daemon.json("volume set v read-cutoff=2M"), &["changed"]);
    assert_keys(&daemon.json("pool set p policy=lru"), &["changed"]);

    let status = daemon.json("status");
    assert_keys(&status, &["health", "version", "pools", "volumes", "nbd"]);
    let stats = daemon.json("stats v");
    assert_keys(&stats["volumes"][0], &["name", "size_bytes", "cache_used_bytes", "stats"]);
    assert_keys(&stats["volumes"][0]["stats"], &counters);

    daemon.json("volume disable-cache v");
    daemon.json("volume delete v");
    daemon.json("pool delete p");
    assert_eq!(daemon.json("volume list")["volumes"], Value::Array(Vec::new()));
    // An error is JSON too, on standard error, and standard output stays clean.
    let output = daemon.hotset("volume show v -o json");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let error: Value = serde_json::from_slice(&output.stderr).expect("an error in JSON");
    assert!(error.to_string().contains("not-found"), "{error}");
}

// proves: S4
#[test]
fn an_idempotent_verb_says_whether_it_changed_anything() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16], "");
    daemon.make_volume(256, "p");
    assert_eq!(daemon.json("pool set p policy=lru")["changed"], true);
    assert_eq!(daemon.json("pool set p policy=lru")["changed"], false);
    assert_eq!(daemon.json("volume enable-cache v --pool p")["changed"], false);
    assert_eq!(daemon.json("volume disable-cache v")["changed"], true);
    assert_eq!(daemon.json("volume disable-cache v")["changed"], false);
}

// proves: P8, P15, D9, D10
#[test]
fn settings_change_online_and_survive_restarts_and_kills() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[16], "");
    daemon.make_volume(256, "p");
    daemon.ok("pool set p policy=fifo populate-on-read=3 populate-on-write=4 fetch-rate=low");
    daemon.ok("volume set v read-cutoff=off write-cutoff=8M");
    for clean in [true, false] {
        if clean {
            daemon.restart();
        } else {
            daemon.kill();
            daemon.launch();
        }
        let pool = daemon.json("pool show p");
        assert_eq!((pool["policy"].as_str(), pool["fetch_rate"].as_str()), (Some("fifo"), Some("low")));
        assert_eq!((pool["populate_on_read"].as_u64(), pool["populate_on_write"].as_u64()), (Some(3), Some(4)));
        let volume = daemon.json("volume show v");
        assert_eq!(
            (&volume["read_cutoff_bytes"], &volume["write_cutoff_bytes"]),
            (&Value::Null, &Value::from(8 << 20))
        );
    }
}

// proves: P7
#[test]
fn the_io_type_changes_online_with_its_thresholds_and_its_block_by_a_conversion() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[64], "--populate-on-read 4");
    daemon.make_volume(256, "p");
    let answer = daemon.json("pool set p io-type=file-system");
    assert_eq!((&answer["changed"], &answer["pool"]["populate_on_read"]), (&Value::from(true), &Value::from(2)));
    assert!(
        answer["warnings"][0].as_str().is_some_and(|said| said.contains("pool convert p --block-size 2M")),
        "{answer}"
    );
    let said = daemon.ok("pool set p populate-on-read=3 io-type=file-system");
    assert!(said.contains("warning: its cache block stays 64 KiB; that of file-system is 2 MiB"), "{said}");
    let is = |daemon: &Daemon, block: u64| {
        let pool = daemon.json("pool show p");
        assert_eq!((&pool["io_type"], &pool["block_size_bytes"]), (&Value::from("file-system"), &Value::from(block)));
        assert_eq!((&pool["populate_on_read"], &pool["populate_on_write"]), (&Value::from(3), &Value::from(2)));
    };
    is(&daemon, 64 << 10);
    daemon.restart();
    is(&daemon, 64 << 10);
    daemon.kill();
    daemon.launch();
    is(&daemon, 64 << 10);
    daemon.ok("pool convert p --block-size 2M");
    is(&daemon, 2 << 20);
    let again = daemon.json("pool set p io-type=file-system populate-on-read=3");
    assert_eq!((&again["changed"], &again["warnings"]), (&Value::from(false), &Value::Array(Vec::new())), "{again}");
    daemon.ok("pool set p io-type=custom");
    assert_eq!(daemon.json("pool show p")["populate_on_write"], 2, "custom has no thresholds of its own");
    daemon.assert_volume_pages(256);
}

// proves: D15, P14
#[test]
fn a_pool_without_checksums_of_slots_needs_less_memory_and_serves_as_well() {
    let mut daemon = Daemon::start();
    let ssd = daemon.site.blank("ssd", 64 * MIB).display().to_string();
    let memory_bytes = |arguments: &str| {
        let create = format!("pool create q --type read --io-type custom --block-size 64K {arguments} --ssd {ssd}");
        daemon.json(&format!("{create} --dry-run"))["memory_bytes"].as_u64().expect("a plan says it")
    };
    assert!(2 * memory_bytes("--checksums off") < memory_bytes("--checksums on"), "most of it is for checksums");
    assert_eq!(memory_bytes("--checksums on"), memory_bytes(""), "they are on unless they are not wanted");
    daemon.make_pool(&[16], "--populate-on-read 1 --checksums off");
    daemon.make_volume(256, "p");
    daemon.warm_up(256);
    for _ in 0..2 {
        assert_eq!(daemon.json("pool show p")["checksums"], false);
        assert!(daemon.ok("pool show p").lines().any(|line| line.starts_with("Checksums:") && line.ends_with("off")));
        let before = daemon.stat("v", "read_hits");
        daemon.assert_volume_pages(256);
        assert!(daemon.stat("v", "read_hits") >= before + 16, "the cache answers, also after a restart");
        daemon.restart();
    }
    daemon.refuse("pool set p checksums=on", 2, "checksums cannot change online: `hotset pool convert");
    assert!(daemon.ok("pool convert p --checksums on").contains("checksums on"));
    daemon.warm_up(256);
    daemon.assert_volume_pages(256);
    assert_eq!(daemon.json("pool show p")["checksums"], true);
    daemon.ok("pool convert p --checksums off");
    daemon.restart();
    assert_eq!(daemon.json("pool show p")["checksums"], false);
    daemon.assert_volume_pages(256);
}

// proves: P2, P3, P4
#[test]
fn several_pools_with_several_ssds_and_volumes_are_found_again_after_a_restart() {
    let mut daemon = Daemon::start();
    for pool in 0..4 {
        let ssds: Vec<_> = (0..8)
            .map(|ssd| daemon.site.blank(&format!("ssd{pool}-{ssd}"), (9 + ssd % 3) * MIB).display().to_string())
            .collect();
        daemon
            .ok(&format!("pool create p{pool} --type read --io-type custom --block-size 64K --ssd {}", ssds.join(" ")));
        for volume in 0..8 {
            let backing = daemon.site.numbered(&format!("b{pool}-{volume}"), 64).display().to_string();
            daemon.ok(&format!("volume create v{pool}-{volume} --backing {backing} --pool p{pool}"));
        }
    }
    for round in 0..2 {
        let pools = daemon.json("pool list");
        let pools = pools["pools"].as_array().expect("a list");
        assert_eq!(pools.len(), 4);
        for pool in pools {
            assert_eq!(pool["ssds"].as_array().map(Vec::len), Some(8));
            assert_eq!(pool["volumes"].as_array().map(Vec::len), Some(8));
            // Mixed sizes: 8 SSDs of 9, 10 and 11 MiB, none cut down to the smallest.
            let capacity = pool["capacity_bytes"].as_u64().expect("a number");
            assert!(capacity > 8 * 9 * MIB / 2, "{capacity}");
        }
        assert_eq!(daemon.json("volume list")["volumes"].as_array().map(Vec::len), Some(32));
        for name in ["v0-0", "v3-7"] {
            let bytes = daemon.client(name).read(0, 64 * 4096).expect("a read");
            hotset_e2e::pattern::assert_pages(&bytes, 0, 0);
        }
        if round == 0 {
            daemon.restart();
        }
    }
}

// proves: P14
#[test]
fn a_pool_that_needs_more_memory_than_there_is_allowed_is_refused_before_it_is_made() {
    let daemon = Daemon::start_with("--memory-limit 20K --missing-wait 1");
    let ssd = daemon.site.blank("ssd", 64 * MIB);
    let create = format!("pool create p --type read --io-type custom --block-size 64K --ssd {}", ssd.display());
    daemon.refuse(&format!("{create} --dry-run"), 1, "memory");
    daemon.refuse(&create, 1, "memory");
    assert_eq!(daemon.json("pool list")["pools"], Value::Array(Vec::new()));
}

/// Bytes of memory that a read pool of images of these sizes would need.
fn memory_needed(daemon: &Daemon, sizes_mib: &[u64]) -> u64 {
    let images = sizes_mib.iter().map(|mib| daemon.site.blank(&format!("planned{mib}"), mib * MIB));
    let paths: Vec<String> = images.map(|path| path.display().to_string()).collect();
    let create = "pool create planned --type read --io-type custom --block-size 64K --dry-run --ssd";
    let plan = daemon.json(&format!("{create} {}", paths.join(" ")));
    plan["memory_bytes"].as_u64().expect("a plan says it")
}

// proves: P14
#[test]
fn an_ssd_or_a_spare_that_does_not_fit_beside_the_other_pools_is_refused() {
    let mut daemon = Daemon::start();
    let limit = memory_needed(&daemon, &[64]) + memory_needed(&daemon, &[16, 32]) - 1;
    let ssd = |name: &str, mib| daemon.site.blank(name, mib * MIB).display().to_string();
    let create = "--type read --io-type custom --block-size 64K --ssd";
    let (large, small, more) = (ssd("large", 64), ssd("small", 16), ssd("more", 32));
    daemon.ok(&format!("pool create large {create} {large}"));
    daemon.ok(&format!("pool create small {create} {small}"));
    daemon.add_arguments(&format!("--memory-limit {limit}"));
    daemon.restart();
    for verb in ["add-ssd", "add-spare"] {
        let said = daemon.refuse(&format!("pool {verb} small --ssd {more}"), 1, "of memory");
        assert_eq!(said.matches("KiB").count(), 3, "need, limit and what others take are told: {said}");
    }
    daemon.ok("pool delete large");
    daemon.ok(&format!("pool add-spare small --ssd {more}"));
    // The spare counts before it takes over, for there is nobody to be asked then.
    daemon.refuse(&format!("pool create large {create} {large}"), 1, "of memory");
    daemon.ok(&format!("pool remove-spare small --ssd {more}"));
    daemon.ok(&format!("pool add-ssd small --ssd {more}"));
}

// proves: S4
#[test]
fn only_its_owner_may_use_the_api() {
    let daemon = Daemon::start();
    let mode = |path: &std::path::Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o7777;
    assert_eq!(mode(&daemon.api_socket()), 0o600);
    assert_eq!(mode(&daemon.site.path("state")) & 0o077, 0, "nobody else looks into the state directory");
}

// proves: S4
#[test]
fn status_check_tells_healthy_from_failed_and_from_unreachable() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[16], "");
    daemon.make_volume(256, "p");
    assert_eq!(daemon.hotset("status --check").status.code(), Some(0));
    assert!(daemon.stop().success());
    let output = daemon.hotset("status --check");
    assert_ne!(output.status.code(), Some(0));
    assert!(tools::text(&output).contains(&daemon.api_socket().display().to_string()));
    assert!(!daemon.api_socket().exists(), "a clean stop takes its socket away");
}

// proves: S2, S6
#[test]
fn stats_can_be_watched() {
    let daemon = Daemon::start();
    daemon.make_volume(256, "");
    let mut watcher = Command::new(binary())
        .args(["stats", "v", "--watch", "--api", &format!("unix:{}", daemon.api_socket().display())])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("hotset can be started");
    let output = watcher.stdout.take().expect("a pipe was asked for");
    let (sender, lines) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in std::io::BufRead::lines(std::io::BufReader::new(output)).map_while(Result::ok) {
            sender.send(line).ok();
        }
    });
    for _ in 0..3 {
        lines.recv_timeout(Duration::from_secs(10)).expect("a line a second");
    }
    watcher.kill().expect("a child of ours can be killed");
    watcher.wait().expect("a child of ours can be waited for");
    reader.join().expect("the reader only reads");
}

// proves: S4
#[test]
fn completions_man_pages_and_the_api_document_come_from_the_definitions() {
    let daemon = Daemon::prepare("");
    let hotset = binary().to_string_lossy();
    for shell in ["bash", "zsh", "fish"] {
        assert!(succeed(&hotset, &["completions", shell]).contains("COMPLETE"), "{shell}");
    }
    let pages = daemon.site.path("man");
    succeed(&hotset, &["man", "--dir", &pages.display().to_string()]);
    let pages: Vec<_> = fs::read_dir(&pages).expect("pages were made").collect();
    assert!(pages.len() >= 10, "{} pages", pages.len());
    let document: Value = serde_json::from_str(&succeed(&hotset, &["openapi"])).expect("it prints JSON");
    assert_keys(&document, &["openapi", "paths", "components"]);
    for verb in ["--help", "--version"] {
        assert!(succeed(&hotset, &[verb]).contains("hotset"));
    }
}

// proves: S4
#[test]
fn the_api_answers_on_loopback_tcp_when_asked() {
    let endpoint = format!("tcp:127.0.0.1:{}", free_port());
    let daemon = Daemon::start_with(&format!("--api {endpoint} --missing-wait 1"));
    assert!(daemon.ok(&format!("status --api {endpoint}")).contains("good"));
}

// proves: D9
#[test]
fn a_volume_is_renamed_while_its_host_goes_on() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[32, 32], "");
    daemon.make_volume(256, "p");
    let mut client = daemon.client("v");
    client.write(0, &[7; 4096]).expect("it is served");
    assert!(daemon.ok("volume rename v w").contains("Renamed volume w"));
    client.write(4096, &[8; 4096]).expect("the connection goes on");
    assert!(daemon.ok("volume rename w w").contains("already so"));
    assert_eq!(daemon.json("pool show p")["volumes"], serde_json::json!(["w"]));
    daemon.kill();
    daemon.launch();
    let mut client = daemon.client("w");
    assert_eq!(client.read(0, 8192).expect("it is served"), [[7; 4096], [8; 4096]].concat());
    assert_eq!(daemon.dirty_bytes("w"), 8192, "its cache came with it");
    let other = daemon.site.path("other.img");
    fs::File::create(&other).and_then(|file| file.set_len(1 << 20)).expect("a file can be made");
    daemon.ok(&format!("volume create x --backing {}", other.display()));
    let taken = daemon.hotset("volume rename x w");
    assert!(!taken.status.success() && tools::text(&taken).contains("exists already"), "{}", tools::text(&taken));
    tools::eventually("it has been seen", Duration::from_secs(10), || daemon.ok("events").contains("volume x: new"));
    daemon.ok("volume rename x y");
    tools::eventually("it is an event", Duration::from_secs(10), || daemon.ok("events").contains("renamed, it was x"));
    assert!(!daemon.ok("events").contains("volume x: removed"), "{}", daemon.ok("events"));
    daemon.restart();
    daemon.client("y").read(0, 4096).expect("an uncached volume keeps its name too");
    let second = daemon.hotset(&format!("volume create z --backing {}", other.display()));
    assert!(tools::text(&second).contains("in use as the backing device of volume y"), "{}", tools::text(&second));
}

/// The file is let go: what another program has open for writing is not served.
fn grow(file: &Path, pages: u64) {
    let file = fs::OpenOptions::new().write(true).open(file).expect("it is there");
    file.set_len(pages * 4096).expect("a file can grow");
}

// proves: P16
#[test]
fn a_volume_grows_with_its_backing_device_and_keeps_its_cache() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[32, 32], "");
    let file = daemon.make_volume(256, "p");
    daemon.client("v").write(255 * 4096, &[7; 4096]).expect("it is served");
    grow(&file, 512);
    daemon.restart();
    assert_eq!(daemon.json("volume show v")["size_bytes"], 512 * 4096, "{}", daemon.ok("volume show v"));
    assert_eq!(daemon.dirty_bytes("v"), 4096, "what was not on the backing device yet");
    let mut client = daemon.client("v");
    assert_eq!(client.read(255 * 4096, 8192).expect("it is served"), [[7; 4096], [0; 4096]].concat());
    client.write(511 * 4096, &[9; 4096]).expect("its new end can be written");
    daemon.kill();
    grow(&file, 600);
    daemon.launch();
    assert_eq!(daemon.json("volume show v")["size_bytes"], 600 * 4096);
    assert_eq!(daemon.client("v").read(511 * 4096, 4096).expect("it is served"), [9; 4096]);
}

// proves: P16
#[test]
fn a_volume_that_serves_grows_without_a_restart_by_word_or_by_itself() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[32, 32], "--populate-on-read 1");
    let file = daemon.make_volume(256, "p");
    let mut before = daemon.client("v");
    before.cache(0, 1 << 20).expect("the cache has room");
    before.write(255 * 4096, &[7; 4096]).expect("it is served");
    let said = daemon.ok("volume grow v");
    assert!(said.contains("as its backing device"), "nothing was added: {said}");
    tools::eventually("it has been seen", Duration::from_secs(10), || daemon.ok("events").contains("volume v: new"));
    grow(&file, 512);
    let (cached, said) = (daemon.cache_used_bytes("v"), daemon.ok("volume grow v"));
    assert!(cached >= MIB && daemon.cache_used_bytes("v") >= cached, "its cache stays");
    assert!(said.contains("2 MiB now") && said.contains("until they reconnect"), "{said}");
    let added = before.read(255 * 4096, 8192).expect("who is connected goes on, and may use what was added");
    assert_eq!(added, [[7; 4096], [0; 4096]].concat());
    assert!(before.read(512 * 4096, 4096).is_err(), "there is no more");
    let mut client = daemon.client("v");
    assert_eq!(client.size_bytes(), 512 * 4096);
    client.write(511 * 4096, &[9; 4096]).expect("its new end can be written");
    let grown = |daemon: &Daemon| daemon.ok("events").contains("size 1 MiB → 2 MiB");
    tools::eventually("it is an event", Duration::from_secs(10), || grown(&daemon));
    grow(&file, 600);
    tools::eventually("it is noticed", Duration::from_secs(30), || {
        daemon.json("volume show v")["size_bytes"] == 600 * 4096
    });
    client.write(0, &[5; 4096]).expect("the first page is one by which the device is recognised");
    daemon.kill();
    daemon.launch();
    let mut client = daemon.client("v");
    assert_eq!(client.size_bytes(), 600 * 4096);
    assert_eq!(client.read(0, 4096).expect("it is served"), [5; 4096]);
    assert_eq!(client.read(255 * 4096, 8192).expect("it is served"), [[7; 4096], [0; 4096]].concat());
    assert_eq!(client.read(511 * 4096, 8192).expect("it is served"), [[9; 4096], [0; 4096]].concat());
    assert_eq!(daemon.json("volume show v")["stats"]["cache_drops"], 0);
    let odd = daemon.site.path("odd");
    fs::File::create(&odd).and_then(|file| file.set_len(4096 + 500)).expect("a file can be made");
    daemon.ok(&format!("volume create o --backing {}", odd.display()));
    let said = daemon.ok("volume grow o");
    assert!(said.contains("as its backing device"), "it has a whole sector more than the file: {said}");
    fs::OpenOptions::new().write(true).open(&odd).and_then(|file| file.set_len(8192)).expect("a file can grow");
    daemon.refuse("volume grow o", 1, "whole number of pages");
    let has_begun = || daemon.json("status")["conditions"].to_string().contains("\"growth\"");
    tools::eventually("a condition says so", Duration::from_secs(30), has_begun);
    fs::OpenOptions::new().write(true).open(&odd).and_then(|file| file.set_len(4096)).expect("a file can shrink");
    daemon.refuse("volume grow o", 1, "is smaller than the volume");
    fs::OpenOptions::new().write(true).open(&odd).and_then(|file| file.set_len(8192)).expect("it has its size back");
    daemon.ok("volume delete o");
    tools::eventually("it is over", Duration::from_secs(30), || daemon.json("status")["health"] == "good");
}
