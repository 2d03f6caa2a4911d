//! Paths of the daemon as a whole.

use axum::Json;
use axum::extract::State;
use hotset_api as api;

use super::Manages;
use super::exchange::Answer;

#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = api::Status)))]
pub(super) async fn status(State(manager): Manages) -> Answer<api::Status> {
    Ok(Json(manager.status().await?))
}

#[utoipa::path(get, path = "/api/v1/stats", responses((status = 200, body = api::Stats)))]
pub(super) async fn stats(State(manager): Manages) -> Answer<api::Stats> {
    Ok(Json(manager.stats().await?))
}
