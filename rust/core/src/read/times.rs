//! Timestamps of entries, without a calendar library: one form, strictly read.

const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Milliseconds since the epoch of `YYYY-MM-DDTHH:MM:SS[.fraction][Z|+HH:MM|-HH:MM]`; else 0.
///
/// A time without a zone counts as UTC.
#[must_use]
pub fn timestamp_ms(text: &[u8]) -> i64 {
    parse(text).unwrap_or(0).max(0)
}

fn parse(text: &[u8]) -> Option<i64> {
    if !text.is_ascii() || !(19..=40).contains(&text.len()) {
        return None;
    }
    let marks = [text[4], text[7], text[10], text[13], text[16]];
    if &marks != b"--T::" {
        return None;
    }
    let field = |from: usize, to: usize| number(&text[from..to]);
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let (hour, minute, second) = (field(11, 13)?, field(14, 16)?, field(17, 19)?);
    let (millis, offset) = fraction_and_zone(&text[19..])?;
    if year < 1970 || !(1..=12).contains(&month) || !(1..=days(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let minutes = (days_since_epoch(year, month, day) * 24 + hour) * 60 + minute - offset;
    Some(minutes * 60_000 + second * 1000 + millis)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days(year: i64, month: i64) -> i64 {
    if month == 2 && leap(year) {
        29
    } else {
        usize::try_from(month - 1).map_or(0, |place| DAYS[place])
    }
}

fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    // 477 leap days before 1970.
    let leaps = before / 4 - before / 100 + before / 400 - 477;
    let months: i64 = (1..month).map(|earlier| days(year, earlier)).sum();
    (year - 1970) * 365 + leaps + months + day - 1
}

/// Milliseconds and minutes east of UTC.
fn fraction_and_zone(rest: &[u8]) -> Option<(i64, i64)> {
    let (millis, zone) = match rest.split_first() {
        Some((b'.', after)) => {
            let end = after
                .iter()
                .position(|byte| matches!(byte, b'Z' | b'+' | b'-'))
                .unwrap_or(after.len());
            (millis(&after[..end])?, &after[end..])
        }
        _ => (0, rest),
    };
    match zone {
        b"" | b"Z" => Some((millis, 0)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            let offset = hours * 60 + minutes;
            let fits = hours <= 23 && minutes <= 59;
            fits.then_some((millis, if *sign == b'+' { offset } else { -offset }))
        }
        _ => None,
    }
}

fn millis(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    number(digits)?;
    let mut three = [b'0'; 3];
    let length = digits.len().min(3);
    three[..length].copy_from_slice(&digits[..length]);
    number(&three)
}
