//! Notices of events: a web hook and a mail server on loopback are told, and one that fails stops nobody.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hotset_e2e::daemon::{Daemon, free_port};
use hotset_e2e::tools::{eventually, succeed};
use serde_json::Value;

use crate::tls;

const LIMIT: Duration = Duration::from_secs(60);

const SINK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/notices_sink.py");

/// Takes notices, and remembers them.
struct Sink {
    child: Child,
    port: u16,
    told: PathBuf,
}

impl Sink {
    fn start(daemon: &Daemon, kind: &str, files: &[&Path], answers: &[&str]) -> Self {
        Self::start_at(free_port(), daemon, kind, files, answers)
    }

    fn start_at(port: u16, daemon: &Daemon, kind: &str, files: &[&Path], answers: &[&str]) -> Self {
        let told = daemon.site.path(&format!("told-{kind}"));
        let mut command = Command::new("python3");
        command.args([SINK, kind, &port.to_string()]).arg(&told).args(files);
        let mut child = command.arg("--").args(answers).stdout(Stdio::piped()).spawn().expect("python3 runs");
        let mut said = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut said).expect("it says that it listens");
        assert_eq!(said.trim(), "listening");
        Self { child, port, told }
    }

    fn told(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.told).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A daemon that has yet to be started, with this in its [notices].
fn configured(daemon: &mut Daemon, notices: &str) {
    let config = daemon.site.path("hotset.toml");
    fs::write(&config, format!("[notices]\n{notices}\n")).expect("a file can be written");
    daemon.add_arguments(&format!("--config {}", config.display()));
}

fn condition(daemon: &Daemon, kind: &str) -> Option<Value> {
    let all = daemon.json("status")["conditions"].clone();
    all.as_array().and_then(|all| all.iter().find(|one| one["kind"] == kind).cloned())
}

fn make_and_delete_a_volume(daemon: &Daemon, name: &str) {
    let file = daemon.site.numbered(name, 16).display().to_string();
    daemon.ok(&format!("volume create {name} --backing {file}"));
    daemon.ok(&format!("volume delete {name}"));
}

fn of_events(sink: &Sink) -> Vec<Value> {
    sink.told().into_iter().filter(|told| told["body"]["kind"] == "event" && told["answer"] == "200").collect()
}

// proves: O4
#[test]
fn a_web_hook_and_a_mailbox_are_told_what_happened_where_and_by_whom() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let certificates = tls::make(&daemon.site, "sinks");
    let file = |name: &str| certificates.folder.join(name);
    let (cert, key, authority) = (file("server-cert.pem"), file("server-key.pem"), file("ca-cert.pem"));
    let (token, password) = (daemon.site.path("token"), daemon.site.path("password"));
    fs::write(&token, "a-token\n").expect("a file can be written");
    fs::write(&password, "a-password\n").expect("a file can be written");
    let hook = Sink::start(&daemon, "https", &[&cert, &key], &["200"]);
    let mail = Sink::start(&daemon, "starttls", &[&cert, &key], &[]);
    let (authority, hook_port, mail_port) = (authority.display(), hook.port, mail.port);
    let text = format!(
        "severity = \"info\"\nsubjects = [\"volume\"]\nweb_hook = \"https://localhost:{hook_port}/in?x=1\"\nweb_hook_ca = \"{authority}\"\n\
         web_hook_token_file = \"{}\"\nmail_to = [\"Ops <ops@example.org>\"]\nsmtp_host = \"localhost\"\nsmtp_port = {mail_port}\n\
         smtp_user = \"hotset\"\nsmtp_password_file = \"{}\"\nsmtp_ca = \"{authority}\"",
        token.display(),
        password.display()
    );
    configured(&mut daemon, &text);
    daemon.launch();
    let said = daemon.ok("notify test");
    assert!(said.contains(&format!("web hook https://localhost:{hook_port}/…: took it: 200 OK")), "{said}");
    assert!(said.contains("took it: 250 taken as 42"), "{said}");
    make_and_delete_a_volume(&daemon, "v");
    eventually("both are told that it was made", LIMIT, || {
        let is_it = |told: &Value| told["body"]["change"].as_str().is_some_and(|change| change.starts_with("new"));
        let mailed = |told: &Value| told["mail"].as_str().is_some_and(|mail| mail.contains("volume v: new"));
        hook.told().iter().any(is_it) && mail.told().iter().any(mailed)
    });
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").expect("the machine has a name");
    let first = of_events(&hook)[0].clone();
    assert_eq!(first["authorization"], "Bearer a-token");
    let body = &first["body"];
    assert_eq!((&body["machine"], &body["subject"]["kind"]), (&machine.trim().into(), &"volume".into()), "{body}");
    assert!(body["by"].as_str().is_some_and(|by| by.starts_with("user ")), "{body}");
    let mailed = mail.told();
    assert!(
        mailed.iter().all(|told| told["secure"] == true && told["login"] == "AGhvdHNldABhLXBhc3N3b3Jk"),
        "{mailed:?}"
    );
    let text = mailed[1]["mail"].as_str().unwrap_or_default();
    for part in ["To: Ops <ops@example.org>", "Auto-Submitted: auto-generated", "Subject: [hotset] ", "hotset status"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // What happens while the daemon is away from its target is told by the next one, and nothing twice.
    let before = of_events(&hook).len();
    daemon.restart();
    make_and_delete_a_volume(&daemon, "w");
    eventually("the next daemon tells", LIMIT, || of_events(&hook).len() >= before + 2);
    let ids: Vec<u64> = of_events(&hook).iter().filter_map(|told| told["body"]["event_id"].as_u64()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "each once, in order: {ids:?}");
}

