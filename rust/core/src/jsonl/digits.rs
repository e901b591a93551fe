//! Numbers that a parser of 64-bit integers would round.

use crate::simd::{BLOCK, Wide, WideWork, widest_lanes};

/// Digits of the least integer over 64 bits (unsigned: 20; below zero: 19).
const RUN: usize = 19;

/// Whether there is a run of 19 digits, in strings or outside of them: without one, every integer has 64 bits or less.
#[must_use]
pub fn has_long_digits(bytes: &[u8]) -> bool {
    widest_lanes(LongDigits(bytes))
}

#[derive(Clone, Copy)]
struct LongDigits<'a>(&'a [u8]);

impl WideWork for LongDigits<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<W: Wide>(self) -> bool {
        let (blocks, rest) = self.0.as_chunks::<BLOCK>();
        for (number, block) in blocks.iter().enumerate() {
            let starts = tens(W::load(block).digits());
            if starts != 0 && any_long(self.0, number * BLOCK, starts) {
                return true;
            }
        }
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let starts = tens(W::load(&last).digits());
        starts != 0 && any_long(self.0, blocks.len() * BLOCK, starts)
    }
}

/// Where ten digits stand together: of nineteen, at least so many are in one block.
#[inline(always)]
fn tens(digits: u64) -> u64 {
    let two = digits & digits >> 1;
    let four = two & two >> 2;
    four & four >> 4 & two >> 8
}

/// Whether one of the runs that go through these places of a block is long.
fn any_long(bytes: &[u8], block: usize, mut starts: u64) -> bool {
    while starts != 0 {
        let at = block + starts.trailing_zeros() as usize;
        let is_digit = |byte: &&u8| byte.is_ascii_digit();
        let before = bytes[..at].iter().rev().take_while(is_digit).count();
        let after = bytes[at..].iter().take_while(is_digit).count();
        if before + after >= RUN {
            return true;
        }
        // The places that follow without a gap are of the same run.
        starts &= starts.wrapping_add(starts & starts.wrapping_neg());
    }
    false
}

#[cfg(test)]
mod tests {
    use super::has_long_digits;
    use crate::simd::machines::on_each_machine;

    #[test]
    fn nineteen_digits_are_found_wherever_they_stand() {
        for length in [1, 9, 10, 18, 19, 20, 64, 200] {
            for front in 0..140 {
                for back in [0, 1, 63] {
                    let mut bytes = b"12:".repeat(60)[..front].to_vec();
                    bytes.push(b'-');
                    bytes.extend(b"1234567890".iter().cycle().take(length));
                    bytes.extend(b",7".repeat(back));
                    let found = on_each_machine(|| has_long_digits(&bytes));
                    assert!(
                        found.iter().all(|found| *found == (length >= 19)),
                        "{length}"
                    );
                }
            }
        }
        assert!(!has_long_digits(b""));
    }
}
