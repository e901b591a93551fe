//! Which kind of character each code point is, as the pre-tokenizers see it (Unicode 16).

/// Classes of characters; the numbers are those of the packed vocabulary.
pub(super) type Class = u8;
/// Punctuation, symbols, controls, unassigned.
pub(super) const OTHER: Class = 0;
/// Ll
pub(super) const LOWER: Class = 1;
/// Lu and Lt
pub(super) const UPPER: Class = 2;
/// Lm and Lo: letters that stand among upper and among lower case.
pub(super) const LETTER: Class = 3;
/// M: stands among letters in o200k words, but is no letter.
pub(super) const MARK: Class = 4;
/// N
pub(super) const NUMBER: Class = 5;
/// White space but for `\r` and `\n`.
pub(super) const SPACE: Class = 6;
/// `\r` and `\n`
pub(super) const NEWLINE: Class = 7;
/// Not a character: the end of the text.
pub(super) const END: Class = 8;

/// A set of classes as a bit mask.
pub(super) const fn set(classes: &[Class]) -> u16 {
    let (mut bits, mut i) = (0, 0);
    while i < classes.len() {
        bits |= 1 << classes[i];
        i += 1;
    }
    bits
}

/// Whether a class is in a set.
#[inline]
pub(super) const fn is(class: Class, set: u16) -> bool {
    set >> class & 1 != 0
}

/// Class of each ASCII character; [`END`] for bytes above, which the scanners never ask for.
pub(super) const ASCII: [Class; 256] = ascii();

const fn ascii() -> [Class; 256] {
    let mut table = [END; 256];
    let mut byte = 0;
    while byte < 128u8 {
        table[byte as usize] = match byte {
            b'\r' | b'\n' => NEWLINE,
            b' ' | b'\t' | 0x0b | 0x0c => SPACE,
            b'0'..=b'9' => NUMBER,
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            _ => OTHER,
        };
        byte += 1;
    }
    table
}

/// Code points below this have a byte each; above are one plane of marks and private use.
const DENSE: u32 = 0x4_0000;

/// Classes of all code points.
#[derive(Debug)]
pub(super) struct Classes {
    dense: Vec<Class>,
    /// Runs that reach above [`DENSE`], rising by first code point.
    sparse: Vec<(u32, Class)>,
}

impl Classes {
    /// Spreads runs of equal classes.
    pub(super) fn new(runs: impl Iterator<Item = (u32, Class)>) -> Self {
        let mut dense = Vec::with_capacity(DENSE as usize);
        let mut sparse = vec![(0, OTHER)];
        let mut last = OTHER;
        for (start, class) in runs {
            dense.resize((start.min(DENSE) as usize).max(dense.len()), last);
            last = class;
            if start >= DENSE {
                sparse.push((start, class));
            } else {
                sparse[0] = (start, class);
            }
        }
        dense.resize(DENSE as usize, last);
        Classes { dense, sparse }
    }

    /// Class and length of the character that starts with these bytes, which is not ASCII.
    #[inline]
    pub(super) fn of_bytes(&self, first: u8, second: u8, third: u8, fourth: u8) -> (Class, usize) {
        let tail = |byte: u8| u32::from(byte & 0x3f);
        let high = u32::from(first);
        if first < 0xe0 {
            (self.of((high & 0x1f) << 6 | tail(second)), 2)
        } else if first < 0xf0 {
            let code_point = (high & 0x0f) << 12 | tail(second) << 6 | tail(third);
            (self.of(code_point), 3)
        } else {
            let code_point = (high & 0x07) << 18 | tail(second) << 12 | tail(third) << 6;
            (self.of(code_point | tail(fourth)), 4)
        }
    }

    /// Class of a code point.
    #[inline]
    pub(super) fn of(&self, code_point: u32) -> Class {
        match self.dense.get(code_point as usize) {
            Some(&class) => class,
            None => self.high(code_point),
        }
    }

    #[cold]
    fn high(&self, code_point: u32) -> Class {
        let after = self
            .sparse
            .partition_point(|&(start, _)| start <= code_point);
        self.sparse[after - 1].1
    }
}
