//! The configuration file and the flags that override it.

use std::io::ErrorKind;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::DeTable;

use super::memory::Memory;
use super::notice_settings::{NoticeSettings, NoticesTable};
use crate::args::ServeArguments;
use crate::endpoint::Endpoint;
use crate::given_file;
use crate::machine::CONFIGURED_LENGTH_MAX;
use crate::paths;
use crate::size::{Size, human};

/// How long missing SSDs are waited for at the start, unless told otherwise.
const MISSING_WAIT_S: u64 = 30;

/// How long a request may take, unless told otherwise: what the kernel's SCSI disks have.
const REQUEST_TIMEOUT_S: u64 = 30;

/// Threads of the data plane at most.
const THREADS_MAX: usize = 64;

/// The most that may be waited: a day.
const MISSING_WAIT_S_MAX: u64 = 86_400;

/// The file, as it is written. What is left out stays at its default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    api: Option<Vec<String>>,
    nbd: Option<Vec<String>>,
    nbd_socket_group: Option<String>,
    nbd_socket_mode: Option<String>,
    state: Option<PathBuf>,
    machine_id: Option<String>,
    missing_wait_s: Option<u64>,
    request_timeout_s: Option<u64>,
    threads: Option<u16>,
    memory_limit: Option<String>,
    memory_cache: Option<String>,
    log: Option<String>,
    ssd_scan: Option<Vec<String>>,
    udev_rules: Option<PathBuf>,
    tls: Option<TlsFiles>,
    api_tls: Option<ApiTlsFiles>,
    api_names: Option<Vec<String>>,
    event_hook: Option<Vec<String>>,
    notices: Option<NoticesTable>,
    smartctl: Option<String>,
}

/// PEM files for the control API and the console over TLS.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiTlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// PEM files for NBD over TLS.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The authority whose client certificates are demanded.
    pub(crate) client_ca: PathBuf,
}

/// What the daemon runs with.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) api: Vec<Endpoint>,
    pub(crate) nbd: Vec<Endpoint>,
    /// Of the unix sockets for hosts; none: the daemon's own.
    pub(crate) nbd_socket_group: Option<u32>,
    pub(crate) nbd_socket_mode: u32,
    pub(crate) state: PathBuf,
    /// What pools are marked with while they are open here; none: a number that the state directory keeps.
    pub(crate) machine_id: Option<String>,
    pub(crate) missing_wait_s: u64,
    /// How long a host's request may take until it is answered with an error.
    pub(crate) request_timeout_s: u64,
    /// Of the data plane.
    pub(crate) threads: NonZero<usize>,
    /// What the tables of all pools may take.
    pub(crate) memory_limit_bytes: u64,
    /// Of the memory cache, unless an administrator has set another size.
    pub(crate) memory_cache_bytes: u64,
    /// What the whole daemon may take.
    pub(crate) memory: Memory,
    pub(crate) log: String,
    /// Paths whose last part may have `*` and `?`: where SSDs are looked for.
    pub(crate) ssd_scan: Vec<String>,
    /// Where the rules go that keep the system off block devices with dirty data; none: nowhere.
    pub(crate) udev_rules: Option<PathBuf>,
    pub(crate) tls: Option<TlsFiles>,
    /// Without it the control API is for this machine alone.
    pub(crate) api_tls: Option<ApiTlsFiles>,
    /// Names by which others call this machine, beside its addresses.
    pub(crate) api_names: Vec<String>,
    /// A program with its arguments that is run for each event; empty: none.
    pub(crate) event_hook: Vec<String>,
    /// Whom events are told.
    pub(crate) notices: NoticeSettings,
    /// The program that is asked for the SSDs' health; empty: none.
    pub(crate) smartctl: String,
}

impl Config {
    /// Flags first, then the file, then the defaults.
    ///
    /// # Errors
    /// One message for people that names the file and the line, or the flag.
    pub(crate) fn load(arguments: &ServeArguments, api: &[Endpoint]) -> Result<Self, String> {
        Self::load_written(arguments, api).map(|(config, _)| config)
    }