// proves: O4, F12
#[test]
fn a_target_that_fails_is_a_condition_and_told_again_until_it_takes_it() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let hook = Sink::start(&daemon, "http", &[], &["hang", "500", "500", "200"]);
    let nobody = free_port();
    let hook_line = format!("web_hook = \"http://127.0.0.1:{}/\"", hook.port);
    configured(
        &mut daemon,
        &format!(
            "severity = \"info\"\nsubjects = [\"volume\"]\ntimeout_s = 1\n{hook_line}\nmail_to = [\"ops@example.org\"]\n\
             smtp_host = \"127.0.0.1\"\nsmtp_port = {nobody}\nsmtp_security = \"none\""
        ),
    );
    daemon.launch();
    make_and_delete_a_volume(&daemon, "v");
    eventually("who hangs and who refuses are conditions", LIMIT, || {
        let [hangs, refuses] = ["web-hook", "mail"].map(|kind| condition(&daemon, kind));
        let says = |told: &Option<Value>, part| told.as_ref().is_some_and(|told| told.to_string().contains(part));
        says(&hangs, "no answer within 1 s") && says(&refuses, "refused") && says(&refuses, "hotset notify test")
    });
    // Nothing waits for them.
    make_and_delete_a_volume(&daemon, "w");
    eventually("it takes what it did not take, and the condition is over", LIMIT, || {
        of_events(&hook).len() >= 4 && condition(&daemon, "web-hook").is_none()
    });
    let answers: Vec<Value> = hook.told().iter().take(4).map(|told| told["answer"].clone()).collect();
    assert_eq!(answers, ["hang", "500", "500", "200"], "the same notice is told again");
    let ids: Vec<Value> = hook.told().iter().take(4).map(|told| told["body"]["event_id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let counters = daemon.json("status")["counters"].clone();
    assert!(
        counters["notices_failed"].as_u64() >= Some(4) && counters["notices_sent"].as_u64() >= Some(4),
        "{counters}"
    );
    let said = daemon.refuse("notify test", 1, "e-mail did not take the notice");
    assert!(said.contains("took it: 200 OK") && said.contains("FAILED"), "{said}");
    // A reload takes the mail server away, and with it its condition.
    fs::write(daemon.site.path("hotset.toml"), format!("[notices]\n{hook_line}\n")).expect("a file can be written");
    succeed("kill", &["-HUP", &daemon.pid().to_string()]);
    eventually("nobody is left whom it concerns", LIMIT, || condition(&daemon, "mail").is_none());
    let said = daemon.ok("notify test");
    assert!(!said.contains("e-mail"), "{said}");
}

// proves: O4
#[test]
fn what_is_more_than_the_limit_is_told_in_one_notice() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let hook = Sink::start(&daemon, "http", &[], &["200"]);
    let text = "severity = \"info\"\nsubjects = [\"volume\"]\nlimit = 2\nlimit_window_s = 5";
    configured(&mut daemon, &format!("{text}\nweb_hook = \"http://127.0.0.1:{}/\"", hook.port));
    daemon.launch();
    (0..8).for_each(|number| make_and_delete_a_volume(&daemon, &format!("v{number}")));
    let summary = || hook.told().into_iter().find(|told| told["body"]["kind"] == "summary");
    eventually("one says how many were left out", LIMIT, || summary().is_some());
    let told = hook.told();
    assert!(told.iter().take(2).all(|told| told["body"]["kind"] == "event"), "{told:?}");
    assert_eq!(told[2]["body"]["kind"], "summary", "{told:?}");
    let left_out = told[2]["body"]["left_out"].as_u64().unwrap_or_default();
    assert!(
        left_out >= 2 && told[2]["body"]["change"].to_string().contains(&format!("{left_out} more events")),
        "{told:?}"
    );
    let counted = daemon.json("status")["counters"]["notices_left_out"].as_u64();
    assert!(counted >= Some(left_out), "{counted:?}");
}

