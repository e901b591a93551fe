//! The longest token that starts a piece: a double array.
//!
//! A node is a place in one array. Its children are at `base ^ byte`, where each has its byte as a
//! label. No two nodes have the same base, so that a label that fits is a child's. Places 0 to 255
//! have labels that never fit, and a node without children has base 0.
use super::packed::Tokens;

const TOKEN_SHIFT: u32 = 8;
const BASE_SHIFT: u32 = 32;
const NONE: u32 = u32::MAX;

/// One place: a label in the low byte, above it one more than the token that ends here (0: none),
/// in the high half the base of its children.
#[derive(Debug, Clone, Copy)]
struct Unit(u64);

impl Unit {
    fn new(label: u8, token: u32, base: u32) -> Self {
        let token = u64::from(token.wrapping_add(1)) << TOKEN_SHIFT;
        Unit(u64::from(label) | token | u64::from(base) << BASE_SHIFT)
    }

    #[inline]
    fn child(self, byte: u8) -> usize {
        (self.0 >> BASE_SHIFT) as usize ^ usize::from(byte)
    }

    #[inline]
    fn has(self, label: u8) -> bool {
        self.0 as u8 == label
    }

    /// One more than the token that ends here; 0: none.
    #[inline]
    fn token(self) -> u32 {
        (self.0 as u32) >> TOKEN_SHIFT
    }
}

/// All tokens by their bytes.
#[derive(Debug)]
pub(super) struct Trie {
    units: Vec<Unit>,
    /// Place of every two bytes, the first in the low half of the index; 0: no token has them.
    two: Vec<u32>,
    /// Place of every character of three bytes, by code point; 0: it is no token.
    three: Vec<u32>,
    /// Token of every byte.
    one: Vec<u32>,
}

impl Trie {
    /// The longest token that starts `bytes`, which are not empty, and its length.
    #[inline]
    pub(super) fn longest(&self, bytes: &[u8]) -> (u32, usize) {
        let Some(&second) = bytes.get(1) else {
            return (self.one[usize::from(bytes[0])], 1);
        };
        let (mut place, mut at) = (self.character(bytes), 3);
        if place == 0 {
            (place, at) = (
                self.two[usize::from(bytes[0]) | usize::from(second) << 8],
                2,
            );
        }
        let mut unit = self.units[place as usize];
        let (mut last, mut length) = (unit.token(), at);
        while let Some(&byte) = bytes.get(at) {
            unit = self.units[unit.child(byte)];
            if !unit.has(byte) {
                break;
            }
            at += 1;
            if unit.token() != 0 {
                (last, length) = (unit.token(), at);
            }
        }
        if last == 0 {
            (self.one[usize::from(bytes[0])], 1)
        } else {
            (last - 1, length)
        }
    }

    /// Place of the character of three bytes at the start; 0 if there is none that is a token.
    #[inline]
    fn character(&self, bytes: &[u8]) -> u32 {
        match bytes {
            &[first @ 0xe0..0xf0, second, third, ..] => {
                self.three[code_point(first, second, third)]
            }
            _ => 0,
        }
    }

    /// Builds the trie; also gives the longest proper prefix of each token that is a token, or the
    /// token itself if there is none.
    pub(super) fn new(tokens: &Tokens) -> (Self, Vec<u32>) {
        let (draft, shorter) = Draft::new(tokens);
        (draft.place(), shorter)
    }
}

/// Ids of all tokens, by their bytes.
fn sorted(tokens: &Tokens) -> Vec<u32> {
    // Most comparisons end within the first 16 bytes, as one of integers.
    let start = |token: &[u8]| {
        let mut start = [0; 16];
        let length = token.len().min(16);
        start[..length].copy_from_slice(&token[..length]);
        u128::from_be_bytes(start)
    };
    let mut keys: Vec<(u128, u32)> = tokens.iter().map(start).zip(0..).collect();
    keys.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0)
            .then_with(|| tokens.get(a.1).cmp(tokens.get(b.1)))
    });
    keys.into_iter().map(|(_, id)| id).collect()
}

/// One node of the trie before it has a place; the first node is the root.
struct Node {
    parent: u32,
    byte: u8,
    depth: u8,
    token: u32,
}

/// The trie as a list of nodes, parents first.
struct Draft(Vec<Node>);

impl Draft {
    fn new(tokens: &Tokens) -> (Self, Vec<u32>) {
        let mut draft = Draft(Vec::with_capacity(tokens.count() as usize * 5 / 2));
        draft.0.push(Node {
            parent: 0,
            byte: 0,
            depth: 0,
            token: NONE,
        });
        let mut shorter: Vec<u32> = (0..tokens.count()).collect();
        // The way to the token before: each node with the last token up to there.
        let (mut way, mut before): (Vec<(u32, u32)>, &[u8]) = (vec![(0, NONE)], &[]);
        for id in sorted(tokens) {
            let token = tokens.get(id);
            let common = before.iter().zip(token).take_while(|(a, b)| a == b).count();
            way.truncate(common + 1);
            if way[common].1 != NONE {
                shorter[id as usize] = way[common].1;
            }
            draft.extend(&mut way, &token[common..], id);
            before = token;
        }
        (draft, shorter)
    }

