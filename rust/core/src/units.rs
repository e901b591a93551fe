//! Newtypes and saturating conversions.

/// A count as a digest field: 32 bits, larger values stay at the top.
#[must_use]
pub fn saturate(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A length or position as a digest field.
#[must_use]
pub fn saturate_len(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
