//! The control API over HTTP: paths to requests of the manager, errors to JSON, and who may connect.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use hotset_api as api;
use hotset_api::{ApiError, ApiErrorKind};
use hyper::body::Body as _;
use utoipa::OpenApi;

use super::manager::{Manager, Subject};

type Manages = State<Arc<Manager>>;
type Answer<T> = Result<Json<T>, Failure>;

/// The document that describes the API.
#[derive(OpenApi)]
#[openapi(
    info(title = "Hotset control API", description = "Pools, volumes, status and statistics of one daemon."),
    paths(
        list_pools,
        create_pool,
        plan_pool,
        import_pool,
        show_pool,
        set_pool,
        delete_pool,
        list_volumes,
        create_volume,
        show_volume,
        set_volume,
        delete_volume,
        enable_cache,
        disable_cache,
        volume_flush,
        cancel_volume_flush,
        pool_flush,
        cancel_pool_flush,
        status,
        stats
    )
)]
pub(crate) struct Document;

pub(crate) fn router(manager: Arc<Manager>) -> Router {
    Router::new()
        .route("/v1/pools", get(list_pools).post(create_pool))
        .route("/v1/pools/plan", post(plan_pool))
        .route("/v1/pools/import", post(import_pool))
        .route("/v1/pools/{name}", get(show_pool).patch(set_pool).delete(delete_pool))
        .route("/v1/pools/{name}/flush", get(pool_flush).delete(cancel_pool_flush))
        .route("/v1/volumes", get(list_volumes).post(create_volume))
        .route("/v1/volumes/{name}", get(show_volume).patch(set_volume).delete(delete_volume))
        .route("/v1/volumes/{name}/cache", put(enable_cache).delete(disable_cache))
        .route("/v1/volumes/{name}/flush", get(volume_flush).delete(cancel_volume_flush))
        .route("/v1/status", get(status))
        .route("/v1/stats", get(stats))
        .route("/v1/openapi.json", get(async || Json(Document::openapi())))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_path)
        .layer(axum::middleware::from_fn(own_host_only))
        .with_state(manager)
}

/// An error on its way to the client.
struct Failure(ApiError);

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0.kind {
            ApiErrorKind::Invalid => StatusCode::BAD_REQUEST,
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
struct Body<T>(T);

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
struct OptionalBody<T>(T);

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

async fn no_such_path(request: Request) -> Failure {
    let message =
        format!("the API has no {} {} (GET /v1/openapi.json lists all)", request.method(), request.uri().path());
    Failure(ApiError::new(ApiErrorKind::NotFound, message))
}

/// Refuses what a browser sends here on behalf of another site, which has found a name that leads to this machine.
async fn own_host_only(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    if is_own_host(host) {
        return next.run(request).await;
    }
    Failure(ApiError::new(ApiErrorKind::Refused, format!("host {host:?}: this API answers to localhost only")))
        .into_response()
}

fn is_own_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    ["", "hotset", "localhost", "127.0.0.1", "[::1]"].contains(&name) || name.starts_with("127.")
}

#[utoipa::path(get, path = "/v1/pools", responses((status = 200, body = api::PoolList)))]
async fn list_pools(State(manager): Manages) -> Answer<api::PoolList> {
    Ok(Json(manager.pools().await?))
}

#[utoipa::path(post, path = "/v1/pools", request_body = api::PoolCreate,
    responses((status = 200, body = api::Pool), (status = "default", body = ApiError)))]
async fn create_pool(State(manager): Manages, Body(request): Body<api::PoolCreate>) -> Answer<api::Pool> {
    // A change is carried through even if its client hangs up.
    lasting(async move { manager.create_pool(&request).await }).await
}

#[utoipa::path(post, path = "/v1/pools/plan", request_body = api::PoolCreate,
    responses((status = 200, body = api::PoolPlan), (status = "default", body = ApiError)))]
async fn plan_pool(State(manager): Manages, Body(request): Body<api::PoolCreate>) -> Answer<api::PoolPlan> {
    Ok(Json(manager.plan_pool(&request).await?))
}

#[utoipa::path(post, path = "/v1/pools/import", request_body = api::PoolImport,
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
async fn import_pool(State(manager): Manages, Body(request): Body<api::PoolImport>) -> Answer<api::PoolChange> {
    lasting(async move { manager.import_pool(&request).await }).await
}

#[utoipa::path(get, path = "/v1/pools/{name}", params(("name" = String, Path)),
    responses((status = 200, body = api::Pool), (status = "default", body = ApiError)))]
async fn show_pool(State(manager): Manages, Path(name): Path<String>) -> Answer<api::Pool> {
    Ok(Json(manager.pool(&name).await?))
}

#[utoipa::path(patch, path = "/v1/pools/{name}", params(("name" = String, Path)), request_body = api::PoolSet,
    responses((status = 200, body = api::PoolChange), (status = "default", body = ApiError)))]
async fn set_pool(
    State(manager): Manages,
    Path(name): Path<String>,
    Body(set): Body<api::PoolSet>,
) -> Answer<api::PoolChange> {
    lasting(async move { manager.set_pool(&name, set).await }).await
}

#[utoipa::path(delete, path = "/v1/pools/{name}", params(("name" = String, Path)), request_body = api::Removal,
    responses((status = 200, body = api::Deleted), (status = "default", body = ApiError)))]
async fn delete_pool(
    State(manager): Manages,
    Path(name): Path<String>,
    OptionalBody(removal): OptionalBody<api::Removal>,
) -> Answer<api::Deleted> {
    lasting(async move { manager.delete_pool(&name, removal).await }).await
}

