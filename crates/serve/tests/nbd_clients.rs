//! The NBD server with the clients that people use: libnbd's tools and qemu's, over unix sockets, TCP and TLS.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use hotset_cache::config::VolumeSettings;
use hotset_serve::nbd::wire::{OPTION_REPLY_HEADER_BYTES, OptionHeader, option, reply};
use hotset_serve::{PemFile, ServerSettings, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::Value;
use tempfile::TempDir;

use crate::serving::{Backing, Served, Serving, TEST_TIMEOUT, attempt, run, start};

const LIBNBD: &str = "libnbd-bin";
const QEMU: &str = "qemu-utils";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Bytes that are different everywhere.
fn pattern(len: usize) -> Vec<u8> {
    (0_u64..).flat_map(|word| (word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()).take(len).collect()
}

// proves: S1
#[test]
fn nbdinfo_sees_sizes_flags_and_block_sizes() {
    let read_only = VolumeSettings { read_only: true, logical_block_bytes: 4096, ..VolumeSettings::default() };
    let archive = Served { settings: read_only, ..Served::memory("archive", 8 << 20) };
    let serving = Serving::volumes(&[Served::memory("disk", 16 << 20), archive]);
    for uri in [serving.unix_uri("disk"), serving.tcp_uri("disk")] {
        let info = json(&run("nbdinfo", LIBNBD, &["--json", &uri]));
        assert_eq!(info["protocol"], "newstyle-fixed");
        assert_eq!(info["structured"], true);
        let export = &info["exports"][0];
        assert_eq!(export["export-size"], 16 << 20);
        for able in ["can_cache", "can_df", "can_fast_zero", "can_flush", "can_fua", "can_multi_conn", "can_zero"] {
            assert_eq!(export[able], true, "{able}");
        }
        assert_eq!((&export["can_trim"], &export["is_read_only"]), (&Value::from(true), &Value::from(false)));
        assert_eq!(export["block_size_minimum"], 512);
        assert_eq!(export["block_size_preferred"], 4096);
        assert_eq!(export["block_size_maximum"], 32 << 20);
    }
    let info = json(&run("nbdinfo", LIBNBD, &["--json", &serving.unix_uri("archive")]));
    let export = &info["exports"][0];
    assert_eq!((&export["is_read_only"], &export["block_size_minimum"]), (&Value::from(true), &Value::from(4096)));
}

// proves: S1
#[test]
fn nbdinfo_lists_the_exports() {
    let serving = Serving::volumes(&[Served::memory("one", 1 << 20), Served::memory("two", 2 << 20)]);
    let listed = json(&run("nbdinfo", LIBNBD, &["--json", "--list", &serving.unix_uri("")]));
    let exports: Vec<_> = listed["exports"].as_array().expect("it lists its exports").iter().collect();
    let names: Vec<_> = exports.iter().map(|export| export["export-name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(exports[0]["description"].as_str().expect("a description").contains("Hotset volume one"));
}

// proves: S1
#[test]
fn a_client_that_names_no_export_gets_the_only_one_and_is_told_of_a_wrong_name() {
    let serving = Serving::volumes(&[Served::memory("disk", 1 << 20)]);
    assert_eq!(run("nbdinfo", LIBNBD, &["--size", &serving.unix_uri("")]).trim(), (1 << 20).to_string());
    let refused = attempt("nbdinfo", LIBNBD, &["--size", &serving.unix_uri("desk")]);
    assert!(!refused.status.success());
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("desk"), "{message}");
}

// proves: S1
#[test]
fn nbdinfo_maps_the_holes_of_a_sparse_file() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("sparse");
    let mut file = fs::File::create(&path).expect("a file");
    file.set_len(8 << 20).expect("a sparse file");
    file.seek(SeekFrom::Start(2 << 20)).expect("a file can be sought");
    file.write_all(&pattern(1 << 20)).expect("a file can be written");
    file.sync_all().expect("a file can be synced");
    // What another program writes to is not served.
    drop(file);
    let served = Served { backing: Backing::File(path), ..Served::memory("disk", 0) };
    let serving = Serving::volumes(&[served]);
    let map = json(&run("nbdinfo", LIBNBD, &["--json", "--map", &serving.unix_uri("disk")]));
    let extents = map.as_array().expect("it lists extents");
    let seen: Vec<_> = extents.iter().map(|extent| (extent["offset"].as_u64(), extent["type"].as_u64())).collect();
    assert_eq!(seen, [(Some(0), Some(3)), (Some(2 << 20), Some(0)), (Some(3 << 20), Some(3))]);
}

/// The one that finds what packages install; another one may come first in the path.
const PACKAGED_PYTHON: &str = "/usr/bin/python3";

/// A client that stays connected while its export grows. `STRICT_BOUNDS` off: it asks for what it was not told of.
const LIVE_CLIENT: &str = "
import nbd, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_BOUNDS)
def refused(offset):
    try:
        h.pread(4096, offset)
        return False
    except nbd.Error:
        return True
MIB = 1 << 20
print(h.get_size(), refused(MIB), flush=True)
sys.stdin.readline()
h.pwrite(bytearray(b'7' * 4096), 2 * MIB - 4096, nbd.CMD_FLAG_FUA)
print(h.pread(8192, 2 * MIB - 8192) == bytes(4096) + b'7' * 4096, refused(2 * MIB), flush=True)
h.shutdown()
";

// proves: P16
#[test]
fn who_is_connected_may_use_what_was_added_and_who_connects_is_told_of_it() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("file");
    fs::File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("a file");
    let served = Served { backing: Backing::File(path.clone()), ..Served::memory("disk", 0) };
    let serving = Serving::volumes(&[served]);
    let uri = serving.unix_uri("disk");
    let mut command = Command::new("timeout");
    command.args(["60", PACKAGED_PYTHON, "-c", LIVE_CLIENT, &uri]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut live = start(&mut command);
    let mut said = BufReader::new(live.stdout.take().expect("it is piped")).lines();
    let mut next = || said.next().expect("it goes on (it needs the package python3-libnbd)").expect("it prints text");
    assert_eq!(next(), "1048576 True", "its size, and whether what is behind is refused");
    fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(2 << 20)).expect("a file can grow");
    assert_eq!(serving.grow(0), 2 << 20);
    writeln!(live.stdin.as_ref().expect("it is piped"), "grown").expect("it waits");
    assert_eq!(next(), "True True", "what it wrote and read of what was added, and that there is no more");
    assert!(live.wait().expect("it ends").success());
    assert_eq!(run("nbdinfo", LIBNBD, &["--size", &uri]).trim(), (2 << 20).to_string());
    let read = run("qemu-io", QEMU, &["-f", "raw", "-c", "read -P 0x37 2093056 4096", &uri]);
    assert!(read.contains("read 4096/4096") && !read.contains("failed"), "{read}");
}

