//! Who may speak where (A01, A11, A12, A29).

use super::facts::Facts;
use super::findings::{Findings, REQUEST};
use super::view::{View, signed};
use crate::digest::{BlockKind, Role, block_flag, message_flag as flag};

const MAX_MESSAGES: u64 = 100_000;

/// The last turn that counts, and the system message that waits for what follows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    messages: u64,
    role: Role,
    /// Index of the last message that is no system message.
    last: i64,
    /// First system message of the run that is last.
    system: Option<i64>,
    /// The last assistant block is a server tool's result.
    after_server_result: bool,
    trailing_space: bool,
    /// First place where roles do not alternate.
    uneven: Option<i64>,
    uneven_places: u64,
}

impl Placement {
    pub(crate) fn feed(&mut self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        self.messages += 1;
        let role = view.message.role;
        if role != Role::Tool && view.message.has(flag::OPENAI_CHAT) {
            out.error("A01", view.whole(), "message of the chat form");
        }
        match role {
            Role::System => return self.system_message(view, facts, out),
            Role::User | Role::Assistant => {}
            Role::Tool | Role::None => {
                return out.error("A01", view.whole(), "role is not user, assistant or system");
            }
        }
        if let (Some(system), Role::User) = (self.system, role) {
            let detail = "system message is followed by a user message";
            out.error("A12", (system, -1), detail);
        }
        self.alternation(signed(view.index), role);
        self.role = role;
        self.system = None;
        self.last = signed(view.index);
        let last = view.blocks.last();
        self.after_server_result =
            last.is_some_and(|block| block.kind == BlockKind::ServerToolResult);
        self.trailing_space = last.is_some_and(|block| block.has(block_flag::TRAILING_SPACE));
    }

    fn alternation(&mut self, index: i64, role: Role) {
        let first_assistant = self.role == Role::None && role == Role::Assistant;
        if first_assistant || (self.role == role && self.system.is_none()) {
            self.uneven.get_or_insert(index);
            self.uneven_places += 1;
        }
    }

    fn system_message(&mut self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        let empty = view.message.has(flag::EMPTY_CONTENT);
        if empty && view.message.has(flag::OUTPUT_CONFIG) {
            return; // sets the effort only: may stand anywhere
        }
        let fresh = self.system.is_none();
        let detail = if empty {
            "system message with neither content nor output_config"
        } else if !facts.mid_system_ok {
            "the model takes no system messages inside the conversation"
        } else if fresh && self.role == Role::None {
            "system message is first"
        } else if fresh && self.role == Role::Assistant && !self.after_server_result {
            "system message follows an assistant message"
        } else {
            ""
        };
        if !detail.is_empty() {
            out.error("A12", view.whole(), detail);
        }
        self.system.get_or_insert(signed(view.index));
    }

    pub(crate) fn finish(&self, facts: &Facts, out: &mut Findings) {
        if self.messages == 0 {
            out.error("A01", REQUEST, "there is no message");
        }
        if self.messages > MAX_MESSAGES {
            let detail = format!("{} messages, the limit is {MAX_MESSAGES}", self.messages);
            out.error("A01", REQUEST, detail);
        }
        if self.role == Role::Assistant && self.system.is_none() {
            self.last_word(facts, out);
        }
        if let Some(index) = self.uneven {
            let detail = format!(
                "roles do not alternate from user in {} places",
                self.uneven_places
            );
            out.note("A29", facts.alternation, (index, -1), detail);
        }
    }

    fn last_word(&self, facts: &Facts, out: &mut Findings) {
        if facts.resume == b"pause_turn" || facts.resume == b"compaction" {
            return;
        }
        let at = (self.last, -1);
        if !facts.prefill_ok {
            out.error("A11", at, "the last message is an assistant message");
        } else if self.trailing_space {
            out.error("A11", at, "the last assistant message ends in white space");
        }
    }
}
