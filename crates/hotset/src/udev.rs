//! udev rules for block devices that may hold less than their volumes: while acknowledged data waits on the SSDs, the
//! system must neither mount nor activate the backing device by itself.
//!
//! A rule names its device by what it is (DM or MD UUID, world-wide name, serial number), never by where it is. Rules lie
//! in a file whose name sorts after those that find out identities and before those that activate what they find.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use hotset_block::emulated::EmulatedArraySpec;

use crate::running_time::Tries;
use crate::{given_file, state_file};

/// Where rules are written by default: udev reads this folder (udev(7)). The name sorts after `63-md-raid-arrays.rules`,
/// which sets `MD_UUID`, and before the rules that assemble arrays (64) and activate volume groups (69).
pub(crate) const RULES_FILE: &str = "/etc/udev/rules.d/63-z-hotset.rules";

/// Properties that tell a device from another, the best first. The last one tells its place only. `ID_WWN` is cut to 64 bits: what a
/// RAID controller or an array in a SAN exports has 128, of which it has the first alike in all (`scsi_id`(8)).
const IDENTITIES: [&str; 8] =
    ["DM_UUID", "MD_UUID", "ID_WWN_WITH_EXTENSION", "ID_WWN", "ID_SERIAL", LOOP_FILE, "DM_NAME", "ID_PATH"];

/// The rules that are installed with the daemon, where udev finds them, and what they say of a local device.
const PACKAGED_RULES: &str = "61-hotset.rules";
const RULES_FOLDERS: [&str; 3] = ["/etc/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d"];
const LOCAL_PROPERTY: &str = "HOTSET_LOCAL";

/// It is there while udev runs.
const UDEV_SOCKET: &str = "/run/udev/control";

/// Not of udev: the file of a loop device, which sysfs tells.
const LOOP_FILE: &str = "the file of a loop device";

const HEADING: &str = "# Written by hotset. These block devices back volumes whose newest data may be on SSDs: hotset \
serves them,\n# nobody else may mount or activate them meanwhile. `hotset udev-rules` prints this file anew.\n";

/// Volumes that the file guards already, and that are none of those it is to guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Dropped,
    /// Not all is known that is to be guarded.
    Kept,
}

/// A volume whose backing device must be left alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Guarded {
    pub(crate) volume: String,
    /// As the administrator spells it.
    pub(crate) backing: String,
}

/// The rules for these volumes, as the text of a file. A device that is not there now keeps the rule that `before` has for it.
/// Blocking.
pub(crate) fn rules(guarded: &[Guarded], before: &str) -> String {
    rules_and_lacking(guarded, before).0
}

/// The same, and those for which there is no rule although their devices are there.
fn rules_and_lacking(guarded: &[Guarded], before: &str) -> (String, Vec<Guarded>) {
    let (mut text, mut lacking) = (String::new(), Vec::new());
    for one in guarded {
        match rule_now(one) {
            Rule::Needed(rule) => text.push_str(&format!("{}{rule}\n", comment(one))),
            Rule::NotNeeded => {}
            Rule::Away => text.extend(rule_before(one, before)),
            Rule::Unknown => match rule_before(one, before) {
                Some(rule) => text.push_str(&rule),
                None => lacking.push(one.clone()),
            },
        }
    }
    (if text.is_empty() { text } else { format!("{HEADING}{text}") }, lacking)
}

/// Makes the file guard these volumes and no other; without rules there is no file. Durable when it returns. Blocks, for a
/// limited time. Answers those for which there is no rule yet: udev runs, and does not know their devices. It looks at a
/// device some time after the kernel, which may be after the start of this daemon.
///
/// # Errors
/// As of any write; also if no ordinary file is there, or whoever keeps it does not answer.
pub(crate) fn guard(path: &Path, mut guarded: Vec<Guarded>, others: Others) -> io::Result<Vec<Guarded>> {
    given_file::answered(path, move |path| {
        let before = match given_file::read_ordinary(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(String::from_utf8_lossy(&read?).into_owned()),
        };
        let said = before.as_deref().unwrap_or_default();
        if others == Others::Kept {
            let named = |one: &Guarded| guarded.iter().any(|other| other.volume == one.volume);
            let unnamed: Vec<Guarded> = guarded_by(said).filter(|one| !named(one)).collect();
            guarded.extend(unnamed);
        }
        let (rules, lacking) = rules_and_lacking(&guarded, said);
        match before {
            None if rules.is_empty() => {}
            Some(before) if before == rules => {}
            None | Some(_) => write(path, &rules)?,
        }
        // Without it nothing mounts or activates a device by itself.
        Ok(if Path::new(UDEV_SOCKET).exists() { lacking } else { Vec::new() })
    })
}

