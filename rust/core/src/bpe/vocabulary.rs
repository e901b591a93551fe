//! The merges of one vocabulary, and how a piece becomes tokens.
//!
//! Instead of merging pairs from the bytes up, which is quadratic or needs a heap, tokens are laid
//! from the left: the longest that matches, if byte-pair encoding would leave a border between it
//! and the token before; else a shorter one; else the token before is taken back. Every position
//! fails at most once, so the work is linear in the piece. (The algorithm is that of the crate
//! `bpe`, github/rust-gems, MIT; the tables are our own.)
use super::borders::Borders;
use super::packed::Packed;
use super::trie::Trie;

/// A vocabulary, its tables built.
#[derive(Debug)]
pub(super) struct Vocabulary {
    lengths: Vec<u8>,
    longest: usize,
    /// The longest other token that starts each token; itself, if there is none.
    shorter: Vec<u32>,
    borders: Borders,
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
        let tokens = packed.expand();
        let (trie, shorter) = Trie::new(&tokens);
        Vocabulary {
            longest: tokens.iter().map(<[u8]>::len).max().unwrap_or(1),
            // Longer ones were refused: see `Packed::parse`.
            lengths: tokens
                .iter()
                .map(|token| u8::try_from(token.len()).unwrap_or(u8::MAX))
                .collect(),
            borders: Borders::new(packed),
            shorter,
            trie,
        }
    }

    /// Number of tokens of a piece.
    #[inline]
    pub(super) fn count(&self, piece: &[u8], scratch: &mut Scratch) -> usize {
        let first = self.trie.longest(piece);
        if first.1 == piece.len() {
            return 1;
        }
        self.lay(piece, first, scratch);
        scratch.tokens.len()
    }

    /// Appends the tokens of a piece.
    pub(super) fn encode(&self, piece: &[u8], scratch: &mut Scratch, out: &mut Vec<u32>) {
        self.lay(piece, self.trie.longest(piece), scratch);
        out.extend_from_slice(&scratch.tokens);
    }

    /// Bytes of the longest token.
    #[inline]
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    #[inline]
    fn length(&self, token: u32) -> usize {
        usize::from(self.lengths[token as usize])
    }

    fn lay(&self, piece: &[u8], first: (u32, usize), scratch: &mut Scratch) {
        let Scratch { tokens, open } = scratch;
        tokens.clear();
        open.clear();
        open.resize(piece.len() / 64 + 1, u64::MAX);
        let (mut at, mut next) = (0, first);
        while at < piece.len() {
            if let Some((token, length)) = self.fit(next, at, tokens.last().copied(), open) {
                tokens.push(token);
                at += length;
                if at < piece.len() {
                    next = self.trie.longest(&piece[at..]);
                }
            } else {
                // Nothing fits after the token before: a shorter one must take its place. The
                // first token never comes here, since the byte alone is a token without a border.
                open[at / 64] &= !(1 << (at % 64));
                let Some(before) = tokens.pop() else { return };
                next = (before, self.length(before));
                at -= next.1;
            }
        }
    }

    /// The longest token of those that start `token` which may stand at `at`, and its length.
    #[inline]
    fn fit(
        &self,
        (mut token, mut length): (u32, usize),
        at: usize,
        before: Option<u32>,
        open: &[u64],
    ) -> Option<(u32, usize)> {
        loop {
            let end = at + length;
            let is_open = open[end / 64] >> (end % 64) & 1 != 0;
            if is_open && before.is_none_or(|before| self.borders.stand(before, token)) {
                return Some((token, length));
            }
            let shorter = self.shorter[token as usize];
            if shorter == token {
                return None;
            }
            (token, length) = (shorter, self.length(shorter));
        }
    }
}
