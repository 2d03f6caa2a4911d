//! What a site file asks for: names, values and settings that are each right by themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hotset_api::{IoType, PoolKind};
use hotset_cache::config::{self, BlockBytes, PoolName, VolumeName};

use super::file::{Mistake, SiteFile, SiteKey, SiteTable, SiteValue};
use crate::args::MemoryCacheSize;
use crate::settings::{self, PoolSetting, VolumeSetting};
use crate::size::Size;
use crate::words;

/// A pool as it shall be. What is left out is not cared for.
#[derive(Debug, Default)]
pub(super) struct PoolWanted {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) kind: Option<PoolKind>,
    pub(super) io_type: Option<IoType>,
    pub(super) block_size_bytes: Option<u64>,
    pub(super) checksums: Option<bool>,
    pub(super) ssds: Option<Vec<String>>,
    pub(super) spares: Option<Vec<String>>,
    /// Its SSDs may share a physical disk.
    pub(super) allow_same_disk: bool,
    /// As they are written: key and value.
    pub(super) settings: Vec<(String, String)>,
    pub(super) lines: BTreeMap<String, usize>,
}

/// A volume as it shall be. Without a pool it is served uncached; what else is left out is not cared for.
#[derive(Debug, Default)]
pub(super) struct VolumeWanted {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) backing: Option<String>,
    pub(super) pool: Option<String>,
    pub(super) block: Option<u32>,
    pub(super) read_only: Option<bool>,
    pub(super) settings: Vec<(String, String)>,
    pub(super) lines: BTreeMap<String, usize>,
}

#[derive(Debug, Default)]
pub(super) struct WantedSite {
    pub(super) memory_cache: Option<MemoryCacheSize>,
    pub(super) pools: Vec<PoolWanted>,
    pub(super) volumes: Vec<VolumeWanted>,
}

impl WantedSite {
    /// `identity`: of a file or device, whatever it is called.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file.
    pub(super) fn parse(text: &str, identity: &dyn Fn(&str) -> PathBuf) -> Result<Self, Vec<Mistake>> {
        let file = SiteFile::parse(text)?;
        let (mut wanted, mut wrong) = (Self::default(), Vec::new());
        file.pools.into_iter().for_each(|entry| wanted.pools.push(pool(entry, &mut wrong)));
        file.volumes.into_iter().for_each(|entry| wanted.volumes.push(volume(entry, &mut wrong)));
        wanted.memory_cache = file.memory_cache.and_then(|entry| memory_cache(entry, &mut wrong));
        wanted.check_uses(identity, &mut wrong);
        wrong.sort_by_key(|wrong| wrong.line);
        if wrong.is_empty() { Ok(wanted) } else { Err(wrong) }
    }

    /// A device has one use: an SSD is of one pool, in use or as a spare, and no volume lies on it or on that of another one.
    fn check_uses(&self, identity: &dyn Fn(&str) -> PathBuf, wrong: &mut Vec<Mistake>) {
        let of_pool = |pool: &PoolWanted, key| (format!("{key} of pool {}", pool.name), pool.line_of(key));
        let of_pools =
            self.pools.iter().flat_map(|pool| pool.devices().map(move |(key, path)| (path, of_pool(pool, key))));
        let of_volumes = self.volumes.iter().filter_map(|volume| {
            let own = format!("backing of volume {}", volume.name);
            Some((volume.backing.as_deref()?, (own, volume.line_of("backing"))))
        });
        let mut uses: BTreeMap<PathBuf, (&str, String)> = BTreeMap::new();
        for (path, (own, line)) in of_pools.chain(of_volumes) {
            if let Some((other, user)) = uses.insert(identity(path), (path, own.clone())) {
                let called = if other == path { String::new() } else { format!(" is {other}, which") };
                wrong.push(Mistake::new(line, format!("{own}: {path}{called} is in {user} already")));
            }
        }
    }
}

impl PoolWanted {
    /// Paths of its SSDs and of its spares, with their key.
    pub(super) fn devices(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let ssds = self.ssds.iter().flatten().map(|path| ("ssds", path.as_str()));
        ssds.chain(self.spares.iter().flatten().map(|path| ("spares", path.as_str())))
    }

    /// Where a key stands, or the table.
    pub(super) fn line_of(&self, key: &str) -> usize {
        self.lines.get(key).copied().unwrap_or(self.line)
    }
}

impl VolumeWanted {
    pub(super) fn line_of(&self, key: &str) -> usize {
        self.lines.get(key).copied().unwrap_or(self.line)
    }
}

