//! Other people's NBD clients: libnbd's tools, QEMU's and fio.

use std::fs;
use std::time::Duration;

use hotset_e2e::daemon::{Daemon, free_port};
use hotset_e2e::files::{self, MIB, assert_file_pages};
use hotset_e2e::nbd::{Client, OPTION_GO, greet, option};
use hotset_e2e::pattern::{PAGE_BYTES, Random, assert_pages, pages};
use hotset_e2e::tools::{self, succeed};
use serde_json::Value;

// proves: S1, D13
#[test]
fn nbdinfo_lists_every_export_with_its_size_and_its_abilities() {
    let daemon = Daemon::start();
    let first = daemon.site.numbered("a", 1000);
    let second = daemon.site.numbered("b", 100);
    daemon.ok(&format!("volume create first --backing {}", first.display()));
    daemon.ok(&format!("volume create second --backing {} --read-only", second.display()));

    let list = succeed("nbdinfo", &["--list", "--json", &daemon.uri("")]);
    let list: Value = serde_json::from_str(&list).expect("nbdinfo prints JSON");
    let export = |name: &str| {
        let exports = list["exports"].as_array().expect("a list of exports");
        exports
            .iter()
            .find(|export| export["export-name"] == name)
            .unwrap_or_else(|| panic!("no {name} in {list}"))
            .clone()
    };
    let first = export("first");
    assert_eq!(first["export-size"], 1000 * PAGE_BYTES);
    for ability in ["can_cache", "can_fast_zero", "can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"] {
        assert_eq!(first[ability], true, "{ability} in {first}");
    }
    assert_eq!(first["is_read_only"], false);
    let contexts = first["contexts"].as_array().expect("a list of contexts");
    assert!(contexts.iter().any(|context| context == "base:allocation"), "{first}");
    assert_eq!(export("second")["is_read_only"], true);
    assert_eq!(list["exports"].as_array().map(Vec::len), Some(2));
}

// proves: D13
#[test]
fn block_status_shows_the_holes_of_the_backing_device_until_they_are_written() {
    let daemon = Daemon::start();
    daemon.make_pool(&[32], "--populate-on-read 1 --populate-on-write 1");
    let backing = daemon.site.path("sparse");
    fs::File::create(&backing).and_then(|file| file.set_len(8 * MIB)).expect("a sparse file can be made");
    files::overwrite(&backing, 0, &pages(0, 256, 0));
    daemon.ok(&format!("volume create v --backing {} --pool p", backing.display()));

    let map = || -> Vec<(u64, u64, u64)> {
        let text = succeed("nbdinfo", &["--map", "--json", &daemon.uri("v")]);
        let map: Value = serde_json::from_str(&text).expect("nbdinfo prints JSON");
        let number = |extent: &Value, key: &str| extent[key].as_u64().expect("a number");
        let extents = map.as_array().expect("a list").iter();
        extents.map(|extent| (number(extent, "offset"), number(extent, "length"), number(extent, "type"))).collect()
    };
    let is_data = |map: &[(u64, u64, u64)], offset: u64| {
        let extent = map.iter().find(|(start, length, _)| (*start..start + length).contains(&offset));
        extent.is_some_and(|(_, _, kind)| kind & 1 == 0)
    };
    let before = map();
    assert!(is_data(&before, 0) && !is_data(&before, 4 * MIB), "{before:?}");
    daemon.client("v").write(4 * MIB, &pages(1024, 16, 1)).expect("a write");
    let after = map();
    assert!(is_data(&after, 4 * MIB) && is_data(&after, 4 * MIB + 15 * PAGE_BYTES), "{after:?}");
    assert!(!is_data(&after, 6 * MIB), "{after:?}");
}

