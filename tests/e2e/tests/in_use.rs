//! Who uses a volume is told, and nobody is cut off without a word.

use hotset_e2e::daemon::Daemon;
use hotset_e2e::http::ask;
use hotset_e2e::pattern::PAGE_BYTES;

// proves: H5
#[test]
fn a_volume_that_hosts_use_is_deleted_by_force_alone_and_its_hosts_are_named() {
    let daemon = Daemon::start();
    daemon.make_pool(&[24], "");
    daemon.make_volume(64, "p");
    assert_eq!(daemon.json("volume show v")["clients"], serde_json::json!([]));
    let mut client = daemon.client("v");
    client.read(0, 4096).expect("a read");
    let shown = daemon.json("volume show v")["clients"].clone();
    let (peer, since) = (shown[0]["peer"].as_str().expect("a name"), shown[0]["since_unix_ms"].as_u64());
    assert!(shown[0]["protocol"] == "nbd" && !peer.is_empty() && since > Some(0), "{shown}");
    assert!(daemon.ok("volume show v").contains(&format!("{peer} by NBD since ")));
    let said = daemon.refuse("volume delete v", 1, "hosts use it");
    assert!(said.contains(peer) && said.contains("--force") && said.contains("disable-cache v"), "{said}");
    let refused = ask(&daemon, "DELETE", "/api/v1/volumes/v", "");
    assert_eq!((refused.status, &refused.json()["code"]), (409, &"in-use".into()), "{}", refused.body);
    // Its cache goes while they go on, and they are named all the same.
    let said = daemon.ok("volume disable-cache v");
    assert!(said.contains("Hosts go on, uncached") && said.contains(peer), "{said}");
    client.read(PAGE_BYTES, 4096).expect("it goes on");
    daemon.ok("volume delete v --force");
    client.read(0, 4096).expect_err("it is cut off");
}

// proves: H5
#[test]
fn a_host_that_hung_up_a_moment_ago_keeps_no_volume() {
    let daemon = Daemon::start();
    for _ in 0..10 {
        daemon.make_volume(64, "");
        let mut client = daemon.client("v");
        client.read(0, 4096).expect("a read");
        drop(client);
        daemon.ok("volume delete v");
        std::fs::remove_file(daemon.site.path("backing")).ok();
    }
}
