//! The SSDs' own word on their health: asked of `smartctl` at the start and every ten minutes, one SSD after the other, by
//! a child process that nothing waits for but this.
//!
//! Hosts never notice: the data plane is another thread, and what is said here changes what is reported, not what is done.

mod identity;
mod ledger;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotset_api::{Smart, SsdIdentity};
use hotset_cache::date_and_time;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::Notify;

pub(super) use identity::{first_text, text, transport};
pub(crate) use ledger::Ledger;

use self::identity::DiskBelow;
use self::report::DriveReport;
use super::blocking::blocking;
use crate::clock::unix_ms;
use crate::{given_file, running_time};

/// How often an SSD is asked.
pub(super) const ASK_INTERVAL: Duration = Duration::from_secs(600);

/// How often it is looked whether there are SSDs that were never asked, and how much was written.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// How often the ledger is written, at most.
pub(super) const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// So many disks that are in no pool are asked and remembered; what is found beyond that says nothing.
const FOUND_MAX: usize = 64;

/// How long one answer may take.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// More output than this is not read; the largest seen is 60 KB.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What an SSD is asked: identity, verdict, attributes, endurance, and the links of a SAS drive.
const QUESTIONS: [&str; 8] = ["--json", "-i", "-H", "-A", "-l", "ssd", "-l", "sasphy"];

/// An SSD of an open pool, and what the pool has written to it.
#[derive(Clone, Debug)]
pub(crate) struct OpenSsd {
    pub(super) uuid: String,
    pub(super) path: String,
    pub(super) written_bytes: u64,
}

/// What is known of the SSDs, by UUID; read by whoever reports.
#[derive(Default)]
pub(crate) struct KnownDrives {
    known: Mutex<Knowledge>,
    wished: Notify,
}

#[derive(Default)]
struct Knowledge {
    asked: BTreeMap<String, Asked>,
    ledger: Ledger,
    /// Disks that are in no pool, by path: somebody looked at them because they may become SSDs.
    found: BTreeMap<String, Smart>,
    /// Those of them that are to be asked.
    wishes: BTreeSet<String>,
}

/// An SSD that was asked: what it answered last, and why it did not answer since.
#[derive(Clone, Debug, Default)]
struct Asked {
    identity: SsdIdentity,
    smart: Smart,
    /// `None`: it never answered.
    answered_at_unix_ms: Option<u64>,
}

impl Asked {
    fn of(identity: SsdIdentity, smart: Smart) -> Self {
        let answered_at_unix_ms = smart.problem.is_empty().then_some(smart.checked_at_unix_ms);
        Self { identity, smart, answered_at_unix_ms }
    }

    /// It was asked again. Silence takes nothing back: an alert holds until the SSD answers without one.
    fn learn(&mut self, identity: SsdIdentity, smart: Smart) {
        match self.answered_at_unix_ms {
            Some(at) if !smart.problem.is_empty() => {
                self.smart.checked_at_unix_ms = smart.checked_at_unix_ms;
                self.smart.problem = format!("{}; it answered last at {}", smart.problem, date_and_time(at / 1000));
            }
            Some(_) | None => *self = Self::of(identity, smart),
        }
    }
}

