//! The exports by name, as clients may learn of them: plain facts, for every protocol's handshake.

use std::collections::{BTreeMap, BTreeSet};

use hotset_block::Env;
use hotset_cache::Volume;
use hotset_cache::config::limits::REQUEST_BYTES_MAX;

/// The transfer that clients are advised to use where the backing device does not say: the cache's page.
const BLOCK_BYTES_PREFERRED: u32 = 4096;

/// What a client may learn about an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    pub name: String,
    /// For people.
    pub description: String,
    pub size_bytes: u64,
    pub read_only: bool,
    /// A trim changes something.
    pub trims: bool,
    /// The smallest request and the unit of all requests.
    pub block_bytes_min: u32,
    /// The smallest request that costs no read-modify-write.
    pub block_bytes_preferred: u32,
    /// The longest request with a payload.
    pub block_bytes_max: u32,
}

impl ExportInfo {
    /// A plain one, for tests and fuzzing.
    pub(crate) fn sample(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            size_bytes: 1 << 20,
            read_only: false,
            trims: true,
            block_bytes_min: 512,
            block_bytes_preferred: 4096,
            block_bytes_max: 32 << 20,
        }
    }

    /// As a volume is now.
    pub(super) fn of<E: Env>(volume: &Volume<E>) -> Self {
        let (settings, status) = (volume.settings(), volume.status());
        Self {
            name: volume.name().as_str().to_owned(),
            description: format!("Hotset volume {} on {}", status.name, status.backing),
            size_bytes: volume.size_bytes(),
            read_only: settings.read_only,
            trims: volume.trims(),
            block_bytes_min: settings.logical_block_bytes,
            block_bytes_preferred: settings.logical_block_bytes.max(BLOCK_BYTES_PREFERRED),
            block_bytes_max: u32::try_from(REQUEST_BYTES_MAX).expect("a request has at most 32 MiB"),
        }
    }
}

/// The exports by name.
#[derive(Clone, Debug, Default)]
pub struct ExportList {
    exports: BTreeMap<String, ExportInfo>,
    /// Names of those that are being opened: who asks for one waits.
    expected: BTreeSet<String>,
}

impl ExportList {
    /// The answer says whether the name was free; if not, nothing changed.
    pub fn insert(&mut self, export: ExportInfo) -> bool {
        let free = !self.exports.contains_key(&export.name);
        if free {
            self.expected.remove(&export.name);
            self.exports.insert(export.name.clone(), export);
        }
        free
    }

    pub fn remove(&mut self, name: &str) {
        self.exports.remove(name);
    }

    /// An export of this name may come soon.
    pub fn expect(&mut self, name: String) {
        if !self.exports.contains_key(&name) {
            self.expected.insert(name);
        }
    }

    /// The export is here, or will not come by itself.
    pub fn expect_no_more(&mut self, name: &str) {
        self.expected.remove(name);
    }

    /// The export of that name. The empty name is the default export: the only one, if there is only one.
    pub fn find(&self, name: &str) -> Option<&ExportInfo> {
        if name.is_empty() && self.exports.len() == 1 && self.expected.is_empty() {
            return self.exports.values().next();
        }
        self.exports.get(name)
    }

    /// Whether an export that is not there yet may be the one of that name.
    pub fn expects(&self, name: &str) -> bool {
        self.expected.contains(name) || (name.is_empty() && !self.expected.is_empty())
    }

    /// All that are there, by name.
    pub fn iter(&self) -> impl Iterator<Item = &ExportInfo> {
        self.exports.values()
    }

    /// What is told of an export is this from now on, if it is there.
    pub(super) fn refresh(&mut self, export: ExportInfo) {
        if let Some(known) = self.exports.get_mut(&export.name) {
            *known = export;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(name: &str, size_bytes: u64) -> ExportInfo {
        ExportInfo { size_bytes, ..ExportInfo::sample(name) }
    }

    #[test]
    fn a_name_is_taken_once_and_expected_until_it_is_there() {
        let mut list = ExportList::default();
        list.expect("disk".to_owned());
        assert!(list.expects("disk") && list.find("disk").is_none());
        assert!(list.insert(export("disk", 1)) && !list.expects("disk"));
        assert!(!list.insert(export("disk", 2)), "the name is taken");
        list.expect("disk".to_owned());
        assert!(!list.expects("disk"), "it is there");
        assert_eq!(list.find("disk").map(|export| export.size_bytes), Some(1));
    }

    #[test]
    fn what_is_told_changes_only_of_an_export_that_is_there() {
        let mut list = ExportList::default();
        list.refresh(export("disk", 1));
        assert_eq!(list.iter().count(), 0);
        assert!(list.insert(export("disk", 1)));
        list.refresh(export("disk", 2));
        assert_eq!(list.find("").map(|export| export.size_bytes), Some(2));
    }
}
