//! `DeepSeek`: reasoning that must come back, or must not (D01).

use super::facts::Facts;
use super::findings::Findings;
use super::view::View;
use crate::digest::{BlockKind, Role, message_flag};

/// Checks one message; only assistant messages matter.
pub(crate) fn deepseek(view: View<'_>, facts: &Facts, out: &mut Findings) {
    if view.message.role != Role::Assistant {
        return;
    }
    let reasoning = view.message.has(message_flag::REASONING);
    let mut blocks = view.blocks.iter();
    let calls = blocks.any(|block| block.kind == BlockKind::ToolUse);
    if facts.thinking && calls && !reasoning {
        let detail = "tool calls without reasoning_content in thinking mode";
        out.error("D01", view.whole(), detail);
    }
    if facts.reasoning_forbidden && reasoning {
        let detail = "reasoning_content is there, and the model refuses it";
        out.error("D01", view.whole(), detail);
    }
}
