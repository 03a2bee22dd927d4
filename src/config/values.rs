//! Parsers of the values that people write.
//!
//! Owns how counts, sizes, money, durations and deadlines are spelled. Each
//! refuses what it does not understand and names the key, what was expected
//! and what stood there; nothing is clamped, rounded or guessed. The clock is
//! handed in as an instant. Settings, roles and plans are read through these.

use std::time::Duration;

use jiff::Timestamp;

use super::ValueError;
use crate::model::Deadline;

const DURATION: &str = "a duration such as `45s`, `10m`, `1h30m` or `500ms`, more than zero";
const DEADLINE: &str =
    "a duration such as `10m` or an RFC 3339 instant such as `2030-01-31T12:00:00Z`";
const SIZE: &str = "a size in bytes such as `4GiB`, `512MiB`, `10GB` or `123`, more than zero";

/// Milliseconds of each unit of a duration, longest first.
const DURATION_UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Bytes of each unit of a size.
const SIZE_UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// When something must have ended, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineSpec {
    /// That long after the start.
    After(Duration),
    /// At this instant.
    At(Timestamp),
}

impl DeadlineSpec {
    /// Reads a duration or an instant; whether it lies ahead is not known yet.
    ///
    /// # Errors
    /// Names what was expected of `key`.
    pub fn parse(key: &str, text: &str) -> Result<Self, ValueError> {
        if let Some(duration) = duration_of(text) {
            return Ok(Self::After(duration));
        }
        // An instant always has a `T` or a blank between date and time and a
        // zone, so that it cannot be mistaken for a duration.
        text.parse::<Timestamp>()
            .map(Self::At)
            .map_err(|_| ValueError::new(key, DEADLINE, text))
    }

    /// Turns it into an instant.
    ///
    /// # Errors
    /// Refuses a duration that reaches beyond the calendar. An instant that has
    /// passed is well-formed: the gate refuses it.
    pub fn resolve(self, key: &str, now: Timestamp) -> Result<Deadline, ValueError> {
        let (instant, text) = match self {
            Self::After(duration) => (now.checked_add(duration).ok(), format!("{duration:?}")),
            Self::At(instant) => (Some(instant), instant.to_string()),
        };
        instant
            .map(Deadline::at)
            .ok_or_else(|| ValueError::new(key, format!("{DEADLINE}, within the calendar"), &text))
    }
}

/// Reads an age: a duration, or zero with a unit.
///
/// # Errors
/// As [`parse_duration`], but zero is fine: everything is older than that.
pub fn parse_age(key: &str, text: &str) -> Result<Duration, ValueError> {
    const ZEROS: [&str; 5] = ["0d", "0h", "0m", "0s", "0ms"];
    if ZEROS.contains(&text) {
        return Ok(Duration::ZERO);
    }
    parse_duration(key, text)
}

/// Reads a duration: whole numbers with the units `d`, `h`, `m`, `s` and `ms`,
/// the larger first and none twice.
///
/// # Errors
/// Refuses zero, signs, fractions, a missing or an unknown unit and overflow.
pub fn parse_duration(key: &str, text: &str) -> Result<Duration, ValueError> {
    duration_of(text).ok_or_else(|| ValueError::new(key, DURATION, text))
}

/// Reads a deadline: a duration from `now` or an instant.
///
/// # Errors
/// Refuses zero, negative and past ones, and what is neither.
pub fn parse_deadline(key: &str, text: &str, now: Timestamp) -> Result<Deadline, ValueError> {
    DeadlineSpec::parse(key, text)?.resolve(key, now)
}

/// Reads a size: a whole number with a binary (`GiB`), a decimal (`GB`) or no unit.
///
/// # Errors
/// Refuses zero, signs, fractions, an unknown unit and overflow.
pub fn parse_size(key: &str, text: &str) -> Result<u64, ValueError> {
    let wrong = || ValueError::new(key, SIZE, text);
    let (digits, unit) = split_number(text).ok_or_else(wrong)?;
    let unit = unit.trim_start_matches(' ');
    let (_, factor) = SIZE_UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(wrong)?;
    whole(digits)
        .and_then(|number| number.checked_mul(*factor))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(wrong)
}

/// Reads a count of at least one.
///
/// # Errors
/// Refuses zero, signs, fractions, text and overflow.
pub fn parse_count(key: &str, text: &str) -> Result<u64, ValueError> {
    whole(text)
        .filter(|number| *number > 0)
        .ok_or_else(|| ValueError::new(key, format!("a whole number from 1 to {}", u64::MAX), text))
}

/// Reads a count of at least one that fits 32 bits.
///
/// # Errors
/// Refuses zero, signs, fractions, text and overflow.
pub fn parse_small_count(key: &str, text: &str) -> Result<u32, ValueError> {
    small(text)
        .filter(|number| *number > 0)
        .ok_or_else(|| ValueError::new(key, format!("a whole number from 1 to {}", u32::MAX), text))
}

/// Reads a depth: zero is legal and means no delegation.
///
/// # Errors
/// Refuses signs, fractions, text and overflow.
pub fn parse_depth(key: &str, text: &str) -> Result<u32, ValueError> {
    small(text)
        .ok_or_else(|| ValueError::new(key, format!("a whole number from 0 to {}", u32::MAX), text))
}

/// Reads an amount of money in dollars, kept as millionths.
///
/// # Errors
/// Refuses zero, signs, exponents, text, overflow and more than six decimals.
pub fn parse_usd(key: &str, text: &str) -> Result<u64, ValueError> {
    micro_usd(text).filter(|amount| *amount > 0).ok_or_else(|| {
        ValueError::new(
            key,
            "an amount in dollars such as `5` or `0.25`, more than zero",
            text,
        )
    })
}

