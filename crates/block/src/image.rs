//! Makes SSD images: files that are written from end to end, so that later writes need no allocation and never fail
//! for lack of space, and reads never meet a hole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::file::{extents, open_alone};
use crate::{Buf, ByteRange, Extent, ExtentKind, OpenError, PAGE_BYTES, sys};

/// Bytes that are written at a time, and between two calls of the progress function.
const CHUNK_BYTES: usize = 4 << 20;

/// Makes a file of `size_bytes` zeroes (a multiple of 4096), readable by its owner alone, durable when this returns.
/// Blocks for as long as writing takes; `progress` is told the bytes done so far. A file that exists is an error; one
/// that could not be completed is removed.
pub fn create_image(path: &Path, size_bytes: u64, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
    let page = u64::try_from(PAGE_BYTES).expect("a page has 4096 bytes");
    if size_bytes == 0 || !size_bytes.is_multiple_of(page) {
        let message = format!("the size of an image must be a multiple of {page} bytes, but is {size_bytes}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    if let Some(file) = create_nameless(path)? {
        fill(&file, size_bytes, progress)?;
        file.sync_all()?;
        let file = OwnedFd::from(file);
        sys::give_name(&file, path)?;
        return make_durable(&File::from(file), path);
    }
    let file = create(path)?;
    let result = fill(&file, size_bytes, progress).and_then(|()| make_durable(&file, path));
    if result.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(path);
    }
    result
}

/// A file that has its name only when it is whole: whoever is killed before that leaves nothing behind. `None`: the file system
/// has none such.
fn create_nameless(path: &Path) -> io::Result<Option<File>> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(io::Error::from_raw_os_error(libc::EEXIST));
    }
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    for flags in [libc::O_TMPFILE | libc::O_DIRECT, libc::O_TMPFILE] {
        match options.custom_flags(flags).open(directory_of(path)) {
            Ok(file) => return Ok(Some(file)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINVAL | libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT) => {}
                Some(_) | None => return Err(error),
            },
        }
    }
    Ok(None)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Direct I/O keeps the image out of the page cache; where the file system has none, buffered writes do.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    match options.clone().custom_flags(libc::O_DIRECT).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // Some file systems make the file before they refuse the flag.
            options.create_new(false).create(true).open(path)
        }
        result => result,
    }
}

