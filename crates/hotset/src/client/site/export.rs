//! The `export` verb: what is, as a site file that `apply` takes.

use hotset_api::{ApiError, MemoryCache, Pool, PoolKind, PoolList, PoolState, Ssd, Volume, VolumeList};

use super::super::http::Client;
use super::super::print::{print, write_out};
use super::file::MEMORY_CACHE;
use crate::args::Output;
use crate::escape::escaped_json;
use crate::spelled;
use crate::words;

pub(crate) fn run(client: &Client, output: Output) -> Result<(), ApiError> {
    // As they are: a file is no terminal.
    let pools: PoolList = client.get_exactly("/pools")?;
    let volumes: VolumeList = client.get_exactly("/volumes")?;
    let memory_cache: MemoryCache = client.get_exactly("/memory-cache")?;
    let site = site(&pools.pools, &volumes.volumes, &memory_cache);
    match output {
        Output::Text => write_out(&site),
        Output::Json => print(output, &serde_json::json!({ "site": site }), |_| String::new()),
    }
}

pub(super) fn site(pools: &[Pool], volumes: &[Volume], memory_cache: &MemoryCache) -> String {
    let mut text = "# Pools and volumes of Hotset, for `hotset apply`.\n".to_owned();
    let size = quoted(&spelled::memory_cache(memory_cache.set_bytes));
    text.push_str(&format!("\n[{MEMORY_CACHE}]\nsize = {size}\n"));
    pools.iter().for_each(|pool| text.push_str(&of_pool(pool)));
    volumes.iter().for_each(|volume| text.push_str(&of_volume(volume)));
    text
}

fn of_pool(pool: &Pool) -> String {
    if pool.state == PoolState::Offline {
        // What stands in its place would be taken for what it is set to.
        let (name, reason) = (quoted(&pool.name), quoted(&pool.reason));
        return format!("\n# Pool {name} is left out: it is offline, and how it is set is not known: {reason}\n");
    }
    let mut keys = vec![
        ("type", quoted(&words::engine_pool_kind(pool.kind).to_string())),
        ("block-size", quoted(&spelled::size(pool.block_size_bytes))),
        ("checksums", quoted(if pool.checksums { "on" } else { "off" })),
        ("ssds", list(pool.ssds.iter().map(|ssd| ssd.path.as_str()))),
        ("spares", list(pool.spares.iter().map(|spare| spare.path.as_str()))),
    ];
    if shares_a_disk(pool) {
        keys.push(("allow-same-disk", quoted("on")));
    }
    keys.extend(spelled::of_pool(pool).into_iter().map(|(key, value)| (key, quoted(&value))));
    table("pool", &pool.name, &keys)
}

/// It can be made only by who allows that: files beside each other are no block devices.
fn shares_a_disk(pool: &Pool) -> bool {
    let on_disks = || pool.ssds.iter().filter(|ssd| !ssd.disk.is_empty());
    let shares = |ssd: &&Ssd| on_disks().filter(|other| other.disk == ssd.disk).count() > 1;
    let is_block_device = |ssd: &Ssd| ssd.path.starts_with("/dev/");
    pool.kind == PoolKind::ReadWrite && on_disks().filter(shares).any(is_block_device)
}

fn of_volume(volume: &Volume) -> String {
    let mut keys = vec![("backing", quoted(&volume.backing))];
    keys.extend(volume.pool.as_ref().map(|pool| ("pool", quoted(pool))));
    keys.push(("block", volume.logical_block_bytes.to_string()));
    keys.push(("read-only", quoted(if volume.read_only { "on" } else { "off" })));
    keys.extend(spelled::of_volume(volume).into_iter().map(|(key, value)| (key, quoted(&value))));
    table("volume", &volume.name, &keys)
}

fn table(kind: &str, name: &str, keys: &[(&str, String)]) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let name = if plain { name.to_owned() } else { quoted(name) };
    let lines: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    format!("\n[{kind}.{name}]\n{lines}")
}

fn list<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", texts.map(quoted).collect::<Vec<_>>().join(", "))
}

/// As TOML quotes any text: a string of JSON is one of TOML, also where characters are escaped that a terminal would obey.
fn quoted(text: &str) -> String {
    escaped_json(&serde_json::Value::from(text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::escaped_lines;

    // proves: O2
    #[test]
    fn any_path_is_exported_as_what_it_is_and_obeyed_by_no_terminal() {
        let paths = ["/dev/sda", "a\"b\\c'd", "i\u{202e}m\u{9b}g\u{7f}\u{1b}[2J\n\t\u{0}", "é 表 \u{1f600}"];
        let text = table("volume", "v", &[("ssds", list(paths.into_iter()))]);
        assert_eq!(escaped_lines(&text), text);
        let read: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(read["volume"]["v"]["ssds"], toml::Value::from(paths.to_vec()));
    }
}
