//! What `rules/*.md` say, read and made of the engine's sources. The build script does it, and `cargo x tidy` checks that it
//! could. No file is read or written here.
//!
//! A diff says what it takes away and puts in, and between what; both is looked for in the engine as it stands, whatever other
//! diffs do to it, and without regard to white space, so that neither order nor line breaks matter. A diff need not be of
//! whole lines. What it names must be there exactly once, or as often as it says.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a diff says where it asks whether its bug is planted.
const PLANTED: &str = "PLANTED";

/// One rule broken.
#[derive(Debug)]
pub(crate) struct Bug {
    pub(crate) name: String,
    pub(crate) rule: String,
    /// It is of the write log, which read pools do not have.
    pub(crate) of_log: bool,
    /// What the engine does then.
    pub(crate) words: String,
    /// None: the simulated world has this bug, not the engine.
    pub(crate) diffs: Vec<Diff>,
}

/// A change to one file of the engine.
#[derive(Debug)]
pub(crate) struct Diff {
    place: String,
    /// Below the engine's `src`.
    file: String,
    times: usize,
    /// What has to be there, without white space.
    wanted: Vec<char>,
    cuts: Vec<Cut>,
}

/// What takes the place of a part of what a diff names.
#[derive(Debug)]
struct Cut {
    part: Range<usize>,
    with: String,
}

/// What takes the place of a part of a file.
struct Change {
    place: String,
    part: Range<usize>,
    with: String,
}

/// Why the bugs are not to be had: where, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// `path:line`
    pub(crate) place: String,
    pub(crate) what: String,
}

/// The bugs of one document, which break the rule that it is named after.
///
/// A heading names the bug, and says `(write log)` where it is of that; then comes what the engine does; then fenced diffs
/// (`diff FILE`, `diff FILE 2` if it is to be made in two places).
pub(crate) fn parse(path: &str, text: &str) -> Result<Vec<Bug>, Problem> {
    let rule = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".md");
    let mut bugs: Vec<Bug> = Vec::new();
    let mut open = None;
    for (line, number) in text.lines().zip(1..) {
        let place = format!("{path}:{number}");
        let problem = |what: &str| Problem { place: place.clone(), what: what.to_owned() };
        if let Some(diff) = open.take() {
            let bug = bugs.last_mut().ok_or_else(|| problem("a diff comes after the heading of its bug"))?;
            match line {
                "```" => bug.diffs.push(diff),
                line => {
                    open = Some(
                        diff.with_line(line).ok_or_else(|| problem("a line of a diff begins with ' ', '-' or '+'"))?,
                    )
                }
            }
        } else if let Some(title) = line.strip_prefix("## ") {
            bugs.push(Bug::new(title, rule));
        } else if let Some(what) = line.strip_prefix("```diff ") {
            open =
                Some(Diff::new(place.clone(), what).ok_or_else(|| problem("wanted: diff FILE, or diff FILE TIMES"))?);
        } else if let Some(bug) = bugs.last_mut().filter(|_| !line.is_empty()) {
            let space = if bug.words.is_empty() { "" } else { " " };
            bug.words += &format!("{space}{line}");
        }
    }
    match open {
        Some(diff) => Err(Problem { place: diff.place, what: "this diff has no end".to_owned() }),
        None => Ok(bugs),
    }
}

impl Bug {
    fn new(title: &str, rule: &str) -> Self {
        let name = title.trim_end_matches(" (write log)");
        Self {
            name: name.to_owned(),
            rule: rule.to_owned(),
            of_log: name != title,
            words: String::new(),
            diffs: Vec::new(),
        }
    }
}

impl Diff {
    fn new(place: String, what: &str) -> Option<Self> {
        let (file, times) = match what.split_once(' ') {
            Some((file, times)) => (file, times.parse().ok()?),
            None => (what, 1),
        };
        Some(Self { place, file: file.to_owned(), times, wanted: Vec::new(), cuts: Vec::new() })
    }

