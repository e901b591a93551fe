//! Blocks with rules of their own: compaction, citations, fallback, tool changes (A25, A27, A28, A31).

use super::blocks::{is_thought, kind_name};
use super::facts::Facts;
use super::findings::{At, Findings, Map, Set, empty};
use super::view::View;
use crate::digest::{BlockDigest, BlockKind as Kind, Role, block_flag as flag};

/// `aux` of a tool change that defines its tool.
const BY_DEFINITION: u32 = 3;
const OF_SERVER: u32 = 4;

/// State over the request for the rarer kinds of blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Special {
    role: Role,
    /// A message was read.
    begun: bool,
    /// Compaction blocks with content.
    compactions: u64,
    cited: bool,
    uncited: bool,
    /// What may not stand before the turn's last fallback block.
    hop: Vec<(Kind, At)>,
    /// Server calls open in the turn.
    calls: Map<At>,
    /// Tools that the conversation itself defined.
    defined: Set,
}

impl Special {
    /// Blocks and names that it remembers.
    pub(crate) fn calls(&self) -> usize {
        self.hop.len() + self.calls.len() + self.defined.len()
    }

    pub(crate) fn shrink(&mut self) {
        self.calls.shrink_to_fit();
        self.defined.shrink_to_fit();
    }

    pub(crate) fn feed(&mut self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        let role = view.message.role;
        if role != self.role {
            self.role = role;
            self.hop.clear();
            empty(&mut self.calls);
        }
        for (at, block) in view.each() {
            self.block(at, block, view, facts, out);
        }
        self.begun = true;
    }

    fn block(
        &mut self,
        at: At,
        block: &BlockDigest,
        view: View<'_>,
        facts: &Facts,
        out: &mut Findings,
    ) {
        if block.kind == Kind::Compaction {
            self.compaction(at, block, facts, out);
        } else if block.kind == Kind::ToolChange {
            self.tool_change(at, block, view, facts, out);
        } else if self.role == Role::Assistant {
            self.hop(at, block, out);
            if block.kind == Kind::ToolUse && facts.tool_changes {
                self.called(at, block, view, facts, out);
            }
        }
        if block.flags & (flag::CITATIONS_ON | flag::CITATIONS_OFF) != 0 {
            self.citations(at, block, out);
        }
    }

    fn compaction(&mut self, at: At, block: &BlockDigest, facts: &Facts, out: &mut Findings) {
        if block.has(flag::EMPTY_TEXT) {
            out.error("A25", at, "compaction block with empty content");
        }
        if block.flags & (flag::NULL_CONTENT | flag::EMPTY_TEXT) != 0 {
            return;
        }
        self.compactions += 1;
        // Signed blocks come from on-demand compaction; the older automatic one ignores what is before.
        if !block.has(flag::HAS_SIGNATURE) && facts.compact_beta != Some(true) {
            return;
        }
        if self.compactions > 1 {
            out.error("A25", at, "more than one compaction block with content");
        } else if self.begun || at.1 != 0 {
            let detail = "compaction block is not the first block of the conversation";
            out.error("A25", at, detail);
        }
        if facts.compact_beta == Some(false) {
            let detail = "signed compaction block without the header compact-2026-09-04";
            out.error("A25", at, detail);
        }
        if facts.compact_edit {
            let detail = "signed compaction block together with a compact edit";
            out.error("A25", at, detail);
        }
    }

    fn citations(&mut self, at: At, block: &BlockDigest, out: &mut Findings) {
        if !matches!(block.kind, Kind::SearchResult | Kind::ToolResult) {
            return;
        }
        let mixed = self.cited && self.uncited;
        self.cited |= block.has(flag::CITATIONS_ON);
        self.uncited |= block.has(flag::CITATIONS_OFF);
        if self.cited && self.uncited && !mixed {
            let detail = "search results with and without citations in one request";
            out.error("A27", at, detail);
        }
    }

    fn hop(&mut self, at: At, block: &BlockDigest, out: &mut Findings) {
        match block.kind {
            Kind::Fallback => self.fallback(out),
            Kind::ServerToolUse => {
                self.calls.insert(block.id, at);
            }
            Kind::ServerToolResult => {
                self.calls.remove(&block.id);
            }
            kind if is_thought(kind) || kind == Kind::ToolUse => self.hop.push((kind, at)),
            _ => {}
        }
    }

    fn fallback(&mut self, out: &mut Findings) {
        let calls = self.calls.drain().map(|(_, at)| (Kind::ServerToolUse, at));
        for (kind, at) in self.hop.drain(..).chain(calls) {
            let detail = format!("{} block before the fallback block", kind_name(kind));
            out.error("A28", at, detail);
        }
    }

    fn given(&self, block: &BlockDigest, view: View<'_>, facts: &Facts) -> bool {
        self.defined.contains(&block.name) || facts.has_tool(view.string(block.name))
    }

    fn called(
        &self,
        at: At,
        block: &BlockDigest,
        view: View<'_>,
        facts: &Facts,
        out: &mut Findings,
    ) {
        if facts.tools.is_some() && !self.given(block, view, facts) {
            let detail = format!("tool {} is called but not there", view.short(block.name));
            out.error("A31", at, detail);
        }
    }

    fn tool_change(
        &mut self,
        at: At,
        block: &BlockDigest,
        view: View<'_>,
        facts: &Facts,
        out: &mut Findings,
    ) {
        if block.aux == OF_SERVER {
            return; // what a server holds is not in the request
        }
        let given = self.given(block, view, facts);
        if block.aux == BY_DEFINITION {
            if given {
                let detail = format!("tool {} is defined twice", view.short(block.name));
                out.error("A31", at, detail);
            }
            self.defined.insert(block.name);
        } else if !given && facts.tools.is_some() {
            let detail = format!(
                "tool {} is neither in tools nor defined before",
                view.short(block.name)
            );
            out.error("A31", at, detail);
        }
    }
}
