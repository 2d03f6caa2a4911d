//! Hits by size of the cache, drawn in the terminal.

use crate::size::human;

/// Lines of the drawing.
const LINES: u32 = 12;

/// A cache of one size.
pub(crate) struct Drawn {
    pub(crate) size_bytes: u64,
    pub(crate) hit_ratio: f64,
    pub(crate) lru_hit_ratio: f64,
}

/// Sizes that are marked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Marks {
    pub(crate) recommended: Option<u64>,
    pub(crate) present: Option<u64>,
}

/// A column for each size, from the smallest to the largest: `*` the pool, `.` LRU where it is elsewhere, `|` the recommended size, `:` the
/// present one.
pub(crate) fn drawing(curve: &[Drawn], marks: Marks) -> String {
    let nearest = |bytes: u64| (0..curve.len()).min_by_key(|column| curve[*column].size_bytes.abs_diff(bytes));
    let recommended = marks.recommended.and_then(nearest);
    let present = marks.present.and_then(nearest);
    let mut text = String::new();
    for line in (0..=LINES).rev() {
        let upto = f64::from(line) / f64::from(LINES);
        let label = if line.is_multiple_of(3) { format!("{:>4.0} %", upto * 100.0) } else { " ".repeat(6) };
        let is_here = |ratio: f64| ((ratio - upto) * f64::from(LINES)).abs() <= 0.5;
        let columns = curve.iter().enumerate().map(|(column, size)| match size {
            size if is_here(size.hit_ratio) => " * ",
            size if is_here(size.lru_hit_ratio) => " . ",
            _ if Some(column) == recommended => " | ",
            _ if Some(column) == present => " : ",
            _ => "   ",
        });
        text.push_str(format!("{label} |{}", columns.collect::<String>()).trim_end());
        text.push('\n');
    }
    let width = curve.len() * 3;
    text.push_str(&format!("       +{}\n", "-".repeat(width)));
    let ends = curve.first().zip(curve.last()).map(|(first, last)| (human(first.size_bytes), human(last.size_bytes)));
    let (first, last) = ends.unwrap_or_default();
    let gap = width.saturating_sub(first.chars().count() + last.chars().count()).max(1);
    text.push_str(&format!("        {first}{}{last}\n", " ".repeat(gap)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: A3
    #[test]
    fn each_size_has_a_point_and_the_present_and_the_recommended_one_are_marked() {
        let curve = [(100, 0.1), (200, 0.4), (400, 0.8)].map(|(mib, hit_ratio)| Drawn {
            size_bytes: mib << 20,
            hit_ratio,
            lru_hit_ratio: hit_ratio / 2.0,
        });
        let text = drawing(&curve, Marks { recommended: Some(400 << 20), present: Some(210 << 20) });
        assert_eq!((text.matches('*').count(), text.contains(" | "), text.contains(" : ")), (3, true, true), "{text}");
        assert!(text.contains("100 MiB") && text.contains("400 MiB") && text.contains(" . "), "{text}");
        assert!(!drawing(&curve, Marks::default()).contains(" : "));
        assert!(!drawing(&[], Marks { recommended: Some(1), present: Some(1) }).contains('*'));
    }
}
