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
use super::classes::{ASCII, LETTER, LOWER, MARK, NEWLINE, NUMBER, OTHER, SPACE, UPPER, is, set};
use super::scan::{Grammar, SYMBOLS, TOP, Text, eight, letters};

const LETTERS: u16 = set(&[UPPER, LOWER, LETTER]);
const PREFIX: u16 = set(&[OTHER, SPACE]);

/// The pieces of `cl100k_base`.
pub(super) struct Cl100k;

impl Grammar for Cl100k {
    #[inline]
    fn piece_end(text: Text<'_>, start: usize) -> usize {
        ascii_word(text, start).unwrap_or_else(|| any_piece(text, start))
    }
}

/// The common piece: at most one blank or symbol, ASCII letters, then another ASCII character.
#[inline]
fn ascii_word(text: Text<'_>, start: usize) -> Option<usize> {
    let byte = *text.bytes.get(start)?;
    let first = start + usize::from(is(ASCII[usize::from(byte)], PREFIX));
    // A contraction comes before a word.
    if byte == b'\'' || !text.bytes.get(first)?.is_ascii_alphabetic() {
        return None;
    }
    let end = ascii_letters(text.bytes, first)?;
    Some(end).filter(|_| text.bytes.get(end).is_some_and(u8::is_ascii))
}

#[inline]
fn ascii_letters(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let stop = !letters(eight(bytes, at)?) & TOP;
        if stop != 0 {
            return Some(at + (stop.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
}

/// Any piece, one character at a time.
fn any_piece(text: Text<'_>, start: usize) -> usize {
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
