//! Counting: what passed, what failed and how, what was skipped, over everything that a run started.

use std::fmt;
use std::process::ExitCode;

/// How many lines of what a failed test printed are repeated.
const FAILURE_LINES: usize = 4;

/// How long a repeated line is at most, in characters.
const FAILURE_LINE_CHARS: usize = 240;

/// Sums of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Tests of the program that runs just now that said that they skip what they are for. Its sum counts them as passed.
    announced: u64,
    /// The tests that failed, each followed by the first lines that it printed, indented.
    pub(crate) failures: Vec<String>,
    /// How many more lines belong to the last failure.
    listening: usize,
}

impl Tally {
    pub(crate) fn one(passed: bool) -> Self {
        Self { passed: u64::from(passed), failed: u64::from(!passed), ..Self::default() }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
    }

    /// Adds what one line of `cargo test` says, if it is the line that sums up a test program, or the one by which a test
    /// says that it was skipped.
    pub(crate) fn add_line(&mut self, line: &str) {
        if line.starts_with("test result: ") {
            let skipped = std::mem::take(&mut self.announced);
            self.passed += number_before(line, " passed").saturating_sub(skipped);
            self.failed += number_before(line, " failed");
            self.skipped += number_before(line, " ignored") + skipped;
        } else if line.contains("SKIPPED: ") {
            self.announced += 1;
        }
        self.listen(line);
    }

    /// Remembers a failed test, so that the end of a long log says what to look for.
    fn listen(&mut self, line: &str) {
        let printed = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
        let failed = line.strip_prefix("test ").filter(|line| {
            let is_failure = |status: &&str| line.contains(&format!("... {status} ("));
            ["failed", "timedOut", "interrupted"].iter().any(is_failure)
        });
        if let Some(name) = printed.or(failed) {
            self.failures.push(name.to_owned());
            self.listening = FAILURE_LINES;
        } else if line == "failures:" || line.starts_with("test ") {
            self.listening = 0;
        } else if self.listening > 0 && !line.trim().is_empty() {
            self.listening -= 1;
            self.failures.push(format!("  {}", line.chars().take(FAILURE_LINE_CHARS).collect::<String>()));
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// The number that stands right before `word`; 0 without one.
fn number_before(line: &str, word: &str) -> u64 {
    let before = line.split(word).next().filter(|before| before.len() < line.len());
    let digits = before.and_then(|before| before.rsplit(' ').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_test_are_summed_and_others_are_not() {
        let mut tally = Tally::default();
        tally.add_line("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.1s");
        tally.add_line("test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        tally.add_line("a test printed: 99 passed");
        assert_eq!(tally, Tally { passed: 13, failed: 2, skipped: 1, ..Tally::default() });
        assert_eq!(tally.to_string(), "13 passed, 2 failed");
    }

    #[test]
    fn a_test_that_says_that_it_was_skipped_did_not_pass() {
        let mut tally = Tally::default();
        tally.add_line("..SKIPPED: no traces: the policy was not compared with its reference");
        tally.add_line("test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        tally.add_line("test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(tally, Tally { passed: 6, failed: 0, skipped: 1, ..Tally::default() });
        assert_eq!(tally.to_string(), "6 passed, 0 failed");
    }

    #[test]
    fn the_failed_are_named_with_the_first_lines_that_they_printed() {
        let mut tally = Tally::default();
        let log = "---- pools::one stdout ----\n\nthread 'pools::one' panicked at pools.rs:7:1:\nleft: 1\n\n\nfailures:\n    \
                   pools::one\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\ntest a page is drawn ... failed (2.0 s)\nmore\ntest another ... passed (1.0 s)\n\
                   of nobody\ntest it ends ... timedOut (9.0 s)";
        log.lines().for_each(|line| tally.add_line(line));
        let expected = [
            "pools::one",
            "  thread 'pools::one' panicked at pools.rs:7:1:",
            "  left: 1",
            "a page is drawn ... failed (2.0 s)",
            "  more",
            "it ends ... timedOut (9.0 s)",
        ];
        assert_eq!(tally.failures, expected);
    }
}
