//! The structure of JSON text, without its values: where strings, containers and members end.
//!
//! A container that is skipped ends where its brackets balance, and is checked for nothing but UTF-8.

use super::masks::{Block, WIDTH, escaped, inside};

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
    /// Whether there is any escape: else the bytes are the value.
    pub escapes: bool,
}

/// The string whose first byte, after the quote, is at `start`.
#[inline]
pub fn string(bytes: &[u8], start: usize) -> Result<Raw<'_>, Fault> {
    let (mut carry, mut at) = (false, start);
    let (mut skipped, mut high, mut escapes, mut unicode, mut wrong) = (0, 0, 0, 0, 0);
    while at < bytes.len() {
        let block = Block::load(bytes, at);
        let (quotes, backslashes) = block.quotes();
        let letters = escaped(backslashes, &mut carry);
        let ends = quotes & !letters;
        // Bits below the end; all of them where there is none.
        let here = (ends & ends.wrapping_neg()).wrapping_sub(1);
        let (letters, wide) = (letters & here, block.high() & here);
        if wide != 0 {
            high |= wide;
            skipped += (block.continuations() & here).count_ones() as usize;
        }
        if letters != 0 {
            wrong |= letters & !(quotes | backslashes | block.escape_letters());
            escapes |= letters;
            unicode |= block.letters_u() & letters;
            // An escape is two bytes for one character.
            skipped += letters.count_ones() as usize;
        }
        if ends != 0 {
            let bytes = &bytes[start..at + ends.trailing_zeros() as usize];
            if wrong != 0 {
                return Err(Fault::Malformed);
            }
            if high != 0 {
                check_utf8(bytes)?;
            }
            if unicode != 0 {
                skipped += unicode_excess(bytes)?;
            }
            return Ok(Raw {
                bytes,
                chars: bytes.len() - skipped,
                escapes: escapes != 0,
            });
        }
        at += WIDTH;
    }
    Err(Fault::Unfinished)
}

fn check_utf8(bytes: &[u8]) -> Result<(), Fault> {
    str::from_utf8(bytes)
        .map(|_| ())
        .map_err(|_| Fault::NotUtf8)
}

/// Bytes of `\uXXXX` escapes beyond the two of a plain one, and one more for each surrogate pair.
fn unicode_excess(text: &[u8]) -> Result<usize, Fault> {
    let (mut excess, mut at, mut high) = (0, 0, None);
    while let Some(found) = memchr::memchr(b'\\', text.get(at..).unwrap_or_default()) {
        let place = at + found;
        at = place + 2;
        if text.get(place + 1) == Some(&b'u') {
            let unit = code_unit(&text[at..]).ok_or(Fault::Malformed)?;
            at += 4;
            excess += 4;
            let pair = (0xDC00..0xE000).contains(&unit) && high == Some(place);
            // The second half of a pair is no character of its own, and its two bytes neither.
            excess += usize::from(pair);
            high = (0xD800..0xDC00).contains(&unit).then_some(at);
        }
    }
    Ok(excess)
}

/// The number that four hexadecimal digits write.
pub(super) fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.first_chunk::<4>()?;
    // Parsing alone would take a sign for a digit.
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// The place after the last bracket of a container whose first bracket is at `start`.
#[inline]
pub fn container_end(bytes: &[u8], start: usize) -> Result<usize, Fault> {
    let (mut carry, mut within, mut depth, mut at) = (false, false, 0_usize, start);
    let mut high = 0;
    while at < bytes.len() {
        let block = Block::load(bytes, at);
        let (quotes, backslashes) = block.quotes();
        let strings = inside(quotes & !escaped(backslashes, &mut carry), &mut within);
        let (opens, closes) = block.brackets();
        let (opens, closes) = (opens & !strings, closes & !strings);
        high |= block.high();
        // With fewer closing brackets than levels none of them can be the last.
        if closes.count_ones() as usize >= depth {
            if let Some(place) = last_bracket(opens, closes, &mut depth) {
                let end = at + place + 1;
                if high != 0 {
                    check_utf8(&bytes[start..end])?;
                }
                return Ok(end);
            }
        } else {
            depth = depth + opens.count_ones() as usize - closes.count_ones() as usize;
        }
        at += WIDTH;
    }
    Err(Fault::Unfinished)
}

/// The place of the bracket that brings `depth` to zero; the first of all must open.
fn last_bracket(opens: u64, closes: u64, depth: &mut usize) -> Option<usize> {
    let mut marks = opens | closes;
    while marks != 0 {
        let place = marks.trailing_zeros();
        marks &= marks - 1;
        if opens >> place & 1 == 1 {
            *depth += 1;
            continue;
        }
        *depth -= 1;
        if *depth == 0 {
            return Some(place as usize);
        }
    }
    None
}

/// The place after a number, `true`, `false` or `null`; one at the end of the text may be cut off.
#[inline]
pub fn scalar_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let rest = bytes.get(at..).unwrap_or_default();
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
    let at = skip_blank(bytes, at);
    match bytes.get(at) {
        Some(&byte) if byte == one || byte == other => Ok(at),
        Some(_) => Err(Fault::Malformed),
        None => Err(Fault::Unfinished),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, container_end, scalar_end, string};

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
                assert_eq!(found.escapes, text.contains('\\'), "{text}");
            }
        }
    }
}
