//! What `[notices]` of the configuration says: who is told, of what, and how much.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use hotset_api::{ConditionKind, Event, Severity, SubjectKind};
use hyper::Uri;
use lettre::Address;
use lettre::message::Mailbox;
use serde::Deserialize;

use crate::given_file;

/// Notices in a window at most.
const LIMIT: u32 = 30;
const LIMIT_MAX: u32 = 1000;

/// How long the window is: an hour, a day at most.
const WINDOW_S: u64 = 3600;
const WINDOW_S_MAX: u64 = 86_400;

/// How long a target may take to take one.
const TIMEOUT_S: u64 = 10;
const TIMEOUT_S_MAX: u64 = 60;

/// Addresses of e-mail at most.
const RECIPIENTS_MAX: usize = 20;

/// Stands for what is not shown.
const HIDDEN: &str = "…";

/// The table as it is written. What is left out stays at its default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoticesTable {
    severity: Option<String>,
    subjects: Option<Vec<String>>,
    limit: Option<u32>,
    limit_window_s: Option<u64>,
    timeout_s: Option<u64>,
    web_hook: Option<String>,
    web_hook_file: Option<PathBuf>,
    web_hook_token_file: Option<PathBuf>,
    web_hook_ca: Option<PathBuf>,
    mail_to: Option<Vec<String>>,
    mail_from: Option<String>,
    smtp_host: Option<String>,
    smtp_port: Option<u16>,
    smtp_security: Option<String>,
    smtp_user: Option<String>,
    smtp_password_file: Option<PathBuf>,
    smtp_ca: Option<PathBuf>,
}

/// Whom notices go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeTarget {
    WebHook,
    Mail,
}

impl NoticeTarget {
    pub(crate) const ALL: [Self; 2] = [Self::WebHook, Self::Mail];

    /// Short, for files and threads.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::WebHook => "web-hook",
            Self::Mail => "mail",
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::WebHook => "web hook",
            Self::Mail => "e-mail",
        }
    }

    /// That it fails.
    pub(crate) fn condition(self) -> ConditionKind {
        match self {
            Self::WebHook => ConditionKind::WebHook,
            Self::Mail => ConditionKind::Mail,
        }
    }
}

/// What events are about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SubjectWanted {
    kind: SubjectKind,
    /// None: all of that kind.
    name: Option<String>,
}

/// Where a web hook is. Whoever has all of it may post there: it is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookAddress {
    Uri(Uri),
    /// In a file of its own.
    File {
        path: PathBuf,
        has_token: bool,
    },
}

impl HookAddress {
    /// Reads the file, if it is in one.
    ///
    /// # Errors
    /// A message for people, without the address.
    pub(crate) fn resolve(&self) -> Result<Uri, String> {
        match self {
            Self::Uri(uri) => Ok(uri.clone()),
            Self::File { path, has_token } => {
                let context = |error: String| format!("{}: {error}", path.display());
                let text = given_file::read_text(path).map_err(|error| context(error.to_string()))?;
                hook_uri(text.trim(), *has_token).map_err(|(_, error)| context(error))
            }
        }
    }

    /// What people are told of it.
    fn told(&self) -> String {
        match self {
            Self::Uri(uri) => {
                let scheme = uri.scheme_str().unwrap_or_default();
                let authority = uri.authority().map_or("", |authority| authority.as_str());
                format!("{scheme}://{authority}/{HIDDEN}")
            }
            Self::File { path, .. } => format!("of {}", path.display()),
        }
    }
}

/// What people are told of an answer, which may repeat what was asked.
pub(crate) fn hide_path(uri: &Uri, answer: &str) -> String {
    let whole = uri.path_and_query().map_or("", |whole| whole.as_str());
    // The longest first.
    let secrets = [whole, uri.path(), uri.query().unwrap_or_default()];
    let secrets = secrets.into_iter().filter(|secret| secret.len() > 1);
    secrets.fold(answer.to_owned(), |answer, secret| answer.replace(secret, HIDDEN))
}

/// Where events are posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebHook {
    pub(crate) address: HookAddress,
    pub(crate) token_file: Option<PathBuf>,
    /// Whose certificates are trusted instead of those of the system's authorities.
    pub(crate) ca: Option<PathBuf>,
}

