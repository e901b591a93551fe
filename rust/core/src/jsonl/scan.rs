//! The structure of JSON text, without its values: where strings, containers and members end.
//!
//! Bytes are read 64 at a time on every machine; escaping backslashes are distinguished from escaped ones,
//! and quotes inside of strings from those around them, by arithmetic on masks. A container that is skipped ends
//! where its brackets balance, and is checked for nothing but UTF-8, and that by whoever asks for it.

use super::source::Source;
use crate::simd::{BLOCK, Wide, WideWork};

/// Why a text is not what was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The text ends too early.
    Unfinished,
    /// Another byte stands there than may.
    Malformed,
}

/// A string as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raw {
    /// The place of the quote that ends it.
    pub(super) end: usize,
    /// Code points of its value; a lone surrogate counts as one.
    pub(super) chars: usize,
    /// Bits of [`Raw::ESCAPES`] and the like.
    pub(super) flags: u8,
}

impl Raw {
    /// There are escapes: else the bytes are the value.
    pub(super) const ESCAPES: u8 = 1;
    /// There are escapes that compact JSON would not write.
    pub(super) const LONG_ESCAPES: u8 = 2;
    /// There is more than ASCII.
    pub(super) const WIDE: u8 = 4;
}

/// The string whose first byte, after the quote, is at `start`; nothing is said of its encoding.
#[inline(always)]
pub(super) fn string<W: Wide>(source: Source<'_>, start: usize) -> Result<Raw, Fault> {
    let lanes: W = source.lanes(start);
    let (quotes, slashes) = (lanes.equal(b'"'), lanes.equal(b'\\'));
    let inside = below(quotes);
    if quotes == 0 || slashes & inside != 0 {
        return W::apart(LongString(source, start));
    }
    let length = quotes.trailing_zeros() as usize;
    let end = start + length;
    if end >= source.end {
        return Err(Fault::Unfinished);
    }
    let (mut chars, mut flags) = (length, 0);
    if lanes.high() & inside != 0 {
        flags = Raw::WIDE;
        chars -= (lanes.tails() & inside).count_ones() as usize;
    }
    Ok(Raw { end, chars, flags })
}

/// A string of more than one block, or with escapes.
struct LongString<'a>(Source<'a>, usize);

impl WideWork for LongString<'_> {
    type Output = Result<Raw, Fault>;

    #[inline(always)]
    fn run<W: Wide>(self) -> Self::Output {
        let Self(source, start) = self;
        let (mut at, mut slashes) = (start, Slashes::default());
        let (mut escapes, mut tails, mut long, mut high) = (0, 0, 0, 0);
        loop {
            let lanes: W = source.lanes(at);
            let (escaping, escaped) = slashes.next(lanes.equal(b'\\'));
            let ends = lanes.equal(b'"') & !escaped;
            let inside = below(ends);
            // An escape is two bytes for one character, as long as nothing else is known of it.
            escapes += (escaping & inside).count_ones() as usize;
            tails += (lanes.tails() & inside).count_ones() as usize;
            long |= escaped & inside & !lanes.escape_letters();
            high |= lanes.high() & inside;
            if ends != 0 {
                at += ends.trailing_zeros() as usize;
                break;
            }
            at += BLOCK;
            if at >= source.end {
                break;
            }
        }
        if at >= source.end {
            return Err(Fault::Unfinished);
        }
        let mut chars = at - start - escapes - tails;
        let flags = if escapes > 0 { Raw::ESCAPES } else { 0 }
            | if long > 0 { Raw::LONG_ESCAPES } else { 0 }
            | if high > 0 { Raw::WIDE } else { 0 };
        if long > 0 {
            chars -= excess(&source.ahead[start..at])?;
        }
        Ok(Raw {
            end: at,
            chars,
            flags,
        })
    }
}

/// Which backslashes escape, block after block.
#[derive(Default)]
struct Slashes {
    // Whether the first byte of the next block is escaped.
    carried: u64,
}