// proves: S1
#[test]
fn nbdcopy_brings_back_what_it_stored() {
    let serving = Serving::volumes(&[Served::memory("disk", 48 << 20)]);
    for (uri, more) in [(serving.unix_uri("disk"), "--connections=4"), (serving.tcp_uri("disk"), "--synchronous")] {
        round_trip(&serving, &uri, more);
    }
}

/// Copies a file to the export and back; it is as long as the export, with a hole in it.
fn round_trip(serving: &Serving, uri: &str, more: &str) {
    let (there, back) = (serving.directory.path().join("there"), serving.directory.path().join("back"));
    let mut bytes = pattern(48 << 20);
    bytes[4 << 20..20 << 20].fill(0);
    fs::write(&there, &bytes).expect("a file can be written");
    let _ = fs::remove_file(&back);
    run("nbdcopy", LIBNBD, &["--flush", more, path(&there), uri]);
    run("nbdcopy", LIBNBD, &[more, uri, path(&back)]);
    assert!(fs::read(&back).expect("a file can be read") == bytes, "what came back is not what was stored");
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn qemu_io(uri: &str, commands: &[&str]) -> String {
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", *command]));
    arguments.push(uri);
    run("qemu-io", QEMU, &arguments)
}

// proves: S1
#[test]
fn qemu_io_patterns_zeroes_discards_and_flushes() {
    let serving = Serving::volumes(&[Served::memory("disk", 16 << 20)]);
    for uri in [serving.unix_uri("disk"), serving.tcp_uri("disk")] {
        let seen = qemu_io(
            &uri,
            &[
                "write -P 0xab 0 4M",
                "write -f -P 0xcd 1M 512",
                "read -P 0xab 0 1M",
                "read -P 0xcd 1M 512",
                "write -z 2M 64k",
                "write -z -u 3M 64k",
                "read -P 0 2M 64k",
                "read -P 0 3M 64k",
                "discard 512k 64k",
                "read -P 0 512k 64k",
                "read -P 0xab 576k 64k",
                "flush",
                "aio_write -P 1 8M 1M",
                "aio_write -P 2 9M 1M",
                "aio_flush",
                "read -P 1 8M 1M",
                "read -P 2 9M 1M",
            ],
        );
        assert!(!seen.contains("failed"), "{seen}");
    }
}

// proves: S1
#[test]
fn a_read_only_export_refuses_writes() {
    let settings = VolumeSettings { read_only: true, ..VolumeSettings::default() };
    let serving = Serving::volumes(&[Served { settings, ..Served::memory("disk", 1 << 20) }]);
    let uri = serving.unix_uri("disk");
    let refused = attempt("qemu-io", QEMU, &["-f", "raw", "-c", "write 0 512", &uri]);
    let said = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
    assert!(said.contains("Permission denied"), "{said}");
    assert!(run("qemu-io", QEMU, &["-r", "-f", "raw", "-c", "read -P 0 0 512", &uri]).contains("read 512/512"));
}

// proves: S1
#[test]
fn qemu_img_converts_to_an_export_and_compares() {
    let serving = Serving::volumes(&[Served::memory("disk", 16 << 20)]);
    let source = serving.directory.path().join("source");
    let mut bytes = pattern(16 << 20);
    bytes[..4 << 20].fill(0);
    fs::write(&source, bytes).expect("a file can be written");
    let uri = serving.unix_uri("disk");
    run("qemu-img", QEMU, &["convert", "-n", "-f", "raw", "-O", "raw", path(&source), &uri]);
    let same = run("qemu-img", QEMU, &["compare", "-f", "raw", "-F", "raw", path(&source), &uri]);
    assert!(same.contains("identical"), "{same}");
    let info = json(&run("qemu-img", QEMU, &["info", "--output=json", "-f", "raw", &uri]));
    assert_eq!(info["virtual-size"], 16 << 20);
}

/// A certificate authority with a server and a client, as the files that libnbd and qemu look for.
struct Certificates {
    directory: TempDir,
}

impl Certificates {
    fn new() -> Self {
        let certificates = Self { directory: TempDir::new().expect("a directory") };
        let (authority, issuer) = authority("the authority");
        certificates.store("ca-cert.pem", &authority);
        certificates.issue("server", &issuer);
        certificates.issue("client", &issuer);
        certificates
    }

    fn issue(&self, name: &str, issuer: &Issuer<'_, KeyPair>) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a valid name");
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, issuer).expect("a certificate");
        self.store(&format!("{name}-cert.pem"), &certificate.pem());
        self.store(&format!("{name}-key.pem"), &key.serialize_pem());
    }

    fn store(&self, name: &str, pem: &str) {
        fs::write(self.path().join(name), pem).expect("a file can be written");
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.file("server-cert.pem"),
            key: self.file("server-key.pem"),
            client_ca: self.file("ca-cert.pem"),
        }
    }

    fn file(&self, name: &str) -> PemFile {
        let path = self.path().join(name);
        PemFile { content: fs::read(&path).expect("it was written"), path }
    }
}

fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.pem(), Issuer::new(params, key))
}

fn serving_tls(certificates: &Certificates) -> Serving {
    let volumes = [Served::memory("disk", 48 << 20)];
    Serving::start(&volumes, ServerSettings::default(), Some(certificates.files()))
}

// proves: S1
#[test]
fn nbdcopy_through_tls_brings_back_what_it_stored() {
    let certificates = Certificates::new();
    let serving = serving_tls(&certificates);
    let uri = serving.tls_uri("disk", certificates.path());
    let info = json(&run("nbdinfo", LIBNBD, &["--json", &uri]));
    assert_eq!((&info["TLS"], &info["exports"][0]["export-size"]), (&Value::from(true), &Value::from(48 << 20)));
    round_trip(&serving, &uri, "--connections=2");
}

// proves: S1
#[test]
fn qemu_io_talks_tls() {
    let certificates = Certificates::new();
    let serving = serving_tls(&certificates);
    let port = serving.tls.expect("this server has TLS").port();
    let credentials = format!("tls-creds-x509,id=tls,endpoint=client,dir={}", path(certificates.path()));
    let image = format!("driver=nbd,host=localhost,port={port},export=disk,tls-creds=tls");
    let arguments = ["--object", &credentials, "--image-opts", "-c", "write -P 7 0 3M", "-c", "read -P 7 0 3M", &image];
    let seen = run("qemu-io", QEMU, &arguments);
    assert!(seen.contains("read 3145728/3145728"), "{seen}");
}

