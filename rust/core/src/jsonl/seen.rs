//! Whether a key comes again in the same object.

use super::scan::Raw;

/// Which keys an object may have had already: never wrong about a new one, seldom about an old one.
#[derive(Debug, Default)]
pub(super) struct Seen {
    bits: [u64; 8],
    escapes: bool,
}

impl Seen {
    #[inline(always)]
    pub(super) fn maybe(&mut self, key: &[u8], flags: u8) -> bool {
        // Two bits a key: with 25 keys, one in a hundred is taken for known.
        let (one, other) = Self::places(key);
        let mut bit = |place: usize| {
            let (word, bit) = (&mut self.bits[place / 64 % 8], 1 << (place % 64));
            let known = *word & bit != 0;
            *word |= bit;
            known
        };
        let known = bit(one) & bit(other);
        self.escapes |= flags & Raw::ESCAPES != 0;
        known || self.escapes
    }

    /// Length, first and last bytes tell the keys of real messages apart.
    #[inline(always)]
    fn places(key: &[u8]) -> (usize, usize) {
        let word = |bytes: Option<&[u8; 4]>| u32::from_le_bytes(bytes.copied().unwrap_or_default());
        let (first, last) = (word(key.first_chunk()), word(key.last_chunk()));
        let mixed = (u64::from(first) << 32 | u64::from(last) ^ key.len() as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed >> 55) as usize, (mixed >> 46) as usize)
    }
}
