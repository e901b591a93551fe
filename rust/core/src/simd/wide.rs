//! 64 bytes at a time, in the registers of the machine: which of them are quotes, brackets, and the like.
//!
//! Bit n of a mask speaks of byte n.

/// Bytes that are looked at together.
pub(crate) const BLOCK: usize = 64;

/// Such bytes in registers.
pub(crate) trait Wide: Copy {
    /// Takes them up.
    fn load(block: &[u8; BLOCK]) -> Self;

    /// Those that are this byte.
    fn equal(self, wanted: u8) -> u64;

    /// Those that are not ASCII.
    fn high(self) -> u64;

    /// Those that continue a character of several bytes.
    fn tails(self) -> u64;

    /// `{` and `[`; `}` and `]`.
    fn brackets(self) -> (u64, u64);

    /// `0` to `9`.
    fn digits(self) -> u64;

    /// Letters of the escapes that compact JSON writes: `"`, `\`, `b`, `f`, `n`, `r`, `t`.
    fn escape_letters(self) -> u64;

    /// Does other work as a function of its own, with the same instructions.
    fn apart<T: WideWork>(work: T) -> T::Output;
}

/// Something to compute that looks at 64 bytes at a time, the same on any machine.
pub(crate) trait WideWork {
    /// What it gives.
    type Output;

    /// Does it. Must be `#[inline(always)]`, and so must what it calls.
    fn run<W: Wide>(self) -> Self::Output;
}

/// Does the work with the widest registers that the machine has.
#[inline]
pub(crate) fn widest_lanes<T: WideWork>(work: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if super::has_avx512() {
            return x86::Avx512::apart(work);
        }
        if super::has_avx2() {
            return x86::Avx2::apart(work);
        }
    }
    work.run::<plain::Lanes>()
}

mod plain {
    use super::{BLOCK, Wide, WideWork};
    use wide::u8x16;

    /// What any machine of the target has.
    #[derive(Clone, Copy)]
    pub(super) struct Lanes([u8x16; 4]);

    impl Lanes {
        #[inline(always)]
        fn mask(self, test: impl Fn(u8x16) -> u8x16) -> u64 {
            let bits = self.0.map(|lane| u64::from(test(lane).to_bitmask()));
            bits[0] | bits[1] << 16 | bits[2] << 32 | bits[3] << 48
        }
    }

    impl Wide for Lanes {
        #[inline(always)]
        fn load(block: &[u8; BLOCK]) -> Self {
            let lane = |at: usize| u8x16::new(*block[at..].first_chunk().unwrap_or(&[0; 16]));
            Self([lane(0), lane(16), lane(32), lane(48)])
        }

        #[inline(always)]
        fn equal(self, wanted: u8) -> u64 {
            self.mask(|lane| lane.simd_eq(u8x16::splat(wanted)))
        }

        #[inline(always)]
        fn high(self) -> u64 {
            self.mask(|lane| lane)
        }

        #[inline(always)]
        fn tails(self) -> u64 {
            self.mask(|lane| (lane & u8x16::splat(0xC0)).simd_eq(u8x16::splat(0x80)))
        }

        #[inline(always)]
        fn brackets(self) -> (u64, u64) {
            // `[` and `{`, `]` and `}` differ in this bit only.
            let folded = Self(self.0.map(|lane| lane | u8x16::splat(0x20)));
            (folded.equal(b'{'), folded.equal(b'}'))
        }

        #[inline(always)]
        fn digits(self) -> u64 {
            let (zero, nine) = (u8x16::splat(b'0'), u8x16::splat(9));
            self.mask(|lane| (lane - zero).min(nine).simd_eq(lane - zero))
        }

        #[inline(always)]
        fn escape_letters(self) -> u64 {
            let letters = [b'"', b'\\', b'b', b'f', b'n', b'r', b't'];
            letters
                .iter()
                .fold(0, |found, &letter| found | self.equal(letter))
        }

        #[inline(always)]
        fn apart<T: WideWork>(work: T) -> T::Output {
            work.run::<Self>()
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! The machines are private to this module and the one above, which names them only after a check of
    //! what the processor has: whoever holds one may use its instructions.

    use super::{BLOCK, Wide, WideWork};
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_cmpeq_epi8, _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_min_epu8,
        _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_setzero_si256,
        _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_sub_epi8, _mm512_and_si512,
        _mm512_broadcast_i32x4, _mm512_cmpeq_epi8_mask, _mm512_cmplt_epi8_mask,
        _mm512_cmplt_epu8_mask, _mm512_loadu_si512, _mm512_movepi8_mask, _mm512_or_si512,
        _mm512_set1_epi8, _mm512_shuffle_epi8, _mm512_srli_epi16, _mm512_sub_epi8,
        _mm512_test_epi8_mask,
    };

