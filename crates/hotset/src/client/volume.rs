//! The `volume` verbs.

use hotset_api::{
    ApiError, ApiErrorKind, BackingAccept, BackingEvidence, CacheEnable, Deleted, Explanation, HostClient,
    OperationKind, PoolKind, Share, Volume, VolumeChange, VolumeClear, VolumeCreate, VolumeList, VolumeRename,
    VolumeSet, VolumeState, VolumeStats,
};
use hotset_block::emulated::EmulatedArraySpec;
use hotset_counters::{Counter, Shown};
use hyper::Method;

use super::http::Client;
use super::print::print;
use super::table::{Cell, Column, Listing, facts, notes, on_off};
use super::{flush, removal};
use crate::args::{Output, VolumeVerb};
use crate::paths::absolute_backing;
use crate::settings::volume_set;
use crate::size::{Size, grouped, human, percent};
use crate::words;
use hotset_cache::advisor::figures::number;
use hotset_cache::date_and_time;

pub(crate) fn run(client: &Client, output: Output, columns: Vec<String>, verb: VolumeVerb) -> Result<(), ApiError> {
    match verb {
        VolumeVerb::Create { name, backing, pool, block, read_only, mode, read_cache } => {
            let backing = absolute_backing(&backing)
                .map_err(|error| ApiError::new(ApiErrorKind::Invalid, format!("backing device {backing}: {error}")))?;
            let request = VolumeCreate {
                name: name.to_string(),
                backing,
                pool: pool.map(|pool| pool.to_string()),
                logical_block_bytes: block,
                read_only,
                write_mode: mode.map(words::write_mode),
                read_cache,
            };
            let volume: Volume = client.send(Method::POST, "/volumes", &request)?;
            print(output, &volume, |volume| format!("Created volume {}\n{}", volume.name, show(volume)))
        }
        VolumeVerb::List(table) => {
            let list: VolumeList = client.get("/volumes")?;
            let text = listed(&list.volumes, &Listing { columns, table })?;
            print(output, &list, |_| text)
        }
        VolumeVerb::Show { name } => print(output, &client.get::<Volume>(&format!("/volumes/{name}"))?, show),
        VolumeVerb::Set { name, settings, force } => {
            let set = VolumeSet { force, ..volume_set(&settings) };
            let change = client.send(Method::PATCH, &format!("/volumes/{name}"), &set)?;
            print_change(output, &change, "Changed")
        }
        VolumeVerb::Grow { name } => {
            let change: VolumeChange = client.send(Method::POST, &format!("/volumes/{name}/growth"), &())?;
            print(output, &change, |VolumeChange { changed, volume }| match changed {
                true => format!(
                    "Volume {name} has {} now; hosts that are connected see the old size until they reconnect\n",
                    human(volume.size_bytes)
                ),
                false => format!("Volume {name} has {}, as its backing device\n", human(volume.size_bytes)),
            })
        }
        VolumeVerb::Clear { name } => {
            let clear: VolumeClear = client.send(Method::POST, &format!("/volumes/{name}/clear"), &())?;
            print(output, &clear, |VolumeClear { changed, doubtful, volume }| match (changed, doubtful) {
                (false, _) => format!("Backing device {} takes what it is given: nothing to clear\n", volume.backing),
                (true, false) => format!("Backing device {} is open again, and nothing is lost\n", volume.backing),
                (true, true) => format!(
                    "Backing device {} is open again. What hosts wrote to it past the cache after the last flush that succeeded \
                     may be lost: the next flush of each host is an error, so that it knows. Check its file system\n",
                    volume.backing
                ),
            })
        }
        VolumeVerb::Explain { name, offset: Size(offset) } => {
            let path = format!("/volumes/{name}/explanation?offset={offset}");
            print(output, &client.get::<Explanation>(&path)?, explanation)
        }
        VolumeVerb::AcceptBacking { name, force, dry_run } => {
            accept_backing(client, output, &name.to_string(), force, dry_run)
        }
        VolumeVerb::Rename { name, to } => {
            let body = VolumeRename { name: to.to_string() };
            let change = client.send(Method::PUT, &format!("/volumes/{name}/name"), &body)?;
            print_change(output, &change, "Renamed")
        }
        VolumeVerb::EnableCache { name, pool } => {
            let body = CacheEnable { pool: pool.to_string() };
            let change = client.send(Method::PUT, &format!("/volumes/{name}/cache"), &body)?;
            print_change(output, &change, "Enabled the cache of")
        }
        VolumeVerb::DisableCache { name, removal } => {
            let (path, flush) = (format!("/volumes/{name}/cache"), format!("/volumes/{name}/flush"));
            let change: VolumeChange = removal::remove(client, output, &path, &flush, removal)?;
            print_change(output, &change, "Disabled the cache of")?;
            if change.changed && !change.volume.clients.is_empty() && output == Output::Text {
                super::print::write_out(&format!("Hosts go on, uncached: {}\n", used_by(&change.volume)))?;
            }
            Ok(())
        }
        VolumeVerb::Delete { name, removal } => {
            let (path, flush) = (format!("/volumes/{name}"), format!("/volumes/{name}/flush"));
            let deleted: Deleted = removal::remove(client, output, &path, &flush, removal)?;
            print(output, &deleted, |deleted| format!("Deleted volume {}\n", deleted.deleted))
        }
        VolumeVerb::Flush { name, flush } => {
            flush::run(client, output, OperationKind::FlushVolume, name.as_str(), &flush)
        }
        VolumeVerb::Release { name } => flush::release(client, output, "volume", name.as_str()),
        VolumeVerb::CancelFlush { name } => {
            removal::cancel(client, output, "volume", &format!("/volumes/{name}/flush"))
        }
    }
}

