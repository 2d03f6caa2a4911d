//! Hosts and fills take turns at a backing device, unless the fetch rate is the lowest.
//!
//! Disks read a long stretch many times faster than the same bytes between requests of hosts that lie anywhere. So
//! hosts' reads wait while fills read, for as long as the hosts' turn before has earned them, and fills wait while what
//! hosts want is read. Hosts that the cache answers do not need the device: the more of them, the longer the fills'
//! turns, or the sooner they come. How much each side has is up to the fetch rate (`volume/turn_shares.rs`). Where one
//! side wants nothing there are no turns.
//!
//! Where fills come after a time without any, hosts' turn goes on while much of what they read is new: of blocks that
//! are known one by one, fills would read every second or third, and the gaps between pass under the heads unread.

use std::time::Duration;

use hotset_block::Instant;

use crate::volume::turn_shares::TurnShares;

/// The requests of a hosts' turn, in percent of those that are there at its start.
const ADMITTED_PERCENT: u64 = 200;
/// A turn of hosts ends when so few of its requests are left, in percent: each that is left is a seek among fills.
const HOSTS_LEFT_PERCENT: u64 = 20;
/// A turn of fills ends when so few of its reads are left, in percent: the last ones leave most disks idle.
const FILLS_LEFT_PERCENT: u64 = 50;
/// The most time that fills have coming, or have taken too much of.
const BALANCE_MAX: Duration = Duration::from_millis(600);
/// A turn is over by then, whatever is left of it: nobody waits for a read that hangs.
pub(crate) const TURN_END: Duration = Duration::from_secs(1);
/// The longest turn of hosts that goes on for what is new in it; and fills that come so long after the last are the
/// first ones.
const GATHERING_MAX: Duration = Duration::from_millis(500);
/// It goes on while so many new blocks come to be filled, in percent of the requests that were answered.
const NEW_PERCENT: u64 = 12;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    /// Hosts or fills want nothing.
    #[default]
    Nobody,
    Hosts,
    Fills,
}

/// Whose turn it is at one backing device.
#[derive(Clone, Default)]
pub(crate) struct Turns {
    /// Those of the fill that came last.
    shares: TurnShares,
    turn: Turn,
    since: Instant,
    hosts_waiting: u64,
    hosts_in_flight: u64,
    /// When a host last wanted or got anything.
    hosts_seen: Instant,
    /// Requests that may still begin in this turn of hosts, of how many.
    admissible: u64,
    admitted_max: u64,
    admitted_at: Instant,
    /// This turn of hosts goes on while it brings new blocks.
    gathering: bool,
    /// Blocks that came to be filled since hosts were admitted, and the requests that were answered.
    new_blocks: u64,
    answered_of_admitted: u64,
    /// The share of the time that hosts had at the last reckoning, in percent.
    hosts_percent: Option<u64>,
    /// Hosts' requests that the device answered since the last turn of fills.
    answered: u64,
    /// What the cache had answered at the last turn of fills.
    hits_before: u64,
    fills_waiting: u64,
    /// The cost of the fills' reads in flight: now, at most in this turn, and what it may be.
    in_flight: u64,
    peak: u64,
    window: u64,
    /// When a fill last wanted or got anything.
    fills_seen: Instant,
    /// When the last read of this turn of fills may begin. `None`: no fill has asked.
    until: Option<Instant>,
    /// How long the last turn of hosts took.
    hosts_took: Duration,
    /// The time that fills have coming; below zero if they took too much.
    balance_ns: i64,
}

impl Turns {
    /// A request of a host wants the device.
    pub(crate) fn host_arrives(&mut self, now: Instant) {
        self.hosts_waiting += 1;
        self.hosts_seen = now;
        self.decide(now);
    }

    /// Requests of hosts that want the device, or have it.
    pub(crate) fn hosts(&self) -> u64 {
        self.hosts_waiting + self.hosts_in_flight
    }

    /// Whether a host's read may begin.
    pub(crate) fn host_may_begin(&self) -> bool {
        match self.turn {
            Turn::Nobody => true,
            Turn::Hosts => self.admissible > 0 || self.fills_waiting == 0,
            Turn::Fills => false,
        }
    }

