//! What a response says that it cost.

use super::MessageFields;
use super::keys::message;
use crate::units::saturate;
use crate::view::Value;

/// Tokens in the context after a response, by its usage; 0 if it says nothing.
///
/// Anthropic's four figures, of the last iteration of type `message` where there are several; else `OpenAI`'s total, or prompt
/// and completion.
pub(super) fn usage_total<V: Value>(fields: &MessageFields<V>) -> u32 {
    let Some(usage) = fields.get(message::USAGE).filter(|usage| usage.is_map()) else {
        return 0;
    };
    let mut iteration = None;
    if let Some(iterations) = usage.get("iterations") {
        iterations.each_item(|item| {
            let kind = if item.is_map() {
                item.get("type")
            } else {
                None
            };
            if kind.is_some_and(|kind| kind.is("message")) {
                iteration = Some(item);
            }
        });
    }
    let source = iteration.filter(|item| item.size() > 0).unwrap_or(usage);
    let count = |value: V, key: &str| u64::from(value.get(key).and_then(Value::count).unwrap_or(0));
    let keys = [
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    ];
    let mut total = keys.iter().map(|key| count(source, key)).sum();
    if total == 0 {
        total = count(usage, "total_tokens");
    }
    if total == 0 {
        total = count(usage, "prompt_tokens") + count(usage, "completion_tokens");
    }
    saturate(total)
}
