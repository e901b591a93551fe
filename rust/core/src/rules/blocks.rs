//! What each message and block must be by itself (A02 to A04, A13, A19, A20, A32).

use super::facts::Facts;
use super::findings::{At, Findings};
use super::view::{View, signed};
use crate::digest::{
    BlockDigest, BlockKind as Kind, Role, block_flag as flag, block_more, message_flag,
};

const BLANK: u32 = flag::EMPTY_TEXT | flag::BLANK_TEXT;
const MARKED: u32 = flag::CACHE_5M | flag::CACHE_1H | flag::CACHE_BAD;
/// The API version that refuses documents of the assistant, citations of the user and sampling.
pub(crate) const STRICT_VERSION: u64 = 20_261_021;
const EMPTY: &str = "content is empty";
/// Blocks that are known to stand in assistant messages but need no rule of their own.
const PASSIVE_TYPES: [&[u8]; 2] = [b"mcp_tool_listing", b"connector_text"];

pub(crate) fn is_thought(kind: Kind) -> bool {
    matches!(kind, Kind::Thinking | Kind::RedactedThinking)
}

fn allowed(role: Role, kind: Kind) -> bool {
    match role {
        Role::User => matches!(
            kind,
            Kind::Text
                | Kind::Image
                | Kind::Document
                | Kind::SearchResult
                | Kind::ToolResult
                | Kind::ContainerUpload
        ),
        // A document only until the strict version: A20.
        Role::Assistant => matches!(
            kind,
            Kind::Text
                | Kind::ToolUse
                | Kind::Thinking
                | Kind::RedactedThinking
                | Kind::Document
                | Kind::ServerToolUse
                | Kind::ServerToolResult
                | Kind::Compaction
                | Kind::Fallback
        ),
        Role::System => matches!(kind, Kind::Text | Kind::ToolChange),
        Role::Tool | Role::None => true,
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        _ => "system",
    }
}

pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::ToolUse => "tool_use",
        Kind::ToolResult => "tool_result",
        Kind::Thinking => "thinking",
        Kind::RedactedThinking => "redacted_thinking",
        Kind::Image => "image",
        Kind::Document => "document",
        Kind::ServerToolUse => "server_tool_use",
        Kind::ServerToolResult => "server tool result",
        Kind::SearchResult => "search_result",
        Kind::ContainerUpload => "container_upload",
        Kind::Compaction => "compaction",
        Kind::Fallback => "fallback",
        Kind::ToolChange => "tool change",
        Kind::Unknown => "unknown",
    }
}

/// Checks one message at a time; only emptiness of the last one depends on what follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    /// An empty assistant message, legal as the last one where prefill is.
    held: Option<i64>,
}

impl Blocks {
    pub(crate) fn feed(&mut self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        // The held message was not the last: its emptiness counts.
        if let Some(index) = self.held.take() {
            out.error("A02", (index, -1), EMPTY);
        }
        self.content(view, out);
        if view.message.has(message_flag::UNKNOWN_KEYS) {
            let detail = "message has keys that the API does not know";
            out.error("A04", view.whole(), detail);
        }
        for (at, found) in view.each() {
            block(at, found, view, facts, out);
        }
    }

    pub(crate) fn finish(&self, facts: &Facts, out: &mut Findings) {
        if let (Some(index), false) = (self.held, facts.prefill_ok) {
            out.error("A02", (index, -1), EMPTY);
        }
    }

    fn content(&mut self, view: View<'_>, out: &mut Findings) {
        let (flags, role) = (view.message.flags, view.message.role);
        if flags & message_flag::BAD_CONTENT != 0 {
            let detail = "content is neither a string nor a list";
            out.error("A02", view.whole(), detail);
        } else if flags & (message_flag::EMPTY_CONTENT | message_flag::BLANK_CONTENT) != 0 {
            if role == Role::Assistant {
                self.held = Some(signed(view.index));
            } else if role != Role::System || flags & message_flag::BLANK_CONTENT != 0 {
                out.error("A02", view.whole(), EMPTY);
            }
        }
    }
}

fn block(at: At, block: &BlockDigest, view: View<'_>, facts: &Facts, out: &mut Findings) {
    let (kind, flags) = (block.kind, block.flags);
    let blank = kind == Kind::Text && flags & BLANK != 0;
    if flags & flag::NOT_A_BLOCK != 0 {
        out.error("A03", at, "not a content block");
        return;
    }
    if blank && !view.message.has(message_flag::STRING_CONTENT) {
        out.error("A02", at, "text is blank");
    }
    if u32::from(block.more) & block_more::NESTED_BLANK != 0 {
        let detail = format!("text inside a {} block is blank", kind_name(kind));
        out.error("A02", at, detail);
    }
    check_kind(at, block, view, out);
    if flags & flag::UNKNOWN_KEYS != 0 {
        let detail = format!(
            "{} block has keys that the API does not know",
            kind_name(kind)
        );
        out.error("A04", at, detail);
    }
    if is_thought(kind) && flags & flag::HAS_SIGNATURE == 0 {
        let detail = format!("{} block without its signature or data", kind_name(kind));
        out.error("A13", at, detail);
    }
    if flags & MARKED != 0 && (is_thought(kind) || blank) {
        out.error("A19", at, "cache_control on thinking or on blank text");
    }
    if flags & (flag::CACHE_BAD | flag::CACHE_EDIT) != 0 {
        let detail = "cache_control or cache edit of a form that the API does not take";
        out.error("A32", at, detail);
    }
    if facts.version >= STRICT_VERSION {
        strict(at, view.message.role, block, out);
    }
}

fn check_kind(at: At, block: &BlockDigest, view: View<'_>, out: &mut Findings) {
    let role = view.message.role;
    // A digest names the type of such a block only if it is not the kind's own.
    let own = matches!(block.kind, Kind::Text | Kind::Image | Kind::Document);
    if own && block.name != 0 {
        let name = view.short(block.name);
        out.error("A03", at, format!("{name} is a block type of another API"));
    } else if block.kind == Kind::Unknown {
        let name = view.string(block.name);
        if !PASSIVE_TYPES.contains(&name) && !block.has(flag::CACHE_EDIT) {
            let detail = format!(
                "block type {} is unknown to the API",
                view.short(block.name)
            );
            out.error("A03", at, detail);
        }
    } else if !allowed(role, block.kind) {
        let detail = format!(
            "{} block in a message of the {}",
            kind_name(block.kind),
            role_name(role)
        );
        out.error("A03", at, detail);
    }
    if block.has(flag::BAD_NESTED) {
        out.error("A03", at, "tool result holds what it may not");
    }
}

fn strict(at: At, role: Role, block: &BlockDigest, out: &mut Findings) {
    if role == Role::Assistant && block.kind == Kind::Document {
        out.error("A20", at, "document block in an assistant message");
    }
    if role == Role::User && block.has(flag::HAS_CITATIONS) {
        out.error("A20", at, "citations in a user message");
    }
}
