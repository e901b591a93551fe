//! Counts of pieces seen before, in tables of fixed size.
//!
//! A slot holds a piece's own bytes, its length and its count, so that a hit is never wrong. Slots
//! that share a hash make a line, which the processor fetches at once; a new piece takes the place
//! of the line's oldest. One cache serves one call at a time; callers at the same time take caches
//! of their own from the [`Pool`].
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::vocabulary::{Scratch, Vocabulary};

/// 2 MB of four pieces each.
const SHORT_LINES: usize = 1 << 15;
/// 1 MB of two pieces each.
const LONG_LINES: usize = 1 << 14;
/// A pool keeps at most this many caches: 15 MB.
const KEPT: usize = 5;

/// Length and count share a byte: 15 is the longest piece for which both fit.
const SHORT: usize = 15;
/// The bytes of a long slot less one each for length and count.
const LONG: usize = 30;

/// Words of what the processor fetches at once.
const LINE: usize = 8;

/// Lines of slots, each slot a piece with its count above `BITS` of its last word.
///
/// Zeros that the system gives are not touched before they are used; it gives them unaligned.
#[derive(Debug)]
struct Lines<const WORDS: usize, const BITS: u32> {
    words: Vec<u64>,
    aligned: usize,
}

impl<const WORDS: usize, const BITS: u32> Lines<WORDS, BITS> {
    fn new(lines: usize) -> Self {
        let words = vec![0; (lines + 1) * LINE];
        let aligned = words
            .as_ptr()
            .align_offset(LINE * size_of::<u64>())
            .min(LINE);
        Lines { words, aligned }
    }

    #[inline]
    fn line(&self, line: usize) -> &[[u64; WORDS]] {
        self.words[self.aligned + line * LINE..][..LINE]
            .as_chunks()
            .0
    }

    /// The count of a piece; 0 if it is not here. It becomes the first of its line.
    #[inline]
    fn get(&mut self, line: usize, key: &[u64; WORDS]) -> usize {
        let known = self
            .line(line)
            .iter()
            .position(|slot| is_same(slot, key, BITS));
        let Some(known) = known else { return 0 };
        let slots = self.line_mut(line);
        slots.swap(0, known);
        (slots[0][WORDS - 1] >> BITS) as usize
    }

    /// Puts a piece first; the last of the line goes.
    #[inline]
    fn put(&mut self, line: usize, mut key: [u64; WORDS], count: usize) {
        key[WORDS - 1] |= (count as u64) << BITS;
        let slots = self.line_mut(line);
        slots.copy_within(..LINE / WORDS - 1, 1);
        slots[0] = key;
    }

    #[inline]
    fn line_mut(&mut self, line: usize) -> &mut [[u64; WORDS]] {
        self.words[self.aligned + line * LINE..][..LINE]
            .as_chunks_mut()
            .0
    }
}

#[inline]
fn is_same<const WORDS: usize>(slot: &[u64; WORDS], key: &[u64; WORDS], bits: u32) -> bool {
    let last = (slot[WORDS - 1] ^ key[WORDS - 1]) & !(u64::MAX << bits);
    let words = slot.iter().zip(key).take(WORDS - 1);
    words.fold(last, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Counts of one encoding's pieces, and working memory.
#[derive(Debug)]
pub(super) struct Cache {
    short: Lines<2, 60>,
    long: Lines<4, 56>,
    pub(super) scratch: Scratch,
}

impl Cache {
    fn new() -> Self {
        Cache {
            short: Lines::new(SHORT_LINES),
            long: Lines::new(LONG_LINES),
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
        let key = short_key(bytes, start, length);
        let line = spread(key[0], key[1], SHORT_LINES);
        let first = &self.short.line(line)[0];
        if is_same(first, &key, 60) {
            return (first[1] >> 60) as usize;
        }
        self.count_behind(key, line, &bytes[start..start + length], of)
    }

    /// The same for a piece that is not the first of its line.
    fn count_behind(&mut self, key: [u64; 2], line: usize, piece: &[u8], of: &Vocabulary) -> usize {
        let known = self.short.get(line, &key);
        if known != 0 {
            return known;
        }
        let count = of.count(piece, &mut self.scratch);
        self.short.put(line, key, count);
        count
    }

    fn count_long(&mut self, bytes: &[u8], start: usize, length: usize, of: &Vocabulary) -> usize {
        let key = long_key(bytes, start, length);
        let (low, high) = (key[0] ^ key[2].rotate_left(32), key[1] ^ key[3]);
        let line = spread(low, high, LONG_LINES);
        let known = self.long.get(line, &key);
        if known != 0 {
            return known;
        }
        let count = of.count(&bytes[start..start + length], &mut self.scratch);
        self.long.put(line, key, count);
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

/// Line of a key: the middle of a product depends on all of its bits.
#[inline]
fn spread(low: u64, high: u64, lines: usize) -> usize {
    let product =
        u128::from(low ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(high ^ 0x8bb8_4b93_962e_acc9);
    ((product >> 64) as u64 ^ product as u64) as usize & (lines - 1)
}

/// Caches that are not in use, each in a place of its own.
///
/// Nobody ever waits for a place: a process that was forked while another thread held one finds it
/// locked for good, passes it over and goes on.
#[derive(Debug, Default)]
pub(super) struct Pool([Mutex<Option<Cache>>; KEPT]);

impl Pool {
    /// Runs `work` with a cache that nobody else has.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Cache) -> T) -> T {
        let mut cache = self
            .free()
            .find_map(|mut place| place.take())
            .unwrap_or_else(Cache::new);
        let result = work(&mut cache);
        if let Some(mut place) = self.free().find(|place| place.is_none()) {
            *place = Some(cache);
        }
        result
    }

    /// The places that nobody holds at this moment.
    fn free(&self) -> impl Iterator<Item = MutexGuard<'_, Option<Cache>>> {
        self.0.iter().filter_map(|place| match place.try_lock() {
            Ok(place) => Some(place),
            // A cache is put back only when it is whole, so that a panic elsewhere spoils nothing.
            Err(TryLockError::Poisoned(place)) => Some(place.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, KEPT, Pool};

    #[test]
    fn places_that_are_held_for_ever_are_passed_over() {
        let pool = Pool::default();
        let held: Vec<_> = pool.0.iter().skip(1).map(|place| place.lock()).collect();
        assert_eq!(pool.with(|_| 1), 1);
        assert!(pool.0[0].lock().is_ok_and(|place| place.is_some()));
        let last = pool.0[0].lock();
        assert_eq!(
            pool.with(|_| 2),
            2,
            "a cache of its own where every place is held"
        );
        drop((last, held));
    }

    #[test]
    fn no_more_caches_are_kept_than_there_are_places() {
        fn nested(pool: &Pool, depth: usize) {
            if depth > 0 {
                pool.with(|_: &mut Cache| nested(pool, depth - 1));
            }
        }
        let pool = Pool::default();
        nested(&pool, KEPT + 3);
        assert_eq!(pool.free().filter(|place| place.is_some()).count(), KEPT);
    }
}
