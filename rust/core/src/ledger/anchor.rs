//! The anchored count: what the provider said last, and the estimate of what came after.

use super::Ledger;
use crate::units::saturate_len;

/// The newest usage figure of the provider, and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// First piece of the response that carries it.
    pub first: u32,
    /// The message that carries it.
    pub last: u32,
    /// Messages before this index are inside the figure.
    pub covers: u32,
    /// Input + cache creation + cache read + output.
    pub usage: u32,
}

impl Ledger {
    /// The newest usage figure after the newest boundary.
    ///
    /// A message older than that boundary by its timestamp was kept by a compaction: its figure is of the context before it, and is
    /// passed over, as is a figure of another thread.
    #[must_use]
    pub fn anchor(&self) -> Option<Anchor> {
        let floor = self.context_start();
        let since = floor
            .checked_sub(1)
            .map_or(0, |boundary| self.messages[boundary].timestamp);
        let newest = self.usages.iter().rev().map(|&at| at as usize);
        let kept = |time: i64| 0 < time && time < since;
        let current = |at: &usize| !kept(self.messages[*at].timestamp) && !self.aside(*at);
        let last = newest.take_while(|at| *at >= floor).find(current)?;
        let message = &self.messages[last];
        let pieces = self.pieces_of(message.response_id);
        let first = pieces.iter().find(|piece| piece.0 as usize >= floor);
        let first = first.map_or(saturate_len(last), |piece| piece.0);
        Some(Anchor {
            first,
            last: saturate_len(last),
            covers: first + 1,
            usage: message.usage,
        })
    }

    /// Where the context of the model begins: after the newest boundary.
    fn context_start(&self) -> usize {
        self.last_boundary().map_or(0, |at| at as usize + 1)
    }

    /// Tokens of the context: the anchor's figure, and the estimate of what it does not cover.
    ///
    /// Returns (total less `freed`, estimated part, anchor).
    #[must_use]
    pub fn anchored(&self, freed: u64) -> (u64, u64, Option<Anchor>) {
        let anchor = self.anchor();
        let from = anchor.map_or_else(|| self.context_start(), |anchor| anchor.covers as usize);
        let mut estimated = self.tokens(from, self.len());
        if let Some(anchor) = anchor {
            // The response's other pieces are in its output already.
            let pieces = self.pieces_of(self.messages[anchor.last as usize].response_id);
            let inside = pieces.iter().filter(|piece| piece.0 >= anchor.covers);
            estimated -= inside
                .map(|piece| u64::from(self.messages[piece.0 as usize].tokens))
                .sum::<u64>();
        }
        let usage = anchor.map_or(0, |anchor| u64::from(anchor.usage));
        ((usage + estimated).saturating_sub(freed), estimated, anchor)
    }
}
