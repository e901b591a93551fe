//! The ledger of digests: prefix sums and id maps, kept up to date as a conversation grows.
//!
//! Appending costs the new message only. Replacing costs what follows it; cutting costs what is cut.

mod places;

use crate::digest::{BlockDigest, BlockKind, MessageDigest, Role, message_flag};
use crate::error::Error;
use crate::read::read_item;
use crate::strings::Strings;
use crate::text::Weights;
use crate::units::saturate_len;
use crate::view::Value;
pub use places::Place;
use places::{Places, insert_sorted, remove_sorted};

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

/// The digests of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    messages: Vec<MessageDigest>,
    blocks: Vec<BlockDigest>,
    /// Ids, names and uuids.
    pub strings: Strings,
    tokens: Vec<u64>,
    rough: Vec<u64>,
    texts: Vec<u32>,
    calls: Places,
    results: Places,
    responses: Places,
    uuids: Places,
    boundaries: Vec<u32>,
    usages: Vec<u32>,
    // The first entry that is a message: its thread is the conversation's own.
    speaker: Option<u32>,
    version: u64,
    // (version, lowest index) of edits, indices falling towards the top: see `changed_since`.
    edits: Vec<(u64, u32)>,
}

impl Ledger {
    /// How many messages it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Grows with every change that is not an append.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The digest of one message.
    ///
    /// # Panics
    /// If the index is outside; use [`Ledger::check`] first.
    #[must_use]
    pub fn message(&self, index: usize) -> &MessageDigest {
        &self.messages[index]
    }

    /// All message digests.
    #[must_use]
    pub fn messages(&self) -> &[MessageDigest] {
        &self.messages
    }

    /// The digests of one message's blocks.
    #[must_use]
    pub fn blocks(&self, index: usize) -> &[BlockDigest] {
        let message = &self.messages[index];
        let first = message.first_block as usize;
        &self.blocks[first..first + message.block_count as usize]
    }

    /// A string by its number.
    #[must_use]
    pub fn string(&self, number: u32) -> &[u8] {
        self.strings.get(number)
    }

    /// Turns a position, counted from the end if negative, into an index.
    pub fn check(&self, index: i64) -> Result<usize, Error> {
        let length = self.len();
        let counted = i64::try_from(length).unwrap_or(i64::MAX);
        let place = if index < 0 { index + counted } else { index };
        match usize::try_from(place) {
            Ok(place) if place < length => Ok(place),
            _ => Err(Error::Index { index, length }),
        }
    }

    /// Digests an item and adds it.
    ///
    /// # Errors
    /// As [`read_item`]; the ledger is then as it was before, but for strings: see [`Ledger::undo`].
    pub fn read<V: Value>(&mut self, item: V, weights: Option<&Weights>) -> Result<(), Error> {
        let first = self.blocks.len();
        match read_item(item, weights, &mut self.strings, &mut self.blocks) {
            Ok(message) => {
                self.enter_last(message, first);
                Ok(())
            }
            Err(error) => {
                self.blocks.truncate(first);
                Err(error)
            }
        }
    }

    /// Makes room for so many more messages.
    pub fn reserve(&mut self, more: usize) {
        self.messages.reserve(more);
        self.blocks.reserve(more);
        self.tokens.reserve(more);
        self.rough.reserve(more);
        self.texts.reserve(more);
        // Half of the messages call a tool or answer a call.
        self.strings.reserve(more / 2);
    }

    /// Takes back the newest messages down to a length and the strings down to another, as if they had never been
    /// added: no edit, no new version.
    pub fn undo(&mut self, length: usize, strings: usize) {
        self.cut(length);
        self.strings.rollback(strings);
    }

    /// Adds a message; its `first_block` and `block_count` are set here. Its strings are already interned.
    pub fn push(&mut self, message: MessageDigest, blocks: &[BlockDigest]) -> usize {
        let first = self.blocks.len();
        self.blocks.extend_from_slice(blocks);
        self.enter_last(message, first);
        self.len() - 1
    }

    /// Adds a message whose blocks stand at the end already.
    fn enter_last(&mut self, mut message: MessageDigest, first: usize) {
        message.first_block = saturate_len(first);
        message.block_count = saturate_len(self.blocks.len() - first);
        self.messages.push(message);
        self.sum(&message);
        self.enter(self.messages.len() - 1);
    }

