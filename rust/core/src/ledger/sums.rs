//! Sums over the messages up to each, so that any range costs two looks.

use super::Ledger;
use crate::digest::{BlockDigest, MessageDigest, message_flag};

/// Sums over all messages up to one, itself included.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    tokens: u64,
    texts: u32,
    /// The highest string number that any of them needs.
    pub(super) top: u32,
}

impl Sums {
    /// With one message more.
    pub(super) fn and(self, message: &MessageDigest, blocks: &[BlockDigest]) -> Self {
        let top = self.top.max(message.uuid).max(message.response_id);
        let tops = blocks.iter().map(|block| block.id.max(block.name));
        Self {
            tokens: self.tokens + u64::from(message.tokens),
            texts: self.texts + u32::from(message.has(message_flag::HAS_TEXT)),
            top: tops.fold(top, u32::max),
        }
    }
}

impl Ledger {
    /// Sums over the messages before `stop`, clamped to what is there.
    fn upto(&self, stop: usize) -> Sums {
        let before = stop.min(self.sums.len()).checked_sub(1);
        before.map_or(Sums::default(), |at| self.sums[at])
    }

    /// Tokens of messages `start` to `stop` (exclusive), clamped to what is there.
    #[must_use]
    pub fn tokens(&self, start: usize, stop: usize) -> u64 {
        let (start, stop) = (self.upto(start), self.upto(stop));
        stop.tokens.saturating_sub(start.tokens)
    }

    /// How many messages from `start` on have text.
    #[must_use]
    pub fn text_messages(&self, start: usize) -> u32 {
        self.upto(self.len()).texts - self.upto(start).texts
    }
}
