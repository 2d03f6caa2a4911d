//! Blocks of 512 and 4096 bytes, odd sizes, requests at any offset, read-only exports, zeroes, trims and CACHE.

use std::fs;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::{self, usize_of};
use hotset_e2e::nbd::{EINVAL, ENOSPC, EPERM, Error, FLAG_FAST_ZERO, FLAG_FUA, FLAG_NO_HOLE, Verb};
use hotset_e2e::pattern::{PAGE_BYTES, Random, SECTOR_BYTES, Version, assert_pages, sectors};

/// Random requests of whole sectors against an array in memory; in the end the file must equal the array.
fn compare_with_a_naive_model(size_sectors: u64, unit_sectors: u64, seed: u64) {
    let daemon = Daemon::start();
    daemon.make_pool(&[12], "--populate-on-read 1 --populate-on-write 1");
    let backing = daemon.site.path("backing");
    let mut model = sectors(0, size_sectors, Version::Number(0));
    fs::write(&backing, &model).expect("an image can be written");
    let block = unit_sectors * SECTOR_BYTES;
    daemon.ok(&format!("volume create v --backing {} --pool p --block {block}", backing.display()));
    let mut client = daemon.client("v");
    assert_eq!(client.size_bytes(), size_sectors * SECTOR_BYTES);
    assert_eq!(client.block_sizes().map(|sizes| u64::from(sizes[0])), Some(block));

    let mut random = Random::new(seed);
    for step in 0..3000 {
        let units = size_sectors / unit_sectors;
        let count_max: u64 = if random.below(8) == 0 { 400 } else { 24 };
        let count = 1 + random.below(count_max.min(units));
        let first = random.below(units - count + 1) * unit_sectors;
        let (offset, length) = (first * SECTOR_BYTES, count * block);
        let range = usize_of(offset)..usize_of(offset + length);
        let length = u32::try_from(length).expect("requests are short");
        match random.below(10) {
            0..5 => assert!(client.read(offset, length).expect("a read") == model[range], "step {step}: wrong bytes"),
            5..8 => {
                model[range.clone()].copy_from_slice(&sectors(first, count * unit_sectors, Version::Number(step + 1)));
                let flags = if random.below(4) == 0 { FLAG_FUA } else { 0 };
                client.call(Verb::Write, flags, offset, length, &model[range]).expect("a write");
            }
            8 => {
                model[range].fill(0);
                let flags = if random.below(2) == 0 { FLAG_NO_HOLE } else { 0 };
                client.write_zeroes(flags, offset, length).expect("zeroes");
            }
            _ => {
                // Files punch holes, so a trimmed range reads as zeroes here.
                model[range].fill(0);
                client.trim(offset, length).expect("a trim");
            }
        }
    }
    client.flush().expect("a flush");
    drop(client);
    daemon.ok("volume delete v");
    assert!(fs::read(&backing).expect("the image can be read") == model, "the image is not what was written");
}

// proves: D13, D5
#[test]
fn any_sector_can_be_read_and_written_with_512_byte_blocks() {
    compare_with_a_naive_model(8 * 2000, 1, 1);
}

// proves: D13
#[test]
fn a_size_that_is_no_multiple_of_a_page_or_a_block_is_served_to_its_end() {
    compare_with_a_naive_model(8 * 2000 + 3, 1, 2);
}

// proves: D13
#[test]
fn volumes_with_4096_byte_blocks_take_whole_pages() {
    compare_with_a_naive_model(8 * 2000, 8, 3);
}

// proves: D13
#[test]
fn requests_outside_the_volume_or_between_its_blocks_are_refused_and_change_nothing() {
    let daemon = Daemon::start();
    daemon.make_pool(&[12], "");
    let backing = daemon.make_volume(64, "");
    daemon.ok("volume enable-cache v --pool p");
    let mut client = daemon.client("v");
    let end = 64 * PAGE_BYTES;
    let cases = [
        (Verb::Read, end, 512, [EINVAL, EINVAL]),
        (Verb::Read, end - 512, 1024, [EINVAL, EINVAL]),
        (Verb::Read, 1, 512, [EINVAL, EINVAL]),
        (Verb::Read, 0, 511, [EINVAL, EINVAL]),
        (Verb::Read, u64::MAX - 511, 512, [EINVAL, EINVAL]),
        (Verb::Write, end, 512, [ENOSPC, EINVAL]),
        (Verb::Write, 256, 512, [EINVAL, EINVAL]),
        (Verb::Trim, end, 4096, [ENOSPC, EINVAL]),
        (Verb::WriteZeroes, end - 4096, 8192, [ENOSPC, EINVAL]),
        (Verb::Cache, end, 4096, [EINVAL, EINVAL]),
    ];
    for (verb, offset, length, expected) in cases {
        let data = if verb == Verb::Write { vec![7; usize_of(u64::from(length))] } else { Vec::new() };
        match client.call(verb, 0, offset, length, &data) {
            Err(Error::Answer(number)) => assert!(expected.contains(&number), "{verb:?} {offset} {length}: {number}"),
            Err(error) => panic!("{verb:?} {offset} {length}: {error}"),
            Ok(_) => panic!("{verb:?} {offset} {length} was answered"),
        }
    }
    assert_pages(&client.read(0, 64 * 4096).expect("a read"), 0, 0);
    files::assert_file_pages(&backing, 0);
}

