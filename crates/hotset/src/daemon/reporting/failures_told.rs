//! Why requests of hosts fail, for the log: the first failure of each kind of a volume at once, the others as a number, once a
//! minute.

use std::time::{Duration, Instant};

use hotset_cache::config::VolumeName;
use hotset_cache::{ErrorKind, Failure};

/// How often failures of one kind of one volume are logged at most.
const INTERVAL: Duration = Duration::from_secs(60);

/// See the file's summary.
#[derive(Default)]
pub(super) struct FailuresTold(Vec<Told>);

/// One kind of failures of a volume.
struct Told {
    volume: VolumeName,
    kind: ErrorKind,
    at: Instant,
    /// Those that came since.
    untold: u64,
    /// Why the first of these failed.
    cause: String,
}

impl FailuresTold {
    /// What to log now that these have come.
    pub(super) fn lines(&mut self, failures: Vec<(VolumeName, Failure)>, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for (volume, Failure { first, count }) in failures {
            let is_it = |told: &&mut Told| told.volume == volume && told.kind == first.kind;
            match self.0.iter_mut().find(is_it) {
                Some(told) => told.add(count, first.to_string()),
                None => {
                    let (kind, cause) = (first.kind, first.to_string());
                    lines.push(line(&volume, count, &cause));
                    self.0.push(Told { volume, kind, at: now, untold: 0, cause });
                }
            }
        }
        // A kind of which nothing more has come is told at once again.
        let due = self.0.extract_if(.., |told| now.duration_since(told.at) >= INTERVAL);
        let more: Vec<Told> = due.filter(|told| told.untold > 0).collect();
        lines.extend(more.iter().map(|told| line(&told.volume, told.untold, &told.cause)));
        self.0.extend(more.into_iter().map(|told| Told { at: now, untold: 0, ..told }));
        lines
    }
}

impl Told {
    fn add(&mut self, count: u64, cause: String) {
        if self.untold == 0 {
            self.cause = cause;
        }
        self.untold += count;
    }
}

fn line(volume: &VolumeName, count: u64, cause: &str) -> String {
    match count {
        1 => format!("volume {volume}: a request of a host failed: {cause}"),
        _ => format!("volume {volume}: {count} requests of hosts failed; the first: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use hotset_cache::Error;

    use super::*;

    #[test]
    fn the_first_failure_of_a_kind_is_told_at_once_and_the_others_once_a_minute() {
        let mut told = FailuresTold::default();
        let begun = Instant::now();
        let failure = |kind, message: &str, count| {
            vec![("v".parse().unwrap(), Failure { first: Error::new(kind, message), count })]
        };
        let mut at = |seconds, failures| told.lines(failures, begun + Duration::from_secs(seconds));
        let first = at(0, failure(ErrorKind::Media, "bad sector", 1));
        assert_eq!(first, ["volume v: a request of a host failed: bad sector"]);
        assert_eq!(at(1, failure(ErrorKind::Media, "bad sector 2", 5)), Vec::<String>::new());
        let other = at(2, failure(ErrorKind::Gone, "no device", 2));
        assert_eq!(other, ["volume v: 2 requests of hosts failed; the first: no device"]);
        assert_eq!(at(3, failure(ErrorKind::Media, "bad sector 3", 5)), Vec::<String>::new());
        assert_eq!(at(60, Vec::new()), ["volume v: 10 requests of hosts failed; the first: bad sector 2"]);
        assert_eq!(at(130, Vec::new()), Vec::<String>::new());
        assert_eq!(at(131, failure(ErrorKind::Media, "again", 1)).len(), 1, "it was quiet for a minute");
    }
}
