//! `KEY=VALUE` arguments of `pool set` and `volume set`.

use std::str::FromStr;

use hotset_api::{PoolSet, Share, VolumeSet};
use hotset_cache::config::{FetchRate, FlushRate, IoType, PolicyKind, WriteMode, limits};

use crate::size::Size;
use crate::words;

pub(crate) const POOL_KEYS: &str = "io-type, policy, populate-on-read, populate-on-write, fetch-rate, flush-rate, dirty-watermark, dirty-age, ssd-writes-per-day";
pub(crate) const VOLUME_KEYS: &str =
    "mode, read-cache, memory-cache, read-ahead, read-cutoff, write-cutoff, dirty-cap, cache-min, cache-max, local";

/// The settings of a pool for whoever completes a command line: those with few values with each of them.
pub(crate) fn pool_settings() -> Vec<String> {
    let values = |key: &str| match key {
        "io-type" => words_of(IoType::ALL),
        "policy" => words_of(PolicyKind::ALL),
        "fetch-rate" => words_of(FetchRate::ALL),
        "flush-rate" => words_of(FlushRate::ALL),
        "populate-on-read" => ["1", "2", "3", "4"].to_vec(),
        "populate-on-write" => ["0", "1", "2", "3", "4"].to_vec(),
        _ => vec![""],
    };
    written(POOL_KEYS, values)
}

/// The same of a volume.
pub(crate) fn volume_settings() -> Vec<String> {
    let values = |key: &str| match key {
        "mode" => words_of(WriteMode::ALL),
        "read-cache" | "memory-cache" | "local" => vec!["on", "off"],
        "read-ahead" => vec!["auto", "off"],
        _ => vec![""],
    };
    written(VOLUME_KEYS, values)
}

fn written(keys: &str, values: impl Fn(&str) -> Vec<&'static str>) -> Vec<String> {
    keys.split(", ").flat_map(|key| values(key).into_iter().map(move |value| format!("{key}={value}"))).collect()
}

fn words_of<T>(all: &'static [(T, &'static str)]) -> Vec<&'static str> {
    all.iter().map(|(_, word)| *word).collect()
}

/// One setting of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolSetting(PoolSet);

/// One setting of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeSetting(VolumeSet);

fn split<'a>(text: &'a str, known: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once('=').ok_or_else(|| format!("{text:?}: write KEY=VALUE; the keys are {known}"))
}

impl FromStr for PoolSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = split(text, POOL_KEYS)?;
        let mut set = PoolSet::default();
        match key {
            "io-type" => set.io_type = Some(words::io_type(word::<IoType>(value)?)),
            "policy" => set.policy = Some(words::policy(word::<PolicyKind>(value)?)),
            "fetch-rate" => set.fetch_rate = Some(words::fetch_rate(word::<FetchRate>(value)?)),
            "populate-on-read" => set.populate_on_read = Some(populate_on_read(value)?),
            "populate-on-write" => set.populate_on_write = Some(populate_on_write(value)?),
            "flush-rate" => set.flush_rate = Some(words::flush_rate(word::<FlushRate>(value)?)),
            "dirty-watermark" => set.dirty_watermark_percent = Some(dirty_watermark(value)?),
            "dirty-age" => set.dirty_age_max_seconds = Some(dirty_age(value)?),
            "block-size" | "block" | "type" | "checksums" => {
                return Err(format!(
                    "{key} cannot change online: `hotset pool convert NAME [--block-size SIZE] [--type TYPE] [--checksums \
                     on|off]` changes it in place, by flushing the pool first"
                ));
            }
            "name" => {
                return Err(
                    "the name of a pool cannot change: `hotset pool delete` flushes the pool and takes it away, \
                            `hotset pool create` makes it anew under the other name, and `hotset volume enable-cache` \
                            gives it its volumes again"
                        .to_owned(),
                );
            }
            "ssd-writes-per-day" => set.ssd_writes_per_day_bytes = Some(writes_per_day(value)?),
            _ => return Err(format!("a pool has no setting {key:?}; the keys are {POOL_KEYS}")),
        }
        Ok(Self(set))
    }
}

