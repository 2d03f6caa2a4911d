//! Medians.

/// The middle one, or the mean of the two in the middle; 0 of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outlier_does_not_move_a_median() {
        assert!((median([3.0, 1.0, 1000.0]) - 3.0).abs() < 1e-9);
        assert!((median([4.0, 2.0]) - 3.0).abs() < 1e-9);
        assert!(median([]).abs() < 1e-9);
    }
}
