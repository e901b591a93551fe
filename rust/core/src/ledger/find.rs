//! Where something stands: calls, results, pieces of a response, boundaries.

use super::{Ledger, Place};
use crate::digest::{BlockKind, Role, message_flag};
use crate::units::saturate_len;

impl Ledger {
    /// Places of the calls with this id (a string number), oldest first.
    #[must_use]
    pub fn calls_of(&self, id: u32) -> &[Place] {
        self.calls.of(id)
    }

    /// Places of the results with this id, oldest first.
    #[must_use]
    pub fn results_of(&self, id: u32) -> &[Place] {
        self.results.of(id)
    }

    /// Messages that are pieces of one response, oldest first.
    #[must_use]
    pub fn pieces_of(&self, response_id: u32) -> &[Place] {
        self.responses.of(response_id)
    }

    /// The newest call with this id.
    #[must_use]
    pub fn find_call(&self, id: &[u8]) -> Option<Place> {
        let number = self.strings.find(id).filter(|number| *number != 0)?;
        self.calls_of(number).last().copied()
    }

    /// The newest result for this id.
    #[must_use]
    pub fn find_result(&self, id: &[u8]) -> Option<Place> {
        let number = self.strings.find(id).filter(|number| *number != 0)?;
        self.results_of(number).last().copied()
    }

    /// Client tool calls that no later result answers, in order.
    #[must_use]
    pub fn open_calls(&self) -> Vec<Place> {
        let mut open = Vec::new();
        for index in 0..self.len() {
            for (block, digest) in self.blocks(index).iter().enumerate() {
                let place = (saturate_len(index), saturate_len(block));
                let answered = self
                    .results_of(digest.id)
                    .last()
                    .is_some_and(|result| *result > place);
                if digest.kind == BlockKind::ToolUse && !answered {
                    open.push(place);
                }
            }
        }
        open
    }

    /// User and tool messages with an image or document, also inside a tool result.
    #[must_use]
    pub fn media_indices(&self) -> Vec<usize> {
        let holds = |index: &usize| {
            let message = self.message(*index);
            message.has(message_flag::HAS_MEDIA) && matches!(message.role, Role::User | Role::Tool)
        };
        (0..self.len()).filter(holds).collect()
    }

    /// The newest boundary.
    #[must_use]
    pub fn last_boundary(&self) -> Option<u32> {
        self.boundaries.last().copied()
    }

    /// Whether a message belongs to no round: metadata, or another thread than the first message.
    ///
    /// In an agent's own transcript every line is a sidechain; there none of them stands aside.
    #[must_use]
    pub fn aside(&self, index: usize) -> bool {
        let message = &self.messages[index];
        let own = self
            .speaker
            .map_or(0, |at| self.messages[at as usize].flags);
        message.role == Role::None || (message.flags ^ own) & message_flag::SIDECHAIN != 0
    }
}
