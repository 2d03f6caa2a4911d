//! What is mounted where.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// One file system.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) point: PathBuf,
    pub(super) kind: String,
}

/// All that this process sees, in the order in which they were mounted.
pub(super) fn all() -> Result<Vec<Mount>> {
    const LIST: &str = "/proc/self/mounts";
    Ok(parse(&fs::read_to_string(LIST).with_context(|| format!("cannot read {LIST}"))?))
}

/// The kind of the file system that a path lies in.
pub(super) fn kind_of(path: &Path) -> Option<String> {
    kind_among(&all().ok()?, &fs::canonicalize(path).ok()?)
}

fn kind_among(mounts: &[Mount], path: &Path) -> Option<String> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    // The last of those at one point hides the others.
    above.max_by_key(|mount| mount.point.as_os_str().len()).map(|mount| mount.kind.clone())
}

fn parse(list: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        // The kernel writes blanks and the like in octal.
        let point = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
            .iter()
            .fold(point.to_owned(), |point, (octal, letter)| point.replace(octal, letter));
        Some(Mount { point: point.into(), kind: kind.to_owned() })
    };
    list.lines().filter_map(mount).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_in_the_last_file_system_at_the_longest_point_above_it() {
        let mounts = parse(
            "/dev/vda / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n/dev/vdb /a\\040b ext4 rw 0 0\n/dev/vdc /a\\040b xfs rw 0 0\nbroken",
        );
        assert_eq!(mounts.len(), 4);
        let kind = |path: &str| kind_among(&mounts, Path::new(path));
        assert_eq!(kind("/dev/shm/a").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/dev/shmall").as_deref(), Some("ext4"));
        assert_eq!(kind("/a b/c").as_deref(), Some("xfs"));
        assert_eq!(kind_among(&[], Path::new("/")), None);
    }
}
