//! The daemon is replaced, or killed, under hosts at work: their requests wait, and none fails.
//!
//! The tests do what a service manager does: they keep the listening sockets, and start the next daemon on them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::MIB;
use hotset_e2e::load::{Host, StopOnPanic};
use hotset_e2e::nbd::Client;
use hotset_e2e::pattern::PAGE_BYTES;
use hotset_e2e::tools::{self, command, text};
use serde_json::Value;

/// Sectors of each host's own region.
const REGION: u64 = 16_384;
const HOSTS: u64 = 3;

/// No host waits longer for a daemon that was replaced. On an idle machine it is a fraction of a second.
const PAUSE_MAX: Duration = Duration::from_secs(20);

/// A daemon with a read-write pool and a volume, on sockets that stay.
fn daemon_on_kept_sockets() -> Daemon {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    daemon.keep_sockets(None);
    daemon.launch();
    daemon.make_read_write_pool(&[32, 40], "--populate-on-read 1");
    daemon.make_volume(HOSTS * REGION * 512 / PAGE_BYTES, "p");
    daemon
}

/// Stops it cleanly and starts it, then kills it and starts it, each under load.
fn replace_and_kill(daemon: &mut Daemon) {
    for kill in [false, true, false] {
        let writes = daemon.stat("v", "writes");
        tools::eventually("there is a load", Duration::from_secs(30), || daemon.stat("v", "writes") > writes + 300);
        if kill {
            daemon.kill();
        } else {
            let status = daemon.stop();
            assert!(status.success(), "a clean stop ends with 0, not {status}");
        }
        daemon.launch();
    }
    tools::eventually("the load goes on", Duration::from_secs(30), || daemon.stat("v", "writes") > 300);
    assert_eq!(daemon.stat("v", "errors"), 0);
}

/// What the newest daemon says of the pause before it.
fn stated_pauses(daemon: &Daemon) -> Vec<String> {
    let events = daemon.json("events");
    let events = events["events"].as_array().expect("a list").clone();
    let serving = events.into_iter().filter(|event| event["change"] == "serving hosts");
    serving.map(|event| event["cause"].as_str().expect("a cause").to_owned()).collect()
}

// proves: F7, S4, P16
#[test]
fn hosts_that_ask_again_wait_for_the_next_daemon_and_see_no_error() {
    let mut daemon = daemon_on_kept_sockets();
    let socket = daemon.nbd_socket();
    let (started, stop) = (Barrier::new(4), AtomicBool::new(false));
    let mut hosts: Vec<Host> = (0..HOSTS).map(|index| Host::new(index * REGION, REGION, index + 1)).collect();
    let longest = thread::scope(|scope| {
        let _stop = StopOnPanic(&stop);
        let workers: Vec<_> = hosts
            .iter_mut()
            .map(|host| {
                let (started, stop, socket) = (&started, &stop, &socket);
                scope.spawn(move || {
                    started.wait();
                    host.work_through(|| connect_again(socket), stop)
                })
            })
            .collect();
        started.wait();
        replace_and_kill(&mut daemon);
        stop.store(true, Ordering::Relaxed);
        let pauses = workers.into_iter().map(|worker| worker.join().expect("no wrong byte and no error"));
        pauses.max().expect("there are hosts")
    });
    println!("the longest pause that a host saw: {:.2} s", longest.as_secs_f64());
    assert!(longest < PAUSE_MAX, "{longest:?}");
    let stated = stated_pauses(&daemon);
    println!("what the daemons said of it: {stated:?}");
    assert!(stated.len() == 3 && stated[0].starts_with("no request was served for "), "{stated:?}");
    assert!(stated[1].contains("no clean stop"), "{stated:?}");
    let mut client = daemon.client("v");
    hosts.iter_mut().for_each(|host| host.check_all(&mut client));
}

/// A connection that may end in its handshake, with a daemon that ends. That nobody listens is never so.
pub(crate) fn connect_again(socket: &Path) -> Client {
    connect_again_to(socket, "v", PAUSE_MAX)
}

/// The same to any volume, within a limit of one's own.
pub(crate) fn connect_again_to(socket: &Path, volume: &str, limit: Duration) -> Client {
    let begun = Instant::now();
    loop {
        match Client::connect(socket, volume) {
            Ok(client) => return client,
            Err(hotset_e2e::nbd::Error::Connection(error)) => {
                assert_ne!(error.kind(), std::io::ErrorKind::ConnectionRefused, "the socket is always there");
                assert!(begun.elapsed() < limit, "no connection: {error}");
            }
            Err(error) => panic!("the volume is not there: {error}"),
        }
    }
}

/// A program between hosts and the daemon; it ends with this test.
pub(crate) struct Between(Child);

