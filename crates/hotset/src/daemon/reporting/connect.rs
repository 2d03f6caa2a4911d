//! How hosts connect to a volume: the commands and configuration for each address at which it is served.

use std::path::Path;

use hotset_api::{ConnectAddress, ConnectKind, Snippet};

use crate::endpoint::Endpoint;

/// Where the certificates of a client are in the examples.
const PKI: &str = "/etc/pki/hotset";

/// Seconds that QEMU waits for a daemon that is replaced, before it gives the guest errors.
const RECONNECT_S: u32 = 60;

/// The URI of an export (NBD URI specification); of the server, with an empty name.
pub(super) fn nbd_uri(endpoint: &Endpoint, tls: bool, name: &str) -> String {
    match endpoint {
        Endpoint::Unix(path) => format!("nbd+unix:///{name}?socket={}", path.display()),
        Endpoint::Tcp(address) if tls => format!("nbds://{address}/{name}"),
        Endpoint::Tcp(address) => format!("nbd://{address}/{name}"),
    }
}

/// One for each of `endpoints`; hosts elsewhere reach this machine by `host_name`.
pub(crate) fn addresses(endpoints: &[Endpoint], tls: bool, volume: &str, host_name: &str) -> Vec<ConnectAddress> {
    endpoints.iter().map(|endpoint| address(endpoint, tls, volume, host_name)).collect()
}

fn address(endpoint: &Endpoint, tls: bool, volume: &str, host_name: &str) -> ConnectAddress {
    match endpoint {
        Endpoint::Unix(path) => ConnectAddress {
            uri: nbd_uri(endpoint, false, volume),
            tls: false,
            local: true,
            snippets: over_unix(path, volume),
        },
        Endpoint::Tcp(address) => {
            let host = match address.ip() {
                ip if ip.is_unspecified() => host_name.to_owned(),
                ip => ip.to_string(),
            };
            let scheme = if tls { "nbds" } else { "nbd" };
            let in_uri = if host.contains(':') { format!("[{host}]") } else { host.clone() };
            ConnectAddress {
                uri: format!("{scheme}://{in_uri}:{}/{volume}", address.port()),
                tls,
                local: address.ip().is_loopback(),
                snippets: over_tcp(&host, address.port(), tls, volume),
            }
        }
    }
}

fn over_unix(socket: &Path, volume: &str) -> Vec<Snippet> {
    let path = socket.display().to_string();
    let server = serde_json::json!({"type": "unix", "path": path});
    vec![
        nbd_client(format!("nbd-client -unix {} -N {volume} -persist /dev/nbd0", quoted(&path))),
        qemu(&server, volume, false),
        libvirt(&format!("<host transport='unix' socket='{}'/>", escaped(&path)), volume, false),
        fstab(&format!("nbd0 {path} {volume} unix,persist"), volume),
    ]
}

fn over_tcp(host: &str, port: u16, tls: bool, volume: &str) -> Vec<Snippet> {
    let server = serde_json::json!({"type": "inet", "host": host, "port": port.to_string()});
    let (files, options) = match tls {
        true => (
            format!(
                " -certfile {PKI}/client-cert.pem -keyfile {PKI}/client-key.pem -cacertfile {PKI}/ca-cert.pem \
                 -tlshostname {host}"
            ),
            format!(
                ",certfile={PKI}/client-cert.pem,keyfile={PKI}/client-key.pem,cacertfile={PKI}/ca-cert.pem,\
                 tlshostname={host}"
            ),
        ),
        false => Default::default(),
    };
    vec![
        nbd_client(format!("nbd-client {host} {port} -N {volume} -persist -connections 4{files} /dev/nbd0")),
        qemu(&server, volume, tls),
        libvirt(&format!("<host name='{}' port='{port}'/>", escaped(host)), volume, tls),
        fstab(&format!("nbd0 {host} {volume} port={port},persist,connections=4{options}"), volume),
    ]
}

fn nbd_client(command: String) -> Snippet {
    Snippet {
        kind: ConnectKind::NbdClient,
        title: "Linux block device (nbd-client)".to_owned(),
        note: "As root, with the package nbd-client; `nbd-client -d /dev/nbd0` disconnects.".to_owned(),
        text: format!("modprobe nbd\n{command}\n"),
    }
}

