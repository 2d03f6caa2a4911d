//! State files that cannot be used, each in each way, at the start and while everything that is recorded is changed: nothing
//! hangs, the daemon runs and says what is wrong, and all goes on by itself when that is mended, and survives a restart.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::MIB;
use hotset_e2e::tools::{self, eventually, skip, text};

const TIMEOUT: Duration = Duration::from_secs(90);
/// Nothing that an administrator asks takes longer on a busy machine.
const VERB_LIMIT: Duration = Duration::from_secs(40);

/// All of them.
const FILES: [&str; 13] = [
    "volumes.json",
    "forgotten.json",
    "tokens.json",
    "ssds.json",
    "failures.json",
    "host-errors.json",
    "backings.json",
    "events.jsonl",
    "history.sqlite",
    "probe",
    "pools/p.json",
    "pools/p.member",
    "pools/p.convert",
];

/// What is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// There is no room.
    Full,
    /// They and their folders cannot be changed.
    ReadOnly,
    /// A folder is in the place of each.
    Folder,
    /// A pipe.
    Pipe,
    /// What is there means nothing.
    Noise,
}

/// The state directory, and what was done to it.
struct State {
    directory: PathBuf,
    files: Vec<&'static str>,
}

impl State {
    fn apply(&self, fault: Fault) {
        match fault {
            Fault::Full => {
                // As much as there is.
                let filler = self.directory.join("filler");
                tools::run("dd", &["if=/dev/zero".into(), format!("of={}", filler.display()), "bs=4096".into()]);
            }
            Fault::ReadOnly => self.change_attributes("+i"),
            Fault::Folder => self.displace(|path| fs::create_dir(path).is_ok()),
            Fault::Pipe => self.displace(|path| tools::run("mkfifo", &[path]).status.success()),
            Fault::Noise => self.displace(|path| fs::write(path, "{").is_ok()),
        }
    }

    fn mend(&self, fault: Fault) {
        match fault {
            Fault::Full => fs::remove_file(self.directory.join("filler")).expect("it is there"),
            Fault::ReadOnly => self.change_attributes("-i"),
            Fault::Folder | Fault::Pipe | Fault::Noise => {
                self.files.iter().for_each(|name| self.restore(name));
                self.files.iter().for_each(|name| self.take_away(&format!("{name}.broken")));
            }
        }
    }

    /// Whatever it is, if it is there.
    fn take_away(&self, name: &str) {
        let path = self.directory.join(name);
        let _ = if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
    }

    fn change_attributes(&self, change: &str) {
        let pools = self.directory.join("pools");
        let files = self.files.iter().map(|name| self.directory.join(name)).filter(|path| path.exists());
        let all: Vec<PathBuf> = files.chain([pools, self.directory.clone()]).collect();
        let words: Vec<String> = all.iter().map(|path| path.display().to_string()).collect();
        tools::succeed("chattr", &[&[change.to_owned()], &words[..]].concat());
    }

    /// `put` says whether it took the place, which a daemon that runs may have filled again.
    fn displace(&self, put: impl Fn(&Path) -> bool) {
        for path in self.files.iter().map(|name| self.directory.join(name)) {
            let was_there = fs::rename(&path, aside(&path)).is_ok();
            // What is not there yet is kept from coming, but for the record of a conversion.
            if !was_there && path.extension().is_some_and(|extension| extension == "convert") {
                continue;
            }
            eventually(&format!("the place of {} is taken", path.display()), TIMEOUT, || {
                put(&path) || {
                    let _ = fs::rename(&path, aside(&path));
                    false
                }
            });
        }
    }

    fn restore(&self, name: &str) {
        let path = self.directory.join(name);
        // A pipe would be waited for.
        let is_written = path.is_file() && fs::metadata(&path).is_ok_and(|file| file.len() > 1);
        let _ = if path.is_dir() {
            fs::remove_dir(&path)
        } else if is_written {
            Ok(())
        } else {
            fs::remove_file(&path)
        };
        // What the daemon wrote since is newer.
        if !path.exists() {
            let _ = fs::rename(aside(&path), &path);
        }
    }
}

fn aside(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.aside", path.display()))
}

