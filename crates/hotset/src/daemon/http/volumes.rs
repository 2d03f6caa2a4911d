//! Paths of volumes.

use axum::Json;
use axum::extract::State;
use hotset_api as api;
use hotset_api::{ApiError, SubjectKind};
use hotset_cache::Cleared;
use serde::Deserialize;
use utoipa::IntoParams;

use super::control::Manages;
use super::exchange::{Answer, Body, Name, OptionalBody, Queried, lasting};
use crate::daemon::changes::Shown;
use crate::daemon::changing::flushed::Subject;
use crate::spelled;

#[utoipa::path(get, path = "/api/v1/volumes", responses((status = 200, body = api::VolumeList), (status = "default", body = ApiError)))]
pub(super) async fn list_volumes(State(rooms): Manages) -> Answer<api::VolumeList> {
    Ok(Json(rooms.reporting.volumes().await?))
}

#[utoipa::path(post, path = "/api/v1/volumes", request_body = api::VolumeCreate,
    responses((status = 200, body = api::Volume), (status = "default", body = ApiError)))]
pub(super) async fn create_volume(
    State(rooms): Manages,
    Body(request): Body<api::VolumeCreate>,
) -> Answer<api::Volume> {
    lasting(async move {
        rooms.volumes.create_volume(&request).await?;
        rooms.note_shown(SubjectKind::Volume, &request.name, Shown::New);
        rooms.reporting.volume(&request.name).await
    })
    .await
}

#[utoipa::path(post, path = "/api/v1/volumes/{name}/plan", params(("name" = String, Path)), request_body = api::VolumeCreate,
    responses((status = 200, body = api::ChangePlan), (status = "default", body = ApiError)))]
pub(super) async fn plan_volume(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(request): Body<api::VolumeCreate>,
) -> Answer<api::ChangePlan> {
    Ok(Json(rooms.volumes.plan_volume(&api::VolumeCreate { name, ..request }).await?))
}

#[utoipa::path(get, path = "/api/v1/volumes/{name}", params(("name" = String, Path)),
    responses((status = 200, body = api::Volume), (status = "default", body = ApiError)))]
pub(super) async fn show_volume(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::Volume> {
    Ok(Json(rooms.reporting.volume(&name).await?))
}

#[utoipa::path(post, path = "/api/v1/volumes/{name}/settings/plan", params(("name" = String, Path)), request_body = api::VolumeSet,
    responses((status = 200, body = api::ChangePlan), (status = "default", body = ApiError)))]
pub(super) async fn plan_volume_settings(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(set): Body<api::VolumeSet>,
) -> Answer<api::ChangePlan> {
    Ok(Json(rooms.volumes.plan_settings(&name, set).await?))
}

#[utoipa::path(patch, path = "/api/v1/volumes/{name}", params(("name" = String, Path)), request_body = api::VolumeSet,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn set_volume(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(set): Body<api::VolumeSet>,
) -> Answer<api::VolumeChange> {
    lasting(async move {
        let before = spelled::of_volume(&rooms.reporting.volume(&name).await?);
        let changed = rooms.volumes.set_volume(&name, set).await?;
        let change = rooms.reporting.volume_change(&name, changed).await?;
        if changed {
            let settings = spelled::changes(&before, &spelled::of_volume(&change.volume));
            rooms.note(SubjectKind::Volume, &name, format!("settings changed: {settings}"));
        }
        Ok(change)
    })
    .await
}

#[utoipa::path(delete, path = "/api/v1/volumes/{name}", params(("name" = String, Path)), request_body = api::Removal,
    responses((status = 200, body = api::Deleted), (status = "default", body = ApiError)))]
pub(super) async fn delete_volume(
    State(rooms): Manages,
    Name(name): Name<String>,
    OptionalBody(removal): OptionalBody<api::Removal>,
) -> Answer<api::Deleted> {
    lasting(async move {
        let deleted = rooms.removals.delete_volume(&name, removal).await?;
        rooms.note_shown(SubjectKind::Volume, &name, Shown::Removed);
        Ok(deleted)
    })
    .await
}

