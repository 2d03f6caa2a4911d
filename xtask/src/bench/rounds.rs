//! Measuring in turn, round after round, so that whatever disturbs the machine disturbs all alike.

use anyhow::Result;

use super::clients::Measured;
use super::figure::{Figure, Judged, Target};
use super::statistics::median;

/// Measures once.
pub(crate) type Contender<'a> = Box<dyn Fn() -> Result<Measured> + 'a>;

/// One number of a measurement.
pub(crate) type Field = fn(&Measured) -> f64;

/// What was measured: by contender, then by round.
pub(crate) struct Rounds {
    by_contender: Vec<Vec<Measured>>,
}

impl Rounds {
    pub(crate) fn run(count: u64, contenders: &[Contender<'_>]) -> Result<Self> {
        let mut by_contender = vec![Vec::new(); contenders.len()];
        for _ in 0..count {
            for (contender, measured) in contenders.iter().zip(&mut by_contender) {
                measured.push(contender()?);
            }
        }
        Ok(Self { by_contender })
    }

    pub(crate) fn median(&self, contender: usize, field: Field) -> f64 {
        median(self.by_contender[contender].iter().map(field))
    }

    fn median_of_pairs(&self, ours: usize, reference: usize, judge: impl Fn(f64, f64) -> f64, field: Field) -> f64 {
        let pairs = self.by_contender[ours].iter().zip(&self.by_contender[reference]);
        median(pairs.map(|(ours, reference)| judge(field(ours), field(reference))))
    }

    /// A figure that is judged by the ratio of two contenders.
    pub(crate) fn ratio(
        &self,
        what: &str,
        unit: &'static str,
        field: Field,
        pair: (usize, usize),
        least: f64,
    ) -> Figure {
        let (ours, reference) = pair;
        let ratio = self.median_of_pairs(ours, reference, |ours, reference| ours / reference, field);
        self.figure(what, unit, field, pair, Judged::Ratio(ratio), Target::AtLeast(least))
    }

    /// A figure that is judged by how much more one contender has.
    pub(crate) fn excess(
        &self,
        what: &str,
        unit: &'static str,
        field: Field,
        pair: (usize, usize),
        most: f64,
    ) -> Figure {
        let (ours, reference) = pair;
        let difference = self.median_of_pairs(ours, reference, |ours, reference| ours - reference, field);
        self.figure(what, unit, field, pair, Judged::Difference(difference), Target::AtMost(most))
    }

    fn figure(
        &self,
        what: &str,
        unit: &'static str,
        field: Field,
        (ours, reference): (usize, usize),
        judged: Judged,
        target: Target,
    ) -> Figure {
        let server = |contender| match self.median(contender, |measured| measured.server_us) {
            0.0 => "no server".to_owned(),
            server_us => format!("{server_us:.1} us"),
        };
        let note = format!("CPU of the server per request: {} against {}", server(ours), server(reference));
        Figure {
            what: what.to_owned(),
            unit,
            measured: Some(self.median(ours, field)),
            reference: Some(self.median(reference, field)),
            judged,
            target,
            note,
        }
    }
}

pub(crate) fn iops(measured: &Measured) -> f64 {
    measured.iops
}

pub(crate) fn median_us(measured: &Measured) -> f64 {
    measured.median_us
}

pub(crate) fn mb_per_second(measured: &Measured) -> f64 {
    measured.mb_per_second
}
