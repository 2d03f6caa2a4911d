//! Circles: a crate drawn as its files and what each takes from the others. A type and its handle may know each other; no circle is larger.
//!
//! Read are `use` and paths that begin with `crate`, `self` or `super`; a name that a file passes on (`pub use`) counts as taken from where
//! it is written. Tests may use what they need.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::code::{code_of, shipped};

/// The crates that are drawn.
const DRAWN: &[&str] = &["crates/cache/src/", "crates/hotset/src/"];

/// Files in a circle at most.
const CIRCLE_MAX: usize = 2;

/// A file by its place among the modules of its crate.
type Module = Vec<String>;

/// Files as paths and texts; those that are not of a drawn crate are passed over.
pub(super) fn check(files: &[(String, String)]) -> Vec<Finding> {
    DRAWN.iter().flat_map(|root| check_crate(root, files)).collect()
}

fn check_crate(root: &str, files: &[(String, String)]) -> Vec<Finding> {
    let own = files.iter().filter_map(|(path, text)| Some((module_of(path.strip_prefix(root)?)?, path, text)));
    let mut paths = BTreeMap::new();
    let mut drawn = Drawn::default();
    for (module, path, text) in own {
        drawn.add(module.clone(), &uses_of(text));
        paths.insert(module, path.as_str());
    }
    let arrows = drawn.arrows();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        paths.keys().map(|module| (module, reach(module, &arrows))).collect();
    let mut told: BTreeSet<&Module> = BTreeSet::new();
    let mut findings = Vec::new();
    for module in paths.keys() {
        let circle: Vec<&Module> =
            reached[module].iter().copied().filter(|other| reached[other].contains(module)).collect();
        if circle.len() > CIRCLE_MAX && !told.contains(module) {
            let names: Vec<&str> = circle.iter().map(|module| paths[*module]).collect();
            let rule = format!("a circle of {} files, which use each other: {}", names.len(), names.join(", "));
            findings.push(Finding { place: paths[module].to_owned(), rule });
            told.extend(circle);
        }
    }
    findings
}

/// Of a path within a crate's sources.
fn module_of(path: &str) -> Option<Module> {
    let mut names: Module = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|last| ["mod", "main", "lib"].contains(&last.as_str())) {
        names.pop();
    }
    Some(names)
}

/// The code that may use others: what is shipped, without who may see it, which is no use.
fn uses_of(text: &str) -> String {
    let code = shipped(&code_of(text));
    let mut parts = code.split("pub(in ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + "pub " + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// All that is reached from a file, itself too if an arrow leads back.
fn reach<'a>(from: &Module, arrows: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = arrows.get(from).into_iter().flatten().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(arrows.get(module).into_iter().flatten());
        }
    }
    reached
}

