//! The map is true: every path that `docs/ARCHITECTURE.md` names is in the repository, and every name that it says is in a file is there.

use super::Finding;

const MAP: &str = "docs/ARCHITECTURE.md";

/// What may stand between a file and a name in it.
const IN_IT: &[&str] = &[" (", ": ", ", "];
/// What may stand between two names in a file.
const AND: &str = ", ";

/// What the map says and is not so.
pub(super) fn check(texts: &[(String, String)]) -> Vec<Finding> {
    let Some((_, map)) = texts.iter().find(|(path, _)| path == MAP) else { return Vec::new() };
    let lines = map.lines().zip(1..);
    lines
        .flat_map(|(line, number)| wrong_in(line, texts).into_iter().map(move |rule| (number, rule)))
        .map(finding)
        .collect()
}

fn finding((number, rule): (usize, String)) -> Finding {
    Finding { place: format!("{MAP}:{number}"), rule }
}

fn wrong_in(line: &str, texts: &[(String, String)]) -> Vec<String> {
    // What lies between backticks, and what before each of them.
    let parts: Vec<&str> = line.split('`').collect();
    let quoted = parts.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let mut wrong = Vec::new();
    let mut file: Option<&str> = None;
    let mut is_named = false;
    for (before, token) in quoted {
        if is_path(token) {
            if !texts.iter().any(|(path, _)| is_at(path, token)) {
                wrong.push(format!("`{token}` is not in the repository"));
            }
            (file, is_named) = (Some(token).filter(|token| token.ends_with(".rs")), false);
            continue;
        }
        let goes_on = IN_IT.contains(&before) || (is_named && before == AND);
        let Some(named) = file.filter(|_| goes_on && is_name(token)) else {
            file = None;
            continue;
        };
        is_named = true;
        if !texts.iter().any(|(path, text)| is_at(path, named) && has_word(text, token)) {
            wrong.push(format!("`{named}` does not have `{token}`"));
        }
    }
    wrong
}

/// A file or folder: those of the text that are meant as such have a slash or a known ending.
fn is_path(token: &str) -> bool {
    let plain = token.chars().all(|letter| letter.is_ascii_alphanumeric() || "_./-".contains(letter));
    let ends = [".rs", ".md", ".ts", ".json"].iter().any(|ending| token.ends_with(ending));
    plain && (ends || token.contains('/'))
}

fn is_name(token: &str) -> bool {
    token.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The file has this path, or the end of it; or it lies in the folder that has.
fn is_at(path: &str, token: &str) -> bool {
    let path = format!("/{path}");
    let token = format!("/{}", token.trim_end_matches('/'));
    path.ends_with(&token) || path.contains(&format!("{token}/"))
}

fn has_word(text: &str, word: &str) -> bool {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_inside) && !after.starts_with(is_inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<String> {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let texts = [file(MAP, line), file("crates/cache/src/log/batch.rs", "fn select() {}\nfn take_effect_of() {}")];
        check(&texts).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_path_that_is_not_there_is_found() {
        for good in ["`log/batch.rs`", "`batch.rs`", "in `crates/cache`", "`log/`", "`cargo x`, `a/*`, `Device::read`"]
        {
            assert!(found(good).is_empty(), "{good}");
        }
        for bad in ["`log/append.rs`", "`atch.rs`", "`crates/cach`", "`log/bat/`"] {
            assert_eq!(found(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_name_that_its_file_does_not_have_is_found() {
        for good in
            ["`log/batch.rs` (`select`)", "`batch.rs`, `select`", "`batch.rs`. But `place`", "`place` (`batch.rs`)"]
        {
            assert!(found(good).is_empty(), "{good}");
        }
        for bad in ["`batch.rs` (`place`)", "`batch.rs` (`select`, `place`)", "`batch.rs`: `take_effect`"] {
            assert_eq!(found(bad).len(), 1, "{bad}");
        }
    }
}
