//! `OpenAI`'s chat form: the rules O01 to O10, and the base of all who speak it.

use super::anthropic::window;
use super::deepseek::deepseek;
use super::facts::Facts;
use super::findings::{At, Findings, Map, REQUEST, Set, empty, empty_set, short};
use super::local::Local;
use super::mistral::{Mistral, mistral_call};
use super::view::View;
use crate::digest::{BlockDigest, BlockKind, Role, block_flag, message_flag as flag};

const MAX_ID_CHARS: usize = 40;
const MAX_STRING_CHARS: u32 = 10_485_760;

/// Who speaks the chat form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Mistral,
    DeepSeek,
    Local,
}

impl Dialect {
    /// Under which rule an unpaired call is filed.
    fn pair(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Local => "O01",
            Self::Mistral => "M01",
            Self::DeepSeek => "D03",
        }
    }

    /// And a stray tool message.
    fn stray(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Local => "O02",
            Self::Mistral => "M01",
            Self::DeepSeek => "D03",
        }
    }

    fn content(self) -> &'static str {
        if self == Self::DeepSeek { "D02" } else { "O04" }
    }

    fn window(self) -> &'static str {
        if self == Self::Local { "L04" } else { "O09" }
    }
}

/// State after the messages read so far.
#[derive(Clone, Debug)]
pub(crate) struct OpenAi {
    dialect: Dialect,
    messages: u64,
    awaiting: Map<At>,
    answered: Set,
    /// The last assistant message has a `function_call`.
    legacy_call: bool,
    mistral: Mistral,
    local: Local,
}

impl OpenAi {
    pub(crate) fn start(dialect: Dialect) -> Self {
        Self {
            dialect,
            messages: 0,
            awaiting: Map::default(),
            answered: Set::default(),
            legacy_call: false,
            mistral: Mistral::default(),
            local: Local::default(),
        }
    }

    /// Calls that it remembers.
    pub(crate) fn calls(&self) -> usize {
        self.awaiting.len() + self.answered.len()
    }

    pub(crate) fn shrink(&mut self) {
        self.awaiting.shrink_to_fit();
        self.answered.shrink_to_fit();
    }

    pub(crate) fn feed(&mut self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        self.messages += 1;
        let role = view.message.role;
        if role == Role::Tool {
            self.tool(view, out);
        } else {
            self.close_group(view, out);
        }
        if role == Role::Assistant {
            self.assistant(view, out);
        } else if view.message.flags & (flag::EMPTY_CONTENT | flag::BAD_CONTENT) != 0 {
            self.no_content(view, out);
        }
        parts(view, out);
        match self.dialect {
            Dialect::Mistral => self.mistral.feed(view, out),
            Dialect::DeepSeek => deepseek(view, facts, out),
            _ => {}
        }
        let local = self.dialect == Dialect::Local;
        if local || facts.strict {
            self.local.feed(view, local, out);
        }
    }

    fn close_group(&mut self, view: View<'_>, out: &mut Findings) {
        self.report_unanswered(view, out);
        empty(&mut self.awaiting);
        empty_set(&mut self.answered);
    }

    fn report_unanswered(&self, view: View<'_>, out: &mut Findings) {
        for (tool_id, at) in &self.awaiting {
            let name = view.short(*tool_id);
            let detail = format!("tool call {name} has no tool message right after it");
            out.error(self.dialect.pair(), *at, detail);
        }
    }

    fn assistant(&mut self, view: View<'_>, out: &mut Findings) {
        self.legacy_call = view.message.has(flag::OTHER_CONTENT);
        if view.message.has(flag::EMPTY_CALLS) {
            let detail = "tool_calls is not a list with calls in it";
            out.error("O03", view.whole(), detail);
        }
        let mut calls = false;
        for (at, block) in view.each() {
            if block.kind == BlockKind::ToolUse && view.message.has(flag::OPENAI_CHAT) {
                calls = true;
                self.call(at, block, view, out);
            }
        }
        if !calls && !view.message.has(flag::OTHER_CONTENT) {
            self.no_content(view, out);
        }
    }

