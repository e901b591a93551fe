//! 64 bytes at a time: which of them are quotes, backslashes, brackets, continuation bytes.
//!
//! Bit n of a mask speaks of byte n.

use wide::u8x64;

/// Bytes that are looked at together.
pub(crate) const WIDTH: usize = 64;

/// 64 bytes; what lies beyond the end of the input is zero, which is none of what is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Block(u8x64);

impl Block {
    /// The bytes from `at` on.
    #[inline]
    pub(crate) fn load(bytes: &[u8], at: usize) -> Self {
        let rest = bytes.get(at..).unwrap_or_default();
        if let Some(whole) = rest.first_chunk::<WIDTH>() {
            return Self(u8x64::new(*whole));
        }
        let mut padded = [0; WIDTH];
        padded[..rest.len()].copy_from_slice(rest);
        Self(u8x64::new(padded))
    }

    #[inline]
    fn equal(self, wanted: u8) -> u64 {
        self.0.simd_eq(u8x64::splat(wanted)).to_bitmask()
    }

    /// Quotes and backslashes.
    #[inline]
    pub(crate) fn quotes(self) -> (u64, u64) {
        (self.equal(b'"'), self.equal(b'\\'))
    }

    /// Opening and closing brackets, round ones not among them.
    #[inline]
    pub(crate) fn brackets(self) -> (u64, u64) {
        // `[` and `{`, `]` and `}` differ in this bit only.
        let folded = Self(self.0 | u8x64::splat(0x20));
        (folded.equal(b'{'), folded.equal(b'}'))
    }

    /// The letter u, which makes an escape a long one.
    #[inline]
    pub(crate) fn letters_u(self) -> u64 {
        self.equal(b'u')
    }

    /// Bytes that may follow a backslash, beside quotes and backslashes.
    #[inline]
    pub(crate) fn escape_letters(self) -> u64 {
        let common = self.equal(b'n') | self.equal(b't') | self.equal(b'u');
        common | self.equal(b'r') | self.equal(b'/') | self.equal(b'b') | self.equal(b'f')
    }

    /// Bytes that are not ASCII.
    #[inline]
    pub(crate) fn high(self) -> u64 {
        self.0.to_bitmask()
    }

    /// Bytes that continue a character of several bytes.
    #[inline]
    pub(crate) fn continuations(self) -> u64 {
        Self(self.0 & u8x64::splat(0xC0)).equal(0x80)
    }
}

/// Bits of even places.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// Bytes that a backslash escapes; `carry` says whether the first byte is one, and then whether the
/// byte after the block is.
#[inline]
pub(crate) fn escaped(backslashes: u64, carry: &mut bool) -> u64 {
    if backslashes == 0 {
        return u64::from(std::mem::take(carry));
    }
    // Runs of backslashes: in a run that starts at an odd place the even ones escape, and the other
    // way round. Adding a run's start to it carries to the byte after its end (simdjson).
    let first = u64::from(*carry);
    let slashes = backslashes & !first;
    let follows = slashes << 1 | first;
    let odd_starts = slashes & !EVEN & !follows;
    let (ends, overflow) = odd_starts.overflowing_add(slashes);
    *carry = overflow;
    (EVEN ^ (ends << 1)) & follows
}

/// Bits that lie inside strings, the opening quote included; `inside` says whether the block starts in
/// one, and then whether the next does.
#[inline]
pub(crate) fn inside(quotes: u64, inside: &mut bool) -> u64 {
    let mut mask = quotes;
    for shift in [1, 2, 4, 8, 16, 32] {
        mask ^= mask << shift;
    }
    if *inside {
        mask = !mask;
    }
    *inside = mask >> 63 == 1;
    mask
}

#[cfg(test)]
mod tests {
    use super::{Block, WIDTH, escaped, inside};

    fn bits(bytes: &[u8], test: impl Fn(u8) -> bool) -> u64 {
        let bits = bytes.iter().take(WIDTH).enumerate();
        bits.fold(0, |mask, (at, &byte)| mask | u64::from(test(byte)) << at)
    }

    #[test]
    fn masks_speak_of_their_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        for at in 0..bytes.len() {
            let (block, rest) = (Block::load(&bytes, at), &bytes[at..]);
            assert_eq!(block.quotes().0, bits(rest, |b| b == b'"'));
            assert_eq!(block.quotes().1, bits(rest, |b| b == b'\\'));
            assert_eq!(block.brackets().0, bits(rest, |b| b"[{".contains(&b)));
            assert_eq!(block.brackets().1, bits(rest, |b| b"]}".contains(&b)));
            assert_eq!(block.continuations(), bits(rest, |b| b & 0xC0 == 0x80));
            assert_eq!(block.high(), bits(rest, |b| b >= 0x80));
            assert_eq!(block.letters_u(), bits(rest, |b| b == b'u'));
            assert_eq!(
                block.escape_letters(),
                bits(rest, |b| b"ntur/bf".contains(&b))
            );
        }
        assert_eq!(Block::load(&bytes, 999).quotes(), (0, 0));
    }

    #[test]
    fn escapes_and_strings_are_followed_across_blocks() {
        // Every text of quotes, backslashes and letters up to some length, at every block edge.
        for code in 0..3_usize.pow(9) {
            let letters = (0..9).map(|place| b"a\"\\"[code / 3_usize.pow(place) % 3]);
            let text: Vec<u8> = std::iter::repeat_n(b'a', WIDTH - 4)
                .chain(letters)
                .collect();
            let (mut carry, mut within) = (false, false);
            let (mut slash, mut string) = (false, false);
            for start in [0, WIDTH] {
                let (quotes, backslashes) = Block::load(&text, start).quotes();
                let skip = escaped(backslashes, &mut carry);
                let mask = inside(quotes & !skip, &mut within);
                for (at, &byte) in text[start..].iter().take(WIDTH).enumerate() {
                    assert_eq!(skip >> at & 1 == 1, slash, "{text:?} {at}");
                    string ^= byte == b'"' && !slash;
                    assert_eq!(mask >> at & 1 == 1, string, "{text:?} {at}");
                    slash = byte == b'\\' && !slash;
                }
            }
        }
    }
}