impl KnownDrives {
    pub(super) fn new(mut ledger: Ledger) -> Self {
        ledger.begin();
        Self { known: Mutex::new(Knowledge { ledger, ..Knowledge::default() }), wished: Notify::new() }
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn lock(&self) -> MutexGuard<'_, Knowledge> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an SSD is and how it is, of which its pool has counted so many bytes written; nothing before it was asked.
    pub(super) fn of(&self, uuid: &str, counted_bytes: u64) -> (SsdIdentity, Smart) {
        let known = self.lock();
        let Asked { identity, smart, .. } = known.asked.get(uuid).cloned().unwrap_or_default();
        let cache_written_bytes = known.ledger.written_bytes(uuid, counted_bytes);
        let worn_out_at_unix_ms = known.ledger.worn_out_at_unix_ms(uuid, unix_ms());
        (identity, Smart { cache_written_bytes, worn_out_at_unix_ms, ..smart })
    }

    /// What a disk said that is in no pool. One that did not say anything lately is asked soon.
    pub(super) fn of_found(&self, path: &str, now_unix_ms: u64) -> Option<Smart> {
        let mut known = self.lock();
        let said = known.found.get(path).cloned();
        let fresh = said.as_ref().is_some_and(|smart| !is_old(smart, now_unix_ms));
        if !fresh && known.wishes.len() < FOUND_MAX && known.wishes.insert(path.to_owned()) {
            self.wished.notify_one();
        }
        said
    }

    /// Until somebody wishes to know of one that is not known.
    pub(super) async fn wished(&self) {
        self.wished.notified().await;
    }

    fn next_wish(&self) -> Option<String> {
        self.lock().wishes.pop_first()
    }

    /// What nobody asked about lately is forgotten before what is new.
    fn learn_found(&self, path: String, smart: Smart) {
        let mut known = self.lock();
        // Somebody looked while it was asked.
        known.wishes.remove(&path);
        known.found.retain(|_, other| !is_old(other, smart.checked_at_unix_ms));
        if known.found.len() < FOUND_MAX {
            known.found.insert(path, smart);
        }
    }

    /// Counts what was written to each, and answers the ledger as it is now.
    pub(super) fn count(&self, ssds: &[OpenSsd]) -> Ledger {
        let mut known = self.lock();
        for ssd in ssds {
            known.ledger.count(&ssd.uuid, ssd.written_bytes, unix_ms());
        }
        known.ledger.clone()
    }

    /// What came of asking an SSD.
    pub(super) fn learn(&self, uuid: &str, identity: SsdIdentity, smart: Smart) {
        let mut known = self.lock();
        if let Some(percent) = smart.wear_percent {
            known.ledger.wear(uuid, percent, smart.checked_at_unix_ms);
        }
        known.asked.entry(uuid.to_owned()).or_default().learn(identity, smart);
    }

    pub(super) fn keep_only(&self, ssds: &[OpenSsd]) {
        self.lock().asked.retain(|uuid, _| ssds.iter().any(|ssd| ssd.uuid == *uuid));
    }
}

/// Whether a disk is to be asked again.
fn is_old(smart: &Smart, now_unix_ms: u64) -> bool {
    u128::from(now_unix_ms.saturating_sub(smart.checked_at_unix_ms)) >= ASK_INTERVAL.as_millis()
}

/// Asks, and remembers which children did not come back.
pub(super) struct Asker {
    program: String,
    answer_limit: Duration,
    hanging: BTreeMap<PathBuf, Child>,
}

impl Asker {
    pub(super) fn new(program: String, answer_limit: Duration) -> Self {
        Self { program, answer_limit, hanging: BTreeMap::new() }
    }

    /// Asks all that somebody looks at.
    pub(super) async fn ask_found(&mut self, known: &KnownDrives) {
        while let Some(path) = known.next_wish() {
            let (_, smart) = self.ask(&path).await;
            known.learn_found(path, smart);
        }
    }

    pub(super) async fn ask(&mut self, path: &str) -> (SsdIdentity, Smart) {
        let below = disk_below(path).await;
        let checked_at_unix_ms = unix_ms();
        let nothing = |problem: String| Smart { checked_at_unix_ms, problem, ..Smart::default() };
        let DiskBelow { node, identity } = match below {
            Ok(below) => below,
            Err(problem) => return (SsdIdentity::default(), nothing(problem)),
        };
        match self.report(&node).await {
            Ok(report) => (joined(identity, &report), smart(&report, checked_at_unix_ms)),
            Err(problem) => (identity, nothing(problem)),
        }
    }

    /// # Errors
    /// Why nothing could be learnt, for people.
    async fn report(&mut self, node: &Path) -> Result<DriveReport, String> {
        if self.program.is_empty() {
            return Err("S.M.A.R.T. is turned off (smartctl = \"\")".to_owned());
        }
        // A child that waits for a dead disk cannot be killed; another one would only wait beside it.
        if let Some(child) = self.hanging.get_mut(node) {
            if let Ok(None) = child.try_wait() {
                return Err(format!("smartctl hangs on {}", node.display()));
            }
            self.hanging.remove(node);
        }
        let mut child = self.start(node)?;
        match running_time::timeout(self.answer_limit, output(&mut child)).await {
            Ok(output) => DriveReport::parse(&output.map_err(|error| format!("smartctl: {error}"))?),
            Err(_) => {
                // It may have ended by itself in this moment.
                let _ = child.start_kill();
                self.hanging.insert(node.to_owned(), child);
                let seconds = self.answer_limit.as_secs();
                Err(format!("smartctl did not answer for {} within {seconds} s", node.display()))
            }
        }
    }

    fn start(&self, node: &Path) -> Result<Child, String> {
        let mut command = Command::new(&self.program);
        command.args(QUESTIONS).arg(node).env_clear().env("PATH", PATH).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        command.spawn().map_err(|error| match error.kind() == std::io::ErrorKind::NotFound {
            true => format!("{} is not installed (smartmontools): wear and health are not known", self.program),
            false => format!("{}: {error}", self.program),
        })
    }
}

/// The disk under a path, whose file system may hang.
///
/// # Errors
/// Why it is not known, for people.
async fn disk_below(path: &str) -> Result<DiskBelow, String> {
    let path = PathBuf::from(path);
    let found = blocking(move || given_file::answered(&path, |path| Ok(identity::disk_below(path)))).await;
    let found = found.map_err(|error| error.message)?;
    let below = found.map_err(|error| format!("the disk that it is on is not known: {error}"))?;
    below.ok_or_else(|| "it is on no single disk that could be asked".to_owned())
}

/// What a child printed, once it has ended. Its exit status is in there too.
async fn output(child: &mut Child) -> std::io::Result<Vec<u8>> {
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut printed).await?;
    }
    child.wait().await?;
    Ok(printed)
}

