//! The merges of one vocabulary, and how a piece becomes tokens.
//!
//! Instead of merging pairs from the bytes up, which is quadratic or needs a heap, tokens are laid
//! from the left: the longest that matches, if byte-pair encoding would leave a border between it
//! and the token before; else a shorter one; else the token before is taken back. Every position
//! fails at most once, so the work is linear in the piece. (The algorithm is that of the crate
//! `bpe`, github/rust-gems, MIT; the tables are our own.)
use super::packed::Packed;
use super::table::PairTable;
use super::trie::Trie;

/// A vocabulary, its tables built.
#[derive(Debug)]
pub(super) struct Vocabulary {
    lengths: Vec<u8>,
    /// The last merge of each token; a single byte is both of its own halves.
    halves: Vec<(u32, u32)>,
    /// The longest other token that starts each token; itself, if there is none.
    shorter: Vec<u32>,
    pairs: PairTable,
    trie: Trie,
}

/// Memory that pieces use one after the other.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    tokens: Vec<u32>,
    /// One bit for each position: whether tokens may end there.
    open: Vec<u64>,
}

impl Vocabulary {
    pub(super) fn new(packed: &Packed<'_>) -> Self {
        let mut halves: Vec<(u32, u32)> = (0..256).map(|byte| (byte, byte)).collect();
        halves.extend(packed.merges().map(|(_, pair)| pair));
        let tokens = packed.expand();
        let (trie, shorter) = Trie::new(&tokens);
        Vocabulary {
            // The longest token of any vocabulary known has 128 bytes.
            lengths: tokens
                .iter()
                .map(|token| u8::try_from(token.len()).unwrap_or(u8::MAX))
                .collect(),
            pairs: PairTable::new(packed.merges(), halves.len()),
            halves,
            shorter,
            trie,
        }
    }

    /// Number of tokens of a piece.
    #[inline]
    pub(super) fn count(&self, piece: &[u8], scratch: &mut Scratch) -> usize {
        let (first, length) = self.trie.longest(piece);
        if length == piece.len() {
            return 1;
        }
        self.lay(piece, first, scratch);
        scratch.tokens.len()
    }

    /// Appends the tokens of a piece.
    pub(super) fn encode(&self, piece: &[u8], scratch: &mut Scratch, out: &mut Vec<u32>) {
        self.lay(piece, self.trie.longest(piece).0, scratch);
        out.extend_from_slice(&scratch.tokens);
    }

    /// Bytes of the longest token.
    pub(super) fn longest(&self) -> usize {
        self.lengths.iter().copied().max().map_or(1, usize::from)
    }

    #[inline]
    fn length(&self, token: u32) -> usize {
        usize::from(self.lengths[token as usize])
    }

    fn lay(&self, piece: &[u8], first: u32, scratch: &mut Scratch) {
        let Scratch { tokens, open } = scratch;
        tokens.clear();
        open.clear();
        open.resize(piece.len() / 64 + 1, u64::MAX);
        let (mut at, mut token) = (0, first);
        while at < piece.len() {
            if let Some(fitting) = self.fit(token, at, tokens.last().copied(), open) {
                tokens.push(fitting);
                at += self.length(fitting);
                if at < piece.len() {
                    token = self.trie.longest(&piece[at..]).0;
                }
            } else {
                // Nothing fits behind the token before: a shorter one must take its place. The
                // first token never comes here, since the byte alone is a token without a border.
                open[at / 64] &= !(1 << (at % 64));
                let Some(before) = tokens.pop() else { return };
                at -= self.length(before);
                token = before;
            }
        }
    }

    /// The longest token of those that start `token` which may stand at `at`.
    #[inline]
    fn fit(&self, mut token: u32, at: usize, before: Option<u32>, open: &[u64]) -> Option<u32> {
        loop {
            let end = at + self.length(token);
            let is_open = open[end / 64] >> (end % 64) & 1 != 0;
            if is_open && before.is_none_or(|before| self.border(before, token)) {
                return Some(token);
            }
            let shorter = self.shorter[token as usize];
            if shorter == token {
                return None;
            }
            token = shorter;
        }
    }

    /// Whether encoding the bytes of both tokens together gives these two tokens.
    ///
    /// Undoes their merges, the newest first, and looks for a pair across the border that would
    /// have been merged earlier than what was there then.
    fn border(&self, mut left: u32, mut right: u32) -> bool {
        let mut limit = u32::MAX;
        loop {
            if self.pairs.get(left, right) < limit {
                return false;
            }
            // Between equal ranks the left pair is merged first: hence one more on the right.
            if left > right {
                limit = left;
                left = self.halves[left as usize].1;
                if left == limit {
                    limit = right + 1;
                    right = self.halves[right as usize].0;
                    if right + 1 == limit {
                        return true;
                    }
                }
            } else {
                limit = right + 1;
                right = self.halves[right as usize].0;
                if right + 1 == limit {
                    limit = left;
                    left = self.halves[left as usize].1;
                    if left == limit {
                        return true;
                    }
                }
            }
        }
    }
}