    /// As [`Self::load`], with what the file says, word by word.
    pub(super) fn load_written(arguments: &ServeArguments, api: &[Endpoint]) -> Result<(Self, ConfigText), String> {
        let (file, written) = read_file(arguments.config.as_deref())?;
        let config = Self::of(arguments, api, file).map_err(|message| written.placed(&message))?;
        Ok((config, written))
    }

    fn of(arguments: &ServeArguments, api: &[Endpoint], file: ConfigFile) -> Result<Self, String> {
        let state = arguments.state.clone().or(file.state).unwrap_or_else(paths::state_directory);
        let state =
            std::path::absolute(&state).map_err(|error| format!("state directory {}: {error}", state.display()))?;
        let memory = Memory::of_this_process(Path::new("/"))?;
        let config = Self {
            api: chosen(api, file.api, "api", || paths::api_socket(&state))?,
            nbd: chosen(&arguments.nbd, file.nbd, "nbd", || paths::nbd_socket(&state))?,
            nbd_socket_mode: socket_mode(file.nbd_socket_mode.as_deref(), file.nbd_socket_group.is_some())?,
            nbd_socket_group: file.nbd_socket_group.as_deref().map(group).transpose()?,
            machine_id: file.machine_id,
            missing_wait_s: arguments.missing_wait.or(file.missing_wait_s).unwrap_or(MISSING_WAIT_S),
            request_timeout_s: file.request_timeout_s.unwrap_or(REQUEST_TIMEOUT_S),
            threads: threads(arguments.threads.or(file.threads))?,
            memory_limit_bytes: memory_limit(arguments.memory_limit, file.memory_limit.as_deref(), &memory)?,
            memory_cache_bytes: memory_cache(arguments.memory_cache, file.memory_cache.as_deref(), &memory)?,
            memory,
            log: arguments.log.clone().or(file.log).unwrap_or_else(|| "info".to_owned()),
            ssd_scan: file.ssd_scan.unwrap_or_default(),
            udev_rules: udev_rules(file.udev_rules),
            tls: tls(arguments, file.tls)?,
            api_tls: file.api_tls,
            api_names: file.api_names.unwrap_or_default(),
            event_hook: file.event_hook.unwrap_or_default(),
            notices: NoticeSettings::of(file.notices.unwrap_or_default())?,
            smartctl: file.smartctl.unwrap_or_else(|| "smartctl".to_owned()),
            state,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.missing_wait_s > MISSING_WAIT_S_MAX {
            return Err(format!("missing_wait_s {}: it is at most {MISSING_WAIT_S_MAX}, a day", self.missing_wait_s));
        }
        let is_id =
            |id: &String| (1..=CONFIGURED_LENGTH_MAX).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic());
        if self.machine_id.as_ref().is_some_and(|id| !is_id(id)) {
            return Err(format!("machine_id: it is 1 to {CONFIGURED_LENGTH_MAX} letters, digits and signs of ASCII"));
        }
        if !(1..=3600).contains(&self.request_timeout_s) {
            return Err(format!("request_timeout_s {}: it is 1 to 3600", self.request_timeout_s));
        }
        if self.event_hook.first().is_some_and(|program| !Path::new(program).is_absolute()) {
            return Err("event_hook: name the program from the root, as [\"/usr/local/bin/hook\"]".to_owned());
        }
        let in_state = |endpoint: &&Endpoint| match endpoint {
            Endpoint::Unix(path) => path.starts_with(&self.state),
            Endpoint::Tcp(_) => false,
        };
        if let (Some(_), Some(endpoint)) = (self.nbd_socket_group, self.nbd.iter().find(in_state)) {
            return Err(format!(
                "nbd_socket_group: {endpoint} is in the state directory, into which nobody else gets; name a socket elsewhere \
                 with nbd, as unix:/run/hotset/nbd.sock"
            ));
        }
        for endpoint in &self.api {
            if let Endpoint::Tcp(address) = endpoint
                && !address.ip().is_loopback()
                && self.api_tls.is_none()
            {
                return Err(format!(
                    "api {endpoint}: without TLS the control API listens on loopback addresses only (127.0.0.1 or \
                     ::1), because whoever reaches it owns all volumes; give it a certificate with [api_tls] in the \
                     configuration, or reach it through ssh"
                ));
            }
        }
        self.check_distinct_endpoints()?;
        for endpoint in self.api.iter().chain(&self.nbd) {
            if let Endpoint::Unix(path) = endpoint
                && path.as_os_str().len() > crate::endpoint::SOCKET_PATH_BYTES_MAX
            {
                return Err(format!(
                    "{endpoint}: the path of a socket has at most {} bytes; name a shorter one with --api and --nbd",
                    crate::endpoint::SOCKET_PATH_BYTES_MAX
                ));
            }
        }
        Ok(())
    }
}

