//! The `pool scrub` verb: begins a scrub, and follows it to its end.

use hotset_api::{
    ApiError, ApiErrorKind, Operation, OperationCancelled, OperationKind, OperationStart, OperationState, Pool, Scrub,
    ScrubState,
};
use hyper::Method;
use tokio::signal::unix::{SignalKind, signal};

use super::http::{Client, request};
use super::print;
use super::removal::{Shown, TICK};
use crate::args::Output;
use crate::size::{grouped, human};

pub(super) fn run(client: &Client, output: Output, name: &str, background: bool) -> Result<(), ApiError> {
    let start = OperationStart { kind: OperationKind::Scrub, name: name.to_owned(), force: false, lose_data: false };
    let operation: Operation = client.send(Method::POST, "/operations", &start)?;
    if background {
        return print(output, &operation, |operation| {
            format!("Operation {} scrubs pool {name}: `hotset operations` shows how far it is\n", operation.id)
        });
    }
    let ended = follow(client, output, operation.id)?;
    if let Some(error) = ended.error {
        return Err(error);
    }
    let pool: Pool = client.get(&format!("/pools/{name}"))?;
    print(output, &pool.scrub, |scrub| {
        format!("Scrubbed pool {name}: {}\n", scrub.map_or_else(|| "it was closed meanwhile".to_owned(), found))
    })
}

/// Shows how far an operation is until it has ended. Ctrl-C cancels it.
fn follow(client: &Client, output: Output, id: u64) -> Result<Operation, ApiError> {
    let path = format!("/operations/{id}");
    client.block_on(async {
        let failed = |error| ApiError::new(ApiErrorKind::Internal, format!("signals: {error}"));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut shown = Shown::new(output, "Scrubbing");
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let operation: Operation = request(client.endpoint(), Method::GET, &path, Vec::new()).await?;
                    if operation.state != OperationState::Running {
                        shown.finish();
                        return Ok(operation);
                    }
                    shown.at(operation.done_bytes, operation.total_bytes, operation.eta_seconds, || line(&operation));
                }
                _ = interrupt.recv() => {
                    let _ = request::<OperationCancelled>(client.endpoint(), Method::DELETE, &path, Vec::new()).await;
                }
            }
        }
    })
}

fn line(operation: &Operation) -> String {
    let rate = operation.rate_bytes_per_second;
    let (done, total) = (human(operation.done_bytes), human(operation.total_bytes));
    format!("scrubbing {}: {done} of {total}, {}/s", operation.subject.name, human(rate))
}

/// What a scrub found, in one line.
pub(super) fn found(scrub: Scrub) -> String {
    let how = match scrub.state {
        ScrubState::Running => format!("{} of {} checked so far", human(scrub.checked_bytes), human(scrub.total_bytes)),
        ScrubState::Finished => format!("{} checked in {} s", human(scrub.checked_bytes), scrub.elapsed_seconds),
        ScrubState::Cancelled => format!("cancelled after {}", human(scrub.checked_bytes)),
    };
    if scrub.bad_pages + scrub.lost_pages == 0 {
        return format!("{how}, nothing bad");
    }
    let lost = match scrub.lost_pages {
        0 => String::new(),
        lost => {
            format!("; {} DIRTY PAGES HAVE NO GOOD COPY: reads of them fail until they are overwritten", grouped(lost))
        }
    };
    format!(
        "{how}, {} bad pages: {} written again from the other copy, {} to be read from the backing device again{lost}",
        grouped(scrub.bad_pages),
        grouped(scrub.repaired_pages),
        grouped(scrub.dropped_pages)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_said_in_one_line_and_a_loss_is_not_overlooked() {
        let sound = Scrub {
            state: ScrubState::Finished,
            checked_bytes: 3 << 20,
            total_bytes: 3 << 20,
            bad_pages: 0,
            repaired_pages: 0,
            dropped_pages: 0,
            lost_pages: 0,
            elapsed_seconds: 4,
            ended_unix_ms: Some(1),
        };
        assert_eq!(found(sound), "3 MiB checked in 4 s, nothing bad");
        let lost = Scrub { bad_pages: 5, repaired_pages: 2, dropped_pages: 1, lost_pages: 1, ..sound };
        assert!(found(lost).contains("5 bad pages: 2 written again") && found(lost).contains("1 DIRTY PAGES"));
    }
}
