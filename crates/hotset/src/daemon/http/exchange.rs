//! What every request and every answer has in common: bodies, errors as JSON, and changes that outlive their client.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hotset_api::{ApiError, ApiErrorKind};
use hyper::body::Body as _;

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
            ApiErrorKind::Refused | ApiErrorKind::Cancelled => StatusCode::CONFLICT,
            ApiErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            ApiErrorKind::Full => StatusCode::INSUFFICIENT_STORAGE,
            ApiErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ApiErrorKind::Device | ApiErrorKind::Corrupt | ApiErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(self.0)).into_response()
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
        match Json::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(Failure(ApiError::new(ApiErrorKind::Invalid, rejection.body_text()))),
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

/// Runs a change to its end even if the client hangs up, which drops the handler.
pub(super) async fn lasting<T: Send + 'static>(
    change: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Answer<T> {
    match tokio::spawn(change).await {
        Ok(outcome) => Ok(Json(outcome?)),
        Err(error) => Err(Failure(ApiError::new(ApiErrorKind::Internal, format!("the change was cut off: {error}")))),
    }
}