fn explanation(known: &Explanation) -> String {
    let mut told = vec![
        ("Page", format!("{} to {} of volume {}", known.page_offset, known.page_offset + 4096, known.volume)),
        ("Read from", known.now.clone()),
        ("Memory cache", if known.in_memory { "has it" } else { "does not have it" }.to_owned()),
    ];
    if let Some(places) = &known.in_pool {
        let populated = match places.populate_on_write {
            0 => String::new(),
            writes => format!(", or written {writes} times"),
        };
        told.push(("Block", format!("{} in pool {}", places.block, places.pool)));
        told.push((
            "Counted",
            format!(
                "{} reads and {} writes of late; populated when it is read {} times{populated}",
                places.reads_counted, places.writes_counted, places.populate_on_read
            ),
        ));
        if let Some(slot) = &places.in_slot {
            let page = if slot.has_page { "with this page" } else { "without this page" };
            told.push(("Slot", format!("{} of SSD {}, {page}", slot.slot, slot.ssd)));
        }
        told.push(("Evicted", if places.was_evicted { "not long ago".to_owned() } else { String::new() }));
    }
    let forgotten = || "not known: no read did here, or others did elsewhere since".to_owned();
    told.push(("Missed last for", known.last_missed.map_or_else(forgotten, |reason| reason.word().to_owned())));
    told.push(("Would miss for", known.would_miss.map_or_else(String::new, |reason| reason.word().to_owned())));
    told.push(("What gets it in", known.then.clone()));
    facts(&told)
}

/// Shows what is known before anything is done.
fn accept_backing(client: &Client, output: Output, name: &str, force: bool, dry_run: bool) -> Result<(), ApiError> {
    let path = format!("/volumes/{name}/backing");
    let evidence: BackingEvidence = client.get(&path)?;
    if dry_run {
        return print(output, &evidence, evidence_text);
    }
    let change: VolumeChange = client.send(Method::PUT, &path, &BackingAccept { force })?;
    print(output, &change, |VolumeChange { changed, volume }| match changed {
        true => {
            format!("{}Accepted the backing device of volume {name}\n{}", evidence_text(&evidence), condition(volume))
        }
        false => {
            format!("Volume {name} is not fenced for its backing device: nothing to accept\n{}", condition(volume))
        }
    })
}

