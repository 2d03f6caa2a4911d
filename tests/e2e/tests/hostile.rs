//! Clients that are broken or mean harm hurt nobody else.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::MIB;
use hotset_e2e::load::{Host, StopOnPanic};
use hotset_e2e::nbd::{Client, OPTION_GO, Verb, go_data, greet, option, request};
use hotset_e2e::pattern::Random;
use hotset_e2e::tools;

/// What one bad client may cost the daemon in memory.
const BAD_CLIENTS_BYTES: u64 = 512 * MIB;

fn connect(daemon: &Daemon) -> UnixStream {
    greet(&daemon.nbd_socket()).expect("a new connection is greeted")
}

fn in_transmission(daemon: &Daemon) -> UnixStream {
    Client::connect(&daemon.nbd_socket(), "v").expect("the export is there").into_stream()
}

/// Waits until the server ends the connection (or says nothing more for a while, which is its right too).
fn drain(mut stream: UnixStream) {
    stream.set_read_timeout(Some(Duration::from_millis(300))).expect("300 ms is a time");
    let mut sink = [0; 4096];
    while stream.read(&mut sink).is_ok_and(|len| len > 0) {}
}

/// Sends what a server may well refuse to read to its end.
fn send(stream: &mut UnixStream, bytes: &[u8]) {
    stream.write_all(bytes).ok();
}

fn attack(daemon: &Daemon, random: &mut Random) {
    // Noise at every stage.
    let mut stream = UnixStream::connect(daemon.nbd_socket()).expect("a connection");
    send(&mut stream, &random.bytes(10_000));
    drain(stream);
    let mut stream = connect(daemon);
    send(&mut stream, &random.bytes(10_000));
    drain(stream);
    let mut stream = in_transmission(daemon);
    send(&mut stream, &random.bytes(10_000));
    drain(stream);

    // An option that promises 4 GiB, and an option cut in the middle.
    let mut stream = connect(daemon);
    let mut endless = option(OPTION_GO, &[]);
    endless[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
    send(&mut stream, &endless);
    send(&mut stream, &random.bytes(100_000));
    drain(stream);
    let mut stream = connect(daemon);
    send(&mut stream, &option(OPTION_GO, &go_data("v"))[..17]);
    drop(stream);
    // A GO whose name is longer than its data, and one that is no text.
    for data in [&[0xff, 0xff, 0xff, 0xff, 0, 0][..], &[0, 0, 0, 2, 0xff, 0xfe, 0, 0][..], &[0, 0][..]] {
        let mut stream = connect(daemon);
        send(&mut stream, &option(OPTION_GO, data));
        drain(stream);
    }

    // Requests: of 4 GiB, of an unknown kind, with unknown flags, a write that never comes.
    for bytes in [
        request(Verb::Read, 0, 1, 0, u32::MAX),
        request(Verb::Write, 0, 1, 0, u32::MAX),
        request(Verb::WriteZeroes, 0, 1, u64::MAX - 4095, u32::MAX),
        request(Verb::Read, 0xffff, 1, 0, 512),
        request(Verb::Flush, 0, 1, 4096, 4096),
    ] {
        let mut stream = in_transmission(daemon);
        send(&mut stream, &bytes);
        drain(stream);
    }
    let mut stream = in_transmission(daemon);
    send(&mut stream, &request(Verb::Write, 0, 1, 0, 65536));
    send(&mut stream, &[7; 1000]);
    drop(stream);
}

// proves: S1, F8
#[test]
fn hostile_clients_hurt_nobody_beside_them() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16], "--populate-on-read 1 --populate-on-write 1");
    daemon.make_volume(24 * MIB / 4096, "p");
    let before = daemon.resident_bytes();
    let stop = AtomicBool::new(false);
    // The attack's unfinished writes aim at the first 64 KiB; the good host works behind them.
    let mut host = Host::new(256, 40_000, 1);
    let mut client = daemon.client("v");
    thread::scope(|scope| {
        let _stop = StopOnPanic(&stop);
        scope.spawn(|| host.work(&mut client, &stop).expect("the good connection holds"));
        let mut random = Random::new(3);
        for _ in 0..3 {
            attack(&daemon, &mut random);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(host.answered() > 500, "the good host was served: {}", host.answered());
    host.check_all(&mut daemon.client("v"));
    let grown = daemon.resident_bytes().saturating_sub(before);
    assert!(grown < BAD_CLIENTS_BYTES, "the daemon grew by {grown} bytes");
}

// proves: S1
#[test]
fn a_client_that_never_reads_its_replies_costs_bounded_memory() {
    let daemon = Daemon::start();
    daemon.make_volume(24 * MIB / 4096, "");
    let before = daemon.resident_bytes();
    let streams: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = in_transmission(&daemon);
            stream.set_write_timeout(Some(Duration::from_millis(500))).expect("500 ms is a time");
            for cookie in 0..20_000 {
                // At some point the server stops reading, as it must.
                if stream.write_all(&request(Verb::Read, 0, cookie, 0, 1 << 20)).is_err() {
                    break;
                }
            }
            stream
        })
        .collect();
    let grown = daemon.resident_bytes().saturating_sub(before);
    assert!(grown < BAD_CLIENTS_BYTES, "the daemon grew by {grown} bytes for {} clients", streams.len());
    daemon.assert_volume_pages(24 * MIB / 4096);
}

// proves: S1
#[test]
fn hundreds_of_idle_connections_keep_nobody_out_and_leave_nothing_behind() {
    let mut daemon = Daemon::start();
    daemon.make_volume(256, "");
    for _ in 0..2 {
        let idle: Vec<_> = (0..150).map_while(|_| UnixStream::connect(daemon.nbd_socket()).ok()).collect();
        daemon.assert_volume_pages(256);
        drop(idle);
    }
    tools::eventually("connections that ended are closed", Duration::from_secs(10), || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("the daemon runs").count();
        open < 60
    });
    daemon.assert_volume_pages(256);
    assert!(daemon.stop().success());
}
