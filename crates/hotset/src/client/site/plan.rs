//! What has to be done so that pools and volumes are what a site file wants: steps in an order in which each finds what it needs.

use std::collections::BTreeMap;

use hotset_api::{
    IoType, MemoryCache, Pool, PoolCreate, PoolKind, PoolSet, PoolState, Share, Ssd, SsdState, Volume, VolumeCreate,
    VolumeSet, VolumeState,
};
use hotset_cache::config::PoolSettings;

use super::file::Mistake;
use super::wanted::{PoolWanted, VolumeWanted, WantedSite};
use crate::args::MemoryCacheSize;
use crate::settings::{PoolSetting, VolumeSetting, pool_set, volume_set};
use crate::spelled;
use crate::words;

/// One request to the daemon. With the line of the file that names what the daemon may refuse.
#[derive(Debug)]
pub(super) enum SiteStep {
    CreatePool {
        pool: Box<PoolCreate>,
        line: usize,
    },
    SetPool {
        pool: String,
        set: PoolSet,
        changes: Vec<SettingChange>,
        line: usize,
    },
    AddSsds {
        pool: String,
        ssds: Vec<String>,
        allow_same_disk: bool,
        line: usize,
    },
    AddSpares {
        pool: String,
        spares: Vec<String>,
        allow_same_disk: bool,
        line: usize,
    },
    RemoveSpares {
        pool: String,
        spares: Vec<String>,
    },
    DisableCache {
        volume: String,
        pool: String,
    },
    CreateVolume {
        volume: Box<VolumeCreate>,
        line: usize,
    },
    /// `shares`: what it has of a pool so far, and brings with it.
    EnableCache {
        volume: String,
        pool: String,
        shares: Shares,
        line: usize,
    },
    /// `pool`, `before`: the pool that it is in so far, and what it has of that.
    SetVolume {
        volume: String,
        pool: Option<String>,
        before: Shares,
        set: VolumeSet,
        changes: Vec<SettingChange>,
        line: usize,
    },
    RemoveSsds {
        pool: String,
        ssds: Vec<String>,
    },
    /// `size_bytes`: `None`: what the configuration says.
    SetMemoryCache {
        size_bytes: Option<u64>,
        before: String,
        after: String,
    },
}

/// What a volume is promised of its pool, and may have of it; `None`: nothing, and all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) cache_min: Option<Share>,
    pub(super) cache_max: Option<Share>,
}

impl Shares {
    pub(super) fn of(volume: &Volume) -> Self {
        Self { cache_min: volume.cache_min, cache_max: volume.cache_max }
    }

    /// With what is set.
    pub(super) fn changed_by(self, set: &VolumeSet) -> Self {
        Self { cache_min: set.cache_min.or(self.cache_min), cache_max: set.cache_max.or(self.cache_max) }
    }

    /// Whether less is promised from now on, as far as that can be said without knowing the pool.
    fn lowered_by(self, set: &VolumeSet) -> bool {
        match (self.cache_min, set.cache_min) {
            (Some(Share::Bytes(before)), Some(Share::Bytes(after))) => after < before,
            (Some(Share::Percent(before)), Some(Share::Percent(after))) => after < before,
            (Some(_), Some(Share::Bytes(0))) => true,
            (_, _) => false,
        }
    }
}

/// Of a setting.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SettingChange {
    pub(super) key: String,
    before: String,
    after: String,
}

#[derive(Debug, Default)]
pub(super) struct SitePlan {
    pub(super) steps: Vec<SiteStep>,
    /// What is there and not in the file.
    pub(super) left_alone: Vec<String>,
}

