//! Client tools: every call answered once, at once and first (A05 to A08).

use super::findings::{At, Findings, Map, Set, empty, empty_set};
use super::view::View;
use crate::digest::{BlockDigest, BlockKind, Role, block_flag as flag};

/// String number of "no id".
const UNNAMED: u32 = 0;

/// State of the tool loop. A turn is a run of messages of one role: the API merges them.
///
/// A system message between call and result is placement's business (A12): it neither closes
/// the loop nor opens a new user turn here, so that one fault is not reported as many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairing {
    role: Role,
    awaiting: Map<At>,
    answered: Set,
    /// The user turn has a block that is no result.
    other: bool,
}

impl Pairing {
    /// Calls that it remembers.
    pub(crate) fn calls(&self) -> usize {
        self.awaiting.len() + self.answered.len()
    }

    pub(crate) fn shrink(&mut self) {
        self.awaiting.shrink_to_fit();
        self.answered.shrink_to_fit();
    }

    pub(crate) fn feed(&mut self, view: View<'_>, out: &mut Findings) {
        match view.message.role {
            Role::Assistant => self.assistant(view, out),
            Role::User => self.user(view, out),
            _ => {}
        }
    }

    fn assistant(&mut self, view: View<'_>, out: &mut Findings) {
        if self.role != Role::Assistant {
            self.report_unanswered(view, out);
            empty(&mut self.awaiting);
            empty_set(&mut self.answered);
            self.role = Role::Assistant;
        }
        for (at, block) in view.each() {
            if block.kind == BlockKind::ToolUse {
                self.call(at, block, view, out);
            }
        }
    }

    fn call(&mut self, at: At, block: &BlockDigest, view: View<'_>, out: &mut Findings) {
        if block.has(flag::INPUT_NOT_OBJECT) {
            out.error("A08", at, "tool use input is not an object");
        }
        if block.id == UNNAMED || block.has(flag::MISSING_ID) {
            out.error("A08", at, "tool use without an id");
            return;
        }
        let name = || view.short(block.id);
        if block.has(flag::BAD_ID) {
            let detail = format!(
                "tool use id {} has characters other than A-Z a-z 0-9 _ -",
                name()
            );
            out.error("A08", at, detail);
        }
        if !out.first_call(block.id) {
            out.error("A08", at, format!("tool use id {} is there twice", name()));
        }
        self.awaiting.insert(block.id, at);
    }

    fn user(&mut self, view: View<'_>, out: &mut Findings) {
        if self.role != Role::User {
            self.other = false;
            self.role = Role::User;
        }
        for (at, block) in view.each() {
            if block.kind == BlockKind::ToolResult {
                self.result(at, block, view, out);
            } else {
                self.other = true;
            }
        }
    }

    fn result(&mut self, at: At, block: &BlockDigest, view: View<'_>, out: &mut Findings) {
        let name = || view.short(block.id);
        if self.awaiting.remove(&block.id).is_some() {
            self.answered.insert(block.id);
            if self.other {
                let detail = format!("result of {} comes after other content", name());
                out.error("A07", at, detail);
            }
        } else if self.answered.contains(&block.id) {
            let detail = format!("tool use {} has more than one result", name());
            out.error("A05", at, detail);
        } else if block.id == UNNAMED {
            out.error("A06", at, "tool result without a tool_use_id");
        } else {
            let detail = format!("no tool use {} in the assistant turn just before", name());
            out.error("A06", at, detail);
        }
    }

    /// The loop ends here: what is still open stays without a result.
    pub(crate) fn report_unanswered(&self, view: View<'_>, out: &mut Findings) {
        for (tool_id, at) in &self.awaiting {
            let name = view.short(*tool_id);
            let detail = format!("tool use {name} has no result in the next message");
            out.error("A05", *at, detail);
        }
    }
}