// proves: O4
#[test]
fn what_a_target_was_not_told_it_is_told_by_the_next_daemon_and_lost_events_keep_nothing_from_it() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let port = free_port();
    let text = "severity = \"info\"\nsubjects = [\"volume\"]\nlimit = 2\nlimit_window_s = 3600";
    configured(&mut daemon, &format!("{text}\nweb_hook = \"http://127.0.0.1:{port}/\""));
    daemon.launch();
    make_and_delete_a_volume(&daemon, "v");
    eventually("nobody takes it", LIMIT, || condition(&daemon, "web-hook").is_some());
    daemon.restart();
    let hook = Sink::start_at(port, &daemon, "http", &[], &["200"]);
    eventually("what it was never told comes later", LIMIT, || of_events(&hook).len() == 2);

    make_and_delete_a_volume(&daemon, "w");
    let left_out = |daemon: &Daemon| daemon.json("status")["counters"]["notices_left_out"].as_u64();
    eventually("more than the limit is counted", LIMIT, || left_out(&daemon) >= Some(2));
    let counted = left_out(&daemon);
    daemon.restart();
    let summary = || hook.told().into_iter().find(|told| told["body"]["kind"] == "summary");
    eventually("how many they were is told by the next daemon", LIMIT, || summary().is_some());
    assert_eq!(summary().map(|told| told["body"]["left_out"].as_u64()), Some(counted));

    let before = of_events(&hook).len();
    daemon.stop();
    fs::remove_file(daemon.site.path("state").join("events.jsonl")).expect("the events are there");
    daemon.launch();
    make_and_delete_a_volume(&daemon, "x");
    eventually("events that begin at 1 again are told", LIMIT, || of_events(&hook).len() > before);
}

// proves: O4
#[test]
fn without_a_target_a_test_is_refused_and_what_is_wrong_is_told_with_file_line_and_key() {
    let daemon = Daemon::start();
    daemon.refuse("notify test", 1, "no target is configured");
    let config = daemon.site.path("wrong.toml");
    for (text, parts) in [
        ("[notices]\nseverity = \"bad\"", ["wrong.toml, line 2: severity", "info, warning or error"]),
        ("[notices]\n\nweb_hook = \"ftp://a/\"", ["wrong.toml, line 3: web_hook", "https://"]),
        ("[notices]\nwebhook = \"\"", ["line 2", "webhook"]),
        (
            "[notices]\nweb_hook = \"https://a/\"\nweb_hook_ca = \"/nowhere/ca\"",
            ["[notices] web_hook_ca", "/nowhere/ca"],
        ),
    ] {
        fs::write(&config, text).expect("a file can be written");
        let said = daemon.refuse(&format!("config check --config {}", config.display()), 1, parts[0]);
        assert!(said.contains(parts[1]), "{text}: {said}");
    }
}
