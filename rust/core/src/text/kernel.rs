//! Counts character classes of narrow bytes: one look at each, more work only where the class changes.

use super::feature;
use super::narrow::{BASE, SCRIPTS, WORDY_END};

const CONTROL: u8 = 0;
const LOWER: u8 = 1;
const UPPER: u8 = 2;
const WIDE: u8 = 3;
const DIGIT: u8 = 4;
const PUNCT: u8 = 5;
const SPACE: u8 = 6;
const TAB: u8 = 7;
const NEWLINE: u8 = 8;
const SIGN: u8 = 9;

/// Positions in `feature::NAMES`.
const CLASS_AT: [usize; 10] = [23, 0, 1, NOWHERE, 10, 13, 17, 19, 21, NOWHERE];
const NOWHERE: usize = usize::MAX;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [SIGN; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            BASE..WORDY_END => WIDE,
            b'0'..=b'9' => DIGIT,
            b' ' => SPACE,
            b'\t' => TAB,
            b'\n' => NEWLINE,
            b'!'..=b'~' => PUNCT,
            0..BASE => CONTROL,
            _ => SIGN,
        };
        byte += 1;
    }
    table
}

/// Feeds [`super::Features`] with narrow bytes, in pieces of any size.
pub(super) struct Kernel<'a> {
    counts: &'a mut [u64],
    before: u8,
    class: u8,
    run: usize,
}

impl<'a> Kernel<'a> {
    pub(super) fn new(counts: &'a mut [u64]) -> Self {
        Self {
            counts,
            before: 0,
            class: CONTROL,
            run: 0,
        }
    }

    /// Counts what follows the bytes taken before.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let mut seen = [0_u64; 10];
        for &byte in bytes {
            let class = CLASSES[usize::from(byte)];
            seen[usize::from(class)] += 1;
            if class == self.class {
                self.run += 1;
                self.counts[8] += u64::from(class == UPPER);
                self.counts[16] += u64::from(class == PUNCT && byte == self.before);
            } else {
                self.enter(class);
            }
            self.step(class);
            if byte >= BASE {
                let script = usize::from(byte - BASE).min(SCRIPTS - 1);
                self.counts[feature::SCRIPTS + script] += 1;
            }
            let rare = matches!(byte | 0x20, b'j' | b'k' | b'q' | b'v' | b'w' | b'x' | b'z');
            self.counts[9] += u64::from(rare && matches!(class, LOWER | UPPER));
            self.before = byte;
        }
        for (&at, count) in CLASS_AT.iter().zip(seen) {
            if at != NOWHERE {
                self.counts[at] += count;
            }
        }
    }

    /// The class changes.
    fn enter(&mut self, class: u8) {
        let was = std::mem::replace(&mut self.class, class);
        let (word, was_word) = (is_word(class), is_word(was));
        self.run = if word && was_word { self.run + 1 } else { 1 };
        self.counts[7] += u64::from(class == UPPER && was == LOWER);
        match class {
            LOWER | UPPER | WIDE if !was_word => {
                self.counts[2] += 1;
                self.counts[6] += u64::from(was != SPACE);
            }
            DIGIT => self.counts[11] += 1,
            PUNCT => {
                self.counts[14] += 1;
                self.counts[15] += u64::from(matches!(was, SPACE | TAB | NEWLINE));
            }
            TAB => self.counts[20] += 1,
            NEWLINE => self.counts[22] += 1,
            _ => {}
        }
    }

    /// The run has become this long.
    fn step(&mut self, class: u8) {
        let at = match (self.run, class) {
            (5, LOWER | UPPER | WIDE) => 3,
            (9, LOWER | UPPER | WIDE) => 4,
            (13, LOWER | UPPER | WIDE) => 5,
            (4, DIGIT) => 12,
            (2, SPACE) => 18,
            _ => return,
        };
        self.counts[at] += 1;
    }
}

fn is_word(class: u8) -> bool {
    matches!(class, LOWER | UPPER | WIDE)
}