/// Writes what the image reads as to where it is read, so that no hole is left and its content stays. Meanwhile nobody else uses
/// it. Blocks for as long as that takes; `progress` is told of the bytes that were written since it was told last, and breaks off.
/// Unless all of it was written, the room that this took in the file system is given back.
///
/// # Errors
/// `Busy` if somebody uses it; whatever reading and writing it ends with.
pub fn fill_image(path: &Path, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<ControlFlow<()>, OpenError> {
    let locked = open_alone(path)?;
    let mut fill = || {
        // The lock is of this one, too.
        let file = File::from(locked.try_clone()?);
        let holes = holes(&locked, file.metadata()?.len())?;
        let filled = fill_holes(&file, progress);
        if !matches!(filled, Ok(ControlFlow::Continue(()))) {
            for hole in holes {
                // Best effort: the first error is the one to report.
                let _ = sys::punch(&locked, hole.start, hole.end - hole.start);
            }
        }
        filled
    };
    fill().map_err(|source| OpenError::new(path, "write to all of", source))
}

fn fill_holes(file: &File, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> io::Result<ControlFlow<()>> {
    let size_bytes = file.metadata()?.len();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut done = 0;
    while done < size_bytes {
        let length = length_at(done, size_bytes);
        file.read_exact_at(&mut chunk[..length], done)?;
        file.write_all_at(&chunk[..length], done)?;
        done += widened(length);
        if progress(widened(length)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    file.sync_all()?;
    Ok(ControlFlow::Continue(()))
}

/// Pieces of a file that are looked at for holes.
const EXTENTS_MAX: usize = 1 << 16;

/// The holes among the first pieces of a file.
fn holes(file: &OwnedFd, size_bytes: u64) -> io::Result<Vec<Range<u64>>> {
    let mut start = 0;
    let mut found = Vec::new();
    for Extent { length, kind } in extents(file, ByteRange { start: 0, end: size_bytes }, EXTENTS_MAX)? {
        match kind {
            ExtentKind::Hole => found.push(start..start + length),
            ExtentKind::Data | ExtentKind::Zero => {}
        }
        start += length;
    }
    Ok(found)
}

/// Bytes of the chunk there.
fn length_at(done: u64, size_bytes: u64) -> usize {
    usize::try_from(size_bytes - done).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES))
}

fn widened(length: usize) -> u64 {
    u64::try_from(length).expect("a chunk has at most 4 MiB")
}

fn fill(file: &File, size_bytes: u64, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
    // One allocation keeps the file in few pieces and tells early if it does not fit.
    match sys::reserve(&file.try_clone()?.into(), size_bytes) {
        Err(error) if error.raw_os_error() != Some(libc::EOPNOTSUPP) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let zeroes = Buf::zeroed(CHUNK_BYTES);
    let mut done = 0;
    while done < size_bytes {
        let length = length_at(done, size_bytes);
        file.write_all_at(&zeroes[..length], done)?;
        done += widened(length);
        progress(done);
    }
    Ok(())
}

fn make_durable(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    File::open(directory_of(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::DeviceErrorKind;

    #[test]
    fn filling_a_sparse_image_keeps_its_content_and_keeps_others_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sparse");
        let file = File::create(&path).unwrap();
        let size_bytes = (5 << 20) + 512;
        file.set_len(size_bytes).unwrap();
        file.write_all_at(b"here", 4 << 20).unwrap();
        drop(file);
        let mut told = Vec::new();
        let filled = fill_image(&path, &mut |more| {
            let error = fill_image(&path, &mut |_| ControlFlow::Continue(())).unwrap_err();
            assert_eq!(error.kind, DeviceErrorKind::Busy, "{error}");
            told.push(more);
            ControlFlow::Continue(())
        });
        assert_eq!((filled.unwrap(), told), (ControlFlow::Continue(()), vec![4 << 20, size_bytes - (4 << 20)]));
        let metadata = fs::metadata(&path).unwrap();
        assert!(metadata.blocks() * 512 >= size_bytes, "a hole is left");
        let mut word = [0; 4];
        File::open(&path).unwrap().read_exact_at(&mut word, 4 << 20).unwrap();
        assert_eq!((&word, metadata.len()), (b"here", size_bytes));
    }

    #[test]
    fn filling_ends_where_it_is_told_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sparse");
        File::create(&path).unwrap().set_len(64 << 20).unwrap();
        let mut calls = 0;
        let filled = fill_image(&path, &mut |_| {
            calls += 1;
            ControlFlow::Break(())
        });
        assert_eq!((filled.unwrap(), calls), (ControlFlow::Break(()), 1));
        assert_eq!(fs::metadata(&path).unwrap().blocks(), 0, "the room is given back");
        let missing = fill_image(&directory.path().join("none"), &mut |_| ControlFlow::Continue(()));
        assert_eq!(missing.unwrap_err().kind, DeviceErrorKind::Gone);
    }

    #[test]
    fn an_image_is_fully_written_and_reports_its_progress() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ssd");
        let mut reports = Vec::new();
        create_image(&path, 9 << 20, &mut |done| {
            assert!(!path.exists(), "whoever is killed now leaves nothing behind");
            reports.push(done);
        })
        .unwrap();
        assert_eq!(reports, [4 << 20, 8 << 20, 9 << 20]);
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), 9 << 20);
        assert!(metadata.blocks() * 512 >= 9 << 20, "no hole");
        assert_eq!(metadata.mode() & 0o777, 0o600);
    }

    #[test]
    fn an_image_never_replaces_a_file_and_an_odd_size_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ssd");
        assert_eq!(create_image(&path, 5000, &mut |_| ()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        fs::write(&path, b"mine").unwrap();
        assert_eq!(create_image(&path, 4096, &mut |_| ()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn an_image_that_does_not_fit_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ssd");
        assert!(create_image(&path, 1 << 60, &mut |_| ()).is_err());
        assert!(!path.exists());
    }
}