// proves: S1, D2, D3, D5
#[test]
fn nbdcopy_brings_back_what_it_brought_cached_or_not() {
    let daemon = Daemon::start();
    daemon.make_pool(&[24, 40], "--populate-on-read 1");
    let page_count = 8192;
    let backing = daemon.make_volume(page_count, "p");
    daemon.ok("volume set v read-cutoff=off write-cutoff=off");
    let source = daemon.site.path("source");
    fs::write(&source, pages(0, page_count, 7)).expect("an image can be written");
    let (source, copy) = (source.display().to_string(), daemon.site.path("copy"));
    let to = copy.display().to_string();

    succeed("nbdcopy", &["--connections=4", "--flush", &source, &daemon.uri("v")]);
    assert_file_pages(&backing, 7);
    for _ in 0..3 {
        succeed("nbdcopy", &["--connections=4", &daemon.uri("v"), &to]);
        assert_file_pages(&copy, 7);
    }
    assert!(daemon.stat("v", "read_hits") > 0, "the third reading hits the cache");
    assert_eq!(daemon.stat("v", "errors"), 0);
}

// proves: S1, D13
#[test]
fn qemu_io_patterns_read_back_through_discards_and_zeroes() {
    let daemon = Daemon::start();
    daemon.make_pool(&[32], "--populate-on-read 1 --populate-on-write 1");
    daemon.make_volume(4096, "p");
    let uri = daemon.uri("v");
    let qemu_io = |commands: &[&str]| {
        let mut arguments = vec!["-f".to_owned(), "raw".to_owned()];
        arguments.extend(commands.iter().flat_map(|command| ["-c".to_owned(), (*command).to_owned()]));
        arguments.push(uri.clone());
        let said = succeed("qemu-io", &arguments);
        assert!(!said.contains("failed") && !said.contains("error"), "{said}");
    };
    qemu_io(&[
        "write -P 0xaa 0 64k",
        "write -P 0xbb 65536 512",
        "read -P 0xaa 0 64k",
        "read -P 0xbb 65536 512",
        "flush",
    ]);
    qemu_io(&["read -P 0xaa 0 64k", "read -P 0xaa 0 64k", "write -z 4k 8k", "read -P 0xaa 0 4k", "read -P 0 4k 8k"]);
    qemu_io(&["read -P 0xaa 12k 52k", "write -z -u 16k 4k", "read -P 0 16k 4k", "write -f -P 0xcc 20k 4k"]);
    qemu_io(&["discard 0 64k", "read -P 0 0 64k", "write -P 0xdd 1M 1M", "read -P 0xdd 1M 1M"]);
    // Any length, in bounded memory.
    qemu_io(&[
        "discard 0 16M",
        "read -P 0 0 16M",
        "write -z 0 16M",
        "aio_write -P 0x11 0 64k",
        "aio_write -P 0x22 64k 64k",
        "aio_flush",
        "read -P 0x11 0 64k",
        "read -P 0x22 64k 64k",
    ]);
    assert_eq!(daemon.stat("v", "errors"), 0);
}

// proves: S1
#[test]
fn qemu_img_converts_to_and_from_a_volume() {
    let daemon = Daemon::start();
    daemon.make_pool(&[32], "--populate-on-read 1");
    daemon.make_volume(2048, "p");
    let backing = daemon.site.path("backing").display().to_string();
    let copy = daemon.site.path("copy.qcow2").display().to_string();
    let info = succeed("qemu-img", &["info", "--output=json", &daemon.uri("v")]);
    let info: Value = serde_json::from_str(&info).expect("qemu-img prints JSON");
    assert_eq!(info["virtual-size"], 2048 * PAGE_BYTES);
    succeed("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &daemon.uri("v"), &copy]);
    // QEMU opens nothing that the daemon has open.
    let plain = daemon.site.path("copy.raw");
    succeed("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", &copy, &plain.display().to_string()]);
    assert!(fs::read(&plain).expect("a copy") == fs::read(&backing).expect("a backing file"), "they differ");
    succeed("qemu-img", &["convert", "-n", "-f", "qcow2", "-O", "raw", &copy, &daemon.uri("v")]);
    assert_file_pages(&daemon.site.path("backing"), 0);
}

