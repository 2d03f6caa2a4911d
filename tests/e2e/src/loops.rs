//! Loop devices.

use std::path::Path;

use crate::tools::{run, skip, succeed};

/// One that goes away with the value.
pub struct LoopDevice {
    pub name: String,
}

impl LoopDevice {
    /// Over a file or a device; `None`, and it says so loudly: it cannot be made here.
    pub fn over(path: &Path) -> Option<Self> {
        let output = run("losetup", &["--find", "--show", &path.display().to_string()]);
        if !output.status.success() {
            skip("a loop device cannot be made here (needs root and losetup)");
            return None;
        }
        let device = Self { name: String::from_utf8_lossy(&output.stdout).trim().to_owned() };
        // Whoever had it before may have left it read-only.
        succeed("blockdev", &["--setrw", &device.name]);
        Some(device)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        succeed("losetup", &["--detach", &self.name]);
    }
}