/// Reads one word of a list.
///
/// # Errors
/// Names every word of the list.
pub fn parse_word<T: Copy>(key: &str, text: &str, words: &[(&str, T)]) -> Result<T, ValueError> {
    words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            ValueError::new(key, format!("one of {}", known.join(", ")), text)
        })
}

fn micro_usd(text: &str) -> Option<u64> {
    let (dollars, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if decimals.is_empty() || decimals.len() > 6 {
        return None;
    }
    let micros = whole(&format!("{decimals:0<6}"))?;
    whole(dollars)?.checked_mul(1_000_000)?.checked_add(micros)
}

fn duration_of(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total: u64 = 0;
    let mut largest_left = u64::MAX;
    while !rest.is_empty() {
        let (digits, tail) = split_number(rest)?;
        let end = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        let (_, factor) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
        if *factor >= largest_left {
            return None;
        }
        largest_left = *factor;
        total = total.checked_add(whole(digits)?.checked_mul(*factor)?)?;
        rest = next;
    }
    Some(Duration::from_millis(total)).filter(|duration| !duration.is_zero())
}

/// Splits the digits that `text` starts with from what follows.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A number of ASCII digits only: `parse` alone would accept a plus sign.
fn whole(text: &str) -> Option<u64> {
    let digits_only = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits_only.then(|| text.parse().ok()).flatten()
}

fn small(text: &str) -> Option<u32> {
    whole(text).and_then(|number| u32::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z"
            .parse()
            .expect("because it is an instant")
    }

    #[test]
    fn durations_are_read_in_every_documented_spelling() {
        for (text, millis) in [
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("45s", 45_000),
            ("500ms", 500),
            ("2d", 172_800_000),
            ("1m500ms", 60_500),
        ] {
            assert_eq!(
                parse_duration("wall", text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_duration_that_is_zero_or_unclear_is_refused_by_name() {
        for text in [
            "",
            "0",
            "0s",
            "10",
            "-5m",
            "+5m",
            "1.5h",
            "5 m",
            "m",
            "30m1h",
            "1m1m",
            "5y",
            "ten",
            "99999999999999999999s",
            "18446744073709551615d",
            "٣s",
        ] {
            let error =
                parse_duration("wall", text).expect_err("because the value is not a duration");
            assert_eq!(error.key, "`wall`");
            assert_eq!(error.found, format!("`{text}`"));
        }
        assert_eq!(
            parse_duration("--deadline", "0s")
                .expect_err("because it is zero")
                .to_string(),
            "accept `--deadline`: expected a duration such as `45s`, `10m`, `1h30m` or `500ms`, more than zero, found `0s`"
        );
    }

    #[test]
    fn a_deadline_is_a_duration_from_now_or_an_instant() {
        let ahead = parse_deadline("--deadline", "10m", start()).expect("because it is ahead");
        assert_eq!(ahead.instant().to_string(), "2026-01-01T00:10:00Z");
        let instant = parse_deadline("--deadline", "2026-01-01T02:00:00+01:00", start())
            .expect("because it is ahead");
        assert_eq!(instant.instant().to_string(), "2026-01-01T01:00:00Z");
        // One that has passed is well-formed; the gate refuses it.
        let passed = parse_deadline("--deadline", "2025-12-31T23:59:59Z", start());
        assert!(passed.is_ok_and(|deadline| deadline.has_passed(start())));
        for text in ["0m", "-1m", "2026-01-02", "tomorrow", "", "999999999d"] {
            assert!(
                parse_deadline("--deadline", text, start()).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn sizes_know_binary_and_decimal_units() {
        for (text, bytes) in [
            ("4GiB", 4 << 30),
            ("512MiB", 512 << 20),
            ("10GB", 10_000_000_000),
            ("123", 123),
            ("1 KiB", 1024),
            ("7B", 7),
        ] {
            assert_eq!(parse_size("--memory", text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "0",
            "0GiB",
            "-1",
            "1.5GiB",
            "4G",
            "4gib",
            "GiB",
            "lots",
            "16777216TiB",
        ] {
            assert!(parse_size("--memory", text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_are_never_clamped() {
        assert_eq!(parse_depth("--max-depth", "0"), Ok(0));
        assert_eq!(parse_small_count("--max-live", "4"), Ok(4));
        assert_eq!(parse_count("--turns", "18446744073709551615"), Ok(u64::MAX));
        for text in ["-1", "1.0", "1e3", "abc", "", " 1", "+1", "4294967296"] {
            assert!(parse_depth("--max-depth", text).is_err(), "{text}");
            assert!(parse_small_count("--max-live", text).is_err(), "{text}");
        }
        assert!(parse_small_count("--max-live", "0").is_err());
        assert!(parse_count("--turns", "0").is_err());
        assert!(parse_count("--turns", "18446744073709551616").is_err());
    }

    #[test]
    fn money_is_exact() {
        assert_eq!(parse_usd("--usd", "5"), Ok(5_000_000));
        assert_eq!(parse_usd("--usd", "0.25"), Ok(250_000));
        assert_eq!(parse_usd("--usd", "0.000001"), Ok(1));
        for text in [
            "0",
            "0.0",
            "-1",
            ".5",
            "1.",
            "0.0000001",
            "1e3",
            "NaN",
            "inf",
            "$5",
        ] {
            assert!(parse_usd("--usd", text).is_err(), "{text}");
        }
    }
}
