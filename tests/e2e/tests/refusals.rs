//! Bad inputs: each is refused with the right exit code and with words that say what is wrong.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::{self, MIB, overwrite};
use hotset_e2e::tools::{self, succeed, text};

/// An LVM physical volume's label, in the second sector: its own place, a checksum, where its data is, its kind.
fn put_lvm_label(path: &Path) {
    let mut label = vec![0; 512];
    label[..8].copy_from_slice(b"LABELONE");
    label[8..16].copy_from_slice(&1_u64.to_le_bytes());
    label[20..24].copy_from_slice(&32_u32.to_le_bytes());
    label[24..32].copy_from_slice(b"LVM2 001");
    label[32..64].copy_from_slice(b"abcdefghijklmnopqrstuvwxyz012345");
    let checksum = label[20..].iter().fold(0xf597_a6cf_u32, |checksum, byte| {
        // CRC-32, bit by bit; LVM starts it with a number of its own and does not invert it.
        (0..8).fold(checksum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    });
    label[16..20].copy_from_slice(&checksum.to_le_bytes());
    overwrite(path, 512, &label);
}

/// mdadm's superblock, version 1.2: at 4 KiB, its magic number first; the checksum is the folded sum of its words.
fn put_md_superblock(path: &Path) {
    let mut superblock = vec![0; 256];
    superblock[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
    superblock[4..8].copy_from_slice(&1_u32.to_le_bytes());
    superblock[16..32].copy_from_slice(b"0123456789abcdef");
    superblock[144..152].copy_from_slice(&8_u64.to_le_bytes());
    let word = |bytes: &[u8]| u64::from(u32::from_le_bytes(bytes.try_into().expect("four bytes")));
    let sum: u64 = superblock.chunks_exact(4).map(word).sum();
    let folded = u32::try_from(((sum & 0xffff_ffff) + (sum >> 32)) & 0xffff_ffff).expect("masked to 32 bits");
    superblock[216..220].copy_from_slice(&folded.to_le_bytes());
    overwrite(path, 4096, &superblock);
}

fn put_partitions(path: &Path, kind: &str) {
    let script = format!("printf 'label: {kind}\\n,4M\\n' | sfdisk --quiet {}", path.display());
    succeed("sh", &["-c", &script]);
}

// proves: F8, P14
#[test]
fn an_ssd_that_carries_something_else_is_refused_by_name_unless_forced() {
    let daemon = Daemon::start();
    type Put = fn(&Path);
    let signatures: [(&str, &[&str], Put); 7] = [
        ("files", &["ext4"], |path| {
            succeed("mke2fs", &["-q", "-F", "-t", "ext4", &path.display().to_string()]);
        }),
        ("table", &["gpt"], |path| put_partitions(path, "gpt")),
        ("oldtable", &["dos", "mbr"], |path| put_partitions(path, "dos")),
        ("volumes", &["lvm"], put_lvm_label),
        ("array", &["raid", "md"], put_md_superblock),
        ("paging", &["swap"], |path| {
            succeed("mkswap", &["-q", &path.display().to_string()]);
        }),
        ("secret", &["luks"], |path| overwrite(path, 0, b"LUKS\xba\xbe\0\x01")),
    ];
    for (name, words, put) in signatures {
        let path = daemon.site.blank(name, 16 * MIB);
        put(&path);
        let before = fs::read(&path).expect("the image can be read");
        let create = format!("pool create {name} --type read --io-type custom --ssd {}", path.display());
        let said = daemon.refuse(&create, 1, &path.display().to_string()).to_lowercase();
        let without_path = said.replace(&path.display().to_string().to_lowercase(), "");
        assert!(words.iter().any(|word| without_path.contains(word)), "{name} is not named: {said}");
        assert!(without_path.contains("--force"), "it says what to do: {said}");
        assert!(fs::read(&path).expect("the image can be read") == before, "{name} was changed by a refusal");
        daemon.ok(&format!("{create} --force"));
        daemon.ok(&format!("pool delete {name}"));
    }
}

// proves: F8
#[test]
fn an_ssd_of_another_pool_and_a_backing_device_are_refused_as_an_ssd() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16], "");
    let (ssd, backing) = (daemon.site.path("ssd0"), daemon.make_volume(4096, "p"));
    let create =
        |path: &Path, more: &str| format!("pool create q --type read --io-type custom --ssd {} {more}", path.display());
    // In use: force does not help.
    for more in ["", "--force"] {
        daemon.refuse(&create(&ssd, more), 1, "ssd0");
        daemon.refuse(&create(&backing, more), 1, "backing");
    }
    // Not in use, but of another pool of another daemon.
    let other = Daemon::start();
    let said = other.refuse(&create(&ssd, "").replace("create q", "create r"), 1, "ssd0");
    assert!(said.contains('p'), "{said}");
    daemon.assert_volume_pages(4096);
}

