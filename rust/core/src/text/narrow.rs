//! Any text becomes bytes of one alphabet: ASCII stays, every other character is its script's code.

use super::Text;
use super::kernel::Kernel;

/// First code; scripts follow in the order of `feature::NAMES`.
pub(super) const BASE: u8 = 0x80;
/// How many scripts there are.
pub(super) const SCRIPTS: usize = 16;
/// Codes below this are letters of words: the scripts from `latin` to `kana`.
pub(super) const WORDY_END: u8 = BASE + 6;

const OTHER: u8 = BASE + 14;
const ASTRAL: u8 = BASE + 15;
/// Characters that are made narrow at a time: they stay in the nearest cache.
const BLOCK: usize = 1024;

/// Upper ends (exclusive) of ranges of code points from U+0080 up, and the script of each. All ends
/// are multiples of 64, so that two bytes of UTF-8 decide.
const RANGES: [(usize, u8); 26] = [
    (0xC0, 9),     // signs of Latin-1
    (0x300, 0),    // latin
    (0x340, 14),   // combining marks
    (0x400, 1),    // greek, coptic
    (0x540, 2),    // cyrillic
    (0x900, 3),    // armenian, hebrew, arabic, syriac
    (0x1D00, 4),   // scripts of South and South-East Asia, georgian, ethiopic
    (0x1E00, 14),  // phonetic
    (0x1F00, 0),   // latin extended additional
    (0x2000, 1),   // greek extended
    (0x2080, 10),  // typographic punctuation
    (0x2180, 13),  // currency, letter-like signs
    (0x2200, 11),  // arrows
    (0x2500, 13),  // mathematics, technical
    (0x25C0, 12),  // box drawing, blocks
    (0x2E80, 13),  // symbols, dingbats
    (0x3000, 6),   // radicals
    (0x3040, 8),   // ideographic punctuation
    (0x3100, 5),   // kana
    (0xA000, 6),   // bopomofo to unified ideographs
    (0xAC00, 14),  // yi, vai, ...
    (0xD800, 7),   // hangul
    (0xF900, 14),  // surrogates, private use
    (0xFB00, 6),   // compatibility ideographs
    (0xFF00, 14),  // presentation forms, selectors
    (0x1_0000, 8), // half and full width forms
];

/// Script code by code point / 64, for the basic plane.
static TABLE: [u8; 1024] = table();

const fn table() -> [u8; 1024] {
    let mut table = [0; 1024];
    let (mut row, mut range) = (2, 0);
    while row < table.len() {
        while row * 64 >= RANGES[range].0 {
            range += 1;
        }
        table[row] = BASE + RANGES[range].1;
        row += 1;
    }
    table
}

/// Gives a text to the kernel in narrow blocks.
pub(super) fn feed(text: Text<'_>, kernel: &mut Kernel<'_>) {
    match text {
        Text::Ascii(bytes) => kernel.take(bytes),
        Text::Latin1(bytes) if bytes.is_ascii() => kernel.take(bytes),
        Text::Latin1(bytes) => units(bytes, kernel, |unit| narrow(u32::from(unit))),
        Text::Ucs2(points) => units(points, kernel, |unit| narrow(u32::from(unit))),
        Text::Ucs4(points) => units(points, kernel, narrow),
        Text::Wtf8(bytes) => wtf8(bytes, kernel),
    }
}

fn narrow(point: u32) -> u8 {
    match point {
        0..0x80 => point as u8,
        0x80..0x1_0000 => TABLE[point as usize / 64],
        _ => ASTRAL,
    }
}

fn units<T: Copy>(units: &[T], kernel: &mut Kernel<'_>, narrow: impl Fn(T) -> u8) {
    let mut block = [0; BLOCK];
    for part in units.chunks(BLOCK) {
        for (code, &unit) in block.iter_mut().zip(part) {
            *code = narrow(unit);
        }
        kernel.take(&block[..part.len()]);
    }
}

/// Number of code points.
pub(super) fn wtf8_len(bytes: &[u8]) -> usize {
    let mut length = 0;
    let mut rest = bytes;
    while let Some((_, size)) = decode(rest) {
        length += 1;
        rest = &rest[size..];
    }
    length
}

fn wtf8(bytes: &[u8], kernel: &mut Kernel<'_>) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let ascii = rest
            .iter()
            .position(|byte| !byte.is_ascii())
            .unwrap_or(rest.len());
        kernel.take(&rest[..ascii]);
        rest = wide_run(&rest[ascii..], kernel);
    }
}

/// Takes at most one block that starts with a character above ASCII; gives back what follows.
fn wide_run<'a>(bytes: &'a [u8], kernel: &mut Kernel<'_>) -> &'a [u8] {
    let mut block = [0; BLOCK];
    let mut filled = 0;
    let mut rest = bytes;
    while let (true, Some((code, size))) = (filled < BLOCK, decode(rest)) {
        block[filled] = code;
        filled += 1;
        rest = &rest[size..];
    }
    kernel.take(&block[..filled]);
    rest
}

/// Code and size in bytes of the first character. What is not UTF-8 is one character a byte.
fn decode(bytes: &[u8]) -> Option<(u8, usize)> {
    let lead = *bytes.first()?;
    let follows = |count: usize| {
        let tail = bytes.get(1..=count);
        tail.is_some_and(|tail| tail.iter().all(|byte| byte & 0xC0 == 0x80))
    };
    Some(match lead {
        0..0x80 => (lead, 1),
        0xC2..0xE0 if follows(1) => (TABLE[usize::from(lead & 0x1F)], 2),
        0xE0..0xF0 if follows(2) => {
            let row = usize::from(lead & 0x0F) << 6 | usize::from(bytes[1] & 0x3F);
            // Overlong forms are not UTF-8; they would reach rows that no script owns.
            (if row < 32 { OTHER } else { TABLE[row] }, 3)
        }
        0xF0..0xF5 if follows(3) => (ASTRAL, 4),
        _ => (OTHER, 1),
    })
}
