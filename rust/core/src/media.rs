//! Which messages hold images or documents.

use crate::digest::BlockKind;
use crate::read::kind_of;
use crate::view::{Value, with_utf8};

/// Whether an item is a user or tool message with an image or document, also inside a tool result.
///
/// Items that are no messages are passed over: this only looks, it does not judge.
///
/// ```
/// use ullage_core::json::Json;
/// use ullage_core::media::holds_media;
///
/// let image = br#"{"role": "user", "content": [{"type": "image", "source": {}}]}"#;
/// assert!(holds_media(Json(image)));
/// assert!(!holds_media(Json(br#"{"role": "user", "content": "an image"}"#)));
/// ```
pub fn holds_media<V: Value>(item: V) -> bool {
    if !item.is_map() {
        return false;
    }
    let message = if item.get("role").is_some() {
        Some(item)
    } else {
        item.get("message")
    };
    let Some(message) = message.filter(|message| message.is_map()) else {
        return false;
    };
    let speaks = |role: V| role.is("user") || role.is("tool") || role.is("function");
    message.get("role").is_some_and(speaks) && in_content(message.get("content"), false)
}

fn in_content<V: Value>(content: Option<V>, nested: bool) -> bool {
    let mut found = false;
    if let Some(list) = content.filter(|content| content.is_list()) {
        list.each_item(|block| found = found || is_media(block, nested));
    }
    found
}

fn is_media<V: Value>(block: V, nested: bool) -> bool {
    let name = if block.is_map() {
        block.get("type")
    } else {
        None
    };
    let Some(name) = name.filter(|name| name.is_text()) else {
        return false;
    };
    match name.with_text(|text| with_utf8(text, kind_of)) {
        BlockKind::Image | BlockKind::Document => true,
        BlockKind::ToolResult => !nested && in_content(block.get("content"), true),
        _ => false,
    }
}
