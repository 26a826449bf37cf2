//! The time text of descriptors.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats a time as descriptors carry it: `YYYY-MM-DD hh:mm:ss.uuuuuu`, in UTC.
///
/// The field is informative; Mooncake writes local time there. Times before 1970 print as 1970.
pub fn format_timestamp(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, micros) = (since.as_secs(), since.subsec_micros());
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// Year, month and day of a day counted from 1970-01-01. Years start in March here, so that the
/// leap day is the last of its year.
fn civil_date(days_since_epoch: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097;
    let days = days_since_epoch + 719_468;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_times_print_as_expected() {
        let at = |secs, micros| {
            let since = Duration::from_secs(secs) + Duration::from_micros(micros);
            format_timestamp(UNIX_EPOCH + since)
        };
        assert_eq!(at(0, 0), "1970-01-01 00:00:00.000000");
        assert_eq!(at(951_782_400, 0), "2000-02-29 00:00:00.000000");
        assert_eq!(at(1_795_978_783, 48_431), "2026-11-29 18:59:43.048431");
        assert_eq!(at(1_709_251_199, 999_999), "2024-02-29 23:59:59.999999");
    }
}