/// How a mail server is talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    None,
    StartTls,
    Tls,
}

/// Where e-mail is handed in, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mail {
    pub(crate) to: Vec<Mailbox>,
    /// None: hotset at this machine.
    pub(crate) from: Option<Mailbox>,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) security: Security,
    /// The user, and the file with its password.
    pub(crate) login: Option<(String, PathBuf)>,
    pub(crate) ca: Option<PathBuf>,
}

/// What was configured, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoticeSettings {
    severity: Severity,
    subjects: Vec<SubjectWanted>,
    pub(crate) limit: u32,
    pub(crate) window: Duration,
    pub(crate) timeout: Duration,
    pub(crate) web_hook: Option<WebHook>,
    pub(crate) mail: Option<Mail>,
}

impl NoticeSettings {
    /// # Errors
    /// A message for people that begins with the key.
    pub(crate) fn of(table: NoticesTable) -> Result<Self, String> {
        let limit = within("limit", table.limit.unwrap_or(LIMIT), 1, LIMIT_MAX)?;
        let window_s = within("limit_window_s", table.limit_window_s.unwrap_or(WINDOW_S), 1, WINDOW_S_MAX)?;
        let timeout_s = within("timeout_s", table.timeout_s.unwrap_or(TIMEOUT_S), 1, TIMEOUT_S_MAX)?;
        Ok(Self {
            severity: severity(table.severity.as_deref().unwrap_or("warning"))?,
            subjects: table.subjects.iter().flatten().map(|text| wanted(text)).collect::<Result<_, _>>()?,
            limit,
            window: Duration::from_secs(window_s),
            timeout: Duration::from_secs(timeout_s),
            web_hook: web_hook(&table)?,
            mail: mail(&table)?,
        })
    }

    pub(crate) fn targets(&self) -> Vec<NoticeTarget> {
        let web_hook = self.web_hook.as_ref().map(|_| NoticeTarget::WebHook);
        web_hook.into_iter().chain(self.mail.as_ref().map(|_| NoticeTarget::Mail)).collect()
    }

    pub(crate) fn has(&self, target: NoticeTarget) -> bool {
        self.targets().contains(&target)
    }

    /// Of a target, for people: without what is secret.
    pub(crate) fn address(&self, target: NoticeTarget) -> String {
        let of_hook = || self.web_hook.as_ref().map(|hook| hook.address.told());
        let of_mail = || {
            let mail = self.mail.as_ref()?;
            let to: Vec<String> = mail.to.iter().map(ToString::to_string).collect();
            Some(format!("{} by {}:{}", to.join(", "), mail.host, mail.port))
        };
        let address = match target {
            NoticeTarget::WebHook => of_hook(),
            NoticeTarget::Mail => of_mail(),
        };
        address.unwrap_or_default()
    }

    /// Whether anybody wants to know of this.
    pub(crate) fn wants(&self, event: &Event) -> bool {
        let is_it = |wanted: &SubjectWanted| {
            let of_it = event.subject.kind == wanted.kind
                && wanted.name.as_ref().is_none_or(|name| event.subject.name == *name || event.path == *name);
            // An SSD's event concerns its pool.
            of_it || (wanted.kind == SubjectKind::Pool && wanted.name.is_some() && event.pool == wanted.name)
        };
        event.severity >= self.severity && (self.subjects.is_empty() || self.subjects.iter().any(is_it))
    }

    /// The files that it names, by their keys.
    pub(crate) fn files(&self) -> Vec<(&'static str, &Path)> {
        let hook = self.web_hook.as_ref();
        let mail = self.mail.as_ref();
        [
            ("web_hook_token_file", hook.and_then(|hook| hook.token_file.as_deref())),
            ("smtp_password_file", mail.and_then(|mail| mail.login.as_ref()).map(|(_, file)| file.as_path())),
        ]
        .into_iter()
        .filter_map(|(key, file)| file.map(|file| (key, file)))
        .collect()
    }

