//! Paths of a pool's SSDs and spares.

use axum::Json;
use axum::extract::{Path, State};
use hotset_api as api;
use hotset_api::{ApiError, SubjectKind};

use super::control::Manages;
use super::exchange::{Answer, Body, lasting};
use crate::daemon::changing::members::SsdRole;

#[utoipa::path(post, path = "/api/v1/pools/{name}/ssds", params(("name" = String, Path)), request_body = api::SsdsAdd,
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
pub(super) async fn add_ssds(
    State(rooms): Manages,
    Path(name): Path<String>,
    Body(add): Body<api::SsdsAdd>,
) -> Answer<api::PoolChange> {
    lasting(async move {
        let changed = rooms.members.add_ssds(&name, &add, SsdRole::Pool).await?;
        if changed {
            rooms.note(SubjectKind::Pool, &name, format!("SSDs added: {}", add.ssds.join(", ")));
        }
        rooms.reporting.pool_change(&name, changed).await
    })
    .await
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/ssds/plan", params(("name" = String, Path)), request_body = api::SsdsAdd,
    responses((status = 200, body = api::ChangePlan), (status = "default", body = ApiError)))]
pub(super) async fn plan_ssds(
    State(rooms): Manages,
    Path(name): Path<String>,
    Body(add): Body<api::SsdsAdd>,
) -> Answer<api::ChangePlan> {
    Ok(Json(rooms.members.plan_ssds(&name, &add, SsdRole::Pool).await?))
}

#[utoipa::path(delete, path = "/api/v1/pools/{name}/ssds", params(("name" = String, Path)),
    request_body = api::SsdsRemove,
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
pub(super) async fn remove_ssds(
    State(rooms): Manages,
    Path(name): Path<String>,
    Body(remove): Body<api::SsdsRemove>,
) -> Answer<api::PoolChange> {
    lasting(async move {
        let changed = rooms.members.remove_ssds(&name, &remove).await?;
        rooms.reporting.pool_change(&name, changed).await
    })
    .await
}

#[utoipa::path(delete, path = "/api/v1/pools/{name}/removal", params(("name" = String, Path)),
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
pub(super) async fn cancel_removal(State(rooms): Manages, Path(name): Path<String>) -> Answer<api::PoolChange> {
    lasting(async move {
        let changed = rooms.members.cancel_removal(&name).await?;
        if changed {
            rooms.note(SubjectKind::Pool, &name, "the removal of SSDs is cancelled");
        }
        rooms.reporting.pool_change(&name, changed).await
    })
    .await
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/spares", params(("name" = String, Path)), request_body = api::SsdsAdd,
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
pub(super) async fn add_spares(
    State(rooms): Manages,
    Path(name): Path<String>,
    Body(add): Body<api::SsdsAdd>,
) -> Answer<api::PoolChange> {
    lasting(async move {
        let changed = rooms.members.add_ssds(&name, &add, SsdRole::Spare).await?;
        if changed {
            rooms.note(SubjectKind::Pool, &name, format!("spares added: {}", add.ssds.join(", ")));
        }
        rooms.reporting.pool_change(&name, changed).await
    })
    .await
}

#[utoipa::path(post, path = "/api/v1/pools/{name}/spares/plan", params(("name" = String, Path)), request_body = api::SsdsAdd,
    responses((status = 200, body = api::ChangePlan), (status = "default", body = ApiError)))]
pub(super) async fn plan_spares(
    State(rooms): Manages,
    Path(name): Path<String>,
    Body(add): Body<api::SsdsAdd>,
) -> Answer<api::ChangePlan> {
    Ok(Json(rooms.members.plan_ssds(&name, &add, SsdRole::Spare).await?))
}

#[utoipa::path(delete, path = "/api/v1/pools/{name}/spares", params(("name" = String, Path)),
    request_body = api::SsdsRemove,
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
pub(super) async fn remove_spares(
    State(rooms): Manages,
    Path(name): Path<String>,
    Body(remove): Body<api::SsdsRemove>,
) -> Answer<api::PoolChange> {
    lasting(async move {
        let changed = rooms.members.remove_spares(&name, &remove).await?;
        if changed {
            rooms.note(SubjectKind::Pool, &name, format!("spares removed: {}", remove.ssds.join(", ")));
        }
        rooms.reporting.pool_change(&name, changed).await
    })
    .await
}
