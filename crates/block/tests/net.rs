//! Sockets through the ring.

use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{join, join3, poll_immediate};
use hotset_block::sync::Promise;
use hotset_block::{Buf, Env, HostEnv, Listener, Stream, has_address, listen_on};

use crate::together::run;

fn local_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn pair(env: &HostEnv) -> (Stream, Stream) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = Listener::bind_unix(env, &path).unwrap();
    let client = Stream::connect_unix(env, &path).unwrap();
    (client, listener.accept().await.unwrap())
}

/// Receives exactly `length` bytes.
async fn receive(stream: &Stream, length: usize) -> Vec<u8> {
    let mut received = Vec::new();
    while received.len() < length {
        let (buf, result) = stream.recv(Buf::zeroed(65_536.min(length - received.len()))).await;
        let count = result.unwrap();
        assert!(count > 0, "the stream ended early");
        received.extend_from_slice(&buf[..count]);
    }
    received
}

fn buf_of(bytes: &[u8]) -> Buf {
    let mut buf = Buf::zeroed(bytes.len());
    buf.copy_from_slice(bytes);
    buf
}

#[test]
fn two_sockets_talk_over_unix_and_over_tcp() {
    run(async |env| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let unix = Listener::bind_unix(&env, &path).unwrap();
        let tcp = Listener::bind_tcp(&env, local_port()).unwrap();
        let address = tcp.local_addr().strip_prefix("tcp:").unwrap().parse().unwrap();
        assert_eq!(unix.local_addr(), format!("unix:{}", path.display()));
        let pairs = [
            (Stream::connect_unix(&env, &path).unwrap(), unix.accept().await.unwrap()),
            (Stream::connect_tcp(&env, address).unwrap(), tcp.accept().await.unwrap()),
        ];
        for (client, server) in pairs {
            client.send_all(vec![buf_of(b"ping"), Buf::zeroed(0), buf_of(b"!")]).await.unwrap();
            assert_eq!(receive(&server, 5).await, b"ping!");
            assert_eq!(server.try_send(&[IoSlice::new(b"po"), IoSlice::new(b"ng")]).unwrap(), 4);
            client.readable().await.unwrap();
            let mut answer = [0; 16];
            assert_eq!(client.try_recv(&mut answer).unwrap(), 4);
            assert_eq!(&answer[..4], b"pong");
            assert_eq!(client.try_recv(&mut answer).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(!server.peer().is_empty());
            drop(client);
            assert_eq!(server.recv(Buf::zeroed(1)).await.1.unwrap(), 0, "the end");
        }
    });
}

#[test]
fn a_message_larger_than_any_socket_buffer_arrives_whole_while_the_other_direction_is_used() {
    run(async |env| {
        let (client, server) = pair(&env).await;
        let parts: Vec<Buf> = (0..3000_u32).map(|number| buf_of(&number.to_le_bytes().repeat(1000))).collect();
        let expected: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        let (sent, received, echoed) = join3(
            client.send_all(parts),
            async {
                server.send_all(vec![buf_of(b"echo")]).await.unwrap();
                receive(&server, expected.len()).await
            },
            receive(&client, 4),
        )
        .await;
        sent.unwrap();
        assert!(received == expected);
        assert_eq!(echoed, b"echo");
    });
}

#[test]
fn a_full_socket_would_block_and_becomes_writable() {
    run(async |env| {
        let (client, server) = pair(&env).await;
        let chunk = vec![1; 1 << 20];
        let mut sent = 0;
        let error = loop {
            match client.try_send(&[IoSlice::new(&chunk)]) {
                Ok(count) => sent += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let (writable, received) = join(client.writable(), receive(&server, sent)).await;
        writable.unwrap();
        assert_eq!(received.len(), sent);
    });
}

#[test]
fn a_dropped_receive_is_cancelled_and_does_not_keep_the_socket_open() {
    run(async |env| {
        let (client, server) = pair(&env).await;
        {
            let waiting = server.recv(Buf::zeroed(100));
            let readable = server.readable();
            let (mut waiting, mut readable) = (pin!(waiting), pin!(readable));
            assert!(poll_immediate(waiting.as_mut()).await.is_none());
            assert!(poll_immediate(readable.as_mut()).await.is_none());
            env.end_of_turn().await;
        }
        drop(server);
        assert_eq!(client.recv(Buf::zeroed(1)).await.1.unwrap(), 0, "the other side sees the end");
    });
}

#[test]
fn a_dropped_send_goes_out_whole() {
    run(async |env| {
        let (client, server) = pair(&env).await;
        let length = 32 << 20;
        {
            let send = client.send_all(vec![Buf::zeroed(length)]);
            let mut send = pin!(send);
            assert!(poll_immediate(send.as_mut()).await.is_none());
        }
        assert_eq!(receive(&server, length).await.len(), length);
    });
}

#[test]
fn shutdown_wakes_whoever_waits() {
    run(async |env| {
        let (client, _server) = pair(&env).await;
        let (promise, promised) = Promise::new();
        let receiver = client.clone();
        env.spawn(async move { promise.set(receiver.recv(Buf::zeroed(1)).await.1.unwrap()) });
        env.end_of_turn().await;
        client.shutdown();
        assert_eq!(promised.await, Some(0));
        let error = client.send_all(vec![buf_of(b"late")]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn an_accept_that_was_dropped_takes_no_connection_from_the_next() {
    run(async |env| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = Listener::bind_unix(&env, &path).unwrap();
        {
            let accept = listener.accept();
            let mut accept = pin!(accept);
            assert!(poll_immediate(accept.as_mut()).await.is_none());
            env.sleep(Duration::from_millis(1)).await;
        }
        // The cancellation reaches the kernel at the end of this turn.
        env.sleep(Duration::from_millis(1)).await;
        let client = Stream::connect_unix(&env, &path).unwrap();
        let server = listener.accept().await.unwrap();
        server.send_all(vec![buf_of(b"x")]).await.unwrap();
        assert_eq!(receive(&client, 1).await, b"x");
    });
}

#[test]
fn a_socket_file_is_replaced_only_if_nothing_listens_and_belongs_to_its_owner() {
    run(async |env| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a dead listener leaves its file");
        let listener = Listener::bind_unix(&env, &path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let error = Listener::bind_unix(&env, &path).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
        std::fs::write(&path, b"data").unwrap();
        let error = Listener::bind_unix(&env, &path).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    });
}

#[test]
fn a_peer_that_takes_nothing_does_not_hold_up_the_end() {
    let (started, _server) = run(async |env| {
        let started = std::time::Instant::now();
        let (client, server) = pair(&env).await;
        env.spawn(async move {
            // Dropped with the executor at the latest; there is nobody to tell.
            let _ = client.send_all(vec![Buf::zeroed(64 << 20)]).await;
        });
        env.sleep(Duration::from_millis(1)).await;
        (started, server)
    });
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

// proves: O1
#[test]
fn an_address_that_no_interface_has_yet_is_listened_on() {
    // TEST-NET-1, which nobody has (RFC 5737).
    let nowhere = "192.0.2.1".parse().unwrap();
    assert!(!has_address(nowhere) && has_address(local_port().ip()));
    let bound = listen_on(SocketAddr::new(nowhere, 0)).unwrap().local_addr().unwrap();
    assert!(bound.ip() == nowhere && bound.port() > 0, "{bound}");
    let taken = listen_on(local_port()).unwrap();
    assert_eq!(listen_on(taken.local_addr().unwrap()).unwrap_err().kind(), ErrorKind::AddrInUse);
}
