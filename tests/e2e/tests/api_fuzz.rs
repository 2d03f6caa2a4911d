//! The API fuzzed from its own document: whatever is sent, the daemon answers, never by a fault of its own, and serves on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotset_e2e::daemon::{Daemon, free_port};
use hotset_e2e::http::{ask, exchange, request};
use hotset_e2e::pattern::Random;
use hotset_e2e::tools::{command, skip};
use serde_json::{Map, Value, json};

/// How long it goes on; shorter than a test may take, on a slow machine too.
const LIMIT: Duration = Duration::from_secs(20);

/// So many requests are enough.
const REQUESTS_MAX: u32 = 4000;

const SEED: u64 = 0x5EED;

/// Values by the schemas of the document, and against them.
struct Fuzzer {
    document: Value,
    random: Random,
    /// Texts that stand for names and paths: none leads to anything but the test's own files.
    texts: Vec<String>,
}

impl Fuzzer {
    fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).expect("an address has 64 bits at most");
        usize::try_from(self.random.below(count)).expect("it is below a count of this type")
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn text(&mut self) -> String {
        let index = self.below(self.texts.len());
        self.texts[index].clone()
    }

    /// A value that no schema asked for.
    fn nonsense(&mut self) -> Value {
        let choices = [
            Value::Null,
            json!(-1),
            json!(u64::MAX),
            json!(1e308),
            json!(true),
            json!([]),
            json!({"a": {"b": [null]}}),
            json!("\u{0}\u{7f}\u{202e}"),
            json!("x".repeat(5000)),
        ];
        let index = self.below(choices.len());
        choices[index].clone()
    }

    fn value(&mut self, schema: &Value, depth: u32) -> Value {
        if depth > 6 || self.one_in(15) {
            return self.nonsense();
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.document.pointer(reference.trim_start_matches('#')).cloned().unwrap_or(Value::Null);
            return self.value(&target, depth + 1);
        }
        if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()).cloned() {
            let index = self.below(choices.len());
            return self.value(&choices[index], depth + 1);
        }
        if let Some(words) = schema["enum"].as_array().cloned() {
            let index = self.below(words.len());
            return words[index].clone();
        }
        let kind = match schema["type"].as_array() {
            Some(kinds) => kinds[self.below(kinds.len())].as_str().unwrap_or("").to_owned(),
            None => schema["type"].as_str().unwrap_or("").to_owned(),
        };
        match kind.as_str() {
            "object" => self.object(schema, depth),
            "array" => {
                let count = self.below(4);
                (0..count).map(|_| self.value(&schema["items"], depth + 1)).collect()
            }
            "string" => Value::from(self.text()),
            "integer" | "number" => {
                let numbers = [0, 1, 2, 4, 5, 64, 512, 4096, 65_536, 1 << 20, u64::from(u32::MAX), 1 << 62];
                Value::from(numbers[self.below(12)])
            }
            "boolean" => Value::from(self.one_in(2)),
            _ => self.nonsense(),
        }
    }

    fn object(&mut self, schema: &Value, depth: u32) -> Value {
        let mut made = Map::new();
        for (name, property) in schema["properties"].as_object().cloned().unwrap_or_default() {
            let required = schema["required"].as_array().is_some_and(|list| list.iter().any(|one| *one == name));
            if (required && !self.one_in(20)) || self.one_in(2) {
                let value = self.value(&property, depth + 1);
                made.insert(name, value);
            }
        }
        if self.one_in(20) {
            let (name, value) = (self.text(), self.nonsense());
            made.insert(name, value);
        }
        Value::Object(made)
    }

    /// A method, a path with its query, and a body, for an operation of the document.
    fn request(&mut self, path: &str, method: &str) -> (String, String) {
        let operation = self.document["paths"][path][method].clone();
        let (mut path, mut query) = (path.to_owned(), Vec::new());
        for parameter in operation["parameters"].as_array().cloned().unwrap_or_default() {
            let name = parameter["name"].as_str().unwrap_or("").to_owned();
            let value = self.value(&parameter["schema"], 0);
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if parameter["in"] == "path" {
                path = path.replace(&format!("{{{name}}}"), &escaped(&value));
            } else if self.one_in(2) {
                query.push(format!("{name}={}", escaped(&value)));
            }
        }
        if !query.is_empty() {
            path.push_str(&format!("?{}", query.join("&")));
        }
        let schema = operation["requestBody"]["content"]["application/json"]["schema"].clone();
        let body = if schema.is_null() { String::new() } else { self.value(&schema, 0).to_string() };
        let cut = self.one_in(30).then(|| self.below(body.len() + 1));
        let body = cut.and_then(|length| body.get(..length)).unwrap_or(&body).to_owned();
        (path, body)
    }
}

