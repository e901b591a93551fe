//! Local servers and strict clones: what chat templates enforce (L01 to L03, O10).

use super::findings::Findings;
use super::view::{View, signed};
use crate::digest::{Role, message_flag as flag};

/// Who spoke last. Templates that know tools take anyone after a tool message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    speaker: Role,
    started: bool,
    last: Option<i64>,
}

impl Local {
    /// `local` files under L01 and L02, else all is O10.
    pub(crate) fn feed(&mut self, view: View<'_>, local: bool, out: &mut Findings) {
        let role = view.message.role;
        if role == Role::System && self.started {
            let filed = if local { "L01" } else { "O10" };
            let detail = "system message is not the only first one";
            out.error(filed, view.whole(), detail);
        }
        if matches!(role, Role::User | Role::Assistant) {
            self.alternation(view, if local { "L02" } else { "O10" }, out);
        }
        let null = view.message.has(flag::EMPTY_CONTENT) && !view.message.has(flag::STRING_CONTENT);
        if !local && role == Role::Assistant && null {
            out.error("O10", view.whole(), "assistant content is null");
        }
        self.started = true;
        if role != Role::System {
            self.speaker = role;
            self.last = Some(signed(view.index));
        }
    }

    fn alternation(&self, view: View<'_>, filed: &'static str, out: &mut Findings) {
        let role = view.message.role;
        if self.speaker == Role::None && role == Role::Assistant {
            out.error(filed, view.whole(), "the first message is not the user's");
        } else if self.speaker == role {
            out.error(filed, view.whole(), "two messages of one side in a row");
        }
    }

    pub(crate) fn finish(&self, out: &mut Findings) {
        if let Some(last) = self.last
            && !matches!(self.speaker, Role::User | Role::Tool)
        {
            let detail = "the last message is neither user nor tool";
            out.error("L03", (last, -1), detail);
        }
    }
}
