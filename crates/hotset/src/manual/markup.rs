//! Text as people write it, turned into man pages: paragraphs, `code`, examples by four blanks, lists by `- `, terms by ` :: `,
//! headings by `## `.

use clap_mangen::roff::{Inline, Roff, bold, roman};

/// What the pages are a manual of.
const MANUAL: &str = "Hotset";

/// A page: its file's name, and what is in it.
pub(super) struct ManualPage {
    pub(super) file: String,
    pub(super) text: String,
}

/// Pages are the same whenever they are made.
const NO_DATE: &str = "\"\"";

/// A page of text alone.
pub(super) fn page(name: &str, section: u8, about: &str, text: &str) -> ManualPage {
    let mut roff = Roff::new();
    title(&mut roff, name, section);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - {about}"))]);
    add(&mut roff, text);
    ManualPage { file: format!("{name}.{section}"), text: roff.render() }
}

pub(super) fn title(roff: &mut Roff, name: &str, section: u8) {
    let source = format!("hotset {}", env!("CARGO_PKG_VERSION"));
    roff.control("TH", [name.to_uppercase().as_str(), &section.to_string(), NO_DATE, &source, MANUAL]);
}

/// Adds blocks, which blank lines part.
pub(super) fn add(roff: &mut Roff, text: &str) {
    let mut paragraph = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            end(roff, &mut paragraph);
            roff.control("SH", [heading]);
        } else if line.starts_with("    ") {
            end(roff, &mut paragraph);
            let mut block = vec![line];
            while let Some(more) = lines.next_if(|line| line.starts_with("    ")) {
                block.push(more);
            }
            example(roff, &block);
        } else if let Some(item) = line.strip_prefix("- ") {
            end(roff, &mut paragraph);
            roff.control("IP", ["\\(bu", "2"]);
            roff.text(inline(item));
        } else if let Some((term, meaning)) = line.split_once(" :: ") {
            end(roff, &mut paragraph);
            roff.control("TP", []);
            roff.text(inline(term));
            roff.text(inline(meaning));
        } else if line.is_empty() {
            end(roff, &mut paragraph);
        } else {
            paragraph.push(line);
        }
    }
    end(roff, &mut paragraph);
}

fn end(roff: &mut Roff, paragraph: &mut Vec<&str>) {
    if paragraph.is_empty() {
        return;
    }
    roff.control("PP", []);
    roff.text(inline(&paragraph.join(" ")));
    paragraph.clear();
}

/// What is typed, line by line as it is.
fn example(roff: &mut Roff, lines: &[&str]) {
    roff.control("PP", []);
    roff.control("RS", ["4"]);
    roff.control("nf", []);
    for line in lines {
        roff.text([bold(line.trim_start())]);
    }
    roff.control("fi", []);
    roff.control("RE", []);
}

/// What is between backquotes is bold.
fn inline(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts
        .filter(|(_, part)| !part.is_empty())
        .map(|(index, part)| if index % 2 == 1 { bold(part) } else { roman(part) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_block_becomes_what_man_knows() {
        let text =
            "Some `code` here\nand on.\n\n## NEXT\n- one\n`-k` :: what it is\n\nTry:\n    hotset status\n    .hotset\n";
        let page = page("hotset-x", 7, "an example", text).text;
        for part in [
            ".TH HOTSET-X 7 \"\" \"hotset ",
            ".SH NAME\nhotset\\-x \\- an example\n",
            "Some \\fBcode\\fR here and on.",
            ".SH NEXT",
            ".IP",
            ".TP\n\\fB\\-k\\fR\nwhat it is",
            ".nf\n\\fBhotset status\\fR\n\\fB.hotset\\fR\n.fi",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }
}
