//! Which part of the reads a cache of some size would miss.

use crate::config::BlockBytes;

/// A cache of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub blocks: u64,
    /// Of all reads, those that miss: 0 to 1.
    pub misses: f64,
    /// How far `misses` may be off: two standard deviations of what the sample can know.
    pub error: f64,
}

/// Misses by size, from the smallest to the largest; between two sizes it goes evenly by the logarithm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    points: Vec<Point>,
}

impl Curve {
    pub fn new(mut points: Vec<Point>) -> Self {
        points.sort_by_key(|point| point.blocks);
        Self { points }
    }

    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// A cache of so many blocks; `None` if nothing is known. One that is larger than all that was tried is taken for the largest.
    pub fn at(&self, blocks: u64) -> Option<Point> {
        let after = self.points.partition_point(|point| point.blocks < blocks);
        let (Some(last), above) = (self.points.last(), self.points.get(after)) else { return None };
        let Some(above) = above else { return Some(Point { blocks, ..*last }) };
        let nothing = Point { blocks: 0, misses: 1.0, error: 0.0 };
        let below = after.checked_sub(1).map_or(nothing, |before| self.points[before]);
        let part = way(below.blocks, above.blocks, blocks);
        let between = |below: f64, above: f64| below + (above - below) * part;
        Some(Point { blocks, misses: between(below.misses, above.misses), error: between(below.error, above.error) })
    }

    /// The smallest size from which on more hits less than `least` of all reads for each doubling: behind it, more does not pay.
    /// `None` if nothing is known, or no size pays: what that one hits is less than `least` itself.
    pub fn knee(&self, least: f64) -> Option<Point> {
        let best = self.points.iter().map(|point| point.misses).fold(1.0, f64::min);
        let pays = |point: &&Point| {
            let rest = point.misses - best;
            let larger = self.points.iter().filter(|other| other.blocks > point.blocks);
            // However far one goes, no doubling on the way there brings as much.
            rest <= 0.0
                || larger.into_iter().all(|other| {
                    let doublings = ratio_log2(point.blocks, other.blocks);
                    (point.misses - other.misses) < least * doublings.max(1.0)
                })
        };
        self.points.iter().find(pays).filter(|point| point.misses < 1.0 && 1.0 - point.misses >= least).copied()
    }
}

/// How far `blocks` is on the way, by the logarithm; from nothing, evenly.
fn way(below: u64, above: u64, blocks: u64) -> f64 {
    if below == 0 {
        return super::figures::number(blocks) / super::figures::number(above);
    }
    ratio_log2(below, blocks) / ratio_log2(below, above)
}

fn ratio_log2(from: u64, to: u64) -> f64 {
    (super::figures::number(to) / super::figures::number(from)).log2()
}

/// A size in bytes as blocks, rounded down; at least one.
pub fn blocks_in(bytes: u64, block_bytes: BlockBytes) -> u64 {
    (bytes / block_bytes.get()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> Curve {
        Curve::new(
            points.iter().map(|(blocks, misses)| Point { blocks: *blocks, misses: *misses, error: 0.0 }).collect(),
        )
    }

    fn misses(curve: &Curve, blocks: u64) -> f64 {
        curve.at(blocks).expect("it has points").misses
    }

    #[test]
    fn between_two_sizes_a_curve_goes_evenly_by_the_logarithm() {
        let curve = curve(&[(100, 0.8), (400, 0.4)]);
        assert!((misses(&curve, 200) - 0.6).abs() < 1e-9);
        assert!((misses(&curve, 50) - 0.9).abs() < 1e-9, "half of the smallest brings half as much");
        assert!((misses(&curve, 100) - 0.8).abs() < 1e-9 && (misses(&curve, 9000) - 0.4).abs() < 1e-9);
        assert_eq!(Curve::default().at(5), None);
    }

    #[test]
    fn more_pays_until_no_doubling_brings_enough() {
        let steps = curve(&[(100, 0.9), (200, 0.7), (400, 0.65), (800, 0.64), (1600, 0.64)]);
        assert_eq!(steps.knee(0.03).map(|point| point.blocks), Some(400));
        // A cliff behind a plain is seen from the plain.
        let cliff = curve(&[(100, 0.9), (200, 0.9), (400, 0.9), (800, 0.1), (1600, 0.1)]);
        assert_eq!(cliff.knee(0.03).map(|point| point.blocks), Some(800));
        assert_eq!(curve(&[(100, 1.0), (200, 1.0)]).knee(0.0), None);
    }

    // proves: A3
    #[test]
    fn where_no_doubling_brings_enough_no_size_pays() {
        assert_eq!(curve(&[(100, 0.999), (200, 0.995), (400, 0.99)]).knee(0.02), None);
        assert_eq!(curve(&[(100, 0.99), (200, 0.97), (400, 0.97)]).knee(0.02).map(|point| point.blocks), Some(200));
    }
}