#[utoipa::path(get, path = "/api/v1/volumes/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::Flush), (status = "default", body = ApiError)))]
pub(super) async fn volume_flush(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::Flush> {
    Ok(Json(rooms.draining.flush(&Subject::volume(&name)?).await?))
}

#[utoipa::path(delete, path = "/api/v1/volumes/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::FlushCancelled), (status = "default", body = ApiError)))]
pub(super) async fn cancel_volume_flush(
    State(rooms): Manages,
    Name(name): Name<String>,
) -> Answer<api::FlushCancelled> {
    lasting(async move { rooms.draining.cancel_flush(&Subject::volume(&name)?).await }).await
}

/// What is written may stay dirty again, after a flush that held it.
#[utoipa::path(delete, path = "/api/v1/volumes/{name}/hold", params(("name" = String, Path)),
    responses((status = 200, body = api::HoldReleased), (status = "default", body = ApiError)))]
pub(super) async fn release_volume(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::HoldReleased> {
    lasting(async move { rooms.flushes_now.release(&Subject::volume(&name)?).await }).await
}

#[utoipa::path(put, path = "/api/v1/volumes/{name}/name", params(("name" = String, Path)), request_body = api::VolumeRename,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn rename_volume(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(request): Body<api::VolumeRename>,
) -> Answer<api::VolumeChange> {
    lasting(async move {
        let changed = rooms.volumes.rename_volume(&name, &request.name).await?;
        if changed {
            rooms.note_shown(SubjectKind::Volume, &request.name, Shown::Renamed { from: name });
        }
        rooms.reporting.volume_change(&request.name, changed).await
    })
    .await
}

/// Takes in what was added to the backing device. Hosts that are connected see the old size until they reconnect, but may use what was added at once.
#[utoipa::path(post, path = "/api/v1/volumes/{name}/growth", params(("name" = String, Path)),
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn grow_volume(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::VolumeChange> {
    lasting(async move {
        let changed = rooms.volumes.grow_volume(&name).await?;
        rooms.reporting.volume_change(&name, changed).await
    })
    .await
}

/// Checks the backing device after a failed flush, or after it was away, and opens it again. Hosts stay connected.
#[utoipa::path(post, path = "/api/v1/volumes/{name}/clear", params(("name" = String, Path)),
    responses((status = 200, body = api::VolumeClear), (status = "default", body = ApiError)))]
pub(super) async fn clear_volume(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::VolumeClear> {
    lasting(async move {
        let (changed, doubtful) = match rooms.volumes.clear_volume(&name).await? {
            Cleared::NotNeeded => (false, false),
            Cleared::Opened { doubtful } => (true, doubtful),
        };
        if changed {
            rooms.note(SubjectKind::Volume, &name, "backing device opened again");
        }
        Ok(api::VolumeClear { changed, doubtful, volume: rooms.reporting.volume(&name).await? })
    })
    .await
}

/// What speaks for and against the backing device's being the right one.
#[utoipa::path(get, path = "/api/v1/volumes/{name}/backing", params(("name" = String, Path)),
    responses((status = 200, body = api::BackingEvidence), (status = "default", body = ApiError)))]
pub(super) async fn backing_evidence(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::BackingEvidence> {
    Ok(Json(rooms.acceptance.backing_evidence(&name).await?))
}

/// Takes the backing device of a fenced volume for the right one.
#[utoipa::path(put, path = "/api/v1/volumes/{name}/backing", params(("name" = String, Path)),
    request_body = api::BackingAccept,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn accept_backing(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(accept): Body<api::BackingAccept>,
) -> Answer<api::VolumeChange> {
    lasting(async move {
        let changed = rooms.acceptance.accept_backing(&name, accept).await?;
        if changed {
            rooms.note(SubjectKind::Volume, &name, "backing device accepted");
        }
        rooms.reporting.volume_change(&name, changed).await
    })
    .await
}

#[utoipa::path(put, path = "/api/v1/volumes/{name}/cache", params(("name" = String, Path)), request_body = api::CacheEnable,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn enable_cache(
    State(rooms): Manages,
    Name(name): Name<String>,
    Body(request): Body<api::CacheEnable>,
) -> Answer<api::VolumeChange> {
    lasting(async move {
        let changed = rooms.volumes.enable_cache(&name, &request.pool).await?;
        if changed {
            rooms.note_shown(SubjectKind::Volume, &name, Shown::CacheEnabled { pool: request.pool });
        }
        rooms.reporting.volume_change(&name, changed).await
    })
    .await
}

