//! Counts character classes of narrow bytes, many lanes at a time.

use super::feature;
use super::narrow::{BASE, SCRIPTS, WORDY_END};

/// How far a feature looks back: a word of 13 letters and what stands before it.
const BACK: usize = 16;
/// Bytes that are counted at a time, after `BACK` bytes that are only looked at.
const BLOCK: usize = 1024;

/// Feeds [`super::Features`] with narrow bytes, in pieces of any size.
pub(super) struct Kernel<'a> {
    counts: &'a mut [u64],
    buffer: [u8; BACK + BLOCK],
}

impl<'a> Kernel<'a> {
    pub(super) fn new(counts: &'a mut [u64]) -> Self {
        Self {
            counts,
            buffer: [0; BACK + BLOCK],
        }
    }

    /// Counts what follows the bytes taken before.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(BLOCK) {
            self.buffer[BACK..BACK + part.len()].copy_from_slice(part);
            count(self.counts, &self.buffer[..BACK + part.len()]);
            self.buffer.copy_within(part.len()..part.len() + BACK, 0);
        }
    }
}

const LOWER: u8 = 1;
const UPPER: u8 = 2;
const WIDE: u8 = 4;
const WORD: u8 = LOWER | UPPER | WIDE;
const DIGIT: u8 = 8;
const PUNCT: u8 = 16;
const SPACE: u8 = 32;
const TAB: u8 = 64;
const NEWLINE: u8 = 128;

fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => LOWER,
        b'A'..=b'Z' => UPPER,
        BASE..WORDY_END => WIDE,
        b'0'..=b'9' => DIGIT,
        b' ' => SPACE,
        b'\t' => TAB,
        b'\n' => NEWLINE,
        b'!'..=b'~' => PUNCT,
        _ => 0,
    }
}

fn count(counts: &mut [u64], buffer: &[u8]) {
    let classes: Vec<u8> = buffer.iter().map(|&byte| class(byte)).collect();
    for (at, (&byte, &now)) in buffer.iter().zip(&classes).enumerate().skip(BACK) {
        let is = |mask: u8| now & mask != 0;
        let was = |mask: u8| classes[at - 1] & mask != 0;
        let starts = |mask: u8| is(mask) && !was(mask);
        let reaches = |mask: u8, length: usize| {
            let run = &classes[at + 1 - length..=at];
            run.iter().all(|class| class & mask != 0) && classes[at - length] & mask == 0
        };
        let tests = [
            is(LOWER),
            is(UPPER),
            starts(WORD),
            reaches(WORD, 5),
            reaches(WORD, 9),
            reaches(WORD, 13),
            starts(WORD) && !was(SPACE),
            is(UPPER) && was(LOWER),
            is(UPPER) && was(UPPER),
            matches!(byte | 0x20, b'j' | b'k' | b'q' | b'v' | b'w' | b'x' | b'z')
                && is(LOWER | UPPER),
            is(DIGIT),
            starts(DIGIT),
            reaches(DIGIT, 4),
            is(PUNCT),
            starts(PUNCT),
            is(PUNCT) && was(SPACE | TAB | NEWLINE),
            is(PUNCT) && byte == buffer[at - 1],
            is(SPACE),
            reaches(SPACE, 2),
            is(TAB),
            starts(TAB),
            is(NEWLINE),
            starts(NEWLINE),
            now == 0 && byte < BASE,
        ];
        for (count, test) in counts.iter_mut().zip(tests) {
            *count += u64::from(test);
        }
        if byte >= BASE {
            counts[feature::SCRIPTS + usize::from(byte - BASE).min(SCRIPTS - 1)] += 1;
        }
    }
}
