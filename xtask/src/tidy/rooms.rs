//! Rooms: what belongs to one owner, and in which direction they use each other.
//!
//! A room of the engine is a folder of `crates/cache/src`. Its `mod.rs` lists its files in two groups: under [`NOUNS`] what is true now,
//! which never waits, and under [`VERBS`] what happens.

use super::Finding;
use super::code::{code_of, shipped};

/// Stands in a room's `mod.rs` above its nouns.
const NOUNS: &str = "// Nouns: what is true now.";

/// Stands in a room's `mod.rs` above its verbs.
const VERBS: &str = "// Verbs: what happens.";

/// Each room, and the rooms that it may use: never one that uses it. `pool` is the frame: it has the order of what takes
/// several rooms.
const ROOMS: &[(&str, &[&str])] = &[
    ("members", &[]),
    ("memory_cache", &[]),
    ("clean", &["members", "memory_cache"]),
    ("log", &["clean", "members"]),
    ("attachments", &["members"]),
    ("advisor", &["clean"]),
    ("volume", &["advisor", "attachments", "clean", "log", "members", "memory_cache"]),
    ("pool", &["attachments", "clean", "log", "members", "memory_cache", "volume"]),
];

/// The frame. No room below it names the pool, by whatever way it came by it.
const FRAME: &str = "pool";

/// Files beside the engine's rooms that put them together or open them to others. What else lies there, above all `format`, which turns values
/// into bytes and back, is below all rooms.
const FRAME_OF_ENGINE: &[&str] = &["lib.rs", "offline.rs", "fuzz.rs"];

/// The rooms of `crates/serve`, and what each must not name: a protocol uses its exports, and these what is in flight, never the
/// other way.
const ROOMS_OF_SERVE: &[(&str, &[&str])] =
    &[("crates/serve/src/inflight", &["nbd", "exports"]), ("crates/serve/src/exports", &["nbd"])];

/// The rooms of the daemon, the lowest first, what puts them together (`rooms.rs`), and what asks them: each may use those before it.
/// What lies beside them in the folder is below them all.
const ROOMS_OF_DAEMON: &[&str] = &["opening", "changing", "reporting", "notices", "rooms", "http"];

/// Files beside the rooms that stand before them.
const FRAME_OF_DAEMON: &[&str] = &["mod.rs", "api_socket.rs", "certificates.rs", "check.rs", "reload.rs"];

const DAEMON: &str = "crates/hotset/src/daemon/";

const ENGINE: &str = "crates/cache/src/";

/// The files that are nouns, whatever room they are in; `read` gives the text of a file of the repository.
pub(super) fn nouns(read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut nouns = Vec::new();
    for (room, _) in ROOMS {
        let text = read(&format!("{ENGINE}{room}/mod.rs")).unwrap_or_default();
        let listed = text.split_once(NOUNS).and_then(|(_, after)| after.split_once(VERBS));
        let modules = listed.map(|(nouns, _)| nouns.lines()).into_iter().flatten();
        let names = modules.filter_map(|line| line.split_once("mod ").and_then(|(_, name)| name.strip_suffix(';')));
        nouns.extend(names.map(|name| format!("{ENGINE}{room}/{name}.rs")));
    }
    nouns
}

/// Every use of a room that is not below the file's own.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let code = code_of(text);
    let mut findings = check_engine(path, &code);
    findings.extend(check_serving(path, &code));
    findings.extend(check_daemon(path, &code));
    findings
}

/// A room of the daemon is named by its path, from the crate or from above.
fn check_daemon(path: &str, code: &str) -> Vec<Finding> {
    let Some(within) = path.strip_prefix(DAEMON) else { return Vec::new() };
    if FRAME_OF_DAEMON.contains(&within) {
        return Vec::new();
    }
    let room = within.split_once('/').map(|(room, _)| room).or(within.strip_suffix(".rs"));
    let own = ROOMS_OF_DAEMON.iter().position(|name| Some(*name) == room);
    let above = &ROOMS_OF_DAEMON[own.map_or(0, |own| own + 1)..];
    let shipped = shipped(code);
    let mut findings = Vec::new();
    for (index, line) in shipped.lines().enumerate() {
        let names = |upper: &&&str| {
            ["daemon::", "super::"].iter().any(|from| {
                let named = format!("{from}{upper}");
                let mut after = line.split(&named).skip(1);
                after.any(|rest| rest.starts_with("::") || rest.starts_with(';'))
            })
        };
        for upper in above.iter().filter(names) {
            let rule = format!("{within} does not use `{upper}`: uses go one way, and the frame has the order of both");
            findings.push(Finding { place: format!("{path}:{}", index + 1), rule });
        }
    }
    findings
}

