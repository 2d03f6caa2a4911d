//! The control API over HTTP: paths to requests of the rooms, errors to JSON, and who may connect.

mod access;
mod advisor;
mod console;
mod control;
mod events;
mod exchange;
mod history;
mod members;
mod metrics;
mod operations;
mod pools;
mod tls;
mod volumes;
mod whole;

use axum::extract::{DefaultBodyLimit, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use hotset_api::{ApiError, ApiErrorKind};
use utoipa::OpenApi;

use self::exchange::Failure;

pub(crate) use access::Peer;
pub(crate) use access::{ClientDoor, Gate};
pub(crate) use control::Control;
pub(crate) use tls::ApiTls;

/// The largest body: room for the longest list of SSDs.
const BODY_BYTES_MAX: usize = 256 << 10;

/// The document that describes the API.
#[derive(OpenApi)]
#[openapi(
    info(title = "Hotset control API", description = "Pools, volumes, status and statistics of one daemon."),
    paths(
        pools::list_pools,
        pools::create_pool,
        pools::plan_pool,
        pools::plan_pool_settings,
        pools::plan_pool_volumes,
        pools::import_pool,
        pools::open_pool,
        pools::show_pool,
        pools::set_pool,
        pools::delete_pool,
        pools::convert_pool,
        pools::plan_conversion,
        pools::losses,
        pools::accept_loss,
        pools::pool_flush,
        pools::cancel_pool_flush,
        pools::release_pool,
        volumes::list_volumes,
        volumes::create_volume,
        volumes::plan_volume,
        volumes::plan_volume_settings,
        volumes::show_volume,
        volumes::set_volume,
        volumes::delete_volume,
        volumes::rename_volume,
        volumes::grow_volume,
        volumes::clear_volume,
        volumes::backing_evidence,
        volumes::accept_backing,
        volumes::enable_cache,
        volumes::disable_cache,
        volumes::volume_flush,
        volumes::cancel_volume_flush,
        volumes::release_volume,
        volumes::connect,
        volumes::explain,
        advisor::advise_all,
        advisor::advise,
        advisor::whatif,
        volumes::begin_recording,
        volumes::take_recorded,
        volumes::end_recording,
        operations::list_operations,
        operations::start_operation,
        operations::show_operation,
        operations::cancel_operation,
        events::list_events,
        events::stream_events,
        history::history,
        members::add_ssds,
        members::plan_ssds,
        members::remove_ssds,
        members::cancel_removal,
        members::add_spares,
        members::plan_spares,
        members::remove_spares,
        whole::status,
        whole::memory_cache,
        whole::set_memory_cache,
        whole::stats,
        whole::disks,
        whole::session,
        whole::list_tokens,
        whole::create_token,
        whole::delete_token,
        whole::test_notices
    ),
    components(schemas(hotset_api::Event))
)]
pub(crate) struct Document;