    pub(crate) fn host_begins(&mut self) {
        self.host_waits_no_longer();
        self.hosts_in_flight += 1;
        self.admissible = self.admissible.saturating_sub(1);
    }

    /// A request of a host that waited is cancelled.
    pub(crate) fn host_cancels(&mut self, now: Instant) {
        self.host_waits_no_longer();
        self.decide(now);
    }

    fn host_waits_no_longer(&mut self) {
        assert!(self.hosts_waiting > 0, "a host's request waits no longer, and none waits");
        self.hosts_waiting -= 1;
    }

    /// A request of a host is answered.
    pub(crate) fn host_ends(&mut self, now: Instant) {
        assert!(self.hosts_in_flight > 0, "a host's request ends, and none is in flight");
        self.hosts_in_flight -= 1;
        self.hosts_seen = now;
        self.answered += 1;
        self.answered_of_admitted += 1;
        self.decide(now);
    }

    /// A block that was not known came to be filled.
    pub(crate) fn block_is_wanted(&mut self) {
        self.new_blocks += 1;
    }

    /// A fill wants to read.
    pub(crate) fn fill_arrives(&mut self, now: Instant, shares: TurnShares) {
        self.shares = shares;
        self.fills_waiting += 1;
        self.decide(now);
        self.fills_seen = now;
    }

    /// A fill that waited begins to read, or is cancelled.
    pub(crate) fn fill_waits_no_longer(&mut self, now: Instant) {
        assert!(self.fills_waiting > 0, "a fill waits no longer, and none waits");
        self.fills_waiting -= 1;
        self.decide(now);
    }

    /// Whether a fill may begin a read of this cost. `hits` counts what the cache has answered so far.
    pub(crate) fn fill_may_begin(&mut self, now: Instant, cost: u64, hits: u64) -> bool {
        match self.turn {
            Turn::Hosts => false,
            Turn::Nobody => self.in_flight == 0 || self.in_flight + cost <= self.shares.window_idle,
            Turn::Fills => {
                let until = self.until.unwrap_or_else(|| self.end_hosts_turn(hits));
                // One may always begin: its end is what ends a turn.
                self.in_flight == 0 || (now < until && self.in_flight + cost <= self.window)
            }
        }
    }

    /// Whether fills' reads may begin.
    pub(crate) fn fills_turn(&self) -> bool {
        self.turn != Turn::Hosts
    }

    pub(crate) fn fill_begins(&mut self, cost: u64) {
        self.in_flight += cost;
        self.peak = self.peak.max(self.in_flight);
    }

    pub(crate) fn fill_ends(&mut self, now: Instant, cost: u64) {
        assert!(self.in_flight >= cost, "a fill's read of cost {cost} ends, and {} is in flight", self.in_flight);
        self.in_flight -= cost;
        self.fills_seen = now;
        self.decide(now);
    }

    /// Ends the turn if it is over. Also asked by whoever has seen nothing happen for [`TURN_END`].
    pub(crate) fn decide(&mut self, now: Instant) {
        let fills = self.fills_waiting + self.in_flight > 0;
        let hosts = !self.hosts_are_idle(now);
        match self.turn {
            Turn::Nobody if fills && hosts => {
                self.gathering = now.since(self.fills_seen) >= GATHERING_MAX;
                self.begin_hosts(now);
            }
            Turn::Nobody => {}
            Turn::Hosts if !fills || !hosts => self.turn = Turn::Nobody,
            Turn::Hosts if self.hosts_are_over(now) && self.fills_are_due(now) => self.begin_fills(now),
            Turn::Hosts if self.hosts_are_over(now) => self.admit_hosts(now),
            // The turn is to last longer anyway: no disk has to wait until the others have served what was admitted.
            Turn::Hosts if self.admissible == 0 && !self.is_worthwhile(now) => self.admit_hosts(now),
            Turn::Hosts => {}
            Turn::Fills if self.fills_are_over(now) => {
                self.balance_ns = bounded(self.balance_ns.saturating_sub(nanoseconds(now.since(self.since))));
                if hosts {
                    self.begin_hosts(now);
                } else {
                    self.turn = Turn::Nobody;
                }
            }
            Turn::Fills => {}
        }
    }

