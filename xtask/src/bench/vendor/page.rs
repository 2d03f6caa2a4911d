//! `docs/benchmarks/README.md`: each benchmark has a line in its summary and a part of its own, and a run replaces these alone.

use super::sheet::Sheet;

/// Before the summary.
const HEAD: &str = "\
# The vendors' tests

What vendors of SSD caches published of their products, done again with Hotset: their configuration on an emulated array, their
row beside ours. What counts is the ratio: with the cache to without. A row *reached* the vendor's ratio if it is less than 5 % below
it; a row of which the vendor published nothing is *not slower* if it is less than 5 % below no cache. None may be slower than
without a cache. Each part is written by a run of its benchmark (`make bench-vendor` runs all of them), with the plots. Arrays and
SSDs are emulated, in times that pass on timers, at the speed that is stated; their data are in memory. The daemon, NBD, and the
clients are real and share the processors of the machine that is named.

| test | what it found |
|---|---|
";

/// Of each part: what it is found by, to its end.
fn marks(id: &str) -> (String, String) {
    (format!("<!-- {id} -->\n"), format!("<!-- end of {id} -->\n"))
}

fn summary_start(id: &str) -> String {
    format!("| [{}](#{id}) |", id.to_uppercase())
}

/// The page of which nothing was measured yet.
pub(super) fn empty() -> String {
    let ids: Vec<String> = (1..=10).map(|number| format!("b{number}")).collect();
    let lines = ids.iter().map(|id| format!("{} not measured yet |\n", summary_start(id))).collect::<String>();
    let parts = ids.iter().map(|id| {
        let (start, end) = marks(id);
        format!("\n{start}## {}\n\nNot measured yet.\n{end}", id.to_uppercase())
    });
    format!("{HEAD}{lines}{}", parts.collect::<String>())
}

/// The page with what was found now.
pub(super) fn put(page: &str, id: &str, sheet: &Sheet, run: &str) -> String {
    let start = summary_start(id);
    let line = format!("{start} {}: {} |", sheet.title, sheet.sum());
    let lines = page
        .split_inclusive('\n')
        .map(|old| if old.starts_with(&start) { format!("{line}\n") } else { old.to_owned() });
    let page: String = lines.collect();
    let (start, end) = marks(id);
    let before = page.split_once(&start).map(|(before, _)| before);
    let after = page.split_once(&end).map(|(_, after)| after);
    match (before, after) {
        (Some(before), Some(after)) => format!("{before}{start}{}{end}{after}", part(id, sheet, run)),
        (None, _) | (_, None) => format!("{page}\n{start}{}{end}", part(id, sheet, run)),
    }
}

fn part(id: &str, sheet: &Sheet, run: &str) -> String {
    let remarks = sheet.remarks.iter().map(|remark| format!("- {remark}\n")).collect::<String>();
    let shortfalls = sheet.shortfalls().iter().map(|told| format!("- {told}\n")).collect::<String>();
    let short = if shortfalls.is_empty() { "Nowhere: see the table.\n".to_owned() } else { shortfalls };
    format!(
        "## {}\n\n**{}**\n\nThe vendor: {}\n\nHere: {}\n\nScale: {}\n\n{}\n![{}]({id}.svg)\n\n{run}\n\nWhere it falls short, and why:\n\n{short}\n{remarks}",
        id.to_uppercase(),
        sheet.title,
        sheet.vendor,
        sheet.ours,
        sheet.scale,
        sheet.markdown_table(),
        sheet.title,
    )
}

#[cfg(test)]
mod tests {
    use super::super::sheet::tests::sheet;
    use super::*;

    #[test]
    fn a_run_replaces_its_own_part_and_its_line_and_nothing_else() {
        let first = put(&empty(), "b1", &sheet(), "2 CPUs, one");
        let second = put(&first, "b10", &sheet(), "2 CPUs, ten");
        assert_eq!(second.matches("not measured yet").count(), 8);
        assert_eq!(second.matches("Not measured yet.").count(), 8);
        assert!(second.contains("2 CPUs, one") && second.contains("](b10.svg)"));
        let third = put(&second, "b1", &sheet(), "4 CPUs");
        assert!(!third.contains("2 CPUs, one") && third.contains("4 CPUs") && third.contains("2 CPUs, ten"));
        assert_eq!(third.len(), second.len() - "2 CPUs, one".len() + "4 CPUs".len());
        assert_eq!(third.matches("| [B1](#b1) | B0, an example: 1 of 2 rows").count(), 1);
    }

    #[test]
    fn a_part_has_table_plot_run_and_what_falls_short() {
        let page = put(&empty(), "b2", &sheet(), "2 CPUs; commit 123");
        for words in [
            "121326 IOPS",
            "![B0, an example](b2.svg)",
            "2 CPUs; commit 123",
            "- 2 SSDs: 3.00×",
            "1/90 of the data",
            "- It is an example.",
        ] {
            assert!(page.contains(words), "{words}");
        }
    }

    #[test]
    fn a_page_without_the_marks_gets_the_part_at_its_end() {
        let page = put("something else\n", "b3", &sheet(), "run");
        assert!(page.starts_with("something else\n\n<!-- b3 -->\n## B3"));
    }
}
