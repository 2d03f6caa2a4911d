//! Aligned tables for people.

use crate::escape::escaped;

/// Rows of cells under headings; the last column is not padded.
pub(crate) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alignment {
    Left,
    Right,
}

impl Table {
    /// Headings; one that starts with `>` heads a column of numbers, which is aligned to the right.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let alignments = headings.iter().map(|text| alignment(text)).collect();
        let first = headings.iter().map(|text| text.trim_start_matches('>').to_owned()).collect();
        Self { alignments, rows: vec![first] }
    }

    /// # Panics
    /// If there is not one cell for each heading.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.alignments.len(), "a row has one cell for each heading");
        // A row is one line, whatever is in its cells.
        self.rows.push(cells.iter().map(|cell| escaped(cell)).collect());
    }

    pub(crate) fn render(&self) -> String {
        let widths: Vec<usize> = (0..self.alignments.len()).map(|column| self.width(column)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), alignment) in row.iter().zip(&widths).zip(&self.alignments) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                match alignment {
                    Alignment::Left => line.push_str(&format!("{cell:<width$}")),
                    Alignment::Right => line.push_str(&format!("{cell:>width$}")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    }
}

fn alignment(heading: &str) -> Alignment {
    if heading.starts_with('>') { Alignment::Right } else { Alignment::Left }
}

/// `name: value` lines with aligned values; empty values are left out.
pub(crate) fn facts(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len() + 1).max().unwrap_or(0);
    let shown = pairs.iter().filter(|(_, value)| !value.is_empty());
    shown.map(|(name, value)| format!("{:<width$}  {}\n", format!("{name}:"), escaped(value))).collect()
}

/// Lines below a table about one of its rows, each with its name; empty ones are left out.
pub(crate) fn notes(name: &str, said: &[&str]) -> String {
    let said = said.iter().filter(|text| !text.is_empty());
    said.map(|text| format!("{}: {}\n", escaped(name), escaped(text))).collect()
}

pub(crate) fn on_off(is_on: bool) -> String {
    if is_on { "on".to_owned() } else { "off".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
        let mut table = Table::new(&["NAME", ">SIZE", "REASON"]);
        table.row(vec!["a".into(), "1 MiB".into(), String::new()]);
        table.row(vec!["longer".into(), "512 B".into(), "why".into()]);
        assert_eq!(table.render(), "NAME     SIZE  REASON\na       1 MiB\nlonger  512 B  why\n");
    }

    #[test]
    fn a_row_a_fact_and_a_note_are_one_line_each_whatever_is_in_them() {
        let evil = "a\n\x1b[2Jb";
        let mut table = Table::new(&["NAME", "X"]);
        table.row(vec![evil.into(), "x".into()]);
        for text in [table.render(), facts(&[("N", evil.into()), ("M", "m".into())]), notes(evil, &[evil, "x"])] {
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(text.contains("a\\n\\u{1b}[2Jb") && !text.contains('\x1b'), "{text}");
        }
    }

    #[test]
    fn facts_without_a_value_are_left_out() {
        let text = facts(&[("Health", "good".into()), ("Reason", String::new()), ("Size", "1 B".into())]);
        assert_eq!(text, "Health:  good\nSize:    1 B\n");
    }

    #[test]
    fn what_is_said_of_a_row_has_its_name_before_it() {
        assert_eq!(notes("p", &["why", "what to do"]), "p: why\np: what to do\n");
        assert_eq!(notes("p", &["", ""]), "");
    }

    #[test]
    #[should_panic(expected = "one cell for each heading")]
    fn a_row_that_does_not_fit_is_a_defect() {
        Table::new(&["A", "B"]).row(vec!["only one".into()]);
    }
}