    /// Bits of the high halves of escape letters, by their low halves, and the other way round: a byte is one
    /// of them if both have a bit in common. The pairs are 22 5C 62 66 6E 72 74.
    const BY_LOW: [i8; 16] = [0, 0, 13, 0, 8, 0, 4, 0, 0, 0, 0, 0, 2, 0, 4, 0];
    const BY_HIGH: [i8; 16] = [0, 0, 1, 0, 0, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0];

    #[derive(Clone, Copy)]
    pub(super) struct Avx2(__m256i, __m256i);

    impl Avx2 {
        #[inline(always)]
        fn mask(self, test: impl Fn(__m256i) -> __m256i) -> u64 {
            // SAFETY: the machine has AVX2 where this type is used.
            let bits = |lanes| unsafe { _mm256_movemask_epi8(test(lanes)).cast_unsigned() };
            u64::from(bits(self.0)) | u64::from(bits(self.1)) << 32
        }
    }

    impl Wide for Avx2 {
        #[inline(always)]
        fn load(block: &[u8; BLOCK]) -> Self {
            let (first, last) = block.split_at(BLOCK / 2);
            // SAFETY: as above; each half has 32 bytes, which need no alignment.
            unsafe {
                Self(
                    _mm256_loadu_si256(first.as_ptr().cast()),
                    _mm256_loadu_si256(last.as_ptr().cast()),
                )
            }
        }

        #[inline(always)]
        fn equal(self, wanted: u8) -> u64 {
            // SAFETY: as above.
            self.mask(|lanes| unsafe {
                _mm256_cmpeq_epi8(lanes, _mm256_set1_epi8(wanted.cast_signed()))
            })
        }

        #[inline(always)]
        fn high(self) -> u64 {
            self.mask(|lanes| lanes)
        }

        #[inline(always)]
        fn tails(self) -> u64 {
            // SAFETY: as above. As signed numbers, these bytes are the least.
            self.mask(|lanes| unsafe { _mm256_cmpgt_epi8(_mm256_set1_epi8(-64), lanes) })
        }

        #[inline(always)]
        fn brackets(self) -> (u64, u64) {
            // SAFETY: as above. `[` and `{`, `]` and `}` differ in one bit only.
            let folded = unsafe {
                let bit = _mm256_set1_epi8(0x20);
                Self(_mm256_or_si256(self.0, bit), _mm256_or_si256(self.1, bit))
            };
            (folded.equal(b'{'), folded.equal(b'}'))
        }

        #[inline(always)]
        fn digits(self) -> u64 {
            // SAFETY: as above.
            self.mask(|lanes| unsafe {
                let value = _mm256_sub_epi8(lanes, _mm256_set1_epi8(b'0'.cast_signed()));
                _mm256_cmpeq_epi8(_mm256_min_epu8(value, _mm256_set1_epi8(9)), value)
            })
        }

        #[inline(always)]
        fn escape_letters(self) -> u64 {
            // SAFETY: as above.
            let others = self.mask(|lanes| unsafe {
                let table = |of: &[i8; 16]| {
                    _mm256_broadcastsi128_si256(_mm_loadu_si128(of.as_ptr().cast()))
                };
                let low = _mm256_shuffle_epi8(table(&BY_LOW), lanes);
                let halves = _mm256_and_si256(_mm256_srli_epi16(lanes, 4), _mm256_set1_epi8(15));
                let high = _mm256_shuffle_epi8(table(&BY_HIGH), halves);
                _mm256_cmpeq_epi8(_mm256_and_si256(low, high), _mm256_setzero_si256())
            });
            !others
        }

