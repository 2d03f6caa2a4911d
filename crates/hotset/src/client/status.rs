//! The `status` verb.

use hotset_api::{ApiError, Health, Status};

use super::table::facts;
use super::{Client, pool, print, volume};
use crate::args::{Output, StatusArguments};
use crate::size::human;

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
    ]);
    for reason in &status.reasons {
        text.push_str(&format!("  {reason}\n"));
    }
    for work in &status.work {
        text.push_str(&format!("  {}: {} of {}\n", work.what, human(work.done_bytes), human(work.total_bytes)));
    }
    if !arguments.check {
        text.push_str(&format!("\n{}\n{}", pool::table(&status.pools), volume::table(&status.volumes)));
    }
    text
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}