fn evidence_text(evidence: &BackingEvidence) -> String {
    let BackingEvidence { size_bytes_before: size_before, size_bytes: size, identity_before, identity, .. } = evidence;
    let size = if size == size_before {
        format!("{size} bytes, as before")
    } else {
        format!("{size} bytes, was {size_before}")
    };
    let name = match evidence.same_identity {
        Some(true) => format!("{identity}, as before"),
        Some(false) => format!("{identity}, was {identity_before}: another one"),
        None => format!("{identity}, was {identity_before}: the two names say nothing of each other"),
    };
    let (matching, changed) = (evidence.fingerprints_matching, evidence.fingerprints_changed.len());
    let judged = matching + u64::try_from(changed).expect("an address has 64 bits at most");
    let first =
        evidence.fingerprints_changed.first().map_or(String::new(), |byte| format!("; changed first at byte {byte}"));
    let fingerprints = format!(
        "{matching} of {judged} pages as before ({} of them not blank){first}; {} say nothing, for hosts may have written to them",
        evidence.fingerprints_telling, evidence.fingerprints_unsettled
    );
    let written = match evidence.written {
        Some(true) => "yes",
        Some(false) => "no",
        None => "cannot be told (no clean stop in this boot)",
    };
    facts(&[
        ("Size", size),
        ("Identity", name),
        ("Fingerprints", fingerprints),
        ("Written to since the stop", written.to_owned()),
        ("Dirty data that waits", human(evidence.dirty_bytes)),
        ("Against it", if evidence.against.is_empty() { "nothing".to_owned() } else { evidence.against.clone() }),
    ])
}

fn print_change(output: Output, change: &VolumeChange, done: &str) -> Result<(), ApiError> {
    print(output, change, |VolumeChange { changed, volume }| {
        let said = match changed {
            true => format!("{done} volume {}\n", volume.name),
            false => format!("Volume {} is already so\n", volume.name),
        };
        said + &condition(volume)
    })
}

pub(super) const COLUMNS: &[Column<Volume>] = &[
    Column::new("VOLUME", |volume| Cell::Text(volume.name.clone())),
    Column::new(">SIZE", |volume| Cell::Bytes(volume.size_bytes)),
    Column::new("STATE", |volume| Cell::Text(volume.state.word().to_owned())),
    Column::new("HEALTH", |volume| Cell::Text(volume.health.word().to_owned())),
    Column::new("CACHE", |volume| match cache(volume) {
        none if none.is_empty() => Cell::Nothing,
        said => Cell::Text(said),
    }),
    Column::new("POOL", |volume| volume.pool.clone().map_or(Cell::Nothing, Cell::Text)),
    Column::new(">CACHED", |volume| Cell::Bytes(volume.cache_used_bytes)),
    Column::new(">DIRTY", |volume| Cell::Bytes(volume.dirty_bytes)),
    Column::new(">HIT RATIO", |volume| Cell::Ratio(volume.stats.hit_ratio)),
    Column::new(">IN MEMORY", |volume| Cell::Ratio(memory_hit_ratio(&volume.stats))),
    Column::new("BACKING", |volume| Cell::Text(backing(volume))),
];

/// The list of volumes, and below it why a volume is not good, and what to do.
fn listed(volumes: &[Volume], listing: &Listing) -> Result<String, ApiError> {
    let mut text = listing.render(COLUMNS, volumes, "No volumes\n")?;
    if listing.is_plain() {
        text.extend(volumes.iter().map(condition));
    }
    Ok(text)
}

/// Why it is not good, and what to do; nothing if it is.
fn condition(volume: &Volume) -> String {
    notes(&volume.name, &[&volume.reason, &volume.action])
}

pub(super) fn backing(volume: &Volume) -> String {
    match volume.backing_emulated && !EmulatedArraySpec::is_spelled_by(&volume.backing) {
        true => format!("{} (emulated)", volume.backing),
        false => volume.backing.clone(),
    }
}

/// What its cache is doing, and how well; nothing without one.
fn cache(volume: &Volume) -> String {
    match (volume.cache_state, volume.cache_health) {
        (Some(state), Some(health)) => format!("{}, {}", state.word(), health.word()),
        (Some(_) | None, _) => String::new(),
    }
}

fn cutoff(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "off".to_owned(), human)
}