/// Random mixed I/O of several jobs, each with connections and a region of its own, every block checked.
pub(crate) fn fio_verify(daemon: &Daemon, jobs: u64, region_mib: u64, extra: &[&str]) -> String {
    let mut arguments: Vec<String> = vec![
        "--name=mixed".to_owned(),
        "--ioengine=nbd".to_owned(),
        format!("--uri={}", daemon.uri("v")),
        "--thread".to_owned(),
        format!("--numjobs={jobs}"),
        format!("--size={region_mib}M"),
        format!("--offset_increment={region_mib}M"),
        "--rw=randrw".to_owned(),
        "--rwmixread=60".to_owned(),
        "--bsrange=4k-32k".to_owned(),
        "--bs_unaligned=0".to_owned(),
        "--iodepth=16".to_owned(),
        "--verify=crc32c".to_owned(),
        "--verify_fatal=1".to_owned(),
        "--verify_backlog=64".to_owned(),
        "--randseed=7".to_owned(),
        "--group_reporting".to_owned(),
        // Else it leaves files where it runs.
        "--verify_state_save=0".to_owned(),
    ];
    arguments.extend(extra.iter().map(|word| (*word).to_owned()));
    let said = succeed("fio", &arguments);
    assert!(!said.contains("verify:") && !said.contains("bad magic"), "{said}");
    said
}

// proves: D2, D4, D5, D12, D15
#[test]
fn fio_finds_no_wrong_byte_while_blocks_are_populated_and_evicted() {
    let daemon = Daemon::start();
    daemon.make_pool(&[12, 20], "--populate-on-read 1 --populate-on-write 1");
    daemon.make_volume(96 * MIB / PAGE_BYTES, "p");
    daemon.ok("pool set p fetch-rate=high");
    daemon.ok("volume set v read-cutoff=off write-cutoff=off");
    fio_verify(&daemon, 3, 32, &[]);
    assert!(daemon.stat("v", "populated_bytes") > 32 * MIB, "more was brought in than fits");
    assert!(daemon.stat("v", "evicted_blocks") > 0);
    assert!(daemon.stat("v", "read_hits") > 0);
    assert_eq!(daemon.stat("v", "errors"), 0);
}

// proves: D4, P15
#[test]
fn fio_finds_no_wrong_byte_under_lru_and_fifo_and_while_the_policy_changes() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16], "--populate-on-read 1 --policy lru");
    daemon.make_volume(48 * MIB / PAGE_BYTES, "p");
    std::thread::scope(|scope| {
        let load = scope.spawn(|| fio_verify(&daemon, 2, 24, &["--time_based", "--runtime=6"]));
        for policy in ["fifo", "auto", "s3-fifo", "2q", "lru"].iter().cycle().take(30) {
            daemon.ok(&format!("pool set p policy={policy}"));
            assert_eq!(daemon.json("pool show p")["policy"], *policy);
            if load.is_finished() {
                break;
            }
        }
        load.join().expect("fio found no wrong byte");
    });
    assert_eq!(daemon.stat("v", "errors"), 0);
}

// proves: D11
#[test]
fn several_connections_flush_and_write_through_side_by_side() {
    let daemon = Daemon::start();
    daemon.make_pool(&[24], "--populate-on-read 1 --populate-on-write 1");
    let backing = daemon.make_volume(32 * MIB / PAGE_BYTES, "p");
    fio_verify(&daemon, 4, 8, &["--fsync=8"]);
    assert!(daemon.stat("v", "flushes") > 0);

    // What one connection wrote, another one's flush covers; FUA needs no flush.
    let (mut first, mut second) = (daemon.client("v"), daemon.client("v"));
    first.write(0, &pages(0, 16, 3)).expect("a write");
    second.flush().expect("a flush");
    first.write_fua(16 * PAGE_BYTES, &pages(16, 16, 3)).expect("a write with FUA");
    assert_pages(&second.read(0, 32 * 4096).expect("a read"), 0, 3);
    assert_pages(&files::read_part(&backing, 0, 32 * 4096), 0, 3);
}

