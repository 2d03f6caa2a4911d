//! Measuring in turn, round after round, so that whatever disturbs the machine disturbs all alike. Every other round goes
//! backwards: a measurement may leave the disk slower for the next.

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
        for round in 0..count {
            for step in 0..contenders.len() {
                let index = if round % 2 == 0 { step } else { contenders.len() - 1 - step };
                by_contender[index].push(contenders[index]()?);
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

    /// A figure that is judged by how much more one contender has than two others together.
    pub(crate) fn excess_over_two(
        &self,
        what: &str,
        unit: &'static str,
        field: Field,
        (ours, references): (usize, [usize; 2]),
        most: f64,
    ) -> Figure {
        let of = |contender: usize| self.by_contender[contender].iter().map(field);
        let pairs = of(references[0]).zip(of(references[1])).map(|(one, other)| one + other);
        let differences = of(ours).zip(pairs).map(|(ours, both)| ours - both);
        let judged = Judged::Difference(median(differences));
        let mut figure = self.figure(what, unit, field, (ours, references[0]), judged, Target::AtMost(most));
        let [one, other] = references.map(|contender| self.median(contender, field));
        figure.reference = Some(one + other);
        figure.note = format!("{one:.1} and {other:.1} {unit} together are what it is compared with; {}", figure.note);
        figure
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn every_other_round_goes_backwards_and_results_stay_with_their_contenders() {
        let order = RefCell::new(Vec::new());
        let contender = |index: u8| -> Contender<'_> {
            let order = &order;
            Box::new(move || {
                order.borrow_mut().push(index);
                let iops = f64::from(index);
                Ok(Measured { iops, median_us: 0.0, mb_per_second: 0.0, server_us: 0.0 })
            })
        };
        let rounds = Rounds::run(3, &[contender(1), contender(2), contender(4)]).expect("nothing fails");
        assert_eq!(*order.borrow(), [1, 2, 4, 4, 2, 1, 1, 2, 4]);
        assert_eq!([0, 1, 2].map(|index| rounds.median(index, |measured| measured.iops)), [1.0, 2.0, 4.0]);
    }
}
