//! API rounds: one response of the model and the user messages that answer it.

use crate::digest::Role;
use crate::ledger::Ledger;
use crate::units::saturate_len;

/// First index of each round between `start` and `stop` (exclusive).
///
/// A round begins at each response, but what stands before the first response belongs to round 0. A response that was stored
/// in pieces (one response id) is one response, also where results stand between the pieces. Without ids, neighbouring
/// assistant messages are one response. What stands aside (other threads,
/// metadata) stays in the running round.
///
/// ```
/// use ullage_core::json::Json;
/// use ullage_core::ledger::Ledger;
/// use ullage_core::rounds::rounds;
///
/// let mut ledger = Ledger::default();
/// for at in 0..10 {
///     let role = if at % 2 == 0 { "user" } else { "assistant" };
///     let message = format!(r#"{{"role": "{role}", "content": "message number {at}"}}"#);
///     ledger.read(Json(message.as_bytes()), None)?;
/// }
/// // The first question belongs to the round of the first answer.
/// assert_eq!(rounds(&ledger, 0, 10), [0, 3, 5, 7, 9]);
/// # Ok::<(), ullage_core::error::Error>(())
/// ```
#[must_use]
pub fn rounds(ledger: &Ledger, start: usize, stop: usize) -> Vec<u32> {
    let stop = stop.min(ledger.len());
    if start >= stop {
        return Vec::new();
    }
    let mut found = vec![saturate_len(start)];
    let mut response: Option<u32> = None;
    let mut adjacent = false;
    for index in start..stop {
        let message = ledger.message(index);
        if ledger.aside(index) {
            continue;
        }
        if message.role != Role::Assistant {
            adjacent = false;
            continue;
        }
        let same = response == Some(message.response_id) && (message.response_id != 0 || adjacent);
        if response.is_some() && !same {
            found.push(saturate_len(index));
        }
        response = Some(message.response_id);
        adjacent = true;
    }
    found
}
