//! Paths of volumes.

use axum::Json;
use axum::extract::State;
use hotset_api as api;
use hotset_api::ApiError;

use super::Manages;
use super::exchange::{Answer, Body, Name, OptionalBody, lasting};
use crate::daemon::manager::Subject;

#[utoipa::path(get, path = "/api/v1/volumes", responses((status = 200, body = api::VolumeList), (status = "default", body = ApiError)))]
pub(super) async fn list_volumes(State(manager): Manages) -> Answer<api::VolumeList> {
    Ok(Json(manager.volumes().await?))
}

#[utoipa::path(post, path = "/api/v1/volumes", request_body = api::VolumeCreate,
    responses((status = 200, body = api::Volume), (status = "default", body = ApiError)))]
pub(super) async fn create_volume(
    State(manager): Manages,
    Body(request): Body<api::VolumeCreate>,
) -> Answer<api::Volume> {
    lasting(async move { manager.create_volume(&request).await }).await
}

#[utoipa::path(get, path = "/api/v1/volumes/{name}", params(("name" = String, Path)),
    responses((status = 200, body = api::Volume), (status = "default", body = ApiError)))]
pub(super) async fn show_volume(State(manager): Manages, Name(name): Name<String>) -> Answer<api::Volume> {
    Ok(Json(manager.volume(&name).await?))
}

#[utoipa::path(patch, path = "/api/v1/volumes/{name}", params(("name" = String, Path)), request_body = api::VolumeSet,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn set_volume(
    State(manager): Manages,
    Name(name): Name<String>,
    Body(set): Body<api::VolumeSet>,
) -> Answer<api::VolumeChange> {
    lasting(async move { manager.set_volume(&name, set).await }).await
}

#[utoipa::path(delete, path = "/api/v1/volumes/{name}", params(("name" = String, Path)), request_body = api::Removal,
    responses((status = 200, body = api::Deleted), (status = "default", body = ApiError)))]
pub(super) async fn delete_volume(
    State(manager): Manages,
    Name(name): Name<String>,
    OptionalBody(removal): OptionalBody<api::Removal>,
) -> Answer<api::Deleted> {
    lasting(async move { manager.delete_volume(&name, removal).await }).await
}

#[utoipa::path(get, path = "/api/v1/volumes/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::Flush), (status = "default", body = ApiError)))]
pub(super) async fn volume_flush(State(manager): Manages, Name(name): Name<String>) -> Answer<api::Flush> {
    Ok(Json(manager.flush(&Subject::volume(&name)?).await?))
}

#[utoipa::path(delete, path = "/api/v1/volumes/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::FlushCancelled), (status = "default", body = ApiError)))]
pub(super) async fn cancel_volume_flush(
    State(manager): Manages,
    Name(name): Name<String>,
) -> Answer<api::FlushCancelled> {
    Ok(Json(manager.cancel_flush(&Subject::volume(&name)?).await?))
}

#[utoipa::path(put, path = "/api/v1/volumes/{name}/name", params(("name" = String, Path)), request_body = api::VolumeRename,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn rename_volume(
    State(manager): Manages,
    Name(name): Name<String>,
    Body(request): Body<api::VolumeRename>,
) -> Answer<api::VolumeChange> {
    lasting(async move { manager.rename_volume(&name, &request.name).await }).await
}

/// Takes in what was added to the backing device. Hosts that are connected see the old size until they reconnect, but may use what was added at once.
#[utoipa::path(post, path = "/api/v1/volumes/{name}/growth", params(("name" = String, Path)),
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn grow_volume(State(manager): Manages, Name(name): Name<String>) -> Answer<api::VolumeChange> {
    lasting(async move { manager.grow_volume(&name).await }).await
}

/// Checks the backing device after a failed flush, or after it was away, and opens it again. Hosts stay connected.
#[utoipa::path(post, path = "/api/v1/volumes/{name}/clear", params(("name" = String, Path)),
    responses((status = 200, body = api::VolumeClear), (status = "default", body = ApiError)))]
pub(super) async fn clear_volume(State(manager): Manages, Name(name): Name<String>) -> Answer<api::VolumeClear> {
    lasting(async move { manager.clear_volume(&name).await }).await
}

/// What speaks for and against the backing device's being the right one.
#[utoipa::path(get, path = "/api/v1/volumes/{name}/backing", params(("name" = String, Path)),
    responses((status = 200, body = api::BackingEvidence), (status = "default", body = ApiError)))]
pub(super) async fn backing_evidence(
    State(manager): Manages,
    Name(name): Name<String>,
) -> Answer<api::BackingEvidence> {
    Ok(Json(manager.backing_evidence(&name).await?))
}

/// Takes the backing device of a fenced volume for the right one.
#[utoipa::path(put, path = "/api/v1/volumes/{name}/backing", params(("name" = String, Path)),
    request_body = api::BackingAccept,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn accept_backing(
    State(manager): Manages,
    Name(name): Name<String>,
    Body(accept): Body<api::BackingAccept>,
) -> Answer<api::VolumeChange> {
    lasting(async move { manager.accept_backing(&name, accept).await }).await
}

#[utoipa::path(put, path = "/api/v1/volumes/{name}/cache", params(("name" = String, Path)), request_body = api::CacheEnable,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn enable_cache(
    State(manager): Manages,
    Name(name): Name<String>,
    Body(request): Body<api::CacheEnable>,
) -> Answer<api::VolumeChange> {
    lasting(async move { manager.enable_cache(&name, &request.pool).await }).await
}

#[utoipa::path(delete, path = "/api/v1/volumes/{name}/cache", params(("name" = String, Path)), request_body = api::Removal,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn disable_cache(
    State(manager): Manages,
    Name(name): Name<String>,
    OptionalBody(removal): OptionalBody<api::Removal>,
) -> Answer<api::VolumeChange> {
    lasting(async move { manager.disable_cache(&name, removal).await }).await
}

#[utoipa::path(get, path = "/api/v1/volumes/{name}/connect", params(("name" = String, Path)),
    responses((status = 200, body = api::Connect), (status = "default", body = ApiError)))]
pub(super) async fn connect(State(manager): Manages, Name(name): Name<String>) -> Answer<api::Connect> {
    Ok(Json(manager.connect(&name).await?))
}