fn pool(entry: SiteTable, wrong: &mut Vec<Mistake>) -> PoolWanted {
    let SiteTable { name, line, keys } = entry;
    let mut pool = PoolWanted { name, line, ..Default::default() };
    if let Err(error) = pool.name.parse::<PoolName>() {
        wrong.push(Mistake::new(line, format!("pool {}: {error}", pool.name)));
    }
    for key in keys {
        pool.lines.insert(key.name.clone(), key.line);
        if let Err(message) = key_of_pool(&mut pool, &key) {
            wrong.push(Mistake::new(key.line, format!("{} of pool {}: {message}", key.name, pool.name)));
        }
    }
    pool
}

/// Takes what a key says into what is wanted.
type Take<T> = fn(&mut T, &SiteKey) -> Result<(), String>;

/// What a pool is made with, beside the keys of `pool set`.
pub(super) const KEYS_OF_POOL: &[(&str, Take<PoolWanted>)] = &[
    ("type", |pool, key| {
        pool.kind = Some(words::pool_kind(settings::word::<config::PoolKind>(text(key)?)?));
        Ok(())
    }),
    ("block-size", |pool, key| {
        pool.block_size_bytes = Some(block_size(text(key)?)?);
        Ok(())
    }),
    ("checksums", |pool, key| {
        pool.checksums = Some(settings::on_or_off(text(key)?)?);
        Ok(())
    }),
    ("ssds", |pool, key| {
        pool.ssds = Some(paths(key)?);
        Ok(())
    }),
    ("spares", |pool, key| {
        pool.spares = Some(paths(key)?);
        Ok(())
    }),
    ("allow-same-disk", |pool, key| {
        pool.allow_same_disk = settings::on_or_off(text(key)?)?;
        Ok(())
    }),
];

/// What a volume is made with, beside the keys of `volume set`.
pub(super) const KEYS_OF_VOLUME: &[(&str, Take<VolumeWanted>)] = &[
    ("backing", |volume, key| {
        volume.backing = Some(from_the_root(text(key)?)?);
        Ok(())
    }),
    ("pool", |volume, key| {
        volume.pool = Some(settings::word::<PoolName>(text(key)?)?.to_string());
        Ok(())
    }),
    ("block", |volume, key| {
        let block = text(key)?;
        let allowed = [("512", 512), ("4096", 4096)].into_iter().find(|(word, _)| *word == block);
        volume.block = Some(allowed.ok_or_else(|| format!("{block:?}: it is 512 or 4096"))?.1);
        Ok(())
    }),
    ("read-only", |volume, key| {
        volume.read_only = Some(settings::on_or_off(text(key)?)?);
        Ok(())
    }),
];

fn known<T>(keys: &[(&str, Take<T>)], key: &SiteKey) -> Option<Take<T>> {
    keys.iter().find(|(name, _)| *name == key.name).map(|(_, take)| *take)
}

fn key_of_pool(pool: &mut PoolWanted, key: &SiteKey) -> Result<(), String> {
    if let Some(take) = known(KEYS_OF_POOL, key) {
        return take(pool, key);
    }
    let (name, value) = (key.name.as_str(), text(key)?);
    format!("{name}={value}").parse::<PoolSetting>()?;
    if name == "io-type" {
        pool.io_type = Some(words::io_type(settings::word::<config::IoType>(value)?));
    }
    pool.settings.push((name.to_owned(), value.to_owned()));
    Ok(())
}

fn key_of_volume(volume: &mut VolumeWanted, key: &SiteKey) -> Result<(), String> {
    if let Some(take) = known(KEYS_OF_VOLUME, key) {
        return take(volume, key);
    }
    let (name, value) = (key.name.as_str(), text(key)?);
    format!("{name}={value}").parse::<VolumeSetting>()?;
    volume.settings.push((name.to_owned(), value.to_owned()));
    Ok(())
}

/// `None`: nothing is said of it, or something wrong.
fn memory_cache(entry: SiteTable, wrong: &mut Vec<Mistake>) -> Option<MemoryCacheSize> {
    let mut wanted = None;
    for key in entry.keys {
        let size = match key.name.as_str() {
            "size" => text(&key).and_then(str::parse),
            _ => Err("the memory cache has no such key; it has size".to_owned()),
        };
        match size {
            Ok(size) => wanted = Some(size),
            Err(message) => {
                wrong.push(Mistake::new(key.line, format!("{} of the memory cache: {message}", key.name)));
            }
        }
    }
    wanted
}

fn volume(entry: SiteTable, wrong: &mut Vec<Mistake>) -> VolumeWanted {
    let SiteTable { name, line, keys } = entry;
    let mut volume = VolumeWanted { name, line, ..Default::default() };
    if let Err(error) = volume.name.parse::<VolumeName>() {
        wrong.push(Mistake::new(line, format!("volume {}: {error}", volume.name)));
    }
    for key in keys {
        volume.lines.insert(key.name.clone(), key.line);
        if let Err(message) = key_of_volume(&mut volume, &key) {
            wrong.push(Mistake::new(key.line, format!("{} of volume {}: {message}", key.name, volume.name)));
        }
    }
    volume
}

