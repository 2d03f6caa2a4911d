//! The rules for single files.

use super::Finding;
use super::code::{code_of, shipped};

/// Marks of unfinished work; spelled in parts, so that this file passes.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
];

/// Holds outputs of programs as they were published, where such a mark is a serial number somebody masked.
const RECORDED: &str = "/recorded/";

/// Places on one machine that mean nothing on another.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/tmp/", "wt"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// What the cache reaches through `Env` alone, or never.
const BANNED_IN_CACHE: &[(&str, &str)] = &[
    ("std::time::Instant", "a clock"),
    ("SystemTime", "a clock"),
    ("Instant::now", "a clock"),
    ("std::thread", "threads"),
    ("std::sync", "threads"),
    ("thread_local!", "threads"),
    ("std::fs", "files"),
    ("std::net", "the network"),
    ("std::process", "processes"),
    ("std::env", "the environment"),
    ("RandomState", "unseeded randomness"),
    ("DefaultHasher", "unseeded randomness"),
    ("HashMap::new", "unseeded randomness"),
    ("HashMap::with_capacity(", "unseeded randomness"),
    ("HashSet::new", "unseeded randomness"),
    ("HashSet::with_capacity(", "unseeded randomness"),
];

/// What must not be in a noun (it knows, it does not wait) and in `format/` (it is pure).
const BANNED_IN_NOUNS: &[&str] = &["async", ".await", "Env", "Device", "spawn"];

/// Ways to walk a hash map, whose order differs from run to run.
const WALKS: &[&str] = &[".iter()", ".iter_mut()", ".keys()", ".values()", ".values_mut()", ".drain(", ".into_iter()"];

/// Everything that breaks a rule in one file. A noun is a file that its room lists as such (`rooms.rs`).
pub(super) fn check(path: &str, text: &str, is_noun: bool) -> Vec<Finding> {
    let mut file = File { path, findings: Vec::new() };
    file.forbid_everywhere(text);
    if path.ends_with(".rs") {
        let code = code_of(text);
        file.want_summary(text);
        file.forbid_unsafe(text, &code);
        file.forbid_open_enums(&code);
        file.want_reasons(text);
        let shipped = shipped(&code);
        if path.starts_with("crates/cache/src/") {
            file.forbid_world_in_cache(&shipped);
            file.forbid_walks(&shipped);
        }
        if is_noun || path.starts_with("crates/cache/src/format/") {
            file.forbid_waiting(&shipped);
        }
    }
    file.findings
}

