//! One content block → its digest.

use super::draft::{Draft, Tools, text_flags};
use super::keys::{Fields, bits, block};
use super::kinds::{kind_of, known_keys, own_type};
use super::path::Path;
use super::results::{NESTED_BLANK, read_tool_result};
use super::sources;
use crate::digest::{BlockDigest, BlockKind, block_flag as flag};
use crate::error::Error;
use crate::view::{Kind, Value, equals, is_blank, with_utf8};

pub(super) type BlockFields<V> = Fields<V, 39>;

/// Keys of which no flag speaks, on kinds that may have them.
const PLAIN: u64 = bits(&[
    block::TYPE,
    block::TEXT,
    block::ID,
    block::NAME,
    block::INPUT,
    block::TOOL_USE_ID,
    block::CONTENT,
    block::IS_ERROR,
]);

/// Digests one item of a content list; what is no block at all is counted as its JSON.
pub(super) fn read_block<V: Value>(
    value: V,
    field: Path<'_>,
    tools: &mut Tools<'_>,
    fields: &mut BlockFields<V>,
) -> Result<BlockDigest, Error> {
    block::fill(fields, value);
    let Some(name) = fields.text(block::TYPE).filter(|_| value.is_map()) else {
        let mut draft = Draft::new(BlockKind::Unknown, tools);
        draft.digest.flags |= flag::NOT_A_BLOCK;
        draft.meter.json(value, field)?;
        return Ok(draft.finish());
    };
    let kind = name.with_text(|text| with_utf8(text, kind_of));
    let mut draft = Draft::new(kind, tools);
    // Of an unknown kind the type alone may mean something.
    if kind == BlockKind::Unknown || fields.beyond(PLAIN & known_keys(kind)) {
        draft.digest.flags |= common_flags(fields, kind, name);
    }
    if own_type(kind).is_some_and(|own| !name.is(own)) {
        draft.set_name(Some(name), "");
    }
    read_kind(&mut draft, value, fields, field)?;
    Ok(draft.finish())
}

fn common_flags<V: Value>(fields: &BlockFields<V>, kind: BlockKind, name: V) -> u32 {
    let known = known_keys(kind);
    let mut flags = cache_flags(fields.given(block::CACHE_CONTROL));
    if known != u64::MAX && fields.beyond(known) {
        flags |= flag::UNKNOWN_KEYS;
    }
    if fields.get(block::CACHE_REFERENCE).is_some() || name.is("cache_edits") {
        flags |= flag::CACHE_EDIT;
    }
    flags
}

pub(super) fn cache_flags<V: Value>(control: Option<V>) -> u32 {
    let Some(control) = control else { return 0 };
    if !control.is_map() {
        return flag::CACHE_BAD;
    }
    let (mut kind, mut ttl, mut others) = (None, None, false);
    let visited = control.each_member(|key, value| {
        if equals(key, b"type") {
            kind = Some(value);
        } else if equals(key, b"ttl") {
            ttl = Some(value);
        } else {
            others = true;
        }
    });
    if others || visited.is_err() || !kind.is_some_and(|kind| kind.is("ephemeral")) {
        return flag::CACHE_BAD;
    }
    match ttl {
        None => flag::CACHE_5M,
        Some(ttl) if ttl.is("5m") => flag::CACHE_5M,
        Some(ttl) if ttl.is("1h") => flag::CACHE_1H,
        Some(_) => flag::CACHE_BAD,
    }
}

fn read_kind<V: Value>(
    draft: &mut Draft<'_>,
    value: V,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    match draft.digest.kind {
        BlockKind::Text => read_text(draft, fields, field),
        BlockKind::ToolUse => read_tool_use(draft, fields, field),
        BlockKind::ToolResult => read_tool_result(draft, fields, field),
        BlockKind::Thinking => read_thinking(draft, fields, field),
        BlockKind::RedactedThinking => read_redacted(draft, fields, field),
        BlockKind::Image => {
            read_image(draft, fields);
            Ok(())
        }
        BlockKind::Document => {
            read_document(draft, fields);
            Ok(())
        }
        _ => {
            read_as_json(draft, fields);
            draft.meter.json(value, field)
        }
    }
}

/// Flags and names of the kinds that are counted as their JSON.
fn read_as_json<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    match draft.digest.kind {
        BlockKind::ServerToolUse => read_server_tool_use(draft, fields),
        BlockKind::ServerToolResult => read_server_tool_result(draft, fields),
        BlockKind::SearchResult => read_search(draft, fields),
        BlockKind::Compaction => draft.digest.flags |= compaction_flags(fields),
        BlockKind::ToolChange => read_tool_change(draft, fields),
        BlockKind::Unknown => draft.set_name(fields.get(block::TYPE), ""),
        _ => {}
    }
}

fn read_text<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    draft.count_text(fields.get(block::TEXT), Path::Key(&field, "text"))?;
    if fields.get(block::CITATIONS).is_some_and(is_filled) {
        draft.digest.flags |= flag::HAS_CITATIONS;
    }
    Ok(())
}

pub(super) fn is_filled<V: Value>(value: V) -> bool {
    value.is_list() && value.size() > 0
}

