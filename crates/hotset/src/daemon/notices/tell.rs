//! A target is told of each event that it wants, in order, one after the other, as fast as it takes them and no faster than it wants.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotset_api::Event;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::deliver::deliver;
use super::delivery::DeliveryFailure;
use super::notice::Notice;
use super::rate::{LeftOut, Rate, Urgency};
use crate::daemon::counters::Counters;
use crate::daemon::notice_settings::{NoticeSettings, NoticeTarget};
use crate::daemon::register::ConditionRegister;
use crate::daemon::reporting::events::EventLog;
use crate::state_file;

/// How long one that failed is left alone: longer with each failure.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// A mail server that refuses one of several recipients for now (RFC 5321 section 4.2.1: 4yz) is asked again until the pause is this long, for a minute in
/// all; then the others get the mail.
const INSISTS_UNTIL: Duration = Duration::from_secs(64);

/// Events that wait for a target at most; of the older ones it is told only how many there were.
const WAITING_MAX: usize = 256;

/// How long nothing is done while nothing happens.
const IDLE: Duration = Duration::from_secs(3600);

/// See the file's summary.
pub(super) struct Teller {
    pub(super) target: NoticeTarget,
    pub(super) settings: watch::Receiver<Arc<NoticeSettings>>,
    pub(super) events: Arc<EventLog>,
    pub(super) register: ConditionRegister,
    pub(super) counters: Counters,
    /// The state directory.
    pub(super) directory: PathBuf,
    /// The newest event when it began.
    pub(super) newest_id: u64,
}

/// How far a target is, as it is kept over restarts.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Told {
    /// The newest event that it need not be told of any more.
    event_id: u64,
    /// Of those, what it was not told and is to be told the number of.
    #[serde(default)]
    left_out: LeftOut,
}

/// What a target was told, and what is to come.
struct Progress {
    told: u64,
    rate: Rate,
    pause: Duration,
    /// When it may be tried again.
    not_before: Option<Instant>,
    /// Who is refused for now keeps a mail from the others no more: that was waited for.
    goes_without: bool,
    /// The state directory has it.
    kept: bool,
}

impl Progress {
    /// Nothing failed yet.
    fn new(told: u64) -> Self {
        Self { told, rate: Rate::default(), pause: PAUSE, not_before: None, goes_without: false, kept: false }
    }

    fn try_at_once(&mut self) {
        (self.pause, self.not_before) = (PAUSE, None);
    }
}