/// The drive knows itself better than the kernel does, where it says anything.
fn joined(kernel: SsdIdentity, report: &DriveReport) -> SsdIdentity {
    let or = |said: &String, kernel: String| if said.is_empty() { kernel } else { said.clone() };
    SsdIdentity {
        manufacturer: or(&report.manufacturer, kernel.manufacturer),
        model: or(&report.model, kernel.model),
        serial: or(&report.serial, kernel.serial),
        firmware: or(&report.firmware, kernel.firmware),
        // The kernel's word names the lanes too.
        link_speed: if kernel.link_speed.is_empty() { report.link_speed.clone() } else { kernel.link_speed },
        ..kernel
    }
}

fn smart(report: &DriveReport, checked_at_unix_ms: u64) -> Smart {
    Smart {
        checked_at_unix_ms,
        problem: String::new(),
        alert: report.alert(),
        passed: report.passed,
        wear_percent: report.wear_percent,
        temperature_celsius: report.temperature_celsius,
        power_on_hours: report.power_on_hours,
        drive_written_bytes: report.written_bytes,
        ..Smart::default()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program in the place of smartctl; it also writes down what it was asked.
    fn program(directory: &Path, body: &str) -> String {
        let path = directory.join("smartctl");
        let asked = directory.join("asked").display().to_string();
        std::fs::write(&path, format!("#!/bin/sh\necho \"$@\" >> {asked}\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path.display().to_string()
    }

    fn composed(name: &str) -> String {
        format!("cat {}/src/daemon/smart/composed/{name}.json", env!("CARGO_MANIFEST_DIR"))
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    // proves: P10
    #[test]
    fn a_drive_is_asked_by_its_node_and_its_answer_understood_whatever_the_exit_status() {
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), &format!("{}\nexit 8", composed("nvme-failing")));
        let mut asker = Asker::new(program, ANSWER_LIMIT);
        let report = run(asker.report(Path::new("/dev/nvme1n1"))).unwrap();
        let smart = smart(&report, 7);
        assert_eq!((smart.passed, smart.wear_percent, smart.checked_at_unix_ms), (Some(false), Some(104), 7));
        assert!(smart.alert.contains("failing"), "{}", smart.alert);
        let asked = std::fs::read_to_string(directory.path().join("asked")).unwrap();
        assert_eq!(asked, "--json -i -H -A -l ssd -l sasphy /dev/nvme1n1\n");
    }

    #[test]
    fn a_program_that_is_not_there_or_prints_nonsense_is_a_problem_and_no_alert() {
        let directory = tempfile::tempdir().unwrap();
        let error = run(Asker::new("/nowhere/smartctl".to_owned(), ANSWER_LIMIT).report(Path::new("/dev/x")));
        assert!(error.as_ref().is_err_and(|error| error.contains("not installed")), "{error:?}");
        let nonsense = program(directory.path(), "echo nonsense");
        assert!(run(Asker::new(nonsense, ANSWER_LIMIT).report(Path::new("/dev/x"))).is_err());
        assert!(run(Asker::new(String::new(), ANSWER_LIMIT).report(Path::new("/dev/x"))).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_the_next_one_may_answer() {
        let directory = tempfile::tempdir().unwrap();
        // It hangs at the first call, and answers at the next.
        let (done, answer) = (directory.path().join("done").display().to_string(), composed("sata"));
        let body = format!("if [ -e {done} ]; then {answer}; else touch {done}; exec sleep 60; fi");
        let mut asker = Asker::new(program(directory.path(), &body), Duration::from_secs(2));
        let node = Path::new("/dev/sda");
        run(async {
            let error = asker.report(node).await.unwrap_err();
            assert!(error.contains("did not answer"), "{error}");
            let killed = asker.hanging.get_mut(node).expect("it is remembered").wait().await.unwrap();
            assert!(!killed.success());
            assert_eq!(asker.report(node).await.unwrap().wear_percent, Some(3));
            assert!(asker.hanging.is_empty());
        });
    }

    #[test]
    fn what_is_known_is_joined_with_what_was_counted_and_forgotten_with_the_ssd() {
        let known = KnownDrives::new(Ledger::default());
        let ssd = OpenSsd { uuid: "a".to_owned(), path: "/dev/sda".to_owned(), written_bytes: 4096 };
        let kernel = SsdIdentity { model: "kernel's".to_owned(), slot: "4".to_owned(), ..SsdIdentity::default() };
        let report = DriveReport { model: "drive's".to_owned(), wear_percent: Some(5), ..DriveReport::default() };
        known.learn("a", joined(kernel, &report), smart(&report, 1));
        let ledger = known.count(std::slice::from_ref(&ssd));
        let (identity, said) = known.of("a", 4096);
        assert_eq!((identity.model.as_str(), identity.slot.as_str()), ("drive's", "4"));
        assert_eq!((said.wear_percent, said.cache_written_bytes), (Some(5), 4096));
        known.keep_only(&[]);
        assert_eq!(known.of("a", 0).0, SsdIdentity::default());
        assert_eq!(KnownDrives::new(ledger).of("a", 0).1.cache_written_bytes, 4096, "over a restart");
    }

    #[test]
    fn an_alert_stands_while_the_ssd_does_not_answer_and_ends_with_its_next_answer() {
        let known = KnownDrives::new(Ledger::default());
        let failing = DriveReport {
            model: "Fast".to_owned(),
            passed: Some(false),
            wear_percent: Some(7),
            temperature_celsius: Some(41),
            ..DriveReport::default()
        };
        let silent = |at: u64| Smart { checked_at_unix_ms: at, problem: "silence".to_owned(), ..Smart::default() };
        known.learn("a", SsdIdentity::default(), silent(500));
        assert_eq!(known.of("a", 0).1, silent(500), "it never answered");
        known.learn("a", joined(SsdIdentity::default(), &failing), smart(&failing, 1000));
        let answered = known.of("a", 0);
        assert!(answered.1.alert.contains("failing"), "{:?}", answered.1);
        for at in [2000, 3000] {
            known.learn("a", SsdIdentity::default(), silent(at));
            let problem = "silence; it answered last at 1970-01-01T00:00:01Z".to_owned();
            let kept = Smart { checked_at_unix_ms: at, problem, ..answered.1.clone() };
            assert_eq!(known.of("a", 0), (answered.0.clone(), kept), "asked at {at}");
        }
        let well = DriveReport { passed: Some(true), ..failing };
        known.learn("a", SsdIdentity::default(), smart(&well, 4000));
        assert_eq!(known.of("a", 0).1, smart(&well, 4000));
    }

    #[test]
    fn an_ssd_whose_path_does_not_answer_holds_up_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let mut asker = Asker::new(program(directory.path(), &composed("nvme")), ANSWER_LIMIT);
        let path = directory.path().join("image");
        let (answers, answer) = std::sync::mpsc::channel::<()>();
        let hangs = move |_: &Path| answer.recv().map_err(std::io::Error::other);
        given_file::answered(&path, hangs).expect_err("its file system hangs");
        let (_, smart) = run(asker.ask(&path.display().to_string()));
        assert!(smart.problem.contains("does not answer"), "{}", smart.problem);
        drop(answers);
        let (_, smart) = run(asker.ask("/nowhere/image"));
        assert!(smart.problem.contains("no single disk"), "{}", smart.problem);
    }

    // proves: S3
    #[test]
    fn a_disk_that_was_found_is_asked_once_for_a_while_whoever_looks_how_often() {
        let directory = tempfile::tempdir().unwrap();
        let mut asker = Asker::new(program(directory.path(), &composed("nvme-failing")), Duration::from_secs(30));
        let known = KnownDrives::new(Ledger::default());
        let path = directory.path().join("image").display().to_string();
        std::fs::write(&path, b"x").unwrap();
        assert_eq!(known.of_found(&path, unix_ms()), None, "it was not asked yet");
        assert_eq!(known.of_found(&path, unix_ms()), None);
        run(asker.ask_found(&known));
        let said = known.of_found(&path, unix_ms()).expect("it was asked");
        assert!(said.checked_at_unix_ms > 0);
        assert_eq!(known.next_wish(), None, "it need not be asked again");
        let later = said.checked_at_unix_ms + u64::try_from(ASK_INTERVAL.as_millis()).unwrap();
        assert_eq!(known.of_found(&path, later), Some(said), "the old word stands until there is a new one");
        assert_eq!(known.next_wish(), Some(path));
    }

    #[test]
    fn what_is_remembered_of_found_disks_is_bounded() {
        let known = KnownDrives::new(Ledger::default());
        for index in 0..2 * FOUND_MAX {
            known.of_found(&format!("/{index}"), 1);
            known.learn_found(format!("/{index}"), Smart { checked_at_unix_ms: 1, ..Smart::default() });
        }
        assert_eq!(known.lock().found.len(), FOUND_MAX);
        (0..2 * FOUND_MAX).for_each(|index| drop(known.of_found(&format!("/new/{index}"), 1)));
        assert_eq!(known.lock().wishes.len(), FOUND_MAX);
    }
}