#[derive(Default)]
struct Drawn {
    /// Paths that each file names.
    named: BTreeMap<Module, BTreeSet<Module>>,
    /// By file: what it passes on, and where that is.
    passed_on: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl Drawn {
    fn add(&mut self, module: Module, code: &str) {
        let mut named = BTreeSet::new();
        for statement in statements(code) {
            for path in expanded(&statement.tree) {
                if statement.passes_on
                    && let Some(name) = path.last()
                {
                    // What is of no module above is of one below.
                    let below = || module.iter().chain(&path).cloned().collect();
                    let from = absolute(&module, &path).unwrap_or_else(below);
                    self.passed_on.entry(module.clone()).or_default().insert(name.clone(), from);
                }
                named.insert(path);
            }
        }
        named.extend(inline_paths(code));
        self.named.insert(module, named);
    }

    fn arrows(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let of = |(module, named): (&Module, &BTreeSet<Module>)| {
            let places = named.iter().filter_map(|path| self.file_of(&self.from(module, path)?, 0));
            (module.clone(), places.filter(|other| other != module).collect())
        };
        self.named.iter().map(of).collect()
    }

    /// Where a path that a file names begins: at the crate, or at a module below the file.
    fn from(&self, module: &Module, path: &Module) -> Option<Module> {
        let below: Module = module.iter().chain(path.first()).cloned().collect();
        if self.named.contains_key(&below) {
            return Some(module.iter().chain(path).cloned().collect());
        }
        absolute(module, path)
    }

    /// The file in which the end of a path is written.
    fn file_of(&self, path: &[String], depth: usize) -> Option<Module> {
        let length = (0..=path.len()).rev().find(|length| self.named.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(length);
        let passed_on = rest.first().and_then(|name| self.passed_on.get(module)?.get(name));
        match passed_on {
            // No name is passed on more often than there are folders in folders.
            Some(from) if depth < 8 => {
                let from: Module = from.iter().chain(&rest[1..]).cloned().collect();
                self.file_of(&from, depth + 1)
            }
            Some(_) | None => Some(module.to_vec()),
        }
    }
}

/// From the crate on; `None` for what is another crate's.
fn absolute(module: &Module, path: &Module) -> Option<Module> {
    let above = path.iter().take_while(|name| *name == "super").count();
    let rest = path[above..].to_vec();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some(module.iter().chain(&path[1..]).cloned().collect()),
        "super" => Some(module[..module.len().checked_sub(above)?].iter().cloned().chain(rest).collect()),
        _ => None,
    }
}

struct Statement {
    passes_on: bool,
    tree: String,
}

/// Every `use`.
fn statements(code: &str) -> Vec<Statement> {
    let mut all = Vec::new();
    for part in code.split(';') {
        let start = part.rfind('\n').map_or(0, |_| part.len() - part.trim_start().len());
        let Some(at) = part[start..].find("use ").map(|at| at + start) else { continue };
        let before = part[..at].rsplit(['\n', '}']).next().unwrap_or_default().trim();
        if before.is_empty() || before.starts_with("pub") {
            all.push(Statement { passes_on: !before.is_empty(), tree: part[at + 4..].to_owned() });
        }
    }
    all
}

/// The paths of a tree of uses: `a::{b, c as d}` is `a::b` and `a::c`.
fn expanded(tree: &str) -> Vec<Module> {
    let tree = tree.trim();
    let Some((before, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        let names = path.split("::").map(str::trim).filter(|name| !name.is_empty() && *name != "*");
        let names: Module = names.map(str::to_owned).collect();
        let bare = names.len() > 1 && names.last().is_some_and(|last| last == "self");
        let length = names.len() - usize::from(bare);
        return vec![names[..length].to_vec()];
    };
    let group = group.strip_suffix('}').unwrap_or(group);
    let (mut parts, mut depth) = (vec![String::new()], 0_usize);
    for letter in group.chars() {
        depth = match letter {
            '{' => depth + 1,
            '}' => depth.saturating_sub(1),
            _ => depth,
        };
        match (letter, depth) {
            (',', 0) => parts.push(String::new()),
            _ => parts.last_mut().expect("there is one").push(letter),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expanded(&format!("{before}{}", part.trim()))).collect()
}

/// Paths in the midst of code.
fn inline_paths(code: &str) -> Vec<Module> {
    let is_of_a_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words =
        code.split(|letter: char| !is_of_a_path(letter)).filter(|word| word.contains("::") && !word.ends_with("::"));
    words.map(|word| word.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("crates/hotset/src/{path}"), (*text).to_owned())).collect();
        check(&files).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_circle_of_three_files_is_found_and_one_of_two_is_a_type_and_its_handle() {
        let two = [("a.rs", "use crate::b::B;"), ("b.rs", "fn f(a: &crate::a::A) {}")];
        assert_eq!(found(&two), Vec::<String>::new());
        let c = ("room/c.rs", "use super::super::a::A;");
        let three = [("a.rs", "use crate::{b::{B, D as E}};"), ("b.rs", "use crate::room::c::C;"), c];
        assert!(found(&three)[0].starts_with("a circle of 3 files"), "{:?}", found(&three));
        let in_a_test = ("b.rs", "#[cfg(test)]\nmod tests {\n    use crate::room::c::C;\n}");
        assert_eq!(found(&[three[0], in_a_test, c]), Vec::<String>::new());
        let in_a_shared_test = ("b.rs", "#[cfg(test)]\npub(crate) mod tests {\n    use crate::room::c::C;\n}");
        assert_eq!(found(&[three[0], in_a_shared_test, c]), Vec::<String>::new());
        let in_words = ("b.rs", "// use crate::room::c::C;\nconst A: &str = \"crate::room::c\";");
        assert_eq!(found(&[three[0], in_words, c]), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_is_passed_on_is_taken_from_where_it_is_written() {
        let room = ("room/mod.rs", "mod a;\nmod b;\n\npub(crate) use a::A;\n\nfn f() -> b::B {}");
        let files = [("main.rs", "mod room;"), room, ("room/a.rs", ""), ("room/b.rs", "use crate::room::A;")];
        assert_eq!(found(&files), Vec::<String>::new());
        let defines = ("room/mod.rs", "mod b;\nmod c;\nstruct A;\n\nfn f() -> b::B {}\nfn g() -> c::C {}");
        let files = [("main.rs", ""), defines, ("room/b.rs", "use super::A;"), ("room/c.rs", "use super::{A, b::B};")];
        assert!(found(&files)[0].contains("room/b.rs"), "{:?}", found(&files));
    }
}
