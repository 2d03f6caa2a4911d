//! Paths of the daemon as a whole: its status, what it counts, its disks, and who asks.

use axum::extract::State;
use axum::{Extension, Json};
use hotset_api as api;
use hotset_api::{ApiError, SubjectKind};
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::Caller;
use super::control::{Control, Manages};
use super::exchange::{Answer, Body, Name, Queried, lasting};
use crate::size::human;

#[utoipa::path(get, path = "/api/v1/status",
    responses((status = 200, body = api::Status), (status = "default", body = ApiError)))]
pub(super) async fn status(State(rooms): Manages) -> Answer<api::Status> {
    Ok(Json(rooms.reporting.status().await?))
}

#[utoipa::path(get, path = "/api/v1/memory-cache",
    responses((status = 200, body = api::MemoryCache), (status = "default", body = ApiError)))]
pub(super) async fn memory_cache(State(rooms): Manages) -> Answer<api::MemoryCache> {
    Ok(Json(rooms.reporting.memory_cache().await?))
}

#[utoipa::path(put, path = "/api/v1/memory-cache", request_body = api::MemoryCacheSet,
    responses((status = 200, body = api::MemoryCacheChange), (status = "default", body = ApiError)))]
pub(super) async fn set_memory_cache(
    State(rooms): Manages,
    Body(set): Body<api::MemoryCacheSet>,
) -> Answer<api::MemoryCacheChange> {
    lasting(async move {
        let changed = rooms.memory.set(set).await?;
        let memory_cache = rooms.reporting.memory_cache().await?;
        if changed {
            let change = format!("memory cache set to {}", human(memory_cache.size_bytes));
            rooms.note(SubjectKind::Daemon, "", change);
        }
        Ok(api::MemoryCacheChange { changed, memory_cache })
    })
    .await
}

#[utoipa::path(get, path = "/api/v1/stats",
    responses((status = 200, body = api::Stats), (status = "default", body = ApiError)))]
pub(super) async fn stats(State(rooms): Manages) -> Answer<api::Stats> {
    Ok(Json(rooms.reporting.stats().await?))
}

/// What is looked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DisksAsked {
    /// List the image files of this directory instead of block devices. For the role admin only.
    directory: Option<String>,
}

#[utoipa::path(get, path = "/api/v1/disks", params(DisksAsked),
    responses((status = 200, body = api::DiskList), (status = "default", body = ApiError)))]
pub(super) async fn disks(
    State(rooms): Manages,
    Extension(client): Extension<Option<Caller>>,
    Queried(asked): Queried<DisksAsked>,
) -> Answer<api::DiskList> {
    if asked.directory.is_some() {
        known(client)?.must_be_admin("listing files")?;
    }
    Ok(Json(rooms.disks.disks(asked.directory).await?))
}

#[utoipa::path(get, path = "/api/v1/session",
    responses((status = 200, body = api::Session), (status = "default", body = ApiError)))]
pub(super) async fn session(Extension(client): Extension<Option<Caller>>) -> Answer<api::Session> {
    let Caller { role, token } = known(client)?;
    let token = token.map(|identity| identity.name().to_owned());
    Ok(Json(api::Session { role, token, version: env!("CARGO_PKG_VERSION").to_owned() }))
}

/// Whoever reaches a path of the API was asked who it is.
fn known(client: Option<Caller>) -> Result<Caller, ApiError> {
    client.ok_or_else(|| ApiError::new(api::ApiErrorKind::Unauthenticated, "nobody knows who asks"))
}

/// Tells each target of notices now, once, that this is a test.
#[utoipa::path(post, path = "/api/v1/notices/test",
    responses((status = 200, body = api::NoticeTest), (status = "default", body = ApiError)))]
pub(super) async fn test_notices(State(control): State<Control>) -> Answer<api::NoticeTest> {
    lasting(async move { control.notices.test().await }).await
}

#[utoipa::path(get, path = "/api/v1/tokens",
    responses((status = 200, body = api::TokenList), (status = "default", body = ApiError)))]
pub(super) async fn list_tokens(
    State(control): State<Control>,
    Extension(client): Extension<Option<Caller>>,
) -> Answer<api::TokenList> {
    known(client)?.must_be_admin("listing tokens")?;
    Ok(Json(control.tokens.list()))
}

#[utoipa::path(post, path = "/api/v1/tokens", request_body = api::TokenCreate,
    responses((status = 200, body = api::TokenCreated), (status = "default", body = ApiError)))]
pub(super) async fn create_token(
    State(control): State<Control>,
    Body(request): Body<api::TokenCreate>,
) -> Answer<api::TokenCreated> {
    lasting(async move {
        let created = control.tokens.create(&control.rooms.records.state, &request)?;
        let change = format!("token {} created, of the role {}", created.name, created.role.word());
        control.rooms.note(SubjectKind::Daemon, "", change);
        Ok(created)
    })
    .await
}

#[utoipa::path(delete, path = "/api/v1/tokens/{name}", params(("name" = String, Path)),
    responses((status = 200, body = api::Deleted), (status = "default", body = ApiError)))]
pub(super) async fn delete_token(State(control): State<Control>, Name(name): Name<String>) -> Answer<api::Deleted> {
    lasting(async move {
        let deleted = control.tokens.delete(&control.rooms.records.state, &name)?;
        control.rooms.note(SubjectKind::Daemon, "", format!("token {name} deleted"));
        Ok(deleted)
    })
    .await
}
