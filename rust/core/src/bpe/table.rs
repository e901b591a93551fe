//! A flat hash table of small integers, and the table of pairs that merge.

const EMPTY: u64 = u64::MAX;
/// Ids of tokens have at most this many bits.
const ID_BITS: u32 = 18;
const MASK: u64 = (1 << ID_BITS) - 1;
/// 2⁶⁴ over the golden ratio: spreads consecutive keys evenly.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Open addressing: keys and values in one word, at most half full.
#[derive(Debug)]
pub(super) struct Slots {
    words: Vec<u64>,
    used: usize,
    shift: u32,
    value_bits: u32,
}

impl Slots {
    pub(super) fn new(entries: usize, value_bits: u32) -> Self {
        let size = (entries * 2).next_power_of_two().max(2);
        Slots {
            words: vec![EMPTY; size],
            used: 0,
            shift: 64 - size.trailing_zeros(),
            value_bits,
        }
    }

    pub(super) fn insert(&mut self, key: u64, value: u32) {
        if self.used * 2 >= self.words.len() {
            self.grow();
        }
        self.used += 1;
        self.place(key, key << self.value_bits | u64::from(value));
    }

    fn place(&mut self, key: u64, slot: u64) {
        let mut at = self.start(key);
        while self.words[at] != EMPTY {
            at = (at + 1) & (self.words.len() - 1);
        }
        self.words[at] = slot;
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.words);
        self.words = vec![EMPTY; old.len() * 2];
        self.shift -= 1;
        for slot in old.into_iter().filter(|&slot| slot != EMPTY) {
            self.place(slot >> self.value_bits, slot);
        }
    }

    #[inline]
    fn start(&self, key: u64) -> usize {
        (key.wrapping_mul(SPREAD) >> self.shift) as usize
    }

    /// The value of a key; [`u32::MAX`] if there is none.
    #[inline]
    pub(super) fn get(&self, key: u64) -> u32 {
        let mut at = self.start(key);
        loop {
            let slot = self.words[at & (self.words.len() - 1)];
            if slot >> self.value_bits == key {
                return (slot & ((1 << self.value_bits) - 1)) as u32;
            }
            if slot == EMPTY {
                return u32::MAX;
            }
            at += 1;
        }
    }
}

/// What each pair of tokens merges to.
///
/// Most pairs that are asked for do not merge; a filter that stays in the processor's second-level
/// cache answers for 97 % of those.
#[derive(Debug)]
pub(super) struct PairTable {
    slots: Slots,
    filter: Vec<u64>,
}

/// 64-bit words of the filter: 10 bits a pair in the largest vocabulary.
const FILTER_BITS: u32 = 15;

impl PairTable {
    pub(super) fn new(merges: impl Iterator<Item = (u32, (u32, u32))>, tokens: usize) -> Self {
        let mut slots = Slots::new(tokens, ID_BITS);
        let mut filter = vec![0; 1 << FILTER_BITS];
        for (token, (left, right)) in merges {
            slots.insert(pair(left, right), token);
            let (word, bits) = filter_place(pair(left, right));
            filter[word] |= bits;
        }
        PairTable { slots, filter }
    }

    /// The token that a pair makes; [`u32::MAX`] if it does not merge.
    #[inline]
    pub(super) fn get(&self, left: u32, right: u32) -> u32 {
        let key = pair(left, right);
        let (word, bits) = filter_place(key);
        if self.filter[word] & bits != bits {
            return u32::MAX;
        }
        self.slots.get(key)
    }
}

/// The word of a key in the filter, and the two bits that it sets there.
#[inline]
fn filter_place(key: u64) -> (usize, u64) {
    let hash = key.wrapping_mul(SPREAD);
    let bits = 1 << (hash >> 34 & 63) | 1 << (hash >> 40 & 63);
    ((hash >> (64 - FILTER_BITS)) as usize, bits)
}

#[inline]
fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right) & MASK
}