fn share(share: Share) -> String {
    match share {
        Share::Bytes(bytes) => human(bytes),
        Share::Percent(percent) => format!("{percent} %"),
    }
}

fn shares(volume: &Volume) -> String {
    match (volume.cache_min.map(share), volume.cache_max.map(share)) {
        (None, None) => "as it comes".to_owned(),
        (Some(min), None) => format!("{min} or more"),
        (None, Some(max)) => format!("{max} or less"),
        (Some(min), Some(max)) => format!("{min} to {max}"),
    }
}

fn data_at_risk(volume: &Volume) -> String {
    if volume.dirty_bytes == 0 && volume.state == VolumeState::Offline && volume.pool.is_some() {
        return "unknown while it is offline, if its pool takes writes".to_owned();
    }
    let age = volume.oldest_dirty_seconds.map_or_else(String::new, |seconds| format!(", the oldest for {seconds} s"));
    let lost = match volume.lost_bytes {
        0 => String::new(),
        lost => format!("; {} bytes of it are unavailable", grouped(lost)),
    };
    format!("{} ({} bytes){age}{lost}", human(volume.dirty_bytes), grouped(volume.dirty_bytes))
}

/// Where writes go now, and where they would go if its pool took them.
fn write_mode(volume: &Volume) -> String {
    let [now, set] =
        [volume.effective_write_mode, volume.write_mode].map(|mode| words::engine_write_mode(mode).to_string());
    if let Some(held) = &volume.writes_held {
        let since = date_and_time(held.since_unix_ms / 1000);
        let (by, name) = (&held.by, &volume.name);
        return format!("{now}: held since {since}, by {by}; `hotset volume release {name}` ends that (then {set})");
    }
    match volume.pool_type {
        _ if now == set => now,
        Some(_) => format!("{now}: its pool caches no writes ({set} in a read-write pool)"),
        None => format!("{now}: it has no cache ({set} in a read-write pool)"),
    }
}

/// Nothing where nothing can be dirty.
fn dirty_cap(volume: &Volume) -> String {
    match volume.pool_type {
        Some(PoolKind::ReadWrite) => {
            volume.dirty_cap.map_or_else(|| "auto: the pool's dirty capacity".to_owned(), share)
        }
        Some(PoolKind::Read) | None => String::new(),
    }
}