impl FromStr for VolumeSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = split(text, VOLUME_KEYS)?;
        let mut set = VolumeSet::default();
        match key {
            "mode" => set.write_mode = Some(words::write_mode(word::<WriteMode>(value)?)),
            "read-cache" => set.read_cache = Some(on_or_off(value)?),
            "memory-cache" => set.memory_cache = Some(on_or_off(value)?),
            "read-ahead" => set.read_ahead = Some(auto_or_off(value)?),
            "read-cutoff" => set.read_cutoff_bytes = Some(cutoff(value)?),
            "write-cutoff" => set.write_cutoff_bytes = Some(cutoff(value)?),
            "dirty-cap" => set.dirty_cap = Some(share(value, "auto")?),
            "cache-min" => set.cache_min = Some(share(value, "off")?),
            "cache-max" => set.cache_max = Some(share(value, "off")?),
            "local" => set.local = Some(on_or_off(value)?),
            _ => return Err(format!("a volume has no setting {key:?}; the keys are {VOLUME_KEYS}")),
        }
        Ok(Self(set))
    }
}

/// All settings in one request; of a key that is given twice, the last one counts.
pub(crate) fn pool_set(settings: &[PoolSetting]) -> PoolSet {
    settings.iter().fold(PoolSet::default(), |all, PoolSetting(one)| PoolSet {
        io_type: one.io_type.or(all.io_type),
        policy: one.policy.or(all.policy),
        populate_on_read: one.populate_on_read.or(all.populate_on_read),
        populate_on_write: one.populate_on_write.or(all.populate_on_write),
        fetch_rate: one.fetch_rate.or(all.fetch_rate),
        flush_rate: one.flush_rate.or(all.flush_rate),
        dirty_watermark_percent: one.dirty_watermark_percent.or(all.dirty_watermark_percent),
        dirty_age_max_seconds: one.dirty_age_max_seconds.or(all.dirty_age_max_seconds),
        ssd_writes_per_day_bytes: one.ssd_writes_per_day_bytes.or(all.ssd_writes_per_day_bytes),
    })
}

/// All settings in one request; of a key that is given twice, the last one counts.
pub(crate) fn volume_set(settings: &[VolumeSetting]) -> VolumeSet {
    settings.iter().fold(VolumeSet::default(), |all, VolumeSetting(one)| VolumeSet {
        read_cutoff_bytes: one.read_cutoff_bytes.or(all.read_cutoff_bytes),
        write_cutoff_bytes: one.write_cutoff_bytes.or(all.write_cutoff_bytes),
        write_mode: one.write_mode.or(all.write_mode),
        read_cache: one.read_cache.or(all.read_cache),
        memory_cache: one.memory_cache.or(all.memory_cache),
        read_ahead: one.read_ahead.or(all.read_ahead),
        dirty_cap: one.dirty_cap.or(all.dirty_cap),
        cache_min: one.cache_min.or(all.cache_min),
        cache_max: one.cache_max.or(all.cache_max),
        local: one.local.or(all.local),
        force: one.force || all.force,
    })
}

/// A word of the engine's; its error lists the words there are.
pub(crate) fn word<T: FromStr<Err = hotset_cache::Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: hotset_cache::Error| error.to_string())
}

/// Reads of a block until it is populated (REQUIREMENTS P8).
pub(crate) fn populate_on_read(text: &str) -> Result<u8, String> {
    let count = text.parse().ok().filter(|count| (1..=4).contains(count));
    count.ok_or_else(|| format!("populate-on-read {text:?}: it is 1 to 4"))
}

/// Writes of a block until it is populated (REQUIREMENTS P8); whether the pool's type allows 0 is judged there.
pub(crate) fn populate_on_write(text: &str) -> Result<u8, String> {
    let count = text.parse().ok().filter(|count| (0..=4).contains(count));
    count.ok_or_else(|| {
        format!("populate-on-write {text:?}: it is 0 (off) to 4 in a read pool, 1 to 4 in a read-write pool")
    })
}

