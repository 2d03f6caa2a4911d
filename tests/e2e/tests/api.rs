//! The control API: its document, its operations and events, and who gets in.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hotset_e2e::daemon::{Daemon, binary, free_port};
use hotset_e2e::http::{ask, ask_tcp, exchange, request};
use hotset_e2e::pattern::PAGE_BYTES;
use hotset_e2e::tools::{self, eventually, fail, succeed, text};
use serde_json::{Value, json};

const LOCAL: (&str, &str) = ("host", "localhost");

fn on_tcp() -> (Daemon, u16) {
    let port = free_port();
    let mut daemon = Daemon::prepare(&format!("--missing-wait 1 --api tcp:127.0.0.1:{port}"));
    daemon.launch();
    (daemon, port)
}

// proves: S4
#[test]
fn the_document_that_is_served_is_the_one_that_is_committed() {
    let daemon = Daemon::start();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let committed: Value = serde_json::from_slice(&fs::read(committed).expect("it is there")).expect("it is JSON");
    assert_eq!(ask(&daemon, "GET", "/api/v1/openapi.json", "").json(), committed);
    assert_eq!(ask(&daemon, "GET", "/api/v1/session", "").json()["role"], "admin");
    let wrong = ask(&daemon, "GET", "/api/v1/volumes/none", "");
    let error = wrong.json();
    assert_eq!((wrong.status, &error["code"]), (404, &json!("not-found")));
    assert!(error["message"].is_string() && error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{error}");
}

// proves: P13, S4
#[test]
fn a_removal_can_be_begun_followed_and_cancelled_as_an_operation() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[32, 32], "");
    let backing = daemon.site.numbered("slow", 4096);
    daemon.ok(&format!("volume create v --pool p --backing {}", backing.display()));
    let mut client = daemon.client("v");
    client.write(0, &[7; 4096]).expect("a write");
    let body = json!({"kind": "disable-cache", "name": "v"}).to_string();
    let begun = ask(&daemon, "POST", "/api/v1/operations", &body);
    assert_eq!(begun.status, 202, "{}", begun.body);
    let id = begun.json()["id"].as_u64().expect("an operation has an id");
    let mut last = Value::Null;
    eventually("the operation ends", Duration::from_secs(20), || {
        last = ask(&daemon, "GET", &format!("/api/v1/operations/{id}"), "").json();
        last["state"] == "done"
    });
    assert_eq!((&last["kind"], &last["subject"]["name"]), (&json!("disable-cache"), &json!("v")), "{last}");
    assert_eq!(daemon.json("volume show v")["pool"], Value::Null);
    assert!(daemon.ok("operations").contains("disable-cache"));
    assert_eq!(ask(&daemon, "DELETE", &format!("/api/v1/operations/{id}"), "").json()["changed"], false);
    assert_eq!(ask(&daemon, "GET", "/api/v1/operations/999", "").status, 404);
    let wrong = ask(&daemon, "POST", "/api/v1/operations", &json!({"kind": "delete-pool", "name": "q"}).to_string());
    assert_eq!(wrong.status, 404, "{}", wrong.body);
}

/// All events so far, as `subject: change`.
fn changes(daemon: &Daemon) -> Vec<String> {
    let list = daemon.json("events");
    let events = list["events"].as_array().expect("a list").iter();
    let name = |event: &Value| event["subject"]["name"].as_str().unwrap_or("").to_owned();
    events.map(|event| format!("{}: {}", name(event), event["change"].as_str().unwrap_or(""))).collect()
}