    /// Hosts want nothing, and do not only make a pause.
    fn hosts_are_idle(&self, now: Instant) -> bool {
        let none = self.hosts() == 0;
        none && now.since(self.hosts_seen) >= self.shares.hosts_pause_max
    }

    fn fills_are_due(&self, now: Instant) -> bool {
        self.is_paid(now) && self.is_worthwhile(now) && !self.goes_on(now)
    }

    /// Hosts have had back what fills took too much of.
    fn is_paid(&self, now: Instant) -> bool {
        self.balance_ns.saturating_add(nanoseconds(now.since(self.since))) > 0
    }

    /// Fills have earned a turn that is long enough, if hosts' reads miss as they did last; or have waited for too long.
    fn is_worthwhile(&self, now: Instant) -> bool {
        let (took, least) = (now.since(self.since), self.shares.fills_turn_min);
        let percent = self.hosts_percent.unwrap_or(self.shares.hosts_percent_at_first());
        let coming = self.balance_ns.saturating_add(earned_ns(took, percent));
        least.is_zero() || coming >= nanoseconds(least) || took >= TURN_END
    }

    /// Hosts have only begun to show what they read.
    fn goes_on(&self, now: Instant) -> bool {
        let much_is_new = self.new_blocks * 100 > self.answered_of_admitted * NEW_PERCENT;
        self.gathering && much_is_new && now.since(self.since) < GATHERING_MAX
    }

    /// Few requests of this turn are left, or they take too long.
    fn hosts_are_over(&self, now: Instant) -> bool {
        let no_more = self.admissible == 0 || self.hosts_waiting == 0;
        let few = self.hosts_in_flight * 100 <= self.admitted_max * HOSTS_LEFT_PERCENT;
        self.fills_waiting > 0 && no_more && (few || now.since(self.admitted_at) >= TURN_END)
    }

    /// Few reads of theirs are left in flight, and no more is to begin; or those that are left take too long.
    fn fills_are_over(&self, now: Instant) -> bool {
        if now.since(self.since) >= TURN_END {
            return true;
        }
        let no_more = self.fills_waiting == 0 || self.until.is_some_and(|until| now >= until);
        no_more && self.in_flight * 100 <= self.peak * FILLS_LEFT_PERCENT
    }

    fn begin_hosts(&mut self, now: Instant) {
        self.turn = Turn::Hosts;
        self.since = now;
        self.admit_hosts(now);
    }

    fn admit_hosts(&mut self, now: Instant) {
        self.admitted_at = now;
        self.admitted_max = (self.hosts_waiting * ADMITTED_PERCENT).div_ceil(100).max(self.hosts_in_flight);
        self.admissible = self.admitted_max;
        self.new_blocks = 0;
        self.answered_of_admitted = 0;
    }

    fn begin_fills(&mut self, now: Instant) {
        self.hosts_took = now.since(self.since);
        self.turn = Turn::Fills;
        self.gathering = false;
        self.since = now;
        self.until = None;
        self.peak = self.in_flight;
        self.window = self.shares.window(self.hosts());
    }

