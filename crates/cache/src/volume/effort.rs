//! How hard cleaning works.

use crate::config::FlushRate;

/// How hard cleaning works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Beside hosts.
    Beside {
        rate: FlushRate,
        /// How far dirty data has come from the watermark to where hosts' writes begin to go around the cache, 0 to 100.
        /// What is cleaned in the order of addresses costs the device less than what hosts write there themselves.
        pressure_percent: u8,
    },
    /// As fast as it goes.
    Full,
}

impl Effort {
    /// Writes to the backing device at once.
    pub(super) fn at_once(self) -> usize {
        let (least, most) = match self {
            Self::Beside { rate: FlushRate::Low, .. } => (4, 16),
            Self::Beside { rate: FlushRate::Medium, .. } => (16, 256),
            Self::Beside { rate: FlushRate::High, .. } | Self::Full => (64, 256),
        };
        match self {
            Self::Beside { pressure_percent, .. } => least + (most - least) * usize::from(pressure_percent) / 100,
            Self::Full => most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: D8, D12
    #[test]
    fn cleaning_works_harder_the_nearer_hosts_are_to_being_slowed_and_never_harder_at_a_lower_rate() {
        let at_once = |rate, pressure_percent| Effort::Beside { rate, pressure_percent }.at_once();
        for rate in [FlushRate::Low, FlushRate::Medium, FlushRate::High] {
            assert!(at_once(rate, 0) < at_once(rate, 50) && at_once(rate, 50) < at_once(rate, 100), "{rate:?}");
        }
        for pressure_percent in [0, 50, 100] {
            assert!(at_once(FlushRate::Low, pressure_percent) < at_once(FlushRate::Medium, pressure_percent));
            assert!(at_once(FlushRate::Medium, pressure_percent) <= at_once(FlushRate::High, pressure_percent));
        }
    }
}
