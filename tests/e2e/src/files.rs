//! The files of one test: images in the build's folder (a real file system, for direct I/O), sockets under a short path.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::pattern::{PAGE, PAGE_BYTES, assert_pages, pages};

pub const MIB: u64 = 1 << 20;

/// Two folders that go with the value.
pub struct Site {
    data: TempDir,
    sockets: TempDir,
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}

impl Site {
    pub fn new() -> Self {
        let folder = build_folder().join("e2e");
        fs::create_dir_all(&folder).expect("the build's folder can be written");
        Self {
            data: TempDir::with_prefix_in("test-", folder).expect("the build's folder can be written"),
            // A socket's path has at most 107 bytes.
            sockets: TempDir::with_prefix("hotset-").expect("the temporary folder can be written"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    pub fn socket(&self, name: &str) -> PathBuf {
        self.sockets.path().join(name)
    }

    /// An image of zeroes, fully written.
    pub fn blank(&self, name: &str, size_bytes: u64) -> PathBuf {
        let path = self.path(name);
        write_zeroes(&path, size_bytes);
        path
    }

    /// An image whose pages are in version 0.
    pub fn numbered(&self, name: &str, page_count: u64) -> PathBuf {
        let path = self.path(name);
        let mut file = File::create(&path).expect("an image can be made");
        for first in (0..page_count).step_by(256) {
            let count = 256.min(page_count - first);
            file.write_all(&pages(first, count, 0)).expect("an image can be written");
        }
        file.sync_all().expect("an image can be flushed");
        path
    }
}

/// Where cargo builds into.
pub fn build_folder() -> PathBuf {
    let program = std::env::current_exe().expect("a program can ask for its own path");
    program.ancestors().nth(3).expect("cargo puts test programs into TARGET/PROFILE/deps").to_owned()
}

pub fn write_zeroes(path: &Path, size_bytes: u64) {
    let mut file = File::create(path).expect("an image can be made");
    let chunk = vec![0; 1 << 20];
    let mut left = size_bytes;
    while left > 0 {
        let len = left.min(MIB);
        file.write_all(&chunk[..usize_of(len)]).expect("an image can be written");
        left -= len;
    }
    file.sync_all().expect("an image can be flushed");
}

pub fn usize_of(number: u64) -> usize {
    usize::try_from(number).expect("tests run on 64 bits")
}

/// Overwrites a part of a file past the page cache, as everything else writes it: where buffered and direct writes of a
/// file meet, Linux reports an error of it to all that flush it.
pub fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let file = File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(path);
    let file = file.expect("the image can be opened");
    let start = offset / PAGE_BYTES * PAGE_BYTES;
    let skip = usize_of(offset - start);
    let mut memory = vec![0; (skip + bytes.len()).next_multiple_of(PAGE) + PAGE];
    let aligned = memory.as_ptr().align_offset(PAGE);
    let len = memory.len() - PAGE;
    let whole = &mut memory[aligned..aligned + len];
    if len > bytes.len() {
        file.read_exact_at(whole, start).expect("the image can be read");
    }
    whole[skip..skip + bytes.len()].copy_from_slice(bytes);
    file.write_all_at(whole, start).expect("the image can be written");
    file.sync_all().expect("the image can be flushed");
}

pub fn read_part(path: &Path, offset: u64, len: usize) -> Vec<u8> {
    let mut file = File::open(path).expect("the file can be opened");
    file.seek(SeekFrom::Start(offset)).expect("a file can seek");
    let mut bytes = vec![0; len];
    file.read_exact(&mut bytes).expect("the file is long enough");
    bytes
}

/// Asserts that a file holds its pages in one version, and nothing else.
pub fn assert_file_pages(path: &Path, version: u64) {
    let mut file = File::open(path).expect("the file can be opened");
    let size_bytes = file.metadata().expect("the file has a size").len();
    let mut chunk = vec![0; 256 * PAGE];
    for first in (0..size_bytes / PAGE_BYTES).step_by(256) {
        let len = usize_of((size_bytes - first * PAGE_BYTES).min(256 * PAGE_BYTES));
        file.read_exact(&mut chunk[..len]).expect("the file can be read");
        assert_pages(&chunk[..len], first, version);
    }
}