fn text(key: &SiteKey) -> Result<&str, String> {
    match &key.value {
        SiteValue::Text(text) => Ok(text),
        SiteValue::List(_) => Err("it is one value, not a list".to_owned()),
    }
}

fn paths(key: &SiteKey) -> Result<Vec<String>, String> {
    match &key.value {
        SiteValue::List(paths) => paths.iter().map(|path| from_the_root(path)).collect(),
        SiteValue::Text(_) => Err("it is a list of paths, as [\"/dev/disk/by-id/nvme-A\"]".to_owned()),
    }
}

/// The file is for any folder, and any machine.
fn from_the_root(path: &str) -> Result<String, String> {
    let whole = crate::paths::absolute_backing(path).map_err(|error| format!("{path}: {error}"))?;
    if whole == path { Ok(whole) } else { Err(format!("{path:?}: write the path from the root")) }
}

fn block_size(text: &str) -> Result<u64, String> {
    let Size(bytes) = text.parse()?;
    BlockBytes::new(bytes).map(BlockBytes::get).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<WantedSite, Vec<Mistake>> {
        WantedSite::parse(text, &|path| PathBuf::from(path))
    }

    #[test]
    fn a_whole_site_is_understood() {
        let wanted = parse(
            "[pool.fast]\ntype = \"read-write\"\nio-type = \"database\"\nblock-size = \"1M\"\nchecksums = true\nssds = [\"/a\"]\nspares = []\n\
             fetch-rate = \"high\"\npopulate-on-read = 1\n[volume.data]\nbacking = \"/dev/md0\"\npool = \"fast\"\nblock = 4096\nread-only = \"off\"\nmode = \"write-through\"\n",
        );
        let wanted = wanted.expect("it is right");
        let pool = &wanted.pools[0];
        assert_eq!(
            (pool.kind, pool.block_size_bytes, pool.checksums),
            (Some(PoolKind::ReadWrite), Some(1 << 20), Some(true))
        );
        assert_eq!(pool.settings.len(), 3, "{:?}", pool.settings);
        let volume = &wanted.volumes[0];
        assert_eq!((volume.pool.as_deref(), volume.block, volume.read_only), (Some("fast"), Some(4096), Some(false)));
    }

    #[test]
    fn everything_that_is_wrong_is_told_with_line_and_key() {
        let text = "[pool.fast]\ntype = \"raid\"\npolicy = \"mru\"\nssds = \"/a\"\ncolour = 1\n[volume.v]\nbacking = \"disk\"\nblock = 1024\n[volume.\".w\"]\nmode = [\"a\"]\n[memory-cache]\nsize = \"much\"\ncolour = 1\n";
        let wrong = parse(text).expect_err("nearly all of it is wrong");
        let told: Vec<(usize, &str)> = wrong.iter().map(|wrong| (wrong.line, wrong.message.as_str())).collect();
        for (line, parts) in [
            (2, ["type of pool fast", "read, read-write"]),
            (3, ["policy of pool fast", "s3-fifo"]),
            (4, ["ssds of pool fast", "a list"]),
            (5, ["colour", "no setting"]),
            (7, ["backing of volume v", "from the root"]),
            (8, ["block of volume v", "512 or 4096"]),
            (9, ["volume .w", "dot"]),
            (10, ["mode of volume .w", "not a list"]),
            (12, ["size of the memory cache", "much"]),
            (13, ["colour of the memory cache", "it has size"]),
        ] {
            let message = told.iter().find(|(at, _)| *at == line).unwrap_or_else(|| panic!("line {line}: {told:?}")).1;
            parts.iter().for_each(|part| assert!(message.contains(part), "{message}"));
        }
        let twice = "[volume.a]\nbacking = \"/x\"\n[volume.b]\nbacking = \"/x\"\n";
        let wrong = parse(twice).expect_err("one device, two volumes");
        assert_eq!((wrong[0].line, wrong[0].message.contains("volume a already")), (4, true));
        let two_names = "[pool.a]\nssds = [\"/x\"]\n[pool.b]\nspares = [\"/dev/disk/x\"]\n";
        let wrong = WantedSite::parse(two_names, &|_| PathBuf::from("/x")).expect_err("one device, two names");
        assert_eq!(
            (wrong[0].line, wrong[0].message.as_str()),
            (4, "spares of pool b: /dev/disk/x is /x, which is in ssds of pool a already")
        );
    }
}
