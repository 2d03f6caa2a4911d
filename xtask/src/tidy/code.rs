//! Rust source with the words of people taken out: comments, strings and character literals become spaces. And without its tests.

/// The code alone. Lines and columns stay where they were.
pub(super) fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    while code.len() < bytes.len() {
        let rest = &bytes[code.len()..];
        let in_word = code.last().is_some_and(|b: &u8| b.is_ascii_alphanumeric() || *b == b'_');
        match words_len(rest, in_word) {
            Some(len) => code.extend(rest[..len].iter().map(|b| if *b == b'\n' { b'\n' } else { b' ' })),
            None => code.push(rest[0]),
        }
    }
    String::from_utf8(code).expect("only whole comments and literals were replaced, by ASCII")
}

/// Stands before what is built for tests alone.
const TEST: &str = "#[cfg(test)]";

/// Code (see [`code_of`]) of which every item that is built for tests alone became spaces. Lines and columns stay where they were.
pub(super) fn shipped(code: &str) -> String {
    let mut shipped = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(TEST) {
        let (before, test) = rest.split_at(at);
        let (item, after) = test.split_at(TEST.len() + item_len(&test[TEST.len()..]));
        shipped.push_str(before);
        shipped.extend(item.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
        rest = after;
    }
    shipped + rest
}

/// The length of the item that starts here, its other attributes included: to its `;`, or to the end of its braces. A field, a variant or
/// an arm ends with its comma, or before what it lies in ends.
fn item_len(rest: &str) -> usize {
    let start = attributes_len(rest);
    let kind = kind_of(&rest[start..]);
    let (mut depth, mut angles) = (0_usize, 0_usize);
    let mut before = ' ';
    for (at, letter) in rest.char_indices().skip_while(|(at, _)| *at < start) {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return at,
            ')' | ']' | '}' => {
                depth -= 1;
                if depth == 0 && letter == '}' && kind == Kind::Braced {
                    return at + 1;
                }
            }
            '<' => angles += 1,
            '>' if !['-', '='].contains(&before) => angles = angles.saturating_sub(1),
            ';' if depth == 0 => return at + 1,
            ',' if depth == 0 && angles == 0 && kind == Kind::Part => return at + 1,
            _ => {}
        }
        before = letter;
    }
    rest.len()
}

/// Blanks and further attributes.
fn attributes_len(rest: &str) -> usize {
    let mut at = rest.len() - rest.trim_start().len();
    while rest[at..].starts_with("#[") {
        let mut depth = 0_usize;
        let end = rest[at..].find(|letter| {
            match letter {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            letter == ']' && depth == 0
        });
        let after = end.map_or("", |end| &rest[at + end + 1..]);
        at = rest.len() - after.trim_start().len();
    }
    at
}

/// How an item ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// With its braces, if it has any before its `;`.
    Braced,
    /// With its `;`, whatever braces come before it.
    Statement,
    /// A part of something else, with a comma.
    Part,
}

fn kind_of(item: &str) -> Kind {
    const BRACED: [&str; 11] =
        ["async", "enum", "extern", "fn", "impl", "macro_rules", "mod", "struct", "trait", "union", "unsafe"];
    const STATEMENTS: [&str; 5] = ["const", "let", "static", "type", "use"];
    let word_of =
        |text: &str| text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().map(str::to_owned);
    let mut words = item;
    if let Some(after) = words.strip_prefix("pub") {
        let after = after.trim_start();
        words = after.strip_prefix('(').and_then(|after| after.split_once(')')).map_or(after, |(_, after)| after);
    }
    let words = words.trim_start();
    let word = word_of(words).unwrap_or_default();
    let is_function = word == "const" && words["const".len()..].trim_start().starts_with("fn ");
    if is_function || BRACED.contains(&word.as_str()) || item.starts_with('{') {
        Kind::Braced
    } else if STATEMENTS.contains(&word.as_str()) {
        Kind::Statement
    } else {
        Kind::Part
    }
}

