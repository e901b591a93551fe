//! What each level would free if it acted now.

use super::{Found, Survey};
use crate::digest::block_flag as flag;
use crate::units::Map;
use crate::window::{Enough, keep_window};

/// Settings of the levels, in characters where nothing else is said.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Results that are longer move to a file.
    pub max_result: u64,
    /// What stays of them.
    pub preview: u64,
    /// Results that are longer lose their middle.
    pub snip_max: u64,
    /// What stays of them.
    pub snip_kept: u64,
    /// The newest results that are not cleared; 0: none is.
    pub keep_recent: usize,
    /// A longer text is no marker.
    pub longest_marker: u64,
    /// What is kept verbatim next to a summary.
    pub enough: Enough,
}

/// Tokens, and the number of blocks (of a summary: messages).
pub type Freed = (i128, usize);

impl Survey {
    /// The tools whose calls were answered, each once, in the order of their first results: string numbers of the ledger.
    #[must_use]
    pub fn result_tools(&self) -> Vec<u32> {
        let mut seen = Map::default();
        let results = self.results();
        let new = results.filter(|found| seen.insert(found.tool, ()).is_none());
        new.map(|found| found.tool).collect()
    }

    /// What the budget, snip, microcompact and a summary would free; `unlimited` and `clearable` are of the tools of
    /// [`Survey::result_tools`].
    #[must_use]
    pub fn freeable(&self, limits: &Limits, unlimited: &[bool], clearable: &[bool]) -> [Freed; 4] {
        let tools = self.result_tools().into_iter().enumerate();
        let places: Map<u32, usize> = tools.map(|(place, tool)| (tool, place)).collect();
        let is = |flags: &[bool], found: &Found| {
            flags.get(places[&found.tool]).is_some_and(|flag| *flag)
        };
        let large = self.results().filter(|found| !is(unlimited, found));
        let able: Vec<Found> = self
            .results()
            .filter(|found| is(clearable, found))
            .collect();
        [
            longer(large, limits.max_result, limits.preview),
            longer(self.results(), limits.snip_max, limits.snip_kept),
            cleared(&able, limits),
            self.summarized(limits),
        ]
    }

    fn summarized(&self, limits: &Limits) -> Freed {
        let kept = keep_window(self.ledger(), self.ledger().len(), 0, &limits.enough);
        (i128::from(self.ledger().tokens(0, kept.start)), kept.start)
    }
}

fn longer(results: impl Iterator<Item = Found>, most: u64, kept: u64) -> Freed {
    let long = results.filter(|found| u64::from(found.chars) > most);
    long.fold((0, 0), |(tokens, places), found| {
        let (whole, chars) = (i128::from(found.tokens), i128::from(found.chars));
        (
            tokens + (whole * (chars - i128::from(kept))).div_euclid(chars),
            places + 1,
        )
    })
}

fn cleared(able: &[Found], limits: &Limits) -> Freed {
    let old = if limits.keep_recent == 0 {
        0
    } else {
        able.len().saturating_sub(limits.keep_recent)
    };
    let marker = |found: &&Found| {
        found.flags & (flag::CLEARED | flag::OFFLOADED) != 0
            && u64::from(found.chars) <= limits.longest_marker
    };
    let old = able[..old].iter().filter(|found| !marker(found));
    old.fold((0, 0), |(tokens, places), found| {
        (tokens + i128::from(found.tokens), places + 1)
    })
}