/// Tests too: they are the first to fetch what is near.
fn check_serving(path: &str, code: &str) -> Vec<Finding> {
    let is_in =
        |room: &str| path.strip_prefix(room).is_some_and(|rest| rest.starts_with('/') || rest.starts_with(".rs"));
    let Some((room, upper)) = ROOMS_OF_SERVE.iter().find(|(room, _)| is_in(room)) else { return Vec::new() };
    let mut findings = Vec::new();
    for (index, line) in code.lines().enumerate() {
        for name in upper.iter().filter(|name| line.to_lowercase().contains(*name)) {
            let rule = format!("{room} does not know `{name}`: uses go one way");
            findings.push(Finding { place: format!("{path}:{}", index + 1), rule });
        }
    }
    findings
}

/// Tests stand beside the code and may use what they need.
fn check_engine(path: &str, code: &str) -> Vec<Finding> {
    let Some(within) = path.strip_prefix(ENGINE) else { return Vec::new() };
    if FRAME_OF_ENGINE.contains(&within) {
        return Vec::new();
    }
    let own = within.split_once('/').map_or(within, |(room, _)| room);
    let below = ROOMS.iter().find(|(name, _)| *name == own).map_or(&[][..], |(_, below)| *below);
    let shipped = shipped(code);
    let mut findings = Vec::new();
    for (index, line) in shipped.lines().enumerate() {
        if own != FRAME && line.contains("PoolInner") {
            let rule = format!("`{own}` has an owner of its own and does not know the pool");
            findings.push(Finding { place: format!("{path}:{}", index + 1), rule });
            continue;
        }
        if is_open_state(line) {
            let rule =
                format!("what changes in `{own}` is changed by its owner: a method with a name, not a cell for all");
            findings.push(Finding { place: format!("{path}:{}", index + 1), rule });
        }
        for (at, mark) in line.match_indices("crate::") {
            let used = &line[at + mark.len()..];
            let of = |(name, _): &&(&str, _)| used.strip_prefix(name).is_some_and(|rest| rest.starts_with("::"));
            let Some((other, _)) = ROOMS.iter().find(of) else { continue };
            if *other != own && !below.contains(other) {
                let rule = format!("`{own}` does not use `{other}`: the frame, `pool`, has the order of both");
                findings.push(Finding { place: format!("{path}:{}", index + 1), rule });
            }
        }
    }
    findings
}

