//! Whether two tokens may stand next to each other.
//!
//! Encoding the bytes of two tokens together gives other tokens exactly if, on the way, some pair
//! across the border merges: a pair of what stood at the border then. At the end of the left token
//! stood one after the other its last byte, ..., the right half of its right half, its right half,
//! and itself; each until the next was made. So a pair of two of those spoils the border if its
//! merge comes before the merges that end either of them.
//!
//! Few of them merge with anything so early: the others are left out of the chains beforehand, and
//! what is left to look up is mostly the pair of the two tokens itself.
use super::packed::Packed;
use super::table::PairTable;

const NONE: u32 = u32::MAX;

/// What a token is made of, and what stood at its borders before.
#[derive(Debug, Clone, Copy)]
struct Token {
    /// The last merge; a single byte is both of its own halves.
    left: u32,
    right: u32,
    /// The first in the chain of left halves, itself included, whose own left half merges with
    /// something on its left before it becomes this.
    start: u32,
    /// The same at the end, with right halves.
    end: u32,
}

/// The pairs of a vocabulary that merge, and its tokens.
#[derive(Debug)]
pub(super) struct Borders {
    pairs: PairTable,
    tokens: Vec<Token>,
}

impl Borders {
    pub(super) fn new(packed: &Packed<'_>) -> Self {
        Borders {
            pairs: PairTable::new(packed.merges(), packed.tokens()),
            tokens: tokens(packed),
        }
    }

    #[inline]
    fn token(&self, id: u32) -> Token {
        self.tokens[id as usize]
    }

    /// Whether encoding the bytes of both tokens together gives these two tokens.
    #[inline]
    pub(super) fn stand(&self, left: u32, right: u32) -> bool {
        let (mut at, mut limit, mut next) = (left, NONE, self.token(left).end);
        loop {
            if self.merges(at, right, limit) {
                return false;
            }
            if next == NONE {
                return true;
            }
            (at, limit) = (self.token(next).right, next);
            next = self.token(at).end;
        }
    }

    /// Whether a token merges, before `limit`, with one that stands at the start of another.
    #[inline]
    fn merges(&self, left: u32, right: u32, limit: u32) -> bool {
        let (mut at, mut own, mut next) = (right, NONE, self.token(right).start);
        loop {
            if self.pairs.get(left, at) < limit.min(own) {
                return true;
            }
            if next == NONE {
                return false;
            }
            // Between equal ranks the left pair is merged first: hence one more on the right.
            (at, own) = (self.token(next).left, next + 1);
            next = self.token(at).start;
        }
    }
}

fn tokens(packed: &Packed<'_>) -> Vec<Token> {
    let byte = |id| Token {
        left: id,
        right: id,
        start: NONE,
        end: NONE,
    };
    let mut tokens: Vec<Token> = (0..256).map(byte).collect();
    // Whether a token was a left and a right half of the merges so far, which rise.
    let mut used = vec![(false, false); packed.tokens()];
    for (id, (left, right)) in packed.merges() {
        let own = |used: bool, inner: u32| if used { id } else { inner };
        let end = own(used[right as usize].0, tokens[right as usize].end);
        used[left as usize].0 = true;
        used[right as usize].1 = true;
        let start = own(used[left as usize].1, tokens[left as usize].start);
        tokens.push(Token {
            left,
            right,
            start,
            end,
        });
    }
    tokens
}
