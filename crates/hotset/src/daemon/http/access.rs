//! Who gets in: by which door, under which name of ours, from which page, with which token; and what then is allowed.
//!
//! The unix socket is its owner's. Loopback TCP needs no token, but honours one. Every other address needs TLS and a token.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hotset_api::{ApiError, ApiErrorKind, Role};

use super::exchange::Failure;
use crate::daemon::counters::Counters;
use crate::daemon::room::Visit;
use crate::daemon::tokens::{Identity, Tokens};
use crate::daemon::who::Who;

/// The web console loads nothing from elsewhere, runs no script that is not a file of ours, and is shown in no frame.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// How a client came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientDoor {
    Unix,
    Loopback,
    Tls,
}

/// What is asked of those who come by one door.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) door: ClientDoor,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) counters: Counters,
    /// Names of this machine by which hosts elsewhere may call it.
    pub(crate) names: Arc<Vec<String>>,
}

/// Where a request came from.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// For people.
    pub(crate) words: Arc<str>,
    /// Of a process on this machine, where that can be told.
    pub(crate) user: Option<u32>,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    pub(crate) token: Option<Identity>,
}

impl Caller {
    /// For what is told of what they change.
    fn identity(&self, request: &Request) -> Who {
        // Browsers say of which kind a page's request is; nobody else does.
        let console = !text(request.headers(), "sec-fetch-site").is_empty();
        let user = request.extensions().get::<Peer>().and_then(|peer| peer.user);
        match (&self.token, user) {
            (Some(token), _) => Who::Token { name: token.name().to_owned(), console },
            (None, Some(number)) => Who::User { number, console },
            (None, None) => Who::ThisMachine { console },
        }
    }

    pub(super) fn must_be_admin(&self, what: &str) -> Result<(), ApiError> {
        match self.role {
            Role::Admin => Ok(()),
            Role::View => {
                let message = format!("{what}: the role of this token is view, which changes nothing");
                Err(ApiError::new(ApiErrorKind::Forbidden, message).with_hint("use a token of the role admin"))
            }
        }
    }
}

/// Lets a request through, or says why not.
pub(super) async fn admit(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let visit = request.extensions().get::<Visit>().cloned();
    if let Some(visit) = &visit {
        visit.is_answered();
    }
    let mut response = match gate.check(&request) {
        Ok(client) => {
            let who = client.as_ref().map_or(Who::Daemon, |client| client.identity(&request));
            request.extensions_mut().insert(client);
            who.have(next.run(request)).await
        }
        Err(error) => {
            if error.kind == ApiErrorKind::Unauthenticated {
                let peer = request.extensions().get::<Peer>().map_or("somebody", |peer| &peer.words);
                gate.counters.login_refused(peer, &error.message);
            }
            Failure(error).into_response()
        }
    };
    secure(response.headers_mut());
    if let Some(visit) = &visit {
        visit.was_answered();
    }
    response
}

fn secure(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

impl Gate {
    fn check(&self, request: &Request) -> Result<Option<Caller>, ApiError> {
        let headers = request.headers();
        let host = text(headers, header::HOST.as_str());
        if !self.answers_to(host) {
            let message = format!("host {host:?}: this API does not answer to that name");
            let hint = match self.door {
                ClientDoor::Unix | ClientDoor::Loopback => "call it localhost",
                ClientDoor::Tls => "call it by its address, or add the name to api_names in the configuration",
            };
            return Err(ApiError::new(ApiErrorKind::Forbidden, message).with_hint(hint));
        }
        let path = request.uri().path();
        if !path.starts_with("/api") && path != "/metrics" {
            // The console's files are no secret, and a person needs them to give a token.
            return Ok(self.who(headers).ok());
        }
        check_page(headers, host)?;
        let client = self.who(headers)?;
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            client.must_be_admin(&format!("{} {path}", request.method()))?;
        }
        Ok(Some(client))
    }

    /// Refuses names by which a foreign page has had a browser come here (DNS rebinding).
    fn answers_to(&self, host: &str) -> bool {
        let name = host_name(host);
        let ip = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let local = name.eq_ignore_ascii_case("localhost") || ip.is_some_and(|ip| ip.is_loopback());
        match self.door {
            ClientDoor::Unix => local || ["", "hotset"].contains(&name),
            // Any other name may be somebody else's: of a network that gives out short names, this one too.
            ClientDoor::Loopback => local,
            // An address cannot be rebound.
            ClientDoor::Tls => ip.is_some() || local || self.names.iter().any(|own| own.eq_ignore_ascii_case(name)),
        }
    }

    fn who(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return match self.door {
                ClientDoor::Unix | ClientDoor::Loopback => Ok(Caller { role: Role::Admin, token: None }),
                ClientDoor::Tls => Err(unauthenticated("this address needs a token")),
            };
        };
        let token = value.to_str().ok().and_then(|value| value.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        let found = token.and_then(|token| self.tokens.who(token));
        let (identity, role) = found.ok_or_else(|| unauthenticated("the token is not known here"))?;
        Ok(Caller { role, token: Some(identity) })
    }
}