impl Teller {
    /// Until the daemon ends. Blocks.
    pub(super) fn run(mut self) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => return self.register.raise(self.target.condition(), error.to_string()),
        };
        let mut newest = self.events.follow();
        let mut progress = Progress::new(self.newest_id);
        if let Some(Told { event_id, left_out }) = self.remembered() {
            // Events that were lost leave their numbers to others.
            progress.told = event_id.min(self.newest_id);
            progress.rate.left_out = left_out;
        }
        loop {
            newest.borrow_and_update();
            self.settings.borrow_and_update();
            let wait = self.tell_what_is_due(&mut progress);
            let changed = runtime.block_on(async {
                tokio::select! {
                    changed = newest.changed() => changed,
                    changed = self.settings.changed() => {
                        // What failed may have been mended by it; what fails still is told again.
                        progress.try_at_once();
                        self.register.clear(self.target.condition());
                        changed
                    }
                    () = tokio::time::sleep(wait) => Ok(()),
                }
            });
            // The daemon ends.
            if changed.is_err() {
                return;
            }
        }
    }

    /// Answers how long there is nothing to do, unless something happens.
    fn tell_what_is_due(&mut self, progress: &mut Progress) -> Duration {
        loop {
            let settings = Arc::clone(&self.settings.borrow());
            if !settings.has(self.target) {
                // Whoever configures it again wants to know what happens from then on.
                progress.told = self.events.list(Some(u64::MAX)).newest_id;
                progress.rate.left_out = LeftOut::default();
                progress.kept = false;
                forget(&self.directory, self.target);
                self.register.clear(self.target.condition());
                return IDLE;
            }
            if !progress.kept {
                // From here on it is told of everything, whether the daemon lives to do it or the next one.
                self.remember(progress);
            }
            let waiting = self.waiting(progress, &settings);
            let left_out = progress.rate.left_out;
            if waiting.is_empty() && left_out.count() == 0 {
                return IDLE;
            }
            let now = Instant::now();
            let rests = progress.not_before.map_or(Duration::ZERO, |time| time.saturating_duration_since(now));
            if rests > Duration::ZERO {
                return rests;
            }
            let urgency = waiting.first().map_or(Urgency::Usual, Urgency::of);
            let wait = progress.rate.wait(now, urgency, settings.limit, settings.window);
            if wait > Duration::ZERO {
                let too_many = waiting.iter().take_while(|event| Urgency::of(event) <= urgency).count();
                self.leave_out(progress, &waiting[..too_many]);
                if too_many == waiting.len() {
                    return wait;
                }
                continue;
            }
            match waiting.first().filter(|_| left_out.count() == 0 || urgency == Urgency::Error) {
                Some(event) => self.tell(progress, &settings, event),
                None => self.summarize(progress, &settings),
            }
        }
    }

    /// What it wants to know and was not told; what is too much is left out.
    fn waiting(&self, progress: &mut Progress, settings: &NoticeSettings) -> Vec<Event> {
        let mut waiting = Vec::new();
        let mut after = progress.told;
        loop {
            let list = self.events.list(Some(after));
            let Some(last) = list.events.last() else { break };
            after = last.id;
            waiting.extend(list.events.into_iter().filter(|event| settings.wants(event)));
        }
        // An error at the front is told, or left out by its own limit.
        let surplus = waiting.iter().take(waiting.len().saturating_sub(WAITING_MAX));
        let surplus = surplus.take_while(|event| Urgency::of(event) == Urgency::Usual).count();
        let surplus: Vec<Event> = waiting.drain(..surplus).collect();
        self.leave_out(progress, &surplus);
        if waiting.is_empty() {
            progress.told = after.max(progress.told);
        }
        waiting
    }

    fn leave_out(&self, progress: &mut Progress, events: &[Event]) {
        for event in events {
            progress.rate.left_out.add(event.severity, event.at_unix_ms);
            self.counters.notice_left_out();
        }
        if let Some(last) = events.last() {
            self.is_told(progress, last.id);
        }
    }

    fn tell(&self, progress: &mut Progress, settings: &NoticeSettings, event: &Event) {
        match self.try_to_tell(progress, settings, &Notice::of(event), Urgency::of(event)) {
            Ok(()) => self.is_told(progress, event.id),
            Err(failure) if failure.permanent => self.leave_out(progress, std::slice::from_ref(event)),
            Err(_) => {}
        }
    }

    fn summarize(&self, progress: &mut Progress, settings: &NoticeSettings) {
        let notice = Notice::summary(&progress.rate.left_out);
        if self.try_to_tell(progress, settings, &notice, Urgency::Usual).is_ok() {
            progress.rate.left_out = LeftOut::default();
            self.remember(progress);
        }
    }

    fn try_to_tell(
        &self,
        progress: &mut Progress,
        settings: &NoticeSettings,
        notice: &Notice,
        urgency: Urgency,
    ) -> Result<(), DeliveryFailure> {
        let insists = !progress.goes_without && progress.pause < INSISTS_UNTIL;
        let outcome = deliver(self.target, settings, notice, insists);
        let place = || format!("{} {}", self.target.words(), settings.address(self.target));
        match &outcome {
            Ok(delivery) => {
                tracing::debug!("{}: {}", place(), delivery.told());
                self.counters.notice_sent();
                progress.rate.told(Instant::now(), urgency);
                progress.try_at_once();
                progress.goes_without = !delivery.refused.is_empty();
                match delivery.refused.as_slice() {
                    [] => self.register.clear(self.target.condition()),
                    refused => {
                        let what = format!("{}: not for {}; others have it", place(), refused.join("; "));
                        self.register.raise(self.target.condition(), what);
                    }
                }
            }
            Err(DeliveryFailure { what, .. }) => {
                self.counters.notice_failed();
                progress.not_before = Some(Instant::now() + progress.pause);
                progress.pause = (progress.pause * 2).min(PAUSE_MAX);
                self.register.raise(self.target.condition(), format!("{}: {what}", place()));
            }
        }
        outcome.map(|_| ())
    }

    fn is_told(&self, progress: &mut Progress, event_id: u64) {
        progress.told = event_id;
        self.remember(progress);
    }

    fn remember(&self, progress: &mut Progress) {
        progress.kept = true;
        let told = Told { event_id: progress.told, left_out: progress.rate.left_out };
        let (name, text) = (file_name(self.target), serde_json::to_vec(&told).expect("its keys are strings"));
        // What is not kept is told twice after a restart.
        if let Err(error) = state_file::replace(&self.directory, &name, &text) {
            tracing::debug!("{name}: {error}");
        }
    }

    fn remembered(&self) -> Option<Told> {
        let text = state_file::read(&self.directory.join(file_name(self.target))).ok()??;
        serde_json::from_slice(&text).ok()
    }
}

