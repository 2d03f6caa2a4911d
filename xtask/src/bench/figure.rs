//! A figure: what was measured, what it was compared with, and what was promised.

use serde_json::{Value, json};

/// What a figure is judged by: a bound, and whether it is the least or the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    Between(f64, f64),
    /// For information.
    None,
}

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Judged {
    /// Measured by reference.
    Ratio(f64),
    /// Measured less reference, in the figure's unit.
    Difference(f64),
    /// What was measured, in the figure's unit.
    Measured,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Met,
    Missed,
    Informs,
    Skipped,
}

#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) measured: Option<f64>,
    pub(crate) reference: Option<f64>,
    pub(crate) judged: Judged,
    pub(crate) target: Target,
    /// How it was measured, and what explains it.
    pub(crate) note: String,
}

impl Figure {
    pub(crate) fn skipped(what: &str, reason: &str) -> Self {
        Self {
            what: what.to_owned(),
            unit: "",
            measured: None,
            reference: None,
            judged: Judged::Measured,
            target: Target::None,
            note: reason.to_owned(),
        }
    }

    /// The number that is judged.
    pub(crate) fn value(&self) -> Option<f64> {
        match self.judged {
            Judged::Ratio(value) | Judged::Difference(value) => self.measured.map(|_| value),
            Judged::Measured => self.measured,
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let Some(value) = self.value() else { return Outcome::Skipped };
        let met = match self.target {
            Target::AtLeast(least) => value >= least,
            Target::AtMost(most) => value <= most,
            Target::Between(least, most) => (least..=most).contains(&value),
            Target::None => return Outcome::Informs,
        };
        if met { Outcome::Met } else { Outcome::Missed }
    }

    pub(crate) fn to_json(&self) -> Value {
        let (least, most) = match self.target {
            Target::AtLeast(least) => (Some(least), None),
            Target::AtMost(most) => (None, Some(most)),
            Target::Between(least, most) => (Some(least), Some(most)),
            Target::None => (None, None),
        };
        json!({
            "what": self.what,
            "unit": self.unit,
            "measured": self.measured,
            "reference": self.reference,
            "judged": self.value(),
            "judged_is": match self.judged {
                Judged::Ratio(_) => "ratio",
                Judged::Difference(_) => "difference",
                Judged::Measured => "measured",
            },
            "target_least": least,
            "target_most": most,
            "outcome": format!("{:?}", self.outcome()).to_lowercase(),
            "note": self.note,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(judged: Judged, target: Target) -> Figure {
        let what = "reads".to_owned();
        Figure { what, unit: "IOPS", measured: Some(90.0), reference: Some(100.0), judged, target, note: String::new() }
    }

    #[test]
    fn a_figure_is_judged_by_what_was_promised() {
        assert_eq!(figure(Judged::Ratio(0.9), Target::AtLeast(0.9)).outcome(), Outcome::Met);
        assert_eq!(figure(Judged::Ratio(0.9), Target::AtLeast(0.91)).outcome(), Outcome::Missed);
        assert_eq!(figure(Judged::Difference(-10.0), Target::AtMost(10.0)).outcome(), Outcome::Met);
        assert_eq!(figure(Judged::Measured, Target::AtMost(89.0)).outcome(), Outcome::Missed);
        assert_eq!(figure(Judged::Ratio(1.2), Target::Between(0.85, 1.15)).outcome(), Outcome::Missed);
        assert_eq!(figure(Judged::Ratio(1.2), Target::None).outcome(), Outcome::Informs);
        assert_eq!(Figure::skipped("traces", "none here").outcome(), Outcome::Skipped);
    }
}
