//! Dates as people write them, in UTC, from and to milliseconds since 1970.
//!
//! The calendar is the proleptic Gregorian one, by the day-counting of Howard Hinnant, "chrono-Compatible Low-Level Date
//! Algorithms" (2013).

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// `2026-11-30T06:45:01.123Z`.
///
/// ```
/// assert_eq!(pointsman::journal::export::timestamp(951_782_400_007), "2000-02-29T00:00:00.007Z");
/// ```
pub fn timestamp(ms: i64) -> String {
    let (day, of_day) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let (year, month, day) = date_of(day);
    let (hours, minutes) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (seconds, milliseconds) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}Z")
}

/// Reads `2026-11-30`, `2026-11-30T06:45`, with seconds, fractions and a `Z` where they are given, or milliseconds since 1970.
///
/// ```
/// use pointsman::journal::export::parse_time;
/// assert_eq!(parse_time("1970-01-02T00:00:01.5Z"), Some(86_401_500));
/// assert_eq!(parse_time("86401500"), Some(86_401_500));
/// assert_eq!(parse_time("2026-02-29"), None);
/// ```
pub fn parse_time(text: &str) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let days = days_of(year, month, day);
    if date_of(days) != (year, month, day) {
        return None;
    }
    let mut parts = clock.splitn(3, ':');
    let (hours, minutes) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let (seconds, fraction) = match parts.next() {
        Some(seconds) => seconds.split_once('.').unwrap_or((seconds, "0")),
        None => ("00", "0"),
    };
    let seconds = number(seconds, 2)?;
    let thousandths = format!("{fraction:0<3}");
    let milliseconds =
        number(thousandths.get(..3)?, 3).filter(|_| fraction.bytes().all(|byte| byte.is_ascii_digit()))?;
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(days * DAY_MS + hours * 3_600_000 + minutes * 60_000 + seconds * 1_000 + milliseconds)
}

fn number(text: &str, digits: usize) -> Option<i64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let (era, of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Years begin in March here, so that a leap day is a year's last.
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_DAYS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_time_is_refused() {
        for bad in [
            "",
            "today",
            "2026-13-01",
            "2026-00-10",
            "2026-04-31",
            "2026-1-1",
            "2026-01-01T24:00",
            "2026-01-01T1:00",
            "2026-01-01T10:00:60",
            "2026-01-01T10:00:00.x",
            "-5",
            "2026-01-01T10:00:00.1é",
        ] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_millisecond_of_four_digit_years_is_read_back(ms in 0..253_402_300_800_000_i64) {
            prop_assert_eq!(parse_time(&timestamp(ms)), Some(ms));
        }
    }
}
