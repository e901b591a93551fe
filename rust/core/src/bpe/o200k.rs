//! The pre-tokenizer of `o200k_base`:
//!
//! ```text
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! \p{N}{1,3}
//!  ?[^\s\p{L}\p{N}]+[\r\n/]*
//! \s*[\r\n]+
//! \s+(?!\S)
//! \s+
//! ```
//! The first alternative that matches wins, as in the regular expression, even where a later
//! one would match more.
use super::classes::{ASCII, LETTER, LOWER, MARK, NEWLINE, NUMBER, OTHER, SPACE, UPPER, is, set};
use super::scan::{Grammar, SYMBOLS, TOP, Text, eight, letters};

const HEADS: u16 = set(&[UPPER, LETTER, MARK]);
const TAILS: u16 = set(&[LOWER, LETTER, MARK]);
const CASED: u16 = set(&[LOWER, UPPER]);
const PREFIX: u16 = set(&[OTHER, SPACE]);

/// The pieces of `o200k_base` and `o200k_harmony`.
pub(super) struct O200k;

impl Grammar for O200k {
    #[inline]
    fn piece_end(text: Text<'_>, start: usize) -> usize {
        ascii_word(text, start).unwrap_or_else(|| any_piece(text, start))
    }
}

/// The common piece: at most one blank or symbol, ASCII letters, then another ASCII character.
#[inline]
fn ascii_word(text: Text<'_>, start: usize) -> Option<usize> {
    let class = |at: usize| text.bytes.get(at).map(|&byte| ASCII[usize::from(byte)]);
    let first = start + usize::from(is(class(start)?, PREFIX));
    if !is(class(first)?, CASED) {
        return None;
    }
    let end = ascii_letters(text.bytes, first)?;
    match *text.bytes.get(end)? {
        b'\'' => Some(text.contraction(end)),
        0x80.. => None,
        _ => Some(end),
    }
}

/// `[A-Z]*[a-z]*` at `at`; `None` if that takes a longer look.
#[inline]
fn ascii_letters(bytes: &[u8], at: usize) -> Option<usize> {
    let chunk = eight(bytes, at)?;
    let (letter, case) = (letters(chunk), chunk << 2);
    let not_upper = (!letter | case) & TOP;
    if not_upper == 0 {
        return None;
    }
    // Bits from the first byte on that is not upper case: the tail of the word, if it is lower.
    let tail = (not_upper & not_upper.wrapping_neg()).wrapping_neg();
    let stop = !(letter & case) & TOP & tail;
    if stop != 0 {
        return Some(at + (stop.trailing_zeros() / 8) as usize);
    }
    more_lower(bytes, at + 8)
}

#[inline]
fn more_lower(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let chunk = eight(bytes, at)?;
        let stop = !(letters(chunk) & chunk << 2) & TOP;
        if stop != 0 {
            return Some(at + (stop.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
}

/// Any piece, one character at a time.
fn any_piece(text: Text<'_>, start: usize) -> usize {
    let (class, length) = text.class(start);
    let next = start + length;
    match class {
        NUMBER => text.numbers(start),
        NEWLINE => blanks(text, start),
        SPACE => word(text, next).unwrap_or_else(|| after_space(text, start)),
        OTHER => word(text, next).unwrap_or_else(|| symbols(text, start)),
        // A mark is a letter of both cases, so that it makes a word with what follows or alone.
        MARK => match mixed_word(text, next) {
            Some(end) => text.contraction(end),
            None => text.contraction(next),
        },
        _ => word(text, start).unwrap_or(next),
    }
}

/// The word at `at`, contraction included.
#[inline]
fn word(text: Text<'_>, at: usize) -> Option<usize> {
    let end = mixed_word(text, at).or_else(|| upper_word(text, at))?;
    Some(text.contraction(end))
}

/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
///
/// If nothing follows the longest run of heads, the run gives back what cannot be a tail.
#[inline]
fn mixed_word(text: Text<'_>, start: usize) -> Option<usize> {
    let (mut at, mut last_tail) = (start, None);
    loop {
        let (class, length) = text.class(at);
        if !is(class, HEADS) {
            break;
        }
        at += length;
        if class != UPPER {
            last_tail = Some(at);
        }
    }
    let end = text.run(at, TAILS);
    if end > at { Some(end) } else { last_tail }
}

/// What the second alternative adds: upper case only.
#[inline]
fn upper_word(text: Text<'_>, start: usize) -> Option<usize> {
    let end = text.run(start, set(&[UPPER]));
    Some(end).filter(|&end| end > start)
}

#[inline]
fn after_space(text: Text<'_>, start: usize) -> usize {
    if text.bytes[start] == b' ' && text.class(start + 1).0 == OTHER {
        return symbols(text, start + 1);
    }
    blanks(text, start)
}

/// `[^\s\p{L}\p{N}]+[\r\n/]*`
#[inline]
fn symbols(text: Text<'_>, at: usize) -> usize {
    text.run_of(text.run(at, SYMBOLS), b"\r\n/")
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`
fn blanks(text: Text<'_>, start: usize) -> usize {
    let blanks = text.blanks(start);
    blanks
        .newline
        .unwrap_or_else(|| blanks.without_last(start, text))
}
