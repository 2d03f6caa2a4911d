//! Rust source with the words of people taken out: comments, strings and character literals become spaces.

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
}
