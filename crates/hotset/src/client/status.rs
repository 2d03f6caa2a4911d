//! The `status` verb: pool by pool, what is so, what is wrong, what to do about it, and what is being done.

use hotset_api::{
    ApiError, ApiErrorKind, Condition, Health, Operation, OperationList, OperationState, Pool, PoolKind, PoolState,
    Ssd, SsdHealth, SsdState, Status, SubjectKind, Volume,
};

use super::http::Client;
use super::operations::how_far;
use super::print::print;
use super::table::{Table, facts, notes};
use super::{memory_cache, volume};
use crate::args::{Output, StatusArguments};
use crate::size::{grouped, human, percent};
use crate::words;
use hotset_cache::config::PoolName;
use hotset_cache::date_and_time;

/// The exit code: 0, or with `--check` also 1 for degraded and 2 for failed (a daemon that does not answer is failed).
pub(crate) fn run(client: &Client, output: Output, arguments: &StatusArguments) -> Result<u8, ApiError> {
    let status = chosen(client.get("/status")?, &arguments.pools)?;
    let some = !arguments.pools.is_empty();
    let running = match output {
        Output::Json => Vec::new(),
        Output::Text => running(client.get::<OperationList>("/operations")?),
    };
    print(output, &status, |status| match arguments.check {
        true => format!(
            "{}{}",
            if some { String::new() } else { of_the_daemon(status) },
            status.reasons.iter().map(|reason| indented(reason)).collect::<String>()
        ),
        false if some => pools_of(status, &running).trim_start().to_owned(),
        false => show(status, &running),
    })?;
    Ok(if arguments.check { exit_code(status.health) } else { 0 })
}

/// Of these pools alone: themselves, their volumes, and their health; everything, if none is named.
fn chosen(mut status: Status, pools: &[PoolName]) -> Result<Status, ApiError> {
    if pools.is_empty() {
        return Ok(status);
    }
    if let Some(unknown) = pools.iter().find(|name| !status.pools.iter().any(|pool| pool.name == name.as_str())) {
        return Err(ApiError::new(ApiErrorKind::NotFound, format!("pool {unknown}: there is no such pool")));
    }
    status.pools.retain(|pool| pools.iter().any(|name| name.as_str() == pool.name));
    status.volumes.retain(|volume| status.pools.iter().any(|pool| pool.volumes.contains(&volume.name)));
    let named = |condition: &Condition| match condition.subject.kind {
        SubjectKind::Pool => status.pools.iter().any(|pool| pool.name == condition.subject.name),
        SubjectKind::Volume => status.volumes.iter().any(|volume| volume.name == condition.subject.name),
        SubjectKind::Ssd => {
            status.pools.iter().any(|pool| pool.ssds.iter().any(|ssd| ssd.uuid == condition.subject.name))
        }
        SubjectKind::Daemon => false,
    };
    status.conditions.retain(named);
    let healths = status.pools.iter().map(|pool| pool.health).chain(status.volumes.iter().map(|volume| volume.health));
    let healths = healths.chain(status.conditions.iter().map(|condition| condition.health));
    status.health = healths.max_by_key(|health| exit_code(*health)).unwrap_or(Health::Good);
    let said = |what: &str, name: &str, reason: &str| (!reason.is_empty()).then(|| format!("{what} {name}: {reason}"));
    let pools = status.pools.iter().filter_map(|pool| said("pool", &pool.name, &pool.reason));
    status.reasons =
        pools.chain(status.volumes.iter().filter_map(|volume| said("volume", &volume.name, &volume.reason))).collect();
    Ok(status)
}

fn running(list: OperationList) -> Vec<Operation> {
    list.operations.into_iter().filter(|operation| operation.state == OperationState::Running).collect()
}

fn exit_code(health: Health) -> u8 {
    match health {
        Health::Good => 0,
        Health::Degraded => 1,
        Health::Failed => 2,
    }
}

fn show(status: &Status, running: &[Operation]) -> String {
    let mut text = of_the_daemon(status);
    // What concerns a pool or a volume is told with it.
    let of_the_daemon = status.conditions.iter().filter(|condition| condition.subject.kind == SubjectKind::Daemon);
    for Condition { kind, reason, action, since_unix_ms, .. } in of_the_daemon {
        let since = date_and_time(since_unix_ms / 1000);
        text.push_str(&indented(&format!("{}, since {since}: {reason}\n  {action}", kind.word())));
    }
    text.push_str(&pools_of(status, running));
    let uncached = |volume: &&Volume| !status.pools.iter().any(|pool| pool.volumes.contains(&volume.name));
    let uncached: Vec<&Volume> = status.volumes.iter().filter(uncached).collect();
    if !uncached.is_empty() {
        text.push_str(&format!("\nVolumes without a cache\n\n{}", volumes_of(&uncached, None)));
    }
    if status.pools.is_empty() {
        text.push_str("\nNo pools: `hotset pool create` makes one\n");
    }
    text
}

