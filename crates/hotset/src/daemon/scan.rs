//! Finds the SSDs of pools: at the paths where they were, and at those that the configuration names.

use std::path::{Path, PathBuf};

use hotset_cache::SsdLabel;

use super::probe;

/// Paths looked at in one scan at most.
const PATHS_MAX: usize = 4096;

/// An SSD of some pool.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) label: SsdLabel,
}

/// The SSDs at `known` paths and at those that match `patterns`, each once. Blocking.
pub(crate) fn ssds(known: &[String], patterns: &[String]) -> Vec<Found> {
    let mut paths: Vec<String> = known.to_vec();
    for pattern in patterns {
        paths.extend(matching(pattern).into_iter().filter_map(|path| path.into_os_string().into_string().ok()));
    }
    let mut found: Vec<Found> = Vec::new();
    for path in paths.into_iter().take(PATHS_MAX) {
        let Some(label) = probe::label(&path) else { continue };
        if !found.iter().any(|other| other.label.ssd_uuid == label.ssd_uuid) {
            found.push(Found { path, label });
        }
    }
    found
}

/// Existing paths whose last part matches that of `pattern`, sorted.
fn matching(pattern: &str) -> Vec<PathBuf> {
    let path = Path::new(pattern);
    let (Some(directory), Some(last)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    if !last.contains(['*', '?']) {
        return vec![path.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut paths: Vec<_> = names.filter(|name| fits(last, name)).map(|name| directory.join(name)).collect();
    paths.sort();
    paths
}

/// Whether `name` fits a pattern of literal characters, `?` and `*`. Linear: only the last `*` is tried again.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, n));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == name[n]) {
            p += 1;
            n += 1;
        } else if let Some((star_at, taken)) = star {
            star = Some((star_at, taken + 1));
            p = star_at + 1;
            n = taken + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|left| *left == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_a_shell_would_say() {
        for (pattern, name) in [("*", ""), ("nvme-*", "nvme-x"), ("a*b*c", "aXbYbZc"), ("s??", "sda"), ("sda", "sda")] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("nvme-*", "ata-x"), ("s??", "sd"), ("a*b", "aXc"), ("", "x"), ("?", "")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_lists_what_exists_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["ssd1", "ssd0", "hdd0"] {
            std::fs::write(directory.path().join(name), b"").unwrap();
        }
        let found = matching(directory.path().join("ssd*").to_str().unwrap());
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["ssd0", "ssd1"]);
        assert!(matching("/nowhere/*").is_empty());
    }
}