    fn with_line(mut self, line: &str) -> Option<Self> {
        let (mark, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
        let at = self.wanted.len();
        let letters = rest.chars().filter(|letter| !letter.is_whitespace());
        match mark {
            " " => self.wanted.extend(letters),
            "-" => {
                self.wanted.extend(letters);
                let end = self.wanted.len();
                self.cut_at(at).part.end = end;
            }
            "+" => self.cut_at(at).with += &format!("{rest}\n"),
            _ => return None,
        }
        Some(self)
    }

    /// The cut that ends here, or a new one.
    fn cut_at(&mut self, at: usize) -> &mut Cut {
        if self.cuts.last().is_none_or(|cut| cut.part.end != at) {
            self.cuts.push(Cut { part: at..at, with: String::new() });
        }
        self.cuts.last_mut().expect("one was pushed if there was none")
    }

    /// What it makes of a file that it names.
    fn changes(&self, bug: &Bug, text: &str) -> Result<Vec<Change>, Problem> {
        let letters: Vec<(usize, char)> = text.char_indices().filter(|(_, letter)| !letter.is_whitespace()).collect();
        let count = self.wanted.len().max(1);
        let is_wanted = |found: &&[(usize, char)]| found.iter().map(|(_, letter)| letter).eq(&self.wanted);
        let found: Vec<&[(usize, char)]> = letters.windows(count).filter(is_wanted).collect();
        if found.len() != self.times {
            let what = format!(
                "{} has what this diff of {} names {} times, not {}: say what the code says now, and see that the bug is still found",
                self.file,
                bug.name,
                found.len(),
                self.times
            );
            return Err(Problem { place: self.place.clone(), what });
        }
        let asks = format!("crate::planted::planted(crate::planted::Planted::{})", bug.name);
        let change = |found: &[(usize, char)], cut: &Cut| Change {
            place: self.place.clone(),
            part: part_of(found, &cut.part),
            with: format!("\n{}", cut.with.replace(PLANTED, &asks)),
        };
        Ok(found.iter().flat_map(|found| self.cuts.iter().map(|cut| change(found, cut))).collect())
    }
}

/// Where these letters of what was found are in the file.
fn part_of(found: &[(usize, char)], part: &Range<usize>) -> Range<usize> {
    let end_of = |(at, letter): (usize, char)| at + letter.len_utf8();
    let after = |index: usize| index.checked_sub(1).map_or(found[0].0, |before| end_of(found[before]));
    match part.is_empty() {
        true => after(part.start)..after(part.start),
        false => found[part.start].0..after(part.end),
    }
}

/// Plants the bugs: `engine` has its sources by their paths below `src`.
pub(crate) fn plant<'a>(
    bugs: impl IntoIterator<Item = &'a Bug>,
    engine: &mut BTreeMap<String, String>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut changes: BTreeMap<&str, Vec<Change>> = BTreeMap::new();
    for (bug, diff) in bugs.into_iter().flat_map(|bug| bug.diffs.iter().map(move |diff| (bug, diff))) {
        let text = engine.get(&diff.file).map_or("", String::as_str);
        match diff.changes(bug, text) {
            Ok(more) => changes.entry(&diff.file).or_default().extend(more),
            Err(problem) => problems.push(problem),
        }
    }
    for (file, changes) in changes {
        let text = engine.get_mut(file).expect("something was found in it");
        match changed(text, changes) {
            Ok(planted) => *text = planted,
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

/// Where several put something in at one place it comes in the order of the documents.
fn changed(text: &str, mut changes: Vec<Change>) -> Result<String, Problem> {
    changes.sort_by_key(|change| (change.part.start, change.part.end));
    let (mut planted, mut done) = (String::new(), 0);
    for change in changes {
        let Some(kept) = text.get(done..change.part.start) else {
            let what = "another diff takes away the same text: put in something beside it instead".to_owned();
            return Err(Problem { place: change.place, what });
        };
        planted.extend([kept, change.with.as_str()]);
        done = change.part.end;
    }
    planted += &text[done..];
    Ok(planted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUGS: &str = "# A rule

What it is.

## Dropped (write log)

The call
is not made.

```diff a.rs
 fn f() {
+    if !PLANTED {
     g();
+    }
```

## Doubled

The other call is made.

```diff a.rs 2
-h(
+k(
```
";

    fn planted(text: &str, engine: &str) -> Result<String, Vec<Problem>> {
        let bugs = parse("rules/r.md", text).map_err(|problem| vec![problem])?;
        let mut files = BTreeMap::from([("a.rs".to_owned(), engine.to_owned())]);
        let problems = plant(&bugs, &mut files);
        if problems.is_empty() { Ok(files.remove("a.rs").expect("it was there")) } else { Err(problems) }
    }

    fn without_space(text: &str) -> String {
        text.split_whitespace().collect()
    }

    #[test]
    fn a_document_names_bugs_and_says_what_they_are() {
        let bugs = parse("rules/r.md", BUGS).unwrap();
        let told: Vec<_> = bugs.iter().map(|bug| (bug.name.as_str(), bug.of_log, bug.words.as_str())).collect();
        assert_eq!(told, [("Dropped", true, "The call is not made."), ("Doubled", false, "The other call is made.")]);
        assert!(bugs.iter().all(|bug| bug.rule == "r" && bug.diffs.len() == 1));
    }

    #[test]
    fn diffs_are_made_whatever_the_line_breaks() {
        let found = planted(BUGS, "fn f() { g(); h(1); }\nfn i() { h(\n2) }").unwrap();
        let asks = "crate::planted::planted(crate::planted::Planted::Dropped)";
        let expected = format!("fn f() {{ if !{asks} {{ g(); }} k(1); }} fn i() {{ k(2) }}");
        assert_eq!(without_space(&found), without_space(&expected));
    }

    #[test]
    fn what_is_there_too_often_or_not_at_all_is_told_with_its_place() {
        let problems = planted(BUGS, "fn f() { h(1); h(2); h(3); }").unwrap_err();
        let places: Vec<_> = problems.iter().map(|problem| problem.place.as_str()).collect();
        assert_eq!(places, ["rules/r.md:10", "rules/r.md:21"]);
        assert!(problems[0].what.contains("Dropped names 0 times, not 1"), "{problems:?}");
        assert!(problems[1].what.contains("Doubled names 3 times, not 2"), "{problems:?}");
    }

    #[test]
    fn several_diffs_put_something_in_at_one_place_but_do_not_take_away_the_same() {
        let both = |first: &str, second: &str| {
            planted(&format!("## A\n```diff a.rs\n{first}\n```\n## B\n```diff a.rs\n{second}\n```\n"), "a(b);")
        };
        assert_eq!(without_space(&both(" a(\n+c,", " a(\n+d,").unwrap()), "a(c,d,b);");
        assert_eq!(without_space(&both("-a\n+c", " a(\n-b\n+d").unwrap()), "c(d);");
        assert!(both("-a(b", "-b)").unwrap_err()[0].what.contains("another diff"));
    }

    #[test]
    fn a_document_that_is_not_understood_is_refused() {
        let problem = |text| parse("rules/r.md", text).unwrap_err();
        assert_eq!(problem("## A\n```diff a.rs\nx\n```\n").place, "rules/r.md:3");
        assert_eq!(problem("## A\n```diff a.rs often\n x\n```\n").place, "rules/r.md:2");
        assert_eq!(problem("```diff a.rs\n x\n```\n").what, "a diff comes after the heading of its bug");
        assert_eq!(problem("## A\n```diff a.rs\n x\n").what, "this diff has no end");
    }
}
