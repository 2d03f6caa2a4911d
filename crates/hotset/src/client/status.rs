//! The `status` verb.

use hotset_api::{ApiError, Health, Pool, PoolKind, Status};

use super::table::facts;
use super::{Client, pool, print, removal, volume};
use crate::args::{Output, StatusArguments};
use crate::size::{grouped, human};

/// The exit code: 0, or with `--check` also 1 for degraded and 2 for failed (a daemon that does not answer is failed).
pub(crate) fn run(client: &Client, output: Output, arguments: &StatusArguments) -> Result<u8, ApiError> {
    let status: Status = client.get("/status")?;
    print(output, &status, |status| show(status, arguments))?;
    Ok(if arguments.check { exit_code(status.health) } else { 0 })
}

fn exit_code(health: Health) -> u8 {
    match health {
        Health::Good => 0,
        Health::Degraded => 1,
        Health::Failed => 2,
    }
}

fn show(status: &Status, arguments: &StatusArguments) -> String {
    let mut text = facts(&[
        ("Health", status.health.word().to_owned()),
        ("Daemon", format!("version {}, process {}, up {}", status.version, status.pid, duration(status.uptime_s))),
        ("State directory", status.state_directory.clone()),
        ("Hosts connect to", status.nbd.join("  ")),
        ("Memory of pools", format!("{} of {}", human(status.memory_in_use_bytes), human(status.memory_limit_bytes))),
        ("Data at risk", data_at_risk(status)),
    ]);
    for reason in &status.reasons {
        text.push_str(&format!("  {reason}\n"));
    }
    for work in &status.work {
        text.push_str(&format!("  {}: {} of {}\n", work.what, human(work.done_bytes), human(work.total_bytes)));
    }
    for flush in &status.flushes {
        text.push_str(&format!("  {}\n", removal::line(flush)));
    }
    for line in status.pools.iter().filter_map(recovery) {
        text.push_str(&format!("  {line}\n"));
    }
    if !arguments.check {
        let (pools, ssds) = (pool::table(&status.pools), pool::ssd_table(&status.pools));
        text.push_str(&format!("\n{pools}{ssds}\n{}", volume::table(&status.volumes)));
    }
    text
}

/// Of read-write pools; without one, nothing can be at risk.
fn data_at_risk(status: &Status) -> String {
    if !status.pools.iter().any(|pool| pool.kind == PoolKind::ReadWrite) {
        return String::new();
    }
    let age = status.oldest_dirty_seconds.map_or_else(String::new, |age| format!(", the oldest for {}", duration(age)));
    format!("{} acknowledged and not yet on the backing devices{age}", human(status.dirty_bytes))
}

/// What the last start found of a read-write pool.
fn recovery(pool: &Pool) -> Option<String> {
    let log = pool.write_log.filter(|_| !pool.recovery.is_empty())?;
    Some(format!(
        "pool {}: recovery read {} of the write log in {} ms: {}",
        pool.name,
        human(log.recovered_bytes),
        grouped(log.recovery_ms),
        pool.recovery
    ))
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}
