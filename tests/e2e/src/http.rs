//! Requests to the control API, byte by byte, so that hostile ones can be sent too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use crate::daemon::Daemon;

/// An answer is there by then.
const LIMIT: Duration = Duration::from_secs(30);

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// One request over the daemon's unix socket.
#[track_caller]
pub fn ask(daemon: &Daemon, method: &str, path: &str, body: &str) -> Answer {
    let stream = UnixStream::connect(daemon.api_socket()).expect("the API listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a time can be set");
    exchange(stream, &request(method, path, &[("host", "localhost")], body)).expect("it answers")
}

/// One request to a TCP port of this machine with these headers and no others.
#[track_caller]
pub fn ask_tcp(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the API listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a time can be set");
    exchange(stream, &request(method, path, headers, body)).expect("it answers")
}

/// The bytes of a request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    format!("{text}\r\n{body}").into_bytes()
}

/// Sends bytes, and reads to the end of the connection. `None` if nothing came.
pub fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> Option<Answer> {
    // One that has read enough may have hung up and answered.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..count]);
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let head = head.to_lowercase();
    let body = if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
    Some(Answer { status, head, body })
}

fn unchunked(body: &str) -> String {
    let (mut whole, mut rest) = (String::new(), body);
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        if length == 0 || after.len() < length {
            break;
        }
        whole.push_str(&after[..length]);
        rest = after[length..].trim_start_matches("\r\n");
    }
    whole
}