// proves: S1
#[test]
fn a_read_only_export_refuses_every_change() {
    let mut daemon = Daemon::start();
    daemon.make_pool(&[16], "--populate-on-read 1");
    let backing = daemon.site.numbered("backing", 256);
    daemon.ok(&format!("volume create v --backing {} --pool p --read-only", backing.display()));
    for _ in 0..2 {
        let mut client = daemon.client("v");
        assert_ne!(client.flags() & 2, 0, "the export says that it is read-only");
        for verb in [Verb::Write, Verb::Trim, Verb::WriteZeroes] {
            let data = if verb == Verb::Write { vec![1; 4096] } else { Vec::new() };
            match client.call(verb, 0, 0, 4096, &data) {
                Err(Error::Answer(EPERM)) => {}
                other => panic!("{verb:?}: {other:?}"),
            }
        }
        daemon.assert_volume_pages(256);
        daemon.restart();
    }
    files::assert_file_pages(&backing, 0);
}

// proves: D13
#[test]
fn fast_zeroes_are_fast_or_refused_and_zeroes_always_read_as_zeroes() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16], "--populate-on-read 1");
    daemon.make_volume(1024, "p");
    daemon.warm_up(1024);
    let mut client = daemon.client("v");
    client.write_zeroes(0, 4096, 8192).expect("zeroes");
    client.write_zeroes(FLAG_NO_HOLE, 16384, 4096).expect("zeroes that stay allocated");
    match client.write_zeroes(FLAG_FAST_ZERO, 32768, 4096) {
        Ok(()) => assert!(client.read(32768, 4096).expect("a read").iter().all(|byte| *byte == 0)),
        Err(Error::Answer(_)) => assert_pages(&client.read(32768, 4096).expect("a read"), 8, 0),
        Err(error) => panic!("{error}"),
    }
    assert!(client.read(4096, 8192).expect("a read").iter().all(|byte| *byte == 0));
    assert!(client.read(16384, 4096).expect("a read").iter().all(|byte| *byte == 0));
    assert_pages(&client.read(0, 4096).expect("a read"), 0, 0);
    assert_pages(&client.read(12288, 4096).expect("a read"), 3, 0);
}

// proves: D2, D4
#[test]
fn the_cache_command_brings_blocks_in() {
    let daemon = Daemon::start();
    daemon.make_pool(&[32], "--populate-on-read 4");
    daemon.make_volume(2048, "p");
    assert_eq!(daemon.cache_used_bytes("v"), 0);
    daemon.warm_up(2048);
    daemon.assert_volume_pages(2048);
    assert_eq!(daemon.stat("v", "read_hits"), daemon.stat("v", "reads"));
}

// proves: D10
#[test]
fn streams_past_the_cutoff_go_past_the_cache_and_the_cutoff_changes_online() {
    let daemon = Daemon::start();
    daemon.make_pool(&[64], "--populate-on-read 1 --populate-on-write 1");
    daemon.make_volume(8192, "p");
    daemon.ok("volume set v read-cutoff=1M write-cutoff=1M");
    daemon.assert_volume_pages(8192);
    assert!(daemon.stat("v", "bypassed_reads") > 0);
    let used = daemon.cache_used_bytes("v");
    assert!(used <= 8192 * PAGE_BYTES / 4, "{used} bytes of a stream were brought in");
    let mut client = daemon.client("v");
    for first in (0..8192).step_by(64) {
        client.write(first * PAGE_BYTES, &hotset_e2e::pattern::pages(first, 64, 0)).expect("a write");
    }
    assert!(daemon.stat("v", "bypassed_writes") > 0);

    daemon.ok("volume set v read-cutoff=off");
    let shown = daemon.json("volume show v");
    assert_eq!(shown["read_cutoff_bytes"], serde_json::Value::Null);
    let bypassed = daemon.stat("v", "bypassed_reads");
    daemon.assert_volume_pages(8192);
    assert_eq!(daemon.stat("v", "bypassed_reads"), bypassed);
}
