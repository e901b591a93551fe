//! The best instructions that the machine has, chosen while running: the only unsafe code of this crate.
//!
//! A [`Work`] is written once, in safe code, and compiled twice: for the target's least machine and for
//! one of 2013 or newer. Both are the same statements, so that one is the other's twin. A [`WideWork`] asks
//! for 64 bytes at a time besides, which each machine answers with its own instructions ([`Wide`]).
#![expect(
    unsafe_code,
    reason = "calls of functions that need instructions the target does not promise"
)]

#[cfg(any(test, feature = "machines"))]
pub mod machines;
mod wide;

pub(crate) use wide::{BLOCK, Wide, WideWork, widest_lanes};

/// Something to compute, the same on any machine.
pub(crate) trait Work {
    /// What it gives.
    type Output;

    /// Does it. To be compiled for both machines this must be `#[inline(always)]`, and so must what it calls.
    fn run(self) -> Self::Output;
}

/// Does the work with AVX2, BMI and POPCNT where the machine has them.
#[inline]
pub(crate) fn widest<T: Work>(work: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: `has_avx2` has just looked for each of these instructions.
        return unsafe { avx2(work) };
    }
    work.run()
}

/// Whether the processor has what [`avx2`] and [`wide`]'s lanes of 32 bytes are compiled for.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx2() -> bool {
    #[cfg(any(test, feature = "machines"))]
    if machines::most() < machines::Machine::Avx2 {
        return false;
    }
    std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("popcnt")
        && std::arch::is_x86_feature_detected!("lzcnt")
}

/// The same for lanes of 64 bytes. Processors that also have VBMI2 do not slow down for wide registers; older ones with
/// AVX-512 do.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx512() -> bool {
    #[cfg(any(test, feature = "machines"))]
    if machines::most() < machines::Machine::Widest {
        return false;
    }
    has_avx2()
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vbmi2")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
fn avx2<T: Work>(work: T) -> T::Output {
    work.run()
}

#[cfg(test)]
mod tests {
    use super::{Work, widest};

    struct Bits(u64);

    impl Work for Bits {
        type Output = (u32, u32, u64);

        #[inline(always)]
        fn run(self) -> Self::Output {
            let kept = self.0 & !(self.0 << 1);
            (
                kept.count_ones(),
                self.0.leading_zeros(),
                self.0 & (self.0.wrapping_sub(1)),
            )
        }
    }

    #[test]
    fn both_machines_agree() {
        for shift in 0..64 {
            let bits = 0x9E37_79B9_7F4A_7C15_u64.rotate_left(shift);
            assert_eq!(widest(Bits(bits)), Bits(bits).run());
        }
        assert_eq!(widest(Bits(0)), (0, 64, 0));
    }
}
