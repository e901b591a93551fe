//! Results of client tools: a text, or a list of blocks.

use super::blocks::{BlockFields, cache_flags, is_filled, read_search};
use super::draft::Draft;
use super::keys::{Fields, block};
use super::kinds::{kind_of, known_keys, own_type};
use super::path::Path;
use super::sources;
use crate::digest::{BlockKind, block_flag as flag, block_more};
use crate::error::Error;
use crate::view::{Value, equals, is_blank, starts_with, with_utf8};

/// A text inside a block that says nothing.
pub(super) const NESTED_BLANK: u16 = block_more::NESTED_BLANK as u16;

/// What a cleared result says.
pub(crate) const CLEARED_TEXT: &str = "[Old tool result content cleared]";
/// How a result begins that became one line.
pub(crate) const COMPACTED_START: &str = "[Compacted:";
/// How a result begins that lies in the offload store.
pub(crate) const OFFLOADED_START: &str = "<persisted-output>";

pub(super) fn read_tool_result<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    draft.set_id(fields.get(block::TOOL_USE_ID));
    if fields.yes(block::IS_ERROR) {
        draft.digest.flags |= flag::IS_ERROR;
    }
    read_result_content(
        draft,
        fields.get(block::CONTENT),
        Path::Key(&field, "content"),
    )
}

/// The content of a tool result: text, or a list of blocks.
pub(super) fn read_result_content<V: Value>(
    draft: &mut Draft<'_>,
    content: Option<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    let given = content.filter(|content| !content.is_null());
    let Some(list) = given.filter(|content| content.is_list()) else {
        if given.is_some_and(|content| !content.is_text()) {
            draft.digest.flags |= flag::BAD_NESTED;
        }
        draft.meter.either(given, field)?;
        draft.digest.flags |= result_flags(given);
        return Ok(());
    };
    let (mut fault, mut index) = (None, 0);
    list.each_item(|item| {
        if fault.is_none() {
            fault = read_nested(draft, item, Path::Item(&field, index)).err();
            draft.meter.end_part();
        }
        index += 1;
    });
    if let Some(error) = fault {
        return Err(error);
    }
    if let Some(only) = list.only_item()
        && nested_kind(only) == Some(BlockKind::Text)
    {
        let text = only.get("text").filter(|text| !text.is_null());
        draft.digest.flags |= result_flags(text);
    }
    Ok(())
}

/// What a tool result's whole text says of it.
fn result_flags<V: Value>(content: Option<V>) -> u32 {
    let Some(content) = content.filter(|content| content.is_text()) else {
        return 0;
    };
    content.with_glimpse(|text| {
        if equals(text, CLEARED_TEXT.as_bytes()) || starts_with(text, COMPACTED_START.as_bytes()) {
            flag::CLEARED
        } else if starts_with(text, OFFLOADED_START.as_bytes()) {
            flag::OFFLOADED
        } else {
            0
        }
    })
}

fn nested_kind<V: Value>(item: V) -> Option<BlockKind> {
    let name = if item.is_map() {
        item.get("type")
    } else {
        None
    };
    let name = name.filter(|name| name.is_text())?;
    Some(name.with_text(|text| with_utf8(text, kind_of)))
}

/// Counts a block inside a result.
fn read_nested<V: Value>(draft: &mut Draft<'_>, item: V, field: Path<'_>) -> Result<(), Error> {
    let mut fields = Fields::EMPTY;
    block::fill(&mut fields, item);
    let name = fields.text(block::TYPE);
    let kind = name.map_or(BlockKind::Unknown, |name| {
        name.with_text(|text| with_utf8(text, kind_of))
    });
    if item.is_map() {
        count_marker(draft, cache_flags(fields.given(block::CACHE_CONTROL)));
        let checked = own_type(kind).is_some() || kind == BlockKind::SearchResult;
        if checked && fields.beyond(known_keys(kind)) {
            draft.digest.flags |= flag::UNKNOWN_KEYS;
        }
    }
    match kind {
        BlockKind::Text => return read_nested_text(draft, &fields, field),
        BlockKind::Image => {
            draft.digest.flags |= flag::NESTED_MEDIA;
            draft.digest.aux += u32::from(draft.digest.aux & 0xFFFF < 0xFFFF);
            let image = sources::image(&fields);
            draft.meter.image(image.width, image.height);
            draft.digest.flags |= image.flags;
        }
        BlockKind::Document => {
            draft.digest.flags |= flag::NESTED_MEDIA;
            draft.meter.document(&sources::document(&fields));
        }
        _ => {
            if kind == BlockKind::SearchResult {
                read_search(draft, &fields);
            } else if !name
                .is_some_and(|name| name.is("tool_reference") || name.is("browser_state"))
            {
                draft.digest.flags |= flag::BAD_NESTED;
            }
            draft.meter.json(item, field)?;
        }
    }
    Ok(())
}

/// Counts a cache marker inside a result in `aux`, up to 255 of each TTL.
fn count_marker(draft: &mut Draft<'_>, flags: u32) {
    if flags == 0 {
        return;
    }
    let bad = flags & flag::CACHE_BAD;
    draft.digest.flags |= flag::NESTED_CACHE | bad;
    let shift = if flags & flag::CACHE_1H != 0 { 24 } else { 16 };
    if bad == 0 && draft.digest.aux >> shift & 0xFF < 0xFF {
        draft.digest.aux += 1 << shift;
    }
}

fn read_nested_text<V: Value>(
    draft: &mut Draft<'_>,
    fields: &BlockFields<V>,
    field: Path<'_>,
) -> Result<(), Error> {
    let text = fields.get(block::TEXT);
    draft.meter.either(text, Path::Key(&field, "text"))?;
    if fields.get(block::CITATIONS).is_some_and(is_filled) {
        draft.digest.flags |= flag::HAS_CITATIONS;
    }
    let text = text.filter(|text| text.is_text());
    let blank = text.is_none_or(|text| text.with_glimpse(is_blank));
    draft.digest.more |= u16::from(blank) * NESTED_BLANK;
    Ok(())
}