fn unauthenticated(message: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Unauthenticated, message)
        .with_hint("`hotset token create` on the machine of the daemon makes one; it goes into Authorization: Bearer")
}

/// Refuses requests that a browser sends for a page of another origin.
fn check_page(headers: &HeaderMap, host: &str) -> Result<(), ApiError> {
    let refused = |what: String| Err(ApiError::new(ApiErrorKind::Forbidden, what));
    if let Some(origin) = headers.get(header::ORIGIN) {
        let own = [format!("http://{host}"), format!("https://{host}")];
        if !origin.to_str().is_ok_and(|origin| own.iter().any(|own| own == origin)) {
            return refused(format!("origin {origin:?}: only the daemon's own pages may use this API"));
        }
    }
    match text(headers, "sec-fetch-site") {
        "" | "same-origin" | "none" => Ok(()),
        site => refused(format!("a {site} request: only the daemon's own pages may use this API")),
    }
}

/// A header's value; empty if there is none, or if it is no text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// Without the port.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn gate(door: ClientDoor) -> Gate {
        Gate {
            door,
            tokens: Arc::default(),
            counters: Counters::default(),
            names: Arc::new(vec!["cache.example".to_owned()]),
        }
    }

    fn check(
        door: ClientDoor,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Option<Caller>, ApiErrorKind> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        gate(door).check(&request.body(Body::empty()).unwrap()).map_err(|error| error.kind)
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["localhost", "localhost:7780", "127.0.0.1:7780", "127.0.0.2", "[::1]:7780", "[::1]", "LocalHost"] {
            for door in [ClientDoor::Unix, ClientDoor::Loopback, ClientDoor::Tls] {
                assert!(gate(door).answers_to(host), "{host} {door:?}");
            }
        }
        let foreign =
            ["example.org", "example.org:80", "10.0.0.1:7780", "localhost.example.org", "[::2]:80", "127.evil"];
        for host in foreign.into_iter().chain(["hotset", "hotset:7780", ""]) {
            assert!(!gate(ClientDoor::Loopback).answers_to(host), "{host}");
        }
        for (host, answers) in
            [("192.0.2.7:443", true), ("cache.example:443", true), ("evil.example:443", false), ("", false)]
        {
            assert_eq!(gate(ClientDoor::Tls).answers_to(host), answers, "{host}");
        }
    }

    #[test]
    fn a_page_of_another_origin_drives_nothing() {
        let host = ("host", "localhost:1");
        for foreign in ["http://evil.example", "null", "http://localhost:2", "https://localhost:1.evil.example"] {
            let refused = check(ClientDoor::Loopback, "POST", "/api/v1/pools", &[host, ("origin", foreign)]);
            assert_eq!(refused, Err(ApiErrorKind::Forbidden), "{foreign}");
        }
        assert!(
            check(ClientDoor::Loopback, "POST", "/api/v1/pools", &[host, ("origin", "http://localhost:1")]).is_ok()
        );
        let site =
            |site| check(ClientDoor::Loopback, "GET", "/api/v1/status", &[host, ("sec-fetch-site", site)]).is_ok();
        assert!(site("same-origin") && site("none") && !site("cross-site") && !site("same-site"));
    }

    #[test]
    fn over_the_network_nothing_but_the_consoles_files_is_there_without_a_token() {
        let host = ("host", "192.0.2.1");
        for path in ["/api/v1/status", "/api", "/api/v1/none", "/metrics"] {
            assert_eq!(check(ClientDoor::Tls, "GET", path, &[host]), Err(ApiErrorKind::Unauthenticated), "{path}");
        }
        let wrong = check(ClientDoor::Tls, "GET", "/api/v1/status", &[host, ("authorization", "Bearer hotset_00")]);
        assert_eq!(wrong, Err(ApiErrorKind::Unauthenticated));
        assert_eq!(check(ClientDoor::Tls, "GET", "/", &[host]), Ok(None));
        let wrong_but_local = [("host", "localhost"), ("authorization", "Bearer nobody")];
        let refused = check(ClientDoor::Loopback, "GET", "/api/v1/status", &wrong_but_local);
        assert_eq!(refused, Err(ApiErrorKind::Unauthenticated), "a token that is given must be right");
    }

    #[test]
    fn a_viewer_changes_nothing() {
        let viewer = Caller { role: Role::View, token: None };
        assert_eq!(viewer.must_be_admin("x").unwrap_err().kind, ApiErrorKind::Forbidden);
    }
}
