//! What the advisor says: recorded requests, and what pools would have done with them.

use std::fs::File;
use std::thread;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::http;
use hotset_e2e::pattern::assert_pages;
use hotset_e2e::tools::{eventually, succeed};
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
    let ask = |method: &str, query: &str| http::ask(&daemon, method, &format!("{RECORDING}{query}"), "");
    let begun = ask("PUT", "").json();
    let id = format!("?id={}", begun["id"]);
    let refused = ask("PUT", "");
    assert!(refused.status >= 400 && refused.body.contains("somebody else"), "{}", refused.body);
    let mut client = daemon.client("v");
    client.read(8192, 4096).expect("it is read");
    client.write(65_536, &[7; 8192]).expect("it is written");
    assert_eq!(ask("POST", "?id=1&portion=0").json()["ended"], Value::from(true), "it is another one's");
    assert_eq!(ask("DELETE", "?id=1").status, 200);
    let taken = ask("POST", &format!("{id}&portion=0")).json();
    let requests = taken["requests"].as_str().expect("it is text");
    let lines: Vec<&str> = requests.lines().map(|line| line.split_once(',').expect("a time comes first").1).collect();
    assert_eq!(lines, ["R,8192,4096", "W,65536,8192"]);
    assert_eq!((&taken["dropped"], &taken["ended"]), (&Value::from(0), &Value::from(false)));
    assert_eq!(ask("DELETE", &id).status, 200);
    client.read(8192, 4096).expect("it is read");
    assert_eq!(ask("POST", &format!("{id}&portion=1")).json()["ended"], Value::from(true));
}

// proves: A4
#[test]
fn a_recorded_trace_tells_what_a_pool_would_have_done() {
    let daemon = Daemon::start();
    make_volume(&daemon);
    let trace = daemon.site.path("t.csv.zst");
    let recorded =
        beside_a_loop(&daemon, |daemon| daemon.json(&format!("trace record v --seconds 2 --out {}", trace.display())));
    let told = daemon.json(&format!("whatif {} {OPTIONS}", trace.display()));
    assert_eq!((&told["requests"], &told["read_requests"]), (&recorded["requests"], &recorded["requests"]));
    assert_tells_of_the_loop(&told);
    daemon.refuse(&format!("whatif {} --seconds 2", trace.display()), 2, "--seconds is for a volume");
    // Whoever reads the answer, the file is the same.
    let trace = daemon.site.path("for-people.csv.zst");
    let said =
        beside_a_loop(&daemon, |daemon| daemon.ok(&format!("trace record v --seconds 2 --out {}", trace.display())));
    let told = daemon.json(&format!("whatif {} {OPTIONS}", trace.display()));
    let requests = told["requests"].as_u64().expect("a number");
    assert!(said.replace(',', "").contains(&format!("Recorded {requests} requests")), "{said}: {told}");
    assert_tells_of_the_loop(&told);
    let trace = daemon.site.path("t.csv.zst");
    daemon.refuse(&format!("trace record v --seconds 1 --out {}", trace.display()), 1, "exists");
    let never = daemon.site.path("never");
    daemon.refuse(&format!("trace record nosuch --seconds 1 --out {}", never.display()), 1, "no such volume");
    assert!(!never.exists(), "nothing was recorded");
    daemon.refuse("whatif /dev/null", 1, "save the requests to a file first");
}

/// Pools that the loop is tried with.
const OPTIONS: &str = "--size 4M --block-size 64K --populate-on-read 1,2";

/// What a verb answers, beside which 32 blocks of 64 KiB are read in turn until it has ended.
fn beside_a_loop<T: Send>(daemon: &Daemon, verb: impl FnOnce(&Daemon) -> T + Send) -> T {
    thread::scope(|scope| {
        let verb = scope.spawn(|| verb(daemon));
        let mut client = daemon.client("v");
        while !verb.is_finished() {
            for block in 0..32 {
                client.read(block * 65_536, 4096).expect("it is read");
            }
        }
        verb.join().expect("it ends")
    })
}

/// Each block is missed once, and with the other threshold twice.
fn assert_tells_of_the_loop(told: &Value) {
    let requests = told["requests"].as_u64().expect("a number");
    assert!(requests > 32, "{told}");
    let pools = told["pools"].as_array().expect("a list");
    assert_eq!(pools.len(), 2, "{told}");
    for (pool, missed) in pools.iter().zip([1, 2]) {
        let misses = pool["miss_ratio"].as_f64().expect("a number");
        let expected = f64::from(32 * missed)
            / f64::from(u32::try_from(requests).expect("fewer than 2^32 requests are made in two seconds"));
        assert!((misses - expected).abs() < 1e-6, "each block is missed {missed} times, of {requests}: {pool}");
    }
}