/// The hosts that are connected: who, by which protocol, since when.
fn used_by(volume: &Volume) -> String {
    let one = |client: &HostClient| {
        let since = date_and_time(client.since_unix_ms / 1000);
        format!("{} by {} since {since}", client.peer, client.protocol.word())
    };
    match volume.clients.as_slice() {
        [] => "no host".to_owned(),
        clients => clients.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// Nothing where it is none.
fn local_device(volume: &Volume) -> String {
    let Some(local) = &volume.local else { return String::new() };
    match (&local.device, local.connected) {
        (Some(device), true) => format!("{} ({device}, by {})", local.path, local.driver),
        (Some(device), false) => format!("{} ({device}, by {}): its requests wait", local.path, local.driver),
        (None, _) => format!("{}: it is not there", local.path),
    }
}

fn show(volume: &Volume) -> String {
    let mut lines = vec![
        ("Volume", volume.name.clone()),
        ("Backing device", backing(volume)),
        ("State", volume.state.word().to_owned()),
        ("Health", volume.health.word().to_owned()),
        ("Reason", volume.reason.clone()),
        ("What to do", volume.action.clone()),
        ("Advice", volume.advice.clone()),
        ("Cache", cache(volume)),
        ("Size", format!("{} ({} bytes)", human(volume.size_bytes), grouped(volume.size_bytes))),
        ("Logical block", human(volume.logical_block_bytes.into())),
        ("Read-only", if volume.read_only { "yes".to_owned() } else { String::new() }),
        ("Write mode", write_mode(volume)),
        ("Read caching", on_off(volume.read_cache)),
        ("Memory cache", on_off(volume.memory_cache)),
        ("Read-ahead", if volume.read_ahead { "auto" } else { "off" }.to_owned()),
        ("Read cut-off", cutoff(volume.read_cutoff_bytes)),
        ("Write cut-off", cutoff(volume.write_cutoff_bytes)),
        ("Dirty cap", dirty_cap(volume)),
        ("Share of the cache", shares(volume)),
        ("Pool", volume.pool.clone().unwrap_or_else(|| "none: served uncached".to_owned())),
        ("Cached", human(volume.cache_used_bytes)),
        ("Write cache", format!("{} used", human(volume.write_cache_used_bytes))),
        ("Data at risk", data_at_risk(volume)),
        ("Reach it at", volume.nbd.join("  ")),
        ("Local device", local_device(volume)),
        ("Used by", used_by(volume)),
    ];
    lines.extend(counted(&volume.stats));
    facts(&lines)
}

/// What was counted, by the table of counters.
fn counted(stats: &VolumeStats) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for (counter, count) in stats.counters() {
        let (caption, said) = match counter.shown {
            Shown::Line { caption, said } => {
                let number = if counter.is_bytes() { human(count) } else { grouped(count) };
                (caption, said.replace("{}", &number) + &beside(counter, stats))
            }
            Shown::Missed { .. } if lines.iter().any(|(known, _)| *known == MISSES) => continue,
            Shown::Missed { .. } => (MISSES, misses(stats)),
        };
        match lines.iter_mut().find(|(known, _)| *known == caption) {
            Some((_, line)) => line.push_str(&said),
            None => lines.push((caption, said)),
        }
    }
    lines
}

const MISSES: &str = "Misses";

/// The part of all reads that memory answered.
fn memory_hit_ratio(stats: &VolumeStats) -> f64 {
    if stats.reads == 0 { 0.0 } else { number(stats.memory_hits) / number(stats.reads) }
}

/// What follows from a counter and others, and is said with it.
fn beside(counter: &Counter, stats: &VolumeStats) -> String {
    match counter.name {
        "read_hits" => format!(" ({})", percent(stats.hit_ratio)),
        "memory_hits" => format!(", {} on SSDs", grouped(stats.read_hits - stats.memory_hits.min(stats.read_hits))),
        _ => String::new(),
    }
}

/// Reads that missed, by reason, the most frequent first.
fn misses(stats: &VolumeStats) -> String {
    let told = reasons(stats).into_iter().filter(|(_, count)| *count > 0);
    told.map(|(reason, count)| format!("{} {reason}", grouped(count))).collect::<Vec<_>>().join(", ")
}

/// Why reads missed, and how many for each reason, the most frequent first.
pub(super) fn reasons(stats: &VolumeStats) -> Vec<(&'static str, u64)> {
    let missed = stats.counters().filter_map(|(counter, count)| match counter.shown {
        Shown::Missed { reason } => Some((reason, count)),
        Shown::Line { .. } => None,
    });
    let mut reasons: Vec<(&'static str, u64)> = missed.collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: S2
    #[test]
    fn every_counter_is_shown_with_what_is_said_of_it_and_its_number() {
        let stats = VolumeStats {
            reads: 1336,
            read_bytes: 331 << 20,
            read_hits: 1257,
            memory_hits: 7,
            hit_ratio: 0.941,
            missed_evicted: 9,
            missed_share: 70,
            cleaned_bytes: 4096,
            moved_bytes: 8192,
            reinserted_bytes: 12_288,
            ..VolumeStats::default()
        };
        let lines = counted(&stats);
        let line = |caption: &str| lines.iter().find(|(known, _)| *known == caption).map(|(_, said)| said.as_str());
        assert_eq!(line("Reads"), Some("1,336 (331 MiB)"));
        assert_eq!(line("Read hits"), Some("1,257 (94.1 %)"));
        assert_eq!(line("Of them"), Some("7 in memory, 1,250 on SSDs"));
        assert_eq!(line("Misses"), Some("70 share, 9 evicted"));
        assert_eq!(line("Cleaned, moved, reinserted"), Some("4 KiB, 8 KiB, 12 KiB"));
        for (counter, _) in stats.counters() {
            let caption = match counter.shown {
                Shown::Line { caption, .. } => caption,
                Shown::Missed { .. } => MISSES,
            };
            assert!(line(caption).is_some(), "{counter:?}");
        }
    }
}