impl Config {
    fn check_distinct_endpoints(&self) -> Result<(), String> {
        let all: Vec<(&str, &Endpoint)> =
            self.api.iter().map(|of| ("api", of)).chain(self.nbd.iter().map(|of| ("nbd", of))).collect();
        for (index, (key, endpoint)) in all.iter().enumerate() {
            if let Some((before, same)) = all[..index].iter().find(|(_, other)| endpoint.excludes(other)) {
                let same =
                    if same == endpoint { "it".to_owned() } else { format!("{same}, which is the same address,") };
                return Err(format!("{key} {endpoint}: {before} has {same} already; each socket needs one of its own"));
            }
        }
        Ok(())
    }
}

/// The file as it was read: where what is wrong stands.
#[derive(Default)]
pub(super) struct ConfigText {
    path: PathBuf,
    text: String,
}

impl ConfigText {
    /// What is wrong with a key, of a table if one is named, with file and line before it.
    pub(super) fn told(&self, table: Option<&str>, key: &str, message: &str) -> String {
        let line = self.line_of(table, key).map(|line| format!(", line {line}")).unwrap_or_default();
        let table = table.map(|table| format!("[{table}] ")).unwrap_or_default();
        format!("configuration {}{line}, {table}{key}: {message}", self.path.display())
    }

    /// `message`, which begins with a key, with file and line before it. What the file does not say comes from a flag.
    fn placed(&self, message: &str) -> String {
        let plain = message.trim_start_matches("configuration, ");
        let key: String = plain.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        match self.line_of(None, &key).or_else(|| self.line_of(Some("notices"), &key)) {
            Some(line) => format!("configuration {}, line {line}: {plain}", self.path.display()),
            None => message.to_owned(),
        }
    }

    /// The line on which a key stands, counted from 1; `None` if it does not.
    fn line_of(&self, table: Option<&str>, key: &str) -> Option<usize> {
        let document = DeTable::parse(&self.text).ok()?;
        let holder = match table {
            Some(table) => document.get_ref().get(table)?.get_ref().as_table()?,
            None => document.get_ref(),
        };
        let (name, _) = holder.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(1 + self.text.get(..name.span().start)?.matches('\n').count())
    }
}

/// The file named, or the default one if it exists.
fn read_file(named: Option<&Path>) -> Result<(ConfigFile, ConfigText), String> {
    let path = named.unwrap_or(Path::new(paths::CONFIG_FILE));
    let text = match given_file::read_text(path) {
        Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => return Ok(Default::default()),
        read => read.map_err(|error| format!("configuration {}: {error}", path.display()))?,
    };
    let file = toml::from_str(&text).map_err(|error| format!("configuration {}: {error}", path.display()))?;
    Ok((file, ConfigText { path: path.to_owned(), text }))
}

fn chosen(
    flags: &[Endpoint],
    file: Option<Vec<String>>,
    key: &str,
    default: impl FnOnce() -> Endpoint,
) -> Result<Vec<Endpoint>, String> {
    if !flags.is_empty() {
        return Ok(flags.to_vec());
    }
    let Some(listed) = file else { return Ok(vec![default()]) };
    listed.iter().map(|text| text.parse().map_err(|error| format!("configuration, {key}: {error}"))).collect()
}

