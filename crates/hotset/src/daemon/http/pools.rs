//! Paths of pools.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use hotset_api as api;
use hotset_api::{ApiError, SubjectKind};

use super::control::Manages;
use super::exchange::{Answer, Body, Failure, Name, OptionalBody, lasting};
use crate::daemon::changes::Shown;
use crate::daemon::changing::flushed::Subject;
use crate::size::grouped;
use crate::spelled;

#[utoipa::path(get, path = "/api/v1/pools", responses((status = 200, body = api::PoolList), (status = "default", body = ApiError)))]
pub(super) async fn list_pools(State(rooms): Manages) -> Answer<api::PoolList> {
    Ok(Json(rooms.reporting.pools().await?))
}

#[utoipa::path(post, path = "/api/v1/pools", request_body = api::PoolCreate,
    responses((status = 200, body = api::Pool), (status = "default", body = ApiError)))]
pub(super) async fn create_pool(State(rooms): Manages, Body(request): Body<api::PoolCreate>) -> Answer<api::Pool> {
    // A change is carried through even if its client hangs up.
    lasting(async move {
        rooms.creation.create_pool(&request).await?;
        rooms.volumes.statistics_begin(SubjectKind::Pool, &request.name);
        rooms.note_shown(SubjectKind::Pool, &request.name, Shown::New);
        rooms.reporting.pool(&request.name).await
    })
    .await
}

#[utoipa::path(post, path = "/api/v1/pools/plan", request_body = api::PoolCreate,
    responses((status = 200, body = api::PoolPlan), (status = "default", body = ApiError)))]
pub(super) async fn plan_pool(State(rooms): Manages, Body(request): Body<api::PoolCreate>) -> Answer<api::PoolPlan> {
    Ok(Json(rooms.creation.plan_pool(&request).await?))
}

#[utoipa::path(post, path = "/api/v1/pools/import", request_body = api::PoolImport,
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
pub(super) async fn import_pool(
    State(rooms): Manages,
    Body(request): Body<api::PoolImport>,
) -> Answer<api::PoolChange> {
    lasting(async move {
        let (changed, name) = rooms.pools.import_pool(&request).await?;
        if changed {
            rooms.note(SubjectKind::Pool, name.as_str(), "imported");
        }
        rooms.reporting.pool_change(name.as_str(), changed).await
    })
    .await
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/open", params(("name" = String, Path)),
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
pub(super) async fn open_pool(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::PoolChange> {
    lasting(async move {
        let changed = rooms.opening.open_offline_pool(&name).await?;
        if changed {
            rooms.note(SubjectKind::Pool, &name, "opened");
        }
        rooms.reporting.pool_change(&name, changed).await
    })
    .await
}

#[utoipa::path(get, path = "/api/v1/pools/{name}", params(("name" = String, Path)),
    responses((status = 200, body = api::Pool), (status = "default", body = ApiError)))]
pub(super) async fn show_pool(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::Pool> {
    Ok(Json(rooms.reporting.pool(&name).await?))
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/settings/plan", params(("name" = String, Path)), request_body = api::PoolSet,
    responses((status = 200, body = api::ChangePlan), (status = "default", body = ApiError)))]
pub(super) async fn plan_pool_settings(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(set): Body<api::PoolSet>,
) -> Answer<api::ChangePlan> {
    Ok(Json(rooms.pools.plan_settings(&name, set).await?))
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/volumes/plan", params(("name" = String, Path)), request_body = api::PoolVolumes,
    responses((status = 200, body = api::ChangePlan), (status = "default", body = ApiError)))]
pub(super) async fn plan_pool_volumes(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(volumes): Body<api::PoolVolumes>,
) -> Answer<api::ChangePlan> {
    Ok(Json(rooms.volumes.plan_of_pool(&name, &volumes).await?))
}

#[utoipa::path(patch, path = "/api/v1/pools/{name}", params(("name" = String, Path)), request_body = api::PoolSet,
    responses((status = 200, body = api::PoolSettingsChange), (status = "default", body = ApiError)))]