    /// Files with authorities that it names, by their keys.
    pub(crate) fn authorities(&self) -> Vec<(&'static str, &Path)> {
        let hook = self.web_hook.as_ref().and_then(|hook| hook.ca.as_deref());
        let mail = self.mail.as_ref().and_then(|mail| mail.ca.as_deref());
        [("web_hook_ca", hook), ("smtp_ca", mail)].into_iter().filter_map(|(key, file)| Some((key, file?))).collect()
    }
}

fn within<T: Copy + PartialOrd + std::fmt::Display>(key: &str, value: T, least: T, most: T) -> Result<T, String> {
    let message = || format!("{key} {value}: it is {least} to {most}");
    if value < least || value > most { Err(message()) } else { Ok(value) }
}

fn severity(text: &str) -> Result<Severity, String> {
    let all = [Severity::Info, Severity::Warning, Severity::Error];
    let found = all.into_iter().find(|severity| severity.word() == text);
    found.ok_or_else(|| format!("severity {text:?}: it is info, warning or error"))
}

fn wanted(text: &str) -> Result<SubjectWanted, String> {
    let (kind, name) = match text.split_once(' ') {
        Some((kind, name)) => (kind, Some(name.trim().to_owned())),
        None => (text, None),
    };
    let kinds = [
        ("daemon", SubjectKind::Daemon),
        ("pool", SubjectKind::Pool),
        ("ssd", SubjectKind::Ssd),
        ("volume", SubjectKind::Volume),
    ];
    let found = kinds.into_iter().find(|(word, _)| *word == kind);
    let (_, kind) = found.ok_or_else(|| {
        format!(
            "subjects {text:?}: each is daemon, pool, ssd or volume, or one of them with its name, as \"pool fast\""
        )
    })?;
    Ok(SubjectWanted { kind, name })
}

/// Not given, or given as empty.
fn given(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}

fn file(key: &str, path: Option<&PathBuf>) -> Result<Option<PathBuf>, String> {
    match path.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) if !path.is_absolute() => {
            Err(format!("{key}: name the file from the root, as \"/etc/hotset/secret\""))
        }
        path => Ok(path.cloned()),
    }
}

fn is_this_machine(host: &str) -> bool {
    let number = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || number.is_ok_and(|address| address.is_loopback())
}

fn web_hook(table: &NoticesTable) -> Result<Option<WebHook>, String> {
    let (address_file, token_file, ca) = (
        file("web_hook_file", table.web_hook_file.as_ref())?,
        file("web_hook_token_file", table.web_hook_token_file.as_ref())?,
        file("web_hook_ca", table.web_hook_ca.as_ref())?,
    );
    let has_token = token_file.is_some();
    let address = match (given(table.web_hook.as_ref()), address_file) {
        (None, None) => {
            return match (token_file, ca) {
                (None, None) => Ok(None),
                (Some(_), _) => Err("web_hook_token_file: there is no web_hook".to_owned()),
                (None, Some(_)) => Err("web_hook_ca: there is no web_hook".to_owned()),
            };
        }
        (Some(_), Some(_)) => return Err("web_hook_file: there is a web_hook too; one of them says where".to_owned()),
        (Some(text), None) => {
            HookAddress::Uri(hook_uri(text, has_token).map_err(|(key, error)| format!("{key}: {error}"))?)
        }
        (None, Some(path)) => HookAddress::File { path, has_token },
    };
    Ok(Some(WebHook { address, token_file, ca }))
}

/// The address of a web hook that is written as `text`.
///
/// # Errors
/// The key that is wrong and why, without the text: its path is a secret.
fn hook_uri(text: &str, has_token: bool) -> Result<Uri, (&'static str, String)> {
    let what = "write it as \"https://example.org/path\"";
    let uri: Uri = text.parse().map_err(|error| ("web_hook", format!("{error}; {what}")))?;
    let (Some("http" | "https"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(("web_hook", what.to_owned()));
    };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(("web_hook", "it has a user in it; secrets go into web_hook_token_file".to_owned()));
    }
    if has_token && uri.scheme_str() == Some("http") && !is_this_machine(host) {
        return Err(("web_hook_token_file", "a token goes to no other machine in the clear; use https".to_owned()));
    }
    Ok(uri)
}