fn qemu(server: &serde_json::Value, volume: &str, tls: bool) -> Snippet {
    let mut node = serde_json::json!({
        "driver": "nbd",
        "node-name": volume,
        "server": server,
        "export": volume,
        "reconnect-delay": RECONNECT_S,
        "discard": "unmap",
    });
    let mut credentials = String::new();
    if tls {
        node["tls-creds"] = "hotset-tls".into();
        credentials = format!("-object tls-creds-x509,id=hotset-tls,dir={PKI},endpoint=client \\\n");
    }
    Snippet {
        kind: ConnectKind::Qemu,
        title: "QEMU".to_owned(),
        note: "Arguments of qemu-system-x86_64: a virtio disk.".to_owned(),
        text: format!(
            "{credentials}-blockdev {} \\\n-device virtio-blk-pci,drive={volume}\n",
            quoted(&node.to_string())
        ),
    }
}

fn libvirt(host: &str, volume: &str, tls: bool) -> Snippet {
    let secured = if tls { " tls='yes'" } else { "" };
    Snippet {
        kind: ConnectKind::Libvirt,
        title: "libvirt".to_owned(),
        note: "A disk of a domain: `virsh attach-device DOMAIN FILE --persistent`.".to_owned(),
        text: format!(
            "<disk type='network' device='disk'>\n  <driver name='qemu' type='raw' discard='unmap'/>\n  \
             <source protocol='nbd' name='{volume}'{secured}>\n    {host}\n    <reconnect delay='{RECONNECT_S}'/>\n  \
             </source>\n  <target dev='vdb' bus='virtio'/>\n</disk>\n"
        ),
    }
}

fn fstab(table_line: &str, volume: &str) -> Snippet {
    Snippet {
        kind: ConnectKind::Fstab,
        title: "At every boot (/etc/nbdtab and /etc/fstab)".to_owned(),
        note: "With the package nbd-client: the first line goes to /etc/nbdtab, the second to /etc/fstab; change the file \
               system and the mount point to yours."
            .to_owned(),
        text: format!(
            "{table_line}\n/dev/nbd0 /mnt/{volume} ext4 noauto,_netdev,nofail,x-systemd.automount,\
             x-systemd.requires=nbd@nbd0.service 0 2\n"
        ),
    }
}

/// For a POSIX shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.:".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// For an attribute in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(endpoint: &str, tls: bool) -> ConnectAddress {
        addresses(&[endpoint.parse().unwrap()], tls, "vol1", "cache.example").remove(0)
    }

    #[test]
    fn a_server_on_all_addresses_is_reached_by_the_machines_name() {
        let address = all("tcp:0.0.0.0:10809", false);
        assert_eq!((address.uri.as_str(), address.local), ("nbd://cache.example:10809/vol1", false));
        assert!(address.snippets[0].text.contains("nbd-client cache.example 10809 -N vol1 -persist"));
        assert!(address.snippets[2].text.contains("<host name='cache.example' port='10809'/>"));
        assert_eq!(all("tcp:[2001:db8::1]:1", false).uri, "nbd://[2001:db8::1]:1/vol1");
        assert!(all("tcp:127.0.0.1:1", false).local);
    }

    #[test]
    fn tls_is_in_every_snippet() {
        let address = all("tcp:192.0.2.1:10809", true);
        assert!(address.uri.starts_with("nbds://") && address.tls);
        for (snippet, part) in address.snippets.iter().zip(["-certfile", "tls-creds", "tls='yes'", "certfile="]) {
            assert!(snippet.text.contains(part), "{}", snippet.text);
        }
    }

    #[test]
    fn a_strange_path_is_quoted_for_its_place() {
        let address = all("unix:/run/it's <here>/nbd.sock", true);
        assert!(!address.tls, "who may use a unix socket is decided by its permissions");
        assert!(address.snippets[0].text.contains(r"'/run/it'\''s <here>/nbd.sock'"));
        assert!(address.snippets[2].text.contains("socket='/run/it&apos;s &lt;here&gt;/nbd.sock'"));
        assert!(address.snippets[1].text.contains(r"/run/it'\''s <here>"), "{}", address.snippets[1].text);
    }
}
