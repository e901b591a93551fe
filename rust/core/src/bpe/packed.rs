//! The packed form of a vocabulary: a third of `OpenAI`'s file, and nothing to decode.
//!
//! ```text
//! 12 bytes  "ullage-bpe-1"
//! u32 × 3   number of class runs R · number of tokens N · the one id that no token has, or 2³²-1
//! R × u24   first code point of each run, rising from 0      (little-endian, in byte planes:
//! R × u8    class of the run                                  all low bytes, all middle, all high)
//! 256       the byte that each of the tokens 0 to 255 stands for
//! N' × u24  left half of each later token: an earlier token   (N' = N - 256)
//! N' × u24  right half
//! ```
//! A token is stored as the last merge that makes it. In `OpenAI`'s vocabularies every token is what
//! its own bytes merge to, so this loses nothing; `benches/python/pack_bpe.py` writes the files
//! and refuses a vocabulary for which that does not hold. The longest token of those known has 128 bytes.

use super::classes::END;

const MAGIC: &[u8; 12] = b"ullage-bpe-1";
const BYTES: usize = 256;
/// Code points and token ids are below this; both are packed into wider integers later.
const MAX_TOKENS: usize = 1 << 18;

/// A vocabulary in packed form, its sizes checked.
#[derive(Debug)]
pub(super) struct Packed<'a> {
    runs: Planes<'a>,
    kinds: &'a [u8],
    bytes: &'a [u8],
    left: Planes<'a>,
    right: Planes<'a>,
    /// The one id below the number of tokens that belongs to no token.
    pub(super) gap: Option<u32>,
}

/// 24-bit numbers in three byte planes.
#[derive(Debug)]
struct Planes<'a>(&'a [u8]);

impl Planes<'_> {
    fn get(&self, index: usize) -> u32 {
        let rows = self.0.len() / 3;
        let byte = |plane: usize| u32::from(self.0[plane * rows + index]);
        byte(0) | byte(1) << 8 | byte(2) << 16
    }
}

impl<'a> Packed<'a> {
    /// Checks the sizes and the order of merges, so that later steps cannot fail.
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, &'static str> {
        let mut rest = data;
        if take(&mut rest, MAGIC.len())? != MAGIC {
            return Err("not a packed vocabulary");
        }
        let runs = number(&mut rest)?;
        let tokens = number(&mut rest)?;
        let gap = number(&mut rest)?;
        if !(BYTES..=MAX_TOKENS).contains(&tokens) || !(1..=0x11_0000).contains(&runs) {
            return Err("sizes out of range");
        }
        let merges = tokens - BYTES;
        let packed = Packed {
            runs: Planes(take(&mut rest, runs * 3)?),
            kinds: take(&mut rest, runs)?,
            bytes: take(&mut rest, BYTES)?,
            left: Planes(take(&mut rest, merges * 3)?),
            right: Planes(take(&mut rest, merges * 3)?),
            gap: u32::try_from(gap).ok().filter(|&gap| gap != u32::MAX),
        };
        if !rest.is_empty() {
            return Err("longer than its header says");
        }
        packed.check()
    }

    fn check(self) -> Result<Self, &'static str> {
        let mut lengths = vec![1_u8; BYTES];
        for (_, (left, right)) in self.merges() {
            let halves = [left, right].map(|half| lengths.get(half as usize).copied());
            let [Some(left), Some(right)] = halves else {
                return Err("a merge of tokens that do not exist yet");
            };
            // Also the bound of the memory that tokens take: merges of merges would double it each time.
            let length = left.checked_add(right);
            lengths.push(length.ok_or("a token of more than 255 bytes")?);
        }
        if self.kinds.iter().any(|&kind| kind >= END) || !self.runs().is_sorted_by_key(|run| run.0)
        {
            return Err("classes of characters that there are not");
        }
        let mut seen = [false; BYTES];
        self.bytes
            .iter()
            .for_each(|&byte| seen[usize::from(byte)] = true);
        if seen.contains(&false) {
            return Err("a byte without a token");
        }
        Ok(self)
    }

    /// Number of tokens.
    pub(super) fn tokens(&self) -> usize {
        BYTES + self.left.0.len() / 3
    }

    /// Bytes of the first 256 tokens.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// `(token, (left, right))` of every later token, rising.
    pub(super) fn merges(&self) -> impl Iterator<Item = (u32, (u32, u32))> {
        (0..self.tokens() - BYTES)
            .map(|i| ((i + BYTES) as u32, (self.left.get(i), self.right.get(i))))
    }

    /// `(first code point, class)` of each run.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u32, u8)> {
        self.kinds
            .iter()
            .enumerate()
            .map(|(i, &kind)| (self.runs.get(i), kind))
    }

    /// The bytes of every token.
    pub(super) fn expand(&self) -> Tokens {
        let mut tokens = Tokens {
            bytes: self.bytes.to_vec(),
            ends: (0..=BYTES).collect(),
        };
        for (_, (left, right)) in self.merges() {
            for half in [left, right] {
                let half = half as usize;
                tokens
                    .bytes
                    .extend_from_within(tokens.ends[half]..tokens.ends[half + 1]);
            }
            tokens.ends.push(tokens.bytes.len());
        }
        tokens
    }
}

/// The bytes of every token, one after the other.
#[derive(Debug)]
pub(super) struct Tokens {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Tokens {
    /// The bytes of one token.
    pub(super) fn get(&self, token: u32) -> &[u8] {
        &self.bytes[self.ends[token as usize]..self.ends[token as usize + 1]]
    }

    /// Number of tokens.
    pub(super) fn count(&self) -> u32 {
        self.ends.len() as u32 - 1
    }

    /// All tokens, rising by id.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count()).map(|token| self.get(token))
    }
}

fn take<'a>(rest: &mut &'a [u8], size: usize) -> Result<&'a [u8], &'static str> {
    let (head, tail) = rest.split_at_checked(size).ok_or("cut short")?;
    *rest = tail;
    Ok(head)
}

fn number(rest: &mut &[u8]) -> Result<usize, &'static str> {
    let bytes = take(rest, 4)?.try_into().map_err(|_| "cut short")?;
    Ok(u32::from_le_bytes(bytes) as usize)
}