fn write(path: &Path, rules: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    if rules.is_empty() {
        fs::remove_file(path)?;
        return fs::File::open(directory)?.sync_all();
    }
    // udev reads only names that end in .rules.
    let beside = path.with_extension("new");
    state_file::remove_if_there(&beside)?;
    let mut file = fs::File::create_new(&beside)?;
    file.write_all(rules.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    fs::File::open(directory)?.sync_all()
}

enum Rule {
    Needed(String),
    /// It is a file: nothing mounts it by itself.
    NotNeeded,
    /// The device is not there.
    Away,
    /// It is, and nobody knows an identity of it.
    Unknown,
}

fn rule_now(guarded: &Guarded) -> Rule {
    if EmulatedArraySpec::is_spelled_by(&guarded.backing) {
        return Rule::NotNeeded;
    }
    match fs::metadata(&guarded.backing) {
        Ok(metadata) if metadata.file_type().is_block_device() => {
            rule(&properties(metadata.rdev())).map_or(Rule::Unknown, Rule::Needed)
        }
        Ok(_) => Rule::NotNeeded,
        Err(_) => Rule::Away,
    }
}

/// One line, whatever is spelled there: udev runs what a line of its own says.
fn comment(guarded: &Guarded) -> String {
    let line = format!("# volume {}: {}", guarded.volume, guarded.backing);
    line.replace(char::is_control, "?") + "\n"
}

/// Whom these rules guard.
fn guarded_by(rules: &str) -> impl Iterator<Item = Guarded> {
    let volumes = rules.lines().filter_map(|line| line.strip_prefix("# volume ")?.split_once(": "));
    volumes.map(|(volume, backing)| Guarded { volume: volume.to_owned(), backing: backing.to_owned() })
}

fn rule_before(guarded: &Guarded, before: &str) -> Option<String> {
    let comment = comment(guarded);
    let rule = before.split_once(&comment)?.1.lines().next()?;
    Some(format!("{comment}{rule}\n"))
}

/// The rule for a device of these properties; none if nothing tells it from others. LVM passes over `SYSTEMD_READY`: as md, btrfs and bcache,
/// it is told by the type of the content.
fn rule(properties: &BTreeMap<String, String>) -> Option<String> {
    let found = IDENTITIES.iter().find_map(|name| Some((name, properties.get(*name).filter(|id| !id.is_empty())?)));
    let (name, id) = found?;
    let what = if *name == LOOP_FILE { "ATTRS{loop/backing_file}".to_owned() } else { format!("ENV{{{name}}}") };
    // Partitions have the world-wide name of their disk.
    let partition = properties.get("PARTN").map_or(String::new(), |number| format!(", ENV{{PARTN}}==\"{number}\""));
    Some(format!(
        "ACTION!=\"remove\", SUBSYSTEM==\"block\", {what}==\"{}\"{partition}, ENV{{UDISKS_IGNORE}}=\"1\", \
         ENV{{SYSTEMD_READY}}=\"0\", ENV{{ID_FS_TYPE}}=\"hotset_backing\", OPTIONS+=\"link_priority=-100\"",
        pattern(id)
    ))
}

/// A pattern that fits `id`: what would have a meaning in a rule is matched as any one character.
fn pattern(id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:+/=@ ".contains(c);
    id.chars().map(|c| if plain(c) { c } else { '?' }).collect()
}

/// What the kernel and udev say of a block device: its uevent, and its record in udev's database.
fn properties(device: u64) -> BTreeMap<String, String> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let kernel = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent")).unwrap_or_default();
    let udev = fs::read_to_string(format!("/run/udev/data/b{major}:{minor}")).unwrap_or_default();
    let known = udev.lines().filter_map(|line| line.strip_prefix("E:"));
    let named = known.chain(kernel.lines()).filter_map(|line| line.split_once('='));
    let file = ["loop/backing_file", "../loop/backing_file"].iter().find_map(|file| {
        let path = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?.join(file);
        fs::read_to_string(path).ok()
    });
    let file = file.as_deref().map(|file| (LOOP_FILE, file.trim_end_matches('\n')));
    named.chain(file).map(owned).collect()
}

