//! Flat tables of a vocabulary: which pairs merge, and which token is the longest prefix.

const EMPTY: u64 = u64::MAX;
/// Ids of tokens, and of nodes of a trie, have at most this many bits.
const ID_BITS: u32 = 18;
const MASK: u64 = (1 << ID_BITS) - 1;
/// 2⁶⁴ over the golden ratio: spreads consecutive keys evenly.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Open addressing: keys and values in one word, at most half full.
#[derive(Debug)]
struct Slots {
    words: Vec<u64>,
    used: usize,
    shift: u32,
    value_bits: u32,
}

impl Slots {
    fn new(entries: usize, value_bits: u32) -> Self {
        let size = (entries * 2).next_power_of_two().max(2);
        Slots {
            words: vec![EMPTY; size],
            used: 0,
            shift: 64 - size.trailing_zeros(),
            value_bits,
        }
    }

    fn insert(&mut self, key: u64, value: u32) {
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
    fn get(&self, key: u64) -> u32 {
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
#[derive(Debug)]
pub(super) struct PairTable(Slots);

impl PairTable {
    pub(super) fn new(merges: impl Iterator<Item = (u32, (u32, u32))>, tokens: usize) -> Self {
        let mut slots = Slots::new(tokens, ID_BITS);
        for (token, (left, right)) in merges {
            slots.insert(pair(left, right), token);
        }
        PairTable(slots)
    }

    /// The token that a pair makes; [`u32::MAX`] if it does not merge.
    #[inline]
    pub(super) fn get(&self, left: u32, right: u32) -> u32 {
        self.0.get(pair(left, right))
    }
}

#[inline]
fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right) & MASK
}

/// Bits of a node: there are about 2.5 prefixes a token.
const NODE_BITS: u32 = 24;
const NONE: u32 = u32::MAX;

/// All tokens by their bytes.
///
/// Nodes that end a token have its id; nodes that only lead to longer tokens have higher ones.
#[derive(Debug)]
pub(super) struct Trie {
    tokens: u32,
    /// Node of every two bytes, the first in the low half of the index.
    two: Vec<u32>,
    /// Token of every byte.
    one: Vec<u32>,
    /// `node << 8 | byte` → child.
    children: Slots,
}

impl Trie {
    /// Builds the trie; also gives the longest proper prefix of each token that is a token.
    pub(super) fn new(tokens: &[Vec<u8>], halves: &[(u32, u32)]) -> (Self, Vec<u32>) {
        let mut trie = Trie {
            tokens: tokens.len() as u32,
            two: vec![NONE; 1 << 16],
            one: vec![0; 256],
            // 2.1 nodes a token in the vocabularies known.
            children: Slots::new(tokens.len() * 5 / 2, NODE_BITS),
        };
        let mut shorter: Vec<u32> = (0..trie.tokens).collect();
        let mut nodes = trie.tokens;
        for id in by_length(tokens) {
            let bytes = &tokens[id as usize];
            if let [byte] = bytes[..] {
                trie.one[usize::from(byte)] = id;
                continue;
            }
            let left = halves[id as usize].0;
            let tail = &bytes[tokens[left as usize].len()..];
            shorter[id as usize] = trie.insert(id, left, tail, &mut nodes);
        }
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let index = usize::from(first) | usize::from(second) << 8;
                trie.two[index] = trie.child(trie.one[usize::from(first)], second);
            }
        }
        (trie, shorter)
    }

    /// Adds the way from the token `from` over `tail` to the token `id`; gives the last token on it.
    ///
    /// Shorter tokens are there already, so that no node on the way becomes a token later.
    fn insert(&mut self, id: u32, from: u32, tail: &[u8], nodes: &mut u32) -> u32 {
        let (mut node, mut last) = (from, from);
        for (left, &byte) in (0..tail.len()).rev().zip(tail) {
            let mut child = self.child(node, byte);
            if child == NONE {
                child = if left == 0 { id } else { *nodes };
                *nodes += u32::from(left != 0);
                self.children
                    .insert(u64::from(node) << 8 | u64::from(byte), child);
            }
            node = child;
            if left != 0 && node < self.tokens {
                last = node;
            }
        }
        last
    }

    #[inline]
    fn child(&self, node: u32, byte: u8) -> u32 {
        self.children.get(u64::from(node) << 8 | u64::from(byte))
    }

    /// The longest token that starts `bytes`, which are not empty.
    #[inline]
    pub(super) fn longest(&self, bytes: &[u8]) -> u32 {
        let one = self.one[usize::from(bytes[0])];
        let Some(&second) = bytes.get(1) else {
            return one;
        };
        let node = self.two[usize::from(bytes[0]) | usize::from(second) << 8];
        if node == NONE {
            return one;
        }
        self.descend(node, one, &bytes[2..])
    }

    #[inline]
    fn descend(&self, mut node: u32, before: u32, bytes: &[u8]) -> u32 {
        let mut last = if node < self.tokens { node } else { before };
        for &byte in bytes {
            node = self.child(node, byte);
            if node == NONE {
                break;
            }
            if node < self.tokens {
                last = node;
            }
        }
        last
    }
}

fn by_length(tokens: &[Vec<u8>]) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..tokens.len() as u32).collect();
    ids.sort_by_key(|&id| tokens[id as usize].len());
    ids
}