/// A field that any room could set.
fn is_open_state(line: &str) -> bool {
    // Fields that a macro makes begin with its brackets.
    let line = line.trim_start_matches([' ', '$', '(']);
    let field = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub "));
    let Some((name, kind)) = field.and_then(|field| field.split_once(": ")) else { return false };
    let kind = kind.strip_prefix("Rc<").unwrap_or(kind);
    let is_name = name.chars().all(|letter| letter.is_alphanumeric() || "_$".contains(letter));
    is_name && ["Cell<", "RefCell<"].iter().any(|cell| kind.starts_with(cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_that_any_room_could_set_is_found() {
        let found = |path: &str, line: &str| check(&format!("{ENGINE}{path}"), line).len();
        for bad in [
            "    pub(crate) steps: Cell<u64>,",
            "    pub(crate) fenced: RefCell<Option<String>>,",
            "    pub size_bytes: Rc<Cell<u64>>,",
            "    pub(crate) spec: Rc<RefCell<VolumeSpec>>,",
            "            $($(pub(crate) $name: Cell<u64>,)*)*",
        ] {
            assert_eq!(found("volume/a.rs", bad), 1, "{bad}");
        }
        for good in [
            "    steps: Cell<u64>,",
            "    pub(super) steps: Cell<u64>,",
            "    pub(crate) steps: u64,",
            "    pub(crate) fn steps(cell: Cell<u64>) {}",
            "    // pub(crate) steps: Cell<u64>,",
        ] {
            assert_eq!(found("volume/a.rs", good), 0, "{good}");
        }
        assert_eq!(found("offline.rs", "    pub(crate) steps: Cell<u64>,"), 0);
    }

    #[test]
    fn nouns_are_what_a_room_lists_as_such() {
        let text =
            format!("//! A room.\n\n{NOUNS}\npub(crate) mod map;\nmod pages;\n\n{VERBS}\npub(crate) mod fill;\n");
        let found = nouns(|path| path.ends_with("/clean/mod.rs").then(|| text.clone()));
        assert_eq!(found, ["crates/cache/src/clean/map.rs", "crates/cache/src/clean/pages.rs"]);
    }

    #[test]
    fn an_arrow_that_runs_up_is_found() {
        let found = |path: &str, line: &str| check(&format!("{ENGINE}{path}"), line).len();
        assert_eq!(found("members/a.rs", "use crate::log::rows::Row;"), 1);
        assert_eq!(found("clean/a.rs", "let a = crate::volume::read::b();"), 1);
        assert_eq!(found("attachments/a.rs", "use crate::clean::map::Map;"), 1);
        assert_eq!(found("volume/a.rs", "use crate::pool::open::Parts;"), 1);
        assert_eq!(found("format/layout.rs", "use crate::members::segments::Purpose;"), 1);
        assert_eq!(found("status.rs", "use crate::clean::map::Map;"), 1);
        assert_eq!(found("status.rs", "use crate::config::PoolKind;"), 0);
        assert_eq!(found("format/layout.rs", "use crate::format::codec::Reader;"), 0);
        assert_eq!(found("volume/a.rs", "use crate::pool::inner::PoolInner;"), 1);
        for good in
            ["use crate::clean::map::Map;", "use crate::format::rows::Rows;", "use crate::volume::inner::VolumeInner;"]
        {
            assert_eq!(found("volume/a.rs", good), 0, "{good}");
        }
        for bad in [
            "use crate::pool::PoolInner;",
            "impl<E: Env> PoolInner<E> {",
            "fn f(pool: &super::super::pool::PoolInner<E>) {",
        ] {
            assert_eq!(found("members/a.rs", bad), 1, "{bad}");
            assert_eq!(found("log/a.rs", bad), 1, "{bad}");
            assert_eq!(found("volume/a.rs", bad), 1, "{bad}");
        }
        assert_eq!(found("members/a.rs", "impl<E: Env> Members<E> { // not PoolInner"), 0);
        assert_eq!(found("pool/a.rs", "use crate::volume::read::a;"), 0);
        assert_eq!(found("offline.rs", "use crate::pool::open::Parts;"), 0);
        assert_eq!(found("members/a.rs", "// crate::log::a\n#[cfg(test)]\nuse crate::log::rows::Row;"), 0);
        assert_eq!(found("members/a.rs", "#[cfg(test)]\nuse crate::log::a;\nuse crate::log::rows::Row;"), 1);
    }

    #[test]
    fn a_room_of_the_daemon_that_uses_one_above_it_is_found() {
        let found = |path: &str, line: &str| check(&format!("{DAEMON}{path}"), line).len();
        for (path, bad) in [
            ("opening/start.rs", "use crate::daemon::changing::flush::Flushes;"),
            ("opening/start.rs", "use super::super::reporting::status::Reporting;"),
            ("changing/flush.rs", "fn f(status: &crate::daemon::reporting::status::Reporting) {}"),
            ("changing/flush.rs", "use crate::daemon::rooms::Rooms;"),
            ("reporting/status.rs", "use crate::daemon::http::Document;"),
            ("state.rs", "use super::opening::recognise::Backings;"),
            ("smart/mod.rs", "use crate::daemon::reporting::ssds::Drives;"),
            ("state.rs", "#[cfg(test)]\nuse super::http::A;\nuse super::opening::recognise::Backings;"),
        ] {
            assert_eq!(found(path, bad), 1, "{path}: {bad}");
        }
        for (path, good) in [
            ("changing/flush.rs", "use crate::daemon::opening::records::Records;"),
            ("reporting/status.rs", "use crate::daemon::changing::flush::Flushes;"),
            ("opening/start.rs", "// as crate::daemon::changing::flush does\nuse super::records::Records;"),
            ("opening/start.rs", "#[cfg(test)]\nuse crate::daemon::changing::flush::Flushes;"),
            ("rooms.rs", "use super::opening::records::Records;"),
            ("http/pools.rs", "use crate::daemon::changing::flush::Subject;"),
        ] {
            assert_eq!(found(path, good), 0, "{path}: {good}");
        }
    }

    #[test]
    fn a_protocol_is_found_in_the_rooms_that_know_none() {
        let rules = |path: &str, line: &str| -> Vec<String> {
            check(path, line).into_iter().map(|finding| finding.rule).collect()
        };
        let breaks = |path: &str, bad: &str, good: &str| {
            assert!(rules(path, bad).iter().any(|rule| rule.contains("uses go one way")), "{path}: {bad}");
            assert!(rules(path, good).is_empty(), "{path}: {good}");
        };
        for bad in ["use crate::nbd::wire::Request;", "use super::super::nbd;", "fn f(request: NbdRequest) {}"] {
            for path in
                ["crates/serve/src/exports.rs", "crates/serve/src/exports/a.rs", "crates/serve/src/inflight/a.rs"]
            {
                breaks(path, bad, "// as nbd does\nuse crate::tls::TlsAcceptor;");
            }
        }
        breaks("crates/serve/src/inflight/a.rs", "use crate::exports::Exports;", "fn f() {}");
        assert!(rules("crates/serve/src/nbd/a.rs", "use crate::exports::Exports;").is_empty());
    }
}