fn pools_of(status: &Status, running: &[Operation]) -> String {
    let one = |pool: &Pool| {
        let volumes: Vec<&Volume> = pool.volumes.iter().filter_map(|name| named(&status.volumes, name)).collect();
        format!("\n{}", show_pool(pool, &volumes, running))
    };
    status.pools.iter().map(one).collect()
}

fn of_the_daemon(status: &Status) -> String {
    facts(&[
        ("Health", status.health.word().to_owned()),
        ("Daemon", format!("version {}, process {}, up {}", status.version, status.pid, duration(status.uptime_s))),
        ("State directory", status.state_directory.clone()),
        ("Hosts connect to", status.nbd.join("  ")),
        ("Threads", status.threads.to_string()),
        ("Memory of pools", format!("{} of {}", human(status.memory_in_use_bytes), human(status.memory_limit_bytes))),
        ("Memory cache", memory_cache::in_short(&status.memory_cache)),
        ("Data at risk", data_at_risk(status)),
    ])
}

/// Of read-write pools; without one, nothing can be at risk.
fn data_at_risk(status: &Status) -> String {
    if !status.pools.iter().any(|pool| pool.kind == PoolKind::ReadWrite) {
        return String::new();
    }
    let age = status.oldest_dirty_seconds.map_or_else(String::new, |age| format!(", the oldest for {}", duration(age)));
    let known = format!("{} acknowledged and not yet on the backing devices{age}", human(status.dirty_bytes));
    // What is on SSDs that are not read is known to nobody.
    let closed: Vec<&str> = status.pools.iter().filter(|pool| is_closed(pool)).map(|pool| pool.name.as_str()).collect();
    if closed.is_empty() { known } else { format!("{known}, and what is unknown of pool {}", closed.join(", pool ")) }
}

/// It may hold dirty data, and nobody reads it.
fn is_closed(pool: &Pool) -> bool {
    pool.kind == PoolKind::ReadWrite && pool.state == PoolState::Offline
}

fn show_pool(pool: &Pool, volumes: &[&Volume], running: &[Operation]) -> String {
    let kind = words::engine_pool_kind(pool.kind);
    let mut text = format!("Pool {}: {kind}, {}, {}\n", pool.name, pool.state.word(), pool.health.word());
    let mut lines = vec![("reason", pool.reason.clone()), ("action", pool.action.clone())];
    lines.extend(pool.warnings.iter().map(|warning| ("warning", warning.clone())));
    lines.extend(running.iter().filter(|operation| concerns(operation, pool)).map(|one| ("running", how_far(one))));
    if pool.state != PoolState::Offline {
        lines.push(("capacity", capacity(pool)));
        lines.push(("scrub", words::last_scrub(pool.scrub)));
        lines.push(("start", recovery(pool)));
    }
    for (what, said) in lines.iter().filter(|(_, said)| !said.is_empty()) {
        text.push_str(&format!("  {:<10}{said}\n", format!("{what}:")));
    }
    text.push_str(&format!("\n{}", ssds_of(pool)));
    if !volumes.is_empty() {
        text.push_str(&format!("\n{}", volumes_of(volumes, Some(pool))));
    }
    text.push_str(&format!("\n  errors:   {}\n", errors(pool, volumes)));
    text
}

/// Of the pool, or of one of its volumes.
fn concerns(operation: &Operation, pool: &Pool) -> bool {
    let name = &operation.subject.name;
    match operation.subject.kind {
        SubjectKind::Pool => *name == pool.name,
        SubjectKind::Volume => pool.volumes.contains(name),
        SubjectKind::Ssd | SubjectKind::Daemon => false,
    }
}

fn capacity(pool: &Pool) -> String {
    let cached = format!("{} of {} cached", human(pool.used_bytes), human(pool.capacity_bytes));
    let Some(log) = pool.write_log else { return cached };
    let dirty = format!("{} of {} dirty", human(log.dirty_bytes), human(log.dirty_capacity_bytes));
    let off = if log.write_caching_off { "; new writes go past the cache" } else { "" };
    format!("{cached}, {dirty}{off}")
}