pub(super) async fn set_pool(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(set): Body<api::PoolSet>,
) -> Answer<api::PoolSettingsChange> {
    lasting(async move {
        let before = spelled::of_pool(&rooms.reporting.pool(&name).await?);
        let (changed, warnings) = rooms.pools.set_pool(&name, set).await?;
        let pool = rooms.reporting.pool(&name).await?;
        if changed {
            let settings = spelled::changes(&before, &spelled::of_pool(&pool));
            rooms.note(SubjectKind::Pool, &name, format!("settings changed: {settings}"));
        }
        Ok(api::PoolSettingsChange { changed, pool, warnings })
    })
    .await
}

#[utoipa::path(delete, path = "/api/v1/pools/{name}", params(("name" = String, Path)), request_body = api::Removal,
    responses((status = 200, body = api::Deleted), (status = "default", body = ApiError)))]
pub(super) async fn delete_pool(
    State(rooms): Manages,
    Name(name): Name<String>,
    OptionalBody(removal): OptionalBody<api::Removal>,
) -> Answer<api::Deleted> {
    lasting(async move {
        let deleted = rooms.removals.delete_pool(&name, removal).await?;
        rooms.note_shown(SubjectKind::Pool, &name, Shown::Removed);
        Ok(deleted)
    })
    .await
}

#[utoipa::path(get, path = "/api/v1/pools/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::Flush), (status = "default", body = ApiError)))]
pub(super) async fn pool_flush(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::Flush> {
    Ok(Json(rooms.draining.flush(&Subject::pool(&name)?).await?))
}

#[utoipa::path(delete, path = "/api/v1/pools/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::FlushCancelled), (status = "default", body = ApiError)))]
pub(super) async fn cancel_pool_flush(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::FlushCancelled> {
    lasting(async move { rooms.draining.cancel_flush(&Subject::pool(&name)?).await }).await
}

/// What is written may stay dirty again, after a flush that held it.
#[utoipa::path(delete, path = "/api/v1/pools/{name}/hold", params(("name" = String, Path)),
    responses((status = 200, body = api::HoldReleased), (status = "default", body = ApiError)))]
pub(super) async fn release_pool(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::HoldReleased> {
    lasting(async move { rooms.flushes_now.release(&Subject::pool(&name)?).await }).await
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/conversion", params(("name" = String, Path)), request_body = api::PoolConvert,
    responses((status = 202, body = api::Operation), (status = "default", body = ApiError)))]
pub(super) async fn convert_pool(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(request): Body<api::PoolConvert>,
) -> Result<(StatusCode, Json<api::Operation>), Failure> {
    let begun = lasting(async move {
        let id = rooms.conversions.convert_pool(&name, request).await?;
        rooms.operating.operation(id).await
    })
    .await?;
    Ok((StatusCode::ACCEPTED, begun))
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/conversion/plan", params(("name" = String, Path)), request_body = api::PoolConvert,
    responses((status = 200, body = api::PoolPlan), (status = "default", body = ApiError)))]
pub(super) async fn plan_conversion(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(request): Body<api::PoolConvert>,
) -> Answer<api::PoolPlan> {
    Ok(Json(rooms.conversions.plan_conversion(&name, request).await?))
}

#[utoipa::path(get, path = "/api/v1/pools/{name}/losses", params(("name" = String, Path)),
    responses((status = 200, body = api::LossList), (status = "default", body = ApiError)))]
pub(super) async fn losses(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::LossList> {
    Ok(Json(rooms.losses.losses(&name).await?))
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/losses/accept", params(("name" = String, Path)),
    responses((status = 200, body = api::LossAccepted), (status = "default", body = ApiError)))]
pub(super) async fn accept_loss(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::LossAccepted> {
    lasting(async move {
        let accepted = rooms.losses.accept_loss(&name).await?;
        rooms.note(SubjectKind::Pool, &name, format!("loss of {} bytes accepted", grouped(accepted.accepted_bytes)));
        Ok(accepted)
    })
    .await
}
