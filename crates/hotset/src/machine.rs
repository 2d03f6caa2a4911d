//! Which daemon this is, on which machine: what a pool's SSDs are marked with while it is open here.
//!
//! The daemon's own number is random and kept in its state directory, so that containers which share an image, and with it
//! /etc/machine-id, are told apart. The machine's is made from /etc/machine-id, hashed for this purpose alone (machine-id(5)).

use std::fs;
use std::path::Path;

use hotset_block::Machine;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use crate::state_file;

/// The file in the state directory.
const FILE: &str = "daemon-id";

/// Characters of a configured id at most.
pub(crate) const CONFIGURED_LENGTH_MAX: usize = 64;

/// Makes the daemon's number if there is none yet. Where it is not kept there is one that follows from the machine and the path;
/// then also why it is not.
pub(crate) fn of_daemon(state: &Path, configured: Option<&str>) -> (Machine, Result<(), String>) {
    let machine = of_reader(state, configured);
    if configured.is_some() {
        return (machine, Ok(()));
    }
    match keep_number(state) {
        Ok(daemon) => (Machine { daemon, ..machine }, Ok(())),
        Err(why) => (machine, Err(why)),
    }
}

/// The daemon's number, made and kept if there is none yet. The daemon goes by it from its next start on.
///
/// # Errors
/// What is there cannot be read, and is left as it is; or nothing can be kept.
pub(crate) fn keep_number(state: &Path) -> Result<u128, String> {
    let failed = |error| format!("{error}; another daemon may be taken for this one, and this one for another");
    let read = kept(state).map_err(|error| failed(format!("{}: {error}", state.join(FILE).display())))?;
    if let Some(daemon) = read {
        return Ok(daemon);
    }
    let mut fresh = [0; 16];
    let made = SystemRandom::new().fill(&mut fresh).map_err(|_| std::io::Error::other("no random numbers"));
    let daemon = u128::from_be_bytes(fresh);
    made.and_then(|()| state_file::replace(state, FILE, format!("{daemon:032x}\n").as_bytes()))
        .map_err(|error| failed(format!("state directory {}: {error}", state.display())))?;
    Ok(daemon)
}

/// As the daemon of this state directory is known, for somebody who only looks.
pub(crate) fn of_reader(state: &Path, configured: Option<&str>) -> Machine {
    let name = first_line("/proc/sys/kernel/hostname").unwrap_or_else(|| "a machine without a name".to_owned());
    let id = ["/etc/machine-id", "/var/lib/dbus/machine-id"].into_iter().find_map(first_line);
    let id = id.unwrap_or_else(|| name.clone());
    let boot = first_line("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    named(state, configured, &name, &id, &boot)
}

fn named(state: &Path, configured: Option<&str>, name: &str, id: &str, boot: &str) -> Machine {
    let name = name.to_owned();
    if let Some(own) = configured {
        let daemon = hashed("configured", &[own]);
        return Machine {
            daemon,
            fallback: daemon,
            machine: hashed("machine", &[own]),
            boot: hashed("boot", &[own, boot]),
            name,
        };
    }
    let fallback = hashed("daemon", &[id, &state.to_string_lossy()]);
    Machine {
        daemon: kept(state).ok().flatten().unwrap_or(fallback),
        fallback,
        machine: hashed("machine", &[id]),
        boot: hashed("boot", &[boot]),
        name,
    }
}

/// The daemon's number, as it is kept; `None`: there is no number.
fn kept(state: &Path) -> std::io::Result<Option<u128>> {
    let Some(bytes) = state_file::read(&state.join(FILE))? else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).unwrap_or_default().trim();
    Ok((text.len() == 32).then(|| u128::from_str_radix(text, 16).ok()).flatten())
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line: String = text.lines().next()?.chars().filter(|c| !c.is_control()).collect();
    (!line.is_empty()).then_some(line)
}

fn hashed(what: &str, parts: &[&str]) -> u128 {
    let mut text = format!("hotset owner {what}");
    for part in parts {
        text.push('\0');
        text.push_str(part);
    }
    let hash = digest(&SHA256, text.as_bytes());
    let half = hash.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
    u128::from_be_bytes(*half)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: F10
    #[test]
    fn a_daemon_keeps_its_number_and_another_state_directory_has_another_one() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (first, kept) = of_daemon(one.path(), None);
        assert_eq!(kept, Ok(()));
        assert_eq!(of_daemon(one.path(), None).0, first);
        assert_eq!(of_reader(one.path(), None), first);
        let (second, _) = of_daemon(other.path(), None);
        assert_ne!(second.daemon, first.daemon);
        assert_eq!((second.machine, second.boot), (first.machine, first.boot));
    }

    // proves: F10
    #[test]
    fn without_a_place_to_keep_it_the_number_is_the_same_at_every_start() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join(FILE)).unwrap();
        let (first, kept) = of_daemon(directory.path(), None);
        assert!(kept.unwrap_err().contains(FILE), "it is told");
        assert_eq!(first.daemon, first.fallback);
        assert_eq!(of_daemon(directory.path(), None).0, first);
        fs::remove_dir(directory.path().join(FILE)).unwrap();
        let (later, kept) = of_daemon(directory.path(), None);
        assert_eq!(kept, Ok(()));
        assert_eq!(later.fallback, first.daemon, "it still knows its old number");
        fs::write(directory.path().join(FILE), "no number").unwrap();
        assert_eq!(of_reader(directory.path(), None).daemon, first.daemon);
    }

    // proves: F10, F12
    #[test]
    fn a_number_that_cannot_be_read_is_told_and_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let (path, aside) = (directory.path().join(FILE), directory.path().join("aside"));
        let (first, _) = of_daemon(directory.path(), None);
        fs::rename(&path, &aside).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (without, kept) = of_daemon(directory.path(), None);
        assert_eq!(without.daemon, first.fallback);
        let why = kept.unwrap_err();
        assert!(why.contains(FILE) && why.contains("not an ordinary file"), "{why}");
        keep_number(directory.path()).unwrap_err();
        fs::rename(&aside, &path).unwrap();
        assert_eq!(keep_number(directory.path()), Ok(first.daemon));
    }

    // proves: F10
    #[test]
    fn a_configured_id_is_the_same_wherever_it_runs() {
        let (one, other) = (Path::new("/a"), Path::new("/b"));
        let [first, second] = [named(one, Some("x"), "n", "1", "b"), named(other, Some("x"), "m", "2", "b")];
        assert_eq!((first.daemon, first.machine, first.boot), (second.daemon, second.machine, second.boot));
        assert_ne!(named(one, Some("y"), "n", "1", "b").daemon, first.daemon);
        assert_ne!(named(one, Some("x"), "n", "1", "c").boot, first.boot, "it was started anew");
    }
}
