//! Counts as numbers with a fraction, for ratios, and how figures are kept.

use crate::address::low_half;
use crate::format::Corrupt;
use crate::format::codec::Reader;

/// The nearest number to `count`.
pub fn number(count: u64) -> f64 {
    f64::from(low_half(count >> 32)) * 4_294_967_296.0 + f64::from(low_half(count))
}

/// `part` of `whole`; 0 of nothing: that is no answer, and whoever asks has to see to it.
pub fn ratio(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part / number(whole)).clamp(0.0, 1.0) }
}

/// A sum of weights: a number, not negative.
pub(super) fn weight(from: &mut Reader<'_>) -> Result<f64, Corrupt> {
    let weight = f64::from_bits(from.u64()?);
    from.require(weight.is_finite() && weight >= 0.0, "a weight is not one")?;
    Ok(weight)
}

/// How many there are of something that is bounded.
pub(super) fn count_of(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 things are watched")
}
