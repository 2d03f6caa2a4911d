//! Image files that were never written in full, and how they are filled.
//!
//! A hole in an image would make the first write to it slow, and could fail for lack of room long after the pool was
//! made. An allocated but unwritten extent costs a journal commit at its first write, so that is not enough either.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// What is written at once.
const CHUNK_BYTES: usize = 4 << 20;

/// Whether parts of the file were never written, as far as its allocated blocks tell.
pub(crate) fn is_sparse(metadata: &std::fs::Metadata) -> bool {
    metadata.is_file() && metadata.blocks().saturating_mul(512) < metadata.len()
}

/// Writes what the file reads as to where it is read, so that no hole is left and its content stays.
pub(crate) fn fill(path: &Path, mut progress: impl FnMut(u64)) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let size_bytes = file.metadata()?.len();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < size_bytes {
        let piece = piece_at(offset, size_bytes);
        file.read_exact_at(&mut chunk[..piece], offset)?;
        file.write_all_at(&chunk[..piece], offset)?;
        offset += bytes(piece);
        progress(bytes(piece));
    }
    file.sync_all()
}

fn piece_at(offset: u64, end: u64) -> usize {
    usize::try_from(end - offset).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES))
}

fn bytes(piece: usize) -> u64 {
    u64::try_from(piece).expect("a piece is at most a chunk")
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn filling_a_sparse_file_keeps_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len((5 << 20) + 512).unwrap();
        file.write_all_at(b"here", 4 << 20).unwrap();
        assert!(is_sparse(&file.metadata().unwrap()));
        fill(&path, |_| ()).unwrap();
        assert!(!is_sparse(&file.metadata().unwrap()));
        let mut word = [0; 4];
        File::open(&path).unwrap().read_exact_at(&mut word, 4 << 20).unwrap();
        assert_eq!((&word, file.metadata().unwrap().len()), (b"here", (5 << 20) + 512));
    }
}
