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
use super::classes::{LETTER, LOWER, MARK, NEWLINE, NUMBER, OTHER, SPACE, UPPER, is, set};
use super::scan::{Grammar, SYMBOLS, Text};
use super::window::Rules;

const HEADS: u16 = set(&[UPPER, LETTER, MARK]);
const TAILS: u16 = set(&[LOWER, LETTER, MARK]);

/// The pieces of `o200k_base` and `o200k_harmony`.
pub(super) struct O200k;

impl Rules for O200k {
    const O200K: bool = true;
}

impl Grammar for O200k {
    fn piece_end(text: Text<'_>, start: usize) -> usize {
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
    let (mut class, mut length) = text.class(at);
    while is(class, HEADS) {
        at += length;
        if class != UPPER {
            last_tail = Some(at);
        }
        (class, length) = text.class(at);
    }
    if class != LOWER {
        return last_tail;
    }
    Some(text.run(at + length, TAILS))
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