// proves: F8
#[test]
fn two_daemons_never_share_a_state_directory_an_ssd_or_a_backing_device() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16], "--populate-on-read 1");
    let backing = daemon.make_volume(256, "p");
    let state = daemon.site.path("state").display().to_string();
    let sockets = |name: &str| format!("--api unix:{0}a --nbd unix:{0}n", daemon.site.socket(name).display());
    let second = daemon.second(&format!("serve --state {state} {}", sockets("second")));
    let said = text(&second);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains(&state), "it names what is in use: {said}");

    // Another daemon with a copy of the state would find the SSD and the backing device taken.
    let other = Daemon::start();
    other.refuse(&format!("volume create w --backing {}", backing.display()), 1, "in use");
    let said = other.refuse(&format!("pool import --ssd {}", daemon.site.path("ssd0").display()), 1, "in use");
    assert!(!said.contains("--accept-missing"), "an SSD that somebody uses is not missing: {said}");
    daemon.assert_volume_pages(256);
}

// proves: F6, F8
#[test]
fn a_daemon_waits_a_moment_for_the_socket_of_one_that_was_killed_and_leaves_a_living_one_alone() {
    let mut daemon = Daemon::prepare("");
    let held = UnixListener::bind(daemon.nbd_socket()).expect("a socket can be made");
    let state = daemon.site.path("state").display().to_string();
    let (api, nbd) = (daemon.api_socket(), daemon.nbd_socket());
    let second =
        daemon.second(&format!("serve --state {state} --api unix:{} --nbd unix:{}", api.display(), nbd.display()));
    let said = text(&second);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("another process listens on this socket"), "{said}");

    held.set_nonblocking(true).expect("a socket can be told not to wait");
    while held.accept().is_ok() {}
    held.set_nonblocking(false).expect("a socket can be told to wait");
    // The kernel closes what a killed process listened on when its I/O has ended: here, when the next one has seen it alive.
    let dies = thread::spawn(move || {
        held.accept().expect("whoever wants the socket connects to it");
        drop(held);
    });
    daemon.launch();
    dies.join().expect("it only waits");
}

// proves: F8
#[test]
fn a_second_volume_on_the_same_backing_device_is_refused_by_whatever_name() {
    let daemon = Daemon::start();
    let backing = daemon.make_volume(256, "");
    daemon.refuse(&format!("volume create w --backing {}", backing.display()), 1, "v");
    let link = daemon.site.path("link");
    std::os::unix::fs::symlink(&backing, &link).expect("a link can be made");
    daemon.refuse(&format!("volume create w --backing {}", link.display()), 1, "v");
    let hard = daemon.site.path("hard");
    fs::hard_link(&backing, &hard).expect("a link can be made");
    daemon.refuse(&format!("volume create w --backing {}", hard.display()), 1, "v");
    daemon.assert_volume_pages(256);
}