/// A target that is not configured any more: whoever configures it again wants to know what happens from then on.
pub(super) fn forget(directory: &Path, target: NoticeTarget) {
    if let Err(error) = state_file::remove_if_there(&directory.join(file_name(target))) {
        tracing::debug!("{error}");
    }
}

fn file_name(target: NoticeTarget) -> String {
    format!("notices-{}.json", target.word())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    const PATH: &str = "/services/T00/B00/XXXX?key=YYYY";

    /// Refuses one request, and repeats its path.
    fn refuse_once(listener: &TcpListener) {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut body_bytes = 0;
        for line in (&mut stream).lines().map(Result::unwrap).take_while(|line| !line.is_empty()) {
            body_bytes = line.strip_prefix("content-length: ").map_or(body_bytes, |length| length.parse().unwrap());
        }
        stream.read_exact(&mut vec![0; body_bytes]).unwrap();
        let path = PATH.split_once('?').unwrap().0;
        let answer = format!("no hook {PATH} nor {path}");
        let head = format!("HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.get_mut().write_all((head + &answer).as_bytes()).unwrap();
    }

    #[test]
    fn the_path_of_a_web_hook_is_in_no_condition() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let table = toml::from_str(&format!("web_hook = \"http://127.0.0.1:{port}{PATH}\"")).unwrap();
        let settings = NoticeSettings::of(table).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (counters, register) = (Counters::default(), ConditionRegister::default());
        let teller = Teller {
            target: NoticeTarget::WebHook,
            settings: watch::channel(Arc::new(settings.clone())).1,
            events: Arc::new(EventLog::open(directory.path(), counters.clone())),
            register: register.clone(),
            counters,
            directory: directory.path().to_owned(),
            newest_id: 0,
        };
        let mut progress = Progress { kept: true, ..Progress::new(0) };
        let mut reason = || {
            teller.try_to_tell(&mut progress, &settings, &Notice::test(), Urgency::Usual).unwrap_err();
            register.all(Vec::new())[0].reason.clone()
        };
        let hook = std::thread::spawn(move || refuse_once(&listener));
        let refused = reason();
        hook.join().unwrap();
        let not_reached = reason();
        assert_eq!(refused, format!("web hook http://127.0.0.1:{port}/…: answered 404 Not Found: no hook … nor …"));
        assert!(not_reached.starts_with(&format!("web hook http://127.0.0.1:{port}/…: ")), "{not_reached}");
        for part in ["services", "XXXX", "YYYY"] {
            assert!(!not_reached.contains(part), "{not_reached}");
        }
    }
}
