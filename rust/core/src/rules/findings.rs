//! What was found so far, and what must be remembered of all messages.

use hashbrown::{HashMap, HashSet};

/// A hostile id can be megabytes long; a report is for reading.
const SHOWN_CHARS: usize = 64;

/// By string number: small numbers that we gave out ourselves.
pub(crate) type Map<V> = HashMap<u32, V, foldhash::fast::FixedState>;
/// The same without a value.
pub(crate) type Set = HashSet<u32, foldhash::fast::FixedState>;

/// So few slots are emptied in place; a table that a hostile message made large is given back.
const SMALL_TABLE: usize = 64;

/// Empties a table, which is done once a turn: without a new allocation for each.
pub(crate) fn empty<V>(table: &mut Map<V>) {
    if table.capacity() <= SMALL_TABLE {
        table.clear();
    } else {
        *table = Map::default();
    }
}

/// The same for a set.
pub(crate) fn empty_set(table: &mut Set) {
    if table.capacity() <= SMALL_TABLE {
        table.clear();
    } else {
        *table = Set::default();
    }
}

/// Which string numbers were seen: they are dense, so that a bit for each is the smallest set.
#[derive(Debug, Default)]
struct Numbers(Vec<u64>);

impl Numbers {
    /// False if it was there before.
    fn insert(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let fresh = self.0[word] & bit == 0;
        self.0[word] |= bit;
        fresh
    }

    fn remove(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }
}

/// One broken rule. `message` -1: the request as a whole; `block` -1: the message as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Such as `A05`.
    pub rule: &'static str,
    /// The provider would refuse; else a warning.
    pub error: bool,
    /// Index in the ledger.
    pub message: i64,
    /// Index in the message.
    pub block: i64,
    /// What is wrong, in words.
    pub detail: String,
}

/// A message and a block in it.
pub(crate) type At = (i64, i64);

pub(crate) const REQUEST: At = (-1, -1);

/// Violations in the order of reading, with the logs that grow with the conversation.
///
/// Everything is noted together with the message that was being read (`at`), so that the notes of
/// later messages can be taken back.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) at: usize,
    skip: Vec<Vec<u8>>,
    pub(crate) found: Vec<(usize, Violation)>,
    calls: Numbers,
    call_log: Vec<(usize, u32)>,
    pub(crate) large: Vec<(usize, At)>,
}

impl Findings {
    pub(crate) fn new(skip: &[Vec<u8>]) -> Self {
        Self {
            skip: skip.to_vec(),
            ..Self::default()
        }
    }

    pub(crate) fn error(&mut self, rule: &'static str, at: At, detail: impl Into<String>) {
        self.note(rule, true, at, detail.into());
    }

    pub(crate) fn note(&mut self, rule: &'static str, error: bool, at: At, detail: String) {
        if self.skip.iter().any(|skipped| skipped == rule.as_bytes()) {
            return;
        }
        let violation = Violation {
            rule,
            error,
            message: at.0,
            block: at.1,
            detail,
        };
        self.found.push((self.at, violation));
    }

    /// Notes a tool use id; false if it was there before.
    pub(crate) fn first_call(&mut self, tool_id: u32) -> bool {
        if !self.calls.insert(tool_id) {
            return false;
        }
        self.call_log.push((self.at, tool_id));
        true
    }

    /// Takes back what was noted while message `index` and later ones were read.
    pub(crate) fn rewind(&mut self, index: usize) {
        while self.found.last().is_some_and(|(at, _)| *at >= index) {
            self.found.pop();
        }
        while let Some((at, tool_id)) = self.call_log.last().copied() {
            if at < index {
                break;
            }
            self.calls.remove(tool_id);
            self.call_log.pop();
        }
        while self.large.last().is_some_and(|(at, _)| *at >= index) {
            self.large.pop();
        }
    }
}

/// A hostile id, cut for a report; what a terminal could take amiss shows as `?`.
pub(crate) fn short(text: &[u8]) -> String {
    // Every code point has one byte that does not continue another.
    let mut points = text.iter().filter(|byte| **byte & 0xC0 != 0x80);
    let mut shown: String = points
        .by_ref()
        .take(SHOWN_CHARS)
        .map(|byte| {
            if byte.is_ascii_graphic() {
                char::from(*byte)
            } else {
                '?'
            }
        })
        .collect();
    if points.next().is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn ids_are_cut_by_code_points() {
        assert_eq!(short("toolu_1".as_bytes()), "toolu_1");
        assert_eq!(short("a b\u{7f}é\u{1F600}".as_bytes()), "a?b???");
        assert_eq!(short("é".repeat(64).as_bytes()).len(), 64);
        assert_eq!(short("x".repeat(65).as_bytes()).len(), 67);
    }
}
