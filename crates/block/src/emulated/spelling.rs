//! How an emulated array is spelled: `emulated:disks=16,level=raid5,size=8G,file=PATH[,KEY=VALUE...]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::layout::Level;
use super::parameters::{Parameters, Preset};

/// What the spelling starts with.
const PREFIX: &str = "emulated:";

/// The largest size that can be spelled: 2^56 bytes keep all sums of addresses far from overflow.
const SIZE_BYTES_MAX: u64 = 1 << 56;

/// The units of sizes and rates, largest first within each system.
const UNITS: [(&str, u64); 9] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("", 1),
];

/// An emulated array and the file that stores its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatedArraySpec {
    pub parameters: Parameters,
    pub file: PathBuf,
}

impl EmulatedArraySpec {
    /// Whether `text` means an emulated array rather than the path of a device.
    pub fn is_spelled_by(text: &str) -> bool {
        text.starts_with(PREFIX)
    }
}

/// What the spelling of something emulated begins with, and its keys behind that. `None`: the text is the path of a device.
pub fn split_spelling(text: &str) -> Option<(&'static str, &str)> {
    let kinds = [PREFIX, super::ssd::PREFIX];
    kinds.into_iter().find_map(|kind| Some((kind, text.strip_prefix(kind)?)))
}

/// What is wrong with a spelling, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpellingError {
    message: String,
}

impl fmt::Display for SpellingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SpellingError {}

pub(super) fn refuse(message: impl Into<String>) -> SpellingError {
    SpellingError { message: message.into() }
}

/// The keys, in the order of the canonical spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Preset,
    Disks,
    Level,
    Size,
    File,
    Span,
    Chunk,
    Rpm,
    SeekMin,
    SeekMax,
    Rate,
    Ncq,
    DiskCache,
    ControllerCache,
}

impl Key {
    const ALL: [Self; 14] = [
        Self::Preset,
        Self::Disks,
        Self::Level,
        Self::Size,
        Self::File,
        Self::Span,
        Self::Chunk,
        Self::Rpm,
        Self::SeekMin,
        Self::SeekMax,
        Self::Rate,
        Self::Ncq,
        Self::DiskCache,
        Self::ControllerCache,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Preset => "preset",
            Self::Disks => "disks",
            Self::Level => "level",
            Self::Size => "size",
            Self::File => "file",
            Self::Span => "span",
            Self::Chunk => "chunk",
            Self::Rpm => "rpm",
            Self::SeekMin => "seek-min",
            Self::SeekMax => "seek-max",
            Self::Rate => "rate",
            Self::Ncq => "ncq",
            Self::DiskCache => "disk-cache",
            Self::ControllerCache => "controller-cache",
        }
    }

    /// What the key takes, for the error.
    fn allowed(self) -> &'static str {
        match self {
            Self::Preset => "b1, b6 or b9",
            Self::Disks => "a number from 1 to 64",
            Self::Level => "raid0, raid5, raid6 or raid10",
            Self::Size => "a multiple of 4K such as 8G, at most 65536T",
            Self::File => "a path without a comma",
            Self::Span => "a size of at least size=, at most 65536T",
            Self::Chunk => "a power of two from 4K to 16M",
            Self::Rpm => "a number from 1000 to 30000",
            Self::SeekMin | Self::SeekMax => "a time from 10us to 100ms, such as 800us or 8.5ms",
            Self::Rate => "bytes per second from 1M to 10G, such as 180MB",
            Self::Ncq => "a number from 1 to 256",
            Self::DiskCache => "off, or a size from 1M to 16G",
            Self::ControllerCache => "off, or a size from 16M to 1T",
        }
    }
}

/// The values as they were spelled, each at most once.
struct Pairs<'a> {
    pairs: Vec<(Key, &'a str)>,
}

