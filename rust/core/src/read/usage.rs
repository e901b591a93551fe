//! What a response says that it cost.

use super::MessageFields;
use super::keys::message;
use crate::units::saturate;
use crate::view::{Value, ascii};

/// Tokens in the context after a response, by its usage; 0 if it says nothing.
///
/// Anthropic's four figures, of the last iteration of type `message` where there are several; else `OpenAI`'s total, or prompt
/// and completion.
pub(super) fn usage_total<V: Value>(fields: &MessageFields<V>) -> u32 {
    let given = fields.get(message::USAGE).filter(|usage| usage.is_map());
    let Some(usage) = given.and_then(Figures::of) else {
        return 0;
    };
    let iteration = usage.iterations.and_then(last_message);
    let source = iteration.filter(|item| item.size() > 0);
    let mut total = match source.map(Figures::of) {
        None => usage.input_and_output(),
        Some(figures) => figures.map_or(0, |figures| figures.input_and_output()),
    };
    if total == 0 {
        total = count(usage.total);
    }
    if total == 0 {
        total = count(usage.prompt) + count(usage.completion);
    }
    saturate(total)
}

/// The newest iteration of type `message`.
fn last_message<V: Value>(iterations: V) -> Option<V> {
    let mut found = None;
    iterations.each_item(|item| {
        let kind = if item.is_map() {
            item.get("type")
        } else {
            None
        };
        if kind.is_some_and(|kind| kind.is("message")) {
            found = Some(item);
        }
    });
    found
}

fn count<V: Value>(value: Option<V>) -> u64 {
    u64::from(value.and_then(Value::count).unwrap_or(0))
}

/// What stands under the keys that are looked for.
struct Figures<V> {
    iterations: Option<V>,
    input: [Option<V>; 4],
    total: Option<V>,
    prompt: Option<V>,
    completion: Option<V>,
}

impl<V: Value> Figures<V> {
    /// One pass over an object; `None` if that has keys that JSON does not have.
    fn of(usage: V) -> Option<Self> {
        let mut found = Self {
            iterations: None,
            input: [None; 4],
            total: None,
            prompt: None,
            completion: None,
        };
        let visited = usage.each_member(|key, value| {
            if let Some(place) = found.place(ascii(key)) {
                *place = Some(value);
            }
        });
        visited.ok().map(|()| found)
    }

    fn place(&mut self, key: &[u8]) -> Option<&mut Option<V>> {
        match key {
            b"input_tokens" => Some(&mut self.input[0]),
            b"cache_creation_input_tokens" => Some(&mut self.input[1]),
            b"cache_read_input_tokens" => Some(&mut self.input[2]),
            b"output_tokens" => Some(&mut self.input[3]),
            b"iterations" => Some(&mut self.iterations),
            b"total_tokens" => Some(&mut self.total),
            b"prompt_tokens" => Some(&mut self.prompt),
            b"completion_tokens" => Some(&mut self.completion),
            _ => None,
        }
    }

    fn input_and_output(&self) -> u64 {
        self.input.iter().map(|figure| count(*figure)).sum()
    }
}