    /// Puts another message in the place of one.
    pub fn replace(&mut self, index: usize, mut message: MessageDigest, blocks: &[BlockDigest]) {
        self.leave(index);
        let old = self.messages[index];
        let first = old.first_block as usize;
        self.blocks.splice(
            first..first + old.block_count as usize,
            blocks.iter().copied(),
        );
        message.first_block = old.first_block;
        message.block_count = saturate_len(blocks.len());
        self.messages[index] = message;
        self.shift(index + 1, old.block_count, message.block_count);
        self.enter(index);
        self.resum(index);
        self.edited(index);
        self.find_speaker();
    }

    /// Forgets all messages from `length` on.
    pub fn truncate(&mut self, length: usize) {
        if length < self.len() {
            self.cut(length);
            self.edited(length);
        }
    }

    fn cut(&mut self, length: usize) {
        if length >= self.len() {
            return;
        }
        for index in (length..self.len()).rev() {
            self.leave(index);
        }
        self.blocks
            .truncate(self.messages[length].first_block as usize);
        self.messages.truncate(length);
        self.resum(length);
        if self.speaker.is_some_and(|at| at as usize >= length) {
            self.speaker = None;
        }
    }

    fn find_speaker(&mut self) {
        let speaks = |message: &MessageDigest| message.role != Role::None;
        self.speaker = self.messages.iter().position(speaks).map(saturate_len);
    }

    fn shift(&mut self, from: usize, old: u32, new: u32) {
        if old != new {
            for message in &mut self.messages[from..] {
                message.first_block = message.first_block - old + new;
            }
        }
    }

    fn sum(&mut self, message: &MessageDigest) {
        let text = u32::from(message.has(message_flag::HAS_TEXT));
        self.tokens
            .push(last(&self.tokens) + u64::from(message.tokens));
        self.rough
            .push(last(&self.rough) + u64::from(message.rough));
        self.texts
            .push(self.texts.last().copied().unwrap_or(0) + text);
    }

    fn resum(&mut self, from: usize) {
        self.tokens.truncate(from);
        self.rough.truncate(from);
        self.texts.truncate(from);
        for index in from..self.messages.len() {
            let message = self.messages[index];
            self.sum(&message);
        }
    }

    /// Enters a message into the maps.
    fn enter(&mut self, index: usize) {
        let (message, at) = (self.messages[index], saturate_len(index));
        self.uuids.add(message.uuid, (at, 0));
        if message.role == Role::Assistant {
            self.responses.add(message.response_id, (at, 0));
        }
        if message.has(message_flag::BOUNDARY) {
            insert_sorted(&mut self.boundaries, at);
        }
        if message.has(message_flag::HAS_USAGE) {
            insert_sorted(&mut self.usages, at);
        }
        if message.role != Role::None && self.speaker.is_none_or(|first| at < first) {
            self.speaker = Some(at);
        }
        for block in 0..message.block_count {
            let digest = self.blocks[(message.first_block + block) as usize];
            if digest.is_call() {
                self.calls.add(digest.id, (at, block));
            } else if digest.is_result() {
                self.results.add(digest.id, (at, block));
            }
        }
    }

    /// Takes a message out of the maps.
    fn leave(&mut self, index: usize) {
        let (message, at) = (self.messages[index], saturate_len(index));
        self.uuids.remove(message.uuid, (at, 0));
        if message.role == Role::Assistant {
            self.responses.remove(message.response_id, (at, 0));
        }
        remove_sorted(&mut self.boundaries, &at);
        remove_sorted(&mut self.usages, &at);
        for block in 0..message.block_count {
            let digest = self.blocks[(message.first_block + block) as usize];
            if digest.is_call() {
                self.calls.remove(digest.id, (at, block));
            } else if digest.is_result() {
                self.results.remove(digest.id, (at, block));
            }
        }
    }

    // ---- versions -----------------------------------------------------------------------------

    /// Notes a change from `index` on that [`Ledger::undo`] and [`Ledger::push`] made.
    pub fn edited(&mut self, index: usize) {
        let index = saturate_len(index);
        self.version += 1;
        while self
            .edits
            .last()
            .is_some_and(|(_, lowest)| *lowest >= index)
        {
            self.edits.pop();
        }
        self.edits.push((self.version, index));
    }

