//! What is told of how full a cache is, and of data at risk: one definition each, wherever it is told.

use std::fs;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::MIB;
use hotset_e2e::http::ask;
use hotset_e2e::pattern::pages;
use hotset_e2e::tools::eventually;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// What the volumes of pool `p` tell, together.
fn sum(status: &Value, name: &str) -> u64 {
    let volumes = status["volumes"].as_array().expect("a list").iter();
    volumes.filter(|volume| volume["pool"] == "p").map(|volume| volume[name].as_u64().expect("a number")).sum()
}

/// The numbers add up, and the pool is as large as it was planned.
#[track_caller]
fn check(daemon: &Daemon, capacity: &Value) {
    let status = daemon.json("status");
    let pool = &status["pools"][0];
    let told = [&pool["used_bytes"], &pool["write_log"]["dirty_bytes"], &pool["write_log"]["live_bytes"]];
    let sums = ["cache_used_bytes", "dirty_bytes", "write_cache_used_bytes"].map(|name| sum(&status, name));
    assert_eq!(told.map(|told| told.as_u64().expect("a number")), sums, "{status}");
    assert_eq!(status["dirty_bytes"], sums[1]);
    assert_eq!(&pool["capacity_bytes"], capacity, "{status}");
    assert!(pool["used_bytes"].as_u64() <= capacity.as_u64(), "{status}");
    for volume in status["volumes"].as_array().expect("a list") {
        assert_eq!(volume["dirty_bytes"] == 0, volume["oldest_dirty_seconds"].is_null(), "{volume}");
    }
}

// proves: P11, F12
#[test]
fn what_volumes_use_adds_up_to_what_the_pool_uses_and_its_capacity_stays() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 48, 64], "--populate-on-read 1");
    let capacity = daemon.json("pool show p")["capacity_bytes"].clone();
    for (name, page_count) in [("a", 4096), ("b", 2048)] {
        let backing = daemon.site.numbered(name, page_count);
        daemon.ok(&format!("volume create {name} --backing {} --pool p", backing.display()));
    }
    daemon.ok("volume set b mode=write-through");
    check(&daemon, &capacity);
    let (mut a, mut b) = (daemon.client("a"), daemon.client("b"));
    for round in 0..8_u64 {
        for piece in 0..16_u64 {
            a.write(piece * MIB / 4, &pages(piece * 64, 64, round + 1)).expect("it is written");
            a.read(piece * MIB, 1 << 20).expect("it is read");
        }
        b.write_fua(round * MIB, &pages(round * 256, 16, 1)).expect("it is written through");
        b.read(0, 1 << 20).expect("it is read");
        a.write_zeroes(0, 12 * MIB, 1 << 20).expect("zeroes are written");
        check(&daemon, &capacity);
    }
    eventually("what was written through is flushed there", TIMEOUT, || {
        let of_b = daemon.json("volume show b");
        of_b["dirty_bytes"] == 0 && of_b["oldest_dirty_seconds"].is_null()
    });
    let metrics = ask(&daemon, "GET", "/metrics", "").body;
    let used =
        |line: &str| metrics.lines().find_map(|found| found.strip_prefix(line)).map(|said| said.trim().to_owned());
    let of = |volume: &str| used(&format!("hotset_volume_cache_used_bytes{{volume=\"{volume}\",pool=\"p\"}}"));
    let number = |said: Option<String>| said.expect("it is told").parse::<u64>().expect("a number");
    assert_eq!(number(of("a")) + number(of("b")), number(used("hotset_pool_used_bytes{pool=\"p\"}")));
    drop((a, b));
    // Also of a volume that is not open, and of what is dirty there.
    assert!(daemon.stop().success());
    let (at, away) = (daemon.site.path("a"), daemon.site.path("away"));
    fs::rename(&at, &away).expect("it can be taken away");
    daemon.launch();
    eventually("the pool is there", TIMEOUT, || daemon.json("pool show p")["state"] == "online");
    check(&daemon, &capacity);
    let offline = daemon.json("volume show a");
    assert_eq!(offline["state"], "offline", "{offline}");
    assert!(offline["dirty_bytes"].as_u64() > Some(0) && offline["pool"] == "p", "{offline}");
    fs::rename(&away, &at).expect("it can be put back");
    eventually("it is back", TIMEOUT, || daemon.is_online("a"));
    check(&daemon, &capacity);
}