struct File<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl File<'_> {
    fn find(&mut self, line_index: usize, rule: String) {
        self.findings.push(Finding { place: format!("{}:{}", self.path, line_index + 1), rule });
    }

    fn forbid_everywhere(&mut self, text: &str) {
        for (index, line) in text.lines().enumerate() {
            if !self.path.contains(RECORDED) && UNFINISHED.iter().any(|mark| has_word(line, mark)) {
                self.find(index, "unfinished work does not go to main: do it, or delete the line".to_owned());
            }
            if let Some(place) = MACHINE_PATHS.iter().find(|place| line.contains(*place)) {
                self.find(index, format!("{place} is a path of one machine"));
            }
        }
    }

    fn want_summary(&mut self, text: &str) {
        let first = text.lines().find(|line| !line.starts_with("#!") && !line.is_empty());
        if !first.is_some_and(|line| line.starts_with("//!")) {
            self.find(0, "a file starts with `//!`: what it owns and what it refuses to know".to_owned());
        }
    }

    /// Only in `crates/block`, and only where the summary says why.
    fn forbid_unsafe(&mut self, text: &str, code: &str) {
        let allowed_here = self.path.starts_with("crates/block/src/");
        let summary: String = text.lines().take_while(|line| line.starts_with("//!") || line.is_empty()).collect();
        for (index, line) in code.lines().enumerate() {
            let lint = line.contains("allow(unsafe_code)");
            if !lint && !has_word(line, "unsafe") {
                continue;
            }
            if !allowed_here {
                self.find(index, "`unsafe` belongs in crates/block alone".to_owned());
            } else if lint && !summary.to_lowercase().contains("why `unsafe`") {
                self.find(index, "a file with `unsafe` says in its summary: Why `unsafe`".to_owned());
            }
        }
    }

    fn forbid_open_enums(&mut self, code: &str) {
        for (index, line) in code.lines().enumerate() {
            if line.contains("#[non_exhaustive]") {
                self.find(index, "a new variant must break every match that it concerns".to_owned());
            }
        }
    }

    /// What `expect` says is why it cannot fail: no single word, and no size without its bound.
    fn want_reasons(&mut self, text: &str) {
        for (index, line) in text.lines().enumerate() {
            let reasons = [".expect(\"", ".expect_err(\""].into_iter().flat_map(|call| line.split(call).skip(1));
            let mut reasons = reasons.filter_map(|rest| rest.split_once("\")")).map(|(reason, _)| reason);
            if reasons.any(|reason| !reason.contains(' ') || is_adjective(reason)) {
                self.find(index, "`expect` says why it cannot fail, in a sentence, and names the bound".to_owned());
            }
        }
    }

    fn forbid_world_in_cache(&mut self, code: &str) {
        for (index, line) in code.lines().enumerate() {
            for (word, what) in BANNED_IN_CACHE.iter().filter(|(word, _)| line.contains(word)) {
                self.find(index, format!("`{word}`: the cache reaches {what} through `Env` alone"));
            }
        }
    }

    fn forbid_waiting(&mut self, code: &str) {
        for (index, line) in code.lines().enumerate() {
            for word in BANNED_IN_NOUNS.iter().filter(|word| has_word(line, word)) {
                self.find(index, format!("`{word}`: a noun knows and format is pure; a verb waits"));
            }
        }
    }

    /// Finds walks over what the same file declares as a hash map or set.
    fn forbid_walks(&mut self, code: &str) {
        let names = hash_names(code);
        for (index, line) in code.lines().enumerate() {
            for name in &names {
                let walked = WALKS.iter().any(|walk| has_word(line, &format!("{name}{walk}")));
                let looped = [" in &", " in &mut ", " in &self.", " in &mut self."];
                if walked || looped.iter().any(|start| has_word(line, &format!("{start}{name} {{"))) {
                    self.find(index, format!("`{name}` is a hash map: the order of a walk differs from run to run"));
                }
            }
        }
    }
}

/// Names of fields and bindings that this file declares as `HashMap` or `HashSet`.
fn hash_names(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in code.lines() {
        let Some((before, after)) = line.split_once(':') else { continue };
        let kind = after.trim_start().trim_start_matches("RefCell<").trim_start_matches("std::collections::");
        let name = before.trim().rsplit(' ').next().unwrap_or_default();
        if (kind.starts_with("HashMap<") || kind.starts_with("HashSet<")) && !name.is_empty() {
            names.push(name.to_owned());
        }
    }
    names
}

/// `a few pages`, `it is small`: how much, to whoever feels so.
fn is_adjective(reason: &str) -> bool {
    const SIZES: [&str; 7] = ["few", "small", "short", "little", "tiny", "soon", "constant"];
    const BESIDE: [&str; 8] = ["a", "it", "is", "they", "are", "one", "number", "very"];
    let words: Vec<&str> = reason.split(' ').filter(|word| !BESIDE.contains(word)).collect();
    words.len() <= 2 && words.iter().any(|word| SIZES.contains(word))
}

