//! The keep window: the newest part of a conversation, cut where nothing is split.

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
    /// Results whose call lies before the floor, or nowhere, in order: to be dropped. A result without an id is none.
    pub orphans: Vec<Place>,
}

/// Moves `start` back until enough is kept and no tool pair or response is split.
///
/// Never before `floor` nor the newest boundary; a start that lies before them stays.
///
/// ```
/// use ullage_core::json::Json;
/// use ullage_core::ledger::Ledger;
/// use ullage_core::window::{Enough, keep_window};
///
/// let mut ledger = Ledger::default();
/// for at in 0..10 {
///     let role = if at % 2 == 0 { "user" } else { "assistant" };
///     let message = format!(r#"{{"role": "{role}", "content": "message number {at}"}}"#);
///     ledger.read(Json(message.as_bytes()), None)?;
/// }
/// let enough = Enough { min_tokens: 1, max_tokens: 1_000, min_text_messages: 3 };
/// let kept = keep_window(&ledger, 10, 0, &enough);
/// assert_eq!((kept.start, kept.text_messages), (7, 3));
/// # Ok::<(), ullage_core::error::Error>(())
/// ```
#[must_use]
pub fn keep_window(ledger: &Ledger, start: usize, floor: usize, enough: &Enough) -> KeepWindow {
    let length = ledger.len();
    let floor = ledger
        .last_boundary()
        .map_or(0, |at| at as usize + 1)
        .max(floor)
        .min(length);
    let wanted = back_until_enough(ledger, start.min(length), floor, enough);
    let start = unbroken(ledger, wanted, floor);
    KeepWindow {
        start,
        tokens: ledger.tokens(start, length),
        text_messages: ledger.text_messages(start),
        orphans: orphans(ledger, start),
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
    if start <= floor || suffices(high) {
        return start;
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
fn unbroken(ledger: &Ledger, mut start: usize, floor: usize) -> usize {
    let mut looked = ledger.len();
    while start < looked {
        let (from, to) = (start, looked);
        looked = start;
        for index in from..to {
            start = start.min(first_needed(ledger, index, floor));
        }
    }
    start
}

/// The first message, not before `floor`, that the message at `index` depends on.
fn first_needed(ledger: &Ledger, index: usize, floor: usize) -> usize {
    let pieces = ledger.pieces_of(ledger.message(index).response_id);
    let piece = pieces.iter().find(|piece| piece.0 as usize >= floor);
    let calls = results(ledger, index).filter_map(|(_, call)| call);
    let places = calls.chain(piece.copied()).map(|place| place.0 as usize);
    places.filter(|at| *at >= floor).fold(index, usize::min)
}

/// The results of a message, each with the newest call before it. One without an id belongs to no call.
fn results(ledger: &Ledger, index: usize) -> impl Iterator<Item = (Place, Option<Place>)> {
    let blocks = ledger.blocks(index).iter().enumerate();
    let named = blocks.filter(|(_, digest)| digest.is_result() && digest.id != 0);
    named.map(move |(block, digest)| {
        let place = (saturate_len(index), saturate_len(block));
        let calls = ledger.calls_of(digest.id).iter().rev();
        (place, calls.copied().find(|call| *call < place))
    })
}

/// Kept results whose call is not kept.
fn orphans(ledger: &Ledger, start: usize) -> Vec<Place> {
    let all = (start..ledger.len()).flat_map(|index| results(ledger, index));
    let lost = |call: Option<Place>| call.is_none_or(|call| (call.0 as usize) < start);
    all.filter(|(_, call)| lost(*call))
        .map(|(place, _)| place)
        .collect()
}
