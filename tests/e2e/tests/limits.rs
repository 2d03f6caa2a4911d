//! The limits of what the daemon runs in: memory of a control group, file descriptors, io_uring, locked memory.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use hotset_e2e::daemon::{Daemon, binary, free_port};
use hotset_e2e::files::Site;
use hotset_e2e::nbd::{Client, Verb, greet, request};
use hotset_e2e::tools::{self, run, skip, text};

const MIB: u64 = 1 << 20;

/// A control group that bounds memory, if this test may make one. Removed when it goes, after all of its processes.
struct ControlGroup(PathBuf);

impl ControlGroup {
    fn with_memory(bytes: u64) -> Option<Self> {
        let name = format!("hotset-e2e-{}-{}", std::process::id(), bytes);
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.split_once(":memory:").map(|(_, path)| path.to_owned()));
        for (root, file) in [
            (format!("/sys/fs/cgroup/memory{}", own.unwrap_or_default()), "memory.limit_in_bytes"),
            ("/sys/fs/cgroup".to_owned(), "memory.max"),
        ] {
            let path = Path::new(&root).join(&name);
            if fs::create_dir(&path).is_ok() {
                let group = Self(path);
                if fs::write(group.0.join(file), bytes.to_string()).is_ok() {
                    return Some(group);
                }
            }
        }
        None
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // What was killed in it may take a moment to be gone.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Many clients each send writes of 32 MiB, all at once, to a daemon that may have so much memory. It lives, and all are
/// answered.
fn lives_under_long_writes(memory_bytes: u64, clients: u64) {
    let Some(group) = ControlGroup::with_memory(memory_bytes) else {
        return tools::skip("no control group for memory can be made here");
    };
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let procs = group.0.join("cgroup.procs");
    let enter = format!("echo $$ > {} && exec \"$@\"", procs.display());
    daemon.run_by(&["sh", "-c", &enter, "sh"]);
    daemon.launch();
    let told = daemon.log();
    assert!(told.contains("by the control group"), "{told}");
    // Not in memory: a file there would be counted.
    let backing = daemon.site.blank("backing", 64 * MIB);
    daemon.ok(&format!("volume create v --backing {}", backing.display()));
    let socket = daemon.nbd_socket();
    thread::scope(|scope| {
        for _ in 0..clients {
            let socket = &socket;
            scope.spawn(move || {
                let mut client = Client::connect(socket, "v").expect("a connection");
                for _ in 0..2 {
                    client.write(0, &vec![7; 32 << 20]).expect("it is answered");
                }
            });
        }
    });
    assert!(Path::new(&format!("/proc/{}", daemon.pid())).exists());
    daemon.ok("status");
    assert!(daemon.stop().success(), "it was not killed");
}

// proves: F11, H1
#[test]
fn many_hosts_with_the_longest_writes_do_not_take_more_memory_than_a_small_container_has() {
    lives_under_long_writes(300 * MIB, 16);
}

/// One that can be read from and written to.
fn serves(daemon: &Daemon) {
    let mut client = daemon.client("v");
    client.write(0, &[7; 4096]).expect("a write");
    assert_eq!(client.read(0, 4096).expect("a read"), [7; 4096]);
}

// proves: F11, H1
#[test]
fn hosts_that_take_all_descriptors_leave_some_to_administrators_devices_and_the_state() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    daemon.run_by(&["prlimit", "--nofile=256:256"]);
    daemon.launch();
    daemon.make_volume(64, "");
    // Each of them has chosen the volume: none makes room.
    let mut hosts = Vec::new();
    while let Ok(client) = Client::connect(&daemon.nbd_socket(), "v") {
        hosts.push(client);
        assert!(hosts.len() < 256, "there are no more descriptors");
    }
    assert!(hosts.len() > 100, "most descriptors are for hosts: {}", hosts.len());
    tools::eventually("it is told", Duration::from_secs(20), || daemon.ok("status").contains("were refused"));
    assert!(daemon.json("status")["counters"]["connections_refused"].as_u64() > Some(0));
    // A device can be opened, and the change be recorded.
    let other = daemon.site.numbered("other", 16);
    daemon.ok(&format!("volume create w --backing {}", other.display()));
    hosts.truncate(50);
    tools::eventually("there is room again", Duration::from_secs(20), || {
        Client::connect(&daemon.nbd_socket(), "v").is_ok()
    });
    drop(hosts);
    serves(&daemon);
}