impl<'a> Pairs<'a> {
    fn parse(text: &'a str) -> Result<Self, SpellingError> {
        let list = text
            .strip_prefix(PREFIX)
            .ok_or_else(|| refuse(format!("an emulated array is spelled `{PREFIX}KEY=VALUE,...`, not `{text}`")))?;
        let mut pairs: Vec<(Key, &str)> = Vec::new();
        for item in list.split(',') {
            let (name, value) = item
                .split_once('=')
                .ok_or_else(|| refuse(format!("`{item}` of an emulated array is not of the form KEY=VALUE")))?;
            let key = Key::ALL.into_iter().find(|key| key.name() == name).ok_or_else(|| unknown(name))?;
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(refuse(format!("`{name}` of an emulated array is given twice")));
            }
            pairs.push((key, value));
        }
        Ok(Self { pairs })
    }

    fn text(&self, key: Key) -> Option<&'a str> {
        self.pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// The value of `key` if it is there; an error if `parse` does not take it.
    fn get<T>(&self, key: Key, parse: impl FnOnce(&'a str) -> Option<T>) -> Result<Option<T>, SpellingError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| wrong(key, text))
    }

    fn set<T>(&self, key: Key, field: &mut T, parse: impl FnOnce(&'a str) -> Option<T>) -> Result<(), SpellingError> {
        if let Some(value) = self.get(key, parse)? {
            *field = value;
        }
        Ok(())
    }
}

fn unknown(name: &str) -> SpellingError {
    let names: Vec<&str> = Key::ALL.iter().map(|key| key.name()).collect();
    refuse(format!("an emulated array has no `{name}`; it has {}", names.join(", ")))
}

fn wrong(key: Key, text: &str) -> SpellingError {
    refuse(format!("`{}={text}` of an emulated array: {} is expected", key.name(), key.allowed()))
}

fn missing(key: Key) -> SpellingError {
    refuse(format!("an emulated array needs `{}=`: {}", key.name(), key.allowed()))
}

impl FromStr for EmulatedArraySpec {
    type Err = SpellingError;

    fn from_str(text: &str) -> Result<Self, SpellingError> {
        let pairs = Pairs::parse(text)?;
        let file = pairs.get(Key::File, |text| (!text.is_empty()).then(|| PathBuf::from(text)))?;
        let file = file.ok_or_else(|| missing(Key::File))?;
        let size = pairs.get(Key::Size, |text| parse_size(text).filter(|size| is_volume_size(*size)))?;
        let size_bytes = size.ok_or_else(|| missing(Key::Size))?;
        let preset = pairs.get(Key::Preset, |text| Preset::ALL.into_iter().find(|preset| preset.name() == text))?;
        if preset.is_none() {
            for key in [Key::Disks, Key::Level] {
                pairs.text(key).ok_or_else(|| missing(key))?;
            }
        }
        let mut parameters = preset.unwrap_or(Preset::B1).parameters(size_bytes);
        // A preset's span is a multiple of the size, which may be more than can be spelled.
        parameters.span_bytes = parameters.span_bytes.min(SIZE_BYTES_MAX);
        read_shape(&pairs, &mut parameters)?;
        read_disks(&pairs, &mut parameters)?;
        check(&parameters)?;
        Ok(Self { parameters, file })
    }
}

fn read_shape(pairs: &Pairs<'_>, parameters: &mut Parameters) -> Result<(), SpellingError> {
    let chunk = |text| parse_size(text).filter(|size| size.is_power_of_two() && (4 << 10..=16 << 20).contains(size));
    pairs.set(Key::Disks, &mut parameters.disks, |text| parse_number(text, 1, 64))?;
    pairs.set(Key::Level, &mut parameters.level, |text| text.parse().ok())?;
    pairs.set(Key::Span, &mut parameters.span_bytes, |text| parse_size(text).filter(|size| *size <= SIZE_BYTES_MAX))?;
    pairs.set(Key::Chunk, &mut parameters.chunk_bytes, chunk)?;
    let cache = |text| parse_cache(text, 16 << 20, 1 << 40);
    pairs.set(Key::ControllerCache, &mut parameters.controller_cache_bytes, cache)
}

fn read_disks(pairs: &Pairs<'_>, parameters: &mut Parameters) -> Result<(), SpellingError> {
    let rate = |text| parse_size(text).filter(|rate| (1 << 20..=10 << 30).contains(rate));
    pairs.set(Key::Rpm, &mut parameters.rpm, |text| parse_number(text, 1000, 30_000))?;
    pairs.set(Key::SeekMin, &mut parameters.seek_min_us, parse_time_us)?;
    pairs.set(Key::SeekMax, &mut parameters.seek_max_us, parse_time_us)?;
    pairs.set(Key::Rate, &mut parameters.rate, rate)?;
    pairs.set(Key::Ncq, &mut parameters.ncq, |text| parse_number(text, 1, 256))?;
    pairs.set(Key::DiskCache, &mut parameters.disk_cache_bytes, |text| parse_cache(text, 1 << 20, 16 << 30))
}

/// What no key can say alone.
fn check(parameters: &Parameters) -> Result<(), SpellingError> {
    let (disks, level) = (parameters.disks, parameters.level);
    if disks < level.disks_min() {
        let message = format!("`disks={disks}` of an emulated array: {level} needs {} or more", level.disks_min());
        return Err(refuse(message));
    }
    if level == Level::Raid10 && disks % 2 == 1 {
        return Err(refuse(format!("`disks={disks}` of an emulated array: raid10 needs an even number")));
    }
    if parameters.span_bytes < parameters.size_bytes {
        return Err(wrong(Key::Span, &spell_size(parameters.span_bytes)));
    }
    if parameters.seek_min_us > parameters.seek_max_us {
        let (least, most) = (spell_time(parameters.seek_min_us), spell_time(parameters.seek_max_us));
        return Err(refuse(format!("`seek-min={least}` of an emulated array is more than `seek-max={most}`")));
    }
    Ok(())
}

impl fmt::Display for EmulatedArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameters { disks, level, rpm, ncq, .. } = &self.parameters;
        let size = spell_size(self.parameters.size_bytes);
        write!(f, "{PREFIX}disks={disks},level={level},size={size},file={}", self.file.display())?;
        write!(f, ",span={}", spell_size(self.parameters.span_bytes))?;
        write!(f, ",chunk={},rpm={rpm}", spell_size(self.parameters.chunk_bytes))?;
        write!(f, ",seek-min={}", spell_time(self.parameters.seek_min_us))?;
        write!(f, ",seek-max={}", spell_time(self.parameters.seek_max_us))?;
        write!(f, ",rate={},ncq={ncq}", spell_size(self.parameters.rate))?;
        write!(f, ",disk-cache={}", spell_cache(self.parameters.disk_cache_bytes))?;
        write!(f, ",controller-cache={}", spell_cache(self.parameters.controller_cache_bytes))
    }
}