    fn call(&mut self, at: At, block: &BlockDigest, view: View<'_>, out: &mut Findings) {
        if block.has(block_flag::BAD_ARGUMENTS) {
            out.error("O03", at, "arguments are not a string");
        }
        if block.id == 0 || block.has(block_flag::MISSING_ID) {
            out.error("O05", at, "tool call without an id");
            return;
        }
        let name = view.string(block.id);
        if self.awaiting.contains_key(&block.id) {
            let detail = format!("tool call id {} is there twice", short(name));
            out.error("O05", at, detail);
        } else if !out.first_call(block.id) {
            let detail = format!("tool call id {} was used before", short(name));
            out.error("O05", at, detail);
        }
        if self.dialect == Dialect::Mistral {
            mistral_call(at, name, out);
        } else if name.iter().filter(|byte| **byte & 0xC0 != 0x80).count() > MAX_ID_CHARS {
            let detail = format!("tool call id {} is over 40 characters", short(name));
            out.error("O05", at, detail);
        }
        self.awaiting.insert(block.id, at);
    }

    fn no_content(&self, view: View<'_>, out: &mut Findings) {
        let (role, flags, at) = (view.message.role, view.message.flags, view.whole());
        let filed = if role == Role::Tool {
            "O07"
        } else {
            self.dialect.content()
        };
        let empty = flags & flag::EMPTY_CONTENT != 0;
        if flags & flag::BAD_CONTENT != 0 {
            out.error(filed, at, "content is neither a string nor a list");
        } else if empty && flags & flag::STRING_CONTENT == 0 {
            out.error(filed, at, "message without content");
        } else if empty && role == Role::Assistant {
            let detail = "content is an empty string".to_owned();
            out.note(filed, self.dialect == Dialect::DeepSeek, at, detail);
        }
    }

    fn tool(&mut self, view: View<'_>, out: &mut Findings) {
        if view.message.has(flag::FUNCTION_ROLE) {
            if !self.legacy_call {
                let detail = "function message without a function_call before it";
                out.error("O06", view.whole(), detail);
            }
            return;
        }
        // A tool message always is one block.
        let Some(block) = view.blocks.first() else {
            return;
        };
        let name = || view.short(block.id);
        if self.awaiting.remove(&block.id).is_some() {
            self.answered.insert(block.id);
        } else if self.answered.contains(&block.id) {
            let detail = format!("tool call {} has more than one tool message", name());
            out.error(self.dialect.pair(), view.whole(), detail);
        } else {
            let detail = format!("no tool call {} in the assistant message before", name());
            out.error(self.dialect.stray(), view.whole(), detail);
        }
        if block.flags & (block_flag::NESTED_MEDIA | block_flag::BAD_NESTED) != 0 {
            let detail = "tool message holds more than text";
            out.error("O07", view.whole(), detail);
        }
    }

    /// What only the end can tell. `view` gives the strings; its message does not matter.
    pub(crate) fn finish(&self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        if self.messages == 0 {
            out.error("O06", REQUEST, "there is no message");
        }
        self.report_unanswered(view, out);
        match self.dialect {
            Dialect::Mistral => self.mistral.finish(out),
            Dialect::Local => self.local.finish(out),
            _ => {}
        }
        window(self.dialect.window(), facts.max_tokens, facts, view, out);
    }
}

fn parts(view: View<'_>, out: &mut Findings) {
    for (at, block) in view.each() {
        if block.chars > MAX_STRING_CHARS {
            let detail = format!("string is over {MAX_STRING_CHARS} characters");
            out.error("O08", at, detail);
        }
        let own = block.kind == BlockKind::ToolUse && view.message.has(flag::OPENAI_CHAT);
        let part = matches!(
            block.kind,
            BlockKind::Text | BlockKind::Image | BlockKind::Document | BlockKind::Unknown
        );
        let foreign = view.message.role != Role::Tool && !part && !own;
        if block.has(block_flag::NOT_A_BLOCK) || foreign {
            out.error("O04", at, "not a content part of the chat form");
        }
    }
}