fn mail(table: &NoticesTable) -> Result<Option<Mail>, String> {
    let recipients = table.mail_to.clone().unwrap_or_default();
    let host = given(table.smtp_host.as_ref()).cloned();
    let Some(host) = host else {
        return if recipients.is_empty() {
            Ok(None)
        } else {
            Err("mail_to: name the mail server with smtp_host".to_owned())
        };
    };
    if recipients.is_empty() || recipients.len() > RECIPIENTS_MAX {
        return Err(format!("mail_to: it has 1 to {RECIPIENTS_MAX} addresses"));
    }
    let mailbox = |key: &str, text: &str| Mailbox::from_str(text).map_err(|error| format!("{key} {text:?}: {error}"));
    let to = recipients.iter().map(|text| mailbox("mail_to", text)).collect::<Result<_, _>>()?;
    let from = given(table.mail_from.as_ref()).map(|text| mailbox("mail_from", text)).transpose()?;
    let (security, usual_port) = match table.smtp_security.as_deref().unwrap_or("starttls") {
        "none" => (Security::None, 25),
        "starttls" => (Security::StartTls, 587),
        "tls" => (Security::Tls, 465),
        other => return Err(format!("smtp_security {other:?}: it is starttls, tls or none")),
    };
    let port = table.smtp_port.filter(|port| *port > 0).unwrap_or(usual_port);
    let login = login(table)?;
    if login.is_some() && security == Security::None && !is_this_machine(&host) {
        return Err(
            "smtp_user: a password goes to no other machine in the clear; smtp_security = \"starttls\"".to_owned()
        );
    }
    let ca = file("smtp_ca", table.smtp_ca.as_ref())?;
    Ok(Some(Mail { to, from, host, port, security, login, ca }))
}

fn login(table: &NoticesTable) -> Result<Option<(String, PathBuf)>, String> {
    let password = file("smtp_password_file", table.smtp_password_file.as_ref())?;
    match (given(table.smtp_user.as_ref()), password) {
        (Some(user), Some(password)) => Ok(Some((user.clone(), password))),
        (None, None) => Ok(None),
        (Some(_), None) => Err("smtp_user: it needs smtp_password_file".to_owned()),
        (None, Some(_)) => Err("smtp_password_file: it needs smtp_user".to_owned()),
    }
}

/// Where notices come from, unless the configuration says so; the machine may have a name that no address has.
pub(crate) fn sender_at(machine: &str) -> Mailbox {
    let address = Address::new("hotset", machine).or_else(|_| Address::new("hotset", "localhost"));
    Mailbox::new(Some("Hotset".to_owned()), address.expect("localhost is a domain"))
}

#[cfg(test)]
mod tests {
    use hotset_api::Subject;

    use super::*;

    fn settings(text: &str) -> Result<NoticeSettings, String> {
        NoticeSettings::of(toml::from_str(text).unwrap())
    }

    fn event(severity: Severity, kind: SubjectKind, name: &str, pool: Option<&str>) -> Event {
        Event {
            id: 1,
            at_unix_ms: 0,
            severity,
            subject: Subject::new(kind, name),
            pool: pool.map(str::to_owned),
            path: String::new(),
            change: "state online → offline".to_owned(),
            cause: String::new(),
            by: String::new(),
        }
    }

    // proves: O4
    #[test]
    fn only_what_is_wanted_is_told() {
        let default = settings("").unwrap();
        assert!(default.targets().is_empty());
        assert!(default.wants(&event(Severity::Warning, SubjectKind::Volume, "v", None)));
        assert!(!default.wants(&event(Severity::Info, SubjectKind::Volume, "v", None)));
        let some = settings("severity = \"info\"\nsubjects = [\"pool fast\", \"daemon\"]").unwrap();
        assert!(some.wants(&event(Severity::Info, SubjectKind::Pool, "fast", None)));
        assert!(some.wants(&event(Severity::Info, SubjectKind::Ssd, "uuid", Some("fast"))), "it is the pool's");
        assert!(some.wants(&event(Severity::Info, SubjectKind::Daemon, "", None)));
        assert!(!some.wants(&event(Severity::Error, SubjectKind::Pool, "slow", None)));
        assert!(!some.wants(&event(Severity::Error, SubjectKind::Volume, "v", None)));
    }