fn is_volume_size(size: u64) -> bool {
    size > 0 && size.is_multiple_of(4096) && size <= SIZE_BYTES_MAX
}

pub(super) fn parse_number(text: &str, least: u32, most: u32) -> Option<u32> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = split_unit(text);
    let (_, factor) = UNITS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn parse_cache(text: &str, least: u64, most: u64) -> Option<u64> {
    if text == "off" {
        return Some(0);
    }
    parse_size(text).filter(|size| (least..=most).contains(size))
}

/// A time in microseconds, exactly.
pub(super) fn parse_time_us(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let time_us = match unit {
        "us" if fraction.is_empty() => whole.parse().ok()?,
        "ms" if fraction.len() <= 3 => format!("{whole}{fraction:0<3}").parse().ok()?,
        _ => return None,
    };
    (10..=100_000).contains(&time_us).then_some(time_us)
}

/// The number and the letters after it.
fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// In the unit that needs the fewest digits.
pub(super) fn spell_size(bytes: u64) -> String {
    let exact = UNITS.iter().filter(|(_, factor)| bytes.is_multiple_of(*factor));
    let spelled = exact.map(|(unit, factor)| (bytes / factor, unit)).min_by_key(|(number, _)| *number);
    spelled.map_or_else(|| bytes.to_string(), |(number, unit)| format!("{number}{unit}"))
}

fn spell_cache(bytes: u64) -> String {
    if bytes == 0 { "off".to_owned() } else { spell_size(bytes) }
}

pub(super) fn spell_time(time_us: u64) -> String {
    if time_us.is_multiple_of(1000) { format!("{}ms", time_us / 1000) } else { format!("{time_us}us") }
}