    /// The lowest index that any edit after `version` touched; the length if there was none.
    #[must_use]
    pub fn changed_since(&self, version: u64) -> usize {
        let at = self.edits.partition_point(|(known, _)| *known <= version);
        self.edits
            .get(at)
            .map_or(self.len(), |(_, index)| (*index as usize).min(self.len()))
    }

    // ---- sums ---------------------------------------------------------------------------------

    /// Calibrated tokens of messages `start` to `stop` (exclusive), clamped to what is there.
    #[must_use]
    pub fn tokens(&self, start: usize, stop: usize) -> u64 {
        between(&self.tokens, start, stop)
    }

    /// Rough tokens of messages `start` to `stop` (exclusive).
    #[must_use]
    pub fn rough(&self, start: usize, stop: usize) -> u64 {
        between(&self.rough, start, stop)
    }

    /// How many messages from `start` on have text.
    #[must_use]
    pub fn text_messages(&self, start: usize) -> u32 {
        let all = self.texts.last().copied().unwrap_or(0);
        all - start
            .checked_sub(1)
            .map_or(0, |before| self.texts[before.min(self.len() - 1)])
    }

    // ---- places -------------------------------------------------------------------------------

    /// Places of the calls with this id (a string number), oldest first.
    #[must_use]
    pub fn calls_of(&self, id: u32) -> &[Place] {
        self.calls.of(id)
    }

    /// Places of the results with this id, oldest first.
    #[must_use]
    pub fn results_of(&self, id: u32) -> &[Place] {
        self.results.of(id)
    }

    /// Messages that are pieces of one response, oldest first.
    #[must_use]
    pub fn pieces_of(&self, response_id: u32) -> &[Place] {
        self.responses.of(response_id)
    }

    /// The newest message with this uuid.
    #[must_use]
    pub fn find_uuid(&self, uuid: &[u8]) -> Option<u32> {
        let number = self.strings.find(uuid).filter(|number| *number != 0)?;
        self.uuids.of(number).last().map(|place| place.0)
    }

    /// The newest call with this id.
    #[must_use]
    pub fn find_call(&self, id: &[u8]) -> Option<Place> {
        let number = self.strings.find(id).filter(|number| *number != 0)?;
        self.calls_of(number).last().copied()
    }

    /// The newest result for this id.
    #[must_use]
    pub fn find_result(&self, id: &[u8]) -> Option<Place> {
        let number = self.strings.find(id).filter(|number| *number != 0)?;
        self.results_of(number).last().copied()
    }

    /// Client tool calls that no later result answers, in order.
    #[must_use]
    pub fn open_calls(&self) -> Vec<Place> {
        let mut open = Vec::new();
        for index in 0..self.len() {
            for (block, digest) in self.blocks(index).iter().enumerate() {
                let place = (saturate_len(index), saturate_len(block));
                let answered = self
                    .results_of(digest.id)
                    .last()
                    .is_some_and(|result| *result > place);
                if digest.kind == BlockKind::ToolUse && !answered {
                    open.push(place);
                }
            }
        }
        open
    }

    /// User and tool messages with an image or document, also inside a tool result.
    #[must_use]
    pub fn media_indices(&self) -> Vec<usize> {
        let holds = |index: &usize| {
            let message = self.message(*index);
            message.has(message_flag::HAS_MEDIA) && matches!(message.role, Role::User | Role::Tool)
        };
        (0..self.len()).filter(holds).collect()
    }

    /// The newest boundary.
    #[must_use]
    pub fn last_boundary(&self) -> Option<u32> {
        self.boundaries.last().copied()
    }

    /// Whether a message belongs to no round: metadata, or another thread than the first message.
    ///
    /// In an agent's own transcript every line is a sidechain; there none of them stands aside.
    #[must_use]
    pub fn aside(&self, index: usize) -> bool {
        let message = &self.messages[index];
        let own = self
            .speaker
            .map_or(0, |at| self.messages[at as usize].flags);
        message.role == Role::None || (message.flags ^ own) & message_flag::SIDECHAIN != 0
    }

    // ---- anchored count -----------------------------------------------------------------------

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

fn last(sums: &[u64]) -> u64 {
    sums.last().copied().unwrap_or(0)
}

fn between(sums: &[u64], start: usize, stop: usize) -> u64 {
    let upto = |end: usize| end.min(sums.len()).checked_sub(1).map_or(0, |at| sums[at]);
    upto(stop).saturating_sub(upto(start))
}
