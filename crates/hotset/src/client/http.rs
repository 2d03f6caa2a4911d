//! One request to the daemon's control API: over a unix socket, loopback TCP, or TLS.

use hotset_api::{ApiError, ApiErrorKind, PREFIX};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::address::{Address, Credentials, tls};
use crate::endpoint::Endpoint;
use crate::escape::escaped;
use crate::running_time::Tries;

/// How long a daemon elsewhere has to answer the call.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long a daemon of this machine that was just started may take to listen.
const START_LIMIT: Duration = Duration::from_secs(2);

/// Where the daemon is, what it is shown, and what becomes of its answers. Each request makes its own connection.
#[derive(Clone)]
pub(crate) struct ApiDoor {
    address: Address,
    token: Option<String>,
    /// For daemons elsewhere.
    tls: Option<Arc<ClientConfig>>,
    answers: Answers,
}

/// What is done with answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    /// How long there may be no sign of the daemon; `None`: for ever.
    pub(crate) limit: Option<Duration>,
    /// They are printed for people: what is in them is shown, and not obeyed, by a terminal.
    pub(crate) for_people: bool,
}

impl ApiDoor {
    pub(crate) fn new(address: Address, credentials: Credentials, answers: Answers) -> Result<Self, ApiError> {
        let config = match &address {
            Address::Here(_) => None,
            Address::Elsewhere { .. } => Some(tls(credentials.authorities.as_deref())?),
        };
        Ok(Self { address, token: credentials.token, tls: config, answers })
    }

    /// Its paths are those of this machine.
    pub(super) fn is_of_this_machine(&self) -> bool {
        match &self.address {
            Address::Here(_) => true,
            Address::Elsewhere { .. } => false,
        }
    }

    /// The host that a request names.
    fn host(&self) -> String {
        match &self.address {
            Address::Here(Endpoint::Unix(_)) => "hotset".to_owned(),
            Address::Here(Endpoint::Tcp(_)) => "localhost".to_owned(),
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
    door: ApiDoor,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    pub(crate) fn new(door: ApiDoor) -> Result<Self, ApiError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ApiError::new(ApiErrorKind::Internal, format!("runtime: {error}")))?;
        Ok(Self { door, runtime })
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.request(&self.door, Method::GET, path, Vec::new())
    }

