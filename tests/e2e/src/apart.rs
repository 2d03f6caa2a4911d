//! Dirty pages so far apart, on a backing device so slow, that they stay dirty for seconds.

use std::fs::File;
use std::path::PathBuf;

use crate::daemon::Daemon;
use crate::pattern::{PAGE_BYTES, assert_pages, pages};

/// How far apart they are, in pages: a seek each.
pub const APART: u64 = 256;

/// A daemon with a read-write pool `p` and a slow volume `v` of zeroes, of which `count` pages are dirty in version 1; and
/// the file of its backing device: one emulated disk without a cache, which takes some milliseconds for each of them.
#[track_caller]
pub fn with_dirty_pages(count: u64) -> (Daemon, PathBuf) {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[64, 64], "");
    let (file, size_bytes) = (daemon.site.path("slow"), count * APART * PAGE_BYTES);
    File::create(&file).and_then(|file| file.set_len(size_bytes)).expect("a sparse file can be made");
    let disk = "disks=1,level=raid0,disk-cache=off,rpm=5400";
    daemon.ok(&format!("volume create v --backing emulated:{disk},size={size_bytes},file={} --pool p", file.display()));
    make_dirty(&daemon, count);
    (daemon, file)
}

/// Writes `count` pages of `v` in version 1, which its pool `p` is in no hurry to flush.
#[track_caller]
pub fn make_dirty(daemon: &Daemon, count: u64) {
    daemon.ok("pool set p flush-rate=low dirty-age=30d dirty-watermark=90");
    let mut client = daemon.client("v");
    for page in pages_apart(count) {
        client.write(page * PAGE_BYTES, &pages(page, 1, 1)).expect("a write");
    }
    client.flush().expect("a flush");
}

/// Where these pages are.
pub fn pages_apart(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|index| index * APART)
}

/// Asserts that `v` has its `count` pages in version 1, and nothing beside them.
#[track_caller]
pub fn assert_written_apart(daemon: &Daemon, count: u64) {
    let mut client = daemon.client("v");
    for page in pages_apart(count) {
        assert_alone(&client.read(page * PAGE_BYTES, 2 * 4096).expect("a read"), page);
    }
}

/// Asserts that `bytes` are the page in version 1, and another one that nobody wrote.
#[track_caller]
pub fn assert_alone(bytes: &[u8], page: u64) {
    assert_pages(&bytes[..4096], page, 1);
    assert!(bytes[4096..].iter().all(|byte| *byte == 0), "page {}: nobody wrote it", page + 1);
}