    /// Ends the reckoning: what fills have coming for the hosts' turn before this one.
    fn end_hosts_turn(&mut self, hits: u64) -> Instant {
        let misses = std::mem::take(&mut self.answered).max(1);
        let reads = misses + hits.saturating_sub(self.hits_before);
        self.hits_before = hits;
        let percent = self.shares.hosts_percent(misses, reads);
        self.hosts_percent = Some(percent);
        let earned = earned_ns(self.hosts_took, percent);
        self.balance_ns = bounded(self.balance_ns.saturating_add(earned));
        let coming = Duration::from_nanos(u64::try_from(self.balance_ns).unwrap_or(0));
        let until = self.since.plus(coming.min(self.shares.fills_turn_max));
        self.until = Some(until);
        until
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// What fills have coming for hosts that had the device for so long, and are to have so much of the time.
fn earned_ns(took: Duration, hosts_percent: u64) -> i64 {
    let percent = i64::try_from(hosts_percent).expect("at most 100");
    nanoseconds(took).saturating_mul(100 - percent) / percent
}

fn bounded(balance_ns: i64) -> i64 {
    balance_ns.clamp(-nanoseconds(BALANCE_MAX), nanoseconds(BALANCE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: u64 = 10;
    const COST: u64 = 9;

    fn at_ms(milliseconds: u64) -> Instant {
        Instant(0).plus(Duration::from_millis(milliseconds))
    }

    /// As many requests of hosts as there may be in a turn are served, from `start` for so many milliseconds.
    fn hosts_turn(turns: &mut Turns, start: u64, milliseconds: u64) {
        while turns.host_may_begin() {
            turns.host_begins();
            turns.host_ends(at_ms(start + milliseconds));
            turns.host_arrives(at_ms(start + milliseconds));
        }
    }

    /// Hosts with [`HOSTS`] requests, and fills with as many: the hosts' turn was served in 10 ms.
    fn fills_turn() -> Turns {
        let mut turns = Turns::default();
        (0..HOSTS).for_each(|_| turns.host_arrives(at_ms(0)));
        (0..HOSTS).for_each(|_| turns.fill_arrives(at_ms(0), TurnShares::HIGH));
        hosts_turn(&mut turns, 0, 10);
        turns
    }

    fn fill_begins(turns: &mut Turns, now: u64, hits: u64) -> bool {
        let may = turns.fill_may_begin(at_ms(now), COST, hits);
        if may {
            turns.fill_begins(COST);
            turns.fill_waits_no_longer(at_ms(now));
        }
        may
    }

    /// The milliseconds after its start in which fills may begin reads, if each takes one.
    fn length_of_turn(turns: &mut Turns, start: u64, hits: u64) -> u64 {
        let mut now = start;
        while turns.fills_turn() && fill_begins(turns, now, hits) {
            turns.fill_arrives(at_ms(now), TurnShares::HIGH);
            now += 1;
            turns.fill_ends(at_ms(now), COST);
        }
        now - start
    }

    #[test]
    fn where_one_side_wants_nothing_the_other_does_not_wait() {
        let mut hosts = Turns::default();
        for _ in 0..100 {
            hosts.host_arrives(at_ms(0));
            assert!(hosts.host_may_begin());
            hosts.host_begins();
        }
        let mut fills = Turns::default();
        fills.fill_arrives(at_ms(0), TurnShares::HIGH);
        assert!(fill_begins(&mut fills, 0, 0));
        fills.fill_arrives(at_ms(1), TurnShares::HIGH);
        assert!(fill_begins(&mut fills, 1, 0));
    }

    #[test]
    fn hosts_do_not_wait_for_a_read_that_hangs() {
        let mut turns = fills_turn();
        assert!(fill_begins(&mut turns, 10, 0));
        turns.decide(at_ms(1009));
        assert!(!turns.host_may_begin());
        turns.decide(at_ms(1010));
        assert!(turns.host_may_begin());
        hosts_turn(&mut turns, 1010, 700);
        assert!(turns.fills_turn(), "the others have their turn again");
        assert!(fill_begins(&mut turns, 1711, 0));
        turns.fill_ends(at_ms(1720), COST);
        turns.decide(at_ms(2710));
        assert!(turns.host_may_begin());
    }

    #[test]
    fn nobody_waits_for_hosts_reads_that_hang() {
        let mut turns = Turns::default();
        (0..HOSTS).for_each(|_| turns.host_arrives(at_ms(0)));
        (0..HOSTS).for_each(|_| turns.fill_arrives(at_ms(0), TurnShares::HIGH));
        while turns.host_may_begin() {
            turns.host_begins();
            turns.host_arrives(at_ms(1));
        }
        turns.decide(at_ms(999));
        assert!(!turns.host_may_begin() && !turns.fills_turn());
        turns.decide(at_ms(1000));
        assert!(turns.fills_turn() && fill_begins(&mut turns, 1000, 0));
        turns.fill_ends(at_ms(1300), COST);
        turns.decide(at_ms(2000));
        assert!(turns.host_may_begin(), "those that are left come in");
    }

    #[test]
    fn while_one_side_has_its_turn_the_other_waits() {
        let mut turns = Turns::default();
        (0..HOSTS).for_each(|_| turns.host_arrives(at_ms(0)));
        (0..HOSTS).for_each(|_| turns.fill_arrives(at_ms(0), TurnShares::HIGH));
        assert!(turns.host_may_begin() && !turns.fills_turn());
        hosts_turn(&mut turns, 0, 10);
        assert!(!turns.host_may_begin() && turns.fills_turn());
        assert_eq!(length_of_turn(&mut turns, 10, 0), 12, "54 % of the time: a sixth more than hosts had");
        assert!(turns.host_may_begin() && !turns.fills_turn());
    }

    #[test]
    fn the_more_hosts_the_cache_answers_the_longer_are_the_turns_of_fills() {
        let lengths = [0, 40, 400, 40_000].map(|hits| length_of_turn(&mut fills_turn(), 10, hits));
        assert!(lengths.is_sorted_by(|shorter, longer| shorter < longer || *longer == lengths[2]), "{lengths:?}");
        assert_eq!(lengths[3], 74, "hosts keep 12 % whatever the cache answers");
    }

    #[test]
    fn hosts_get_back_what_fills_took_too_much_of() {
        let mut turns = fills_turn();
        assert!(fill_begins(&mut turns, 10, 0));
        turns.fill_ends(at_ms(60), COST);
        assert!(turns.host_may_begin());
        hosts_turn_until(&mut turns, 90);
        assert!(!turns.fills_turn(), "fills had 12 ms and took 50");
        hosts_turn_until(&mut turns, 100);
        assert!(turns.fills_turn());
    }

    /// Serves hosts one after another until then, or until their turn is over.
    fn hosts_turn_until(turns: &mut Turns, until: u64) {
        for _ in 0..1000 {
            if turns.fills_turn() {
                return;
            }
            assert!(turns.host_may_begin());
            turns.host_begins();
            turns.host_ends(at_ms(until));
            turns.host_arrives(at_ms(until));
        }
    }

    /// Hosts that begin reading with fills, so long after the last of them.
    fn first_fills(start: u64) -> Turns {
        let mut turns = Turns::default();
        (0..HOSTS).for_each(|_| turns.host_arrives(at_ms(start)));
        (0..HOSTS).for_each(|_| turns.fill_arrives(at_ms(start), TurnShares::HIGH));
        turns
    }

    /// Serves hosts for so long, 10 ms for as many requests as are admitted at once, each of which brings a new block or not.
    fn hosts_read(turns: &mut Turns, start: u64, milliseconds: u64, is_new: bool) {
        for now in (start + 1..=start + milliseconds).filter(|now| now % 10 == 0) {
            for _ in 0..2 * HOSTS {
                if !turns.host_may_begin() {
                    return;
                }
                if is_new {
                    turns.block_is_wanted();
                }
                turns.host_begins();
                turns.host_ends(at_ms(now));
                turns.host_arrives(at_ms(now));
            }
        }
    }

    #[test]
    fn the_first_fills_wait_while_hosts_bring_new_blocks_and_get_the_time_back() {
        let mut turns = first_fills(1000);
        hosts_read(&mut turns, 1000, 490, true);
        assert!(!turns.fills_turn());
        hosts_read(&mut turns, 1490, 10, true);
        assert!(turns.fills_turn(), "half a second is enough");
        assert_eq!(length_of_turn(&mut turns, 1500, 0), 300);
        hosts_turn(&mut turns, 1800, 10);
        assert_eq!(length_of_turn(&mut turns, 1810, 0), 299, "of 587 ms were left, and 12 were earned");
    }

    #[test]
    fn the_first_fills_do_not_wait_for_hosts_that_bring_nothing_new() {
        let mut turns = first_fills(1000);
        hosts_read(&mut turns, 1000, 100, true);
        assert!(!turns.fills_turn());
        hosts_read(&mut turns, 1100, 10, false);
        assert!(turns.fills_turn());
    }

    #[test]
    fn fills_that_come_soon_after_others_do_not_wait_for_new_blocks() {
        for (pause, waits) in [(400, false), (600, true)] {
            let mut turns = Turns::default();
            turns.fill_arrives(at_ms(1000), TurnShares::HIGH);
            assert!(fill_begins(&mut turns, 1000, 0));
            turns.fill_ends(at_ms(1000), COST);
            (0..HOSTS).for_each(|_| turns.host_arrives(at_ms(1000 + pause)));
            turns.fill_arrives(at_ms(1000 + pause), TurnShares::HIGH);
            hosts_read(&mut turns, 1000 + pause, 10, true);
            assert_eq!(!turns.fills_turn(), waits, "{pause} ms later");
        }
    }

    /// Hosts with [`HOSTS`] requests, and fills with as many, at the medium rate.
    fn medium_turns() -> Turns {
        let mut turns = Turns::default();
        (0..HOSTS).for_each(|_| turns.host_arrives(at_ms(0)));
        (0..HOSTS).for_each(|_| turns.fill_arrives(at_ms(0), TurnShares::MEDIUM));
        turns
    }

    /// One request of hosts after another is served, a millisecond each, until fills have their turn: when that is.
    fn medium_hosts_turn(turns: &mut Turns, start: u64) -> u64 {
        let mut now = start;
        while !turns.fills_turn() {
            assert!(turns.host_may_begin() || turns.hosts_in_flight > 0, "hosts stand still at {now} ms");
            while turns.hosts_waiting > 0 && turns.host_may_begin() {
                turns.host_begins();
            }
            now += 1;
            turns.host_ends(at_ms(now));
            turns.host_arrives(at_ms(now));
        }
        now
    }

    /// The milliseconds of the next turn of fills at the medium rate, and when it ends.
    fn medium_fills_turn(turns: &mut Turns, start: u64, hits: u64) -> (u64, u64) {
        let mut now = start;
        while turns.fills_turn() && turns.fill_may_begin(at_ms(now), COST, hits) {
            turns.fill_begins(COST);
            now += 1;
            turns.fill_ends(at_ms(now), COST);
        }
        turns.decide(at_ms(now));
        (now - start, now)
    }

    #[test]
    fn at_the_medium_rate_fills_have_five_percent_while_hosts_miss_in_turns_that_are_worthwhile() {
        let mut turns = medium_turns();
        let (mut now, mut of_fills) = (0, 0);
        for _ in 0..20 {
            let fills_begin = medium_hosts_turn(&mut turns, now);
            let (length, fills_end) = medium_fills_turn(&mut turns, fills_begin, 0);
            assert!((25..=28).contains(&length), "{length} ms");
            (now, of_fills) = (fills_end, of_fills + length);
        }
        assert_eq!(of_fills * 100 / now, 5);
    }

    #[test]
    fn at_the_medium_rate_turns_of_fills_come_the_sooner_the_more_hosts_the_cache_answers() {
        let mut turns = medium_turns();
        let (mut now, mut hits) = (medium_hosts_turn(&mut turns, 0), 0);
        let mut of_hosts = [0; 3];
        for (hits_per_miss, of_hosts) in [0, 1, 4].into_iter().zip(&mut of_hosts) {
            // The first are of the time in which other reads missed.
            for _ in 0..20 {
                let (_, fills_end) = medium_fills_turn(&mut turns, now, hits);
                now = medium_hosts_turn(&mut turns, fills_end);
                *of_hosts = now - fills_end;
                hits += *of_hosts * hits_per_miss;
            }
        }
        let [all, half, few] = of_hosts;
        assert!((460..=500).contains(&all), "{of_hosts:?}");
        assert!((23..=45).contains(&half) && few < half, "{of_hosts:?}");
    }

    #[test]
    fn at_the_medium_rate_no_disk_waits_while_hosts_have_their_turn() {
        let mut turns = medium_turns();
        for now in 1..470 {
            while turns.hosts_waiting > 0 && turns.host_may_begin() {
                turns.host_begins();
            }
            assert_eq!((turns.hosts_in_flight, turns.hosts_waiting), (HOSTS, 0), "at {now} ms");
            turns.host_ends(at_ms(now));
            turns.host_arrives(at_ms(now));
        }
    }

    #[test]
    fn at_the_medium_rate_a_host_between_two_requests_is_not_idle() {
        let mut turns = Turns::default();
        turns.host_arrives(at_ms(0));
        turns.fill_arrives(at_ms(0), TurnShares::MEDIUM);
        turns.host_begins();
        turns.host_ends(at_ms(10));
        assert!(!turns.fills_turn());
        turns.decide(at_ms(29));
        assert!(!turns.fills_turn() && !turns.fill_may_begin(at_ms(29), COST, 0));
        turns.decide(at_ms(30));
        assert!(turns.fill_may_begin(at_ms(30), COST, 0));
    }

    #[test]
    fn at_the_medium_rate_fills_that_took_too_much_wait_for_a_second_at_most() {
        let mut turns = medium_turns();
        let fills_begin = medium_hosts_turn(&mut turns, 0);
        assert!(turns.fill_may_begin(at_ms(fills_begin), COST, 0));
        turns.fill_begins(COST);
        turns.fill_ends(at_ms(fills_begin + 600), COST);
        let waited = medium_hosts_turn(&mut turns, fills_begin + 600) - fills_begin - 600;
        assert!((1000..=1020).contains(&waited), "{waited} ms");
    }

    #[test]
    fn whatever_happens_somebody_may_go_on() {
        [TurnShares::HIGH, TurnShares::MEDIUM].into_iter().for_each(somebody_may_go_on);
    }

    fn somebody_may_go_on(shares: TurnShares) {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) % below
        };
        let mut turns = Turns::default();
        let mut now = Instant(0);
        for step in 0..200_000 {
            now = now.plus(Duration::from_micros(draw(3_000)));
            match draw(8) {
                0 if turns.hosts_waiting < 20 => turns.host_arrives(now),
                7 => turns.block_is_wanted(),
                1 if turns.hosts_waiting > 0 && turns.host_may_begin() => turns.host_begins(),
                2 if turns.hosts_in_flight > 0 => turns.host_ends(now),
                3 if turns.fills_waiting < 20 => turns.fill_arrives(now, shares),
                4 if turns.fills_waiting > 0 && turns.fill_may_begin(now, COST, step) => {
                    turns.fill_begins(COST);
                    turns.fill_waits_no_longer(now);
                }
                5 if turns.in_flight > 0 => turns.fill_ends(now, COST),
                6 if turns.hosts_waiting > 0 && draw(50) == 0 => turns.host_cancels(now),
                6 if turns.fills_waiting > 0 && draw(50) == 0 => turns.fill_waits_no_longer(now),
                _ => {}
            }
            let idle = turns.hosts_in_flight + turns.in_flight == 0;
            let waiting = turns.hosts_waiting + turns.fills_waiting > 0;
            let host = turns.hosts_waiting > 0 && turns.host_may_begin();
            let fill = turns.fills_waiting > 0 && turns.clone().fill_may_begin(now, COST, step);
            // Fills that wait for a pause of hosts to be longer look again after it.
            let mut later = turns.clone();
            if turns.fills_waiting > 0 && !shares.hosts_pause_max.is_zero() {
                later.decide(now.plus(shares.hosts_pause_max));
            }
            let later_host = later.hosts_waiting > 0 && later.host_may_begin();
            let later_fill = later.fills_waiting > 0 && later.fill_may_begin(now, COST, step);
            assert!(!idle || !waiting || host || fill || later_host || later_fill, "step {step} with {shares:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a host's request waits no longer, and none waits")]
    fn a_request_waits_once() {
        let mut turns = Turns::default();
        turns.host_arrives(at_ms(0));
        turns.host_begins();
        turns.host_cancels(at_ms(0));
    }

    #[test]
    #[should_panic(expected = "a host's request ends, and none is in flight")]
    fn a_request_ends_once() {
        let mut turns = Turns::default();
        turns.host_arrives(at_ms(0));
        turns.host_ends(at_ms(0));
    }

    #[test]
    #[should_panic(expected = "a fill waits no longer, and none waits")]
    fn a_fill_waits_once() {
        Turns::default().fill_waits_no_longer(at_ms(0));
    }

    #[test]
    #[should_panic(expected = "a fill's read of cost 9 ends, and 0 is in flight")]
    fn a_fill_ends_once() {
        Turns::default().fill_ends(at_ms(0), COST);
    }
}
