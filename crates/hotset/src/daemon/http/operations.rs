//! Paths of operations.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use hotset_api as api;
use hotset_api::{ApiError, Subject};

use super::control::Manages;
use super::exchange::{Answer, Body, Failure, Name, lasting};

#[utoipa::path(get, path = "/api/v1/operations",
    responses((status = 200, body = api::OperationList), (status = "default", body = ApiError)))]
pub(super) async fn list_operations(State(rooms): Manages) -> Answer<api::OperationList> {
    Ok(Json(rooms.operating.operations().await?))
}

#[utoipa::path(post, path = "/api/v1/operations", request_body = api::OperationStart,
    responses((status = 202, body = api::Operation), (status = "default", body = ApiError)))]
pub(super) async fn start_operation(
    State(rooms): Manages,
    Body(request): Body<api::OperationStart>,
) -> Result<(StatusCode, Json<api::Operation>), Failure> {
    let begun = lasting(async move { rooms.operating.start_operation(request).await }).await?;
    Ok((StatusCode::ACCEPTED, begun))
}

#[utoipa::path(get, path = "/api/v1/operations/{id}", params(("id" = u64, Path)),
    responses((status = 200, body = api::Operation), (status = "default", body = ApiError)))]
pub(super) async fn show_operation(State(rooms): Manages, Name(id): Name<u64>) -> Answer<api::Operation> {
    Ok(Json(rooms.operating.operation(id).await?))
}

#[utoipa::path(delete, path = "/api/v1/operations/{id}", params(("id" = u64, Path)),
    responses((status = 200, body = api::OperationCancelled), (status = "default", body = ApiError)))]
pub(super) async fn cancel_operation(State(rooms): Manages, Name(id): Name<u64>) -> Answer<api::OperationCancelled> {
    lasting(async move {
        let cancelled = rooms.operating.cancel_operation(id).await?;
        if cancelled.changed {
            let Subject { kind, name } = &cancelled.operation.subject;
            rooms.note(*kind, name, format!("{} is to be cancelled", cancelled.operation.kind.word()));
        }
        Ok(cancelled)
    })
    .await
}