impl Slashes {
    /// Backslashes that escape, and the bytes that they escape, of a block with these backslashes.
    #[inline(always)]
    fn next(&mut self, slashes: u64) -> (u64, u64) {
        const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        // In a run of backslashes each second one escapes, from its first on. Where a run begins on an even
        // place those are the even ones: a subtraction carries through each run and so sets them apart
        // (as in simdjson: Langdale and Lemire, "Parsing gigabytes of JSON per second", 2019).
        let open = slashes & !self.carried;
        let followed = open << 1;
        let ends = (followed | ODD).wrapping_sub(open) ^ ODD;
        let escaped = ends ^ (slashes | self.carried);
        let escaping = ends & slashes;
        self.carried = escaping >> (BLOCK - 1);
        (escaping, escaped)
    }
}

/// Bits below the lowest one; all of them if there is none.
#[inline(always)]
fn below(marks: u64) -> u64 {
    marks.wrapping_sub(1) & !marks
}

/// For each bit, whether the number of those up to it is odd.
#[inline(always)]
fn parity(mut marks: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        marks ^= marks << shift;
    }
    marks
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

/// A container that nobody looks into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Skipped {
    /// The place after its last bracket.
    pub(super) end: usize,
    /// Whether there is more than ASCII in it.
    pub(super) wide: bool,
}

/// The container whose first bracket is at `start`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Container<'a>(pub(super) Source<'a>, pub(super) usize);

impl WideWork for Container<'_> {
    type Output = Result<Skipped, Fault>;

    #[inline(always)]
    fn run<W: Wide>(self) -> Self::Output {
        let Self(source, start) = self;
        let (mut at, mut depth, mut slashes) = (start + 1, 1, Slashes::default());
        // All bits set: the block before ended inside a string.
        let (mut within, mut high) = (0_u64, 0);
        while at < source.end {
            let lanes: W = source.lanes(at);
            let (escaping, escaped) = slashes.next(lanes.equal(b'\\'));
            let strings = parity(lanes.equal(b'"') & !escaped) ^ within;
            let (opens, closes) = lanes.brackets();
            let (opens, closes) = (opens & !strings, closes & !strings);
            let last = balance(&mut depth, opens, closes);
            let inside = last.map_or(u64::MAX, |place| below(1 << place));
            if escaping & inside & !strings != 0 {
                // A backslash outside of strings escapes nothing: the masks cannot be relied on.
                return container_by_bytes(source.bytes(), start);
            }
            high |= lanes.high() & inside;
            if let Some(place) = last {
                let end = at + place as usize + 1;
                let wide = high != 0;
                return if end > source.end {
                    Err(Fault::Unfinished)
                } else {
                    Ok(Skipped { end, wide })
                };
            }
            within = 0_u64.wrapping_sub(strings >> (BLOCK - 1));
            at += BLOCK;
        }
        Err(Fault::Unfinished)
    }
}

/// Adds brackets to the depth; the place of the one that ends the container.
#[inline(always)]
fn balance(depth: &mut u32, opens: u64, closes: u64) -> Option<u32> {
    if closes.count_ones() < *depth {
        *depth = *depth + opens.count_ones() - closes.count_ones();
        return None;
    }
    let mut rest = opens | closes;
    while rest != 0 {
        let place = rest.trailing_zeros();
        if closes >> place & 1 == 0 {
            *depth += 1;
        } else {
            *depth -= 1;
        }
        if *depth == 0 {
            return Some(place);
        }
        rest &= rest - 1;
    }
    None
}

/// Like [`Container`], with no assumption about what stands outside of strings.
#[cold]
fn container_by_bytes(bytes: &[u8], start: usize) -> Result<Skipped, Fault> {
    let (mut depth, mut at) = (0_usize, start);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = string_end(bytes, at)?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            let wide = !bytes[start..at].is_ascii();
            return Ok(Skipped { end: at, wide });
        }
    }
    Err(Fault::Unfinished)
}

/// The place after the quote that ends a string.
fn string_end(bytes: &[u8], mut at: usize) -> Result<usize, Fault> {
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return Ok(at);
        }
        at += 1;
    }
    Err(Fault::Unfinished)
}

/// The place after a number, `true`, `false` or `null`; one at the end of the text may be cut off.
#[inline]
pub(super) fn scalar_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
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
pub(super) fn skip_blank(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Like [`skip_blank`], for a place where one of two bytes must stand.
#[inline]
pub(super) fn expect(bytes: &[u8], at: usize, one: u8, other: u8) -> Result<usize, Fault> {
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
mod tests;
