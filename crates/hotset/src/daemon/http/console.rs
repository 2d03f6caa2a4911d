//! The web console's files, embedded in the binary. Only what is in the table is served: no path leads to a file system.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;

/// A file of the console.
struct ConsoleFile {
    /// From the root, as `/assets/index.js`.
    path: &'static str,
    /// Its entity tag.
    tag: &'static str,
    plain: &'static [u8],
    compressed: &'static [u8],
}

/// What the build found; empty if the console was left out.
static FILES: &[ConsoleFile] = include!(concat!(env!("OUT_DIR"), "/console_files.rs"));

/// Shown at `/` in a build without the console.
const LEFT_OUT: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Hotset</title></head>\
    <body><h1>Hotset</h1><p>This binary was built without the web console. To have it, run <code>make console</code> \
    (it needs Node.js) and build again.</p><p>The API is at <a href=\"/api/v1/openapi.json\">/api/v1</a>, and \
    <code>hotset --help</code> shows the command line.</p></body></html>\n";

/// Answers a path of the console; `None` if it has no such path.
pub(super) fn answer(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
    if method != Method::GET && method != Method::HEAD {
        return None;
    }
    let path = uri.path();
    if FILES.is_empty() {
        return (path == "/").then(|| response("text/html; charset=utf-8", Body::from(LEFT_OUT)));
    }
    find(FILES, path).map(|file| serve(file, headers))
}

/// The file of a path. The console has views of its own whose paths have no dot: those are all the first page.
fn find<'a>(files: &'a [ConsoleFile], path: &str) -> Option<&'a ConsoleFile> {
    let view = !path.rsplit('/').next().unwrap_or("").contains('.') && !path.starts_with("/api");
    let wanted = if view { "/index.html" } else { path };
    files.iter().find(|file| file.path == wanted)
}

fn serve(file: &'static ConsoleFile, headers: &HeaderMap) -> Response {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let mut answer = if known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == file.tag)) {
        let mut unchanged = Response::new(Body::empty());
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        unchanged
    } else if takes_gzip(headers) {
        let mut packed = response(content_type(file.path), Body::from(file.compressed));
        packed.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        packed
    } else {
        response(content_type(file.path), Body::from(file.plain))
    };
    // Vite puts a hash of the content into the names of assets.
    let caching = if file.path.starts_with("/assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    answer.headers_mut().insert(header::ETAG, HeaderValue::from_static(file.tag));
    answer
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("");
    accepted.split(',').any(|one| one.trim() == "gzip" || one.trim().starts_with("gzip;") && !one.contains("q=0"))
}

fn response(content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or("") {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: [ConsoleFile; 2] = [
        ConsoleFile { path: "/index.html", tag: "\"1\"", plain: b"page", compressed: b"packed" },
        ConsoleFile { path: "/assets/a-1.js", tag: "\"2\"", plain: b"code", compressed: b"packed" },
    ];

    #[test]
    fn views_are_the_first_page_and_files_are_themselves() {
        for path in ["/", "/pools", "/volumes/v", "/index.html"] {
            assert_eq!(find(&TABLE, path).map(|file| file.path), Some("/index.html"), "{path}");
        }
        assert_eq!(find(&TABLE, "/assets/a-1.js").map(|file| file.path), Some("/assets/a-1.js"));
        for path in ["/assets/none.js", "/../etc/passwd.txt", "/assets/../a-1.js", "/api/v1/none", "/%2e%2e/a.js"] {
            assert!(find(&TABLE, path).is_none(), "{path}");
        }
    }

    #[test]
    fn who_takes_gzip_gets_it_and_who_has_it_already_gets_nothing() {
        let mut headers = HeaderMap::new();
        assert!(!serve(&TABLE[1], &headers).headers().contains_key(header::CONTENT_ENCODING));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("br, gzip"));
        let answer = serve(&TABLE[1], &headers);
        assert_eq!(answer.headers()[header::CONTENT_ENCODING], "gzip");
        assert!(answer.headers()[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"9\", \"2\""));
        assert_eq!(serve(&TABLE[1], &headers).status(), StatusCode::NOT_MODIFIED);
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip;q=0"));
        assert!(!takes_gzip(&headers));
    }
}
