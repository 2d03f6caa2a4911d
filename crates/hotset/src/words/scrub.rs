//! A scrub, as the API and people are told of it.

use hotset_api::{Scrub, ScrubState, Severity};
use hotset_cache as cache;
use hotset_cache::{ScrubStatus, date_and_time};

use crate::size::{grouped, human};

/// The last scrub of a pool, or the one that runs; `None`: none is known. When a whole one ended is known only where it was that one.
pub(crate) fn scrub(status: &ScrubStatus) -> Option<Scrub> {
    let state = match status.state {
        cache::ScrubState::Never => return None,
        cache::ScrubState::Running => ScrubState::Running,
        cache::ScrubState::Finished => ScrubState::Finished,
        cache::ScrubState::Cancelled => ScrubState::Cancelled,
    };
    let ended_unix_ms = (status.state != cache::ScrubState::Running).then(|| status.ended_unix_seconds * 1000);
    Some(Scrub {
        state,
        checked_bytes: status.checked_bytes,
        total_bytes: status.total_bytes,
        bad_pages: status.bad_pages,
        repaired_pages: status.repaired_pages,
        dropped_pages: status.dropped_pages,
        lost_pages: status.lost_pages,
        elapsed_seconds: status.seconds,
        ended_unix_ms,
        whole_ended_unix_ms: ended_unix_ms.filter(|_| status.state == cache::ScrubState::Finished),
    })
}

/// What the last one found, when it ended, and when a whole one did.
pub(crate) fn last_scrub(scrub: Option<Scrub>) -> String {
    let Some(scrub) = scrub else { return "none yet".to_owned() };
    let mut line = scrub_found(scrub);
    if let Some(at) = scrub.ended_unix_ms {
        line.push_str(&format!(", on {}", date_and_time(at / 1000)));
    }
    match (scrub.state, scrub.whole_ended_unix_ms) {
        (ScrubState::Finished, _) => {}
        (ScrubState::Running | ScrubState::Cancelled, Some(at)) => {
            line.push_str(&format!("; the last whole one ended on {}", date_and_time(at / 1000)));
        }
        (ScrubState::Running | ScrubState::Cancelled, None) => line.push_str("; none has come to its end yet"),
    }
    line
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
            whole_ended_unix_ms: Some(1),
        };
        assert_eq!(scrub_found(sound), "3 MiB checked in 4 s, nothing bad");
        let lost = Scrub { bad_pages: 5, repaired_pages: 2, dropped_pages: 1, lost_pages: 1, ..sound };
        assert!(
            scrub_found(lost).contains("5 bad pages: 2 written again") && scrub_found(lost).contains("1 DIRTY PAGES")
        );
    }

    #[test]
    fn when_a_whole_scrub_ended_is_said_while_another_one_runs_and_after_it_was_cancelled() {
        let status =
            ScrubStatus { state: cache::ScrubState::Finished, ended_unix_seconds: 60, ..ScrubStatus::default() };
        let whole = scrub(&status).unwrap();
        assert_eq!(whole.whole_ended_unix_ms, Some(60_000));
        let told = last_scrub(Some(whole));
        assert!(told.contains(", on 1970-01-01T00:01:00Z") && !told.contains("whole"), "{told}");
        let cancelled = Scrub { state: ScrubState::Cancelled, ended_unix_ms: Some(90_000), ..whole };
        let told = last_scrub(Some(cancelled));
        assert!(told.contains("the last whole one ended on 1970-01-01T00:01:00Z"), "{told}");
        assert!(
            last_scrub(Some(Scrub { whole_ended_unix_ms: None, ..cancelled })).contains("none has come to its end")
        );
        assert_eq!(last_scrub(None), "none yet");
    }
}