// proves: A4
#[test]
fn any_pool_is_tried_with_what_hosts_ask_of_a_volume_from_now_on() {
    let daemon = Daemon::start();
    make_volume(&daemon);
    daemon.refuse("whatif nobody --seconds 1", 1, "no file of this name");
    daemon.refuse("whatif v --seconds 1", 1, "hosts asked nothing of it");
    let told = beside_a_loop(&daemon, |daemon| daemon.json(&format!("whatif v --seconds 3 {OPTIONS} --policy lru")));
    assert!(told["trace"].as_str().is_some_and(|called| called.starts_with("volume v, 3")), "{told}");
    assert_eq!((&told["pools"][0]["policy"], &told["pools"][0]["type"]), (&"lru".into(), &"read-write".into()));
    assert_tells_of_the_loop(&told);
    // What is not said is as it is watched.
    let told = beside_a_loop(&daemon, |daemon| daemon.json("whatif v --seconds 1 --size 4M"));
    assert_eq!(told["pools"].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!((&told["pools"][0]["block_bytes"], &told["pools"][0]["populate_on_read"]), (&MIB.into(), &2.into()));
    let told = beside_a_loop(&daemon, |daemon| daemon.ok("whatif v --seconds 1 --size 4M,2M --block-size 64K,128K"));
    assert!(told.contains("volume v, 1 s") && told.matches("s3-fifo").count() == 4, "{told}");
}

const MIB: u64 = 1 << 20;

/// Reads the first page of each of eight cache blocks, so often.
fn read_blocks(daemon: &Daemon, rounds: u64) {
    let mut client = daemon.client("v");
    for block in (0..rounds).flat_map(|_| 0..8) {
        client.read(block * MIB, 4096).expect("it is read");
    }
}

const ADVICE: &str = "/api/v1/volumes/v/advisor?window=all";

/// Reads of which the advisor knows.
fn known(daemon: &Daemon) -> u64 {
    let answer = http::ask(daemon, "GET", ADVICE, "");
    if answer.status == 200 { answer.json()["reads"].as_u64().expect("a number") } else { 0 }
}

/// Waits until the advisor knows of so many reads.
fn advice(daemon: &Daemon, reads: u64) -> Value {
    eventually("the advisor knows the reads", Duration::from_secs(20), || known(daemon) >= reads);
    http::ask(daemon, "GET", ADVICE, "").json()
}

// proves: A1, A2, A3, A4
#[test]
fn a_volume_without_a_cache_is_told_what_one_would_bring_which_is_what_it_brings_also_after_a_restart() {
    let mut daemon = Daemon::start();
    make_volume(&daemon);
    // What a tap keeps begins within a second.
    eventually("the volume is watched", Duration::from_secs(20), || {
        read_blocks(&daemon, 1);
        known(&daemon) > 0
    });
    // What is in the ring still is on its way.
    let before = known(&daemon);
    read_blocks(&daemon, 200);
    let known = advice(&daemon, before + 1600);
    let size = &known["recommended"]["size_bytes"];
    assert_eq!(size, &Value::from(8 * MIB), "each block is read again and again: {known}");
    let predicted = known["recommended"]["hit_ratio"].as_f64().expect("a number");
    assert!(predicted > 0.95 && known["present"].is_null(), "{known}");
    let days = &known["days"];
    assert_eq!((&days["hot_bytes"], &days["archived_bytes"]), (&Value::from(8 * MIB), &Value::from(0)), "{days}");
    let drawn = daemon.ok("advise --window all");
    assert!(drawn.contains("Recommended: 8 MiB") && drawn.contains(" * "), "{drawn}");
    let days = daemon.ok("advise v --days");
    assert!(days.contains("READ AGAIN") && days.contains("archived"), "{days}");
    daemon.refuse("advise v --cutoff off", 2, "is for a trace");
    daemon.refuse("advise nobody", 1, "no file of this name");

    let told = daemon.ok("whatif v --size 4M,8M --window all");
    assert!(told.contains("8 MiB") && !told.contains('?'), "{told}");
    let told = daemon.ok("whatif v --size 8M --block-size 64K --policy lru,fifo");
    assert!(told.contains("hotset whatif v --seconds 3600"), "{told}");

    daemon.restart();
    let kept = advice(&daemon, before + 1600);
    assert_eq!(kept["from_unix_seconds"], known["from_unix_seconds"]);

    daemon.make_pool(&[32], "");
    daemon.ok("volume enable-cache v --pool p");
    let counted = |what: &str| daemon.stat("v", what);
    let (hits, reads) = (counted("read_hits"), counted("reads"));
    read_blocks(&daemon, 200);
    let measured = ratio(counted("read_hits") - hits, counted("reads") - reads);
    assert!((measured - predicted).abs() < 0.03, "{predicted} was predicted, {measured} measured");
}

/// Reads of which few pages get most, the same ones each time; answers how many.
fn read_by_zipf(daemon: &Daemon) -> u64 {
    let before = daemon.stat("v", "reads");
    ask_by_zipf(daemon, &["--rw=randread", "--size=1G", "--number_ios=60000"]);
    daemon.stat("v", "reads") - before
}

fn ask_by_zipf(daemon: &Daemon, shape: &[&str]) {
    let uri = format!("--uri={}", daemon.uri("v"));
    let words = ["--name=zipf", "--ioengine=nbd", &uri, "--bs=4k", "--iodepth=4", "--io_size=4G"];
    let zipf = ["--random_distribution=zipf:1.1", "--norandommap", "--randseed=7"];
    succeed("fio", &[&words[..], &zipf, shape].concat());
}

/// What the curve says of a cache of so many bytes, between two of its points.
fn told_at(curve: &[Value], bytes: f64) -> f64 {
    let points: Vec<[f64; 2]> = curve
        .iter()
        .map(|point| ["size_bytes", "hit_ratio"].map(|key| point[key].as_f64().expect("a number")))
        .collect();
    let after = points.iter().position(|[size, _]| *size >= bytes).unwrap_or(points.len() - 1).max(1);
    let [[from, low], [to, high]] = [points[after - 1], points[after]];
    low + (high - low) * ((bytes - from) / (to - from)).clamp(0.0, 1.0)
}

// proves: A1, A3
#[test]
fn caches_that_are_made_as_advised_for_a_zipf_load_of_fio_have_the_hits_that_were_told() {
    let daemon = Daemon::start();
    let backing = daemon.site.path("backing");
    File::create(&backing).and_then(|file| file.set_len(1024 * MIB)).expect("an image can be made");
    daemon.json(&format!("volume create v --backing {}", backing.display()));
    eventually("the volume is watched", Duration::from_secs(20), || {
        read_blocks(&daemon, 1);
        known(&daemon) > 0
    });
    let before = known(&daemon);
    let reads = read_by_zipf(&daemon);
    let advice = advice(&daemon, before + reads);
    let curve = advice["curve"].as_array().expect("a list");
    let recommended = advice["recommended"]["size_bytes"].as_u64().expect("a number");
    let setup = |key: &str| advice["setup"][key].to_string().replace('"', "");
    let settings = format!(
        "--type read --io-type custom --block-size {} --populate-on-read {} --populate-on-write {} --policy {}",
        setup("block_bytes"),
        setup("populate_on_read"),
        setup("populate_on_write"),
        setup("policy")
    );
    for size in [recommended, recommended / 4] {
        let ssd = daemon.site.blank(&format!("ssd-{size}"), size + 16 * MIB).display().to_string();
        daemon.ok(&format!("pool create p {settings} --ssd {ssd}"));
        let capacity = daemon.json("pool show p")["capacity_bytes"].as_f64().expect("a number");
        daemon.ok("volume enable-cache v --pool p");
        let hits = daemon.stat("v", "read_hits");
        let reads = read_by_zipf(&daemon);
        let measured = ratio(daemon.stat("v", "read_hits") - hits, reads);
        let told = told_at(curve, capacity);
        println!("{} MiB: {told:.3} was told, {measured:.3} measured", size / MIB);
        assert!((measured - told).abs() < 0.03, "{capacity}: {told} was told, {measured} measured: {advice}");
        daemon.ok("volume disable-cache v");
        daemon.ok("pool delete p");
    }
}

// proves: A1, A3
#[test]
fn where_hosts_write_as_much_as_they_read_a_read_write_pool_has_the_hits_that_are_told_of_it() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[24, 24], "--populate-on-read 2");
    let backing = daemon.site.path("backing");
    File::create(&backing).and_then(|file| file.set_len(256 * MIB)).expect("an image can be made");
    daemon.json(&format!("volume create v --backing {} --pool p", backing.display()));
    daemon.ok("volume set v memory-cache=off");
    eventually("the volume is watched", Duration::from_secs(20), || {
        read_blocks(&daemon, 1);
        known(&daemon) > 0
    });
    let before = known(&daemon);
    let counters = || ["reads", "read_hits", "writes", "write_hits"].map(|counter| daemon.stat("v", counter));
    let [reads, read_hits, writes, write_hits] = counters();
    ask_by_zipf(&daemon, &["--rw=randrw", "--size=256M", "--number_ios=30000"]);
    let now = counters();
    let advice = advice(&daemon, before + now[0] - reads);
    let told = |key: &str| advice["present"][key].as_f64().expect("a number");
    for (key, measured) in [
        ("hit_ratio", ratio(now[1] - read_hits, now[0] - reads)),
        ("write_hit_ratio", ratio(now[3] - write_hits, now[2] - writes)),
    ] {
        println!("{key}: {:.3} was told, {measured:.3} measured", told(key));
        assert!((measured - told(key)).abs() < 0.05, "{key}: {measured} was measured: {advice}");
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    let [part, whole] = [part, whole].map(|count| f64::from(u32::try_from(count).expect("counts are below 2^32")));
    part / whole
}

