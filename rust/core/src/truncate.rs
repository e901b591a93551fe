//! Head truncation: which oldest rounds go when a request is too long.

use crate::ledger::Ledger;
use crate::rounds::rounds;

/// First message to keep.
///
/// With a known gap, the fewest oldest rounds that cover it go; without, `share_percent` of the rounds. At least one round
/// goes, and at least one stays; with one round or none, `start` is the answer.
///
/// ```
/// use ullage_core::json::Json;
/// use ullage_core::ledger::Ledger;
/// use ullage_core::truncate::truncate_head;
///
/// let mut ledger = Ledger::default();
/// for at in 0..10 {
///     let role = if at % 2 == 0 { "user" } else { "assistant" };
///     let message = format!(r#"{{"role": "{role}", "content": "message number {at}"}}"#);
///     ledger.read(Json(message.as_bytes()), None)?;
/// }
/// assert_eq!(truncate_head(&ledger, None, 0, 40), 5, "two of five rounds");
/// assert_eq!(truncate_head(&ledger, Some(1), 0, 40), 3, "one round covers a token");
/// # Ok::<(), ullage_core::error::Error>(())
/// ```
#[must_use]
pub fn truncate_head(
    ledger: &Ledger,
    gap_tokens: Option<u64>,
    start: usize,
    share_percent: u32,
) -> usize {
    let starts = rounds(ledger, start, ledger.len());
    if starts.len() < 2 {
        return start;
    }
    let count = match gap_tokens {
        Some(gap) => covering(ledger, &starts, gap),
        None => starts.len() * share_percent as usize / 100,
    };
    starts[count.clamp(1, starts.len() - 1)] as usize
}

/// How many of the oldest rounds hold at least `gap` tokens together.
fn covering(ledger: &Ledger, starts: &[u32], gap: u64) -> usize {
    let from = starts[0] as usize;
    let enough = |next: &u32| ledger.tokens(from, *next as usize) >= gap;
    starts[1..]
        .iter()
        .position(enough)
        .map_or(starts.len(), |at| at + 1)
}