#[utoipa::path(delete, path = "/api/v1/volumes/{name}/cache", params(("name" = String, Path)), request_body = api::Removal,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
pub(super) async fn disable_cache(
    State(rooms): Manages,
    Name(name): Name<String>,
    OptionalBody(removal): OptionalBody<api::Removal>,
) -> Answer<api::VolumeChange> {
    lasting(async move {
        let changed = rooms.removals.disable_cache(&name, removal).await?;
        if changed {
            rooms.note_shown(SubjectKind::Volume, &name, Shown::CacheDisabled);
        }
        rooms.reporting.volume_change(&name, changed).await
    })
    .await
}

#[utoipa::path(get, path = "/api/v1/volumes/{name}/connect", params(("name" = String, Path)),
    responses((status = 200, body = api::Connect), (status = "default", body = ApiError)))]
pub(super) async fn connect(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::Connect> {
    Ok(Json(rooms.reporting.connect(&name).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageAsked {
    /// A byte of the volume: its page is meant.
    offset: u64,
}

/// Where a page of the volume is now, why reads of it missed, and what would get it into the cache.
#[utoipa::path(get, path = "/api/v1/volumes/{name}/explanation", params(("name" = String, Path), PageAsked),
    responses((status = 200, body = api::Explanation), (status = "default", body = ApiError)))]
pub(super) async fn explain(
    State(rooms): Manages,
    Name(name): Name<String>,
    Queried(asked): Queried<PageAsked>,
) -> Answer<api::Explanation> {
    Ok(Json(rooms.reporting.explain(&name, asked.offset).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RecordingAsked {
    /// What the answer of PUT says.
    id: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PortionAsked {
    /// What the answer of PUT says.
    id: u64,
    /// One more each time. Asked for again, because its answer was lost, a portion is answered again.
    portion: u64,
}

/// Begins to record what hosts read and write. One at a time; it ends when nothing was taken for ten seconds.
#[utoipa::path(put, path = "/api/v1/volumes/{name}/recording", params(("name" = String, Path)),
    responses((status = 200, body = api::Recording), (status = "default", body = ApiError)))]
pub(super) async fn begin_recording(State(rooms): Manages, Name(name): Name<String>) -> Answer<api::Recording> {
    let id = rooms.recordings.begin(&name).await?;
    rooms.note(SubjectKind::Volume, &name, "its requests are recorded");
    Ok(Json(api::Recording { recording: true, id }))
}

/// Takes what was recorded since the portion before. At most 65,536 requests wait; more are lost, and counted.
#[utoipa::path(post, path = "/api/v1/volumes/{name}/recording", params(("name" = String, Path), PortionAsked),
    responses((status = 200, body = api::Recorded), (status = "default", body = ApiError)))]
pub(super) async fn take_recorded(
    State(rooms): Manages,
    Name(name): Name<String>,
    Queried(asked): Queried<PortionAsked>,
) -> Answer<api::Recorded> {
    Ok(Json(rooms.recordings.take(&name, asked.id, asked.portion).await?))
}

/// Ends the recording of this id, if it is there.
#[utoipa::path(delete, path = "/api/v1/volumes/{name}/recording", params(("name" = String, Path), RecordingAsked),
    responses((status = 200, body = api::Recording), (status = "default", body = ApiError)))]
pub(super) async fn end_recording(
    State(rooms): Manages,
    Name(name): Name<String>,
    Queried(asked): Queried<RecordingAsked>,
) -> Answer<api::Recording> {
    rooms.recordings.end(&name, asked.id).await?;
    Ok(Json(api::Recording { recording: false, id: asked.id }))
}
