//! The longest token that starts a piece: a double array.
//!
//! A node is a place in one array. Its children are at `base ^ byte`, where each has its byte as a
//! label. No two nodes have the same base, so that a label that fits is a child's. Places 0 to 255
//! have labels that never fit, and a node without children has base 0.
use super::table::Slots;

const BASE_SHIFT: u32 = 9;
const IS_TOKEN: u32 = 1 << 8;
const NONE: u32 = u32::MAX;
/// Bits of a draft's node: there are about 2.1 nodes a token.
const NODE_BITS: u32 = 24;

/// All tokens by their bytes.
#[derive(Debug)]
pub(super) struct Trie {
    /// Label, whether a token ends here, base.
    units: Vec<u32>,
    /// The token that ends at each place.
    tokens: Vec<u32>,
    /// Place of every two bytes, the first in the low half of the index; 0: no token has them.
    two: Vec<u32>,
    /// Token of every byte.
    one: Vec<u32>,
}

impl Trie {
    /// The longest token that starts `bytes`, which are not empty, and its length.
    #[inline]
    pub(super) fn longest(&self, bytes: &[u8]) -> (u32, usize) {
        let one = (self.one[usize::from(bytes[0])], 1);
        let Some(&second) = bytes.get(1) else {
            return one;
        };
        let mut unit =
            self.units[self.two[usize::from(bytes[0]) | usize::from(second) << 8] as usize];
        let (mut last, mut length) = (0, 1);
        if unit & IS_TOKEN != 0 {
            (last, length) = (
                self.two[usize::from(bytes[0]) | usize::from(second) << 8],
                2,
            );
        }
        for (at, &byte) in bytes.iter().enumerate().skip(2) {
            let place = (unit >> BASE_SHIFT) ^ u32::from(byte);
            unit = self.units[place as usize];
            if unit as u8 != byte {
                break;
            }
            if unit & IS_TOKEN != 0 {
                (last, length) = (place, at + 1);
            }
        }
        if last == 0 {
            one
        } else {
            (self.tokens[last as usize], length)
        }
    }

    /// Builds the trie; also gives the longest proper prefix of each token that is a token.
    pub(super) fn new(tokens: &[Vec<u8>], halves: &[(u32, u32)]) -> (Self, Vec<u32>) {
        let mut draft = Draft::new(tokens.len());
        let mut shorter: Vec<u32> = (0..draft.tokens).collect();
        for id in by_length(tokens) {
            if tokens[id as usize].len() > 1 {
                let left = halves[id as usize].0;
                let tail = &tokens[id as usize][tokens[left as usize].len()..];
                shorter[id as usize] = draft.insert(id, left, tail);
            }
        }
        (draft.place(tokens), shorter)
    }
}

fn by_length(tokens: &[Vec<u8>]) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..tokens.len() as u32).collect();
    ids.sort_by_key(|&id| tokens[id as usize].len());
    ids
}

/// The trie as a table of edges, while it grows.
///
/// Nodes that end a token have its id; nodes that only lead to longer tokens have higher ones.
struct Draft {
    tokens: u32,
    nodes: u32,
    children: Slots,
    /// `(parent, byte, child)`
    edges: Vec<(u32, u8, u32)>,
}

impl Draft {
    fn new(tokens: usize) -> Self {
        Draft {
            tokens: tokens as u32,
            nodes: tokens as u32,
            children: Slots::new(tokens * 5 / 2, NODE_BITS),
            edges: Vec::with_capacity(tokens * 5 / 2),
        }
    }

    /// Adds the way from the token `from` over `tail` to the token `id`; gives the last token on it.
    ///
    /// Shorter tokens are there already, so that no node on the way becomes a token later.
    fn insert(&mut self, id: u32, from: u32, tail: &[u8]) -> u32 {
        let (mut node, mut last) = (from, from);
        for (left, &byte) in (0..tail.len()).rev().zip(tail) {
            let key = u64::from(node) << 8 | u64::from(byte);
            let mut child = self.children.get(key);
            if child == NONE {
                child = if left == 0 { id } else { self.nodes };
                self.nodes += u32::from(left != 0);
                self.children.insert(key, child);
                self.edges.push((node, byte, child));
            }
            node = child;
            if left != 0 && node < self.tokens {
                last = node;
            }
        }
        last
    }

