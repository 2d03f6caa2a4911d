//! Clients that are broken, slow, greedy or gone: they get what they deserve, and nobody else notices.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hotset_block::{ByteRange, Env, HostEnv};
use hotset_cache::config::VolumeSettings;
use hotset_serve::load::{Client, Endpoint, Limit, Pattern, Progress, Workload};
use hotset_serve::nbd::wire::{
    Command, OptionHeader, Request, SIMPLE_REPLY_BYTES, SimpleReply, command_flag, errno, option,
};
use hotset_serve::{Door, Exports, Link, ServerSettings};
use tempfile::TempDir;

use crate::serving::{Backing, Served, Serving, TEST_TIMEOUT};

/// A client without manners, that says exactly what a test wants.
struct RawClient {
    stream: UnixStream,
}

impl RawClient {
    /// Connects, and has been greeted.
    fn greeted(serving: &Serving) -> Self {
        let stream = UnixStream::connect(serving.socket()).expect("the server listens");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        stream.set_write_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        let mut client = Self { stream };
        assert_eq!(&client.receive(18)[..8], b"NBDMAGIC");
        client
    }

    /// Has chosen an export, and asked for its block sizes.
    fn keeping_to_blocks(serving: &Serving, export: &str) -> Self {
        let mut client = Self::greeted(serving);
        let length = u32::try_from(export.len()).expect("a name has at most 4096 bytes");
        let header = OptionHeader { option: option::GO, length: length + 8 }.encode();
        let data = [&length.to_be_bytes()[..], export.as_bytes(), &[0, 1, 0, 3]].concat();
        client.send(&[&3_u32.to_be_bytes(), &header[..], &data].concat());
        // Size and flags, block sizes, the end.
        client.receive(20 + 12 + 20 + 14 + 20);
        client
    }

    /// Has chosen an export, with simple replies, and knows nothing of blocks.
    fn choosing(serving: &Serving, export: &str) -> Self {
        let mut client = Self::greeted(serving);
        let length = u32::try_from(export.len()).expect("a name has at most 4096 bytes");
        let header = OptionHeader { option: option::EXPORT_NAME, length }.encode();
        client.send(&[&3_u32.to_be_bytes(), &header[..], export.as_bytes()].concat());
        client.receive(10);
        client
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server receives");
    }

    fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).expect("the server answers");
        bytes
    }

    fn request(&mut self, command: Command, offset: u64, length: u32) {
        self.send(&Request { flags: 0, command, cookie: 7, offset, length }.encode());
    }

    /// The error of the next reply, which has no payload.
    fn error(&mut self) -> u32 {
        let head = self.receive(SIMPLE_REPLY_BYTES);
        SimpleReply::decode(head.first_chunk().expect("the head was read whole")).expect("a simple reply").error
    }

    fn ask(&mut self, command: Command, offset: u64, length: u32) -> u32 {
        self.request(command, offset, length);
        self.error()
    }

    /// Waits until the server has closed the connection.
    fn assert_closed(&mut self) {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "the connection is still open"),
        }
    }
}

fn disk() -> Serving {
    Serving::volumes(&[Served::memory("disk", 64 << 20)])
}

/// A well-behaved client is served.
fn assert_serves(serving: &Serving) {
    let mut client = RawClient::choosing(serving, "disk");
    client.request(Command::Read, 4096, 512);
    assert_eq!(client.error(), 0);
    assert_eq!(client.receive(512).len(), 512);
}

/// Waits until no connection uses the export, and takes it away.
fn assert_all_gone(serving: &Serving, name: &'static str) {
    serving.ask(move |_, exports: Exports| async move {
        assert!(exports.remove(name, TEST_TIMEOUT).await, "the export was there");
        assert_eq!(exports.connections(), []);
    });
}

// proves: S1
#[test]
fn noise_instead_of_a_handshake_hurts_nobody_else() {
    let serving = disk();
    let mut steady = RawClient::choosing(&serving, "disk");
    for seed in 0_u8..20 {
        let mut client = RawClient::greeted(&serving);
        let noise: Vec<u8> =
            (0_u32..4000).map(|i| (i.wrapping_mul(2_654_435_761) >> 11).to_le_bytes()[0] ^ seed).collect();
        // The server may have closed before all of it was written.
        let _ = client.stream.write_all(&noise);
        let _ = client.stream.shutdown(Shutdown::Write);
        client.assert_closed();
        assert_eq!(steady.ask(Command::Flush, 0, 0), 0);
    }
    assert_serves(&serving);
}