// proves: F11, H1
#[test]
fn the_soft_limit_of_descriptors_is_no_limit_and_there_may_be_more_than_256_hosts() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    daemon.run_by(&["prlimit", "--nofile=64:2048"]);
    daemon.launch();
    daemon.make_volume(64, "");
    let hosts: Vec<_> = (0..400).map(|_| daemon.client("v")).collect();
    serves(&daemon);
    drop(hosts);
}

// proves: F11
#[test]
fn volumes_that_are_opened_again_and_again_leave_descriptors_to_administrators() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    daemon.run_by(&["prlimit", "--nofile=64:64"]);
    daemon.launch();
    let mut refused = None;
    for index in 0..64 {
        let backing = daemon.site.numbered(&format!("backing{index}"), 1);
        let output = daemon.hotset(&format!("volume create v{index} --backing {}", backing.display()));
        if !output.status.success() {
            refused = Some(tools::text(&output));
            break;
        }
    }
    let refused = refused.expect("there are no more descriptors");
    assert!(refused.contains("file descriptor") && refused.contains("LimitNOFILE"), "{refused}");
    for _ in 0..20 {
        daemon.ok("status");
    }
    daemon.ok("volume delete v0");
    daemon.restart();
    daemon.ok("status");
}

// proves: F11
#[test]
fn what_forbids_io_uring_is_named_and_recover_does_without_it() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[64, 64], "");
    daemon.make_volume(64, "p");
    daemon.client("v").write(0, &[7; 65536]).expect("a write");
    let mut daemon = daemon;
    daemon.kill();
    // A filter as containers have it. What it forbids is not there: python3 has seccomp by prctl alone.
    let script = r#"
import ctypes, os, struct, sys
# Answers io_uring_setup (425) with EPERM, all else is allowed.
program = b"".join(struct.pack("HBBI", *line) for line in [
    (0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)])
buffer = ctypes.create_string_buffer(program)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(buffer)))) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"#;
    let binary = hotset_e2e::daemon::binary().display().to_string();
    let filtered = |words: &[&str]| tools::run("python3", &[&["-c", script, binary.as_str()], words].concat());
    let state = daemon.site.path("state").display().to_string();
    let other = daemon.site.path("other-state").display().to_string();
    let refused = filtered(&["serve", "--state", &other]);
    let text = tools::text(&refused);
    assert!(!refused.status.success() && text.contains("seccomp"), "{text}");
    let ssds = [daemon.site.path("ssd0"), daemon.site.path("ssd1")].map(|path| path.display().to_string());
    let output = filtered(&["recover", "--state", &state, "--ssd", &ssds[0], &ssds[1], "--write"]);
    let text = tools::text(&output);
    assert!(output.status.success() && text.contains("seccomp"), "{text}");
    let backing = fs::read(daemon.site.path("backing")).expect("it is there");
    assert_eq!(backing[..65536], [7; 65536]);
}