/// For a part of a path or a query.
fn escaped(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn committed_document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")
}

// proves: S4
#[test]
fn whatever_is_sent_by_its_document_the_api_answers_and_serves_on() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[32, 32], "");
    let backing = daemon.site.numbered("other", 64);
    daemon.ok(&format!("volume create v --backing {} --pool p", backing.display()));
    let document: Value =
        serde_json::from_slice(&fs::read(committed_document()).expect("it is there")).expect("it is JSON");
    let site = daemon.site.path("");
    let texts =
        ["v", "p", "w", "", ".", "..", "volume:v", "pool:p", "ssd:0", "é\u{301}", "a b", "%00", "a/../b", "/nowhere"];
    let files = ["ssd0", "other", "state", "none.img"].map(|name| site.join(name).display().to_string());
    let texts = texts.map(str::to_owned).into_iter().chain(files).collect();
    let mut fuzzer = Fuzzer { document: document.clone(), random: Random::new(SEED), texts };
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().expect("it has paths") {
        // The stream has no end.
        for method in
            item.as_object().into_iter().flatten().map(|(method, _)| method).filter(|_| !path.ends_with("/stream"))
        {
            operations.push((path.clone(), method.clone()));
        }
    }
    assert!(operations.len() > 25, "{}", operations.len());
    let (started, mut answered, mut good) = (Instant::now(), 0, 0);
    while started.elapsed() < LIMIT && answered < REQUESTS_MAX {
        let (path, method) = operations[fuzzer.below(operations.len())].clone();
        let (target, body) = fuzzer.request(&path, &method);
        let stream = std::os::unix::net::UnixStream::connect(daemon.api_socket()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time can be set");
        let bytes = request(&method.to_uppercase(), &target, &[("host", "localhost")], &body);
        let answer = exchange(stream, &bytes).unwrap_or_else(|| panic!("no answer to {method} {target} {body}"));
        assert!(answer.status < 500, "{method} {target} {body}: {} {}", answer.status, answer.body);
        if answer.status >= 400 {
            let error = answer.json();
            assert!(error["code"].is_string() && error["message"].is_string(), "{method} {target}: {error}");
        }
        answered += 1;
        good += u32::from(answer.status < 300);
    }
    assert!(good > 20, "of {answered} requests only {good} were good: the fuzzer reaches nothing");
    assert_eq!(ask(&daemon, "GET", "/api/v1/status", "").status, 200);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// Schemathesis' own fuzzing ends after this; its coverage of every parameter's limits comes before.
const SCHEMATHESIS_SECONDS: &str = "25";

/// What holds for every answer, whatever was asked.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

// Our own fuzzer knows names and files that lead somewhere; this one knows the document, and compares every answer with it.
// proves: S4
#[test]
fn schemathesis_finds_no_answer_that_the_document_does_not_describe() {
    let Some(packages) = std::env::var_os("HOTSET_SCHEMATHESIS") else {
        return skip("HOTSET_SCHEMATHESIS names no folder with Schemathesis; `cargo x test` brings it");
    };
    let port = free_port();
    let mut daemon = Daemon::prepare(&format!("--missing-wait 1 --api tcp:127.0.0.1:{port}"));
    daemon.launch();
    daemon.make_read_write_pool(&[32, 32], "");
    let backing = daemon.site.numbered("other", 64);
    daemon.ok(&format!("volume create v --backing {} --pool p", backing.display()));
    let (document, url) = (committed_document().display().to_string(), format!("http://127.0.0.1:{port}"));
    // The stream has no end.
    let what = ["-m", "schemathesis.cli", "run", &document, "--url", &url, "--exclude-path-regex", "stream$"];
    let how = ["--checks", CHECKS, "--max-time", SCHEMATHESIS_SECONDS, "--seed", "1", "--request-timeout", "60"];
    let quietly = ["--no-shrink", "--warnings", "off", "--suppress-health-check", "all"];
    let mut schemathesis = command("python3", &[&what[..], &how, &quietly].concat());
    schemathesis.env("PYTHONPATH", packages).current_dir(daemon.site.path(""));
    let output = schemathesis.output().expect("python3 brought the packages");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let tested = |line: &str| line.trim().starts_with("Tested: ") && !line.contains(" 0");
    assert!(said.lines().any(tested), "it tested nothing: {said}");
    assert_eq!(ask(&daemon, "GET", "/api/v1/status", "").status, 200);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}
