//! The encodings of models before 2022, by tiktoken-rs and its regular expression.
use tiktoken_rs::{CoreBPE, Rank};

use super::packed::Packed;

const PATTERN: &str =
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s";
/// No token is longer.
const LONGEST: usize = 128;

/// A vocabulary that tiktoken-rs encodes with.
pub(super) struct Rare(CoreBPE);

impl std::fmt::Debug for Rare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rare")
    }
}

impl Rare {
    /// Uses the first `tokens` tokens.
    pub(super) fn new(packed: &Packed<'_>, tokens: usize) -> Result<Self, &'static str> {
        let id = |index: Rank| index + Rank::from(packed.gap.is_some_and(|gap| index >= gap));
        let expanded = packed.expand();
        let ranks = expanded.iter().zip(0..).take(tokens);
        let ranks = ranks
            .map(|(token, index)| (token.to_vec(), id(index)))
            .collect();
        // A pattern of no special tokens would match everywhere; this one is never asked for.
        let special = [("<|endoftext|>".to_owned(), 50_256)].into_iter().collect();
        let core = CoreBPE::new(ranks, special, PATTERN);
        core.map(Rare)
            .map_err(|_| "tiktoken-rs refuses the vocabulary")
    }

    pub(super) fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        if text.len() / LONGEST > limit {
            return None;
        }
        Some(self.0.count_ordinary(text)).filter(|&count| count <= limit)
    }

    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode_ordinary(text)
    }
}