/// Waits until udev knows these local devices as what they are, so that a file system on one is found by its UUID there. Where udev does
/// not run, or has not our rules, nobody is waited for. Blocking.
pub(crate) fn wait_for_local_devices(devices: &[u64], limit: Duration) {
    let is_ours = |folder: &&str| {
        let rules = fs::read_to_string(Path::new(folder).join(PACKAGED_RULES));
        rules.is_ok_and(|rules| rules.contains(LOCAL_PROPERTY))
    };
    if !Path::new(UDEV_SOCKET).exists() || !RULES_FOLDERS.iter().any(is_ours) {
        return;
    }
    let mut tries = Tries::within(limit);
    let is_known = |device: &u64| properties(*device).contains_key(LOCAL_PROPERTY);
    while !devices.iter().all(is_known) && tries.pause_again() {}
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().copied().map(owned).collect()
    }

    // proves: F8
    #[test]
    fn a_rule_names_the_best_identity_and_the_partition() {
        let disk = of(&[("ID_SERIAL", "WDC_1"), ("ID_WWN", "0x50014ee2"), ("ID_PATH", "pci-0"), ("DEVTYPE", "disk")]);
        let text = rule(&disk).unwrap();
        assert!(
            text.contains("ENV{ID_WWN}==\"0x50014ee2\", ENV{UDISKS_IGNORE}=\"1\", ENV{SYSTEMD_READY}=\"0\""),
            "{text}"
        );
        let partition = rule(&of(&[("ID_WWN", "0x5"), ("PARTN", "3")])).unwrap();
        assert!(partition.contains("ENV{ID_WWN}==\"0x5\", ENV{PARTN}==\"3\""), "{partition}");
        let exported = [("ID_WWN", "0x600508e000000000"), ("ID_WWN_WITH_EXTENSION", "0x600508e0000000001a2b3c4d")];
        let exported = rule(&of(&exported)).unwrap();
        assert!(exported.contains("ENV{ID_WWN_WITH_EXTENSION}==\"0x600508e0000000001a2b3c4d\","), "{exported}");
        let volume = rule(&of(&[("DM_UUID", "LVM-abc"), ("ID_SERIAL", "x")])).unwrap();
        assert!(volume.contains("ENV{DM_UUID}==\"LVM-abc\""), "{volume}");
        let image = rule(&of(&[(LOOP_FILE, "/srv/disk 1.img"), ("ID_PATH", "x")])).unwrap();
        assert!(image.contains("ATTRS{loop/backing_file}==\"/srv/disk 1.img\", ENV{UDISKS"), "{image}");
        assert_eq!(rule(&of(&[("DEVNAME", "sda"), ("ID_WWN", "")])), None);
    }

    #[test]
    fn an_identity_cannot_end_its_rule() {
        assert_eq!(pattern("a\"b*c|d"), "a?b?c?d");
        let guarded = Guarded { volume: "v".into(), backing: "/tmp/x\nRUN+=\"/tmp/e\"\r".into() };
        assert_eq!(comment(&guarded), "# volume v: /tmp/x?RUN+=\"/tmp/e\"?\n");
    }

    // proves: F8
    #[test]
    fn a_device_that_is_away_keeps_its_rule_and_a_file_needs_none() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("disk.img");
        fs::write(&file, b"x").unwrap();
        let away = away();
        let image = Guarded { volume: "b".into(), backing: file.display().to_string() };
        let before = format!("{HEADING}# volume a: /nowhere/disk\nTHE RULE\n# volume c: /dev/x\nANOTHER\n");
        let text = rules(&[away.clone(), image.clone()], &before);
        assert_eq!(text, format!("{HEADING}# volume a: /nowhere/disk\nTHE RULE\n"));
        assert_eq!(rules(&[away, image], ""), "");
    }

    // proves: F8
    #[test]
    fn a_device_that_is_there_and_not_known_is_told_unless_it_was_known_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk").display().to_string();
        // Of no driver: neither the kernel nor udev say anything of it.
        let made = std::process::Command::new("mknod").args([&path, "b", "4094", "9"]).status();
        if !made.is_ok_and(|status| status.success()) {
            return println!("\nSKIPPED: a device file cannot be made here (needs root)");
        }
        let there = Guarded { volume: "a".into(), backing: path.clone() };
        let (text, lacking) = rules_and_lacking(&[away(), there.clone()], "");
        assert_eq!((text.as_str(), lacking), ("", vec![there.clone()]));
        let before = format!("{HEADING}# volume a: {path}\nTHE RULE\n");
        assert_eq!(rules_and_lacking(&[there], &before), (before, Vec::new()));
    }

    /// Its rule is that of before.
    fn away() -> Guarded {
        Guarded { volume: "a".into(), backing: "/nowhere/disk".into() }
    }

    #[test]
    fn a_file_without_rules_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("63.rules");
        guard(&path, Vec::new(), Others::Dropped).unwrap();
        fs::write(&path, "# volume a: /nowhere/disk\nTHE RULE\n").unwrap();
        let kept = format!("{HEADING}# volume a: /nowhere/disk\nTHE RULE\n");
        for _ in 0..2 {
            guard(&path, vec![away()], Others::Dropped).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), kept);
        }
        // While a record cannot be read, nobody knows that it is not needed any more.
        assert_eq!(guard(&path, Vec::new(), Others::Kept).unwrap(), []);
        assert_eq!(fs::read_to_string(&path).unwrap(), kept);
        guard(&path, Vec::new(), Others::Dropped).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    // proves: F11
    #[test]
    fn what_is_no_ordinary_file_is_not_waited_for_and_not_taken_away() {
        let directory = tempfile::tempdir().unwrap();
        let (path, beside) = (directory.path().join("63.rules"), directory.path().join("63.new"));
        let pipe = |path: &Path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        pipe(&path);
        for guarded in [vec![away()], Vec::new()] {
            let error = guard(&path, guarded, Others::Dropped).unwrap_err().to_string();
            assert!(error.contains("not an ordinary file"), "{error}");
        }
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        pipe(&beside);
        write(&path, "one\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
    }
}