fn not_an_object<V: Value>(input: Option<V>) -> u32 {
    if input.is_some_and(Value::is_map) {
        0
    } else {
        flag::INPUT_NOT_OBJECT
    }
}

fn read_tool_use<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    draft.set_id(fields.get(block::ID));
    draft.set_name(fields.get(block::NAME), "");
    draft
        .meter
        .either(fields.get(block::NAME), Path::Key(&field, "name"))?;
    let input = fields.get(block::INPUT);
    draft.digest.flags |= not_an_object(input);
    input.map_or(Ok(()), |input| {
        draft.meter.json(input, Path::Key(&field, "input"))
    })
}

fn read_server_tool_use<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    draft.set_id(fields.get(block::ID));
    let mcp = fields
        .get(block::TYPE)
        .is_some_and(|name| name.is("mcp_tool_use"));
    draft.set_name(fields.get(block::NAME), if mcp { "mcp:" } else { "" });
    draft.digest.flags |= not_an_object(fields.get(block::INPUT));
}

fn read_server_tool_result<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    draft.set_id(fields.get(block::TOOL_USE_ID));
    draft.set_name(fields.get(block::TYPE), "");
    if fields.yes(block::IS_ERROR) {
        draft.digest.flags |= flag::IS_ERROR;
    }
}

fn read_thinking<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    draft.count_text(fields.get(block::THINKING), Path::Key(&field, "thinking"))?;
    if let Some(signature) = fields.text(block::SIGNATURE) {
        let chars = signature.with_text(|text| text.char_len() as u64);
        if chars > 0 {
            draft.digest.flags |= flag::HAS_SIGNATURE;
        }
        draft.meter.hidden(chars);
    }
    Ok(())
}

fn read_redacted<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    let Some(data) = fields.text(block::DATA) else {
        return draft
            .meter
            .either(fields.get(block::DATA), Path::Key(&field, "data"));
    };
    if data.with_text(|text| text.char_len() > 0) {
        draft.digest.flags |= flag::HAS_SIGNATURE;
    }
    data.with_text(|text| draft.meter.encrypted(text));
    Ok(())
}

fn read_image<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    let image = sources::image(fields);
    draft.meter.image(image.width, image.height);
    draft.digest.flags |= image.flags;
    draft.digest.aux = image.width.min(0xFFFF) << 16 | image.height.min(0xFFFF);
}

fn read_document<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    if enabled(fields) {
        draft.digest.flags |= flag::CITATIONS_ON;
    }
    draft.meter.document(&sources::document(fields));
}

/// Of a search result: citations switched on or off, those in its texts, texts that say nothing.
pub(super) fn read_search<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    let digest = &mut draft.digest;
    digest.flags |= if enabled(fields) {
        flag::CITATIONS_ON
    } else {
        flag::CITATIONS_OFF
    };
    let Some(content) = fields.get(block::CONTENT) else {
        return;
    };
    content.each_item(|item| {
        if !item.is_map() {
            return;
        }
        if item.get("citations").is_some_and(is_filled) {
            digest.flags |= flag::HAS_CITATIONS;
        }
        let text = item.get("text").filter(|text| text.is_text());
        if text.is_some_and(|text| text.with_glimpse(is_blank)) {
            digest.more |= NESTED_BLANK;
        }
    });
}

fn enabled<V: Value>(fields: &BlockFields<V>) -> bool {
    let citations = fields.get(block::CITATIONS).filter(|value| value.is_map());
    let switch = citations.and_then(|citations| citations.get("enabled"));
    switch.is_some_and(|value| value.kind() == Kind::True)
}

fn compaction_flags<V: Value>(fields: &BlockFields<V>) -> u32 {
    let flags = match fields.given(block::CONTENT) {
        None => flag::NULL_CONTENT,
        Some(content) if content.is_text() => content.with_text(text_flags) & flag::EMPTY_TEXT,
        Some(_) => 0,
    };
    flags
        | fields
            .text(block::SIGNATURE)
            .map_or(0, |_| flag::HAS_SIGNATURE)
}

fn read_tool_change<V: Value>(draft: &mut Draft<'_>, fields: &BlockFields<V>) {
    let tool = fields.get(block::TOOL).filter(|tool| tool.is_map());
    let definition = tool
        .and_then(|tool| tool.get("definition"))
        .filter(|definition| definition.is_map());
    let own = definition.or(tool).and_then(|body| body.get("name"));
    let names = [own, fields.get(block::NAME), fields.get(block::TOOL_NAME)];
    draft.set_name(names.into_iter().flatten().find(|name| name.is_text()), "");
    let addition = fields
        .get(block::TYPE)
        .is_some_and(|name| name.is("tool_addition"));
    let schema = tool.and_then(|tool| tool.get("input_schema"));
    let kind = |body: Option<V>, name| {
        body.and_then(|body| body.get("type"))
            .is_some_and(|given| given.is(name))
    };
    let of_server = kind(tool, "mcp_tool_reference")
        || kind(tool, "mcp_toolset_reference")
        || kind(definition, "mcp_toolset");
    draft.digest.aux = match (addition, definition.or(schema).is_some()) {
        _ if of_server => 4,
        (true, true) => 3,
        (true, false) => 1,
        (false, _) => 2,
    };
}
