//! The memory cache as hosts and administrators meet it.

use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::http::ask;
use hotset_e2e::nbd::Client;
use hotset_e2e::pattern::{PAGE_BYTES, assert_pages, pages};
use hotset_e2e::tools::eventually;
use serde_json::Value;

const MIB: u64 = 1 << 20;

#[track_caller]
fn read(client: &mut Client, page: u64, version: u64) {
    assert_pages(&client.read(page * PAGE_BYTES, 4096).expect("a read"), page, version);
}

/// Reads a page until memory answers: a thread that got its first volume gets its part of the memory cache within a second.
#[track_caller]
fn warm(daemon: &Daemon, volume: &str, client: &mut Client, version: u64) {
    let before = daemon.stat(volume, "memory_hits");
    eventually("the page is in memory", Duration::from_secs(20), || {
        read(client, 7, version);
        daemon.stat(volume, "memory_hits") > before
    });
}

fn size_of(daemon: &Daemon) -> Option<u64> {
    daemon.json("memory-cache show")["size_bytes"].as_u64()
}

// proves: M1, M2, M5, S4
#[test]
fn what_is_read_again_comes_from_memory_with_and_without_a_pool_and_its_settings_last() {
    let mut daemon = Daemon::start();
    assert_eq!(daemon.json("memory-cache show")["size_bytes"], 0);
    assert!(daemon.ok("memory-cache set 8M").contains("8 MiB"));
    daemon.make_pool(&[16], "--populate-on-read 1");
    daemon.make_volume(256, "p");
    let other = daemon.site.numbered("other", 256).display().to_string();
    daemon.ok(&format!("volume create w --backing {other}"));

    for volume in ["v", "w"] {
        let (mut reader, mut writer) = (daemon.client(volume), daemon.client(volume));
        warm(&daemon, volume, &mut reader, 0);
        let hits = daemon.stat(volume, "memory_hits");
        assert!(hits <= daemon.stat(volume, "read_hits"), "{hits} hits of {volume} in memory");
        writer.write(7 * PAGE_BYTES, &pages(7, 1, 1)).expect("a write");
        read(&mut reader, 7, 1);
        warm(&daemon, volume, &mut reader, 1);
        writer.trim(4 * PAGE_BYTES, 8 * 4096).expect("a trim");
        assert!(reader.read(7 * PAGE_BYTES, 4096).expect("a read").iter().all(|byte| *byte == 0), "it was trimmed");
        writer.write(7 * PAGE_BYTES, &pages(7, 1, 2)).expect("a write");
        warm(&daemon, volume, &mut reader, 2);
    }
    assert!(daemon.ok("stats").contains("IN MEMORY") && daemon.ok("volume show v").contains(" in memory, "));
    let metrics = ask(&daemon, "GET", "/metrics", "").body;
    assert!(
        metrics.contains("hotset_volume_memory_hits_total{") && metrics.contains("hotset_memory_cache_used_bytes ")
    );
    let status = daemon.json("status");
    assert!(status["memory_cache"]["used_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{status}");

    // Off for one volume, while hosts use it.
    assert_eq!(daemon.json("volume set v memory-cache=off")["changed"], true);
    let before = daemon.stat("v", "memory_hits");
    (0..4).for_each(|_| read(&mut daemon.client("v"), 7, 2));
    assert_eq!(daemon.stat("v", "memory_hits"), before);
    assert_eq!(daemon.json("volume show v")["memory_cache"], false);
    warm(&daemon, "w", &mut daemon.client("w"), 2);

    // What was set lasts, whatever way the daemon ends.
    for clean in [true, false] {
        match clean {
            true => daemon.restart(),
            false => {
                daemon.kill();
                daemon.launch();
            }
        }
        assert_eq!(size_of(&daemon), Some(8 * MIB));
        let shown = ["v", "w"].map(|volume| daemon.json(&format!("volume show {volume}"))["memory_cache"].clone());
        assert_eq!(shown, [Value::from(false), Value::from(true)]);
        warm(&daemon, "w", &mut daemon.client("w"), 2);
    }

    daemon.refuse("memory-cache set 900T", 1, "too large");
    assert_eq!(daemon.json("memory-cache set 0")["changed"], true);
    assert_eq!(daemon.json("memory-cache show")["used_bytes"], 0);
    assert_eq!(daemon.json("memory-cache set 0")["changed"], false);

    // Without either, it has what the machine is good for.
    daemon.ok("memory-cache set default");
    daemon.allow_memory_cache();
    daemon.restart();
    let size = size_of(&daemon).expect("a size");
    assert!(size > MIB && size <= 4096 * MIB, "{size} bytes");
}
