//! The ledger of digests: prefix sums and id maps, kept up to date as a conversation grows.
//!
//! Appending costs the new message only. Replacing costs what follows it; cutting costs what is cut.

use crate::digest::{BlockDigest, BlockKind, MessageDigest, Role, message_flag};
use crate::error::Error;
use crate::strings::Strings;
use crate::units::saturate_len;
use hashbrown::HashMap;

type Map<V> = HashMap<u32, V, foldhash::fast::FixedState>;

/// Message and block of one place.
pub type Place = (u32, u32);

/// Where an id stands, oldest first. Nearly every id stands in one place.
#[derive(Clone, Debug)]
enum Places {
    One(Place),
    Many(Vec<Place>),
}

impl Places {
    fn as_slice(&self) -> &[Place] {
        match self {
            Self::One(place) => std::slice::from_ref(place),
            Self::Many(places) => places,
        }
    }

    fn insert(&mut self, place: Place) {
        let mut places = self.as_slice().to_vec();
        let at = places.partition_point(|known| *known < place);
        places.insert(at, place);
        *self = Self::Many(places);
    }
}

fn add(map: &mut Map<Places>, id: u32, place: Place) {
    if id == 0 {
        return;
    }
    map.entry(id)
        .and_modify(|places| places.insert(place))
        .or_insert(Places::One(place));
}

