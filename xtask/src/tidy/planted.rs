//! The simulator's bugs can be planted: what they change is in the engine as they say. `crates/planted` would not build
//! otherwise, but whoever changes the engine is told here, at once. And the engine does not know of them.

use std::collections::BTreeMap;

use super::Finding;

#[path = "../../../crates/planted/patch.rs"]
#[allow(dead_code, reason = "the build script asks for more")]
mod patch;

const ENGINE: &str = "crates/cache/src/";
const RULES: &str = "crates/planted/rules/";
const HOOKS: &str = "crates/planted/hooks.md";

/// What of the bugs has no place in the engine any more, and where the engine speaks of them.
pub(super) fn check(texts: &[(String, String)]) -> Vec<Finding> {
    let mut engine: BTreeMap<String, String> = BTreeMap::new();
    for (path, text) in texts {
        if let Some(name) = path.strip_prefix(ENGINE) {
            engine.insert(name.to_owned(), text.clone());
        }
    }
    let (mut bugs, mut problems) = (Vec::new(), Vec::new());
    for (path, text) in texts.iter().filter(|(path, _)| path == HOOKS || path.starts_with(RULES)) {
        match patch::parse(path, text) {
            Ok(more) => bugs.extend(more),
            Err(problem) => problems.push(problem),
        }
    }
    problems.extend(patch::plant(&bugs, &mut engine));
    let unplanted = problems.into_iter().map(|problem| Finding { place: problem.place, rule: problem.what });
    unplanted.chain(texts.iter().flat_map(|(path, text)| known_to_engine(path, text))).collect()
}

fn known_to_engine(path: &str, text: &str) -> Vec<Finding> {
    if !path.starts_with(ENGINE) {
        return Vec::new();
    }
    let speaks = text.lines().zip(1..).filter(|(line, _)| line.to_lowercase().contains("planted"));
    let rule = "bugs are planted from outside, by a diff in crates/planted/rules";
    speaks.map(|(_, line)| Finding { place: format!("{path}:{line}"), rule: rule.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_that_the_engine_has_no_place_for_is_found() {
        let bug = "## A\n\nWhat it does.\n\n```diff a.rs\n-f();\n```\n";
        let findings = |engine: &str| {
            check(&[
                ("crates/planted/rules/r.md".to_owned(), bug.to_owned()),
                (format!("{ENGINE}a.rs"), engine.to_owned()),
            ])
        };
        assert_eq!(findings("f();"), []);
        assert_eq!(findings("g();")[0].place, "crates/planted/rules/r.md:5");
    }

    #[test]
    fn an_engine_that_knows_of_planted_bugs_is_found() {
        let findings = |path: &str| check(&[(path.to_owned(), "a\nif planted(Planted::A) {".to_owned())]);
        assert_eq!(findings("crates/cache/src/a.rs")[0].place, "crates/cache/src/a.rs:2");
        assert_eq!(findings("crates/sim/src/a.rs"), []);
    }
}