// proves: A6
#[test]
fn each_miss_has_a_reason_and_a_place_is_explained() {
    let daemon = Daemon::start();
    daemon.make_pool(&[32], "--populate-on-read 2");
    let backing = daemon.site.numbered("other", 2048).display().to_string();
    daemon.ok(&format!("volume create v --backing {backing} --pool p"));
    read_blocks(&daemon, 1);
    let told = daemon.ok("volume explain v 1M");
    assert!(told.contains("first touch") && told.contains("one more read"), "{told}");
    read_blocks(&daemon, 1);
    eventually("the block is in its slot", Duration::from_secs(20), || {
        daemon.json("volume explain v 1M")["in_pool"]["in_slot"]["has_page"] == true
    });
    let stats = daemon.json("volume show v")["stats"].clone();
    let counters = stats.as_object().expect("an object").iter();
    let missed: u64 =
        counters.filter(|(name, _)| name.starts_with("missed_")).filter_map(|(_, count)| count.as_u64()).sum();
    assert_eq!(missed, daemon.stat("v", "reads") - daemon.stat("v", "read_hits"), "{stats}");
    assert!(daemon.ok("volume show v").contains("8 first touch"));
    assert!(daemon.ok("stats").contains("MOSTLY FOR"));
    assert!(http::ask(&daemon, "GET", "/metrics", "").body.contains("hotset_volume_missed_first_touch_total{"));
    daemon.refuse("volume explain v 1T", 1, "past its end");
}

