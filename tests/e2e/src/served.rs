//! A file that another process serves: qemu-storage-daemon, over FUSE. Stopped and continued, it is silent for as long. (nbdfuse 1.14 over
//! nbdkit ends by an assertion of its own, `in_flight >= 1`, where the machine is busy.)

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
        let path = at.join("disk");
        // What is mounted over.
        fs::write(&path, []).expect("a file can be made");
        let file = format!("driver=file,node-name=disk,filename={}", behind.display());
        let export = format!("type=fuse,id=disk,node-name=disk,writable=on,mountpoint={}", path.display());
        let mut server = Command::new("qemu-storage-daemon");
        let server = server.args(["--blockdev", &file, "--export", &export]).spawn();
        let mut served = Self { server: server.expect("qemu-storage-daemon is there"), path };
        let size = fs::metadata(behind).expect("it is there").len();
        tools::eventually("the file is served", STARTS, || {
            assert!(served.server.try_wait().is_ok_and(|ended| ended.is_none()), "qemu-storage-daemon ended");
            fs::metadata(&served.path).is_ok_and(|now| now.len() == size)
        });
        Some(served)
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
        tools::run("fusermount3", &["-u", "-z", "-q", &self.path.display().to_string()]);
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