    /// Lays the nodes into the double array, those with many children first.
    fn place(mut self, tokens: &[Vec<u8>]) -> Trie {
        self.edges.sort_unstable();
        let mut families: Vec<&[(u32, u8, u32)]> = self.edges.chunk_by(|a, b| a.0 == b.0).collect();
        families.sort_by_key(|family| std::cmp::Reverse(family.len()));
        let mut places = Places::new(self.edges.len());
        let mut place_of = vec![0; self.nodes as usize];
        let mut base_of = vec![0; self.nodes as usize];
        for family in &families {
            let base = places.find(family);
            base_of[family[0].0 as usize] = base;
            for &(_, byte, child) in *family {
                place_of[child as usize] = base ^ u32::from(byte);
            }
        }
        self.trie(tokens, &place_of, &base_of, places.end())
    }

    fn trie(&self, tokens: &[Vec<u8>], place_of: &[u32], base_of: &[u32], size: usize) -> Trie {
        let mut trie = Trie {
            // Labels that never fit: the place of the first 256 is the byte asked for.
            units: (0..size).map(|place| u32::from(!(place as u8))).collect(),
            tokens: vec![0; size],
            two: vec![0; 1 << 16],
            one: vec![0; 256],
        };
        for (id, token) in (0..).zip(tokens) {
            if let [byte] = token[..] {
                trie.one[usize::from(byte)] = id;
            }
        }
        for &(parent, byte, child) in &self.edges {
            let place = place_of[child as usize] as usize;
            if let [first] = tokens.get(parent as usize).map_or(&[][..], |token| token) {
                trie.two[usize::from(*first) | usize::from(byte) << 8] = place as u32;
            }
            trie.units[place] = base_of[child as usize] << BASE_SHIFT | u32::from(byte);
            if child < self.tokens {
                trie.units[place] |= IS_TOKEN;
                trie.tokens[place] = child;
            }
        }
        trie
    }
}

/// Which places and bases are taken.
struct Places {
    taken: Vec<bool>,
    bases: Vec<bool>,
    /// Every place before is taken, or was found hard to use by families as large.
    first: usize,
    size: usize,
}

impl Places {
    fn new(nodes: usize) -> Self {
        let mut taken = vec![false; nodes.next_multiple_of(256) * 2 + 512];
        taken[..256].fill(true);
        Places {
            bases: vec![false; taken.len()],
            taken,
            first: 256,
            size: 1,
        }
    }

    /// A base for a family; larger families come first.
    fn find(&mut self, family: &[(u32, u8, u32)]) -> u32 {
        if family.len() != self.size {
            // Smaller ones fit into the gaps.
            (self.first, self.size) = (256, family.len());
        }
        let mut at = self.first;
        for tries in 0.. {
            at = self.free(at);
            let base = at ^ usize::from(family[0].1);
            if !self.bases[base]
                && family
                    .iter()
                    .all(|&(_, byte, _)| !self.taken[base ^ usize::from(byte)])
            {
                self.take(base, family);
                break;
            }
            at += 1;
            // Hard places are left to smaller families.
            if tries >= 8 {
                self.first = at;
            }
        }
        (at ^ usize::from(family[0].1)) as u32
    }

    fn free(&mut self, from: usize) -> usize {
        let free = self.taken[from..].iter().position(|&taken| !taken);
        let free = free.map_or(self.taken.len(), |ahead| from + ahead);
        if free + 256 > self.taken.len() {
            let size = self.taken.len() * 2;
            self.taken.resize(size, false);
            self.bases.resize(size, false);
        }
        if from == self.first {
            self.first = free;
        }
        free
    }

    fn take(&mut self, base: usize, family: &[(u32, u8, u32)]) {
        self.bases[base] = true;
        for &(_, byte, _) in family {
            self.taken[base ^ usize::from(byte)] = true;
        }
    }

    /// Behind the last block of 256 that is in use.
    fn end(&self) -> usize {
        let last = self.taken.iter().rposition(|&taken| taken).unwrap_or(0);
        (last + 1).next_multiple_of(256)
    }
}
