//! Any text becomes bytes of one alphabet: ASCII stays, every other character is its script's code.

use super::Text;
use super::kernel::Kernel;

/// First code; scripts follow in the order of `feature::NAMES`.
pub(super) const BASE: u8 = 0x80;
/// Codes below this are letters of words: the scripts from `latin` to `kana`.
pub(super) const WORDY_END: u8 = BASE + 6;

const OTHER: u8 = BASE + 14;
const ASTRAL: u8 = BASE + 15;
/// Characters that are made narrow at a time: they stay in the nearest cache.
const BLOCK: usize = 1024;
/// Units of wider strings that are looked at together.
const ROW: usize = 64;
/// Bytes of UTF-8 that are copied or counted together where all of them are ASCII.
const LANE: usize = 16;

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

/// Script code by code point / 64, for the basic plane; the last for all beyond it.
static TABLE: [u8; 1025] = table();

const fn table() -> [u8; 1025] {
    let mut table = [ASTRAL; 1025];
    let (mut row, mut range) = (2, 0);
    while row < table.len() - 1 {
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
        Text::Latin1(bytes) | Text::Wtf8(bytes) if bytes.is_ascii() => kernel.take(bytes),
        Text::Latin1(bytes) => units(bytes, kernel, |unit| (unit.is_ascii(), unit), latin),
        Text::Ucs2(points) => {
            units(
                points,
                kernel,
                |unit| (unit < 0x80, unit as u8),
                |unit| narrow(u32::from(unit)),
            );
        }
        Text::Ucs4(points) => units(points, kernel, |unit| (unit < 0x80, unit as u8), narrow),
        Text::Wtf8(bytes) => wtf8(bytes, kernel),
    }
}

/// Makes a text shorter than the place narrow; how many codes it has.
pub(super) fn write(text: Text<'_>, place: &mut [u8]) -> usize {
    match text {
        Text::Ascii(bytes) => place[..bytes.len()].copy_from_slice(bytes),
        Text::Latin1(bytes) => fill_units(place, bytes, latin),
        Text::Ucs2(units) => fill_units(place, units, |unit| narrow(u32::from(unit))),
        Text::Ucs4(units) => fill_units(place, units, narrow),
        Text::Wtf8(mut bytes) => {
            let mut written = 0;
            while let Some((code, size)) = decode(bytes) {
                place[written] = code;
                written += 1;
                bytes = &bytes[size..];
            }
            return written;
        }
    }
    text.unit_len()
}

fn fill_units<T: Copy>(place: &mut [u8], units: &[T], narrow: impl Fn(T) -> u8) {
    for (code, &unit) in place.iter_mut().zip(units) {
        *code = narrow(unit);
    }
}

/// As [`narrow`], but arithmetic alone.
fn latin(byte: u8) -> u8 {
    match byte {
        0..0x80 => byte,
        0x80..0xC0 => BASE + RANGES[0].1,
        _ => BASE + RANGES[1].1,
    }
}

/// The table is read for ASCII too: which of both comes next is anybody's guess, a load is not.
fn narrow(point: u32) -> u8 {
    let wide = TABLE[(point as usize / 64).min(TABLE.len() - 1)];
    if point < 0x80 { point as u8 } else { wide }
}

/// Makes a block narrow at a time. `ascii` tells whether a unit is ASCII, and its byte if so: rows of those
/// need no look at the table.
fn units<T: Copy>(
    units: &[T],
    kernel: &mut Kernel<'_>,
    ascii: impl Fn(T) -> (bool, u8),
    narrow: impl Fn(T) -> u8,
) {
    let mut block = [0; BLOCK];
    for part in units.chunks(BLOCK) {
        let (rows, rest) = part.as_chunks::<ROW>();
        let (codes, _) = block.as_chunks_mut::<ROW>();
        for (codes, row) in codes.iter_mut().zip(rows) {
            *codes = if row.iter().fold(true, |all, &unit| all & ascii(unit).0) {
                row.map(|unit| ascii(unit).1)
            } else {
                row.map(&narrow)
            };
        }
        fill_units(&mut block[rows.len() * ROW..], rest, &narrow);
        kernel.take(&block[..part.len()]);
    }
}

/// Number of code points.
pub(super) fn wtf8_len(bytes: &[u8]) -> usize {
    let (mut length, mut rest) = (0, bytes);
    loop {
        while let Some((lane, more)) = rest.split_first_chunk::<LANE>()
            && lane.is_ascii()
        {
            (length, rest) = (length + LANE, more);
        }
        let Some((_, size)) = decode(rest) else {
            return length;
        };
        (length, rest) = (length + 1, &rest[size..]);
    }
}

fn wtf8(bytes: &[u8], kernel: &mut Kernel<'_>) {
    let mut block = [0; BLOCK];
    let mut rest = bytes;
    while !rest.is_empty() {
        let (filled, read) = fill(&mut block, rest);
        kernel.take(&block[..filled]);
        rest = &rest[read..];
    }
}

/// Fills a block as far as the bytes reach; how much of it, and how many bytes were read.
fn fill(block: &mut [u8; BLOCK], bytes: &[u8]) -> (usize, usize) {
    let (mut filled, mut read) = (0, 0);
    while filled < BLOCK {
        let plain = bytes[read..]
            .first_chunk::<LANE>()
            .filter(|lane| lane.is_ascii());
        if let (Some(lane), Some(place)) = (plain, block[filled..].first_chunk_mut()) {
            *place = *lane;
            (filled, read) = (filled + LANE, read + LANE);
        } else if let Some((code, size)) = decode(&bytes[read..]) {
            block[filled] = code;
            (filled, read) = (filled + 1, read + size);
        } else {
            break;
        }
    }
    (filled, read)
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
