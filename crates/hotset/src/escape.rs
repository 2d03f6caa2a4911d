//! Text that is not ours (names, paths, reasons, what devices say of themselves) on its way to a terminal or a log: its
//! control characters are shown, not obeyed.

/// Whether a terminal might do something else with it than show it: the control characters of ASCII and Latin-1, the
/// separators of lines and paragraphs, and what turns the direction of a line round.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` in one line, as Rust writes characters that cannot be shown: `\n`, `\u{1b}`.
pub(crate) fn escaped(text: &str) -> String {
    escape(text, |_| false)
}

/// The same for text of several lines: these stay.
pub(crate) fn escaped_lines(text: &str) -> String {
    escape(text, |c| c == '\n')
}

/// The same for a JSON text: it means what it meant.
pub(crate) fn escaped_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_obeyed(c) && c != '\n' {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    shown
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_obeyed(c) && !stays(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        for (text, shown) in [
            ("plain é 表 →", "plain é 表 →"),
            ("a\x1b[31mb", "a\\u{1b}[31mb"),
            ("a\nb\r\t\x07\x08", "a\\nb\\r\\t\\u{7}\\u{8}"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("\u{202e}gpj.exe\u{2066}", "\\u{202e}gpj.exe\\u{2066}"),
        ] {
            assert_eq!(escaped(text), shown);
        }
        assert_eq!(escaped_lines("a\nb\x1b"), "a\nb\\u{1b}");
    }

    #[test]
    fn json_means_the_same_without_what_a_terminal_would_obey() {
        let value = serde_json::json!({ "path": "/dev/\u{9b}2J\u{7f}\u{202e}\x1b\n" });
        let shown = escaped_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!shown.chars().any(|c| is_obeyed(c) && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
