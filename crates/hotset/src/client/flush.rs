//! The `flush` and `release` verbs of volumes and pools: what is dirty goes to the backing devices now, and stays so if that is wanted.

use hotset_api::{ApiError, HoldReleased, Operation, OperationKind, OperationStart};
use hyper::Method;

use super::http::Client;
use super::operations::follow;
use super::print::print;
use crate::args::{FlushArguments, Output};
use crate::size::human;

/// `what`: a volume or a pool.
pub(super) fn run(
    client: &Client,
    output: Output,
    kind: OperationKind,
    name: &str,
    arguments: &FlushArguments,
) -> Result<(), ApiError> {
    let what = if kind == OperationKind::FlushPool { "pool" } else { "volume" };
    let start = OperationStart { hold: arguments.hold, ..OperationStart::of(kind, name) };
    let operation: Operation = client.send(Method::POST, "/operations", &start)?;
    if arguments.background {
        return print(output, &operation, |operation| {
            format!("Operation {} flushes {what} {name}: `hotset operations` shows how far it is\n", operation.id)
        });
    }
    let ended = follow(client, output, operation.id, "Flushing")?;
    if let Some(error) = ended.error {
        return Err(error);
    }
    print(output, &ended, |ended| {
        let done = format!("Flushed {what} {name}: {} in {} s\n", human(ended.total_bytes), ended.elapsed_seconds);
        let held = format!("Nothing new stays dirty until `hotset {what} release {name}`\n");
        if arguments.hold { done + &held } else { done }
    })
}

pub(super) fn release(client: &Client, output: Output, what: &str, name: &str) -> Result<(), ApiError> {
    let released: HoldReleased = client.delete(&format!("/{what}s/{name}/hold"))?;
    print(output, &released, |released| match released.changed {
        true => format!("Released {what} {}: writes may stay dirty again\n", released.name),
        false => format!("Writes of {what} {} were not held\n", released.name),
    })
}
