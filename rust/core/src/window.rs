//! The keep window: the newest part of a conversation, cut where nothing is torn apart.

use crate::ledger::{Ledger, Place};
use crate::units::saturate_len;

/// What is enough to keep.
#[derive(Clone, Copy, Debug)]
pub struct Enough {
    /// Tokens, together with the messages.
    pub min_tokens: u64,
    /// Tokens that are enough by themselves.
    pub max_tokens: u64,
    /// Messages with text.
    pub min_text_messages: u32,
}

/// Messages from `start` on are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepWindow {
    /// First kept message.
    pub start: usize,
    /// Calibrated tokens of what is kept.
    pub tokens: u64,
    /// Kept messages with text.
    pub text_messages: u32,
    /// Results whose call lies before the floor, or nowhere: to be dropped, in order.
    pub orphans: Vec<Place>,
}

/// Moves `start` back until enough is kept and no tool pair and no response is torn apart; never past `floor` nor past the
/// newest boundary.
#[must_use]
pub fn keep_window(ledger: &Ledger, start: usize, floor: usize, enough: &Enough) -> KeepWindow {
    let length = ledger.len();
    let floor = ledger
        .last_boundary()
        .map_or(0, |at| at as usize + 1)
        .max(floor)
        .min(length);
    let wanted = back_until_enough(ledger, start.clamp(floor, length), floor, enough);
    let (start, orphans) = unbroken(ledger, wanted, floor);
    KeepWindow {
        start,
        tokens: ledger.tokens(start, length),
        text_messages: ledger.text_messages(start),
        orphans,
    }
}

/// The largest index not above `start` from which enough is kept; `floor` if there is none.
fn back_until_enough(ledger: &Ledger, start: usize, floor: usize, enough: &Enough) -> usize {
    let suffices = |from: usize| {
        let tokens = ledger.tokens(from, ledger.len());
        tokens >= enough.max_tokens
            || (tokens >= enough.min_tokens
                && ledger.text_messages(from) >= enough.min_text_messages)
    };
    let (mut low, mut high) = (floor, start);
    if suffices(high) {
        return high;
    }
    // Sums only grow towards the front: `low` suffices or is the floor, `high` does not suffice.
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        if suffices(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Moves `start` back until each kept result has its call and each kept response all its pieces.
fn unbroken(ledger: &Ledger, start: usize, floor: usize) -> (usize, Vec<Place>) {
    let mut orphans = Vec::new();
    let (mut start, mut looked) = (start, ledger.len());
    while start < looked {
        let (from, to) = (start, looked);
        looked = start;
        for index in from..to {
            start = start.min(first_needed(ledger, index, floor, &mut orphans));
        }
    }
    orphans.sort_unstable();
    (start, orphans)
}

/// The first message, not before `floor`, that the message at `index` needs beside it.
fn first_needed(ledger: &Ledger, index: usize, floor: usize, orphans: &mut Vec<Place>) -> usize {
    let at = saturate_len(index);
    let floor_at = saturate_len(floor);
    let message = ledger.message(index);
    let pieces = ledger.pieces_of(message.response_id);
    let own = message.role == crate::digest::Role::Assistant;
    let piece = pieces
        .iter()
        .find(|piece| own && piece.0 >= floor_at)
        .map_or(at, |piece| piece.0);
    let mut needed = piece.min(at);
    for (block, digest) in ledger.blocks(index).iter().enumerate() {
        if !digest.is_result() {
            continue;
        }
        let place = (at, saturate_len(block));
        let call = ledger
            .calls_of(digest.id)
            .iter()
            .rev()
            .find(|call| **call < place);
        match call {
            Some(call) if call.0 >= floor_at => needed = needed.min(call.0),
            _ => orphans.push(place),
        }
    }
    needed as usize
}
