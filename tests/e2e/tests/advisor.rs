//! What the advisor says: recorded requests, and what pools would have done with them.

use std::thread;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::http;
use serde_json::Value;

const RECORDING: &str = "/api/v1/volumes/v/recording";

fn make_volume(daemon: &Daemon) {
    let backing = daemon.site.numbered("backing", 2048).display().to_string();
    daemon.json(&format!("volume create v --backing {backing}"));
}

// proves: A4
#[test]
fn what_hosts_ask_of_a_volume_is_recorded_for_one_who_takes_it() {
    let daemon = Daemon::start();
    make_volume(&daemon);
    let ask = |method: &str| http::ask(&daemon, method, RECORDING, "");
    assert_eq!(ask("PUT").status, 200);
    let refused = ask("PUT");
    assert!(refused.status >= 400 && refused.body.contains("somebody else"), "{}", refused.body);
    let mut client = daemon.client("v");
    client.read(8192, 4096).expect("it is read");
    client.write(65_536, &[7; 8192]).expect("it is written");
    let taken = ask("POST").json();
    let requests = taken["requests"].as_str().expect("it is text");
    let lines: Vec<&str> = requests.lines().map(|line| line.split_once(',').expect("a time comes first").1).collect();
    assert_eq!(lines, ["R,8192,4096", "W,65536,8192"]);
    assert_eq!((&taken["dropped"], &taken["ended"]), (&Value::from(0), &Value::from(false)));
    assert_eq!(ask("DELETE").status, 200);
    client.read(8192, 4096).expect("it is read");
    assert_eq!(ask("POST").json()["ended"], Value::from(true));
}

// proves: A4
#[test]
fn a_recorded_trace_tells_what_a_pool_would_have_done() {
    let daemon = Daemon::start();
    make_volume(&daemon);
    let trace = daemon.site.path("t.csv.zst");
    let recorded = thread::scope(|scope| {
        let recording = scope.spawn(|| daemon.json(&format!("trace record v --seconds 2 --out {}", trace.display())));
        // 32 blocks of 64 KiB, in turn, until it has ended.
        let mut client = daemon.client("v");
        while !recording.is_finished() {
            for block in 0..32 {
                client.read(block * 65_536, 4096).expect("it is read");
            }
        }
        recording.join().expect("it ends")
    });
    let requests = recorded["requests"].as_u64().expect("a number");
    assert!(requests > 32, "{recorded}");
    let options = "--size 4M --block-size 64K --populate-on-read 1,2";
    let told = daemon.json(&format!("whatif {} {options}", trace.display()));
    assert_eq!((&told["requests"], &told["read_requests"]), (&recorded["requests"], &recorded["requests"]));
    let pools = told["pools"].as_array().expect("a list");
    for (pool, missed) in pools.iter().zip([1, 2]) {
        let misses = pool["miss_ratio"].as_f64().expect("a number");
        let expected = f64::from(32 * missed) / f64::from(u32::try_from(requests).expect("two seconds are short"));
        assert!((misses - expected).abs() < 1e-6, "each block is missed {missed} times, of {requests}: {pool}");
    }
    daemon.refuse(&format!("trace record v --seconds 1 --out {}", trace.display()), 1, "exists");
    daemon.refuse("whatif /dev/null", 1, "its format is not known");
}
