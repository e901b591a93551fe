//! Timestamps of entries, without a calendar library: one form, strictly read.

const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Days of a year that is no leap year before each of its months.
const BEFORE_MONTH: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Milliseconds since the epoch of `YYYY-MM-DDTHH:MM:SS[.fraction][Z|+HH:MM|-HH:MM]`; else 0.
///
/// A time without a zone counts as UTC.
#[must_use]
pub(crate) fn timestamp_ms(text: &[u8]) -> i64 {
    parse(text).unwrap_or(0).max(0)
}

fn parse(text: &[u8]) -> Option<i64> {
    // What follows the seconds is checked byte by byte, and so refuses everything that is not ASCII.
    let (
        &[
            y1,
            y2,
            y3,
            y4,
            b'-',
            mo1,
            mo2,
            b'-',
            d1,
            d2,
            b'T',
            h1,
            h2,
            b':',
            m1,
            m2,
            b':',
            s1,
            s2,
        ],
        rest,
    ) = text.split_first_chunk::<19>()?
    else {
        return None;
    };
    if rest.len() > 21 {
        return None;
    }
    let (year, month, day) = (
        number([y1, y2, y3, y4])?,
        number([mo1, mo2])?,
        number([d1, d2])?,
    );
    let (hour, minute, second) = (number([h1, h2])?, number([m1, m2])?, number([s1, s2])?);
    let (millis, offset) = fraction_and_zone(rest)?;
    if year < 1970 || !(1..=12).contains(&month) || !(1..=days(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let minutes = (days_since_epoch(year, month, day) * 24 + hour) * 60 + minute - offset;
    Some(minutes * 60_000 + second * 1000 + millis)
}

#[inline(always)]
fn number<const N: usize>(digits: [u8; N]) -> Option<i64> {
    let good = digits.iter().all(u8::is_ascii_digit);
    let values = digits.map(|digit| i64::from(digit.wrapping_sub(b'0')));
    good.then(|| values.iter().fold(0, |sum, digit| sum * 10 + digit))
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
    let before_month = usize::try_from(month - 1).map_or(0, |place| BEFORE_MONTH[place]);
    let leap_day = i64::from(month > 2 && leap(year));
    (year - 1970) * 365 + leaps + before_month + leap_day + day - 1
}

/// Milliseconds and minutes east of UTC.
fn fraction_and_zone(rest: &[u8]) -> Option<(i64, i64)> {
    // As JavaScript writes it, and so nearly every line.
    if let &[b'.', a, b, c, b'Z'] = rest {
        return Some((number([a, b, c])?, 0));
    }
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
            let (hours, minutes) = (number([*h1, *h2])?, number([*m1, *m2])?);
            let offset = hours * 60 + minutes;
            let fits = hours <= 23 && minutes <= 59;
            fits.then_some((millis, if *sign == b'+' { offset } else { -offset }))
        }
        _ => None,
    }
}

fn millis(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut three = [b'0'; 3];
    let length = digits.len().min(3);
    three[..length].copy_from_slice(&digits[..length]);
    number(three)
}
