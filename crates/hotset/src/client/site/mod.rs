//! Pools, volumes and their settings as text: `export` writes what is, `apply` brings about what a file says.
//!
//! A site file is TOML: `[pool.NAME]`, `[volume.NAME]` and `[memory-cache]`, with the keys and values of `pool set` and `volume set`, and beside them what is
//! given when something is made. What a file does not name stays as it is.

mod apply;
mod export;
mod file;
mod plan;
mod wanted;

pub(crate) use apply::run as run_apply;
pub(crate) use export::run as run_export;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hotset_api::{LocalDevice, MemoryCache, Pool, Share, Spare, Ssd, Volume};
    use hotset_cache::config::{IoType, PoolKind, PoolSettings, VolumeSettings};

    use super::export::site;
    use super::plan::{SiteStep, plan};
    use super::wanted::{KEYS_OF_POOL, KEYS_OF_VOLUME, WantedSite};
    use crate::daemon::{bare_volume, with_settings};
    use crate::settings::{POOL_KEYS, VOLUME_KEYS};

    const MEMORY_CACHE: MemoryCache = MemoryCache {
        size_bytes: 1 << 30,
        set_bytes: Some(1 << 30),
        allowed_bytes: 0,
        used_bytes: 0,
        configured_bytes: 0,
    };

    /// A pool of two partitions of one disk, of which nothing is left out.
    fn pool() -> Pool {
        let own = |path: &str| -> Ssd {
            let counted = serde_json::json!({
                "path": path, "disk": "nvme-1", "uuid": "", "online": true, "state": "online", "reason": "",
                "size_bytes": 0, "slots": 0, "slots_used": 0, "read_errors": 0, "written_bytes": 0,
            });
            serde_json::from_value(counted).unwrap()
        };
        let spare = Spare {
            path: "/dev/nvme1n1".to_owned(),
            uuid: String::new(),
            size_bytes: 0,
            present: true,
            reason: String::new(),
        };
        Pool {
            name: "fast".to_owned(),
            state: hotset_api::PoolState::Online,
            ssds: vec![own("/dev/nvme0n1p1"), own("/dev/nvme0n1p2")],
            spares: vec![spare],
            ssd_writes_per_day_bytes: Some(5 << 40),
            ..with_settings(PoolKind::ReadWrite, PoolSettings::preset(PoolKind::ReadWrite, IoType::Database))
        }
    }

    fn volume() -> Volume {
        Volume {
            pool: Some("fast".to_owned()),
            pool_type: Some(hotset_api::PoolKind::ReadWrite),
            dirty_cap: Some(Share::Percent(20)),
            cache_min: Some(Share::Bytes(1 << 30)),
            cache_max: Some(Share::Percent(50)),
            local: Some(LocalDevice { path: String::new(), device: None, driver: "ublk".to_owned(), connected: true }),
            ..bare_volume("data".to_owned(), "/dev/md0".to_owned(), VolumeSettings::default())
        }
    }

    fn steps(text: &str, pools: &[Pool], volumes: &[Volume], memory_cache: &MemoryCache) -> Vec<SiteStep> {
        let wanted = WantedSite::parse(text, &|path| PathBuf::from(path)).expect("what is exported is a site file");
        plan(&wanted, pools, volumes, Some(memory_cache), &|one, other| one == other).expect("it can be").steps
    }

    // proves: O2
    #[test]
    fn every_key_that_a_site_file_may_have_is_exported() {
        let text = site(&[pool()], &[volume()], &MEMORY_CACHE);
        let (of_pool, of_volume) = text.split_once("[volume.").expect("it has both");
        let made = |keys: Vec<&'static str>, settings: &'static str| keys.into_iter().chain(settings.split(", "));
        let keys_of_pool = made(KEYS_OF_POOL.iter().map(|(key, _)| *key).collect(), POOL_KEYS);
        let keys_of_volume = made(KEYS_OF_VOLUME.iter().map(|(key, _)| *key).collect(), VOLUME_KEYS);
        for (keys, text) in [(keys_of_pool, of_pool), (keys_of_volume, of_volume)] {
            for key in keys {
                assert!(text.contains(&format!("\n{key} = ")), "{key} is not exported: {text}");
            }
        }
        assert!(text.contains("[memory-cache]\nsize = \"1G\"\n"), "{text}");
    }

    // proves: O2
    #[test]
    fn what_is_exported_changes_nothing_where_it_is_from_and_makes_the_same_on_an_empty_machine() {
        let text = site(&[pool()], &[volume()], &MEMORY_CACHE);
        let none = steps(&text, &[pool()], &[volume()], &MEMORY_CACHE);
        assert!(none.is_empty(), "{none:?}");
        let empty = MemoryCache { set_bytes: None, ..MEMORY_CACHE };
        let all = steps(&text, &[], &[], &empty);
        let is_made = all.iter().any(|step| matches!(step, SiteStep::CreatePool { pool, .. } if pool.allow_same_disk));
        assert!(is_made, "its SSDs are on one disk, which has to be allowed: {all:?}");
        let sized = |step: &SiteStep| matches!(step, SiteStep::SetMemoryCache { size_bytes: Some(1_073_741_824), .. });
        assert!(all.iter().any(sized), "{all:?}");
        let as_configured = site(&[], &[], &empty);
        assert!(steps(&as_configured, &[], &[], &empty).is_empty(), "{as_configured}");
        assert_eq!(steps(&as_configured, &[], &[], &MEMORY_CACHE).len(), 1, "{as_configured}");
    }
}
