//! Read-write pools as an administrator meets them: settings, dirty data and its figures, flushing before anything is
//! taken away, fencing, and what happens to volumes whose pool is not there.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use hotset_e2e::apart::{assert_alone, assert_written_apart, pages_apart, with_dirty_pages};
use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::{MIB, assert_file_pages, read_part};
use hotset_e2e::loops::LoopDevice;
use hotset_e2e::pattern::{PAGE_BYTES, Random, assert_pages, pages};
use hotset_e2e::tools::{eventually, succeed, text};
use serde_json::Value;

/// Pages of the volumes of these tests: 16 MiB, unless they are slow ones.
const PAGES: u64 = 4096;

#[track_caller]
fn assert_file_written_apart(file: &Path, count: u64) {
    for page in pages_apart(count) {
        assert_alone(&read_part(file, page * PAGE_BYTES, 2 * 4096), page);
    }
}

/// How many of the `count` pages are not on the backing device.
fn missing_pages(file: &Path, count: u64) -> usize {
    pages_apart(count).filter(|page| read_part(file, page * PAGE_BYTES, 4096) != pages(*page, 1, 1)).count()
}

/// Puts another device in the place of the backing device: as long, and with pages in version 9 at its start.
fn put_another(file: &Path) {
    let size_bytes = fs::metadata(file).map(|metadata| metadata.len()).expect("it has a size");
    fs::rename(file, file.with_extension("right")).expect("the backing device can be moved away");
    fs::write(file, pages(0, 64, 9)).expect("another one takes its place");
    File::options().write(true).open(file).and_then(|file| file.set_len(size_bytes)).expect("it is as long");
}

/// Waits for a verb that was begun; answers its code and all it said.
fn finish(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("a child of ours can be waited for");
    (output.status.code(), text(&output))
}

/// Waits until the flush of the volume `v` is under way.
#[track_caller]
fn await_flush(daemon: &Daemon) -> Value {
    let flushes = || daemon.json("status")["flushes"].clone();
    eventually("a flush is under way", Duration::from_secs(20), || {
        flushes().as_array().is_some_and(|all| !all.is_empty())
    });
    flushes()[0].clone()
}

// proves: P1, P8, P14
#[test]
fn a_read_write_pool_states_its_limits_before_it_is_made_and_warns_of_a_shared_disk_as_long_as_it_lives() {
    let mut daemon = Daemon::start();
    let ssds = ["ssd0", "ssd1"].map(|name| daemon.site.blank(name, 32 * MIB).display().to_string()).join(" ");
    let create = format!("pool create p --type read-write --io-type database --populate-on-write 2 --ssd {ssds}");
    let plan = daemon.json(&format!("{create} --dry-run"));
    assert_eq!(plan["type"], "read-write");
    assert!(plan["dirty_capacity_bytes"].as_u64().is_some_and(|bytes| bytes >= MIB), "{plan}");
    assert!(plan["dirty_memory_bytes"].as_u64() <= plan["memory_bytes"].as_u64(), "{plan}");
    assert!(plan["warnings"][0].as_str().is_some_and(|warning| warning.contains("one physical disk")), "{plan}");
    let said = daemon.ok(&format!("{create} --dry-run"));
    for part in ["Dirty capacity", "BYTES EACH", "checksums of these pages", "dirty pages, at random places"] {
        assert!(said.contains(part), "no {part} in: {said}");
    }
    let terms = ["slots", "slot_pages", "checksums", "dirty_pages"].map(|term| &plan["memory_terms"][term]);
    let sum: Option<u64> = terms.into_iter().map(|term| term["bytes"].as_u64()).sum();
    assert_eq!(sum, plan["memory_bytes"].as_u64(), "{plan}");
    assert_eq!(terms[3]["bytes"], plan["dirty_memory_bytes"], "{plan}");
    for term in terms {
        let product =
            term["count"].as_f64().zip(term["bytes_each"].as_f64()).map(|(count, each)| (count * each).ceil());
        assert_eq!(product, term["bytes"].as_f64(), "{term}");
    }
    let said = daemon.ok(&create);
    assert!(said.starts_with("Memory: ") && said.contains("Created pool p"), "it is told before: {said}");
    daemon.ok(&format!("pool add-spare p --ssd {}", daemon.site.blank("extra", 32 * MIB).display()));
    for round in 0..2 {
        let pool = daemon.json("pool show p");
        let warnings = pool["warnings"].to_string();
        assert!(
            warnings.contains("one physical disk") && !warnings.contains("extra"),
            "a spare is on no disk of its pool: {pool}"
        );
        assert_eq!((&pool["type"], &pool["health"]), (&Value::from("read-write"), &Value::from("good")), "{pool}");
        assert_eq!(pool["populate_on_write"], 2);
        assert_eq!(pool["write_log"]["dirty_capacity_bytes"], plan["dirty_capacity_bytes"], "{pool}");
        assert!(daemon.ok("pool show p").contains("warning: SSDs"));
        assert!(daemon.ok("status").contains("one physical disk"), "round {round}");
        daemon.restart();
    }
}

