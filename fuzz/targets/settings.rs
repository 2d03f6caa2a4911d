//! Names and words that people give: whatever is accepted is spelled again as it came, and nothing panics.
#![no_main]

use hotset_cache::config::{FetchRate, IoType, PolicyKind, PoolKind, PoolName, VolumeName, limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(name) = text.parse::<PoolName>() {
        assert!(name.as_str() == text && text.len() <= 16);
    }
    if let Ok(name) = text.parse::<VolumeName>() {
        assert!(name.as_str() == text && text.len() <= limits::VOLUME_NAME_BYTES_MAX);
    }
    let words = [
        text.parse::<PoolKind>().map(PoolKind::word),
        text.parse::<IoType>().map(IoType::word),
        text.parse::<PolicyKind>().map(PolicyKind::word),
        text.parse::<FetchRate>().map(FetchRate::word),
    ];
    for word in words.into_iter().flatten() {
        assert_eq!(word, text);
    }
});
