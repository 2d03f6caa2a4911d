//! The verbs about a pool's SSDs and spares.

use std::path::PathBuf;

use hotset_api::{
    ApiError, Operation, OperationKind, OperationStart, OperationState, Pool, PoolChange, Progress, Spare, SsdsAdd,
    SsdsRemove,
};
use hyper::Method;

use super::http::Client;
use super::operations::{follow, send_cancellable};
use super::print::{absolute, print};
use super::table::Table;
use crate::args::{Output, SsdsArguments};
use crate::size::human;

/// Adds SSDs or spares, as the kind says; Ctrl-C cancels it until they are written.
pub(super) fn add(
    client: &Client,
    output: Output,
    arguments: &SsdsArguments,
    kind: OperationKind,
) -> Result<(), ApiError> {
    let what = if kind == OperationKind::AddSpares { "spares" } else { "ssds" };
    let name = &arguments.name;
    let ssds = arguments.ssd.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
    let body = SsdsAdd { ssds, force: arguments.force, allow_same_disk: arguments.allow_same_disk };
    let path = format!("/pools/{name}/{what}");
    let change: PoolChange = send_cancellable(client, kind, name.as_str(), &path, &body)?;
    print(output, &change, |change| format!("Pool {name} has {}\n", counted(&change.pool)))
}

pub(super) fn remove_spares(client: &Client, output: Output, name: &str, spares: &[String]) -> Result<(), ApiError> {
    let body = SsdsRemove { ssds: spares.iter().map(|spare| selector(spare)).collect() };
    let change: PoolChange = client.send(Method::DELETE, &format!("/pools/{name}/spares"), &body)?;
    print(output, &change, |change| format!("Pool {name} has {}\n", counted(&change.pool)))
}

/// Waits for the end, and tells how far it is, unless that goes on in the background; Ctrl-C cancels.
pub(super) fn remove(
    client: &Client,
    output: Output,
    name: &str,
    ssds: &[String],
    background: bool,
) -> Result<(), ApiError> {
    let ssds = ssds.iter().map(|ssd| selector(ssd)).collect();
    let start = OperationStart { ssds, ..OperationStart::of(OperationKind::RemoveSsds, name) };
    let operation: Operation = client.send(Method::POST, "/operations", &start)?;
    if background && operation.state == OperationState::Running {
        return print(output, &operation, |operation| {
            format!("Operation {} empties SSDs of pool {name}: `hotset operations` shows how far it is\n", operation.id)
        });
    }
    if let Some(error) = follow(client, output, operation.id, "Emptying SSDs of")?.error {
        return Err(error);
    }
    let change = PoolChange { changed: true, pool: client.get(&format!("/pools/{name}"))? };
    print(output, &change, |change| format!("Pool {name} has {}\n", counted(&change.pool)))
}

pub(super) fn cancel(client: &Client, output: Output, name: &str) -> Result<(), ApiError> {
    let change: PoolChange = client.delete(&format!("/pools/{name}/removal"))?;
    print(output, &change, |change| match change.changed {
        true => format!("The SSDs of pool {name} stay\n"),
        false => format!("No SSD is being removed from pool {name}\n"),
    })
}

/// How far something is, in one line.
pub(super) fn line(progress: &Progress) -> String {
    let eta = progress.eta_seconds.map_or_else(|| "time left unknown".to_owned(), |left| format!("{left} s left"));
    format!(
        "{} of {}, {}/s, {eta}",
        human(progress.done_bytes),
        human(progress.total_bytes),
        human(progress.bytes_per_second)
    )
}

pub(super) fn table(spares: &[Spare]) -> String {
    let mut table = Table::new(&["SPARE", ">SIZE", "REASON"]);
    for spare in spares {
        table.row(vec![spare.path.clone(), human(spare.size_bytes), spare.reason.clone()]);
    }
    table.render()
}

fn counted(pool: &Pool) -> String {
    let online = pool.ssds.iter().filter(|ssd| ssd.online).count();
    format!("{online} SSD(s) and {} spare(s)", pool.spares.len())
}

/// A path as the daemon knows it, or a UUID.
fn selector(word: &str) -> String {
    let is_uuid = word.len() == 32 && word.chars().all(|digit| digit.is_ascii_hexdigit());
    if is_uuid { word.to_owned() } else { absolute(&PathBuf::from(word)).unwrap_or_else(|_| word.to_owned()) }
}