/// What the last start found of a read-write pool.
fn recovery(pool: &Pool) -> String {
    let Some(log) = pool.write_log.filter(|_| !pool.recovery.is_empty()) else { return String::new() };
    format!(
        "recovery read {} of the write log in {} ms: {}",
        human(log.recovered_bytes),
        grouped(log.recovery_ms),
        pool.recovery
    )
}

/// What went wrong since the pool and its volumes were opened, whoever noticed.
fn errors(pool: &Pool, volumes: &[&Volume]) -> String {
    let of_hosts: u64 = volumes.iter().map(|volume| volume.stats.errors).sum();
    let of_ssds: u64 = pool.ssds.iter().map(|ssd| ssd.read_errors).sum();
    let lost = pool.scrub.map_or(0, |scrub| scrub.lost_pages);
    let found = [
        (lost, "dirty pages without a good copy"),
        (of_hosts, "requests of hosts that failed"),
        (of_ssds, "errors of SSDs that were made good, unseen by hosts"),
    ];
    let said: Vec<String> = found
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{what}: {}", grouped(*count)))
        .collect();
    if said.is_empty() { "none".to_owned() } else { said.join("; ") }
}

/// SSDs and spares, and under the table what to do about those that need it.
fn ssds_of(pool: &Pool) -> String {
    let mut table = Table::new(&["SSD", "STATE", "HEALTH", ">SIZE", ">READ ERRORS", ">WRITTEN", "NOTE"]);
    for ssd in &pool.ssds {
        table.row(vec![
            ssd.path.clone(),
            ssd.state.word().to_owned(),
            ssd.health.word().to_owned(),
            human(ssd.size_bytes),
            grouped(ssd.read_errors),
            human(ssd.written_bytes),
            note(ssd),
        ]);
    }
    for spare in &pool.spares {
        let state = if spare.present { "spare" } else { "missing" };
        let mut row = vec![spare.path.clone(), state.to_owned(), "-".to_owned(), human(spare.size_bytes)];
        row.extend(["-".to_owned(), "-".to_owned(), spare.reason.clone()]);
        table.row(row);
    }
    let mut text = indented(&table.render());
    // What ends by itself is said of the pool.
    for ssd in pool.ssds.iter().filter(|ssd| !ends_by_itself(ssd)) {
        text.push_str(&indented(&notes(&ssd.path, &[&ssd.action])));
    }
    text
}

/// There is nothing to do but wait.
fn ends_by_itself(ssd: &Ssd) -> bool {
    match ssd.state {
        SsdState::Flushing => true,
        SsdState::Rebuilding => !matches!(ssd.health, SsdHealth::ErrorAlert | SsdHealth::ReadErrors),
        SsdState::Online
        | SsdState::Silent
        | SsdState::NoSpace
        | SsdState::ReadOnly
        | SsdState::Offline
        | SsdState::Missing
        | SsdState::Expelled => false,
    }
}

fn note(ssd: &Ssd) -> String {
    match ssd.evacuation {
        Some(progress) => super::members::line(&progress),
        None => ssd.reason.clone(),
    }
}

/// What was said of their pool is not said again of each.
fn volumes_of(volumes: &[&Volume], pool: Option<&Pool>) -> String {
    let said = pool.map_or("", |pool| &pool.reason);
    let is_unknown = pool.is_some_and(is_closed);
    let dirty = |volume: &Volume| if is_unknown { "?".to_owned() } else { human(volume.dirty_bytes) };
    let headings =
        ["VOLUME", "STATE", "CACHE", "CACHE HEALTH", ">SIZE", ">CACHED", ">DIRTY", ">HIT RATIO", ">ERRORS", "BACKING"];
    let mut table = Table::new(&headings);
    for volume in volumes {
        table.row(vec![
            volume.name.clone(),
            volume.state.word().to_owned(),
            volume.cache_state.map_or("-", |state| state.word()).to_owned(),
            volume.cache_health.map_or("-", |health| health.word()).to_owned(),
            human(volume.size_bytes),
            human(volume.cache_used_bytes),
            dirty(volume),
            percent(volume.stats.hit_ratio),
            grouped(volume.stats.errors),
            volume::backing(volume),
        ]);
    }
    let mut text = indented(&table.render());
    for volume in volumes.iter().filter(|volume| !volume.reason.is_empty() && !said.starts_with(&volume.reason)) {
        text.push_str(&indented(&notes(&volume.name, &[&volume.reason, &volume.action])));
    }
    text
}

fn named<'a>(volumes: &'a [Volume], name: &str) -> Option<&'a Volume> {
    volumes.iter().find(|volume| volume.name == name)
}

/// Every line by two spaces.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}
