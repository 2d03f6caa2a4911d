//! Blocks of 512 and 4096 bytes, odd sizes, requests at any offset, read-only exports, zeroes, trims and CACHE.

use std::fs;
use std::path::PathBuf;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::{self, MIB, usize_of};
use hotset_e2e::nbd::{Client, EINVAL, ENOSPC, EPERM, Error, FLAG_FAST_ZERO, FLAG_FUA, FLAG_NO_HOLE, Verb};
use hotset_e2e::pattern::{PAGE_BYTES, Random, SECTOR_BYTES, Version, assert_pages, sectors};
use hotset_e2e::tools::{run, skip, succeed};

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
        let length = u32::try_from(length).expect("a request is below 4 GiB");
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
                client.write_zeroes(flags, offset, length).expect("zeroes can be written");
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

/// A file system on a disk with sectors of 4096 bytes, taken down with the value.
struct LargeSectors {
    place: PathBuf,
    device: String,
}

impl LargeSectors {
    /// `None`, and loud words, where that is not possible.
    fn mount(daemon: &Daemon, kind: &str) -> Option<Self> {
        let (image, place) = (daemon.site.path("disk"), daemon.site.path("mounted"));
        files::write_zeroes(&image, 320 * MIB);
        fs::create_dir(&place).expect("a folder can be made");
        let image = image.display().to_string();
        let output = run("losetup", &["--sector-size", "4096", "--find", "--show", &image]);
        if !output.status.success() {
            skip("a loop device cannot be made here (needs root and losetup)");
            return None;
        }
        let mounted = Self { place, device: String::from_utf8_lossy(&output.stdout).trim().to_owned() };
        // Whoever had it before may have left it read-only.
        succeed("blockdev", &["--setrw", &mounted.device]);
        succeed(&format!("mkfs.{kind}"), &["-q", &mounted.device]);
        succeed("mount", &[&mounted.device, &mounted.place.display().to_string()]);
        Some(mounted)
    }
}

impl Drop for LargeSectors {
    fn drop(&mut self) {
        run("umount", &[&self.place.display().to_string()]);
        succeed("losetup", &["--detach", &self.device]);
    }
}

// proves: D13
#[test]
fn the_last_sectors_of_a_file_are_served_where_direct_io_takes_larger_blocks() {
    let mut daemon = Daemon::start();
    let Some(mounted) = LargeSectors::mount(&daemon, "ext4") else { return };
    daemon.make_read_write_pool(&[16, 16], "");
    let backing = mounted.place.join("backing");
    let size_bytes = 4 * MIB + 2560;
    fs::write(&backing, sectors(0, size_bytes / SECTOR_BYTES, Version::Number(1))).expect("an image can be written");
    let path = backing.display().to_string();
    daemon.refuse(&format!("volume create v --backing {path} --block 4096"), 1, "4196864 bytes");
    for pool in ["", " --pool p"] {
        daemon.ok(&format!("volume create v --backing {path}{pool}"));
        let mut client = daemon.client("v");
        assert_eq!((client.size_bytes(), client.block_sizes().map(|sizes| sizes[0])), (size_bytes, Some(512)));
        let last = client.read(size_bytes - 1024, 1024).expect("a read");
        assert!(last == sectors(size_bytes / SECTOR_BYTES - 2, 2, Version::Number(1)), "{pool}: another end");
        client.write_fua(size_bytes - 512, &[7; 512]).expect("a write");
        client.write(4 * MIB - 512, &[8; 1024]).expect("a write over the place where direct I/O ends");
        client.flush().expect("a flush");
        drop(client);
        daemon.restart();
        assert_eq!(daemon.json("volume show v")["unserved_bytes"], 0);
        let mut client = daemon.client("v");
        assert_eq!(client.read(size_bytes - 512, 512).expect("a read"), [7; 512], "{pool}");
        assert_eq!(client.read(4 * MIB - 512, 1024).expect("a read"), [8; 1024], "{pool}");
        drop(client);
        daemon.ok("volume delete v");
        let file = fs::read(&backing).expect("the image can be read");
        assert!(file.ends_with(&[7; 512]) && file[usize_of(4 * MIB) - 512..][..1024] == [8; 1024], "{pool}");
        fs::write(&backing, sectors(0, size_bytes / SECTOR_BYTES, Version::Number(1))).expect("it can be written");
    }
    daemon.stop();
}

// proves: D13
#[test]
fn a_file_of_any_number_of_bytes_is_served_to_the_last() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[16, 16], "");
    let backing = daemon.site.path("backing");
    fs::write(&backing, vec![5; usize_of(MIB) + 700]).expect("an image can be written");
    daemon.ok(&format!("volume create v --backing {} --pool p", backing.display()));
    let mut client = daemon.client("v");
    assert_eq!(client.size_bytes(), MIB + 1024);
    let end = client.read(MIB + 512, 512).expect("a read");
    assert_eq!((&end[..188], &end[188..]), (&[5; 188][..], &[0; 324][..]), "what is not there is zero");
    let mut sector = end;
    sector[..188].fill(6);
    client.write(MIB + 512, &sector).expect("a write");
    drop(client);
    daemon.ok("volume delete v");
    let file = fs::read(&backing).expect("the image can be read");
    assert_eq!(file.len(), usize_of(MIB) + 700, "nothing was written beyond its end");
    assert!(file.ends_with(&[6; 188]));
}

// proves: D13, H1
#[test]
fn clients_that_know_no_block_sizes_may_ask_for_any_bytes() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[16, 16], "");
    let backing = daemon.site.blank("backing", MIB);
    daemon.ok(&format!("volume create v --backing {} --pool p --block 4096", backing.display()));
    let socket = daemon.nbd_socket();
    // Many at once, each writing bytes of its own into the same pages.
    let (writers, run_bytes) = (8_u64, 37_u64);
    let runs = 4 * PAGE_BYTES / (writers * run_bytes);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let socket = &socket;
            scope.spawn(move || {
                let mut client = Client::connect_as_simple(socket, "v").expect("it connects");
                let fill = u8::try_from(writer + 1).expect("fewer writers than 255");
                for run in 0..runs {
                    let offset = 1 + (run * writers + writer) * run_bytes;
                    let flags = if run % 16 == 0 { FLAG_FUA } else { 0 };
                    client.call(Verb::Write, flags, offset, 37, &[fill; 37]).expect("a write of any bytes");
                }
                client.flush().expect("a flush");
            });
        }
    });
    let mut client = Client::connect_as_simple(&socket, "v").expect("it connects");
    let length = usize_of(runs * writers * run_bytes);
    let expected: Vec<u8> = (0..length).map(|byte| u8::try_from(byte / 37 % 8 + 1).expect("at most 8")).collect();
    let read = client.read(1, u32::try_from(length).expect("it is far below 4 GiB")).expect("a read of any bytes");
    assert!(read == expected, "a write was lost to its neighbour");
    client.write_zeroes(0, 5, 3).expect("zeroes can be written");
    client.trim(MIB - 1, 1).expect("a trim");
    client.cache(7, 1).expect("a wish");
    assert_eq!(client.read(4, 5).expect("a read"), [1, 0, 0, 0, 1]);
    drop(client);
    daemon.ok("volume delete v");
    assert_eq!(files::read_part(&backing, 8, length - 7), expected[7..]);
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
    client.write_zeroes(0, 4096, 8192).expect("zeroes can be written");
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
    // The backing device answers a stream, too, where that is sooner.
    daemon.ok("volume set v read-cutoff=off");
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