// proves: P6, P7, P8, S4, F8
#[test]
fn every_wrong_invocation_is_refused_with_its_code_and_its_reason() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16], "");
    let backing = daemon.make_volume(256, "p").display().to_string();
    let spare = daemon.site.blank("spare", 16 * MIB).display().to_string();
    let spare2 = daemon.site.blank("spare2", 16 * MIB).display().to_string();
    let free = daemon.site.numbered("free", 64).display().to_string();
    let tiny = daemon.site.blank("tiny", MIB).display().to_string();
    let empty = daemon.site.blank("empty", 0).display().to_string();
    let odd = daemon.site.path("odd");
    fs::write(&odd, vec![1; 1000]).expect("a file can be written");
    let (odd, folder) = (odd.display().to_string(), daemon.site.path("state").display().to_string());
    let ssd0 = daemon.site.path("ssd0").display().to_string();
    let pipe = daemon.site.path("pipe").display().to_string();
    succeed("mkfifo", &[&pipe]);
    let pool = "pool create q --type read --io-type custom";
    let emulated = |words: &str| format!("volume create w --backing emulated:{words},file={spare}");

    let cases: Vec<(String, i32, &str)> = vec![
        (String::new(), 2, "usage"),
        ("frobnicate".into(), 2, "frobnicate"),
        ("pool".into(), 2, "usage"),
        ("pool frobnicate".into(), 2, "frobnicate"),
        ("--frobnicate status".into(), 2, "frobnicate"),
        ("status -o yaml".into(), 2, "yaml"),
        (format!("pool create seventeen-letters --type read --io-type custom --ssd {spare}"), 2, "1 to 16 characters"),
        (format!("pool create a/b --type read --io-type custom --ssd {spare}"), 2, "A-Z a-z 0-9 - _ < >"),
        (format!("pool create ü --type read --io-type custom --ssd {spare}"), 2, "A-Z a-z 0-9 - _ < >"),
        (format!("pool create q --type raid --io-type custom --ssd {spare}"), 2, "read"),
        (format!("pool create q --io-type custom --ssd {spare}"), 2, "--type"),
        (format!("pool create q --type read --ssd {spare}"), 2, "--io-type"),
        (format!("pool create q --type read --io-type mail --ssd {spare}"), 2, "web-service"),
        (pool.to_owned(), 2, "--ssd"),
        (format!("{pool} --block-size 48K --ssd {spare}"), 2, "power of two"),
        (format!("{pool} --block-size 32K --ssd {spare}"), 2, "64 KiB to 4 MiB"),
        (format!("{pool} --block-size 8M --ssd {spare}"), 2, "64 KiB to 4 MiB"),
        (format!("{pool} --block-size -1 --ssd {spare}"), 2, "-1"),
        (format!("{pool} --populate-on-read 0 --ssd {spare}"), 2, "1 to 4"),
        (format!("{pool} --populate-on-read 5 --ssd {spare}"), 2, "1 to 4"),
        (format!("{pool} --populate-on-write 5 --ssd {spare}"), 2, "0 (off) to 4"),
        (format!("{pool} --policy mru --ssd {spare}"), 2, "s3-fifo"),
        (format!("pool create p --type read --io-type custom --ssd {spare}"), 1, "exists"),
        (format!("{pool} --ssd {spare}.missing"), 1, "spare.missing"),
        (format!("{pool} --ssd {folder}"), 1, "state"),
        (format!("{pool} --ssd {tiny}"), 1, "tiny"),
        (format!("{pool} --ssd {empty}"), 1, "empty"),
        (format!("{pool} --ssd {spare} {spare}"), 1, "spare"),
        (format!("{pool} --ssd {spare2} {ssd0}"), 1, "ssd0"),
        (format!("{pool} --ssd /dev/null"), 1, "/dev/null"),
        (format!("pool create q --type read-write --io-type custom --ssd {spare}"), 1, "at least two SSDs"),
        (
            format!("pool create q --type read-write --io-type custom --populate-on-write 0 --ssd {spare} {spare2}"),
            1,
            "1 to 4 in a read-write pool",
        ),
        ("pool show nobody".into(), 1, "nobody"),
        ("pool delete nobody".into(), 1, "nobody"),
        ("pool set nobody policy=lru".into(), 1, "nobody"),
        ("pool set p".into(), 2, "KEY=VALUE"),
        ("pool set p policy".into(), 2, "KEY=VALUE"),
        ("pool set p policy=best".into(), 2, "s3-fifo"),
        ("pool set p colour=red".into(), 2, "colour"),
        ("pool set p populate-on-read=0".into(), 2, "1 to 4"),
        ("pool set p fetch-rate=enormous".into(), 2, "low"),
        (format!("pool import --ssd {spare}"), 1, "spare"),
        (format!("pool import --ssd {spare}.missing"), 1, "spare.missing"),
        ("volume create w".into(), 2, "--backing"),
        (format!("volume create .w --backing {free}"), 2, "start with a dot"),
        (format!("volume create a/b --backing {free}"), 2, "A-Z a-z 0-9 - _ ."),
        (format!("volume create {} --backing {free}", "w".repeat(65)), 2, "1 to 64 characters"),
        (format!("volume create v --backing {free}"), 1, "exists"),
        (format!("volume create w --backing {backing}"), 1, "v"),
        (format!("volume create w --backing {free}.missing"), 1, "free.missing"),
        (format!("volume create w --backing {folder}"), 1, "state"),
        (format!("volume create w --backing {empty}"), 1, "empty"),
        (format!("volume create w --backing {pipe}"), 1, "neither a block device nor a regular file"),
        (format!("{pool} --ssd {pipe}"), 1, "neither a block device nor a regular file"),
        (format!("pool import --ssd {pipe}"), 1, "pipe"),
        (format!("volume create w --backing {odd} --block 4096"), 1, "1000 bytes"),
        (format!("volume create w --backing {ssd0}"), 1, "ssd0"),
        (format!("volume create w --backing {free} --block 1024"), 2, "4096"),
        (format!("volume create w --backing {free} --pool nobody"), 1, "nobody"),
        (emulated("disks=0,level=raid5,size=64M"), 1, "disks"),
        (emulated("disks=2,level=raid6,size=64M"), 1, "raid6"),
        (emulated("disks=4,level=raid7,size=64M"), 1, "raid7"),
        (emulated("disks=4,level=raid5,size=huge"), 1, "size"),
        (emulated("disks=4,level=raid5,size=64M,colour=red"), 1, "colour"),
        ("volume create w --backing emulated:disks=4,level=raid5,size=64M".into(), 1, "file"),
        ("volume show nobody".into(), 1, "nobody"),
        ("volume delete nobody".into(), 1, "nobody"),
        ("volume set v read-cutoff=lots".into(), 2, "size"),
        ("volume set v colour=red".into(), 2, "colour"),
        ("volume set nobody read-cutoff=1M".into(), 1, "nobody"),
        ("volume enable-cache v".into(), 2, "--pool"),
        ("volume enable-cache v --pool nobody".into(), 1, "nobody"),
        ("volume enable-cache nobody --pool p".into(), 1, "nobody"),
        ("volume disable-cache nobody".into(), 1, "nobody"),
        ("stats nobody".into(), 1, "nobody"),
        ("status --api somewhere".into(), 2, "unix:"),
        (format!("status --api unix:{spare}.sock"), 1, "spare.sock"),
        ("status --api tcp:127.0.0.1:1".into(), 1, "127.0.0.1:1"),
        ("demo --seconds 0".into(), 2, "0"),
        ("completions klingon".into(), 2, "klingon"),
    ];
    for (arguments, code, part) in &cases {
        daemon.refuse(arguments, *code, part);
    }
    // Nothing of all that left a trace.
    assert_eq!(daemon.json("pool list")["pools"].as_array().map(Vec::len), Some(1));
    assert_eq!(daemon.json("volume list")["volumes"].as_array().map(Vec::len), Some(1));
    assert!(
        files::read_part(Path::new(&spare), 0, 4096).iter().all(|byte| *byte == 0),
        "a refused SSD stays as it was"
    );
    assert!(fs::read(&odd).expect("a file can be read") == vec![1; 1000]);
    daemon.assert_volume_pages(256);
}

