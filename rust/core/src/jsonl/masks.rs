//! Several bytes at a time: which of them are quotes, backslashes, brackets, continuation bytes.
//!
//! Bit n of a mask speaks of byte n.

use wide::u8x16;

/// Bytes of a [`Lane`].
pub(super) const LANE: usize = 16;

/// 16 bytes; what lies beyond the end of the input is zero, which is none of what is looked for.
#[derive(Clone, Copy)]
pub(super) struct Lane(u8x16);

impl Lane {
    /// The bytes from `at` on.
    #[inline]
    pub(super) fn load(bytes: &[u8], at: usize) -> Self {
        let rest = bytes.get(at..).unwrap_or_default();
        match rest.first_chunk::<LANE>() {
            Some(whole) => Self(u8x16::new(*whole)),
            None => Self(padded(rest)),
        }
    }

    #[inline]
    fn equal(self, wanted: u8) -> u8x16 {
        self.0.simd_eq(u8x16::splat(wanted))
    }

    /// Quotes and backslashes.
    #[inline]
    pub(super) fn quotes(self) -> u32 {
        (self.equal(b'"') | self.equal(b'\\')).to_bitmask()
    }

    /// Quotes and brackets, round ones not among them.
    #[inline]
    pub(super) fn brackets(self) -> u32 {
        // `[` and `{`, `]` and `}` differ in this bit only.
        let folded = Self(self.0 | u8x16::splat(0x20));
        (self.equal(b'"') | folded.equal(b'{') | folded.equal(b'}')).to_bitmask()
    }

    /// Bytes that are not ASCII.
    #[inline]
    pub(super) fn high(self) -> u32 {
        self.0.to_bitmask()
    }

    /// Bytes that continue a character of several bytes.
    #[inline]
    pub(super) fn continuations(self) -> u32 {
        Self(self.0 & u8x16::splat(0xC0)).equal(0x80).to_bitmask()
    }
}

#[cold]
fn padded(rest: &[u8]) -> u8x16 {
    let mut padded = [0; LANE];
    padded[..rest.len()].copy_from_slice(rest);
    u8x16::new(padded)
}

/// Bits below the lowest one; all of them if there is none.
#[inline]
pub(super) fn below(marks: u32) -> u32 {
    marks.wrapping_sub(1) & !marks
}

#[cfg(test)]
mod tests {
    use super::{LANE, Lane, below};

    fn bits(bytes: &[u8], test: impl Fn(u8) -> bool) -> u32 {
        let bits = bytes.iter().take(LANE).enumerate();
        bits.fold(0, |mask, (at, &byte)| mask | u32::from(test(byte)) << at)
    }

    #[test]
    fn masks_speak_of_their_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        for at in 0..bytes.len() {
            let (lane, rest) = (Lane::load(&bytes, at), &bytes[at..]);
            assert_eq!(lane.quotes(), bits(rest, |b| b"\"\\".contains(&b)));
            assert_eq!(lane.brackets(), bits(rest, |b| b"\"[{]}".contains(&b)));
            assert_eq!(lane.continuations(), bits(rest, |b| b & 0xC0 == 0x80));
            assert_eq!(lane.high(), bits(rest, |b| b >= 0x80));
        }
        assert_eq!(Lane::load(&bytes, 999).quotes(), 0);
    }

    #[test]
    fn below_is_what_comes_before_the_first() {
        assert_eq!(
            (below(0b1000), below(0b1001), below(0)),
            (0b111, 0, u32::MAX)
        );
    }
}
