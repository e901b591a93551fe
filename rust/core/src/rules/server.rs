//! Server tools: call and result are one unit, across messages (A09, A10).

use std::mem::take;

use super::facts::Facts;
use super::findings::{At, Findings, Map};
use super::view::View;
use crate::digest::{BlockDigest, BlockKind, Role};

const RESULT_SUFFIX: &[u8] = b"_tool_result";
const MCP: &[u8] = b"mcp";
const MCP_PREFIX: &[u8] = b"mcp:";

/// Whether a result block's type belongs to a server tool of that name.
///
/// `tool_search_tool_bm25` is answered by `tool_search_tool_result`, `web_search` by
/// `web_search_tool_result`, and every MCP tool by `mcp_tool_result`.
fn result_fits(tool: &[u8], result_type: &[u8]) -> bool {
    let base = result_type
        .strip_suffix(RESULT_SUFFIX)
        .unwrap_or(result_type);
    if tool.starts_with(MCP_PREFIX) || base == MCP {
        return tool.starts_with(MCP_PREFIX) && base == MCP;
    }
    tool.starts_with(base)
}

/// Server calls without a result yet, and what stood in the user turn after them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerTools {
    role: Role,
    /// Calls of the newest assistant turn: id to place and name.
    open: Map<(At, u32)>,
    /// Calls of earlier turns.
    lost: Map<(At, u32)>,
    /// A user turn with more than tool results came while calls were open.
    broken: bool,
}

impl ServerTools {
    /// Calls that it remembers.
    pub(crate) fn calls(&self) -> usize {
        self.open.len() + self.lost.len()
    }

    pub(crate) fn shrink(&mut self) {
        self.open.shrink_to_fit();
        self.lost.shrink_to_fit();
    }

    pub(crate) fn feed(&mut self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        match view.message.role {
            Role::Assistant => self.assistant(view, out),
            Role::User => self.user(view, facts, out),
            _ => {}
        }
    }

    fn assistant(&mut self, view: View<'_>, out: &mut Findings) {
        if self.role != Role::Assistant {
            self.role = Role::Assistant;
            self.broken = false;
            if !self.open.is_empty() {
                self.lost.extend(take(&mut self.open));
            }
        }
        for (at, block) in view.each() {
            if block.kind == BlockKind::ServerToolUse {
                if block.id != 0 && !out.first_call(block.id) {
                    let name = view.short(block.id);
                    out.error("A08", at, format!("tool use id {name} is there twice"));
                }
                self.lost.remove(&block.id);
                self.open.insert(block.id, (at, block.name));
            } else if block.kind == BlockKind::ServerToolResult {
                self.result(at, block, view, out);
            }
        }
    }

    fn result(&mut self, at: At, block: &BlockDigest, view: View<'_>, out: &mut Findings) {
        let kind = view.string(block.name);
        let shown = |number| view.short(number);
        // Half of a unit that does not fit is treated as missing, like the other half.
        let open = self.open.remove(&block.id);
        match open.or_else(|| self.lost.remove(&block.id)) {
            None => {
                let detail = format!(
                    "{}: no server tool use {} before it",
                    shown(block.name),
                    shown(block.id)
                );
                out.error("A09", at, detail);
            }
            Some((_, name)) if !result_fits(view.string(name), kind) => {
                let detail = format!(
                    "{} does not fit the tool of {}",
                    shown(block.name),
                    shown(block.id)
                );
                out.error("A09", at, detail);
            }
            Some(_) => {}
        }
    }

    fn user(&mut self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        let first = self.role != Role::User;
        self.role = Role::User;
        if self.broken || self.open.is_empty() {
            return;
        }
        if view
            .blocks
            .iter()
            .any(|block| block.kind != BlockKind::ToolResult)
        {
            self.broken = true;
            let detail = "a server tool use is open: only tool results may follow";
            out.error("A10", view.whole(), detail);
        }
        if let (true, Some(tools)) = (first, &facts.tools) {
            self.need_tools(view, tools, out);
        }
    }

    fn need_tools(&self, view: View<'_>, tools: &[Vec<u8>], out: &mut Findings) {
        for (_, number) in self.open.values() {
            let name = view.string(*number);
            // `bash_code_execution` is a call of the tool `code_execution`.
            if !name.starts_with(MCP_PREFIX) && !tools.iter().any(|tool| name.ends_with(tool)) {
                let name = view.short(*number);
                let detail = format!("server tool {name} is open but not among the tools");
                out.error("A10", view.whole(), detail);
            }
        }
    }

    /// Reports what stays open, unless the request lets the server go on with it.
    pub(crate) fn finish(&self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        let paused = self.role == Role::Assistant && facts.resume == b"pause_turn";
        let carried = self.role == Role::User && !self.broken;
        let open = (!paused && !carried).then_some(&self.open);
        for (tool_id, (at, name)) in self.lost.iter().chain(open.into_iter().flatten()) {
            let (kind, name) = (view.short(*name), view.short(*tool_id));
            out.error("A09", *at, format!("{kind} tool use {name} has no result"));
        }
    }
}