/// A share of the dirty capacity in percent.
fn dirty_watermark(text: &str) -> Result<u8, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|percent| (1..=90).contains(percent));
    percent.ok_or_else(|| format!("dirty-watermark {text:?}: it is 1 to 90 percent of the dirty capacity"))
}

/// A time in seconds, with an optional suffix s, m, h or d.
fn dirty_age(text: &str) -> Result<u32, String> {
    let wrong = || format!("dirty-age {text:?}: it is a time from 1s to 30d, as 90s, 10m, 2h or 1d");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let unit_seconds = match suffix {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit_seconds));
    seconds.filter(|seconds| (1..=30 * 24 * 3600).contains(seconds)).ok_or_else(wrong)
}

pub(crate) fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text:?}: it is on or off")),
    }
}

fn auto_or_off(text: &str) -> Result<bool, String> {
    match text {
        "auto" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text:?}: it is auto or off")),
    }
}

/// A cut-off in bytes; 0 for `off`.
pub(crate) fn cutoff(text: &str) -> Result<u64, String> {
    if text == "off" {
        return Ok(0);
    }
    match text.parse::<Size>() {
        Ok(Size(0)) => Err("a cut-off of 0: write a size, as 4M, or off for no cut-off".to_owned()),
        Ok(Size(bytes)) => Ok(bytes),
        Err(message) => Err(format!("{message}; or off for no cut-off")),
    }
}

/// A size or a number of percent; no bytes for the word that means none.
fn share(text: &str, none: &str) -> Result<Share, String> {
    if text == none {
        return Ok(Share::Bytes(0));
    }
    let wrong = || format!("{text:?}: it is a size of 1M or more, 1% to 100%, or {none}");
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
        return percent.map(Share::Percent).ok_or_else(wrong);
    }
    at_least_a_mebibyte(text).map(Share::Bytes).ok_or_else(wrong)
}

/// In bytes; 0 for `off`.
fn writes_per_day(text: &str) -> Result<u64, String> {
    if text == "off" {
        return Ok(0);
    }
    at_least_a_mebibyte(text)
        .ok_or_else(|| format!("ssd-writes-per-day {text:?}: it is a size of 1M or more for all SSDs together, or off"))
}

