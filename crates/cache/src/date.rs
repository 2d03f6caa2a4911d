//! Dates for people and for logs.

/// Of seconds since 1970, in UTC, as RFC 3339 writes it.
pub fn date_and_time(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Days from March on, so that a leap day is the last of its year; 400 years have 146,097 days (Hinnant, "chrono-
    // compatible low-level date algorithms").
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// A date and a time of day, in a zone that whoever has it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// 1 to 31.
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
    pub second: u64,
}

impl DateTime {
    /// Seconds since 1970, of one in UTC; `None`: there is no such date or time, or it is before 1970.
    pub fn unix_seconds(self) -> Option<u64> {
        let Self { year, month, day, hour, minute, second } = self;
        let is_possible = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !is_possible || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        // Days from March on, as `date_and_time` has it, the other way round.
        let shifted_year = if month <= 2 { year - 1 } else { year };
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = shifted_year * 365 + shifted_year / 4 - shifted_year / 100 + shifted_year / 400 + day_of_year;
        let seconds = (days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second;
        // The 30th of February would be in March.
        date_and_time(seconds).starts_with(&format!("{year:04}-{month:02}-{day:02}T")).then_some(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date_and_time(seconds), date);
            let part = |from: usize, to: usize| date[from..to].parse().unwrap();
            let (year, month, day) = (part(0, 4), part(5, 7), part(8, 10));
            let (hour, minute, second) = (part(11, 13), part(14, 16), part(17, 19));
            let parts = DateTime { year, month, day, hour, minute, second };
            assert_eq!(parts.unix_seconds(), Some(seconds), "{date}");
        }
    }

    #[test]
    fn what_is_in_no_calendar_is_no_date() {
        let good = DateTime { year: 2026, month: 2, day: 28, hour: 23, minute: 59, second: 59 };
        assert!(good.unix_seconds().is_some());
        for wrong in [
            DateTime { day: 29, ..good },
            DateTime { day: 0, ..good },
            DateTime { month: 13, ..good },
            DateTime { month: 0, ..good },
            DateTime { year: 1969, ..good },
            DateTime { hour: 24, ..good },
            DateTime { minute: 60, ..good },
            DateTime { second: 60, ..good },
        ] {
            assert_eq!(wrong.unix_seconds(), None, "{wrong:?}");
        }
    }
}
