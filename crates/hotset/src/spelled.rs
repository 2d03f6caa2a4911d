//! The settings of a pool and of a volume as they are, in the words of `pool set` and `volume set`.

use hotset_api::{Pool, PoolKind, Share, Volume};

use crate::words;

/// What has no effect in any but a read-write pool.
const ABOUT_WRITES: [&str; 5] = ["flush-rate", "dirty-watermark", "dirty-age", "mode", "dirty-cap"];

/// Those that have an effect: of the others another value would be refused.
fn effective(mut settings: Vec<(&'static str, String)>, kind: Option<PoolKind>) -> Vec<(&'static str, String)> {
    settings.retain(|(key, _)| kind == Some(PoolKind::ReadWrite) || !ABOUT_WRITES.contains(key));
    settings
}

/// What has an effect.
pub(crate) fn of_pool(pool: &Pool) -> Vec<(&'static str, String)> {
    effective(all_of_pool(pool), Some(pool.kind))
}

/// What has an effect.
pub(crate) fn of_volume(volume: &Volume) -> Vec<(&'static str, String)> {
    effective(all_of_volume(volume), volume.pool_type)
}

pub(crate) fn all_of_pool(pool: &Pool) -> Vec<(&'static str, String)> {
    vec![
        ("io-type", words::engine_io_type(pool.io_type).to_string()),
        ("policy", words::engine_policy(pool.policy).to_string()),
        ("populate-on-read", pool.populate_on_read.to_string()),
        ("populate-on-write", pool.populate_on_write.to_string()),
        ("fetch-rate", words::engine_fetch_rate(pool.fetch_rate).to_string()),
        ("flush-rate", words::engine_flush_rate(pool.flush_rate).to_string()),
        ("dirty-watermark", pool.dirty_watermark_percent.to_string()),
        ("dirty-age", format!("{}s", pool.dirty_age_max_seconds)),
        ("ssd-writes-per-day", pool.ssd_writes_per_day_bytes.map_or_else(|| "off".to_owned(), size)),
    ]
}

pub(crate) fn all_of_volume(volume: &Volume) -> Vec<(&'static str, String)> {
    vec![
        ("mode", words::engine_write_mode(volume.write_mode).to_string()),
        ("read-cache", if volume.read_cache { "on" } else { "off" }.to_owned()),
        ("memory-cache", if volume.memory_cache { "on" } else { "off" }.to_owned()),
        ("read-ahead", if volume.read_ahead { "auto" } else { "off" }.to_owned()),
        ("read-cutoff", volume.read_cutoff_bytes.map_or_else(|| "off".to_owned(), size)),
        ("write-cutoff", volume.write_cutoff_bytes.map_or_else(|| "off".to_owned(), size)),
        ("dirty-cap", share(volume.dirty_cap, "auto")),
        ("cache-min", share(volume.cache_min, "off")),
        ("cache-max", share(volume.cache_max, "off")),
        ("local", if volume.local.is_some() { "on" } else { "off" }.to_owned()),
    ]
}

/// What the memory cache was set to, in the words of `memory-cache set`.
pub(crate) fn memory_cache(set_bytes: Option<u64>) -> String {
    set_bytes.map_or_else(|| "default".to_owned(), size)
}

/// Which settings are not as they were, as `mode write-back → write-through`; empty: none.
pub(crate) fn changes(before: &[(&str, String)], now: &[(&str, String)]) -> String {
    let was = |key: &str| before.iter().find(|(of, _)| *of == key).map_or("off", |(_, value)| value);
    let changed = now.iter().filter(|(key, value)| was(key) != value);
    changed.map(|(key, value)| format!("{key} {} → {value}", was(key))).collect::<Vec<_>>().join(", ")
}

fn share(share: Option<Share>, none: &str) -> String {
    match share {
        None => none.to_owned(),
        Some(Share::Bytes(bytes)) => size(bytes),
        Some(Share::Percent(percent)) => format!("{percent}%"),
    }
}

/// Exactly, and short where it can be.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let whole = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Size;

    #[test]
    fn only_what_is_not_as_it_was_is_told() {
        let was = [("policy", "lru".to_owned()), ("fetch-rate", "low".to_owned())];
        let is = [("policy", "lru".to_owned()), ("fetch-rate", "high".to_owned())];
        assert_eq!((changes(&was, &is).as_str(), changes(&was, &was).as_str()), ("fetch-rate low → high", ""));
    }

    #[test]
    fn sizes_are_exact() {
        for bytes in [0, 1, 4096, 3 << 20, (1 << 40) + (1 << 10), 5 << 40, u64::MAX] {
            assert_eq!(size(bytes).parse::<Size>(), Ok(Size(bytes)), "{bytes}");
        }
        assert_eq!((size(1 << 20), size(1536), size(1000)), ("1M".to_owned(), "1536".to_owned(), "1000".to_owned()));
    }
}