// proves: S1
#[test]
fn noise_instead_of_requests_closes_that_connection_only() {
    let serving = disk();
    let mut steady = RawClient::choosing(&serving, "disk");
    let mut noisy = RawClient::choosing(&serving, "disk");
    noisy.send(&[0x55; 300]);
    noisy.assert_closed();
    assert_eq!(steady.ask(Command::Flush, 0, 0), 0);
}

// proves: S1
#[test]
fn requests_that_cannot_be_done_are_answered_and_the_connection_goes_on() {
    let serving = disk();
    let mut client = RawClient::keeping_to_blocks(&serving, "disk");
    let end = 64 << 20;
    let cases = [
        (Command::Read, 1, 512, errno::EINVAL),
        (Command::Read, 0, 511, errno::EINVAL),
        (Command::Read, 0, 0, errno::EINVAL),
        (Command::Read, end, 512, errno::EINVAL),
        (Command::Read, u64::MAX, u32::MAX, errno::EINVAL),
        (Command::Read, 0, u32::MAX, errno::EINVAL),
        (Command::Read, 0, 48 << 20, errno::EINVAL),
        (Command::Trim, end, 512, errno::EINVAL),
        (Command::WriteZeroes, end, 512, errno::ENOSPC),
        (Command::WriteZeroes, u64::MAX - 511, 512, errno::ENOSPC),
        (Command::Cache, end, 512, errno::EINVAL),
        (Command::Cache, 0, 64 << 20, 0),
        (Command::BlockStatus, 0, 512, errno::EINVAL),
        (Command::Flush, u64::MAX, u32::MAX, 0),
        (Command::Unknown(8), 0, 512, errno::EINVAL),
        (Command::Unknown(u16::MAX), u64::MAX, u32::MAX, errno::EINVAL),
    ];
    for (command, offset, length, expected) in cases {
        assert_eq!(client.ask(command, offset, length), expected, "{command:?} {offset} {length}");
    }
    client.request(Command::Write, end, 512);
    client.send(&[1; 512]);
    assert_eq!(client.error(), errno::ENOSPC);
    client.request(Command::Write, 3, 100);
    client.send(&[1; 100]);
    assert_eq!(client.error(), errno::EINVAL);
    assert_eq!(client.ask(Command::Flush, 0, 0), 0);
}

// proves: H1
#[test]
fn who_did_not_ask_for_block_sizes_may_ask_for_any_bytes() {
    let serving = disk();
    let mut client = RawClient::choosing(&serving, "disk");
    client.request(Command::Write, 3, 5000);
    client.send(&[7; 5000]);
    assert_eq!(client.error(), 0);
    let zeroes =
        |flags, offset, length| Request { flags, command: Command::WriteZeroes, cookie: 7, offset, length }.encode();
    client.send(&zeroes(command_flag::FUA, 1000, 13));
    assert_eq!(client.error(), 0);
    assert_eq!(client.ask(Command::Cache, 5, 1), 0);
    assert_eq!(client.ask(Command::Trim, 5001, 1), 0);
    client.request(Command::Read, 1, 5005);
    assert_eq!(client.error(), 0);
    let expected = |byte: u64| u8::from((3..5003).contains(&byte) && !(1000..1013).contains(&byte)) * 7;
    assert_eq!(client.receive(5005), (1..5006).map(expected).collect::<Vec<u8>>());
    let end = 64 << 20;
    assert_eq!(client.ask(Command::Read, end - 1, 2), errno::EINVAL);
    assert_eq!(client.ask(Command::Read, 0, 0), errno::EINVAL);
    client.request(Command::Read, end - 1, 1);
    assert_eq!((client.error(), client.receive(1)), (0, vec![0]));
}

// proves: S1
#[test]
fn a_write_longer_than_the_largest_block_size_closes_the_connection() {
    let serving = disk();
    let mut client = RawClient::choosing(&serving, "disk");
    client.request(Command::Write, 0, (32 << 20) + 512);
    client.assert_closed();
    assert_serves(&serving);
}

// proves: S1
#[test]
fn a_write_of_the_largest_block_size_is_stored() {
    let serving = disk();
    let mut client = RawClient::choosing(&serving, "disk");
    client.request(Command::Write, 512, 32 << 20);
    client.send(&vec![9; 32 << 20]);
    assert_eq!(client.error(), 0);
    client.request(Command::Read, 512, 32 << 20);
    assert_eq!(client.error(), 0);
    assert!(client.receive(32 << 20).iter().all(|byte| *byte == 9));
}

