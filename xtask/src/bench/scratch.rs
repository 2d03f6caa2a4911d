//! A directory of this run, gone at its end. What a run left that was killed is gone at the start of the next.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow};

use super::mounts::{self, Mount};

/// Directories are named after the process that made them.
const NAME: &str = "hotset-bench-";

/// Removes what runs have left that are no more, where the next one makes its directories; tells what it cannot remove.
pub(crate) fn remove_leftovers(parent: &Path) -> Result<()> {
    let mounts = mounts::all()?;
    for parent in [parent, &std::env::temp_dir(), Path::new(MEMORY)] {
        remove_left_in(parent, &mounts, |process| Path::new("/proc").join(process.to_string()).exists());
    }
    Ok(())
}

/// This process has made nothing yet: what has its id is another's.
fn remove_left_in(parent: &Path, mounts: &[Mount], runs: impl Fn(u32) -> bool) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let process = entry.file_name().to_str().and_then(process_of);
        let is_left = process.is_some_and(|process| process == std::process::id() || !runs(process));
        if !is_left || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        let removed = match mounts.iter().find(|mount| mount.point.starts_with(&path)) {
            Some(mount) => Err(anyhow!("{} is mounted: unmount it", mount.point.display())),
            None => fs::remove_dir_all(&path).map_err(anyhow::Error::from),
        };
        match removed {
            Ok(()) => println!("removed: {}, which a run that was killed has left", path.display()),
            Err(error) => {
                eprintln!("cargo x bench: {} stays, which a run that was killed has left: {error}", path.display())
            }
        }
    }
}

/// Whose directory it is.
fn process_of(name: &str) -> Option<u32> {
    name.strip_prefix(NAME)?.split('-').next()?.parse().ok()
}

pub(crate) struct Scratch {
    path: PathBuf,
    /// For sockets, whose paths have to be short.
    sockets: PathBuf,
}

impl Scratch {
    pub(crate) fn new(parent: PathBuf) -> Result<Self> {
        let name = format!("{NAME}{}", std::process::id());
        let scratch = Self { path: parent.join(&name), sockets: std::env::temp_dir().join(&name) };
        for path in [&scratch.path, &scratch.sockets] {
            fs::create_dir_all(path).with_context(|| format!("cannot make the directory {}", path.display()))?;
        }
        Ok(scratch)
    }

    /// Where it lies.
    pub(crate) fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.sockets.join(name)
    }

    /// A file of which every byte was written, with content that nothing can compress or leave out.
    pub(crate) fn written_file(&self, name: &str, size_bytes: u64) -> Result<PathBuf> {
        const CHUNK_BYTES: usize = 1 << 20;
        let path = self.file(name);
        let mut file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut chunk = vec![0; CHUNK_BYTES];
        for _ in 0..size_bytes / (1 << 20) {
            for word in chunk.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_le_bytes());
            }
            file.write_all(&chunk).with_context(|| format!("cannot write {}", path.display()))?;
        }
        file.sync_all().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// A new file that is nothing but a hole.
    pub(crate) fn sparse_file(&self, name: &str, size_bytes: u64) -> Result<PathBuf> {
        let path = self.file(name);
        let file = File::create_new(&path).with_context(|| format!("cannot make {}", path.display()))?;
        file.set_len(size_bytes).with_context(|| format!("cannot size {}", path.display()))?;
        Ok(path)
    }

    /// A sparse file for an emulated array's data, in the page cache already: the first touch of memory, which takes a
    /// virtual machine longer than the array's transfers, is not what is measured.
    pub(crate) fn store_in_memory(&self, name: &str, size_bytes: u64) -> Result<PathBuf> {
        let path = self.sparse_file(name, size_bytes)?;
        let mut file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        std::io::copy(&mut file, &mut std::io::sink()).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(path)
    }

    /// Makes room for what comes next.
    pub(crate) fn remove(&self, paths: &[&Path]) -> Result<()> {
        for path in paths {
            fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for path in [&self.path, &self.sockets] {
            if let Err(error) = fs::remove_dir_all(path) {
                eprintln!("cargo x bench: {} stays behind: {error}", path.display());
            }
        }
    }
}

/// A file system in memory (tmpfs).
pub(crate) const MEMORY: &str = "/dev/shm";

/// A directory in memory, gone at the end.
pub(crate) struct InMemory(PathBuf);

impl InMemory {
    /// `None` where there is no file system in memory.
    pub(crate) fn new() -> Result<Option<Self>> {
        if !Path::new(MEMORY).is_dir() {
            return Ok(None);
        }
        // There may be several at once.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(MEMORY).join(format!("{NAME}{}-{number}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make the directory {}", path.display()))?;
        Ok(Some(Self(path)))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cargo x bench: {} stays behind: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_processes_that_run_stay_and_so_does_what_no_run_made_and_what_is_mounted() {
        let parent = std::env::temp_dir().join(format!("xtask-scratch-{}", std::process::id()));
        let names = [
            "hotset-bench-7",
            "hotset-bench-7-3",
            "hotset-bench-8",
            "hotset-bench-8-1",
            "hotset-bench-9",
            "hotset-bench-x",
            "hotset",
        ];
        for name in names {
            fs::create_dir_all(parent.join(name).join("samba")).expect("it can be made");
        }
        fs::write(parent.join("hotset-bench-10"), "a file").expect("it can be made");
        let mounted = Mount { point: parent.join("hotset-bench-9/samba"), kind: "ext4".to_owned() };
        remove_left_in(&parent, &[mounted], |process| process == 8);
        let mut left: Vec<_> =
            fs::read_dir(&parent).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        fs::remove_dir_all(&parent).expect("it can be removed");
        assert_eq!(
            left,
            ["hotset", "hotset-bench-10", "hotset-bench-8", "hotset-bench-8-1", "hotset-bench-9", "hotset-bench-x"]
        );
    }
}
