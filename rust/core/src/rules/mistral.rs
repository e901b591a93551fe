//! Mistral: what it asks beyond the chat form (M02 to M05).

use super::findings::{At, Findings, short};
use super::view::{View, signed};
use crate::digest::{Role, message_flag};

const ID_CHARS: usize = 9;

/// The role before, and whether anyone but the system has spoken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mistral {
    role: Role,
    last: Option<i64>,
    prefix: bool,
}

impl Mistral {
    pub(crate) fn feed(&mut self, view: View<'_>, out: &mut Findings) {
        let role = view.message.role;
        if self.role == Role::Tool && !matches!(role, Role::Assistant | Role::Tool) {
            let detail = "only assistant or tool may follow a tool message";
            out.error("M02", view.whole(), detail);
        }
        if role == Role::System && self.role != Role::None {
            out.error(
                "M05",
                view.whole(),
                "system message is not the only first one",
            );
        }
        self.role = role;
        self.last = Some(signed(view.index));
        self.prefix = view.message.has(message_flag::PREFIX);
    }

    pub(crate) fn finish(&self, out: &mut Findings) {
        if let Some(last) = self.last
            && !self.prefix
            && !matches!(self.role, Role::User | Role::Tool)
        {
            let detail = "the last message is neither user nor tool nor a prefix";
            out.error("M04", (last, -1), detail);
        }
    }
}

/// M03: exactly nine letters or digits.
pub(crate) fn mistral_call(at: At, name: &[u8], out: &mut Findings) {
    if name.len() != ID_CHARS || !name.iter().all(u8::is_ascii_alphanumeric) {
        let detail = format!("tool call id {} is not 9 letters or digits", short(name));
        out.error("M03", at, detail);
    }
}