/// The length of the comment or literal that starts here.
fn words_len(rest: &[u8], in_word: bool) -> Option<usize> {
    if rest.starts_with(b"//") {
        return Some(rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()));
    }
    if rest.starts_with(b"/*") {
        return Some(block_comment_len(rest));
    }
    match rest[0] {
        b'"' => Some(string_len(rest)),
        b'r' if !in_word => raw_string_len(rest),
        b'b' if !in_word && rest.get(1) == Some(&b'r') => raw_string_len(&rest[1..]).map(|len| len + 1),
        b'\'' => character_len(rest),
        _ => None,
    }
}

fn block_comment_len(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn string_len(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#` and so on; not a raw identifier.
fn raw_string_len(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    let found = rest[body..].windows(end.len()).position(|window| window == end);
    Some(found.map_or(rest.len(), |at| body + at + end.len()))
}

/// A character literal; a lifetime is code.
fn character_len(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        // The third byte is what is escaped, be it a quote.
        let end = rest.iter().skip(3).position(|b| *b == b'\'')?;
        return Some(3 + end + 1);
    }
    // One character of one to four bytes, then the quote.
    (3..=6).find(|len| rest.get(len - 1) == Some(&b'\'')).filter(|len| *len == 3 || !rest[1].is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_vanish_and_code_stays_where_it_was() {
        let text = "let a = \"x \\\" y\"; // z\nlet b = 'q'; /* w /* v */ u */ fn f<'a>() {}\nlet c = r#\"s \" t\"#;";
        let code = code_of(text);
        assert_eq!(code.len(), text.len());
        for word in ["x", "y", "z", "q", "w", "v", "u", "s", "t"] {
            assert!(!code.split(|c: char| !c.is_alphanumeric()).any(|found| found == word), "{word} in {code}");
        }
        assert!(code.contains("fn f<'a>() {}"));
        assert_eq!(code.lines().count(), 3);
    }

    #[test]
    fn quotes_as_characters_do_not_open_strings() {
        let code = code_of("let a = ('\"', b'\\'', '\\\\', 'ü'); unsafe_word");
        assert!(code.ends_with("unsafe_word"), "{code}");
    }

    #[test]
    fn what_is_built_for_tests_alone_vanishes_and_what_comes_behind_it_stays() {
        for test in [
            "mod tests {\n    fn f() { g({}) }\n}",
            "pub(crate) mod tests;",
            "#[path = [1]]\nmod tests;",
            "use a::{b, c};",
            "impl<A, B> C<A, B> {\n    fn f() {}\n}",
            "pub(crate) fn f<A, B>(a: [u8; 3]) -> A where A: D, B: E {\n    g();\n}",
            "pub(super) const fn f() -> u8 {\n    1\n}",
            "const A: &[B] = &[B { c: [0; 2], d: 1 }];",
            "pub(crate) const A: B = B { c: 1 };",
            "struct A(u64, u64);",
            "pub struct A<B, C> {\n    b: B,\n}",
            "macro_rules! a {\n    () => {};\n}",
            "let a = { b; c };",
            "{ a; }",
            "a.b(c, d);",
        ] {
            let code = format!("before();\n#[cfg(test)]\n{test}\nbehind();");
            let shipped = shipped(&code);
            assert_eq!(shipped.len(), code.len());
            let words: Vec<&str> = shipped.split_whitespace().collect();
            assert_eq!(words, ["before();", "behind();"], "{test}");
            assert_eq!(shipped.lines().count(), code.lines().count());
        }
        for part in
            ["pub(crate) a: &'static str", "a: HashMap<u8, u8>", "a: f(b, c)", "A { b: u8, c: u8 }", "A => b(c, d)"]
        {
            for (behind, left) in [(",\nbehind,\n}", vec!["{", "behind,", "}"]), ("\n}", vec!["{", "}"])] {
                let shipped = shipped(&format!("{{\n    #[cfg(test)]\n    {part}{behind}"));
                assert_eq!(shipped.split_whitespace().collect::<Vec<_>>(), left, "{part}");
            }
        }
    }
}