impl SiteStep {
    /// The lines of the difference that it makes up for.
    pub(super) fn lines(&self) -> Vec<String> {
        let changed = |what: &str, name: &str, changes: &[SettingChange]| {
            changes
                .iter()
                .map(|SettingChange { key, before, after }| format!("~ {what} {name}: {key} {before} -> {after}"))
                .collect()
        };
        match self {
            Self::CreatePool { pool, .. } => {
                let kind = words::engine_pool_kind(pool.kind);
                let io_type = words::engine_io_type(pool.io_type);
                vec![format!("+ pool {}: {kind}, {io_type}, SSDs {}", pool.name, pool.ssds.join(" "))]
            }
            Self::SetPool { pool, changes, .. } => changed("pool", pool, changes),
            Self::AddSsds { pool, ssds, .. } => ssds.iter().map(|ssd| format!("+ SSD {ssd} of pool {pool}")).collect(),
            Self::RemoveSsds { pool, ssds } => ssds.iter().map(|ssd| format!("- SSD {ssd} of pool {pool}")).collect(),
            Self::AddSpares { pool, spares, .. } => {
                spares.iter().map(|spare| format!("+ spare {spare} of pool {pool}")).collect()
            }
            Self::RemoveSpares { pool, spares } => {
                spares.iter().map(|spare| format!("- spare {spare} of pool {pool}")).collect()
            }
            Self::DisableCache { volume, pool } => {
                vec![format!("- cache of volume {volume}: pool {pool}, flushed first")]
            }
            Self::EnableCache { volume, pool, .. } => vec![format!("+ cache of volume {volume}: pool {pool}")],
            Self::CreateVolume { volume, .. } => {
                let cache = volume.pool.as_ref().map_or_else(|| "no cache".to_owned(), |pool| format!("pool {pool}"));
                vec![format!("+ volume {}: {}, {cache}", volume.name, volume.backing)]
            }
            Self::SetVolume { volume, changes, .. } => changed("volume", volume, changes),
            Self::SetMemoryCache { before, after, .. } => vec![format!("~ memory cache: size {before} -> {after}")],
        }
    }
}

/// Compares what is wanted with what is.
///
/// # Errors
/// What cannot be changed while it serves, and what is missing, each with its line.
pub(super) fn plan(
    wanted: &WantedSite,
    pools: &[Pool],
    volumes: &[Volume],
    memory_cache: Option<&MemoryCache>,
    same: &dyn Fn(&str, &str) -> bool,
) -> Result<SitePlan, Vec<Mistake>> {
    let mut planner = Planner { same, steps: Vec::new(), last: Vec::new(), wrong: Vec::new() };
    if let (Some(wanted), Some(current)) = (&wanted.memory_cache, memory_cache) {
        planner.change_memory_cache(*wanted, current);
    }
    for pool in &wanted.pools {
        planner.check_taken(pool, pools);
        match pools.iter().find(|current| current.name == pool.name) {
            Some(current) => planner.change_pool(pool, current),
            None => planner.create_pool(pool),
        }
    }
    for volume in &wanted.volumes {
        if let Some(pool) = volume.pool.as_ref().filter(|name| {
            !pools.iter().any(|pool| pool.name == **name) && !wanted.pools.iter().any(|pool| pool.name == **name)
        }) {
            planner.wrong.push(Mistake::new(
                volume.line_of("pool"),
                format!("pool of volume {}: there is no pool {pool}, here or in the file", volume.name),
            ));
        }
        planner.check_joins(volume, volumes, pools);
        planner.check_meaning(volume, kind_of(volume.pool.as_deref(), wanted, pools));
        match volumes.iter().find(|current| current.name == volume.name) {
            Some(current) => planner.change_volume(volume, current),
            None => planner.create_volume(volume, volumes),
        }
    }
    if !planner.wrong.is_empty() {
        return Err(planner.wrong);
    }
    let mut steps = planner.steps;
    steps.sort_by_key(|(order, _)| *order);
    let steps = steps.into_iter().map(|(_, step)| step).chain(planner.last).collect();
    let extra_pools = pools.iter().filter(|pool| !wanted.pools.iter().any(|wanted| wanted.name == pool.name));
    let extra_volumes = volumes.iter().filter(|volume| !wanted.volumes.iter().any(|wanted| wanted.name == volume.name));
    let left_alone = extra_pools
        .map(|pool| format!("pool {}", pool.name))
        .chain(extra_volumes.map(|volume| format!("volume {}", volume.name)));
    Ok(SitePlan { steps, left_alone: left_alone.collect() })
}

/// Of the pool that a volume shall have.
fn kind_of(pool: Option<&str>, wanted: &WantedSite, pools: &[Pool]) -> Option<PoolKind> {
    let name = pool?;
    let there = pools.iter().find(|pool| pool.name == name).map(|pool| pool.kind);
    there.or_else(|| wanted.pools.iter().find(|pool| pool.name == name)?.kind)
}