// proves: D7, D9
#[test]
fn write_modes_read_caching_and_cleaning_change_online_and_survive_restarts_and_kills() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[32, 32], "");
    let backing = daemon.site.numbered("backing", 256).display().to_string();
    let other = daemon.site.numbered("other", 256).display().to_string();
    daemon.ok(&format!("volume create v --backing {backing} --pool p --mode write-through --read-cache off"));
    daemon.ok(&format!("volume create w --backing {other} --mode write-around"));
    let shown = daemon.json("volume show v");
    assert_eq!((&shown["write_mode"], &shown["read_cache"]), (&Value::from("write-through"), &Value::from(false)));
    let mut client = daemon.client("v");
    for (version, (mode, _)) in (1..).zip(hotset_modes()) {
        assert_eq!(daemon.json(&format!("volume set v mode={mode}"))["changed"], mode != "write-through");
        client.write(0, &pages(0, 64, version)).expect("a write");
        assert_pages(&client.read(0, 64 * 4096).expect("a read"), 0, version);
    }
    drop(client);
    daemon.ok("volume set v mode=instant-write-back read-cache=on");
    daemon.ok("pool set p flush-rate=high dirty-watermark=40% dirty-age=2h");
    for clean in [true, false] {
        if clean {
            daemon.restart();
        } else {
            daemon.kill();
            daemon.launch();
        }
        let (v, w, p) = (daemon.json("volume show v"), daemon.json("volume show w"), daemon.json("pool show p"));
        assert_eq!((&v["write_mode"], &v["read_cache"]), (&Value::from("instant-write-back"), &Value::from(true)));
        assert_eq!(w["write_mode"], "write-around");
        let cleaning = (&p["flush_rate"], &p["dirty_watermark_percent"], &p["dirty_age_max_seconds"]);
        assert_eq!(cleaning, (&Value::from("high"), &Value::from(40), &Value::from(7200)));
        assert_pages(&daemon.client("v").read(0, 64 * 4096).expect("a read"), 0, 4);
    }
}

/// Every mode, and whether it answers from the SSDs.
fn hotset_modes() -> [(&'static str, bool); 4] {
    [("write-through", false), ("write-around", false), ("write-back", true), ("instant-write-back", true)]
}

// proves: D6, D7
#[test]
fn only_the_write_back_modes_answer_from_the_ssds() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[32, 32], "");
    daemon.make_volume(PAGES, "p");
    let mut client = daemon.client("v");
    for (index, (mode, from_ssds)) in (0..).zip(hotset_modes()) {
        daemon.ok(&format!("volume set v mode={mode}"));
        let before = daemon.stat("v", "write_hits");
        // Pages of this round alone: what is in the log already goes there in every mode.
        for page in (0..1024).step_by(16) {
            let page = index * 1024 + page;
            client.write(page * PAGE_BYTES, &pages(page, 1, 1)).expect("a write");
        }
        assert_eq!(daemon.stat("v", "write_hits") - before, if from_ssds { 64 } else { 0 }, "{mode}");
    }
}