/// A verb of which nobody knows whether it succeeds: it ends, and says why not.
fn attempt(daemon: &Daemon, arguments: &str) -> bool {
    let began = Instant::now();
    let output = daemon.hotset(arguments);
    let said = text(&output);
    assert!(began.elapsed() < VERB_LIMIT, "{arguments} took {:?}: {said}", began.elapsed());
    let names_it = ["state directory", "state file", ".json", ".member", ".convert", "records", "on record"]
        .iter()
        .any(|word| said.contains(word));
    let follows = [
        "there is no",
        "no such",
        "exists already",
        "offline",
        "is not there",
        "only a good pool",
        "is a backing",
        "is an SSD",
    ]
    .iter()
    .any(|word| said.contains(word));
    assert!(output.status.success() || names_it || follows, "{arguments}: {said}");
    output.status.success()
}

/// What there is, by what a restart must not change.
fn inventory(daemon: &Daemon) -> Vec<String> {
    let status = daemon.json("status");
    let list = |name: &str| status[name].as_array().expect("a list").clone();
    let pools = list("pools").into_iter().map(|pool| {
        let ssds = pool["ssds"].as_array().map_or(0, Vec::len);
        format!("{} {} {} {} {ssds}", pool["name"], pool["type"], pool["block_size_bytes"], pool["state"])
    });
    let volumes = list("volumes")
        .into_iter()
        .map(|volume| format!("{} {} {} {}", volume["name"], volume["pool"], volume["write_mode"], volume["state"]));
    let mut all: Vec<String> = pools.chain(volumes).collect();
    all.sort();
    all
}

