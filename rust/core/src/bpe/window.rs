//! Where pieces start in 64 bytes of ASCII, all at once: one bit for each byte.
//!
//! A window starts where a piece starts, so that nothing before it matters. What cannot be decided from
//! 64 bytes, or not with these few rules, is left undecided; the scanner of single characters does
//! that piece, and the next window starts after it.
//!
//! The rules follow from the patterns, which differ little on ASCII (`x` is any letter):
//! - a blank or symbol directly before letters starts their piece, if it starts a piece itself;
//! - a run of blanks leaves its last one to what follows, and a space joins a run of symbols;
//! - line ends close a run of symbols or a run of blanks;
//! - digits go in threes; upper case after lower case starts a word (o200k only).
use wide::u8x16;

/// Bytes of a window.
pub(super) const SIZE: usize = 64;
/// A byte that no text holds, so that a padded window ends there.
pub(super) const PADDING: u8 = 0xff;

/// How the two pre-tokenizers differ on ASCII.
pub(super) trait Rules {
    /// Upper case after lower case starts a piece, and `/` may stand among closing line ends.
    const O200K: bool;
}

/// One bit for each byte of a window that is of a kind.
struct Masks {
    letter: u64,
    lower: u64,
    digit: u64,
    space: u64,
    /// White space, line ends included.
    blank: u64,
    newline: u64,
    slash: u64,
    apostrophe: u64,
    /// No ASCII.
    wide: u64,
}

impl Masks {
    #[inline]
    fn of(window: &[u8; SIZE]) -> Self {
        let chunks = chunks(window);
        let equal = |byte: u8| bits(&chunks, |chunk| chunk.simd_eq(u8x16::splat(byte)));
        let range = |low, high| bits(&chunks, |chunk| within(chunk, low, high));
        let space = equal(b' ');
        Masks {
            letter: bits(&chunks, |chunk| {
                within(chunk | u8x16::splat(0x20), b'a', b'z')
            }),
            lower: range(b'a', b'z'),
            digit: range(b'0', b'9'),
            space,
            blank: space | range(b'\t', b'\r'),
            newline: equal(b'\n') | equal(b'\r'),
            slash: equal(b'/'),
            apostrophe: equal(b'\''),
            wide: bits(&chunks, |chunk| chunk),
        }
    }
}

#[inline]
fn chunks(window: &[u8; SIZE]) -> [u8x16; 4] {
    std::array::from_fn(|i| {
        let chunk: [u8; 16] = std::array::from_fn(|j| window[i * 16 + j]);
        u8x16::new(chunk)
    })
}

#[inline]
fn bits(chunks: &[u8x16; 4], test: impl Fn(u8x16) -> u8x16) -> u64 {
    let bits = |i: usize| u64::from(test(chunks[i]).to_bitmask()) << (i * 16);
    bits(0) | bits(1) | bits(2) | bits(3)
}

#[inline]
fn within(chunk: u8x16, low: u8, high: u8) -> u8x16 {
    let offset = chunk - u8x16::splat(low);
    offset.min(u8x16::splat(high - low)).simd_eq(offset)
}

/// The bits below `end`, which is below 64.
#[inline]
const fn below(end: u32) -> u64 {
    (1 << end) - 1
}

/// Starts of pieces after the first byte, as far as they are decided; empty: none are.
#[inline]
pub(super) fn starts<R: Rules>(window: &[u8; SIZE]) -> u64 {
    let masks = Masks::of(window);
    // One byte less than a window, so that there is always a byte that is not known.
    let known = below(masks.wide.trailing_zeros().min(SIZE as u32 - 1));
    let starts = masks.starts::<R>(known);
    // Contractions look two bytes ahead.
    let decided = (known >> 2) & masks.decided::<R>(known);
    masks.contracted::<R>(starts, decided, window) & decided & !1
}

impl Masks {
    #[inline]
    fn starts<R: Rules>(&self, known: u64) -> u64 {
        let other = known & !(self.letter | self.digit | self.blank);
        let other_start = other & !(other << 1) & !(self.space << 1);
        // A symbol that does not start a piece cannot start that of the letters after it.
        let closed = self.digit | self.newline | (other & !other_start);
        let case = if R::O200K {
            (self.lower << 1) & !self.lower
        } else {
            0
        };
        let letter_start = self.letter & (case | (closed << 1));
        let blank = self.blank & !self.newline;
        let alone = !(self.blank << 1) | (self.newline << 1) | !(self.blank >> 1);
        let newline_start = self.newline & ((self.letter | self.digit) << 1);
        other_start | letter_start | (blank & alone) | newline_start | threes(self.digit)
    }

    /// Where the rules hold: before a line end that a `/` follows, and before blanks at the start
    /// of a line that another line end closes, or may close after the window.
    #[inline]
    fn decided<R: Rules>(&self, known: u64) -> u64 {
        let after_newline = self.newline << 1;
        let mut decided = known;
        if R::O200K && self.slash & after_newline != 0 {
            decided &= below((self.slash & after_newline).trailing_zeros());
        }
        let blank = self.blank & !self.newline & known;
        let indents = blank & after_newline;
        // Adding the first byte of a run carries to the byte after the run.
        let closed = (blank + indents) & !blank & (self.newline | !known);
        if closed != 0 {
            let indents = indents & below(closed.trailing_zeros());
            decided &= below(indents.ilog2());
        }
        decided
    }

    #[inline]
    fn contracted<R: Rules>(&self, starts: u64, decided: u64, window: &[u8; SIZE]) -> u64 {
        // In o200k a contraction closes the word before it, in cl100k it is a piece.
        let candidates = if R::O200K {
            self.letter << 1
        } else {
            starts | 1
        };
        let candidates = self.apostrophe & candidates & decided;
        if candidates == 0 {
            starts
        } else {
            contract(starts, candidates, R::O200K, window)
        }
    }
}

/// Every third digit of a run starts a piece.
#[inline]
fn threes(digit: u64) -> u64 {
    let four = digit & digit << 1 & digit << 2 & digit << 3;
    let mut starts = digit & !(digit << 1);
    let mut next = (starts << 3) & four;
    while next != 0 {
        starts |= next;
        next = (next << 3) & four;
    }
    starts
}

#[cold]
fn contract(mut starts: u64, mut candidates: u64, joined: bool, window: &[u8; SIZE]) -> u64 {
    let mut behind = 0;
    while candidates != 0 {
        let at = candidates.trailing_zeros();
        candidates &= candidates - 1;
        let length = contraction(window, at as usize);
        // A word takes one contraction only.
        if length == 0 || joined && at == behind {
            continue;
        }
        behind = at + length;
        if joined {
            starts &= !(below(length) << at);
        }
        starts |= 1 << behind;
    }
    starts
}

/// Length of the contraction at an apostrophe; 0 if there is none.
fn contraction(window: &[u8; SIZE], at: usize) -> u32 {
    match (window[at + 1] | 0x20, window[at + 2] | 0x20) {
        (b's' | b't' | b'm' | b'd', _) => 2,
        (b'r' | b'v', b'e') | (b'l', b'l') => 3,
        _ => 0,
    }
}
