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

/// Makes the daemon's number if there is none yet. Where it cannot be kept there is one that follows from the machine and the path.
pub(crate) fn of_daemon(state: &Path, configured: Option<&str>) -> Machine {
    let machine = of_reader(state, configured);
    if configured.is_some() || kept(state).is_some() {
        return machine;
    }
    let mut fresh = [0; 16];
    let made = SystemRandom::new().fill(&mut fresh).map_err(|_| std::io::Error::other("no random numbers"));
    let daemon = u128::from_be_bytes(fresh);
    match made.and_then(|()| state_file::replace(state, FILE, format!("{daemon:032x}\n").as_bytes())) {
        Ok(()) => Machine { daemon, ..machine },
        Err(error) => {
            tracing::warn!("{}: {error}; another machine may be taken for this one", state.join(FILE).display());
            machine
        }
    }
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
        daemon: kept(state).unwrap_or(fallback),
        fallback,
        machine: hashed("machine", &[id]),
        boot: hashed("boot", &[boot]),
        name,
    }
}

/// The daemon's number, as it is kept.
fn kept(state: &Path) -> Option<u128> {
    let bytes = state_file::read(&state.join(FILE)).ok()??;
    let text = std::str::from_utf8(&bytes).ok()?.trim();
    (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok()).flatten()
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
        let first = of_daemon(one.path(), None);
        assert_eq!(of_daemon(one.path(), None), first);
        assert_eq!(of_reader(one.path(), None), first);
        let second = of_daemon(other.path(), None);
        assert_ne!(second.daemon, first.daemon);
        assert_eq!((second.machine, second.boot), (first.machine, first.boot));
    }

    // proves: F10
    #[test]
    fn without_a_place_to_keep_it_the_number_is_the_same_at_every_start() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join(FILE)).unwrap();
        let first = of_daemon(directory.path(), None);
        assert_eq!(first.daemon, first.fallback);
        assert_eq!(of_daemon(directory.path(), None), first);
        fs::remove_dir(directory.path().join(FILE)).unwrap();
        let later = of_daemon(directory.path(), None);
        assert_eq!(later.fallback, first.daemon, "it still knows its old number");
        fs::write(directory.path().join(FILE), "no number").unwrap();
        assert_eq!(of_reader(directory.path(), None).daemon, first.daemon);
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
