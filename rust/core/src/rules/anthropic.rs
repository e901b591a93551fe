//! Anthropic's Messages API: the rules A01 to A32, as far as digests and facts can tell.
//!
//! What needs the messages themselves (equality with the original, prefix hashes) is done over
//! them, in Python.

use super::blocks::{Blocks, STRICT_VERSION, is_thought};
use super::cache::CacheMarkers;
use super::facts::Facts;
use super::findings::{At, Findings, REQUEST};
use super::media::Media;
use super::pairing::Pairing;
use super::placement::Placement;
use super::server::ServerTools;
use super::special::Special;
use super::view::View;
use crate::digest::{BlockKind, Role};

/// The current turn: all since the last user turn without any tool result (A14).
#[derive(Clone, Debug, Default)]
struct Loop {
    role: Role,
    /// The newest user turn holds a tool result.
    answered: bool,
    /// First assistant block of the turn.
    first: Option<At>,
    /// And it is thinking.
    thought: bool,
}

impl Loop {
    fn feed(&mut self, view: View<'_>) {
        match view.message.role {
            Role::User => {
                let mut kinds = view.blocks.iter().map(|block| block.kind);
                let results = kinds.any(|kind| kind == BlockKind::ToolResult);
                self.answered = results || (self.answered && self.role == Role::User);
                self.role = Role::User;
            }
            Role::Assistant => {
                if self.role == Role::User && !self.answered {
                    self.first = None;
                }
                self.role = Role::Assistant;
                if let (None, Some(block)) = (self.first, view.blocks.first()) {
                    self.first = Some(view.at(0));
                    self.thought = is_thought(block.kind);
                }
            }
            _ => {}
        }
    }

    fn finish(&self, facts: &Facts, out: &mut Findings) {
        let open = self.role == Role::User && self.answered;
        if let (true, true, false, Some(at)) =
            (facts.manual_thinking, open, self.thought, self.first)
        {
            out.error("A14", at, "the open turn does not begin with thinking");
        }
    }
}

/// State after the messages read so far: small, so that it can be kept as a checkpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anthropic {
    markers: CacheMarkers,
    pairing: Pairing,
    server: ServerTools,
    placement: Placement,
    blocks: Blocks,
    media: Media,
    special: Special,
    current: Loop,
    tool_blocks: bool,
}

impl Anthropic {
    pub(crate) fn start(facts: &Facts) -> Self {
        Self {
            markers: CacheMarkers::start(facts),
            ..Self::default()
        }
    }

    /// Calls, blocks and names that it remembers.
    pub(crate) fn calls(&self) -> usize {
        self.pairing.calls() + self.server.calls() + self.special.calls()
    }

    pub(crate) fn shrink(&mut self) {
        self.pairing.shrink();
        self.server.shrink();
        self.special.shrink();
    }

    pub(crate) fn feed(&mut self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        self.placement.feed(view, facts, out);
        self.blocks.feed(view, facts, out);
        self.pairing.feed(view, out);
        self.server.feed(view, facts, out);
        self.markers.feed(view, out);
        self.media.feed(view, facts, out);
        self.special.feed(view, facts, out);
        self.current.feed(view);
        self.tool_blocks |= view
            .blocks
            .iter()
            .any(|block| matches!(block.kind, BlockKind::ToolUse | BlockKind::ToolResult));
    }

    /// What only the end can tell. `view` gives the strings; its message does not matter.
    pub(crate) fn finish(&self, view: View<'_>, facts: &Facts, out: &mut Findings) {
        self.placement.finish(facts, out);
        self.blocks.finish(facts, out);
        self.pairing.report_unanswered(view, out);
        self.server.finish(view, facts, out);
        self.markers.finish(facts, out);
        self.media.finish(facts, out);
        self.current.finish(facts, out);
        if facts.sampling && facts.version >= STRICT_VERSION {
            out.error("A20", REQUEST, "temperature, top_p or top_k is present");
        }
        if self.tool_blocks && facts.tools.as_ref().is_some_and(Vec::is_empty) {
            let detail = "tool blocks in the messages, but no tools in the request".to_owned();
            out.note("A30", facts.tools_required, REQUEST, detail);
        }
        size(facts, view, out);
    }
}

/// Bytes and tokens of the whole request (A23, A24).
fn size(facts: &Facts, view: View<'_>, out: &mut Findings) {
    if facts.body_bytes > facts.body_limit {
        let detail = format!(
            "{} bytes, the limit is {}",
            facts.body_bytes, facts.body_limit
        );
        out.error("A23", REQUEST, detail);
    }
    if facts.max_output > 0 && facts.max_tokens > facts.max_output {
        let detail = format!(
            "max_tokens {}, the model's limit is {}",
            facts.max_tokens, facts.max_output
        );
        out.error("A24", REQUEST, detail);
    }
    let output = if facts.output_in_window {
        facts.max_tokens
    } else {
        0
    };
    window("A24", output, facts, view, out);
}

/// Tokens of the whole request against the window, if that is known.
pub(crate) fn window(
    rule: &'static str,
    output: u64,
    facts: &Facts,
    view: View<'_>,
    out: &mut Findings,
) {
    let messages = view.ledger.tokens(0, view.ledger.len());
    // Each fact is below 2^63: the sum is taken where it cannot overflow.
    let tokens = u128::from(facts.fixed_tokens) + u128::from(messages) + u128::from(output);
    if facts.window > 0 && tokens > u128::from(facts.window) {
        let detail = format!("about {tokens} tokens, the window is {}", facts.window);
        out.error(rule, REQUEST, detail);
    }
}