/// By default for the owner alone, or for the group too, if one is named.
fn socket_mode(mode: Option<&str>, has_group: bool) -> Result<u32, String> {
    let Some(text) = mode else { return Ok(if has_group { 0o660 } else { 0o600 }) };
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("configuration, nbd_socket_mode {text:?}: write an octal mode, as \"0660\""))
}

/// A group of this machine by its name in /etc/group (group(5)), or by its number.
fn group(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = given_file::read_text(Path::new("/etc/group")).map_err(|error| format!("/etc/group: {error}"))?;
    let number = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| {
        format!("configuration, nbd_socket_group {name:?}: /etc/group has no such group; write its number")
    })
}

/// By default udev's own folder, for a daemon that may write there; an empty path means no file.
fn udev_rules(file: Option<PathBuf>) -> Option<PathBuf> {
    let default = || {
        let path = PathBuf::from(crate::udev::RULES_FILE);
        let there = path.parent().is_some_and(Path::exists) && paths::own_user().is_ok_and(|user| user == 0);
        there.then_some(path)
    };
    file.map_or_else(default, |path| Some(path).filter(|path| !path.as_os_str().is_empty()))
}

/// By default as many as the process has cores, but for one that the control plane and everything else have.
fn threads(wanted: Option<u16>) -> Result<NonZero<usize>, String> {
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let count = wanted.map_or_else(|| cores().saturating_sub(1).clamp(1, THREADS_MAX), usize::from);
    let allowed = NonZero::new(count).filter(|count| count.get() <= THREADS_MAX);
    allowed.ok_or_else(|| format!("threads {count}: it is 1 to {THREADS_MAX}"))
}

fn memory_cache(flag: Option<Size>, file: Option<&str>, memory: &Memory) -> Result<u64, String> {
    let Size(bytes) = match (flag, file) {
        (Some(size), _) => size,
        (None, Some(text)) => text.parse().map_err(|error| format!("configuration, memory_cache: {error}"))?,
        (None, None) => return Ok(memory.for_memory_cache()),
    };
    if bytes > memory.bytes / 2 {
        let (asked, there) = (human(bytes), human(memory.bytes));
        return Err(format!(
            "memory_cache {asked}: that is more than half of the {there} that {} gives",
            memory.set_by
        ));
    }
    Ok(bytes)
}

fn memory_limit(flag: Option<Size>, file: Option<&str>, memory: &Memory) -> Result<u64, String> {
    if let Some(Size(bytes)) = flag {
        return Ok(bytes);
    }
    let Some(text) = file else { return Ok(memory.for_tables()) };
    let Size(bytes) = text.parse().map_err(|error| format!("configuration, memory_limit: {error}"))?;
    Ok(bytes)
}

