//! One request to the daemon's control API, over a unix socket or loopback TCP.

use hotset_api::{ApiError, ApiErrorKind, PREFIX};
use std::io::ErrorKind;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::endpoint::Endpoint;

/// Where the daemon is. Each request makes its own connection.
pub(crate) struct Client {
    endpoint: Endpoint,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    pub(crate) fn new(endpoint: Endpoint) -> Result<Self, ApiError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ApiError::new(ApiErrorKind::Internal, format!("runtime: {error}")))?;
        Ok(Self { endpoint, runtime })
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.runtime.block_on(request(&self.endpoint, Method::GET, path, Vec::new()))
    }

    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.runtime.block_on(request(&self.endpoint, Method::DELETE, path, Vec::new()))
    }

    /// Sends `body` as JSON.
    pub(crate) fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body).expect("the API's types have string keys only");
        self.runtime.block_on(request(&self.endpoint, method, path, body))
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// One request on a connection of its own.
pub(super) async fn request<T: DeserializeOwned>(
    endpoint: &Endpoint,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<T, ApiError> {
    match endpoint {
        Endpoint::Unix(socket) => {
            let stream = UnixStream::connect(socket).await.map_err(|error| not_there(endpoint, &error))?;
            exchange(stream, method, path, body).await
        }
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect(address).await.map_err(|error| not_there(endpoint, &error))?;
            exchange(stream, method, path, body).await
        }
    }
}

async fn exchange<S, T>(stream: S, method: Method, path: &str, body: Vec<u8>) -> Result<T, ApiError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: DeserializeOwned,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(format!("{PREFIX}{path}"))
        .header("host", "hotset")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .expect("paths are made of names that need no escape");
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let good = response.status().is_success();
    let bytes = response.into_body().collect().await.map_err(|error| broken(&error))?.to_bytes();
    if good {
        return serde_json::from_slice(&bytes).map_err(|error| strange(&error));
    }
    Err(serde_json::from_slice(&bytes).unwrap_or_else(|error| strange(&error)))
}

fn not_there(endpoint: &Endpoint, error: &std::io::Error) -> ApiError {
    let kind = error.kind();
    let hint = if kind == ErrorKind::PermissionDenied {
        "only the daemon's own user may use it"
    } else if matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused) {
        "start the daemon with `hotset serve`, or name its API with --api or HOTSET_API"
    } else {
        "name the daemon's API with --api or HOTSET_API"
    };
    ApiError::new(ApiErrorKind::Unavailable, format!("no daemon at {endpoint} ({error})")).with_hint(hint)
}

fn broken(error: &hyper::Error) -> ApiError {
    ApiError::new(ApiErrorKind::Unavailable, format!("the daemon broke the connection off: {error}"))
        .with_hint("its log says why")
}

fn strange(error: &serde_json::Error) -> ApiError {
    ApiError::new(
        ApiErrorKind::Internal,
        format!("the daemon's answer is not understood ({error}): is it of the same version as this command?"),
    )
}
