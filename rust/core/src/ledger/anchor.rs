//! The anchored count: what the provider said last, and the estimate of what came after.

use super::Ledger;

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

/// A figure below one part in so many of the estimate cannot be true: our estimates are off by a third at most.
const LEAST_OF_ESTIMATE: u64 = 2;

impl Ledger {
    /// The newest usage figure after the newest boundary, if it can be true.
    ///
    /// A message older than that boundary by its timestamp was kept by a compaction: its figure is of the context before it, and is
    /// passed over, as is a figure of another thread. One below half of the estimate of what it covers, of which the provider itself
    /// left out `cleared` tokens, anchors nothing.
    #[must_use]
    pub fn anchor(&self, cleared: u64) -> Option<Anchor> {
        let newest = self.usages.iter().rev().map(|&at| self.anchor_at(at));
        let floor = self.context_start();
        let mut current = newest.take_while(|found| found.last as usize >= floor);
        let found = current.find(|found| self.is_current(found))?;
        let covers = found.covers as usize;
        // The provider does not read what comes before its own compaction.
        let mut own = self.compactions.iter().rev().map(|&at| at as usize);
        let start = own.find(|at| *at < covers).unwrap_or(0);
        let read = self.tokens(start.max(floor), covers);
        Self::is_enough(found.usage, cleared, read).then_some(found)
    }

    /// System prompt and tools, by the figures: what the oldest one of the context exceeds the estimate by, since later ones hold
    /// thinking and reminders too; the newest where that is less. `None`: there is no figure.
    ///
    /// A newest one below the estimate says nothing of it, unless all of it is less than the oldest one's excess: then that is of
    /// another model or of other tools.
    #[must_use]
    pub fn overhead(&self) -> Option<u64> {
        let anchor = self.anchor(0)?;
        let newest = self.excess(&anchor);
        let floor = self.context_start();
        let within = self.usages.iter().filter(|at| **at as usize >= floor);
        let able = |found: &Anchor| {
            let covered = self.tokens(floor, found.covers as usize);
            self.is_current(found) && Self::is_enough(found.usage, 0, covered)
        };
        let first = within.map(|&at| self.anchor_at(at)).find(able);
        let first = first.map_or(newest, |found| self.excess(&found));
        let bounded = newest > 0 || first > i64::from(anchor.usage);
        let least = if bounded { first.min(newest) } else { first };
        Some(u64::try_from(least).unwrap_or(0))
    }

    fn excess(&self, found: &Anchor) -> i64 {
        i64::from(found.usage)
            - saturate_i64(self.tokens(self.context_start(), found.covers as usize))
    }

    fn anchor_at(&self, last: u32) -> Anchor {
        let message = &self.messages[last as usize];
        let floor = self.context_start();
        let pieces = self.pieces_of(message.response_id);
        let first = pieces.iter().find(|piece| piece.0 as usize >= floor);
        let first = first.map_or(last, |piece| piece.0);
        Anchor {
            first,
            last,
            covers: first + 1,
            usage: message.usage,
        }
    }

    /// Whether a figure is of this context, not kept from an older one or of another thread.
    fn is_current(&self, found: &Anchor) -> bool {
        let since = self
            .context_start()
            .checked_sub(1)
            .map_or(0, |boundary| self.messages[boundary].timestamp);
        let time = self.messages[found.last as usize].timestamp;
        let kept = 0 < time && time < since;
        !kept && !self.aside(found.last as usize)
    }

    /// Whether a figure can be true of messages of this estimate.
    fn is_enough(usage: u32, cleared: u64, covered: u64) -> bool {
        u64::from(usage).saturating_add(cleared) >= covered.div_ceil(LEAST_OF_ESTIMATE)
    }

    /// Where the context of the model begins: after the newest boundary.
    fn context_start(&self) -> usize {
        self.last_boundary().map_or(0, |at| at as usize + 1)
    }

    /// Tokens of the context: the anchor's figure, and the estimate of what it does not cover; `cleared`: see `anchor`.
    ///
    /// Returns (total less `freed`, estimated part, anchor).
    #[must_use]
    pub fn anchored(&self, freed: u64, cleared: u64) -> (u64, u64, Option<Anchor>) {
        let anchor = self.anchor(cleared);
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

/// A count as a signed number; more than any conversation has becomes the largest.
fn saturate_i64(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