        #[inline(always)]
        fn apart<T: WideWork>(work: T) -> T::Output {
            #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
            fn function<T: WideWork>(work: T) -> T::Output {
                work.run::<Avx2>()
            }
            // SAFETY: the machine has these instructions where this type is used.
            unsafe { function(work) }
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Avx512(__m512i);

    impl Wide for Avx512 {
        #[inline(always)]
        fn load(block: &[u8; BLOCK]) -> Self {
            // SAFETY: the machine has AVX-512BW where this type is used; 64 bytes need no alignment.
            Self(unsafe { _mm512_loadu_si512(block.as_ptr().cast()) })
        }

        #[inline(always)]
        fn equal(self, wanted: u8) -> u64 {
            // SAFETY: as above.
            unsafe { _mm512_cmpeq_epi8_mask(self.0, _mm512_set1_epi8(wanted.cast_signed())) }
        }

        #[inline(always)]
        fn high(self) -> u64 {
            // SAFETY: as above.
            unsafe { _mm512_movepi8_mask(self.0) }
        }

        #[inline(always)]
        fn tails(self) -> u64 {
            // SAFETY: as above. As signed numbers, these bytes are the least.
            unsafe { _mm512_cmplt_epi8_mask(self.0, _mm512_set1_epi8(-64)) }
        }

        #[inline(always)]
        fn brackets(self) -> (u64, u64) {
            // SAFETY: as above. `[` and `{`, `]` and `}` differ in one bit only.
            let folded = Self(unsafe { _mm512_or_si512(self.0, _mm512_set1_epi8(0x20)) });
            (folded.equal(b'{'), folded.equal(b'}'))
        }

        #[inline(always)]
        fn digits(self) -> u64 {
            // SAFETY: as above.
            unsafe {
                let value = _mm512_sub_epi8(self.0, _mm512_set1_epi8(b'0'.cast_signed()));
                _mm512_cmplt_epu8_mask(value, _mm512_set1_epi8(10))
            }
        }

        #[inline(always)]
        fn escape_letters(self) -> u64 {
            // SAFETY: as above.
            unsafe {
                let table =
                    |of: &[i8; 16]| _mm512_broadcast_i32x4(_mm_loadu_si128(of.as_ptr().cast()));
                let low = _mm512_shuffle_epi8(table(&BY_LOW), self.0);
                let halves = _mm512_and_si512(_mm512_srli_epi16(self.0, 4), _mm512_set1_epi8(15));
                _mm512_test_epi8_mask(low, _mm512_shuffle_epi8(table(&BY_HIGH), halves))
            }
        }

        #[inline(always)]
        fn apart<T: WideWork>(work: T) -> T::Output {
            #[target_feature(enable = "avx2,avx512f,avx512bw,bmi1,bmi2,popcnt,lzcnt")]
            fn function<T: WideWork>(work: T) -> T::Output {
                work.run::<Avx512>()
            }
            // SAFETY: the machine has these instructions where this type is used.
            unsafe { function(work) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Wide, WideWork, widest_lanes};
    use crate::simd::machines::on_each_machine;

    #[derive(Clone, Copy)]
    struct All<'a>(&'a [u8; BLOCK]);

    impl WideWork for All<'_> {
        type Output = [u64; 8];

        #[inline(always)]
        fn run<W: Wide>(self) -> Self::Output {
            let lanes = W::load(self.0);
            let (opens, closes) = lanes.brackets();
            let signs = [lanes.equal(b'"'), lanes.equal(0), lanes.high()];
            let [quotes, zeros, high] = signs;
            let (letters, digits) = (lanes.escape_letters(), lanes.digits());
            [
                quotes,
                zeros,
                high,
                lanes.tails(),
                opens,
                closes,
                letters,
                digits,
            ]
        }
    }

    fn bits(block: &[u8; BLOCK], test: impl Fn(u8) -> bool) -> u64 {
        let bits = block.iter().enumerate();
        bits.fold(0, |mask, (at, &byte)| mask | u64::from(test(byte)) << at)
    }

    fn expected(block: &[u8; BLOCK]) -> [u64; 8] {
        [
            bits(block, |byte| byte == b'"'),
            bits(block, |byte| byte == 0),
            bits(block, |byte| byte >= 0x80),
            bits(block, |byte| byte & 0xC0 == 0x80),
            bits(block, |byte| matches!(byte, b'{' | b'[')),
            bits(block, |byte| matches!(byte, b'}' | b']')),
            bits(block, |byte| b"\"\\bfnrt".contains(&byte)),
            bits(block, |byte| byte.is_ascii_digit()),
        ]
    }

    #[test]
    fn every_machine_sees_each_byte_for_what_it_is() {
        for first in 0..=255_u8 {
            for step in [0, 1, 3, 37] {
                let block =
                    std::array::from_fn(|at| first.wrapping_add((at as u8).wrapping_mul(step)));
                for found in on_each_machine(|| widest_lanes(All(&block))) {
                    assert_eq!(found, expected(&block));
                }
            }
        }
    }
}
