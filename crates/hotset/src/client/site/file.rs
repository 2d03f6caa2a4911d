//! A site file as it is written: tables, keys and values, each with its line. What they mean is judged elsewhere (`wanted.rs`).

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The table of what is neither a pool's nor a volume's.
pub(super) const MEMORY_CACHE: &str = "memory-cache";

/// A table, as `[pool.fast]`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SiteTable {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) keys: Vec<SiteKey>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SiteKey {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) value: SiteValue,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SiteValue {
    /// Of a string, a number, or a boolean, which is `on` or `off`.
    Text(String),
    List(Vec<String>),
}

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) line: usize,
    pub(super) message: String,
}

impl Mistake {
    pub(super) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// Pools and volumes, in the order of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SiteFile {
    pub(super) pools: Vec<SiteTable>,
    pub(super) volumes: Vec<SiteTable>,
    pub(super) memory_cache: Option<SiteTable>,
}

impl SiteFile {
    /// # Errors
    /// Everything that is wrong with its form.
    pub(super) fn parse(text: &str) -> Result<Self, Vec<Mistake>> {
        let lines = LineNumbers(text);
        let document = DeTable::parse(text).map_err(|error| {
            vec![Mistake::new(lines.of(error.span().map_or(0, |span| span.start)), error.message())]
        })?;
        let (mut site, mut wrong) = (Self::default(), Vec::new());
        for (kind, value) in document.get_ref() {
            let line = lines.of(kind.span().start);
            let entries = match kind.get_ref().as_ref() {
                "pool" => &mut site.pools,
                "volume" => &mut site.volumes,
                MEMORY_CACHE => {
                    match lines.entry(MEMORY_CACHE, line, value) {
                        Ok(found) => site.memory_cache = Some(found),
                        Err(found) => wrong.extend(found),
                    }
                    continue;
                }
                other => {
                    let message = format!("{other}: a site file has [pool.NAME], [volume.NAME] and [{MEMORY_CACHE}]");
                    wrong.push(Mistake::new(line, message));
                    continue;
                }
            };
            match lines.entries(value) {
                Ok(found) => *entries = found,
                Err(found) => wrong.extend(found),
            }
        }
        site.pools.sort_by_key(|entry| entry.line);
        site.volumes.sort_by_key(|entry| entry.line);
        if wrong.is_empty() { Ok(site) } else { Err(wrong) }
    }
}

/// Lines of a text by the bytes at which they are.
struct LineNumbers<'a>(&'a str);

impl LineNumbers<'_> {
    fn of(&self, at: usize) -> usize {
        self.0.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }

    fn entries(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<SiteTable>, Vec<Mistake>> {
        let DeValue::Table(tables) = value.get_ref() else {
            return Err(vec![Mistake::new(self.of(value.span().start), "it is a table, as [pool.NAME]")]);
        };
        let (mut entries, mut wrong) = (Vec::new(), Vec::new());
        for (name, value) in tables {
            match self.entry(name.get_ref(), self.of(name.span().start), value) {
                Ok(entry) => entries.push(entry),
                Err(found) => wrong.extend(found),
            }
        }
        if wrong.is_empty() { Ok(entries) } else { Err(wrong) }
    }

    fn entry(&self, name: &str, line: usize, value: &Spanned<DeValue<'_>>) -> Result<SiteTable, Vec<Mistake>> {
        let DeValue::Table(keys) = value.get_ref() else {
            let example = if name == MEMORY_CACHE { "[memory-cache]" } else { "[pool.NAME]" };
            return Err(vec![Mistake::new(line, format!("{name}: it is a table, as {example}"))]);
        };
        let (mut entry, mut wrong) = (SiteTable { name: name.to_owned(), line, keys: Vec::new() }, Vec::new());
        for (key, value) in keys {
            let (name, line) = (key.get_ref().to_string(), self.of(key.span().start));
            match value_of(value.get_ref()) {
                Some(value) => entry.keys.push(SiteKey { name, line, value }),
                None => wrong.push(Mistake::new(
                    line,
                    format!("{name} of {}: it is a text, a number, or a list of texts", entry.name),
                )),
            }
        }
        entry.keys.sort_by_key(|key| key.line);
        if wrong.is_empty() { Ok(entry) } else { Err(wrong) }
    }
}

fn value_of(value: &DeValue<'_>) -> Option<SiteValue> {
    match value {
        DeValue::Array(values) => {
            let texts = values.iter().map(|value| match value.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_)
                | DeValue::Array(_)
                | DeValue::Table(_) => None,
            });
            texts.collect::<Option<_>>().map(SiteValue::List)
        }
        DeValue::String(text) => Some(SiteValue::Text(text.to_string())),
        DeValue::Integer(number) => Some(SiteValue::Text(number.to_string())),
        DeValue::Boolean(true) => Some(SiteValue::Text("on".to_owned())),
        DeValue::Boolean(false) => Some(SiteValue::Text("off".to_owned())),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_keys_and_lines_are_found_in_their_order() {
        let text = "# a site\n[pool.fast]\ntype = \"read\"\nssds = [\"/a\", \"/b\"]\npopulate-on-read = 3\n\n[volume.\"a b\"]\nread-only = true\n[pool.\"x<y>\"]\n";
        let site = SiteFile::parse(text).expect("it is right");
        let names: Vec<_> = site.pools.iter().map(|entry| (entry.name.as_str(), entry.line)).collect();
        assert_eq!(names, [("fast", 2), ("x<y>", 9)]);
        let keys = &site.pools[0].keys;
        assert_eq!((keys[1].name.as_str(), keys[1].line), ("ssds", 4));
        assert_eq!(keys[1].value, SiteValue::List(vec!["/a".into(), "/b".into()]));
        assert_eq!(keys[2].value, SiteValue::Text("3".into()));
        assert_eq!(site.volumes[0].keys[0].value, SiteValue::Text("on".into()));
    }

    #[test]
    fn what_has_no_form_is_told_with_its_line() {
        for (text, line, part) in [
            ("[pool.fast]\ntype = read", 2, ""),
            ("\n[disk.a]\n", 2, "[pool.NAME]"),
            ("pool = 3", 1, "a table"),
            ("[pool]\nfast = 1", 2, "fast"),
            ("[pool.a]\nssds = [1]", 2, "ssds of a"),
            ("[pool.a]\n[pool.a]", 2, "duplicate"),
        ] {
            let wrong = SiteFile::parse(text).expect_err(text);
            assert_eq!(wrong[0].line, line, "{text}: {wrong:?}");
            assert!(wrong[0].message.contains(part), "{text}: {wrong:?}");
        }
    }
}
