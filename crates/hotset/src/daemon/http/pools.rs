//! Paths of pools.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use hotset_api as api;
use hotset_api::ApiError;

use super::Manages;
use super::exchange::{Answer, Body, Failure, Name, OptionalBody, lasting};
use crate::daemon::manager::Subject;

#[utoipa::path(get, path = "/api/v1/pools", responses((status = 200, body = api::PoolList), (status = "default", body = ApiError)))]
pub(super) async fn list_pools(State(manager): Manages) -> Answer<api::PoolList> {
    Ok(Json(manager.pools().await?))
}

#[utoipa::path(post, path = "/api/v1/pools", request_body = api::PoolCreate,
    responses((status = 200, body = api::Pool), (status = "default", body = ApiError)))]
pub(super) async fn create_pool(State(manager): Manages, Body(request): Body<api::PoolCreate>) -> Answer<api::Pool> {
    // A change is carried through even if its client hangs up.
    lasting(async move { manager.create_pool(&request).await }).await
}

#[utoipa::path(post, path = "/api/v1/pools/plan", request_body = api::PoolCreate,
    responses((status = 200, body = api::PoolPlan), (status = "default", body = ApiError)))]
pub(super) async fn plan_pool(State(manager): Manages, Body(request): Body<api::PoolCreate>) -> Answer<api::PoolPlan> {
    Ok(Json(manager.plan_pool(&request).await?))
}

#[utoipa::path(post, path = "/api/v1/pools/import", request_body = api::PoolImport,
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
pub(super) async fn import_pool(
    State(manager): Manages,
    Body(request): Body<api::PoolImport>,
) -> Answer<api::PoolChange> {
    lasting(async move { manager.import_pool(&request).await }).await
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/open", params(("name" = String, Path)),
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
pub(super) async fn open_pool(State(manager): Manages, Name(name): Name<String>) -> Answer<api::PoolChange> {
    lasting(async move { manager.open_offline_pool(&name).await }).await
}

#[utoipa::path(get, path = "/api/v1/pools/{name}", params(("name" = String, Path)),
    responses((status = 200, body = api::Pool), (status = "default", body = ApiError)))]
pub(super) async fn show_pool(State(manager): Manages, Name(name): Name<String>) -> Answer<api::Pool> {
    Ok(Json(manager.pool(&name).await?))
}

#[utoipa::path(patch, path = "/api/v1/pools/{name}", params(("name" = String, Path)), request_body = api::PoolSet,
    responses((status = 200, body = api::PoolSettingsChange), (status = "default", body = ApiError)))]
pub(super) async fn set_pool(
    State(manager): Manages,
    Name(name): Name<String>,
    Body(set): Body<api::PoolSet>,
) -> Answer<api::PoolSettingsChange> {
    lasting(async move { manager.set_pool(&name, set).await }).await
}

#[utoipa::path(delete, path = "/api/v1/pools/{name}", params(("name" = String, Path)), request_body = api::Removal,
    responses((status = 200, body = api::Deleted), (status = "default", body = ApiError)))]
pub(super) async fn delete_pool(
    State(manager): Manages,
    Name(name): Name<String>,
    OptionalBody(removal): OptionalBody<api::Removal>,
) -> Answer<api::Deleted> {
    lasting(async move { manager.delete_pool(&name, removal).await }).await
}

#[utoipa::path(get, path = "/api/v1/pools/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::Flush), (status = "default", body = ApiError)))]
pub(super) async fn pool_flush(State(manager): Manages, Name(name): Name<String>) -> Answer<api::Flush> {
    Ok(Json(manager.flush(&Subject::pool(&name)?).await?))
}

#[utoipa::path(delete, path = "/api/v1/pools/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::FlushCancelled), (status = "default", body = ApiError)))]
pub(super) async fn cancel_pool_flush(
    State(manager): Manages,
    Name(name): Name<String>,
) -> Answer<api::FlushCancelled> {
    Ok(Json(manager.cancel_flush(&Subject::pool(&name)?).await?))
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/conversion", params(("name" = String, Path)), request_body = api::PoolConvert,
    responses((status = 202, body = api::Operation), (status = "default", body = ApiError)))]
pub(super) async fn convert_pool(
    State(manager): Manages,
    Name(name): Name<String>,
    Body(request): Body<api::PoolConvert>,
) -> Result<(StatusCode, Json<api::Operation>), Failure> {
    let begun = lasting(async move { manager.convert_pool(&name, request).await }).await?;
    Ok((StatusCode::ACCEPTED, begun))
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/conversion/plan", params(("name" = String, Path)), request_body = api::PoolConvert,
    responses((status = 200, body = api::PoolPlan), (status = "default", body = ApiError)))]
pub(super) async fn plan_conversion(
    State(manager): Manages,
    Name(name): Name<String>,
    Body(request): Body<api::PoolConvert>,
) -> Answer<api::PoolPlan> {
    Ok(Json(manager.plan_conversion(&name, request).await?))
}

#[utoipa::path(get, path = "/api/v1/pools/{name}/losses", params(("name" = String, Path)),
    responses((status = 200, body = api::LossList), (status = "default", body = ApiError)))]
pub(super) async fn losses(State(manager): Manages, Name(name): Name<String>) -> Answer<api::LossList> {
    Ok(Json(manager.losses(&name).await?))
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/losses/accept", params(("name" = String, Path)),
    responses((status = 200, body = api::LossAccepted), (status = "default", body = ApiError)))]
pub(super) async fn accept_loss(State(manager): Manages, Name(name): Name<String>) -> Answer<api::LossAccepted> {
    lasting(async move { manager.accept_loss(&name).await }).await
}
