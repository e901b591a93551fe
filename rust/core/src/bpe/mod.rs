//! Exact counting: byte-pair encoding with `OpenAI`'s vocabularies, offline.
//!
//! A text is cut into pieces by the encoding's [pre-tokenizer](o200k), and each piece becomes
//! tokens by the [vocabulary]'s merges; how many a piece becomes is remembered in a [cache] of
//! fixed size. The encodings of older models go through tiktoken-rs instead.
//!
//! All text is ordinary text: `<|endoftext|>` is seven tokens, never one. A counter that turns it
//! into a control token lets a document that merely quotes it change what is counted.
mod borders;
mod cache;
mod cl100k;
mod classes;
mod encoder;
mod o200k;
mod packed;
mod rare;
mod scan;
mod table;
mod trie;
mod vocabulary;
mod window;

use encoder::{Encoder, Pieces};
use packed::Packed;
use rare::Rare;

/// Names of encodings, newest family first, each with the vocabulary that it uses.
///
/// Encodings that differ only in their special tokens share one.
pub const ENCODINGS: [(&str, &str); 7] = [
    ("o200k_base", "o200k_base"),
    ("o200k_harmony", "o200k_base"),
    ("cl100k_base", "cl100k_base"),
    ("p50k_base", "p50k_base"),
    ("p50k_edit", "p50k_base"),
    ("r50k_base", "r50k_base"),
    ("gpt2", "r50k_base"),
];

/// Tokens of `r50k_base`: the first so many of `p50k_base`, which adds runs of blanks.
const R50K_TOKENS: usize = 50_256;

/// Name of the packed file that holds a vocabulary.
pub fn file_of(vocabulary: &str) -> &str {
    if vocabulary == "r50k_base" {
        "p50k_base"
    } else {
        vocabulary
    }
}

/// One encoding, ready to count. Safe to share between threads.
#[derive(Debug)]
pub struct Tokenizer(Engine);

#[derive(Debug)]
enum Engine {
    Own(Box<Encoder>),
    Rare(Box<Rare>),
}

impl Tokenizer {
    /// Builds the tables of a vocabulary of [`ENCODINGS`] from its packed form.
    pub fn new(vocabulary: &str, data: &[u8]) -> Result<Self, &'static str> {
        let packed = Packed::parse(data)?;
        let own = |pieces| Engine::Own(Box::new(Encoder::new(&packed, pieces)));
        let rare = |tokens| Rare::new(&packed, tokens).map(|rare| Engine::Rare(Box::new(rare)));
        Ok(Tokenizer(match vocabulary {
            "o200k_base" => own(Pieces::O200k),
            "cl100k_base" => own(Pieces::Cl100k),
            "p50k_base" => rare(usize::MAX)?,
            "r50k_base" => rare(R50K_TOKENS)?,
            _ => return Err("not a known vocabulary"),
        }))
    }

    /// Number of tokens of a text.
    ///
    /// ```
    /// use ullage_core::bpe::Tokenizer;
    ///
    /// let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/ullage/data/o200k_base.bpe");
    /// let tokenizer = Tokenizer::new("o200k_base", &std::fs::read(file).unwrap())?;
    /// assert_eq!(tokenizer.encode("hello world"), [24912, 2375]);
    /// assert_eq!(tokenizer.count("hello world"), 2);
    /// assert_eq!(tokenizer.count_up_to("hello world", 1), None);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn count(&self, text: &str) -> usize {
        self.count_up_to(text, usize::MAX).unwrap_or(usize::MAX)
    }

    /// Number of tokens, or `None` if there are more than `limit`; stops as soon as it knows.
    pub fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        self.count_while(text, limit, &mut || true)
    }

    /// The same; also `None` once `goes_on`, which is asked now and then amid a long text, says no.
    pub fn count_while(
        &self,
        text: &str,
        limit: usize,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<usize> {
        match &self.0 {
            Engine::Own(encoder) => encoder.count_while(text, limit, goes_on),
            Engine::Rare(rare) => rare.count_up_to(text, limit),
        }
    }

    /// The token ids of a text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match &self.0 {
            Engine::Own(encoder) => encoder.encode(text),
            Engine::Rare(rare) => rare.encode(text),
        }
    }
}

#[cfg(test)]
mod tests;
