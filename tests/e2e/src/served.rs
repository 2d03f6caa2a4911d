//! A file that another process serves: nbdkit, mounted by nbdfuse. Stopped and continued, its server is silent for as long.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use crate::tools;

/// How long a server takes to be there, at most.
const STARTS: Duration = Duration::from_secs(30);

/// See the file's summary. It goes with the value.
pub struct ServedFile {
    server: Child,
    mount: Child,
    path: PathBuf,
}

impl ServedFile {
    /// Serves the file `behind` as `disk` in the folder `at`, which is made. `None`, and loud words, where that is not
    /// possible.
    pub fn mount(at: &Path, behind: &Path) -> Option<Self> {
        if !Path::new("/dev/fuse").exists() {
            tools::skip("no file system in user space here (/dev/fuse)");
            return None;
        }
        fs::create_dir(at).expect("a folder can be made");
        let (socket, path) = (at.with_extension("socket"), at.join("disk"));
        let (socket_word, behind) = (socket.display().to_string(), behind.display().to_string());
        // Not by way of another program: it is this very process that is stopped.
        let server = ["--exit-with-parent", "-f", "-U", &socket_word, "file", &behind];
        let server = Command::new("nbdkit").args(server).spawn().expect("nbdkit is there");
        tools::eventually("nbdkit listens", STARTS, || socket.exists());
        let disk = path.display().to_string();
        let mut mount =
            Command::new("nbdfuse").args([&disk, "--unix", &socket_word]).spawn().expect("nbdfuse is there");
        tools::eventually("nbdfuse mounts", STARTS, || {
            assert!(mount.try_wait().is_ok_and(|ended| ended.is_none()), "nbdfuse ended");
            path.exists()
        });
        Some(Self { server, mount, path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It answers nothing from here on.
    pub fn stop(&self) {
        tools::succeed("kill", &["-STOP", &self.server.id().to_string()]);
    }

    /// It goes on where it was.
    pub fn go_on(&self) {
        tools::succeed("kill", &["-CONT", &self.server.id().to_string()]);
    }
}

impl Drop for ServedFile {
    fn drop(&mut self) {
        self.go_on();
        let folder = self.path.parent().expect("the file is in a folder");
        tools::run("fusermount3", &["-u", "-z", "-q", &folder.display().to_string()]);
        tools::run("fusermount3", &["-u", "-z", "-q", &self.path.display().to_string()]);
        for child in [&mut self.mount, &mut self.server] {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
