//! A notice is posted to a web hook, as JSON.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::delivery::{Delivery, DeliveryFailure};
use super::notice::Notice;
use super::trust::authorities;
use crate::daemon::notice_settings::{WebHook, hide_path};
use crate::{given_file, running_time};

/// What is looked at of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What is wrong with the notice itself: it stays wrong. Everything else, a wrong path or token above all, can be mended.
const WRONG_NOTICE: [StatusCode; 3] =
    [StatusCode::BAD_REQUEST, StatusCode::PAYLOAD_TOO_LARGE, StatusCode::UNPROCESSABLE_ENTITY];

/// Blocks, `limit` long at most.
pub(super) fn post(hook: &WebHook, notice: &Notice, limit: Duration) -> Result<Delivery, DeliveryFailure> {
    let uri = hook.address.resolve().map_err(DeliveryFailure::passing)?;
    let prepared = Prepared::of(hook, &uri, notice).map_err(DeliveryFailure::passing)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| DeliveryFailure::passing(error.to_string()))?;
    let late = || DeliveryFailure::passing(format!("no answer within {} s", limit.as_secs()));
    let answered = runtime.block_on(async { running_time::timeout(limit, prepared.exchange()).await });
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    let (status, said) = answered.map_err(|_| late())?.map_err(DeliveryFailure::passing)?;
    if status.is_success() {
        return Ok(Delivery::to_all(status.to_string()));
    }
    let said = hide_path(&uri, said.lines().next().unwrap_or_default());
    let said: String = said.chars().take(200).collect();
    let what = if said.is_empty() { status.to_string() } else { format!("{status}: {said}") };
    Err(DeliveryFailure { what: format!("answered {what}"), permanent: WRONG_NOTICE.contains(&status) })
}

/// All that has to be read before anybody is called.
struct Prepared {
    host: String,
    port: u16,
    request: Request<Full<Bytes>>,
    /// None: in the clear.
    tls: Option<Arc<ClientConfig>>,
}

impl Prepared {
    fn of(hook: &WebHook, uri: &Uri, notice: &Notice) -> Result<Self, String> {
        let is_secure = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default();
        let authority = uri.authority().map_or(host, |authority| authority.as_str());
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::post(path)
            .header("host", authority)
            .header("content-type", "application/json")
            .header("user-agent", concat!("hotset/", env!("CARGO_PKG_VERSION")));
        if let Some(file) = &hook.token_file {
            let token = given_file::read_text(file)
                .map_err(|error| format!("web_hook_token_file {}: {error}", file.display()))?;
            request = request.header("authorization", format!("Bearer {}", token.trim()));
        }
        let request = request.body(Full::new(Bytes::from(notice.to_json())));
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 }),
            request: request.map_err(|error| format!("the token has characters that no token has: {error}"))?,
            tls: is_secure.then(|| client_config(hook)).transpose()?,
        })
    }

    async fn exchange(self) -> Result<(StatusCode, String), String> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| format!("{}:{}: {error}", self.host, self.port))?;
        let Some(tls) = self.tls else { return post_over(stream, self.request).await };
        let name = ServerName::try_from(self.host.clone()).map_err(|error| format!("{}: {error}", self.host))?;
        let secured = TlsConnector::from(tls).connect(name, stream).await;
        post_over(secured.map_err(|error| format!("TLS with {}:{}: {error}", self.host, self.port))?, self.request)
            .await
    }
}

fn client_config(hook: &WebHook) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities(hook.ca.as_deref())?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

async fn post_over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, String), String> {
    let broken = |error: hyper::Error| format!("the connection broke: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    // The status is the answer; what else is said is for people.
    let said = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let said = said.map(|said| String::from_utf8_lossy(&said.to_bytes()).into_owned()).unwrap_or_default();
    Ok((status, said))
}
