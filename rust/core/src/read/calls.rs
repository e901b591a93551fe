//! `OpenAI`'s tool calls, which are in a field next to the content.

use super::draft::{Draft, Tools};
use super::path::Path;
use crate::digest::{BlockDigest, BlockKind, block_flag};
use crate::error::Error;
use crate::view::Value;

/// One of `OpenAI`'s `tool_calls`, of type function or custom, or flat as other tools store it.
pub(super) fn read_call<V: Value>(
    call: V,
    field: Path<'_>,
    tools: &mut Tools<'_>,
) -> Result<BlockDigest, Error> {
    let mut draft = Draft::new(BlockKind::ToolUse, tools);
    if !call.is_map() {
        draft.digest.flags |= block_flag::NOT_A_BLOCK | block_flag::MISSING_ID;
        draft.meter.json(call, field)?;
        return Ok(draft.finish());
    }
    draft.set_id(call.get("id"));
    let nested = ["function", "custom"].into_iter().find_map(|key| {
        let body = call.get(key).filter(|body| body.is_map())?;
        Some((key, body))
    });
    let inner = nested.map_or(field, |(key, _)| Path::Key(&field, key));
    let body = nested.map_or(call, |(_, body)| body);
    draft.set_name(body.get("name"), "");
    draft
        .meter
        .either(body.get("name"), Path::Key(&inner, "name"))?;
    let key = if body.get("arguments").is_some() {
        "arguments"
    } else {
        "input"
    };
    let arguments = body.get(key);
    if !arguments.is_some_and(Value::is_text) {
        draft.digest.flags |= block_flag::BAD_ARGUMENTS;
    }
    draft.meter.either(arguments, Path::Key(&inner, key))?;
    Ok(draft.finish())
}