/// Nothing is wrong any more, and nothing is under way.
#[track_caller]
fn is_well(daemon: &Daemon) {
    let check = || daemon.hotset("status --check");
    let began = Instant::now();
    while !check().status.success() {
        assert!(began.elapsed() < TIMEOUT, "{}\n{}", text(&check()), daemon.json("status"));
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn is_told(daemon: &Daemon, fault: Fault) {
    eventually(&format!("{fault:?} is told"), TIMEOUT, || {
        daemon.json("status")["conditions"].as_array().is_some_and(|conditions| {
            conditions.iter().any(|condition| condition["reason"] != "" && condition["action"] != "")
        })
    });
    assert_ne!(daemon.hotset("status --check").status.code(), Some(0), "{fault:?}");
}

/// Everything that is recorded is changed; what fails says why.
fn change_all(daemon: &Daemon) {
    let image = |name: &str, mib: u64| daemon.site.blank(name, mib * MIB).display().to_string();
    for arguments in [
        format!("volume create n1 --backing {}", image("n", 1)),
        format!("volume create c1 --backing {} --pool p", image("c", 1)),
        "volume rename u u1".to_owned(),
        "volume set a mode=write-through".to_owned(),
        "pool set p fetch-rate=low".to_owned(),
        "volume disable-cache b".to_owned(),
        format!(
            "pool create q1 --type read --io-type database --block-size 64K --allow-same-disk --ssd {}",
            image("q", 16)
        ),
        format!("pool add-ssd p --allow-same-disk --ssd {}", image("s", 24)),
        "pool convert p --block-size 128K".to_owned(),
        "token create t1 --role view".to_owned(),
        "volume delete n1".to_owned(),
        "volume rename u1 u".to_owned(),
        "pool delete q1".to_owned(),
        "volume enable-cache b --pool p".to_owned(),
        "volume set a mode=write-back".to_owned(),
        "pool convert p --block-size 64K".to_owned(),
    ] {
        attempt(daemon, &arguments);
        daemon.ok("status");
    }
}

/// What is wrong comes while the daemon runs, and at a start; it is about `files`.
fn survives(fault: Fault, files: Vec<&'static str>) {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let state = State { directory: daemon.site.path("state"), files };
    fs::create_dir(&state.directory).expect("a folder can be made");
    let Some(_mounted) = Mounted::if_needed(fault, &state.directory) else { return };
    daemon.launch();
    daemon.make_read_write_pool(&[24, 24], "");
    for (name, pool) in [("a", " --pool p"), ("b", " --pool p"), ("u", "")] {
        let backing = daemon.site.blank(name, MIB);
        daemon.ok(&format!("volume create {name} --backing {}{pool}", backing.display()));
    }
    daemon.client("a").write(0, &[7; 4096]).expect("it is written");
    is_well(&daemon);
    state.apply(fault);
    change_all(&daemon);
    match fault {
        Fault::Full | Fault::ReadOnly | Fault::Folder => is_told(&daemon, fault),
        // A file takes the place of these with the next change.
        Fault::Pipe | Fault::Noise => {}
    }
    state.mend(fault);
    is_well(&daemon);
    changes_last(&mut daemon);
    // The same at a start.
    let before = inventory(&daemon);
    assert!(daemon.stop().success());
    state.apply(fault);
    daemon.launch();
    for arguments in ["status", "pool list", "volume list", "pool set p fetch-rate=medium"] {
        attempt(&daemon, arguments);
    }
    is_told(&daemon, fault);
    state.mend(fault);
    is_well(&daemon);
    eventually("all is there again", TIMEOUT, || inventory(&daemon) == before);
    assert_eq!(daemon.client("a").read(0, 4096).expect("it is read"), [7; 4096]);
    changes_last(&mut daemon);
}

// proves: F11
#[test]
fn a_full_state_directory_leaves_nothing_half_made_and_is_the_reason_why_a_pool_is_not_open() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let state = State { directory: daemon.site.path("state"), files: Vec::new() };
    fs::create_dir(&state.directory).expect("a folder can be made");
    let Some(_mounted) = Mounted::if_needed(Fault::Full, &state.directory) else { return };
    daemon.launch();
    daemon.make_pool(&[24], "");
    let (ssd, other) = (daemon.site.blank("added", 24 * MIB), daemon.site.blank("other", 24 * MIB));
    let create = format!("pool create q --type read --io-type database --ssd {}", other.display());
    let member_of_q = state.directory.join("pools/q.member");
    // There is room for a record, and none for the pool's member file.
    daemon.refuse(&create, 1, "pools/q.member: No space left");
    assert!(!member_of_q.exists() && daemon.hotset("status --check").status.success());
    state.apply(Fault::Full);
    daemon.refuse(&format!("pool add-ssd p --ssd {}", ssd.display()), 1, "nothing was changed");
    daemon.refuse(&create, 1, "nothing was changed");
    assert_eq!(daemon.json("pool show p")["ssds"].as_array().map(Vec::len), Some(1));
    assert!(fs::read(&ssd).expect("it is there").iter().all(|byte| *byte == 0), "nothing was written to it");
    state.mend(Fault::Full);
    assert!(daemon.stop().success());
    fs::remove_file(state.directory.join("pools/p.member")).expect("it is there");
    state.apply(Fault::Full);
    daemon.launch();
    let is_cause =
        |line: &str| line.contains("not opened yet: ") && line.contains("pools/p.member: No space left on device");
    assert!(daemon.log().lines().any(is_cause), "it is told while its SSDs are waited for: {}", daemon.log());
    state.mend(Fault::Full);
    eventually("it opens by itself", TIMEOUT, || daemon.json("pool show p")["state"] == "online");
}

/// What is changed now works, and is there after a restart, with all that was changed before.
fn changes_last(daemon: &mut Daemon) {
    let backing = daemon.site.blank("z", MIB);
    for arguments in [
        &format!("volume create z --backing {}", backing.display()),
        "volume enable-cache z --pool p",
        "volume delete z",
        "volume set a mode=write-around",
        "volume set a mode=write-back",
    ] {
        daemon.ok(arguments);
    }
    is_well(daemon);
    let before = inventory(daemon);
    daemon.restart();
    is_well(daemon);
    assert_eq!(inventory(daemon), before, "after a restart");
}

/// A small file system of one's own.
struct Mounted(PathBuf);

impl Mounted {
    /// A file system where the fault needs one. `None`, and loud words, where that is not possible.
    fn if_needed(fault: Fault, directory: &Path) -> Option<Option<Self>> {
        let at = directory.display().to_string();
        match fault {
            Fault::Full => {
                if !tools::run("mount", &["-t", "tmpfs", "-o", "size=24m", "tmpfs", &at]).status.success() {
                    skip("nobody may mount a file system here (needs root)");
                    return None;
                }
                Some(Some(Self(directory.to_owned())))
            }
            Fault::ReadOnly => {
                if !tools::run("chattr", &["+i", &at]).status.success() {
                    skip("nothing can be made immutable here (needs root, and a file system that knows it)");
                    return None;
                }
                tools::succeed("chattr", &["-i", &at]);
                Some(None)
            }
            Fault::Folder | Fault::Pipe | Fault::Noise => Some(None),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        tools::run("umount", &["-l", &self.0.display().to_string()]);
    }
}

/// Writes to its file system wait until this goes.
struct Frozen(String);

impl Frozen {
    fn at(directory: &Path) -> Self {
        let at = directory.display().to_string();
        tools::succeed("fsfreeze", &["--freeze", &at]);
        Self(at)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        tools::run("fsfreeze", &["--unfreeze", &self.0]);
    }
}

/// A thread that writes to a mapped file of a disk that hangs may do so under a lock that every other thread wants.
fn maps_no_file_to_write(daemon: &Daemon) {
    let maps = fs::read_to_string(format!("/proc/{}/maps", daemon.pid())).expect("the daemon runs");
    let written = |line: &&str| {
        line.contains(" rw-s ") && line.split_whitespace().nth(5).is_some_and(|path| path.starts_with('/'))
    };
    let files: Vec<&str> = maps.lines().filter(written).collect();
    assert!(files.is_empty(), "{files:#?}");
}

/// All files at once; with `HOTSET_STATE_FILES=each`, also each by itself.
fn survives_all(fault: Fault) {
    survives(fault, FILES.to_vec());
    if std::env::var_os("HOTSET_STATE_FILES").is_some_and(|which| which == "each") {
        FILES.iter().for_each(|file| survives(fault, vec![file]));
    }
}

// proves: F11, F12
#[test]
fn a_full_state_directory_ends_nothing_and_all_goes_on_when_there_is_room() {
    survives_all(Fault::Full);
}

// proves: F11, F12
#[test]
fn a_read_only_state_directory_ends_nothing_and_all_goes_on_when_it_can_be_written() {
    survives_all(Fault::ReadOnly);
}

// proves: F11, F12
#[test]
fn folders_in_the_place_of_state_files_end_nothing_and_all_goes_on_without_them() {
    survives_all(Fault::Folder);
}

// proves: F11, F12
#[test]
fn pipes_in_the_place_of_state_files_end_nothing_and_all_goes_on_without_them() {
    survives_all(Fault::Pipe);
}

// proves: F11, F12
#[test]
fn noise_in_state_files_ends_nothing_and_all_goes_on_when_they_are_as_they_were() {
    survives_all(Fault::Noise);
}

// proves: F12
#[test]
fn a_state_directory_that_hangs_locks_nobody_out() {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let directory = daemon.site.path("state");
    fs::create_dir(&directory).expect("a folder can be made");
    let image = daemon.site.blank("state.img", 64 * MIB).display().to_string();
    tools::succeed("mke2fs", &["-q", "-F", "-t", "ext4", &image]);
    if !tools::run("mount", &["-o", "loop", &image, &directory.display().to_string()]).status.success() {
        return skip("nobody may mount a file system here (needs root)");
    }
    let _mounted = Mounted(directory.clone());
    daemon.launch();
    daemon.make_read_write_pool(&[24, 24], "");
    let backing = daemon.site.blank("a", MIB);
    daemon.ok(&format!("volume create a --backing {} --pool p", backing.display()));
    is_well(&daemon);
    maps_no_file_to_write(&daemon);
    let frozen = Frozen::at(&directory);
    let mut host = daemon.client("a");
    host.write(0, &[7; 4096]).expect("it is written");
    // Also the record that each of these tries to write is waited for by nobody else.
    for arguments in ["token create t --role view", "volume rename a b", "volume list"] {
        attempt(&daemon, arguments);
    }
    is_told(&daemon, Fault::Full);
    let told = daemon.json("status")["conditions"].to_string();
    assert!(told.contains("does not answer"), "{told}");
    assert_eq!(host.read(0, 4096).expect("it is read"), [7; 4096]);
    drop((host, frozen));
    is_well(&daemon);
    assert!(daemon.stop().success());
}
