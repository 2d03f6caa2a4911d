//! The `pool scrub` verb: begins a scrub, and follows it to its end.

use hotset_api::{ApiError, Operation, OperationKind, OperationStart, Pool, Scrub, ScrubState};
use hyper::Method;

use super::http::Client;
use super::operations::follow;
use super::print::print;
use crate::args::Output;
use crate::size::{grouped, human};

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
        format!("Scrubbed pool {name}: {}\n", scrub.map_or_else(|| "it was closed meanwhile".to_owned(), found))
    })
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
