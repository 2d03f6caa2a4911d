//! What every request and every answer has in common: bodies, errors as JSON, and changes that outlive their client.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hotset_api::{ApiError, ApiErrorKind};
use hyper::body::Body as _;

use crate::daemon::who::Who;
use crate::running_time;

/// How long a client has to send a body.
const BODY_LIMIT: Duration = Duration::from_secs(10);

pub(super) type Answer<T> = Result<Json<T>, Failure>;

/// An error on its way to the client.
pub(super) struct Failure(pub(super) ApiError);

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0.kind {
            ApiErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ApiErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
            ApiErrorKind::Forbidden => StatusCode::FORBIDDEN,
            ApiErrorKind::NotFound => StatusCode::NOT_FOUND,
            ApiErrorKind::Refused
            | ApiErrorKind::InUse
            | ApiErrorKind::OtherMachine
            | ApiErrorKind::Cancelled
            | ApiErrorKind::Full => StatusCode::CONFLICT,
            ApiErrorKind::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
            // It is not the daemon that failed.
            ApiErrorKind::Device | ApiErrorKind::Corrupt => StatusCode::FAILED_DEPENDENCY,
            ApiErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ApiErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = (status, Json(self.0)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A JSON body, whose errors are ours.
pub(super) struct Body<T>(pub(super) T);

impl<T, S> FromRequest<S> for Body<T>
where
    Json<T>: FromRequest<S, Rejection = JsonRejection>,
    S: Send + Sync,
{
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        match running_time::timeout(BODY_LIMIT, Json::from_request(request, state)).await {
            Ok(Ok(Json(body))) => Ok(Self(body)),
            Ok(Err(rejection)) => Err(Failure(ApiError::new(ApiErrorKind::Invalid, rejection.body_text()))),
            Err(_) => {
                let message = format!("the body did not come within {} s", BODY_LIMIT.as_secs());
                Err(Failure(ApiError::new(ApiErrorKind::Invalid, message)))
            }
        }
    }
}

/// A JSON body that may be left out.
pub(super) struct OptionalBody<T>(pub(super) T);

impl<T, S> FromRequest<S> for OptionalBody<T>
where
    T: Default,
    Json<T>: FromRequest<S, Rejection = JsonRejection>,
    S: Send + Sync,
{
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        if request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        Body::from_request(request, state).await.map(|Body(body)| Self(body))
    }
}

/// A part of the path, whose errors are ours.
pub(super) struct Name<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for Name<T>
where
    axum::extract::Path<T>: FromRequestParts<S, Rejection = PathRejection>,
    S: Send + Sync,
{
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let found = axum::extract::Path::from_request_parts(parts, state).await;
        found.map(|path| Self(path.0)).map_err(|rejection| invalid(rejection.body_text()))
    }
}

/// The query, whose errors are ours.
pub(super) struct Queried<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for Queried<T>
where
    axum::extract::Query<T>: FromRequestParts<S, Rejection = QueryRejection>,
    S: Send + Sync,
{
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let found = axum::extract::Query::from_request_parts(parts, state).await;
        found.map(|query| Self(query.0)).map_err(|rejection| invalid(rejection.body_text()))
    }
}

fn invalid(message: String) -> Failure {
    Failure(ApiError::new(ApiErrorKind::Invalid, message))
}

/// Runs a change to its end even if the client hangs up, which drops the handler.
pub(super) async fn lasting<T: Send + 'static>(
    change: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Answer<T> {
    match tokio::spawn(Who::asks().have(change)).await {
        Ok(outcome) => Ok(Json(outcome?)),
        Err(error) => Err(Failure(ApiError::new(ApiErrorKind::Internal, format!("the change was cut off: {error}")))),
    }
}
