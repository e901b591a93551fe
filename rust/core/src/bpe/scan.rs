//! What the pre-tokenizers share: reading one character, runs of classes, white space.
use super::classes::{ASCII, Class, Classes, END, MARK, NEWLINE, NUMBER, OTHER, SPACE, is, set};
use super::window::{PADDING, Rules, SIZE, starts};

/// Neither white space nor letter nor number.
pub(super) const SYMBOLS: u16 = set(&[OTHER, MARK]);
/// A window is worth its while if it holds at least so many bytes.
const NEAR: usize = 16;
const BLANKS: u16 = set(&[SPACE, NEWLINE]);

/// A text that is cut into pieces.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    classes: &'a Classes,
}

/// Where the pieces of a text end.
pub(super) trait Grammar: Rules {
    /// End of the piece that starts at `start`, which is before the end of the text; one character
    /// at a time.
    fn piece_end(text: Text<'_>, start: usize) -> usize;
}

impl<'a> Text<'a> {
    pub(super) fn new(text: &'a str, classes: &'a Classes) -> Self {
        Text {
            bytes: text.as_bytes(),
            classes,
        }
    }

    /// Calls `found` with the start and the end of pieces from `at` on; gives the last end, or
    /// `None` as soon as `found` does. As many pieces as one look at the text tells.
    #[inline]
    pub(super) fn pieces<G: Grammar>(
        self,
        at: usize,
        mut found: impl FnMut(usize, usize) -> Option<()>,
    ) -> Option<usize> {
        let mut starts = if self.is_wide(at) {
            0
        } else {
            self.starts::<G>(at)
        };
        if starts == 0 {
            let end = G::piece_end(self, at);
            found(at, end)?;
            return Some(end);
        }
        let mut start = at;
        while starts != 0 {
            let end = at + starts.trailing_zeros() as usize;
            found(start, end)?;
            (start, starts) = (end, starts & (starts - 1));
        }
        Some(start)
    }

    /// Whether a window at `at` would end soon, at a character of another script or with the text.
    #[inline]
    fn is_wide(self, at: usize) -> bool {
        const HIGH: u128 = u128::from_ne_bytes([0x80; NEAR]);
        let near = self.bytes[at..].first_chunk();
        near.is_none_or(|&near| u128::from_ne_bytes(near) & HIGH != 0)
    }

    #[inline]
    fn starts<G: Grammar>(self, at: usize) -> u64 {
        match self
            .bytes
            .get(at..at + SIZE)
            .and_then(|window| window.try_into().ok())
        {
            Some(window) => starts::<G>(window),
            None => starts::<G>(&padded(&self.bytes[at..])),
        }
    }

    /// Class and length of the character at `at`; [`END`] and 0 after the last one.
    #[inline]
    pub(super) fn class(self, at: usize) -> (Class, usize) {
        match self.bytes.get(at) {
            None => (END, 0),
            Some(&byte) if byte < 0x80 => (ASCII[usize::from(byte)], 1),
            Some(&byte) => self.wide(at, byte),
        }
    }

    #[inline]
    fn wide(self, at: usize, first: u8) -> (Class, usize) {
        let Some(&[_, second, third, fourth]) = self.bytes[at..].first_chunk() else {
            return self.last_wide(at);
        };
        self.classes.of_bytes(first, second, third, fourth)
    }

    /// The same less than four bytes before the end.
    #[cold]
    fn last_wide(self, at: usize) -> (Class, usize) {
        let tail = |i: usize| self.bytes.get(at + i).copied().unwrap_or_default();
        self.classes
            .of_bytes(self.bytes[at], tail(1), tail(2), tail(3))
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

/// The last bytes of a text as a window.
fn padded(rest: &[u8]) -> [u8; SIZE] {
    let mut window = [PADDING; SIZE];
    window[..rest.len()].copy_from_slice(rest);
    window
}

/// A run of white space.
pub(super) struct Blanks {
    /// The position after its last line end.
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