/// Pools before volumes that join them; caches leave before they join others, with the settings that they have there; what is promised less
/// comes before what is promised more; SSDs go last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StepOrder {
    Pools,
    Leave,
    SettingsBefore,
    Volumes,
}

struct Planner<'a> {
    /// Whether two paths lead to the same.
    same: &'a dyn Fn(&str, &str) -> bool,
    steps: Vec<(StepOrder, SiteStep)>,
    last: Vec<SiteStep>,
    wrong: Vec<Mistake>,
}

impl Planner<'_> {
    /// An SSD that a pool is to give to another one, or to keep as a spare, has to be emptied first, which comes last.
    fn check_taken(&mut self, wanted: &PoolWanted, pools: &[Pool]) {
        for (key, path) in wanted.devices() {
            // Where one was that is gone, another one may be by now.
            let is_there = |ssd: &Ssd| !matches!(ssd.state, SsdState::Missing | SsdState::Expelled);
            let same = |ssd: &Ssd| is_there(ssd) && (self.same)(&ssd.path, path);
            let moves = |owner: &&Pool| owner.name != wanted.name || key == "spares";
            if let Some(owner) = pools.iter().filter(moves).find(|owner| owner.ssds.iter().any(same)) {
                let message = format!(
                    "{key} of pool {}: {path} is an SSD of pool {}, which has to be emptied first: apply a file without it there, and then this one",
                    wanted.name, owner.name
                );
                self.wrong.push(Mistake::new(wanted.line_of(key), message));
            }
        }
    }

    fn change_memory_cache(&mut self, wanted: MemoryCacheSize, current: &MemoryCache) {
        let size_bytes = wanted.bytes();
        if size_bytes == current.set_bytes {
            return;
        }
        let (before, after) = (spelled::memory_cache(current.set_bytes), spelled::memory_cache(size_bytes));
        self.steps.push((StepOrder::Pools, SiteStep::SetMemoryCache { size_bytes, before, after }));
    }

    fn create_pool(&mut self, wanted: &PoolWanted) {
        let lacks = |key: &str| {
            Mistake::new(
                wanted.line,
                format!("{key} of pool {}: there is no such pool yet, and making it takes this key", wanted.name),
            )
        };
        let (Some(kind), Some(io_type), Some(ssds)) = (wanted.kind, wanted.io_type, &wanted.ssds) else {
            let missing = [
                ("type", wanted.kind.is_none()),
                ("io-type", wanted.io_type.is_none()),
                ("ssds", wanted.ssds.is_none()),
            ];
            self.wrong.extend(missing.into_iter().filter(|(_, missing)| *missing).map(|(key, _)| lacks(key)));
            return;
        };
        let set = pool_set(&parsed::<PoolSetting>(&wanted.settings));
        let create = PoolCreate {
            name: wanted.name.clone(),
            kind,
            io_type,
            block_size_bytes: wanted.block_size_bytes,
            populate_on_read: set.populate_on_read,
            populate_on_write: set.populate_on_write,
            policy: set.policy,
            checksums: wanted.checksums,
            ssds: ssds.clone(),
            force: false,
            allow_same_disk: wanted.allow_same_disk,
        };
        let (pool, line) = (Box::new(create), wanted.line_of("ssds"));
        self.steps.push((StepOrder::Pools, SiteStep::CreatePool { pool, line }));
        let rest = PoolSet { io_type: None, policy: None, populate_on_read: None, populate_on_write: None, ..set };
        if rest != PoolSet::default() {
            let made = ["io-type", "policy", "populate-on-read", "populate-on-write"];
            let changes = anew(&wanted.settings, &made);
            let line = wanted.line;
            self.steps
                .push((StepOrder::Pools, SiteStep::SetPool { pool: wanted.name.clone(), set: rest, changes, line }));
        }
        if let Some(spares) = wanted.spares.as_ref().filter(|spares| !spares.is_empty()) {
            let (pool, spares, line) = (wanted.name.clone(), spares.clone(), wanted.line_of("spares"));
            self.steps.push((
                StepOrder::Pools,
                SiteStep::AddSpares { pool, spares, allow_same_disk: wanted.allow_same_disk, line },
            ));
        }
    }

    fn change_pool(&mut self, wanted: &PoolWanted, current: &Pool) {
        let name = &wanted.name;
        if current.state == PoolState::Offline {
            let message = format!("pool {name} is offline, and how it is set is not known: {}", current.reason);
            self.wrong.push(Mistake::new(wanted.line, message));
            return;
        }
        let offline = [
            ("type", wanted.kind.is_some_and(|kind| kind != current.kind)),
            ("block-size", wanted.block_size_bytes.is_some_and(|bytes| bytes != current.block_size_bytes)),
            ("checksums", wanted.checksums.is_some_and(|on| on != current.checksums)),
        ];
        for (key, _) in offline.into_iter().filter(|(_, differs)| *differs) {
            let message = format!(
                "{key} of pool {name}: it cannot change online: `hotset pool convert {name}` changes it in place, by flushing the pool first"
            );
            self.wrong.push(Mistake::new(wanted.line_of(key), message));
        }
        // What has no effect in a pool of this type is compared all the same, where the file has it.
        let mut changes = changes::<PoolSetting>(&wanted.settings, &spelled::all_of_pool(current));
        if !changes.is_empty() {
            let sent = if is_changed(&changes, "io-type") { &THRESHOLDS[..] } else { &[] };
            let set = pool_set(&parsed::<PoolSetting>(&to_send(&wanted.settings, &changes, sent)));
            let line = wanted.line_of(&changes[0].key);
            changes.extend(thresholds_that_follow(&set, current));
            self.steps.push((StepOrder::Pools, SiteStep::SetPool { pool: name.clone(), set, changes, line }));
        }
        let ssds: Vec<String> = current.ssds.iter().map(|ssd| ssd.path.clone()).collect();
        if let Some(listed) = &wanted.ssds {
            let (new, gone) = self.apart(listed, &ssds);
            if !new.is_empty() {
                let (pool, line) = (name.clone(), wanted.line_of("ssds"));
                self.steps.push((
                    StepOrder::Pools,
                    SiteStep::AddSsds { pool, ssds: new, allow_same_disk: wanted.allow_same_disk, line },
                ));
            }
            let (fewest, why) = match current.kind {
                PoolKind::Read => (1, "a pool has at least one SSD"),
                PoolKind::ReadWrite => (2, "two copies of dirty data need two SSDs"),
            };
            if !gone.is_empty() && listed.len() < fewest {
                let message = format!("ssds of pool {name}: {why}; `hotset pool delete {name}` flushes and deletes it");
                self.wrong.push(Mistake::new(wanted.line_of("ssds"), message));
            } else if !gone.is_empty() {
                self.last.push(SiteStep::RemoveSsds { pool: name.clone(), ssds: gone });
            }
        }
        let spares: Vec<String> = current.spares.iter().map(|spare| spare.path.clone()).collect();
        if let Some(listed) = &wanted.spares {
            let (new, gone) = self.apart(listed, &spares);
            // One that goes may come back as an SSD.
            if !gone.is_empty() {
                self.steps.insert(0, (StepOrder::Pools, SiteStep::RemoveSpares { pool: name.clone(), spares: gone }));
            }
            if !new.is_empty() {
                let (pool, line) = (name.clone(), wanted.line_of("spares"));
                self.steps.push((
                    StepOrder::Pools,
                    SiteStep::AddSpares { pool, spares: new, allow_same_disk: wanted.allow_same_disk, line },
                ));
            }
        }
    }

    /// What is listed and not there, and what is there and not listed.
    fn apart(&self, listed: &[String], there: &[String]) -> (Vec<String>, Vec<String>) {
        let lacks = |from: &[String], path: &String| !from.iter().any(|other| (self.same)(other, path));
        let new = listed.iter().filter(|path| lacks(there, path)).cloned().collect();
        (new, there.iter().filter(|path| lacks(listed, path)).cloned().collect())
    }

    /// Of a new volume the daemon tells that.
    fn check_joins(&mut self, wanted: &VolumeWanted, volumes: &[Volume], pools: &[Pool]) {
        let Some(volume) = volumes.iter().find(|current| current.name == wanted.name) else { return };
        let joins = wanted.pool.as_ref().filter(|pool| volume.pool.as_ref() != Some(pool));
        let pool = joins.and_then(|joins| pools.iter().find(|pool| pool.name == *joins));
        if let Some(pool) = pool.filter(|pool| pool.state == PoolState::Offline) {
            let message = format!("pool of volume {}: pool {} is offline: {}", wanted.name, pool.name, pool.reason);
            self.wrong.push(Mistake::new(wanted.line_of("pool"), message));
        }
    }

    /// A read pool caches no writes: settings that are about nothing else are refused there.
    fn check_meaning(&mut self, wanted: &VolumeWanted, kind: Option<PoolKind>) {
        let is_read = kind == Some(PoolKind::Read);
        let about_writes = |(key, value): &&(String, String)| {
            (key == "mode" && value != "write-around") || (key == "dirty-cap" && value != "auto")
        };
        for (key, value) in wanted.settings.iter().filter(about_writes).filter(|_| is_read) {
            let message = format!(
                "{key} of volume {}: {value} means nothing in a read pool, which caches no writes",
                wanted.name
            );
            self.wrong.push(Mistake::new(wanted.line_of(key), message));
        }
    }

    fn create_volume(&mut self, wanted: &VolumeWanted, volumes: &[Volume]) {
        let name = &wanted.name;
        let Some(backing) = &wanted.backing else {
            let message =
                format!("backing of volume {name}: there is no such volume yet, and making it takes this key");
            self.wrong.push(Mistake::new(wanted.line, message));
            return;
        };
        if let Some(other) = volumes.iter().find(|other| (self.same)(&other.backing, backing)) {
            let message = format!(
                "backing of volume {name}: {backing} is that of volume {} already; `hotset volume rename` gives that another name",
                other.name
            );
            self.wrong.push(Mistake::new(wanted.line_of("backing"), message));
        }
        let set = volume_set(&parsed::<VolumeSetting>(&wanted.settings));
        let create = VolumeCreate {
            name: name.clone(),
            backing: backing.clone(),
            pool: wanted.pool.clone(),
            logical_block_bytes: wanted.block,
            read_only: wanted.read_only.unwrap_or(false),
            write_mode: set.write_mode,
            read_cache: set.read_cache,
        };
        let (volume, line) = (Box::new(create), wanted.line_of("backing"));
        self.steps.push((StepOrder::Volumes, SiteStep::CreateVolume { volume, line }));
        let rest = VolumeSet { write_mode: None, read_cache: None, ..set };
        if rest != VolumeSet::default() {
            let changes = anew(&wanted.settings, &["mode", "read-cache"]);
            let line = if rest.local.is_some() { wanted.line_of("local") } else { wanted.line };
            let (volume, pool, before) = (name.clone(), None, Shares::default());
            self.steps
                .push((StepOrder::Volumes, SiteStep::SetVolume { volume, pool, before, set: rest, changes, line }));
        }
    }

    fn change_volume(&mut self, wanted: &VolumeWanted, current: &Volume) {
        let name = &wanted.name;
        let fixed = [
            ("backing", wanted.backing.as_ref().is_some_and(|backing| !(self.same)(backing, &current.backing))),
            ("block", wanted.block.is_some_and(|block| block != current.logical_block_bytes)),
            ("read-only", wanted.read_only.is_some_and(|read_only| read_only != current.read_only)),
        ];
        for (key, _) in fixed.into_iter().filter(|(_, differs)| *differs) {
            let message = format!(
                "{key} of volume {name}: it cannot change: `hotset volume delete {name}` flushes the volume and leaves its backing device as it is, then it can be made anew"
            );
            self.wrong.push(Mistake::new(wanted.line_of(key), message));
        }
        let moves = wanted.pool != current.pool;
        if moves && current.state == VolumeState::Offline {
            let message =
                format!("pool of volume {name}: it is offline, and cannot join or leave a pool: {}", current.reason);
            self.wrong.push(Mistake::new(wanted.line_of("pool"), message));
        } else if moves {
            if let Some(pool) = &current.pool {
                self.steps
                    .push((StepOrder::Leave, SiteStep::DisableCache { volume: name.clone(), pool: pool.clone() }));
            }
            if let Some(pool) = &wanted.pool {
                let (volume, pool, shares) = (name.clone(), pool.clone(), Shares::of(current));
                let line = wanted.line_of("pool");
                self.steps.push((StepOrder::Volumes, SiteStep::EnableCache { volume, pool, shares, line }));
            }
        }
        // As of a pool.
        let changes = changes::<VolumeSetting>(&wanted.settings, &spelled::all_of_volume(current));
        if !changes.is_empty() {
            let set = volume_set(&parsed::<VolumeSetting>(&to_send(&wanted.settings, &changes, &[])));
            let line = wanted.line_of(&changes[0].key);
            let (volume, pool, before) = (name.clone(), current.pool.clone(), Shares::of(current));
            let early = moves || before.lowered_by(&set);
            let order = if early { StepOrder::SettingsBefore } else { StepOrder::Volumes };
            self.steps.push((order, SiteStep::SetVolume { volume, pool, before, set, changes, line }));
        }
    }
}