// proves: S1
#[test]
fn a_client_that_vanishes_in_the_middle_of_a_write_changes_nothing() {
    let serving = disk();
    for sent in [0, 1, 4095, 100_000] {
        let mut client = RawClient::choosing(&serving, "disk");
        client.request(Command::Write, 0, 1 << 20);
        client.send(&vec![0xff; sent]);
        drop(client);
    }
    let mut client = RawClient::choosing(&serving, "disk");
    client.request(Command::Read, 0, 1 << 20);
    assert_eq!(client.error(), 0);
    assert!(client.receive(1 << 20).iter().all(|byte| *byte == 0));
    drop(client);
    assert_all_gone(&serving, "disk");
}

// proves: S1
#[test]
fn a_client_that_never_reads_is_held_within_its_budget() {
    let serving = disk();
    let mut greedy = RawClient::choosing(&serving, "disk");
    greedy.stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let request = Request { flags: 0, command: Command::Read, cookie: 1, offset: 0, length: 1 << 20 }.encode();
    let requests = request.repeat(100_000);
    let blocked = greedy.stream.write_all(&requests).expect_err("the server stops receiving");
    assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
    assert_serves(&serving);
    let in_flight = serving.ask(|_, exports| async move {
        exports.connections().iter().map(|connection| connection.in_flight).max().expect("the greedy one")
    });
    assert!((1..=64).contains(&in_flight), "{in_flight} MiB in flight");
    drop(greedy);
    assert_all_gone(&serving, "disk");
}

// proves: S1
#[test]
fn many_requests_at_once_are_each_answered_once() {
    let serving = disk();
    let mut client = RawClient::choosing(&serving, "disk");
    let request = |cookie| Request { flags: 0, command: Command::Flush, cookie, offset: 0, length: 0 }.encode();
    // More than the server takes at once.
    let requests: Vec<u8> = (0..3000).flat_map(request).collect();
    client.send(&requests);
    let mut seen = BTreeSet::new();
    for _ in 0..3000 {
        let head = client.receive(SIMPLE_REPLY_BYTES);
        let reply = SimpleReply::decode(head.first_chunk().expect("the head was read whole")).expect("a reply");
        assert_eq!(reply.error, 0);
        assert!(seen.insert(reply.cookie), "answered twice: {}", reply.cookie);
    }
}

// proves: S1
#[test]
fn a_goodbye_waits_for_the_replies_of_what_was_asked_before() {
    let serving = disk();
    let mut client = RawClient::choosing(&serving, "disk");
    for _ in 0..8 {
        client.request(Command::Read, 0, 4 << 20);
    }
    client.request(Command::Disconnect, 0, 0);
    for _ in 0..8 {
        assert_eq!(client.error(), 0);
        client.receive(4 << 20);
    }
    client.assert_closed();
}

// proves: S1
#[test]
fn a_request_that_takes_too_long_is_answered_once_and_its_late_result_is_thrown_away() {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("array");
    // Every read seeks for 30 ms, and they wait for each other.
    let spelling = format!("emulated:disks=1,level=raid0,size=64M,seek-min=30ms,seek-max=30ms,file={}", file.display());
    let slow = Served { backing: Backing::Emulated(spelling), ..Served::memory("slow", 0) };
    let settings = ServerSettings { request_timeout: Duration::from_millis(8), ..ServerSettings::default() };
    let serving = Serving::start(&[slow], settings, None);
    let mut client = RawClient::choosing(&serving, "slow");
    for cookie in 0..32 {
        let offset = (cookie * 7 % 16) << 22;
        client.send(&Request { flags: 0, command: Command::Read, cookie, offset, length: 4096 }.encode());
    }
    let (mut answered, mut in_time) = (BTreeSet::new(), 0);
    for _ in 0..32 {
        let head = client.receive(SIMPLE_REPLY_BYTES);
        let reply = SimpleReply::decode(head.first_chunk().expect("the head was read whole")).expect("a reply");
        assert!(answered.insert(reply.cookie), "answered twice: {}", reply.cookie);
        if reply.error == 0 {
            // The heads were there by chance.
            client.receive(4096);
            in_time += 1;
        } else {
            assert_eq!(reply.error, errno::EIO);
        }
    }
    assert!(in_time < 16, "the device was faster than the time limit");
    // They keep their share of the connection's budget until the device is done with them.
    let in_flight = serving.ask(|env, exports| async move {
        let before = exports.connections()[0].in_flight;
        while exports.connections()[0].in_flight > 0 {
            env.sleep(Duration::from_millis(1)).await;
        }
        before
    });
    assert!(in_flight > 0, "the device was faster than the time limit");
    // What comes next is the answer to what is asked next.
    client.send(&Request { flags: 0, command: Command::Unknown(9), cookie: 99, offset: 0, length: 0 }.encode());
    let head = client.receive(SIMPLE_REPLY_BYTES);
    let reply = SimpleReply::decode(head.first_chunk().expect("the head was read whole")).expect("a reply");
    assert_eq!((reply.cookie, reply.error), (99, errno::EINVAL));
}