impl Between {
    fn start(daemon: &Daemon, program: &str, arguments: &[String]) -> Self {
        let mut words = vec!["--pdeathsig".to_owned(), "KILL".to_owned(), program.to_owned()];
        words.extend_from_slice(arguments);
        let child = Command::new("setpriv").args(words).stdin(Stdio::null()).spawn().expect("it can be started");
        let between = Self(child);
        let socket = daemon.site.socket("between");
        tools::eventually("it listens", Duration::from_secs(20), || socket.exists());
        between
    }

    /// nbdkit, which asks again what the daemon left without an answer.
    pub(crate) fn nbdkit(daemon: &Daemon) -> Self {
        let (socket, to) = (daemon.site.socket("between"), daemon.uri("v"));
        let arguments = format!(
            "--foreground --exit-with-parent --unix {} --filter=retry nbd uri={to} retries=60 retry-delay=1 \
             retry-exponential=no",
            socket.display()
        );
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        Self::start(daemon, "nbdkit", &arguments)
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

// proves: F7, S1, P16
#[test]
fn qemu_with_a_reconnect_delay_sees_no_error() {
    let mut daemon = daemon_on_kept_sockets();
    let between = daemon.site.socket("between");
    let nbd = daemon.nbd_socket();
    let driver = format!("driver=nbd,server.type=unix,server.path={},export=v,reconnect-delay=60", nbd.display());
    let arguments = ["--image-opts", &driver, "--socket", &between.display().to_string(), "--persistent", "--shared=0"];
    let _qemu = Between::start(&daemon, "qemu-nbd", &arguments.map(str::to_owned));
    let stop = AtomicBool::new(false);
    let mut hosts: Vec<Host> = (0..HOSTS).map(|index| Host::new(index * REGION, REGION, index + 1)).collect();
    thread::scope(|scope| {
        let _stop = StopOnPanic(&stop);
        for host in &mut hosts {
            let (stop, between) = (&stop, &between);
            scope.spawn(move || {
                let mut client = Client::connect(between, "").expect("QEMU takes connections");
                host.work(&mut client, stop).expect("QEMU's own connection never ends");
            });
        }
        replace_and_kill(&mut daemon);
        stop.store(true, Ordering::Relaxed);
    });
    println!("what the daemons said of the pauses: {:?}", stated_pauses(&daemon));
    let mut client = daemon.client("v");
    hosts.iter_mut().for_each(|host| host.check_all(&mut client));
}

// proves: F7, S1, P16
#[test]
fn fio_with_retries_verifies_every_byte() {
    let mut daemon = daemon_on_kept_sockets();
    let between = daemon.site.socket("between");
    let _retries = Between::nbdkit(&daemon);
    let uri = format!("nbd+unix:///?socket={}", between.display());
    let fixed = "--name=through --ioengine=nbd --rw=randrw --bsrange=4k-32k --iodepth=16 --verify=crc32c \
        --verify_fatal=1 --verify_backlog=64 --verify_state_save=0 --randseed=7 --output-format=json --time_based";
    let mut words: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
    words.extend([format!("--uri={uri}"), format!("--size={}", 8 * MIB), "--runtime=20".to_owned()]);
    let fio = command("fio", &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("fio starts");
    replace_and_kill(&mut daemon);
    let output = fio.wait_with_output().expect("fio is ours");
    assert!(output.status.success(), "{}", text(&output));
    // Before that it says what it thinks of its options.
    let json = output.stdout.iter().position(|byte| *byte == b'{').expect("fio prints JSON");
    let report: Value = serde_json::from_slice(&output.stdout[json..]).expect("fio prints JSON");
    let job = &report["jobs"][0];
    assert_eq!(job["error"], 0, "{job}");
    let longest_ns = ["read", "write"].iter().filter_map(|side| job[side]["clat_ns"]["max"].as_u64()).max();
    let longest = Duration::from_nanos(longest_ns.expect("fio measures latencies"));
    println!("the longest request that fio saw: {:.2} s", longest.as_secs_f64());
    assert!(longest < PAUSE_MAX, "{longest:?}");
}

// proves: F2, S4
#[test]
fn a_start_that_waits_for_an_ssd_asks_its_service_manager_for_more_time() {
    // It asks every 10 s.
    let mut daemon = Daemon::prepare("--missing-wait 12");
    daemon.launch();
    daemon.make_read_write_pool(&[32, 32], "");
    daemon.stop();
    let (ssd, away) = (daemon.site.path("ssd0"), daemon.site.path("away"));
    fs::rename(&ssd, &away).expect("it can be taken away");
    daemon.launch();
    let told = daemon.told_at_start();
    let asked = told.iter().filter(|line| line.starts_with("EXTEND_TIMEOUT_USEC=")).count();
    assert!(asked >= 2, "{told:?}");
    fs::rename(&away, &ssd).expect("it can be put back");
}
