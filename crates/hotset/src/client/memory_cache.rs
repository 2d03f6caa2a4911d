//! The `memory-cache` verb.

use hotset_api::{ApiError, MemoryCache, MemoryCacheChange, MemoryCacheSet};
use hyper::Method;

use super::http::Client;
use super::print::print;
use super::table::facts;
use crate::args::{MemoryCacheVerb, Output};
use crate::size::human;

pub(crate) fn run(client: &Client, output: Output, verb: &MemoryCacheVerb) -> Result<(), ApiError> {
    match verb {
        MemoryCacheVerb::Show => print(output, &client.get::<MemoryCache>("/memory-cache")?, show),
        MemoryCacheVerb::Set { size } => {
            let set = MemoryCacheSet { size_bytes: size.bytes() };
            let change: MemoryCacheChange = client.send(Method::PUT, "/memory-cache", &set)?;
            print(output, &change, |MemoryCacheChange { changed, memory_cache }| {
                let is = if *changed { "is now" } else { "was already" };
                format!("The memory cache {is} {}\n", size_of(memory_cache))
            })
        }
    }
}

/// In a line, for `status` too.
pub(super) fn in_short(cache: &MemoryCache) -> String {
    match (cache.size_bytes, cache.allowed_bytes) {
        (0, _) => "off".to_owned(),
        (size, allowed) if allowed < size => format!(
            "{} used; memory is short: at most {} of its {} for now",
            human(cache.used_bytes),
            human(allowed),
            human(size)
        ),
        (size, _) => format!("{} used of {}", human(cache.used_bytes), human(size)),
    }
}

fn size_of(cache: &MemoryCache) -> String {
    if cache.size_bytes == 0 { "off".to_owned() } else { human(cache.size_bytes) }
}

fn show(cache: &MemoryCache) -> String {
    let configured = MemoryCache { size_bytes: cache.configured_bytes, ..*cache };
    let allowed = if cache.allowed_bytes < cache.size_bytes { human(cache.allowed_bytes) } else { String::new() };
    let set = cache.set_bytes.filter(|bytes| *bytes > cache.size_bytes);
    facts(&[
        ("Size", size_of(cache)),
        ("Set, more than there is memory for", set.map_or_else(String::new, human)),
        ("For now, memory being short", allowed),
        ("Used", human(cache.used_bytes)),
        ("By configuration", size_of(&configured)),
    ])
}