    // proves: O4
    #[test]
    fn the_address_of_a_web_hook_may_lie_in_a_file_which_alone_says_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hook");
        let settings = settings(&format!("web_hook_file = \"{}\"", path.display())).unwrap();
        let hook = settings.web_hook.clone().unwrap();
        let missing = hook.address.resolve().expect_err("no file");
        assert!(missing.contains(&path.display().to_string()), "{missing}");
        std::fs::write(&path, "https://chat.example/hooks/SECRET\n").unwrap();
        assert_eq!(hook.address.resolve().unwrap().path(), "/hooks/SECRET");
        assert_eq!(settings.address(NoticeTarget::WebHook), format!("of {}", path.display()));
        std::fs::write(&path, "ftp://chat.example/hooks/SECRET").unwrap();
        let wrong = hook.address.resolve().expect_err("no web hook");
        assert!(wrong.contains("https://") && !wrong.contains("SECRET"), "{wrong}");
    }

    // proves: O4
    #[test]
    fn each_key_is_checked_and_the_message_begins_with_it() {
        for (text, begins, part) in [
            ("severity = \"bad\"", "severity", "info, warning or error"),
            ("subjects = [\"disk\"]", "subjects", "\"disk\""),
            ("limit = 0", "limit", "1 to 1000"),
            ("limit_window_s = 100000", "limit_window_s", "86400"),
            ("timeout_s = 0", "timeout_s", "1 to 60"),
            ("web_hook = \"ftp://a\"", "web_hook", "https://"),
            ("web_hook = \"https://me:secret@a/\"", "web_hook", "token_file"),
            ("web_hook_token_file = \"/t\"", "web_hook_token_file", "no web_hook"),
            ("web_hook = \"http://a/\"\nweb_hook_token_file = \"/t\"", "web_hook_token_file", "clear"),
            ("web_hook = \"https://a/\"\nweb_hook_ca = \"t\"", "web_hook_ca", "from the root"),
            ("web_hook = \"https://a/\"\nweb_hook_file = \"/f\"", "web_hook_file", "one of them"),
            ("web_hook_file = \"f\"", "web_hook_file", "from the root"),
            ("mail_to = [\"a@b.example\"]", "mail_to", "smtp_host"),
            ("smtp_host = \"a\"", "mail_to", "1 to 20"),
            ("smtp_host = \"a\"\nmail_to = [\"nobody\"]", "mail_to", "nobody"),
            ("smtp_host = \"a\"\nmail_to = [\"a@b.example\"]\nsmtp_security = \"ssl\"", "smtp_security", "starttls"),
            ("smtp_host = \"a\"\nmail_to = [\"a@b.example\"]\nsmtp_user = \"u\"", "smtp_user", "smtp_password_file"),
            (
                "smtp_host = \"a\"\nmail_to = [\"a@b.example\"]\nsmtp_user = \"u\"\nsmtp_password_file = \"/p\"\nsmtp_security = \"none\"",
                "smtp_user",
                "clear",
            ),
        ] {
            let message = settings(text).expect_err(text);
            assert!(message.starts_with(begins) && message.contains(part), "{text}: {message}");
        }
        let typo = settings("web_hook = \"htps://a/XXXX\"").unwrap_err();
        assert!(!typo.contains("XXXX"), "its path is a secret: {typo}");
        let both =
            settings("web_hook = \"https://a/b\"\nsmtp_host = \"m\"\nmail_to = [\"Ops <a@b.example>\"]").unwrap();
        assert_eq!(both.address(NoticeTarget::WebHook), "https://a/…");
        assert_eq!(both.targets(), [NoticeTarget::WebHook, NoticeTarget::Mail]);
        assert_eq!(both.mail.as_ref().map(|mail| (mail.port, mail.security)), Some((587, Security::StartTls)));
        assert_eq!(both.address(NoticeTarget::Mail), "Ops <a@b.example> by m:587");
        assert_eq!(sender_at("cache 1").to_string(), "Hotset <hotset@localhost>");
    }
}