// proves: P11, D6, D8, S2
#[test]
fn what_is_at_risk_is_shown_and_stays_over_a_clean_stop() {
    let (mut daemon, _) = with_dirty_pages(1024);
    let shown = daemon.json("volume show v");
    assert!(shown["dirty_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{shown}");
    assert!(shown["oldest_dirty_seconds"].is_u64(), "{shown}");
    assert!(shown["write_cache_used_bytes"].as_u64() >= shown["dirty_bytes"].as_u64(), "{shown}");
    assert_eq!(shown["stats"]["write_hits"], 1024, "{shown}");
    assert!(shown["stats"]["cleaned_bytes"].is_u64() && shown["stats"]["moved_bytes"].is_u64(), "{shown}");
    let status = daemon.json("status");
    assert!(status["dirty_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{status}");
    assert!(daemon.ok("status").contains("Data at risk"));
    let stats = daemon.json("stats v")["volumes"][0].clone();
    assert!(stats["dirty_bytes"].is_u64(), "{stats}");
    // A stop takes seconds, and flushes no backing device full.
    daemon.restart();
    assert!(daemon.dirty_bytes("v") > 0, "it is found again");
    let log = daemon.json("pool show p")["write_log"].clone();
    assert!(log["recovery_ms"].is_u64() && log["recovered_bytes"].is_u64(), "{log}");
    assert!(daemon.ok("status").contains("recovery read"));
    assert_written_apart(&daemon, 1024);
}

// proves: D8, P12, P13
#[test]
fn whatever_takes_a_cache_away_flushes_first() {
    for verb in ["volume disable-cache v", "volume delete v", "pool delete p"] {
        let daemon = Daemon::start();
        daemon.make_read_write_pool(&[32, 32], "");
        let backing = daemon.make_volume(PAGES, "p");
        let mut client = daemon.client("v");
        for first in (0..PAGES).step_by(8) {
            client.write(first * PAGE_BYTES, &pages(first, 8, 1)).expect("a write");
        }
        assert!(daemon.stat("v", "write_hits") > 0, "the SSDs took it");
        drop(client);
        daemon.ok(verb);
        assert_file_pages(&backing, 1);
        let gone = daemon.hotset("volume show v").status.code() == Some(1);
        assert_eq!(gone, verb == "volume delete v", "{verb}");
    }
}

// proves: P12, P13
#[test]
fn a_flush_shows_how_far_it_is_and_holds_up_nobody_and_outlives_its_client() {
    let (daemon, file) = with_dirty_pages(2048);
    let mut first = daemon.begin("volume disable-cache v");
    let flush = await_flush(&daemon);
    assert_eq!((&flush["purpose"], &flush["name"]), (&Value::from("disable-cache"), &Value::from("v")), "{flush}");
    assert!(flush["dirty_bytes"].is_u64() && flush["drained_bytes"].is_u64(), "{flush}");
    assert_eq!(daemon.json("volume show v")["state"], "flushing");
    let why =
        "v: its dirty data is being flushed, so that its cache can be taken away\nv: wait, or keep its cache with";
    assert!(daemon.ok("volume list").contains(why), "{}", daemon.ok("volume list"));
    // Other verbs, and hosts, go on.
    daemon.ok("pool set p flush-rate=high");
    daemon.ok("volume set v read-cutoff=2M");
    let other = daemon.site.numbered("other", 16).display().to_string();
    daemon.ok(&format!("volume create w --backing {other} --pool p"));
    daemon.ok("volume delete w");
    daemon.refuse("volume delete v", 1, "is being flushed for disable-cache");
    daemon.refuse("pool delete p", 1, "hotset volume cancel-flush v");
    daemon.client("v").write(PAGE_BYTES, &[0; 4096]).expect("a write");
    first.kill().expect("a child of ours can be killed");
    first.wait().expect("a child of ours can be waited for");
    // It goes on without its client, and the same verb joins it.
    let (code, said) = finish(daemon.begin("volume disable-cache v"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(daemon.json("volume show v")["pool"], Value::Null);
    assert_file_written_apart(&file, 2048);
}

// proves: P13
#[test]
fn a_cancelled_flush_leaves_the_cache_as_it_was() {
    let (daemon, _) = with_dirty_pages(2048);
    for (verb, cancel) in [
        ("volume delete v", Some("volume cancel-flush v")),
        ("pool delete p", Some("pool cancel-flush p")),
        ("volume disable-cache v", None),
    ] {
        let child = daemon.begin(verb);
        await_flush(&daemon);
        if verb == "pool delete p" {
            let why = "p: its dirty data is being flushed, so that the pool can be deleted\np: wait, or keep the pool";
            assert!(daemon.ok("pool list").contains(why), "{}", daemon.ok("pool list"));
            let volume = daemon.json("volume show v");
            assert!(volume["action"].as_str().is_some_and(|said| said.contains("pool cancel-flush p")), "{volume}");
        }
        match cancel {
            Some(cancel) => assert_eq!(daemon.json(cancel)["changed"], true, "{verb}"),
            None => drop(succeed("kill", &["-INT", &child.id().to_string()])),
        }
        let (code, said) = finish(child);
        assert_eq!(code, Some(1), "{verb}: {said}");
        assert!(said.contains("the flush was cancelled"), "{verb}: {said}");
        let shown = daemon.json("volume show v");
        assert_eq!((&shown["state"], &shown["pool"]), (&Value::from("online"), &Value::from("p")), "{verb}: {shown}");
        let before = daemon.stat("v", "write_hits");
        daemon.client("v").write(PAGE_BYTES, &[0; 4096]).expect("a write");
        assert_eq!(daemon.stat("v", "write_hits"), before + 1, "{verb}: writes are cached again");
    }
    assert_eq!(daemon.json("volume cancel-flush v")["changed"], false);
    daemon.refuse("volume cancel-flush nobody", 1, "no such volume");
    assert_written_apart(&daemon, 2048);
}

// proves: P13
#[test]
fn nothing_is_lost_by_force_alone() {
    let count = 5000;
    let (daemon, file) = with_dirty_pages(count);
    for verb in ["volume delete v", "volume disable-cache v", "pool delete p"] {
        let said = daemon.refuse(&format!("{verb} --force"), 1, "--yes-lose-data");
        assert!(said.contains("bytes (") && said.contains("would be lost"), "{said}");
        assert_eq!(daemon.json("volume show v")["pool"], "p");
    }
    // A flush that is under way is ended by it.
    let flush = daemon.begin("volume delete v");
    await_flush(&daemon);
    daemon.ok("volume delete v --force --yes-lose-data");
    let (code, said) = finish(flush);
    assert_eq!(code, Some(1), "{said}");
    assert!(missing_pages(&file, count) > 0, "something was lost, as was said");
}

// proves: F8
#[test]
fn dirty_data_of_another_backing_device_is_kept_and_hidden_from_hosts() {
    let (mut daemon, file) = with_dirty_pages(1024);
    daemon.kill();
    put_another(&file);
    daemon.launch();
    let shown = daemon.json("volume show v");
    assert_eq!((&shown["state"], &shown["health"]), (&Value::from("offline"), &Value::from("failed")), "{shown}");
    assert!(shown["reason"].as_str().is_some_and(|reason| reason.contains("fenced")), "{shown}");
    assert!(shown["dirty_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{shown}");
    assert_eq!(daemon.hotset("status --check").status.code(), Some(2));
    assert!(hotset_e2e::nbd::Client::connect(&daemon.nbd_socket(), "v").is_err(), "hosts do not see it");
    for verb in ["volume delete v", "volume disable-cache v", "pool delete p", "volume delete v --force"] {
        daemon.refuse(verb, 1, "would be lost");
    }
    assert!(daemon.stop().success());
    assert_pages(&read_part(&file, 0, 64 * 4096), 0, 9);
    fs::rename(file.with_extension("right"), &file).expect("the right one comes back");
    daemon.launch();
    assert_written_apart(&daemon, 1024);
}

// proves: F6, P13
#[test]
fn dirty_data_whose_backing_device_is_missing_is_kept_until_it_is_discarded_by_name() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[32, 32], "");
    let file = daemon.make_volume(PAGES, "p");
    let write_and_die = |daemon: &mut Daemon| {
        // Killed before the volume counts as idle, and is cleaned.
        daemon.client("v").write(0, &pages(0, 64, 1)).expect("a write");
        daemon.kill();
    };
    write_and_die(&mut daemon);
    fs::rename(&file, file.with_extension("away")).expect("the backing device can be moved away");
    daemon.launch();
    let shown = daemon.json("volume show v");
    assert_eq!((&shown["state"], &shown["health"]), (&Value::from("offline"), &Value::from("failed")), "{shown}");
    assert!(daemon.json("status")["dirty_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    for verb in ["volume delete v", "volume delete v --force", "pool delete p"] {
        let said = daemon.refuse(verb, 1, "bytes");
        assert!(said.contains("dirty") && said.contains("--yes-lose-data"), "{verb}: {said}");
    }
    fs::rename(file.with_extension("away"), &file).expect("the backing device comes back");
    eventually("the volume is served again", Duration::from_secs(30), || daemon.is_online("v"));
    assert_pages(&daemon.client("v").read(0, 64 * 4096).expect("a read"), 0, 1);
    write_and_die(&mut daemon);
    fs::remove_file(&file).expect("the backing device can be lost");
    daemon.launch();
    daemon.ok("volume delete v --force --yes-lose-data");
    daemon.refuse("volume show v", 1, "no such volume");
    daemon.ok("pool delete p");
}

// proves: F8
#[test]
fn a_fenced_volume_whose_dirty_data_is_discarded_is_an_ordinary_one() {
    let (mut daemon, file) = with_dirty_pages(1024);
    daemon.kill();
    put_another(&file);
    daemon.launch();
    daemon.ok("volume disable-cache v --force --yes-lose-data");
    let shown = daemon.json("volume show v");
    assert_eq!((&shown["state"], &shown["health"], &shown["pool"]), (&"online".into(), &"good".into(), &Value::Null));
    assert_pages(&daemon.client("v").read(0, 64 * 4096).expect("a read"), 0, 9);
    daemon.ok("volume enable-cache v --pool p");
    assert_pages(&daemon.client("v").read(0, 64 * 4096).expect("a read"), 0, 9);
}

// proves: D6, F4
#[test]
fn without_its_read_write_pool_a_volume_is_not_served_and_comes_back_with_it() {
    let (mut daemon, _) = with_dirty_pages(1024);
    assert!(daemon.stop().success());
    let put_back = put_ssds_away(&daemon);
    daemon.launch();
    let shown = daemon.json("volume show v");
    assert_eq!((&shown["state"], &shown["pool"]), (&Value::from("offline"), &Value::from("p")), "{shown}");
    assert!(hotset_e2e::nbd::Client::connect(&daemon.nbd_socket(), "v").is_err(), "hosts do not see it");
    assert_eq!(daemon.hotset("status --check").status.code(), Some(2));
    for verb in ["pool delete p", "volume delete v", "volume disable-cache v", "pool delete p --force"] {
        daemon.refuse(verb, 1, "--yes-lose-data");
    }
    daemon.refuse(&format!("volume create x --backing {}", daemon.site.path("slow").display()), 1, "volume v");
    put_back();
    eventually("the volume comes back with its pool", Duration::from_secs(30), || daemon.is_online("v"));
    assert_written_apart(&daemon, 1024);
}

fn names_of_volumes(daemon: &Daemon) -> Vec<String> {
    let list = daemon.json("volume list");
    let names =
        list["volumes"].as_array().expect("a list").iter().map(|volume| volume["name"].as_str().map(str::to_owned));
    names.map(|name| name.expect("a name")).collect()
}

/// Volume `v` becomes `new`, and the daemon dies before the state directory knows it. The next one runs without the SSDs; the
/// answer moves them back.
fn rename_on_the_ssds_alone(daemon: &mut Daemon) -> impl FnOnce() + use<> {
    let record = daemon.site.path("state/pools/p.json");
    let before = fs::read(&record).expect("it is there");
    daemon.ok("volume rename v new");
    daemon.kill();
    fs::write(&record, &before).expect("the record can be put back");
    let put_back = put_ssds_away(daemon);
    daemon.launch();
    put_back
}

// The old name was taken for a volume without a pool, and served from the backing device alone when the SSDs were not there.
// proves: F8
#[test]
fn a_new_name_that_is_recorded_in_one_place_only_makes_no_second_volume() {
    let (mut daemon, _) = with_dirty_pages(1024);
    let record = daemon.site.path("state/pools/p.json");
    // The state directory takes no record now.
    let in_the_way = daemon.site.path("state/pools/p.json.new");
    fs::create_dir(&in_the_way).expect("it is not there");
    daemon.refuse("volume rename v new", 1, "it keeps its name");
    assert_eq!(names_of_volumes(&daemon), ["v"]);
    assert_written_apart(&daemon, 1024);
    fs::remove_dir(&in_the_way).expect("it is empty");
    let put_back = rename_on_the_ssds_alone(&mut daemon);
    assert_eq!((names_of_volumes(&daemon), daemon.is_online("v")), (vec!["v".to_owned()], false));
    put_back();
    eventually("it has its new name", Duration::from_secs(30), || names_of_volumes(&daemon) == ["new"]);
    eventually("it is served", Duration::from_secs(30), || daemon.is_online("new"));
    daemon.restart();
    assert_eq!(names_of_volumes(&daemon), ["new"]);
    daemon.ok("volume rename new v");
    assert_written_apart(&daemon, 1024);
    // Nor does one that an earlier version made.
    assert!(daemon.stop().success());
    let volumes = daemon.site.path("state/volumes.json");
    let recorded: Value = serde_json::from_slice(&fs::read(&record).expect("it is there")).expect("it is JSON");
    let mut volume = recorded["volumes"][0].clone();
    volume["name"] = "phantom".into();
    let phantom = serde_json::json!({"version": 1, "volumes": [volume]});
    fs::write(&volumes, phantom.to_string()).expect("the record can be forged");
    let put_back = put_ssds_away(&daemon);
    daemon.launch();
    let shown = daemon.ok("volume show phantom");
    assert!(!daemon.is_online("phantom") && shown.contains("pool p caches it as another volume"), "{shown}");
    put_back();
    eventually("it is served", Duration::from_secs(30), || daemon.is_online("v"));
    assert!(!daemon.is_online("phantom"));
    daemon.ok("volume delete phantom");
    assert_written_apart(&daemon, 1024);
}

// Only what was open by then was written down.
// proves: F11
#[test]
fn a_start_that_writes_down_one_volume_forgets_none_that_it_has_not_opened_yet() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 48], "");
    for name in ["a", "b", "c"] {
        let backing = daemon.site.blank(name, 64 * MIB);
        daemon.ok(&format!("volume create {name} --backing {}", backing.display()));
    }
    assert!(daemon.stop().success());
    // As if the last daemon had died while the last volume left its pool.
    let of_pool = daemon.site.path("state/pools/p.json");
    let without = daemon.site.path("state/volumes.json");
    let mut records = [&of_pool, &without]
        .map(|path| -> Value { serde_json::from_slice(&fs::read(path).expect("it is there")).expect("it is JSON") });
    let left = records[1]["volumes"].as_array_mut().and_then(Vec::pop).expect("there are three");
    records[0]["volumes"] = serde_json::json!([left]);
    for (path, record) in [&of_pool, &without].into_iter().zip(records) {
        fs::write(path, record.to_string()).expect("the record can be forged");
    }
    daemon.launch();
    for _ in 0..2 {
        eventually("all are served", Duration::from_secs(30), || {
            ["a", "b", "c"].iter().all(|name| daemon.is_online(name))
        });
        assert_eq!(names_of_volumes(&daemon), ["a", "b", "c"]);
        daemon.restart();
    }
}

// The pool's SSDs knew the volume by another name than who discarded it, and brought its dirty data back.
// proves: F8
#[test]
fn what_was_discarded_under_an_old_name_does_not_come_back_under_the_new_one() {
    let (mut daemon, _) = with_dirty_pages(1024);
    let put_back = rename_on_the_ssds_alone(&mut daemon);
    daemon.ok("volume disable-cache v --force --yes-lose-data");
    eventually("it is served as it is", Duration::from_secs(20), || daemon.is_online("v"));
    daemon.client("v").write(0, &pages(0, 64, 9)).expect("a write");
    put_back();
    let pool_is_open = |daemon: &Daemon| daemon.json("pool show p")["state"] == "online";
    eventually("the pool is opened", Duration::from_secs(30), || pool_is_open(&daemon));
    for _ in 0..2 {
        assert_eq!((names_of_volumes(&daemon), daemon.dirty_bytes("v")), (vec!["v".to_owned()], 0));
        assert_pages(&daemon.client("v").read(0, 64 * 4096).expect("a read"), 0, 9);
        daemon.kill();
        daemon.launch();
        eventually("the pool is opened", Duration::from_secs(30), || pool_is_open(&daemon));
        eventually("it is served", Duration::from_secs(30), || daemon.is_online("v"));
    }
}

// proves: P13
#[test]
fn a_pool_that_is_gone_for_good_can_be_discarded_and_its_volumes_serve_on_as_they_are() {
    let (mut daemon, _) = with_dirty_pages(1024);
    daemon.kill();
    for name in ["ssd0", "ssd1"] {
        fs::remove_file(daemon.site.path(name)).expect("an SSD can be lost");
    }
    daemon.launch();
    daemon.ok("pool delete p --force --yes-lose-data");
    eventually("the volume is served", Duration::from_secs(20), || daemon.is_online("v"));
    let mut client = daemon.client("v");
    for page in pages_apart(1024) {
        let bytes = client.read((page + 1) * PAGE_BYTES, 4096).expect("a read");
        assert!(bytes.iter().all(|byte| *byte == 0), "what was not written is as it was");
    }
    drop(client);
    daemon.restart();
    assert!(daemon.is_online("v"));
}

/// Moves the SSDs of `p` out of sight; the answer moves them back.
fn put_ssds_away(daemon: &Daemon) -> impl FnOnce() + use<> {
    let ssds = ["ssd0", "ssd1"].map(|name| daemon.site.path(name));
    for ssd in &ssds {
        fs::rename(ssd, ssd.with_extension("away")).expect("an SSD can be moved");
    }
    move || {
        for ssd in &ssds {
            fs::rename(ssd.with_extension("away"), ssd).expect("an SSD can be moved back");
        }
    }
}

/// Writes the `count` pages in version 2, and flushes them.
fn write_apart_again(daemon: &Daemon, count: u64) {
    let mut client = daemon.client("v");
    for page in pages_apart(count) {
        client.write(page * PAGE_BYTES, &pages(page, 1, 2)).expect("a write");
    }
    client.flush().expect("a flush");
}

/// A daemon that died with 64 dirty pages, and whose SSDs were away while `verb` discarded them and hosts wrote on; they are back.
#[track_caller]
fn discard_while_away(verb: &str) -> Daemon {
    let (mut daemon, _) = with_dirty_pages(64);
    daemon.kill();
    let put_back = put_ssds_away(&daemon);
    daemon.launch();
    daemon.ok(verb);
    eventually("the volume is served", Duration::from_secs(20), || daemon.is_online("v"));
    write_apart_again(&daemon, 64);
    put_back();
    daemon
}

#[track_caller]
fn assert_written_apart_again(daemon: &Daemon, count: u64) {
    let mut client = daemon.client("v");
    for page in pages_apart(count) {
        assert_pages(&client.read(page * PAGE_BYTES, 4096).expect("a read"), page, 2);
    }
}

// proves: D6, F4, P13
#[test]
fn what_was_discarded_of_a_volume_while_its_pool_was_away_does_not_come_back_with_the_pool() {
    for import in [false, true] {
        let mut daemon = discard_while_away("volume disable-cache v --force --yes-lose-data");
        if import {
            let [one, other] = ["ssd0", "ssd1"].map(|name| daemon.site.path(name).display().to_string());
            daemon.ok(&format!("pool import --ssd {one} {other}"));
        }
        eventually("the pool is back", Duration::from_secs(30), || daemon.json("pool show p")["health"] == "good");
        assert_written_apart_again(&daemon, 64);
        assert_eq!(daemon.json("volume show v")["pool"], Value::Null);
        daemon.ok("volume enable-cache v --pool p");
        assert_written_apart_again(&daemon, 64);
        daemon.restart();
        assert_written_apart_again(&daemon, 64);
    }
}

// proves: D6, F4, P13
#[test]
fn a_pool_that_was_deleted_while_it_was_away_is_not_opened_again() {
    let mut daemon = discard_while_away("pool delete p --force --yes-lose-data");
    let config = daemon.site.path("scan.toml");
    fs::write(&config, format!("ssd_scan = [\"{}*\"]\n", daemon.site.path("ssd").display()))
        .expect("a file can be written");
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.restart();
    daemon.refuse("pool show p", 1, "no such pool");
    let [one, other] = ["ssd0", "ssd1"].map(|name| daemon.site.path(name).display().to_string());
    daemon.refuse(&format!("pool import --ssd {one} {other}"), 1, "was deleted while it was offline");
    assert_written_apart_again(&daemon, 64);
    daemon.ok(&format!("pool create p --type read-write --io-type database --force --ssd {one} {other}"));
    daemon.ok("volume enable-cache v --pool p");
    assert_written_apart_again(&daemon, 64);
}

// proves: F7, D6, P13
#[test]
fn killed_while_it_flushes_it_has_everything_and_the_flush_can_be_asked_for_again() {
    let (mut daemon, file) = with_dirty_pages(512);
    let mut random = Random::new(3);
    for _ in 0..3 {
        let child = daemon.begin("volume delete v");
        await_flush(&daemon);
        // When it dies is what this test varies.
        std::thread::sleep(Duration::from_millis(random.below(300)));
        daemon.kill();
        let (code, said) = finish(child);
        assert_eq!(code, Some(1), "{said}");
        daemon.launch();
        assert_written_apart(&daemon, 512);
    }
    daemon.ok("volume delete v");
    assert_file_written_apart(&file, 512);
}

// proves: D8
#[test]
fn a_stop_waits_for_no_flush() {
    let (mut daemon, _) = with_dirty_pages(4096);
    let child = daemon.begin("volume delete v");
    await_flush(&daemon);
    assert!(daemon.stop().success(), "within seconds");
    let (code, said) = finish(child);
    assert_eq!(code, Some(1), "{said}");
    daemon.launch();
    assert_eq!(daemon.json("status")["flushes"], Value::Array(Vec::new()));
    let mut client = daemon.client("v");
    for page in pages_apart(4096) {
        assert_pages(&client.read(page * PAGE_BYTES, 4096).expect("a read"), page, 1);
    }
}

/// One request to the API without a body; answers status and body.
fn request(daemon: &Daemon, method: &str, path: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(daemon.api_socket()).expect("the API listens");
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a head has a code");
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}")))
}

