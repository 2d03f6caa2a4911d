//! Who has how much of a backing device's time, where a fetch rate lets hosts and fills take turns.

use std::time::Duration;

use crate::config::FetchRate;

/// Hosts with so many requests in flight have a deep queue.
const HOSTS_DEEP: u64 = 64;

/// What a fill wants, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FillDemand {
    pub(crate) rate: FetchRate,
    /// What the cache has answered so far.
    pub(crate) hits: u64,
    /// Another block goes for the one that comes.
    pub(crate) evicts: bool,
}

/// See the file's summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnShares {
    /// What hosts keep of what they would have without fills, in percent, the reads that the cache answers among it.
    hosts_percent: u64,
    /// The most and the least of the device's time that they have for that, in percent.
    hosts_percent_max: u64,
    hosts_percent_min: u64,
    /// What fills wait for before they have a turn: of a shorter one, the disks need the most to get there. Nothing: they have one
    /// after each of the hosts' turns.
    pub(crate) fills_turn_min: Duration,
    /// The longest that hosts wait for fills that have that much time coming.
    pub(crate) fills_turn_max: Duration,
    /// What fills may have in flight in their turn: for each request that hosts have, but so much at least.
    window_per_host: u64,
    window_min: u64,
    /// What fills may have in flight where hosts are idle.
    pub(crate) window_idle: u64,
    /// Hosts that want nothing for so long are idle; before that they are taken to be between two requests.
    pub(crate) hosts_pause_max: Duration,
}

impl TurnShares {
    /// Hosts keep about what they would have without fills: those get the time that the cache saves, and 5 % at first.
    pub(super) const MEDIUM: Self = Self {
        hosts_percent: 100,
        hosts_percent_max: 95,
        hosts_percent_min: 25,
        fills_turn_min: Duration::from_millis(25),
        fills_turn_max: Duration::from_millis(100),
        window_per_host: 4,
        window_min: 64,
        window_idle: 16,
        hosts_pause_max: Duration::from_millis(20),
    };

    /// The same where the cache is full: a part of what it saves is for hosts, for they may read more than it will ever hold.
    pub(super) const MEDIUM_FULL: Self = Self { hosts_percent: 120, ..Self::MEDIUM };

    /// Fills have most of the time. Twelve for each request of hosts is what four disks transfer during one access.
    pub(super) const HIGH: Self = Self {
        hosts_percent: 46,
        hosts_percent_max: 46,
        hosts_percent_min: 12,
        fills_turn_min: Duration::ZERO,
        fills_turn_max: Duration::from_millis(300),
        window_per_host: 12,
        window_min: 0,
        window_idle: 384,
        hosts_pause_max: Duration::ZERO,
    };

    /// `None`: hosts and fills read at the same time. At the medium rate that is so where turns bring nothing: the device has not to
    /// seek between the two; or hosts have so much in flight that most disks would be idle for long before the last of it is answered.
    pub(crate) fn of(demand: &FillDemand, has_seeks: bool, hosts: u64) -> Option<Self> {
        match demand.rate {
            FetchRate::Low => None,
            FetchRate::Medium if !has_seeks || hosts >= HOSTS_DEEP => None,
            FetchRate::Medium if demand.evicts => Some(Self::MEDIUM_FULL),
            FetchRate::Medium => Some(Self::MEDIUM),
            FetchRate::High => Some(Self::HIGH),
        }
    }

    /// The share of the time that hosts have while so many of their reads miss, in percent.
    pub(super) fn hosts_percent(&self, misses: u64, reads: u64) -> u64 {
        (self.hosts_percent * misses / reads).clamp(self.hosts_percent_min, self.hosts_percent_max)
    }

    /// The same where nothing is known of their reads.
    pub(super) fn hosts_percent_at_first(&self) -> u64 {
        self.hosts_percent_max
    }

    /// What fills may have in flight in a turn, beside hosts with so many requests.
    pub(super) fn window(&self, hosts: u64) -> u64 {
        (self.window_per_host * hosts).max(self.window_min)
    }
}

impl Default for TurnShares {
    fn default() -> Self {
        Self::MEDIUM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_medium_rate_hosts_lose_no_more_than_the_cache_answers_and_five_percent() {
        let shares = TurnShares::MEDIUM;
        assert_eq!(shares.hosts_percent_at_first(), 95);
        let percent = |misses| shares.hosts_percent(misses, 100);
        for misses in 25..=95 {
            assert_eq!(percent(misses), misses, "what a hundred reads cost without the cache, they have for {misses}");
        }
        assert_eq!((percent(100), percent(10), percent(0)), (95, 25, 25));
    }

    #[test]
    fn where_the_cache_is_full_hosts_keep_a_part_of_what_it_saves() {
        let percents = [100, 79, 75, 50, 20].map(|misses| TurnShares::MEDIUM_FULL.hosts_percent(misses, 100));
        assert_eq!(percents, [95, 94, 90, 60, 25]);
    }

    #[test]
    fn there_are_turns_where_they_bring_something() {
        let of =
            |rate, evicts, has_seeks, hosts| TurnShares::of(&FillDemand { rate, hits: 0, evicts }, has_seeks, hosts);
        let medium = |evicts, has_seeks, hosts| of(FetchRate::Medium, evicts, has_seeks, hosts);
        for hosts in [1, 63, 64, 1000] {
            for (evicts, has_seeks) in [(false, false), (false, true), (true, false), (true, true)] {
                assert_eq!(of(FetchRate::Low, evicts, has_seeks, hosts), None);
                assert_eq!(of(FetchRate::High, evicts, has_seeks, hosts), Some(TurnShares::HIGH));
            }
            assert_eq!((medium(false, false, hosts), medium(true, false, hosts)), (None, None));
            let few = hosts < 64;
            assert_eq!(medium(false, true, hosts), few.then_some(TurnShares::MEDIUM));
            assert_eq!(medium(true, true, hosts), few.then_some(TurnShares::MEDIUM_FULL));
        }
    }

    #[test]
    fn at_the_high_rate_hosts_keep_less_than_half_and_an_eighth_at_least() {
        let percents = [100, 50, 27, 0].map(|misses| TurnShares::HIGH.hosts_percent(misses, 100));
        assert_eq!((percents, TurnShares::HIGH.hosts_percent_at_first()), ([46, 23, 12, 12], 46));
    }

    #[test]
    fn the_window_grows_with_what_hosts_have_in_flight() {
        let windows = |shares: TurnShares| [1, 32, 128].map(|hosts| shares.window(hosts));
        assert_eq!(windows(TurnShares::MEDIUM), [64, 128, 512]);
        assert_eq!(windows(TurnShares::HIGH), [12, 384, 1536]);
    }
}
