//! Exact counting: byte-pair encoding with `OpenAI`'s vocabularies, offline.
//!
//! All text is ordinary text: `<|endoftext|>` is seven tokens, never one. A counter that turns it
//! into a control token lets a document that merely quotes it change what is counted.
use tiktoken_rs::CoreBPE;

/// Names that [`tokenizer`] knows, newest family first.
pub const ENCODINGS: [&str; 7] = [
    "o200k_base",
    "o200k_harmony",
    "cl100k_base",
    "p50k_base",
    "p50k_edit",
    "r50k_base",
    "gpt2",
];

/// One encoding, ready to count.
#[derive(Clone, Copy)]
pub struct Tokenizer(&'static CoreBPE);

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokenizer")
    }
}

/// The tokenizer of an encoding; `None` for a name that is not in [`ENCODINGS`].
pub fn tokenizer(encoding: &str) -> Option<Tokenizer> {
    let bpe = match encoding {
        // Only special tokens differ, and those are ordinary text here.
        "o200k_base" | "o200k_harmony" => tiktoken_rs::o200k_base_singleton(),
        "cl100k_base" => tiktoken_rs::cl100k_base_singleton(),
        "p50k_base" | "p50k_edit" => tiktoken_rs::p50k_base_singleton(),
        "r50k_base" | "gpt2" => tiktoken_rs::r50k_base_singleton(),
        _ => return None,
    };
    Some(Tokenizer(bpe))
}

impl Tokenizer {
    /// Number of tokens of a text.
    pub fn count(&self, text: &str) -> usize {
        self.0.count_ordinary(text)
    }

    /// Number of tokens, or `None` if there are more than `limit`.
    pub fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        Some(self.count(text)).filter(|&count| count <= limit)
    }

    /// The token ids of a text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode_ordinary(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_token_text_is_ordinary() {
        for name in ENCODINGS {
            let tokenizer = tokenizer(name).expect("listed");
            assert_eq!(tokenizer.count("<|endoftext|>"), 7, "{name}");
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(tokenizer("o300k_base").is_none());
    }
}