// proves: S4, P13
#[test]
fn the_api_tells_of_a_flush_and_cancels_it_and_removals_need_no_body() {
    let (daemon, file) = with_dirty_pages(2048);
    let (code, said) = request(&daemon, "GET", "/api/v1/volumes/v/flush");
    assert_eq!((code, &said["code"]), (404, &Value::from("not-found")), "{said}");
    let (cut, removal) = std::thread::scope(|scope| {
        let removal = scope.spawn(|| request(&daemon, "DELETE", "/api/v1/volumes/v/cache"));
        await_flush(&daemon);
        let (code, flush) = request(&daemon, "GET", "/api/v1/volumes/v/flush");
        assert_eq!((code, &flush["purpose"]), (200, &Value::from("disable-cache")), "{flush}");
        (request(&daemon, "DELETE", "/api/v1/volumes/v/flush"), removal.join().expect("it only asks"))
    });
    assert_eq!((cut.0, &cut.1["changed"]), (200, &Value::from(true)));
    assert_eq!((removal.0, &removal.1["code"]), (409, &Value::from("cancelled")));
    let (code, said) = request(&daemon, "DELETE", "/api/v1/volumes/v");
    assert_eq!((code, &said["deleted"]), (200, &Value::from("v")), "{said}");
    assert_file_written_apart(&file, 2048);
}

