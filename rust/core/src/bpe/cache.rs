//! Counts of pieces seen before, in tables of fixed size.
//!
//! A slot holds a piece's own bytes, its length and its count, so that a hit is never wrong. A new
//! piece takes the slot of the old one. One cache serves one call at a time; callers at the same
//! time take caches of their own from the [`Pool`].
use std::sync::{Mutex, PoisonError};

use super::vocabulary::{Scratch, Vocabulary};

/// 16 bytes each: 2 MB. Half of it costs a tenth of the speed on new text.
const SHORT_SLOTS: usize = 1 << 17;
/// 32 bytes each: 1 MB.
const LONG_SLOTS: usize = 1 << 15;
/// A pool keeps at most this many caches: 15 MB.
const KEPT: usize = 5;

/// Length and count share a byte: 15 is the longest piece for which both fit.
const SHORT: usize = 15;
/// The bytes of a long slot less one each for length and count.
const LONG: usize = 30;

/// Counts of one encoding's pieces, and working memory.
#[derive(Debug)]
pub(super) struct Cache {
    short: Vec<[u64; 2]>,
    long: Vec<[u64; 4]>,
    pub(super) scratch: Scratch,
}

impl Cache {
    fn new() -> Self {
        Cache {
            short: vec![[0; 2]; SHORT_SLOTS],
            long: vec![[0; 4]; LONG_SLOTS],
            scratch: Scratch::default(),
        }
    }

    /// Number of tokens of the piece `bytes[start..end]`.
    #[inline]
    pub(super) fn count(
        &mut self,
        bytes: &[u8],
        start: usize,
        end: usize,
        of: &Vocabulary,
    ) -> usize {
        match end - start {
            length @ ..=SHORT => self.count_short(bytes, start, length, of),
            length @ ..=LONG => self.count_long(bytes, start, length, of),
            _ => of.count(&bytes[start..end], &mut self.scratch),
        }
    }

    #[inline]
    fn count_short(&mut self, bytes: &[u8], start: usize, length: usize, of: &Vocabulary) -> usize {
        let [low, high] = short_key(bytes, start, length);
        let slot = &mut self.short[spread(low, high, SHORT_SLOTS)];
        if slot[0] == low && slot[1] & (u64::MAX >> 4) == high {
            return (slot[1] >> 60) as usize;
        }
        let count = of.count(&bytes[start..start + length], &mut self.scratch);
        *slot = [low, high | (count as u64) << 60];
        count
    }

    fn count_long(&mut self, bytes: &[u8], start: usize, length: usize, of: &Vocabulary) -> usize {
        let key = long_key(bytes, start, length);
        let slot =
            &mut self.long[spread(key[0] ^ key[2].rotate_left(32), key[1] ^ key[3], LONG_SLOTS)];
        if slot[..3] == key[..3] && slot[3] & (u64::MAX >> 8) == key[3] {
            return (slot[3] >> 56) as usize;
        }
        let count = of.count(&bytes[start..start + length], &mut self.scratch);
        *slot = [key[0], key[1], key[2], key[3] | (count as u64) << 56];
        count
    }
}

/// The bytes of a piece in the low 15, its length in bits 56 to 59 of the high word.
#[inline]
fn short_key(bytes: &[u8], start: usize, length: usize) -> [u64; 2] {
    let word = match bytes.get(start..start + 16) {
        Some(chunk) => chunk.try_into().unwrap_or_default(),
        None => padded::<16>(&bytes[start..start + length]),
    };
    let word = u128::from_le_bytes(word) & !(u128::MAX << (length * 8)) | (length as u128) << 120;
    [word as u64, (word >> 64) as u64]
}

/// The bytes of a piece in the low 30, then its length, then a zero.
#[inline]
fn long_key(bytes: &[u8], start: usize, length: usize) -> [u64; 4] {
    let (low, high) = match bytes.get(start..start + 32) {
        Some(chunk) => halves(chunk),
        None => halves(&padded::<32>(&bytes[start..start + length])),
    };
    // At least 16 bytes are the piece's own.
    let high = high & !(u128::MAX << ((length - 16) * 8)) | (length as u128) << 112;
    [
        low as u64,
        (low >> 64) as u64,
        high as u64,
        (high >> 64) as u64,
    ]
}

#[inline]
fn halves(chunk: &[u8]) -> (u128, u128) {
    let half = |from: usize| chunk[from..from + 16].try_into().unwrap_or_default();
    (u128::from_le_bytes(half(0)), u128::from_le_bytes(half(16)))
}

fn padded<const N: usize>(piece: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    padded[..piece.len()].copy_from_slice(piece);
    padded
}

/// Slot of a key: the middle of a product depends on all of its bits.
#[inline]
fn spread(low: u64, high: u64, slots: usize) -> usize {
    let product =
        u128::from(low ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(high ^ 0x8bb8_4b93_962e_acc9);
    ((product >> 64) as u64 ^ product as u64) as usize & (slots - 1)
}

/// Caches that are not in use.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Vec<Cache>>);

impl Pool {
    /// Runs `work` with a cache that nobody else has.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Cache) -> T) -> T {
        let mut cache = self.kept().pop().unwrap_or_else(Cache::new);
        let result = work(&mut cache);
        let mut kept = self.kept();
        if kept.len() < KEPT {
            kept.push(cache);
        }
        result
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Cache>> {
        // A cache is put back only when it is whole, so that a panic elsewhere spoils nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
