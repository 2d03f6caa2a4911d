//! Finds the SSDs of pools: at the paths where they were, and at those that the configuration names. One that does not
//! answer is not found, and holds up nobody.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use hotset_cache::{Newer, SsdLabel};

use super::probe::{self, Label};
use super::prober::Prober;

/// Paths looked at in one scan at most.
const PATHS_MAX: usize = 4096;

/// How many of them at once.
const LOOKS_AT_ONCE: usize = 32;

/// How long an SSD may take to show its label.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// An SSD of some pool.
#[derive(Clone, Debug)]
pub(crate) struct FoundSsd {
    pub(crate) path: String,
    pub(crate) label: SsdLabel,
}

/// An SSD that a later Hotset can read.
#[derive(Clone, Debug)]
pub(crate) struct FoundNewer {
    pub(crate) path: String,
    pub(crate) newer: Newer,
}

/// What a scan found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Each once.
    pub(crate) ssds: Vec<FoundSsd>,
    pub(crate) newer: Vec<FoundNewer>,
    /// Paths at which something does not answer.
    pub(crate) silent: Vec<String>,
}

/// Looks for SSDs. A handle: cloning it is cheap.
#[derive(Clone, Default)]
pub(crate) struct Scanner {
    prober: Prober,
}

impl Scanner {
    /// The SSDs at `known` paths and at those that match `patterns`.
    pub(crate) async fn ssds(&self, known: Vec<String>, patterns: Vec<String>) -> Scan {
        // Nobody asks again while one of the folders does not answer.
        let listed = self.prober.ask("the folders of ssd_scan", PROBE_TIMEOUT, move || paths(&patterns)).await;
        let mut all = known;
        all.extend(listed.unwrap_or_default());
        all.truncate(PATHS_MAX);
        let mut scan = Scan::default();
        for some in all.chunks(LOOKS_AT_ONCE) {
            let looks = some.iter().map(|path| self.look(path));
            for (path, label) in some.iter().zip(join_all(looks).await) {
                let is_new = |label: &SsdLabel| scan.ssds.iter().all(|other| other.label.ssd_uuid != label.ssd_uuid);
                match label {
                    Looked::Found(Label::Known(label)) if is_new(&label) => {
                        scan.ssds.push(FoundSsd { path: path.clone(), label })
                    }
                    Looked::Found(Label::Newer(newer)) => scan.newer.push(FoundNewer { path: path.clone(), newer }),
                    Looked::Silent => scan.silent.push(path.clone()),
                    Looked::Found(Label::Known(_)) | Looked::Nothing => {}
                }
            }
        }
        scan
    }

    /// What the SSD says of itself. One that does not answer counts as missing.
    async fn look(&self, path: &str) -> Looked {
        let looked_at = path.to_owned();
        let label = self.prober.ask(&format!("SSD {path}"), PROBE_TIMEOUT, move || probe::label(&looked_at)).await;
        match label {
            Some(label) => label.map_or(Looked::Nothing, Looked::Found),
            None => Looked::Silent,
        }
    }
}

/// What is at a path.
enum Looked {
    Found(Label),
    /// No SSD of ours.
    Nothing,
    Silent,
}

/// The paths that match.
fn paths(patterns: &[String]) -> Vec<String> {
    let matching = patterns.iter().flat_map(|pattern| matching(pattern));
    matching.filter_map(|path| path.into_os_string().into_string().ok()).take(PATHS_MAX).collect()
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