// proves: H1
#[test]
fn a_silent_host_is_asked_for_a_sign_of_life_after_fifteen_seconds() {
    let port = free_port();
    let daemon = Daemon::start_with(&format!("--missing-wait 1 --nbd tcp:127.0.0.1:{port}"));
    let mut host = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    host.read_exact(&mut [0; 18]).expect("a greeting");
    // The daemon's end, by its port: what its timer (keep-alive, 02) has left, in hundredths of a second (proc_net_tcp).
    let local = format!("0100007F:{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    let line = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = line.filter(|fields| fields.len() > 5).find(|fields| fields[1] == local && fields[3] == "01");
    let line = line.expect("the connection is there");
    let (kind, left) = line[5].split_once(':').expect("a timer");
    let left = u64::from_str_radix(left, 16).expect("a number");
    assert!(kind == "02" && left <= 1500, "{line:?}");
    drop(daemon);
}

// proves: F11, H1
#[test]
fn a_host_that_announces_long_writes_and_sends_none_keeps_others_from_nothing_for_long() {
    let daemon = Daemon::start();
    let backing = daemon.site.blank("backing", 64 * MIB);
    daemon.ok(&format!("volume create v --backing {}", backing.display()));
    // More than all requests together may take (512 MiB at most).
    let hogs: Vec<UnixStream> = (0..24)
        .map(|_| {
            let mut stream = Client::connect(&daemon.nbd_socket(), "v").expect("a connection").into_stream();
            stream.write_all(&request(Verb::Write, 0, 1, 0, 32 << 20)).expect("it is taken");
            stream
        })
        .collect();
    // A small request is never waited for, a long one until the hogs are let go.
    serves(&daemon);
    // The first ones may come before the daemon has read what all hogs announce.
    tools::eventually("a hog is let go", Duration::from_secs(120), || {
        daemon.client("v").write(0, &vec![7; 32 << 20]).expect("it is answered in the end");
        daemon.json("status")["counters"]["connections_abandoned"].as_u64() > Some(0)
    });
    drop((hogs, greet(&daemon.nbd_socket())));
}

// proves: H1
#[test]
fn a_host_of_another_user_connects_by_its_group_and_by_nothing_else() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    if fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).ok() != Some(0) {
        return tools::skip("only root can be somebody else");
    }
    let config = daemon.site.path("hotset.toml");
    fs::write(&config, "nbd_socket_group = \"4711\"\n").expect("a file can be written");
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.launch();
    daemon.make_volume(16, "");
    let directory = daemon.nbd_socket().parent().expect("it is in a directory").to_owned();
    fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
    let uri = daemon.uri("v");
    let by = |group: &str| {
        let who = ["--reuid=4712", group, "--clear-groups", "nbdinfo", "--size", &uri];
        tools::run("setpriv", &who).status.success()
    };
    assert!(by("--regid=4711"), "one of the group");
    assert!(!by("--regid=4713"), "one of another group");
    let api = format!("unix:{}", daemon.api_socket().display());
    let verb = ["--reuid=4712", "--regid=4711", "--clear-groups"].map(str::to_owned);
    let binary = hotset_e2e::daemon::binary().display().to_string();
    let words = [&verb[..], &[binary, "--api".to_owned(), api, "status".to_owned()]].concat();
    assert!(!tools::run("setpriv", &words).status.success(), "the API is its owner's");
}