#[utoipa::path(get, path = "/v1/pools/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::Flush), (status = "default", body = ApiError)))]
async fn pool_flush(State(manager): Manages, Path(name): Path<String>) -> Answer<api::Flush> {
    Ok(Json(manager.flush(&Subject::pool(&name)?).await?))
}

#[utoipa::path(delete, path = "/v1/pools/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::FlushCancelled), (status = "default", body = ApiError)))]
async fn cancel_pool_flush(State(manager): Manages, Path(name): Path<String>) -> Answer<api::FlushCancelled> {
    Ok(Json(manager.cancel_flush(&Subject::pool(&name)?).await?))
}

#[utoipa::path(get, path = "/v1/volumes", responses((status = 200, body = api::VolumeList)))]
async fn list_volumes(State(manager): Manages) -> Answer<api::VolumeList> {
    Ok(Json(manager.volumes().await?))
}

#[utoipa::path(post, path = "/v1/volumes", request_body = api::VolumeCreate,
    responses((status = 200, body = api::Volume), (status = "default", body = ApiError)))]
async fn create_volume(State(manager): Manages, Body(request): Body<api::VolumeCreate>) -> Answer<api::Volume> {
    lasting(async move { manager.create_volume(&request).await }).await
}

#[utoipa::path(get, path = "/v1/volumes/{name}", params(("name" = String, Path)),
    responses((status = 200, body = api::Volume), (status = "default", body = ApiError)))]
async fn show_volume(State(manager): Manages, Path(name): Path<String>) -> Answer<api::Volume> {
    Ok(Json(manager.volume(&name).await?))
}

#[utoipa::path(patch, path = "/v1/volumes/{name}", params(("name" = String, Path)), request_body = api::VolumeSet,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
async fn set_volume(
    State(manager): Manages,
    Path(name): Path<String>,
    Body(set): Body<api::VolumeSet>,
) -> Answer<api::VolumeChange> {
    lasting(async move { manager.set_volume(&name, set).await }).await
}

#[utoipa::path(delete, path = "/v1/volumes/{name}", params(("name" = String, Path)), request_body = api::Removal,
    responses((status = 200, body = api::Deleted), (status = "default", body = ApiError)))]
async fn delete_volume(
    State(manager): Manages,
    Path(name): Path<String>,
    OptionalBody(removal): OptionalBody<api::Removal>,
) -> Answer<api::Deleted> {
    lasting(async move { manager.delete_volume(&name, removal).await }).await
}

#[utoipa::path(get, path = "/v1/volumes/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::Flush), (status = "default", body = ApiError)))]
async fn volume_flush(State(manager): Manages, Path(name): Path<String>) -> Answer<api::Flush> {
    Ok(Json(manager.flush(&Subject::volume(&name)?).await?))
}

#[utoipa::path(delete, path = "/v1/volumes/{name}/flush", params(("name" = String, Path)),
    responses((status = 200, body = api::FlushCancelled), (status = "default", body = ApiError)))]
async fn cancel_volume_flush(State(manager): Manages, Path(name): Path<String>) -> Answer<api::FlushCancelled> {
    Ok(Json(manager.cancel_flush(&Subject::volume(&name)?).await?))
}

#[utoipa::path(put, path = "/v1/volumes/{name}/cache", params(("name" = String, Path)), request_body = api::CacheEnable,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
async fn enable_cache(
    State(manager): Manages,
    Path(name): Path<String>,
    Body(request): Body<api::CacheEnable>,
) -> Answer<api::VolumeChange> {
    lasting(async move { manager.enable_cache(&name, &request.pool).await }).await
}

#[utoipa::path(delete, path = "/v1/volumes/{name}/cache", params(("name" = String, Path)), request_body = api::Removal,
    responses((status = 200, body = api::VolumeChange), (status = "default", body = ApiError)))]
async fn disable_cache(
    State(manager): Manages,
    Path(name): Path<String>,
    OptionalBody(removal): OptionalBody<api::Removal>,
) -> Answer<api::VolumeChange> {
    lasting(async move { manager.disable_cache(&name, removal).await }).await
}

#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = api::Status)))]
async fn status(State(manager): Manages) -> Answer<api::Status> {
    Ok(Json(manager.status().await?))
}

#[utoipa::path(get, path = "/v1/stats", responses((status = 200, body = api::Stats)))]
async fn stats(State(manager): Manages) -> Answer<api::Stats> {
    Ok(Json(manager.stats().await?))
}

/// Runs a change to its end even if the client hangs up, which drops the handler.
async fn lasting<T: Send + 'static>(change: impl Future<Output = Result<T, ApiError>> + Send + 'static) -> Answer<T> {
    match tokio::spawn(change).await {
        Ok(outcome) => Ok(Json(outcome?)),
        Err(error) => Err(Failure(ApiError::new(ApiErrorKind::Internal, format!("the change was cut off: {error}")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["", "hotset", "localhost", "localhost:7780", "127.0.0.1:7780", "127.0.0.2", "[::1]:7780", "[::1]"]
        {
            assert!(is_own_host(host), "{host}");
        }
        for host in ["example.org", "example.org:80", "10.0.0.1:7780", "localhost.example.org", "[::2]:80"] {
            assert!(!is_own_host(host), "{host}");
        }
    }

    #[test]
    fn the_document_describes_every_path() {
        let document = Document::openapi();
        assert_eq!(document.paths.paths.len(), 11);
    }
}
