//! One request to the daemon's control API: over a unix socket, loopback TCP, or TLS.

use hotset_api::{ApiError, ApiErrorKind, PREFIX};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::address::{Address, Credentials, tls};
use crate::endpoint::Endpoint;

/// How long a daemon elsewhere has to answer the call.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Where the daemon is, and what it is shown. Each request makes its own connection.
#[derive(Clone)]
pub(crate) struct Door {
    address: Address,
    token: Option<String>,
    /// For daemons elsewhere.
    tls: Option<Arc<ClientConfig>>,
}

impl Door {
    pub(crate) fn new(address: Address, credentials: Credentials) -> Result<Self, ApiError> {
        let config = match &address {
            Address::Here(_) => None,
            Address::Elsewhere { .. } => Some(tls(credentials.authorities.as_deref())?),
        };
        Ok(Self { address, token: credentials.token, tls: config })
    }

    /// The host that a request names.
    fn host(&self) -> String {
        match &self.address {
            Address::Here(_) => "hotset".to_owned(),
            Address::Elsewhere { .. } => self.address.to_string().split_off("https://".len()),
        }
    }

    /// A secret goes to those only who cannot be somebody else.
    fn shown_token(&self) -> Option<&str> {
        let trusted = match &self.address {
            Address::Here(Endpoint::Unix(_)) => false,
            Address::Here(Endpoint::Tcp(address)) => address.ip().is_loopback(),
            Address::Elsewhere { .. } => true,
        };
        self.token.as_deref().filter(|_| trusted)
    }
}

/// Makes requests, one at a time.
pub(crate) struct Client {
    door: Door,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    pub(crate) fn new(door: Door) -> Result<Self, ApiError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ApiError::new(ApiErrorKind::Internal, format!("runtime: {error}")))?;
        Ok(Self { door, runtime })
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.runtime.block_on(request(&self.door, Method::GET, path, Vec::new()))
    }

    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.runtime.block_on(request(&self.door, Method::DELETE, path, Vec::new()))
    }

    /// Sends `body` as JSON.
    pub(crate) fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body).expect("the API's types have string keys only");
        self.runtime.block_on(request(&self.door, method, path, body))
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn door(&self) -> &Door {
        &self.door
    }
}

/// One request on a connection of its own.
pub(super) async fn request<T: DeserializeOwned>(
    door: &Door,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<T, ApiError> {
    let away = |error: std::io::Error| not_there(&door.address, &error);
    match &door.address {
        Address::Here(Endpoint::Unix(socket)) => {
            exchange(UnixStream::connect(socket).await.map_err(away)?, door, method, path, body).await
        }
        Address::Here(Endpoint::Tcp(address)) => {
            exchange(TcpStream::connect(address).await.map_err(away)?, door, method, path, body).await
        }
        Address::Elsewhere { host, port } => {
            let config = door.tls.clone().expect("a door to elsewhere is made with it");
            let connected = tokio::time::timeout(CONNECT_LIMIT, call(host, *port, config)).await;
            let late = || std::io::Error::new(ErrorKind::TimedOut, "no answer within 10 s");
            exchange(connected.unwrap_or_else(|_| Err(late())).map_err(away)?, door, method, path, body).await
        }
    }
}

async fn call(
    host: &str,
    port: u16,
    config: Arc<ClientConfig>,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let stream = TcpStream::connect((host, port)).await?;
    let name = ServerName::try_from(host.to_owned()).expect("an address is read with a name or number as its host");
    TlsConnector::from(config).connect(name, stream).await
}

async fn exchange<S, T>(stream: S, door: &Door, method: Method, path: &str, body: Vec<u8>) -> Result<T, ApiError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: DeserializeOwned,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{PREFIX}{path}"))
        .header("host", door.host())
        .header("content-type", "application/json");
    if let Some(token) = door.shown_token() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request
        .body(Full::new(Bytes::from(body)))
        .map_err(|_| ApiError::new(ApiErrorKind::Invalid, "the token has characters that no token has"))?;
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let good = response.status().is_success();
    let bytes = response.into_body().collect().await.map_err(|error| broken(&error))?.to_bytes();
    if good {
        return serde_json::from_slice(&bytes).map_err(|error| strange(&error));
    }
    Err(serde_json::from_slice(&bytes).unwrap_or_else(|error| strange(&error)))
}

fn not_there(address: &Address, error: &std::io::Error) -> ApiError {
    let kind = error.kind();
    let hint = if kind == ErrorKind::InvalidData {
        "--api-ca or HOTSET_API_CA names a file with the daemon's certificate or that of its authority"
    } else if kind == ErrorKind::PermissionDenied {
        "only the daemon's own user may use it"
    } else if matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused) {
        "start the daemon with `hotset serve`, or name its API with --api or HOTSET_API"
    } else {
        "name the daemon's API with --api or HOTSET_API"
    };
    ApiError::new(ApiErrorKind::Unavailable, format!("no daemon at {address} ({error})")).with_hint(hint)
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