/// For those who come by one door.
pub(crate) fn router(control: Control, gate: Gate) -> Router {
    let api = Router::new()
        .route("/pools", get(pools::list_pools).post(pools::create_pool))
        .route("/pools/plan", post(pools::plan_pool))
        .route("/pools/import", post(pools::import_pool))
        .route("/pools/{name}", get(pools::show_pool).patch(pools::set_pool).delete(pools::delete_pool))
        .route("/pools/{name}/settings/plan", post(pools::plan_pool_settings))
        .route("/pools/{name}/volumes/plan", post(pools::plan_pool_volumes))
        .route("/pools/{name}/open", post(pools::open_pool))
        .route("/pools/{name}/flush", get(pools::pool_flush).delete(pools::cancel_pool_flush))
        .route("/pools/{name}/hold", delete(pools::release_pool))
        .route("/pools/{name}/conversion", post(pools::convert_pool))
        .route("/pools/{name}/conversion/plan", post(pools::plan_conversion))
        .route("/pools/{name}/losses", get(pools::losses))
        .route("/pools/{name}/losses/accept", post(pools::accept_loss))
        .route("/pools/{name}/ssds", post(members::add_ssds).delete(members::remove_ssds))
        .route("/pools/{name}/ssds/plan", post(members::plan_ssds))
        .route("/pools/{name}/removal", delete(members::cancel_removal))
        .route("/pools/{name}/spares", post(members::add_spares).delete(members::remove_spares))
        .route("/pools/{name}/spares/plan", post(members::plan_spares))
        .route("/volumes", get(volumes::list_volumes).post(volumes::create_volume))
        .route("/volumes/{name}", get(volumes::show_volume).patch(volumes::set_volume).delete(volumes::delete_volume))
        .route("/volumes/{name}/plan", post(volumes::plan_volume))
        .route("/volumes/{name}/settings/plan", post(volumes::plan_volume_settings))
        .route("/volumes/{name}/name", put(volumes::rename_volume))
        .route("/volumes/{name}/growth", post(volumes::grow_volume))
        .route("/volumes/{name}/clear", post(volumes::clear_volume))
        .route("/volumes/{name}/backing", get(volumes::backing_evidence).put(volumes::accept_backing))
        .route("/volumes/{name}/cache", put(volumes::enable_cache).delete(volumes::disable_cache))
        .route("/volumes/{name}/flush", get(volumes::volume_flush).delete(volumes::cancel_volume_flush))
        .route("/volumes/{name}/hold", delete(volumes::release_volume))
        .route("/volumes/{name}/connect", get(volumes::connect))
        .route("/volumes/{name}/explanation", get(volumes::explain))
        .route("/volumes/{name}/advisor", get(advisor::advise))
        .route("/volumes/{name}/whatif", get(advisor::whatif))
        .route("/advisor", get(advisor::advise_all))
        .route(
            "/volumes/{name}/recording",
            put(volumes::begin_recording).post(volumes::take_recorded).delete(volumes::end_recording),
        )
        .route("/operations", get(operations::list_operations).post(operations::start_operation))
        .route("/operations/{id}", get(operations::show_operation).delete(operations::cancel_operation))
        .route("/events", get(events::list_events))
        .route("/events/stream", get(events::stream_events))
        .route("/history", get(history::history))
        .route("/status", get(whole::status))
        .route("/memory-cache", get(whole::memory_cache).put(whole::set_memory_cache))
        .route("/stats", get(whole::stats))
        .route("/disks", get(whole::disks))
        .route("/session", get(whole::session))
        .route("/notices/test", post(whole::test_notices))
        .route("/tokens", get(whole::list_tokens).post(whole::create_token))
        .route("/tokens/{name}", delete(whole::delete_token))
        .route("/openapi.json", get(async || Json(Document::openapi())));
    Router::new()
        .nest(hotset_api::PREFIX, api)
        .route("/metrics", get(metrics::metrics))
        .fallback(elsewhere)
        .method_not_allowed_fallback(no_such_path)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(gate, access::admit))
        .with_state(control)
}

/// The console's files, and what is not there.
async fn elsewhere(request: Request) -> Response {
    let page = console::answer(request.method(), request.uri(), request.headers());
    match page {
        Some(page) => page,
        None => no_such_path(request).await.into_response(),
    }
}

async fn no_such_path(request: Request) -> Failure {
    let message = format!("the API has no {} {}", request.method(), request.uri().path());
    Failure(ApiError::new(ApiErrorKind::NotFound, message).with_hint("GET /api/v1/openapi.json lists all"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Set this to have the committed document written anew.
    const BLESS: &str = "HOTSET_BLESS";

    #[test]
    fn the_committed_document_is_the_one_of_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        let now = crate::client::json(&Document::openapi());
        if std::env::var_os(BLESS).is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == now,
            "docs/openapi.json is not that of the code; {BLESS}=1 cargo test -p hotset writes it"
        );
        assert!(now.contains("\"openapi\": \"3.1"), "console and clients are generated from 3.1");
    }
}
