//! A scrub, as the API and people are told of it.

use hotset_api::{Scrub, ScrubState, Severity};
use hotset_cache as cache;
use hotset_cache::ScrubStatus;

use crate::size::{grouped, human};

/// The last scrub of a pool, or the one that runs; `None`: there was none since it was opened.
pub(crate) fn scrub(status: &ScrubStatus) -> Option<Scrub> {
    let state = match status.state {
        cache::ScrubState::Never => return None,
        cache::ScrubState::Running => ScrubState::Running,
        cache::ScrubState::Finished => ScrubState::Finished,
        cache::ScrubState::Cancelled => ScrubState::Cancelled,
    };
    Some(Scrub {
        state,
        checked_bytes: status.checked_bytes,
        total_bytes: status.total_bytes,
        bad_pages: status.bad_pages,
        repaired_pages: status.repaired_pages,
        dropped_pages: status.dropped_pages,
        lost_pages: status.lost_pages,
        elapsed_seconds: status.seconds,
        ended_unix_ms: (status.state != cache::ScrubState::Running).then(|| status.ended_unix_seconds * 1000),
    })
}

/// What it found, in one line.
pub(crate) fn scrub_found(scrub: Scrub) -> String {
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

/// How bad that is.
pub(crate) fn scrub_severity(scrub: Scrub) -> Severity {
    match (scrub.lost_pages, scrub.bad_pages) {
        (0, 0) => Severity::Info,
        (0, _) => Severity::Warning,
        (_, _) => Severity::Error,
    }
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
        assert_eq!(scrub_found(sound), "3 MiB checked in 4 s, nothing bad");
        let lost = Scrub { bad_pages: 5, repaired_pages: 2, dropped_pages: 1, lost_pages: 1, ..sound };
        assert!(
            scrub_found(lost).contains("5 bad pages: 2 written again") && scrub_found(lost).contains("1 DIRTY PAGES")
        );
    }
}
