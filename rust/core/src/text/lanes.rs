//! 64 bytes as vectors, and what can be asked of all of them at once. Bit n of a mask speaks of byte n.
//!
//! All of it is inlined, so that each [`crate::simd::Work`] compiles it for its own machine.

use wide::i8x16;

/// Bytes of a [`Block`].
pub(super) const BLOCK: usize = 64;

/// 64 bytes that are looked at together.
pub(super) type Block = [u8; BLOCK];

/// Sixteen bytes.
pub(super) type Lane = i8x16;

/// Sixteen bytes as a vector.
#[inline(always)]
pub(super) fn lane(bytes: &[u8; 16]) -> Lane {
    i8x16::new(bytes.map(u8::cast_signed))
}

/// The first eight bytes and the last eight, which are all of up to sixteen; none if there are fewer than eight.
#[inline(always)]
pub(super) fn ends(bytes: &[u8]) -> Option<Lane> {
    let (head, tail) = (bytes.first_chunk::<8>()?, bytes.last_chunk::<8>()?);
    let both = u128::from(u64::from_le_bytes(*tail)) << 64 | u128::from(u64::from_le_bytes(*head));
    Some(lane(&both.to_le_bytes()))
}

/// A block as vectors.
#[derive(Clone, Copy)]
pub(super) struct Lanes([i8x16; 4]);

impl Lanes {
    #[inline(always)]
    pub(super) fn load(block: &Block) -> Self {
        let lane = |at: usize| lane(block[at..].first_chunk().unwrap_or(&[0; 16]));
        Self([lane(0), lane(16), lane(32), lane(48)])
    }

    #[inline(always)]
    fn mask(self, test: impl Fn(i8x16) -> i8x16) -> u64 {
        let bits = self.0.map(|lane| u64::from(test(lane).to_bitmask() as u16));
        bits[0] | bits[1] << 16 | bits[2] << 32 | bits[3] << 48
    }

    #[inline(always)]
    pub(super) fn equal(self, wanted: u8) -> u64 {
        self.mask(|lane| lane.simd_eq(i8x16::splat(wanted.cast_signed())))
    }

    #[inline(always)]
    pub(super) fn same(self, other: &Self) -> u64 {
        let mut pairs = self.0;
        for (lane, theirs) in pairs.iter_mut().zip(other.0) {
            *lane = lane.simd_eq(theirs);
        }
        Self(pairs).mask(|lane| lane)
    }

    /// Letters made small; what is no letter does not become one.
    #[inline(always)]
    pub(super) fn folded(self) -> Self {
        Self(self.0.map(|lane| lane | i8x16::splat(0x20)))
    }

    #[inline(always)]
    pub(super) fn high(self) -> u64 {
        self.mask(|lane| lane)
    }

    /// Bytes from `first` to `last`.
    #[inline(always)]
    pub(super) fn within(self, first: u8, last: u8) -> u64 {
        self.mask(|lane| within(lane, first, last))
    }

    /// Whether letters are small: upper and lower case differ in this bit only.
    #[inline(always)]
    pub(super) fn small(self) -> u64 {
        let bit = i8x16::splat(0x20);
        self.mask(|lane| (lane & bit).simd_eq(bit))
    }

    /// `j`, `k`, `q`, `v`, `w`, `x`, `z`, of letters already made small.
    #[inline(always)]
    pub(super) fn rare(self) -> u64 {
        let is = |lane: i8x16, letter: u8| lane.simd_eq(i8x16::splat(letter.cast_signed()));
        self.mask(|lane| {
            within(lane, b'j', b'k') | within(lane, b'v', b'x') | is(lane, b'q') | is(lane, b'z')
        })
    }
}

/// The range is moved to the least numbers, where one signed comparison tells it.
#[inline(always)]
pub(super) fn within(lane: Lane, first: u8, last: u8) -> Lane {
    let moved = lane + i8x16::splat(0x80_u8.wrapping_sub(first).cast_signed());
    moved.simd_lt(i8x16::splat(
        0x81_u8.wrapping_add(last - first).cast_signed(),
    ))
}