// proves: F8
#[test]
fn image_files_need_no_udev_rules() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let (config, rules) = (daemon.site.path("hotset.toml"), daemon.site.path("63.rules"));
    fs::write(&config, format!("udev_rules = {:?}\n", rules.display().to_string())).expect("a file can be written");
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.launch();
    daemon.make_read_write_pool(&[32, 32], "");
    daemon.make_volume(256, "p");
    assert_eq!(daemon.ok("udev-rules"), "");
    assert!(!rules.exists());
    assert_eq!(daemon.json("status")["reasons"].as_array().map(Vec::len), Some(1), "only the shared disk is told of");
}

// proves: F8
#[test]
fn the_system_is_kept_off_a_backing_device_until_a_stop_leaves_nothing_dirty() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let (config, rules) = (daemon.site.path("hotset.toml"), daemon.site.path("63.rules"));
    fs::write(&config, format!("udev_rules = {:?}\n", rules.display().to_string())).expect("a file can be written");
    let Some(disk) = LoopDevice::over(&daemon.site.numbered("disk", 256)) else { return };
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.launch();
    daemon.make_read_write_pool(&[32, 32], "");
    daemon.ok("pool set p flush-rate=low dirty-age=30d dirty-watermark=90");
    daemon.ok(&format!("volume create v --backing {} --pool p", disk.name));
    for flushes in [false, true] {
        daemon.client("v").write(0, &pages(0, 1, 1)).expect("a write");
        if flushes {
            daemon.ok("volume flush v");
        }
        assert!(rules.exists(), "it serves");
        assert!(daemon.stop().success());
        assert_eq!(rules.exists(), !flushes, "of what is dirty the backing device has nothing");
        daemon.launch();
    }
}