fn tls(arguments: &ServeArguments, file: Option<TlsFiles>) -> Result<Option<TlsFiles>, String> {
    let (certificate, key, client_ca) = match file {
        Some(file) => (Some(file.certificate), Some(file.key), Some(file.client_ca)),
        None => (None, None, None),
    };
    let certificate = arguments.tls_cert.clone().or(certificate);
    let key = arguments.tls_key.clone().or(key);
    let client_ca = arguments.tls_client_ca.clone().or(client_ca);
    match (certificate, key, client_ca) {
        (Some(certificate), Some(key), Some(client_ca)) => Ok(Some(TlsFiles { certificate, key, client_ca })),
        (None, None, None) => Ok(None),
        _ => Err("TLS needs all of --tls-cert, --tls-key and --tls-client-ca".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::manual;

    /// Those of which the default depends on the machine: the installed file has an example.
    const EXAMPLES: [&str; 9] = [
        "api",
        "nbd",
        "nbd_socket_group",
        "state",
        "machine_id",
        "threads",
        "memory_cache",
        "memory_limit",
        "udev_rules",
    ];

    /// The keys of the file, or of one of its tables, as the type itself tells them of one that it does not know.
    fn known(table: &str) -> Vec<String> {
        let heading = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
        let error =
            toml::from_str::<ConfigFile>(&format!("{heading}no-such-key = 1")).expect_err("there is no such key");
        let message = error.message().to_owned();
        let (_, keys) = message.split_once("expected").unwrap_or_else(|| panic!("{message}"));
        keys.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_installed_file_has_every_key_and_no_other() {
        let documented: BTreeSet<String> = manual::keys().into_iter().map(|(name, _)| name).collect();
        let mut keys = BTreeSet::new();
        for key in known("") {
            if documented.iter().any(|name| name.starts_with(&format!("{key}."))) {
                keys.extend(known(&key).into_iter().map(|inner| format!("{key}.{inner}")));
            } else {
                keys.insert(key);
            }
        }
        assert_eq!(documented, keys, "contrib/hotset.toml and the keys of the configuration");
    }

    #[test]
    fn the_installed_file_has_the_defaults() {
        let shown = |text: &str| format!("{:?}", load(text).unwrap_or_else(|error| panic!("{text}: {error}")));
        let default = shown("");
        assert_eq!(shown(manual::INSTALLED), default);
        for (name, value) in manual::keys() {
            let line = format!("{name} = {value}");
            assert!(toml::from_str::<ConfigFile>(&line).is_ok() || name.contains('.'), "{line}");
            if !EXAMPLES.contains(&name.as_str()) && !name.contains('.') {
                assert_eq!(shown(&line), default, "{line}");
            }
        }
        // The tables as a whole.
        let tables: Vec<&str> = manual::INSTALLED.lines().skip_while(|line| !line.starts_with("#[")).collect();
        let text: String = tables
            .iter()
            .filter(|line| !line.starts_with("# "))
            .map(|line| format!("{}\n", line.trim_start_matches('#')))
            .collect();
        let file: ConfigFile = toml::from_str(&text).unwrap();
        assert!(file.tls.is_some() && file.api_tls.is_some(), "{text}");
    }

    fn load(text: &str) -> Result<Config, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hotset.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&ServeArguments { config: Some(path), ..Default::default() }, &[])
    }

    #[test]
    fn a_full_file_is_understood() {
        let config = load(
            r#"
            api = ["unix:/run/hotset/api.sock", "tcp:127.0.0.1:7780"]
            nbd = ["tcp:0.0.0.0:10809"]
            state = "/srv/hotset"
            missing_wait_s = 5
            request_timeout_s = 60
            threads = 3
            memory_limit = "2G"
            memory_cache = "64M"
            log = "debug"
            ssd_scan = ["/dev/disk/by-id/nvme-*"]
            udev_rules = "/run/hotset.rules"
            api_names = ["cache.example"]
            event_hook = ["/usr/local/bin/hook", "--all"]
            [api_tls]
            certificate = "/etc/hotset/api.pem"
            key = "/etc/hotset/api-key.pem"
            [tls]
            certificate = "/etc/hotset/cert.pem"
            key = "/etc/hotset/key.pem"
            client_ca = "/etc/hotset/clients.pem"
            "#,
        )
        .unwrap();
        assert_eq!((config.api.len(), config.nbd.len(), config.missing_wait_s), (2, 1, 5));
        assert_eq!((config.memory_limit_bytes, config.log.as_str()), (2 << 30, "debug"));
        assert_eq!(config.memory_cache_bytes, 64 << 20);
        assert_eq!(config.threads.get(), 3);
        assert_eq!(config.udev_rules, Some(PathBuf::from("/run/hotset.rules")));
        assert_eq!(load("udev_rules = \"\"").unwrap().udev_rules, None);
        assert_eq!(config.event_hook, ["/usr/local/bin/hook", "--all"]);
        assert_eq!(
            (config.api_names.len(), config.api_tls.map(|tls| tls.key)),
            (1, Some("/etc/hotset/api-key.pem".into()))
        );
        assert_eq!(config.tls.unwrap().client_ca, PathBuf::from("/etc/hotset/clients.pem"));
    }

    #[test]
    fn sockets_are_in_the_state_directory_unless_told_otherwise() {
        let config = load("state = \"/srv/hotset\"").unwrap();
        assert_eq!(config.api, ["unix:/srv/hotset/api.sock".parse().unwrap()]);
        assert_eq!(config.nbd, ["unix:/srv/hotset/nbd.sock".parse().unwrap()]);
        assert!(config.memory_limit_bytes > 0);
    }

    #[test]
    fn flags_override_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hotset.toml");
        std::fs::write(&path, "state = \"/a\"\nmissing_wait_s = 5\nnbd = [\"tcp:0.0.0.0:1\"]").unwrap();
        let arguments = ServeArguments {
            config: Some(path),
            state: Some("/b".into()),
            missing_wait: Some(6),
            nbd: vec!["tcp:127.0.0.1:2".parse().unwrap()],
            ..Default::default()
        };
        let config = Config::load(&arguments, &[]).unwrap();
        assert_eq!((config.state, config.missing_wait_s), (PathBuf::from("/b"), 6));
        assert_eq!(config.nbd, ["tcp:127.0.0.1:2".parse().unwrap()]);
    }

    #[test]
    fn every_error_names_the_key_and_where_it_stands() {
        for (text, parts) in [
            ("log = \"info\"\ncolour = 1", ["line 2", "colour"]),
            ("missing_wait_s = \"long\"", ["line 1", "missing_wait_s"]),
            ("missing_wait_s = 100000", ["missing_wait_s", "at most"]),
            ("request_timeout_s = 0", ["request_timeout_s", "1 to 3600"]),
            ("log = \"info\"\nthreads = 0", ["hotset.toml, line 2: threads 0", "1 to 64"]),
            ("log = \"info\"\n\napi = [\"x\"]", ["hotset.toml, line 3: api", "unix:PATH"]),
            ("threads = 65", ["threads 65", "1 to 64"]),
            ("threads = -1", ["line 1", "threads"]),
            ("api = [\"unix:/a/s\"]\nnbd = [\"unix:/a//s\"]", ["hotset.toml, line 2: nbd unix:/a/s", "api has"]),
            ("nbd = [\"tcp:0.0.0.0:1\", \"tcp:127.0.0.1:1\"]", ["line 1: nbd tcp:127.0.0.1:1", "tcp:0.0.0.0:1"]),
            ("memory_limit = \"much\"", ["memory_limit", "not a size"]),
            ("memory_cache = \"much\"", ["memory_cache", "not a size"]),
            ("memory_cache = \"900T\"", ["memory_cache", "more than half"]),
            ("api = [\"somewhere\"]", ["api", "unix:PATH or tcp:ADDRESS:PORT"]),
            ("api = [\"tcp:0.0.0.0:80\"]", ["tcp:0.0.0.0:80", "loopback"]),
            ("event_hook = [\"hook\"]", ["event_hook", "from the root"]),
            ("log = \"info\"\n[notices]\nlimit = 0", ["hotset.toml, line 3: limit 0", "1 to 1000"]),
            ("[notices]\nlimits = 1", ["line 2", "limits"]),
            ("nbd_socket_mode = \"rw\"", ["nbd_socket_mode", "octal"]),
            ("nbd_socket_group = \"nobody-has-this\"", ["nbd_socket_group", "/etc/group"]),
            ("state = \"/a\"\nnbd_socket_group = \"0\"", ["nbd_socket_group", "state directory"]),
            ("[tls]\ncertificate = \"/c\"", ["line 1", "key"]),
            ("[tls]\ncertificate = \"/c\"\nkey = \"/k\"\nca = \"/a\"", ["line 4", "ca"]),
            ("state = \"/a", ["line 1", "state"]),
        ] {
            let message = load(text).expect_err(text);
            for part in parts {
                assert!(message.contains(part), "{text}: {message}");
            }
        }
        let missing = ServeArguments { config: Some("/nowhere/hotset.toml".into()), ..Default::default() };
        assert!(Config::load(&missing, &[]).expect_err("no file").contains("/nowhere/hotset.toml"));
    }

    #[test]
    fn a_part_of_tls_is_refused() {
        let arguments = ServeArguments { tls_cert: Some("/c".into()), ..Default::default() };
        assert!(Config::load(&arguments, &[]).expect_err("no key").contains("--tls-key"));
    }
}
