//! What the pre-tokenizers share: reading one character, runs of classes, white space.
use super::classes::{ASCII, Class, Classes, END, MARK, NEWLINE, NUMBER, OTHER, SPACE, is, set};

/// Neither white space nor letter nor number.
pub(super) const SYMBOLS: u16 = set(&[OTHER, MARK]);
const BLANKS: u16 = set(&[SPACE, NEWLINE]);

/// A text that is cut into pieces.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    classes: &'a Classes,
}

/// Where the pieces of a text end.
pub(super) trait Grammar {
    /// End of the piece that starts at `start`, which is before the end of the text.
    fn piece_end(text: Text<'_>, start: usize) -> usize;
}

impl<'a> Text<'a> {
    pub(super) fn new(text: &'a str, classes: &'a Classes) -> Self {
        Text {
            bytes: text.as_bytes(),
            classes,
        }
    }

    /// Class and length of the character at `at`; [`END`] and 0 behind the last one.
    #[inline]
    pub(super) fn class(self, at: usize) -> (Class, usize) {
        match self.bytes.get(at) {
            None => (END, 0),
            Some(&byte) if byte < 0x80 => (ASCII[usize::from(byte)], 1),
            Some(&byte) => self.wide(at, byte),
        }
    }

    fn wide(self, at: usize, first: u8) -> (Class, usize) {
        let tail = |i: usize| u32::from(self.bytes[at + i] & 0x3f);
        let first = u32::from(first);
        let (code_point, length) = match first {
            0..0xe0 => ((first & 0x1f) << 6 | tail(1), 2),
            0xe0..0xf0 => ((first & 0x0f) << 12 | tail(1) << 6 | tail(2), 3),
            _ => (
                (first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3),
                4,
            ),
        };
        (self.classes.of(code_point), length)
    }

    /// End of the run of classes in `set` from `at` on.
    #[inline]
    pub(super) fn run(self, mut at: usize, set: u16) -> usize {
        loop {
            let (class, length) = self.class(at);
            if !is(class, set) {
                return at;
            }
            at += length;
        }
    }

    /// End of a run of these very bytes.
    #[inline]
    pub(super) fn run_of(self, at: usize, bytes: &[u8]) -> usize {
        let run = self.bytes[at..]
            .iter()
            .take_while(|byte| bytes.contains(byte))
            .count();
        at + run
    }

    /// `\p{N}{1,3}`, for a number at `start`.
    #[inline]
    pub(super) fn numbers(self, start: usize) -> usize {
        let mut at = start;
        for _ in 0..3 {
            let (class, length) = self.class(at);
            if class != NUMBER {
                break;
            }
            at += length;
        }
        at
    }

    /// The run of white space at `start`.
    pub(super) fn blanks(self, start: usize) -> Blanks {
        let mut blanks = Blanks {
            newline: None,
            last: start,
            end: start,
        };
        loop {
            let (class, length) = self.class(blanks.end);
            if !is(class, BLANKS) {
                return blanks;
            }
            blanks.last = blanks.end;
            blanks.end += length;
            if class == NEWLINE {
                blanks.newline = Some(blanks.end);
            }
        }
    }

    /// End of the contraction (`'s`, `'re`, ... in any case) at `at`, or `at` if there is none.
    ///
    /// U+017F folds to `s`, and regular expressions know.
    #[inline]
    pub(super) fn contraction(self, at: usize) -> usize {
        if self.bytes.get(at) != Some(&b'\'') {
            return at;
        }
        let tail = &self.bytes[at + 1..];
        let lower = |i: usize| tail.get(i).map_or(0, u8::to_ascii_lowercase);
        match (lower(0), lower(1)) {
            (b's' | b't' | b'm' | b'd', _) => at + 2,
            (b'r' | b'v', b'e') | (b'l', b'l') | (0xc5, 0xbf) => at + 3,
            _ => at,
        }
    }
}

/// A run of white space.
pub(super) struct Blanks {
    /// Behind its last line end.
    pub(super) newline: Option<usize>,
    /// Start of its last character.
    pub(super) last: usize,
    pub(super) end: usize,
}

impl Blanks {
    /// `\s+(?!\S)|\s+`: all but the last character, which belongs to what follows it.
    pub(super) fn without_last(&self, start: usize, text: Text<'_>) -> usize {
        if self.end == text.bytes.len() || self.last == start {
            return self.end;
        }
        self.last
    }
}

/// Eight bytes from `at` on, the first in the lowest bits; `None` near the end of the text.
#[inline]
pub(super) fn eight(bytes: &[u8], at: usize) -> Option<u64> {
    let chunk = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(chunk.try_into().ok()?))
}

/// The top bit of each of eight bytes.
pub(super) const TOP: u64 = 0x8080_8080_8080_8080;
const ONES: u64 = 0x0101_0101_0101_0101;

/// The top bits of those of eight bytes that are ASCII letters.
#[inline]
pub(super) fn letters(eight: u64) -> u64 {
    let folded = (eight | (ONES * 0x20)) & !TOP;
    let from_a = folded + ONES * (0x80 - 0x61);
    let past_z = folded + ONES * (0x80 - 0x7b);
    from_a & !past_z & !eight & TOP
}