fn at_least_a_mebibyte(text: &str) -> Option<u64> {
    text.parse::<Size>().ok().map(|size| size.0).filter(|bytes| *bytes >= limits::SHARE_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_pool_are_gathered_and_the_last_of_a_key_counts() {
        let parsed: Vec<PoolSetting> =
            ["policy=lru", "populate-on-read=3", "policy=fifo", "fetch-rate=high", "io-type=file-system"]
                .iter()
                .map(|text| text.parse().expect("a valid value of the test"))
                .collect();
        let set = pool_set(&parsed);
        assert_eq!(set.policy, Some(hotset_api::PolicyKind::Fifo));
        assert_eq!((set.populate_on_read, set.populate_on_write), (Some(3), None));
        assert_eq!(set.fetch_rate, Some(hotset_api::FetchRate::High));
        assert_eq!(set.io_type, Some(hotset_api::IoType::FileSystem));
    }

    #[test]
    fn what_is_offered_is_understood() {
        for (written, values) in [(pool_settings(), "s3-fifo"), (volume_settings(), "write-back")] {
            assert!(written.iter().any(|setting| setting.ends_with(values)), "{written:?}");
            for setting in written.iter().filter(|setting| !setting.ends_with('=')) {
                let understood = setting.parse::<PoolSetting>().is_ok() || setting.parse::<VolumeSetting>().is_ok();
                assert!(understood, "{setting}");
            }
        }
    }

    #[test]
    fn unknown_keys_and_wrong_values_list_what_there_is() {
        for (text, part) in [
            ("colour=red", "io-type, policy, populate-on-read"),
            ("policy", "KEY=VALUE"),
            ("policy=mru", "s3-fifo, lru, fifo, 2q, auto"),
            ("populate-on-read=0", "1 to 4"),
            ("populate-on-write=5", "0 (off) to 4"),
            ("fetch-rate=fast", "low, medium, high"),
            ("flush-rate=fast", "low, medium, high"),
            ("dirty-watermark=91", "1 to 90 percent"),
            ("dirty-age=31d", "from 1s to 30d"),
            ("dirty-age=0", "from 1s to 30d"),
            ("dirty-age=5w", "from 1s to 30d"),
            ("io-type=mail", "database, file-system, web-service, custom"),
            ("block-size=2M", "cannot change online: `hotset pool convert"),
            ("checksums=off", "cannot change online: `hotset pool convert"),
            ("name=q", "the name of a pool cannot change: `hotset pool delete`"),
            ("dirty-age=99999999999d", "from 1s to 30d"),
        ] {
            let message = text.parse::<PoolSetting>().expect_err(text);
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn cleaning_is_set_in_percent_and_in_any_unit_of_time() {
        let parsed: Vec<PoolSetting> = ["flush-rate=high", "dirty-watermark=40%", "dirty-age=2h"]
            .map(|text| text.parse().expect("a valid value of the test"))
            .to_vec();
        let set = pool_set(&parsed);
        assert_eq!(set.flush_rate, Some(hotset_api::FlushRate::High));
        assert_eq!((set.dirty_watermark_percent, set.dirty_age_max_seconds), (Some(40), Some(7200)));
    }

    #[test]
    fn write_modes_and_read_caching_are_set_by_their_words() {
        let mode = "mode=instant-write-back".parse::<VolumeSetting>().expect("a valid value of the test");
        let set = volume_set(&[mode, "read-cache=off".parse().expect("a valid value of the test")]);
        assert_eq!(set.write_mode, Some(hotset_api::WriteMode::InstantWriteBack));
        assert_eq!(set.read_cache, Some(false));
        for (text, part) in
            [("mode=fast", "write-back, instant-write-back, write-through"), ("read-cache=1", "on or off")]
        {
            let message = text.parse::<VolumeSetting>().expect_err(text);
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn shares_are_sizes_percent_or_none() {
        let settings = ["dirty-cap=10%", "cache-min=2G", "cache-max=off"]
            .map(|text| text.parse().expect("a valid value of the test"));
        let set = volume_set(&settings);
        assert_eq!(set.dirty_cap, Some(Share::Percent(10)));
        assert_eq!((set.cache_min, set.cache_max), (Some(Share::Bytes(2 << 30)), Some(Share::Bytes(0))));
        let auto = "dirty-cap=auto".parse::<VolumeSetting>().expect("a valid value of the test");
        assert_eq!(volume_set(&[auto]).dirty_cap, Some(Share::Bytes(0)));
        for text in ["dirty-cap=off", "cache-min=auto", "cache-max=0", "cache-max=101%", "cache-min=0%", "dirty-cap=4K"]
        {
            let message = text.parse::<VolumeSetting>().expect_err(text);
            assert!(message.contains("1% to 100%"), "{text}: {message}");
        }
    }

    #[test]
    fn what_may_be_written_in_a_day_is_a_size_or_off() {
        let parse =
            |text: &str| text.parse::<PoolSetting>().map(|setting| pool_set(&[setting]).ssd_writes_per_day_bytes);
        assert_eq!(parse("ssd-writes-per-day=2T"), Ok(Some(2 << 40)));
        assert_eq!(parse("ssd-writes-per-day=off"), Ok(Some(0)));
        assert!(parse("ssd-writes-per-day=0").expect_err("it has to be above 0").contains("all SSDs together"));
    }

    #[test]
    fn cutoffs_are_sizes_or_off_and_never_zero() {
        let off = "read-cutoff=off".parse::<VolumeSetting>().expect("a valid value of the test");
        let sized = "write-cutoff=2M".parse::<VolumeSetting>().expect("a valid value of the test");
        let set = volume_set(&[off, sized]);
        assert_eq!((set.read_cutoff_bytes, set.write_cutoff_bytes), (Some(0), Some(2 << 20)));
        for text in ["read-cutoff=0", "read-cutoff=big", "cutoff=1M"] {
            assert!(text.parse::<VolumeSetting>().is_err(), "{text}");
        }
    }
}
