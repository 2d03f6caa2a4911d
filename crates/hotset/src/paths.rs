//! Where things are when nobody says otherwise.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hotset_block::emulated::split_spelling;

use crate::endpoint::Endpoint;

/// Read by `serve` if it exists and no other is given.
pub(crate) const CONFIG_FILE: &str = "/etc/hotset/hotset.toml";

/// Name of the control API's socket in the state directory.
const API_SOCKET: &str = "api.sock";

/// Name of the socket for hosts in the state directory.
const NBD_SOCKET: &str = "nbd.sock";

/// Name of the folder of the pools' records in the state directory.
pub(crate) const POOLS: &str = "pools";

/// The file of events, in the state directory.
pub(crate) const EVENTS: &str = "events.jsonl";

/// The effective user of this process.
pub(crate) fn own_user() -> std::io::Result<u32> {
    std::fs::metadata("/proc/self").map(|metadata| metadata.uid())
}

/// `/var/lib/hotset` for root, else `$XDG_STATE_HOME/hotset` or `~/.local/state/hotset`.
pub(crate) fn state_directory() -> PathBuf {
    if own_user().is_ok_and(|user| user == 0) {
        return PathBuf::from("/var/lib/hotset");
    }
    let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from).join(".local/state");
    named.unwrap_or_else(home).join("hotset")
}

pub(crate) fn api_socket(state: &Path) -> Endpoint {
    Endpoint::Unix(state.join(API_SOCKET))
}

pub(crate) fn nbd_socket(state: &Path) -> Endpoint {
    Endpoint::Unix(state.join(NBD_SOCKET))
}

/// The files of the pools' folder in a state directory whose name ends so, in order. The copies of pools end in `member`.
pub(crate) fn files_of_pools(state: &Path, ending: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(state.join(POOLS))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The spelling of a backing device or SSD with its path made absolute, so that the daemon, which has another working
/// directory, finds it.
pub(crate) fn absolute_backing(spelling: &str) -> std::io::Result<String> {
    let Some((kind, rest)) = split_spelling(spelling) else { return absolute(Path::new(spelling)) };
    let parts: Result<Vec<String>, std::io::Error> = rest
        .split(',')
        .map(|part| match part.strip_prefix("file=") {
            Some(path) => absolute(Path::new(path)).map(|path| format!("file={path}")),
            None => Ok(part.to_owned()),
        })
        .collect();
    Ok(format!("{kind}{}", parts?.join(",")))
}

/// `path` from the root, links not followed: a name like those in /dev/disk/by-id is worth more than what it leads to.
pub(crate) fn absolute(path: &Path) -> std::io::Result<String> {
    let absolute = std::path::absolute(path)?;
    absolute.into_os_string().into_string().map_err(|path| {
        std::io::Error::new(std::io::ErrorKind::InvalidInput, format!("{}: the path is not UTF-8", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_path_of_a_backing_device_is_made_absolute() {
        let here = std::env::current_dir().expect("a working directory").display().to_string();
        assert_eq!(absolute_backing("/dev/sda").expect("a valid value of the test"), "/dev/sda");
        assert_eq!(absolute_backing("disk.img").expect("a valid value of the test"), format!("{here}/disk.img"));
        let emulated = absolute_backing("emulated:disks=16,file=a.img,size=8G").expect("a valid value of the test");
        assert_eq!(emulated, format!("emulated:disks=16,file={here}/a.img,size=8G"));
        let slow = absolute_backing("emulated-ssd:iops=4000,rate=400M,flush=1ms,file=a.img")
            .expect("a valid value of the test");
        assert_eq!(slow, format!("emulated-ssd:iops=4000,rate=400M,flush=1ms,file={here}/a.img"));
    }
}
