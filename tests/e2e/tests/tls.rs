//! NBD over TLS with client certificates: who has one is served, who has none is not.

use std::fs;
use std::path::PathBuf;

use hotset_e2e::daemon::{Daemon, free_port};
use hotset_e2e::files::{Site, assert_file_pages};
use hotset_e2e::pattern::PAGE_BYTES;
use hotset_e2e::tools::{fail, succeed};

/// An authority and what it signed: `server`, and a folder as libnbd wants it for a client.
struct Certificates {
    authority: PathBuf,
    folder: PathBuf,
}

fn openssl(arguments: &str) {
    succeed("openssl", &arguments.split_whitespace().collect::<Vec<_>>());
}

fn make(site: &Site, name: &str) -> Certificates {
    let folder = site.path(name);
    fs::create_dir(&folder).expect("a folder can be made");
    let at = folder.display();
    openssl(&format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
        -keyout {at}/ca-key.pem -out {at}/ca-cert.pem -addext basicConstraints=critical,CA:TRUE"
    ));
    for who in ["server", "client"] {
        fs::write(folder.join("extensions"), "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
            .expect("a file can be written");
        openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
            -keyout {at}/{who}-key.pem -out {at}/{who}.csr"
        ));
        openssl(&format!(
            "x509 -req -in {at}/{who}.csr -CA {at}/ca-cert.pem -CAkey {at}/ca-key.pem -CAcreateserial \
            -days 2 -extfile {at}/extensions -out {at}/{who}-cert.pem"
        ));
    }
    Certificates { authority: folder.join("ca-cert.pem"), folder }
}

// proves: S1
#[test]
fn only_clients_with_a_certificate_of_the_authority_are_served_over_tls() {
    let mut daemon = Daemon::prepare("");
    let ours = make(&daemon.site, "ours");
    let others = make(&daemon.site, "others");
    let (at, address) = (ours.folder.display(), format!("127.0.0.1:{}", free_port()));
    daemon.add_arguments(&format!(
        "--nbd tcp:{address} --tls-cert {at}/server-cert.pem --tls-key {at}/server-key.pem --tls-client-ca {}",
        ours.authority.display()
    ));
    daemon.launch();
    daemon.make_volume(512, "");
    let uri = |scheme: &str, folder: &PathBuf| format!("{scheme}://{address}/v?tls-certificates={}", folder.display());

    assert_eq!(succeed("nbdinfo", &["--size", &uri("nbds", &ours.folder)]).trim(), (512 * PAGE_BYTES).to_string());
    let copy = daemon.site.path("copy");
    succeed("nbdcopy", &[uri("nbds", &ours.folder), copy.display().to_string()]);
    assert_file_pages(&copy, 0);
    fail("nbdinfo", &["--size", &format!("nbd://{address}/v")]);
    fail("nbdinfo", &["--size", &uri("nbds", &others.folder)]);
    assert_eq!(succeed("nbdinfo", &["--size", &uri("nbds", &ours.folder)]).trim(), (512 * PAGE_BYTES).to_string());
}
