//! Counting with our own scanner, tables and cache.
use super::cache::Pool;
use super::cl100k::Cl100k;
use super::classes::Classes;
use super::o200k::O200k;
use super::packed::Packed;
use super::scan::{Grammar, Text};
use super::vocabulary::Vocabulary;

/// After so many bytes it is asked whether to go on: 2 to 30 ms.
const ASK_BYTES: usize = 1 << 18;

/// Which pre-tokenizer cuts the text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pieces {
    O200k,
    Cl100k,
}

/// A vocabulary with its pre-tokenizer.
#[derive(Debug)]
pub(super) struct Encoder {
    pieces: Pieces,
    classes: Classes,
    vocabulary: Vocabulary,
    /// Bytes of the longest token: no text has fewer tokens than its bytes over this.
    longest: usize,
    pool: Pool,
}

impl Encoder {
    pub(super) fn new(packed: &Packed<'_>, pieces: Pieces) -> Self {
        let vocabulary = Vocabulary::new(packed);
        Encoder {
            pieces,
            classes: Classes::new(packed.runs()),
            longest: vocabulary.longest(),
            vocabulary,
            pool: Pool::default(),
        }
    }

    /// Number of tokens, or `None` if there are more than `limit`, or `goes_on` says no.
    pub(super) fn count_while(
        &self,
        text: &str,
        limit: usize,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<usize> {
        if text.len() / self.longest > limit {
            return None;
        }
        match self.pieces {
            Pieces::O200k => self.count_as::<O200k>(text, limit, goes_on),
            Pieces::Cl100k => self.count_as::<Cl100k>(text, limit, goes_on),
        }
    }

    fn count_as<G: Grammar>(
        &self,
        text: &str,
        limit: usize,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<usize> {
        let text = Text::new(text, &self.classes);
        self.pool.with(|cache| {
            let (mut at, mut count, mut asked_at) = (0, 0, 0);
            while at < text.bytes.len() {
                if at - asked_at > ASK_BYTES {
                    asked_at = at;
                    goes_on().then_some(())?;
                }
                at = text.pieces::<G>(at, |start, end| {
                    // A piece of megabytes need not be encoded to see that it is too much.
                    if end - start > self.longest && (end - start) / self.longest > limit - count {
                        return None;
                    }
                    count += cache.count(text.bytes, start, end, &self.vocabulary);
                    (count <= limit).then_some(())
                })?;
            }
            Some(count)
        })
    }

    /// The token ids of a text.
    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        match self.pieces {
            Pieces::O200k => self.encode_as::<O200k>(text),
            Pieces::Cl100k => self.encode_as::<Cl100k>(text),
        }
    }

    fn encode_as<G: Grammar>(&self, text: &str) -> Vec<u32> {
        let text = Text::new(text, &self.classes);
        let mut ids = Vec::with_capacity(text.bytes.len() / 3);
        self.pool.with(|cache| {
            let mut at = 0;
            while at < text.bytes.len() {
                let end = G::piece_end(text, at);
                self.vocabulary
                    .encode(&text.bytes[at..end], &mut cache.scratch, &mut ids);
                at = end;
            }
        });
        ids
    }
}
