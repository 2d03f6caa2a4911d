//! PostgreSQL on ext4 on a write-back volume, all in a virtual machine whose power is cut.

use std::thread;
use std::time::Duration;

use hotset_e2e::pattern::Random;
use hotset_e2e::tools::eventually;

use crate::guest_machine::{Lab, Parts};

/// Power cuts in a run.
const CUTS: u64 = 3;

// proves: D6, D11, F7
#[test]
#[ignore = "takes minutes, and needs the package postgresql"]
fn a_database_has_every_committed_transaction_after_power_cuts() {
    let lab = Lab::new(Parts::with_database());
    let mut random = Random::new(31);
    let mut committed = 0;
    for boot in 0..CUTS {
        let mut machine = lab.boot("database", boot, false);
        if boot > 0 {
            check(&machine.wait_for("guest: checked"), committed);
        }
        let mut said = machine.wait_for("guest: committed");
        // When the power goes is what this test varies.
        thread::sleep(Duration::from_millis(random.below(4000)));
        eventually("there is something to lose", Duration::from_secs(60), || lab.unflushed_bytes() > 0);
        lab.cut_power(&mut machine);
        said += &machine.rest();
        committed = last_committed(&said);
        println!("cut {boot}: {committed} transactions committed, {} bytes at risk", lab.unflushed_bytes());
        lab.keep_some_writes(&mut random, 30);
    }
    let mut machine = lab.boot("database", CUTS, true);
    check(&machine.wait_for("guest: done"), committed);
}

/// Asserts that the sums agree, and that no transaction is missing that was said to be committed.
fn check(said: &str, committed: u64) {
    let line = said.lines().find_map(|line| line.split("guest: sums ").nth(1)).expect("it tells the sums");
    let sums: Vec<i64> = line.trim().split('|').map(|sum| sum.parse().expect("a sum is a number")).collect();
    let [accounts, tellers, branches, history, count] = sums[..] else { panic!("five numbers: {line}") };
    assert_eq!((accounts, tellers, branches), (history, history, history), "{said}");
    assert!(u64::try_from(count).is_ok_and(|count| count >= committed), "{committed} were committed:\n{said}");
}

fn last_committed(said: &str) -> u64 {
    let mut told = said.lines().filter_map(|line| line.split("guest: committed ").nth(1));
    let last = told.next_back().expect("it was waited for");
    last.trim().parse().expect("a count is a number")
}