    /// Goes on from the end of the way over `bytes`, to the end of the token `id`.
    fn extend(&mut self, way: &mut Vec<(u32, u32)>, bytes: &[u8], id: u32) {
        for (left, &byte) in (0..bytes.len()).rev().zip(bytes) {
            let &(parent, last) = way.last().unwrap_or(&(0, NONE));
            let (token, last) = if left == 0 { (id, id) } else { (NONE, last) };
            // The deepest that matters is the third.
            let depth = way.len().min(4) as u8;
            way.push((self.0.len() as u32, last));
            self.0.push(Node {
                parent,
                byte,
                depth,
                token,
            });
        }
    }

    /// Nodes but the root, those of one parent together, parents rising; with where each starts.
    fn families(&self) -> (Vec<u32>, Vec<u32>) {
        let mut starts = vec![0u32; self.0.len() + 1];
        for node in &self.0[1..] {
            starts[node.parent as usize + 1] += 1;
        }
        for parent in 0..self.0.len() {
            starts[parent + 1] += starts[parent];
        }
        let (mut next, mut children) = (starts.clone(), vec![0; self.0.len() - 1]);
        for (id, node) in (0..).zip(&self.0).skip(1) {
            children[next[node.parent as usize] as usize] = id;
            next[node.parent as usize] += 1;
        }
        (children, starts)
    }

    /// Lays the nodes into the double array, those with many children first.
    fn place(&self) -> Trie {
        let (children, starts) = self.families();
        let family =
            |parent: u32| starts[parent as usize] as usize..starts[parent as usize + 1] as usize;
        // The first two bytes have tables of their own: the root needs no children.
        let mut parents: Vec<u32> = (1..self.0.len() as u32)
            .filter(|&id| !family(id).is_empty())
            .collect();
        parents.sort_by_key(|&parent| std::cmp::Reverse(family(parent).len()));
        let mut places = Places::new(self.0.len());
        let (mut place_of, mut base_of) = (vec![0; self.0.len()], vec![0; self.0.len()]);
        let mut bytes = Vec::with_capacity(256);
        for parent in parents {
            let family = &children[family(parent)];
            bytes.clear();
            bytes.extend(family.iter().map(|&child| self.0[child as usize].byte));
            let base = places.find(&bytes);
            base_of[parent as usize] = base;
            for &child in family {
                place_of[child as usize] = base ^ u32::from(self.0[child as usize].byte);
            }
        }
        self.trie(&place_of, &base_of, places.end())
    }

    fn trie(&self, place_of: &[u32], base_of: &[u32], size: usize) -> Trie {
        let mut trie = Trie {
            // Labels that never fit: the place of the first 256 is the byte asked for.
            units: (0..size)
                .map(|place| Unit::new(!(place as u8), NONE, 0))
                .collect(),
            two: vec![0; 1 << 16],
            three: vec![0; 1 << 16],
            one: vec![0; 256],
        };
        for (id, node) in self.0.iter().enumerate().skip(1) {
            let place = place_of[id];
            let byte = |node: &Node| usize::from(node.byte);
            match node.depth {
                1 => {
                    trie.one[byte(node)] = node.token;
                    continue;
                }
                2 => trie.two[byte(self.parent(node)) | byte(node) << 8] = place,
                3 if node.token != NONE => {
                    let (second, first) = (self.parent(node), self.parent(self.parent(node)));
                    if let (0xe0..0xf0, 0x80..0xc0, 0x80..0xc0) =
                        (first.byte, second.byte, node.byte)
                    {
                        trie.three[code_point(first.byte, second.byte, node.byte)] = place;
                    }
                }
                _ => {}
            }
            trie.units[place as usize] = Unit::new(node.byte, node.token, base_of[id]);
        }
        trie
    }

    fn parent(&self, node: &Node) -> &Node {
        &self.0[node.parent as usize]
    }
}

/// The code point of a character of three bytes.
#[inline]
fn code_point(first: u8, second: u8, third: u8) -> usize {
    let bits = |byte: u8, mask: u8| usize::from(byte & mask);
    bits(first, 0x0f) << 12 | bits(second, 0x3f) << 6 | bits(third, 0x3f)
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

    /// A base for children with these labels; larger families come first.
    fn find(&mut self, bytes: &[u8]) -> u32 {
        if bytes.len() != self.size {
            // Smaller ones fit into the gaps.
            (self.first, self.size) = (256, bytes.len());
        }
        let mut at = self.first;
        for tries in 0.. {
            at = self.free(at);
            let base = at ^ usize::from(bytes[0]);
            if !self.bases[base]
                && bytes
                    .iter()
                    .all(|&byte| !self.taken[base ^ usize::from(byte)])
            {
                self.take(base, bytes);
                break;
            }
            at += 1;
            // Hard places are left to smaller families.
            if tries >= 8 {
                self.first = at;
            }
        }
        (at ^ usize::from(bytes[0])) as u32
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

    fn take(&mut self, base: usize, bytes: &[u8]) {
        self.bases[base] = true;
        for &byte in bytes {
            self.taken[base ^ usize::from(byte)] = true;
        }
    }

    /// The position after the last block of 256 that is in use.
    fn end(&self) -> usize {
        let last = self.taken.iter().rposition(|&taken| taken).unwrap_or(0);
        (last + 1).next_multiple_of(256)
    }
}