// proves: A5
#[test]
fn policy_auto_follows_what_suits_the_hosts_says_why_and_gives_right_bytes_throughout() {
    let daemon = Daemon::start();
    daemon.make_pool(&[20], "--policy auto --populate-on-read 1");
    let pool = daemon.json("pool show p");
    assert_eq!((&pool["policy"], &pool["policy_followed"]), (&Value::from("auto"), &Value::from("s3-fifo")));
    let slots = pool["slots"].as_u64().expect("a number");
    let blocks = 10 * slots;
    daemon.make_volume(16 * blocks, "p");
    daemon.ok("volume set v memory-cache=off read-cutoff=off");
    let mut client = daemon.client("v");
    let mut read = |block: u64| {
        let bytes = client.read(block * 65_536, 4096).expect("it is read");
        assert_pages(&bytes, 16 * block, 0);
    };
    // What is popular at first fills S3-FIFO's main queue. Then each block is read again when three of ten slots were filled since.
    (0..4).flat_map(|_| 9 * slots..10 * slots - slots / 20).for_each(&mut read);
    let distance = 3 * slots / 10;
    for block in 0..8 * slots {
        read(block + distance);
        read(block);
    }
    let followed = || daemon.json("pool show p")["policy_followed"] == "2q";
    eventually("another policy is followed", Duration::from_secs(20), followed);
    let shown = daemon.ok("pool show p");
    assert!(shown.contains("auto, follows 2q: of ") && shown.contains("s3-fifo would have missed"), "{shown}");
    let event = || daemon.ok("events").lines().any(|line| line.contains("policy auto follows 2q"));
    eventually("an event tells it", Duration::from_secs(20), event);
    let metrics = http::ask(&daemon, "GET", "/metrics", "").body;
    assert!(metrics.contains("hotset_pool_policy_followed{pool=\"p\",policy=\"2q\"} 1"), "{metrics}");
    daemon.ok("pool set p policy=lru");
    let pool = daemon.json("pool show p");
    assert_eq!((&pool["policy_followed"], &pool["policy_switches"]), (&Value::from("lru"), &Value::from(0)));
    assert_eq!(daemon.stat("v", "errors"), 0);
}