// proves: P9, P11
#[test]
fn changes_are_events_that_are_kept_followed_and_told_to_a_hook() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let (hook, told) = (daemon.site.path("hook"), daemon.site.path("told"));
    fs::write(&hook, "#!/bin/sh\necho \"$HOTSET_EVENT_SUBJECT $HOTSET_EVENT_CHANGE\" >> \"$1\"\n").expect("a file");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let config = daemon.site.path("hotset.toml");
    let command = format!("event_hook = [{:?}, {:?}]\n", hook.display().to_string(), told.display().to_string());
    fs::write(&config, command).expect("a file can be written");
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.launch();
    let stream = UnixStream::connect(daemon.api_socket()).expect("the API listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time can be set");
    (&stream).write_all(&request("GET", "/api/v1/events/stream?after=0", &[LOCAL], "")).expect("it reads");
    daemon.make_pool(&[32], "");
    daemon.make_volume(64, "p");
    let mut seen = BTreeSet::new();
    for line in BufReader::new(&stream).lines() {
        let line = line.expect("the stream goes on");
        if line == "event: status" {
            seen.insert("status");
        } else if line.starts_with("data:") && line.contains("\"change\":\"started\"") {
            seen.insert("started");
        } else if line.starts_with("data:")
            && line.contains("\"kind\":\"volume\",\"name\":\"v\"")
            && line.contains("\"change\"")
        {
            seen.insert("volume");
        } else if line.starts_with("data:") && line.contains("\"name\":\"v\"") && line.contains("\"pool\":\"p\"") {
            // What is seen with its cache can be seen without it: a volume may be new before its cache is.
            seen.insert("cached");
        }
        if seen.len() == 4 {
            break;
        }
    }
    eventually("the hook is told", Duration::from_secs(10), || {
        fs::read_to_string(&told).is_ok_and(|text| text.contains("volume v new") && text.contains("pool p new"))
    });
    daemon.ok("volume disable-cache v");
    eventually("the change is an event", Duration::from_secs(10), || {
        changes(&daemon).contains(&"v: cache disabled".to_owned())
    });
    daemon.restart();
    let after = changes(&daemon);
    assert!(after.contains(&": stopped".to_owned()) && after.contains(&"v: cache disabled".to_owned()), "{after:?}");
    daemon.kill();
    daemon.launch();
    let text = daemon.ok("events");
    assert!(text.contains("the last run had no clean stop"), "{text}");
}

// proves: P9, P10
#[test]
fn an_ssd_that_says_it_fails_is_an_alert_an_event_and_no_reason_to_stop() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let smartctl = daemon.site.path("smartctl");
    let answer = r#"{"smartctl": {"exit_status": 8}, "model_name": "Fast", "smart_status": {"passed": false},
        "nvme_smart_health_information_log": {"critical_warning": 4, "percentage_used": 104}}"#;
    fs::write(&smartctl, format!("#!/bin/sh\ncat <<'END'\n{answer}\nEND\nexit 8\n")).expect("a file can be written");
    fs::set_permissions(&smartctl, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let config = daemon.site.path("hotset.toml");
    fs::write(&config, format!("smartctl = {:?}\n", smartctl.display().to_string())).expect("a file can be written");
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.launch();
    daemon.make_pool(&[32], "");
    daemon.make_volume(64, "p");
    let asked = || daemon.json("pool show p")["ssds"][0]["smart"]["checked_at_unix_ms"] != 0;
    eventually("the SSD is asked", Duration::from_secs(20), asked);
    let pool = daemon.json("pool show p");
    let ssd = &pool["ssds"][0];
    if ssd["smart"]["problem"] == "it is on no single disk that could be asked" {
        return tools::skip("the test's files are on no disk that sysfs knows");
    }
    assert_eq!((&ssd["health"], &ssd["state"]), (&json!("error-alert"), &json!("online")), "{ssd}");
    assert_eq!((&ssd["identity"]["model"], &ssd["smart"]["wear_percent"]), (&json!("Fast"), &json!(104)));
    assert!(pool["reason"].to_string().contains("104 %") && pool["health"] == "degraded", "{pool}");
    assert!(daemon.ok("pool show p").contains("error alert"));
    let uuid = ssd["uuid"].as_str().expect("it has one");
    eventually("the alert is an event", Duration::from_secs(10), || {
        changes(&daemon).contains(&format!("{uuid}: health good → error alert"))
    });
    daemon.warm_up(64);
    let written = |daemon: &Daemon| daemon.json("pool show p")["ssds"][0]["smart"]["cache_written_bytes"].as_u64();
    eventually("what was written is counted", Duration::from_secs(20), || written(&daemon) > Some(64 * 4096));
    let before = written(&daemon);
    daemon.restart();
    assert!(written(&daemon) >= before, "what was written is remembered over a restart");
}

