//! The `pool scrub` verb: begins a scrub, and follows it to its end.

use hotset_api::{ApiError, Operation, OperationKind, OperationStart, Pool};
use hyper::Method;

use super::http::Client;
use super::operations::follow;
use super::print::print;
use crate::args::Output;
use crate::words::scrub_found;

pub(super) fn run(client: &Client, output: Output, name: &str, background: bool) -> Result<(), ApiError> {
    let start = OperationStart::of(OperationKind::Scrub, name);
    let operation: Operation = client.send(Method::POST, "/operations", &start)?;
    if background {
        return print(output, &operation, |operation| {
            format!("Operation {} scrubs pool {name}: `hotset operations` shows how far it is\n", operation.id)
        });
    }
    let ended = follow(client, output, operation.id, "Scrubbing")?;
    if let Some(error) = ended.error {
        return Err(error);
    }
    let pool: Pool = client.get(&format!("/pools/{name}"))?;
    print(output, &pool.scrub, |scrub| {
        format!("Scrubbed pool {name}: {}\n", scrub.map_or_else(|| "it was closed meanwhile".to_owned(), scrub_found))
    })
}