// proves: S1
#[test]
fn a_volume_is_served_over_tcp_as_well() {
    let address = format!("127.0.0.1:{}", free_port());
    let daemon = Daemon::start_with(&format!("--nbd tcp:{address} --missing-wait 1"));
    daemon.make_volume(512, "");
    assert!(daemon.json("volume show v")["nbd"].to_string().contains(&address));
    let uri = format!("nbd://{address}/v");
    assert_eq!(succeed("nbdinfo", &["--size", &uri]).trim(), (512 * PAGE_BYTES).to_string());
    let copy = daemon.site.path("copy");
    succeed("nbdcopy", &[&uri, &copy.display().to_string()]);
    assert_file_pages(&copy, 0);
}

// proves: S1
#[test]
fn old_clients_that_use_export_name_are_served_and_unknown_names_are_refused() {
    let daemon = Daemon::start();
    daemon.make_volume(256, "");
    // nbd-client of old and fio-like minimal clients: option 1, and no reply but the export itself.
    let mut stream = greet(&daemon.nbd_socket()).expect("a greeting");
    std::io::Write::write_all(&mut stream, &option(1, b"v")).expect("an option");
    let mut export = [0; 10];
    std::io::Read::read_exact(&mut stream, &mut export).expect("the export");
    assert_eq!(u64::from_be_bytes(export[..8].try_into().expect("eight bytes")), 256 * PAGE_BYTES);
    assert!(Client::connect(&daemon.nbd_socket(), "nobody").is_err());
    let said = tools::fail("nbdinfo", &[daemon.uri("nobody")]);
    assert!(said.contains("nobody"), "{said}");
    // The connection that asked for a wrong name may still ask for a right one.
    let mut stream = greet(&daemon.nbd_socket()).expect("a greeting");
    for name in ["nobody", "v"] {
        std::io::Write::write_all(&mut stream, &option(OPTION_GO, &hotset_e2e::nbd::go_data(name))).expect("an option");
        let mut head = [0; 20];
        std::io::Read::read_exact(&mut stream, &mut head).expect("a reply");
        let len = u32::from_be_bytes(head[16..].try_into().expect("four bytes"));
        std::io::copy(&mut std::io::Read::take(&mut stream, u64::from(len)), &mut std::io::sink()).expect("its data");
        assert_eq!(head[12] & 0x80 != 0, name == "nobody");
    }
}

// proves: D4, S2
#[test]
fn the_hit_ratio_rises_when_what_was_read_is_read_again() {
    let daemon = Daemon::start();
    daemon.make_pool(&[32], "--populate-on-read 2");
    daemon.make_volume(2048, "p");
    let mut random = Random::new(1);
    let mut client = daemon.client("v");
    let mut pass = || {
        for _ in 0..2000 {
            let page = random.below(2048);
            assert_pages(&client.read(page * PAGE_BYTES, 4096).expect("a read"), page, 0);
        }
    };
    pass();
    let ratio = |daemon: &Daemon| daemon.json("stats v")["volumes"][0]["stats"]["hit_ratio"].as_f64().expect("a ratio");
    let (before, hits) = (ratio(&daemon), daemon.stat("v", "read_hits"));
    tools::eventually("every block was read often enough and is brought in", Duration::from_secs(30), || {
        pass();
        daemon.cache_used_bytes("v") == 2048 * PAGE_BYTES
    });
    let reads = daemon.stat("v", "reads");
    pass();
    let (hits_now, reads_now) = (daemon.stat("v", "read_hits"), daemon.stat("v", "reads"));
    assert!(ratio(&daemon) > before && hits_now > hits);
    assert_eq!(reads_now - reads, 2000);
    assert!(hits_now - hits >= 2000, "all of the last pass are hits");
}
