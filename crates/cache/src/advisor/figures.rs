//! Counts as numbers with a fraction, for ratios.

use crate::address::low_half;

/// The nearest number to `count`.
pub fn number(count: u64) -> f64 {
    f64::from(low_half(count >> 32)) * 4_294_967_296.0 + f64::from(low_half(count))
}

/// `part` of `whole`; 0 of nothing: that is no answer, and whoever asks has to see to it.
pub fn ratio(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part / number(whole)).clamp(0.0, 1.0) }
}