/// Settings that an I/O type brings, unless they are named beside it.
const THRESHOLDS: [&str; 2] = ["populate-on-read", "populate-on-write"];

fn is_changed(changes: &[SettingChange], key: &str) -> bool {
    changes.iter().any(|change| change.key == key)
}

/// Of the settings of the file: those that change, and these. What is sent although it is so already might bring others with it.
fn to_send(settings: &[(String, String)], changes: &[SettingChange], also: &[&str]) -> Vec<(String, String)> {
    let sent = settings.iter().filter(|(key, _)| is_changed(changes, key) || also.contains(&key.as_str()));
    sent.cloned().collect()
}

/// What changes because the I/O type does.
fn thresholds_that_follow(set: &PoolSet, current: &Pool) -> Vec<SettingChange> {
    let Some(io_type) = set.io_type.filter(|io_type| *io_type != IoType::Custom) else { return Vec::new() };
    let preset = PoolSettings::preset(words::engine_pool_kind(current.kind), words::engine_io_type(io_type));
    let followed = [
        (set.populate_on_read, current.populate_on_read, preset.populate_on_read),
        (set.populate_on_write, current.populate_on_write, preset.populate_on_write),
    ];
    let unnamed =
        THRESHOLDS.iter().zip(followed).filter(|(_, (named, before, after))| named.is_none() && before != after);
    let change = |(key, (_, before, after)): (&&str, (Option<u8>, u8, u8))| SettingChange {
        key: (*key).to_owned(),
        before: before.to_string(),
        after: after.to_string(),
    };
    unnamed.map(change).collect()
}

