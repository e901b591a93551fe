//! Saturating conversions, and maps by numbers of our own.

use foldhash::fast::FixedState;

/// By a number that the core gave: nobody outside can choose it, so that they collide.
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, FixedState>;
/// As [`Map`], without values.
pub(crate) type Set<K> = hashbrown::HashSet<K, FixedState>;

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
