//! Metrics and statistics over time: every way to ask gives the same numbers, and a broken history hurts nobody.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::http::ask;
use hotset_e2e::pattern::PAGE_BYTES;
use hotset_e2e::tools::{eventually, skip, succeed};

/// Every sample of a page of metrics, by name and labels.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let split = lines.map(|line| line.rsplit_once(' ').unwrap_or_else(|| panic!("no value in {line}")));
    split.map(|(name, value)| (name.to_owned(), value.parse().expect("a number"))).collect()
}

fn loaded() -> Daemon {
    let daemon = Daemon::start();
    daemon.make_pool(&[32], "--populate-on-read 1");
    daemon.make_volume(512, "p");
    let mut client = daemon.client("v");
    for round in 0..4 {
        for page in 0..64 {
            client.read(page * 8 * PAGE_BYTES, 4096).unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
    client.write(0, &[1; 4096]).expect("a write");
    daemon
}

// proves: S2, S4
#[test]
fn command_line_api_metrics_and_history_agree() {
    let daemon = loaded();
    let shown = daemon.json("volume show v")["stats"].clone();
    let number = |name: &str| shown[name].as_u64().unwrap_or_else(|| panic!("no {name} in {shown}"));
    assert_eq!((number("reads"), number("writes")), (256, 1));
    assert!(number("read_hits") > 0, "the cache answers what was read before");
    assert_eq!(daemon.json("stats v")["volumes"][0]["stats"], shown);
    assert_eq!(ask(&daemon, "GET", "/api/v1/volumes/v", "").json()["stats"], shown);
    let page = ask(&daemon, "GET", "/metrics", "");
    let metrics = samples(&page.body);
    for (metric, name) in [
        ("hotset_volume_reads_total", "reads"),
        ("hotset_volume_read_hits_total", "read_hits"),
        ("hotset_volume_read_bytes_total", "read_bytes"),
        ("hotset_volume_writes_total", "writes"),
        ("hotset_volume_populated_bytes_total", "populated_bytes"),
    ] {
        let sample = format!("{metric}{{volume=\"v\",pool=\"p\"}}");
        let value = metrics.get(&sample).unwrap_or_else(|| panic!("no {sample}"));
        assert_eq!(value.to_string(), number(name).to_string(), "{metric}");
    }
    let timed = metrics["hotset_volume_request_duration_seconds_count{volume=\"v\",operation=\"read\"}"];
    assert!(timed > 0.0 && timed <= 256.0, "some of them were timed: {timed}");
    let mut point = serde_json::Value::Null;
    eventually("the history has a sample", Duration::from_secs(75), || {
        let history = ask(&daemon, "GET", "/api/v1/history?subject=volume:v", "").json();
        point = history["averages"]["day"].clone();
        point["requests"].as_u64() == Some(256)
    });
    assert_eq!(point["hits"].as_u64(), Some(number("read_hits")));
    assert_eq!(point["misses"].as_u64(), Some(256 - number("read_hits")));
    assert_eq!(point["hit_ratio"].as_f64(), shown["hit_ratio"].as_f64());
    assert!(point["read_latency"]["p50_microseconds"].as_f64().is_some_and(|time| time > 0.0), "{point}");
    let pool = ask(&daemon, "GET", "/api/v1/history?subject=pool:p", "").json();
    assert_eq!(pool["averages"]["day"]["requests"].as_u64(), Some(256), "a pool is the sum of its volumes");
    assert!(pool["averages"]["day"]["ssd_written_bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{pool}");
}

// proves: S4
#[test]
fn promtool_finds_nothing_wrong_with_metrics_and_rules() {
    let daemon = loaded();
    let page = daemon.site.path("metrics.txt");
    fs::write(&page, ask(&daemon, "GET", "/metrics", "").body).expect("a file can be written");
    let check = format!("promtool check metrics < {}", page.display());
    assert_eq!(succeed("sh", &["-c", &check]).trim(), "");
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    let rules = contrib.join("prometheus-alerts.yml");
    assert!(succeed("promtool", &["check", "rules", &rules.display().to_string()]).contains("SUCCESS"));
    // What rules and dashboard ask for is there.
    let known = fs::read_to_string(&page).expect("it was just written");
    for file in [rules, contrib.join("grafana-dashboard.json")] {
        let text = fs::read_to_string(&file).expect("it is there");
        let names =
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("hotset_"));
        for name in names {
            let there = known.lines().any(|line| line.starts_with(name));
            assert!(there, "{}: there is no metric {name}", file.display());
        }
    }
}

// proves: S2, F12
#[test]
fn a_broken_history_is_set_aside_and_serving_goes_on() {
    let mut daemon = Daemon::start();
    daemon.make_volume(64, "");
    daemon.stop();
    let file = daemon.site.path("state").join("history.sqlite");
    fs::write(&file, b"this is no database".repeat(1000)).expect("it can be overwritten");
    // SQLite would mend the file from its log.
    for log in ["sqlite-wal", "sqlite-shm"] {
        let _ = fs::remove_file(file.with_extension(log));
    }
    daemon.launch();
    daemon.assert_volume_pages(64);
    assert!(ask(&daemon, "GET", "/api/v1/history?subject=volume:v", "").status == 200);
    assert!(file.with_extension("sqlite.broken").exists());
    assert!(daemon.log().contains("a new history begins"), "{}", daemon.log());
    let has = |kind: &str| {
        let conditions = daemon.json("status")["conditions"].as_array().expect("a list").clone();
        conditions.iter().any(|condition| condition["kind"] == kind)
    };
    eventually("it is told as long as the file is there", Duration::from_secs(75), || has("statistics-set-aside"));
    assert_eq!(daemon.hotset("status --check").status.code(), Some(1));
    fs::remove_file(file.with_extension("sqlite.broken")).expect("it can be removed");
    eventually("nobody needs it any more", Duration::from_secs(75), || !has("statistics-set-aside"));
}

/// Mounts a file system of 32 MiB in memory at the directory that is its first argument, where only it sees it, and becomes
/// the program that the others name.
const ON_A_SMALL_DISK: &str = r#"mount -t tmpfs -o size=32m tmpfs "$0" && exec "$@""#;

// proves: S2, F12
#[test]
fn a_full_disk_stops_the_history_and_nothing_else() {
    let in_namespace = ["--mount", "--map-root-user", "sh", "-c"];
    let may = Command::new("unshare").args(in_namespace).args([ON_A_SMALL_DISK, "/mnt", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        return skip("nobody may mount a file system of one's own here");
    }
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let state = daemon.site.path("state");
    fs::create_dir_all(&state).expect("a folder can be made");
    let state = state.display().to_string();
    daemon.run_by(&[&["unshare"], &in_namespace[..], &[ON_A_SMALL_DISK, &state]].concat());
    daemon.launch();
    daemon.make_pool(&[32], "");
    daemon.make_volume(64, "p");
    // Through the daemon's own eyes: nobody else sees that file system.
    let filler = format!("/proc/{}/root{state}/filler", daemon.pid());
    let filled = fs::write(&filler, vec![1; 48 << 20]);
    assert!(filled.is_err(), "48 MiB are more than the disk has");
    let has = |kind: &str| {
        let conditions = daemon.json("status")["conditions"].as_array().expect("a list").clone();
        conditions.iter().any(|condition| condition["kind"] == kind)
    };
    eventually("the daemon says that its disk is full", Duration::from_secs(75), || has("state-directory"));
    eventually("… and that it keeps no statistics", Duration::from_secs(75), || has("statistics"));
    assert_eq!(daemon.hotset("status --check").status.code(), Some(1));
    assert!(daemon.log().contains("disk is full"), "{}", daemon.log());
    daemon.assert_volume_pages(64);
    let mut client = daemon.client("v");
    client.write(0, &[7; 4096]).expect("a write");
    assert_eq!(client.read(0, 4096).expect("a read"), vec![7; 4096]);
    assert_eq!(ask(&daemon, "GET", "/api/v1/status", "").status, 200);
    assert_eq!(ask(&daemon, "GET", "/api/v1/history?subject=volume:v", "").status, 200);
    fs::remove_file(&filler).expect("it can be removed");
    eventually("there is room again", Duration::from_secs(75), || !has("state-directory") && !has("statistics"));
    assert_eq!(daemon.hotset("status --check").status.code(), Some(0), "{}", daemon.ok("status"));
}
