//! Aligned tables for people, and lists whose columns, order and numbers are asked for.

use std::cmp::Ordering;

use hotset_api::{ApiError, ApiErrorKind};

use crate::args::TableArguments;
use crate::escape::escaped;
use crate::size::{grouped, human};

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

/// What a list shows of one row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Bytes(u64),
    /// Not known: the least of all.
    Nothing,
    Count(u64),
    /// 0 to 1.
    Ratio(f64),
    /// With so many digits after the point.
    Number(f64, usize),
}

impl Cell {
    /// For people, or exactly.
    fn shown(&self, exact: bool) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Nothing => "-".to_owned(),
            Self::Bytes(bytes) | Self::Count(bytes) if exact => bytes.to_string(),
            Self::Bytes(bytes) => human(*bytes),
            Self::Count(count) => grouped(*count),
            Self::Ratio(ratio) if exact => format!("{ratio:.4}"),
            Self::Ratio(ratio) => format!("{:.1} %", ratio * 100.0),
            Self::Number(number, digits) => format!("{number:.digits$}"),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => Ordering::Equal,
            (Self::Nothing, _) => Ordering::Less,
            (_, Self::Nothing) => Ordering::Greater,
            (Self::Bytes(a) | Self::Count(a), Self::Bytes(b) | Self::Count(b)) => a.cmp(b),
            (Self::Ratio(a) | Self::Number(a, _), Self::Ratio(b) | Self::Number(b, _)) => a.total_cmp(b),
            (one, other) => one.shown(true).cmp(&other.shown(true)),
        }
    }
}

/// A column of a list.
pub(crate) struct Column<T> {
    /// One that starts with `>` is of numbers.
    pub(crate) heading: &'static str,
    pub(crate) cell: fn(&T) -> Cell,
    when_asked: bool,
}

// Whatever its rows are.
impl<T> Clone for Column<T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T> Column<T> {
    pub(crate) const fn new(heading: &'static str, cell: fn(&T) -> Cell) -> Self {
        Self { heading, cell, when_asked: false }
    }

    /// One that is shown to who names it, only.
    pub(crate) const fn when_asked(heading: &'static str, cell: fn(&T) -> Cell) -> Self {
        Self { heading, cell, when_asked: true }
    }

    /// As `-o` and `--sort` name it: `hit-ratio` is `HIT RATIO`.
    fn name(&self) -> String {
        self.heading.trim_start_matches('>').to_lowercase().replace(' ', "-")
    }
}

/// How a list is wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    /// Names of columns; empty: all of them.
    pub(crate) columns: Vec<String>,
    pub(crate) table: TableArguments,
}

impl Listing {
    /// For people who asked for nothing else: with what is said below a table.
    pub(crate) fn is_plain(&self) -> bool {
        self.columns.is_empty() && !self.table.no_headings
    }

    /// # Errors
    /// A column is asked for that there is not.
    pub(super) fn check<T>(&self, columns: &[Column<T>]) -> Result<(), ApiError> {
        let sort = self.table.sort.as_deref().map(column_of);
        self.columns.iter().map(String::as_str).chain(sort).try_for_each(|name| find(columns, name).map(drop))
    }

    /// `none` is said where there are no rows.
    ///
    /// # Errors
    /// A column that there is not.
    pub(crate) fn render<T>(&self, columns: &[Column<T>], rows: &[T], none: &str) -> Result<String, ApiError> {
        let chosen: Vec<&Column<T>> = match self.columns.as_slice() {
            [] => columns.iter().filter(|column| !column.when_asked).collect(),
            names => names.iter().map(|name| find(columns, name)).collect::<Result<_, _>>()?,
        };
        let mut ordered: Vec<&T> = rows.iter().collect();
        if let Some(sort) = &self.table.sort {
            let column = find(columns, column_of(sort))?;
            ordered.sort_by(|one, other| (column.cell)(one).compare(&(column.cell)(other)));
            if sort.starts_with('-') {
                ordered.reverse();
            }
        }
        if rows.is_empty() && self.is_plain() {
            return Ok(none.to_owned());
        }
        let mut table = Table::new(&chosen.iter().map(|column| column.heading).collect::<Vec<_>>());
        for row in ordered {
            table.row(chosen.iter().map(|column| (column.cell)(row).shown(self.table.bytes)).collect());
        }
        if self.table.no_headings {
            table.rows.remove(0);
        }
        Ok(table.render())
    }
}

/// What `--sort` names, in whichever order.
fn column_of(sort: &str) -> &str {
    sort.trim_start_matches('-')
}

fn find<'a, T>(columns: &'a [Column<T>], name: &str) -> Result<&'a Column<T>, ApiError> {
    let found = columns.iter().find(|column| column.name() == name.to_lowercase());
    found.ok_or_else(|| {
        let mut names: Vec<String> = Vec::new();
        for name in columns.iter().map(Column::name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        ApiError::new(
            ApiErrorKind::Invalid,
            format!("there is no column {name:?}; the columns are {}", names.join(", ")),
        )
    })
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

    const COLUMNS: [Column<(&str, u64)>; 5] = [
        Column::new("NAME", |row| Cell::Text(row.0.to_owned())),
        Column::new(">USED", |row| Cell::Bytes(row.1)),
        Column::new(">HIT RATIO", |row| if row.1 == 0 { Cell::Nothing } else { Cell::Ratio(0.25) }),
        Column::when_asked(">half", |row| Cell::Count(row.1 / 2)),
        Column::when_asked(">used", |_| Cell::Nothing),
    ];
    const ROWS: [(&str, u64); 3] = [("a", 3 << 20), ("b", 0), ("c", 20)];

    fn listed(columns: &str, table: TableArguments) -> String {
        let columns = columns.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Listing { columns, table }.render(&COLUMNS, &ROWS, "None\n").unwrap_or_else(|error| error.message)
    }

    #[test]
    fn columns_order_and_exact_numbers_are_chosen() {
        let table = TableArguments::default();
        assert_eq!(
            listed("", table.clone()),
            "NAME   USED  HIT RATIO\na     3 MiB     25.0 %\nb       0 B          -\nc      20 B     25.0 %\n"
        );
        let exact = TableArguments { sort: Some("used".into()), no_headings: true, bytes: true };
        assert_eq!(listed("name,used", exact), "b        0\nc       20\na  3145728\n");
        let plain = TableArguments { sort: Some("half".into()), no_headings: true, bytes: false };
        assert_eq!(listed("half", plain), "        0\n       10\n1,572,864\n", "shown to who names it");
        let down = TableArguments { sort: Some("-hit-ratio".into()), no_headings: true, bytes: false };
        assert!(listed("NAME", down).ends_with("b\n"));
    }

    #[test]
    fn a_column_that_there_is_not_lists_those_that_there_are() {
        for said in [
            listed("size", TableArguments::default()),
            listed("", TableArguments { sort: Some("size".into()), ..Default::default() }),
        ] {
            assert_eq!(said, "there is no column \"size\"; the columns are name, used, hit-ratio, half");
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
