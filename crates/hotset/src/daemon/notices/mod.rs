//! Notices: events go to people, by a web hook and by e-mail.
//!
//! Each target has a thread of its own, which follows the event log: that is its queue, and the state directory remembers up to which
//! event it was told. Nobody waits for a target. One that fails is a condition, and is tried again; what it cannot be told any more, and
//! what is more than it wants to be told, is counted and told in one notice.

// Nouns: what is to be told, to whom, and how much of it.
mod delivery;
mod notice;
mod rate;

// Verbs: telling it.
mod deliver;
mod mail;
mod tell;
mod trust;
mod web_hook;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use hotset_api::{ApiError, ApiErrorKind, NoticeAnswer, NoticeTest};
use tokio::sync::watch;

use self::notice::Notice;
use self::tell::Teller;
use super::blocking::blocking;
use super::counters::Counters;
use super::notice_settings::{NoticeSettings, NoticeTarget};
use super::register::ConditionRegister;
use super::reporting::events::EventLog;
use crate::given_file;

/// Whether the files that the settings name can be used. Blocks, for a limited time.
///
/// # Errors
/// The key, and a message that names the file.
pub(crate) fn check_files(settings: &NoticeSettings) -> Result<(), (&'static str, String)> {
    for (key, file) in settings.files() {
        given_file::read_text(file).map_err(|error| (key, format!("{}: {error}", file.display())))?;
    }
    if let Some(hook) = &settings.web_hook {
        hook.address.resolve().map_err(|error| ("web_hook_file", error))?;
    }
    for (key, file) in settings.authorities() {
        trust::authorities(Some(file)).map_err(|error| (key, error))?;
    }
    Ok(())
}

/// What a target is told from. A handle: cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Notices {
    settings: watch::Sender<Arc<NoticeSettings>>,
    events: Arc<EventLog>,
    register: ConditionRegister,
    counters: Counters,
    /// The state directory.
    directory: PathBuf,
    /// Targets that have a thread.
    followed: Arc<Mutex<Vec<NoticeTarget>>>,
}

impl Notices {
    pub(crate) fn start(
        settings: NoticeSettings,
        events: Arc<EventLog>,
        register: ConditionRegister,
        counters: Counters,
        directory: PathBuf,
    ) -> Self {
        let settings = watch::Sender::new(Arc::new(settings));
        let notices = Self { settings, events, register, counters, directory, followed: Arc::default() };
        let configured = notices.settings.borrow().targets();
        let others = NoticeTarget::ALL.into_iter().filter(|target| !configured.contains(target));
        others.for_each(|target| tell::forget(&notices.directory, target));
        notices.follow_all();
        notices
    }

    /// From now on it is as the configuration says now.
    pub(crate) fn reload(&self, settings: NoticeSettings) {
        self.settings.send_replace(Arc::new(settings));
        self.follow_all();
    }

    /// Targets that nobody ever configured cost nothing.
    fn follow_all(&self) {
        let targets = self.settings.borrow().targets();
        // Taken here: what happens while their threads begin is told.
        let newest_id = self.events.list(Some(u64::MAX)).newest_id;
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        for target in targets {
            if followed.contains(&target) {
                continue;
            }
            let teller = Teller {
                target,
                settings: self.settings.subscribe(),
                events: Arc::clone(&self.events),
                register: self.register.clone(),
                counters: self.counters.clone(),
                directory: self.directory.clone(),
                newest_id,
            };
            let thread = std::thread::Builder::new().name(target.word().to_owned()).spawn(move || teller.run());
            match thread {
                Ok(_) => followed.push(target),
                Err(error) => {
                    self.register.raise(target.condition(), format!("{}: no thread: {error}", target.words()))
                }
            }
        }
    }

    /// Tells each target now that this is a test, once.
    ///
    /// # Errors
    /// `Refused`: there is none.
    pub(crate) async fn test(&self) -> Result<NoticeTest, ApiError> {
        let settings = Arc::clone(&self.settings.borrow());
        let targets = settings.targets();
        if targets.is_empty() {
            let message = "notices: no target is configured";
            return Err(ApiError::new(ApiErrorKind::Refused, message).with_hint(
                "name a web hook or an e-mail address in [notices] of hotset.toml, then `systemctl reload hotset`",
            ));
        }
        let mut asked = Vec::new();
        for target in targets {
            let settings = Arc::clone(&settings);
            asked.push(async move {
                let (to, words) = (settings.address(target), target.words());
                let told = blocking(move || deliver::deliver(target, &settings, &Notice::test(), false)).await?;
                let (ok, answer) = match told {
                    Ok(delivery) => (delivery.refused.is_empty(), delivery.told()),
                    Err(failure) => (false, failure.what),
                };
                Ok::<_, ApiError>(NoticeAnswer { target: words.to_owned(), address: to, ok, answer })
            });
        }
        let answers = futures_util::future::join_all(asked).await;
        Ok(NoticeTest { targets: answers.into_iter().collect::<Result<_, _>>()? })
    }
}
