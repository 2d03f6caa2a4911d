//! The simulator's bugs can be planted: what they change is in the engine as they say. `crates/planted` would not build
//! otherwise, but whoever changes the engine is told here, at once. The engine does not know of them, and every rule has one.

use std::collections::BTreeMap;

use super::Finding;

#[path = "../../../crates/planted/patch.rs"]
#[allow(dead_code, reason = "the build script asks for more")]
mod patch;

const ENGINE: &str = "crates/cache/src/";
const RULES: &str = "crates/planted/rules/";
const HOOKS: &str = "crates/planted/hooks.md";

/// Has the table of the rules.
const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
/// Begins it.
const TABLE: &str = "| rule |";
/// Rules that the simulated world cannot break: it has one machine, and whatever is counted stays small. Other tests do.
const WITHOUT_BUG: &[&str] = &["one-machine", "bounded"];

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
    let known = texts.iter().flat_map(|(path, text)| known_to_engine(path, text));
    unplanted.chain(known).chain(rules_without_bug(texts)).collect()
}

/// Rules of the table that no bug breaks, and documents of rules that it does not have.
fn rules_without_bug(texts: &[(String, String)]) -> Vec<Finding> {
    let planted: Vec<&str> =
        texts.iter().filter_map(|(path, _)| path.strip_prefix(RULES)?.strip_suffix(".md")).collect();
    let Some((_, architecture)) = texts.iter().find(|(path, _)| path == ARCHITECTURE) else { return Vec::new() };
    let table = architecture.lines().zip(1..).skip_while(|(line, _)| !line.starts_with(TABLE));
    let rows = table.take_while(|(line, _)| !line.is_empty());
    let rules: Vec<(&str, usize)> =
        rows.filter_map(|(line, number)| Some((line.strip_prefix("| `")?.split_once('`')?.0, number))).collect();
    let has_no_bug = |rule: &str| !planted.contains(&rule) && !WITHOUT_BUG.contains(&rule);
    let without = rules.iter().filter(|(rule, _)| has_no_bug(rule)).map(|(rule, number)| Finding {
        place: format!("{ARCHITECTURE}:{number}"),
        rule: format!("no bug breaks the rule {rule}: plant one in {RULES}{rule}.md, which the simulator has to find"),
    });
    let unknown = planted.iter().filter(|planted| rules.iter().all(|(rule, _)| rule != *planted));
    let unknown = unknown.map(|rule| Finding {
        place: format!("{RULES}{rule}.md"),
        rule: format!("{ARCHITECTURE} does not say what this rule demands"),
    });
    without.chain(unknown).collect()
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

    #[test]
    fn a_rule_without_a_bug_and_a_bug_without_a_rule_are_found() {
        let table = "| rule | what |\n|---|---|\n| `a` | x |\n| | y |\n| `b` | z |\n| `bounded` | u |\n\n| `c` |";
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let findings = check(&[
            file(ARCHITECTURE, table),
            file("crates/planted/rules/a.md", "## A\n"),
            file("crates/planted/rules/d.md", "## D\n"),
        ]);
        let places: Vec<_> = findings.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["docs/ARCHITECTURE.md:5", "crates/planted/rules/d.md"]);
    }
}
