//! The structure of JSON text, without its values: where strings, containers and members end.
//!
//! A container that is skipped ends where its brackets balance, and is checked for nothing but UTF-8.

use super::masks::{LANE, Lane, below};

/// Why a text is not what was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text ends too early.
    Unfinished,
    /// Another byte stands there than may.
    Malformed,
    /// The bytes are no UTF-8.
    NotUtf8,
}

/// A string as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// What stands between the quotes.
    pub bytes: &'a [u8],
    /// Code points of its value; a lone surrogate counts as one.
    pub chars: usize,
    /// Bits of [`Raw::ESCAPES`] and the like.
    pub flags: u8,
}

impl Raw<'_> {
    /// There are escapes: else the bytes are the value.
    pub const ESCAPES: u8 = 1;
    /// There are escapes that compact JSON would not write.
    pub const LONG_ESCAPES: u8 = 2;
    /// There is more than ASCII.
    pub const WIDE: u8 = 4;
}

/// The string whose first byte, after the quote, is at `start`.
#[inline]
pub fn string(bytes: &[u8], start: usize) -> Result<Raw<'_>, Fault> {
    let (mut at, mut skipped, mut flags) = (start, 0, 0);
    while at < bytes.len() {
        let lane = Lane::load(bytes, at);
        let marks = lane.quotes();
        if lane.high() & below(marks) != 0 {
            flags |= Raw::WIDE;
            skipped += (lane.continuations() & below(marks)).count_ones() as usize;
        }
        if marks == 0 {
            at += LANE;
            continue;
        }
        at += marks.trailing_zeros() as usize;
        if bytes[at] == b'"' {
            return finished(&bytes[start..at], skipped, flags);
        }
        // An escape is two bytes for one character, as long as nothing else is known of it.
        flags |= match bytes.get(at + 1) {
            Some(b'n' | b't' | b'"' | b'\\' | b'r' | b'b' | b'f') => Raw::ESCAPES,
            _ => Raw::ESCAPES | Raw::LONG_ESCAPES,
        };
        skipped += 1;
        at += 2;
    }
    Err(Fault::Unfinished)
}

#[inline]
fn finished(bytes: &[u8], mut skipped: usize, flags: u8) -> Result<Raw<'_>, Fault> {
    if flags & Raw::LONG_ESCAPES != 0 {
        skipped += excess(bytes)?;
    }
    if flags & Raw::WIDE != 0 {
        check_utf8(bytes)?;
    }
    Ok(Raw {
        bytes,
        chars: bytes.len() - skipped,
        flags,
    })
}

fn check_utf8(bytes: &[u8]) -> Result<(), Fault> {
    simdutf8::basic::from_utf8(bytes)
        .map(|_| ())
        .map_err(|_| Fault::NotUtf8)
}

/// Bytes of `\uXXXX` escapes beyond the two of a plain one, and one more for each surrogate pair.
fn excess(text: &[u8]) -> Result<usize, Fault> {
    let (mut excess, mut at, mut last_high) = (0, 0, None);
    while let Some(found) = memchr::memchr(b'\\', text.get(at..).unwrap_or_default()) {
        let place = at + found;
        at = place + 2;
        match text.get(place + 1) {
            Some(b'n' | b't' | b'"' | b'\\' | b'r' | b'b' | b'f' | b'/') => {}
            Some(b'u') => {
                let unit = code_unit(&text[at..]).ok_or(Fault::Malformed)?;
                at += 4;
                let pair = (0xDC00..0xE000).contains(&unit) && last_high == Some(place);
                excess += 4 + usize::from(pair);
                last_high = (0xD800..0xDC00).contains(&unit).then_some(at);
            }
            _ => return Err(Fault::Malformed),
        }
    }
    Ok(excess)
}

/// The number that four hexadecimal digits write.
fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.first_chunk::<4>()?;
    // Parsing alone would take a sign for a digit.
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// The place after the quote that ends a string.
#[inline]
fn skip_string(bytes: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start;
    while let Some(found) = memchr::memchr(b'"', bytes.get(at..).unwrap_or_default()) {
        at += found + 1;
        // A quote after an even number of backslashes is the end.
        let slashes = bytes[start..at - 1].iter().rev();
        if slashes.take_while(|byte| **byte == b'\\').count() % 2 == 0 {
            return Ok(at);
        }
    }
    Err(Fault::Unfinished)
}

/// The place after the last bracket of a container whose first bracket is at `start`.
#[inline]
pub fn container_end(bytes: &[u8], start: usize) -> Result<usize, Fault> {
    let (mut depth, mut at) = (0_usize, start);
    while at < bytes.len() {
        let marks = Lane::load(bytes, at).brackets();
        if marks == 0 {
            at += LANE;
            continue;
        }
        at += marks.trailing_zeros() as usize + 1;
        match bytes[at - 1] {
            b'"' => at = skip_string(bytes, at)?,
            b'{' | b'[' => depth += 1,
            _ => depth -= 1,
        }
        if depth == 0 {
            return check_utf8(&bytes[start..at]).map(|()| at);
        }
    }
    Err(Fault::Unfinished)
}