    /// The answer as it is, whoever it is printed for.
    pub(crate) fn get_exactly<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.request(&self.exact_door(), Method::GET, path, Vec::new())
    }

    /// As that, of a request that takes something.
    pub(super) fn take_exactly<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.request(&self.exact_door(), Method::POST, path, Vec::new())
    }

    fn exact_door(&self) -> ApiDoor {
        let answers = Answers { for_people: false, ..self.door.answers };
        ApiDoor { answers, ..self.door.clone() }
    }

    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.request(&self.door, Method::DELETE, path, Vec::new())
    }

    /// Sends `body` as JSON.
    pub(crate) fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body).expect("the API's types have string keys only");
        self.request(&self.door, method, path, body)
    }

    fn request<T: DeserializeOwned>(
        &self,
        door: &ApiDoor,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, ApiError> {
        understood(self.runtime.block_on(answer(door, method, path, body))?)
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn door(&self) -> &ApiDoor {
        &self.door
    }
}

/// One request on a connection of its own.
pub(super) async fn request<T: DeserializeOwned>(
    door: &ApiDoor,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<T, ApiError> {
    understood(answer(door, method, path, body).await?)
}

/// What only looks is answered in time, or the daemon does not answer; what changes something may take as long as it takes, while the daemon
/// answers others. Of no type: one that had the answer's would be built once for each.
async fn answer(door: &ApiDoor, method: Method, path: &str, body: Vec<u8>) -> Result<Value, ApiError> {
    let Some(limit) = door.answers.limit else { return ask(door, method, path, body).await };
    let changes = method != Method::GET;
    let answer = ask(door, method, path, body);
    if !changes {
        return tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(silent(door, limit)));
    }
    let mut answer = std::pin::pin!(answer);
    loop {
        tokio::select! {
            outcome = &mut answer => return outcome,
            answers = answers_others(door, limit) => if !answers {
                return Err(silent(door, limit).with_hint(
                    "what was asked for may still be done: look before you ask again; --timeout waits longer",
                ));
            }
        }
    }
}

/// After a while, whether the daemon answers a question that its data plane takes part in; the answer may be any.
async fn answers_others(door: &ApiDoor, limit: Duration) -> bool {
    tokio::time::sleep(limit / 2).await;
    let question = ask(door, Method::GET, "/stats", Vec::new());
    tokio::time::timeout(limit / 2, question).await.is_ok()
}

fn silent(door: &ApiDoor, limit: Duration) -> ApiError {
    let message = format!("the daemon at {} did not answer within {} s", door.address, limit.as_secs_f64());
    ApiError::new(ApiErrorKind::Unavailable, message).with_hint("is it stopped, or overloaded? --timeout waits longer")
}

async fn ask(door: &ApiDoor, method: Method, path: &str, body: Vec<u8>) -> Result<Value, ApiError> {
    let stream = connect(door).await.map_err(|error| not_there(&door.address, &error))?;
    exchange(stream, door, method, path, body).await
}

/// Of whatever kind a connection is.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

async fn connect(door: &ApiDoor) -> std::io::Result<Box<dyn Stream>> {
    Ok(match &door.address {
        Address::Here(Endpoint::Unix(socket)) => Box::new(once_started(door, || UnixStream::connect(socket)).await?),
        Address::Here(Endpoint::Tcp(address)) => Box::new(once_started(door, || TcpStream::connect(address)).await?),
        Address::Elsewhere { host, port } => {
            let config = door.tls.clone().expect("a door to elsewhere is made with it");
            let connected = tokio::time::timeout(CONNECT_LIMIT, call(host, *port, config)).await;
            let late = || std::io::Error::new(ErrorKind::TimedOut, "no answer within 10 s");
            Box::new(connected.unwrap_or_else(|_| Err(late()))?)
        }
    })
}

/// Connects by `connect`, again and again for a moment while nobody listens: a command that comes right after the start of
/// the daemon needs no wait of its caller.
async fn once_started<T, C: Future<Output = std::io::Result<T>>>(
    door: &ApiDoor,
    connect: impl Fn() -> C,
) -> std::io::Result<T> {
    // Who waits for less learns that nobody is there before that time is over.
    let limit = door.answers.limit.map_or(START_LIMIT, |limit| START_LIMIT.min(limit / 4));
    let mut tries = Tries::within(limit);
    loop {
        match connect().await {
            Err(error) if is_nobody(error.kind()) && tries.again() => tokio::time::sleep(Tries::PAUSE).await,
            result => return result,
        }
    }
}

/// Nobody listens there.
fn is_nobody(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused)
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

async fn exchange(
    stream: Box<dyn Stream>,
    door: &ApiDoor,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<Value, ApiError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    tokio::spawn(connection);
    let uri: Uri = format!("{PREFIX}{}", escaped_path(path)).parse().map_err(|error| {
        ApiError::new(ApiErrorKind::Invalid, format!("{path}: no request can ask for that: {error}"))
    })?;
    let mut request = Request::builder()
        .method(method)
        .uri(uri)
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
    let answer = read(&bytes, door.answers.for_people).map_err(|error| strange(&error))?;
    if good { Ok(answer) } else { Err(understood(answer).unwrap_or_else(|error| error)) }
}

/// Names have two characters that a path of HTTP has not (RFC 3986, 3.3).
fn escaped_path(path: &str) -> String {
    path.replace('<', "%3C").replace('>', "%3E")
}

/// For people, with what a terminal would obey made harmless: here, where all that is not ours comes through.
fn read(bytes: &[u8], for_people: bool) -> Result<Value, serde_json::Error> {
    let mut answer = serde_json::from_slice(bytes)?;
    if for_people {
        escape_texts(&mut answer);
    }
    Ok(answer)
}

fn understood<T: DeserializeOwned>(answer: Value) -> Result<T, ApiError> {
    serde_json::from_value(answer).map_err(|error| strange(&error))
}

fn escape_texts(value: &mut Value) {
    match value {
        Value::String(text) => *text = escaped(text),
        Value::Array(values) => values.iter_mut().for_each(escape_texts),
        Value::Object(values) => values.values_mut().for_each(escape_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn not_there(address: &Address, error: &std::io::Error) -> ApiError {
    let kind = error.kind();
    let hint = if kind == ErrorKind::InvalidData {
        "--api-ca or HOTSET_API_CA names a file with the daemon's certificate or that of its authority"
    } else if kind == ErrorKind::PermissionDenied {
        "only the daemon's own user may use it"
    } else if is_nobody(kind) {
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(200);

    fn client(socket: &std::path::Path) -> Client {
        let address = Address::Here(Endpoint::Unix(socket.to_owned()));
        let answers = Answers { limit: Some(LIMIT), for_people: true };
        Client::new(ApiDoor::new(address, Credentials::default(), answers).unwrap()).unwrap()
    }

    #[test]
    fn a_daemon_that_takes_connections_and_never_answers_ends_every_kind_of_request() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("api");
        let _listener = UnixListener::bind(&socket).unwrap();
        let client = client(&socket);
        for outcome in
            [client.get::<Value>("/status"), client.delete("/pools/p"), client.send(Method::POST, "/pools", &())]
        {
            let error = outcome.expect_err("nobody answers");
            assert_eq!(error.kind, ApiErrorKind::Unavailable);
            assert!(error.message.contains("did not answer within 0.2 s"), "{}", error.message);
        }
    }

    #[test]
    fn a_command_that_comes_before_the_daemon_listens_waits_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("api");
        let answers = Answers { limit: None, for_people: true };
        let door =
            ApiDoor::new(Address::Here(Endpoint::Unix(socket.clone())), Credentials::default(), answers).unwrap();
        let client = Client::new(door.clone()).unwrap();
        let connected = client.block_on(async {
            let listens_later = async {
                tokio::time::sleep(Tries::PAUSE * 3).await;
                UnixListener::bind(&socket).unwrap()
            };
            let (connected, _listener) = tokio::join!(connect(&door), listens_later);
            connected
        });
        assert!(connected.is_ok(), "{:?}", connected.err());
    }

    #[test]
    fn all_that_people_read_of_an_answer_is_made_harmless() {
        let evil = r#"{"subject": {"kind": "volume", "name": "a\u001b[2J\nb"}, "list": ["\u009b"], "n": 18446744073709551615}"#;
        let shown = read(evil.as_bytes(), true).unwrap();
        assert_eq!(shown["subject"]["name"], "a\\u{1b}[2J\\nb");
        assert_eq!((&shown["list"][0], shown["n"].as_u64()), (&serde_json::json!("\\u{9b}"), Some(u64::MAX)));
        let exact = read(evil.as_bytes(), false).unwrap();
        assert_eq!(exact["list"][0], "\u{9b}");
    }
}
