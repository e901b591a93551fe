//! The pre-tokenizer of `cl100k_base`:
//!
//! ```text
//! '(?i:[sdmt]|ll|ve|re)
//! [^\r\n\p{L}\p{N}]?+\p{L}++
//! \p{N}{1,3}+
//!  ?[^\s\p{L}\p{N}]++[\r\n]*+
//! \s++$
//! \s*[\r\n]
//! \s+(?!\S)
//! \s
//! ```
use super::classes::{LETTER, LOWER, MARK, NEWLINE, NUMBER, OTHER, SPACE, UPPER, is, set};
use super::scan::{Grammar, SYMBOLS, Text};
use super::window::Rules;

const LETTERS: u16 = set(&[UPPER, LOWER, LETTER]);

/// The pieces of `cl100k_base`.
pub(super) struct Cl100k;

impl Rules for Cl100k {
    const O200K: bool = false;
}

impl Grammar for Cl100k {
    fn piece_end(text: Text<'_>, start: usize) -> usize {
        let contraction = text.contraction(start);
        if contraction > start {
            return contraction;
        }
        let (class, length) = text.class(start);
        match class {
            NUMBER => text.numbers(start),
            NEWLINE => blanks(text, start),
            SPACE => word(text, start + length).unwrap_or_else(|| after_space(text, start)),
            OTHER | MARK => word(text, start + length).unwrap_or_else(|| symbols(text, start)),
            _ => text.run(start, LETTERS),
        }
    }
}

/// `\p{L}++`
#[inline]
fn word(text: Text<'_>, start: usize) -> Option<usize> {
    let end = text.run(start, LETTERS);
    Some(end).filter(|&end| end > start)
}

#[inline]
fn after_space(text: Text<'_>, start: usize) -> usize {
    if text.bytes[start] == b' ' && is(text.class(start + 1).0, SYMBOLS) {
        return symbols(text, start + 1);
    }
    blanks(text, start)
}

/// `[^\s\p{L}\p{N}]++[\r\n]*+`
#[inline]
fn symbols(text: Text<'_>, at: usize) -> usize {
    text.run_of(text.run(at, SYMBOLS), b"\r\n")
}

/// `\s++$|\s*[\r\n]|\s+(?!\S)|\s`
fn blanks(text: Text<'_>, start: usize) -> usize {
    let blanks = text.blanks(start);
    if blanks.end == text.bytes.len() {
        return blanks.end;
    }
    blanks
        .newline
        .unwrap_or_else(|| blanks.without_last(start, text))
}