// proves: S1
#[test]
fn tls_shuts_out_the_uncertified_and_those_who_talk_in_the_clear() {
    let certificates = Certificates::new();
    let serving = serving_tls(&certificates);
    let uncertified = Certificates::new();
    // The uncertified knows the true authority, but was not made by it.
    fs::copy(certificates.path().join("ca-cert.pem"), uncertified.path().join("ca-cert.pem"))
        .expect("a file can be copied");
    let uri = serving.tls_uri("disk", uncertified.path());
    assert!(!attempt("nbdinfo", LIBNBD, &["--size", &uri]).status.success());
    let clear = format!("nbd://localhost:{}/disk", serving.tls.expect("this server has TLS").port());
    assert!(!attempt("nbdinfo", LIBNBD, &["--size", &clear]).status.success());
    let friend = serving.tls_uri("disk", certificates.path());
    assert_eq!(run("nbdinfo", LIBNBD, &["--size", &friend]).trim(), (48 << 20).to_string());
}

// proves: S1
#[test]
fn noise_instead_of_tls_closes_that_connection_only() {
    let certificates = Certificates::new();
    let serving = serving_tls(&certificates);
    let mut stream = TcpStream::connect(serving.tls.expect("this server has TLS")).expect("the server listens");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let start_tls = OptionHeader { option: option::STARTTLS, length: 0 }.encode();
    stream.write_all(&[&3_u32.to_be_bytes(), &start_tls[..]].concat()).expect("the server receives");
    let mut said = [0; 18 + OPTION_REPLY_HEADER_BYTES];
    stream.read_exact(&mut said).expect("the server agrees to TLS");
    assert_eq!(said[30..34], reply::ACK.to_be_bytes());
    stream.write_all(&[0x17; 5000]).expect("the server receives");
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest);
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    let friend = serving.tls_uri("disk", certificates.path());
    assert_eq!(run("nbdinfo", LIBNBD, &["--size", &friend]).trim(), (48 << 20).to_string());
}

// proves: S1
#[test]
fn tls_files_that_cannot_be_used_are_named() {
    let certificates = Certificates::new();
    let wrong = |files: TlsFiles, named: &str| {
        let error = hotset_serve::TlsAcceptor::of(&files).err().expect("the files are bad").to_string();
        assert!(error.contains(named), "{error}");
    };
    let noise = PemFile { path: "noise.pem".into(), content: b"noise".to_vec() };
    wrong(TlsFiles { key: noise, ..certificates.files() }, "noise.pem");
    wrong(TlsFiles { certificate: certificates.file("server-key.pem"), ..certificates.files() }, "server-key.pem");
    wrong(TlsFiles { client_ca: certificates.file("server-key.pem"), ..certificates.files() }, "server-key.pem");
    wrong(TlsFiles { key: certificates.file("client-key.pem"), ..certificates.files() }, "server-cert.pem");
}
