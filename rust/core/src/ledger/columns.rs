//! What levels ask of every message at once.

use super::{Ledger, Place};
use crate::digest::{BlockDigest, BlockKind, Role};

/// A tool result and its call.
#[derive(Clone, Copy, Debug)]
pub struct ResultRow<'a> {
    /// Where it stands.
    pub place: Place,
    /// The newest call with its id; `None`: there is none.
    pub call: Option<Place>,
    /// The id of both.
    pub id: &'a [u8],
    /// The name of the tool; empty without a call.
    pub tool: &'a [u8],
    /// Its digest.
    pub digest: &'a BlockDigest,
}

impl Ledger {
    /// Results of client tools from message `start` on that name their call, oldest first.
    pub fn result_rows(&self, start: usize) -> impl Iterator<Item = ResultRow<'_>> {
        let messages = (0..).zip(self.messages()).skip(start);
        let answering = messages.filter(|(_, each)| matches!(each.role, Role::User | Role::Tool));
        answering.flat_map(move |(at, message)| {
            (0..)
                .zip(&self.blocks[message.own_blocks()])
                .filter(|(_, digest)| digest.kind == BlockKind::ToolResult && digest.id != 0)
                .map(move |(block, digest)| self.result_row((at, block), digest))
        })
    }

    fn result_row<'a>(&'a self, place: Place, digest: &'a BlockDigest) -> ResultRow<'a> {
        let call = self.calls_of(digest.id).last().copied();
        let name = call.map_or(0, |(at, block)| {
            self.blocks(at as usize)[block as usize].name
        });
        let (id, tool) = (self.string(digest.id), self.string(name));
        ResultRow {
            place,
            call,
            id,
            tool,
            digest,
        }
    }

    /// Messages that hold a block of one of these kinds.
    #[must_use]
    pub fn with_kinds(&self, kinds: &[u8]) -> Vec<usize> {
        let wanted = |each: &BlockDigest| kinds.contains(&(each.kind as u8));
        let holds = |at: &usize| self.blocks(*at).iter().any(wanted);
        (0..self.len()).filter(holds).collect()
    }

    /// Positions p, rising, such that neither part of a cut before message p misses anything of the other: no answered call is before p
    /// with its result at or after p, no response that was stored in pieces is split, and p is not between two messages of the model.
    #[must_use]
    pub fn whole_cuts(&self, stop: usize) -> Vec<usize> {
        let (mut cuts, mut reach) = (vec![0], 0);
        for at in 0..stop.min(self.len()) {
            reach = reach.max(self.reach(at));
            let next = self.messages().get(at + 1);
            let between = self.message(at).role == Role::Assistant
                && next.is_some_and(|next| next.role == Role::Assistant);
            if reach <= at && !between {
                cuts.push(at + 1);
            }
        }
        cuts
    }

    /// The last message that belongs together with this one.
    fn reach(&self, at: usize) -> usize {
        let message = self.message(at);
        let pieces = if message.response_id == 0 {
            None
        } else {
            self.pieces_of(message.response_id).last()
        };
        let calls = self
            .blocks(at)
            .iter()
            .filter(|block| block.is_call() && block.id != 0);
        let results = calls.filter_map(|block| self.results_of(block.id).last());
        let places = pieces.into_iter().chain(results);
        places.map(|place| place.0 as usize).fold(at, usize::max)
    }
}
