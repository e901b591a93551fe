//! Cache markers: how many, and in which order (A17, A18).

use super::facts::Facts;
use super::findings::{At, Findings, REQUEST};
use super::view::View;
use crate::digest::{BlockDigest, BlockKind, block_flag as flag};

const MAX_MARKERS: u64 = 4;
const MARKER: u32 = flag::CACHE_5M | flag::CACHE_1H | flag::CACHE_BAD;

/// How long a marked prefix is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ttl {
    Short,
    Hour,
}

/// Markers in the order tools, system, messages. A marker of unknown TTL counts as 5m.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheMarkers {
    count: u64,
    short_seen: bool,
    /// The first marker beyond the limit.
    over: Option<At>,
    /// Of the very last block.
    last: Option<Ttl>,
}

impl CacheMarkers {
    pub(crate) fn start(facts: &Facts) -> Self {
        let fixed = facts.markers.len() + usize::from(!facts.auto_cache.is_empty());
        Self {
            count: fixed as u64,
            short_seen: facts.markers.iter().any(|ttl| ttl == b"5m"),
            ..Self::default()
        }
    }

    pub(crate) fn feed(&mut self, view: View<'_>, out: &mut Findings) {
        for (at, block) in view.each() {
            self.last = None;
            if block.flags & (MARKER | flag::NESTED_CACHE) != 0 {
                self.block(at, block, out);
            }
        }
    }

    fn block(&mut self, at: At, block: &BlockDigest, out: &mut Findings) {
        // What is inside a result comes before the result's own marker.
        if block.kind == BlockKind::ToolResult {
            self.note(at, Ttl::Hour, block.aux >> 24 & 0xFF, out);
            self.note(at, Ttl::Short, block.aux >> 16 & 0xFF, out);
        }
        if block.flags & MARKER != 0 {
            let ttl = if block.has(flag::CACHE_1H) {
                Ttl::Hour
            } else {
                Ttl::Short
            };
            self.last = Some(ttl);
            self.note(at, ttl, 1, out);
        }
    }

    fn note(&mut self, at: At, ttl: Ttl, times: u32, out: &mut Findings) {
        if times == 0 {
            return;
        }
        self.count += u64::from(times);
        if self.count > MAX_MARKERS {
            self.over.get_or_insert(at);
        }
        if ttl == Ttl::Short {
            self.short_seen = true;
        } else if self.short_seen {
            out.error("A18", at, "a 1h cache marker comes after a 5m one");
        }
    }

    pub(crate) fn finish(&self, facts: &Facts, out: &mut Findings) {
        if self.count > MAX_MARKERS {
            let detail = format!("{} cache markers, the limit is {MAX_MARKERS}", self.count);
            out.error("A17", self.over.unwrap_or(REQUEST), detail);
        }
        let short = facts.markers.iter().position(|ttl| ttl == b"5m");
        let hour = facts.markers.iter().rposition(|ttl| ttl == b"1h");
        if short.zip(hour).is_some_and(|(short, hour)| short < hour) {
            let detail = "a 1h cache marker of tools or system comes after a 5m one";
            out.error("A18", REQUEST, detail);
        }
        if facts.auto_cache == b"1h" && self.short_seen {
            let detail = "the automatic cache marker is 1h and comes after a 5m one";
            out.error("A18", REQUEST, detail);
        } else if facts.auto_cache == b"5m" && self.last == Some(Ttl::Hour) {
            let detail = "the automatic cache marker and the last block's differ";
            out.error("A18", REQUEST, detail);
        }
    }
}
