//! What takes the daemon's words is not its own: it may fail, or not read, and the daemon goes on.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::tools;

const SOON: Duration = Duration::from_secs(20);

/// Serves, counts the lines that are dropped, and stops in time.
fn goes_on_without_its_log(mut daemon: Daemon) {
    daemon.launch();
    daemon.make_volume(16, "");
    daemon.assert_volume_pages(16);
    tools::eventually("what is dropped is counted", SOON, || counted(&daemon, "log_lines_dropped") > 0);
    tools::eventually("it is a condition", SOON, || daemon.hotset("status --check").status.code() == Some(1));
    assert!(daemon.ok("status").contains("lines of the log are dropped"));
    let stopped = daemon.stop();
    assert!(stopped.success(), "{stopped}");
}

fn counted(daemon: &Daemon, what: &str) -> u64 {
    let status = daemon.json("status");
    status["counters"][what].as_u64().unwrap_or_else(|| panic!("no {what} in {status}"))
}

// proves: F11, O6
#[test]
fn a_reader_of_the_log_that_is_gone_stops_nothing() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let (reader, writer) = io::pipe().expect("a pipe can be made");
    drop(reader);
    daemon.log_to(writer);
    goes_on_without_its_log(daemon);
}

// proves: F11, O6
#[test]
fn a_full_disk_under_the_log_stops_nothing() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    daemon.log_to(File::options().write(true).open("/dev/full").expect("Linux has it"));
    goes_on_without_its_log(daemon);
}

// proves: F11, O6
#[test]
fn a_log_that_nobody_reads_holds_up_neither_hosts_nor_administrators_nor_a_stop() {
    let mut daemon = Daemon::prepare("--missing-wait 1 --log trace");
    let (reader, writer) = io::pipe().expect("a pipe can be made");
    fill(&writer);
    daemon.log_to(writer);
    daemon.launch();
    daemon.make_volume(16, "");
    daemon.assert_volume_pages(16);
    for _ in 0..50 {
        daemon.ok("status");
    }
    let stopped = daemon.stop();
    assert!(stopped.success(), "{stopped}");
    drop(reader);
}

/// Until it takes nothing more. The thread waits until the reader goes.
fn fill(pipe: &io::PipeWriter) {
    let mut pipe = pipe.try_clone().expect("a descriptor can be shared");
    let (sender, written) = std::sync::mpsc::channel();
    thread::spawn(move || {
        while pipe.write_all(&[b'x'; 4096]).is_ok() {
            sender.send(()).ok();
        }
    });
    while written.recv_timeout(Duration::from_secs(1)).is_ok() {}
}

// proves: F11
#[test]
fn a_pipe_in_place_of_the_events_stops_no_start_and_is_set_aside() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let state = daemon.site.path("state");
    fs::create_dir_all(&state).expect("a directory can be made");
    let file = state.join("events.jsonl");
    tools::succeed("mkfifo", &[&file]);
    daemon.launch();
    tools::eventually("events are kept", SOON, || fs::read_to_string(&file).is_ok_and(|text| text.contains("started")));
    let aside = fs::symlink_metadata(state.join("events.jsonl.broken")).expect("it was not deleted");
    assert!(aside.file_type().is_fifo());
    assert_eq!(counted(&daemon, "events_not_kept"), 0);
}

// proves: F11, S4
#[test]
fn a_verb_whose_output_nobody_takes_ends_with_its_code_and_without_a_panic() {
    let daemon = Daemon::start();
    let closed = || {
        let (reader, writer) = io::pipe().expect("a pipe can be made");
        drop(reader);
        Stdio::from(writer)
    };
    let full = || Stdio::from(File::options().write(true).open("/dev/full").expect("Linux has it"));
    let code = |arguments: &str, out: Stdio, err: Stdio| {
        let mut child = daemon.command(arguments);
        child.stdout(out).stderr(err).status().expect("hotset can be started").code()
    };
    assert_eq!(code("status", closed(), full()), Some(0), "a reader that went away has what it wanted");
    assert_eq!(code("events --follow", closed(), full()), Some(0), "a follower ends");
    assert_eq!(code("top", closed(), full()), Some(0));
    assert_eq!(code("status", full(), full()), Some(1));
    assert_eq!(code("pool show nowhere", closed(), closed()), Some(1));
    assert_eq!(code("pool show nowhere", full(), full()), Some(1));
    assert_eq!(code("no-such-verb", closed(), full()), Some(2));
    assert_eq!(code("--help", full(), closed()), Some(0));
}

// proves: F11
#[test]
fn a_file_size_limit_is_an_error_and_no_end() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    // 1 MiB: enough for a start, too little for the pool's member file or an image.
    daemon.run_by(&["prlimit", "--fsize=1048576:1048576"]);
    daemon.launch();
    let backing = daemon.site.numbered("backing", 1024);
    daemon.ok(&format!("volume create v --backing {}", backing.display()));
    let mut client = daemon.client("v");
    let beyond = client.write(2 << 20, &[7; 4096]);
    assert!(beyond.is_err(), "the limit is the backing device's error");
    client.write(0, &[7; 4096]).expect("below the limit all is well");
    assert!(Path::new(&format!("/proc/{}", daemon.pid())).exists());
    assert!(daemon.stop().success());
}

// proves: F11, O6
#[test]
fn signals_that_are_not_for_the_daemon_do_nothing_and_quit_is_a_clean_stop() {
    let mut daemon = Daemon::start();
    // From ALRM on: VTALRM, PROF, XCPU, IO, PWR, STKFLT, the first and the last of real time.
    for signal in
        ["-HUP", "-PIPE", "-USR1", "-USR2", "-XFSZ", "-14", "-26", "-27", "-24", "-29", "-30", "-16", "-34", "-64"]
    {
        tools::succeed("kill", &[signal, &daemon.pid().to_string()]);
        daemon.ok("status");
    }
    daemon.ok("status");
    let stopped = daemon.stop_by("-QUIT");
    assert!(stopped.success(), "{stopped}");
    daemon.launch();
    assert!(!daemon.ok("events").contains("no clean stop"));
}