/// Whether `word` stands in `line` and is not part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(part_of_word);
        let after = line[at + word.len()..].chars().next().is_some_and(part_of_word);
        let word_starts = word.starts_with(part_of_word);
        let word_ends = word.ends_with(part_of_word);
        !(before && word_starts || after && word_ends)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<String> {
        check(path, text, path.contains("/nouns/")).into_iter().map(|finding| finding.rule).collect()
    }

    /// The file must break a rule whose text contains `rule`, and must not with `good` in place of `bad`.
    fn breaks(path: &str, bad: &str, good: &str, rule: &str) {
        let found = rules(path, &format!("//! Summary. Why `unsafe`: it must.\n{bad}\n"));
        assert!(found.iter().any(|found| found.contains(rule)), "{bad:?}: {found:?}");
        let found = rules(path, &format!("//! Summary. Why `unsafe`: it must.\n{good}\n"));
        assert!(found.is_empty(), "{good:?}: {found:?}");
    }

    #[test]
    fn unfinished_work_is_found_in_any_file() {
        for mark in UNFINISHED {
            assert_eq!(rules("docs/a.md", &format!("a {mark} b")).len(), 1, "{mark}");
        }
        assert!(rules("docs/a.md", "a mastodon").is_empty());
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for place in MACHINE_PATHS {
            assert_eq!(rules("README.md", &format!("see {place}x")).len(), 1, "{place}");
        }
    }

    #[test]
    fn a_file_without_a_summary_is_found() {
        assert_eq!(rules("crates/api/src/lib.rs", "fn main() {}\n").len(), 1);
        assert!(rules("fuzz/targets/a.rs", "#![no_main]\n//! Summary.\n").is_empty());
    }

    #[test]
    fn unsafe_is_found_outside_block_and_not_in_words() {
        let good = "// unsafe\nfn f() { g(\"unsafe\") }";
        breaks("crates/serve/src/a.rs", "fn f() { unsafe { g() } }", good, "crates/block alone");
        breaks("crates/block/tests/a.rs", "unsafe fn f() {}", good, "crates/block alone");
        assert!(rules("crates/block/src/a.rs", "//! Why `unsafe`: rings.\nunsafe {}\n").is_empty());
    }

    #[test]
    fn unsafe_without_a_reason_is_found() {
        assert_eq!(rules("crates/block/src/a.rs", "//! Rings.\n#![allow(unsafe_code)]\n").len(), 1);
    }

    #[test]
    fn reasons_that_are_none_are_found() {
        let say = |reason: &str| format!("fn f() {{ g().expect(\"{reason}\") }}");
        for bad in ["few", "4096", "it is small", "a few pages", "counts are small", "a small constant"] {
            breaks("crates/cache/tests/a.rs", &say(bad), &say("a header has at most 8 KiB"), "names the bound");
        }
        assert!(rules("tests/a.rs", &format!("//! A.\n{}", say("fewer traces than 2^32"))).is_empty());
    }

    #[test]
    fn open_enums_are_found() {
        breaks("crates/api/src/a.rs", "#[non_exhaustive]\nenum A {}", "enum A {}", "must break every match");
    }

    #[test]
    fn the_world_is_found_in_the_cache() {
        for (word, _) in BANNED_IN_CACHE {
            breaks("crates/cache/src/a.rs", &format!("let a = {word}x);"), "let a = b;", "through `Env` alone");
        }
        let in_tests = "#[cfg(test)]\nmod tests { use std::thread; }";
        assert!(rules("crates/cache/src/a.rs", &format!("//! Summary.\n{in_tests}\n")).is_empty());
        let behind_a_test = "#[cfg(test)]\nfn f() { std::thread::sleep(a); }\n\nfn g() { std::thread::sleep(a); }";
        let found = check("crates/cache/src/a.rs", &format!("//! Summary.\n{behind_a_test}\n"), false);
        assert_eq!(found.iter().map(|finding| finding.place.as_str()).collect::<Vec<_>>(), ["crates/cache/src/a.rs:5"]);
    }

    #[test]
    fn walks_over_hash_maps_are_found_in_the_cache() {
        let map = "struct A {\n    blocks: HashMap<u64, u64, Seeded>,\n    order: Vec<u64>,\n}\n";
        for walk in ["self.blocks.iter()", "for a in &self.blocks { b() }", "a.blocks.drain(..)", "blocks.keys().max()"]
        {
            breaks("crates/cache/src/a.rs", &format!("{map}{walk}"), &format!("{map}self.order.iter()"), "a hash map");
        }
    }

    #[test]
    fn waiting_is_found_in_nouns_and_format() {
        for bad in ["async fn f() {}", "a.await", "fn f<E: Env>() {}", "impl Device for A {}"] {
            breaks("crates/cache/src/nouns/a.rs", bad, "fn environment() {}", "a verb waits");
            breaks("crates/cache/src/format/a.rs", bad, "fn asynchronous() {}", "a verb waits");
        }
    }
}