// proves: S4, F8
#[test]
fn a_daemon_with_wrong_arguments_says_so_and_does_not_start() {
    let daemon = Daemon::prepare("");
    let state = format!("--state {}", daemon.site.path("state").display());
    let long = format!("unix:/{}", "x".repeat(120));
    let file = daemon.site.blank("file", 4096).display().to_string();
    let config = daemon.site.path("config");
    fs::write(&config, "colour = \"red\"\n").expect("a file can be written");
    let sockets = format!("--api unix:{0}/a --nbd unix:{0}/n", daemon.site.path("").display());
    for (arguments, code, part) in [
        (format!("serve {state} --api tcp:0.0.0.0:0"), 1, "loopback"),
        (format!("serve {state} --nbd {long}"), 2, "107"),
        (format!("serve {state} --api somewhere"), 2, "unix:"),
        (format!("serve --state {file} {sockets}"), 1, "file"),
        (format!("serve --config {file}.missing {state}"), 1, "file.missing"),
        (format!("serve --config {} {state}", config.display()), 1, "colour"),
        (format!("serve {state} {sockets} --tls-cert {file}"), 1, "tls"),
    ] {
        let output = daemon.second(&arguments);
        let said = tools::text(&output);
        assert_eq!(output.status.code(), Some(code), "hotset {arguments}: {said}");
        assert!(said.to_lowercase().contains(part), "hotset {arguments}: no {part:?} in: {said}");
    }
}
