//! NBD over TLS with client certificates: who has one is served, who has none is not.

use std::fs;
use std::path::PathBuf;

use hotset_e2e::daemon::{Daemon, free_port};
use hotset_e2e::files::{Site, assert_file_pages};
use hotset_e2e::pattern::PAGE_BYTES;
use hotset_e2e::tools::{fail, succeed};

/// An authority and what it signed: `server`, and a folder as libnbd wants it for a client.
pub(crate) struct Certificates {
    pub(crate) authority: PathBuf,
    pub(crate) folder: PathBuf,
}

fn openssl(arguments: &str) {
    succeed("openssl", &arguments.split_whitespace().collect::<Vec<_>>());
}

pub(crate) fn make(site: &Site, name: &str) -> Certificates {
    let folder = site.path(name);
    fs::create_dir(&folder).expect("a folder can be made");
    let at = folder.display();
    openssl(&format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 -subj /CN={name} \
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
            -days 90 -extfile {at}/extensions -out {at}/{who}-cert.pem"
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

// proves: O6, F11
#[test]
fn certificates_are_renewed_without_a_restart_a_wrong_one_changes_nothing_and_its_end_is_told() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let (first, second) = (make(&daemon.site, "first"), make(&daemon.site, "second"));
    let (used, address) = (daemon.site.path("used"), format!("127.0.0.1:{}", free_port()));
    fs::create_dir(&used).expect("a folder can be made");
    let files = ["server-cert.pem", "server-key.pem", "ca-cert.pem"];
    let install = |from: &Certificates| {
        for file in files {
            fs::copy(from.folder.join(file), used.join(file)).expect("a file can be copied");
        }
    };
    install(&first);
    let at = used.display();
    daemon.add_arguments(&format!(
        "--nbd tcp:{address} --tls-cert {at}/server-cert.pem --tls-key {at}/server-key.pem --tls-client-ca {at}/ca-cert.pem"
    ));
    daemon.launch();
    daemon.make_volume(16, "");
    let is_served = |who: &Certificates| {
        let uri = format!("nbds://{address}/v?tls-certificates={}", who.folder.display());
        hotset_e2e::tools::run("nbdinfo", &["--size", &uri]).status.success()
    };
    let hang_up = || drop(succeed("kill", &["-HUP", &daemon.pid().to_string()]));
    let within = std::time::Duration::from_secs(20);
    let says = |what: &str| daemon.ok("status").contains(what);
    assert!(is_served(&first) && !is_served(&second));
    hotset_e2e::tools::eventually("who is refused is counted", within, || {
        daemon.json("status")["counters"]["tls_handshakes_refused"].as_u64() > Some(0)
    });

    install(&second);
    hang_up();
    hotset_e2e::tools::eventually("the new ones are used", within, || is_served(&second));
    assert!(!is_served(&first));

    fs::write(used.join("server-cert.pem"), "nonsense").expect("a file can be written");
    hang_up();
    hotset_e2e::tools::eventually("a wrong one is told", within, || says("what was read before goes on"));
    assert!(is_served(&second), "what was read before goes on");

    // Nobody waits for what does not answer: neither hosts nor administrators.
    for file in ["server-cert.pem", "ca-cert.pem"] {
        fs::remove_file(used.join(file)).expect("it is there");
        succeed("mkfifo", &[used.join(file)]);
        hang_up();
        hotset_e2e::tools::eventually("a pipe is told", within, || says("not an ordinary file"));
        let mut host = daemon.client("v");
        host.read(0, 4096).expect("hosts are served");
        assert!(is_served(&second), "what was read before goes on");
        fs::remove_file(used.join(file)).expect("it is there");
        fs::copy(second.folder.join(file), used.join(file)).expect("a file can be copied");
        hang_up();
        hotset_e2e::tools::eventually("all is well", within, || !says("not an ordinary file"));
    }

    // One that ends in ten days.
    let folder = second.folder.display();
    openssl(&format!(
        "x509 -req -in {folder}/server.csr -CA {folder}/ca-cert.pem -CAkey {folder}/ca-key.pem -CAcreateserial -days 10 \
         -extfile {folder}/extensions -out {at}/server-cert.pem"
    ));
    hang_up();
    hotset_e2e::tools::eventually("its end is told", within, || says("it is valid for"));
    assert_eq!(daemon.hotset("status --check").status.code(), Some(1));
    install(&second);
    hang_up();
    hotset_e2e::tools::eventually("all is well", within, || daemon.hotset("status --check").status.code() == Some(0));
}