/// Each was parsed when the file was read.
fn parsed<T: std::str::FromStr<Err = String>>(settings: &[(String, String)]) -> Vec<T> {
    settings.iter().filter_map(|(key, value)| format!("{key}={value}").parse().ok()).collect()
}

/// Of something that is made: all but what it is made with.
fn anew(settings: &[(String, String)], made: &[&str]) -> Vec<SettingChange> {
    let rest = settings.iter().filter(|(key, _)| !made.contains(&key.as_str()));
    rest.map(|(key, value)| SettingChange { key: key.clone(), before: "its default".to_owned(), after: value.clone() })
        .collect()
}

/// Settings that mean something else than what is: `10m` is `600s`.
fn changes<T: std::str::FromStr<Err = String> + PartialEq>(
    settings: &[(String, String)],
    before: &[(&str, String)],
) -> Vec<SettingChange> {
    let before: BTreeMap<&str, &String> = before.iter().map(|(key, value)| (*key, value)).collect();
    let differs = |key: &str, value: &str| {
        let Some(now) = before.get(key) else { return true };
        format!("{key}={now}").parse::<T>().ok() != format!("{key}={value}").parse::<T>().ok()
    };
    let changed = settings.iter().filter(|(key, value)| differs(key, value));
    let now = |key: &str| before.get(key).map_or_else(|| "its default".to_owned(), |now| (*now).clone());
    changed.map(|(key, value)| SettingChange { key: key.clone(), before: now(key), after: value.clone() }).collect()
}