/// The place after a number, `true`, `false` or `null`; one at the end of the text may be cut off.
#[inline]
pub fn scalar_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let rest = bytes.get(at..).unwrap_or_default();
    // Nearly all numbers are a few digits and no more.
    let plain = digits(rest);
    if plain > 0 && rest[0] != b'0' && matches!(rest.get(plain), Some(b',' | b'}' | b']')) {
        return Ok(at + plain);
    }
    let length = rest.iter().take_while(|byte| is_word(**byte)).count();
    if length == rest.len() {
        return Err(Fault::Unfinished);
    }
    match &rest[..length] {
        b"true" | b"false" | b"null" => Ok(at + length),
        word if is_number(word) => Ok(at + length),
        _ => Err(Fault::Malformed),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

fn is_number(word: &[u8]) -> bool {
    let word = word.strip_prefix(b"-").unwrap_or(word);
    let whole = digits(word);
    if whole == 0 || whole > 1 && word[0] == b'0' {
        return false;
    }
    let mut rest = &word[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    rest.is_empty() || is_exponent(rest)
}

fn is_exponent(text: &[u8]) -> bool {
    let Some((b'e' | b'E', rest)) = text.split_first() else {
        return false;
    };
    let unsigned = match rest {
        [b'+' | b'-', unsigned @ ..] => unsigned,
        _ => rest,
    };
    !unsigned.is_empty() && digits(unsigned) == unsigned.len()
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The first place from `at` on that is no white space.
#[inline]
pub fn skip_blank(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Like [`skip_blank`], for a place where one of two bytes must stand.
#[inline]
pub fn expect(bytes: &[u8], at: usize, one: u8, other: u8) -> Result<usize, Fault> {
    match bytes.get(at) {
        Some(&byte) if byte == one || byte == other => Ok(at),
        _ => expect_later(bytes, at, one, other),
    }
}

#[cold]
fn expect_later(bytes: &[u8], at: usize, one: u8, other: u8) -> Result<usize, Fault> {
    let at = skip_blank(bytes, at);
    match bytes.get(at) {
        Some(&byte) if byte == one || byte == other => Ok(at),
        Some(_) => Err(Fault::Malformed),
        None => Err(Fault::Unfinished),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Raw, container_end, scalar_end, string};

    fn end(text: &str) -> Result<usize, Fault> {
        let bytes = text.as_bytes();
        match bytes.first() {
            Some(b'"') => string(bytes, 1).map(|found| found.bytes.len() + 2),
            Some(b'{' | b'[') => container_end(bytes, 0),
            _ => scalar_end(bytes, 0),
        }
    }

    #[test]
    fn values_end_where_their_structure_says() {
        for value in [
            r#""""#,
            r#""a\"b""#,
            r#""\\""#,
            "{}",
            "[]",
            r#"{"a":"}"}"#,
            r#"[1,[2,"]"]]"#,
            "1",
            "-0.5e+7",
            "true",
            "null",
            r#""\\\\\"""#,
        ] {
            for blanks in [1, 63, 64, 130] {
                let text = format!("{value}{}", " ".repeat(blanks));
                assert_eq!(end(&text), Ok(value.len()), "{value}");
            }
        }
    }

    #[test]
    fn deep_and_long_values_end_too() {
        let deep = format!("{}{} ", "[".repeat(5_000), "]".repeat(5_000));
        assert_eq!(end(&deep), Ok(10_000));
        let long = format!("\"{}\" ", "a\\\"".repeat(5_000));
        assert_eq!(end(&long), Ok(15_002));
    }

    #[test]
    fn what_is_cut_is_unfinished_and_what_is_wrong_malformed() {
        for text in ["", "\"a", "\"a\\\"", "{\"a\":1", "[[]", "12", "tru", "x"] {
            assert_eq!(end(text), Err(Fault::Unfinished), "{text}");
        }
        for text in [
            "tru ", "01 ", "1. ", "- ", "1e ", ".5 ", "+1 ", "?", "NaN ", "1e+- ",
        ] {
            assert_eq!(end(text), Err(Fault::Malformed), "{text}");
        }
    }

    #[test]
    fn what_is_no_utf8_is_found_in_strings_and_in_what_is_skipped() {
        for text in [
            &b"\"a\xff\""[..],
            b"\"\xc3\"",
            b"\"\xed\xa0\x80\"",
            b"[\"\xf0\x9f\"]",
        ] {
            let found = match text[0] {
                b'"' => string(text, 1).map(|_| ()),
                _ => container_end(text, 0).map(|_| ()),
            };
            assert_eq!(found, Err(Fault::NotUtf8), "{text:?}");
        }
        assert!(string("\"\u{1f642}\" \u{e4}".as_bytes(), 1).is_ok());
    }

    #[test]
    fn characters_are_counted_without_unescaping() {
        for (text, chars) in [
            ("", 0),
            ("abc", 3),
            (r"a\nb", 3),
            ("\u{e4}\u{df}\u{2713}\u{1f642}", 4),
            (r"\u00e4", 1),
            (r"\ud83d\ude42", 1),
            (r"\ud83d\ud83d\ude42", 2),
            (r"\ude42\ud83d", 2),
            (r"\\u00e4", 6),
            (r"\ud83dx\ude42", 3),
        ] {
            for front in [0, 57, 60, 63, 64] {
                let whole = format!("\"{}{text}\"", "a".repeat(front));
                let found = string(whole.as_bytes(), 1).expect("a string");
                assert_eq!(found.chars, chars + front, "{text}");
                assert_eq!(
                    found.flags & Raw::ESCAPES != 0,
                    text.contains('\\'),
                    "{text}"
                );
                let long = text.contains("\\u") && !text.contains("\\\\");
                assert_eq!(found.flags & Raw::LONG_ESCAPES != 0, long, "{text}");
                assert_eq!(found.flags & Raw::WIDE != 0, !text.is_ascii(), "{text}");
            }
        }
    }
}
