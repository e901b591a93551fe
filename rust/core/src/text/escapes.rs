//! How much longer JSON makes a string.

use super::Text;
use super::lanes::{BLOCK, Block, Lanes};
use crate::simd::{Work, widest};

/// How many code points longer a string gets by escaping: 1 for `"`, `\` and the control characters with
/// a short form, 5 for the others.
#[must_use]
pub fn string_escapes(text: Text<'_>) -> u64 {
    match text {
        Text::Ascii(bytes) | Text::Latin1(bytes) | Text::Wtf8(bytes) => sum(bytes),
        Text::Ucs2(units) => units.iter().map(|&unit| wide(u32::from(unit))).sum(),
        Text::Ucs4(units) => units.iter().map(|&unit| wide(unit)).sum(),
    }
}

fn sum(bytes: &[u8]) -> u64 {
    if bytes.len() < BLOCK && !any_special(bytes) {
        return 0;
    }
    widest(Escapes(bytes))
}

/// Whether a short string has anything to escape: keys and paths seldom do.
fn any_special(bytes: &[u8]) -> bool {
    // The last word overlaps the one before it.
    if let Some(last) = bytes.last_chunk() {
        let (words, _) = bytes.as_chunks();
        return special_word(*last) || words.iter().any(|&word| special_word(word));
    }
    if let (Some(&[a, b, c, d]), Some(&[e, f, g, h])) = (bytes.first_chunk(), bytes.last_chunk()) {
        return special_word([a, b, c, d, e, f, g, h]);
    }
    bytes.iter().any(|&byte| extra(byte) != 0)
}

/// Whether one of eight bytes is below 0x20, a quote or a backslash (the usual arithmetic on all eight at once).
fn special_word(bytes: [u8; 8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let word = u64::from_le_bytes(bytes);
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let quotes = below(word ^ (ONES * 0x22), 1) | below(word ^ (ONES * 0x5C), 1);
    (below(word, 0x20) | quotes) & (ONES * 0x80) != 0
}

struct Escapes<'a>(&'a [u8]);

impl Work for Escapes<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let (blocks, rest) = self.0.as_chunks::<BLOCK>();
        let mut sum = 0;
        for block in blocks {
            sum += escapes(block, u64::MAX);
        }
        if let (Some(last), false) = (self.0.last_chunk(), rest.is_empty()) {
            // Its first bytes were looked at with the block before.
            sum += escapes(last, u64::MAX << (BLOCK - rest.len()));
        } else if !rest.is_empty() {
            let mut block = [b'a'; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            sum += escapes(&block, u64::MAX);
        }
        sum
    }
}

/// Of the bytes that `bits` names.
#[inline(always)]
fn escapes(block: &Block, bits: u64) -> u64 {
    let lanes = Lanes::load(block);
    let (controls, lines) = (lanes.within(0, 0x1F) & bits, lanes.equal(b'\n'));
    let mut sum = u64::from((controls | lanes.quotes() & bits).count_ones());
    if controls & !lines != 0 {
        let long = controls & (!lanes.within(0x08, 0x0D) | lanes.equal(0x0B));
        sum += 4 * u64::from(long.count_ones());
    }
    sum
}

fn extra(byte: u8) -> u64 {
    match byte {
        0x08..=0x0A | 0x0C..=0x0D | b'"' | b'\\' => 1,
        0..0x20 => 5,
        _ => 0,
    }
}

fn wide(point: u32) -> u64 {
    u8::try_from(point).map_or(0, extra)
}
