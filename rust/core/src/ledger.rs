//! The ledger of digests: prefix sums and id maps, kept up to date as a conversation grows.
//!
//! Appending costs the new message only. Replacing costs what follows it; cutting costs what is cut.

mod anchor;
mod columns;
mod find;
mod places;
mod sums;

use crate::digest::{BlockDigest, BlockKind, MessageDigest, Role, message_flag};
use crate::error::Error;
use crate::read::read_item;
use crate::strings::Strings;
use crate::text::Weights;
use crate::units::saturate_len;
use crate::view::Value;
pub use anchor::Anchor;
pub use columns::ResultRow;
pub use places::Place;
use places::{Places, insert_sorted, remove_sorted};
use sums::Sums;

/// So many strings that no message needs any more are kept at least: numbers that come back cost nothing.
const SPARE_STRINGS: usize = 1024;

/// The digests of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    messages: Vec<MessageDigest>,
    blocks: Vec<BlockDigest>,
    /// Ids, names and uuids.
    pub strings: Strings,
    sums: Vec<Sums>,
    calls: Places,
    results: Places,
    responses: Places,
    boundaries: Vec<u32>,
    usages: Vec<u32>,
    // Messages with the provider's own compaction.
    compactions: Vec<u32>,
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
        &self.blocks[self.messages[index].own_blocks()]
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
    /// ```
    /// use ullage_core::json::Json;
    /// use ullage_core::ledger::Ledger;
    ///
    /// let mut ledger = Ledger::default();
    /// ledger.read(Json(br#"{"role": "user", "content": "twelve chars"}"#), None)?;
    /// assert_eq!((ledger.len(), ledger.tokens(0, 1)), (1, 3));
    /// assert!(ledger.read(Json(b"[]"), None).is_err());
    /// assert_eq!(ledger.len(), 1, "as it was before");
    /// # Ok::<(), ullage_core::error::Error>(())
    /// ```
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
        self.sums.reserve(more);
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

    /// Adds a message of which the strings are numbers of another table.
    pub fn copy(&mut self, mut message: MessageDigest, blocks: &[BlockDigest], from: &Strings) {
        let mut number = |known: u32| self.strings.intern(from.get(known));
        message.uuid = number(message.uuid);
        message.response_id = number(message.response_id);
        let first = self.blocks.len();
        for block in blocks {
            let (id, name) = (number(block.id), number(block.name));
            self.blocks.push(BlockDigest { id, name, ..*block });
        }
        self.enter_last(message, first);
    }

    /// Adds a message whose blocks stand at the end already.
    fn enter_last(&mut self, mut message: MessageDigest, first: usize) {
        message.first_block = saturate_len(first);
        message.block_count = saturate_len(self.blocks.len() - first);
        let index = self.messages.len();
        self.messages.push(message);
        self.sum(index);
        self.enter(index);
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
        self.trim();
    }

    /// Forgets all messages from `length` on.
    pub fn truncate(&mut self, length: usize) {
        if length < self.len() {
            self.cut(length);
            self.edited(length);
            self.trim();
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

    fn sum(&mut self, index: usize) {
        let before = self.sums.last().copied().unwrap_or_default();
        let sums = before.and(&self.messages[index], self.blocks(index));
        self.sums.push(sums);
    }

    fn resum(&mut self, from: usize) {
        self.sums.truncate(from);
        for index in from..self.messages.len() {
            self.sum(index);
        }
    }

    /// Forgets the newest strings that no message needs, if they are more than those that are needed: always-new ids would
    /// grow the table for ever. What is done seldom costs each string once.
    pub fn trim(&mut self) {
        let needed = self.sums.last().map_or(0, |sums| sums.top) as usize + 1;
        if self.strings.len() - needed > needed.max(SPARE_STRINGS) {
            self.strings.rollback(needed);
            for places in [&mut self.calls, &mut self.results, &mut self.responses] {
                places.trim(needed);
            }
        }
    }

    /// Enters a message into the maps.
    fn enter(&mut self, index: usize) {
        let (message, at) = (self.messages[index], saturate_len(index));
        if message.role == Role::Assistant {
            self.responses.add(message.response_id, (at, 0));
        }
        if message.has(message_flag::BOUNDARY) {
            insert_sorted(&mut self.boundaries, at);
        }
        if message.has(message_flag::HAS_USAGE) {
            insert_sorted(&mut self.usages, at);
        }
        let is_compaction = |block: &BlockDigest| block.kind == BlockKind::Compaction;
        if self.blocks[message.own_blocks()].iter().any(is_compaction) {
            insert_sorted(&mut self.compactions, at);
        }
        if message.role != Role::None && self.speaker.is_none_or(|first| at < first) {
            self.speaker = Some(at);
        }
        for (block, digest) in (0..).zip(&self.blocks[message.own_blocks()]) {
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
        if message.role == Role::Assistant {
            self.responses.remove(message.response_id, (at, 0));
        }
        remove_sorted(&mut self.boundaries, &at);
        remove_sorted(&mut self.usages, &at);
        remove_sorted(&mut self.compactions, &at);
        for (block, digest) in (0..).zip(&self.blocks[message.own_blocks()]) {
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
}