// proves: S1
#[test]
fn a_handshake_that_takes_too_long_is_ended() {
    let settings = ServerSettings { handshake_timeout: Duration::from_millis(50), ..ServerSettings::default() };
    let serving = Serving::start(&[Served::memory("disk", 1 << 20)], settings, None);
    let mut silent = RawClient::greeted(&serving);
    silent.assert_closed();
    let mut slow = RawClient::greeted(&serving);
    slow.send(&3_u32.to_be_bytes());
    slow.assert_closed();
    // Whoever is through may take its time.
    let mut chosen = RawClient::choosing(&serving, "disk");
    RawClient::greeted(&serving).assert_closed();
    assert_eq!(chosen.ask(Command::Flush, 0, 0), 0);
}

// proves: S1
#[test]
fn connections_past_the_limit_are_closed_at_once_and_room_is_made_when_one_goes() {
    let settings = ServerSettings { connections_max: 2, ..ServerSettings::default() };
    let serving = Serving::start(&[Served::memory("disk", 1 << 20)], settings, None);
    let _first = RawClient::choosing(&serving, "disk");
    let second = RawClient::choosing(&serving, "disk");
    let mut third = RawClient { stream: UnixStream::connect(serving.socket()).expect("the server listens") };
    third.assert_closed();
    drop(second);
    serving.ask(|env, exports| async move {
        while exports.connections().len() > 1 {
            env.sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(RawClient::choosing(&serving, "disk").ask(Command::Flush, 0, 0), 0);
}

// proves: S1
#[test]
fn connections_go_to_the_thread_of_their_export_and_are_limited_over_all_threads() {
    let settings = ServerSettings { connections_max: 2, ..ServerSettings::default() };
    let [first, second] = Door::for_threads(2).try_into().unwrap_or_else(|_| unreachable!("two were asked for"));
    let front = Serving::start_at(&[Served::memory("here", 1 << 20)], settings, None, first);
    let other = Serving::start_at(&[Served::memory("there", 1 << 20)], settings, None, second);
    let count = |serving: &Serving| serving.ask(|_, exports: Exports| async move { exports.connections().len() });
    let mut there = RawClient::choosing(&front, "there");
    assert_eq!(there.ask(Command::Flush, 0, 0), 0);
    assert_eq!((count(&front), count(&other)), (0, 1));
    let mut here = RawClient::choosing(&front, "here");
    assert_eq!(here.ask(Command::Flush, 0, 0), 0);
    let mut third = RawClient { stream: UnixStream::connect(front.socket()).expect("the server listens") };
    third.assert_closed();
    other.ask(|_, exports: Exports| async move { exports.remove("there", TEST_TIMEOUT).await });
    there.assert_closed();
    assert_eq!(RawClient::choosing(&front, "here").ask(Command::Flush, 0, 0), 0, "there is room again");
}

#[test]
fn a_session_rests_between_two_requests_and_one_that_cannot_goes_on_where_it_is() {
    let serving = disk();
    let pause = |limit: Duration| {
        serving.ask(move |_, exports: Exports| async move {
            let export = exports.export_of("disk").expect("it is exported");
            let rests = exports.pause(export, limit).await;
            exports.resume(export);
            rests
        })
    };
    let mut client = RawClient::choosing(&serving, "disk");
    client.request(Command::Write, 0, 4096);
    client.send(&[7; 1000]);
    assert!(!pause(Duration::from_millis(50)), "half a request is on its way");
    client.send(&[7; 3096]);
    assert_eq!(client.error(), 0);
    assert!(pause(TEST_TIMEOUT));
    client.request(Command::Read, 0, 4096);
    assert_eq!(client.error(), 0);
    assert_eq!(client.receive(4096), [7; 4096]);
}

// proves: S1
#[test]
fn clients_that_choose_nothing_keep_nobody_out() {
    let settings = ServerSettings { connections_max: 4, ..ServerSettings::default() };
    let serving = Serving::start(&[Served::memory("disk", 1 << 20)], settings, None);
    let mut chosen = RawClient::choosing(&serving, "disk");
    let mut idle: Vec<_> = (0..3).map(|_| RawClient::greeted(&serving)).collect();
    assert_eq!(RawClient::choosing(&serving, "disk").ask(Command::Flush, 0, 0), 0);
    idle[0].assert_closed();
    assert_eq!(chosen.ask(Command::Flush, 0, 0), 0);
}

// proves: S1
#[test]
fn a_removed_export_ends_its_connections_and_no_others() {
    let serving = Serving::volumes(&[Served::memory("disk", 1 << 20), Served::memory("other", 1 << 20)]);
    let mut on_disk = RawClient::choosing(&serving, "disk");
    let mut on_other = RawClient::choosing(&serving, "other");
    assert_eq!(on_disk.ask(Command::Flush, 0, 0), 0);
    serving.ask(|_, exports| async move {
        assert!(exports.remove("disk", TEST_TIMEOUT).await);
        assert!(!exports.remove("disk", TEST_TIMEOUT).await, "it is gone");
        let exports: Vec<_> = exports.connections().into_iter().map(|connection| connection.export).collect();
        assert_eq!(exports, [Some("other".to_owned())]);
    });
    on_disk.assert_closed();
    assert_eq!(on_other.ask(Command::Flush, 0, 0), 0);
    // Now it is the only one.
    assert_eq!(RawClient::choosing(&serving, "").ask(Command::Flush, 0, 0), 0);
}

// proves: S1
#[test]
fn a_removed_export_does_not_wait_for_clients_that_do_not_read() {
    let serving = disk();
    let mut greedy = RawClient::choosing(&serving, "disk");
    for _ in 0..16 {
        greedy.request(Command::Read, 0, 4 << 20);
    }
    // The first bytes are here, so the server has begun.
    greedy.receive(1);
    serving.ask(|env, exports| async move {
        let before = env.now();
        assert!(exports.remove("disk", Duration::from_millis(30)).await);
        assert!(env.now().since(before) >= Duration::from_millis(30), "the replies had their time");
        assert_eq!(exports.connections(), []);
    });
}

// proves: S1
#[test]
fn a_stopped_server_finishes_what_is_in_flight_and_listens_no_more() {
    let serving = disk();
    let mut client = RawClient::choosing(&serving, "disk");
    assert_eq!(client.ask(Command::Flush, 0, 0), 0);
    let mut undecided = RawClient::greeted(&serving);
    serving.ask(|_, exports| async move {
        exports.stop(TEST_TIMEOUT).await;
        assert_eq!(exports.connections(), []);
    });
    client.assert_closed();
    undecided.assert_closed();
    // The listener's task ends in the turn after: until then a connection may be taken, and is closed.
    while let Ok(stream) = UnixStream::connect(serving.socket()) {
        RawClient { stream }.assert_closed();
    }
}

// proves: S1
#[test]
fn an_export_name_is_taken_only_once_and_connections_are_listed() {
    let serving = disk();
    let _client = RawClient::choosing(&serving, "disk");
    let _undecided = RawClient::greeted(&serving);
    serving.ask(|env, exports| async move {
        let again = Served { settings: VolumeSettings::default(), ..Served::memory("disk", 1 << 20) };
        let refused = exports.add(again.open(&env).await).expect_err("the name is taken");
        assert!(refused.to_string().contains("disk"), "{refused}");
        let connections = exports.connections();
        let exports: Vec<_> = connections.iter().map(|connection| connection.export.as_deref()).collect();
        assert_eq!(exports, [Some("disk"), None]);
        assert!(
            connections
                .iter()
                .all(|connection| connection.peer.starts_with("unix:") && connection.link == Link::Socket)
        );
    });
}

/// Every byte of a page tells where it is.
fn stored_at(offset: u64, bytes: &mut [u8]) {
    for (offset, bytes) in (offset..).step_by(8).zip(bytes.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&offset.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
}

#[test]
fn the_load_generator_reads_back_what_it_wrote() {
    let serving = disk();
    for endpoint in [Endpoint::Unix(serving.socket()), Endpoint::Tcp(serving.tcp)] {
        serving.ask(move |env: HostEnv, _| async move {
            let mut client = Client::connect(&env, &endpoint, "disk").await.expect("the server listens");
            assert_eq!((client.size_bytes(), client.block_bytes_min()), (64 << 20, 512));
            let all = Workload {
                read_percent: 0,
                request_bytes: 65_536,
                depth: 64,
                range: ByteRange::at(0, 64 << 20),
                pattern: Pattern::Sequential,
                limit: Limit::Requests(1024),
                seed: 1,
            };
            let progress = Progress::new();
            client.run(&all, |_, _| panic!("no reads"), stored_at, &progress).await.expect("the load runs to its end");
            let mixed = Workload {
                read_percent: 67,
                request_bytes: 4096,
                pattern: Pattern::Random,
                limit: Limit::Requests(20_000),
                ..all
            };
            let (mut reads, mut expected) = (0, [0; 4096]);
            let check = |offset, bytes: &[u8]| {
                reads += 1;
                stored_at(offset, &mut expected);
                assert!(bytes == expected, "wrong bytes at {offset}");
            };
            client.run(&mixed, check, stored_at, &progress).await.expect("the load runs to its end");
            let counted = progress.snapshot();
            assert_eq!((counted.requests, counted.errors), (21_024, 0));
            assert_eq!(counted.bytes, (64 << 20) + 20_000 * 4096);
            assert!((13_000..14_000).contains(&reads), "{reads} reads");
            assert!(counted.latency.max() >= counted.latency.quantile(500));
            client.disconnect().await.expect("says goodbye");
        });
    }
}

#[test]
fn the_load_generator_counts_errors_and_reports_refusals() {
    let settings = VolumeSettings { read_only: true, ..VolumeSettings::default() };
    let serving = Serving::volumes(&[Served { settings, ..Served::memory("disk", 1 << 20) }]);
    let endpoint = Endpoint::Unix(serving.socket());
    serving.ask(|env: HostEnv, _| async move {
        let refused =
            Client::connect(&env, &endpoint, "desk").await.err().expect("there is no such export").to_string();
        assert!(refused.contains("no export \"desk\""), "{refused}");
        let mut client = Client::connect(&env, &endpoint, "disk").await.expect("the server listens");
        let writes = Workload {
            read_percent: 0,
            request_bytes: 4096,
            depth: 4,
            range: ByteRange::at(0, 1 << 20),
            pattern: Pattern::Random,
            limit: Limit::Requests(100),
            seed: 1,
        };
        let progress = Progress::new();
        client.run(&writes, |_, _| {}, |_, _| {}, &progress).await.expect("the connection goes on");
        let counted = progress.snapshot();
        assert_eq!((counted.requests, counted.errors, counted.bytes), (100, 100, 0));
    });
}

// proves: S1
#[test]
fn zeroes_that_take_many_time_limits_are_done_piece_by_piece_and_what_waits_for_them_too() {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("array");
    // Zeroes that stay allocated take their time on it: 16 MiB about a tenth of a second.
    let spelling = format!("emulated:disks=1,level=raid0,size=64M,file={}", file.display());
    let slow = Served { backing: Backing::Emulated(spelling), ..Served::memory("slow", 0) };
    let settings = ServerSettings { request_timeout: Duration::from_millis(300), ..ServerSettings::default() };
    let serving = Serving::start(&[slow], settings, None);
    let mut client = RawClient::choosing(&serving, "slow");
    for (cookie, offset) in [(1, 0), (2, 0)] {
        let flags = command_flag::NO_HOLE;
        let zeroes = Request { flags, command: Command::WriteZeroes, cookie, offset, length: 64 << 20 };
        client.send(&zeroes.encode());
    }
    let begun = std::time::Instant::now();
    for _ in 0..2 {
        let head = client.receive(SIMPLE_REPLY_BYTES);
        let reply = SimpleReply::decode(head.first_chunk().expect("the head was read whole")).expect("a reply");
        assert_eq!(reply.error, 0, "request {}", reply.cookie);
    }
    assert!(begun.elapsed() > settings.request_timeout, "the device was faster than the time limit");
}
