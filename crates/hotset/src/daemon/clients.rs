//! Who uses a volume: the hosts that are connected to it.

use hotset_api::{HostClient, HostProtocol};
use hotset_cache::date_and_time;
use hotset_serve::Link;

use crate::clock::unix_ms;
use crate::plane::Snapshot;

/// So many are named in a message; more are counted.
const NAMED_MAX: usize = 8;

/// Those of one volume, the longest connected first.
pub(crate) fn of_volume(volume: &str, snapshot: &Snapshot) -> Vec<HostClient> {
    let now = unix_ms();
    let of_it = snapshot.connections.iter().filter(|(one, _)| one.export.as_deref() == Some(volume));
    let mut clients: Vec<HostClient> = of_it
        .map(|(one, age)| HostClient {
            protocol: match one.link {
                Link::Socket => HostProtocol::Nbd,
                Link::Tls => HostProtocol::NbdTls,
                Link::LocalDevice => HostProtocol::LocalDevice,
            },
            peer: one.peer.clone(),
            since_unix_ms: now.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            in_flight: u64::try_from(one.in_flight).unwrap_or(u64::MAX),
        })
        .collect();
    clients.sort_by(|a, b| (a.since_unix_ms, &a.peer).cmp(&(b.since_unix_ms, &b.peer)));
    clients
}

/// In words: who, by which protocol, since when.
pub(crate) fn named(clients: &[HostClient]) -> String {
    let one = |client: &HostClient| {
        let since = date_and_time(client.since_unix_ms / 1000);
        format!("{} by {} since {since}", client.peer, client.protocol.word())
    };
    let mut words: Vec<String> = clients.iter().take(NAMED_MAX).map(one).collect();
    if let Some(more) = clients.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_named_and_many_are_counted() {
        let one =
            HostClient { protocol: HostProtocol::NbdTls, peer: "10.0.0.1:9".into(), since_unix_ms: 0, in_flight: 1 };
        assert_eq!(named(std::slice::from_ref(&one)), "10.0.0.1:9 by NBD with TLS since 1970-01-01T00:00:00Z");
        assert!(named(&vec![one; NAMED_MAX + 2]).ends_with(", and 2 more"));
    }
}
