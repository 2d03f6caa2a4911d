//! The `operations` verb, and how verbs that begin one follow it.

use std::pin::pin;

use hotset_api::{ApiError, ApiErrorKind, Operation, OperationCancelled, OperationKind, OperationList, OperationState};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::http::{Client, request};
use super::print::print;
use super::removal::{Shown, TICK, time_left};
use super::table::{Cell, Column, Listing};
use crate::args::{OperationsArguments, OperationsVerb, Output};
use crate::size::human;

pub(crate) fn run(
    client: &Client,
    output: Output,
    columns: Vec<String>,
    arguments: OperationsArguments,
) -> Result<(), ApiError> {
    match arguments.verb {
        None => {
            let list: OperationList = client.get("/operations")?;
            let listing = Listing { columns, table: arguments.table };
            let text = listing.render(COLUMNS, &list.operations, "No operations\n")?;
            print(output, &list, |_| text)
        }
        Some(OperationsVerb::Cancel { id }) => {
            let cancelled: OperationCancelled = client.delete(&format!("/operations/{id}"))?;
            print(output, &cancelled, |cancelled| match cancelled.changed {
                true => format!("Cancelled operation {id}\n"),
                false => format!("Operation {id} had ended before: {}\n", cancelled.operation.state.word()),
            })
        }
    }
}

/// Shows how far an operation is until it has ended; `doing` is what it does, as `Scrubbing`. Ctrl-C cancels it.
pub(super) fn follow(client: &Client, output: Output, id: u64, doing: &'static str) -> Result<Operation, ApiError> {
    let path = format!("/operations/{id}");
    client.block_on(async {
        let mut interrupt = interrupts()?;
        let mut shown = Shown::new(output, doing);
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let operation: Operation = request(client.door(), Method::GET, &path, Vec::new()).await?;
                    if operation.state != OperationState::Running {
                        shown.finish();
                        return Ok(operation);
                    }
                    let (done, total) = (operation.done_bytes, operation.total_bytes);
                    shown.at(done, total, operation.eta_seconds, || line(doing, &operation));
                }
                _ = interrupt.recv() => {
                    // The operation itself says what became of it.
                    let _ = request::<OperationCancelled>(client.door(), Method::DELETE, &path, Vec::new()).await;
                }
            }
        }
    })
}

/// Sends what is answered when an operation has ended; Ctrl-C cancels that meanwhile. Where there is none to be cancelled, it ends this command.
pub(super) fn send_cancellable<T: DeserializeOwned>(
    client: &Client,
    kind: OperationKind,
    name: &str,
    path: &str,
    body: &impl Serialize,
) -> Result<T, ApiError> {
    let body = serde_json::to_vec(body).expect("the API's types have string keys only");
    client.block_on(async {
        let mut interrupt = interrupts()?;
        let mut answer = pin!(request(client.door(), Method::POST, path, body));
        loop {
            tokio::select! {
                answer = &mut answer => return answer,
                _ = interrupt.recv() => {
                    if !cancel_running(client, kind, name).await? {
                        let message = "interrupted; what was asked for may still be done: look before you ask again";
                        return Err(ApiError::new(ApiErrorKind::Refused, message));
                    }
                }
            }
        }
    })
}

fn interrupts() -> Result<Signal, ApiError> {
    let failed = |error| ApiError::new(ApiErrorKind::Internal, format!("signals: {error}"));
    signal(SignalKind::interrupt()).map_err(failed)
}

/// Answers whether there was one.
async fn cancel_running(client: &Client, kind: OperationKind, name: &str) -> Result<bool, ApiError> {
    let list: OperationList = request(client.door(), Method::GET, "/operations", Vec::new()).await?;
    let is_it = |operation: &&Operation| {
        operation.kind == kind && operation.subject.name == name && operation.state == OperationState::Running
    };
    let Some(running) = list.operations.iter().find(is_it) else { return Ok(false) };
    let path = format!("/operations/{}", running.id);
    request::<OperationCancelled>(client.door(), Method::DELETE, &path, Vec::new()).await?;
    Ok(true)
}

/// How far an operation is, in one line.
fn line(doing: &str, operation: &Operation) -> String {
    format!("{doing} {}: {}", operation.subject.name, amounts(operation))
}

/// The same where nobody follows it: it is named by its number.
pub(super) fn how_far(operation: &Operation) -> String {
    format!("operation {}, {} of {}: {}", operation.id, operation.kind.word(), operation.subject, amounts(operation))
}

fn amounts(operation: &Operation) -> String {
    format!(
        "{} of {}, {}/s, {}",
        human(operation.done_bytes),
        human(operation.total_bytes),
        human(operation.rate_bytes_per_second),
        time_left(operation.eta_seconds)
    )
}

pub(super) const COLUMNS: &[Column<Operation>] = &[
    Column::new(">ID", |operation| Cell::Count(operation.id)),
    Column::new("OPERATION", |operation| Cell::Text(operation.kind.word().to_owned())),
    Column::new("SUBJECT", |operation| Cell::Text(operation.subject.to_string())),
    Column::new("STATE", |operation| Cell::Text(operation.state.word().to_owned())),
    Column::new(">DONE", |operation| Cell::Bytes(operation.done_bytes)),
    Column::new(">OF", |operation| Cell::Bytes(operation.total_bytes)),
    Column::new(">RATE/S", |operation| Cell::Bytes(operation.rate_bytes_per_second)),
    Column::new(">SECONDS LEFT", |operation| {
        let left = operation.eta_seconds.filter(|_| operation.state == OperationState::Running);
        left.map_or(Cell::Nothing, Cell::Count)
    }),
    Column::new("ASKED BY", |operation| match operation.asked_by.as_str() {
        "" => Cell::Nothing,
        who => Cell::Text(who.to_owned()),
    }),
    Column::new("WAITS", |operation| operation.waits_for.clone().map_or(Cell::Nothing, Cell::Text)),
    Column::new("REASON", |operation| {
        let error = operation.error.as_ref().map(ToString::to_string);
        Cell::Text(error.or_else(|| operation.began_because.clone()).unwrap_or_default())
    }),
];
