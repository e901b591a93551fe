//! How much longer JSON makes a string.

use super::Text;
use super::lanes::{Lane, ends, lane, within};
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
    if bytes.len() >= ROW {
        widest(Escapes(bytes))
    } else if any_special(bytes) {
        one_by_one(bytes)
    } else {
        0
    }
}

/// Whether a short string has anything to escape: keys and paths seldom do.
fn any_special(bytes: &[u8]) -> bool {
    // Two that may overlap cover what is between one and two of them.
    if let (Some(head), Some(tail)) = (bytes.first_chunk::<16>(), bytes.last_chunk::<16>()) {
        return any_of(lane(head)) | any_of(lane(tail));
    }
    match ends(bytes) {
        Some(both) => any_of(both),
        None => bytes.iter().any(|&byte| special(byte)),
    }
}

fn any_of(bytes: Lane) -> bool {
    let is = |sign: u8| bytes.simd_eq(Lane::splat(sign.cast_signed()));
    (within(bytes, 0, 0x1F) | is(b'"') | is(b'\\')).any()
}

/// Bytes that are looked at together: a vector of AVX2, two of SSE2.
const ROW: usize = 32;

type Row = [u8; ROW];

/// At least one row.
struct Escapes<'a>(&'a [u8]);

impl Work for Escapes<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let (rows, rest) = self.0.as_chunks::<ROW>();
        let mut found = Found::default();
        let mut sum = 0;
        // A count of one byte holds so many rows.
        for rows in rows.chunks(255) {
            for row in rows {
                found.look(row, 0);
            }
            sum += found.take();
        }
        if let (Some(last), false) = (self.0.last_chunk(), rest.is_empty()) {
            // Its first bytes were looked at with the row before.
            found.look(last, ROW - rest.len());
            sum += found.take();
        }
        if found.odd.iter().fold(0, |any, &odd| any | odd) != 0 {
            // Control characters other than the end of a line: seldom, and not worth a fast way.
            return one_by_one(self.0);
        }
        sum
    }
}

/// What was found in each place of the rows.
#[derive(Default)]
struct Found {
    short: Row,
    odd: Row,
}

impl Found {
    /// Written for each byte alone; compiled to vectors.
    #[inline(always)]
    #[expect(
        clippy::needless_range_loop,
        reason = "with an iterator the compiler makes two times the instructions of it"
    )]
    fn look(&mut self, row: &Row, from: usize) {
        for at in 0..ROW {
            let byte = row[at];
            let counts = u8::from(special(byte)) & u8::from(at >= from);
            self.short[at] = self.short[at].wrapping_add(counts);
            self.odd[at] |= u8::from(byte < 0x20) & u8::from(byte != b'\n');
        }
    }

    /// The sum of all places, which then count from zero again.
    #[inline(always)]
    fn take(&mut self) -> u64 {
        let short = std::mem::replace(&mut self.short, [0; ROW]);
        short.iter().map(|&count| u64::from(count)).sum()
    }
}

/// Whether JSON writes it otherwise.
#[inline(always)]
fn special(byte: u8) -> bool {
    matches!(byte, 0..0x20 | b'"' | b'\\')
}

#[cold]
fn one_by_one(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| extra(byte)).sum()
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

#[cfg(test)]
mod tests {
    use super::{Escapes, ROW, Work, extra, sum};

    #[test]
    fn each_byte_in_each_place() {
        for length in [1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 97] {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    assert_eq!(sum(&text), extra(byte), "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn more_rows_than_a_byte_counts() {
        for length in [255 * ROW, 256 * ROW, 256 * ROW + 1, 600 * ROW + 31] {
            let text = vec![b'"'; length];
            assert_eq!(sum(&text), length as u64);
            assert_eq!(Escapes(&text).run(), length as u64);
        }
    }
}