/// Asks for the event stream and reads that it began.
fn follow<S: Read + Write>(mut stream: S, authorization: &str) -> S {
    let request = format!("GET /api/v1/events/stream HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

// proves: O6
#[test]
fn who_only_follows_events_or_only_connects_keeps_no_verb_out() {
    let port = free_port();
    let daemon = Daemon::start_with(&format!("--missing-wait 1 --api tcp:127.0.0.1:{port}"));
    let limit = Some(Duration::from_secs(20));
    let connect = || {
        let stream = UnixStream::connect(daemon.api_socket()).expect("a connection");
        stream.set_read_timeout(limit).expect("20 s is a time");
        stream
    };
    // More than there is room for, each of them answered.
    let streams: Vec<_> = (0..300).map(|_| follow(connect(), "")).collect();
    let idle: Vec<_> = (0..300).map(|_| connect()).collect();
    for _ in 0..5 {
        daemon.ok("status");
    }
    drop(idle);
    let still: Vec<_> = (0..300).map(|_| follow(connect(), "")).collect();
    daemon.ok("status");
    drop((streams, still));
    // One token that may only look, over the network: others that come there, and the administrator's own socket.
    let token = |name: &str| {
        let made = daemon.json(&format!("token create {name} --role view"));
        format!("Authorization: Bearer {}\r\n", made["token"].as_str().expect("a token"))
    };
    let (viewer, other) = (token("viewer"), token("other"));
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_read_timeout(limit).expect("20 s is a time");
        stream
    };
    let streams: Vec<_> = (0..300).map(|_| follow(connect(), &viewer)).collect();
    let request = format!("GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n{other}\r\n");
    let mut asking = connect();
    asking.write_all(request.as_bytes()).expect("it is taken");
    let mut head = [0; 12];
    asking.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    daemon.ok("status");
    drop(streams);
}

// proves: O6
#[test]
fn a_token_that_is_deleted_ends_its_streams() {
    let port = free_port();
    let daemon = Daemon::start_with(&format!("--missing-wait 1 --api tcp:127.0.0.1:{port}"));
    let token = daemon.json("token create viewer --role view")["token"].as_str().expect("a token").to_owned();
    let connect = || TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let mut stream = follow(connect(), &format!("Authorization: Bearer {token}\r\n"));
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("20 s is a time");
    daemon.ok("token delete viewer");
    // What was under way, then the end.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("it ends");
    let mut stream = connect();
    let request = format!("GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 401");
    tools::eventually("it is counted", Duration::from_secs(20), || {
        daemon.json("status")["counters"]["logins_refused"].as_u64() > Some(0)
    });
}

// proves: O6
#[test]
fn a_verb_ends_when_the_daemon_gives_no_sign_and_a_check_has_found_a_failure() {
    let daemon = Daemon::start();
    let pid = daemon.pid().to_string();
    tools::succeed("kill", &["-STOP", &pid]);
    for (arguments, code) in [
        ("--timeout 1 status", 1),
        ("--timeout 1 status --check", 2),
        ("--timeout 1 pool delete p", 1),
        ("--timeout 1 volume create v --backing /nowhere", 1),
        ("--timeout 1 events --follow", 1),
        ("--timeout 1 top", 1),
    ] {
        let output = daemon.hotset(arguments);
        let text = tools::text(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {text}");
        assert!(text.contains("did not answer within 1 s"), "{arguments}: {text}");
    }
    tools::succeed("kill", &["-CONT", &pid]);
    daemon.ok("status");
}

// proves: S4
#[test]
fn the_environment_of_the_verbs_moves_no_daemon_and_the_usage_asks_for_no_more_than_is_needed() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    daemon.run_by(&["env", "HOTSET_API=unix:/nowhere/api.sock"]);
    daemon.launch();
    daemon.ok("status");
    let usage = tools::text(&daemon.hotset("pool frobnicate"));
    assert!(usage.contains("Usage: hotset pool") && !usage.contains("--api <"), "{usage}");
}

/// Ends within the limit of a program, with one line that says what to do, and no more.
fn is_refused(run_by: &[&str], parts: &[&str]) {
    let site = Site::new();
    let socket = |name: &str| format!("unix:{}", site.socket(name).display());
    let state = site.path("state").display().to_string();
    let (program, arguments) = run_by.split_first().expect("there is a program");
    let binary = binary().display().to_string();
    let serve = ["serve", "--state", &state, "--nbd", &socket("nbd"), "--api", &socket("api")].map(str::to_owned);
    let arguments = arguments.iter().map(|&word| word.to_owned()).chain([binary]).chain(serve);
    let output = run(program, &arguments.collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{run_by:?}: {}", text(&output));
    assert_eq!(said.lines().count(), 1, "{run_by:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{run_by:?}: {part}: {said}");
    }
}

// proves: F11
#[test]
fn a_start_that_may_have_too_little_stack_addresses_or_data_names_the_limit() {
    is_refused(&["prlimit", "--stack=65536:65536"], &["RLIMIT_STACK", "ulimit -s"]);
    is_refused(&["prlimit", "--as=1000000000"], &["RLIMIT_AS", "ulimit -v"]);
    is_refused(&["prlimit", "--data=500000000"], &["RLIMIT_DATA", "ulimit -d"]);
}

// proves: F11
#[test]
fn a_stack_that_may_be_raised_is_raised() {
    let mut daemon = Daemon::prepare("");
    daemon.run_by(&["prlimit", "--stack=131072:"]);
    daemon.launch();
    daemon.make_pool(&[24], "");
    assert!(daemon.stop().success());
}

// proves: F11
#[test]
fn a_start_that_may_have_too_few_threads_names_the_limit() {
    // Root may have as many as it wants; nobody else has this number.
    let user = "54321";
    let as_user = ["setpriv", "--reuid", user, "--clear-groups"];
    let can = run(as_user[0], &[&as_user[1..], &[&binary().display().to_string(), "--version"]].concat());
    if !can.status.success() {
        return skip("the binary cannot be run as somebody else here (needs root, and a folder that all may enter)");
    }
    for most in ["--nproc=1", "--nproc=10", "--nproc=16"] {
        let run_by = [&as_user[..], &["prlimit", most]].concat();
        is_refused(&run_by, &["threads: ", "RLIMIT_NPROC", most.trim_start_matches("--nproc="), "ulimit -u"]);
    }
}
