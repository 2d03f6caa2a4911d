//! The control API over HTTP: paths to requests of the manager, errors to JSON, and who may connect.

mod exchange;
mod pools;
mod volumes;
mod whole;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use hotset_api::{ApiError, ApiErrorKind};
use utoipa::OpenApi;

use self::exchange::Failure;
use super::manager::Manager;

type Manages = State<Arc<Manager>>;

/// The document that describes the API.
#[derive(OpenApi)]
#[openapi(
    info(title = "Hotset control API", description = "Pools, volumes, status and statistics of one daemon."),
    paths(
        pools::list_pools,
        pools::create_pool,
        pools::plan_pool,
        pools::import_pool,
        pools::show_pool,
        pools::set_pool,
        pools::delete_pool,
        volumes::list_volumes,
        volumes::create_volume,
        volumes::show_volume,
        volumes::set_volume,
        volumes::delete_volume,
        volumes::enable_cache,
        volumes::disable_cache,
        volumes::volume_flush,
        volumes::cancel_volume_flush,
        pools::pool_flush,
        pools::cancel_pool_flush,
        whole::status,
        whole::stats
    )
)]
pub(crate) struct Document;

pub(crate) fn router(manager: Arc<Manager>) -> Router {
    Router::new()
        .route("/api/v1/pools", get(pools::list_pools).post(pools::create_pool))
        .route("/api/v1/pools/plan", post(pools::plan_pool))
        .route("/api/v1/pools/import", post(pools::import_pool))
        .route("/api/v1/pools/{name}", get(pools::show_pool).patch(pools::set_pool).delete(pools::delete_pool))
        .route("/api/v1/pools/{name}/flush", get(pools::pool_flush).delete(pools::cancel_pool_flush))
        .route("/api/v1/volumes", get(volumes::list_volumes).post(volumes::create_volume))
        .route(
            "/api/v1/volumes/{name}",
            get(volumes::show_volume).patch(volumes::set_volume).delete(volumes::delete_volume),
        )
        .route("/api/v1/volumes/{name}/cache", put(volumes::enable_cache).delete(volumes::disable_cache))
        .route("/api/v1/volumes/{name}/flush", get(volumes::volume_flush).delete(volumes::cancel_volume_flush))
        .route("/api/v1/status", get(whole::status))
        .route("/api/v1/stats", get(whole::stats))
        .route("/api/v1/openapi.json", get(async || Json(Document::openapi())))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_path)
        .layer(axum::middleware::from_fn(own_host_only))
        .with_state(manager)
}

async fn no_such_path(request: Request) -> Failure {
    let message = format!("the API has no {} {}", request.method(), request.uri().path());
    Failure(ApiError::new(ApiErrorKind::NotFound, message).with_hint("GET /api/v1/openapi.json lists all"))
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
