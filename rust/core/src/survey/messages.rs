//! How many messages the entries of a context are: pieces of one response are one, with the results of its calls in the next.

use super::Survey;
use crate::digest::{
    BlockDigest, BlockKind, MessageDigest, Role, block_flag, message_flag as flag,
};
use crate::units::{Map, Set};

/// Messages with any of these have parts that are no blocks of their content.
const STRANGE: u32 = flag::OPENAI_CHAT
    | flag::EMPTY_CALLS
    | flag::OTHER_CONTENT
    | flag::FUNCTION_ROLE
    | flag::BAD_CONTENT;

/// The parts of one message to be.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    all: u32,
    filled: u32,
}

impl Parts {
    fn add(&mut self, filled: bool) {
        self.all += 1;
        self.filled += u32::from(filled);
    }

    /// Several empty strings are nothing; one stays the message that it was.
    fn is_message(self) -> bool {
        self.all == 1 || self.filled > 0
    }
}

/// One response (none at the very start), and what was said to it.
#[derive(Debug, Default)]
struct Step {
    response: u32,
    said: Parts,
    heard: Parts,
}

impl Survey {
    /// How many messages a request of these entries has; `None`: one of them is of another form.
    #[must_use]
    pub fn message_count(&self) -> Option<usize> {
        let plain = |at: usize| is_plain(self.ledger.message(at), self.ledger.blocks(at));
        if self.strange || !(0..self.ledger.len()).all(plain) {
            return None;
        }
        let (mut steps, mut calls, mut answers) =
            (vec![Step::default()], Map::default(), Vec::new());
        for (at, message) in self.ledger.messages().iter().enumerate() {
            let filled = !message.has(flag::STRING_CONTENT | flag::EMPTY_CONTENT);
            let blocks = self.ledger.blocks(at);
            let nothing = usize::from(!filled && blocks.is_empty());
            if message.role == Role::Assistant {
                let own = step_for(&mut steps, message.response_id);
                (0..blocks.len() + nothing).for_each(|_| steps[own].said.add(filled));
                let used = blocks
                    .iter()
                    .filter(|block| block.kind == BlockKind::ToolUse);
                calls.extend(used.map(|block| (block.id, own)));
                continue;
            }
            if let Some(step) = steps.last_mut().filter(|_| nothing > 0) {
                step.heard.add(filled);
            }
            for block in blocks {
                // A result can stand before its call in the file, so answers wait for all calls.
                if block.kind == BlockKind::ToolResult {
                    answers.push(block.id);
                } else if let Some(step) = steps.last_mut() {
                    step.heard.add(filled);
                }
            }
        }
        answer(&mut steps, &calls, answers);
        let counts = steps.iter().map(|step| [step.said, step.heard]);
        Some(counts.flatten().filter(|parts| parts.is_message()).count())
    }
}

fn is_plain(message: &MessageDigest, blocks: &[BlockDigest]) -> bool {
    message.flags & STRANGE == 0
        && matches!(message.role, Role::User | Role::Assistant | Role::System)
        && blocks
            .iter()
            .all(|block| block.flags & block_flag::NOT_A_BLOCK == 0)
}

fn step_for(steps: &mut Vec<Step>, response: u32) -> usize {
    let same = steps.len() > 1
        && response != 0
        && steps.last().is_some_and(|step| step.response == response);
    if !same {
        steps.push(Step {
            response,
            ..Step::default()
        });
    }
    steps.len() - 1
}

/// Each result belongs to the response that called for it, once.
fn answer(steps: &mut [Step], calls: &Map<u32, usize>, answers: Vec<u32>) {
    let mut answered = Set::default();
    for id in answers {
        if let Some(&step) = calls.get(&id)
            && answered.insert(id)
        {
            steps[step].heard.add(true);
        }
    }
}
