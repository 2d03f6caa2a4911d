//! The demo's own directory, which goes when the demo goes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use hotset_api::{ApiError, ApiErrorKind};

use crate::size::human;

/// What is left free beside the demo's files.
const SPARE_BYTES: u64 = 256 << 20;

pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A fresh directory in `parent`, or where temporary files go, with room for `needed_bytes`.
    pub(super) fn make(parent: Option<&Path>, needed_bytes: u64) -> Result<Self, ApiError> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let failed = |error: io::Error| {
            ApiError::new(ApiErrorKind::Device, format!("scratch directory {}: {error}", parent.display()))
        };
        let parent = std::path::absolute(&parent).map_err(failed)?;
        std::fs::create_dir_all(&parent).map_err(failed)?;
        let free_bytes = free_bytes(&parent).map_err(failed)?;
        if free_bytes < needed_bytes + SPARE_BYTES {
            let message = format!(
                "scratch directory {}: {} are free, but the demo needs {}; name another one with --dir, or use fewer \
                 --seconds",
                parent.display(),
                human(free_bytes),
                human(needed_bytes + SPARE_BYTES)
            );
            return Err(ApiError::new(ApiErrorKind::Full, message));
        }
        let path = parent.join(format!("hotset-demo-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(failed)?;
        Ok(Self { path })
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            crate::client::tell(&format!(
                "hotset: scratch directory {}: {error}; remove it by hand",
                self.path.display()
            ));
        }
    }
}

/// What df(1) says, in bytes.
fn free_bytes(directory: &Path) -> io::Result<u64> {
    let output = Command::new("df").args(["-B1", "--output=avail", "--"]).arg(directory).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.lines().nth(1).and_then(|line| line.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("df does not say how much is free"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_is_gone_with_its_content() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(Some(parent.path()), 0).unwrap();
        std::fs::write(scratch.file("x"), b"x").unwrap();
        drop(scratch);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_without_room_is_refused_with_the_figures() {
        let parent = tempfile::tempdir().unwrap();
        let error = Scratch::make(Some(parent.path()), 1 << 60).err().unwrap();
        assert!(error.message.contains("1024 PiB"), "{}", error.message);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
