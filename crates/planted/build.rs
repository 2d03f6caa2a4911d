//! Makes the engine that the simulator drives: that of `crates/cache`, with the bugs that `rules/` describes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

mod patch;

use patch::{Bug, Problem};

const ENGINE: &str = "../cache/src";
/// Below the folder that cargo gives us.
const PLANTED_ENGINE: &str = "engine";

fn main() -> ExitCode {
    for path in [ENGINE, "rules", "hooks.md", "build.rs", "patch.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    match make() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problems) => {
            problems.iter().for_each(|problem| println!("cargo::error={}: {}", problem.place, problem.what));
            ExitCode::FAILURE
        }
    }
}

fn make() -> Result<(), Vec<Problem>> {
    let hooks = read_bugs(Path::new("hooks.md"))?;
    let mut rules: Vec<PathBuf> = files_in(Path::new("rules"));
    rules.sort();
    let mut bugs = Vec::new();
    for path in rules {
        bugs.extend(read_bugs(&path)?);
    }
    let mut engine = BTreeMap::new();
    for path in files_in(Path::new(ENGINE)) {
        let name = path.strip_prefix(ENGINE).expect("it lies there").to_string_lossy().into_owned();
        engine.insert(name, read(&path));
    }
    let problems = patch::plant(hooks.iter().chain(&bugs), &mut engine);
    if !problems.is_empty() {
        return Err(problems);
    }
    write(&bugs, &engine);
    Ok(())
}

fn read_bugs(path: &Path) -> Result<Vec<Bug>, Vec<Problem>> {
    patch::parse(&format!("crates/planted/{}", path.display()), &read(path)).map_err(|problem| vec![problem])
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// Also those in folders.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a folder that was opened can be read").path());
    paths.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}

/// The engine, and the list of its bugs (`src/planted.rs`).
fn write(bugs: &[Bug], engine: &BTreeMap<String, String>) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
    let folder = out.join(PLANTED_ENGINE);
    // Nothing stays that is not in the engine any more.
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("what was made here can be removed");
    }
    for (name, text) in engine {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("cargo's folder can be written to");
        let text = if name == "lib.rs" { root(text) } else { text.clone() };
        fs::write(path, text).expect("cargo's folder can be written to");
    }
    fs::write(out.join("bugs.rs"), declarations(bugs)).expect("cargo's folder can be written to");
}

/// The crate's root as `include!` takes it: without attributes and comments of the file itself.
fn root(text: &str) -> String {
    let is_inner = |line: &&str| line.starts_with("//!") || line.starts_with("#![");
    text.lines().filter(|line| !is_inner(line)).map(|line| format!("{line}\n")).collect()
}

fn declarations(bugs: &[Bug]) -> String {
    let (mut variants, mut all, mut of_log) = (String::new(), String::new(), String::new());
    for Bug { name, rule, words, of_log: is_of_log, .. } in bugs {
        writeln!(variants, "/// {words}\n{name},").expect("a text takes everything");
        writeln!(all, "(Planted::{name}, {name:?}, {rule:?}),").expect("a text takes everything");
        if *is_of_log {
            writeln!(of_log, "| Planted::{name}").expect("a text takes everything");
        }
    }
    format!(
        "/// One rule broken. The words in the comment say what the engine then does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Planted {{ {variants} }}
        const ALL: &[(Planted, &str, &str)] = &[{all}];
        fn is_of_log(bug: Planted) -> bool {{ matches!(bug, {of_log}) }}"
    )
}
