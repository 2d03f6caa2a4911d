//! Paths of statistics over time.

use axum::Json;
use axum::extract::State;
use hotset_api as api;
use hotset_api::{ApiError, ApiErrorKind, Subject, SubjectKind};
use serde::Deserialize;
use utoipa::IntoParams;

use super::control::Control;
use super::exchange::{Answer, Queried};
use crate::clock::unix_ms;
use crate::daemon::history::Question;

/// Four hours.
const SPAN_SECONDS: u64 = 4 * 3600;

/// One for each 30 s of four hours.
const POINTS: u32 = 480;

const POINTS_MAX: u32 = 2000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryAsked {
    /// `pool:NAME`, `ssd:UUID` or `volume:NAME`; `daemon`: all volumes and SSDs together.
    subject: String,
    /// Seconds since 1970; by default four hours before `to`.
    from: Option<u64>,
    /// Seconds since 1970; by default now.
    to: Option<u64>,
    /// At most this many: 1 to 2000, by default 480.
    points: Option<u32>,
}

#[utoipa::path(get, path = "/api/v1/history", params(HistoryAsked),
    responses((status = 200, body = api::History), (status = "default", body = ApiError)))]
pub(super) async fn history(
    State(control): State<Control>,
    Queried(asked): Queried<HistoryAsked>,
) -> Answer<api::History> {
    let question = question(&asked, unix_ms() / 1000)?;
    Ok(Json(control.history.answer(question).await?))
}

fn question(asked: &HistoryAsked, now: u64) -> Result<Question, ApiError> {
    let invalid = |message: String| ApiError::new(ApiErrorKind::Invalid, message);
    let subject = subject(&asked.subject).ok_or_else(|| {
        invalid(format!("subject {:?}: it is pool:NAME, ssd:UUID, volume:NAME or daemon", asked.subject))
    })?;
    let to = asked.to.unwrap_or(now).min(now);
    let from = asked.from.unwrap_or_else(|| to.saturating_sub(SPAN_SECONDS));
    if from >= to {
        return Err(invalid(format!("from {from} is not before to {to}")));
    }
    let points = asked.points.unwrap_or(POINTS);
    if !(1..=POINTS_MAX).contains(&points) {
        return Err(invalid(format!("points {points}: 1 to {POINTS_MAX}")));
    }
    Ok(Question { subject, from, to, points: points.into() })
}

fn subject(text: &str) -> Option<Subject> {
    if text == SubjectKind::Daemon.word() {
        return Some(Subject::new(SubjectKind::Daemon, ""));
    }
    let (kind, name) = text.split_once(':')?;
    let kind = [SubjectKind::Pool, SubjectKind::Ssd, SubjectKind::Volume].into_iter().find(|one| one.word() == kind)?;
    (!name.is_empty()).then(|| Subject::new(kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_four_hours_until_now() {
        let asked = HistoryAsked { subject: "volume:v".into(), from: None, to: None, points: None };
        let question = question(&asked, 100_000).unwrap();
        assert_eq!((question.from, question.to, question.points), (100_000 - 14_400, 100_000, 480));
        assert_eq!(question.subject, Subject::new(SubjectKind::Volume, "v"));
        assert_eq!(subject("daemon"), Some(Subject::new(SubjectKind::Daemon, "")));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let good = || HistoryAsked { subject: "pool:p".into(), from: Some(1), to: Some(2), points: Some(1) };
        assert!(question(&good(), 10).is_ok());
        for wrong in [
            HistoryAsked { subject: "p".into(), ..good() },
            HistoryAsked { subject: "daemon:x".into(), ..good() },
            HistoryAsked { subject: "ssd:".into(), ..good() },
            HistoryAsked { from: Some(2), ..good() },
            HistoryAsked { from: Some(20), to: Some(30), ..good() },
            HistoryAsked { points: Some(0), ..good() },
            HistoryAsked { points: Some(2001), ..good() },
        ] {
            assert_eq!(question(&wrong, 10).unwrap_err().kind, ApiErrorKind::Invalid, "{wrong:?}");
        }
    }
}