fn remove(map: &mut Map<Places>, id: u32, place: Place) {
    let Some(places) = map.get_mut(&id) else {
        return;
    };
    match places {
        Places::One(_) => {
            map.remove(&id);
        }
        Places::Many(list) => {
            list.retain(|known| *known != place);
            if let [last] = list[..] {
                *places = Places::One(last);
            }
        }
    }
}

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
    response_id: u32,
    // Tokens of the response's own pieces after the first: inside the figure as well.
    pieces: u64,
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
    calls: Map<Places>,
    results: Map<Places>,
    responses: Map<Places>,
    uuids: Map<Places>,
    boundaries: Vec<u32>,
    anchor: Option<Anchor>,
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

    /// Adds a message; its `first_block` and `block_count` are set here. Its strings are already interned.
    pub fn push(&mut self, mut message: MessageDigest, blocks: &[BlockDigest]) -> usize {
        let index = self.messages.len();
        message.first_block = saturate_len(self.blocks.len());
        message.block_count = saturate_len(blocks.len());
        self.blocks.extend_from_slice(blocks);
        self.messages.push(message);
        self.sum(&message);
        self.enter(index);
        self.anchor_push(index);
        index
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
        self.anchor = self.find_anchor();
    }

    /// Forgets all messages from `length` on.
    pub fn truncate(&mut self, length: usize) {
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
        self.edited(length);
        self.anchor = self.find_anchor();
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
        add(&mut self.uuids, message.uuid, (at, 0));
        if message.role == Role::Assistant {
            add(&mut self.responses, message.response_id, (at, 0));
        }
        if message.has(message_flag::BOUNDARY) {
            let place = self.boundaries.partition_point(|known| *known < at);
            self.boundaries.insert(place, at);
        }
        for block in 0..message.block_count {
            let digest = self.blocks[(message.first_block + block) as usize];
            if digest.is_call() {
                add(&mut self.calls, digest.id, (at, block));
            } else if digest.is_result() {
                add(&mut self.results, digest.id, (at, block));
            }
        }
    }

    /// Takes a message out of the maps.
    fn leave(&mut self, index: usize) {
        let (message, at) = (self.messages[index], saturate_len(index));
        remove(&mut self.uuids, message.uuid, (at, 0));
        if message.role == Role::Assistant {
            remove(&mut self.responses, message.response_id, (at, 0));
        }
        self.boundaries.retain(|known| *known != at);
        for block in 0..message.block_count {
            let digest = self.blocks[(message.first_block + block) as usize];
            if digest.is_call() {
                remove(&mut self.calls, digest.id, (at, block));
            } else if digest.is_result() {
                remove(&mut self.results, digest.id, (at, block));
            }
        }
    }

    // ---- versions -----------------------------------------------------------------------------

    fn edited(&mut self, index: usize) {
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
        self.calls.get(&id).map_or(&[], Places::as_slice)
    }

    /// Places of the results with this id, oldest first.
    #[must_use]
    pub fn results_of(&self, id: u32) -> &[Place] {
        self.results.get(&id).map_or(&[], Places::as_slice)
    }

    /// Messages that are pieces of one response, oldest first.
    #[must_use]
    pub fn pieces_of(&self, response_id: u32) -> &[Place] {
        self.responses
            .get(&response_id)
            .map_or(&[], Places::as_slice)
    }

    /// The newest message with this uuid.
    #[must_use]
    pub fn find_uuid(&self, uuid: &[u8]) -> Option<u32> {
        let number = self.strings.find(uuid).filter(|number| *number != 0)?;
        self.uuids
            .get(&number)?
            .as_slice()
            .last()
            .map(|place| place.0)
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

    /// The newest boundary.
    #[must_use]
    pub fn last_boundary(&self) -> Option<u32> {
        self.boundaries.last().copied()
    }

    // ---- anchored count -----------------------------------------------------------------------

    /// The newest usage figure after the newest boundary.
    #[must_use]
    pub fn anchor(&self) -> Option<Anchor> {
        self.anchor
    }

    /// Tokens of all messages: the anchor's figure, and the estimate of what it does not cover.
    ///
    /// Returns (total less `freed`, estimated part).
    #[must_use]
    pub fn anchored(&self, freed: u64) -> (u64, u64) {
        let estimated = match self.anchor {
            None => self.tokens(0, self.len()),
            Some(anchor) => self.tokens(anchor.first as usize + 1, self.len()) - anchor.pieces,
        };
        let usage = self.anchor.map_or(0, |anchor| u64::from(anchor.usage));
        ((usage + estimated).saturating_sub(freed), estimated)
    }

    fn carries_usage(message: &MessageDigest) -> bool {
        message.is_response() && message.has(message_flag::HAS_USAGE)
    }

    fn anchor_push(&mut self, index: usize) {
        let message = self.messages[index];
        if message.has(message_flag::BOUNDARY) {
            self.anchor = None;
            return;
        }
        let same = self
            .anchor
            .is_some_and(|anchor| piece_of(&anchor, &message));
        if Self::carries_usage(&message) && !same {
            self.anchor = Some(self.anchor_at(index));
        } else if same && let Some(anchor) = &mut self.anchor {
            anchor.pieces += u64::from(message.tokens);
            if Self::carries_usage(&message) {
                anchor.last = saturate_len(index);
                anchor.usage = message.usage;
            }
        }
    }

    /// The anchor that the message at `last` makes: back to the first piece of its response.
    fn anchor_at(&self, last: usize) -> Anchor {
        let carrier = self.messages[last];
        let mut anchor = Anchor {
            first: saturate_len(last),
            last: saturate_len(last),
            covers: 0,
            usage: carrier.usage,
            response_id: carrier.response_id,
            pieces: 0,
        };
        let floor = self.last_boundary().map_or(0, |at| at as usize + 1);
        for index in (floor..last).rev() {
            let message = &self.messages[index];
            if !message.is_response() {
                continue;
            }
            if !piece_of(&anchor, message) {
                break;
            }
            anchor.pieces += u64::from(self.messages[anchor.first as usize].tokens);
            anchor.first = saturate_len(index);
        }
        anchor.covers = anchor.first + 1;
        anchor
    }

    fn find_anchor(&self) -> Option<Anchor> {
        let floor = self.last_boundary().map_or(0, |at| at as usize + 1);
        let last = (floor..self.len())
            .rev()
            .find(|at| Self::carries_usage(&self.messages[*at]))?;
        let mut anchor = self.anchor_at(last);
        for message in &self.messages[last + 1..] {
            if piece_of(&anchor, message) {
                anchor.pieces += u64::from(message.tokens);
            }
        }
        Some(anchor)
    }
}

fn piece_of(anchor: &Anchor, message: &MessageDigest) -> bool {
    anchor.response_id != 0 && message.is_response() && message.response_id == anchor.response_id
}

fn last(sums: &[u64]) -> u64 {
    sums.last().copied().unwrap_or(0)
}

fn between(sums: &[u64], start: usize, stop: usize) -> u64 {
    let upto = |end: usize| end.min(sums.len()).checked_sub(1).map_or(0, |at| sums[at]);
    upto(stop).saturating_sub(upto(start))
}