// proves: S4
#[test]
fn a_page_elsewhere_and_a_name_that_was_rebound_drive_nothing() {
    let (daemon, port) = on_tcp();
    let own = format!("localhost:{port}");
    let status = |headers: &[(&str, &str)]| ask_tcp(port, "GET", "/api/v1/status", headers, "").status;
    assert_eq!(status(&[("host", &own)]), 200);
    for host in ["evil.example", "evil.example:80", "10.0.0.1", "localhost.evil.example", ""] {
        assert_eq!(status(&[("host", host)]), 403, "host {host:?}");
    }
    for origin in ["http://evil.example", "null", "https://localhost.evil.example"] {
        assert_eq!(status(&[("host", &own), ("origin", origin)]), 403, "{origin}");
        let body = json!({"name": "x", "backing": "/nowhere"}).to_string();
        let answer = ask_tcp(port, "POST", "/api/v1/volumes", &[("host", &own), ("origin", origin)], &body);
        assert_eq!(answer.status, 403, "{origin}");
    }
    assert_eq!(status(&[("host", &own), ("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(status(&[("host", &own), ("origin", &format!("http://{own}"))]), 200);
    let answer = ask_tcp(port, "GET", "/", &[LOCAL], "");
    assert_eq!(answer.status, 200);
    for header in
        ["content-security-policy: default-src 'none'", "x-content-type-options: nosniff", "x-frame-options: deny"]
    {
        assert!(answer.head.contains(header), "{header} is not in {}", answer.head);
    }
    drop(daemon);
}

// proves: S4
#[test]
fn tokens_open_what_their_role_allows_until_they_are_taken_back() {
    let (daemon, port) = on_tcp();
    let token = |name: &str, role: &str| {
        let made = daemon.json(&format!("token create {name} --role {role}"));
        format!("Bearer {}", made["token"].as_str().expect("it is shown this once"))
    };
    let (viewer, admin) = (token("grafana", "view"), token("me", "admin"));
    let try_it = |method: &str, path: &str, token: &str, body: &str| {
        ask_tcp(port, method, path, &[LOCAL, ("authorization", token)], body).status
    };
    assert_eq!(try_it("GET", "/api/v1/status", &viewer, ""), 200);
    assert_eq!(try_it("GET", "/metrics", &viewer, ""), 200);
    let volume = json!({"name": "x", "backing": "/nowhere/x"}).to_string();
    for (method, path, body) in [
        ("POST", "/api/v1/volumes", volume.as_str()),
        ("POST", "/api/v1/pools", "{}"),
        ("POST", "/api/v1/pools/plan", "{}"),
        ("PATCH", "/api/v1/pools/p", "{}"),
        ("PUT", "/api/v1/volumes/v/cache", "{}"),
        ("DELETE", "/api/v1/volumes/v", ""),
        ("DELETE", "/api/v1/operations/1", ""),
        ("POST", "/api/v1/operations", "{}"),
        ("GET", "/api/v1/tokens", ""),
        ("POST", "/api/v1/tokens", r#"{"name": "more", "role": "admin"}"#),
        ("DELETE", "/api/v1/tokens/me", ""),
        ("GET", "/api/v1/disks?directory=/tmp", ""),
    ] {
        assert_eq!(try_it(method, path, &viewer, body), 403, "{method} {path}");
    }
    assert_eq!(try_it("POST", "/api/v1/volumes", &admin, &volume), 404, "an admin is let through");
    for wrong in ["Bearer hotset_0000", "Bearer ", "Basic YTpi", "nonsense"] {
        assert_eq!(try_it("GET", "/api/v1/status", wrong, ""), 401, "{wrong}");
    }
    let listed = daemon.ok("token list -o json");
    assert!(!listed.contains(&viewer["Bearer ".len()..]) && listed.contains("grafana"), "{listed}");
    daemon.ok("token delete grafana");
    assert_eq!(try_it("GET", "/api/v1/status", &viewer, ""), 401);
    daemon.refuse("token delete grafana", 1, "no such token");
}

// proves: S4
#[test]
fn over_the_network_the_api_needs_tls_and_a_token() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let (at, port) = (daemon.site.path("tls"), free_port());
    fs::create_dir(&at).expect("a folder can be made");
    let (key, certificate) = (at.join("key.pem"), at.join("cert.pem"));
    let arguments = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 -subj /CN=localhost -keyout {} -out {} \
         -addext subjectAltName=DNS:localhost,IP:127.0.0.1",
        key.display(),
        certificate.display()
    );
    succeed("openssl", &arguments.split_whitespace().collect::<Vec<_>>());
    let config = daemon.site.path("hotset.toml");
    fs::write(&config, format!("[api_tls]\ncertificate = {certificate:?}\nkey = {key:?}\n")).expect("a file");
    // The second address is of a network that is not there yet (RFC 5737): the daemon starts before it at boot.
    let later = free_port();
    daemon
        .add_arguments(&format!("--config {} --api tcp:0.0.0.0:{port} --api tcp:192.0.2.1:{later}", config.display()));
    daemon.launch();
    assert!(daemon.log().contains("no interface of this machine has 192.0.2.1 now"), "{}", daemon.log());
    let made = daemon.json("token create me --role view");
    let header = format!("Authorization: Bearer {}", made["token"].as_str().expect("a token"));
    let (url, ca) = (format!("https://localhost:{port}"), certificate.display().to_string());
    let code = |arguments: &[&str], path: &str| {
        let url = format!("{url}{path}");
        let fixed = ["--silent", "--cacert", &ca, "--output", "/dev/null", "--write-out", "%{http_code}", &url];
        succeed("curl", &[&fixed[..], arguments].concat())
    };
    assert_eq!(code(&["--header", &header], "/api/v1/status"), "200");
    assert_eq!(code(&[], "/api/v1/status"), "401");
    assert_eq!(code(&[], "/metrics"), "401");
    assert_eq!(code(&[], "/"), "200", "a person needs the console's files to give a token");
    assert_eq!(code(&["--header", &header, "--header", "Host: evil.example"], "/api/v1/status"), "403");
    assert_eq!(code(&["--header", &header, "--request", "DELETE"], "/api/v1/volumes/v"), "403");
    fail("curl", &["--silent", "--fail", &format!("http://localhost:{port}/api/v1/status")]);
    drive_from_elsewhere(&daemon, &url, &ca);
}

/// The command line has the same reach over the network.
fn drive_from_elsewhere(daemon: &Daemon, url: &str, ca: &str) {
    let token = |name: &str, role: &str| {
        let made = daemon.json(&format!("token create {name} --role {role}"));
        made["token"].as_str().expect("a token").to_owned()
    };
    let (viewer, admin) = (token("viewer", "view"), token("admin", "admin"));
    let run = |token: &str, arguments: &str| {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let mut command = tools::command(&binary().to_string_lossy(), &words);
        command.env("HOTSET_API", url).env("HOTSET_API_CA", ca).env("HOTSET_TOKEN", token);
        text(&command.output().expect("hotset can be started"))
    };
    assert!(run(&viewer, "status").contains("Health"), "{}", run(&viewer, "status"));
    assert!(run(&viewer, "pool delete p").contains("the role of this token is view"));
    assert!(run("", "status").contains("this address needs a token"));
    assert!(run("hotset_0000", "status").contains("the token is not known here"));
    let backing = daemon.site.blank("far", 1 << 20);
    assert!(run(&admin, &format!("volume create far --backing {}", backing.display())).contains("Created volume far"));
    assert!(run(&admin, "volume show far").contains("1 MiB"));
    let file = daemon.site.path("token");
    fs::write(&file, format!("{admin}\n")).expect("a file can be written");
    assert!(run("", &format!("volume delete far --token-file {}", file.display())).contains("Deleted volume far"));
    // Another one who says that he is the daemon is not shown the token.
    let other = daemon.site.path("other.pem");
    let arguments = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 -subj /CN=localhost -keyout {}.key -out {}",
        other.display(),
        other.display()
    );
    succeed("openssl", &arguments.split_whitespace().collect::<Vec<_>>());
    let said = run(&admin, &format!("status --api-ca {}", other.display()));
    assert!(said.contains("no daemon at https://localhost") && said.contains("--api-ca"), "{said}");
}

#[test]
fn oversized_and_crooked_requests_are_refused_and_hurt_nobody() {
    let (daemon, port) = on_tcp();
    let huge = format!("{{\"name\": \"{}\"}}", "x".repeat(400_000));
    assert_eq!(ask_tcp(port, "POST", "/api/v1/volumes", &[LOCAL], &huge).status, 400);
    let long_head = "y".repeat(1_000_000);
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the API listens");
    // It hangs up before it has read all, and what it said may be lost with the rest.
    let answer = exchange(stream, &request("GET", "/api/v1/status", &[LOCAL, ("x-long", &long_head)], ""));
    assert!(answer.is_none_or(|answer| (400..500).contains(&answer.status)), "a head of a megabyte is refused");
    for path in [
        "/../../etc/passwd.txt",
        "/assets/..%2f..%2fetc/passwd.txt",
        "/%2e%2e/%2e%2e/etc/passwd.txt",
        "/api/v1/../../etc/passwd",
        "/api/v1/volumes/..%2f..%2fx",
        "/api/v1/pools/%00",
        "/api/v1/pools/%ff",
        "//etc/passwd.txt",
        "/api/v1/disks?directory=/proc",
        "/api/v1/disks?directory=../..",
        "/api/v1/history?subject=volume:v&points=99999999999999999999",
        "/api/v1/events?after=-1",
    ] {
        let answer = ask_tcp(port, "GET", path, &[LOCAL], "");
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.status);
        assert!(!answer.body.contains("root:"), "{path}");
    }
    assert_eq!(ask_tcp(port, "GET", "/api/v1/status", &[LOCAL], "").status, 200, "it serves on");
    drop(daemon);
}

// proves: S3, S1
#[test]
fn disks_and_the_way_to_connect_are_told() {
    let daemon = Daemon::start();
    daemon.make_pool(&[32], "");
    let backing = daemon.make_volume(64, "p");
    let directory = backing.parent().expect("it is in a folder").display().to_string();
    let found = ask(&daemon, "GET", &format!("/api/v1/disks?directory={directory}"), "").json();
    let disk = |name: &str| {
        let disks = found["disks"].as_array().expect("a list").iter();
        disks.clone().find(|disk| disk["name"] == name).unwrap_or_else(|| panic!("no {name} in {found}")).clone()
    };
    assert_eq!(disk("ssd0")["not_as_ssd"], "it is in use as an SSD of pool p");
    assert_eq!(disk("backing")["not_as_backing"], "it is in use as the backing device of volume v");
    assert_eq!(disk("backing")["size_bytes"], 64 * PAGE_BYTES);
    assert_eq!(ask(&daemon, "GET", "/api/v1/disks", "").status, 200);
    let connect = ask(&daemon, "GET", "/api/v1/volumes/v/connect", "").json();
    let address = &connect["addresses"][0];
    assert_eq!((&address["uri"], &address["local"]), (&json!(daemon.uri("v")), &json!(true)));
    assert_eq!(address["snippets"].as_array().map(Vec::len), Some(4), "{address}");
    assert_eq!(
        succeed("nbdinfo", &["--size", address["uri"].as_str().expect("a URI")]).trim(),
        (64 * PAGE_BYTES).to_string()
    );
}
